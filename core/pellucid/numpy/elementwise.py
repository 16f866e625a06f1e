"""Mathematical functions of NumPy, element by element, with NumPy's promotion and broadcasting."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    DtypeError,
    PellucidError,
    dtypes,
    public_functions,
)
from pellucid._machine.primitives import arithmetic, conversion, logical, transcendental
from pellucid._machine.primitives.conversion import (
    convert_element_type,
    stop_gradient,
)
from pellucid._machine.primitives.families import constant_like, scalar
from pellucid._machine.primitives.movement import broadcast_in_dim, broadcast_shapes
from pellucid._machine.tracing import Tracer, operand_lines, type_of
from pellucid._machine.xla.arrays import Array

from .compiled import F, alias, numpy_function
from .elementwise_examples import docstring
from .promotion import (
    aval_of,
    check_arrays,
    check_promotion,
    convert,
    known_int,
    number_type,
    promote_arguments,
    promote_arguments_inexact,
    promote_arguments_numeric,
    promote_dtypes,
    promote_dtypes_inexact,
    promote_dtypes_numeric,
    promote_shapes,
    refuse_out,
)

# Families -----------------------------------------------------------------------------------------


def _unary(
    name: str,
    function: Callable[[Any], Any],
    promote: Callable[..., list[Any]],
    summary: str,
    *,
    dtype: str | None = None,
    refused: str = "random keys",
):
    def apply(x: ArrayLike, /, *, out: None = None, where: None = None) -> Array:
        refuse_out(name, out, where)
        return function(promote(name, x)[0])

    return _give_name(
        apply, name, docstring(name, summary, promote.__name__, False, dtype, refused)
    )


def _binary(
    name: str,
    function: Callable[[Any, Any], Any],
    promote: Callable[..., list[Any]],
    summary: str,
    *,
    dtype: str | None = None,
    refused: str = "random keys",
):
    def apply(x: ArrayLike, y: ArrayLike, /, *, out: None = None, where: None = None) -> Array:
        refuse_out(name, out, where)
        return function(*promote(name, x, y))

    return _give_name(apply, name, docstring(name, summary, promote.__name__, True, dtype, refused))


def _give_name(apply: F, name: str, doc: str) -> F:
    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = doc
    apply.__module__ = "pellucid.numpy"
    return numpy_function(apply)


# Exponentials, logarithms, trigonometry --------------------------------------------------------------

exp = _unary("exp", transcendental.exp, promote_dtypes_inexact, "Exponential of `x`.")
exp2 = _unary("exp2", transcendental.exp2, promote_dtypes_inexact, "2 to the power of `x`.")
expm1 = _unary("expm1", transcendental.expm1, promote_dtypes_inexact, "`exp(x) - 1`, exact near 0.")
log = _unary("log", arithmetic.log, promote_dtypes_inexact, "Natural logarithm of `x`.")
log1p = _unary("log1p", transcendental.log1p, promote_dtypes_inexact, "`log(1 + x)`, exact near 0.")
sin = _unary("sin", transcendental.sin, promote_dtypes_inexact, "Sine of `x`, in radians.")
cos = _unary("cos", transcendental.cos, promote_dtypes_inexact, "Cosine of `x`, in radians.")
tan = _unary("tan", transcendental.tan, promote_dtypes_inexact, "Tangent of `x`, in radians.")
arcsin = _unary(
    "arcsin", transcendental.asin, promote_dtypes_inexact, "Angle in radians whose sine is `x`."
)
asin = alias(arcsin, "asin")
arccos = _unary(
    "arccos", transcendental.acos, promote_dtypes_inexact, "Angle in radians whose cosine is `x`."
)
acos = alias(arccos, "acos")
arctan = _unary(
    "arctan", transcendental.atan, promote_dtypes_inexact, "Angle in radians whose tangent is `x`."
)
atan = alias(arctan, "atan")
sinh = _unary("sinh", transcendental.sinh, promote_dtypes_inexact, "Hyperbolic sine of `x`.")
cosh = _unary("cosh", transcendental.cosh, promote_dtypes_inexact, "Hyperbolic cosine of `x`.")
tanh = _unary("tanh", transcendental.tanh, promote_dtypes_inexact, "Hyperbolic tangent of `x`.")
arcsinh = _unary(
    "arcsinh", transcendental.asinh, promote_dtypes_inexact, "Inverse hyperbolic sine of `x`."
)
asinh = alias(arcsinh, "asinh")
arccosh = _unary(
    "arccosh", transcendental.acosh, promote_dtypes_inexact, "Inverse hyperbolic cosine of `x`."
)
acosh = alias(arccosh, "acosh")
arctanh = _unary(
    "arctanh", transcendental.atanh, promote_dtypes_inexact, "Inverse hyperbolic tangent of `x`."
)
atanh = alias(arctanh, "atanh")
arctan2 = _binary(
    "arctan2",
    transcendental.atan2,
    promote_arguments_inexact,
    "Angle in radians of the point (`y`, `x`), in [-pi, pi].",
)
atan2 = alias(arctan2, "atan2")
sqrt = _unary("sqrt", arithmetic.sqrt, promote_dtypes_inexact, "Square root of `x`.")
cbrt = _unary(
    "cbrt",
    arithmetic.cbrt,
    promote_dtypes_inexact,
    "Cube root of `x`.",
    refused="complex numbers and random keys",
)
log2 = _unary(
    "log2",
    lambda x: _to_base(x, lambda log: arithmetic.div(log, _scalar_like(np.log(2.0), log))),
    promote_dtypes_inexact,
    "Logarithm of `x` to base 2; exact at powers of 2.",
)
log10 = _unary(
    "log10",
    lambda x: _to_base(x, lambda log: arithmetic.mul(log, _scalar_like(np.log10(np.e), log))),
    promote_dtypes_inexact,
    "Logarithm of `x` to base 10; exact at powers of 10.",
)
deg2rad = _unary(
    "deg2rad",
    lambda x: arithmetic.mul(x, constant_like(x, np.pi / 180)),
    promote_dtypes_inexact,
    "Degrees in radians.",
)
radians = alias(deg2rad, "radians")
rad2deg = _unary(
    "rad2deg",
    lambda x: arithmetic.mul(x, constant_like(x, 180 / np.pi)),
    promote_dtypes_inexact,
    "Radians in degrees.",
)
degrees = alias(rad2deg, "degrees")


def _to_base(x: ArrayLike, scale: Callable[[Any], Any]) -> Any:
    """Logarithm of `x` to another base; `scale` converts natural logarithms to that base."""
    log = arithmetic.log(x)
    if is_complex(x):  # by parts: a complex product with infinities has NaN parts
        return conversion.complex(scale(conversion.real(log)), scale(conversion.imag(log)))
    result = scale(log)
    return _snap(result) if type_of(x).dtype.name in ("float32", "float64") else result


def _snap(x: ArrayLike) -> Any:
    """`x`, rounded to the nearest integer where it differs from that by at most one unit in the last place.

    The logarithm of an integer power of the base is rounded twice and may miss the integer by one unit; the
    floating neighbours of the power have logarithms that round to the same integer.
    """
    value = stop_gradient(x)
    nearest = arithmetic.round(value, arithmetic.RoundingMethod.TO_NEAREST_EVEN)
    unit = arithmetic.mul(
        arithmetic.abs(value), _scalar_like(dtypes.finfo(type_of(x).dtype).eps, x)
    )
    is_near = logical.le(arithmetic.abs(arithmetic.sub(nearest, value)), unit)
    # Rounding keeps the derivative of `x`: `x - value` is 0 and has that derivative.
    return select_cases(is_near, arithmetic.add(nearest, arithmetic.sub(x, value)), x)


def _scalar_like(value: ArrayLike, x: ArrayLike) -> Any:
    """`value` as a NumPy scalar of the dtype of `x`."""
    return scalar(value, type_of(x).dtype)


# Arithmetic ---------------------------------------------------------------------------------------


def _add(x: ArrayLike, y: ArrayLike) -> Any:
    return logical.bitwise_or(x, y) if _is_bool(x) else arithmetic.add(x, y)


def _multiply(x: ArrayLike, y: ArrayLike) -> Any:
    return logical.bitwise_and(x, y) if _is_bool(x) else arithmetic.mul(x, y)


def _is_bool(x: ArrayLike) -> bool:
    return type_of(x).dtype == np.bool_


def _subtract(x: ArrayLike, y: ArrayLike) -> Any:
    if _is_bool(x):
        raise DtypeError(
            "jnp.subtract does not accept bools.",
            do="Use `jnp.logical_xor`, or convert to an integer type.",
        )
    return arithmetic.sub(x, y)


add = _binary("add", _add, promote_arguments, "Sum of `x` and `y`; of bools, their `or`.")
multiply = _binary(
    "multiply", _multiply, promote_arguments, "Product of `x` and `y`; of bools, their `and`."
)
subtract = _binary(
    "subtract", _subtract, promote_arguments, "Difference `x - y`.", refused="bools and random keys"
)
divide = _binary(
    "divide", arithmetic.div, promote_arguments_inexact, "Quotient `x / y`, floating or complex."
)
true_divide = alias(divide, "true_divide")
maximum = _binary(
    "maximum",
    arithmetic.max,
    promote_arguments,
    "The larger of `x` and `y`; NaN where either is NaN.",
)
minimum = _binary(
    "minimum",
    arithmetic.min,
    promote_arguments,
    "The smaller of `x` and `y`; NaN where either is NaN.",
)
negative = _unary(
    "negative", arithmetic.neg, promote_dtypes, "Negative of `x`.", refused="bools and random keys"
)
sign = _unary(
    "sign",
    arithmetic.sign,
    promote_dtypes,
    "Sign of `x`: -1, 0 or 1; for complex numbers, `x / |x|`.",
    refused="bools and random keys",
)
floor = _unary(
    "floor",
    lambda x: _round_floats(arithmetic.floor, x),
    promote_dtypes,
    "The largest integer that is not above `x`.",
    refused="complex numbers and random keys",
)
ceil = _unary(
    "ceil",
    lambda x: _round_floats(arithmetic.ceil, x),
    promote_dtypes,
    "The smallest integer that is not below `x`.",
    refused="complex numbers and random keys",
)
nextafter = _binary(
    "nextafter",
    arithmetic.nextafter,
    promote_arguments_inexact,
    "The number next to `x` towards `y`.",
    refused="complex numbers and random keys",
)
square = _unary("square", arithmetic.square, promote_dtypes_numeric, "`x` times `x`.")
reciprocal = _unary(
    "reciprocal",
    lambda x: arithmetic.integer_pow(x, -1),
    promote_dtypes_inexact,
    "One divided by `x`.",
)


def _round_floats(function: Callable[[Any], Any], x: ArrayLike) -> Any:
    return x if type_of(x).dtype.kind in "iub" else function(x)


@numpy_function
def positive(x: ArrayLike, /) -> Any:
    """`x` itself, as an array.

    Result: shape and dtype of `x`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays.

    >>> positive(-2.5)
    Array(-2.5, dtype=float32, weak_type=True)
    """
    return convert(x, aval_of("positive", x), *_own_type(x)) if not hasattr(x, "aval") else x


def _own_type(x: ArrayLike) -> tuple[Any, bool]:
    aval = type_of(x)
    return aval.dtype, aval.weak_type


@numpy_function
def absolute(x: ArrayLike, /) -> Any:
    """Absolute value of `x`; real for complex numbers.

    Result: shape and dtype of `x`; of complex numbers, the dtype of their parts.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, DtypeError for random keys.

    >>> absolute(np.array([-3, 2]))
    Array([3, 2], dtype=int32)
    """
    kind = aval_of("absolute", x).dtype
    return x if kind == np.bool_ or str(kind).startswith("uint") else arithmetic.abs(x)


abs = alias(absolute, "abs")


@numpy_function
def fabs(x: ArrayLike, /) -> Array:
    """Absolute value of `x`, floating; `x` is real.

    Result: shape of `x`; dtype of `x`, float32 for integers and bools (float64 for 64-bit ones).
    Raises: ArgumentTypeError for lists and other values that aren't arrays, DtypeError for complex numbers and random
    keys.

    >>> fabs(np.array([-3, 2]))
    Array([3., 2.], dtype=float32)
    """
    [x] = promote_dtypes_inexact("fabs", x)
    check_real("fabs", x, error=DtypeError)
    return arithmetic.abs(x)


def check_real(
    name: str, *operands: ArrayLike, error: type[PellucidError] = ArgumentValueError
) -> None:
    """Raise `error` for complex operands; the reference raises either class, depending on the function."""
    if any(is_complex(x) for x in operands):
        raise error(
            f"jnp.{name} isn't defined for complex numbers.",
            got=operand_lines(operands),
            do="Take `jnp.real`, `jnp.imag` or `jnp.abs` first.",
        )


@numpy_function
def trunc(x: ArrayLike) -> Any:
    """`x` without its fraction, rounded towards zero.

    Result: shape and dtype of `x`; integers and bools stay as they are.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, DtypeError for complex numbers and random
    keys.

    >>> trunc(np.array([-1.7, 1.7]))
    Array([-1.,  1.], dtype=float32)
    """
    number_type("trunc", x)
    [x] = promote_dtypes("trunc", x)
    if type_of(x).dtype.kind in "iub":
        return x
    return logical.select(
        logical.lt(x, constant_like(x, 0)), arithmetic.ceil(x), arithmetic.floor(x)
    )


@numpy_function
def rint(x: ArrayLike, /) -> Array:
    """The integer nearest to `x`, ties to even.

    Result: shape of `x`; dtype of `x`, float32 for integers and bools (float64 for 64-bit ones). Of complex numbers,
    both parts are rounded.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, DtypeError for random keys.

    >>> rint(np.array([0.5, 1.5, 2.6]))
    Array([0., 2., 3.], dtype=float32)
    """
    aval = number_type("rint", x)
    if not dtypes.is_inexact(aval.dtype):
        return convert(x, aval, dtypes.to_inexact_dtype(aval.dtype))
    [x] = promote_dtypes("rint", x)
    if is_complex(x):
        return conversion.complex(rint(conversion.real(x)), rint(conversion.imag(x)))
    return arithmetic.round(x, arithmetic.RoundingMethod.TO_NEAREST_EVEN)


def is_complex(x: ArrayLike) -> bool:
    return type_of(x).dtype.kind == "c"


@numpy_function(static="decimals")
def round(a: ArrayLike, decimals: int = 0, out: None = None) -> Array:
    """`a` rounded to `decimals` decimal places, ties to even.

    Result: shape and dtype of `a`. Negative `decimals` round to tens, hundreds and so on; integers round half away from
    zero.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ArgumentValueError for bools, DtypeError
    for random keys, UnsupportedError for `out`.

    >>> round(np.array([1.25, 2.675]), 1)
    Array([1.2, 2.7], dtype=float32)
    >>> round(1250, -2)
    Array(1300, dtype=int32)
    """
    refuse_out("round", out)
    decimals = known_int("round", "decimals", decimals)
    aval = number_type("round", a)
    if aval.dtype == np.bool_:
        raise ArgumentValueError("jnp.round needs numbers, not bools.", got=f"got {aval.text()}")
    if aval.dtype.kind in "iu":
        if decimals >= 0:
            return convert(a, aval, aval.dtype, aval.weak_type)
        scale = np.asarray(10**-decimals, aval.dtype)
        half = arithmetic.div(scale, np.asarray(2, aval.dtype))
        shifted = arithmetic.add(a, arithmetic.mul(arithmetic.sign(a), half))
        return arithmetic.mul(arithmetic.div(shifted, scale), scale)
    [a] = promote_dtypes("round", a)
    if decimals == 0:
        return rint(a)
    if aval.dtype == np.float16:  # the product with the scale may overflow in half precision
        wide = round(convert_element_type(a, np.float32), decimals)
        return convert_element_type(wide, aval.dtype)
    scale = constant_like(a, 10.0**decimals)
    return arithmetic.div(rint(arithmetic.mul(a, scale)), scale)


around = alias(round, "around")


@numpy_function
def remainder(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Remainder of `x / y` with the sign of `y`; of integers divided by zero, 0.

    Result: shape that `x` and `y` broadcast to; dtype that they promote to, int32 for bools.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, DtypeError for complex numbers and random
    keys, ShapeError for shapes that don't broadcast.

    >>> remainder(-7, 3)
    Array(2, dtype=int32, weak_type=True)
    """
    x, y = promote_arguments_numeric("remainder", x, y)
    y = _divisor(y)
    rem = arithmetic.rem(x, y)
    zero = constant_like(rem, 0)
    nonzero = logical.ne(rem, zero)
    other_sign = logical.ne(logical.lt(rem, zero), logical.lt(y, zero))
    return select_cases(logical.bitwise_and(other_sign, nonzero), arithmetic.add(rem, y), rem)


mod = alias(remainder, "mod")


@numpy_function
def fmod(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Remainder of `x / y` with the sign of `x`; of integers divided by zero, 0.

    Result: shape that `x` and `y` broadcast to; dtype that they promote to, int32 for bools.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, DtypeError for complex numbers and random
    keys, ShapeError for shapes that don't broadcast.

    >>> fmod(-7, 3)
    Array(-1, dtype=int32, weak_type=True)
    """
    x, y = promote_arguments_numeric("fmod", x, y)
    return arithmetic.rem(x, _divisor(y))


def _divisor(y: ArrayLike) -> Any:
    """`y` with integer zeros replaced by ones, for which every integer has the remainder 0."""
    return y if dtypes.is_inexact(type_of(y).dtype) else arithmetic.nonzero(y)


@numpy_function
def floor_divide(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The largest integer that is not above `x / y`.

    Result: shape that `x` and `y` broadcast to; dtype that they promote to, int32 for bools.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, DtypeError for complex numbers and random
    keys, ShapeError for shapes that don't broadcast.

    >>> floor_divide(-7, 3)
    Array(-3, dtype=int32, weak_type=True)
    """
    x, y = promote_arguments_numeric("floor_divide", x, y)
    dtype = type_of(x).dtype
    if dtype.kind == "c":
        raise DtypeError(
            "jnp.floor_divide does not accept complex numbers.", got=f"got {dtype.name}"
        )
    zero = constant_like(x, 0)
    if dtype.kind in "iu" or "int" in dtype.name:
        quotient = arithmetic.div(x, y)
        if dtype.name.startswith("u"):
            return quotient
        inexact = logical.ne(arithmetic.rem(x, y), zero)
        negative_ = logical.ne(arithmetic.sign(x), arithmetic.sign(y))
        return select_cases(
            logical.bitwise_and(negative_, inexact),
            arithmetic.sub(quotient, constant_like(x, 1)),
            quotient,
        )
    return _float_divmod(x, y)[0]


def _float_divmod(x: ArrayLike, y: ArrayLike) -> tuple[Any, Any]:
    """(floor of x / y, remainder with the sign of y) of floating operands."""
    mod_ = arithmetic.rem(x, y)
    zero, one = constant_like(x, 0), constant_like(x, 1)
    # For a divisor of zero `mod_` is NaN, while the quotient must be infinite.
    numerator = select_cases(logical.eq(y, zero), x, arithmetic.sub(x, mod_))
    quotient = arithmetic.div(numerator, y)
    fix = logical.bitwise_and(
        logical.ne(mod_, zero), logical.ne(arithmetic.sign(y), arithmetic.sign(mod_))
    )
    mod_ = select_cases(fix, arithmetic.add(mod_, y), mod_)
    quotient = select_cases(fix, arithmetic.sub(quotient, one), quotient)
    return arithmetic.round(quotient), mod_


@numpy_function
def divmod(x: ArrayLike, y: ArrayLike, /) -> tuple[Any, Any]:
    """(`x // y`, `x % y`).

    Both have the shape that `x` and `y` broadcast to, and the dtype that they promote to, int32 for bools.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, DtypeError for complex numbers and random
    keys, ShapeError for shapes that don't broadcast.

    >>> divmod(-7, 3)
    (Array(-3, dtype=int32, weak_type=True), Array(2, dtype=int32, weak_type=True))
    """
    x, y = promote_arguments_numeric("divmod", x, y)
    if dtypes.is_inexact(type_of(x).dtype):
        return _float_divmod(x, y)
    return floor_divide(x, y), remainder(x, y)


def select_cases(which: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Any:
    """`on_true` where `which` is true, else `on_false`; operands broadcast to one shape."""
    shape = broadcast_shapes(*(type_of(v).shape for v in (which, on_true, on_false)))

    def full(v: ArrayLike) -> Any:
        own_shape = type_of(v).shape
        return (
            v
            if own_shape == shape
            else broadcast_in_dim(v, shape, tuple(range(len(shape) - len(own_shape), len(shape))))
        )

    predicate = which if type_of(which).shape == () else full(which)
    return logical.select_n(predicate, full(on_false), full(on_true))


def power(x: ArrayLike, y: ArrayLike, /) -> Array:
    """`x` to the power of `y`.

    Result: shape that `x` and `y` broadcast to; dtype that they promote to, int32 for bools. An integer `y` whose value
    is known (a Python or NumPy integer, a concrete integer array without axes) is part of the program: `x` is
    multiplied with itself.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, DtypeError for integers to a known negative
    power and for random keys, ShapeError for shapes that don't broadcast.

    >>> power(np.float32(2), 3)
    Array(8., dtype=float32)
    """
    check_arrays("power", x, y)
    return raise_to_power(x, y)


pow = alias(power, "pow")


def raise_to_power(x: ArrayLike, y: ArrayLike) -> Any:
    """`x ** y` of arrays or numbers; a known integer exponent becomes `integer_pow`."""
    exponent = _known_integer(y)
    if exponent is not None:
        return integer_power(x, exponent)
    if type(x) is int and x.bit_count() <= 1 and aval_of("power", y, 1).dtype.kind in "iu":
        return _power_of_number(x, y)
    return _power(x, y)


def _known_integer(y: Any) -> int | None:
    """The value of `y` if it is a scalar integer known while tracing, else None."""
    if isinstance(y, Tracer) or getattr(y, "shape", ()) != ():
        return None
    try:
        return operator.index(y)
    except TypeError:
        return None


@numpy_function(static="y")
def integer_power(x: ArrayLike, y: int) -> Any:
    """`x` to the power of the Python integer `y`, by repeated multiplication."""
    [x] = promote_dtypes_numeric("power", x)
    if y < 0 and type_of(x).dtype.kind in "iu":
        raise DtypeError(
            "jnp.power can't raise integers to negative powers.",
            got=f"{type_of(x).text()} ** {y}", do="Convert to a floating type first.",
        )  # fmt: skip
    return arithmetic.integer_pow(x, y)


@numpy_function
def _power(x: ArrayLike, y: ArrayLike, /) -> Any:
    x_aval, y_aval = aval_of("power", x), aval_of("power", y, 1)
    if dtypes.is_inexact(x_aval.dtype) and y_aval.dtype.kind in "iu":
        [x] = promote_dtypes("power", x)
        [y] = promote_dtypes_numeric("power", y)
        return arithmetic.pow(*promote_shapes("power", x, y))
    x, y = promote_arguments_numeric("power", x, y)
    if dtypes.is_inexact(type_of(x).dtype):
        return arithmetic.pow(x, y)
    return _integer_to_integer(x, y)


@numpy_function(static="x")
def _power_of_number(x: int, y: ArrayLike) -> Any:
    """Powers of a Python number that is 0 or, but for its sign, a power of two: its squares soon are 0 or 1."""
    return _integer_to_integer(*promote_arguments_numeric("power", x, y), number=x)


def _integer_to_integer(x: ArrayLike, y: ArrayLike, *, number: int | None = None) -> Any:
    """`x ** y` of integers: square and multiply over the bits of `y`, as long as the squares of a known `number` aren't 0 or 1."""
    dtype = type_of(x).dtype
    bits = dtype.itemsize * 8 - (not dtype.name.startswith("u"))
    one, zero = _scalar_like(1, x), _scalar_like(0, x)
    shape = broadcast_shapes(type_of(x).shape, type_of(y).shape)
    result = broadcast_in_dim(one, shape, ())
    for _ in range(bits):
        if number == 1:
            break
        if number == 0:
            return select_cases(logical.eq(y, zero), result, broadcast_in_dim(zero, shape, ()))
        odd = logical.ne(logical.bitwise_and(y, one), zero)
        result = select_cases(odd, arithmetic.mul(result, x), result)
        if number is None:
            x = arithmetic.mul(x, x)
        else:
            number = square = number * number % 2 ** (8 * dtype.itemsize)
            x = _scalar_like(square, x)
        y = logical.shift_right_logical(y, one)
    return result


float_power = _binary(
    "float_power",
    arithmetic.pow,
    promote_arguments_inexact,
    "`x` to the power of `y`, floating or complex.",
)


@numpy_function
def clip(arr: Any = None, /, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Any:
    """`arr` with values below `min` raised to it and values above `max` lowered to it.

    Result: shape that the arguments broadcast to; dtype that they promote to. A bound that is None leaves that side
    open.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ArgumentValueError for complex numbers,
    ShapeError for shapes that don't broadcast.

    >>> clip(np.array([-1, 5, 12]), 0, 10)
    Array([ 0,  5, 10], dtype=int32)
    """
    operands = [x for x in (arr, min, max) if x is not None]
    check_real("clip", *operands)
    check_promotion("clip", *operands)
    if min is not None:
        arr = maximum(min, arr)
    if max is not None:
        arr = minimum(max, arr)
    return arr


@numpy_function
def nan_to_num(
    x: ArrayLike,
    copy: bool = True,
    nan: ArrayLike = 0.0,
    posinf: ArrayLike | None = None,
    neginf: ArrayLike | None = None,
) -> Any:
    """`x` with NaN and infinities replaced: by `nan`, and by the largest finite numbers or those given.

    Result: shape and dtype of `x`; integers and bools stay as they are. Complex numbers are replaced part by part.
    `copy` has no effect: `x` itself never changes.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ShapeError for replacements that don't
    broadcast to `x`.

    >>> nan_to_num(np.array([np.nan, np.inf, 1.0]), posinf=9.0)
    Array([0., 9., 1.], dtype=float32)
    """
    del copy
    aval = aval_of("nan_to_num", x)
    if not dtypes.is_inexact(aval.dtype):
        return x
    if aval.dtype.kind == "c":
        return conversion.complex(
            nan_to_num(conversion.real(x), True, nan, posinf, neginf),
            nan_to_num(conversion.imag(x), True, nan, posinf, neginf),
        )
    limits = dtypes.finfo(aval.dtype)
    posinf = limits.max if posinf is None else posinf
    neginf = limits.min if neginf is None else neginf
    x = select_cases(logical.ne(x, x), convert(nan, type_of(nan), aval.dtype), x)
    x = select_cases(
        logical.eq(x, constant_like(x, np.inf)), convert(posinf, type_of(posinf), aval.dtype), x
    )
    return select_cases(
        logical.eq(x, constant_like(x, -np.inf)), convert(neginf, type_of(neginf), aval.dtype), x
    )


# Comparison and logic -------------------------------------------------------------------------------


def _lexical_comparison(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """`compare` for all numbers: complex ones by their real parts, then by their imaginary parts."""

    def apply(x: ArrayLike, y: ArrayLike) -> Any:
        if not is_complex(x):
            return compare(x, y)
        rx, ry = conversion.real(x), conversion.real(y)
        ix, iy = conversion.imag(x), conversion.imag(y)
        return select_cases(logical.eq(rx, ry), compare(ix, iy), compare(rx, ry))

    return apply


equal = _binary(
    "equal",
    logical.eq,
    promote_arguments,
    "Whether `x` equals `y`.",
    dtype="bool",
    refused="random keys beside numbers",
)
not_equal = _binary(
    "not_equal",
    logical.ne,
    promote_arguments,
    "Whether `x` differs from `y`.",
    dtype="bool",
    refused="random keys beside numbers",
)
less = _binary(
    "less",
    _lexical_comparison(logical.lt),
    promote_arguments,
    "Whether `x` is below `y`.",
    dtype="bool",
)
less_equal = _binary(
    "less_equal",
    _lexical_comparison(logical.le),
    promote_arguments,
    "Whether `x` is not above `y`.",
    dtype="bool",
)
greater = _binary(
    "greater",
    _lexical_comparison(logical.gt),
    promote_arguments,
    "Whether `x` is above `y`.",
    dtype="bool",
)
greater_equal = _binary(
    "greater_equal",
    _lexical_comparison(logical.ge),
    promote_arguments,
    "Whether `x` is not below `y`.",
    dtype="bool",
)


def _as_bools(name: str, *operands: ArrayLike) -> list[Any]:
    bools = []
    for i, x in enumerate(operands):
        aval = number_type(name, x, i)
        bools.append(x if aval.dtype == np.bool_ else logical.ne(x, scalar(0, aval.dtype)))
    check_promotion(name, *operands)
    return promote_shapes(name, *bools)


logical_and = _binary(
    "logical_and",
    logical.bitwise_and,
    _as_bools,
    "Whether both `x` and `y` are nonzero.",
    dtype="bool",
)
logical_or = _binary(
    "logical_or",
    logical.bitwise_or,
    _as_bools,
    "Whether `x` or `y` is nonzero.",
    dtype="bool",
)
logical_xor = _binary(
    "logical_xor",
    logical.bitwise_xor,
    _as_bools,
    "Whether exactly one of `x` and `y` is nonzero.",
    dtype="bool",
)
logical_not = _unary(
    "logical_not", logical.bitwise_not, _as_bools, "Whether `x` is zero.", dtype="bool"
)


def _integers(name: str, *operands: ArrayLike) -> list[Any]:
    promoted = promote_arguments(name, *operands)
    aval = type_of(promoted[0])
    if dtypes.is_inexact(aval.dtype):
        raise DtypeError(
            f"jnp.{name} needs integers or bools.",
            got=operand_lines(operands),
            do="Convert with `.astype(int)`, or view the bits with `lax.bitcast_convert_type`.",
        )
    return promoted


def _numeric_integers(name: str, *operands: ArrayLike) -> list[Any]:
    return promote_arguments_numeric(name, *_integers(name, *operands))


bitwise_and = _binary(
    "bitwise_and",
    logical.bitwise_and,
    _integers,
    "Bits set in both `x` and `y`.",
    refused="floating and complex numbers",
)
bitwise_or = _binary(
    "bitwise_or",
    logical.bitwise_or,
    _integers,
    "Bits set in `x` or `y`.",
    refused="floating and complex numbers",
)
bitwise_xor = _binary(
    "bitwise_xor",
    logical.bitwise_xor,
    _integers,
    "Bits set in exactly one of `x` and `y`.",
    refused="floating and complex numbers",
)
invert = _unary(
    "invert",
    logical.bitwise_not,
    _integers,
    "Bits not set in `x`.",
    refused="floating and complex numbers",
)
bitwise_not = alias(invert, "bitwise_not")
bitwise_invert = alias(invert, "bitwise_invert")
bitwise_count = _unary(
    "bitwise_count", lambda x: _count_bits(x), _integers,
    "Number of bits set in the absolute value of `x`.", dtype="uint8", refused="floating and complex numbers")  # fmt: skip


def _count_bits(x: ArrayLike) -> Any:
    aval = type_of(x)
    if aval.dtype != np.bool_:
        x = logical.population_count(x if aval.dtype.name.startswith("u") else arithmetic.abs(x))
    return convert_element_type(x, np.dtype(np.uint8))


left_shift = _binary(
    "left_shift",
    logical.shift_left,
    _numeric_integers,
    "Bits of `x` moved left by `y`.",
    refused="floating and complex numbers",
)
bitwise_left_shift = alias(left_shift, "bitwise_left_shift")


def _shift_right(x: ArrayLike, y: ArrayLike) -> Any:
    unsigned = type_of(x).dtype.name.startswith("u")
    return (logical.shift_right_logical if unsigned else logical.shift_right_arithmetic)(x, y)


right_shift = _binary(
    "right_shift",
    _shift_right,
    _numeric_integers,
    "Bits of `x` moved right by `y`; the sign is kept.",
    refused="floating and complex numbers",
)
bitwise_right_shift = alias(right_shift, "bitwise_right_shift")


__all__ = [
    "abs", "absolute", "acos", "acosh", "add", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2",
    "arctanh", "around", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_count",
    "bitwise_invert", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "cbrt", "ceil", "clip", "cos", "cosh", "deg2rad", "degrees", "divide", "divmod", "equal", "exp", "exp2",
    "expm1", "fabs", "float_power", "floor", "floor_divide", "fmod", "greater", "greater_equal", "invert",
    "left_shift", "less", "less_equal", "log", "log10", "log1p", "log2", "logical_and", "logical_not",
    "logical_or", "logical_xor", "maximum", "minimum", "mod", "multiply", "nan_to_num", "negative",
    "nextafter", "not_equal", "positive", "pow", "power", "rad2deg", "radians", "reciprocal", "remainder",
    "right_shift", "rint", "round", "sign", "sin", "sinh", "sqrt", "square", "subtract", "tan", "tanh",
    "true_divide", "trunc",
]  # fmt: skip

public_functions(__all__, globals())
