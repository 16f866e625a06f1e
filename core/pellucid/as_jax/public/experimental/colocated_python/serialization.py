"""Lists of devices as `jax.experimental.colocated_python.serialization`."""

from pellucid._machine.xla.shardings import DeviceList

__all__ = ["DeviceList"]
