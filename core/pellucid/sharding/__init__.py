"""Where values are: meshes of devices, PartitionSpecs over their axes, and shardings made of both."""

from pellucid.sharding.current_mesh import (
    get_abstract_mesh as get_abstract_mesh,
    get_mesh as get_mesh,
    set_mesh as set_mesh,
    use_abstract_mesh as use_abstract_mesh,
    use_mesh as use_mesh,
)
from pellucid.sharding.mesh import (
    AbstractDevice as AbstractDevice,
    AbstractMesh as AbstractMesh,
    AxisType as AxisType,
    Mesh as Mesh,
)
from pellucid.sharding.named_sharding import NamedSharding as NamedSharding
from pellucid.sharding.partition_spec import PartitionSpec as PartitionSpec
from pellucid.sharding.placement import Sharding as Sharding
from pellucid.sharding.single_device import (
    SingleDeviceSharding as SingleDeviceSharding,
    make_single_device_sharding as make_single_device_sharding,
)
