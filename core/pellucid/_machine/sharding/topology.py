"""Device orders for meshes of a given shape, such that mesh axes follow the links between devices.

Communication along a mesh axis is fastest between linked neighbours. Devices with coordinates form a grid whose axes
are rings of links, so each mesh axis should consist of whole grid axes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import Ints, Shape, strict_zip
from pellucid._machine.base.late import late
from pellucid._machine.base.narrowing import is_iterable

from .errors import MeshError, ShardingArgumentError
from .mesh import AxisName, AxisType, Mesh

Devices = Sequence[Any]
Grid = np.ndarray
"""An array of devices, one dimension for each axis."""


def make_mesh(
    axis_shapes: Ints,
    axis_names: Sequence[AxisName],
    axis_types: Sequence[AxisType] | AxisType | None = None,
    *,
    devices: Devices | None = None,
) -> Mesh:
    """A mesh with these sizes and names, over the first devices, in an order that suits the shape.

    `axis_types` defaults to Explicit for every axis: types show how values are sharded.

    Raises: MeshError if there are too few devices, or sizes, names and types do not fit together.

    >>> make_mesh((2, 4), ("data", "model"))
    Mesh(axis_sizes=(2, 4), axis_names=('data', 'model'), axis_types=(Explicit, Explicit))
    """
    sizes = _checked_shape("make_mesh", axis_shapes)
    needed = math.prod(sizes)
    available = _devices_or_default(devices)
    if len(available) < needed:
        raise MeshError(
            f"make_mesh: a mesh of {_times(sizes)} needs {needed} devices.",
            got=f"{len(available)} devices",
            do="Choose smaller axes, or on CPU ask for more virtual devices.",
        )
    names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
    types = (AxisType.Explicit,) * len(names) if axis_types is None else axis_types
    return Mesh(create_device_mesh(sizes, available[:needed]), names, types)


def create_device_mesh(
    mesh_shape: Ints,
    devices: Devices | None = None,
    *,
    contiguous_submeshes: bool = False,
    allow_split_physical_axes: bool = False,
) -> Grid:
    """All `devices` in an array of `mesh_shape`, for `Mesh`.

    Devices with coordinates (TPU) are arranged so that mesh axes follow physical links, the last axis,
    which should communicate most, best; others keep their order. With `contiguous_submeshes` the devices of
    each process fill a box of the result. With `allow_split_physical_axes` a mesh axis may take a part of a
    physical one, which is slower.

    Raises: MeshError if the number of devices differs from the product of `mesh_shape`, or no such
    arrangement exists.

    >>> create_device_mesh((2, 4), pl.devices("cpu"))[1]
    array([CpuDevice(id=4), CpuDevice(id=5), CpuDevice(id=6), CpuDevice(id=7)], dtype=object)
    """
    shape = _checked_shape("create_device_mesh", mesh_shape)
    available = _devices_or_default(devices)
    if len(available) != math.prod(shape):
        raise MeshError(
            f"create_device_mesh: a mesh of {_times(shape)} has {math.prod(shape)} places.",
            got=f"{len(available)} devices",
            do="Pass just the devices to use: create_device_mesh(shape, devices[:n]).",
        )
    where = ""
    if getattr(available[0], "coords", None) is None:
        candidates = [np.array(available, object).reshape(shape)]
    else:
        grid = grid_of(available)
        where = f" in a grid of {_times(grid.shape)}"
        handler = device_kind_handler_dict.get(available[0].device_kind)
        ordered = None if handler is None else handler(shape, available)
        candidates = (
            layouts(grid, shape, split=allow_split_physical_axes)
            if ordered is None
            else [np.array(ordered, object).reshape(shape)]
        )
    for candidate in candidates:
        if not contiguous_submeshes or _processes_fill_boxes(candidate):
            return candidate
    condition = " with one box for each process" if contiguous_submeshes else ""
    split = "" if allow_split_physical_axes else ", or pass allow_split_physical_axes=True"
    raise MeshError(
        f"create_device_mesh: {_times(shape)} can't be laid onto the devices' grid{condition}.",
        got=f"{len(available)} devices{where}",
        do=f"Choose sizes that are products of whole grid axes{split}.",
    )


def create_hybrid_device_mesh(
    mesh_shape: Ints,
    dcn_mesh_shape: Ints,
    devices: Devices | None = None,
    *,
    process_is_granule: bool = False,
    should_sort_granules_by_key: bool = True,
    allow_split_physical_axes: bool = False,
) -> Grid:
    """Devices in an array for two networks: fast within a granule, slow between granules.

    A granule is a slice (devices with one `slice_index`), or a process. Each is arranged as `mesh_shape`, and
    the granules as `dcn_mesh_shape`; the result has the product of both along each axis, so an axis with 1
    in `dcn_mesh_shape` stays within granules.

    Raises: MeshError if the granules are not as many as `dcn_mesh_shape` says, or not all of one size.

    >>> create_hybrid_device_mesh((2, 4), (1, 1), pl.devices("cpu"), process_is_granule=True).shape
    (2, 4)
    """
    shape = _checked_shape("create_hybrid_device_mesh", mesh_shape)
    outer = _checked_shape("create_hybrid_device_mesh", dcn_mesh_shape)
    if len(shape) != len(outer):
        raise MeshError(
            "create_hybrid_device_mesh: both shapes need the same number of axes.",
            got=[f"mesh_shape {shape}", f"dcn_mesh_shape {outer}"],
            do="Write 1 for an axis that is only in one of them.",
        )
    key = "process_index" if process_is_granule else "slice_index"
    granules: dict[int, list[Any]] = {}
    for device in _devices_or_default(devices):
        if getattr(device, key, None) is None:
            raise MeshError(
                f"create_hybrid_device_mesh: devices have no {key}.",
                got=f"{device!r}",
                do="Pass process_is_granule=True to take processes as granules.",
            )
        granules.setdefault(getattr(device, key), []).append(device)
    if len(granules) != math.prod(outer):
        raise MeshError(
            f"create_hybrid_device_mesh: dcn_mesh_shape {_times(outer)} is for {math.prod(outer)} granules.",
            got=f"{len(granules)} granules, by {key}",
        )
    keys = sorted(granules) if should_sort_granules_by_key else list(granules)
    inner = [
        create_device_mesh(shape, granules[k], allow_split_physical_axes=allow_split_physical_axes)
        for k in keys
    ]
    # [granule axes…, device axes…] becomes [granule axis, device axis] pairs, then products.
    stacked = np.stack(inner).reshape(*outer, *shape)
    paired = [axis for i in range(len(shape)) for axis in (i, len(shape) + i)]
    return stacked.transpose(paired).reshape([m * n for m, n in strict_zip(outer, shape)])


def _ring_of_small_slice(shape: Shape, devices: Devices) -> list[Any] | None:
    """The devices in the order of one ring through all of them, for a slice that is too small to wrap around and so
    has no rings along its axes; None for other slices, and for an odd size of axis 1.
    """
    grid = grid_of(devices)
    is_line = sum(size > 1 for size in shape) <= 1
    fits = (
        grid.ndim == 3 and grid.shape[2] == 1 and (grid.size <= 8 or (grid.size == 16 and is_line))
    )
    return ring(grid[:, :, 0]) if fits and grid.shape[1] % 2 == 0 else None


def _ring_of_cube(shape: Shape, devices: Devices) -> list[Any] | None:
    """A cube of 2x2x2 chips does not wrap around either."""
    grid = grid_of(devices)
    return ring(grid) if grid.shape == (2, 2, 2) else None


def _rings_of_trays(shape: Shape, devices: Devices) -> list[Any] | None:
    """The order of devices in rings through trays of 2x2 chips with two cores each; None if another order is better."""
    grid = grid_of(devices)
    if grid.ndim != 4 or (grid.shape[:2] != (2, 2) and shape[-1] != 8):
        return None
    if grid.shape[0] % 2 or grid.shape[1] % 2:
        return None
    return [
        device
        for z in range(grid.shape[2])
        for y in range(0, grid.shape[1], 2)
        for x in range(0, grid.shape[0], 2)
        for chip in (grid[x, y, z], grid[x + 1, y, z], grid[x + 1, y + 1, z], grid[x, y + 1, z])
        for device in chip
    ]


device_kind_handler_dict: dict[str, Callable[[Shape, Devices], list[Any] | None]] = {
    "TPU v2": _rings_of_trays,
    "TPU v3": _rings_of_trays,
    "TPU v4 lite": _ring_of_small_slice,
    "TPU v5 lite": _ring_of_small_slice,
    "TPU v6 lite": _ring_of_small_slice,
    "TPU8i": _ring_of_small_slice,
    "TPU v5p": _ring_of_cube,
    "TPU7": _rings_of_trays,
    "TPU7x": _rings_of_trays,
}
"""For kinds of devices with a better order than that of their grid: `handler(mesh_shape, devices)` gives the
devices in order, or None where the grid is best."""


def _devices_or_default(devices: Devices | None) -> list[Any]:
    if devices is not None:
        return list(np.asarray(devices, dtype=object).flat)
    return list(late("devices")())


def _checked_shape(caller: str, shape: Any) -> Shape:
    if isinstance(shape, int) or not is_iterable(shape):
        raise ShardingArgumentError(
            f"{caller}: the shape of a mesh must be a sequence of sizes.",
            got=f"{shape!r} of type {type(shape).__name__}",
            do=f"Write ({shape},)." if isinstance(shape, int) else None,
        )
    sizes = tuple(int(size) for size in shape)
    if any(size < 1 for size in sizes):
        raise MeshError(f"{caller}: sizes of mesh axes must be at least 1.", got=f"sizes {sizes}")
    return sizes


def _processes_fill_boxes(devices: Grid) -> bool:
    places: dict[int, list[tuple[int, ...]]] = {}
    for place, device in np.ndenumerate(devices):
        places.setdefault(device.process_index, []).append(place)
    return all(
        math.prod(max(along) - min(along) + 1 for along in zip(*of_process)) == len(of_process)
        for of_process in places.values()
    )


def _times(shape: Ints) -> str:
    return "x".join(map(str, shape)) or "one device"


# The grid of devices with coordinates -----------------------------------------------------------------


def grid_of(devices: Devices) -> Grid:
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
    """Generates, for each logical axis, the factors of the physical axes that are assigned to it, from those in
    `left`.
    """
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
    allowed = [
        [f for f in range(1, available + 1) if available % f == 0]
        if split
        else [1, available if available == axis else 1]
        for axis, available in strict_zip(physical, left)
    ]
    fitting = {factors for factors in itertools.product(*allowed) if math.prod(factors) == size}

    def rank(factors: Shape) -> Any:
        whole = [f for f, axis in strict_zip(factors, physical) if f == axis > 1]
        return math.prod(whole), len(whole), factors

    return sorted(fitting, key=rank, reverse=True)
