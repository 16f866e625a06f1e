"""Precision of products of arrays: precisions and algorithms."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from pellucid._machine.base import (
    ArgumentValueError,
    CompilationError,
    DtypeError,
    config,
    dtypes,
)

_BF16, _F16, _F32, _F64 = ml_dtypes.bfloat16, np.float16, np.float32, np.float64

DType = np.dtype[Any]


class Precision(enum.Enum):
    """How precisely a product takes its operands, on hardware that offers a choice.

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
    """Dtypes that the device can return; the first is converted to any other."""


def _recipe(precision, accumulation, inputs: Sequence[Any], operations: int = 1) -> _Recipe:
    return _Recipe(precision, accumulation, operations, False, tuple(inputs), (accumulation,))


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
        """Dtypes that the device can return for operands of these dtypes; None if all."""
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
    """`precision` in the form that params hold; None means the option `default_matmul_precision`.

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
    """The lowering of a product with an algorithm: its attribute, and the dtypes of operands and result."""

    attribute: Any
    operand_dtypes: tuple[DType, DType]
    result_dtype: DType


def plan_algorithm(
    ctx: Any, precision: CanonicalPrecision, lhs: DType, rhs: DType, result: DType
) -> AlgorithmPlan | None:
    """The `AlgorithmPlan` of a product for `precision`; None if that is no algorithm.

    Raises CompilationError where the platform lacks it, DtypeError for operands that it does not take.
    """
    if type(precision) is DotAlgorithm:
        if ctx.platform == "cpu" and not any(
            _same_algorithm(precision, _RECIPES[name]) for name in _ON_CPU
        ):
            raise _algorithm_error(precision, ctx.platform)
        return AlgorithmPlan(_attribute(ctx, precision), (lhs, rhs), result)
    if type(precision) is not DotAlgorithmPreset or precision is DotAlgorithmPreset.DEFAULT:
        return None
    if ctx.platform == "cpu" and precision.name not in _ON_CPU:
        raise _algorithm_error(precision, ctx.platform)
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
    """`dtype` if it is among `allowed`, else the first of `allowed`."""
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


def _algorithm_error(precision, platform: str) -> CompilationError:
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


def component_bits(dtype: DType) -> int:
    """Bits of an element; of its real part if it is complex."""
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
    """The dtype of a sum of products: `preferred`, or the dtype of the operand with the wider range.

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
