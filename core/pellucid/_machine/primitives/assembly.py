"""Slices, padding, joining and splitting: `slice` and `pad`, `concatenate` and `split`, `stack` and `unstack`,
`tile`.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    DtypeError,
    Ints,
    Shape,
    ShapeError,
    as_value,
    canonical_shape,
    dilated_size,
    dtypes,
    insert_at,
    ints,
    is_static,
    larger,
    replace_axis_size,
    strict_zip,
    strided_length,
)
from pellucid._machine.base.errors import expecting
from pellucid._machine.ir import (
    MOVEMENT,
    Avals,
    BatchAxis,
    Dims,
    Operands,
    P,
    Results,
    ShapedArray,
    Values,
    alike,
    element_shape,
    is_linear,
    physical,
    shaped_array,
    with_mark,
    words,
)
from pellucid._machine.lowering.faults import NEGATIVE_PADDING
from pellucid._machine.sharding.explicit_types import sharding_with_dim
from pellucid._machine.tracing import as_array, bind, bind1, type_of, types_of
from pellucid._machine.xla import Array

from .conversion import convert_element_type
from .creation import instantiate, zero_like_elements
from .families import check_one_dtype, full_as, texts
from .linear import JointlyLinear
from .logical import select_n
from .movement import (
    Movement,
    broadcast_in_dim,
    brought_to,
    canonical_axis,
    move_axis,
    reduce_sum,
    reshape,
    shift_axes,
    with_batch_dim,
)

# slice --------------------------------------------------------------------------------------------


class SliceParams(NamedTuple):
    limit_indices: Ints
    start_indices: Ints
    strides: Ints | None


class Slice(Movement[SliceParams]):
    name = "slice"
    traits = MOVEMENT.replace(touches="part")
    all_dims = "~"

    def result_shape(self, x, params):
        limits, starts, strides = params
        if not len(starts) == len(limits) == len(strides or starts) == x.ndim:
            raise ShapeError(
                f"slice needs one start, limit and stride for each of the {x.ndim} dimensions.",
                got=[
                    f"operand: {x.text()}",
                    f"start_indices {starts}, limit_indices {limits}, strides {(1,) * x.ndim if strides is None else strides}",
                ],
            )
        shape = []
        for i, size in enumerate(x.shape):
            start, limit, step = starts[i], limits[i], strides[i] if strides else 1
            if not 0 <= start <= limit <= size:
                raise ShapeError(
                    f"slice needs 0 <= start <= limit <= size; dimension {i} has start {start}, limit {limit}, "
                    f"size {size}.",
                    got=f"operand: {x.text()}",
                    do="For bounds that may lie outside, use `x[start:limit]`.",
                )
            if step < 1:
                raise ShapeError(
                    f"slice needs positive strides; dimension {i} has {step}.",
                    got=f"operand: {x.text()}",
                    do="To go backwards, slice and then `lax.rev`.",
                )
            shape.append(strided_length(limit - start, step))
        return tuple(shape)

    def operand_cotangent(self, cotangent, aval, params):
        _, starts, strides = params
        config = []
        for i, (start, size) in enumerate(strict_zip(starts, aval.shape)):
            step = strides[i] if strides else 1
            span = dilated_size(type_of(cotangent).shape[i], step)
            config.append((start, size - start - span, step - 1))
        return pad(cotangent, zero_like_elements(cotangent), config)

    def batched_params(self, params, dim, size):
        limits, starts, strides = params
        steps = None if strides is None else insert_at(strides, dim, 1)
        return SliceParams(insert_at(limits, dim, size), insert_at(starts, dim, 0), steps), dim

    def lower(self, ctx, operands, params):
        limits, starts, strides = params
        inner = element_shape(ctx.avals_in[0])
        return [
            lowered_slice(
                ctx, operands[0], (*starts, *(0 for _ in inner)), (*limits, *inner), ctx.avals_out[0],
                strides and (*strides, *(1 for _ in inner)),
            )
        ]  # fmt: skip


def lowered_slice(
    ctx: Any, x: Any, starts: Ints, limits: Ints, result: ShapedArray, strides: Ints | None = None
) -> Any:
    """`stablehlo.slice` of `x`, a value of type `result`."""
    attributes = {
        "start_indices": starts,
        "limit_indices": limits,
        "strides": strides or (1,) * len(starts),
    }
    return ctx.op1("stablehlo.slice", result, [x], attributes)


slice_p = Slice()


def slice(
    operand: ArrayLike, start_indices: Ints, limit_indices: Ints, strides: Ints | None = None
) -> Array:
    """The part of `operand` from `start_indices` up to (not including) `limit_indices`, in steps of `strides`.

    One static integer for each dimension, with 0 <= start <= limit <= size; ShapeError otherwise.

    The result has the dtype of `operand`. Raises, too: TypeError for indices that aren't integers, ArgumentTypeError
    for lists and strings.
    Source: StableHLO specification, `slice`.

    >>> slice(np.arange(6), (1,), (6,), (2,))
    Array([1, 3, 5], dtype=int32)
    """
    params = SliceParams(
        canonical_shape(limit_indices),
        canonical_shape(start_indices),
        None if strides is None else ints(strides),
    )
    return bind1(slice_p, operand, params=params)


# pad ----------------------------------------------------------------------------------------------


class PadParams(NamedTuple):
    padding_config: tuple[tuple[int, int, int], ...]


class Pad(JointlyLinear[PadParams]):
    name = "pad"
    traits = MOVEMENT
    all_dims = "~"

    def abstract_eval(self, avals, params):
        x, value = avals
        config = params.padding_config
        got = [
            f"operand: {x.text()}",
            f"padding_value: {value.text()}",
            f"padding_config: {config}",
        ]
        if isinstance(x.dtype, dtypes.ExtendedDType):
            raise DtypeError("pad needs numbers or bools.", got=got)
        if x.dtype != value.dtype:
            raise DtypeError(
                "pad needs an operand and a padding value of one dtype.",
                got=got,
                do=f"Pass `np.{x.dtype.name}(value)`, or use `jnp.pad`.",
            )
        if value.shape != ():
            raise ShapeError("pad needs a scalar padding value.", got=got)
        if len(config) != x.ndim:
            raise ShapeError(
                f"pad needs (low, high, interior) for each of the {x.ndim} dimensions.", got=got
            )
        if any(interior < 0 for _, _, interior in config):
            raise ShapeError("pad needs interior padding that is not negative.", got=got)
        shape = tuple([
            low + dilated_size(size, interior + 1) + high
            for size, (low, high, interior) in strict_zip(x.shape, config)
        ])  # fmt: skip
        if any(size < 0 for size in shape):
            raise ShapeError(
                f"pad can't remove more than there is: the result would have shape {shape}.",
                got=got,
            )
        return [shaped_array(shape, x.dtype, x.weak_type and value.weak_type)]

    def operand_cotangents(self, cotangent, operands, params):
        # The operand's elements within the cotangent; elements that were cut off have cotangent 0.
        config = params.padding_config
        cuts = [(-low, -high, 0) for low, high, _ in config]
        unpadded = pad(cotangent, zero_like_elements(cotangent), cuts)
        strides = [interior + 1 for _, _, interior in config]
        if not set(strides) <= {1}:
            ends = type_of(unpadded).shape
            unpadded = slice(unpadded, (0,) * len(ends), ends, strides)
        shape = type_of(unpadded).shape
        if not is_linear(operands[1]):
            return unpadded, None
        # The sum of the elements that are padding, not a difference of two sums.
        is_padding = pad(broadcast_in_dim(np.array(False), shape, ()), np.array(True), config)
        return unpadded, _sum_of_elements(select_n(is_padding, full_as(cotangent, 0), cotangent))

    def batch(self, axis, operands, dims, params):
        (x, value), (x_dim, value_dim) = operands, dims
        x, x_dim = brought_to(axis, x, x_dim, 0) if x_dim is None else x, x_dim or 0
        config = insert_at(params.padding_config, x_dim, (0, 0, 0))
        if value_dim is None:
            return [pad(x, value, config)], [x_dim]
        padded = pad(x, zero_like_elements(x), config)
        shape = type_of(padded).shape
        mask = broadcast_in_dim(np.array(True), type_of(x).shape, ())
        mask = pad(mask, np.array(False), config)
        values = broadcast_in_dim(value, shape, (x_dim,))
        return [select_n(mask, values, padded)], [x_dim]

    def lower(self, ctx, operands, params):
        config = params.padding_config
        is_cut = any(larger(-end, 0) != 0 for low, high, _ in config for end in (low, high))
        if is_cut and ctx.has_fault(NEGATIVE_PADDING):
            return ctx.from_python(_pad_then_slice, operands, params)
        attributes = {
            "edge_padding_low": [low for low, _, _ in config],
            "edge_padding_high": [high for _, high, _ in config],
            "interior_padding": [interior for _, _, interior in config],
        }
        return [ctx.as_result("stablehlo.pad", operands, attributes)]


def _pad_then_slice(x, value, config: Sequence[Any]):
    """`pad` without negative widths in the operation: pads by the positive ones, then slices off the others."""
    grown = pad(x, value, [(larger(low, 0), larger(high, 0), inner) for low, high, inner in config])
    starts = [larger(-low, 0) for low, _, _ in config]
    sizes = type_of(grown).shape
    limits = [size - larger(-high, 0) for size, (_, high, _) in strict_zip(sizes, config)]
    return slice(grown, starts, limits)


pad_p = Pad()


def _sum_of_elements(x):
    """The sum of all elements of `x`."""
    return reduce_sum(x, range(type_of(x).ndim))


def pad(
    operand: ArrayLike, padding_value: ArrayLike, padding_config: Sequence[tuple[int, int, int]]
) -> Array:
    """`operand` with `padding_value` before, after and between its elements.

    `padding_config` has (low, high, interior) for each dimension; a negative low or high removes elements,
    after the interior padding was put in. Operand and value have one dtype, the value is a scalar.

    Raises: ShapeError for another number of triples, for a value that isn't a scalar and for sizes below 0, DtypeError
    for different dtypes, ArgumentValueError for anything that isn't a triple, TypeError for anything that isn't an integer, ArgumentTypeError
    for lists and strings.
    Source: StableHLO specification, `pad`.

    >>> pad(np.arange(1, 4), 0, [(1, 0, 1)])
    Array([0, 1, 0, 2, 0, 3], dtype=int32)
    """
    config: Any = tuple([canonical_shape(entry) for entry in padding_config])
    if any(len(entry) != 3 for entry in config):
        raise ArgumentValueError(
            "pad needs (low, high, interior) for each dimension.", got=f"padding_config: {config}"
        )
    return bind1(pad_p, operand, padding_value, params=PadParams(config))


# Putting together ---------------------------------------------------------------------------------


class Joining(JointlyLinear[P]):
    """A primitive that joins arrays along an axis; the arrays' cotangents are slices of the result's."""

    def check(self, avals: Avals) -> None:
        """Raise unless there are operands, of one dtype and rank."""
        if not avals:
            raise ArgumentValueError(f"{self.name} needs at least one array.")
        check_one_dtype(
            self.name,
            avals,
            do=f"Convert one with `lax.convert_element_type`, or use `jnp.{self.name}`, which promotes.",
        )
        if any(a.ndim != avals[0].ndim for a in avals):
            raise ShapeError(
                f"{self.name} needs operands with one number of dimensions.",
                got=texts("operand", avals),
            )


def aligned_at_one_dim(axis: BatchAxis, operands: Operands, dims: Dims) -> tuple[Values, int]:
    """Operands of one rank with all their batch axes at one place, and that place.

    Those without a batch axis are repeated, and laid out along it as the first of the others.
    """
    first, target = next((x, d) for x, d in strict_zip(operands, dims) if d is not None)
    shown = type_of(first).shown_sharding
    aligned = []
    for x, dim in strict_zip(operands, dims):
        aligned.append(
            _repeat_along_new_axis(x, axis.size, target, shown)
            if dim is None
            else move_axis(x, dim, target)
        )
    return aligned, target


def _repeat_along_new_axis(x, size: int, position: int, shown):
    """`x` repeated along a new dimension, laid out there as a value whose type shows the sharding `shown`."""
    aval = type_of(x)
    sharding = sharding_with_dim(aval, position, shown)
    shape = insert_at(aval.shape, position, size)
    return broadcast_in_dim(x, shape, shift_axes(range(aval.ndim), position), out_sharding=sharding)


def checked_axis(name: str, axis: int, x: Any, got: Any = None, what: str = "axis") -> int:
    """`axis`; raises ShapeError unless the array of type `x` has it."""
    if not 0 <= axis < x.ndim:
        raise ShapeError(
            f"{name}: {what} {axis} is out of bounds.", got=got or f"operand: {x.text()}"
        )
    return axis


class ConcatenateParams(NamedTuple):
    dimension: int


class Concatenate(Joining[ConcatenateParams]):
    name = "concatenate"
    traits = MOVEMENT

    def abstract_eval(self, avals, params):
        self.check(avals)
        first, got = avals[0], texts("operand", avals)
        dimension = checked_axis(self.name, params.dimension, first, got, "dimension")
        for aval in avals:
            if replace_axis_size(aval.shape, dimension, first.shape[dimension]) != first.shape:
                raise ShapeError(
                    f"concatenate needs operands whose shapes differ at most in dimension {dimension}.",
                    got=got,
                )
        shape = replace_axis_size(first.shape, dimension, sum(a.shape[dimension] for a in avals))
        return [shaped_array(shape, first.dtype, all(a.weak_type for a in avals))]

    def factors(self, avals, results, params):
        dims = words(avals[0].ndim, mark="=")
        dims = with_mark(dims, [params.dimension], "~")
        return [dims] * len(avals), [dims]

    def operand_cotangents(self, cotangent, operands, params):
        dimension = params.dimension
        return split(cotangent, [x.shape[dimension] for x in types_of(operands)], dimension)

    def batch(self, axis, operands, dims, params):
        aligned, dim = aligned_at_one_dim(axis, operands, dims)
        return bind(self, *aligned, params=with_batch_dim(params, ["dimension"], dim)), [dim]

    def lower(self, ctx, operands, params):
        dimension = {"dimension": params.dimension}
        return [ctx.as_result("stablehlo.concatenate", operands, dimension)]


concatenate_p = Concatenate()


def concatenate(operands: ArrayLike | Sequence[ArrayLike], dimension: int) -> Array:
    """The arrays `operands` one after the other along `dimension`; their other dimensions are equal.

    Operands and result have one dtype.
    Raises: DtypeError for different dtypes, ShapeError for a dimension out of bounds, for shapes that differ elsewhere
    and for scalars, ArgumentValueError without operands, TypeError for a dimension that isn't an integer,
    ArgumentTypeError for lists and strings as operands.
    Source: StableHLO specification, `concatenate`.

    >>> concatenate([np.arange(2), np.arange(3)], 0)
    Array([0, 1, 0, 1, 2], dtype=int32)
    """
    arrays = _list_operands(operands, "concatenate")
    [axis] = ints([dimension])
    if len(arrays) == 1 and 0 <= axis < type_of(arrays[0]).ndim:
        return as_array(arrays[0])
    return bind1(concatenate_p, *arrays, params=ConcatenateParams(axis))


def _list_operands(operands, name: str) -> Values:
    """`operands` as a list; an array is split into its rows."""
    if isinstance(operands, (list, tuple)):
        return list(operands)
    if getattr(operands, "ndim", 0):
        return list(unstack(operands))
    raise ArgumentValueError(
        f"{name} needs a sequence of arrays.", got=f"got {type(operands).__name__}"
    )


class StackParams(NamedTuple):
    axis: int


class Stack(Joining[StackParams]):
    name = "stack"
    traits = MOVEMENT

    def abstract_eval(self, avals, params):
        self.check(avals)
        first = avals[0]
        if any(a.shape != first.shape for a in avals):
            raise ShapeError("stack needs operands of one shape.", got=texts("operand", avals))
        shape = insert_at(first.shape, params.axis, len(avals))
        return [shaped_array(shape, first.dtype, all(a.weak_type for a in avals))]

    def factors(self, avals, results, params):
        dims = words(avals[0].ndim, mark="=")
        [new] = words(1, len(dims))
        return [dims] * len(avals), [insert_at(dims, params.axis, new)]

    def operand_cotangents(self, cotangent, operands, params):
        return list(unstack(cotangent, params.axis))

    def batch(self, axis, operands, dims, params):
        aligned, dim = aligned_at_one_dim(axis, operands, dims)
        before = dim <= params.axis
        return bind(self, *aligned, params=StackParams(params.axis + before)), [dim + (not before)]

    def lower(self, ctx, operands, params):
        aval = physical(ctx.avals_in[0])
        row = shaped_array(insert_at(aval.shape, params.axis, 1), aval.dtype)
        rows = [ctx.reshape(x, row) for x in operands]
        dimension = {"dimension": params.axis}
        return [ctx.as_result("stablehlo.concatenate", rows, dimension)]


stack_p = Stack()


def stack(operands: Sequence[ArrayLike], axis: int = 0) -> Array:
    """The arrays `operands`, of one shape, side by side along a new `axis`.

    Operands and result have one dtype.
    Raises: DtypeError for different dtypes, ShapeError for different shapes, ArgumentValueError without operands,
    AxisError for an axis out of bounds, ArgumentTypeError for one that isn't an integer, and for lists and strings as
    operands.

    >>> stack([np.arange(2), np.arange(2)], axis=1).tolist()
    [[0, 0], [1, 1]]
    """
    arrays = _list_operands(operands, "stack")
    if not arrays:
        raise ArgumentValueError("stack needs at least one array.")
    ndim = type_of(arrays[0]).ndim
    return bind1(stack_p, *arrays, params=StackParams(canonical_axis(axis, ndim + 1)))


def shape_as_value(shape: Ints) -> ArrayLike:
    """`shape` as an array of integers; symbolic sizes are values of the program that is being traced.

    The result is int32[n] (int64 with 64-bit dtypes) for `n` sizes.
    Raises: ArgumentTypeError for sizes that aren't integers.

    >>> shape_as_value((2, 3))
    array([2, 3], dtype=int32)
    """
    sizes, dtype = canonical_shape(shape), dtypes.default_int_dtype()
    if is_static(sizes):
        return np.asarray(sizes, dtype)
    return stack([convert_element_type(as_value(size), dtype) for size in sizes])


# Taking apart -------------------------------------------------------------------------------------


class SplitParams(NamedTuple):
    axis: int
    sizes: Shape


class Split(Movement[SplitParams]):
    name = "split"
    traits = MOVEMENT.replace(returns_list=True)
    dim_fields, dims_mark = ("axis",), "~"

    def abstract_eval(self, avals, params):
        [x] = avals
        axis, sizes = params
        got = [f"operand: {x.text()}", f"sizes: {sizes}"]
        checked_axis(self.name, axis, x, got)
        if any(size < 0 for size in sizes):
            raise ShapeError("split needs sizes that are not negative.", got=got)
        if sum(sizes) != x.shape[axis]:
            raise ShapeError(
                f"split needs sizes that add up to {x.shape[axis]}, the size of axis {axis}.",
                got=got,
            )
        return [
            shaped_array(replace_axis_size(x.shape, axis, size), x.dtype, x.weak_type)
            for size in sizes
        ]

    def transpose(self, cotangents, operands, params):
        return [concatenate([*map(instantiate, cotangents)], params.axis)]

    def lower(self, ctx, operands, params):
        [aval], start, results = ctx.avals_in, 0, []
        for size, result in strict_zip(params.sizes, ctx.avals_out):
            results.append(_piece(ctx, operands[0], aval, params.axis, start, size, result))
            start += size
        return results


split_p = Split()


def _piece(ctx, x, aval: ShapedArray, axis: int, start: int, size: int, result: ShapedArray):
    """The lowered `size` elements from `start` along `axis` of `x`, a value of type `aval`."""
    shape = physical(aval).shape
    starts = replace_axis_size((0,) * len(shape), axis, start)
    return lowered_slice(ctx, x, starts, replace_axis_size(shape, axis, start + size), result)


def split(operand: ArrayLike, sizes: Ints, axis: int = 0) -> Values:
    """`operand` cut along `axis` into parts of the given `sizes`, which add up to its size there.

    Parts have the dtype of `operand`, and its shape but for `axis`.
    Raises: AxisError for an axis out of bounds, ShapeError for sizes below 0 or with another sum, TypeError for ones
    that aren't integers, ArgumentTypeError for lists and strings.

    >>> [x.shape for x in split(np.arange(5), (2, 3))]
    [(2,), (3,)]
    """
    params = SplitParams(canonical_axis(axis, type_of(operand).ndim), canonical_shape(sizes))
    return list(bind(split_p, operand, params=params))


class UnstackParams(NamedTuple):
    axis: int


class Unstack(Movement[UnstackParams]):
    name = "unstack"
    traits = MOVEMENT.replace(returns_list=True)
    dim_fields = ("axis",)

    def abstract_eval(self, avals, params):
        [x] = avals
        axis = checked_axis(self.name, params.axis, x)
        row = shaped_array(replace_axis_size(x.shape, axis), x.dtype, x.weak_type)
        return [row] * x.shape[axis]

    def factors(self, avals, results, params):
        dims = with_mark(words(avals[0].ndim), [params.axis], self.dims_mark)
        return [dims], [replace_axis_size(dims, params.axis)] * len(results)

    def transpose(self, cotangents, operands, params):
        return [stack([*map(instantiate, cotangents)], params.axis)]

    def batched_params(self, params, dim, size):
        batched, dim = super().batched_params(params, dim, size)
        return batched, dim - (batched.axis < dim)

    def lower(self, ctx, operands, params):
        [aval], axis = ctx.avals_in, params.axis
        row = aval.update(shape=replace_axis_size(aval.shape, axis, 1))
        return [
            ctx.reshape(_piece(ctx, operands[0], aval, axis, i, 1, row), result)
            for i, result in enumerate(ctx.avals_out)
        ]


unstack_p = Unstack()


def unstack(x: ArrayLike, axis: int = 0) -> Results:
    """The arrays that `x` holds along `axis`, which disappears.

    Results have the dtype of `x`, and its shape without `axis`.
    Raises: AxisError for an axis out of bounds, ArgumentTypeError for one that isn't an integer, and for lists and
    strings.

    >>> [row.tolist() for row in unstack(np.eye(2, dtype=np.int32))]
    [[1, 0], [0, 1]]
    """
    axis = canonical_axis(axis, type_of(x).ndim)
    return tuple(bind(unstack_p, x, params=UnstackParams(axis)))


# tile ---------------------------------------------------------------------------------------------


class TileParams(NamedTuple):
    reps: Shape


class Tile(Movement[TileParams]):
    name = "tile"
    traits = MOVEMENT

    def result_shape(self, x, params):
        if len(params.reps) != x.ndim or any(n < 0 for n in params.reps):
            raise ShapeError(
                f"tile needs {x.ndim} repetitions, one for each dimension, that are not negative.",
                got=[f"operand: {x.text()}", f"reps: {params.reps}"],
                do="To repeat along new axes, use `jnp.tile`.",
            )
        return tuple([size * n for size, n in strict_zip(x.shape, params.reps)])

    def factors(self, avals, results, params):
        repeated = [i for i, n in enumerate(params.reps) if n != 1]
        return alike(avals, results, "!", repeated)

    def operand_cotangent(self, cotangent, aval, params):
        folded = reshape(cotangent, _tile_shape(aval.shape, params.reps))
        return reduce_sum(folded, range(0, 2 * aval.ndim, 2))

    def batched_params(self, params, dim, size):
        return TileParams(insert_at(params.reps, dim, 1)), dim

    def lower(self, ctx, operands, params):
        [aval] = ctx.avals_in
        inner = element_shape(aval)
        dtype = physical(aval).dtype
        folded = (*_tile_shape(aval.shape, params.reps), *inner)
        dims = (*range(1, 2 * aval.ndim, 2), *range(2 * aval.ndim, len(folded)))
        repeated = ctx.broadcast(operands[0], dims, shaped_array(folded, dtype))
        return [ctx.reshape(repeated, ctx.avals_out[0])]


tile_p = Tile()


def _tile_shape(shape: Ints, reps: Ints) -> Shape:
    """The shape of a tiled array in which each dimension is split into (repetitions, size)."""
    return tuple([n for pair in strict_zip(reps, shape) for n in pair])


def tile(operand: ArrayLike, reps: Ints) -> Array:
    """`operand` laid `reps[i]` times in a row along each dimension `i`.

    The result has shape `[reps[i] * operand.shape[i]]` and the dtype of `operand`.
    Raises: ShapeError for another number of `reps` or negative ones, TypeError for ones that aren't integers,
    ArgumentTypeError for lists and strings.

    >>> tile(np.arange(3), (2,))
    Array([0, 1, 2, 0, 1, 2], dtype=int32)
    """
    return bind1(tile_p, operand, params=TileParams(ints(reps)))


def collapse(operand: ArrayLike, start_dimension: int, stop_dimension: int | None = None) -> Array:
    """`operand` with its dimensions from `start_dimension` up to `stop_dimension` made into one, row-major.

    Negative dimensions count from the end; without a stop, all that follow are collapsed.

    The result has the dtype of `operand`.
    Raises: ArgumentValueError for a start after the stop, TypeError for dimensions that aren't integers,
    ArgumentTypeError for lists and strings.

    >>> collapse(np.zeros((2, 3, 4)), 1).shape
    (2, 12)
    """
    shape = type_of(operand).shape
    limits = (start_dimension, stop_dimension)
    with expecting("collapse needs integers as dimensions", limits):
        start, stop, _ = builtins.slice(*limits).indices(len(shape))
    if stop < start:
        raise ArgumentValueError(
            f"collapse needs a start dimension that does not lie behind the stop dimension, got {start} and {stop}."
        )
    return reshape(operand, (*shape[:start], math.prod(shape[start:stop]), *shape[stop:]))
