"""Records of meshes and shardings."""

from __future__ import annotations

from typing import Any

from .schema import MeshRecord, SpecRecord


def mesh_record(mesh: Any) -> MeshRecord:
    """The record of a Mesh or an AbstractMesh."""
    device_list = mesh._internal_device_list
    devices = [] if device_list is None else list(mesh.devices.flat)
    first = devices[0] if devices else getattr(mesh, "abstract_device", None)
    return MeshRecord(
        axis_names=[str(name) for name in mesh.axis_names],
        axis_sizes=list(mesh.shape.values()),
        axis_types=[axis_type.name.lower() for axis_type in mesh.axis_types],
        device_ids=[d.id for d in devices],
        process_indices=[d.process_index for d in devices],
        device_coordinates=[list(d.coords) for d in devices if getattr(d, "coords", None)],
        platform=getattr(first, "platform", None) or "",
        device_kind=getattr(first, "device_kind", None) or "",
    )


def spec_record(sharding: Any, ndim: int, mesh: int) -> SpecRecord:
    """The record of a sharding of values with `ndim` dimensions; `mesh` is its mesh's index, or -1."""
    spec = getattr(sharding, "spec", None)
    axes = [] if spec is None else [[str(a) for a in dim] for dim in spec.axes_per_dim]
    return SpecRecord(
        text=str(sharding if spec is None else spec),
        mesh=mesh,
        dim_axes=axes + [[] for _ in range(ndim - len(axes))],
        unreduced_axes=[] if spec is None else sorted(map(str, spec.unreduced)),
        memory_kind=getattr(sharding, "memory_kind", None),
    )
