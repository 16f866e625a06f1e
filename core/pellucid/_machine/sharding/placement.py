"""The base class `Sharding`, and the shardings without a mesh.

The classes are C++; the methods here are added to their common root, so that shardings made by C++ answer
as well. A placement is determined by three facts, which a subclass supplies: `_internal_device_list` (the
devices in order), `_to_xla_hlo_sharding(ndim)` (which part each one holds) and `memory_kind`.
"""

# C++ and the sharding classes share attributes with private names.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pellucid._machine.base import Shape, cached, exact_quotient, strict_zip
from pellucid._machine.xla import Device, DeviceList, HloSharding, shardings

from .errors import AbstractPlacementError, MemoryKindError, ShardingError, indivisible_error
from .hlo_shardings import Tiles, means_the_same, tiles_of
from .memory import MEMORY_KINDS

Index = tuple[slice, ...]
WHOLE = HloSharding.replicate()


@shardings.extending(shardings.Sharding)
class Sharding(shardings.Sharding if TYPE_CHECKING else object):
    """A placement of a value on devices."""

    if TYPE_CHECKING:
        _internal_device_list: Any
        """The devices in order, a DeviceList; None over an abstract mesh."""

        def _to_xla_hlo_sharding(self, ndim: int) -> HloSharding: ...

    @property
    def memory_kind(self) -> str | None:
        """The kind of memory that holds the value, for example "device" or "pinned_host"."""
        return self._memory_kind

    def with_memory_kind(self, kind: str) -> Sharding:
        """The same placement in memory of another kind.

        Raises: MemoryKindError if the devices have no such memory.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define with_memory_kind(kind)")

    def _devices_for(self, caller: str) -> DeviceList:
        devices = self._internal_device_list
        if devices is None:
            raise AbstractPlacementError(
                f"`{caller}` is about devices, and this sharding's mesh is abstract.",
                got=repr(self),
                do="Give the sharding a Mesh: sharding.update(mesh=mesh).",
            )
        return devices

    def _axes_text(self, dim: int) -> str:
        """The mesh axes over which dimension `dim` is sharded, for messages; nothing without a mesh."""
        return ""

    @property
    def num_devices(self) -> int:
        """Number of devices that hold a part of the value."""
        return len(self._devices_for("num_devices"))

    @property
    def _device_assignment(self) -> tuple[Device, ...]:
        return tuple(self._devices_for("_device_assignment"))

    @property
    def _addressable_device_assignment(self) -> tuple[Device, ...]:
        """The devices in `_device_assignment` that belong to this process; orbax reads arrays onto them."""
        return tuple(self._devices_for("_addressable_device_assignment").addressable_device_list)

    @property
    def device_set(self) -> set[Device]:
        """The devices that hold a part of the value."""
        return set(self._devices_for("device_set"))

    @property
    def addressable_devices(self) -> set[Device]:
        """The devices in `device_set` that belong to this process."""
        return set(self._devices_for("addressable_devices").addressable_device_list)

    @property
    def has_addressable_devices(self) -> bool:
        """Whether some of the devices belong to this process."""
        return len(self._devices_for("has_addressable_devices").addressable_device_list) > 0

    @property
    def is_fully_addressable(self) -> bool:
        """Whether all of the devices belong to this process."""
        return self._devices_for("is_fully_addressable").is_fully_addressable

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device holds the whole value."""
        return self._to_xla_hlo_sharding(0).is_replicated()

    def devices_indices_map(self, global_shape: Shape) -> Mapping[Device, Index]:
        """For each device the part of a value of `global_shape` that it holds, as slices.

        Raises: IndivisibleError if a dimension is not split evenly; ShardingError where devices hold
        addends, which are no parts.
        """
        return dict(_devices_indices(self, tuple(global_shape)))

    def addressable_devices_indices_map(self, global_shape: Shape) -> Mapping[Device, Index]:
        """`devices_indices_map` for the devices of this process."""
        return dict(strict_zip(*addressable_parts(self, tuple(global_shape))))

    def shard_shape(self, global_shape: Shape) -> Shape:
        """Shape of the part of a value of `global_shape` that each device holds.

        Raises: IndivisibleError if a dimension is not split evenly.
        """
        return _shard_shape(self, tuple(global_shape))

    def check_compatible_aval(self, aval_shape: Shape) -> None:
        """Raise ShardingError if a value of this shape has too few dimensions to be placed so."""
        tiles(self, len(aval_shape))

    def is_equivalent_to(self, other: Any, ndim: int) -> bool:
        """Whether both put the same parts of a value of `ndim` dimensions on the same devices.

        The devices must be in the same order and the memory of the same kind. Over abstract meshes: whether
        they would on any devices.
        """
        return self is other or (
            isinstance(other, Sharding)
            and same_devices(self._internal_device_list, other._internal_device_list)
            and self.num_devices == other.num_devices
            and self.memory_kind == other.memory_kind
            and means_the_same(
                self._to_xla_hlo_sharding(ndim),
                other._to_xla_hlo_sharding(ndim),
                ndim,
                self.num_devices,
            )
        )


def same_devices(one: DeviceList | None, other: DeviceList | None) -> bool:
    """Whether two lists of devices, None if unknown, are equal."""
    return one is other or (one is not None and other is not None and one == other)


def tiles(sharding: Sharding, ndim: int) -> Tiles:
    """Into how many tiles `sharding` splits each of `ndim` dimensions, and which tile each device holds."""
    return tiles_of(sharding._to_xla_hlo_sharding(ndim), ndim, sharding.num_devices)


def checked_memory_kind(devices: DeviceList | None, kind: str | None) -> str | None:
    """`kind`, or the devices' default where it is None; raises MemoryKindError if they lack it.

    `devices` None stands for those of an abstract mesh, which may have any memory that programs speak of; so may those of a topology.
    """
    if kind is None:
        return None if devices is None else _default_memory_kind(devices)
    kinds = MEMORY_KINDS if devices is None else _memory_kinds(devices)
    if kind not in kinds:
        platform = "" if devices is None else f"{devices[0].platform} "
        raise MemoryKindError(
            f"{platform}devices have no memory of kind {kind!r}.",
            got=f"kinds: {', '.join(map(repr, kinds)) or 'none'}",
        )
    return kind


def _memory_kinds(devices: DeviceList) -> Sequence[str]:
    try:
        return devices.memory_kinds
    except ValueError:  # devices of a topology, which say nothing of their memories
        return MEMORY_KINDS


def _default_memory_kind(devices: DeviceList) -> str | None:
    try:
        return devices.default_memory_kind
    except ValueError:  # devices defined by a user, which have no memories
        return None


def _even_tiles(sharding: Sharding, shape: Shape) -> Tiles:
    sharding.check_compatible_aval(shape)
    tiling = tiles(sharding, len(shape))
    for dim, (size, count) in enumerate(strict_zip(shape, tiling.counts)):
        if exact_quotient(size, count) is None:
            over = sharding._axes_text(dim)
            raise indivisible_error(f"shape {shape}, {sharding}", shape, dim, count, over)
    return tiling


@cached(4096)
def _shard_shape(sharding: Sharding, shape: Shape) -> Shape:
    tiling = _even_tiles(sharding, shape)
    return tuple(size // count for size, count in strict_zip(shape, tiling.counts))


@cached(1024)
def addressable_parts(
    sharding: Sharding, shape: Shape
) -> tuple[tuple[Device, ...], tuple[Index, ...]]:
    """The devices of this process, and for each the part that it holds of a value of `shape`."""
    indices = _devices_indices(sharding, shape)
    local = sharding._devices_for("addressable_devices_indices_map").addressable_device_list
    return tuple(local), tuple([indices[device] for device in local])


@cached(1024)
def _devices_indices(sharding: Sharding, shape: Shape) -> dict[Device, Index]:
    tiling = _even_tiles(sharding, shape)
    if tiling.addends.any():
        raise ShardingError(
            "the parts of an unreduced value are no slices of it: devices hold addends.",
            got=f"{sharding}",
            do="Reduce it first, for example with `reshard(x, spec.update(unreduced=set()))`.",
        )
    if tiling.programs.any():
        raise ShardingError(
            "along Manual mesh axes each position has a value of its own, not a part of one.",
            got=f"{sharding}",
            do="Ask outside shard_map, or of a mesh without Manual axes.",
        )
    devices = sharding._devices_for("devices_indices_map")
    return dict(strict_zip(devices, tiling.indices(shape)))


# Placements without a mesh ------------------------------------------------------------------------------

if TYPE_CHECKING:

    class _SingleDeviceBase(shardings.SingleDeviceSharding, Sharding): ...

    class _GSPMDBase(shardings.GSPMDSharding, Sharding): ...

else:
    _SingleDeviceBase = _GSPMDBase = object


@shardings.extending(shardings.SingleDeviceSharding)
class SingleDeviceSharding(_SingleDeviceBase):
    """The whole value on one device."""

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
        return WHOLE


@shardings.extending(shardings.GSPMDSharding)
class GSPMDSharding(_GSPMDBase):
    """A tile assignment over a list of devices."""

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
        return GSPMDSharding(DeviceList(tuple(device_assignment)), WHOLE, memory_kind)

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


def make_single_device_sharding(
    device: Device, *, memory_kind: str | None = None
) -> SingleDeviceSharding:
    """The placement of a whole value on `device`; one object for one device and kind of memory.

    Raises: MemoryKindError if the device has no such memory.

    >>> make_single_device_sharding(pl.devices("cpu")[1])
    SingleDeviceSharding(device=CpuDevice(id=1), memory_kind=device)
    """
    return _single_device_sharding(device, memory_kind)


@functools.cache
def _single_device_sharding(device: Device, memory_kind: str | None) -> SingleDeviceSharding:
    kind = checked_memory_kind(DeviceList((device,)), memory_kind)
    if kind != memory_kind:
        return _single_device_sharding(device, kind)
    return SingleDeviceSharding(device, memory_kind=kind)


@cached(256)
def replicated_placement(devices: tuple[Device, ...]) -> SingleDeviceSharding | GSPMDSharding:
    """The placement of a value that each of `devices` holds in full."""
    if len(devices) == 1:
        return make_single_device_sharding(devices[0])
    return GSPMDSharding.get_replicated(devices)


def _gspmd_sharding_of_parts(
    devices: tuple[Device, ...], message: bytes, memory_kind: str | None
) -> GSPMDSharding:
    return GSPMDSharding(DeviceList(devices), shardings.hlo_sharding_of_bytes(message), memory_kind)
