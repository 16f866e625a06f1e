"""How a reshape carries the sharding of its operand.

In row-major order a dimension of size 8 sharded over an axis of size 4 is a factor 4 that is sharded, then a factor 2 that is not.
A reshape keeps the sequence of factors and only groups them otherwise, so no data moves as long as in each
new dimension the sharded factors come first.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from pellucid.sharding.explicit_types import (
    Operand,
    Shape,
    parts_of,
    result_spec,
    sharding_type_error,
)
from pellucid.sharding.mesh import AbstractMesh, AxisName
from pellucid.sharding.partition_spec import PartitionSpec

Axes = tuple[AxisName, ...]


class _Factor(NamedTuple):
    """A factor of a dimension's size: sharded over a mesh axis, or whole where `axis` is None."""

    size: int
    axis: AxisName | None


class _Group(NamedTuple):
    """Neighbouring dimensions before and after the reshape with the same number of elements."""

    old: list[int]
    new: list[int]


def reshape(operand: Operand, shape: Shape, mesh: AbstractMesh) -> PartitionSpec:
    """The spec of `operand` reshaped to `shape`.

    Dimensions that are merged join their axes; a dimension that is split gives its axes to the leading new
    dimensions. Where dimensions are only merged and the leading ones are sharded, the result is sharded over the
    axes of all of them, as in the reference, though data may move then.

    Raises: ShardingTypeError where no such sharding exists.
    """
    entries: list[Axes] = [()] * len(shape)
    groups = _groups(operand.shape, shape)
    only_merged = all(len(group.new) <= 1 for group in groups)
    for group in groups:
        sizes = [shape[i] for i in group.new]
        carried = _sharded_in_place(operand, group.old, sizes, mesh)
        if carried is None and only_merged:
            carried = _sharded_over_all(operand, group.old)
        if carried is None:
            raise sharding_type_error(
                "reshape",
                f"to shape {shape} it is ambiguous how the result is sharded.",
                [operand],
                mesh,
                "Give the result's spec: reshape(x, sizes, out_sharding=PartitionSpec(...)).",
            )
        for i, axes in zip(group.new, carried, strict=True):
            entries[i] = axes
    spec = operand.spec
    return result_spec(
        "reshape", [operand], mesh, entries, unreduced=spec.unreduced, reduced=spec.reduced
    )


def _groups(old: Shape, new: Shape) -> list[_Group]:
    """The smallest groups, in order; dimensions of size 1 that match nothing belong to none."""
    if 0 in new:
        kept_old = [i for i, size in enumerate(old) if size != 1]
        kept_new = [i for i, size in enumerate(new) if size != 1]
        if [old[i] for i in kept_old] == [new[i] for i in kept_new]:
            return [_Group([i], [j]) for i, j in zip(kept_old, kept_new, strict=True)]
        return [_Group(list(range(len(old))), list(range(len(new))))]
    groups: list[_Group] = []
    i = j = 0
    while i < len(old) and j < len(new):
        if (old[i] == 1) != (new[j] == 1):
            i, j = i + (old[i] == 1), j + (new[j] == 1)
            continue
        first_i, first_j = i, j
        i, j, old_size, new_size = i + 1, j + 1, old[i], new[j]
        while old_size != new_size:
            if old_size < new_size:
                i, old_size = i + 1, old_size * old[i]
            else:
                j, new_size = j + 1, new_size * new[j]
        groups.append(_Group(list(range(first_i, i)), list(range(first_j, j))))
    return groups


def _sharded_in_place(
    operand: Operand, dims: list[int], new_sizes: Sequence[int], mesh: AbstractMesh
) -> list[Axes] | None:
    """The axes of each new dimension if no data moves; None where that is impossible."""
    if len(dims) == len(new_sizes) == 1:
        return [operand.axes_per_dim[dims[0]]]
    if not any(operand.axes_per_dim[dim] for dim in dims):
        return [()] * len(new_sizes)
    factors = _factors(operand, dims, mesh)
    carried: list[Axes] = []
    for left in new_sizes:
        axes: list[AxisName] = []
        while factors and factors[-1].axis is not None and left % factors[-1].size == 0:
            left //= factors[-1].size
            axes.append(factors.pop().axis)
        if left > 1:
            if not factors or factors[-1].axis is not None or factors[-1].size % left:
                return None
            rest = factors.pop().size // left
            if rest > 1:
                factors.append(_Factor(rest, None))
        carried.append(tuple(axes))
    return None if factors else carried


def _factors(operand: Operand, dims: list[int], mesh: AbstractMesh) -> list[_Factor]:
    """The factors of `dims`, the minor one first; neighbouring whole ones are joined."""
    sequence: list[_Factor] = []
    for dim in dims:
        axes = operand.axes_per_dim[dim]
        sequence += [_Factor(mesh.shape[axis], axis) for axis in axes]
        sequence.append(_Factor(operand.shape[dim] // parts_of(axes, mesh), None))
    joined: list[_Factor] = []
    for is_whole, run in itertools.groupby(sequence, lambda factor: factor.axis is None):
        if is_whole:
            size = math.prod(factor.size for factor in run)
            joined += [_Factor(size, None)] if size > 1 else []
        else:
            joined += run
    return joined[::-1]


def _sharded_over_all(operand: Operand, dims: list[int]) -> list[Axes] | None:
    """All axes of merged dimensions, provided that no dimension before the last sharded one is whole."""
    per_dim = [operand.axes_per_dim[dim] for dim in dims if operand.shape[dim] > 1]
    if any(later and not earlier for earlier, later in itertools.pairwise(per_dim)):
        return None
    return [tuple(itertools.chain.from_iterable(per_dim))]
