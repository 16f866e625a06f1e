"""The device groups of collectives in an optimized program, and the mesh axes along which they lie."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from .layouts import DeclaredMesh, ValueLayout, axis_part, whole_axis

_LISTS = re.compile(r"\{([\d, ]*)\}")
_IOTA = re.compile(r"\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_ALONG_MESH = re.compile(r"mesh\[([^\]]*)\](?:, device_ids=\((.*?\)?)\))? ?\{([^}]*)\}")
_ORDER = re.compile(r"\[([\d,]+)\]T\(([\d,]+)\)")
_MESH_AXIS = re.compile(r"'([^']*)'=(\d+)")
_MESH_AXIS_USE = re.compile(r"'([^']*)'(?::\((\d+)\)(\d+))?")


def first_group(text: str, device_count: int) -> np.ndarray | None:
    """The first device group in the text of an HLO attribute, as positions of devices; None for an unknown format.

    >>> first_group("{{0,1},{2,3}}", 4), first_group("[2,2]<=[2,2]T(1,0)", 4)
    (array([0, 1]), array([0, 2]))
    >>> first_group("mesh['a'=2,'b'=4] {'a','b':(2)2}", 8)
    array([0, 1, 4, 5])
    >>> first_group("mesh['a'=4,'b'=2], device_ids=([2,4]T(1,0)) {'a'}", 8)
    array([0, 1, 2, 3])
    """
    if text in ("", "{}"):
        return np.arange(device_count)
    along = _ALONG_MESH.fullmatch(text)
    if along:
        axes, order, uses = along.groups()
        group = _group_along(_MESH_AXIS.findall(axes), _MESH_AXIS_USE.findall(uses))
        return group if order is None else _in_order(order)[group]
    iota = _IOTA.fullmatch(text)
    if iota:
        shape, dims, axes = iota.groups()
        return _transpose_numbers(dims, axes).reshape(-1, _numbers(shape)[-1])[0]
    lists = _LISTS.findall(text)
    return np.array(_numbers(lists[0])) if lists else None


def pairs_in(text: str) -> list[list[int]]:
    """The pairs (sending device, receiving device) in the text of an HLO attribute.

    >>> pairs_in("{{0,1},{1,0}}")
    [[0, 1], [1, 0]]
    """
    return list(map(_numbers, _LISTS.findall(text)))


def _numbers(text: str) -> list[int]:
    return [int(n) for n in text.split(",")]


def _transpose_numbers(dims: str, axes: str | None) -> np.ndarray:
    """The numbers 0, 1, 2, … in the shape `dims`, transposed by `axes`."""
    numbers = np.arange(math.prod(_numbers(dims))).reshape(_numbers(dims))
    return (numbers if axes is None else numbers.transpose(_numbers(axes))).ravel()


def _in_order(text: str) -> np.ndarray:
    """The devices of a mesh in the text of an HLO attribute, in row-major order."""
    transposed = _ORDER.fullmatch(text)
    return _transpose_numbers(*transposed.groups()) if transposed else np.array(_numbers(text))


def _group_along(
    axes: Sequence[tuple[str, str]], uses: Sequence[tuple[str, str, str]]
) -> np.ndarray:
    """The positions that differ from the first one only along the given mesh axes, or parts of axes."""
    sizes = {name: int(size) for name, size in axes}
    strides: dict[str, int] = {}
    stride = 1
    for name, size in reversed(sizes.items()):
        strides[name] = stride
        stride *= size
    group = np.zeros(1, int)
    for name, outer, part in uses:
        size = int(part) if part else sizes[name]
        step = strides[name] * (sizes[name] // (int(outer) * size) if part else 1)
        group = (group[:, None] + step * np.arange(size)).ravel()
    return group


def axes_along(devices: np.ndarray, mesh: DeclaredMesh) -> tuple[str, ...]:
    """The mesh axes, and parts of axes, along which the given devices differ.

    >>> square = DeclaredMesh({"x": 2, "y": 4})
    >>> axes_along(np.array([0, 4]), square), axes_along(np.array([0, 2]), square)
    (('x',), ('y:(1)2',))
    """
    sizes = mesh.sizes
    if mesh.size <= devices.max(initial=0) or not sizes:
        return ()
    places = np.unravel_index(mesh.places(devices), tuple(sizes.values()))
    return tuple(
        _part_along(axis, np.unique(along), sizes[axis])
        for axis, along in zip(sizes, places, strict=True)
        if (along != along[0]).any()
    )


def _part_along(axis: str, along: np.ndarray, size: int) -> str:
    """The part of an axis that consists of the positions `along`; the whole axis if they form no such part."""
    steps, count = np.diff(along), len(along)
    outer = size // (int(steps[0]) * count)
    is_part = outer > 0 and (steps == steps[0]).all() and outer * int(steps[0]) * count == size
    return f"{axis}:({outer}){count}" if is_part and count < size else axis


def axes_of_pairs(pairs: Sequence[Sequence[int]], mesh: DeclaredMesh) -> tuple[str, ...]:
    """The axes along which any device sends to another one."""
    crossed = {
        whole_axis(axis, mesh.sizes) for pair in pairs for axis in axes_along(np.array(pair), mesh)
    }
    return tuple(axis for axis in mesh.sizes if axis in crossed)


def lacking(
    source: ValueLayout,
    target: ValueLayout,
    shape: Sequence[int],
    meshes: Mapping[str, DeclaredMesh],
) -> int:
    """The largest number of elements of its `target` part that any device lacks if it has its `source` part.

    >>> meshes = {"square": DeclaredMesh({"x": 2, "y": 2}), "line": DeclaredMesh({"z": 4})}
    >>> columns, rows = ValueLayout((("x",), ("y",)), mesh="square"), ValueLayout((("z",), ()), mesh="line")
    >>> lacking(columns, rows, (4, 4), meshes)
    2
    """
    count = max(meshes[each.mesh].size for each in (source, target) if each.mesh)
    (starts, stops), (wanted_starts, wanted_stops) = (
        _part_bounds(each, shape, meshes, count) for each in (source, target)
    )
    target_elements = np.prod(wanted_stops - wanted_starts, axis=0)
    common = np.minimum(stops, wanted_stops) - np.maximum(starts, wanted_starts)
    return int((target_elements - np.prod(np.maximum(common, 0), axis=0)).max())


def _part_bounds(
    layout: ValueLayout, shape: Sequence[int], meshes: Mapping[str, DeclaredMesh], count: int
) -> tuple[np.ndarray, np.ndarray]:
    """(starts, stops) along each dimension of the part on each of `count` devices."""
    mesh = meshes.get(layout.mesh, DeclaredMesh({}))
    places = np.unravel_index(mesh.places(np.arange(count)), tuple(mesh.sizes.values()) or (count,))
    along = dict(zip(mesh.sizes, places, strict=False))
    starts: list[np.ndarray] = []
    stops: list[np.ndarray] = []
    for size, axes in zip(shape, layout.dims, strict=True):
        part, parts = np.zeros(count, int), 1
        for axis in axes:
            outer, n = axis_part(axis, mesh.sizes)
            whole = whole_axis(axis, mesh.sizes)
            part = part * n + along[whole] // (mesh.sizes[whole] // (outer * n)) % n
            parts *= n
        extent = math.ceil(size / parts)
        starts.append(np.minimum(size, part * extent))
        stops.append(np.minimum(size, (part + 1) * extent))
    return np.array(starts).reshape(-1, count), np.array(stops).reshape(-1, count)
