"""`Array`: values on devices. jaxlib's class, given its Python attributes here.

Operators and NumPy's methods are installed by `wiring`; they are the NumPy API.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pellucid.base.errors import DeletedArrayError, DeviceError
from pellucid.base.events import TransferFinished, on, publish
from pellucid.base.source import describe
from pellucid.runtime import platforms
from pellucid.runtime.donation import donors_of
from pellucid.sharding.single_device import make_single_device_sharding
from pellucid.xla import arrays
from pellucid.xla.arrays import Array, ArrayImpl

__all__ = ["Array", "ArrayImpl", "Shard", "attribute", "method"]


def attribute(name: str) -> Callable[[Callable[[Any], Any]], Any]:
    """Install a function as the property `name` of arrays."""

    def install(function: Callable[[Any], Any]) -> Any:
        setattr(ArrayImpl, name, property(function))
        return function

    return install


def method(name: str) -> Callable[[Callable[..., Any]], Any]:
    """Install a function as the method `name` of arrays."""

    def install(function: Callable[..., Any]) -> Any:
        setattr(ArrayImpl, name, function)
        return function

    return install


# What an array is ---------------------------------------------------------------------------------

for _name in ("shape", "dtype", "ndim", "size", "weak_type"):
    # One C-level getter on top of another: no Python frame for the attributes that are read most.
    def _getter(array: Any, _name: str = _name) -> Any:
        return getattr(array.aval, _name)

    setattr(ArrayImpl, _name, property(_getter))


@attribute("itemsize")
def _itemsize(array: Any) -> int:
    return np.dtype(array.dtype).itemsize


@attribute("nbytes")
def _nbytes(array: Any) -> int:
    return array.aval.nbytes


@attribute("sharding")
def _sharding(array: Any) -> Any:
    return array._sharding


@attribute("committed")
def _committed(array: Any) -> bool:
    return array._committed


@attribute("device")
def _device(array: Any) -> Any:
    check_not_deleted(array)
    devices = array._sharding._internal_device_list
    return devices[0] if len(devices) == 1 else array._sharding


@method("devices")
def _devices(array: Any) -> set[Any]:
    """The devices that hold the array's shards."""
    check_not_deleted(array)
    return set(array._sharding.device_set)


@attribute("is_fully_addressable")
def _is_fully_addressable(array: Any) -> bool:
    return array._sharding.is_fully_addressable


@attribute("is_fully_replicated")
def _is_fully_replicated(array: Any) -> bool:
    return array._sharding.is_fully_replicated


@method("__len__")
def _len(array: Any) -> int:
    if not array.aval.shape:
        raise TypeError("len() of a 0-dimensional array")
    return array.aval.shape[0]


class Shard(NamedTuple):
    """One device's part of an array: where it is, which part it is, its data (None on other processes)."""

    device: Any
    index: tuple[slice, ...]
    replica_id: int
    data: Any


def _shards(array: Any, *, addressable_only: bool) -> list[Shard]:
    check_not_deleted(array)
    index_map = array._sharding.devices_indices_map(array.shape)
    local = {shard._sharding._internal_device_list[0]: shard for shard in arrays.shards_of(array)}
    seen: dict[str, int] = {}
    shards = []
    for device, index in index_map.items():
        replica_id = seen.get(repr(index), 0)
        seen[repr(index)] = replica_id + 1
        if device in local or not addressable_only:
            shards.append(Shard(device, index, replica_id, local.get(device)))
    return shards


@attribute("addressable_shards")
def _addressable_shards(array: Any) -> list[Shard]:
    return _shards(array, addressable_only=True)


@attribute("global_shards")
def _global_shards(array: Any) -> list[Shard]:
    return _shards(array, addressable_only=False)


@method("addressable_data")
def _addressable_data(array: Any, index: int) -> Any:
    """The data of this process's shard number `index`, as an array on one device."""
    check_not_deleted(array)
    return arrays.shards_of(array)[index]


# Deletion -----------------------------------------------------------------------------------------

def check_not_deleted(array: Any) -> None:
    """Raise DeletedArrayError, naming the calls that may have taken its memory, if `array` is gone."""
    if not array.is_deleted():
        return
    donors = donors_of(array.aval)
    raise DeletedArrayError(
        f"an array of type {array.aval.text()} was deleted, or donated to a call that reused its memory.",
        got=[f"`{d.function}` donates arrays of this type: its argument {d.argument}" for d in donors[:3]],
        where=describe(donors[0].source) if donors else None,
        do="Use the function's result instead, or don't donate this argument."
        if donors
        else "Copy it before deleting it, with `jnp.copy`.",
    )


# Values on the host -------------------------------------------------------------------------------


@attribute("_value")
def value_of(array: Any) -> np.ndarray:
    """The whole array as a read-only NumPy array, kept once fetched."""
    cached = array._npy_value
    if cached is None:
        check_not_deleted(array)
        cached = _fetch(array)
        cached.flags.writeable = False
        array._npy_value = cached
        if on.transfer_finished:
            publish(on.transfer_finished, TransferFinished("device_to_host", cached.nbytes, 0.0))
    return cached


def _fetch(array: Any) -> np.ndarray:
    sharding = array._sharding
    if not array.is_fully_addressable and not sharding.is_fully_replicated:
        raise DeviceError(
            "an array whose parts lie on other processes' devices can't be read here.",
            got=f"{array.aval.text()} with {sharding}",
            do="Use `multihost_utils.process_allgather`, or read `array.addressable_shards`.",
        )
    if len(sharding._internal_device_list) == 1:
        return arrays.single_device_to_numpy(array)
    if sharding.is_fully_replicated:
        return arrays.single_device_to_numpy(arrays.shards_of(array)[0])
    whole = np.empty(array.shape, array.dtype)
    for shard in _shards(array, addressable_only=True):
        if shard.replica_id == 0:
            whole[shard.index] = arrays.single_device_to_numpy(shard.data)
    return whole


@method("__array__")
def _to_numpy(array: Any, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    value = value_of(array)
    return np.array(value, dtype=dtype, copy=copy) if copy or dtype is not None else value


@method("copy_to_host_async")
def _copy_to_host_async(array: Any) -> None:
    """Start copying to the host; a later `np.asarray` waits less."""
    check_not_deleted(array)
    if array._npy_value is None:
        arrays.copy_to_host_async(array)


@method("__bool__")
def _bool(array: Any) -> bool:
    if array.size != 1:
        raise ValueError(
            f"the truth value of an array with {array.size} elements is ambiguous: {array.aval.text()}. "
            "Use `.any()` or `.all()`."
        )
    return bool(value_of(array))


def _scalar(array: Any, use: str) -> Any:
    if array.size != 1:
        raise TypeError(f"only arrays with one element can be used as {use}, got {array.aval.text()}.")
    return value_of(array).reshape(())[()]


@method("__int__")
def _int(array: Any) -> int:
    return int(_scalar(array, "a Python int"))


@method("__float__")
def _float(array: Any) -> float:
    return float(_scalar(array, "a Python float"))


@method("__complex__")
def _complex(array: Any) -> complex:
    return complex(_scalar(array, "a Python complex"))


@method("__index__")
def _index(array: Any) -> int:
    if array.shape != () or array.dtype.kind not in "iu":
        raise TypeError(f"only integer scalar arrays can be used as an index, got {array.aval.text()}.")
    return int(value_of(array))


@method("tolist")
def _tolist(array: Any) -> Any:
    """Nested Python lists of Python numbers."""
    return value_of(array).tolist()


@method("item")
def _item(array: Any, *index: int) -> Any:
    """One element as a Python number."""
    return value_of(array).item(*index)


@method("__copy__")
def _copy(array: Any) -> Any:
    return array


@method("__reduce__")
def _reduce(array: Any) -> Any:
    function, arguments, state = value_of(array).__reduce__()
    return _rebuilt, (function, arguments, state, {"weak_type": array.weak_type})


def _rebuilt(function: Any, arguments: Any, state: Any, facts: dict[str, Any]) -> Any:
    value = function(*arguments)
    value.__setstate__(state)
    return from_host(value, weak_type=facts["weak_type"])


from_host: Callable[..., Any]


def _unset(value: np.ndarray, **more: Any) -> Any:
    raise RuntimeError("pellucid.runtime.transfer is not loaded")


from_host = _unset


@method("__repr__")
def _repr(array: Any) -> str:
    weak = ", weak_type=True" if array.weak_type else ""
    tail = f"dtype={array.dtype}{weak})"
    if array.is_deleted():
        return f"Array(shape={array.shape}, {tail[:-1]}, deleted)"
    if not array.is_fully_addressable:
        return f"Array(shape={array.shape}, {tail}"
    if array.size == 0 and math.prod(array.shape) == 0:
        return f"Array([], shape={array.shape}, {tail}"
    body = np.array2string(np.asarray(value_of(array)), prefix="Array(", separator=", ", suffix=",")
    last_line = len(body) - body.rfind("\n") - 1
    separator = "\n      " if last_line + len(tail) + 3 > np.get_printoptions()["linewidth"] else " "
    return f"Array({body},{separator}{tail}"


@method("__str__")
def _str(array: Any) -> str:
    return str(value_of(array)) if array.is_fully_addressable else repr(array)


@method("__format__")
def _format(array: Any, spec: str) -> str:
    return format(value_of(array)[()], spec) if array.ndim == 0 else format(str(array), spec)


def default_sharding() -> Any:
    """Where a new array goes if nobody says: one device, uncommitted."""
    return make_single_device_sharding(platforms.default_device())


ArrayImpl.__hash__ = None
ArrayImpl.__array_priority__ = 100
