"""Indices of references: the part of an array that is read or written."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentValueError,
    IndexingError,
    Ints,
    NonConcreteBooleanIndexError,
    insert_at,
    strict_zip,
)
from pellucid._machine.ir import Avals, Operands, Values
from pellucid._machine.primitives import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    Slice,
    add,
    broadcast_in_dim,
    broadcast_shapes,
    clamp,
    concatenate,
    convert_element_type,
    dynamic_slice,
    dynamic_update_slice,
    gather,
    iota,
    mul,
    reshape,
    scatter,
    scatter_add,
    slice as static_slice,
    wrap_negative,
)
from pellucid._machine.tracing import is_array_like, type_of, types_of

Shape = tuple[int, ...]
_INT32 = np.dtype(np.int32)


class ReferenceWindow(NamedTuple):
    """`size` positions along an axis, from `start` with `stride`.

    The start is None if it is an operand, a scalar.
    """

    start: int | None
    size: int
    stride: int = 1

    @property
    def span(self) -> int:
        """Number of positions from the first to the last, inclusive."""
        return (self.size - 1) * self.stride + 1 if self.size else 0

    def covers(self, dim: int) -> bool:
        """Whether this is the whole of an axis of length `dim`."""
        return self == (0, dim, 1)

    def text(self, dim: int, operand: str = "") -> str:
        """The window in Python's notation; `operand` is the name of the start if that is an operand."""
        if self.covers(dim):
            return ":"
        step = "" if self.stride == 1 else f":{self.stride}"
        if self.start is None:
            return f"{operand}:{operand}+{self.span}{step}"
        stop = self.start + self.size * self.stride
        return f"{self.start or ''}:{'' if stop >= dim else stop}{step}"


class RefIndex(NamedTuple):
    """An index of arrays of `shape`: for each axis a window, or None for an operand (a scalar or array of integers).

    Operands, including starts of windows, are in the order of the axes.

    The operands' common shape is inserted into the result's shape at axis `position`.
    """

    shape: Shape
    entries: tuple[ReferenceWindow | None, ...]
    position: int

    @property
    def is_full(self) -> bool:
        """Whether the index selects the whole array."""
        return all(e is not None and e.covers(d) for e, d in strict_zip(self.entries, self.shape))

    @property
    def windows(self) -> Shape:
        """Sizes of the windows."""
        return tuple([e.size for e in self.entries if e is not None])

    def result_shape(self, operands: Avals) -> Shape:
        """Shape of the selected part, for operands of these types."""
        windows, p = self.windows, self.position
        return insert_at(windows, p, *broadcast_shapes((), *[a.shape for a in operands]))

    def text(self, operands: Sequence[str]) -> str:
        """The index in Python's notation, with names for the operands."""
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


def parse_index(caller: str, index: Any, shape: Shape) -> tuple[RefIndex, Values]:
    """(the index written by the user for arrays of `shape`, its operands).

    Raises: IndexingError for masks, strings and other invalid items, ArgumentValueError for positions out of bounds.
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
    entries: list[ReferenceWindow | None] = []
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


def compose(
    outer: RefIndex,
    outer_operands: Operands,
    inner: RefIndex,
    inner_operands: Operands,
    *,
    moves: bool = True,
) -> tuple[RefIndex, Values] | None:
    """(the index of a part of a part, its operands); None where arrays of positions select one of them.

    Positions within the part that only the run knows are moved to the nearest inside of it, if it `moves` them.
    """
    if has_vectors(outer_operands) or has_vectors(inner_operands):
        return None
    outer_rest, inner_rest, own_entries = map(iter, (outer_operands, inner_operands, inner.entries))
    entries: list[ReferenceWindow | None] = []
    operands: Values = []
    for entry in outer.entries:
        if entry is None:
            entries.append(None)
            operands.append(next(outer_rest))
            continue
        own = next(own_entries)
        start = next(outer_rest) if entry.start is None else entry.start
        if own is None:
            by = wrap_negative(next(inner_rest), entry.size)
            by = _moved_inside(by, entry.size - 1) if moves else by
        elif own.start is None:
            by = next(inner_rest)
            by = _moved_inside(by, entry.size - own.span) if moves else by
        else:
            by = own.start
        known = isinstance(start, (int, np.integer)) and isinstance(by, (int, np.integer))
        at: Any = int(start) + int(by) * entry.stride if known else None
        if at is None:
            at = add(_as_index(start), mul(_as_index(by), np.int32(entry.stride)))
        if own is None:
            entries.append(None)
            operands.append(_as_index(at))
        else:
            size, stride = own.size, entry.stride * own.stride
            entries.append(ReferenceWindow(at if known else None, size, stride))
            operands += [] if known else [at]
    return RefIndex(outer.shape, tuple(entries), 0), operands


def _as_index(x: Any) -> Any:
    return np.int32(x) if isinstance(x, (int, np.integer)) else convert_element_type(x, _INT32)


def _moved_inside(x: Any, most: int) -> Any:
    if isinstance(x, (int, np.integer)):
        return int(min(max(int(x), 0), most))
    return clamp(np.int32(0), _as_index(x), np.int32(most))


def _vector_position(entries: Sequence[ReferenceWindow | None], vectors: Ints) -> int:
    """Position of the axes of index arrays, as in NumPy: that of the first, or 0 if a slice is between them."""
    if not vectors:
        return 0
    positions = [i for i, e in enumerate(entries) if e is None]
    together = positions == list(range(positions[0], positions[-1] + 1))
    return sum(e is not None for e in entries[: positions[0]]) if together else 0


def _window(caller: str, entry: slice, dim: int) -> ReferenceWindow:
    if entry == slice(None):  # the size of the axis may be a symbol
        return ReferenceWindow(0, dim)
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
    return ReferenceWindow(start, max(0, -(-(stop - start) // step)), step)


def _moving_window(caller: str, entry: Slice, dim: int) -> ReferenceWindow:
    window = ReferenceWindow(
        None if entry.is_dynamic_start else entry.start, entry.known_size, entry.stride
    )
    is_ahead = caller == "at" and not entry.is_dynamic_start and entry.start >= 0
    # Masked access may extend beyond the end; other access to the view is checked later.
    if not is_ahead:
        check_window(caller, window, dim)
    if window.start is None or window.start >= 0:
        return window
    return window._replace(start=window.start % max(dim, 1))


def check_window(caller: str, window: ReferenceWindow, dim: int) -> None:
    """Raise ArgumentValueError for a window that isn't within an axis of size `dim`."""
    if window.span > dim or not -dim <= (window.start or 0) <= dim - window.span:
        stop = (window.start or 0) + window.size * window.stride + 1  # so that the text names it
        raise ArgumentValueError(
            f"{caller}: the slice is out of bounds.",
            got=f"{window.text(max(dim, stop), 'start')} for an axis of size {dim}",
        )


def check_inside(caller: str, index: RefIndex) -> None:
    """Raise ArgumentValueError for an index with a window out of bounds."""
    for entry, dim in strict_zip(index.entries, index.shape):
        if entry is not None:
            check_window(caller, entry, dim)


def _position(caller: str, entry, dim: int):
    """An integer scalar or array, as an operand."""
    if (
        entry is None
        or isinstance(entry, (bool, np.bool_, str))
        or not (is_array_like(entry) or isinstance(entry, (list, tuple)))
    ):
        raise IndexingError(
            f"{caller}: indices of references must be integers, slices, arrays of integers and `...`.",
            got=f"got {entry!r:.60}",
        )
    if isinstance(entry, (int, np.integer)):
        if not -dim <= entry < dim:
            raise ArgumentValueError(
                f"{caller}: the index is out of bounds.", got=f"{entry} for an axis of size {dim}"
            )
        return np.int32(entry)
    entry = np.asarray(entry) if isinstance(entry, (list, tuple)) else entry
    aval = type_of(entry)
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


def _spans(index: RefIndex) -> Shape:
    return tuple([1 if e is None else e.span for e in index.entries])


def _strides(index: RefIndex) -> Shape:
    return tuple([1 if e is None else e.stride for e in index.entries])


def has_vectors(operands: Operands) -> bool:
    """Whether operands of an index are arrays, so that it may select a position several times, or positions outside."""
    return any(type_of(x).shape for x in operands)


def read(array: Any, index: RefIndex, operands: Operands, outside: Any = None) -> Any:
    """`array[index]`; positions out of bounds are clamped, or those of arrays give the number `outside`."""
    if index.is_full:
        return array
    if has_vectors(operands):
        points, numbers, sizes = _points(index, operands)
        mode = GatherScatterMode.CLIP if outside is None else GatherScatterMode.FILL_OR_DROP
        return gather(array, points, numbers, sizes, mode=mode, fill_value=outside)
    starts, spans, strides = _starts(index, operands), _spans(index), _strides(index)
    if operands:
        array, starts = dynamic_slice(array, starts, spans), [0] * len(spans)
    if not operands or max(strides) > 1:
        array = static_slice(array, starts, [*map(operator.add, starts, spans)], strides)
    return reshape(array, index.result_shape(types_of(operands)))


def write(array: Any, index: RefIndex, operands: Operands, new: Any) -> Any:
    """`array` with `new` at `index`; a block is clamped into bounds, other positions out of bounds are dropped."""
    if index.is_full:
        return new
    if not _is_block(index, operands):
        return scatter_at(array, index, operands, new, scatter)
    return dynamic_update_slice(array, reshape(new, _spans(index)), _starts(index, operands))


def add_at(array: Any, index: RefIndex, operands: Operands, new: Any) -> Any:
    """`array` with `new` added at `index`, several times for repeated positions; out of bounds as in `write`."""
    if not _is_block(index, operands):
        return scatter_at(array, index, operands, new, scatter_add)
    return write(array, index, operands, add(read(array, index, operands), new))


def _is_block(index: RefIndex, operands: Operands) -> bool:
    """Whether the index selects a contiguous block, possibly at a traced position."""
    return not has_vectors(operands) and set(_strides(index)) <= {1}


def scatter_at(array: Any, index: RefIndex, operands: Operands, new: Any, combine: Any) -> Any:
    """`array` after `combine`, a function such as `scatter_add`, with `new` at `index`; positions out of bounds are dropped."""
    points, (offsets, collapsed, axes, *_), _ = _points(index, operands)
    numbers = ScatterDimensionNumbers(offsets, collapsed, axes)
    return combine(array, points, new, numbers, unique_indices=not has_vectors(operands))


def _points(index: RefIndex, operands: Operands) -> tuple[Any, GatherDimensionNumbers, Shape]:
    """(index vectors along a new last axis, their dimension numbers, sizes of the windows).

    Windows without gaps are gathered as a whole, from clamped starts; negative positions count from the end.
    """
    shape = index.result_shape(types_of(operands))
    end = index.position + len(shape) - len(index.windows)
    vector_axes = range(index.position, end)
    window_axes = iter([*range(index.position), *range(end, len(shape))])
    # By axis of the array: the size of a window gathered as a whole, with its axis of the part; positions along the
    # other axes and starts of windows, with the axes of the part along which they vary.
    windows: dict[int, tuple[int, int]] = {}
    positions: dict[int, tuple[Any, Sequence[int]]] = {}
    starts = _starts(index, operands)
    for i, (entry, dim, start) in enumerate(strict_zip(index.entries, index.shape, starts)):
        if entry is None or entry.start is None:
            start = wrap_negative(convert_element_type(start, _INT32), dim)
        if entry is None:
            positions[i] = start, vector_axes[len(vector_axes) - type_of(start).ndim :]
            continue
        axis = next(window_axes)
        if entry.start is None:
            start = clamp(np.int32(0), start, np.int32(dim - entry.span))
        if entry.stride > 1:
            steps = mul(iota(_INT32, entry.size), np.int32(entry.stride))
            positions[i] = add(steps, start), (axis,)
            continue
        windows[i] = entry.size, axis
        if not entry.covers(dim):
            positions[i] = start, ()
    offsets = tuple([axis for _, axis in windows.values()])
    sizes = tuple([windows[i][0] if i in windows else 1 for i in range(len(starts))])
    collapsed = tuple([i for i in range(len(starts)) if i not in windows])
    outer = [axis for axis in range(len(shape)) if axis not in offsets]
    column = (*[shape[axis] for axis in outer], 1)
    columns = [
        broadcast_in_dim(x, column, [outer.index(axis) for axis in axes])
        for x, axes in positions.values()
    ]
    vectors = concatenate(columns, len(outer)) if len(columns) > 1 else columns[0]
    return vectors, GatherDimensionNumbers(offsets, collapsed, tuple(positions)), sizes
