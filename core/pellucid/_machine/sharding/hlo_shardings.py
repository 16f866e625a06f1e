"""Conversion between specs over mesh axes and HLO shardings, and the tiles of an HLO sharding."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pellucid._machine.base import Shape, cached, strict_zip
from pellucid._machine.xla.shardings import (
    MANUAL,
    MAXIMAL,
    REPLICATED,
    UNREDUCED,
    HloSharding,
    OpSharding,
)

from .errors import PartitionSpecError, ShardingError
from .mesh import AnyMesh, AxisType
from .partition_spec import AxisName, PartitionSpec, rank_error


@cached(4096)
def hlo_sharding_of_spec(mesh: AnyMesh, spec: PartitionSpec, ndim: int) -> HloSharding:
    """The HLO sharding of `spec` over `mesh` for a value of `ndim` dimensions.

    Manual axes become a manual subgroup, whatever the spec says about other axes. Unconstrained dimensions count as
    unsharded.

    Raises: PartitionSpecError if the spec has more than `ndim` entries or names a Manual axis.
    """
    if len(spec) > ndim:
        raise rank_error(spec, ndim)
    for axis in mesh.manual_axes:
        if axis in spec.axis_names:
            raise PartitionSpecError(
                f"{spec!r} shards over mesh axis {axis!r}, which is Manual here.",
                got=str(mesh),
                do=f"Inside shard_map values are already the parts along {axis!r}: leave it out.",
            )
    # Axes over which devices share a tile, by kind of sharing, in the compiler's order.
    kinds: dict[OpSharding.Type, list[AxisName]] = {MANUAL: [], UNREDUCED: [], REPLICATED: []}
    for axis, axis_type in mesh.axis_type_by_name.items():
        if axis not in spec.axis_names:
            is_manual = axis_type is AxisType.Manual
            kind = MANUAL if is_manual else UNREDUCED if axis in spec.unreduced else REPLICATED
            kinds[kind].append(axis)
    groups = {kind: axes for kind, axes in kinds.items() if mesh.parts_of(axes) > 1}
    if mesh.parts_of(spec.axis_names) == 1 and len(groups) <= 1:
        return _ALIKE_ON_ALL_DEVICES[next(iter(groups), REPLICATED)]()
    dims = [
        *map(mesh.parts_of, spec.axes_per_dim), *[1] * (ndim - len(spec)), *map(mesh.parts_of, groups.values()),
    ]  # fmt: skip
    order = [axis for axes in (*spec.axes_per_dim, *groups.values()) for axis in axes]
    # The remaining axes have size 1.
    order += [axis for axis in mesh.axis_names if axis not in order]
    position = {name: i for i, name in enumerate(mesh.axis_names)}
    return HloSharding.iota_tile(
        dims, mesh.axis_sizes, [position[axis] for axis in order], list(groups)
    )


_ALIKE_ON_ALL_DEVICES = {
    REPLICATED: HloSharding.replicate,
    MANUAL: HloSharding.manual,
    UNREDUCED: HloSharding.unreduced,
}


class Tiles(NamedTuple):
    """The tiles into which an HLO sharding divides a value."""

    counts: Shape
    """Number of tiles along each dimension."""
    positions: np.ndarray
    """[device, dimension]: index of each device's tile along each dimension."""
    addends: np.ndarray
    """[device]: index of each device's addend of its tile; all 0 if the tiles are whole."""
    programs: np.ndarray
    """[device]: position of each device along the Manual axes; all 0 without any."""

    def indices(self, shape: Shape) -> list[tuple[slice, ...]]:
        """For each device, the slices of its part of a value of `shape`, which the counts divide."""
        slices: list[list[slice]] = [
            [slice(i * size // count, (i + 1) * size // count) for i in range(count)]
            if count > 1
            else [slice(None)]
            for size, count in strict_zip(shape, self.counts)
        ]
        positions: list[list[int]] = self.positions.tolist()
        return [
            tuple([of_dim[i] for of_dim, i in strict_zip(slices, position)])
            for position in positions
        ]


@cached(4096)
def tiles_of(sharding: HloSharding, ndim: int, num_devices: int) -> Tiles:
    """Tile counts and positions that `sharding` gives a value of `ndim` dimensions.

    Raises: ShardingError if it splits more dimensions than there are, or puts the value on one device only.
    """
    sharding = sharding.v3_to_v2_sharding()
    if sharding.to_proto().type is MAXIMAL and num_devices > 1:
        raise ShardingError(
            f"the sharding puts the value on one of {num_devices} devices.",
            got=str(sharding),
            do="Use SingleDeviceSharding(device).",
        )
    if sharding.is_tiled():
        dims = sharding.tile_assignment_dimensions()
        kinds = sharding.subgroup_types() or [REPLICATED] * sharding.replicate_on_last_tile_dim()
        devices = np.array(sharding.tile_assignment_devices(), np.int64)
    else:  # all devices form one group
        dims, devices = [num_devices], np.arange(num_devices)
        is_manual, is_unreduced = sharding.is_manual(), sharding.is_unreduced()
        kinds = [MANUAL if is_manual else UNREDUCED if is_unreduced else REPLICATED]
    counts = dims[: len(dims) - len(kinds)]
    if len(counts) > ndim:
        raise ShardingError(
            f"the sharding is for values of {len(counts)} dimensions, but the value has {ndim}.",
            got=str(sharding),
        )
    by_device = np.empty((len(devices), len(dims)), np.int64)
    by_device[devices] = np.stack(np.unravel_index(np.arange(len(devices)), dims), axis=1)
    padding = ndim - len(counts)
    same = np.zeros(len(devices), np.int64)
    group: dict[OpSharding.Type, np.ndarray] = {}
    for i, kind in enumerate(kinds, start=len(counts)):
        group[kind] = group.get(kind, same) * dims[i] + by_device[:, i]
    return Tiles(
        (*counts, *(1,) * padding),
        np.pad(by_device[:, : len(counts)], ((0, 0), (0, padding))),
        group.get(UNREDUCED, same),
        group.get(MANUAL, same),
    )


@cached(4096)
def means_the_same(a: HloSharding, b: HloSharding, ndim: int, num_devices: int) -> bool:
    """Whether two HLO shardings assign the same part of a value of `ndim` dimensions to each device."""
    if a == b:
        return True
    tiles_a, tiles_b = tiles_of(a, ndim, num_devices), tiles_of(b, ndim, num_devices)
    return all(map(np.array_equal, tiles_a[1:], tiles_b[1:]))


def spec_of_hlo_sharding(sharding: HloSharding, mesh: AnyMesh, ndim: int) -> PartitionSpec | None:
    """The PartitionSpec over `mesh` that is equivalent to `sharding`, or None if there is none.

    There is none if a dimension is sharded over a part of a mesh axis, or over devices in another order than the
    mesh's.

    A device's coordinates in the mesh determine its tile. A mesh axis belongs to the dimension whose tile index changes
    along it; among the axes of a dimension, the one with the longest stride is major. Addends and manual programs are
    treated as two additional dimensions.
    """
    tiles = tiles_of(sharding, ndim, mesh.size)
    columns = np.column_stack([tiles.positions, tiles.addends, tiles.programs])
    if len(columns) != mesh.size:
        return None
    by_coordinates = columns.reshape(*mesh.axis_sizes, ndim + 2)
    strides: list[list[tuple[int, AxisName]]] = [[] for _ in range(ndim + 2)]
    for i, (axis, size) in enumerate(mesh.shape_tuple):
        neighbour = tuple(int(i == j) for j in range(len(mesh.axis_sizes)))
        moved = np.flatnonzero(by_coordinates[neighbour]) if size > 1 else ()
        if len(moved) > 1:
            return None
        for column in moved:
            strides[column].append((int(by_coordinates[neighbour][column]), axis))
    coordinates = dict(strict_zip(mesh.axis_names, np.indices(mesh.axis_sizes)))
    expected = np.zeros_like(by_coordinates)
    for column, of_column in enumerate(strides):
        of_column.sort(key=lambda stride: stride[0], reverse=True)
        for stride, axis in of_column:
            expected[..., column] += stride * coordinates[axis]
    if not np.array_equal(expected, by_coordinates):
        return None
    *of_dims, of_addends, _ = [tuple(axis for _, axis in of_column) for of_column in strides]
    return PartitionSpec(*of_dims, unreduced=frozenset(of_addends))
