"""The record of an array's partition over devices."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import ArgumentTypeError, dtypes
from pellucid._machine.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec, Sharding
from pellucid._machine.tracing import type_of

from . import schema
from .placement import mesh_record, spec_record

Tiles = tuple[list[int], list[int], list[int]]
"""(Starts and stops of the distinct parts, the part of each device)."""


def sharding(
    x: Any, *, shape: Sequence[int] | None = None, name: str = ""
) -> schema.ShardingRecord:
    """The record of an array's partition, or of the one that a sharding or mesh would create.

    A sharding needs a `shape`; by default it is the smallest shape that it divides. A mesh is shown as an array with
    one element per device. Nothing is copied from a device. `analysis.sharding` shows the intermediates of a function.

    Raises: ArgumentTypeError for what has no sharding.

    >>> mesh = pl.sharding.AbstractMesh((2, 4), ("data", "model"))
    >>> record = sharding(pl.NamedSharding(mesh, pl.P("data")), shape=(6, 5))
    >>> record.tile_starts, record.tile_stops, record.device_tiles
    ([0, 0, 3, 0], [3, 5, 6, 5], [0, 0, 0, 0, 1, 1, 1, 1])
    """
    if isinstance(x, Mesh | AbstractMesh):
        sizes = tuple(x.shape.values())
        return _record(NamedSharding(x, PartitionSpec(*x.axis_names)), sizes, "mesh", "", 0.0, name)
    if isinstance(x, Sharding):
        sizes = _smallest_shape(x) if shape is None else tuple(shape)
        text = "" if shape is None else f"[{','.join(map(str, sizes))}]"
        return _record(x, sizes, text, "", 0.0, name)
    placed = getattr(x, "sharding", None)
    if not isinstance(placed, Sharding):
        raise ArgumentTypeError(
            "sharding needs an array, a sharding or a mesh.",
            got=f"got {type(x).__name__}",
            do="Put an array on devices first: pl.device_put(x, sharding). For a function, use analysis.sharding(f, *args).",
        )
    aval = type_of(x)
    dtype: Any = aval.dtype
    item_bytes = dtypes.itemsize_bits(dtype) / 8
    return _record(placed, x.shape, aval.text(), dtypes.short_name(dtype), item_bytes, name)


def _smallest_shape(placed: Sharding) -> tuple[int, ...]:
    """The smallest shape for which each device has a part of its own."""
    if not isinstance(placed, NamedSharding):
        return (placed.num_devices,)
    sizes = placed.mesh.shape
    return tuple(math.prod(sizes[a] for a in axes) for axes in placed.spec.axes_per_dim)


def _record(
    placed: Any, shape: Sequence[int], type_text: str, dtype: str, item_bytes: float, name: str
) -> schema.ShardingRecord:
    if isinstance(placed, NamedSharding):
        mesh, tiles = mesh_record(placed.mesh), _named_tiles(placed, shape)
    else:
        devices = np.array(placed._device_assignment)
        line = Mesh(devices, ("device",)) if devices.size > 1 else Mesh(devices.reshape(()), ())
        mesh, tiles = mesh_record(line), _mapped_tiles(placed, shape)
    starts, stops, device_tiles = tiles
    return schema.ShardingRecord(
        name=name,
        type=type_text,
        dtype=dtype,
        shape=list(shape),
        item_bytes=item_bytes,
        mesh=mesh,
        spec=spec_record(placed, len(shape), 0),
        tile_starts=starts,
        tile_stops=stops,
        device_tiles=device_tiles,
    )


def _named_tiles(placed: NamedSharding, shape: Sequence[int]) -> Tiles:
    """The parts in row-major order, computed from the spec, which also works for an abstract mesh."""
    sizes = placed.mesh.shape
    axes = [*placed.spec.axes_per_dim, *[()] * len(shape)][: len(shape)]
    counts = [math.prod(sizes[a] for a in names) for names in axes]
    extents = [math.ceil(size / count) for size, count in zip(shape, counts, strict=True)]
    starts: list[int] = []
    stops: list[int] = []
    for place in itertools.product(*map(range, counts)):
        for index, size, extent in zip(place, shape, extents, strict=True):
            starts.append(min(size, index * extent))
            stops.append(min(size, (index + 1) * extent))
    # Indices of each device along each mesh axis, then along each dimension, then among the parts.
    grid = dict(zip(sizes, np.indices(tuple(sizes.values())), strict=True))
    tile = np.zeros(tuple(sizes.values()), np.int64)
    for names, count in zip(axes, counts, strict=True):
        index = np.zeros_like(tile)
        for axis in names:
            index = index * sizes[axis] + grid[axis]
        tile = tile * count + index
    return starts, stops, tile.ravel().tolist()


def _mapped_tiles(placed: Any, shape: Sequence[int]) -> Tiles:
    """The parts, ordered by the first device that holds each."""
    starts: list[int] = []
    stops: list[int] = []
    device_tiles: list[int] = []
    tile_numbers: dict[tuple[tuple[int, int], ...], int] = {}
    for index in placed.devices_indices_map(tuple(shape)).values():
        part = tuple(s.indices(size)[:2] for s, size in zip(index, shape, strict=True))
        if part not in tile_numbers:
            tile_numbers[part] = len(tile_numbers)
            starts += [start for start, _ in part]
            stops += [stop for _, stop in part]
        device_tiles.append(tile_numbers[part])
    return starts, stops, device_tiles
