"""Memories of simulated devices: buffers as NumPy arrays, the parts of them that are read and written, and which parts overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import PellucidError, dtypes
from pellucid._machine.checks.errors import CheckError
from pellucid._machine.refs.access import Bitcast, Reshaped, Transposed
from pellucid._machine.refs.index import RefIndex
from pellucid.kernels.programs import undefined_element


class Buffer:
    """An array in a memory of one device and, unless it is the device's, of one core."""

    __slots__ = (
        "accesses", "array", "counts", "device", "is_named", "key", "name", "owner", "size", "space",
    )  # fmt: skip

    def __init__(self, name: str, space: str, array: np.ndarray, device: int, owner: str) -> None:
        self.name, self.space, self.array = name, space, array
        self.device, self.owner = device, owner
        self.size = array.size
        self.is_named = True
        """Whether `name` is that of a reference of the user's, and no description."""
        self.counts: Any = None
        """The semaphores that its numbers are, if a program uses it so."""
        self.key: Any = None
        """Under what the same buffer of another device is found: (core or None, key)."""
        self.accesses: dict[Any, Any] = {}
        """What clocks remember of accesses to it."""

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the array."""
        return self.array.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.array.shape

    def brief(self, device: int) -> str:
        """Its name, or else its type, and its memory, seen from a device."""
        text = f"`{self.name}`" if self.is_named else self._type()
        there = "" if self.device == device else f" of device {self.device}"
        return f"{text} in {self.space}{there}"

    def _type(self) -> str:
        shape = ",".join(map(str, self.array.shape))
        return f"{dtypes.short_name(self.array.dtype)}[{shape}]"

    def __str__(self) -> str:
        return f"`{self.name}` ({self._type()} in {self.space} of {self.owner})"


def poisoned(aval: Any, *, zero: bool) -> np.ndarray:
    """An array without values: NaN, the least integer, 0, False; zeros with `zero`."""
    if zero:
        return np.zeros(aval.shape, aval.dtype)
    return np.full(aval.shape, undefined_element(aval.dtype), aval.dtype)


# Parts --------------------------------------------------------------------------------------------------------


class Box(NamedTuple):
    """The elements of an array at the positions of these ranges along its axes."""

    ranges: tuple[range, ...]

    def text(self) -> str:
        """In Python's notation."""
        return f"[{', '.join([_range_text(r) for r in self.ranges])}]"


class Points(NamedTuple):
    """Elements of an array by their positions in row-major order, ascending; `box` is the least box around them, for messages."""

    positions: np.ndarray
    box: Box

    def text(self) -> str:
        """The box around them, and how many there are."""
        return f"{len(self.positions)} elements within {self.box.text()}"


Region = Box | Points


def _range_text(r: range) -> str:
    if len(r) == 1:
        return str(r[0])
    step = "" if r.step == 1 else f":{r.step}"
    return f"{r.start}:{r.stop}{step}"


def overlap(a: Region, b: Region, shape: tuple[int, ...]) -> bool:
    """Whether two regions of an array of `shape` have an element in common."""
    if isinstance(a, Box) and isinstance(b, Box):
        return all(_meet(x, y) for x, y in zip(a.ranges, b.ranges, strict=True))
    return bool(np.isin(_flat(a, shape), _flat(b, shape), assume_unique=True).any())


def _meet(a: range, b: range) -> bool:
    if not a or not b or a[0] > b[-1] or b[0] > a[-1]:
        return False
    if a.step == 1 and b.step == 1:
        return True
    return not set(a).isdisjoint(b)


def _flat(region: Region, shape: tuple[int, ...]) -> np.ndarray:
    if isinstance(region, Points):
        return region.positions
    return _positions(shape)[np.ix_(*region.ranges)].ravel()


def _positions(shape: tuple[int, ...]) -> np.ndarray:
    """The position of each element in row-major order."""
    return np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape)


def whole_of(shape: tuple[int, ...]) -> Box:
    """All of an array."""
    return Box(tuple([range(n) for n in shape]))


def points_of(positions: np.ndarray, shape: tuple[int, ...]) -> Points:
    """Some elements, by their positions in row-major order; those below 0 are none."""
    unique = np.unique(positions)
    unique = unique[unique >= 0]
    if not len(unique):
        return Points(unique, Box(tuple([range(0)] * len(shape))))
    along = np.unravel_index(unique, shape)
    return Points(unique, Box(tuple([range(int(x.min()), int(x.max()) + 1) for x in along])))


# Indices ------------------------------------------------------------------------------------------------------


class OutOfBounds(NamedTuple):
    """A part that doesn't lie within its array: which slice of which axis."""

    axis: int
    text: str


class Place(NamedTuple):
    """Where an index leads: a NumPy index of slices and numbers, or for index arrays the position of each element, -1 outside."""

    index: tuple[Any, ...]
    positions: np.ndarray | None
    region: Region
    outside: OutOfBounds | None


def place_of(index: RefIndex, operands: Sequence[Any]) -> Place:
    """Where an index leads in arrays of its shape."""
    shape = index.shape
    values = [np.asarray(x) for x in operands]
    if any(x.shape for x in values):
        return _place_of_arrays(index, values)
    rest = iter(values)
    entries, ranges, outside = [], [], None
    for axis, (entry, n) in enumerate(zip(index.entries, shape, strict=True)):
        if entry is None:
            i = int(next(rest))
            # A number from the end, as Python has it.
            at = i + n if -n <= i < 0 else i
            entries.append(at)
            ranges.append(range(at, at + 1))
        else:
            start = int(next(rest)) if entry.start is None else entry.start
            stop = start + entry.span
            entries.append(slice(start, stop, entry.stride))
            ranges.append(range(start, stop, entry.stride))
        r = ranges[-1]
        if outside is None and len(r) and (r[0] < 0 or r[-1] >= n):
            outside = OutOfBounds(axis, _range_text(r))
    return Place(tuple(entries), None, Box(tuple(ranges)), outside)


def _place_of_arrays(index: RefIndex, values: Sequence[np.ndarray]) -> Place:
    """Index arrays beyond an axis lead nowhere; windows are moved into the axis, as in compiled programs."""
    rest, shape = iter(values), index.shape
    # One more element along each axis, which stands for what lies outside.
    padded = np.full([n + 1 for n in shape], -1)
    padded[tuple([slice(n) for n in shape])] = _positions(shape)
    entries: list[Any] = []
    for entry, n in zip(index.entries, shape, strict=True):
        if entry is None:
            x = next(rest).astype(np.int64)
            x = np.where(x < 0, x + n, x)
            entries.append(np.where((x < 0) | (x >= n), n, x))
        else:
            start = int(next(rest)) if entry.start is None else entry.start
            start = max(0, min(start, n - entry.span))
            entries.append(slice(start, start + entry.span, entry.stride))
    positions = padded[tuple(entries)]
    return Place((), positions, points_of(positions.ravel(), shape), None)


def read(array: np.ndarray, place: Place, nothing: Any) -> np.ndarray:
    """The part of `array` at a place, as a new array; elements outside are `nothing`."""
    if place.positions is not None:
        found = array.reshape(-1)[np.maximum(place.positions, 0)] if array.size else nothing
        return np.where(place.positions >= 0, found, nothing).astype(array.dtype)
    if place.outside is None:
        return np.array(array[place.index])
    region: Any = place.region
    values = np.full([len(r) for r in region.ranges], nothing, array.dtype)
    target, inside = _inside(region.ranges, array.shape)
    values[np.ix_(*target)] = array[np.ix_(*inside)]
    kept = tuple([0 if not isinstance(e, slice) else slice(None) for e in place.index])
    return values[kept]


def _inside(ranges: Sequence[range], shape: tuple[int, ...]) -> tuple[list[Any], list[Any]]:
    """For each axis (which of the positions lie inside, by their number; these positions)."""
    inside = [[k for k in r if 0 <= k < n] for r, n in zip(ranges, shape, strict=True)]
    numbers = [
        [i for i, k in enumerate(r) if 0 <= k < n] for r, n in zip(ranges, shape, strict=True)
    ]
    return numbers, inside


def within(region: Region, shape: tuple[int, ...]) -> Region:
    """The elements of a region that an array of `shape` has."""
    if isinstance(region, Points):
        return region
    cut = []
    for r, n in zip(region.ranges, shape, strict=True):
        inside = [k for k in (r[:1], r[-1:]) if len(k) and 0 <= k[0] < n]
        cut.append(r if len(inside) == 2 or not len(r) else range(0) if not (held := [k for k in r if 0 <= k < n]) else range(held[0], held[-1] + 1, r.step))  # fmt: skip
    return Box(tuple(cut))


def write(array: np.ndarray, place: Place, value: Any, *, add: bool = False) -> None:
    """Write to the part of `array` at a place; elements that lie outside are dropped."""
    if place.positions is not None:
        inside = place.positions >= 0
        flat, at = array.reshape(-1), place.positions[inside]
        new = np.broadcast_to(value, place.positions.shape)[inside]
        if add:
            np.add.at(flat, at, new)
        else:
            flat[at] = new
    elif place.outside is not None:
        region: Any = place.region
        value = np.broadcast_to(value, [len(r) for r, e in zip(region.ranges, place.index, strict=True) if isinstance(e, slice)])  # fmt: skip
        value = value.reshape([len(r) for r in region.ranges])
        source, target = _inside(region.ranges, array.shape)
        if add:
            array[np.ix_(*target)] += value[np.ix_(*source)]
        else:
            array[np.ix_(*target)] = value[np.ix_(*source)]
    elif add:
        array[place.index] += value
    else:
        array[place.index] = value


# Steps of views ------------------------------------------------------------------------------------------------


def stepped(array: np.ndarray, step: Any, operands: Sequence[Any]) -> np.ndarray:
    """The part of a part that a further step of a view leads to."""
    if type(step) is RefIndex:
        place = place_of(step, operands)
        return read(array, place, undefined_element(array.dtype))
    if type(step) is Transposed:
        return np.transpose(array, step.permutation)
    if type(step) is Reshaped:
        return array.reshape(step.new_shape)
    return _cast(array, step)


def changed(
    array: np.ndarray, steps: Sequence[tuple[Any, Sequence[Any]]], value: Any, *, add: bool
) -> np.ndarray:
    """`array` with another value for the part that steps lead to."""
    if not steps:
        return array + value if add else np.broadcast_to(value, array.shape)
    (step, operands), *rest = steps
    inner = changed(stepped(array, step, operands), rest, value, add=add)
    if type(step) is RefIndex:
        new = np.array(array)
        write(new, place_of(step, operands), inner)
        return new
    if type(step) is Transposed:
        return np.transpose(inner, np.argsort(step.permutation))
    if type(step) is Reshaped:
        return inner.reshape(step.shape)
    return _cast(inner, Bitcast(inner.shape, step.new_dtype, step.dtype))


def _cast(array: np.ndarray, step: Bitcast) -> np.ndarray:
    """The bits of an array as elements of another dtype, of which rows take up the change of width."""
    old, new = array.dtype.itemsize, np.dtype(step.new_dtype).itemsize
    array = np.ascontiguousarray(array)
    if old == new:
        return array.view(step.new_dtype)
    *outer, n_rows, n_columns = array.shape
    if old > new:
        parts = array.view(step.new_dtype).reshape(*outer, n_rows, n_columns, old // new)
        return np.swapaxes(parts, -1, -2).reshape(*outer, n_rows * (old // new), n_columns)
    n = new // old
    parts = np.swapaxes(array.reshape(*outer, n_rows // n, n, n_columns), -1, -2)
    cast = np.ascontiguousarray(parts).view(step.new_dtype)
    return cast.reshape(*outer, n_rows // n, n_columns)


def outside_error(
    what: str, buffer: Buffer, outside: OutOfBounds, where: str | None
) -> PellucidError:
    """The error for an access beyond a buffer."""
    n = buffer.array.shape[outside.axis]
    return CheckError(
        f"{what} out of bounds of {buffer}.",
        got=f"{outside.text} along axis {outside.axis} of size {n}",
        where=where,
    )


def scalar(x: Any) -> int:
    """A number that a program has computed."""
    return int(np.asarray(x))
