"""Products by blocks: of consecutive groups of different sizes, and of operands whose blocks have scales."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArrayLike,
    Axes,
    DtypeError,
    DTypeLike,
    Ints,
    ShapeError,
    UnsupportedError,
    dtypes,
    ints,
    replace_axis_size,
    strict_zip,
)
from pellucid._machine.base.dtypes import ExtendedDType
from pellucid._machine.base.late import late
from pellucid._machine.ir import (
    Avals,
    BatchAxis,
    BatchDim,
    LaidOut,
    Primitive,
    ShapedArray,
    Traits,
    Zero,
    shaped_array,
    with_mark,
    words,
)
from pellucid._machine.lowering.custom_calls import typed_attribute
from pellucid._machine.lowering.faults import SCALED_DOT_IN_PARTS
from pellucid._machine.sharding import PartitionSpec, Sharding
from pellucid._machine.sharding.errors import ShardingTypeError
from pellucid._machine.sharding.explicit_types import cotangent_sharding
from pellucid._machine.tracing import bind, bind1, type_of
from pellucid._machine.xla import Array

from .arithmetic import mul, sub
from .contraction import (
    Bilinear,
    CanonicalDimensions,
    DotDimensionNumbers,
    DotGeneralParams,
    batched_dimensions,
    canonical_dimensions,
    check_dimensions,
    convert_real,
    cotangent_dimensions,
    cotangent_preference,
    dimensions_text,
    dot_general_p,
    dot_shape,
    other_axes,
    swap_operands,
)
from .counts import dot_operations, ragged_dot_operations
from .creation import broadcasted_iota, ones, zeros
from .cumulative import cumsum
from .families import INTEGER, add_tangents, kind_of, zero_of
from .logical import bitwise_and, le, lt, select_n
from .movement import (
    aligned_at,
    broadcast_in_dim,
    inverse_permutation,
    move_axis,
    reshape,
    shift_axes,
    transpose,
)
from .precision import (
    CanonicalPrecision,
    PrecisionLike,
    canonical_precision,
    precision_attribute,
    preferred_dtype,
    product_dtype,
)


@dataclass(init=False, unsafe_hash=True)
class RaggedDotDimensionNumbers:
    """Axes of `ragged_dot_general`: the contracted and batch ones, the ragged one of `lhs`, the group axis of `rhs`.

    `dot_dimension_numbers` are those of `dot_general`. `lhs_ragged_dimensions` holds the one axis of `lhs` that
    is divided into groups; `rhs_group_dimensions` the axis of `rhs` with one matrix for each group, if the ragged
    axis is neither contracted nor a batch axis, else nothing.

    >>> RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], [0]).lhs_ragged_dimensions
    (0,)
    """

    dot_dimension_numbers: CanonicalDimensions
    lhs_ragged_dimensions: Axes
    rhs_group_dimensions: Axes

    def __init__(
        self,
        dot_dimension_numbers: DotDimensionNumbers,
        lhs_ragged_dimensions: Ints,
        rhs_group_dimensions: Ints,
    ) -> None:
        self.dot_dimension_numbers = canonical_dimensions(
            dot_dimension_numbers, "ragged_dot_general"
        )
        self.lhs_ragged_dimensions = ints(lhs_ragged_dimensions)
        self.rhs_group_dimensions = ints(rhs_group_dimensions)

    # What follows from the fields ---------------------------------------------------------------

    @property
    def ragged_axis(self) -> int:
        """The ragged axis of lhs."""
        return self.lhs_ragged_dimensions[0]

    @property
    def mode(self) -> str:
        """The kind of the ragged axis: 'contracting', 'batch', or 'free'."""
        (lhs_contract, _), (lhs_batch, _) = self.dot_dimension_numbers
        if self.ragged_axis in lhs_contract:
            return "contracting"
        return "batch" if self.ragged_axis in lhs_batch else "free"

    def prefix(self, lhs_ndim: int) -> Axes:
        """Axes of lhs along which group sizes may differ: those listed before the ragged axis, batch axes first."""
        (lhs_contract, _), (lhs_batch, _) = self.dot_dimension_numbers
        if self.mode == "batch":
            return lhs_batch[: lhs_batch.index(self.ragged_axis)]
        others = (
            lhs_contract
            if self.mode == "contracting"
            else other_axes(lhs_ndim, lhs_contract, lhs_batch)
        )
        return (*lhs_batch, *others[: others.index(self.ragged_axis)])


class RaggedParams(NamedTuple):
    ragged_dot_dimension_numbers: RaggedDotDimensionNumbers
    precision: CanonicalPrecision
    preferred_element_type: Any
    group_offset: None
    out_sharding: Any


class RaggedDotGeneral(LaidOut, Bilinear[RaggedParams]):
    name = "ragged_dot_general"
    statement = "ragged_dot_general"
    traits = Traits(
        kind="contraction", flops=ragged_dot_operations, linear="each", passive=(2,), makes_nan=True
    )

    def abstract_eval(self, avals, params):
        lhs, rhs, group_sizes = avals
        numbers = params.ragged_dot_dimension_numbers
        dims = numbers.dot_dimension_numbers
        check_dimensions(lhs, rhs, dims, "ragged_dot_general")
        _check_groups(lhs, rhs, group_sizes, numbers)
        dtype = product_dtype(
            lhs.dtype, rhs.dtype, params.preferred_element_type, "ragged_dot_general"
        )
        if numbers.mode == "free":
            [group] = numbers.rhs_group_dimensions
            (lhs_contract, rhs_contract), batch = dims
            without = (((*lhs_contract, -1), (*rhs_contract, group)), batch)
            shape = dot_shape(lhs.shape, rhs.shape, without)
        else:
            shape = dot_shape(lhs.shape, rhs.shape, dims)
            if numbers.mode == "contracting":
                shape = (group_sizes.shape[-1], *shape)
        return [shaped_array(shape, dtype)]

    def factors(self, avals, results, params):
        _check_without_addends(self.name, avals, params.out_sharding)
        numbers = params.ragged_dot_dimension_numbers
        (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = numbers.dot_dimension_numbers
        lhs, rhs = words(avals[0].ndim), words(avals[1].ndim, avals[0].ndim)
        for i, j in strict_zip((*lhs_contract, *lhs_batch), (*rhs_contract, *rhs_batch)):
            rhs[j] = lhs[i]
        # Where a group lies depends on all sizes, and an element's place along the ragged axis says which group is its own.
        [group] = words(1, avals[0].ndim + avals[1].ndim, "!")
        sizes = [lhs[a] for a in numbers.prefix(len(lhs))] if avals[2].ndim > 1 else []
        ragged = lhs[numbers.ragged_axis]
        is_whole = numbers.mode != "batch"
        lhs, rhs, sizes = (
            [f"{word}!" if word == ragged and is_whole else word for word in side]
            for side in (lhs, rhs, sizes)
        )
        free = [lhs[i] for i in other_axes(len(lhs), lhs_contract, lhs_batch)]
        groups = numbers.rhs_group_dimensions
        free += [rhs[j] for j in other_axes(len(rhs), rhs_contract, rhs_batch, groups)]
        rhs = [group if j in groups else word for j, word in enumerate(rhs)]
        result = [*(lhs[i] for i in lhs_batch), *free]
        if numbers.mode == "contracting":
            result = [group, *result]
        lhs, rhs = with_mark(lhs, lhs_batch, "<"), with_mark(rhs, rhs_batch, "<")
        return [lhs, rhs, [*sizes, group]], [result]

    def operand_cotangent(self, side, cotangent, operands, params):
        x, other = operands[side], operands[1 - side]
        numbers = params.ragged_dot_dimension_numbers
        if numbers.mode == "batch":
            return dot_general_p.operand_cotangent(side, cotangent, operands[:2], _as_dot(params))
        ndim, group, ragged = x.aval.ndim, numbers.rhs_group_dimensions, numbers.ragged_axis
        contracts, batches = numbers.dot_dimension_numbers
        contract, batch = contracts[side], batches[side]
        n_batch, n_contract = len(batch), len(contract)
        if numbers.mode == "contracting":
            # Each contracted element of the other operand is multiplied by the cotangent of its group. The operand's axes
            # are transposed to the order of the dimension numbers: group sizes refer to the axes left of the ragged one.
            free = other_axes(ndim, contract, batch)
            other_contract, other_batch = contracts[1 - side], batches[1 - side]
            other_free = other_axes(type_of(other).ndim, other_contract, other_batch)
            other = transpose(other, (*other_batch, *other_contract, *other_free))
            # The axes of the product are (group, batch, free, free).
            first = 1 + n_batch + (0 if side else len(free))
            dims = (
                (_span(n_batch + n_contract, len(other_free)), _span(first, len(other_free))),
                (_span(0, n_batch), _span(1, n_batch)),
            )
            place = n_batch + contracts[0].index(ragged)
            factors, group, order = (other, cotangent), (0,), [*batch, *contract, *free]
        else:
            dims, order = cotangent_dimensions(
                side,
                ndim,
                type_of(other).ndim,
                numbers.dot_dimension_numbers,
                () if side else group,
            )
            factors, place = (cotangent, other), order.index(ragged)
            if side == 1:  # one product per group, over its rows
                factors, place = (other, cotangent), ragged
                dims = swap_operands(dims)
                free = other_axes(ndim, contract, group, batch)
                group, order = (), [*group, *batch, *order[ndim - n_contract :], *free]
        product = bind1(self, *factors, operands[2], params=RaggedParams(
            RaggedDotDimensionNumbers(dims, (place,), group), params.precision,
            cotangent_preference(params.preferred_element_type, x.aval.dtype), None,
            cotangent_sharding(x.aval, order, map(type_of, factors)),
        ))  # fmt: skip
        return transpose(product, inverse_permutation(order))

    def batch(self, axis, operands, dims, params):
        (lhs, rhs, group_sizes), (lhs_dim, rhs_dim, sizes_dim) = operands, dims
        numbers = params.ragged_dot_dimension_numbers
        dot, ragged = numbers.dot_dimension_numbers, numbers.lhs_ragged_dimensions
        group = numbers.rhs_group_dimensions
        if sizes_dim is None and (lhs_dim is None or rhs_dim is None):
            # The batched operand has one more free axis, which must not come before the ragged one.
            if lhs_dim is not None:
                last = type_of(lhs).ndim - 1
                lhs, lhs_dim = move_axis(lhs, lhs_dim, last), last
            ndims = type_of(lhs).ndim, type_of(rhs).ndim
            dot, out_dim = batched_dimensions(ndims, (lhs_dim, rhs_dim), dot)
            if rhs_dim is not None:
                out_dim -= sum(axis < rhs_dim for axis in group)
                group = shift_axes(group, rhs_dim)
        else:
            lhs_shape = [s for i, s in enumerate(type_of(lhs).shape) if i != lhs_dim]
            prefix = [lhs_shape[a] for a in numbers.prefix(len(lhs_shape))]
            group_sizes = _with_prefix(axis, group_sizes, sizes_dim, prefix)
            lhs, rhs = aligned_at(axis, (lhs, rhs), (lhs_dim, rhs_dim))
            dot, out_dim = batched_dimensions((), (0, 0), dot)
            ragged, group = shift_axes(ragged, 0), shift_axes(group, 0)
        batched = RaggedDotDimensionNumbers(dot, ragged, group)
        products = bind(
            self, lhs, rhs, group_sizes, params=params._replace(ragged_dot_dimension_numbers=batched)
        )  # fmt: skip
        return products, [out_dim + (numbers.mode == "contracting")]

    def lower(self, ctx, operands, params):
        if ctx.platform == "cpu":  # CPUs have no kernel for it
            params = params._replace(out_sharding=None)
            return ctx.from_python(_on_cpu, operands, params, has_layouts=False)
        numbers = params.ragged_dot_dimension_numbers
        attributes = {
            "ragged_dot_dimension_numbers": ctx.attribute(
                f"#chlo.ragged_dot<{dimensions_text(numbers.dot_dimension_numbers)}, "
                f"lhs_ragged_dimensions = {list(numbers.lhs_ragged_dimensions)}, "
                f"rhs_group_dimensions = {list(numbers.rhs_group_dimensions)}>"
            ),
            "precision_config": precision_attribute(ctx, params.precision, "chlo"),
        }
        return [ctx.as_result("chlo.ragged_dot", operands, attributes)]


def _check_without_addends(caller: str, avals: Avals, stated: Any) -> None:
    """Raise ShardingTypeError for operands or a result of addends, which the operations of a definition would add up wrong."""
    specs = [sharding.spec for a in avals if (sharding := a.shown_sharding) is not None]
    specs += [] if stated is None else [stated.spec]
    if any(spec.unreduced or spec.reduced for spec in specs):
        raise ShardingTypeError(
            f"{caller} can't take or give addends of devices.",
            got=", ".join(map(repr, specs)),
            do="Have them summed: reshard(x, PartitionSpec(...)), and state no `unreduced`.",
        )


def _as_dot(params: RaggedParams) -> DotGeneralParams:
    """The product that this is where the ragged axis is a batch axis, whose groups change nothing."""
    dims = params.ragged_dot_dimension_numbers.dot_dimension_numbers
    return DotGeneralParams(dims, params.precision, params.preferred_element_type, None)


def _span(start: int, count: int) -> Axes:
    return tuple(range(start, start + count))


def _with_prefix(axis: BatchAxis, group_sizes, dim: BatchDim, prefix: Ints):
    """Group sizes for each element of the batch and of the axes of sizes `prefix`."""
    shape = type_of(group_sizes).shape
    if dim is not None:
        group_sizes = move_axis(group_sizes, dim, 0)
        shape = replace_axis_size(shape, dim)
    full = (axis.size, *prefix, shape[-1])
    axes = _span(1 + len(prefix) - (len(shape) - 1), len(shape))
    return broadcast_in_dim(group_sizes, full, axes if dim is None else (0, *axes))


def _check_groups(
    lhs: ShapedArray, rhs: ShapedArray, group_sizes: ShapedArray, numbers: RaggedDotDimensionNumbers
) -> None:
    """Raise unless the ragged axis, the group axis and the group sizes fit the operands."""
    caller = "ragged_dot_general"
    got = [
        f"lhs: {lhs.text()}",
        f"rhs: {rhs.text()}",
        f"group_sizes: {group_sizes.text()}",
        f"{numbers!r}",
    ]
    if len(numbers.lhs_ragged_dimensions) != 1 or not 0 <= numbers.ragged_axis < lhs.ndim:
        raise ShapeError(f"{caller} needs one ragged axis, which lhs has.", got=got)
    if kind_of(group_sizes.dtype) not in INTEGER:
        raise DtypeError(f"{caller} needs integers as group sizes.", got=got)
    if group_sizes.ndim == 0:
        raise ShapeError(f"{caller} needs a vector of group sizes.", got=got)
    (_, rhs_contract), (_, rhs_batch) = numbers.dot_dimension_numbers
    groups = numbers.rhs_group_dimensions
    if numbers.mode != "free":
        if groups:
            raise ShapeError(
                f"{caller}: rhs has no group axis if the ragged axis is contracted or a batch axis.",
                got=got,
            )
    elif (
        len(groups) != 1
        or groups[0] in (*rhs_contract, *rhs_batch)
        or not 0 <= groups[0] < rhs.ndim
    ):
        raise ShapeError(
            f"{caller} needs one group axis of rhs, neither contracted nor a batch axis.", got=got
        )
    elif rhs.shape[groups[0]] != group_sizes.shape[-1]:
        raise ShapeError(
            f"{caller}: rhs has {rhs.shape[groups[0]]} groups, group_sizes {group_sizes.shape[-1]}.",
            got=got,
        )
    prefix = tuple([lhs.shape[a] for a in numbers.prefix(lhs.ndim)])
    if group_sizes.ndim > 1 and group_sizes.shape[:-1] != prefix:
        raise ShapeError(
            f"{caller} needs group sizes that are one vector, or one for each element of axes of sizes {prefix}.",
            got=got,
        )


def _multiply_masked_copies(lhs, rhs, group_sizes, *fields):
    """The definition: a copy of the operand for each group, zero outside it, and one product of them all."""
    params = RaggedParams(*fields)
    numbers = params.ragged_dot_dimension_numbers
    dot = _as_dot(params)
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dot.dimension_numbers
    prefix = numbers.prefix(type_of(lhs).ndim)
    if numbers.mode == "batch":
        return bind1(dot_general_p, lhs, rhs, params=dot)
    masked = _copies_per_group(lhs, group_sizes, prefix, numbers.ragged_axis)
    if numbers.mode == "free":
        contract = (*shift_axes(lhs_contract, 0), 0), (*rhs_contract, *numbers.rhs_group_dimensions)
        dims: Any = contract, (shift_axes(lhs_batch, 0), rhs_batch)
    else:
        partner = dict(strict_zip((*lhs_contract, *lhs_batch), (*rhs_contract, *rhs_batch)))
        rhs = _copies_per_group(
            rhs, group_sizes, [partner[a] for a in prefix], partner[numbers.ragged_axis]
        )
        dims, _ = batched_dimensions((), (0, 0), dot.dimension_numbers)
    return bind1(dot_general_p, masked, rhs, params=dot._replace(dimension_numbers=dims))


_ROWS_TIMES_MATRICES = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], [0])
_PRODUCTS_OF_ROWS = RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), [0], [])


def _on_cpu(lhs, rhs, group_sizes, *fields):
    """The product by blocks of rows where these are alone in the operands, else by masks."""
    params = RaggedParams(*fields)
    numbers, dtype = params.ragged_dot_dimension_numbers, type_of(lhs).dtype
    is_transposed = numbers == _PRODUCTS_OF_ROWS
    ranks = (type_of(lhs).ndim, type_of(rhs).ndim, type_of(group_sizes).ndim)
    is_plain = is_transposed or numbers == _ROWS_TIMES_MATRICES
    is_plain = (
        is_plain and ranks == (2, 2 if is_transposed else 3, 1) and dtype == type_of(rhs).dtype
    )
    # XLA has no loop over numbers of fewer bits than a byte.
    is_plain = is_plain and dtypes.itemsize_bits(dtype) >= 8
    sizes = (*type_of(lhs).shape, *type_of(rhs).shape)
    if not is_plain or not all(isinstance(n, int) for n in sizes):
        return _multiply_masked_copies(lhs, rhs, group_sizes, *fields)
    [aval] = ragged_dot_general_p.abstract_eval([*map(type_of, (lhs, rhs, group_sizes))], params)
    return late("product of rows in groups")(
        lhs, rhs, group_sizes, aval.dtype, is_transposed=is_transposed
    )


def _copies_per_group(x, group_sizes, prefix: Ints, ragged: int):
    """Copies of `x`, one per group along a new axis 0, with zeros where the index along axis `ragged` is outside of
    the group.
    """
    aval = type_of(x)
    sizes = type_of(group_sizes)
    if sizes.dtype.itemsize < 4:  # too narrow for sums of group sizes
        group_sizes = convert_real(group_sizes, np.dtype(np.int32))
    shape = (sizes.shape[-1], *aval.shape)
    ends = cumsum(group_sizes, sizes.ndim - 1)
    starts = sub(ends, group_sizes)
    own_prefix = list(prefix) if sizes.ndim > 1 else []
    order = sorted(range(len(own_prefix)), key=own_prefix.__getitem__)

    def spread(bounds):
        bounds = transpose(bounds, (sizes.ndim - 1, *order))
        return broadcast_in_dim(bounds, shape, (0, *(own_prefix[i] + 1 for i in order)))

    index = broadcasted_iota(type_of(group_sizes).dtype, shape, ragged + 1)
    inside = bitwise_and(le(spread(starts), index), lt(index, spread(ends)))
    copies = broadcast_in_dim(x, shape, _span(1, aval.ndim))
    return select_n(inside, zeros(shaped_array(shape, aval.dtype)), copies)


ragged_dot_general_p = RaggedDotGeneral()


def ragged_dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    ragged_dot_dimension_numbers: RaggedDotDimensionNumbers,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | ExtendedDType | None = None,
    group_offset: ArrayLike | None = None,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:
    """Product of `lhs` and `rhs` by groups: the ragged axis of `lhs` is cut into pieces of `group_sizes`.

    If the ragged axis is free, each piece meets its own matrix of `rhs`, and elements after the last group give
    zero. If it is contracted, the result has a new first axis, with the product over each piece. If it is a batch axis, this
    is `dot_general`. `group_sizes` is a vector, or has one for each element of the axes left of the ragged one.
    Raises ShapeError for operands that don't fit. Source: XLA, `ragged_dot`.

    >>> numbers = RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), [0], [])
    >>> ragged_dot_general(np.ones(5), np.arange(5.0), np.array([2, 3]), numbers)
    Array([1., 9.], dtype=float32)
    """
    if group_offset is not None:
        raise UnsupportedError(
            "ragged_dot_general can't offset groups.", do="Pass group_offset=None."
        )
    if not isinstance(ragged_dot_dimension_numbers, RaggedDotDimensionNumbers):
        raise ArgumentTypeError(
            "ragged_dot_general needs RaggedDotDimensionNumbers.",
            got=f"ragged_dot_dimension_numbers: {type(ragged_dot_dimension_numbers).__name__}",
        )
    params = RaggedParams(
        ragged_dot_dimension_numbers, canonical_precision(precision, "ragged_dot_general"),
        preferred_dtype(preferred_element_type, "ragged_dot_general"), None,
        ragged_dot_general_p.stated_layout(out_sharding),
    )  # fmt: skip
    return bind1(ragged_dot_general_p, lhs, rhs, group_sizes, params=params)


def ragged_dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | ExtendedDType | None = None,
    group_offset: ArrayLike | None = None,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:
    """Rows of `lhs` (m, k) times matrices of `rhs` (groups, k, n): the first `group_sizes[0]` rows meet the first.

    Rows after the last group give zero.

    The result has shape [m, n] and dtype `preferred_element_type`, or that to which operands promote.
    Raises: ShapeError for shapes that do not fit, DtypeError for group sizes that aren't integers, ArgumentTypeError
    for lists and strings.

    >>> ragged_dot(np.ones((3, 1)), np.array([[[1.0]], [[2.0]]]), np.array([2, 1]))
    Array([[1.],
           [1.],
           [2.]], dtype=float32)
    """
    numbers = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))
    return ragged_dot_general(
        lhs,
        rhs,
        group_sizes,
        numbers,
        precision,
        preferred_element_type,
        group_offset,
        out_sharding,
    )


_BF16 = dtypes.as_dtype("bfloat16")
MICROSCALING = {
    ("float8_e4m3fn", "float8_e8m0fnu", 32),
    ("float8_e5m2", "float8_e8m0fnu", 32),
    ("float4_e2m1fn", "float8_e8m0fnu", 32),
    ("float4_e2m1fn", "float8_e4m3fn", 16),
}
"""Dtypes of elements and scales, and sizes of blocks. Source: OCP Microscaling Formats Specification 1.0; NVIDIA's NVFP4."""


class ScaledDotParams(NamedTuple):
    dimension_numbers: CanonicalDimensions
    preferred_element_type: Any


class ScaledDot(Primitive[ScaledDotParams]):
    """A product of operands each of whose blocks along the contracted axes has a factor."""

    name = "scaled_dot"
    traits = Traits(kind="contraction", flops=dot_operations, linear="each", makes_nan=True)

    def abstract_eval(self, avals, params):
        lhs, rhs, *_ = avals
        check_dimensions(lhs, rhs, params.dimension_numbers, "scaled_dot")
        contract, _ = params.dimension_numbers
        for i, side in enumerate(("lhs", "rhs")):
            aval, scale, axes = avals[i], avals[2 + i], contract[i]
            if scale.ndim != aval.ndim or not all(
                s and n % s == 0 if a in axes else s == n
                for a, (n, s) in enumerate(strict_zip(aval.shape, scale.shape))
            ):
                raise ShapeError(
                    f"scaled_dot needs a scale of the shape of {side}, but for contracted axes a divisor of their size.",
                    got=[
                        f"{side}: {aval.text()}, contracted axes {axes}",
                        f"its scale: {scale.text()}",
                    ],
                )
        shape = dot_shape(lhs.shape, rhs.shape, params.dimension_numbers)
        return [shaped_array(shape, params.preferred_element_type)]

    def factors(self, avals, results, params):
        _check_without_addends(self.name, avals, None)
        (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = params.dimension_numbers
        lhs, rhs = words(avals[0].ndim), words(avals[1].ndim, avals[0].ndim)
        for i, j in strict_zip((*lhs_contract, *lhs_batch), (*rhs_contract, *rhs_batch)):
            rhs[j] = lhs[i]
        # Blocks of contracted elements share a scale, so they are of one device.
        first = len(lhs) + len(rhs)
        own = words(len(lhs_contract) + len(rhs_contract), first, "!")
        sides: list[list[str]] = [
            with_mark(lhs, lhs_contract, "!"),
            with_mark(rhs, rhs_contract, "!"),
        ]
        scales: list[list[str]] = [list(side) for side in sides]
        for axes, scale in ((lhs_contract, scales[0]), (rhs_contract, scales[1])):
            for a in axes:
                scale[a] = own.pop()
        free = [lhs[i] for i in other_axes(len(lhs), lhs_contract, lhs_batch)]
        free += [rhs[j] for j in other_axes(len(rhs), rhs_contract, rhs_batch)]
        return [*sides, *scales], [[*(lhs[i] for i in lhs_batch), *free]]

    def jvp(self, primals, tangents, params):
        result = bind1(self, *primals, params=params)
        total: Any = zero_of(result)
        for i, tangent in enumerate(tangents):  # linear in each of the four
            if type(tangent) is not Zero:
                term = _multiply_scaled(*replace_axis_size(primals, i, tangent), *params)  # pyright: ignore[reportCallIssue]
                total = add_tangents(total, term)
        return [result], [total]

    def batch(self, axis, operands, dims, params):
        in_front = aligned_at(axis, operands, dims)
        numbers, dim = batched_dimensions((), (0, 0), params.dimension_numbers)
        return bind(self, *in_front, params=params._replace(dimension_numbers=numbers)), [dim]

    def lower(self, ctx, operands, params):
        is_known = ctx.platform == "cuda" and _is_of_microscaling(ctx.avals_in, params)
        if not is_known or ctx.has_fault(SCALED_DOT_IN_PARTS):
            return ctx.from_python(_multiply_scaled, operands, params)
        # XLA for NVIDIA GPUs knows the operation, and chooses between its own kernels and the definition.
        attributes = {
            "dimension_numbers": typed_attribute(ctx, params.dimension_numbers),
            "preferred_element_type": typed_attribute(ctx, params.preferred_element_type),
        }
        return ctx.composite_from_python(
            "xla.scaled_dot", _multiply_scaled, operands, params, attributes
        )


def _is_of_microscaling(avals: Avals, params: ScaledDotParams) -> bool:
    """Whether operands are of the formats for which GPUs have instructions, beside at most one of bfloat16 without scale."""
    (contract, batch), is_narrow = params.dimension_numbers, []
    if len(contract[0]) != 1 or len(batch[0]) > 1:
        return False
    for aval, scale, [axis] in strict_zip(avals[:2], avals[2:], contract):
        if aval.dtype == _BF16 and scale.shape[axis] == 1:
            is_narrow.append(False)
            continue
        block = aval.shape[axis] // scale.shape[axis]
        if (aval.dtype.name, scale.dtype.name, block) not in MICROSCALING:
            return False
        is_narrow.append(True)
    return any(is_narrow)


def _multiply_scaled(lhs, rhs, lhs_scale, rhs_scale, numbers: CanonicalDimensions, preferred):
    """The definition: operands times their scales, in bfloat16, and their product."""
    (lhs_contract, rhs_contract), _ = numbers
    return bind1(
        dot_general_p, _times_scale(lhs, lhs_scale, lhs_contract), _times_scale(rhs, rhs_scale, rhs_contract),
        params=DotGeneralParams(numbers, None, preferred, None),
    )  # fmt: skip


def _times_scale(x, scale, axes: Axes):
    """`x` times its scale, whose elements are repeated along blocks of `axes`, in bfloat16."""
    shape = type_of(x).shape
    for a in axes:
        factors = type_of(scale).shape
        if factors[a] != shape[a]:
            block = shape[a] // factors[a]
            blocks = (*factors[: a + 1], block, *factors[a + 1 :])
            dims = other_axes(len(blocks), [a + 1])
            repeated = broadcast_in_dim(scale, blocks, dims)
            scale = reshape(repeated, replace_axis_size(factors, a, shape[a]))
    return mul(convert_real(x, _BF16), convert_real(scale, _BF16))


scaled_dot_p = ScaledDot()


def scaled_dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    *,
    lhs_scale: ArrayLike | None = None,
    rhs_scale: ArrayLike | None = None,
    dimension_numbers: DotDimensionNumbers | None = None,
    preferred_element_type: DTypeLike | ExtendedDType | None = None,
) -> Array:
    """Product of narrow operands with scales: each element of a scale is the factor of a block along a contracted axis.

    A scale has the shape of its operand, but for contracted axes a divisor of their size; None means 1. By default
    matrices are multiplied, or, at rank 3, batches of them. The result is bfloat16 unless `preferred_element_type` is given.
    Raises ShapeError for operands that don't fit, DtypeError for complex ones, and for a result of integers.

    >>> scaled_dot(np.ones((2, 64)), np.ones((64, 3)), lhs_scale=np.full((2, 2), 0.5)).dtype
    dtype(bfloat16)
    """
    lhs_aval, rhs_aval = type_of(lhs), type_of(rhs)
    if dimension_numbers is None:
        defaults = {2: (((1,), (0,)), ((), ())), 3: (((2,), (1,)), ((0,), (0,)))}
        dimension_numbers = defaults.get(lhs_aval.ndim) if lhs_aval.ndim == rhs_aval.ndim else None
        if dimension_numbers is None:
            raise ShapeError(
                "scaled_dot without dimension_numbers needs two operands of rank 2, or two of rank 3.",
                got=[f"lhs: {lhs_aval.text()}", f"rhs: {rhs_aval.text()}"],
            )
    numbers = canonical_dimensions(dimension_numbers, "scaled_dot")
    check_dimensions(lhs_aval, rhs_aval, numbers, "scaled_dot")
    scales = [
        _unit_scale(aval, axes) if scale is None else scale
        for scale, aval, axes in strict_zip(
            (lhs_scale, rhs_scale), (lhs_aval, rhs_aval), numbers[0]
        )
    ]
    preferred = preferred_dtype(preferred_element_type, "scaled_dot") or _BF16
    if not dtypes.is_inexact(preferred):
        raise DtypeError(
            "scaled_dot multiplies in bfloat16, so that its result has fractions.",
            got=f"preferred_element_type={preferred.name}",
            do="Ask for float32, and round the result.",
        )
    for x in map(type_of, (lhs, rhs, *scales)):
        if x.dtype.kind == "c":
            raise DtypeError(
                "scaled_dot multiplies in bfloat16, which has no imaginary parts.",
                got=x.text(),
                do="Multiply real and imaginary parts by themselves.",
            )
    return bind1(scaled_dot_p, lhs, rhs, *scales, params=ScaledDotParams(numbers, preferred))


def _unit_scale(aval, axes: Axes):
    """A scale of ones for an operand of type `aval`, with one block along each contracted axis."""
    shape = tuple([1 if a in axes else n for a, n in enumerate(aval.shape)])
    return convert_real(ones(shaped_array(shape, _BF16)), dtypes.as_dtype("float8_e8m0fnu"))
