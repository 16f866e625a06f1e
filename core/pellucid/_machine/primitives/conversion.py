"""Conversion: dtypes, real and imaginary parts, bitcasts, reduced precision, and copies."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple, TypeVar

import numpy as np

from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    DtypeError,
    DTypeLike,
    ShapeError,
    Size,
    Symbol,
    dtypes,
    tree,
)
from pellucid._machine.base.dtypes import ExtendedDType
from pellucid._machine.ir import (
    ARITHMETIC,
    MOVEMENT,
    Avals,
    Folds,
    Linear,
    Primitive,
    Traits,
    physical,
    shaped_array,
    with_mark,
    words,
)
from pellucid._machine.tracing import bind, bind1, context, type_of
from pellucid._machine.xla import Array

from .families import (
    ANY_OR_KEY,
    COMPLEX,
    FLOATING,
    Elementwise,
    LinearElementwise,
    constant_like,
    kind_of,
    scalar,
    zero_of,
)
from .movement import Identity, move_axis

T = TypeVar("T")


def real_dtype(dtype: Any) -> np.dtype:
    """The dtype of the parts of a complex `dtype`; any other `dtype` unchanged."""
    return dtypes.to_floating_dtype(dtype) if dtype.kind == "c" else dtype


def complex_dtype(dtype: Any, *_: Any) -> np.dtype:
    """The complex dtype whose parts have `dtype`; raises DtypeError unless that is float32 or float64."""
    if dtype.name not in ("float32", "float64"):
        raise DtypeError(
            f"no complex numbers have parts of dtype {dtype.name}.",
            do="Convert to float32 or float64 first.",
        )
    return dtypes.to_complex_dtype(dtype)


def real(x: ArrayLike) -> Array:
    """Real part of complex `x`, element by element.

    The result has the shape of `x`, and the floating-point dtype of its parts.
    Raises: DtypeError for elements that are not complex, ArgumentTypeError for lists and strings.
    Source: StableHLO specification, `real`.

    >>> real(np.complex64(1 + 2j))
    Array(1., dtype=float32)
    """
    return bind1(real_p, x)


def imag(x: ArrayLike) -> Array:
    """Imaginary part of complex `x`, element by element.

    The result has the shape of `x`, and the floating-point dtype of its parts.
    Raises: DtypeError for elements that are not complex, ArgumentTypeError for lists and strings.
    Source: StableHLO specification, `imag`.

    >>> imag(np.complex64(1 + 2j))
    Array(2., dtype=float32)
    """
    return bind1(imag_p, x)


def complex(x: ArrayLike, y: ArrayLike) -> Array:
    """The complex numbers `x + iy`; both parts are float32, or both float64.

    The result is complex64 or complex128. Shapes are equal, up to scalars and dimensions of size 1, and broadcast to
    the shape of the result.
    Raises: DtypeError for other dtypes or two different ones, ShapeError for shapes that do not fit, ArgumentTypeError
    for lists and strings.
    Source: StableHLO specification, `complex`.

    >>> complex(np.float32(1), np.float32(2))
    Array(1.+2.j, dtype=complex64)
    """
    return bind1(complex_p, x, y)


# A real-linear map T is transposed by ⟨T x, y⟩ = ⟨x, Tᵀ y⟩ with ⟨x, y⟩ = Re Σ x y, so that Tᵀ has no
# conjugate where T is complex-linear: realᵀ y = y, imagᵀ y = -i y, conjᵀ y = conj y.
real_p: Elementwise = LinearElementwise(
    "real",
    ARITHMETIC.replace(flops=0.0, linear="all", cheap=True),
    COMPLEX,
    result=real_dtype,
    transposes=(lambda c, x: complex(c, constant_like(c, 0)),),
)
imag_p: Elementwise = LinearElementwise(
    "imag",
    ARITHMETIC.replace(flops=0.0, linear="all", cheap=True),
    COMPLEX,
    result=real_dtype,
    transposes=(lambda c, x: conj(complex(constant_like(c, 0), c)),),
)
complex_p: Elementwise = Elementwise(
    "complex",
    ARITHMETIC.replace(flops=0.0, linear="all"),
    FLOATING,
    result=complex_dtype,
    tangents=(
        lambda t, z, x, y: complex(t, constant_like(t, 0)),
        lambda t, z, x, y: complex(constant_like(t, 0), t),
    ),
    transposes=(lambda c, x, y: real(c), lambda c, x, y: imag(conj(c))),
)


# conj ---------------------------------------------------------------------------------------------


class ConjParams(NamedTuple):
    """`input_dtype`: the operand's dtype, to which the cotangent is converted; a real operand gets the real part."""

    input_dtype: Any


def conj(x: ArrayLike) -> Array:
    """Complex conjugate of `x`, element by element; a real `x` becomes complex.

    Takes complex, float32 or float64 elements; the result has the shape of `x` and a complex dtype.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings.

    >>> conj(np.complex64(1 + 2j))
    Array(1.-2.j, dtype=complex64)
    """
    return bind1(conj_p, x, params=ConjParams(type_of(x).dtype))


def _lower_conj(ctx, operands, params: ConjParams):
    result = ctx.avals_out[0]
    part = shaped_array(result.shape, real_dtype(result.dtype))
    if kind_of(params.input_dtype) == "floating":
        return ctx.op1("stablehlo.complex", result, [operands[0], ctx.full(part, 0)])
    x = ctx.op1("stablehlo.real", part, operands)
    y = ctx.op1("stablehlo.negate", part, [ctx.op1("stablehlo.imag", part, operands)])
    return ctx.op1("stablehlo.complex", result, [x, y])


def _conj_transpose(c, x, *, params: ConjParams):
    back = conj(c)
    return real(back) if kind_of(params.input_dtype) == "floating" else back


conj_p: Elementwise = LinearElementwise(
    "conj",
    ARITHMETIC.replace(linear="all"),
    COMPLEX | FLOATING,
    _lower_conj,
    result=lambda dtype, params: dtype if dtype.kind == "c" else complex_dtype(dtype),
    transposes=(_conj_transpose,),
    rules_take_params=True,
)


# convert_element_type -----------------------------------------------------------------------------


class ConvertElementTypeParams(NamedTuple):
    new_dtype: Any
    weak_type: bool
    sharding: Any = None


def convert_element_type(
    operand: ArrayLike, new_dtype: DTypeLike | ExtendedDType, weak_type: bool = False
) -> Array:
    """`operand` with its elements converted to `new_dtype`.

    Floating numbers are cut towards zero to become integers, numbers other than zero become True, and of
    complex numbers only the real part is kept, with a warning. `weak_type` makes the result weakly typed.

    The result has the shape of `operand`.
    Raises: DtypeError for a `new_dtype` that isn't a dtype, and for PRNG keys, ArgumentTypeError for lists and strings.
    Source: StableHLO specification, `convert`.

    >>> convert_element_type(np.float32(1.7), np.int32)
    Array(1, dtype=int32)
    """
    dtype = dtypes.check_user_dtype(new_dtype, "convert_element_type")
    aval = type_of(operand)
    is_value = hasattr(operand, "aval") or not context.trace.is_eager
    if is_value and aval.dtype == dtype and aval.weak_type == weak_type:
        return operand  # pyright: ignore[reportReturnType]  # as it was given
    if kind_of(aval.dtype) == "complex" and kind_of(dtype) not in ("complex", "key"):
        warnings.warn(
            "Casting complex values to real discards the imaginary part.",
            np.exceptions.ComplexWarning,
            stacklevel=2,
        )
    return convert_quietly(operand, dtype, weak_type)  # pyright: ignore[reportArgumentType]


def convert_quietly(operand: Any, dtype: np.dtype, weak_type: bool = False) -> Any:
    """`operand` converted to `dtype` without the warnings that users get; for derivative rules."""
    is_of_numpy = isinstance(operand, (np.ndarray, np.generic)) and not weak_type
    if is_of_numpy and dtypes.canonicalize(dtype) != dtype:
        return scalar(operand, dtype)  # not through the 32 bits that values of NumPy count for
    params = ConvertElementTypeParams(dtype, weak_type)
    return bind1(convert_element_type_p, operand, params=params)


def size_scalar(size: Size, dtype: Any) -> Any:
    """A size as a scalar of `dtype`: a NumPy scalar where it is an integer."""
    return convert_quietly(size, dtype) if isinstance(size, Symbol) else scalar(size, dtype)


class ConvertElementType(Folds, Elementwise[ConvertElementTypeParams]):
    """The reference's `convert_element_type`."""

    def abstract_eval(self, avals, params):
        [x] = avals
        if x.dtype != params.new_dtype and not _converts(x.dtype, params.new_dtype):
            raise DtypeError(
                "values of an extended dtype can't be converted, nor other values to it.",
                got=f"operand: {x.text()}, new_dtype: {params.new_dtype}",
                do="For keys use `random.key_data` and `random.wrap_key_data`; a dtype of a library has rules for others.",
            )
        return [shaped_array(x.shape, params.new_dtype, params.weak_type)]

    def fold(self, operands, params):
        # No equation if the operand has the type already, or is a host number and the type of its kind or a wider one.
        [x], dtype = operands, params.new_dtype
        aval = type_of(x)
        if aval.dtype == dtype and aval.weak_type == params.weak_type:
            return [x]
        is_number = not hasattr(x, "aval") and aval.shape == () and isinstance(dtype, np.dtype)
        is_number = is_number and not isinstance(x, Symbol)
        if not is_number or not np.can_cast(aval.dtype, dtype, "same_kind"):
            return None
        number = np.asarray(x, aval.dtype).astype(dtype)
        literal = number.item() if params.weak_type else number
        return [literal] if type_of(literal).dtype == dtype else None

    def jvp(self, primals, tangents, params):
        y = bind1(self, primals[0], params=params)
        tangent = type_of(y).tangent()
        if tangent.dtype == dtypes.float0:
            return [y], [zero_of(y)]
        return [y], [convert_quietly(tangents[0], tangent.dtype, tangent.weak_type)]


def _converts(source, target) -> bool:
    """Whether elements can be converted between two dtypes, as the rules of an extended dtype decide."""
    if rules := getattr(source, "_rules", None):
        return rules.convert_from(source, target)
    if rules := getattr(target, "_rules", None):
        return rules.convert_to(source, target)
    return "key" not in (kind_of(source), kind_of(target))


def _lower_convert(ctx, operands, params: ConvertElementTypeParams):
    [x], [aval], result = operands, ctx.avals_in, ctx.avals_out[0]
    if physical(aval).dtype == physical(result).dtype:
        return x
    if kind_of(aval.dtype) == "complex" and kind_of(result.dtype) != "complex":
        aval = shaped_array(aval.shape, real_dtype(aval.dtype))
        x = ctx.op1("stablehlo.real", aval, [x])
        if aval.dtype == result.dtype:
            return x
    if result.dtype == np.bool_:
        return ctx.compare(x, ctx.full(aval, 0), "NE", aval)
    return ctx.convert(x, result)


def _linear_conversion(avals: Avals, params: ConvertElementTypeParams) -> Linear | None:
    """A sum of converted addends is the converted sum, but for rounding, only between inexact dtypes."""
    kinds = {kind_of(params.new_dtype), kind_of(avals[0].dtype)}
    return "all" if kinds <= FLOATING | COMPLEX else None


convert_element_type_p = ConvertElementType(
    "convert_element_type",
    Traits(kind="movement", flops=1.0, linear=_linear_conversion, cheap=True),
    ANY_OR_KEY,
    _lower_convert,
    transposes=(lambda c, x: convert_quietly(c, x.aval.dtype, x.aval.weak_type),),
)


# bitcast_convert_type -----------------------------------------------------------------------------


class BitcastParams(NamedTuple):
    new_dtype: Any


def bitcast_convert_type(operand: ArrayLike, new_dtype: DTypeLike | ExtendedDType) -> Array:
    """The bits of `operand` read as elements of `new_dtype`.

    To a dtype `n` times narrower, the result has a new last axis of size `n`; to one `n` times wider, the
    last axis must have size `n` and disappears. Bool has no bits to read.

    Raises: DtypeError for a `new_dtype` that isn't a dtype, and for bool, complex or PRNG keys; ShapeError for a last
    axis of another size; ArgumentTypeError for lists and strings.
    Source: StableHLO specification, `bitcast_convert`.

    >>> bitcast_convert_type(np.float32(1), np.int32)
    Array(1065353216, dtype=int32)
    """
    dtype = dtypes.check_user_dtype(new_dtype, "bitcast_convert_type")
    return bind1(bitcast_convert_type_p, operand, params=BitcastParams(dtype))


class BitcastConvertType(Primitive[BitcastParams]):
    name = "bitcast_convert_type"
    traits = MOVEMENT.replace(linear=None)

    def abstract_eval(self, avals, params):
        [x] = avals
        if x.dtype == params.new_dtype:
            return [shaped_array(x.shape, x.dtype)]
        kinds = {kind_of(x.dtype), kind_of(params.new_dtype)}
        if kinds & {"bool", "key"} or (len(kinds) > 1 and "complex" in kinds):
            raise DtypeError(
                f"bitcast_convert_type can't read {dtypes.short_name(x.dtype)} as "
                f"{dtypes.short_name(params.new_dtype)}.",
                got=f"operand: {x.text()}",
                do="Bools can be converted with `.astype`; complex numbers have `lax.real` and `lax.imag`.",
            )
        old_bits, new_bits = dtypes.itemsize_bits(x.dtype), dtypes.itemsize_bits(params.new_dtype)
        if old_bits == new_bits:
            shape = x.shape
        elif old_bits > new_bits and old_bits % new_bits == 0:
            shape = (*x.shape, old_bits // new_bits)
        elif x.shape and new_bits == old_bits * x.shape[-1]:
            shape = x.shape[:-1]
        else:
            raise ShapeError(
                f"bitcast_convert_type can't read elements of {old_bits} bits as elements of {new_bits}.",
                got=f"operand: {x.text()}",
                do=f"The last axis must have size {new_bits / old_bits:g}.",
            )
        return [shaped_array(shape, params.new_dtype)]

    def factors(self, avals, results, params):
        n, m = avals[0].ndim, results[0].ndim
        dims = with_mark(words(max(n, m)), [m] if n > m else [], "!")
        return [dims[:n]], [dims[:m]]

    def jvp(self, primals, tangents, params):
        y = bind1(self, primals[0], params=params)
        return [y], [zero_of(y)]

    def batch(self, axis, operands, dims, params):
        # The last axis is split or merged where the width changes.
        x = move_axis(operands[0], dims[0], 0)
        return bind(self, x, params=params), [0]

    def lower(self, ctx, operands, params):
        [x], [result] = ctx.avals_in, ctx.avals_out
        if x.shape != result.shape:
            ctx.refuse_symbols("every size, where elements change their width,", x.shape)
        return [ctx.op1("stablehlo.bitcast_convert", result, operands)]


bitcast_convert_type_p = BitcastConvertType()


# reduce_precision ---------------------------------------------------------------------------------


class ReducePrecisionParams(NamedTuple):
    exponent_bits: int
    mantissa_bits: int


def reduce_precision(operand: ArrayLike, exponent_bits: int, mantissa_bits: int) -> Array:
    """`operand` rounded to a format with fewer bits, but stored in its own dtype.

    The result has the shape and the floating-point dtype of `operand`.
    Raises: DtypeError for other elements, ArgumentValueError for fewer than one bit of exponent or a negative number of
    bits of mantissa, ArgumentTypeError for lists and strings.
    Source: StableHLO specification, `reduce_precision`.

    >>> reduce_precision(np.float32(1.1), 5, 2)
    Array(1., dtype=float32)
    """
    if exponent_bits < 1 or mantissa_bits < 0:
        raise ArgumentValueError(
            "reduce_precision needs at least 1 exponent bit and at least 0 mantissa bits.",
            got=f"exponent_bits: {exponent_bits}, mantissa_bits: {mantissa_bits}",
        )
    params = ReducePrecisionParams(int(exponent_bits), int(mantissa_bits))
    return bind1(reduce_precision_p, operand, params=params)


def _lower_reduce_precision(ctx, operands, params: ReducePrecisionParams):
    attributes = {name: ctx.integer(value, 32) for name, value in params._asdict().items()}
    return ctx.as_result("stablehlo.reduce_precision", operands, attributes)


def _reduce_precision(t, *_, params: ReducePrecisionParams):
    return bind1(reduce_precision_p, t, params=params)


def _reduced_cotangent(ct, *_, params: ReducePrecisionParams):
    # Rounding doesn't commute with sums, so addends stay as they are.
    shown = type_of(ct).shown_sharding
    return (
        ct if shown is not None and shown.spec.unreduced else _reduce_precision(ct, params=params)
    )


# Rounding has no useful derivative; tangents and cotangents are rounded as the values are.
reduce_precision_p: Elementwise = Elementwise(
    "reduce_precision",
    ARITHMETIC,
    FLOATING,
    _lower_reduce_precision,
    tangents=(_reduce_precision,),
    transposes=(_reduced_cotangent,),
    rules_take_params=True,
)


# copy and stop_gradient ---------------------------------------------------------------------------


class Copy(Identity):
    """Copies a value to another buffer."""

    name = "copy"


copy_p = Copy()


def copy(x: Any) -> Any:
    """`x` in a buffer of its own.

    >>> copy(np.float32(1))
    Array(1., dtype=float32)
    """
    return bind1(copy_p, x)


def stop_gradient(x: T) -> T:
    """`x`, whose derivative counts as zero; `x` may be a tree of arrays.

    The result has the structure, the shapes and the dtypes of `x`.
    Raises: ArgumentTypeError for leaves that aren't arrays or numbers.

    >>> stop_gradient(np.float32(1))
    Array(1., dtype=float32)
    """
    return tree.tree_map(lambda leaf: bind1(stop_gradient_p, leaf), x)


stop_gradient_p = Elementwise(
    "stop_gradient",
    MOVEMENT,
    ANY_OR_KEY,
    lambda ctx, operands, params: operands[0],
    tangents=(None,),
)


def dtype(x: Any) -> dtypes.DType | dtypes.ExtendedDType:
    """The dtype that `x` has as an operand; a dtype is its own.

    Raises: DtypeError for strings that name no dtype, ArgumentTypeError for lists.

    >>> dtype(1.0), dtype("int8")
    (dtype('float32'), dtype('int8'))
    """
    if isinstance(x, (np.dtype, type, str, dtypes.ExtendedDType)):
        return dtypes.check_user_dtype(x, "dtype")
    return type_of(x).dtype
