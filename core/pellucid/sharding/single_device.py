"""SingleDeviceSharding and GSPMDSharding: placements without a mesh."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pellucid.xla import shardings
from pellucid.xla.shardings import Device, DeviceList, HloSharding

from .placement import Sharding, checked_memory_kind

_WHOLE = HloSharding.replicate()


if TYPE_CHECKING:

    class _SingleDeviceBase(shardings.SingleDeviceSharding, Sharding): ...

    class _GSPMDBase(shardings.GSPMDSharding, Sharding): ...

else:
    _SingleDeviceBase = _GSPMDBase = object


class _SingleDevice(_SingleDeviceBase):
    """Methods of `SingleDeviceSharding`."""

    def __repr__(self) -> str:
        kind = "" if self._memory_kind is None else f", memory_kind={self._memory_kind}"
        return f"SingleDeviceSharding(device={self._device!r}{kind})"

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not SingleDeviceSharding:
            return NotImplemented
        return self._device is other._device and self._memory_kind == other._memory_kind

    def __hash__(self) -> int:
        return hash((self._device, self._memory_kind))

    def __reduce__(self) -> Any:
        return _single_device_sharding, (self._device, self._memory_kind)

    @property
    def num_devices(self) -> int:
        return 1

    @property
    def is_fully_replicated(self) -> bool:
        return True

    def with_memory_kind(self, kind: str) -> SingleDeviceSharding:
        return make_single_device_sharding(self._device, memory_kind=kind)

    def _to_xla_hlo_sharding(self, ndim: int) -> HloSharding:
        return _WHOLE


class _GSPMD(_GSPMDBase):
    """Methods of `GSPMDSharding`."""

    def __repr__(self) -> str:
        kind = "" if self._memory_kind is None else f", memory_kind={self._memory_kind}"
        return f"GSPMDSharding({self._hlo_sharding}{kind})"

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not GSPMDSharding or type(self) is not GSPMDSharding:
            return NotImplemented
        return _facts(self) == _facts(other)

    def __hash__(self) -> int:
        return hash(_facts(self))

    def __reduce__(self) -> Any:
        message = shardings.bytes_of_hlo_sharding(self._hlo_sharding)
        return _gspmd_sharding_of_parts, (self._device_assignment, message, self._memory_kind)

    @staticmethod
    def get_replicated(
        device_assignment: Sequence[Device] | DeviceList, *, memory_kind: str | None = None
    ) -> GSPMDSharding:
        """The whole value on each of the devices."""
        return GSPMDSharding(DeviceList(tuple(device_assignment)), _WHOLE, memory_kind)

    @property
    def is_fully_replicated(self) -> bool:
        return self._hlo_sharding.is_replicated()

    def with_memory_kind(self, kind: str) -> GSPMDSharding:
        devices = self._devices_for("with_memory_kind")
        return GSPMDSharding(devices, self._hlo_sharding, checked_memory_kind(devices, kind))

    def _to_xla_hlo_sharding(self, ndim: int) -> HloSharding:
        return self._hlo_sharding


def _facts(sharding: GSPMDSharding):
    return sharding._internal_device_list, sharding._hlo_sharding, sharding._memory_kind


if TYPE_CHECKING:
    SingleDeviceSharding = _SingleDevice
    GSPMDSharding = _GSPMD
else:
    shardings.extend(shardings.SingleDeviceSharding, _SingleDevice)
    shardings.extend(shardings.GSPMDSharding, _GSPMD)
    SingleDeviceSharding = shardings.SingleDeviceSharding
    GSPMDSharding = shardings.GSPMDSharding


def make_single_device_sharding(
    device: Device, *, memory_kind: str | None = None
) -> SingleDeviceSharding:
    """The placement of a whole value on `device`; one object for one device and kind of memory.

    Raises: MemoryKindError if the device has no such memory.
    """
    return _single_device_sharding(device, memory_kind)


@functools.cache
def _single_device_sharding(device: Device, memory_kind: str | None) -> SingleDeviceSharding:
    kind = checked_memory_kind(DeviceList((device,)), memory_kind)
    if kind != memory_kind:
        return _single_device_sharding(device, kind)
    return SingleDeviceSharding(device, memory_kind=kind)


def _gspmd_sharding_of_parts(
    devices: tuple[Device, ...], message: bytes, memory_kind: str | None
) -> GSPMDSharding:
    return GSPMDSharding(DeviceList(devices), shardings.hlo_sharding_of_bytes(message), memory_kind)
