"""Broadcasting and summing: each is the transpose of the other."""

from __future__ import annotations

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from pellucid.base import (
    ArgumentValueError,
    Axes,
    DtypeError,
    Ints,
    Shape,
    ShapeError,
    canonical_shape,
    config,
    dtypes,
    inserted,
    ints,
    strict_zip,
)
from pellucid.ir import (
    MOVEMENT,
    BatchAxis,
    BatchDim,
    Dims,
    LaidOut,
    Operands,
    ShapedArray,
    Shown,
    Traits,
    element_shape,
    words,
)
from pellucid.tracing import bind1, type_of

from .counts import combinations
from .movement import Movement, canonical_axis, move_axis, reshape

# broadcast_in_dim ---------------------------------------------------------------------------------


class BroadcastInDimParams(NamedTuple):
    broadcast_dimensions: Axes
    shape: Shape
    sharding: Any


class BroadcastInDim(Shown, LaidOut, Movement[BroadcastInDimParams]):
    name = "broadcast_in_dim"
    traits = MOVEMENT.replace(cheap=True)
    unshown, says_nothing = ("shape",), (None, ())

    def result_shape(self, x, params):
        shape, dims = params.shape, params.broadcast_dimensions
        if any(n < 0 for n in shape):
            raise ShapeError(
                f"broadcast_in_dim can't give an array of shape {shape}: sizes are not negative."
            )
        if len(dims) != x.ndim or list(dims) != sorted(set(dims)):
            raise ShapeError(
                f"broadcast_in_dim needs {x.ndim} increasing broadcast_dimensions, got {dims}.",
                got=f"operand: {x.text()}",
            )
        for i, d in enumerate(dims):
            if not 0 <= d < len(shape) or x.shape[i] not in (1, shape[d]):
                raise ShapeError(
                    f"broadcast_in_dim can't fit axis {i} of the operand to axis {d} of shape {shape}.",
                    got=f"operand: {x.text()}",
                )
        return shape

    def factors(self, avals, results, params):
        dims = words(len(params.shape))
        sizes = strict_zip(avals[0].shape, params.broadcast_dimensions)
        return [[dims[d] if size == params.shape[d] else "1" for size, d in sizes]], [dims]

    def undo(self, cotangent, aval, params):
        aligned = {
            d for i, d in enumerate(params.broadcast_dimensions) if aval.shape[i] == params.shape[d]
        }
        summed = reduce_sum(cotangent, [d for d in range(len(params.shape)) if d not in aligned])
        return reshape(summed, aval.shape)

    def batch(self, axis, operands, dims, params):
        x = move_axis(operands[0], dims[0], 0)
        broadcast_dimensions = (0, *(d + 1 for d in params.broadcast_dimensions))
        return [broadcast_in_dim(x, (axis.size, *params.shape), broadcast_dimensions)], [0]

    def lower(self, ctx, operands, params):
        [result] = ctx.avals_out
        inner = range(result.ndim, result.ndim + len(element_shape(result)))
        return [ctx.broadcast(operands[0], (*params.broadcast_dimensions, *inner), result)]


broadcast_in_dim_p = BroadcastInDim()


def broadcast_in_dim(
    operand: Any,
    shape: Ints,
    broadcast_dimensions: Ints,
    *,
    out_sharding: Any = None,
) -> Any:
    """`operand` repeated to `shape`; its axis `i` becomes axis `broadcast_dimensions[i]`.

    An axis of size 1 is stretched. Source: StableHLO specification, `broadcast_in_dim`.

    >>> broadcast_in_dim(np.arange(2), (3, 2), (1,)).shape
    (3, 2)
    """
    shape = canonical_shape(shape)
    dims = ints(broadcast_dimensions)
    out_sharding = broadcast_in_dim_p.stated_layout(out_sharding)
    aval = type_of(operand)
    if out_sharding is None and shape == aval.shape and dims == tuple(range(len(shape))):
        return operand
    return bind1(
        broadcast_in_dim_p, operand, params=BroadcastInDimParams(dims, shape, out_sharding)
    )


def broadcast(operand: Any, sizes: Ints, *, out_sharding: Any = None) -> Any:
    """`operand` repeated along new leading axes of the given `sizes`.

    >>> broadcast(np.arange(2), (3,)).shape
    (3, 2)
    """
    if not sizes and out_sharding is None:
        return operand
    shape = (*sizes, *type_of(operand).shape)
    dims = range(len(sizes), len(shape))
    return broadcast_in_dim(operand, shape, dims, out_sharding=out_sharding)


def expand_dims(array: Any, dimensions: Ints) -> Any:
    """`array` with new axes of size 1 at `dimensions` of the result.

    >>> expand_dims(np.arange(3), (0,)).shape
    (1, 3)
    """
    aval = type_of(array)
    ndim = aval.ndim + len(set(dimensions))
    new = {canonical_axis(d, ndim) for d in dimensions}
    if len(new) != len(tuple(dimensions)):
        raise ArgumentValueError(f"expand_dims got a dimension twice: {tuple(dimensions)}.")
    if not new:
        return array
    old_axes = tuple([i for i in range(ndim) if i not in new])
    sizes = iter(aval.shape)
    shape = tuple([1 if i in new else next(sizes) for i in range(ndim)])
    return broadcast_in_dim(array, shape, old_axes)


def broadcast_shapes(*shapes: Ints) -> Shape:
    """The shape that arrays of `shapes` broadcast to, by NumPy's rules; raises ShapeError if they don't.

    >>> broadcast_shapes((3, 1), (4,))
    (3, 4)
    """
    first = tuple(shapes[0]) if shapes else ()
    if all(tuple(shape) == first for shape in shapes[1:]):
        return first
    ndim = max(len(shape) for shape in shapes)
    padded = [(1,) * (ndim - len(shape)) + tuple(shape) for shape in shapes]
    result = []
    for sizes in strict_zip(*padded):
        distinct = {s for s in sizes if s != 1}
        if len(distinct) > 1:
            raise ShapeError(
                f"shapes {', '.join(str(tuple(s)) for s in shapes)} can't be broadcast together.",
                do="Trailing dimensions must be equal, or 1.",
            )
        result.append(distinct.pop() if distinct else 1)
    return tuple(result)


def unbroadcast(x: Any, aval: ShapedArray) -> Any:
    """The sum of `x` over the axes along which a value of type `aval` was repeated to x's shape."""
    shape = type_of(x).shape
    if shape == aval.shape:
        return x
    lead = len(shape) - aval.ndim
    stretched = [lead + i for i, size in enumerate(aval.shape) if size == 1 != shape[lead + i]]
    summed = reduce_sum(x, (*range(lead), *stretched))
    return reshape(summed, aval.shape)


def broadcast_to(x: Any, shape: Shape) -> Any:
    """`x` repeated to `shape`, its axes at the end, as NumPy does."""
    aval = type_of(x)
    if aval.shape == shape:
        return x
    return broadcast_in_dim(x, shape, tuple(range(len(shape) - aval.ndim, len(shape))))


# reduce_sum ---------------------------------------------------------------------------------------


class ReduceSumParams(NamedTuple):
    axes: Axes
    out_sharding: Any


def reduced_shape(shape: Shape, axes: Ints, what: str) -> Shape:
    """`shape` without `axes`; raises for axes that are repeated or absent."""
    if len(set(axes)) != len(axes):
        raise ArgumentValueError(f"{what} got an axis twice: {tuple(axes)}.")
    for a in axes:
        if not 0 <= a < len(shape):
            raise ArgumentValueError(f"{what}: axis {a} is out of bounds for shape {shape}.")
    return tuple([s for i, s in enumerate(shape) if i not in axes])


_HALF_WIDTH = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))


class ReduceSum(LaidOut, Movement[ReduceSumParams]):
    name = "reduce_sum"
    dim_fields, dims_mark = ("axes",), ""
    traits = Traits(kind="reduction", flops=combinations, linear="all", makes_nan=True)

    def types(self, avals, params):
        # Asked here, since what the type rule itself answers is remembered, whatever the option.
        [x] = avals
        forbidden = not config.allow_f16_reductions.value and x.dtype in _HALF_WIDTH
        if forbidden and any(x.shape[a] != 1 for a in params.axes):
            raise ArgumentValueError(
                "reduce_sum of 16-bit floating numbers is forbidden by `allow_f16_reductions`.",
                got=f"operand: {x.text()}",
                do="Convert to float32 first.",
            )
        return super().types(avals, params)

    def result_shape(self, x, params):
        if x.dtype == np.bool_ or isinstance(x.dtype, dtypes.ExtendedDType):
            raise DtypeError(
                "reduce_sum needs numbers.",
                got=f"operand: {x.text()}",
                do="Convert with `.astype`.",
            )
        return reduced_shape(x.shape, params.axes, "reduce_sum")

    def undo(self, cotangent, aval, params):
        old_axes = tuple([i for i in range(aval.ndim) if i not in params.axes])
        return broadcast_in_dim(cotangent, aval.shape, old_axes)

    def batched_params(self, params, dim, size):
        return super().batched_params(params._replace(out_sharding=None), dim, size)

    def lower(self, ctx, operands, params):
        aval = ctx.avals_in[0]
        zero = ctx.constant(np.zeros((), aval.dtype))
        return [ctx.reduce(operands[0], zero, params.axes, "stablehlo.add", ctx.avals_out[0])]


reduce_sum_p = ReduceSum()


def reduce_sum(operand: Any, axes: Ints, *, out_sharding: Any = None) -> Any:
    """Sum of the elements along `axes`, which disappear.

    Source: StableHLO specification, `reduce` with `add`.

    >>> reduce_sum(np.ones((2, 3), np.float32), (1,))
    Array([3., 3.], dtype=float32)
    """
    axes = ints(axes)
    if not axes and out_sharding is None:
        return operand
    return bind1(
        reduce_sum_p,
        operand,
        params=ReduceSumParams(axes, reduce_sum_p.stated_layout(out_sharding)),
    )


# squeeze ------------------------------------------------------------------------------------------


class SqueezeParams(NamedTuple):
    dimensions: Axes


class Squeeze(Movement[SqueezeParams]):
    name = "squeeze"
    dim_fields, dims_mark = ("dimensions",), ""
    traits = MOVEMENT.replace(cheap=True)

    def result_shape(self, x, params):
        bad = [d for d in params.dimensions if x.shape[d] != 1]
        if bad:
            raise ShapeError(
                f"squeeze can only remove dimensions of size 1; dimension {bad[0]} has size {x.shape[bad[0]]}.",
                got=f"operand: {x.text()}",
            )
        return reduced_shape(x.shape, params.dimensions, "squeeze")

    def undo(self, cotangent, aval, params):
        return expand_dims(cotangent, params.dimensions)

    def lower(self, ctx, operands, params):
        return [ctx.reshape(operands[0], ctx.avals_out[0])]


squeeze_p = Squeeze()


def squeeze(array: Any, dimensions: Ints) -> Any:
    """`array` without its axes `dimensions`, which must have size 1.

    >>> squeeze(np.zeros((1, 3)), (0,)).shape
    (3,)
    """
    aval = type_of(array)
    axes = tuple(sorted(canonical_axis(d, aval.ndim) for d in dimensions))
    if len(set(axes)) != len(axes):
        raise ArgumentValueError(f"squeeze got a dimension twice: {tuple(dimensions)}.")
    if not axes:
        return array
    return bind1(squeeze_p, array, params=SqueezeParams(axes))


# Batching of operands that must have one shape ------------------------------------------------------


def brought_to(axis: BatchAxis, x: Any, dim: BatchDim, target: BatchDim) -> Any:
    """`x` with its batch axis at `target`; a value without one is repeated."""
    if dim == target or target is None:
        return x
    if dim is not None:
        return move_axis(x, dim, target)
    shape = inserted(type_of(x).shape, target, axis.size)
    return broadcast_in_dim(x, shape, [i for i in range(len(shape)) if i != target])


def aligned_for_batch(axis: BatchAxis, operands: Operands, dims: Dims) -> tuple[list[Any], int]:
    """Operands of an elementwise rule brought to fit, and where the batch axis then is.

    That is where all have it, or else in front. An operand without a batch axis gets one of size 1, unless it is
    a scalar: those fit as they are.
    """
    ndims = [type_of(x).ndim - (d is not None) for x, d in strict_zip(operands, dims)]
    ndim = max(ndims)
    places = {(d, n) for d, n in strict_zip(dims, ndims) if d is not None or n}
    target: int = places.pop()[0] if len(places) == 1 else 0  # pyright: ignore[reportAssignmentType]  # one has a batch axis
    aligned = []
    for x, dim, n in strict_zip(operands, dims, ndims):
        if dim is None:
            aligned.append(expand_dims(x, (target,)) if n else x)
        elif n == ndim:
            aligned.append(move_axis(x, dim, target))
        else:
            aligned.append(expand_dims(x, [i for i in range(ndim + 1) if i != target]))
    return aligned, target
