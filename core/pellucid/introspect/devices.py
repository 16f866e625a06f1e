"""The number of virtual CPU devices."""

from __future__ import annotations

from pellucid._machine.base import config
from pellucid._machine.runtime import platforms

from .errors import DeviceError


def set_cpu_device_count(count: int) -> None:
    """Make `count` virtual CPU devices when the CPU is first used.

    Raises: DeviceError if the CPU is in use with another number.

    >>> set_cpu_device_count(len(pl.devices("cpu")) + 1)
    Traceback (most recent call last):
        ...
    pellucid.errors.DeviceError: the number of CPU devices can't become ...: they are in use.
    ...
    """
    for client in platforms.started_clients():
        if client.platform == "cpu" and client.device_count() != count:
            raise DeviceError(
                f"the number of CPU devices can't become {count}: they are in use.",
                got=f"{client.device_count()} CPU devices since the first array was made",
                do=f"Restart the kernel and write `%pellucid devices {count}` in its first cell.",
            )
    config.num_cpu_devices.set(count)
