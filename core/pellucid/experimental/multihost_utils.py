"""Values and arrays of several processes under the names of `jax.experimental.multihost_utils`."""

from pellucid._machine.base.errors import ProcessFailureError as ProcessFailureError
from pellucid._machine.parallel.multihost import (
    assert_equal as assert_equal,
    broadcast_one_to_all as broadcast_one_to_all,
    global_array_to_host_local_array as global_array_to_host_local_array,
    host_local_array_to_global_array as host_local_array_to_global_array,
    live_devices as live_devices,
    process_allgather as process_allgather,
    reached_preemption_sync_point as reached_preemption_sync_point,
    sync_global_devices as sync_global_devices,
)
from pellucid._machine.sharding import PartitionSpec as P
