"""Contraction: sums of products of two arrays over paired axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    Axes,
    DTypeLike,
    Ints,
    ShapeError,
    dtypes,
    ints,
    strict_zip,
)
from pellucid._machine.base.dtypes import ExtendedDType
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
from pellucid._machine.lowering.selected_products import note_product
from pellucid._machine.lowering.summed_products import apart_from_product
from pellucid._machine.sharding import PartitionSpec, Sharding
from pellucid._machine.sharding.explicit_types import cotangent_sharding
from pellucid._machine.tracing import bind, bind1, type_of
from pellucid._machine.xla import Array

from .conversion import convert_element_type, real
from .counts import dot_operations
from .families import ANY, check_elements
from .linear import JointlyLinear
from .movement import inverse_permutation, other_axes, shift_axes, transpose
from .precision import (
    CanonicalPrecision,
    PrecisionLike,
    canonical_precision,
    is_float8,
    plan_algorithm,
    precision_attribute,
    preferred_dtype,
    product_dtype,
)

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
        return [*[None] * side, convert_real(product, aval.dtype)]

    def operand_cotangent(self, side: int, cotangent: Any, operands: Operands, params: Any) -> Any:
        """Cotangent, of any dtype, of the first operand (`side` 0) or the second (1)."""
        raise self.missing("transpose")


def convert_real(x: Any, dtype: Any) -> Any:
    """`x` converted to `dtype`; a complex `x` is replaced by its real part if `dtype` is real."""
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
        # Along batch dimensions the sharding of the first operand takes precedence, as in the reference.
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
        _, (batch, _) = dims
        if len(batch) == result.ndim:  # sums of products of elements, to XLA
            operands = [
                apart_from_product(ctx, x, aval, result.shape)
                for x, aval in strict_zip(operands, avals)
            ]
        if ctx.platform == "cpu" and ctx.sharding_attributes is None:
            operands, dims = _contract_as_one(ctx, operands, avals, dims)
        attributes["dot_dimension_numbers"] = ctx.attribute(
            f"#stablehlo.dot<{dimensions_text(dims)}>"
        )
        [contracted, _], _ = params.dimension_numbers
        ctx.note_contraction(result.size * math.prod(lhs.shape[i] for i in contracted))
        product = ctx.op1(
            "stablehlo.dot_general", result.update(dtype=product_type), operands, attributes
        )
        note_product(ctx, product)
        return [product if product_type == result.dtype else ctx.convert(product, result)]

    def printed_params(self, equation):
        numbers = tuple(tuple(map(list, pair)) for pair in equation.params.dimension_numbers)
        return super().printed_params(equation) | {"dimension_numbers": numbers}


def check_dimensions(lhs: Any, rhs: Any, dims: CanonicalDimensions, caller: str) -> None:
    """Raises unless both operands are numeric, and `dims` pairs axes that exist, each at most once and of equal size."""
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


def swap_operands(dims: CanonicalDimensions) -> CanonicalDimensions:
    """The dimension numbers of the same product with its operands exchanged."""
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
        lhs_contract, lhs_batch = shift_axes(lhs_contract, lhs_dim), shift_axes(lhs_batch, lhs_dim)
    if rhs_dim is not None:
        rhs_contract, rhs_batch = shift_axes(rhs_contract, rhs_dim), shift_axes(rhs_batch, rhs_dim)
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


def _contract_as_one(
    ctx, operands: Operands, avals: Sequence[ShapedArray], dims: CanonicalDimensions
) -> tuple[Operands, CanonicalDimensions]:
    """(operands, dimension numbers) with contracted axes merged into one, if they are adjacent and in the same order
    in both operands.

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
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: DotDimensionNumbers,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | ExtendedDType | None = None,
    *,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:
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
    lhs: ArrayLike,
    rhs: ArrayLike,
    *,
    dimension_numbers: DotDimensionNumbers | None = None,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | ExtendedDType | None = None,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:
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


def batch_matmul(lhs: ArrayLike, rhs: ArrayLike, precision: PrecisionLike = None) -> Array:
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
