"""Resolution of shardings given by users: a sharding, a format, or a spec over the current mesh."""

from __future__ import annotations

from typing import Any

from pellucid._machine.base import (
    ArgumentValueError,
    Shape,
    UnsupportedError,
    broadcast_prefix,
    is_none,
    strict_zip,
    tree_flatten,
)
from pellucid._machine.xla import Device

from . import mesh_context
from .errors import MissingMeshError, PartitionSpecError, ShardingArgumentError, ShardingError
from .layout import AutoLayout, Format, Layout
from .memory import MemorySpace
from .mesh import AnyMesh, AxisType
from .named_sharding import NamedSharding
from .partition_spec import PartitionSpec, axes_text
from .placement import Sharding, make_single_device_sharding


def stated_layout(stated: Any) -> Layout | AutoLayout | None:
    """The memory layout requested by `stated`; None for the device's default."""
    return stated.layout if isinstance(stated, Format) else None


def stated_sharding(caller: str, stated: Any, *, with_layout: bool = False) -> Any:
    """The sharding given by the user's `stated`: itself, or a spec over the current mesh; None for None.

    A sharding over the AbstractMesh of the current Mesh is moved to that Mesh; one over a mesh without axes becomes
    None. `with_layout`: the caller also uses `stated_layout`.

    Raises: MissingMeshError for a PartitionSpec where no mesh is current; ShardingArgumentError for anything
    that places no value; UnsupportedError for a format with a layout where it can't be had.
    """
    if isinstance(stated, NamedSharding):
        return _over_devices(stated)
    if stated is None or isinstance(stated, Sharding):
        return stated
    if isinstance(stated, PartitionSpec):
        return NamedSharding(mesh_in_force(caller, stated), stated)
    if isinstance(stated, Format):
        if stated.layout is not None and not with_layout:
            raise UnsupportedError(
                f"{caller} can't choose the order of elements in memory.",
                got=f"{stated.layout}",
                do="Give the sharding alone; jit and device_put take formats.",
            )
        return stated_sharding(caller, stated.sharding)
    raise ShardingArgumentError(
        f"{caller}: a value must be placed by a Sharding or a PartitionSpec.",
        got=f"{type(stated).__name__} ({stated!r:.60})",
        do="Write NamedSharding(mesh, PartitionSpec(...)), or None to leave it to the compiler.",
    )


def _over_devices(sharding: NamedSharding) -> NamedSharding | None:
    current = mesh_context.concrete.value
    if current is not None and sharding.mesh is current.abstract_mesh:
        return sharding.update(mesh=current)
    return None if sharding.mesh.empty else sharding


def stated_result(caller: str, stated: Any) -> NamedSharding | None:
    """The sharding over Explicit mesh axes given by an argument `out_sharding`; None for None.

    Raises: ShardingArgumentError unless it is a NamedSharding over the current mesh, if there is one, or a PartitionSpec
    over it; PartitionSpecError where it names an axis that isn't Explicit.
    """
    sharding = stated_sharding(caller, stated)
    if sharding is None:
        return None
    if not isinstance(sharding, NamedSharding):
        raise ShardingArgumentError(
            f"{caller}: `out_sharding` must be a PartitionSpec or a NamedSharding.",
            got=f"out_sharding: {type(stated).__name__}",
        )
    current, mesh = mesh_context.abstract.value, sharding.mesh
    if current is not None and not current.empty and not _has_same_axes(mesh, current):
        raise ShardingArgumentError(
            f"{caller}: `out_sharding` is over another mesh than the current one.",
            got=[f"out_sharding: {mesh}", f"current: {current}"],
            do="Give a PartitionSpec, which is over the current mesh, or `reshard` the result.",
        )
    for axis in sharding.spec.axis_names:
        if mesh.axis_type_by_name[axis] is not AxisType.Explicit:
            raise PartitionSpecError(
                f"{caller}: `out_sharding` must name Explicit mesh axes; {axis!r} is "
                f"{mesh.axis_type_by_name[axis]!r}.",
                got=[f"out_sharding: {sharding.spec!r}", str(mesh)],
                do=f"Use with_sharding_constraint for {axis!r}.",
            )
    return sharding


def _has_same_axes(mesh: AnyMesh, other: AnyMesh) -> bool:
    return mesh.shape_tuple == other.shape_tuple and mesh.axis_types == other.axis_types


def mesh_in_force(caller: str, spec: PartitionSpec) -> Any:
    """The mesh for a bare `spec`: that of `set_mesh` or `with mesh:`, or else the current AbstractMesh.

    Raises: MissingMeshError if there is none.
    """
    # Inside shard_map, only the abstract mesh has the Manual types of axes.
    abstract, concrete = mesh_context.abstract.value, mesh_context.concrete.value
    if abstract is not None and not abstract.empty:
        same = concrete is not None and concrete.abstract_mesh is abstract
        return concrete if same else abstract
    mesh = concrete or mesh_context.entered.value
    if mesh is None:
        raise MissingMeshError(
            f"{caller} got a PartitionSpec, but no mesh is current.",
            got=f"{spec!r}",
            do="Write NamedSharding(mesh, spec), or set the mesh first: `with set_mesh(mesh):`.",
        )
    return mesh


def check_no_manual_axis(caller: str, sharding: Sharding) -> None:
    """Raises PartitionSpecError if `sharding` shards over manual axes of the enclosing `shard_map`."""
    mesh = mesh_context.abstract.value
    if mesh is None or not isinstance(sharding, NamedSharding):
        return
    for axis in mesh.manual_axes:
        if axis in sharding.spec.axis_names:
            raise PartitionSpecError(
                f"{caller}: {sharding.spec!r} names mesh axis {axis!r}, which is manual here.",
                got=f"the shard_map around it runs once for each position along {axes_text(mesh.manual_axes)}",
                do=f"Leave {axis!r} out; in_specs and out_specs say what is cut along it.",
            )


def check_fits(caller: str, what: str, sharding: Sharding, shape: Shape) -> None:
    """Raises ShardingError, naming `what`, if `sharding` can't divide a value of `shape` evenly."""
    try:
        sharding.check_compatible_aval(shape)
        sharding.shard_shape(shape)
    except ShardingError as error:
        got = f"{caller}: {what} of shape {shape}, placed as {placement_text(sharding)}"
        raise type(error)(error.what, got=got, do=error.do) from None


def placement_text(sharding: object) -> str:
    """Text of a sharding in a message: spec and mesh, if it has them."""
    if not isinstance(sharding, NamedSharding):
        return str(sharding)
    kind = sharding.memory_kind
    memory = "" if kind in (None, "device") else f", in {kind} memory"
    return f"{sharding.spec!r} over {sharding.mesh}{memory}"


def sharding_for(device: Any, caller: str = "device_put") -> Any:
    """The sharding for a user's `device` argument of `caller`; None for None."""
    if isinstance(device, Device):
        return make_single_device_sharding(device)
    if isinstance(device, Format):
        return device.sharding
    if isinstance(device, PartitionSpec):
        device = stated_sharding(caller, device)
    if getattr(device, "_internal_device_list", True) is None:
        raise ArgumentValueError(
            f"{caller}: the sharding's mesh has no devices.",
            got=f"device: {device}",
            do="Give the sharding a Mesh: `sharding.update(mesh=mesh)`.",
        )
    if device is None or isinstance(device, Sharding):
        return device
    raise ShardingArgumentError(
        f"{caller} needs a device, a sharding, a format or None, or a tree of these.",
        got=f"device: {type(device).__name__} ({device!r:.60})",
        do="For a platform's first device, write `devices(platform)[0]`.",
    )


_PLACES = (bool, type(None), Device, Sharding, PartitionSpec, Format, MemorySpace)
"""Types of a placement that applies to all leaves, checked without traversing it."""


def leaves_to_put(
    x: Any, device: Any, src: Any, donate: Any, may_alias: Any
) -> tuple[list[Any], Any, list[tuple[Any, Any, Any, Any]]]:
    """The leaves of `x`, its structure, and for each leaf (device, src, donate, may_alias)."""
    leaves, tree = tree_flatten(x)

    def each(prefix: Any, name: str) -> list[Any]:
        if isinstance(prefix, _PLACES):
            return [prefix] * len(leaves)
        return broadcast_prefix(prefix, x, is_none, caller=f"device_put: {name}", name="x")

    places = strict_zip(
        each(device, "device"), each(src, "src"), each(donate, "donate"), each(may_alias, "may_alias"))  # fmt: skip
    return leaves, tree, list(places)
