"""Compiled functions as bytes, under the names of `jax.experimental.serialize_executable`.

Another process of the same jaxlib, with devices of the same kind, loads them without tracing or compiling. Loading runs
code: bytes must come from where one trusts. `pellucid.export` writes programs for other machines and releases.
"""

from __future__ import annotations

import dataclasses
import io
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import digests
from pellucid._machine.base.errors import ArgumentTypeError, ArgumentValueError, UnsupportedError
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.higher_order.shape_dtype_struct import ShapeDtypeStruct
from pellucid._machine.higher_order.stages import Compiled
from pellucid._machine.primitives.creation import zeros
from pellucid._machine.runtime import platforms
from pellucid._machine.runtime.executable import Executable, serialized_executable
from pellucid._machine.xla.client import JaxRuntimeError
from pellucid._machine.xla.compile import compile_options, deserialize, jaxlib_version
from pellucid._machine.xla.shardings import Device

_FORMAT = "pellucid executable 1"
_OF_PROCESS = {
    "loaded", "consts", "effects", "calls_host", "host_failures", "keep_alive", "digest", "precompiled", "shared",
    "jaxpr",
}  # fmt: skip
_FIELDS = tuple(f.name for f in dataclasses.fields(Executable) if f.name not in _OF_PROCESS)
"""Fields of an executable that are the same in the process that loads it."""


class _Pickler(pickle.Pickler):
    """Pickler that writes devices as their positions among those of the executable."""

    def __init__(self, file: Any, devices: Sequence[Device]) -> None:
        super().__init__(file, protocol=5)
        self.positions = {device: i for i, device in enumerate(devices)}

    def persistent_id(self, obj: Any) -> Any:
        return self.positions[obj] if isinstance(obj, Device) else None


class _Unpickler(pickle.Unpickler):
    """Reads devices by their positions among those that the executable is loaded onto."""

    def __init__(self, file: Any, devices: Sequence[Device]) -> None:
        super().__init__(file)
        self.devices = devices

    def persistent_load(self, pid: Any) -> Device:
        return self.devices[pid]


def serialize(compiled: Compiled) -> tuple[bytes, Any, Any]:
    """(bytes, structure of arguments, structure of results) of a compiled function.

    Raises: UnsupportedError for programs that call Python, have effects in an order, or use references; also for
    platforms whose executables can't be written.

    >>> f = pl.jit(lambda x: 2 * x).lower(np.float32(1)).compile()
    >>> deserialize_and_load(*serialize(f))(np.float32(4))
    Array(8., dtype=float32)
    """
    if not isinstance(compiled, Compiled):
        raise ArgumentTypeError(
            "serialize needs a compiled function.",
            got=f"got {type(compiled).__name__}",
            do="`jit(f).lower(*arguments).compile()`.",
        )
    executable = compiled._executable
    obstacles = {
        "it calls Python functions": executable.calls_host,
        "it has effects in an order": executable.effects,
        "it uses references": compiled._program.values.takes_references,
        "its devices belong to several processes": executable._shared is not None,
    }
    for reason, is_obstacle in obstacles.items():
        if is_obstacle:
            raise UnsupportedError(f"`{compiled.fun_name}` can't be serialized: {reason}.")
    devices = executable.in_devices
    try:
        payload = serialized_executable(executable.loaded)
    except JaxRuntimeError as error:
        raise UnsupportedError(
            f"`{compiled.fun_name}` can't be serialized: its platform doesn't write executables.",
            got=str(error),
        ) from error
    file = io.BytesIO()
    content = {name: getattr(executable, name) for name in _FIELDS}
    content |= {
        "versions": (_FORMAT, jaxlib_version),
        "platform": platforms.platform_of(executable.loaded.client),
        "device_kind": devices[0].device_kind,
        "count": len(devices),
        "payload": payload,
    }
    header = {k: content.pop(k) for k in ("versions", "platform", "device_kind", "count")}
    pickle.dump(header, file, protocol=5)
    content["consts"] = [np.asarray(x) for x in executable.consts]
    content["avals"] = tuple(compiled._program.call.avals)
    _Pickler(file, devices).dump(content)
    data = file.getvalue()
    return data + digests.seal(data), compiled.in_tree, compiled.out_tree


def deserialize_and_load(
    serialized: bytes,
    in_tree: Any,
    out_tree: Any,
    backend: Any = None,
    execution_devices: Sequence[Device] | None = None,
) -> Compiled:
    """The compiled function that `serialize` wrote, on `execution_devices`, or on the first devices of `backend`.

    Donated arguments are donated; its `args_info` doesn't show them.

    Raises: ArgumentValueError for bytes of another jaxlib, platform or kind of device, and for another number of
    devices.

    >>> serialized = serialize(pl.jit(lambda x: x + 1).lower(np.float32(1)).compile())
    >>> deserialize_and_load(*serialized, execution_devices=pl.devices()[-1:])(np.float32(1))
    Array(2., dtype=float32)
    """
    file = io.BytesIO(serialized)
    try:
        digests.check_seal(serialized)
        header = pickle.load(file)  # noqa: S301  (said above)
        versions, count = header["versions"], header["count"]
    except Exception as error:  # whatever pickle raises for bytes of something else
        raise ArgumentValueError(
            "these bytes are no compiled function.", got=f"{type(error).__name__}: {error}"
        ) from None
    client = platforms.client(header["platform"]) if isinstance(backend, str | None) else backend
    devices = (
        list(client.local_devices()[:count])
        if execution_devices is None
        else list(execution_devices)
    )
    if len(devices) != count:
        raise ArgumentValueError(
            "a compiled function must be loaded onto as many devices as it was compiled for.",
            got=f"{len(devices)} devices, compiled for {count}",
        )
    loaded_by = (
        (_FORMAT, jaxlib_version),
        platforms.platform_of(devices[0].client),
        devices[0].device_kind,
    )
    written_by = (tuple(versions), header["platform"], header["device_kind"])
    if loaded_by != written_by:
        raise ArgumentValueError(
            "a compiled function must be loaded by the jaxlib, and for the kind of devices, that it was compiled for.",
            got=[f"compiled: {written_by}", f"here: {loaded_by}"],
            do="Compile it here; `export` writes programs for other machines.",
        )
    content = _Unpickler(file, devices).load()
    options = compile_options(devices, is_partitioned=count > 1)
    loaded = deserialize(devices[0].client, content["payload"], devices, options, [])
    fields = {name: content[name] for name in _FIELDS}
    executable = Executable(loaded=loaded, consts=content["consts"], **fields)
    return _compiled_stage(executable, content["avals"], in_tree, out_tree)


def _compiled_stage(
    executable: Executable, avals: Sequence[Any], in_tree: Any, out_tree: Any
) -> Compiled:
    """The compiled function of `executable`: the program it is traced from only has the right types, and never runs."""

    def stand_in(*args: Any, **kwargs: Any) -> Any:
        return out_tree.unflatten([zeros(aval) for aval in executable.out_avals])

    stand_in.__name__ = stand_in.__qualname__ = executable.name
    for what, tree, n in (
        ("arguments", in_tree, len(avals)),
        ("results", out_tree, len(executable.out_avals)),
    ):
        if tree.num_leaves != n:
            raise ArgumentValueError(
                f"the structure of {what} isn't that of the compiled function.",
                got=f"{tree.num_leaves} leaves, {n} {what}",
            )
    structs = [ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in avals]
    args, kwargs = in_tree.unflatten(structs)
    traced = jit(stand_in).trace(*args, **kwargs)
    return Compiled(traced._jitted, traced._program, executable)


__all__ = ["deserialize_and_load", "serialize"]
