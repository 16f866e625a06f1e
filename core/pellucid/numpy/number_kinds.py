"""Classification of elements, one by one: NaN, infinite, close to others; and the parts of complex ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid._machine.base import ArrayLike, dtypes
from pellucid._machine.primitives import arithmetic, conversion, logical, transcendental
from pellucid._machine.primitives.conversion import bitcast_convert_type
from pellucid._machine.primitives.families import scalar
from pellucid._machine.primitives.movement import broadcast_in_dim
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array

from .compiled import alias, numpy_function
from .elementwise import add, check_real, less_equal, multiply, rad2deg
from .promotion import (
    aval_of,
    convert,
    number_type,
    promote_arguments,
    promote_dtypes_inexact,
    refuse_out,
)


@numpy_function
def isnan(x: ArrayLike, /) -> Array:
    """Whether `x` is NaN.

    Result: bools of the shape of `x`; of complex numbers, whether either part is NaN.
    Raises: ArgumentTypeError for lists and other values that aren't arrays.

    >>> isnan(np.array([np.nan, np.inf, 1.0]))
    Array([ True, False, False], dtype=bool)
    """
    aval_of("isnan", x)
    return logical.ne(x, x)


@numpy_function
def isfinite(x: ArrayLike, /) -> Array:
    """Whether `x` is neither infinite nor NaN.

    Result: bools of the shape of `x`; of complex numbers, whether both parts are finite.
    Raises: ArgumentTypeError for lists and other values that aren't arrays.

    >>> isfinite(np.array([np.nan, np.inf, 1.0]))
    Array([False, False,  True], dtype=bool)
    """
    aval = aval_of("isfinite", x)
    if not dtypes.is_inexact(aval.dtype):
        return broadcast_in_dim(np.True_, aval.shape, ())
    if aval.dtype.kind == "c":
        return logical.bitwise_and(
            logical.is_finite(conversion.real(x)), logical.is_finite(conversion.imag(x))
        )
    return logical.is_finite(x)


@numpy_function
def isinf(x: ArrayLike, /) -> Array:
    """Whether `x` is infinite.

    Result: bools of the shape of `x`; of complex numbers, whether either part is infinite.
    Raises: ArgumentTypeError for lists and other values that aren't arrays.

    >>> isinf(np.array([np.nan, -np.inf, 1.0]))
    Array([False,  True, False], dtype=bool)
    """
    aval = aval_of("isinf", x)
    if not dtypes.is_inexact(aval.dtype):
        return broadcast_in_dim(np.False_, aval.shape, ())
    if aval.dtype.kind == "c":
        return logical.bitwise_or(isinf(conversion.real(x)), isinf(conversion.imag(x)))
    return logical.eq(arithmetic.abs(x), scalar(np.inf, aval.dtype))


@numpy_function
def isposinf(x: ArrayLike, /, out: None = None) -> Array:
    """Whether `x` is positive infinity.

    Result: bools of the shape of `x`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ArgumentValueError for complex numbers,
    UnsupportedError for `out`.

    >>> isposinf(np.array([np.inf, -np.inf, 1.0]))
    Array([ True, False, False], dtype=bool)
    """
    return _equals("isposinf", x, np.inf, out)


@numpy_function
def isneginf(x: ArrayLike, /, out: None = None) -> Array:
    """Whether `x` is negative infinity.

    Result: bools of the shape of `x`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ArgumentValueError for complex numbers,
    UnsupportedError for `out`.

    >>> isneginf(np.array([np.inf, -np.inf, 1.0]))
    Array([False,  True, False], dtype=bool)
    """
    return _equals("isneginf", x, -np.inf, out)


def _equals(name: str, x: ArrayLike, infinity: float, out: None) -> Any:
    refuse_out(name, out)
    aval = aval_of(name, x)
    check_real(name, x)
    if not dtypes.is_inexact(aval.dtype):
        return broadcast_in_dim(np.False_, aval.shape, ())
    return logical.eq(x, scalar(infinity, aval.dtype))


@numpy_function
def signbit(x: ArrayLike, /) -> Array:
    """Whether the sign bit of `x` is set, also for -0.0 and NaN.

    Result: bools of the shape of `x`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ArgumentValueError for complex numbers,
    DtypeError for random keys.

    >>> signbit(np.array([-0.0, 0.0, -3.0]))
    Array([ True, False,  True], dtype=bool)
    """
    aval = number_type("signbit", x)
    check_real("signbit", x)
    if not dtypes.is_inexact(aval.dtype):
        return logical.lt(x, scalar(0, aval.dtype))
    bits = np.dtype(f"int{aval.dtype.itemsize * 8}")
    return logical.lt(bitcast_convert_type(convert(x, aval, aval.dtype), bits), scalar(0, bits))


@numpy_function(static="equal_nan")
def isclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: ArrayLike = 1e-05,
    atol: ArrayLike = 1e-08,
    equal_nan: bool = False,
) -> Array:
    """Whether `|a - b| <= atol + rtol |b|`, or both are the same infinity (or NaN, if `equal_nan`).

    Result: bools of the shape that `a`, `b` and the tolerances broadcast to. Bools and random keys are close if equal.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, DtypeError for random keys beside numbers,
    ShapeError for shapes that don't broadcast.

    >>> isclose(np.array([1.0, 2.0]), np.array([1.0 + 1e-6, 2.1]))
    Array([ True, False], dtype=bool)
    """
    a, b = promote_arguments("isclose", a, b)
    dtype = type_of(a).dtype
    if dtype == np.bool_ or isinstance(dtype, dtypes.ExtendedDType):
        return logical.eq(a, b)
    if not dtypes.is_inexact(dtype):
        a, b = promote_dtypes_inexact("isclose", a, b)
    distance = arithmetic.abs(arithmetic.sub(a, b))
    size = arithmetic.abs(b)
    bound = add(atol, multiply(rtol, size))
    close = logical.bitwise_and(less_equal(distance, bound), isfinite(b))
    close = logical.bitwise_or(close, logical.eq(a, b))
    return (
        logical.bitwise_or(close, logical.bitwise_and(isnan(a), isnan(b))) if equal_nan else close
    )


# Complex numbers --------------------------------------------------------------------------------------


@numpy_function
def real(val: ArrayLike, /) -> Any:
    """Real part of `val`.

    Result: shape of `val`; dtype of the parts of complex numbers, else `val` itself.
    Raises: ArgumentTypeError for lists and other values that aren't arrays.

    >>> jnp.real(np.array([1 + 2j, 3]))
    Array([1., 3.], dtype=float32)
    """
    return conversion.real(val) if aval_of("real", val).dtype.kind == "c" else val


@numpy_function
def imag(val: ArrayLike, /) -> Array:
    """Imaginary part of `val`; zero for real numbers.

    Result: shape of `val`; dtype of the parts of complex numbers, else that of `val`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, DtypeError for random keys.

    >>> jnp.imag(np.array([1 + 2j, 3]))
    Array([2., 0.], dtype=float32)
    """
    aval = number_type("imag", val)
    if aval.dtype.kind == "c":
        return conversion.imag(val)
    zeros = broadcast_in_dim(scalar(0, aval.dtype), aval.shape, ())
    return convert(zeros, type_of(zeros), aval.dtype, aval.weak_type)


@numpy_function
def conjugate(x: ArrayLike, /) -> Any:
    """Complex conjugate of `x`.

    Result: shape and dtype of `x`; real numbers stay as they are.
    Raises: ArgumentTypeError for lists and other values that aren't arrays.

    >>> conjugate(np.array([1 + 2j, 3]))
    Array([1.-2.j, 3.-0.j], dtype=complex64)
    """
    return conversion.conj(x) if aval_of("conjugate", x).dtype.kind == "c" else x


conj = alias(conjugate, "conj")


@numpy_function(static="deg")
def angle(z: ArrayLike, deg: bool = False) -> Array:
    """Angle of the complex number `z`, in radians (or degrees, if `deg`).

    Result: shape of `z`; dtype of its parts, the default floating dtype for integers and bools.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, DtypeError for random keys.

    >>> angle(1j, deg=True)
    Array(90., dtype=float32, weak_type=True)
    """
    aval = aval_of("angle", z)
    if not dtypes.is_inexact(aval.dtype) or (aval.ndim == 0 and aval.dtype.kind != "c"):
        z = convert(z, aval, dtypes.default_float_dtype())
    re, im = real(z), imag(z)
    radians = transcendental.atan2(im, re)
    return rad2deg(radians) if deg else radians


__all__ = [
    "angle", "conj", "conjugate", "imag", "isclose", "isfinite", "isinf", "isnan", "isneginf", "isposinf",
    "real", "signbit",
]  # fmt: skip
