"""XLA's profiler and its server, and the ids of programs in recordings."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any, Self

from jaxlib import _profile_data, _profiler

from .protobuf import fields

if TYPE_CHECKING:

    class ProfileEvent:
        """An event of a line; times in nanoseconds."""

        name: str
        start_ns: float
        duration_ns: float
        end_ns: float
        stats: Iterable[tuple[str, Any]]

    class ProfileLine:
        """The events of a thread or stream."""

        name: str
        events: Iterable[ProfileEvent]

    class ProfilePlane:
        """The lines of a host or device."""

        name: str
        lines: Iterable[ProfileLine]
        stats: Iterable[tuple[str, Any]]

    class ProfileData:
        """A recording."""

        planes: Iterable[ProfilePlane]

        @staticmethod
        def from_serialized_xspace(recorded: bytes) -> ProfileData: ...
        @staticmethod
        def from_file(path: str) -> ProfileData: ...
        def find_plane_with_name(self, name: str) -> ProfilePlane | None: ...

    class ProfileOptions:
        """Options of a session: levels of detail by source, and options of individual recorders."""

        python_tracer_level: int
        host_tracer_level: int
        enable_hlo_proto: bool
        raise_error_on_start_failure: bool
        advanced_configuration: dict[str, Any]

    class Annotation:
        """Context manager that records a named span of the thread's time."""

        def __init__(self, name: str, **details: Any) -> None: ...
        def __enter__(self) -> Self: ...
        def __exit__(self, *error: object) -> None: ...

    class _ProfilerSession:
        def __init__(self, options: ProfileOptions | None = None) -> None: ...
        def stop(self) -> bytes: ...

else:
    ProfileData = _profile_data.ProfileData
    ProfileEvent = _profile_data.ProfileEvent
    ProfilePlane = _profile_data.ProfilePlane
    ProfileOptions = _profiler.ProfileOptions
    ProfileOptions.__doc__ = (
        "What a session records: levels of detail by source, and options of single recorders."
    )
    Annotation = _profiler.TraceMe
    _ProfilerSession = _profiler.ProfilerSession

start_server: Callable[[int], Any] = _profiler.start_server
guided_profile: Callable[[bytes], bytes] = _profiler.get_fdo_profile
"""Extracts from a serialized XSpace the costs that XLA's compiler takes as `fdo_profile`; empty if the platform has
none.
"""
profiled_instructions: Callable[..., bytes] = _profiler.get_profiled_instructions_proto
"""Extracts the same costs from profiles in a folder."""
register_plugin_profiler: Callable[[Any], None] = _profiler.register_plugin_profiler
"""Adds the recorder of a PJRT plugin, without which its devices record no events, to sessions."""
register_subprocess: Callable[[int, int], Callable[[], None]] = _profiler.register_subprocess

_M_MXFAST = 1
"""Parameter of `mallopt`: largest request in bytes that glibc serves from its fast bins."""
_DEFAULT_MXFAST_BYTES = 64 * ctypes.sizeof(ctypes.c_size_t) // 4


class XlaRecording(_ProfilerSession):
    """XLA's recorder from its creation until `stop`; a process has one at a time."""

    def stop(self) -> bytes:
        """Ends the session and collects its events as a serialized XSpace; takes 3 to 4 us per event."""
        with _without_fast_bins():
            return super().stop()


@contextlib.contextmanager
def _without_fast_bins() -> Generator[None]:
    """Context manager in which glibc merges small chunks as they are freed, in all threads.

    XLA frees a string and allocates some ten small messages for each event. Fast bins keep the strings' chunks until a
    larger one is freed, and then merge all of them: without fast bins, collecting takes 20 % less CPU time.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is None:
        yield
        return
    mallopt(_M_MXFAST, 0)
    try:
        yield
    finally:
        mallopt(_M_MXFAST, _DEFAULT_MXFAST_BYTES)


_ID_FIELD = 5
"""Number of the field `id` of HloModuleProto."""


def module_id(module: Any) -> int:
    """The id of an HLO module, called `program_id` in recordings; unique in this process."""
    message = module.as_serialized_hlo_module_proto()
    found = (
        value for number, _, value, _ in fields(message, 0, len(message)) if number == _ID_FIELD
    )
    return next(found, 0)  # the default, which isn't written
