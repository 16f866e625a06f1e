"""Programs that a compiler was reported to get wrong give what NumPy gives, with every jaxlib that is supported.

Names say which thread of jax-ml/jax or openxla/xla has a program of the kind; these are our own. What a row needs of lowering is a
row of `lowering/faults.py`, which can be switched off; those of `EXACT` need the option `exact_arithmetic`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp

_rng = np.random.default_rng(0)
LINE = np.stack([np.arange(16_385.0), np.zeros(16_385), np.zeros(16_385)], 1)
LOGITS = np.float32(_rng.standard_normal((4, 6)))
ROWS = _rng.random((2, 100))
Program = tuple[Callable[..., Any], tuple[Any, ...], Any]


def squared_lengths(rows: Any) -> Any:
    return pl.vmap(lambda row: jnp.sum((jnp.eye(3) @ row) ** 2))(rows)


def weights_of(logits: Any) -> Any:
    return pl.nn.softmax(logits / 3 * 1e12, axis=-1)


def own_weights_of(logits: Any) -> Any:
    scaled = logits * 7e11
    powers = jnp.exp(scaled - scaled.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def rolled_in_place(rows: Any) -> Any:
    return rows.at[0].set(jnp.roll(rows[0], 5))


def masked_scores(mask: Any, scores: Any) -> Any:
    shifted = scores + -1e30 * (1.0 - mask)
    return shifted - shifted.max()


def slope_of_means(x: Any, ys: Any) -> Any:
    def value(x: Any, y: Any) -> Any:
        apart = y - x
        return apart @ jnp.array([1.0, 2, 3]) + (apart @ jnp.zeros((3, 3))) @ apart

    return pl.grad(lambda x: pl.vmap(functools.partial(value, x))(ys).mean())(x)


def branches_in_a_loop(xs: Any) -> Any:
    def step(carry: Any, x: Any) -> Any:
        new = pl.lax.cond(carry.sum() > x, lambda c: c * 0.5, lambda c: c + x, carry)
        return new, new.max()

    return pl.lax.scan(step, jnp.ones(3), xs)[1]


def _branches(xs: Any) -> Any:
    carry, out = np.ones(3), []
    for x in xs:
        carry = carry * 0.5 if carry.sum() > x else carry + x
        out.append(carry.max())
    return out


def elements_of_bounds(bounds: Any) -> Any:
    """Integers below 1, by a bound that is read with an index of constants."""
    largest = bounds[jnp.full(20, 1)] - 1
    return pl.random.randint(pl.random.key(1), (20,), jnp.zeros(20, int), largest)


def _one_hot(logits: Any) -> Any:
    return np.eye(logits.shape[-1])[logits.argmax(-1)]


PROGRAMS: dict[str, Program] = {
    "39103, products of rows": (squared_lengths, (LINE,), (LINE**2).sum(1)),
    "39103, in single precision": (squared_lengths, (np.float32(np.tile(LINE, (2, 1))),), np.tile((LINE**2).sum(1), 2)),
    "37234 and 38609, a softmax": (weights_of, (LOGITS,), _one_hot(LOGITS)),
    "2886, a softmax of one's own": (own_weights_of, (LOGITS,), _one_hot(LOGITS)),
    "10129, a roll in place": (rolled_in_place, (ROWS,), np.stack([np.roll(ROWS[0], 5), ROWS[1]])),
    "6566, a negative zero": (masked_scores, (np.float32(1), np.float32([0.7, 0.5])), np.float32([0, -0.2])),
    "13054, a slope of means": (slope_of_means, (np.ones(3), np.ones((10_000, 3))), [-1, -2, -3]),
    "5900, branches in a loop": (branches_in_a_loop, (np.arange(8.0),), _branches(np.arange(8.0))),
    "11979, constants as indices": (elements_of_bounds, (np.array([0, 2]),), np.zeros(20)),
}  # fmt: skip
X = np.float32([3.4e38, 1e-30, 2])
EXACT: dict[str, Program] = {
    "41579, products that cancel": (lambda x, a, b: a * x + b * x, (np.float32([1.1e15, 3.3e20]), np.float32(1 / 3), np.float32(-1 / 3)), [0, 0]),
    "37919, the root of a square": (lambda x: jnp.sqrt(jnp.abs(jnp.square(x))), (X,), [np.inf, 0, 2]),
}  # fmt: skip


@pytest.mark.parametrize("name", [*PROGRAMS, *EXACT])
def test_reported_programs_are_right(name: str) -> None:
    function, operands, expected = (PROGRAMS | EXACT)[name]
    with pl.enable_x64(), pl.exact_arithmetic(name in EXACT):
        found = pl.jit(function)(*operands)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
