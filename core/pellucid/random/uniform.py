"""Uniform numbers and integers, and distributions that are a formula of one uniform number: normal, exponential, …"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pellucid import numpy as jnp
from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    DtypeError,
    DTypeLike,
    Ints,
    dtypes,
    public_functions,
)
from pellucid._machine.primitives.arithmetic import (
    add,
    max as larger,
    min as smaller,
    mul,
    neg,
    nextafter,
    rem,
    sub,
)
from pellucid._machine.primitives.conversion import (
    bitcast_convert_type,
    convert_element_type,
    stop_gradient,
)
from pellucid._machine.primitives.error_functions import erf, erf_inv
from pellucid._machine.primitives.families import (
    COMPLEX,
    FLOATING,
    INTEGER,
    NUMBER,
    constant_like,
    kind_of,
)
from pellucid._machine.primitives.logical import (
    bitwise_and,
    bitwise_or,
    gt,
    le,
    lt,
    shift_right_logical,
)
from pellucid._machine.sharding import PartitionSpec, Sharding
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array

from .generators import unsigned_dtype
from .keys import random_bits, split_keys
from .sampling import (
    Shape,
    check_parameters,
    checked_dtype,
    laid_out,
    sampler,
    shape_of_result,
    single_key,
    to_rank,
)

INNER_MODES = ("high", "low")


def default_float() -> np.dtype[Any]:
    """The default dtype of samples."""
    return dtypes.default_float_dtype()


# uniform ----------------------------------------------------------------------------------------------


def unit_numbers(key: Array, shape: Shape, dtype: np.dtype) -> Array:
    """Uniform numbers in [0, 1) in equal steps: random bits become the mantissa of numbers in [1, 2), from which 1 is
    subtracted.
    """
    width, mantissa = dtypes.itemsize_bits(dtype), dtypes.finfo(dtype).nmant
    n_bits = 8 if mantissa < 8 else width
    words = unsigned_dtype(width)
    drawn = random_bits(key, n_bits, shape)
    if n_bits != width:
        drawn = convert_element_type(drawn, words)
    one = np.ones((), dtype)
    pattern = constant_like(drawn, one.view(words))
    shifted = shift_right_logical(drawn, constant_like(drawn, n_bits - mantissa))
    numbers = bitcast_convert_type(bitwise_or(shifted, pattern), dtype)
    return sub(numbers, constant_like(numbers, 1.0))


@sampler("shape", "dtype")
def _uniform(key: Array, shape: Shape, dtype: np.dtype, minval: Array, maxval: Array) -> Array:
    low = to_rank(convert_element_type(minval, dtype), len(shape))
    high = to_rank(convert_element_type(maxval, dtype), len(shape))
    numbers = unit_numbers(key, shape, dtype)
    return larger(low, add(mul(numbers, sub(high, low)), low))


def uniform(
    key: Array, shape: int | Ints = (), dtype: DTypeLike | None = None, minval: ArrayLike = 0.0, maxval: ArrayLike = 1.0, *,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:  # fmt: skip
    """Floating-point numbers of `shape` between `minval` (included) and `maxval` (excluded, but for rounding).

    Raises: ArgumentValueError for a dtype that isn't floating, ShapeError for bounds that don't broadcast to `shape`.

    >>> pl.random.uniform(pl.random.key(0), (2,))
    Array([0.947667 , 0.9785799], dtype=float32)
    """
    typed = single_key("uniform", key)
    dtype = checked_dtype("uniform", dtype, FLOATING, default_float())
    low, high = check_parameters("uniform", minval=minval, maxval=maxval)
    shape = shape_of_result("uniform", shape, low, high)
    return laid_out(out_sharding, _uniform, typed, shape, dtype, low, high)


def uniform_between(
    key: Array, shape: Shape, dtype: np.dtype, low: ArrayLike = 0.0, high: ArrayLike = 1.0
) -> Array:
    """`uniform` between two numbers, for samplers."""
    return _uniform(key, shape, dtype, low, high)


def smallest_normal(dtype: np.dtype) -> Any:
    """The smallest positive normal number, as a scalar of `dtype`."""
    return np.asarray(dtypes.finfo(dtype).tiny, dtype)[()]


# randint ----------------------------------------------------------------------------------------------


@sampler("shape", "dtype")
def _randint(key: Array, shape: Shape, dtype: np.dtype, minval: Array, maxval: Array) -> Array:
    limits = dtypes.iinfo(dtype)
    n_bits = max(dtypes.itemsize_bits(dtype), 32)
    if dtypes.itemsize_bits(dtype) < 32:
        # 32 bits hold the whole span, also if it ends one beyond the dtype's largest number.
        wide = np.dtype(np.int32)
        bounds = [_clip_to_dtype(x, dtype, more) for x, more in ((minval, 0), (maxval, 1))]
        return convert_element_type(_randint(key, shape, wide, *bounds), dtype)
    words = unsigned_dtype(n_bits)
    # An upper bound beyond the largest number includes that number.
    is_beyond = _is_above(maxval, int(limits.max))
    low = to_rank(_clip_to_dtype(minval, dtype), len(shape))
    high = to_rank(_clip_to_dtype(maxval, dtype), len(shape))
    first, second = split_keys(key)
    upper, lower = random_bits(first, n_bits, shape), random_bits(second, n_bits, shape)
    one = constant_like(upper, 1)
    span = jnp.where(le(high, low), one, convert_element_type(sub(high, low), words))
    span = jnp.where(
        bitwise_and(to_rank(is_beyond, len(shape)), gt(high, low)), add(span, one), span
    )
    # (upper * 2**n_bits + lower) modulo span: with this many bits the bias is negligible.
    half = rem(constant_like(upper, 2 ** (n_bits // 2)), span)
    multiplier = rem(mul(half, half), span)
    remainder = add(mul(rem(upper, span), multiplier), rem(lower, span))
    return add(low, convert_element_type(rem(remainder, span), dtype))


def _is_above(x: Array, limit: int) -> Array:
    """`x > limit`, for a limit that may exceed the dtype of `x`."""
    aval = type_of(x)
    largest = dtypes.iinfo(aval.dtype).max
    return gt(x, constant_like(x, min(limit, int(largest))))


def _clip_to_dtype(x: Array, dtype: np.dtype, more: int = 0) -> Array:
    """Integers `x` clipped to the limits of `dtype` and converted to it; with `more`, the upper limit is that much
    higher, and they aren't converted.
    """
    operand_limits, limits = dtypes.iinfo(type_of(x).dtype), dtypes.iinfo(dtype)
    low, high = (
        max(int(operand_limits.min), int(limits.min)),
        min(int(operand_limits.max), int(limits.max) + more),
    )
    clipped = smaller(constant_like(x, high), larger(constant_like(x, low), x))
    return clipped if more else convert_element_type(clipped, dtype)


def randint(
    key: Array,
    shape: int | Ints,
    minval: ArrayLike,
    maxval: ArrayLike,
    dtype: Any = None,
    *,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:
    """Integers of `shape` between `minval` (included) and `maxval` (excluded), `minval` where there are none.

    A `maxval` beyond the numbers of `dtype` includes its largest one. Floating bounds are cut to integers.

    Raises: DtypeError for a dtype that isn't one of integers.

    >>> pl.random.randint(pl.random.key(0), (3,), 0, 10)
    Array([9, 0, 2], dtype=int32)
    """
    typed = single_key("randint", key)
    if dtype is None:
        dtype = dtypes.default_int_dtype()
    dtype = dtypes.check_user_dtype(dtype, "randint")
    if kind_of(dtype) not in INTEGER:
        raise DtypeError("randint needs an integer dtype.", got=f"dtype: {dtype}")
    bounds = check_parameters("randint", minval=minval, maxval=maxval)
    shape = shape_of_result("randint", shape, *bounds)
    low, high = [
        x if kind_of(type_of(x).dtype) in INTEGER else jnp.asarray(x).astype(dtype) for x in bounds
    ]
    return laid_out(out_sharding, _randint, typed, shape, dtype, low, high)


# normal -----------------------------------------------------------------------------------------------


def normal_numbers(key: Array, shape: Shape, dtype: np.dtype) -> Array:
    """Normal numbers, by the inverse of the distribution function, for samplers."""
    if kind_of(dtype) == "complex":
        part = dtypes.to_floating_dtype(dtype)
        keys = split_keys(key)
        real, imaginary = [
            convert_element_type(normal_numbers(k, shape, part), dtype) for k in keys
        ]
        both = add(real, mul(constant_like(imaginary, 1j), imaginary))
        return both / constant_like(both, np.asarray(math.sqrt(2), part)[()])
    low = np.nextafter(np.asarray(-1, dtype), np.asarray(0, dtype), dtype=dtype)
    numbers = erf_inv(uniform_between(key, shape, dtype, low, np.ones((), dtype)[()]))
    return mul(constant_like(numbers, math.sqrt(2)), numbers)


@sampler("shape", "dtype")
def _normal(key: Array, shape: Shape, dtype: np.dtype) -> Array:
    return normal_numbers(key, shape, dtype)


def normal(
    key: Array,
    shape: int | Ints = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:
    """Normal numbers of `shape` with mean 0 and variance 1; of complex ones each part has variance ½.

    Raises: ArgumentValueError for a dtype that is neither floating nor complex.

    >>> pl.random.normal(pl.random.key(0), (2,))
    Array([1.6226422, 2.0252647], dtype=float32)
    """
    typed = single_key("normal", key)
    dtype = checked_dtype("normal", dtype, FLOATING | COMPLEX, default_float())
    shape = shape_of_result("normal", shape)
    return laid_out(out_sharding, _normal, typed, shape, dtype)


@sampler("shape", "dtype")
def _truncated_normal(
    key: Array, lower: Array, upper: Array, shape: Shape, dtype: np.dtype
) -> Array:
    lower, upper = convert_element_type(lower, dtype), convert_element_type(upper, dtype)
    root = constant_like(lower, math.sqrt(2))
    low, high = erf(lower / root), erf(upper / root)
    numbers = mul(root, erf_inv(_uniform(key, shape, dtype, low, high)))
    # Rounding may return a bound itself, which is excluded.
    infinity = constant_like(numbers, math.inf)
    return jnp.clip(
        numbers,
        nextafter(stop_gradient(lower), infinity),
        nextafter(stop_gradient(upper), neg(infinity)),
    )


def truncated_normal(
    key: Array, lower: ArrayLike, upper: ArrayLike, shape: int | Ints | None = None, dtype: DTypeLike | None = None, *, out_sharding: Sharding | PartitionSpec | None = None
) -> Array:  # fmt: skip
    """Normal numbers between `lower` and `upper`, which broadcast to `shape`.

    The result has the given `shape`, by default that of the parameters, which broadcast to it, and `dtype`, by default
    the default floating one.
    Raises: ArgumentTypeError for anything that isn't a key, ShapeError for a batch of keys, for a `shape` of anything but integers
    from 0 and for parameters that do not fit it, ArgumentValueError for a dtype that is not floating-point,
    ArgumentTypeError for parameters that are lists or strings.

    >>> pl.random.truncated_normal(pl.random.key(0), -1.0, 1.0)
    Array(0.8618594, dtype=float32)
    """
    typed = single_key("truncated_normal", key)
    dtype = checked_dtype("truncated_normal", dtype, FLOATING, default_float())
    lower, upper = check_parameters("truncated_normal", lower=lower, upper=upper)
    shape = shape_of_result("truncated_normal", shape, lower, upper)
    return laid_out(out_sharding, _truncated_normal, typed, lower, upper, shape, dtype)


# bernoulli, rademacher --------------------------------------------------------------------------------


@sampler("shape", "mode")
def _bernoulli(key: Array, p: Array, shape: Shape, mode: str) -> Array:
    dtype = type_of(p).dtype
    if mode == "low":
        return lt(uniform_between(key, shape, dtype), jnp.broadcast_to(p, shape))
    coarse, fine = fine_numbers(key, shape, dtype)
    step = constant_like(fine, dtypes.finfo(dtype).eps)
    return lt(mul(fine, step), sub(jnp.broadcast_to(p, shape), coarse))


def fine_numbers(
    key: Array, shape: Shape, dtype: np.dtype, low: float = 0.0
) -> tuple[Array, Array]:
    """(uniform numbers, uniform numbers for the bits below the last bit of the first)."""
    both = _uniform(key, (2, *shape), dtype, np.asarray(low, dtype)[()], 1.0)
    return both[0], both[1]


def bernoulli(
    key: Array,
    p: ArrayLike = 0.5,
    shape: int | Ints | None = None,
    mode: str = "low",
    *,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:
    """True with probability `p`, which broadcasts to `shape`.

    In mode "low" probabilities are met up to the spacing of numbers below 1; in mode "high", which takes twice as
    many bits, up to their own precision.

    Raises: DtypeError for probabilities that aren't floating.

    >>> pl.random.bernoulli(pl.random.key(0), 0.3, (4,))
    Array([False, False, False, False], dtype=bool)
    """
    if mode not in INNER_MODES:
        raise ArgumentValueError(
            'the mode of bernoulli must be "high" or "low".', got=f"mode: {mode!r}"
        )
    typed = single_key("bernoulli", key)
    [p] = check_parameters("bernoulli", p=p)
    if kind_of(type_of(p).dtype) != "floating":
        raise DtypeError("bernoulli needs floating probabilities.", got=f"p: {type_of(p).text()}")
    if isinstance(p, float):
        p = np.asarray(p, default_float())[()]
    shape = shape_of_result("bernoulli", shape, p)
    return laid_out(out_sharding, _bernoulli, typed, p, shape, mode)


def signs(key: Array, shape: Shape, dtype: np.dtype) -> Array:
    """Random signs, -1 or 1, for samplers."""
    half = np.asarray(0.5, default_float())[()]
    drawn = convert_element_type(_bernoulli(key, half, shape, "low"), dtype)
    return sub(mul(constant_like(drawn, 2), drawn), constant_like(drawn, 1))


def rademacher(
    key: Array,
    shape: int | Ints = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:
    """-1 or 1 with equal probability, by default integers.

    The result has the given `shape` and `dtype`.
    Raises: ArgumentTypeError for anything that isn't a key, ShapeError for a batch of keys and for a `shape` of anything but
    integers from 0, ArgumentValueError for a dtype of no numbers.

    >>> pl.random.rademacher(pl.random.key(0), (4,))
    Array([-1, -1,  1,  1], dtype=int32)
    """
    typed = single_key("rademacher", key)
    dtype = checked_dtype("rademacher", dtype, NUMBER, dtypes.default_int_dtype())
    shape = shape_of_result("rademacher", shape)
    return laid_out(out_sharding, _rademacher, typed, shape, dtype)


@sampler("shape", "dtype")
def _rademacher(key: Array, shape: Shape, dtype: np.dtype) -> Array:
    return signs(key, shape, dtype)


__all__ = ["bernoulli", "normal", "rademacher", "randint", "truncated_normal", "uniform"]

public_functions(__all__, globals())
