"""Support for recording runs: XLA's profiler sessions and annotations, and the modules that recordings identify by
number.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Collection, Mapping
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from pellucid import numpy
from pellucid._machine.base import by_tool, is_user_file
from pellucid._machine.base.source import user_places
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.higher_order.loops import fori_loop
from pellucid._machine.runtime import platforms
from pellucid._machine.runtime.executable import optimized_modules, precompiled_metadata
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
from pellucid._machine.xla.traceback import location_of

from .traps import own_settings


def is_tracing() -> bool:
    """Whether the current code is being traced or transformed, so that tools must not interfere."""
    return not context.trace.is_eager


@by_tool
def wait_for_devices() -> list[Any]:
    """Wait until all launched programs have run, and return the devices that may still be busy.

    Raises: the error of a program whose results are alive.
    """
    for array in live_arrays():
        if not array.is_deleted():
            array.block_until_ready()
    with Annotation(DRAINING), take_current_trace(), own_settings():
        devices = dict.fromkeys(
            device for each in live_executables() for device in each.local_devices()
        )
        return [device for device in devices if not _drain(device)]


def line_of(source: Any) -> tuple[CodeType, int] | None:
    """The code and the line of the user at which an equation was made that has a source; None if there is none."""
    places = user_places(source)
    return (places[0][0], location_of(*places[0])[0]) if places else None


def is_in_backward_pass() -> bool:
    """Whether this thread runs what a transposition calls, such as the rule of a `custom_vjp`."""
    lineage = context.lineage
    return lineage is not None and lineage.transformation == "transpose"


DRAINING = "pellucid_draining"
"""Name of the function that `wait_for_devices` calls, and of the span during which it waits."""
_MAX_PROGRAMS_IN_FLIGHT = 32
"""Number of programs that XLA's CPU client launches on a device before a launch waits for one of them to end."""
_FIRST_STEPS, _MAX_STEPS = 200, 1_000_000
"""Loop iterations of the probe program that runs while free launch slots are counted, at first and at most."""


def _drain(device: Any) -> bool:
    """Wait until a device has run all programs, even those whose results were deleted; whether that is certain.

    Platforms with streams run programs in order. The CPU runs up to a limit of programs concurrently: if one running
    probe and others that wait for it fill all slots, no other program is left.
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
        # A matrix product, because small programs run synchronously on the caller's thread.
        matrix = numpy.full((64, 64), 1 / 64, gate.dtype)
        return fori_loop(np.int32(0), steps, lambda _, x: x @ matrix, numpy.full((64, 64), gate))[
            0, 0
        ]

    return jit(pellucid_draining)


def _draining(steps: int, gate: Any) -> Any:
    return _draining_function()(np.int32(steps), gate)


class LoadedModule(NamedTuple):
    """The optimized HLO of a loaded executable of this process."""

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
        """The program's buffers as a serialized BufferAssignmentProto; empty on platforms without one."""
        stats = self.executable.get_compiled_memory_stats()
        return stats.serialized_buffer_assignment_proto or b""

    def allocated_bytes(self) -> int:
        """Bytes that a run allocates on each device: arguments, results and temporaries."""
        return peak_bytes(self.executable.get_compiled_memory_stats())

    def text(self) -> str:
        """The HLO with metadata, as `analysis.hlo.Module` reads it."""
        return xla_hlo.full_text(self.module)

    def origins(self) -> Mapping[int, Any] | None:
        """This process's equations if the executable was compiled by another process or for an equal program, else None."""
        facts = precompiled_metadata(self.executable)
        return facts and facts.origins


def hlo_text(proto: bytes) -> str:
    """A serialized HloModuleProto as text with metadata."""
    return xla_hlo.full_text(xla_hlo.module_from_proto(proto))


def heap_profile(platform: str | None = None) -> bytes:
    """The arrays of a platform (by default the default device's) by the Python line that created them, in pprof format."""
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
        with contextlib.suppress(RuntimeError):  # deleted in the meantime
            sizes.append(array.on_device_size_in_bytes())
    return sum(sizes), len(sizes)


def live_meshes() -> list[dict[str, int]]:
    """For each mesh over which an array is sharded, the sizes of its axes by name."""
    shardings = [array.sharding for array in live_arrays() if not array.is_deleted()]
    meshes = dict.fromkeys(each.mesh for each in shardings if isinstance(each, NamedSharding))
    return [{str(axis): size for axis, size in mesh.shape.items()} for mesh in meshes]


def start_platforms() -> None:
    """Start the platforms on which programs would run."""
    platforms.client(None)


def live_executables() -> list[Any]:
    """The live executables of all started platforms; the list keeps them alive."""
    return [each for client in platforms.started_clients() for each in client.live_executables()]


def modules_of(executable: Any, names: frozenset[str] | None = None) -> list[LoadedModule]:
    """The modules of an executable; if `names` is given, only those with such a name."""
    facts = precompiled_metadata(executable)
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
    """Maps numbers in recordings to modules of `executables` whose name is the only one in `names[number]`.

    Programs compiled by other processes have those processes' numbers. If that makes a number ambiguous, it is left
    out.
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
