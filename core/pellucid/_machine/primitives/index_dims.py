"""The geometry that `gather` and `scatter` share: which axes index vectors, windows and batches are.

Both have an operand, an array of index vectors (its last axis) and an array of windows: gather's result,
scatter's updates. The axes of the windows' array are *window* axes, which lie in the operand, and *index*
axes, which lie in the array of indices.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

from pellucid._machine.base import (
    ArgumentValueError,
    Axes,
    DtypeError,
    Shape,
    ShapeError,
    insert_at,
    ints,
    smaller,
    strict_zip,
)
from pellucid._machine.ir import BatchDim, ShapedArray

from .families import INTEGER, kind_of
from .movement import other_axes, shift_axes


class GatherScatterMode(enum.Enum):
    """The treatment of windows that do not lie in the operand as a whole.

    `CLIP` moves them until they fit. `FILL_OR_DROP` gathers a fill value and drops updates.
    `PROMISE_IN_BOUNDS` says that there are none; if there are, what happens is undefined (derivatives too).
    `ONE_HOT` gathers zeros and drops updates, as products with one-hot vectors do.

    >>> x = jnp.arange(3.0)
    >>> for mode in (lax.GatherScatterMode.CLIP, lax.GatherScatterMode.FILL_OR_DROP):
    ...     print(x.at[5].get(mode=mode))
    2.0
    nan
    """

    CLIP = enum.auto()
    FILL_OR_DROP = enum.auto()
    PROMISE_IN_BOUNDS = enum.auto()
    ONE_HOT = enum.auto()

    def __str__(self) -> str:
        return f"GatherScatterMode.{self.name}"

    @staticmethod
    def from_any(s: str | GatherScatterMode | None) -> GatherScatterMode:
        """The mode of a name: "clip", "fill" or "drop" (also None), "promise_in_bounds", "one_hot".

        >>> GatherScatterMode.from_any("drop").name
        'FILL_OR_DROP'
        """
        if isinstance(s, GatherScatterMode):
            return s
        mode = _MODES.get(s) if s is None or isinstance(s, str) else None
        if mode is None:
            names = ", ".join(repr(name) for name in _MODES if name is not None)
            raise ArgumentValueError(
                f"unknown gather or scatter mode {s!r}.", do=f"Choose one of {names}."
            )
        return mode


_MODES: dict[str | None, GatherScatterMode] = {
    None: GatherScatterMode.FILL_OR_DROP,
    "fill": GatherScatterMode.FILL_OR_DROP,
    "drop": GatherScatterMode.FILL_OR_DROP,
    "clip": GatherScatterMode.CLIP,
    "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
    "one_hot": GatherScatterMode.ONE_HOT,
}


class GatherDimensionNumbers(NamedTuple):
    """Dimension numbers of a gather. Source: StableHLO specification, `gather`.

    >>> columns = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(1,), start_index_map=(1,))
    >>> lax.gather(jnp.arange(6).reshape(2, 3), np.array([[2], [0]]), columns, slice_sizes=(2, 1))
    Array([[2, 5],
           [0, 3]], dtype=int32)
    """

    offset_dims: Axes
    """Axes of the result that are axes of the windows, increasing."""
    collapsed_slice_dims: Axes
    """Axes of the operand along which windows have size 1 and that the result lacks, increasing."""
    start_index_map: Axes
    """Maps each element of an index vector to the operand axis that it indexes."""
    operand_batching_dims: Axes = ()
    """Axes of the operand that correspond to axes of the indices, increasing."""
    start_indices_batching_dims: Axes = ()
    """Axes of the indices that correspond to `operand_batching_dims`."""


class ScatterDimensionNumbers(NamedTuple):
    """Dimension numbers of a scatter. Source: StableHLO specification, `scatter`.

    >>> rows = lax.ScatterDimensionNumbers(
    ...     update_window_dims=(), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)
    ... )
    >>> lax.scatter_add(jnp.zeros(3), np.array([[2], [0], [2]]), jnp.ones(3), rows)
    Array([1., 0., 2.], dtype=float32)
    """

    update_window_dims: Axes
    """Axes of the updates that are axes of the windows, increasing."""
    inserted_window_dims: Axes
    """Axes of the operand along which windows have size 1 and that the updates lack, increasing."""
    scatter_dims_to_operand_dims: Axes
    """Maps each element of an index vector to the operand axis that it indexes."""
    operand_batching_dims: Axes = ()
    """Axes of the operand that correspond to axes of the indices, increasing."""
    scatter_indices_batching_dims: Axes = ()
    """Axes of the indices that correspond to `operand_batching_dims`."""


def with_int_fields(numbers: Any) -> Any:
    """`numbers` with tuples of Python ints, so that equal numbers have equal hashes and texts."""
    return type(numbers)(*map(ints, numbers))


def window_axes(numbers: GatherDimensionNumbers | ScatterDimensionNumbers, ndim: int) -> Axes:
    """The axes of the operand that are axes of the windows' array, in their order there."""
    _, collapsed, _, batching, _ = numbers
    return other_axes(ndim, collapsed, batching)


def window_sizes(numbers: ScatterDimensionNumbers, operand: Shape, updates: Shape) -> Shape:
    """The size of a scatter's windows along each axis of the operand."""
    sizes = [smaller(1, size) for size in operand]
    for axis, d in strict_zip(window_axes(numbers, len(operand)), numbers.update_window_dims):
        sizes[axis] = updates[d]
    return tuple(sizes)


def gathered_shape(numbers: GatherDimensionNumbers, indices: Shape, slice_sizes: Shape) -> Shape:
    """The shape of a gather's result."""
    windows = iter([slice_sizes[i] for i in window_axes(numbers, len(slice_sizes))])
    batches = iter(indices[:-1])
    ndim = len(indices) - 1 + len(numbers.offset_dims)
    return tuple(
        [next(windows) if i in numbers.offset_dims else next(batches) for i in range(ndim)]
    )


# Checks -------------------------------------------------------------------------------------------


class _Check:
    """Raises errors about one call of gather or scatter."""

    def __init__(self, name: str, got: Sequence[str]) -> None:
        self.name = name
        self.got = got

    def that(self, holds: bool, needs: str) -> None:
        if not holds:
            raise ShapeError(f"{self.name} needs {needs}.", got=self.got)

    def axes(self, field: str, axes: Axes, ndim: int, of: str, *, increasing: bool = True) -> None:
        self.that(all(0 <= a < ndim for a in axes), f"{field} that are axes of {of}")
        self.that(len(set(axes)) == len(axes), f"{field} without repetition")
        if increasing:
            self.that(list(axes) == sorted(axes), f"{field} in increasing order")

    def numbers(
        self, numbers: Any, operand: ShapedArray, indices: ShapedArray, windows_ndim: int
    ) -> None:
        """Check the requirements that gather and scatter share; errors have the names of the fields of `numbers`."""
        windows, collapsed, index_map, batching, indices_batching = numbers
        fields = numbers._fields
        if kind_of(indices.dtype) not in INTEGER:
            raise DtypeError(f"{self.name} needs integer indices.", got=self.got)
        self.that(
            indices.ndim > 0,
            "indices with at least one axis, the last one of which holds the index vectors",
        )
        self.axes(fields[0], windows, windows_ndim, "the windows' array")
        self.axes(fields[1], collapsed, operand.ndim, "the operand")
        self.axes(fields[2], index_map, operand.ndim, "the operand", increasing=False)
        self.axes(fields[3], batching, operand.ndim, "the operand")
        self.axes(
            fields[4],
            indices_batching,
            indices.ndim - 1,
            "the indices before the last",
            increasing=False,
        )
        self.that(
            not {*collapsed, *index_map} & {*batching}, f"{fields[3]} that are in no other field"
        )
        self.that(
            len(windows) + len(collapsed) + len(batching) == operand.ndim,
            f"each axis of the operand among {fields[1]} or {fields[3]}, or matched by one of {fields[0]}",
        )
        self.that(
            len(index_map) == indices.shape[-1],
            f"as many {fields[2]} as the index vectors have elements, {indices.shape[-1]}",
        )
        self.that(
            [operand.shape[a] for a in batching] == [indices.shape[a] for a in indices_batching],
            f"equal sizes along {fields[3]} and {fields[4]}",
        )


def check_gather(
    operand: ShapedArray, indices: ShapedArray, numbers: GatherDimensionNumbers, slice_sizes: Shape
) -> None:
    """Raise ShapeError or DtypeError unless these make a gather."""
    got = [
        f"operand: {operand.text()}",
        f"start_indices: {indices.text()}",
        f"slice_sizes: {slice_sizes}",
        str(numbers),
    ]
    check = _Check("gather", got)
    check.numbers(numbers, operand, indices, indices.ndim - 1 + len(numbers.offset_dims))
    check.that(len(slice_sizes) == operand.ndim, "slice_sizes for each axis of the operand")
    check.that(
        all(0 <= s <= size for s, size in strict_zip(slice_sizes, operand.shape)),
        "slice_sizes that fit into the operand",
    )
    thin = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    check.that(
        all(slice_sizes[a] <= 1 for a in thin), "slice_sizes of 1 along collapsed and batching axes"
    )


def check_scatter(
    name: str,
    operand: ShapedArray,
    indices: ShapedArray,
    updates: ShapedArray,
    numbers: ScatterDimensionNumbers,
) -> None:
    """Raise ShapeError or DtypeError unless these make a scatter."""
    got = [
        f"operand: {operand.text()}",
        f"scatter_indices: {indices.text()}",
        f"updates: {updates.text()}",
        str(numbers),
    ]
    if operand.dtype != updates.dtype:
        raise DtypeError(f"{name} needs an operand and updates of one dtype.", got=got)
    check = _Check(name, got)
    check.numbers(numbers, operand, indices, updates.ndim)
    index_axes = other_axes(updates.ndim, numbers.update_window_dims)
    check.that(
        [updates.shape[a] for a in index_axes] == list(indices.shape[:-1]),
        f"updates of shape {indices.shape[:-1]} along the axes that are not update_window_dims",
    )
    sizes = window_sizes(numbers, operand.shape, updates.shape)
    check.that(
        all(s <= size for s, size in strict_zip(sizes, operand.shape)),
        "updates whose windows fit into the operand",
    )


# Batching -----------------------------------------------------------------------------------------


def with_batch(
    numbers: Any, ndim: int, windows_ndim: int, dim: BatchDim, indices_dim: BatchDim
) -> tuple[Any, int]:
    """`numbers` for an operand with a batch axis at `dim` and indices with one at `indices_dim`; at least one isn't
    None.

    `ndim` and `windows_ndim` are those of one element of the batch. Also the batch axis of the windows' array.
    """
    windows, collapsed, index_map, batching, indices_batching = numbers
    if indices_dim is None:  # windows reach over the whole batch
        before = sum(a < dim for a in window_axes(numbers, ndim))  # type: ignore[operator]
        position = (*windows, windows_ndim)[before]
        windows = insert_at(shift_axes(windows, position), before, position)
    else:
        index_axes = other_axes(windows_ndim, windows)
        position = (*index_axes, windows_ndim)[indices_dim] if index_axes else 0
        windows = shift_axes(windows, position)
        indices_batching = shift_axes(indices_batching, indices_dim)
    if dim is not None:
        collapsed, index_map, batching = (
            shift_axes(a, dim) for a in (collapsed, index_map, batching)
        )
        if indices_dim is not None:
            pairs = sorted([(dim, indices_dim), *strict_zip(batching, indices_batching)])
            batching, indices_batching = (tuple(axes) for axes in strict_zip(*pairs))
    return type(numbers)(windows, collapsed, index_map, batching, indices_batching), position
