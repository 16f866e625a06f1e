"""Python functions that run beside the devices of their arguments, under the names of `jax.experimental.colocated_python`.

A process runs such functions itself, on arrays of its own CPU devices. Arrays of other processes are refused: there is
nothing that would run the function there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pellucid._machine.base.errors import UnsupportedError
from pellucid._machine.base.typing import Function
from pellucid._machine.runtime import platforms
from pellucid._machine.sharding.mesh import Mesh
from pellucid._machine.xla.arrays import Array
from pellucid.tree_util import tree_leaves

C = TypeVar("C", bound=type)


def colocated_cpu_devices(devices_or_mesh: Any) -> Any:
    """The CPU devices of the hosts of these devices, one for each, or the mesh of them.

    Raises: UnsupportedError for devices of other processes, and where a host has too few CPU devices.

    >>> colocated_cpu_devices(pl.devices("cpu")[:1])
    (CpuDevice(id=0),)
    """
    if isinstance(devices_or_mesh, Mesh):
        mesh = devices_or_mesh
        grid = mesh.devices.copy()
        grid.flat[:] = colocated_cpu_devices(mesh.devices.ravel().tolist())
        return Mesh(grid, mesh.axis_names, axis_types=mesh.axis_types)
    devices: Sequence[Any] = tuple(devices_or_mesh)
    if all(device.platform == "cpu" for device in devices):
        return tuple(devices)
    local = platforms.local_devices(backend="cpu")
    if len(local) < len(devices) or any(
        device.process_index != local[0].process_index for device in devices
    ):
        raise UnsupportedError(
            "colocated_cpu_devices needs one CPU device of this process for each device.",
            got=f"{len(devices)} devices, {len(local)} CPU devices",
            do="Set the option `num_cpu_devices` before any device is used.",
        )
    return tuple(local[: len(devices)])


def colocated_python(fun: Function) -> Callable[..., Any]:
    """`fun`, called beside the devices of its arguments: at once, with the arrays themselves.

    `specialize(...)` returns it for stated devices and results, which change nothing here.

    Raises: UnsupportedError, when it is called, for arrays that aren't on CPU devices of this process.

    >>> colocated_python(lambda x: x + 1)(pl.numpy.ones(2))
    Array([2., 2.], dtype=float32)
    """

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        for x in tree_leaves((args, kwargs)):
            if isinstance(x, Array) and not _is_beside(x):
                raise UnsupportedError(
                    f"colocated_python: `{fun.__name__}` runs in this process, on its CPU devices.",
                    got=f"an array with {x.sharding}",
                    do="Move it first: `device_put(x, colocated_cpu_devices(...))`.",
                )
        return fun(*args, **kwargs)

    specialized: Any = call
    specialized.specialize = lambda **_: specialized
    return specialized


def colocated_python_class(cls: C) -> C:
    """`cls`, whose instances live beside the devices of their methods' arguments: in this process.

    >>> colocated_python_class(dict)()
    {}
    """
    return cls


def _is_beside(x: Any) -> bool:
    devices = x.sharding.device_set
    return x.is_fully_addressable and all(device.platform == "cpu" for device in devices)


__all__ = ["colocated_cpu_devices", "colocated_python", "colocated_python_class"]
