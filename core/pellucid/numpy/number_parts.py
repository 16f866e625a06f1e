"""Parts of numbers: mantissa and exponent, whole and fractional part, common divisors, packed bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    ArrayLike,
    dtypes,
    public_functions,
)
from pellucid._machine.higher_order.loops import while_loop
from pellucid._machine.primitives.conversion import bitcast_convert_type, stop_gradient
from pellucid._machine.primitives.movement import canonical_axis
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array

from .compiled import numpy_function
from .creation import asarray
from .elementwise import (
    absolute,
    bitwise_and,
    left_shift,
    maximum,
    minimum,
    power,
    remainder,
    right_shift,
    trunc,
)
from .manipulation import broadcast_arrays, moveaxis, ravel, reshape, where
from .number_kinds import isfinite, isnan, signbit
from .padding import pad
from .promotion import (
    aval_of,
    check_promotion,
    convert,
    known_int,
    number_type,
    promote_dtypes,
    promote_dtypes_inexact,
    promote_dtypes_numeric,
    promote_shapes,
    refuse_out,
)
from .reductions import any, sum


@numpy_function
def fmax(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The greater of two elements; of a number and NaN, the number.

    Result: shape that both broadcast to; dtype that they promote to.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, DtypeError for random keys, ShapeError for
    shapes that don't broadcast.

    >>> fmax(jnp.array([1.0, jnp.nan]), 0.0)
    Array([1., 0.], dtype=float32)
    """
    return _without_nan("fmax", x1, x2, maximum)


@numpy_function
def fmin(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The lesser of two elements; of a number and NaN, the number.

    Result: shape that both broadcast to; dtype that they promote to.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, DtypeError for random keys, ShapeError for
    shapes that don't broadcast.

    >>> fmin(jnp.array([1.0, jnp.nan]), 0.0)
    Array([0., 0.], dtype=float32)
    """
    return _without_nan("fmin", x1, x2, minimum)


def _without_nan(name: str, x1: ArrayLike, x2: ArrayLike, choose: Callable[..., Any]) -> Any:
    check_promotion(name, x1, x2)
    x, y = promote_dtypes(name, x1, x2)
    if not dtypes.is_inexact(type_of(x).dtype):
        return choose(x, y)
    return where(isnan(x), y, where(isnan(y), x, choose(x, y)))


def _bits_of(x: ArrayLike) -> tuple[Any, int, int]:
    """(bits of floating `x` as unsigned integers, number of mantissa bits, bias of the exponent)."""
    dtype = type_of(x).dtype
    info = dtypes.finfo(dtype)
    unsigned = np.dtype(f"uint{8 * dtype.itemsize}")
    bias = (1 << (8 * dtype.itemsize - 2 - info.nmant)) - 1
    return bitcast_convert_type(x, unsigned), info.nmant, bias


@numpy_function
def frexp(x: ArrayLike, /) -> tuple[Any, Any]:
    """(mantissa, exponent) of real `x` with `x == mantissa * 2**exponent`, the mantissa between 0.5 and 1, or 0.

    Result: both of the shape of `x`; the mantissa of its floating dtype, float32 for integers (float64 for 64-bit
    ones), the exponent int32.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for complex numbers, DtypeError for
    random keys.

    >>> frexp(jnp.array(6.0))
    (Array(0.75, dtype=float32), Array(3, dtype=int32))
    """
    if aval_of("frexp", x).dtype.kind == "c":
        raise ArgumentTypeError("jnp.frexp needs real numbers.", got=type_of(x).text())
    [x] = promote_dtypes_inexact("frexp", x)
    dtype = type_of(x).dtype
    x = convert(x, type_of(x), dtype)
    _, n_mantissa, bias = _bits_of(x)
    # Subnormal numbers are scaled to normal ones first.
    is_small = absolute(x) < dtypes.finfo(dtype).tiny
    scaled = where(is_small, x * np.asarray(2.0**n_mantissa, dtype)[()], x)
    bits, _, _ = _bits_of(scaled)
    kind = type_of(bits).dtype
    mask = np.asarray(((1 << (8 * kind.itemsize - 1 - n_mantissa)) - 1) << n_mantissa, kind)[()]
    exponent = right_shift(bitwise_and(bits, mask), np.asarray(n_mantissa, kind)[()])
    exponent = exponent.astype(np.int32) - (bias - 1) - where(is_small, n_mantissa, 0)
    half = np.asarray((bias - 1) << n_mantissa, kind)[()]
    mantissa = bitcast_convert_type(bitwise_and(bits, ~mask) | half, dtype)
    is_plain = isfinite(x) & (x != 0)
    # Bits have no derivative: the mantissa gets that of `x` times a power of two.
    linear = ldexp(where(is_plain, x, 1), -exponent)
    mantissa = mantissa + (linear - stop_gradient(linear))
    return where(is_plain, mantissa, x), where(is_plain, exponent, 0)


@numpy_function
def ldexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`x1 * 2**x2`, with whole `x2`.

    Result: shape that both broadcast to; floating dtype of `x1`, float32 for integers (float64 for 64-bit ones).
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ArgumentValueError for a floating `x2`, or
    complex numbers, DtypeError for random keys, ShapeError for shapes that don't broadcast.

    >>> ldexp(jnp.array(1.5), 2)
    Array(6., dtype=float32)
    """
    first, second = number_type("ldexp", x1), number_type("ldexp", x2, 1)
    if dtypes.is_inexact(second.dtype) or first.dtype.kind == "c":
        raise ArgumentValueError(
            "jnp.ldexp needs real numbers and whole exponents.",
            got=f"{first.text()}, {second.text()}",
        )
    dtype = dtypes.to_inexact_dtype(first.dtype)
    x, exponent = promote_shapes("ldexp", convert(x1, first, dtype), asarray(x2).astype(np.int32))
    info = dtypes.finfo(dtype)
    # Three factors, each a power of two that the dtype can hold, so that nothing overflows on the way.
    span = int(info.maxexp) - 2
    for _ in range(3):
        step = exponent.clip(-span, span)
        x, exponent = x * power(np.asarray(2, dtype)[()], step), exponent - step
    return x


def modf(x: ArrayLike, /, out: None = None) -> tuple[Any, Any]:
    """(fractional part, whole part) of real `x`, both with its sign.

    Result: both of the shape of `x` and of its floating dtype, float32 for integers (float64 for 64-bit ones).
    Raises: ArgumentTypeError for lists and other values that aren't arrays, DtypeError for complex numbers and random
    keys, UnsupportedError for `out`.

    >>> modf(jnp.array([-2.25]))
    (Array([-0.25], dtype=float32), Array([-2.], dtype=float32))
    """
    refuse_out("modf", out)
    return _modf(x)


@numpy_function
def _modf(x: ArrayLike) -> tuple[Any, Any]:
    [x] = promote_dtypes_inexact("modf", x)
    whole = trunc(x)
    return x - whole, whole


@numpy_function
def spacing(x: ArrayLike, /) -> Array:
    """Distance from `x` to the next floating number away from zero, with the sign of `x`; NaN of infinities.

    Result: shape of `x`; its floating dtype, float32 for integers (float64 for 64-bit ones).
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ArgumentValueError for complex numbers,
    DtypeError for random keys.

    >>> spacing(jnp.array(1.0))
    Array(1.1920929e-07, dtype=float32)
    """
    if aval_of("spacing", x).dtype.kind == "c":
        raise ArgumentValueError("jnp.spacing needs real numbers.", got=type_of(x).text())
    [x] = promote_dtypes_inexact("spacing", x)
    dtype = type_of(x).dtype
    x = convert(x, type_of(x), dtype)
    _, n_mantissa, bias = _bits_of(x)
    _, exponent = frexp(x)
    # The spacing is assembled from bits: arithmetic may flush numbers this small to zero.
    place = exponent - 1 - n_mantissa
    kind = np.dtype(f"uint{8 * dtype.itemsize}")
    normal = left_shift((place + bias).clip(1).astype(kind), np.asarray(n_mantissa, kind)[()])
    shift = (place + bias - 1 + n_mantissa).clip(0, n_mantissa).astype(kind)
    subnormal = left_shift(np.asarray(1, kind)[()], shift)
    bits = where(x == 0, np.asarray(1, kind)[()], where(place + bias >= 1, normal, subnormal))
    size = bitcast_convert_type(bits, dtype)
    signed = where(signbit(x) & (x != 0), -size, size)
    return where(isfinite(x), signed, np.asarray(np.nan, dtype)[()])


def _check_integers(name: str, *operands: ArrayLike) -> None:
    for i, x in enumerate(operands):
        dtype = aval_of(name, x, i).dtype
        if dtype not in dtypes.KINDS["integral"] and dtype != np.bool_:
            raise ArgumentValueError(f"jnp.{name} needs integers.", got=type_of(x).text())


@numpy_function
def gcd(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Greatest common divisor, by Euclid's algorithm; of 0 and 0 it is 0.

    Result: shape that both broadcast to; dtype that they promote to, int32 for bools. It isn't negative.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ArgumentValueError for elements that aren't
    integers or bools, ShapeError for shapes that don't broadcast.

    >>> gcd(jnp.array([12, 0]), jnp.array([18, 5]))
    Array([6, 5], dtype=int32)
    """
    _check_integers("gcd", x1, x2)
    x, y = broadcast_arrays(*promote_dtypes_numeric("gcd", x1, x2))
    x, y = absolute(x), absolute(y)

    def step(pair: tuple[Array, Array]) -> Any:
        a, b = pair
        return where(b != 0, b, a), where(b != 0, remainder(a, b), 0 * b)

    return while_loop(lambda pair: any(pair[1] != 0), step, (x, y))[0]


@numpy_function
def lcm(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Least common multiple; 0 beside a 0.

    Result: shape that both broadcast to; dtype that they promote to, int32 for bools. It isn't negative.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ArgumentValueError for elements that aren't
    integers or bools, ShapeError for shapes that don't broadcast.

    >>> lcm(jnp.array([4, 0]), jnp.array([6, 5]))
    Array([12,  0], dtype=int32)
    """
    _check_integers("lcm", x1, x2)
    x, y = promote_dtypes_numeric("lcm", x1, x2)
    x, y = absolute(x), absolute(y)
    divisor = gcd(x, y)
    return where(divisor == 0, divisor, x * (y // where(divisor == 0, 1, divisor)))


# Bits ---------------------------------------------------------------------------------------------


def _check_order(name: str, bitorder: str) -> None:
    if bitorder not in ("big", "little"):
        raise ArgumentValueError(
            f'jnp.{name} has the orders "big" and "little".', got=f"got {bitorder!r}"
        )


def _shifts(bitorder: str) -> np.ndarray:
    return np.arange(8, dtype=np.uint8)[:: -1 if bitorder == "big" else 1]


def packbits(a: ArrayLike, axis: int | None = None, bitorder: str = "big") -> Array:
    """Groups of eight elements along `axis` (of `a` raveled, if it is None) as the bits of uint8 numbers.

    An element that isn't 0 is a bit; missing ones at the end are 0. `bitorder`: "big" has the first bit highest.
    Result: shape of `a` with an eighth of its size, rounded up, along `axis`; dtype uint8.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for floating elements, AxisError for
    axes out of bounds, ArgumentValueError for an unknown `bitorder`.

    >>> packbits(jnp.array([1, 0, 1]))
    Array([160], dtype=uint8)
    """
    aval = aval_of("packbits", a)
    if aval.dtype not in dtypes.KINDS["integral"] and aval.dtype != np.bool_:
        raise ArgumentTypeError("jnp.packbits needs integers or bools.", got=aval.text())
    _check_order("packbits", bitorder)
    return _packbits(a, None if axis is None else canonical_axis(axis, aval.ndim), bitorder)


@numpy_function(static=("axis", "bitorder"))
def _packbits(a: ArrayLike, axis: int | None, bitorder: str) -> Any:
    x = ravel(a) if axis is None else moveaxis(a, axis, -1)
    bits = (x != 0).astype(np.uint8)
    count = (bits.shape[-1] + 7) // 8
    missing = 8 * count - bits.shape[-1]
    bits = pad(bits, [(0, 0)] * (bits.ndim - 1) + [(0, missing)])
    groups = reshape(bits, (*bits.shape[:-1], count, 8))
    packed = sum(left_shift(groups, _shifts(bitorder)), axis=-1, dtype=np.uint8)
    return packed if axis is None else moveaxis(packed, -1, axis)


def unpackbits(
    a: ArrayLike, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Array:
    """The bits of uint8 numbers along `axis` (of `a` raveled, if it is None), as uint8 zeros and ones.

    `count`: how many bits, more of them being 0; a negative number leaves out so many at the end.
    Raises: ArgumentTypeError for another dtype.

    >>> unpackbits(jnp.array([160], dtype="uint8"), count=3)
    Array([1, 0, 1], dtype=uint8)
    """
    aval = aval_of("unpackbits", a)
    if aval.dtype != np.uint8:
        raise ArgumentTypeError("jnp.unpackbits needs elements of dtype uint8.", got=aval.text())
    _check_order("unpackbits", bitorder)
    chosen = None if axis is None else canonical_axis(axis, aval.ndim)
    return _unpackbits(
        a, chosen, None if count is None else known_int("unpackbits", "count", count), bitorder
    )


@numpy_function(static=("axis", "count", "bitorder"))
def _unpackbits(a: ArrayLike, axis: int | None, count: int | None, bitorder: str) -> Any:
    x = ravel(a) if axis is None else moveaxis(a, axis, -1)
    bits = bitwise_and(right_shift(x[..., None], _shifts(bitorder)), np.uint8(1))
    bits = reshape(bits, (*x.shape[:-1], x.shape[-1] * 8))
    if count is not None:
        missing = max(count - bits.shape[-1], 0)
        bits = pad(bits, [(0, 0)] * (bits.ndim - 1) + [(0, missing)])[..., :count]
    return bits if axis is None else moveaxis(bits, -1, axis)


__all__ = [
    "fmax", "fmin", "frexp", "gcd", "lcm", "ldexp", "modf", "packbits", "spacing", "unpackbits",
]  # fmt: skip

public_functions(__all__, globals())
