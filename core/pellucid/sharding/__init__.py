"""Where values are: meshes of devices, PartitionSpecs over their axes, and shardings made of both."""

from typing import Any

from pellucid.base.late import late
from pellucid.sharding.current_mesh import (
    get_abstract_mesh,
    get_mesh,
    set_mesh,
    use_abstract_mesh,
    use_mesh,
)
from pellucid.sharding.manual_axis_type import ManualAxisType
from pellucid.sharding.mesh import AbstractDevice, AbstractMesh, AxisType, Mesh
from pellucid.sharding.named_sharding import NamedSharding
from pellucid.sharding.partition_spec import PartitionSpec
from pellucid.sharding.placement import Sharding, SingleDeviceSharding, make_single_device_sharding

auto_axes: Any
explicit_axes: Any
reshard: Any
_OPERATIONS = ("auto_axes", "explicit_axes", "reshard")


def __getattr__(name: str) -> Any:
    """Operations on values, which belong to a higher layer."""
    if name in _OPERATIONS:
        return globals().setdefault(name, late(name))
    raise AttributeError(f"module 'pellucid.sharding' has no attribute {name!r}")


__all__ = [
    "auto_axes",
    "explicit_axes",
    "reshard",
    "AbstractDevice",
    "AbstractMesh",
    "AxisType",
    "ManualAxisType",
    "Mesh",
    "NamedSharding",
    "PartitionSpec",
    "Sharding",
    "SingleDeviceSharding",
    "get_abstract_mesh",
    "get_mesh",
    "make_single_device_sharding",
    "set_mesh",
    "use_abstract_mesh",
    "use_mesh",
]
