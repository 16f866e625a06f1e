"""XLA's recorder of what its runtime and compiler do, its trace server, and the number that recordings have for a program."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any, Self

from jaxlib import _profile_data, _profiler

if TYPE_CHECKING:

    class ProfileEvent:
        """One event of a line; times in nanoseconds."""

        name: str
        start_ns: float
        duration_ns: float
        end_ns: float
        stats: Iterable[tuple[str, Any]]

    class ProfileLine:
        """The events of one thread or stream."""

        name: str
        events: Iterable[ProfileEvent]

    class ProfilePlane:
        """The lines of a host or of a device."""

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
        """What a session records: levels of detail by source, and options of single recorders."""

        python_tracer_level: int
        host_tracer_level: int
        enable_hlo_proto: bool
        raise_error_on_start_failure: bool
        advanced_configuration: dict[str, Any]

    class Annotation:
        """A context that names a span of the thread's time."""

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
"""The costs in a serialized XSpace that XLA's compiler takes as `fdo_profile`; empty where the platform has none."""
profiled_instructions: Callable[..., bytes] = _profiler.get_profiled_instructions_proto
"""The same costs, of the profiles in a folder."""
register_plugin_profiler: Callable[[Any], None] = _profiler.register_plugin_profiler
"""Adds the recorder of a PJRT plugin, without which its devices leave no events, to sessions."""
register_subprocess: Callable[[int, int], Callable[[], None]] = _profiler.register_subprocess

_M_MXFAST = 1
"""Parameter of `mallopt`: largest request in bytes that the GNU C library serves from its fast bins."""
_DEFAULT_MXFAST_BYTES = 64 * ctypes.sizeof(ctypes.c_size_t) // 4


class XlaRecording(_ProfilerSession):
    """XLA's recorder from its creation to `stop`; a process has one at a time."""

    def stop(self) -> bytes:
        """Ends the session and collects its events, 3 to 4 us each, as a serialized XSpace."""
        with _without_fast_bins():
            return super().stop()


@contextlib.contextmanager
def _without_fast_bins() -> Generator[None]:
    """Context in which the GNU C library merges small chunks as they are freed, in all threads.

    XLA frees a text and makes some ten small messages for each event. Fast bins keep the texts' chunks until a larger one is
    freed, and then merge all of them: without fast bins collecting takes a fifth less processor time.
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
    """The id of an HLO module, which recordings call `program_id`: unique in this process."""
    return _varint_field(module.as_serialized_hlo_module_proto(), _ID_FIELD)


def _varint_field(message: bytes, number: int) -> int:
    """The varint of the first field `number` of a protobuf message; 0, the default, where it is absent."""
    i, end = 0, len(message)
    while i < end:
        tag, i = _varint(message, i)
        kind = tag & 7
        if kind == 0:
            value, i = _varint(message, i)
            if tag >> 3 == number:
                return value
        elif kind == 2:
            size, i = _varint(message, i)
            i += size
        else:
            i += 8 if kind == 1 else 4
    return 0


def _varint(message: bytes, i: int) -> tuple[int, int]:
    """(the number encoded at `i`, the position behind it)."""
    value = shift = 0
    while True:
        byte = message[i]
        i += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, i
        shift += 7
