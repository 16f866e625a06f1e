"""Entries of a NumPy index: scalars, windows, vectors of indices, new axes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from pellucid._machine.base import (
    ArrayLike,
    IndexingError,
    NonConcreteBooleanIndexError,
    Size,
    as_value,
    dilated_size,
    fits,
    known_at_least,
    slice_window,
)
from pellucid._machine.primitives.dslice import Slice
from pellucid._machine.primitives.families import kind_of
from pellucid._machine.tracing import (
    Tracer,
    is_array_like,
    refuse_masked_array,
    traced_lines,
    type_of,
)
from pellucid._machine.xla.arrays import Array, ArrayImpl

from .creation import asarray

Shape = tuple[int, ...]


class Scalar(NamedTuple):
    """One element of an axis, which the result lacks: a Python int, or an integer scalar computed at run time."""

    index: Any


class StridedWindow(NamedTuple):
    """`length` elements of an axis from `lowest` on, `abs(step)` apart; in reverse order if `step` is negative.

    They all exist. `lowest` may be a traced scalar. `extent` is stated where the elements that a symbolic slice leaves out
    after its last one exist, too: by it the length of the slice is the same expression.
    """

    lowest: Any
    length: Size
    step: Size
    extent: Size | None = None

    @property
    def span(self) -> Size:
        """Number of elements from the first to the last, both included; `extent` if that is stated."""
        return dilated_size(self.length, abs(self.step)) if self.extent is None else self.extent

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements are consecutive."""
        return abs(self.step) == 1


class Vector(NamedTuple):
    """The elements of an axis at the indices in an integer array of at least one dimension."""

    index: Any


class NewAxis(NamedTuple):
    """A new axis of size 1."""


Entry = Scalar | StridedWindow | Vector | NewAxis


class Index(NamedTuple):
    """A parsed index. `flags`: axes of size 1 to insert into the array first, for True and False."""

    entries: tuple[Entry, ...]
    flags: tuple[int, ...] = ()


def parse_entries(index: Any, shape: Shape) -> Index:
    """The entries of `index` for an array of `shape`; raises IndexingError for what can't be an index."""
    if type(index) is list:
        raise IndexingError(
            "a list can't be an index.",
            got=f"got {index!r:.80}",
            do="Use `x[jnp.array(...)]` for the elements at these places, or a tuple with one entry for each axis.",
        )
    items = _one_for_each_axis(index if isinstance(index, tuple) else (index,), len(shape))
    entries: list[Entry] = []
    flags = []
    axis = 0
    for item in items:
        kind = type(item)
        if kind is slice:
            entries.append(
                StridedWindow(0, shape[axis], 1) if item is _ALL else _window(item, shape[axis])
            )
            axis += 1
        elif kind is Slice:
            entries.append(
                StridedWindow(clip_to_index_dtype(item.start, shape), item.known_size, item.stride)
            )
            axis += 1
        elif kind is int:
            entries.append(Scalar(clip_to_index_dtype(item, shape)))
            axis += 1
        elif item is None:
            entries.append(NewAxis())
        elif kind is bool:
            flags.append(axis + len(flags))
            entries.append(Vector(np.zeros(int(item), np.int32)))
        elif kind_of(type_of(item).dtype) == "bool":
            vectors = _mask_positions(item, shape, axis)
            entries += vectors
            axis += len(vectors)
        else:
            entries.append(Vector(clip_to_index_dtype(item, shape)) if item.ndim else Scalar(item))
            axis += 1
    return Index(tuple(entries), tuple(flags))


_ALL = slice(None)

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1


def index_dtype(shape: Shape) -> np.dtype:
    """The integer dtype of indices into an array of `shape`: int32 unless a size exceeds it."""
    return np.dtype(np.int32 if all(fits(size, INT32_MAX) for size in shape) else np.int64)


def is_wide(index: Any) -> TypeGuard[np.ndarray]:
    """Whether an index is a NumPy array of integers that int32 can't hold all."""
    is_array = isinstance(index, np.ndarray) and index.dtype.kind in "iu"
    return is_array and not np.can_cast(index.dtype, np.int32)


def clip_to_index_dtype(index: Any, shape: Shape) -> Any:
    """`index`, with host integers beyond the index dtype clipped to its limits, which are out of bounds as well."""
    if isinstance(index, (int, np.integer)) and not INT32_MIN <= index <= INT32_MAX:
        limits = np.iinfo(index_dtype(shape))
        return min(max(int(index), limits.min), limits.max)
    if is_wide(index):
        dtype = index_dtype(shape)
        limits = np.iinfo(dtype)
        return np.clip(index, max(limits.min, np.iinfo(index.dtype).min), limits.max).astype(dtype)
    return index


def _one_for_each_axis(items: tuple[Any, ...], ndim: int) -> list[Any]:
    """The items of an index, simplified, with full slices in place of the ellipsis and of omitted axes."""
    simple = []
    n_axes = 0
    dots = None
    for item in items:
        kind = type(item)
        if kind is int or kind is slice or kind is Slice:
            n_axes += 1
        elif item is Ellipsis:
            if dots is not None:
                raise IndexingError("an index can have only one ellipsis (`...`).")
            dots = len(simple)
            continue
        elif item is not None:
            item = _simplify(item)
            if type(item) is not bool:
                is_mask = hasattr(item, "dtype") and kind_of(item.dtype) == "bool"
                n_axes += item.ndim if is_mask else 1
        simple.append(item)
    if n_axes > ndim:
        raise IndexingError(
            f"too many indices: the array has {ndim} dimension{'s' * (ndim != 1)}, but {n_axes} were indexed."
        )
    at = len(simple) if dots is None else dots
    simple[at:at] = [_ALL] * (ndim - n_axes)
    return simple


def _simplify(item: Any) -> Any:
    """An item of an index that is no slice, as a bool, an int, or an array of integers or bools."""
    if isinstance(item, (bool, np.bool_)):
        return bool(item)
    if isinstance(item, (int, np.integer)):
        return int(item)
    if isinstance(item, (list, tuple)):
        item = asarray(item) if len(item) else np.zeros(0, np.int32)
    if not isinstance(item, (ArrayImpl, Tracer, np.ndarray)) and is_array_like(item):
        item = asarray(item)
    if not hasattr(item, "dtype"):
        raise IndexingError(
            "an index must consist of integers, slices, `...`, None, and arrays of integers or bools.",
            got=f"got {type(item).__name__}: {item!r:.80}",
        )
    kind = kind_of(item.dtype)
    if kind not in ("signed", "unsigned", "bool"):
        raise IndexingError(
            "an array used as an index must have integer or bool elements.",
            got=f"got {item.dtype}[{','.join(map(str, item.shape))}]",
            do="Convert it with `.astype(int)`.",
        )
    if isinstance(item, np.ma.MaskedArray):
        refuse_masked_array(item)
    if isinstance(item, np.ndarray) and item.ndim == 0:
        return item.item()
    return bool(_concrete(item)) if kind == "bool" and item.ndim == 0 else item


def _window(item: slice, size: Size) -> StridedWindow:
    """The window that a slice cuts out of an axis of `size`."""
    try:
        start, length, step, extent = slice_window(item, size)
    except TypeError:
        raise _bad_slice(item) from None
    if known_at_least(1, length):
        return StridedWindow(as_value(start) if step > 0 or length else 0, length, 1)
    if step > 0:
        return StridedWindow(as_value(start), length, step, None if type(length) is int else extent)
    return StridedWindow(as_value(start + (length - 1) * step), length, step)


def _bad_slice(item: slice) -> IndexingError:
    for part in (item.start, item.stop, item.step):
        if isinstance(part, Tracer):
            return IndexingError(
                "a slice needs bounds that are known when the program is traced.",
                got=traced_lines(part),
                do="Use `x[ds(start, size)]` or `lax.dynamic_slice`, whose size is fixed and whose start may be traced, or a mask.",
            )
    return IndexingError("a slice needs integer bounds.", got=f"got {item!r}")


def _mask_positions(mask: Array, shape: Shape, axis: int) -> list[Vector]:
    """The positions at which a mask is True, a vector for each of its axes; empty vectors for a mask without
    elements.
    """
    expected = shape[axis : axis + mask.ndim]
    if any(size not in (0, n) for size, n in zip(mask.shape, expected, strict=True)):
        raise IndexingError(
            f"a mask needs the shape of the axes that it indexes, {expected}.",
            got=f"got bool{list(mask.shape)}",
        )
    return [Vector(places.astype(np.int32)) for places in np.nonzero(_concrete(mask))]


def _concrete(mask: ArrayLike | Tracer | None) -> np.ndarray:
    value = mask.concrete() if isinstance(mask, Tracer) else mask
    if value is None:
        raise NonConcreteBooleanIndexError(
            "a mask used as an index must be known when the program is traced: the result's shape depends on it.",
            got=f"got {type_of(mask).text()}",
            do="Use `jnp.where(mask, x, other)`, or `jnp.nonzero` with its argument `size`.",
        )
    return np.asarray(value)


def vectors_of(entries: Iterable[Entry]) -> list[Vector]:
    """The arrays of integers among `entries`."""
    return [e for e in entries if type(e) is Vector]
