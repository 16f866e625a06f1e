"""Live arrays, and devices' memory statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pellucid._machine.base import bytes_text, describe
from pellucid._machine.xla import ArrayImpl, Device

from . import platforms


class DeviceMemory(NamedTuple):
    """Memory of one device at one time."""

    device: Device
    in_use_bytes: int
    """Bytes allocated, from the allocator; on platforms that don't report them, the bytes of live arrays."""
    peak_bytes: int | None
    """Highest `in_use_bytes` since the process began; None if the platform doesn't report it."""
    limit_bytes: int | None
    """None if the platform reports no limit."""
    is_measured: bool
    """Whether the platform's allocator reported it."""


class LiveArray(NamedTuple):
    """An array that occupies memory."""

    array: ArrayImpl
    type: str
    n_bytes: int
    """Total bytes on this process's devices."""
    device_bytes: dict[Device, int]
    """Bytes on each of this process's devices."""
    source: str | None
    """The user's line that created the array, if known."""


def live_arrays(platform: str | None = None) -> list[ArrayImpl]:
    """All arrays of this process that occupy memory on `platform` (by default, the default one).

    >>> x = jnp.arange(3)
    >>> any(array is x for array in pl.live_arrays())
    True
    """
    return [x for x in platforms.client(platform).live_arrays() if not x.is_deleted()]


def described_live_arrays() -> list[LiveArray]:
    """The live arrays on all started platforms, with their memory and source line; largest first."""
    arrays = [x for client in platforms.started_clients() for x in client.live_arrays()]
    described = [_live_array(x) for x in arrays if not x.is_deleted()]
    return sorted(described, key=lambda live: -live.n_bytes)


def unfinished_arrays() -> list[ArrayImpl]:
    """The live arrays on all started platforms that devices haven't computed yet."""
    arrays = [x for client in platforms.started_clients() for x in client.live_arrays()]
    return [x for x in arrays if not x.is_deleted() and not x.is_ready()]


def _live_array(array: ArrayImpl) -> LiveArray:
    local = array._sharding._internal_device_list.addressable_device_list
    count = max(len(local), 1)
    n_bytes = array.on_device_size_in_bytes()
    device_bytes = dict.fromkeys(local, n_bytes // count)
    source = describe(array.traceback)
    return LiveArray(array, array.aval.text(), n_bytes, device_bytes, source)  # pyright: ignore[reportArgumentType]


def live_arrays_in_words(n: int = 5) -> list[str]:
    """The `n` largest live arrays as texts, one line each; empty if nothing is known."""
    return [
        f"live: {live.type}, {bytes_text(live.n_bytes)}"
        + (f", made in {live.source}" if live.source else "")
        for live in described_live_arrays()[:n]
    ]


def memory_of(device: Device, live: Sequence[LiveArray] | None = None) -> DeviceMemory:
    """Current memory of `device`; `live` are the live arrays, if they have been described already."""
    stats = device.memory_stats()
    if stats:
        return DeviceMemory(
            device,
            stats.get("bytes_in_use", 0),
            stats.get("peak_bytes_in_use"),
            stats.get("bytes_limit"),
            is_measured=True,
        )
    arrays = described_live_arrays() if live is None else live
    in_use = sum(array.device_bytes.get(device, 0) for array in arrays)
    return DeviceMemory(device, in_use, None, None, is_measured=False)
