"""Devices that one can compile for without having them, under the names of `jax.experimental.topologies`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pellucid._machine.base.errors import DeviceError
from pellucid._machine.runtime.platforms import devices as devices_of
from pellucid._machine.sharding.mesh import Mesh
from pellucid._machine.sharding.topology import create_device_mesh
from pellucid._machine.xla.client import JaxRuntimeError
from pellucid._machine.xla.gpu_targets import GPU_TARGETS, gpu_target
from pellucid._machine.xla.plugins import PluginMissingError, topology_devices
from pellucid._machine.xla.shardings import Device


class TopologyDescription:
    """The `devices` of a topology.

    >>> TopologyDescription(pl.devices()[:2]).devices == pl.devices()[:2]
    True
    """

    def __init__(self, devices: list[Device]) -> None:
        self.devices = devices


def get_attached_topology(platform: str | None = None) -> TopologyDescription:
    """The topology of the devices that are there.

    >>> get_attached_topology("cpu").devices == pl.devices("cpu")
    True
    """
    return TopologyDescription(devices_of(platform))


def get_topology_desc(
    topology_name: str = "", platform: str | None = None, **kwargs: Any
) -> TopologyDescription:
    """A topology of a platform's plug-in, without its devices: of TPUs unless `platform` names another one.

    `topology_name` and `kwargs` are the plug-in's: for TPUs a name such as "v5e:2x2"; for CUDA `topology` ("slices x hosts x
    GPUs of a host", as "1x1x8") and `target_config`, which follows from a `topology_name` that names a GPU, as "H100".

    Raises: DeviceError where the plug-in isn't installed, or knows no such topology.

    >>> get_topology_desc("1x1", platform="cpu")
    Traceback (most recent call last):
        ...
    pellucid.errors.DeviceError: there is no topology '1x1' of cpu here.
      no plug-in of cpu has topologies
    """
    platform = "tpu" if platform is None else platform
    target = gpu_target(topology_name) if platform in ("cuda", "gpu") else None
    if target is not None:
        kwargs = {"target_config": target.text, "topology": "1x1x1", **kwargs}
        topology_name = ""
    try:
        return TopologyDescription(topology_devices(platform, topology_name, kwargs))
    except (PluginMissingError, JaxRuntimeError) as error:
        raise DeviceError(
            f"there is no topology {topology_name!r} of {platform} here.",
            got=str(error),
            do=f"GPUs that are known by name: {', '.join(GPU_TARGETS)}."
            if platform in ("cuda", "gpu")
            else None,
        ) from error


def make_mesh(
    topo: TopologyDescription,
    mesh_shape: Sequence[int],
    axis_names: tuple[str, ...],
    *,
    contiguous_submeshes: bool = False,
) -> Mesh:
    """A mesh over all devices of a topology, in an order that suits them.

    Raises: MeshError where the shape needs another number of devices.

    >>> dict(make_mesh(get_attached_topology(), (pl.device_count(),), ("x",)).shape) == {"x": pl.device_count()}
    True
    """
    grid = create_device_mesh(
        tuple(mesh_shape), list(topo.devices), contiguous_submeshes=contiguous_submeshes
    )
    return Mesh(grid, axis_names)


__all__ = [
    "Device", "TopologyDescription", "get_attached_topology", "get_topology_desc", "make_mesh",
]  # fmt: skip
