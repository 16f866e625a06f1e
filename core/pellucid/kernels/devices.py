"""Other devices, as kernels name them, and what only they can do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import ArgumentTypeError, ArgumentValueError, UnsupportedError, capture
from pellucid._machine.base.source import describe
from pellucid._machine.ir import Primitive, Shown, Traits, io_effect
from pellucid._machine.parallel.axes import axis_index
from pellucid._machine.sharding import get_abstract_mesh
from pellucid._machine.tracing import bind1, type_of
from pellucid.numpy import asarray

from .specs import DeviceIdType

_INT32 = np.dtype(np.int32)


def logical_device(caller: str, device_id: Any, kind: DeviceIdType) -> Any:
    """The number of a device, an int32: its position in the mesh, row by row; None for no device.

    Raises: ArgumentTypeError, ArgumentValueError for what names no device of the mesh.
    """
    if device_id is None:
        return None
    if kind is DeviceIdType.LOGICAL or str(getattr(kind, "value", kind)) == "logical":
        return _number(caller, device_id)
    mesh = get_abstract_mesh()
    if isinstance(device_id, Mapping):
        unknown = [name for name in device_id if name not in mesh.axis_names]
        if unknown:
            raise ArgumentValueError(
                f"{caller}: `device_id` names an axis that the mesh doesn't have.",
                got=f"{unknown[0]!r}, mesh axes {tuple(mesh.axis_names)}",
            )
        ids = [device_id[a] if a in device_id else axis_index(a) for a in mesh.axis_names]
    else:
        ids = list(device_id) if isinstance(device_id, (tuple, list)) else [device_id]
    if len(ids) != max(len(mesh.axis_names), 1):
        raise ArgumentValueError(
            f"{caller}: `device_id` has one number for each axis of the mesh.",
            got=f"{len(ids)} for mesh axes {tuple(mesh.axis_names)}",
            do="Name axes by a dict, or pass the device's number with DeviceIdType.LOGICAL.",
        )
    sizes = [mesh.shape[a] for a in mesh.axis_names] or [1]
    number: Any = np.int32(0)
    for x, n in zip(ids, sizes, strict=True):
        number = number * np.int32(n) + _number(caller, x)
    return number


def _number(caller: str, x: Any) -> Any:
    if isinstance(x, (int, np.integer)) and not isinstance(x, bool):
        return np.int32(x)
    aval = type_of(x) if hasattr(x, "dtype") else None
    if aval is None or aval.shape or aval.dtype.kind not in "iu":
        raise ArgumentTypeError(f"{caller}: a device is named by integers.", got=f"got {x!r:.60}")
    return x if aval.dtype == _INT32 else asarray(x).astype(_INT32)


class OnlyElsewhereParams(NamedTuple):
    """`what` the user called, and where."""

    what: str
    source: Any


class OnlyElsewhere(Shown, Primitive[OnlyElsewhereParams]):
    """Its operand, in a program that can't be run: the effect of what needs other devices."""

    name = "only_elsewhere"
    traits = Traits(kind="movement", flops=0.0)
    own_effects = frozenset({io_effect})
    unshown = ("source",)

    def abstract_eval(self, avals, params):
        return [avals[0]]

    def batch(self, axis, operands, dims, params):
        return [bind1(self, *operands, params=params)], dims

    def lower(self, ctx, operands, params):
        raise UnsupportedError(
            f"{params.what}: devices can't reach each other's memory here.",
            where=describe(params.source),
            do="Pass `interpret=tpu.InterpretParams()` to the call of the kernel, which simulates it; on TPUs it needs nothing.",
        )


only_elsewhere_p = OnlyElsewhere()


def only_elsewhere(what: str, x: Any, source: Any = None) -> Any:
    """`x`, in a program that raises UnsupportedError when it is lowered: `what` has no meaning in a program that runs by itself."""
    return bind1(only_elsewhere_p, x, params=OnlyElsewhereParams(what, source or capture()))
