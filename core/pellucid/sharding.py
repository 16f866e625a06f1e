"""Placement of values: meshes of devices, PartitionSpecs over their axes, and shardings made of both."""

from pellucid._machine.primitives.reshard import (
    auto_axes as auto_axes,
    explicit_axes as explicit_axes,
    reshard as reshard,
)
from pellucid._machine.sharding import (
    AbstractDevice as AbstractDevice,
    AbstractMesh as AbstractMesh,
    AxisType as AxisType,
    ManualAxisType as ManualAxisType,
    Mesh as Mesh,
    NamedSharding as NamedSharding,
    PartitionSpec as PartitionSpec,
    Sharding as Sharding,
    SingleDeviceSharding as SingleDeviceSharding,
    get_abstract_mesh as get_abstract_mesh,
    get_mesh as get_mesh,
    make_single_device_sharding as make_single_device_sharding,
    set_mesh as set_mesh,
    use_abstract_mesh as use_abstract_mesh,
    use_mesh as use_mesh,
)
