"""Formulas of several primitives, guarded where the plain one overflows or divides by zero: hypot, logaddexp, sinc."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pellucid._machine.base import ArrayLike, DtypeError
from pellucid._machine.primitives import arithmetic, conversion, logical, transcendental
from pellucid._machine.primitives.families import constant_like
from pellucid._machine.primitives.formulas import Term, cos, polynomial, select, sin, square
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array

from .compiled import numpy_function
from .elementwise import check_real, is_complex, select_cases
from .number_kinds import signbit
from .partials import removable, with_partials
from .promotion import convert, promote_arguments_inexact, promote_dtypes_inexact, refuse_out


@numpy_function
def hypot(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Length of the vector (`x`, `y`), without overflow where the result has none.

    Result: shape that `x` and `y` broadcast to; floating dtype that they promote to, float32 for integers (float64 for
    64-bit ones).
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ArgumentValueError for complex numbers,
    DtypeError for random keys, ShapeError for shapes that don't broadcast.

    >>> hypot(3.0, 4.0)
    Array(5., dtype=float32, weak_type=True)
    """
    sides = x, y
    x, y = promote_arguments_inexact("hypot", x, y)
    check_real("hypot", x, y)
    x, y = arithmetic.abs(x), arithmetic.abs(y)
    infinite = logical.bitwise_or(
        logical.eq(x, constant_like(x, np.inf)), logical.eq(y, constant_like(y, np.inf))
    )
    large = arithmetic.max(x, y)
    zero, one = constant_like(large, 0), constant_like(large, 1)
    is_zero = logical.eq(large, zero)
    # The result doesn't depend on the scale, whose derivatives would have a kink where both sides are equal.
    unit = conversion.stop_gradient(select_cases(is_zero, one, large))
    squares = [arithmetic.square(arithmetic.div(side, unit)) for side in (x, y)]
    total = select_cases(is_zero, one, arithmetic.add(*squares))
    length = arithmetic.mul(unit, arithmetic.sqrt(total))
    length = select_cases(
        infinite, constant_like(large, np.inf), select_cases(is_zero, large, length)
    )
    return _weak_if_all_are(length, *sides)


def _weak_if_all_are(x: ArrayLike, *operands: ArrayLike) -> Any:
    """`x`, weakly typed only if all `operands` are, whatever the dtype they promote to."""
    aval = type_of(x)
    weak_type = aval.weak_type and all(type_of(o).weak_type for o in operands)
    return convert(x, aval, aval.dtype, weak_type)


@numpy_function
def logaddexp(x1: ArrayLike, x2: ArrayLike, /, *, out: None = None, where: None = None) -> Array:
    """`log(exp(x1) + exp(x2))`, without overflow where the result has none.

    Result: shape that `x1` and `x2` broadcast to; floating or complex dtype that they promote to.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, DtypeError for random keys, ShapeError for
    shapes that don't broadcast, UnsupportedError for `out` and `where`.

    >>> logaddexp(1000.0, 1000.0)
    Array(1000.6932, dtype=float32, weak_type=True)
    """
    refuse_out("logaddexp", out, where)
    result = _log_of_sum("logaddexp", x1, x2, transcendental.exp, 1.0)
    return _weak_if_all_are(result, x1, x2) if is_complex(result) else result


@numpy_function
def logaddexp2(x1: ArrayLike, x2: ArrayLike, /, *, out: None = None, where: None = None) -> Array:
    """`log2(2**x1 + 2**x2)`, without overflow where the result has none.

    Result: shape that `x1` and `x2` broadcast to; floating or complex dtype that they promote to.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, DtypeError for random keys, ShapeError for
    shapes that don't broadcast, UnsupportedError for `out` and `where`.

    >>> logaddexp2(3.0, 3.0)
    Array(4., dtype=float32, weak_type=True)
    """
    refuse_out("logaddexp2", out, where)
    result = _log_of_sum("logaddexp2", x1, x2, transcendental.exp2, 1 / np.log(2.0))
    return _weak_if_all_are(result, x1, x2)


def _log_of_sum(
    name: str, x1: ArrayLike, x2: ArrayLike, exp: Callable[[Any], Any], unit: float
) -> Any:
    """log(exp(x1) + exp(x2)) to the base of `exp`; `unit` is the logarithm of e to that base."""
    x1, x2 = promote_arguments_inexact(name, x1, x2)
    total, delta = arithmetic.add(x1, x2), arithmetic.sub(x1, x2)
    has_parts = is_complex(total)
    # One mask selects both operands, so that all derivatives are right where the operands are equal.
    is_first = logical.eq(arithmetic.max(x1, x2), x1)
    large, small = select_cases(is_first, x1, x2), select_cases(is_first, x2, x1)
    below = arithmetic.sub(small, large)
    term = transcendental.log1p(exp(below))
    term = term if unit == 1 else arithmetic.mul(term, constant_like(term, unit))
    result = arithmetic.add(large, term)
    if has_parts:
        imag = _wrap_to_interval(conversion.imag(result), np.pi * unit)
        return conversion.complex(conversion.real(result), imag)
    return select_cases(logical.ne(delta, delta), total, result)


def _wrap_to_interval(x: ArrayLike, bound: float) -> Any:
    """`x` moved by a multiple of `2 bound` into [-bound, bound]."""
    half, whole, zero = (constant_like(x, v) for v in (bound, 2 * bound, 0))
    rest = arithmetic.rem(arithmetic.add(x, half), whole)
    rest = select_cases(logical.lt(rest, zero), arithmetic.add(rest, whole), rest)
    return arithmetic.sub(rest, half)


@numpy_function
def copysign(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Magnitude of `x1` with the sign of `x2`.

    Result: shape that `x1` and `x2` broadcast to; floating dtype that they promote to.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, DtypeError for complex numbers and random
    keys, ShapeError for shapes that don't broadcast.

    >>> copysign(np.array([1.0, 2.0]), -0.0)
    Array([-1., -2.], dtype=float32)
    """
    x1, x2 = promote_arguments_inexact("copysign", x1, x2)
    check_real("copysign", x1, x2, error=DtypeError)
    magnitude = arithmetic.abs(x1)
    return select_cases(signbit(x2), arithmetic.neg(magnitude), magnitude)


@numpy_function
def heaviside(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """0 where `x1` is negative, 1 where it is positive, `x2` where it is zero.

    Result: shape that `x1` and `x2` broadcast to; floating dtype that they promote to. NaN stays NaN.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, DtypeError for complex numbers and random
    keys, ShapeError for shapes that don't broadcast.

    >>> heaviside(np.array([-2.0, 0.0, 2.0]), 0.5)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    originals = x1, x2
    x1, x2 = promote_arguments_inexact("heaviside", x1, x2)
    zero = constant_like(x1, 0)
    step = select_cases(
        logical.lt(x1, zero), zero, select_cases(logical.gt(x1, zero), constant_like(x1, 1), x2)
    )
    return _weak_if_all_are(select_cases(logical.ne(x1, x1), x1, step), *originals)


@numpy_function
def sinc(x: ArrayLike, /) -> Array:
    """`sin(pi x) / (pi x)`, and 1 at 0.

    Result: shape of `x`; dtype of `x`, float32 for integers and bools (float64 for 64-bit ones).
    Raises: ArgumentTypeError for lists and other values that aren't arrays, DtypeError for random keys.

    >>> sinc(np.array([0.0, 0.5]))
    Array([1.        , 0.63661975], dtype=float32)
    """
    [x] = promote_dtypes_inexact("sinc", x)
    return _sinc(Term(arithmetic.mul(constant_like(x, np.pi), x))).value


_SINC_DERIVATIVE = [(-1) ** k * 2 * k / math.factorial(2 * k + 1) for k in range(1, 17)]
"""Coefficients of (sin(x) / x)' / x in powers of x²; as many as derivatives up to the eighth need below 2."""


def _sinc_derivative(x: Term) -> Term:
    quotient = lambda x: (cos(x) - sin(x) / x) / x
    return removable(x, quotient, 2.0, lambda x: x * polynomial(square(x), _SINC_DERIVATIVE))


@with_partials(lambda y, x: _sinc_derivative(x))
def _sinc(x: Term) -> Term:
    """sin(x) / x."""
    is_zero = x == 0
    safe = select(is_zero, 1.0, x)
    return select(is_zero, 1.0, sin(safe) / safe)


__all__ = ["copysign", "heaviside", "hypot", "logaddexp", "logaddexp2", "sinc"]
