"""Values and arrays of several processes under the names of `jax.experimental.multihost_utils`."""

from pellucid.base.errors import ProcessFailureError
from pellucid.parallel.live_devices import live_devices
from pellucid.parallel.multihost import (
    assert_equal,
    broadcast_one_to_all,
    global_array_to_host_local_array,
    host_local_array_to_global_array,
    process_allgather,
    reached_preemption_sync_point,
    sync_global_devices,
)
from pellucid.sharding import PartitionSpec as P

__all__ = [
    "P",
    "ProcessFailureError",
    "assert_equal",
    "broadcast_one_to_all",
    "global_array_to_host_local_array",
    "host_local_array_to_global_array",
    "live_devices",
    "process_allgather",
    "reached_preemption_sync_point",
    "sync_global_devices",
]
