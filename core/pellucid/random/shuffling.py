"""Random choices and orders: gumbel, categorical, choice, permutation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pellucid import numpy as jnp
from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    ArrayLike,
    DTypeLike,
    Ints,
    ShapeError,
    Symbol,
    UnsupportedError,
    as_value,
    canonical_size,
    config,
    dtypes,
    is_static,
    public_functions,
)
from pellucid._machine.primitives.arithmetic import log, neg
from pellucid._machine.primitives.families import FLOATING, INTEGER, constant_like, kind_of
from pellucid._machine.primitives.movement import canonical_axis
from pellucid._machine.primitives.sorting import sort_key_val, top_k
from pellucid._machine.primitives.transcendental import log1p
from pellucid._machine.sharding import PartitionSpec, Sharding
from pellucid._machine.tracing import as_operand, is_array_like, type_of
from pellucid._machine.xla.arrays import Array

from .keys import random_bits, split_keys
from .sampling import (
    Shape,
    check_parameters,
    checked_dtype,
    laid_out,
    sampler,
    shape_of_result,
    single_key,
)
from .uniform import INNER_MODES, _uniform, default_float, fine_numbers, randint, smallest_normal

# gumbel -----------------------------------------------------------------------------------------------


def _checked_mode(caller: str, mode: str | None) -> str:
    if mode is None:
        return "high" if config.high_dynamic_range_gumbel.value else "low"
    if mode not in INNER_MODES:
        raise ArgumentValueError(
            f'the mode of {caller} must be "high" or "low".', got=f"mode: {mode!r}"
        )
    return mode


@sampler("shape", "dtype", "mode")
def _gumbel(key: Array, shape: Shape, dtype: np.dtype, mode: str) -> Array:
    if mode == "low":
        numbers = _uniform(key, shape, dtype, smallest_normal(dtype), np.ones((), dtype)[()])
        return neg(log(neg(log(numbers))))
    coarse, fine = fine_numbers(key, shape, dtype)
    # Below a half, floats are denser than the coarse steps.
    step = constant_like(fine, dtypes.finfo(dtype).eps)
    finer = step * fine + coarse + constant_like(fine, smallest_normal(dtype))
    numbers = jnp.where(coarse >= constant_like(coarse, 0.5), coarse, finer)
    return neg(log(neg(log1p(neg(numbers)))))


def gumbel(
    key: Array,
    shape: int | Ints = (),
    dtype: DTypeLike | None = None,
    mode: str | None = None,
    *,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:
    """Numbers of the standard Gumbel distribution, with density exp(-(x + exp(-x))).

    In mode "high" large numbers, of low probability, are as likely as they should be; that takes twice as many bits.
    The default, "low", is chosen by the option `high_dynamic_range_gumbel`.

    The result has the given `shape` and `dtype`, by default the default floating one.
    Raises: ArgumentTypeError for anything that isn't a key, ShapeError for a batch of keys and for a `shape` of anything but
    integers from 0, ArgumentValueError for a dtype that is not floating-point, and for another mode.

    >>> pl.random.gumbel(pl.random.key(0))
    Array(2.9233725, dtype=float32)
    """
    typed = single_key("gumbel", key)
    dtype = checked_dtype("gumbel", dtype, FLOATING, default_float())
    shape = shape_of_result("gumbel", shape)
    return laid_out(out_sharding, _gumbel, typed, shape, dtype, _checked_mode("gumbel", mode))


# categorical ------------------------------------------------------------------------------------------


@sampler("axis", "prefix", "mode")
def _with_replacement(key: Array, logits: Array, axis: int, prefix: Shape, mode: str) -> Array:
    aval = type_of(logits)
    noise = _gumbel(key, (*prefix, *aval.shape), aval.dtype, mode)
    return jnp.argmax(noise + logits, axis=len(prefix) + axis)


@sampler("axis", "prefix", "mode")
def _without_replacement(key: Array, logits: Array, axis: int, prefix: Shape, mode: str) -> Array:
    aval = type_of(logits)
    noisy = logits + _gumbel(key, aval.shape, aval.dtype, mode)
    chosen = top_k(jnp.moveaxis(noisy, axis, -1), math.prod(prefix))[1]
    batch = aval.shape[:axis] + aval.shape[axis + 1 :]
    return jnp.reshape(jnp.moveaxis(chosen, -1, 0), (*prefix, *batch))


def categorical(
    key: Array, logits: Any, axis: int = -1, shape: int | Ints | None = None, replace: bool = True, mode: str | None = None, *,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:  # fmt: skip
    """Positions along `axis`, chosen with probabilities proportional to the exponentials of `logits`.

    `shape` ends as that of `logits` without `axis`, which broadcasts to it; the leading axes number draws. Without `replace` these draws are
    different. Source: the Gumbel-max trick; `mode` as of `gumbel`.

    Raises: ShapeError for a shape that doesn't fit; ArgumentValueError for more different draws than there are.

    >>> pl.random.categorical(pl.random.key(0), np.log([0.2, 0.8]), shape=(4,))
    Array([1, 1, 1, 1], dtype=int32)
    """
    typed = single_key("categorical", key)
    [logits] = check_parameters("categorical", logits=logits)
    logits = jnp.asarray(logits)
    if kind_of(logits.dtype) not in FLOATING:
        logits = logits.astype(default_float())
    axis = canonical_axis(axis, logits.ndim)
    batch = logits.shape[:axis] + logits.shape[axis + 1 :]
    sizes = batch if shape is None else shape_of_result("categorical", shape)
    n_draws = len(sizes) - len(batch)
    ends = sizes[n_draws:] if n_draws >= 0 else None
    if ends is None or any(n not in (1, size) for n, size in zip(batch, ends, strict=True)):
        raise ShapeError(
            "categorical: the shape asked for must end as that of the logits without their axis, or as they broadcast to.",
            got=[f"shape: {sizes}", f"logits: {type_of(logits).text()} without axis {axis}"],
        )
    prefix = sizes[:n_draws]
    logits = jnp.broadcast_to(logits, (*ends[:axis], logits.shape[axis], *ends[axis:]))
    mode = _checked_mode("categorical", mode)
    if not replace and math.prod(prefix) > logits.shape[axis]:
        raise ArgumentValueError(
            "categorical can't draw more different positions than there are.",
            got=f"{math.prod(prefix)} draws of {logits.shape[axis]}",
            do="Draw with `replace=True`.",
        )
    function = _with_replacement if replace else _without_replacement
    return laid_out(out_sharding, function, typed, logits, axis, prefix, mode)


# permutation ------------------------------------------------------------------------------------------


@sampler("axis")
def _shuffle(key: Array, x: Array, axis: int) -> Array:
    """`x` shuffled along `axis`: sorted by random bits, in several rounds if it is large.

    Equal bits would leave elements in order, so several rounds are made: with n³ ≤ 2³² in one of them all orders
    are equally likely up to one in n.
    """
    aval = type_of(x)
    is_known = is_static((aval.size,))
    rounds = _rounds(aval.size) if is_known else len(_SIZES_BY_ROUNDS)
    for i in range(rounds):
        key, subkey = split_keys(key)
        shuffled = sort_key_val(random_bits(subkey, 32, aval.shape), x, axis)[1]
        x = (
            shuffled
            if is_known
            else jnp.where(as_value(aval.size) > _SIZES_BY_ROUNDS[i], shuffled, x)
        )
    return x


_SIZES_BY_ROUNDS = (1, 1625, 2642245)
"""The largest sizes for which no round, one and two are enough."""


def _rounds(size: int) -> int:
    return math.ceil(3 * math.log(max(1, size)) / math.log(2**32 - 1))


@sampler("axis")
def _permute(key: Array, x: Array, axis: int) -> Array:
    order = _shuffle(key, jnp.arange(type_of(x).shape[axis]), 0)
    return take_parts(x, order, axis)


def take_parts(x: Any, positions: Any, axis: int) -> Array:
    """The parts of `x` at `positions` along `axis`."""
    return x[(*[slice(None)] * axis, positions)]


def _things(caller: str, name: str, x: Any) -> Array:
    """The argument `x`, an integer or an array, as an array; an integer stays a number."""
    x = as_operand(x)
    if not is_array_like(x):
        raise ArgumentTypeError(
            f"{caller} needs an array, or an integer.", got=f"{name}: {type(x).__name__}"
        )
    aval = type_of(x)
    if aval.shape != ():
        return jnp.asarray(x)
    if kind_of(aval.dtype) not in INTEGER:
        raise ArgumentTypeError(
            f"{caller} needs an integer, or an array with at least one dimension.",
            got=f"{name}: {aval.text()}",
        )
    return canonical_size(x)


def permutation(
    key: Array,
    x: ArrayLike,
    axis: int = 0,
    independent: bool = False,
    *,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:
    """The array `x` in a random order along `axis`, or, for an integer, the numbers below it.

    With `independent`, each vector along `axis` gets an order of its own.

    Raises: AxisError for an axis that `x` lacks.

    >>> pl.random.permutation(pl.random.key(0), 5)
    Array([0, 1, 4, 3, 2], dtype=int32)
    """
    typed = single_key("permutation", key)
    x = _things("permutation", "x", x)
    if isinstance(x, int):
        canonical_axis(axis, 1)
        return laid_out(out_sharding, _shuffle, typed, jnp.arange(x), 0)
    axis = canonical_axis(axis, x.ndim)
    is_sorted_itself = independent or x.ndim == 1
    if kind_of(x.dtype) == "key" and is_sorted_itself:
        if x.ndim > 1:
            raise UnsupportedError(
                "permutation can't shuffle vectors of keys independently.", got=type_of(x).text()
            )
        is_sorted_itself = False
    function = _shuffle if is_sorted_itself else _permute
    return laid_out(out_sharding, function, typed, x, axis)


# choice -----------------------------------------------------------------------------------------------


@sampler("shape")
def _weighted_choice(key: Array, p: Array, shape: Shape) -> Array:
    total = jnp.cumsum(p)
    dtype = type_of(total).dtype
    numbers = total[-1] * (1 - _uniform(key, shape, dtype, 0.0, 1.0))
    return jnp.searchsorted(total, numbers)


@sampler("number", "mode")
def _weighted_different(key: Array, p: Array, number: int, mode: str) -> Array:
    noise = _gumbel(key, type_of(p).shape, type_of(p).dtype, mode)
    return top_k(noise + log(p), number)[1]


def choice(
    key: Array, a: ArrayLike, shape: int | Ints = (), replace: bool = True, p: Any = None, axis: int = 0, mode: str | None = None
) -> Array:  # fmt: skip
    """`shape` parts along `axis` of the array `a`, or, for an integer, of the numbers below it.

    `p` are their probabilities, a vector, by default equal. Without `replace` no part is chosen twice, `mode` is then
    that of `gumbel`.

    Raises: ArgumentValueError where there is nothing to choose from, or too little without `replace`; ShapeError
    for probabilities that don't fit.

    >>> pl.random.choice(pl.random.key(0), 5, (3,), replace=False)
    Array([0, 1, 4], dtype=int32)
    """
    typed = single_key("choice", key)
    shape = shape_of_result("choice", shape)
    mode = _checked_mode("choice", mode)
    a = _things("choice", "a", a)
    is_count = isinstance(a, (int, Symbol))
    axis = canonical_axis(axis, 1 if is_count else a.ndim)
    size = a if is_count else a.shape[axis]
    n_draws = math.prod(shape)
    if n_draws < 1:
        return jnp.zeros(shape, jnp.arange(0).dtype if is_count else a.dtype)
    if size <= 0:
        raise ArgumentValueError("choice has nothing to choose from.", got=f"a of size {size}")
    if not replace and n_draws > size:
        raise ArgumentValueError(
            "choice can't take more different parts than there are.",
            got=f"{n_draws} of {size}",
            do="Choose with `replace=True`.",
        )
    if p is not None:
        [p] = check_parameters("choice", p=p)
        p = jnp.asarray(p)
        if kind_of(p.dtype) not in FLOATING:
            p = p.astype(default_float())
        if p.shape != (size,):
            raise ShapeError(
                "choice needs one probability for each part.",
                got=[f"p: {type_of(p).text()}", f"parts: {size}"],
            )
    if p is None and not replace:
        permuted = permutation(typed, a, axis)
        result = permuted[(*[slice(None)] * axis, slice(n_draws))]
    else:
        if p is None:
            positions = randint(typed, shape, 0, size)
        elif replace:
            positions = _weighted_choice(typed, p, shape)
        else:
            positions = _weighted_different(typed, p, n_draws, mode)
        result = positions if is_count else take_parts(a, positions, axis)
    if is_count:
        return jnp.reshape(result, shape)
    return jnp.reshape(result, a.shape[:axis] + shape + a.shape[axis + 1 :])


__all__ = ["categorical", "choice", "gumbel", "permutation"]

public_functions(__all__, globals())
