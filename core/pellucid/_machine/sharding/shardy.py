"""Shardings in Shardy's syntax: a mesh with named axes, and the axes that shard each dimension.

Compilation makes `sdy` attributes of these texts. Equal mesh descriptions are equal values, so that they can be keys of
a symbol table.
"""

# C++ and the sharding classes share attributes with private names.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote

import numpy as np

from pellucid._machine.base import strict_zip

from .errors import ShardingError
from .hlo_shardings import tiles_of
from .mesh import AnyMesh, AxisName, AxisType, Mesh
from .named_sharding import NamedSharding
from .partition_spec import NO_AXES, UNCONSTRAINED, PartitionSpec

if TYPE_CHECKING:
    from pellucid._machine.xla.shardings import DeviceList

    from .placement import Sharding


class MeshDescription(NamedTuple):
    """A mesh in Shardy's terms: `sdy.mesh <["x"=4, "y"=2], device_ids=[…]>`."""

    axes: tuple[tuple[str, int], ...]
    """(name, size) of each axis, major first."""
    device_ids: tuple[int, ...] | None = None
    """Positions in the program's device assignment, major first; None where they are 0, 1, 2, …"""


class ShardingDescription(NamedTuple):
    """The sharding of one value: `<@mesh, [{"x"}, {?}], replicated={"y"}, unreduced={"z"}>`."""

    mesh: MeshDescription
    dims: list[str]
    """Sharding of each dimension: `{"x", "y"}`, or `{"x", ?}` if axes may be added."""
    axis_sets: str = ""
    """`, replicated={"y"}`: axes that open dimensions may not use; `, unreduced={"z"}`: axes over which devices hold
    addends.
    """


def describe(
    sharding: Sharding,
    ndim: int,
    assignment: DeviceList | None = None,
    *,
    leave_auto_open: bool = False,
) -> ShardingDescription:
    """`sharding` of a value of `ndim` dimensions, for a program that runs on the devices of `assignment`.

    Dimensions are closed, except unconstrained ones. With `leave_auto_open`, as the type of a value under a
    mesh with Auto axes means it, every dimension is open for those axes, and the Explicit axes that the
    spec does not use are replicated. `assignment` defaults to the sharding's own devices.

    Raises: PartitionSpecError if the spec has more than `ndim` entries; ShardingError if some device is not
    in `assignment`.

    >>> from pellucid._machine.sharding.partition_spec import PartitionSpec
    >>> mesh = AbstractMesh((4, 2), ("x", "y"))
    >>> describe(NamedSharding(mesh, PartitionSpec("x")), 2).dims
    ['{"x"}', '{}']
    """
    if not isinstance(sharding, NamedSharding):
        devices = sharding._devices_for("describe")
        sharding, assignment = _over_mesh(sharding, ndim, devices), assignment or devices
    mesh, spec = sharding.mesh, sharding.spec.padded(ndim)
    texts = {name: f'"{text}"' for name, text in axis_texts(mesh).items()}
    all_open = leave_auto_open and bool(mesh.auto_axes)
    is_open = [all_open or entry is UNCONSTRAINED for entry in spec.partitions]
    dims = [
        f"{{{', '.join([*(texts[axis] for axis in axes), *['?'] * may_grow])}}}"
        for axes, may_grow in strict_zip(spec.axes_per_dim, is_open)
    ]
    closed = mesh.explicit_axes if any(is_open) else ()
    axis_sets = {
        "replicated": sharding.replicated_axes.intersection(closed),
        "unreduced": spec.unreduced,
    }
    shown = "".join(
        f", {name}={{{', '.join([texts[axis] for axis in mesh.axis_names if axis in axes])}}}"
        for name, axes in axis_sets.items()
        if axes
    )
    return ShardingDescription(describe_mesh(mesh, assignment), dims, shown)


def describe_mesh(mesh: AnyMesh, assignment: DeviceList | None = None) -> MeshDescription:
    """Description of `mesh` for a program on the devices of `assignment` (default: those of `mesh`)."""
    texts = axis_texts(mesh)
    axes = tuple((texts[name], size) for name, size in mesh.shape_tuple)
    devices = mesh._internal_device_list
    if devices is None or assignment is None or devices == assignment:
        return MeshDescription(axes)
    position = {device: i for i, device in enumerate(assignment)}
    missing = [device for device in devices if device not in position]
    if missing or len(devices) != len(assignment):
        raise ShardingError(
            "a value's devices are not those that the program runs on.",
            got=[
                f"the value is on {len(devices)} devices, first {devices[0]!r}",
                f"the program runs on {len(assignment)} devices, first {assignment[0]!r}",
                *([f"not among the latter: {missing[0]!r}"] if missing else []),
            ],
            do="Put all operands on the same devices, for example with `device_put(x, sharding)`.",
        )
    return MeshDescription(axes, tuple(position[device] for device in devices))


def axis_texts(mesh: AnyMesh) -> dict[AxisName, str]:
    """A unique text without escape characters for each axis name of `mesh`.

    Some MLIR escapes crash XLA, so special characters are percent-encoded. `name_in` decodes them.

    >>> axis_texts(AbstractMesh((2, 2, 2), ("1", 1, "ä")))
    {'1': '1', 'ä': '%C3%A4', 1: '1_'}
    """
    texts: dict[AxisName, str] = {}
    for name in sorted(mesh.axis_names, key=lambda name: not isinstance(name, str)):
        text = quote(str(name), safe=" /")
        while text in texts.values():
            text += "_"
        texts[name] = text
    return texts


def name_in(text: str) -> str:
    """Decodes a text of `axis_texts` to the axis name, as a string.

    >>> name_in("%C3%A4")
    'ä'
    """
    return unquote(text)


def _over_mesh(sharding: Sharding, ndim: int, devices: DeviceList) -> NamedSharding:
    """A tile assignment as a spec over a new mesh, with one axis for each sharded dimension.

    The mesh lists the devices tile by tile, so that any device order can be expressed.
    """
    tiles = tiles_of(sharding._to_xla_hlo_sharding(ndim), ndim, len(devices))
    if tiles.programs.any():
        raise ShardingError(
            "a manual sharding says nothing about parts of a value.", got=repr(sharding)
        )
    by_tile = sorted(range(len(devices)), key=lambda i: (*tiles.positions[i], tiles.addends[i], i))
    names = [f"dim{i}" if count > 1 else None for i, count in enumerate(tiles.counts)]
    addends = int(tiles.addends.max(initial=0)) + 1
    copies = len(devices) // (addends * math.prod(tiles.counts))
    sizes = strict_zip([*names, "addends", "copies"], [*tiles.counts, addends, copies])
    axes = {name: size for name, size in sizes if size > 1}
    array = np.array([devices[i] for i in by_tile]).reshape(tuple(axes.values()))
    spec = PartitionSpec(*names, unreduced={"addends"} if addends > 1 else NO_AXES)
    return NamedSharding(Mesh(array, tuple(axes), (AxisType.Explicit,) * len(axes)), spec)
