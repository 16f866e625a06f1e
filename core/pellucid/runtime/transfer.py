"""Between host and devices."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from pellucid.base.errors import DeviceError
from pellucid.base.events import TransferFinished, on, publish
from pellucid.ir.avals import ShapedArray, physical, shaped_array
from pellucid.runtime import array as array_module
from pellucid.runtime.array import check_not_deleted, value_of
from pellucid.sharding.single_device import SingleDeviceSharding
from pellucid.tracing.values import type_of
from pellucid.xla import arrays
from pellucid.xla.arrays import ArrayImpl
from pellucid.xla.pytree import flatten


def from_host(value: Any, *, weak_type: bool = False, sharding: Any = None) -> Any:
    """An array with the contents of a NumPy array or scalar, on `sharding` or the default device."""
    aval = type_of(value)
    aval = shaped_array(aval.shape, aval.dtype, weak_type)  # type: ignore[attr-defined]
    committed = sharding is not None
    return put_host(value, aval, sharding or array_module.default_sharding(), committed)


def put_host(value: Any, aval: ShapedArray, sharding: Any, committed: bool) -> Any:
    """An array of type `aval` laid out as `sharding`, with the contents of host value `value`."""
    start = time.perf_counter()
    host = np.asarray(value, dtype=physical(aval).dtype)
    if type(sharding) is SingleDeviceSharding:
        result = arrays.put(aval, sharding, [host], [sharding._device], committed)
    else:
        index_map = sharding.addressable_devices_indices_map(host.shape)
        shards = [host[index] for index in index_map.values()]
        result = arrays.put(aval, sharding, shards, list(index_map), committed)
    if on.transfer_finished:
        seconds = time.perf_counter() - start
        publish(on.transfer_finished, TransferFinished("host_to_device", host.nbytes, seconds))
    return result


def shard_argument(x: Any, sharding: Any, layout: Any = None) -> Any:
    """`x` where an executable wants it: laid out as `sharding`."""
    if type(x) is ArrayImpl:
        check_not_deleted(x)
        if x._sharding is sharding or x._sharding == sharding:
            return x
        return move(x, sharding, committed=x._committed)
    aval = type_of(x)
    return put_host(x, aval, sharding, committed=False)  # type: ignore[arg-type]


def move(x: Any, sharding: Any, *, committed: bool) -> Any:
    """A copy of array `x` laid out as `sharding`."""
    old = x._sharding
    same_parts = len(old._internal_device_list) == len(sharding._internal_device_list) and (
        type(old) is type(sharding) is SingleDeviceSharding
        or (
            type(sharding) is not SingleDeviceSharding
            and type(old) is not SingleDeviceSharding
            and list(old.devices_indices_map(x.shape).values())
            == list(sharding.devices_indices_map(x.shape).values())
        )
    )
    if same_parts:
        result = arrays.copy_to_devices(x, sharding._internal_device_list, sharding)
        if result._committed is committed and result.aval is x.aval:
            return result
        return arrays.assemble(x.aval, sharding, arrays.shards_of(result), committed)
    if not x.is_fully_addressable:
        raise DeviceError(
            "an array that spans processes can't be laid out anew outside a compiled function.",
            got=f"{x.aval.text()} from {old} to {sharding}",
            do="Do it inside `jit` with `with_sharding_constraint`.",
        )
    return put_host(value_of(x), x.aval, sharding, committed)


def block_until_ready(x: Any) -> Any:
    """`x`, a tree, once all its arrays are computed; raises what their computation raised.

    >>> block_until_ready({"a": np.float32(1)})
    {'a': np.float32(1.0)}
    """
    arrays.batched_block_until_ready([leaf for leaf in flatten(x)[0] if type(leaf) is ArrayImpl])
    return x


def copied(x: Any) -> Any:
    """A copy of array `x` in memory of its own, laid out as `x`."""
    check_not_deleted(x)
    result = arrays.copy_to_devices(x, x._sharding._internal_device_list, x._sharding)
    return arrays.rewrap(result, x.aval, x._sharding) if result.aval is not x.aval else result


array_module.from_host = from_host
