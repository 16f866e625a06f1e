"""Profiler: records runs of programs, and attributes their time to lines, operations and scopes."""

from pellucid.introspect.recording import (
    ProfileData,
    ProfileEvent,
    ProfileOptions,
    ProfilePlane,
)
from pellucid_profiler.comparison import Comparison
from pellucid_profiler.compilations import Compilation
from pellucid_profiler.detail import detail
from pellucid_profiler.findings import Finding, findings
from pellucid_profiler.live_arrays import HeapRow, memory_by_line
from pellucid_profiler.merging import merge
from pellucid_profiler.peaks import Peaks, measure_peaks
from pellucid_profiler.perfetto import perfetto_trace, save_perfetto
from pellucid_profiler.recorder import Profile, annotate, profile, start, step, stop
from pellucid_profiler.recordings import read_xspace
from pellucid_profiler.report import report
from pellucid_profiler.session import Session, load
from pellucid_profiler.traces import (
    StepTraceAnnotation,
    TraceAnnotation,
    annotate_function,
    device_memory_profile,
    guided_options,
    register_subprocess,
    save_device_memory_profile,
    start_server,
    start_trace,
    stop_server,
    stop_trace,
    trace,
)

__all__ = [
    "Comparison", "Compilation", "Finding", "HeapRow", "Profile", "ProfileData", "ProfileEvent", "ProfileOptions", "ProfilePlane", "Session", "StepTraceAnnotation",
    "TraceAnnotation", "annotate", "annotate_function", "detail", "findings", "device_memory_profile", "guided_options", "load", "measure_peaks", "memory_by_line", "merge", "Peaks", "perfetto_trace", "profile", "read_xspace",
    "register_subprocess", "report", "save_device_memory_profile", "save_perfetto", "start", "start_server", "start_trace", "step",
    "stop", "stop_server", "stop_trace", "trace",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)
