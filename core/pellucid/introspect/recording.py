"""Recordings of runs for tools: XLA's sessions and annotations, and the modules that recordings name by number."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from pellucid import numpy
from pellucid._machine.base import by_tool, is_user_file
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.higher_order.loops import fori_loop
from pellucid._machine.runtime import platforms
from pellucid._machine.runtime.executable import optimized_modules, precompiled
from pellucid._machine.runtime.transfer import device_put
from pellucid._machine.sharding import NamedSharding
from pellucid._machine.tracing import context
from pellucid._machine.tracing.current import take_current_trace
from pellucid._machine.xla import hlo as xla_hlo
from pellucid._machine.xla.compile import peak_bytes
from pellucid._machine.xla.profiling import (
    Annotation,
    ProfileData,
    ProfileEvent,
    ProfileOptions,
    ProfilePlane,
    XlaRecording,
    guided_profile,
    module_id,
    register_subprocess,
    start_server,
)


def is_tracing() -> bool:
    """Whether what runs now is being traced or transformed, so that a tool has to leave it alone."""
    return not context.trace.is_eager


@by_tool
def wait_for_devices() -> list[Any]:
    """Wait until all programs that were started have run, and give the devices on which some may still run.

    Raises: what a program raised whose results are alive.
    """
    for array in live_arrays():
        if not array.is_deleted():
            array.block_until_ready()
    with Annotation(DRAINING), take_current_trace():
        devices = dict.fromkeys(
            device for each in live_executables() for device in each.local_devices()
        )
        return [device for device in devices if not _drain(device)]


DRAINING = "pellucid_draining"
"""Name of the function that `wait_for_devices` calls, and of the span in which it does so."""
_MAX_PROGRAMS_IN_FLIGHT = 32
"""Programs that XLA's client for CPUs starts on a device before a call waits for one of them to end."""
_FIRST_STEPS, _MAX_STEPS = 200, 1_000_000
"""Iterations of the program that runs while a device's free places are counted, at first and at most."""


def _drain(device: Any) -> bool:
    """Wait until a device has run all programs, those among them whose results nobody holds; whether it has for sure.

    Platforms with streams run one program after the other. A CPU runs them side by side, up to a limit: if as many fit
    as there are places, all but one of them waiting for that one, then no other program is left.
    """
    gate = device_put(np.float32(0), device)
    if device.platform != "cpu":
        _draining(1, gate).block_until_ready()
        return True
    steps = _FIRST_STEPS
    while steps <= _MAX_STEPS:
        first = _draining(steps, gate)
        rest = [_draining(1, first) for _ in range(_MAX_PROGRAMS_IN_FLIGHT - 1)]
        is_empty = not first.is_ready()
        for each in rest:
            each.block_until_ready()
        if is_empty:
            return True
        steps *= 2
    return False


@functools.cache
def _draining_function() -> Any:
    def pellucid_draining(steps: Any, gate: Any) -> Any:
        # A product of matrices, because small programs run at once on the caller's thread.
        matrix = numpy.full((64, 64), 1 / 64)
        return fori_loop(0, steps, lambda _, x: x @ matrix, numpy.full((64, 64), gate))[0, 0]

    return jit(pellucid_draining)


def _draining(steps: int, gate: Any) -> Any:
    return _draining_function()(np.int32(steps), gate)


class LoadedModule(NamedTuple):
    """The optimized HLO of an executable of this process."""

    program_id: int
    """Its number in recordings."""
    name: str
    """`jit_f` for a jitted function `f`."""
    module: Any
    executable: Any

    def proto(self) -> bytes:
        """The HLO as a serialized HloModuleProto."""
        return self.module.as_serialized_hlo_module_proto()

    def buffer_assignment(self) -> bytes:
        """Where the program's buffers lie, a serialized BufferAssignmentProto; empty where the platform keeps none."""
        stats = self.executable.get_compiled_memory_stats()
        return stats.serialized_buffer_assignment_proto or b""

    def allocated_bytes(self) -> int:
        """Bytes that one run holds on each device: arguments, results, temporaries."""
        return peak_bytes(self.executable.get_compiled_memory_stats())

    def text(self) -> str:
        """The HLO with metadata, as `analysis.hlo.Module` reads it."""
        return xla_hlo.full_text(self.module)

    def origins(self) -> Mapping[int, Any] | None:
        """This process's equations for those of a program that another process compiled; None for others."""
        facts = precompiled(self.executable)
        return facts and facts.origins


def hlo_text(proto: bytes) -> str:
    """A serialized HloModuleProto as text with metadata."""
    return xla_hlo.full_text(xla_hlo.module_from_proto(proto))


def heap_profile(platform: str | None = None) -> bytes:
    """The arrays of a platform (by default that of the default device) by the Python lines that made them, as pprof."""
    return platforms.client(platform).heap_profile()


def heap_profiles() -> list[bytes]:
    """`heap_profile` of each started platform."""
    return [client.heap_profile() for client in platforms.started_clients()]


def live_arrays() -> list[Any]:
    """The arrays that are alive, of all started platforms; some may be deleted."""
    return [each for client in platforms.started_clients() for each in client.live_arrays()]


def live_array_bytes() -> tuple[int, int]:
    """(bytes on all devices, count) of the arrays that are alive, of all started platforms."""
    sizes: list[int] = []
    for array in live_arrays():
        with contextlib.suppress(RuntimeError):  # deleted meanwhile
            sizes.append(array.on_device_size_in_bytes())
    return sum(sizes), len(sizes)


def live_meshes() -> list[dict[str, int]]:
    """Sizes of axes by name, of each mesh over which an array is laid out."""
    shardings = [array.sharding for array in live_arrays() if not array.is_deleted()]
    meshes = dict.fromkeys(each.mesh for each in shardings if isinstance(each, NamedSharding))
    return [{str(axis): size for axis, size in mesh.shape.items()} for mesh in meshes]


def start_platforms() -> None:
    """Start the platforms that programs would run on."""
    platforms.client(None)


def live_executables() -> list[Any]:
    """The executables of all started platforms that are alive; holding the list keeps them so."""
    return [each for client in platforms.started_clients() for each in client.live_executables()]


def modules_of(executable: Any, names: frozenset[str] | None = None) -> list[LoadedModule]:
    """The modules of an executable; of those whose names are among `names`, if these are given."""
    facts = precompiled(executable)
    if names is not None and names.isdisjoint(m.name for m in executable.hlo_modules()):
        return []
    return [
        LoadedModule(
            module_id(module) if facts is None else facts.program_id,
            module.name,
            module,
            executable,
        )
        for module in optimized_modules(executable)
    ]


def loaded_modules(
    executables: list[Any], names: Mapping[int, Collection[str]]
) -> dict[int, LoadedModule]:
    """Modules of `executables` by their number in recordings, of those that have the one name in `names[number]`.

    Programs that other processes compiled have those processes' numbers. Where that makes a program ambiguous, it is
    left out.
    """
    names_to_find = frozenset(itertools.chain.from_iterable(names.values()))
    candidates: dict[int, list[LoadedModule]] = {}
    for each in dict.fromkeys(executables):
        for loaded in modules_of(each, names_to_find):
            if {*names.get(loaded.program_id, ())} == {loaded.name}:
                candidates.setdefault(loaded.program_id, []).append(loaded)
    return {number: modules[0] for number, modules in candidates.items() if len(modules) == 1}


__all__ = [
    "DRAINING", "Annotation", "LoadedModule", "ProfileData", "ProfileEvent", "ProfileOptions", "ProfilePlane", "XlaRecording",
    "guided_profile", "heap_profile", "heap_profiles", "hlo_text", "is_tracing", "is_user_file", "live_array_bytes", "live_arrays", "live_executables", "live_meshes", "loaded_modules", "modules_of", "register_subprocess", "start_platforms", "start_server",
    "wait_for_devices",
]  # fmt: skip
