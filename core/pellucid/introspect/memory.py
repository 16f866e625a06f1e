"""Records of live arrays and of devices."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

from pellucid._machine.base import ArgumentValueError, keystr, source
from pellucid._machine.runtime import platforms
from pellucid._machine.runtime.memory import (
    DeviceMemory,
    LiveArray,
    described_live_arrays,
    memory_of,
)
from pellucid._machine.xla.arrays import ARRAY_TYPES, shards_of
from pellucid._machine.xla.pytree import flatten_with_path

from . import schema

_HOLDERS = ("last_value", "last_exc", "last_traceback")
_MAX_OWNERS = 8


def memory(namespace: Mapping[str, Any] | None = None) -> schema.MemoryRecord:
    """Devices and the arrays that live on them, largest first.

    `namespace` are the variables to find owners among, by default those of `__main__`: arrays are found in them
    and in the trees that they hold.

    >>> x = pl.lax.full((256,), 1.0)
    >>> [a.owners for a in memory({"params": {"w": x}}).arrays if a.owners]
    [["params['w']"]]
    """
    if namespace is None:
        namespace = vars(importlib.import_module("__main__"))
    owners, holders = _owners(namespace), _holders(namespace)
    live = _distinct(described_live_arrays(), {*owners, *holders})
    arrays = [_array_record(each, owners, holders) for each in live]
    devices = [d for client in platforms.started_clients() for d in client.local_devices()]
    return schema.MemoryRecord(
        devices=[_device_record(memory_of(d, live)) for d in devices], arrays=arrays
    )


def _distinct(live: list[LiveArray], held: set[int]) -> list[LiveArray]:
    """One array for each buffer, preferably one that is `held`: looking at shards makes further arrays of the same
    buffer.
    """
    by_memory: dict[Any, LiveArray] = {}
    parts = {
        shard.unsafe_buffer_pointer()
        for each in live
        if len(each.device_bytes) > 1
        for shard in shards_of(each.array)
    }
    for each in live:
        is_whole = len(each.device_bytes) == 1 and each.array.is_fully_addressable
        key = each.array.unsafe_buffer_pointer() if is_whole and each.n_bytes else id(each.array)
        if is_whole and key in parts:
            continue
        if key not in by_memory or id(each.array) in held:
            by_memory[key] = each
    return list(by_memory.values())


def _device_record(memory: DeviceMemory) -> schema.DeviceMemoryRecord:
    device = memory.device
    return schema.DeviceMemoryRecord(
        device_id=device.id,
        process_index=device.process_index,
        platform=device.platform,
        device_kind=device.device_kind,
        in_use_bytes=memory.in_use_bytes,
        peak_bytes=memory.peak_bytes,
        limit_bytes=memory.limit_bytes,
        basis="measured" if memory.is_measured else "estimate",
    )


def _array_record(
    live: LiveArray, owners: dict[int, list[str]], holders: dict[int, list[str]]
) -> schema.LiveArrayRecord:
    x = live.array
    frame = source.user_frame(x.traceback)
    spec = getattr(x.sharding, "spec", None)
    return schema.LiveArrayRecord(
        id=id(x),
        type=live.type,
        sharding=str(x.sharding if spec is None else spec),
        device_ids=sorted(device.id for device in x.devices()),
        bytes_per_device=max(live.device_bytes.values(), default=0),
        total_bytes=live.n_bytes,
        owners=owners.get(id(x), [])[:_MAX_OWNERS],
        holders=holders.get(id(x), [])[:_MAX_OWNERS],
        source=None if frame is None else source.cell_name(frame.file) or frame.file,
        line=None if frame is None else frame.line,
        age_s=None,
    )


def _owners(namespace: Mapping[str, Any]) -> dict[int, list[str]]:
    """Maps the `id` of each array to the variables that hold it."""
    owners: dict[int, list[str]] = {}
    for name, value in list(namespace.items()):
        if not name.startswith("_") and name not in ("In", "Out"):
            _find(name, value, owners)
    return owners


def _holders(namespace: Mapping[str, Any]) -> dict[int, list[str]]:
    """Maps the `id` of each array to holders that aren't variables: outputs of cells, frames of the last error."""
    holders: dict[int, list[str]] = {}
    for count, value in dict(namespace.get("Out") or {}).items():
        _find(f"Out[{count}]", value, holders)
    for place, held in _tracebacks():
        while held is not None:
            frame = held.tb_frame
            is_shown = source.is_user_file(frame.f_code.co_filename)
            for name, value in frame.f_locals.items() if is_shown else ():
                # The variables of a cell's frame are the namespace itself.
                if namespace.get(name, holders) is not value and value is not namespace:
                    _find(f"{place}: {name} in {frame.f_code.co_name}", value, holders)
            held = held.tb_next
    return holders


def _tracebacks() -> Iterator[tuple[str, TracebackType]]:
    """Tracebacks of the last uncaught error and of its causes, which the interpreter keeps."""
    seen: set[int] = set()
    for name in _HOLDERS:
        held = getattr(sys, name, None)
        if isinstance(held, TracebackType) and id(held) not in seen:
            seen.add(id(held))
            yield f"sys.{name}", held
        while isinstance(held, BaseException) and id(held) not in seen:
            seen |= {id(held), id(held.__traceback__)}
            if held.__traceback__ is not None:
                yield f"sys.{name}", held.__traceback__
            held = held.__cause__ or held.__context__


def clear_failed_frames() -> None:
    """Clear the frames of the last error, which keep the arrays of a failed cell alive until the next error.

    A debugger can't show their variables afterwards.

    >>> clear_failed_frames()
    """
    for _, held in _tracebacks():
        traceback.clear_frames(held)


def delete_array(array_id: int) -> int:
    """Free the memory of the live array that `memory` lists under `array_id`, and return the number of freed bytes.

    Variables still refer to the array; using one of them raises DeletedArrayError.

    Raises: ArgumentValueError if there is no such array.

    >>> x = jnp.ones(4)
    >>> [array_id] = [array.id for array in memory({"x": x}).arrays if array.owners == ["x"]]
    >>> delete_array(array_id), x.is_deleted()
    (16, True)
    """
    for live in described_live_arrays():
        if id(live.array) == array_id:
            live.array.delete()
            return live.n_bytes
    raise ArgumentValueError("this array is gone already.", do="Look at the live arrays again.")


def _find(name: str, value: Any, names_by_array: dict[int, list[str]]) -> None:
    if type(value) in ARRAY_TYPES:
        names_by_array.setdefault(id(value), []).append(name)
    elif not isinstance(value, (str, bytes, int, float, type)) and not callable(value):
        try:
            leaves, _ = flatten_with_path(value)
        except (
            Exception
        ):  # a container that isn't a pytree, or a user's pytree whose flattening fails
            return
        for path, leaf in leaves:
            if type(leaf) in ARRAY_TYPES and path:
                names_by_array.setdefault(id(leaf), []).append(name + keystr(tuple(path)))
