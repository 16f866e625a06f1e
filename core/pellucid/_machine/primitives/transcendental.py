"""Exponentials, logarithms, trigonometric and hyperbolic functions, and the gamma function with its derivatives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pellucid._machine.base import ArrayLike, Function, MissingRule
from pellucid._machine.lowering.faults import LOG1P_IN_THE_MIDDLE
from pellucid._machine.tracing import bind1
from pellucid._machine.xla import Array

from .arithmetic import add, div, integer_pow, log, mul, neg, rsqrt, square, sub
from .conversion import complex as complex_from_parts, imag, real
from .families import (
    AccuracyMode,
    AccuracyParams,
    Tolerance,
    accuracy_attributes,
    accurate,
    constant_like,
    full_as,
    kind_of,
    real_transcendental,
    transcendental,
    with_accuracy,
)
from .logical import eq, select

# Exponentials and logarithms ----------------------------------------------------------------------


def exp(x: ArrayLike, *, accuracy: Tolerance | AccuracyMode | None = None) -> Array:
    """Exponential of `x`, element by element.

    Takes floating-point or complex elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings and for another kind of `accuracy`.
    Source: StableHLO specification, `exponential`.

    >>> exp(np.float32(0))
    Array(1., dtype=float32)
    """
    return accurate(exp_p, x, accuracy)


def exp2(x: ArrayLike, *, accuracy: Tolerance | AccuracyMode | None = None) -> Array:
    """2 to the power `x`, element by element.

    Takes floating-point or complex elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings and for another kind of `accuracy`.

    >>> exp2(np.float32(3))
    Array(8., dtype=float32)
    """
    return accurate(exp2_p, x, accuracy)


def expm1(x: ArrayLike, *, accuracy: Tolerance | AccuracyMode | None = None) -> Array:
    """`exp(x) - 1`, element by element, accurate for small `x`.

    Takes floating-point or complex elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings and for another kind of `accuracy`.
    Source: StableHLO specification, `exponential_minus_one`.

    >>> expm1(np.float32(0))
    Array(0., dtype=float32)
    """
    return accurate(expm1_p, x, accuracy)


def log1p(x: ArrayLike, *, accuracy: Tolerance | AccuracyMode | None = None) -> Array:
    """`log(1 + x)`, element by element, accurate for small `x`.

    Takes floating-point or complex elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings and for another kind of `accuracy`.
    Source: StableHLO specification, `log_plus_one`.

    >>> log1p(np.float32(0))
    Array(0., dtype=float32)
    """
    return accurate(log1p_p, x, accuracy)


def logistic(x: ArrayLike, *, accuracy: Tolerance | AccuracyMode | None = None) -> Array:
    """`1 / (1 + exp(-x))`, the logistic function (sigmoid) of `x`, element by element.

    Takes floating-point or complex elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings and for another kind of `accuracy`.

    >>> logistic(np.float32(0))
    Array(0.5, dtype=float32)
    """
    return accurate(logistic_p, x, accuracy)


def _lower_exp2(ctx, operands, params: AccuracyParams):
    [result] = ctx.avals_out
    exponent = ctx.op1("stablehlo.multiply", result, [ctx.full(result, math.log(2)), *operands])
    return ctx.op1("stablehlo.exponential", result, [exponent], accuracy_attributes(ctx, params))


_MIN_OF_LOG1P = -0.25
"""Least argument of the compiler's log1p; down to -0.5, log(1 + x) is off by 1.4 units in the last place."""


def _lower_log1p(ctx, operands, params: AccuracyParams):
    [x], [aval] = operands, ctx.avals_out
    value = with_accuracy("log_plus_one")(ctx, operands, params)
    if aval.dtype != np.float64 or not ctx.has_fault(LOG1P_IN_THE_MIDDLE):
        return value
    attributes = accuracy_attributes(ctx, params)
    total = ctx.op1("stablehlo.add", aval, [x, ctx.full(aval, 1)])
    below = ctx.op1("stablehlo.log", aval, [total], attributes)
    is_below = ctx.compare(x, ctx.full(aval, _MIN_OF_LOG1P), "LT", aval)
    return ctx.op1("stablehlo.select", aval, [is_below, below, value])


def _lower_logistic(ctx, operands, params: AccuracyParams):
    [result] = ctx.avals_out
    one = ctx.full(result, 1)
    power = ctx.op1(
        "stablehlo.exponential", result, [ctx.op1("stablehlo.negate", result, operands)]
    )
    return ctx.op1(
        "stablehlo.divide", result, [one, ctx.op1("stablehlo.add", result, [one, power])]
    )


exp_p = transcendental("exp", with_accuracy("exponential"), lambda t, y, x: mul(t, y))
exp2_p = transcendental(
    "exp2", _lower_exp2, lambda t, y, x: mul(log(constant_like(x, 2)), mul(t, y))
)
expm1_p = transcendental(
    "expm1",
    with_accuracy("exponential_minus_one"),
    lambda t, y, x: mul(t, add(y, constant_like(y, 1))),
)
log1p_p = transcendental("log1p", _lower_log1p, lambda t, y, x: div(t, add(x, constant_like(x, 1))))
logistic_p = transcendental(
    "logistic", _lower_logistic, lambda t, y, x: mul(t, mul(y, sub(constant_like(y, 1), y)))
)


# Trigonometric functions --------------------------------------------------------------------------


def sin(x: ArrayLike, *, accuracy: Tolerance | AccuracyMode | None = None) -> Array:
    """Sine of `x`, an angle in radians, element by element.

    Takes floating-point or complex elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings and for another kind of `accuracy`.
    Source: StableHLO specification, `sine`.

    >>> sin(np.float32(0))
    Array(0., dtype=float32)
    """
    return accurate(sin_p, x, accuracy)


def cos(x: ArrayLike, *, accuracy: Tolerance | AccuracyMode | None = None) -> Array:
    """Cosine of `x`, an angle in radians, element by element.

    Takes floating-point or complex elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings and for another kind of `accuracy`.
    Source: StableHLO specification, `cosine`.

    >>> cos(np.float32(0))
    Array(1., dtype=float32)
    """
    return accurate(cos_p, x, accuracy)


def tan(x: ArrayLike, *, accuracy: Tolerance | AccuracyMode | None = None) -> Array:
    """Tangent of `x`, an angle in radians, element by element.

    Takes floating-point or complex elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings and for another kind of `accuracy`.
    Source: StableHLO specification, `tan`.

    >>> tan(np.float32(0))
    Array(0., dtype=float32)
    """
    return accurate(tan_p, x, accuracy)


def asin(x: ArrayLike) -> Array:
    """The angle in radians whose sine is `x`, element by element; between -π/2 and π/2, NaN if there is none.

    Takes floating-point or complex elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings.

    >>> asin(np.float32(0))
    Array(0., dtype=float32)
    """
    return bind1(asin_p, x)


def acos(x: ArrayLike) -> Array:
    """The angle in radians whose cosine is `x`, element by element; between 0 and π, NaN if there is none.

    Takes floating-point or complex elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings.

    >>> acos(np.float32(1))
    Array(0., dtype=float32)
    """
    return bind1(acos_p, x)


def atan(x: ArrayLike) -> Array:
    """The angle in radians whose tangent is `x`, element by element; between -π/2 and π/2.

    Takes floating-point or complex elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings.

    >>> atan(np.float32(0))
    Array(0., dtype=float32)
    """
    return bind1(atan_p, x)


def atan2(x: ArrayLike, y: ArrayLike) -> Array:
    """The angle in radians of the point at height `x` and distance `y`, element by element; from -π to π.

    Operands and result have one dtype, floating-point or complex. Shapes are equal, up to scalars and dimensions of
    size 1, and broadcast to the shape of the result.
    Raises: DtypeError for other or different dtypes, ShapeError for shapes that do not fit, ArgumentTypeError for lists
    and strings.
    Source: StableHLO specification, `atan2`.

    >>> atan2(np.float32(0), np.float32(1))
    Array(0., dtype=float32)
    """
    return bind1(atan2_p, x, y)


def _circular(name: str, of_complex: Function) -> Function:
    """Lowering of sine or cosine, for complex numbers by their definition `of_complex`."""

    def lower(ctx: Any, operands: Any, params: AccuracyParams) -> Any:
        if kind_of(ctx.avals_out[0].dtype) != "complex":
            return with_accuracy(name)(ctx, operands, params)
        return ctx.from_python(of_complex, operands)[0]

    return lower


def _hyperbolic(y):
    """sinh and cosh of `y` from exp(±y) - 1, which keeps sinh accurate for small `y`."""
    two = constant_like(y, 2)
    up, down = expm1(y), expm1(neg(y))
    return div(sub(up, down), two), div(add(add(up, down), two), two)


def _off_axis(x, part):
    """`part`, replaced by an exact zero on the imaginary axis, where it vanishes even if the other part is infinite."""
    return select(eq(x, constant_like(x, 0)), full_as(x, 0), part)


def _complex_sine(z):
    x, (sinh_y, cosh_y) = real(z), _hyperbolic(imag(z))
    return complex_from_parts(_off_axis(x, mul(sin(x), cosh_y)), mul(cos(x), sinh_y))


def _complex_cosine(z):
    x, (sinh_y, cosh_y) = real(z), _hyperbolic(imag(z))
    return complex_from_parts(mul(cos(x), cosh_y), _off_axis(x, mul(neg(sin(x)), sinh_y)))


def _one_minus_square(x):
    return sub(constant_like(x, 1), square(x))


def _sum_of_squares(x, y):
    return add(square(x), square(y))


sin_p = transcendental("sin", _circular("sine", _complex_sine), lambda t, y, x: mul(t, cos(x)))
cos_p = transcendental(
    "cos", _circular("cosine", _complex_cosine), lambda t, y, x: neg(mul(t, sin(x)))
)
tan_p = transcendental(
    "tan", with_accuracy("tan"), lambda t, y, x: mul(t, add(constant_like(x, 1), square(y)))
)
asin_p = transcendental("asin", "chlo.asin", lambda t, y, x: mul(t, rsqrt(_one_minus_square(x))))
acos_p = transcendental(
    "acos", "chlo.acos", lambda t, y, x: mul(t, neg(rsqrt(_one_minus_square(x))))
)
atan_p = transcendental(
    "atan", "chlo.atan", lambda t, y, x: div(t, add(constant_like(x, 1), square(x)))
)
atan2_p = transcendental(
    "atan2",
    "atan2",
    lambda t, z, x, y: mul(t, div(y, _sum_of_squares(x, y))),
    lambda t, z, x, y: mul(t, div(neg(x), _sum_of_squares(x, y))),
)


# Hyperbolic functions -----------------------------------------------------------------------------


def sinh(x: ArrayLike) -> Array:
    """Hyperbolic sine of `x`, element by element.

    Takes floating-point or complex elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings.

    >>> sinh(np.float32(0))
    Array(0., dtype=float32)
    """
    return bind1(sinh_p, x)


def cosh(x: ArrayLike) -> Array:
    """Hyperbolic cosine of `x`, element by element.

    Takes floating-point or complex elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings.

    >>> cosh(np.float32(0))
    Array(1., dtype=float32)
    """
    return bind1(cosh_p, x)


def tanh(x: ArrayLike, *, accuracy: Tolerance | AccuracyMode | None = None) -> Array:
    """Hyperbolic tangent of `x`, element by element.

    Takes floating-point or complex elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings and for another kind of `accuracy`.
    Source: StableHLO specification, `tanh`.

    >>> tanh(np.float32(0))
    Array(0., dtype=float32)
    """
    return accurate(tanh_p, x, accuracy)


def asinh(x: ArrayLike) -> Array:
    """The number whose hyperbolic sine is `x`, element by element.

    Takes floating-point or complex elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings.
    Source: DLMF, section 4.37.

    >>> asinh(np.float32(0))
    Array(0., dtype=float32)
    """
    return bind1(asinh_p, x)


def acosh(x: ArrayLike) -> Array:
    """The number of at least 0 whose hyperbolic cosine is `x`, element by element; NaN if there is none.

    Takes floating-point or complex elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings.
    Source: DLMF, section 4.37.

    >>> acosh(np.float32(1))
    Array(0., dtype=float32)
    """
    return bind1(acosh_p, x)


def atanh(x: ArrayLike) -> Array:
    """The number whose hyperbolic tangent is `x`, element by element; NaN if there is none.

    Takes floating-point or complex elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings.
    Source: DLMF, section 4.37.

    >>> atanh(np.float32(0))
    Array(0., dtype=float32)
    """
    return bind1(atanh_p, x)


def _atanh_tangent(t, y, x):
    one = constant_like(x, 1)
    return mul(integer_pow(add(one, x), -1), div(t, sub(one, x)))


sinh_p = transcendental("sinh", "chlo.sinh", lambda t, y, x: mul(t, cosh(x)))
cosh_p = transcendental("cosh", "chlo.cosh", lambda t, y, x: mul(t, sinh(x)))
# 1 - y² as (1 + y)(1 - y), which is accurate where |y| is almost 1.
tanh_p = transcendental(
    "tanh",
    with_accuracy("tanh"),
    lambda t, y, x: mul(add(t, mul(t, y)), sub(constant_like(y, 1), y)),
)
asinh_p = transcendental(
    "asinh", "chlo.asinh", lambda t, y, x: mul(t, rsqrt(add(square(x), constant_like(x, 1))))
)
acosh_p = transcendental(
    "acosh", "chlo.acosh", lambda t, y, x: mul(t, rsqrt(sub(square(x), constant_like(x, 1))))
)
atanh_p = transcendental("atanh", "chlo.atanh", _atanh_tangent)


def no_derivative(function: str, argument: str) -> Any:
    """The tangent rule for an argument without a known derivative: it raises MissingRule."""

    def tangent(*_: Any) -> Any:
        raise MissingRule(
            f"{function} can't be differentiated by its argument {argument}.",
            do=f"Use `lax.stop_gradient({argument})` if it is to count as a constant.",
        )

    return tangent


def lgamma(x: ArrayLike) -> Array:
    """Logarithm of the absolute value of the gamma function of `x`, element by element.

    Takes floating-point elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings.
    Source: DLMF, section 5.2.

    >>> print(f"{float(lgamma(np.float32(5))):.4f}")
    3.1781
    """
    return bind1(lgamma_p, x)


def digamma(x: ArrayLike) -> Array:
    """Derivative of the logarithm of the gamma function at `x`, element by element.

    Takes floating-point elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings.
    Source: DLMF 5.2.2.

    >>> print(f"{float(digamma(np.float32(2))):.4f}")
    0.4228
    """
    return bind1(digamma_p, x)


def polygamma(m: ArrayLike, x: ArrayLike) -> Array:
    """Derivative of order `m + 1` of the logarithm of the gamma function at `x`, element by element.

    `m` has the dtype of `x`; there is no derivative by it.

    Operands and result have one dtype, floating-point. Shapes are equal, up to scalars and dimensions of size 1, and
    broadcast to the shape of the result.
    Raises: DtypeError for other or different dtypes, ShapeError for shapes that do not fit, ArgumentTypeError for lists
    and strings.
    Source: DLMF, section 5.15.

    >>> print(f"{float(polygamma(np.float32(0), np.float32(2))):.4f}")
    0.4228
    """
    return bind1(polygamma_p, m, x)


def zeta(x: ArrayLike, q: ArrayLike) -> Array:
    """Hurwitz zeta function, the sum of 1 / (q + k)ˣ over k = 0, 1, …, element by element.

    There is no derivative by `x`.

    Operands and result have one dtype, floating-point. Shapes are equal, up to scalars and dimensions of size 1, and
    broadcast to the shape of the result.
    Raises: DtypeError for other or different dtypes, ShapeError for shapes that do not fit, ArgumentTypeError for lists
    and strings.
    Source: DLMF 25.11.1.

    >>> print(f"{float(zeta(np.float32(2), np.float32(1))):.4f}")
    1.6449
    """
    return bind1(zeta_p, x, q)


lgamma_p = real_transcendental("lgamma", "chlo.lgamma", lambda t, y, x: mul(t, digamma(x)))
digamma_p = real_transcendental(
    "digamma", "chlo.digamma", lambda t, y, x: mul(t, polygamma(constant_like(x, 1), x))
)
polygamma_p = real_transcendental(
    "polygamma",
    "chlo.polygamma",
    no_derivative("polygamma", "m"),
    lambda t, y, m, x: mul(t, polygamma(add(m, constant_like(m, 1)), x)),
)
zeta_p = real_transcendental(
    "zeta",
    "chlo.zeta",
    no_derivative("zeta", "x"),
    lambda t, y, x, q: mul(t, neg(mul(x, zeta(add(x, constant_like(x, 1)), q)))),
)
