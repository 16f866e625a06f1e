"""Shardings: meshes of devices, PartitionSpecs over their axes, and their combinations."""

from pellucid._machine.sharding.current_mesh import (
    get_abstract_mesh,
    get_mesh,
    set_mesh,
    use_abstract_mesh,
    use_mesh,
)
from pellucid._machine.sharding.manual_axis_type import ManualAxisType, check_without_addends
from pellucid._machine.sharding.mesh import AbstractDevice, AbstractMesh, AxisType, Mesh
from pellucid._machine.sharding.named_sharding import NamedSharding
from pellucid._machine.sharding.partition_spec import PartitionSpec
from pellucid._machine.sharding.placement import (
    Sharding,
    SingleDeviceSharding,
    make_single_device_sharding,
)

__all__ = [
    "AbstractDevice",
    "AbstractMesh",
    "AxisType",
    "ManualAxisType",
    "check_without_addends",
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
