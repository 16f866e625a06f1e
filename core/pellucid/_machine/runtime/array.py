"""`Array`: jaxlib's class for values on devices, extended with Python attributes here, in `host` and in `interchange`.

Operators and NumPy's methods are the NumPy API, bound late.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pellucid._machine.base import DeletedArrayError, DeviceError, IndexingError, describe
from pellucid._machine.sharding import Sharding, SingleDeviceSharding, make_single_device_sharding
from pellucid._machine.sharding.layout import Format, Layout
from pellucid._machine.sharding.named_sharding import is_unreduced, sharding_of_sum
from pellucid._machine.tracing import add_late_methods, late_attribute
from pellucid._machine.xla import (
    ARRAY_TYPES,
    Array,
    ArrayImpl,
    Device,
    ExtendedArray,
    JaxRuntimeError,
    arrays,
    extend,
)

from . import platforms, waiting
from .donation import donors_of
from .failures import raise_runtime_error

__all__ = ["Array", "ArrayImpl", "Shard"]


def default_sharding() -> SingleDeviceSharding:
    """Sharding of a new array without a specified one: the default device, uncommitted."""
    return make_single_device_sharding(platforms.default_device())


_OF_TYPE = ("shape", "dtype", "ndim", "size", "weak_type", "nbytes")
"""Attributes of arrays that are read from their types."""
for _class in ARRAY_TYPES:
    add_late_methods(_class)
    setattr(_class, "__getattr__", late_attribute)  # until the NumPy API is loaded
    for _name in _OF_TYPE:
        # One C-level getter on top of another: the most frequently read attributes need no Python frame.
        setattr(_class, _name, property(operator.attrgetter(f"aval.{_name}")))


_clone_unchecked = ArrayImpl.clone
_delete_unchecked = ArrayImpl.delete


class _Sharded(ArrayImpl if TYPE_CHECKING else object):
    """Attributes of all device arrays, including those of extended dtypes."""

    __hash__ = None  # type: ignore[assignment]
    __array_priority__ = 100

    def __len__(self) -> int:
        return len(self.aval)

    @property
    def addressable_shards(self) -> list[Shard]:
        """The shards on this process's devices."""
        return shards_of(self, addressable_only=True)

    @property
    def global_shards(self) -> list[Shard]:
        """The shards on all devices; those of other processes have no data here."""
        return shards_of(self, addressable_only=False)


class _Methods(_Sharded):
    """Attributes of arrays about elements, placement and lifetime."""

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return np.dtype(self.dtype).itemsize

    @property
    def sharding(self) -> Sharding:
        """The placement: the part that each device holds, and in which memory."""
        return self._sharding

    @property
    def committed(self) -> bool:
        """Whether the user chose the array's devices, so that computations with it must run there."""
        return self._committed

    @property
    def device(self) -> Device | Sharding:
        """The array's device; its sharding if it has several."""
        check_not_deleted(self)
        devices = self._sharding._internal_device_list
        return devices[0] if len(devices) == 1 else self._sharding

    def devices(self) -> set[Device]:
        """The devices that hold the array's shards."""
        check_not_deleted(self)
        return set(self._sharding.device_set)

    @property
    def is_fully_addressable(self) -> bool:
        """Whether all shards are on this process's devices."""
        return self._sharding.is_fully_addressable

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device holds the whole array."""
        return self._sharding.is_fully_replicated

    @property
    def format(self) -> Format:
        """The array's layout in memory, with its sharding."""
        check_not_deleted(self)
        return Format(Layout.from_pjrt_layout(self._pjrt_layout), self._sharding)

    def addressable_data(self, index: int) -> ArrayImpl:
        """The data of this process's shard number `index`, as an array on one device.

        Raises: IndexingError for an index out of bounds.
        """
        check_not_deleted(self)
        shards = arrays.shards_of(self)
        if not -len(shards) <= index < len(shards):
            raise IndexingError(
                f"there is no shard {index}.",
                got=f"{self.aval.text()} has {len(shards)} shards here",
            )
        return shards[index]

    def block_until_ready(self) -> ArrayImpl:
        """Wait until the array is computed, and return it. Raises the errors of its computation."""
        wait_for([self])
        return self

    def delete(self) -> None:
        """Free the array's memory now; later uses of the array raise DeletedArrayError.

        Raises: DeviceError if the memory is shared with another library.
        """
        if is_exported(self):
            raise DeviceError(
                "an array whose memory was shared through DLPack can't be deleted.",
                got=self.aval.text(),
                do="Drop your references to it (`del x`); its memory goes with the last of them.",
            )
        _delete_unchecked(self)

    def clone(self) -> ArrayImpl:
        """Another array over the same memory."""
        check_not_deleted(self)
        return share_memory(_clone_unchecked(self), self)


extend(ArrayImpl, _Sharded)
extend(ArrayImpl, _Methods)
extend(ExtendedArray, _Sharded)


@dataclass(eq=False, repr=False, slots=True)
class Shard:
    """One device's part of an array: where it is, which part it is, and its data.

    `replica_id` numbers the devices that hold the same part; `data` is an array on the device, None where
    the device belongs to another process.

    >>> sharding = pl.NamedSharding(pl.make_mesh((2,), ("i",)), pl.P("i"))
    >>> pl.device_put(np.arange(4, dtype=np.int32), sharding).addressable_shards[1]
    Shard(device=CpuDevice(id=1), index=(slice(2, 4, None),), replica_id=0, data=[2 3])
    """

    device: Device
    index: tuple[slice, ...]
    replica_id: int
    data: Any

    def __repr__(self) -> str:
        return (
            f"Shard(device={self.device!r}, index={self.index}, replica_id={self.replica_id}, "
            f"data={self.data})"
        )


def shards_of(array: ArrayImpl | ExtendedArray, *, addressable_only: bool) -> list[Shard]:
    """The shards of `array` in the order of its devices."""
    check_not_deleted(array)
    sharding = array._sharding
    if is_unreduced(sharding):
        # Each device has a summand of the part that it would hold if the value were summed.
        sharding = sharding_of_sum(sharding)
    local = {shard._sharding._internal_device_list[0]: shard for shard in arrays.shards_of(array)}
    seen = {}
    shards = []
    for device, index in sharding.devices_indices_map(array.shape).items():
        key = tuple((s.start, s.stop) for s in index)
        replica_id = seen.get(key, 0)
        seen[key] = replica_id + 1
        if device in local or not addressable_only:
            shards.append(Shard(device, index, replica_id, local.get(device)))
    return shards


# Deletion -----------------------------------------------------------------------------------------


def check_not_deleted(array: ArrayImpl | ExtendedArray) -> None:
    """Raise DeletedArrayError, which names the calls that may have taken its memory, if `array` is deleted."""
    if not array.is_deleted():
        return
    taker = getattr(array, "_taken_by", None)
    donors = [d for d in donors_of(array.aval) if taker in (None, d.function)]
    raise DeletedArrayError(
        f"an array of type {array.aval.text()} was deleted, or donated to a call that reused its memory."
        if taker is None
        else f"an array of type {array.aval.text()} was donated to `{taker}`, which reused its memory.",
        got=[
            f"`{d.function}` donates arrays of this type: its argument {d.argument}"
            for d in donors[:3]
        ],
        where=describe(donors[0].source) if donors else None,
        do="Use the function's result instead, or don't donate this argument."
        if donors
        else "Copy it before deleting it, with `jnp.copy`.",
    )


def note_donation(array: ArrayImpl | ExtendedArray, taker: str) -> None:
    """Delete `array`, whose memory was donated to the function `taker`, unless XLA did.

    XLA doesn't donate memory that another library may still use; it copies it.
    """
    if type(array) is ExtendedArray:
        array = array.words
    array._taken_by = taker
    _delete_unchecked(array)


class SharedMemory:
    """Facts shared by all arrays over the same buffer."""

    is_exported = False
    """Whether a DLPack capsule of it was ever made, which another library may still use."""


def shared_memory_of(array: ArrayImpl) -> SharedMemory:
    """The facts that `array` shares with other arrays over its memory, see `share_memory`."""
    memory = getattr(array, "_memory", None)
    if memory is None:
        memory = array._memory = SharedMemory()
    return memory


def share_memory(alias: ArrayImpl, array: ArrayImpl) -> ArrayImpl:
    """Record that `alias`, which is returned, uses the memory of `array`."""
    alias._memory = shared_memory_of(array)
    return alias


def is_exported(array: ArrayImpl | ExtendedArray) -> bool:
    """Whether another library may use the memory of `array`; jaxlib aborts the process if it is deleted then."""
    memory = getattr(array, "_memory", None)
    return memory is not None and memory.is_exported


def _check_deletion_in(name: str) -> None:
    """Make the C++ method `name` raise pellucid's errors; some methods abort the process on a deleted array."""
    unchecked = getattr(ArrayImpl, name)

    def call_checking_deletion(array: ArrayImpl) -> Any:
        check_not_deleted(array)
        try:
            return unchecked(array)
        except (JaxRuntimeError, ValueError) as error:
            raise_runtime_error(f"Array.{name}", error)

    call_checking_deletion.__name__ = name
    call_checking_deletion.__doc__ = _CHECKED[name]
    setattr(ArrayImpl, name, call_checking_deletion)


def wait_for(several: Sequence[ArrayImpl]) -> None:
    """`block_until_ready` for several arrays at once."""
    try:
        waiting.wait_for(several)
    except (JaxRuntimeError, ValueError) as error:
        for x in several:
            check_not_deleted(x)
        raise_runtime_error("block_until_ready", error)


_CHECKED = {
    "is_ready": "Whether the array is computed.",
    "platform": "Name of the platform that holds the array.",
    "on_device_size_in_bytes": "Bytes that the array takes on this process's devices.",
    "unsafe_buffer_pointer": "Address of the array's memory on its device.",
    "_fully_replicated_shard": "One device's copy of an array that each device holds whole.",
}
for _name in _CHECKED:
    _check_deletion_in(_name)


def _refuse_attribute(name: str, instead: str) -> None:
    def getter(array):
        raise AttributeError(f"arrays have no `{name}`; use `{instead}`.")

    setattr(ArrayImpl, name, property(getter))


_refuse_attribute("device_buffer", "addressable_data(0)")
_refuse_attribute("device_buffers", "[shard.data for shard in array.addressable_shards]")
