"""Long short-term memory networks, under the names of `jax.experimental.rnn`.

The reference calls cuDNN, on NVIDIA GPUs only; here they are a scan, on all platforms. Inputs are [batch, time, input], states
[layer and direction, batch, hidden], and the weights one vector in cuDNN's order: of each layer, and of each of its
directions, the matrices of inputs and of states, then, in the same order, both biases. Gates come as input, forget, cell,
output.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import pellucid.numpy as jnp
from pellucid import lax, nn, random
from pellucid._machine.base import public_functions
from pellucid._machine.base.errors import ArgumentValueError, UnsupportedError
from pellucid._machine.base.functional import strict_zip
from pellucid._machine.base.typing import Shape
from pellucid._machine.higher_order.staged_functions import give_stages

_GATES = 4


class _Part(NamedTuple):
    """One array among the weights: its kind, its layer and direction counted together, and its shape."""

    kind: str
    cell: int
    shape: Shape


def _weight_arrays(
    input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Iterator[_Part]:
    """The arrays that the weights hold, in their order."""
    directions = 2 if bidirectional else 1
    gates = _GATES * hidden_size
    for cell in range(num_layers * directions):
        width = input_size if cell < directions else hidden_size * directions
        yield _Part("W_ih", cell, (gates, width))
        yield _Part("W_hh", cell, (gates, hidden_size))
    for cell in range(num_layers * directions):
        yield _Part("b_ih", cell, (gates,))
        yield _Part("b_hh", cell, (gates,))


def get_num_params_in_lstm(
    input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> int:
    """The number of weights.

    >>> get_num_params_in_lstm(3, 4, 1, bidirectional=False)
    144
    """
    parts = _weight_arrays(input_size, hidden_size, num_layers, bidirectional)
    return sum(math.prod(part.shape) for part in parts)


def init_lstm_weight(
    rng: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Any:
    """Weights that are uniformly distributed within 1 / sqrt(hidden_size) around 0.

    >>> init_lstm_weight(pl.random.key(0), 3, 4, 1, bidirectional=False).shape
    (144,)
    """
    n = get_num_params_in_lstm(input_size, hidden_size, num_layers, bidirectional)
    bound = math.sqrt(1 / hidden_size)
    return random.uniform(rng, (n,), "float32", -bound, bound)


def unpack_lstm_weights(
    weights: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> tuple[dict[int, Any], dict[int, Any], dict[int, Any], dict[int, Any]]:
    """Matrices of inputs, matrices of states, and both biases, each by layer and direction counted together.

    Raises: ArgumentValueError for another number of weights than there are.

    >>> matrices, *_ = unpack_lstm_weights(np.zeros(144), 3, 4, 1, bidirectional=False)
    >>> matrices[0].shape
    (16, 3)
    """
    n = get_num_params_in_lstm(input_size, hidden_size, num_layers, bidirectional)
    if jnp.shape(weights) != (n,):
        raise ArgumentValueError(
            "these aren't the weights of such a network.",
            got=f"shape {jnp.shape(weights)}, expected {(n,)}",
            do="Make them with `init_lstm_weight` of the same sizes.",
        )
    arrays: dict[str, dict[int, Any]] = {"W_ih": {}, "W_hh": {}, "b_ih": {}, "b_hh": {}}
    start = 0
    for part in _weight_arrays(input_size, hidden_size, num_layers, bidirectional):
        size = math.prod(part.shape)
        arrays[part.kind][part.cell] = jnp.reshape(weights[start : start + size], part.shape)
        start += size
    return arrays["W_ih"], arrays["W_hh"], arrays["b_ih"], arrays["b_hh"]


def swap_lstm_gates(
    weights: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Any:
    """The weights with the last two gates exchanged, as AMD's library orders them.

    >>> weights = np.arange(144)
    >>> swapped = swap_lstm_gates(weights, 3, 4, 1, bidirectional=False)
    >>> bool((swap_lstm_gates(swapped, 3, 4, 1, bidirectional=False) == weights).all())
    True
    """
    parts = list(_weight_arrays(input_size, hidden_size, num_layers, bidirectional))
    ends = [0]
    for part in parts:
        ends.append(ends[-1] + math.prod(part.shape))
    pieces = []
    for start, end in strict_zip(ends[:-1], ends[1:]):
        gates = jnp.split(jnp.asarray(weights[start:end]), _GATES)
        pieces += [gates[0], gates[1], gates[3], gates[2]]
    return jnp.concatenate(pieces)


def _one_direction(
    x: Any, state: tuple[Any, Any], weights: tuple[Any, Any, Any, Any], lengths: Any, precision: Any
) -> tuple[Any, tuple[Any, Any]]:
    """Outputs [time, batch, hidden] and last state of one cell along `x` [time, batch, input]."""
    matrix, recurrent, bias, recurrent_bias = weights
    from_inputs = jnp.matmul(x, matrix.T, precision=precision) + bias + recurrent_bias

    def step(carry: tuple[Any, Any], inputs: tuple[Any, Any]) -> tuple[Any, Any]:
        hidden, cell = carry
        t, gates = inputs
        gates = gates + jnp.matmul(hidden, recurrent.T, precision=precision)
        i, f, g, o = jnp.split(gates, _GATES, axis=-1)
        new_cell = nn.sigmoid(f) * cell + nn.sigmoid(i) * jnp.tanh(g)
        new_hidden = nn.sigmoid(o) * jnp.tanh(new_cell)
        inside = (t < lengths)[:, None]
        carry = jnp.where(inside, new_hidden, hidden), jnp.where(inside, new_cell, cell)
        return carry, jnp.where(inside, new_hidden, 0)

    last, outputs = lax.scan(step, state, (jnp.arange(x.shape[0]), from_inputs))
    return outputs, last


def _reverse(x: Any, lengths: Any) -> Any:
    """`x` [time, batch, …] with each sequence of the batch reversed within its own length."""
    times = jnp.arange(x.shape[0])[:, None]
    index = jnp.where(times < lengths, lengths - 1 - times, times)
    return jnp.take_along_axis(x, index[:, :, None], axis=0)


def lstm_ref(
    x: Any, h_0: Any, c_0: Any, W_ih: dict[int, Any], W_hh: dict[int, Any], b_ih: dict[int, Any],
    b_hh: dict[int, Any], seq_lengths: Any, input_size: int, hidden_size: int, num_layers: int, dropout: float,
    bidirectional: bool, precision: lax.PrecisionLike = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """`lstm` of weights that are unpacked.

    >>> weights = unpack_lstm_weights(np.zeros(144, np.float32), 3, 4, 1, bidirectional=False)
    >>> x, state = np.ones((2, 5, 3), np.float32), np.zeros((1, 2, 4), np.float32)
    >>> lstm_ref(x, state, state, *weights, np.array([5, 3]), 3, 4, 1, 0.0, False)[0].shape
    (2, 5, 4)
    """
    if dropout != 0:
        raise UnsupportedError(
            "lstm has no dropout between layers.",
            got=f"dropout={dropout}",
            do="Apply one layer at a time, and drop elements of its outputs.",
        )
    directions = 2 if bidirectional else 1
    expected = {
        "x": (*jnp.shape(x)[:2], input_size),
        "h_0": (num_layers * directions, jnp.shape(x)[0], hidden_size),
        "c_0": (num_layers * directions, jnp.shape(x)[0], hidden_size),
        "seq_lengths": jnp.shape(x)[:1],
    }
    wrong = [
        f"{name}: shape {jnp.shape(value)}, expected {shape}"
        for (name, shape), value in strict_zip(expected.items(), (x, h_0, c_0, seq_lengths))
        if jnp.shape(value) != shape
    ]
    if wrong:
        raise ArgumentValueError("lstm got arrays whose shapes don't match its sizes.", got=wrong)
    lengths = jnp.asarray(seq_lengths)
    inputs = jnp.swapaxes(jnp.asarray(x), 0, 1)
    last: list[tuple[Any, Any]] = []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            cell = layer * directions + direction
            weights = (W_ih[cell], W_hh[cell], b_ih[cell], b_hh[cell])
            sequence = _reverse(inputs, lengths) if direction else inputs
            y, state = _one_direction(sequence, (h_0[cell], c_0[cell]), weights, lengths, precision)
            outputs.append(_reverse(y, lengths) if direction else y)
            last.append(state)
        inputs = jnp.concatenate(outputs, axis=-1)
    hidden, cells = (jnp.stack(states) for states in strict_zip(*last))
    return jnp.swapaxes(inputs, 0, 1), hidden, cells


def lstm(
    x: Any, h_0: Any, c_0: Any, weights: Any, seq_lengths: Any, input_size: int, hidden_size: int, num_layers: int,
    dropout: float, bidirectional: bool, precision: Any = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """(outputs [batch, time, hidden of all directions], last hidden states, last cells) of a stack of LSTMs.

    Sequences end after `seq_lengths` [batch] steps: later outputs are 0, and states are those at the end. `dropout` must
    be 0. It has derivatives, and batches.

    Raises: UnsupportedError for a dropout; ArgumentValueError for arrays of other shapes than the sizes say.

    >>> weights = init_lstm_weight(pl.random.key(0), 3, 4, 2, bidirectional=True)
    >>> x, state = np.ones((2, 5, 3), np.float32), np.zeros((4, 2, 4), np.float32)
    >>> y, h, c = lstm(x, state, state, weights, np.array([5, 3]), 3, 4, 2, 0.0, bidirectional=True)
    >>> y.shape, h.shape
    ((2, 5, 8), (4, 2, 4))
    """
    sizes = (input_size, hidden_size, num_layers)
    parts = unpack_lstm_weights(weights, *sizes, bidirectional)
    return lstm_ref(x, h_0, c_0, *parts, seq_lengths, *sizes, dropout, bidirectional, precision)


__all__ = [
    "get_num_params_in_lstm", "init_lstm_weight", "lstm", "lstm_ref", "swap_lstm_gates", "unpack_lstm_weights",
]  # fmt: skip

public_functions(__all__, globals())
give_stages({"lstm_ref": lstm_ref})
