"""A NumPy index becomes the cheapest primitive: `slice`, `dynamic_slice` or `gather`.

Outside traces an index is one compiled call: it is compiled for the index's structure (which axes have
scalars, windows of which lengths, arrays), and its numbers are operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import ArrayLike, IndexingError, ShapeError, as_value, cached, config
from pellucid._machine.ir import AbstractRef, Operands
from pellucid._machine.primitives.arithmetic import add, mul
from pellucid._machine.primitives.assembly import concatenate, slice as static_slice
from pellucid._machine.primitives.conversion import convert_element_type
from pellucid._machine.primitives.creation import iota
from pellucid._machine.primitives.gather import gather
from pellucid._machine.primitives.index_dims import GatherDimensionNumbers, GatherScatterMode
from pellucid._machine.primitives.movement import (
    broadcast_in_dim,
    broadcast_shapes,
    broadcast_to,
    expand_dims,
    reshape,
    rev,
    squeeze,
)
from pellucid._machine.primitives.slicing import dynamic_slice, wrap_negative
from pellucid._machine.refs.access import get as read_reference
from pellucid._machine.tracing import context, type_of
from pellucid._machine.xla.arrays import Array, ArrayImpl

from .compiled import numpy_function
from .index_entries import (
    INT32_MAX,
    INT32_MIN,
    Entry,
    Index,
    NewAxis,
    Scalar,
    StridedWindow,
    Vector,
    index_dtype,
    parse_entries,
    vectors_of,
)

Shape = tuple[int, ...]


class Lookup(NamedTuple):
    """Options of a lookup, as `x.at[index].get` takes them."""

    indices_are_sorted: bool = False
    unique_indices: bool = False
    mode: GatherScatterMode = GatherScatterMode.PROMISE_IN_BOUNDS
    fill_value: Any = None
    wrap_negative_indices: bool = True


_PLAIN = Lookup()

# Outside traces -----------------------------------------------------------------------------------


def getitem(x: Array, index: Any) -> Any:
    """`x[index]` with NumPy's semantics, except that integers out of bounds are clamped to the nearest element."""
    is_number = type(index) is int and INT32_MIN <= index <= INT32_MAX
    if config.check_static_indices.value:
        is_number = False
    if is_number and context.trace.is_eager and type(x) is ArrayImpl and x.ndim:
        return _element(x, index)
    if type(x.aval) is AbstractRef:
        return read_reference(x, index)
    return take_at(x, index, _PLAIN)


@numpy_function
def _element(x: ArrayLike, index: Any) -> Any:
    return take(x, parse_entries(index, type_of(x).shape), _PLAIN)


def take_at(x: ArrayLike, index: Any, lookup: Lookup) -> Any:
    """`x[index]` by one compiled call, or by equations under a trace."""
    entries = parse_entries(index, type_of(x).shape)
    if config.check_static_indices.value and lookup.mode is _PLAIN.mode:
        _check_in_bounds(entries, type_of(x).shape)
    if not context.trace.is_eager:
        return take(x, entries, lookup)
    structure, operands = take_apart(entries)
    return _compiled_take(structure, lookup)(x, *operands)


def _check_in_bounds(index: Index, shape: Shape) -> None:
    """Raise IndexingError for a Python integer out of bounds, which mode "promise_in_bounds" excludes."""
    along = [entry for entry in index.entries if type(entry) is not NewAxis]
    for axis in index.flags:
        shape = (*shape[:axis], 1, *shape[axis:])
    for axis, (entry, size) in enumerate(zip(along, shape, strict=True)):
        if type(entry) is Scalar and type(entry.index) is int and not -size <= entry.index < size:
            raise IndexingError(
                f"index {entry.index} is out of bounds for axis {axis} of size {size}.",
                do="The option `jax_check_static_indices` asks for this check; without it the nearest element is taken.",
            )


@cached(4096)
def _compiled_take(structure: Structure, lookup: Lookup) -> Any:
    def getitem(x: Array, *operands: ArrayLike) -> Any:
        return take(x, structure.index(operands), lookup)

    return numpy_function(getitem)


class Structure(NamedTuple):
    """An index without its runtime numbers: for each entry its class, or (lowest, length, step) of a window.

    The lowest element of a window is None where it is among the numbers; at the edge it is not.
    """

    kinds: tuple[Any, ...]
    flags: tuple[int, ...]

    def index(self, operands: Operands) -> Index:
        """The index of this structure with the numbers `operands`."""
        numbers = iter(operands)
        entries: list[Entry] = []
        for kind in self.kinds:
            if type(kind) is tuple:
                lowest, length, step = kind
                entries.append(
                    StridedWindow(next(numbers) if lowest is None else lowest, length, step)
                )
            else:
                entries.append(kind() if kind is NewAxis else kind(next(numbers)))
        return Index(tuple(entries), self.flags)


def take_apart(index: Index) -> tuple[Structure, list[Any]]:
    """(structure, numbers) of an index."""
    kinds: list[Any] = []
    operands: list[Any] = []
    for entry in index.entries:
        if type(entry) is StridedWindow:
            lowest, length, step, _ = entry
            is_known_edge = type(lowest) is int and lowest == 0
            kinds.append((0 if is_known_edge else None, length, step))
            if not is_known_edge:
                operands.append(lowest)
        else:
            kinds.append(type(entry))
            operands += entry
    return Structure(tuple(kinds), index.flags), operands


# By primitives ------------------------------------------------------------------------------------


def take(x: ArrayLike, index: Index, lookup: Lookup) -> Any:
    """The elements of `x` at `index`, by the cheapest primitive."""
    x = with_flags(x, index)
    aval = type_of(x)
    arranged = arrangement(index.entries)
    window = None if arranged.vectors else _window(index.entries, aval.shape, lookup)
    if window is not None:
        result = _cut(x, window)
    else:
        places = index_windows(arranged, aval.shape, lookup.wrap_negative_indices)
        if 0 in places.shape:
            result = _empty(x, places.shape)
        else:
            for axis, size in enumerate(aval.shape):
                check_not_empty(size, axis, aval.shape)
            result = gather(
                x, places.indices, places.numbers, places.slice_sizes,
                indices_are_sorted=lookup.indices_are_sorted or not arranged.vectors,
                unique_indices=lookup.unique_indices or not arranged.vectors,
                mode=lookup.mode, fill_value=lookup.fill_value,
            )  # fmt: skip
            result = rev(result, places.reversed) if places.reversed else result
    return expand_dims(result, arranged.new_axes) if arranged.new_axes else result


def with_flags(x: ArrayLike, index: Index) -> Any:
    """`x` with the axes of size 1 that True and False in an index insert."""
    return expand_dims(x, index.flags) if index.flags else x


def _empty(x: ArrayLike, shape: Shape) -> Any:
    """An array of `shape`, which has no elements, of the type of `x`."""
    zeros = (0,) * type_of(x).ndim
    return reshape(static_slice(x, zeros, zeros), shape)


# One window: slice or dynamic_slice ---------------------------------------------------------------


class Cut(NamedTuple):
    """A window of an array: for each axis its start, span and stride."""

    starts: list[Any]
    spans: list[int]
    strides: list[int]
    reversed: list[int]
    dropped: list[int]
    outside: list[int]
    """Axes along which the window begins out of bounds: `dynamic_slice` clamps it, and `checkify` reports it."""


def _window(entries: Sequence[Entry], shape: Shape, lookup: Lookup) -> Cut | None:
    """The window that scalars and slices select; None if elements might have to be filled in, or a step is symbolic."""
    cut = Cut([], [], [], [], [], [])
    fills = lookup.mode in (GatherScatterMode.FILL_OR_DROP, GatherScatterMode.ONE_HOT)
    dtype = index_dtype(shape)
    for entry in entries:
        if isinstance(entry, NewAxis):
            continue
        axis = len(cut.starts)
        size = shape[axis]
        if isinstance(entry, StridedWindow):
            if type(entry.step) is not int:
                return None
            start = entry.lowest
            if type(start) is not int:
                start = normalize_indices(start, size, dtype, wrap=False)
            cut.spans.append(entry.span)
            cut.strides.append(abs(entry.step))
            cut.reversed.extend([axis] * (entry.step < 0))
        else:
            start = entry.index
            if type(start) is int:
                wraps = start < 0 and lookup.wrap_negative_indices
                if not 0 <= (start + size if wraps else start) < size:
                    if fills:
                        return None
                    check_not_empty(size, axis, shape)
                    if lookup.mode is not GatherScatterMode.CLIP and (start >= 0 or wraps):
                        cut.outside.append(axis)
                    else:
                        start = 0 if start < 0 else size - 1
                elif wraps:
                    start += size
            elif fills:
                return None
            else:
                check_not_empty(size, axis, shape)
                start = normalize_indices(start, size, dtype, lookup.wrap_negative_indices)
            cut.spans.append(1)
            cut.strides.append(1)
            cut.dropped.append(axis)
        cut.starts.append(start)
    return cut


def check_not_empty(size: int, axis: int, shape: Shape) -> None:
    """Raises IndexingError if `size`, that of an indexed axis, is 0."""
    if size == 0:
        raise IndexingError(
            f"an array of shape {shape} has no elements along axis {axis} to choose from."
        )


def _cut(x: ArrayLike, cut: Cut) -> Any:
    shape = type_of(x).shape
    zeros = [0] * len(shape)
    strided = any(stride > 1 for stride in cut.strides)
    if all(type(start) is int for start in cut.starts) and not cut.outside:
        limits = [start + span for start, span in zip(cut.starts, cut.spans, strict=True)]
        if cut.starts != zeros or tuple(limits) != shape or strided:
            x = static_slice(x, cut.starts, limits, cut.strides if strided else None)
    else:
        wraps = [axis in cut.outside for axis in range(len(shape))]
        x = dynamic_slice(x, cut.starts, cut.spans, allow_negative_indices=wraps)
        x = static_slice(x, zeros, cut.spans, cut.strides) if strided else x
    x = rev(x, cut.reversed) if cut.reversed else x
    return squeeze(x, cut.dropped) if cut.dropped else x


# Many places: gather, scatter ---------------------------------------------------------------------


class BlockAxes(NamedTuple):
    """The axes of a result that come from the index arrays, broadcast together."""

    shape: Shape


class Arrangement(NamedTuple):
    """The axes of the result of an index, in order."""

    entries: tuple[Entry, ...]
    axes: tuple[BlockAxes | StridedWindow | NewAxis, ...]
    vectors: list[Vector]

    @property
    def new_axes(self) -> list[int]:
        """Positions of the result's new axes of size 1."""
        positions = []
        position = 0
        for item in self.axes:
            positions.extend([position] * (type(item) is NewAxis))
            position += len(item.shape) if type(item) is BlockAxes else 1
        return positions


def arrangement(entries: tuple[Entry, ...]) -> Arrangement:
    """The axes of the result of an index with `entries`.

    Arrays and, beside them, scalars stand together for one block of axes: at the place of the first of them, but
    in front if anything else is between them (NumPy, "Combining advanced and basic indexing").
    """
    vectors = vectors_of(entries)
    axes: list[Any] = [e for e in entries if type(e) in (StridedWindow, NewAxis)]
    if vectors:
        advanced = [i for i, e in enumerate(entries) if type(e) in (Vector, Scalar)]
        together = advanced[-1] - advanced[0] + 1 == len(advanced)
        axes.insert(advanced[0] if together else 0, BlockAxes(_common_shape(vectors)))
    return Arrangement(entries, tuple(axes), vectors)


def _common_shape(vectors: Sequence[Vector]) -> Shape:
    shapes = [type_of(v.index).shape for v in vectors]
    try:
        return broadcast_shapes(*shapes)
    except ShapeError:
        raise ShapeError(
            "the arrays of an index can't be broadcast together.",
            got=f"shapes {', '.join(map(str, shapes))}",
            do="For every combination of them, use `jnp.ix_`.",
        ) from None


class IndexWindows(NamedTuple):
    """Start indices, dimension numbers and window sizes by which `gather` and `scatter` implement an index; without
    its new axes.
    """

    indices: Any
    numbers: GatherDimensionNumbers
    slice_sizes: Shape
    shape: Shape
    """Shape of the result, or of the updates."""
    reversed: list[int]
    """Axes of the result along which the order is reversed."""


def index_windows(arranged: Arrangement, shape: Shape, wrap: bool) -> IndexWindows:
    """The gather windows of an index into an array of `shape`."""
    # Axes of the start indices are the result's axes outside of windows. `batch`: their sizes; `block`: those of the
    # index arrays; `strided`: one over the elements of each window with gaps.
    batch: list[int] = []
    block: range = range(0)
    strided: list[int] = []
    offset_dims: list[int] = []
    result: list[int] = []
    backwards: list[int] = []
    for item in arranged.axes:
        if type(item) is BlockAxes:
            block = range(len(batch), len(batch) + len(item.shape))
            batch += item.shape
            result += item.shape
        elif type(item) is StridedWindow:
            if item.is_contiguous:
                offset_dims.append(len(result))
            else:
                strided.append(len(batch))
                batch.append(item.length)
            backwards.extend([len(result)] * (item.step < 0))
            result.append(item.length)

    indexing = [e for e in arranged.entries if type(e) is not NewAxis]
    dtype = index_dtype(shape)
    starts = [
        normalize_indices(e.index, size, dtype, wrap) if type(e) in (Scalar, Vector) else None
        for e, size in zip(indexing, shape, strict=True)
    ]
    columns: list[tuple[Any, Sequence[int]]] = []
    index_map: list[int] = []
    sizes = [1] * len(shape)
    for axis, (entry, size) in enumerate(zip(indexing, shape, strict=True)):
        if type(entry) is not StridedWindow:
            columns.append((starts[axis], block))
        elif not entry.is_contiguous:
            lowest = normalize_indices(entry.lowest, size, dtype, wrap=False)
            step = normalize_indices(as_value(abs(entry.step)), size, dtype, wrap=False)
            steps = mul(step, iota(dtype, entry.length))
            columns.append((add(lowest, steps), (strided.pop(0),)))
        else:
            sizes[axis] = entry.length
            if entry.length == size:
                continue
            columns.append((normalize_indices(entry.lowest, size, dtype, wrap=False), ()))
        index_map.append(axis)
    block_shape = tuple([batch[d] for d in block])
    columns = [(broadcast_to(c, block_shape) if dims is block else c, dims) for c, dims in columns]
    vectors = [broadcast_in_dim(c, (*batch, 1), dims) for c, dims in columns]
    windows = {
        axis for axis, e in enumerate(indexing) if type(e) is StridedWindow and e.is_contiguous
    }
    numbers = GatherDimensionNumbers(
        tuple(offset_dims),
        tuple([a for a in range(len(shape)) if a not in windows]),
        tuple(index_map),
    )
    indices = concatenate(vectors, len(batch)) if vectors else np.zeros(0, dtype)
    return IndexWindows(indices, numbers, tuple(sizes), tuple(result), backwards)


def normalize_indices(index: Any, size: int, dtype: np.dtype, wrap: bool) -> Any:
    """Indices into an axis of `size` as `dtype`; negative ones count from the end if `wrap`.

    What is known now is computed now.
    """
    if isinstance(index, int):
        return dtype.type(index + size if wrap and index < 0 else index)
    if isinstance(index, np.ndarray):
        index = index.astype(dtype)
        return np.where((index < 0) & wrap, index + dtype.type(size), index)
    index = wrap_negative(index, size) if wrap else index
    return index if type_of(index).dtype == dtype else convert_element_type(index, dtype)
