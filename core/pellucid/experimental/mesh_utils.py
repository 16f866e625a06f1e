"""Arrangements of devices under the names of `jax.experimental.mesh_utils`."""

from pellucid._machine.sharding.topology import (
    create_device_mesh as create_device_mesh,
    create_hybrid_device_mesh as create_hybrid_device_mesh,
    device_kind_handler_dict as device_kind_handler_dict,
)
