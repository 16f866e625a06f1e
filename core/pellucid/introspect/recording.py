"""Recordings of runs for tools: XLA's sessions and annotations, and the modules that recordings name by number."""

from __future__ import annotations

from collections.abc import Container
from typing import Any, NamedTuple

from pellucid.runtime import platforms
from pellucid.xla import hlo as xla_hlo
from pellucid.xla.profiling import (
    Annotation,
    ProfileData,
    ProfileEvent,
    ProfileOptions,
    ProfilePlane,
    Session,
    module_id,
    register_subprocess,
    start_server,
)


def wait_for_devices() -> None:
    """Wait until all arrays are there that programs were started for; raises what a program raised."""
    for client in platforms.started_clients():
        for array in client.live_arrays():
            if not array.is_deleted():
                array.block_until_ready()


class LoadedModule(NamedTuple):
    """The optimized HLO of an executable of this process."""

    program_id: int
    """Its number in recordings."""
    name: str
    """`jit_f` for a jitted function `f`."""
    module: Any

    def text(self) -> str:
        """The HLO with metadata, as `analysis.hlo.Module` reads it."""
        return xla_hlo.full_text(self.module)


def heap_profile(platform: str | None = None) -> bytes:
    """The arrays of a platform (by default that of the default device) by the Python lines that made them, as pprof."""
    return platforms.client(platform).heap_profile()


def start_platforms() -> None:
    """Start the platforms that programs would run on."""
    platforms.client(None)


def live_executables() -> list[Any]:
    """The executables of all started platforms that are alive; holding the list keeps them so."""
    return [each for client in platforms.started_clients() for each in client.live_executables()]


def loaded_modules(executables: list[Any], names: Container[str]) -> dict[int, LoadedModule]:
    """The modules of `executables` that are called one of `names`, by their number in recordings."""
    modules = [module for each in executables for module in each.hlo_modules()]
    numbered = [(module_id(module), module) for module in modules if module.name in names]
    return {number: LoadedModule(number, module.name, module) for number, module in numbered}


__all__ = [
    "Annotation", "LoadedModule", "ProfileData", "ProfileEvent", "ProfileOptions", "ProfilePlane", "Session",
    "heap_profile", "live_executables", "loaded_modules", "register_subprocess", "start_platforms", "start_server",
    "wait_for_devices",
]  # fmt: skip
