"""Contraction: sums of products of two arrays over paired axes, and how exactly they are computed."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from pellucid._machine.base import (
    ArgumentValueError,
    Axes,
    CompilationError,
    DtypeError,
    Ints,
    ShapeError,
    config,
    dtypes,
    ints,
    strict_zip,
)
from pellucid._machine.ir import (
    Avals,
    Dims,
    LaidOut,
    Linear,
    Operands,
    P,
    ShapedArray,
    Shown,
    Traits,
    Zero,
    is_linear,
    shaped_array,
    with_mark,
    words,
)
from pellucid._machine.lowering.faults import UNEVEN_ROUNDED_PRODUCT
from pellucid._machine.sharding.explicit_types import cotangent_sharding
from pellucid._machine.tracing import bind, bind1, type_of

from .conversion import convert_element_type, real
from .counts import dot_operations
from .families import ANY, check_elements
from .linear import JointlyLinear
from .movement import inverse_permutation, other_axes, shifted, transpose

DType = np.dtype[Any]


class Precision(enum.Enum):
    """How much of the operands' precision a product keeps, on hardware that offers a choice.

    Members are also found by the names of what they mean for float32: `Precision("tensorfloat32")`.

    >>> Precision("float32")
    Precision.HIGHEST
    """

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2

    @classmethod
    def _missing_(cls, value: object) -> Precision | None:
        return _BY_NAME.get(value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __str__(self) -> str:
        return self.name


_BY_NAME: dict[Any, Precision] = {
    "highest": Precision.HIGHEST, "float32": Precision.HIGHEST,
    "high": Precision.HIGH, "bfloat16_3x": Precision.HIGH, "tensorfloat32": Precision.HIGH,
    "default": Precision.DEFAULT, "bfloat16": Precision.DEFAULT, "fastest": Precision.DEFAULT,
    None: Precision.DEFAULT,
}  # fmt: skip


class DotAlgorithm(NamedTuple):
    """The steps by which a device computes `dot_general`; devices support few of the combinations.

    Source: StableHLO specification, `dot_general`, `algorithm`.

    >>> DotAlgorithm(np.float32, np.float32, np.float32).num_primitive_operations
    1
    """

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False


_F8_OUTPUTS = (
    np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e5m2fnuz, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e4m3b11fnuz,
)  # fmt: skip


class _Recipe(NamedTuple):
    """The algorithm of a preset. `precision_type` None is the operands' dtype."""

    precision_type: Any = None
    accumulation_type: Any = None
    operations: int = 1
    imprecise: bool = False
    inputs: tuple[Any, ...] | None = None
    """Dtypes in which operands may be stored; others are converted to the first."""
    outputs: tuple[Any, ...] | None = None
    """Dtypes in which the device can give the result; it is converted from the first to others."""


def _recipe(precision, accumulation, inputs: Sequence[Any], operations: int = 1) -> _Recipe:
    return _Recipe(precision, accumulation, operations, False, tuple(inputs), (accumulation,))


_BF16, _F16, _F32, _F64 = ml_dtypes.bfloat16, np.float16, np.float32, np.float64
_RECIPES = {
    "DEFAULT": _Recipe(),
    "ANY_F8_ANY_F8_F32": _Recipe(None, _F32, outputs=_F8_OUTPUTS),
    "ANY_F8_ANY_F8_F32_FAST_ACCUM": _Recipe(None, _F32, imprecise=True, outputs=_F8_OUTPUTS),
    "ANY_F8_ANY_F8_ANY": _Recipe(),
    "ANY_F8_ANY_F8_ANY_FAST_ACCUM": _Recipe(imprecise=True),
    "F16_F16_F16": _recipe(_F16, _F16, [_F16]),
    "F16_F16_F32": _recipe(_F16, _F32, [_F16]),
    "BF16_BF16_BF16": _recipe(_BF16, _BF16, [_BF16, _F32]),
    "BF16_BF16_F32": _recipe(_BF16, _F32, [_BF16, _F32]),
    "BF16_BF16_F32_X3": _recipe(_BF16, _F32, [_F32], 3),
    "BF16_BF16_F32_X6": _recipe(_BF16, _F32, [_F32], 6),
    "BF16_BF16_F32_X9": _recipe(_BF16, _F32, [_F32], 9),
    "TF32_TF32_F32": _recipe("tf32", _F32, [_F32]),
    "TF32_TF32_F32_X3": _recipe("tf32", _F32, [_F32], 3),
    "F32_F32_F32": _recipe(_F32, _F32, [_F32]),
    "F64_F64_F64": _recipe(_F64, _F64, [_F64]),
}
_ON_CPU = {
    "DEFAULT", "F16_F16_F16", "F32_F32_F32", "F64_F64_F64", "BF16_BF16_F32", "BF16_BF16_F32_X3",
    "BF16_BF16_F32_X6",
}  # fmt: skip


class DotAlgorithmPreset(enum.Enum):
    """Algorithms for `dot_general` that devices support, named `LHS_RHS_ACCUMULATION`.

    `_X3`, `_X6` and `_X9` count the products into which one of higher precision is split.

    >>> DotAlgorithmPreset.BF16_BF16_F32.accumulation_type
    <class 'numpy.float32'>
    """

    DEFAULT = 1
    ANY_F8_ANY_F8_F32 = 2
    ANY_F8_ANY_F8_F32_FAST_ACCUM = 3
    ANY_F8_ANY_F8_ANY = 4
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = 5
    F16_F16_F16 = 6
    F16_F16_F32 = 7
    BF16_BF16_BF16 = 8
    BF16_BF16_F32 = 9
    BF16_BF16_F32_X3 = 10
    BF16_BF16_F32_X6 = 11
    BF16_BF16_F32_X9 = 12
    TF32_TF32_F32 = 13
    TF32_TF32_F32_X3 = 14
    F32_F32_F32 = 15
    F64_F64_F64 = 16

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __str__(self) -> str:
        return self.name

    @property
    def supported_lhs_types(self) -> tuple[Any, ...] | None:
        """Dtypes in which the operand of that side may be stored; None for any."""
        return _RECIPES[self.name].inputs

    supported_rhs_types = supported_lhs_types

    @property
    def accumulation_type(self) -> Any:
        """Dtype of the sums; None where the device chooses."""
        return _RECIPES[self.name].accumulation_type

    def supported_output_types(self, lhs_dtype: Any, rhs_dtype: Any) -> tuple[Any, ...] | None:
        """Dtypes in which the device can give the result for such operands; None for any."""
        recipe = _RECIPES[self.name]
        if (
            recipe.outputs == (_F32,)
            and recipe.operations == 1
            and recipe.precision_type in (_F16, _BF16)
        ):
            stored = np.dtype(recipe.precision_type)
            if np.dtype(lhs_dtype) == stored == np.dtype(rhs_dtype):
                return (_F32, recipe.precision_type)
        return recipe.outputs


PrecisionLike = Any
"""None, a `Precision` or its name, two of them, a `DotAlgorithm`, or a `DotAlgorithmPreset` or its name."""

CanonicalPrecision = None | tuple[Precision, Precision] | DotAlgorithm | DotAlgorithmPreset


def canonical_precision(precision: PrecisionLike, caller: str) -> CanonicalPrecision:
    """`precision` in the form that params hold; None asks the option `default_matmul_precision`.

    Raises ArgumentValueError for what describes no precision.
    """
    if precision is None:
        precision = config.default_matmul_precision.value
        if precision is None:
            return None
    if isinstance(precision, (DotAlgorithm, DotAlgorithmPreset)):
        return precision
    pair = precision if isinstance(precision, (tuple, list)) else (precision, precision)
    levels: Any = [_BY_NAME.get(p) if isinstance(p, str) else p for p in pair]
    if (
        len(levels) == 2
        and len({*map(type, pair)}) == 1
        and all(isinstance(p, Precision) for p in levels)
    ):
        return levels[0], levels[1]
    if isinstance(precision, str) and precision in _RECIPES:
        return DotAlgorithmPreset[precision]
    names = ", ".join(repr(name) for name in _BY_NAME if name is not None)
    raise ArgumentValueError(
        f"{caller}: this is no precision.",
        got=f"precision: {precision!r}",
        do=f"Pass None, a lax.Precision or one of {names}, two of either, "
        "or a lax.DotAlgorithmPreset, its name, or a lax.DotAlgorithm.",
    )


def precision_attribute(ctx: Any, precision: CanonicalPrecision, dialect: str = "stablehlo") -> Any:
    """The `precision_config` of a product."""
    pair = precision if type(precision) is tuple else (Precision.DEFAULT, Precision.DEFAULT)
    return ctx.attribute("[" + ", ".join(f"#{dialect}<precision {p.name}>" for p in pair) + "]")


class AlgorithmPlan(NamedTuple):
    """How to lower a product by an algorithm: its attribute, and dtypes of operands and result."""

    attribute: Any
    operand_dtypes: tuple[DType, DType]
    result_dtype: DType


def plan_algorithm(
    ctx: Any, precision: CanonicalPrecision, lhs: DType, rhs: DType, result: DType
) -> AlgorithmPlan | None:
    """The plan of a product by the algorithm `precision`; None if it is no algorithm.

    Raises CompilationError where the platform lacks it, DtypeError for operands that it does not take.
    """
    if type(precision) is DotAlgorithm:
        if ctx.platform == "cpu" and not any(
            _same_algorithm(precision, _RECIPES[name]) for name in _ON_CPU
        ):
            raise _unsupported(precision, ctx.platform)
        return AlgorithmPlan(_attribute(ctx, precision), (lhs, rhs), result)
    if type(precision) is not DotAlgorithmPreset or precision is DotAlgorithmPreset.DEFAULT:
        return None
    if ctx.platform == "cpu" and precision.name not in _ON_CPU:
        raise _unsupported(precision, ctx.platform)
    recipe = _RECIPES[precision.name]
    if recipe.precision_type is None and not (is_float8(lhs) and is_float8(rhs)):
        raise DtypeError(
            f"dot_general by the algorithm {precision} needs float8 operands.",
            got=f"operands of {dtypes.short_name(lhs)} and {dtypes.short_name(rhs)}",
        )
    if result.kind == "c":
        raise DtypeError(
            f"dot_general by the algorithm {precision} needs real operands.",
            got=f"result of {dtypes.short_name(result)}",
            do="Multiply real and imaginary parts, or ask for a lax.Precision.",
        )
    stored = [_first_unless(dtype, recipe.inputs) for dtype in (lhs, rhs)]
    algorithm = DotAlgorithm(
        recipe.precision_type or lhs, recipe.precision_type or rhs, recipe.accumulation_type or _F32,
        num_primitive_operations=recipe.operations, allow_imprecise_accumulation=recipe.imprecise,
    )  # fmt: skip
    result_dtype = _first_unless(result, precision.supported_output_types(*stored))
    return AlgorithmPlan(_attribute(ctx, algorithm), (stored[0], stored[1]), result_dtype)


def _first_unless(dtype: DType, allowed: tuple[Any, ...] | None) -> DType:
    """`dtype` if it is among `allowed`, else the first of them."""
    if allowed is None or any(dtype == np.dtype(a) for a in allowed):
        return dtype
    return np.dtype(allowed[0])


def _same_algorithm(algorithm: DotAlgorithm, recipe: _Recipe) -> bool:
    if recipe.precision_type is None or recipe.precision_type == "tf32":
        return False
    return algorithm == DotAlgorithm(
        recipe.precision_type, recipe.precision_type, recipe.accumulation_type,
        num_primitive_operations=recipe.operations,
    )  # fmt: skip


def _unsupported(precision, platform: str) -> CompilationError:
    return CompilationError(
        f"dot_general can't run the algorithm {precision} on {platform}.",
        do=f"There it runs {', '.join(sorted(_ON_CPU))}.",
    )


def _attribute(ctx, algorithm: DotAlgorithm):
    def name(dtype: Any) -> str:
        return "tf32" if isinstance(dtype, str) else str(ctx.element_type(np.dtype(dtype)))

    imprecise = "true" if algorithm.allow_imprecise_accumulation else "false"
    return ctx.attribute(
        "#stablehlo.dot_algorithm<"
        f"lhs_precision_type = {name(algorithm.lhs_precision_type)}, "
        f"rhs_precision_type = {name(algorithm.rhs_precision_type)}, "
        f"accumulation_type = {name(algorithm.accumulation_type)}, "
        f"lhs_component_count = {algorithm.lhs_component_count}, "
        f"rhs_component_count = {algorithm.rhs_component_count}, "
        f"num_primitive_operations = {algorithm.num_primitive_operations}, "
        f"allow_imprecise_accumulation = {imprecise}>"
    )


def is_float8(dtype: DType) -> bool:
    """Whether `dtype` is a floating one of eight bits."""
    return dtype.name.startswith("float8")


# Dtypes of products -------------------------------------------------------------------------------


def component_bits(dtype: DType) -> int:
    """Bits of one element, of its real part if it is complex."""
    bits = 1 if dtype == np.bool_ else dtypes.itemsize_bits(dtype)
    return bits // 2 if dtype.kind == "c" else bits


def _rank(dtype: DType) -> tuple[Any, ...]:
    is_complex = dtype.kind == "c"
    real = dtypes.to_floating_dtype(dtype) if is_complex else dtype
    range_bits, fraction_bits = -1, -1
    if dtypes.is_inexact(real):
        limits = dtypes.finfo(real)
        range_bits, fraction_bits = limits.maxexp, limits.nmant
    return (
        is_complex,
        range_bits,
        fraction_bits,
        component_bits(dtype),
        not real.name.startswith("uint"),
    )


def product_dtype(lhs: DType, rhs: DType, preferred: DType | None, caller: str) -> DType:
    """Dtype of a sum of products: `preferred`, or that of the operand with the wider range.

    Complex is above floating, floating above integers; then range, fraction, bits, and signedness decide, as
    in XLA. Raises DtypeError for dtypes between which none of these decides, and for a `preferred` integer or complex dtype
    that is narrower than the product.
    """
    lhs_rank, rhs_rank = _rank(lhs), _rank(rhs)
    if lhs_rank == rhs_rank and lhs != rhs:
        raise DtypeError(
            f"{caller} can't choose between dtypes of equal range and precision.",
            got=f"operands of {dtypes.short_name(lhs)} and {dtypes.short_name(rhs)}",
            do="Convert one with `lax.convert_element_type`.",
        )
    dtype = lhs if lhs_rank >= rhs_rank else rhs
    if preferred is None:
        return dtype
    is_floating = dtypes.is_inexact(dtype) and dtype.kind != "c"
    if not is_floating and component_bits(preferred) < component_bits(dtype):
        raise DtypeError(
            f"{caller}: preferred_element_type must not be narrower than the product's dtype.",
            got=f"{dtypes.short_name(preferred)} for a product of {dtypes.short_name(dtype)}",
        )
    return preferred


def preferred_dtype(dtype: Any, caller: str) -> DType | None:
    """A user's `preferred_element_type` as params hold it."""
    return None if dtype is None else dtypes.check_user_dtype(dtype, caller)  # type: ignore[return-value]


DotDimensionNumbers = tuple[
    tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]
]
"""((contracted axes of lhs, of rhs), (batch axes of lhs, of rhs))."""
CanonicalDimensions = tuple[tuple[Axes, Axes], tuple[Axes, Axes]]


class DotGeneralParams(NamedTuple):
    dimension_numbers: CanonicalDimensions
    precision: CanonicalPrecision
    preferred_element_type: Any
    out_sharding: Any


class Bilinear(JointlyLinear[P]):
    """A primitive that is linear in each of its first two operands."""

    def operand_cotangents(self, cotangent, operands, params):
        side, *others = [i for i, x in enumerate(operands) if is_linear(x)]
        if others:
            raise self.missing("transpose")
        aval = operands[side].aval
        if type_of(cotangent).size == 0:
            return [*[None] * side, Zero(aval)]
        product = self.operand_cotangent(side, cotangent, operands, params)
        return [*[None] * side, converted(product, aval.dtype)]

    def operand_cotangent(self, side: int, cotangent: Any, operands: Operands, params: Any) -> Any:
        """Cotangent, of any dtype, of the first operand (`side` 0) or the second (1)."""
        raise self.missing("transpose")


def converted(x: Any, dtype: Any) -> Any:
    """`x` with elements of `dtype`; of complex ones the real part, if it is real."""
    if type_of(x).dtype.kind == "c" != dtype.kind:
        x = real(x)
    return x if type_of(x).dtype == dtype else convert_element_type(x, dtype)


def cotangent_preference(preferred: Any, operand_dtype: Any) -> Any:
    """The `preferred_element_type` of a product that is the cotangent of an operand.

    A preferred dtype that can't hold the operand's values (a real one for a complex operand) is let go.
    """
    return (
        None if preferred is not None and operand_dtype.kind == "c" != preferred.kind else preferred
    )


def _linear_product(avals: Avals, params: DotGeneralParams) -> Linear | None:
    # Products of floating numbers are rounded where integers are preferred.
    preferred = params.preferred_element_type
    is_rounded = preferred is not None and dtypes.is_inexact(avals[0].dtype) > dtypes.is_inexact(
        preferred
    )
    return None if is_rounded else "each"


class DotGeneral(Shown, LaidOut, Bilinear[DotGeneralParams]):
    name = "dot_general"
    says_nothing = (None,)
    traits = Traits(
        kind="contraction", flops=dot_operations, linear=_linear_product, makes_nan=True
    )

    def abstract_eval(self, avals, params):
        lhs, rhs = avals
        check_dimensions(lhs, rhs, params.dimension_numbers, "dot_general")
        dtype = product_dtype(lhs.dtype, rhs.dtype, params.preferred_element_type, "dot_general")
        weak_type = lhs.weak_type and rhs.weak_type
        return [
            shaped_array(
                dot_shape(lhs.shape, rhs.shape, params.dimension_numbers), dtype, weak_type
            )
        ]

    def factors(self, avals, results, params):
        (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = params.dimension_numbers
        lhs, rhs = words(avals[0].ndim), words(avals[1].ndim, avals[0].ndim)
        for i, j in strict_zip((*lhs_contract, *lhs_batch), (*rhs_contract, *rhs_batch)):
            rhs[j] = lhs[i]
        # The first operand decides along batch dimensions, as in the reference.
        lhs, rhs = with_mark(lhs, lhs_batch, "<"), with_mark(rhs, rhs_batch, "<")
        free = [lhs[i] for i in other_axes(len(lhs), lhs_contract, lhs_batch)]
        free += [rhs[j] for j in other_axes(len(rhs), rhs_contract, rhs_batch)]
        return [lhs, rhs], [[*(lhs[i] for i in lhs_batch), *free]]

    def operand_cotangent(self, side, cotangent, operands, params):
        x, other = operands[side], operands[1 - side]
        dims, order = cotangent_dimensions(
            side, x.aval.ndim, type_of(other).ndim, params.dimension_numbers
        )
        product = bind1(self, cotangent, other, params=DotGeneralParams(
            dims, params.precision, cotangent_preference(params.preferred_element_type, x.aval.dtype),
            cotangent_sharding(x.aval, order, map(type_of, (cotangent, other))),
        ))  # fmt: skip
        return transpose(product, inverse_permutation(order))

    def batch(self, axis, operands, dims, params):
        ndims = [type_of(x).ndim for x in operands]
        numbers, out_dim = batched_dimensions(ndims, dims, params.dimension_numbers)
        return bind(self, *operands, params=params._replace(dimension_numbers=numbers)), [out_dim]

    def lower(self, ctx, operands, params):
        lhs, rhs = ctx.avals_in
        result = ctx.avals_out[0]
        plan = plan_algorithm(ctx, params.precision, lhs.dtype, rhs.dtype, result.dtype)
        operand_dtypes, product_type = (lhs.dtype, rhs.dtype), result.dtype
        attributes = {"precision_config": precision_attribute(ctx, params.precision)}
        if plan is not None:
            attributes["algorithm"] = plan.attribute
            operand_dtypes, product_type = plan.operand_dtypes, plan.result_dtype
        elif (
            lhs.dtype != rhs.dtype
            and ctx.platform != "tpu"
            and not (is_float8(lhs.dtype) and is_float8(rhs.dtype))
        ):
            # Only TPUs multiply operands of unlike dtypes; all have kernels for two kinds of float8.
            operand_dtypes = (result.dtype, result.dtype)
        avals = [a.update(dtype=d) for a, d in strict_zip(ctx.avals_in, operand_dtypes)]
        operands = [
            x if old == new else ctx.convert(x, new)
            for x, old, new in strict_zip(operands, ctx.avals_in, avals)
        ]
        if dtypes.is_inexact(lhs.dtype) and not dtypes.is_inexact(product_type):
            operands = [
                ctx.in_even_parts(UNEVEN_ROUNDED_PRODUCT, x, aval)
                for x, aval in strict_zip(operands, avals)
            ]
        dims = params.dimension_numbers
        if ctx.platform == "cpu" and ctx.sharding_attributes is None:
            operands, dims = _contracted_as_one(ctx, operands, avals, dims)
        attributes["dot_dimension_numbers"] = ctx.attribute(
            f"#stablehlo.dot<{dimensions_text(dims)}>"
        )
        [contracted, _], _ = params.dimension_numbers
        ctx.note_contraction(result.size * math.prod(lhs.shape[i] for i in contracted))
        product = ctx.op1(
            "stablehlo.dot_general", result.update(dtype=product_type), operands, attributes
        )
        return [product if product_type == result.dtype else ctx.convert(product, result)]

    def printed_params(self, equation):
        numbers = tuple(tuple(map(list, pair)) for pair in equation.params.dimension_numbers)
        return super().printed_params(equation) | {"dimension_numbers": numbers}


def check_dimensions(lhs: Any, rhs: Any, dims: CanonicalDimensions, caller: str) -> None:
    """Raise unless operands are of numbers, and `dims` pair axes that both have, each once and of equal size."""
    check_elements(caller, (lhs, rhs), ANY)
    contract, batch = dims
    got = [f"lhs: {lhs.text()}", f"rhs: {rhs.text()}"]
    for i, (side, aval) in enumerate((("lhs", lhs), ("rhs", rhs))):
        axes = (*contract[i], *batch[i])
        stated = f"contracted {contract[i]}, batch {batch[i]}."
        if len(set(axes)) != len(axes):
            raise ShapeError(f"{caller} got an axis of {side} twice: {stated}", got=got)
        if any(not 0 <= a < aval.ndim for a in axes):
            raise ShapeError(
                f"{caller} got an axis that {side} lacks: {stated}",
                got=got,
                do=f"Axes of {side} are 0 to {aval.ndim - 1}."
                if aval.ndim
                else f"{side} has no axes.",
            )
    for kind, (lhs_axes, rhs_axes) in (("contracted", contract), ("batch", batch)):
        lhs_sizes = tuple([lhs.shape[a] for a in lhs_axes])
        rhs_sizes = tuple([rhs.shape[a] for a in rhs_axes])
        if lhs_sizes != rhs_sizes:
            raise ShapeError(
                f"{caller} needs {kind} axes of equal size: {lhs_sizes} for lhs, {rhs_sizes} for rhs.",
                got=[
                    f"lhs: {lhs.text()}, {kind} axes {lhs_axes}",
                    f"rhs: {rhs.text()}, {kind} axes {rhs_axes}",
                ],
            )


def dot_shape(lhs: Axes, rhs: Axes, dims: CanonicalDimensions) -> Axes:
    """Shape of a product of operands of shapes `lhs` and `rhs`."""
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dims
    return (
        *[lhs[a] for a in lhs_batch],
        *[lhs[a] for a in other_axes(len(lhs), lhs_contract, lhs_batch)],
        *[rhs[a] for a in other_axes(len(rhs), rhs_contract, rhs_batch)],
    )


def cotangent_dimensions(
    side: int, ndim: int, other_ndim: int, dims: CanonicalDimensions, group: Axes = ()
) -> tuple[CanonicalDimensions, list[int]]:
    """Dimension numbers of (cotangent, other operand), and the axes of the operand in the order of their product.

    The operand, of rank `ndim`, is the first (`side` 0) or the second (1). Axes `group` of the other operand are none
    of the cotangent's.
    """
    contract, batch = dims
    axes, other = (contract[side], batch[side]), (contract[1 - side], batch[1 - side])
    n_batch, free = len(axes[1]), other_axes(ndim, *axes)
    other_free = other_axes(other_ndim, *other, group)
    first = n_batch + (0 if side else len(free))
    summed = tuple(range(first, first + len(other_free)))
    contracted = [axis for _, axis in sorted(strict_zip(other[0], axes[0]))]
    order = [*axes[1], *free, *contracted]
    return ((summed, other_free), (tuple(range(n_batch)), other[1])), order


def swapped(dims: CanonicalDimensions) -> CanonicalDimensions:
    """Dimension numbers of the operands in the other order."""
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dims
    return (rhs_contract, lhs_contract), (rhs_batch, lhs_batch)


def batched_dimensions(
    ndims: Ints, dims: Dims, numbers: CanonicalDimensions
) -> tuple[CanonicalDimensions, int]:
    """Dimension numbers of operands of ranks `ndims` with batch axes at `dims`, and the result's batch axis.

    One batched operand has one more free axis; two share one more batch axis, which comes first.
    """
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = numbers
    lhs_dim, rhs_dim = dims
    if lhs_dim is not None:
        lhs_contract, lhs_batch = shifted(lhs_contract, lhs_dim), shifted(lhs_batch, lhs_dim)
    if rhs_dim is not None:
        rhs_contract, rhs_batch = shifted(rhs_contract, rhs_dim), shifted(rhs_batch, rhs_dim)
    if lhs_dim is not None and rhs_dim is not None:
        batched = ((lhs_dim, *lhs_batch), (rhs_dim, *rhs_batch))
        return ((lhs_contract, rhs_contract), batched), 0
    lhs_free = other_axes(ndims[0], lhs_contract, lhs_batch)
    if lhs_dim is not None:
        out_dim = len(lhs_batch) + lhs_free.index(lhs_dim)
    else:
        rhs_free = other_axes(ndims[1], rhs_contract, rhs_batch)
        out_dim = len(lhs_batch) + len(lhs_free) + rhs_free.index(rhs_dim)
    return ((lhs_contract, rhs_contract), (lhs_batch, rhs_batch)), out_dim


def dimensions_text(dims: CanonicalDimensions) -> str:
    """Dimension numbers as attributes of products write them."""
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dims
    return (
        f"lhs_batching_dimensions = {list(lhs_batch)}, rhs_batching_dimensions = {list(rhs_batch)}, "
        f"lhs_contracting_dimensions = {list(lhs_contract)}, rhs_contracting_dimensions = {list(rhs_contract)}"
    )


def _contracted_as_one(
    ctx, operands: Operands, avals: Sequence[ShapedArray], dims: CanonicalDimensions
) -> tuple[Operands, CanonicalDimensions]:
    """Operands whose contracted axes are merged into one, where they are neighbours, in the same order, in both.

    XLA's CPU compiler copies an operand into another order if several axes are contracted, as in the gradient of
    weights, even if a reshape, which costs nothing, would do.
    """
    contract, batch = dims
    if len(contract[0]) < 2 or not all(
        axes == tuple(range(axes[0], axes[0] + len(axes))) for axes in contract
    ):
        return operands, dims
    merged = []
    for x, aval, axes in strict_zip(operands, avals, contract):
        first, after = axes[0], axes[-1] + 1
        shape = (*aval.shape[:first], math.prod(aval.shape[first:after]), *aval.shape[after:])
        merged.append(ctx.reshape(x, aval.update(shape=shape)))
    lhs_batch, rhs_batch = (
        tuple(i if i < axes[0] else i - len(axes) + 1 for i in numbers)
        for numbers, axes in strict_zip(batch, contract)
    )
    return merged, (((contract[0][0],), (contract[1][0],)), (lhs_batch, rhs_batch))


dot_general_p = DotGeneral()


def canonical_dimensions(
    dimension_numbers: DotDimensionNumbers, caller: str
) -> CanonicalDimensions:
    """Dimension numbers as params hold them; raises ArgumentValueError for another nesting."""
    try:
        (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
        return (ints(lhs_contract), ints(rhs_contract)), (ints(lhs_batch), ints(rhs_batch))
    except (TypeError, ValueError):
        raise ArgumentValueError(
            f"{caller}: these are no dimension numbers.",
            got=f"dimension_numbers: {dimension_numbers!r}",
            do="Pass ((contracted axes of lhs, of rhs), (batch axes of lhs, of rhs)).",
        ) from None


def dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: DotDimensionNumbers,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """Sum of products of `lhs` and `rhs` over their contracted axes.

    `dimension_numbers` is ((contracted axes of lhs, of rhs), (batch axes of lhs, of rhs)). The result has the batch
    axes, then the free axes of `lhs`, then those of `rhs`. Its dtype is `preferred_element_type`, by default
    that of the operand with the wider range. `precision` None takes the option `default_matmul_precision`.
    Raises ShapeError for axes that don't fit. Source: StableHLO specification, `dot_general`.

    >>> dot_general(np.ones((2, 3)), np.ones((3, 4)), (((1,), (0,)), ((), ()))).shape
    (2, 4)
    """
    params = DotGeneralParams(
        canonical_dimensions(dimension_numbers, "dot_general"),
        canonical_precision(precision, "dot_general"),
        preferred_dtype(preferred_element_type, "dot_general"),
        dot_general_p.stated_layout(out_sharding),
    )
    return bind1(dot_general_p, lhs, rhs, params=params)


def dot(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: DotDimensionNumbers | None = None,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Product of vectors and matrices, or with `dimension_numbers` of arrays as by `dot_general`.

    Raises ShapeError for other ranks if there are no dimension numbers.

    >>> dot(np.arange(3), np.arange(3))
    Array(5, dtype=int32)
    """
    if dimension_numbers is None:
        ndims = [type_of(x).ndim for x in (lhs, rhs)]
        if not all(1 <= ndim <= 2 for ndim in ndims):
            raise ShapeError(
                "dot without dimension_numbers needs vectors or matrices.",
                got=[f"lhs: {type_of(lhs).text()}", f"rhs: {type_of(rhs).text()}"],
                do="Pass dimension_numbers, as for `lax.dot_general`.",
            )
        dimension_numbers = (((ndims[0] - 1,), (0,)), ((), ()))
    return dot_general(
        lhs, rhs, dimension_numbers, precision, preferred_element_type, out_sharding=out_sharding
    )


def batch_matmul(lhs: Any, rhs: Any, precision: PrecisionLike = None) -> Any:
    """Products of the matrices in the last two axes of `lhs` and `rhs`; the others are batch axes.

    Raises ShapeError unless both have the same rank, two at least.

    >>> batch_matmul(np.ones((5, 2, 3)), np.ones((5, 3, 4))).shape
    (5, 2, 4)
    """
    ndims = [type_of(x).ndim for x in (lhs, rhs)]
    if ndims[0] != ndims[1] or ndims[0] < 2:
        raise ShapeError(
            "batch_matmul needs operands of equal rank, two at least.",
            got=[f"lhs: {type_of(lhs).text()}", f"rhs: {type_of(rhs).text()}"],
        )
    batch = tuple(range(ndims[0] - 2))
    return dot_general(lhs, rhs, (((ndims[0] - 1,), (ndims[0] - 2,)), (batch, batch)), precision)
