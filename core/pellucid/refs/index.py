"""Indices of references: the part of the array that is read or written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid.base import (
    ArgumentValueError,
    IndexingError,
    NonConcreteBooleanIndexError,
    inserted,
    resized,
    strict_zip,
)
from pellucid.ir import Operands, Values
from pellucid.primitives.arithmetic import add, mul
from pellucid.primitives.assembly import concatenate, slice as static_slice
from pellucid.primitives.conversion import convert_element_type
from pellucid.primitives.creation import iota
from pellucid.primitives.dslice import Slice
from pellucid.primitives.gather_scatter import gather, scatter, scatter_add
from pellucid.primitives.index_dims import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
)
from pellucid.primitives.movement import broadcast_shapes, broadcast_to, reshape
from pellucid.primitives.slicing import dynamic_slice, dynamic_update_slice, wrapped
from pellucid.tracing import is_array_like, type_of

Shape = tuple[int, ...]
_INT32 = np.dtype(np.int32)


class Window(NamedTuple):
    """`size` positions along one axis, from `start` in steps of `stride`.

    The start is None where it is an operand, a scalar.
    """

    start: int | None
    size: int
    stride: int = 1

    @property
    def span(self) -> int:
        """Number of positions from the first to the last, both included."""
        return (self.size - 1) * self.stride + 1 if self.size else 0

    def covers(self, dim: int) -> bool:
        """Whether this is the whole axis, of length `dim`."""
        return self == (0, dim, 1)

    def text(self, dim: int, operand: str = "") -> str:
        """As Python writes it; `operand` is the name of the start where that is an operand."""
        if self.covers(dim):
            return ":"
        step = "" if self.stride == 1 else f":{self.stride}"
        if self.start is None:
            return f"{operand}:{operand}+{self.span}{step}"
        stop = self.start + self.size * self.stride
        return f"{self.start or ''}:{'' if stop >= dim else stop}{step}"


class RefIndex(NamedTuple):
    """An index of arrays of `shape`: for each axis a window, or None for an operand, a scalar or an array of integers.

    Operands are in the order of the axes, starts of windows among them.

    The operands' common shape is part of the result's shape; it begins at axis `position`.
    """

    shape: Shape
    entries: tuple[Window | None, ...]
    position: int

    @property
    def is_full(self) -> bool:
        """Whether the index selects the whole array."""
        return all(e is not None and e.covers(d) for e, d in strict_zip(self.entries, self.shape))

    @property
    def windows(self) -> Shape:
        """Sizes of the windows."""
        return tuple([e.size for e in self.entries if e is not None])

    def result_shape(self, operands: Sequence[Shape]) -> Shape:
        """Shape of the selected part, with operands of these shapes."""
        windows, p = self.windows, self.position
        return inserted(windows, p, *broadcast_shapes((), *operands))

    def text(self, operands: Sequence[str]) -> str:
        """As Python writes it, with names for the operands."""
        if self.is_full:
            return "..."
        names = iter(operands)
        pairs = strict_zip(self.entries, self.shape)
        return ",".join(
            [
                next(names) if e is None else e.text(d, next(names) if e.start is None else "")
                for e, d in pairs
            ]
        )


def parsed(caller: str, index: Any, shape: Shape) -> tuple[RefIndex, Values]:
    """The index that the user wrote, for arrays of `shape`, and its operands.

    Raises: IndexingError for masks, strings and other items that are no indices, ArgumentValueError for positions out of
    bounds.
    """
    items = list(index) if isinstance(index, tuple) else [index]
    dots = [i for i, x in enumerate(items) if x is Ellipsis]
    missing = len(shape) - len(items) + len(dots)
    if len(dots) > 1 or missing < 0:
        raise IndexingError(
            f"{caller}: the index doesn't fit the reference.",
            got=f"{len(items)} entries for shape {list(shape)}",
        )
    at = dots[0] if dots else len(items)
    items[at : at + len(dots)] = [slice(None)] * missing
    entries: list[Window | None] = []
    operands: Values = []
    vectors: list[int] = []
    for axis, (entry, dim) in enumerate(strict_zip(items, shape)):
        if isinstance(entry, slice):
            entries.append(_window(caller, entry, dim))
            continue
        if isinstance(entry, Slice):
            entries.append(_moving_window(caller, entry, dim))
            if entry.is_dynamic_start:
                operands.append(entry.start)
            continue
        operand = _position(caller, entry, dim)
        if type_of(operand).shape:
            vectors.append(axis)
        entries.append(None)
        operands.append(operand)
    return RefIndex(shape, tuple(entries), _vector_position(entries, vectors)), operands


def _vector_position(entries: Sequence[Window | None], vectors: Sequence[int]) -> int:
    """Position of the axes of index arrays, as in NumPy: that of the first, or 0 if a slice is between them."""
    if not vectors:
        return 0
    positions = [i for i, e in enumerate(entries) if e is None]
    together = positions == list(range(positions[0], positions[-1] + 1))
    return sum(e is not None for e in entries[: positions[0]]) if together else 0


def _window(caller: str, entry: slice, dim: int) -> Window:
    try:
        start, stop, step = entry.indices(dim)
    except TypeError:
        raise IndexingError(
            f"{caller}: the bounds of a slice must be known when the function is traced.",
            got=[
                f"{name}: {type_of(bound).text()}"
                for name, bound in (
                    ("start", entry.start),
                    ("stop", entry.stop),
                    ("step", entry.step),
                )
                if bound is not None and is_array_like(bound)
            ],
            do="Use an array of indices, for example `start + jnp.arange(size)`.",
        ) from None
    if step < 1:
        raise ArgumentValueError(
            f"{caller}: references take no slices that go backwards.", got=repr(entry)
        )
    return Window(start, max(0, -(-(stop - start) // step)), step)


def _moving_window(caller: str, entry: Slice, dim: int) -> Window:
    window = Window(None if entry.is_dynamic_start else entry.start, entry.size, entry.stride)
    if window.span > dim or not -dim <= (window.start or 0) <= dim - window.span:
        raise ArgumentValueError(
            f"{caller}: the slice is out of bounds.", got=f"{entry!r} for an axis of size {dim}"
        )
    return window if window.start is None else window._replace(start=window.start % max(dim, 1))


def _position(caller: str, entry, dim: int):
    """An integer scalar or array, as the operand it becomes."""
    if (
        entry is None
        or isinstance(entry, (bool, np.bool_, str))
        or not (is_array_like(entry) or isinstance(entry, (list, tuple)))
    ):
        raise IndexingError(
            f"{caller}: references are indexed by integers, slices, arrays of integers and `...`.",
            got=f"got {entry!r:.60}",
        )
    if isinstance(entry, (int, np.integer)):
        if not -dim <= entry < dim:
            raise ArgumentValueError(
                f"{caller}: the index is out of bounds.", got=f"{entry} for an axis of size {dim}"
            )
        return np.int32(entry)
    entry = np.asarray(entry) if isinstance(entry, (list, tuple)) else entry
    aval: Any = type_of(entry)
    if aval.dtype == np.bool_:
        raise NonConcreteBooleanIndexError(
            f"{caller}: references can't be indexed by masks.",
            got=aval.text(),
            do="Read the whole array with `ref[...]`, and choose with `jnp.where`.",
        )
    if aval.dtype.kind not in "iu":
        raise IndexingError(f"{caller}: an index must have an integer dtype.", got=aval.text())
    return entry


# Reading and writing arrays ------------------------------------------------------------------------------


def _starts(index: RefIndex, operands: Operands) -> Values:
    rest = iter(operands)
    return [
        next(rest) if e is None or e.start is None else np.int32(e.start) for e in index.entries
    ]


class _Settled(NamedTuple):
    """The part of an array that windows with traced starts select, the index within it, and the part's position."""

    part: Any
    index: RefIndex
    operands: Values
    starts: Values


def _settled(array, index: RefIndex, operands: Operands) -> _Settled:
    """The part of `array` that windows with traced starts select."""
    starts: Values = []
    rest: Values = []
    shape: list[int] = []
    entries: list[Window | None] = []
    values = iter(operands)
    for entry, dim in strict_zip(index.entries, index.shape):
        is_moving = entry is not None and entry.start is None
        starts.append(next(values) if is_moving else np.int32(0))
        shape.append(entry.span if entry is not None and is_moving else dim)
        entries.append(entry._replace(start=0) if entry is not None and is_moving else entry)
        if entry is None:
            rest.append(next(values))
    part = dynamic_slice(array, starts, shape)
    return _Settled(part, RefIndex(tuple(shape), tuple(entries), index.position), rest, starts)


def _has_moving_windows(index: RefIndex) -> bool:
    return any(e is not None and e.start is None for e in index.entries)


def _sizes(index: RefIndex) -> Shape:
    return tuple([1 if e is None else e.size for e in index.entries])


def _is_block(index: RefIndex, operands: Operands) -> bool:
    """Whether the index selects a contiguous block, at a position that may be traced."""
    return all(e is None or e.stride == 1 for e in index.entries) and not any(
        type_of(x).shape for x in operands
    )


def read(array: Any, index: RefIndex, operands: Operands) -> Any:
    """`array[index]`; positions outside are moved to the nearest inside."""
    if index.is_full:
        return array
    shape = index.result_shape([type_of(x).shape for x in operands])
    if operands and _is_block(index, operands):
        return reshape(dynamic_slice(array, _starts(index, operands), _sizes(index)), shape)
    if _has_moving_windows(index):
        array, index, operands, _ = _settled(array, index, operands)
    array, index = _sliced(array, index), _whole_windows(index)
    if not operands:
        return array
    sizes = tuple([1 if e is None else e.size for e in index.entries])
    return gather(
        array, _vectors(index, operands), _gather_numbers(index, operands), sizes,
        mode=GatherScatterMode.CLIP,
    )  # fmt: skip


def written(array: Any, index: RefIndex, operands: Operands, new: Any) -> Any:
    """`array` with `new` at `index`; positions outside are dropped."""
    if index.is_full:
        return new
    if _is_block(index, operands):
        block = reshape(new, _sizes(index))
        return dynamic_update_slice(array, block, _starts(index, operands))
    return _combined(array, index, operands, new, scatter)


def added(array: Any, index: RefIndex, operands: Operands, new: Any) -> Any:
    """`array` with `new` added at `index`, several times where positions are repeated."""
    if _is_block(index, operands):
        return written(array, index, operands, add(read(array, index, operands), new))
    return _combined(array, index, operands, new, scatter_add)


def _combined(array, index: RefIndex, operands: Operands, new, combine):
    if not _has_moving_windows(index):
        return _updated(array, index, operands, new, combine)
    part, inner, rest, starts = _settled(array, index, operands)
    return dynamic_update_slice(array, _updated(part, inner, rest, new, combine), starts)


def _sliced(array, index: RefIndex):
    """The windows of `array`, with the axes whole that have operands."""
    windows = [Window(0, d) if e is None else e for e, d in strict_zip(index.entries, index.shape)]
    if all(w.covers(d) for w, d in strict_zip(windows, index.shape)):
        return array
    starts: Values = [w.start for w in windows]
    stops = [min(s + w.size * w.stride, d) for s, w, d in strict_zip(starts, windows, index.shape)]
    return static_slice(array, starts, stops, [w.stride for w in windows])


def _whole_windows(index: RefIndex) -> RefIndex:
    """The index of the same part within the windows."""
    pairs = list(strict_zip(index.entries, index.shape))
    return RefIndex(
        tuple([d if e is None else e.size for e, d in pairs]),
        tuple([None if e is None else Window(0, e.size) for e, _ in pairs]),
        index.position,
    )


def _vectors(index: RefIndex, operands: Operands):
    """Index vectors along a new last axis; negative positions count from the end."""
    shape = broadcast_shapes((), *[type_of(x).shape for x in operands])
    dims = [d for e, d in strict_zip(index.entries, index.shape) if e is None]
    columns = [
        reshape(broadcast_to(wrapped(convert_element_type(x, _INT32), d), shape), (*shape, 1))
        for x, d in strict_zip(operands, dims)
    ]
    return concatenate(columns, len(shape)) if len(columns) > 1 else columns[0]


def _offset_axes(index: RefIndex, operands: Operands) -> Shape:
    """Axes of the part that come from windows."""
    n_vector = len(broadcast_shapes((), *[type_of(x).shape for x in operands]))
    p, n_windows = index.position, len(index.windows)
    return (*range(p), *range(p + n_vector, n_windows + n_vector))


def _operand_axes(index: RefIndex) -> Shape:
    return tuple([i for i, e in enumerate(index.entries) if e is None])


def _gather_numbers(index: RefIndex, operands: Operands) -> GatherDimensionNumbers:
    axes = _operand_axes(index)
    return GatherDimensionNumbers(_offset_axes(index, operands), axes, axes)


def _updated(array, index: RefIndex, operands: Operands, new, combine):
    """`array` with `new` scattered by `combine` into the whole windows, one axis after another."""
    partial = [
        i
        for i, (e, d) in enumerate(strict_zip(index.entries, index.shape))
        if e is not None and not e.covers(d)
    ]
    if not partial:
        if not operands:
            return new if combine is scatter else add(array, new)
        axes = _operand_axes(index)
        numbers = ScatterDimensionNumbers(_offset_axes(index, operands), axes, axes)
        return combine(array, _vectors(index, operands), new, numbers)
    axis = partial[0]
    window: Any = index.entries[axis]
    start, size, stride = window
    along = tuple([window if i == axis else Window(0, d) for i, d in enumerate(index.shape)])
    inner = RefIndex(
        resized(index.shape, axis, size),
        resized(index.entries, axis, Window(0, size)),
        index.position,
    )
    part = _sliced(array, RefIndex(index.shape, along, 0))
    part = _updated(part, inner, operands, new, combine)
    if stride == 1:
        return dynamic_update_slice(
            array, part, [np.int32(start if i == axis else 0) for i in range(len(along))]
        )
    positions = add(mul(iota(_INT32, size), np.int32(stride)), np.int32(start))
    back = RefIndex(index.shape, resized(along, axis, None), axis)
    numbers = ScatterDimensionNumbers(_offset_axes(back, [positions]), (axis,), (axis,))
    return scatter(
        array, _vectors(back, [positions]), part, numbers, unique_indices=True, indices_are_sorted=True
    )  # fmt: skip
