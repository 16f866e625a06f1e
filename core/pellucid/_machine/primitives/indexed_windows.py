"""Params of `gather` and the scatters, and the windows of an operand at index vectors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import Ints, Shape, fits, is_static, smaller, strict_zip
from pellucid._machine.ir import (
    BatchDim,
    ShapedArray,
    Words,
    element_shape,
    shaped_array,
    words,
)
from pellucid._machine.lowering.faults import CUT_INDEX_VECTORS
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.mlir import ir

from .index_dims import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    window_axes,
)
from .movement import move_axis

_INT32 = np.dtype(np.int32)
_BOOL = np.dtype(bool)


class GatherParams(NamedTuple):
    dimension_numbers: GatherDimensionNumbers
    fill_value: Any
    indices_are_sorted: bool
    mode: GatherScatterMode
    slice_sizes: Shape
    unique_indices: bool


class ScatterParams(NamedTuple):
    dimension_numbers: ScatterDimensionNumbers
    indices_are_sorted: bool
    mode: GatherScatterMode
    unique_indices: bool


def lower_indices(ctx, indices, aval: ShapedArray) -> tuple[Any, ShapedArray]:
    """Indices of at least 32 bits, whose vectors each device has whole.

    A narrower dtype may not hold the operand's sizes.
    """
    if aval.dtype.itemsize < 4:
        wide = shaped_array(aval.shape, _INT32)
        indices, aval = ctx.convert(indices, wide), wide
    if aval.shape[-1] > 1:
        indices = ctx.whole_along(CUT_INDEX_VECTORS, indices, aval, (aval.ndim - 1,))
    return indices, aval


def last_starts(ctx, indices: ShapedArray, operand: Shape, axes: Ints, windows: Shape):
    """The largest start indices with which a window lies within the operand, for each index vector."""
    largest = np.iinfo(indices.dtype).max
    starts = [operand[a] - windows[a] for a in axes]
    starts = [start if fits(start, largest) else smaller(start, largest) for start in starts]
    if is_static(starts):
        last = ctx.constant(np.array(starts, indices.dtype))
    else:
        last = ctx.convert(ctx.sizes(starts), indices.update(shape=(len(axes),)))
    return ctx.broadcast(last, (indices.ndim - 1,), indices)


def clamp_starts(ctx, indices, aval: ShapedArray, operand: Shape, axes: Ints, windows: Shape):
    """Index vectors of type `aval`, moved to the nearest at which a window lies in the operand."""
    last = last_starts(ctx, aval, operand, axes, windows)
    return ctx.op1("stablehlo.clamp", aval, [ctx.full(aval, 0), indices, last])


def dimension_numbers_attribute(
    ctx, numbers, windows: ShapedArray, indices: ShapedArray
) -> ir.Attribute:
    """The attribute `#stablehlo.gather` or `#stablehlo.scatter`; element axes of extended dtypes, last in `windows`,
    are window axes.
    """
    window_dims, collapsed, index_map, batching, indices_batching = numbers
    inner = range(windows.ndim, windows.ndim + len(element_shape(windows)))
    is_gather = isinstance(numbers, GatherDimensionNumbers)
    names = list(numbers._fields)
    if not is_gather:
        names[3] = "input_batching_dims"
    fields = strict_zip(
        names, ((*window_dims, *inner), collapsed, index_map, batching, indices_batching)
    )
    shown = [f"{name} = {list(axes)}" for name, axes in fields if axes]
    shown.append(f"index_vector_dim = {indices.ndim - 1}")
    return ctx.attribute(f"#stablehlo.{'gather' if is_gather else 'scatter'}<{', '.join(shown)}>")


def window_words(
    numbers, dims: Words, indices_ndim: int, ndim: int, mark: str
) -> tuple[Words, Words]:
    """Factors of the indices, with `mark`, and of the windows' array, for an operand with factors `dims`."""
    window_dims, _, _, batching, indices_batching = numbers
    points = words(indices_ndim, len(dims), mark=mark)
    for i, j in strict_zip(batching, indices_batching):
        points[j] = dims[i]
    outer, inner = iter(points), iter([dims[i] for i in window_axes(numbers, len(dims))])
    return points, [next(inner) if d in window_dims else next(outer) for d in range(ndim)]


def movable_indices(indices: Any, dim: BatchDim) -> tuple[Any, BatchDim]:
    """Batched indices whose last axis still holds the index vectors, and their batch axis."""
    last = type_of(indices).ndim - 1
    return (move_axis(indices, last, last - 1), last - 1) if dim == last else (indices, dim)
