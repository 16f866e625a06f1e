"""Devices in a physical grid, and how axes of a mesh are laid onto its axes.

Communication along a mesh axis is fastest where neighbours are linked. Devices with coordinates form a
grid whose axes are rings of links, so each mesh axis should take whole axes of the grid.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pellucid.base import Ints, Shape, strict_zip

from .errors import MeshError

Grid = np.ndarray
"""An array of devices, one dimension for each axis."""


def grid_of(devices: Sequence[Any]) -> Grid:
    """The devices by their coordinates x, y, z and, where a chip has several cores, the core.

    Raises: MeshError if the coordinates do not fill a box.
    """
    places = [(*device.coords, getattr(device, "core_on_chip", 0)) for device in devices]
    low, high = np.min(places, axis=0), np.max(places, axis=0)
    grid = np.full(high - low + 1, None, dtype=object)
    for place, device in strict_zip(places, devices):
        grid[tuple(np.subtract(place, low))] = device
    if grid.size != len(devices) or any(device is None for device in grid.flat):
        raise MeshError(
            "the devices' coordinates do not fill a box, so they have no grid.",
            got=f"{len(devices)} devices in a box of {'x'.join(map(str, grid.shape))}",
            do="Give all devices of the box, or make the array of devices yourself.",
        )
    return grid[..., 0] if grid.shape[-1] == 1 else grid


def ring(grid: Grid) -> list[Any]:
    """The devices of a plane in an order in which each is linked to the next, the last to the first.

    Goes along the first row, then back and forth through the others without their first column, and home
    along that. Layers, if there are several, are gone through one after the other, forth and back.

    Raises: MeshError if the grid has no such order: an odd number of rows.
    """
    if grid.ndim == 3:
        layers = [ring(grid[:, :, z]) for z in range(grid.shape[2])]
        return [d for z, layer in enumerate(layers) for d in (layer if z % 2 == 0 else layer[::-1])]
    columns, rows = grid.shape
    if columns == 1 or rows == 1:
        return list(grid.flat)
    if rows % 2:
        raise MeshError("a plane with an odd number of rows has no ring.", got=f"{columns}x{rows}")
    order = [grid[x, 0] for x in range(columns)]
    for y in range(1, rows):
        inner = range(1, columns) if y % 2 == 0 else range(columns - 1, 0, -1)
        order += [grid[x, y] for x in inner]
    return order + [grid[0, y] for y in range(rows - 1, 0, -1)]


def layouts(grid: Grid, mesh_shape: Ints, *, split: bool) -> Iterator[Grid]:
    """The devices of `grid` in arrays of `mesh_shape`, best first.

    The last mesh axis, which communicates most, chooses first. It takes whole axes of the grid, as many as
    possible; with `split`, also a factor of an axis.
    """
    ndim = len(mesh_shape)
    for factors in _assignments(grid.shape, tuple(mesh_shape), grid.shape, split):
        by_grid_axis = grid.reshape([f[j] for j in range(grid.ndim) for f in factors])
        order = [j * ndim + i for i in range(ndim) for j in range(grid.ndim)]
        yield by_grid_axis.transpose(order).reshape(mesh_shape)


def _assignments(
    physical: Shape, logical: Shape, left: Shape, split: bool
) -> Iterator[list[Shape]]:
    """For each logical axis the factors of the physical axes that it takes, where `left` remains."""
    if not logical:
        if math.prod(left) == 1:
            yield []
        return
    for factors in _choices(physical, left, logical[-1], split):
        rest = tuple(size // factor for size, factor in strict_zip(left, factors))
        for others in _assignments(physical, logical[:-1], rest, split):
            yield [*others, factors]


def _choices(physical: Shape, left: Shape, size: int, split: bool) -> list[Shape]:
    """Factors of the physical axes whose product is `size`, best first."""
    partial = [()]
    for axis, available in strict_zip(physical, left):
        allowed = (
            [f for f in range(1, available + 1) if available % f == 0]
            if split
            else sorted({1, available})
        )
        if not split and available != axis:
            allowed = [1]
        partial = [
            (*factors, f)
            for factors in partial
            for f in allowed
            if size % (math.prod(factors) * f) == 0
        ]

    def rank(factors: Shape) -> Any:
        whole = [f for f, axis in strict_zip(factors, physical) if f == axis > 1]
        return math.prod(whole), len(whole), factors

    return sorted((f for f in partial if math.prod(f) == size), key=rank, reverse=True)
