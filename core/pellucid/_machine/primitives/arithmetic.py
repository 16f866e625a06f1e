"""Arithmetic: sums, products, quotients, powers, roots, rounding."""

from __future__ import annotations

import builtins
import enum
import operator
import re
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import ArgumentValueError, ArrayLike, DtypeError, DTypeLike, dtypes
from pellucid._machine.ir import ARITHMETIC, CHEAP_ARITHMETIC, TRANSCENDENTAL, Avals, Linear, Zero
from pellucid._machine.lowering.exact import difference, protect_product, protect_value
from pellucid._machine.lowering.slices import factor_apart
from pellucid._machine.tracing import bind1, type_of
from pellucid._machine.xla import Array

from .conversion import conj, convert_quietly, real, real_dtype
from .counts import power_products
from .families import (
    BOOL,
    COMPLEX,
    FLOATING,
    INTEGER,
    NUMBER,
    REAL,
    SIGNED,
    AccuracyMode,
    Elementwise,
    LinearElementwise,
    Tolerance,
    accurate,
    check_elements,
    constant_like,
    full_as,
    identity_rule,
    kind_of,
    real_transcendental,
    transcendental,
    with_accuracy,
)
from .logical import bitwise_and, eq, ge, select, shift_right_arithmetic, shift_right_logical
from .monoids import MONOIDS, Monoid, combine
from .movement import broadcast_to

# Sums and products --------------------------------------------------------------------------------


def neg(x: ArrayLike) -> Array:
    """Negative of `x`, element by element; integers wrap.

    Takes integer, floating-point or complex elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings.
    Source: StableHLO specification, `negate`.

    >>> neg(np.float32(2))
    Array(-2., dtype=float32)
    """
    return bind1(neg_p, x)


neg_p: Elementwise = LinearElementwise(
    "neg",
    ARITHMETIC.replace(linear="all", cheap=True),
    NUMBER,
    "negate",
    transposes=(lambda c, x: neg(c),),
)


def add(x: ArrayLike, y: ArrayLike) -> Array:
    """Sum of `x` and `y`, element by element.

    Operands and result have one dtype, integer, floating-point or complex; a scalar fits any shape, and a dimension of
    size 1 any size.
    Raises: DtypeError for other or different dtypes, ShapeError for shapes that do not fit, ArgumentTypeError for lists
    and strings.
    Source: StableHLO specification, `add`.

    >>> add(np.float32(1), np.float32(2))
    Array(3., dtype=float32)
    """
    return bind1(add_p, x, y)


_SUM = ARITHMETIC.replace(linear="all", cheap="if one operand is small", makes_nan=True)
add_p: Elementwise = LinearElementwise(
    "add",
    _SUM,
    NUMBER,
    tangents=(identity_rule, identity_rule),
    transposes=(identity_rule, identity_rule),
)


def sub(x: ArrayLike, y: ArrayLike) -> Array:
    """Difference `x - y`, element by element; operands fit as in `add`.

    Operands and result have one dtype, integer, floating-point or complex.
    Raises: DtypeError for other or different dtypes, ShapeError for shapes that do not fit, ArgumentTypeError for lists
    and strings.
    Source: StableHLO specification, `subtract`.

    >>> sub(np.float32(3), np.float32(2))
    Array(1., dtype=float32)
    """
    return bind1(sub_p, x, y)


def _lower_sub(ctx, operands, params):
    [x, y] = operands
    return difference(ctx, x, y, ctx.avals_out[0])


sub_p: Elementwise = LinearElementwise(
    "sub",
    _SUM,
    NUMBER,
    _lower_sub,
    tangents=(identity_rule, lambda t, *_: neg(t)),
    transposes=(identity_rule, lambda c, *_: neg(c)),
)


class MulParams(NamedTuple):
    out_dtype: Any = None


_SAME_DTYPE = MulParams(None)


def mul(x: ArrayLike, y: ArrayLike, *, out_dtype: DTypeLike | None = None) -> Array:
    """Product of `x` and `y`, element by element; operands fit as in `add`.

    With `out_dtype`, operands are converted to it before they are multiplied.

    Operands are integer, floating-point or complex; the result has their dtype, or `out_dtype`.
    Raises: DtypeError for other or different dtypes, ShapeError for shapes that do not fit, ArgumentTypeError for lists
    and strings.
    Source: StableHLO specification, `multiply`.

    >>> mul(np.float32(3), np.float32(2))
    Array(6., dtype=float32)
    """
    if out_dtype is None:
        return bind1(mul_p, x, y, params=_SAME_DTYPE)
    return bind1(mul_p, x, y, params=MulParams(dtypes.check_user_dtype(out_dtype, "mul")))


def _lower_mul(ctx, operands, params: MulParams):
    result = ctx.avals_out[0]
    if params.out_dtype is not None and params.out_dtype != ctx.avals_in[0].dtype:
        operands = [ctx.convert(x, result) for x in operands]
    operands = [factor_apart(ctx, x, result) for x in operands]
    return protect_product(ctx, ctx.op1("stablehlo.multiply", result, operands), result)


def _mul_back(cotangent, other, dtype, params: MulParams, *, is_second: bool):
    """The cotangent of one operand of a product, of dtype `dtype`, from that of the product and the `other` operand."""
    if params.out_dtype is not None:
        other = convert_quietly(other, params.out_dtype)
    product = mul(other, cotangent) if is_second else mul(cotangent, other)
    return product if params.out_dtype is None else convert_quietly(product, dtype)


mul_p: Elementwise = Elementwise(
    "mul",
    ARITHMETIC.replace(linear="each", cheap=True, makes_nan=True),
    NUMBER,
    _lower_mul,
    rules_take_params=True,
    result=lambda x, y, params: params.out_dtype or x,
    tangents=(
        lambda t, z, x, y, params: mul(t, y, out_dtype=params.out_dtype),
        lambda t, z, x, y, params: mul(x, t, out_dtype=params.out_dtype),
    ),
    transposes=(
        lambda c, x, y, params: _mul_back(c, y, x.aval.dtype, params, is_second=False),
        lambda c, x, y, params: _mul_back(c, x, y.aval.dtype, params, is_second=True),
    ),
)


def mulhi(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Upper half of the bits of the product of integers `x` and `y`, element by element.

    Operands and result have one dtype, integer. Shapes are equal, up to scalars and dimensions of size 1, and broadcast
    to the shape of the result.
    Raises: DtypeError for other or different dtypes, ShapeError for shapes that do not fit, ArgumentTypeError for lists
    and strings.

    >>> mulhi(np.int32(1 << 20), np.int32(1 << 20))
    Array(256, dtype=int32)
    """
    return bind1(mulhi_p, x, y)


def _mulhi_by_halves(x, y):
    # Warren, Hacker's Delight, 2nd ed., section 8-2: the carries of a product of two-digit numbers.
    dtype = type_of(x).dtype
    bits = dtypes.itemsize_bits(dtype)
    half, mask = np.asarray(bits // 2, dtype), np.asarray((1 << bits // 2) - 1, dtype)
    upper = shift_right_logical if kind_of(dtype) == "unsigned" else shift_right_arithmetic
    (x1, x0), (y1, y0) = ((upper(n, half), bitwise_and(n, mask)) for n in (x, y))
    middle = add(mul(x1, y0), shift_right_logical(mul(x0, y0), half))
    carried = upper(add(mul(x0, y1), bitwise_and(middle, mask)), half)
    return add(add(mul(x1, y1), upper(middle, half)), carried)


def _lower_mulhi(ctx, operands, params):
    if ctx.platform == "cpu":  # XLA can't fuse its own operation there
        return ctx.from_python(_mulhi_by_halves, operands)[0]
    return ctx.as_result("chlo.mulhi", operands)


mulhi_p = Elementwise("mulhi", ARITHMETIC, INTEGER, _lower_mulhi)


# Quotients ----------------------------------------------------------------------------------------


def div(x: ArrayLike, y: ArrayLike) -> Array:
    """Quotient of `x` and `y`, element by element; operands fit as in `add`.

    Integers are rounded towards zero. Integers divided by zero give -1 (all bits set), and the least
    integer divided by -1 gives itself. Source: StableHLO specification, `divide`.

    Operands and result have one dtype, integer, floating-point or complex.
    Raises: DtypeError for other or different dtypes, ShapeError for shapes that do not fit, ArgumentTypeError for lists
    and strings.

    >>> div(np.int32(-7), np.int32(2))
    Array(-3, dtype=int32)
    """
    return bind1(div_p, x, y)


def _linear_quotient(avals: Avals, params) -> Linear | None:
    # Quotients of integers are rounded.
    return (0,) if kind_of(avals[0].dtype) in FLOATING | COMPLEX else None


def _lower_div(ctx, operands, params):
    [result], (x, y) = ctx.avals_out, operands
    if kind_of(result.dtype) == "complex" and _is_constant_zero(y):
        # XLA multiplies by the reciprocal of a constant, and a product with 1 / (0 + 0j) has NaN parts.
        y = ctx.op1("stablehlo.optimization_barrier", result, [y])
    x, y = (protect_value(ctx, v, result) for v in (x, y))
    return ctx.op1("stablehlo.divide", result, [x, y])


def _is_constant_zero(x) -> bool:
    """Whether the complex MLIR value `x` is the constant zero: a scalar, or broadcast from one."""
    while getattr(x.owner, "name", None) == "stablehlo.broadcast_in_dim":
        x = x.owner.operands[0]
    if getattr(x.owner, "name", None) != "stablehlo.constant" or x.type.shape:
        return False
    return _ZERO.search(str(x.owner)) is not None  # the bindings can't read complex attributes


_ZERO = re.compile(r"dense<\(-?0\.0+e\+00,-?0\.0+e\+00\)>")


div_p: Elementwise = Elementwise(
    "div",
    ARITHMETIC.replace(linear=_linear_quotient, cheap=True, makes_nan=True),
    NUMBER,
    _lower_div,
    tangents=(lambda t, z, x, y: div(t, y), lambda t, z, x, y: mul(div(neg(t), y), z)),
    transposes=(lambda c, x, y: div(c, y), None),
)


def rem(x: ArrayLike, y: ArrayLike) -> Array:
    """Remainder of `x` divided by `y`, with the sign of `x`, element by element; operands fit as in `add`.

    The remainder of an integer divided by zero is itself. Source: StableHLO specification, `remainder`.

    Operands and result have one dtype, integer or floating-point.
    Raises: DtypeError for other or different dtypes, ShapeError for shapes that do not fit, ArgumentTypeError for lists
    and strings.

    >>> rem(np.int32(-7), np.int32(2))
    Array(-1, dtype=int32)
    """
    return bind1(rem_p, x, y)


def _truncate(x):
    return mul(sign(x), floor(abs(x)))


rem_p: Elementwise = Elementwise(
    "rem",
    ARITHMETIC.replace(makes_nan=True),
    REAL,
    "remainder",
    tangents=(identity_rule, lambda t, z, x, y: mul(neg(t), _truncate(div(x, y)))),
)


# Sign and size ------------------------------------------------------------------------------------


def abs(x: ArrayLike) -> Array:
    """Absolute value of `x`, element by element; real for complex `x`.

    Its derivative at 0 is 1 for real `x`, 0 for complex `x`. Source: StableHLO specification, `abs`.

    Takes signed integer, floating-point or complex elements; the result has the shape of `x`, and its dtype or that of
    its parts.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings.

    >>> abs(np.complex64(3 + 4j))
    Array(5., dtype=float32)
    """
    return bind1(abs_p, x)


def _abs_tangent(t, y, x):
    if kind_of(type_of(x).dtype) != "complex":
        return select(ge(x, constant_like(x, 0)), t, neg(t))
    # d|x| = Re(dx conj(x)) / |x|
    return real(mul(t, div(conj(x), nonzero(convert_quietly(y, type_of(x).dtype)))))


def nonzero(x: Any) -> Any:
    """`x` with its zeros replaced by ones."""
    return select(eq(x, constant_like(x, 0)), full_as(x, 1), x)


abs_p: Elementwise = Elementwise(
    "abs",
    CHEAP_ARITHMETIC,
    SIGNED | FLOATING | COMPLEX,
    result=real_dtype,
    tangents=(_abs_tangent,),
)


def sign(x: ArrayLike) -> Array:
    """Sign of `x`, element by element: -1, 0 or 1; for complex `x`, `x / |x|`, or 0.

    Signed zeros and NaN stay. The derivative counts as zero, but for complex `x` away from 0, where only |sign(x)| is
    constant. Source: StableHLO specification, `sign`.

    Takes integer, floating-point or complex elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings.

    >>> sign(np.float32(-2))
    Array(-1., dtype=float32)
    """
    return bind1(sign_p, x)


def _lower_sign(ctx, operands, params):
    if kind_of(ctx.avals_out[0].dtype) == "unsigned":
        return ctx.from_python(lambda x: min(x, constant_like(x, 1)), operands)[0]
    return ctx.as_result("stablehlo.sign", operands)


def _sign_tangent(t, y, x):
    if kind_of(type_of(x).dtype) != "complex":
        return Zero(type_of(y).tangent())
    # d(x / |x|) = (dx - y Re(dx conj(y))) / |x|
    radial = convert_quietly(real(mul(t, conj(y))), type_of(y).dtype)
    around = div(sub(t, mul(y, radial)), nonzero(convert_quietly(abs(x), type_of(y).dtype)))
    return select(eq(x, constant_like(x, 0)), full_as(x, 0), around)


sign_p = Elementwise("sign", CHEAP_ARITHMETIC, NUMBER, _lower_sign, tangents=(_sign_tangent,))


def max(x: ArrayLike, y: ArrayLike) -> Array:
    """The greater of `x` and `y`, element by element; NaN if either is.

    Complex numbers are compared by their real, then by their imaginary parts. Where operands are equal,
    each has half of the derivative. Source: StableHLO specification, `maximum`.

    Operands and result have one dtype, of numbers or bool. Shapes are equal, up to scalars and dimensions of size 1,
    and broadcast to the shape of the result.
    Raises: DtypeError for other or different dtypes, ShapeError for shapes that do not fit, ArgumentTypeError for lists
    and strings.

    >>> max(np.float32(1), np.float32(2))
    Array(2., dtype=float32)
    """
    return bind1(max_p, x, y)


def min(x: ArrayLike, y: ArrayLike) -> Array:
    """The lesser of `x` and `y`, element by element; NaN if either is.

    Complex numbers are compared by their real, then by their imaginary parts. Where operands are equal,
    each has half of the derivative. Source: StableHLO specification, `minimum`.

    Operands and result have one dtype, of numbers or bool. Shapes are equal, up to scalars and dimensions of size 1,
    and broadcast to the shape of the result.
    Raises: DtypeError for other or different dtypes, ShapeError for shapes that do not fit, ArgumentTypeError for lists
    and strings.

    >>> min(np.float32(1), np.float32(2))
    Array(1., dtype=float32)
    """
    return bind1(min_p, x, y)


def share(x: Any, z: Any, y: Any) -> Any:
    """The share of `x` in the extremum `z` of `x` and `y`: 1 or 0, and a half where both are equal."""
    is_x = select(eq(x, z), full_as(z, 1), full_as(z, 0))
    return div(is_x, select(eq(y, z), full_as(z, 2), full_as(z, 1)))


def _extremum(monoid: Monoid) -> Elementwise:
    return Elementwise(
        monoid.name,
        CHEAP_ARITHMETIC,
        NUMBER | BOOL,
        lambda ctx, operands, params: combine(
            ctx, monoid, operands[0], operands[1], ctx.avals_out[0]
        ),
        tangents=(
            lambda t, z, x, y: mul(t, share(x, z, y)),
            lambda t, z, x, y: mul(t, share(y, z, x)),
        ),
    )


max_p, min_p = _extremum(MONOIDS["max"]), _extremum(MONOIDS["min"])


# Powers and roots ---------------------------------------------------------------------------------


def pow(x: ArrayLike, y: ArrayLike) -> Array:
    """`x` to the power `y`, element by element; `x` is floating or complex, `y` of its dtype or an integer.

    The result has the dtype of `x`. Shapes are equal, up to scalars and dimensions of size 1, and broadcast to the
    shape of the result.
    Raises: DtypeError for other dtypes, ShapeError for shapes that do not fit, ArgumentTypeError for lists and strings.
    Source: StableHLO specification, `power`.

    >>> pow(np.float32(2), np.int32(3))
    Array(8., dtype=float32)
    """
    return bind1(pow_p, x, y)


class Pow(Elementwise):
    """The reference's `pow`."""

    def _check_dtypes(self, avals):
        check_elements(self.name, avals, self.accepts)
        x, y = avals
        if x.dtype != y.dtype and kind_of(y.dtype) not in INTEGER:
            raise DtypeError(
                "pow needs an exponent of the base's dtype, or an integer.",
                got=[f"base: {x.text()}", f"exponent: {y.text()}"],
                do="Convert one with `lax.convert_element_type`, or use `jnp.power`, which promotes.",
            )


def _lower_pow(ctx, operands, params):
    [result], (x, y) = ctx.avals_out, operands
    if ctx.avals_in[1].dtype != result.dtype:
        y = ctx.convert(y, result)
    return ctx.op1("stablehlo.power", result, [protect_value(ctx, v, result) for v in (x, y)])


def _pow_by_base(t, z, x, y):
    if kind_of(type_of(y).dtype) not in INTEGER:
        base = convert_quietly(x, type_of(x).dtype) if type_of(x).weak_type else x
        return mul(t, mul(y, pow(base, sub(y, constant_like(y, 1)))))
    # With an integer exponent, x⁰ is the constant 1 also at x = 0, so its derivative is 0 and not NaN.
    y = convert_quietly(y, type_of(x).dtype)
    is_zero = eq(y, constant_like(y, 0))
    slope = mul(select(is_zero, full_as(y, 1), y), pow(x, sub(y, constant_like(y, 1))))
    is_zero = broadcast_to(is_zero, type_of(slope).shape)
    return mul(t, select(is_zero, full_as(slope, 0), slope))


def _pow_by_exponent(t, z, x, y):
    return mul(t, mul(log(nonzero(x)), z))  # 0ʸ log 0 counts as 0ʸ log 1


pow_p: Elementwise = Pow(
    "pow",
    TRANSCENDENTAL,
    (FLOATING | COMPLEX, INTEGER | FLOATING | COMPLEX),
    _lower_pow,
    tangents=(_pow_by_base, _pow_by_exponent),
)


def log(x: ArrayLike, *, accuracy: Tolerance | AccuracyMode | None = None) -> Array:
    """Natural logarithm of `x`, element by element; NaN for negative real `x`.

    Takes floating-point or complex elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings and for another kind of `accuracy`.
    Source: StableHLO specification, `log`.

    >>> log(np.float32(1))
    Array(0., dtype=float32)
    """
    return accurate(log_p, x, accuracy)


# Here rather than among the transcendental functions because the derivative of `pow` needs it.
log_p = transcendental("log", with_accuracy("log"), lambda t, y, x: div(t, x))


class IntegerPowParams(NamedTuple):
    y: int


def integer_pow(x: ArrayLike, y: int) -> Array:
    """`x` to the power of the Python int `y`, element by element, by repeated multiplication.

    Integers can't have negative powers.

    Takes integer, floating-point or complex elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements and for negative powers of integers, TypeError for a `y` that isn't an integer,
    ArgumentTypeError for lists and strings.

    >>> integer_pow(np.int32(2), 5)
    Array(32, dtype=int32)
    """
    params = IntegerPowParams(operator.index(y))
    aval = type_of(x)
    if params.y < 0 and kind_of(aval.dtype) in INTEGER:
        raise DtypeError(
            "integers can't have negative powers.",
            got=f"integer_pow({aval.text()}, {params.y})",
            do="Convert to a floating dtype first.",
        )
    return bind1(integer_pow_p, x, params=params)


def _lower_integer_pow(ctx, operands, params: IntegerPowParams):
    [result], [x] = ctx.avals_out, operands
    if params.y == 3:  # complex products round by their order, and the reference cubes in this one
        cube = ctx.op1(
            "stablehlo.multiply", result, [ctx.op1("stablehlo.multiply", result, [x, x]), x]
        )
        return protect_product(ctx, cube, result)
    exponent, square = builtins.abs(params.y), x
    power = None
    while exponent:
        if exponent & 1:
            power = (
                square if power is None else ctx.op1("stablehlo.multiply", result, [power, square])
            )
        exponent >>= 1
        if exponent:
            square = ctx.op1("stablehlo.multiply", result, [square, square])
    if power is None:
        return ctx.full(result, 1)
    if params.y < 0:
        return ctx.op1(
            "stablehlo.divide", result, [ctx.full(result, 1), protect_value(ctx, power, result)]
        )
    return protect_product(ctx, power, result)


def _integer_pow_tangent(t, z, x, *, params: IntegerPowParams):
    n = params.y
    if n == 0:
        return Zero(type_of(t))
    if n == 1:
        return t
    return mul(t, mul(constant_like(x, n), x if n == 2 else integer_pow(x, n - 1)))


integer_pow_p: Elementwise = Elementwise(
    "integer_pow",
    ARITHMETIC.replace(flops=power_products, cheap=True, makes_nan=True),
    NUMBER,
    _lower_integer_pow,
    tangents=(_integer_pow_tangent,),
    rules_take_params=True,
)


def reciprocal(x: ArrayLike) -> Array:
    """`1 / x`, element by element.

    Takes floating-point or complex elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings.

    >>> reciprocal(np.float32(4))
    Array(0.25, dtype=float32)
    """
    return integer_pow(x, -1)


def square(x: ArrayLike) -> Array:
    """`x` times `x`, element by element.

    Takes integer, floating-point or complex elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings.

    >>> square(np.int32(3))
    Array(9, dtype=int32)
    """
    return bind1(square_p, x)


def _lower_square(ctx, operands, params):
    if kind_of(ctx.avals_out[0].dtype) in INTEGER:
        return ctx.as_result("stablehlo.multiply", [*operands, *operands])
    return protect_product(ctx, ctx.as_result("chlo.square", operands), ctx.avals_out[0])


square_p: Elementwise = Elementwise(
    "square",
    ARITHMETIC.replace(cheap=True, makes_nan=True),
    NUMBER,
    _lower_square,
    tangents=(lambda t, y, x: mul(t, mul(constant_like(x, 2), x)),),
)


def sqrt(x: ArrayLike, *, accuracy: Tolerance | AccuracyMode | None = None) -> Array:
    """Square root of `x`, element by element; NaN for negative real `x`.

    Its derivative at 0 is infinite. Source: StableHLO specification, `sqrt`.

    Takes floating-point or complex elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings and for another kind of `accuracy`.

    >>> sqrt(np.float32(9))
    Array(3., dtype=float32)
    """
    return accurate(sqrt_p, x, accuracy)


sqrt_p = transcendental(
    "sqrt", with_accuracy("sqrt"), lambda t, y, x: div(mul(t, constant_like(x, 0.5)), y)
)


def rsqrt(x: ArrayLike, *, accuracy: Tolerance | AccuracyMode | None = None) -> Array:
    """`1 / sqrt(x)`, element by element; NaN for negative real `x`.

    Takes floating-point or complex elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings and for another kind of `accuracy`.
    Source: StableHLO specification, `rsqrt`.

    >>> rsqrt(np.float32(4))
    Array(0.5, dtype=float32)
    """
    return accurate(rsqrt_p, x, accuracy)


rsqrt_p = transcendental(
    "rsqrt", with_accuracy("rsqrt"), lambda t, y, x: mul(t, mul(constant_like(x, -0.5), div(y, x)))
)


def cbrt(x: ArrayLike, *, accuracy: Tolerance | AccuracyMode | None = None) -> Array:
    """Cube root of real `x`, element by element, also of negative numbers.

    Takes floating-point elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings and for another kind of `accuracy`.
    Source: StableHLO specification, `cbrt`.

    >>> cbrt(np.float32(-8))
    Array(-2., dtype=float32)
    """
    return accurate(cbrt_p, x, accuracy)


cbrt_p = real_transcendental(
    "cbrt",
    with_accuracy("cbrt"),
    lambda t, y, x: mul(t, mul(constant_like(x, 1 / 3), integer_pow(y, -2))),
)


# Rounding -----------------------------------------------------------------------------------------


class RoundingMethod(enum.IntEnum):
    """The direction in which numbers half-way between two integers are rounded.

    >>> x = jnp.array([0.5, 1.5, 2.5])
    >>> lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO), lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)
    (Array([1., 2., 3.], dtype=float32), Array([0., 2., 2.], dtype=float32))
    """

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


class RoundParams(NamedTuple):
    rounding_method: RoundingMethod


def round(x: ArrayLike, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Array:
    """The integer nearest to floating `x`, element by element; `rounding_method` decides half-way cases.

    The result has the shape and the floating-point dtype of `x`.
    Raises: DtypeError for other elements, ArgumentValueError for what is no `RoundingMethod`, ArgumentTypeError for
    lists and strings.
    Source: StableHLO specification, `round_nearest_afz` and `round_nearest_even`.

    >>> round(np.float32(2.5))
    Array(3., dtype=float32)
    """
    try:
        params = RoundParams(RoundingMethod(rounding_method))
    except ValueError:
        raise ArgumentValueError(
            "round has no such rounding_method.",
            got=f"rounding_method: {rounding_method!r}",
            do="Use a member of `lax.RoundingMethod`.",
        ) from None
    return bind1(round_p, x, params=params)


def floor(x: ArrayLike) -> Array:
    """The greatest integer that is at most `x`, element by element; `x` and the result are floating.

    Takes floating-point elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings.
    Source: StableHLO specification, `floor`.

    >>> floor(np.float32(-1.5))
    Array(-2., dtype=float32)
    """
    return bind1(floor_p, x)


def ceil(x: ArrayLike) -> Array:
    """The least integer that is at least `x`, element by element; `x` and the result are floating.

    Takes floating-point elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings.
    Source: StableHLO specification, `ceil`.

    >>> ceil(np.float32(-1.5))
    Array(-1., dtype=float32)
    """
    return bind1(ceil_p, x)


def _lower_round(ctx, operands, params: RoundParams):
    away = params.rounding_method is RoundingMethod.AWAY_FROM_ZERO
    return ctx.as_result(f"stablehlo.round_nearest_{'afz' if away else 'even'}", operands)


round_p = Elementwise("round", ARITHMETIC, FLOATING, _lower_round, tangents=(None,))
floor_p = Elementwise("floor", ARITHMETIC, FLOATING, tangents=(None,))
ceil_p = Elementwise("ceil", ARITHMETIC, FLOATING, tangents=(None,))


def nextafter(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The floating number next to `x1` in the direction of `x2`, element by element.

    Operands and result have one dtype, floating-point. Shapes are equal, up to scalars and dimensions of size 1, and
    broadcast to the shape of the result.
    Raises: DtypeError for other or different dtypes, ShapeError for shapes that do not fit, ArgumentTypeError for lists
    and strings.

    >>> nextafter(np.float32(0), np.float32(1))
    Array(1.e-45, dtype=float32)
    """
    return bind1(nextafter_p, x1, x2)


nextafter_p = Elementwise("nextafter", ARITHMETIC, FLOATING, "chlo.next_after")
