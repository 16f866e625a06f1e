"""Kernels and copies that ran on NVIDIA GPUs, read from CUPTI's events.

CUPTI's events are in planes `/device:GPU:<n>`, one line per stream (openxla/xla, cupti_collector.cc). XLA annotates a
kernel with `hlo_op`, `hlo_module` and `program_id`; `correlation_id` refers to the driver call in plane `/host:CUPTI`
that launched it. Kernels of a CUDA graph (XLA's command buffer) have a `cuda_graph_id` and often no annotation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pellucid_profiler.peaks import Peaks
from pellucid_profiler.text import percent_text, seconds_text
from pellucid_profiler.xspace import ABSENT, Column, Events

_DEVICE = re.compile(r"/device:GPU:(\d+)$")
_DRIVER_PLANE = "/host:CUPTI"
_CALL = "PjitFunction("
"""Prefix of the name of the event that records a call of a jitted function."""
_STREAM = "Stream #"
"""Prefix of the names of lines with executed kernels and copies; other lines of a GPU are counters or derived data."""
FIRST_RUN = 1 << 40
"""Number of the run launched by the call in event row 0. GPU runs are numbered from here, above the runs of other
platforms.
"""
COMMAND_BUFFER_OPTION = "xla_gpu_enable_command_buffer"


@dataclass(eq=False)
class DeviceRows:
    """Executed GPU instructions, column by column: entry i of each column describes one event."""

    event: Column
    """Row in the recording's events."""
    instruction: Column
    """Index of the HLO instruction's name, or of the kernel's name if XLA didn't annotate it."""
    program: Column
    run: Column
    """Number of the run, from the call that launched it (`FIRST_RUN` plus the call's event row)."""
    device: Column


def is_on_gpu(events: Events) -> npt.NDArray[np.bool_]:
    """Mask of the events in planes of GPUs, executed instructions and counters alike."""
    of_thread = np.array([_DEVICE.match(plane) is not None for plane in events.planes], bool)
    return of_thread[events.thread] if len(events) else np.zeros(0, bool)


def places_of_gpus(events: Events) -> Column:
    """For each thread, the number of the GPU whose plane contains it; `ABSENT` for other planes."""
    matches = [_DEVICE.match(plane) for plane in events.planes]
    return np.array([ABSENT if match is None else int(match[1]) for match in matches], np.int64)


def gpu_rows(events: Events) -> DeviceRows:
    """The GPU kernels and copies of a recording."""
    is_stream = np.array([line.startswith(_STREAM) for line in events.threads], bool)
    device_of_thread = np.where(is_stream, places_of_gpus(events), ABSENT)
    device = device_of_thread[events.thread] if len(events) else np.zeros(0, np.int64)
    rows = np.flatnonzero(device != ABSENT)
    annotated = events.stat("hlo_op")[rows]
    return DeviceRows(
        rows,
        np.where(annotated == ABSENT, events.name[rows], annotated),
        _numbers(events, "program_id")[rows],
        _runs(events, rows),
        device[rows],
    )


def _numbers(events: Events, stat: str) -> Column:
    """An integer stat as a column of numbers: some XLA releases write it as a number, others as text."""
    column = events.stat(stat)
    texts: list[int] = np.unique(column[is_on_gpu(events)]).tolist()
    if not any(0 <= i < len(events.names) and events.names[i].isdigit() for i in texts):
        return column
    numbers = {
        i: int(events.names[i]) if 0 <= i < len(events.names) and events.names[i].isdigit() else i
        for i in texts
    }  # fmt: skip
    on_gpu = is_on_gpu(events)
    result = column.copy()
    result[on_gpu] = [numbers[int(i)] for i in column[on_gpu]]
    return result


def _runs(events: Events, rows: Column) -> Column:
    """For each kernel, the run number of the call whose driver launch it has; without a launch event, of the last call
    before it.
    """
    calls = np.flatnonzero(
        np.array([name.startswith(_CALL) for name in events.names], bool)[events.name]
    )
    calls = calls[np.argsort(events.start_ns[calls], kind="stable")]
    is_driver = np.array([plane == _DRIVER_PLANE for plane in events.planes], bool)[events.thread]
    correlation = events.stat("correlation_id")
    launches = np.flatnonzero(is_driver & (correlation != ABSENT))
    order = np.argsort(correlation[launches], kind="stable")
    launches = launches[order]
    launched = events.start_ns[rows].copy()
    if len(launches):
        at = np.searchsorted(correlation[launches], correlation[rows])
        at = np.minimum(at, len(launches) - 1)
        is_same = correlation[launches][at] == correlation[rows]
        launched[is_same] = events.start_ns[launches[at[is_same]]]
    call = np.searchsorted(events.start_ns[calls], launched, side="right") - 1
    return np.where(call < 0, FIRST_RUN - 1, FIRST_RUN + np.r_[calls, 0][call])


_FLOPS = {(7, 0): 128, (7, 5): 128, (8, 0): 1024, (9, 0): 2048, (10, 0): 4096}
"""Arithmetic operations per multiprocessor and cycle of a float32 matrix product, by compute capability. From 8.0 on,
for data-centre GPUs, with TF32 on tensor cores, which XLA uses by default.
"""
_OTHER_FLOPS = 256
"""Value for other GPUs: 128 units that each multiply and add."""


def gpu_peaks(events: Events) -> Peaks | None:
    """Peak rates of the first GPU, computed from its plane's stats (clock, multiprocessors, bandwidth); None without
    them.

    Stats (openxla/xla, xplane_schema.cc): `clock_rate` in kHz, `core_count`, `memory_bandwidth` in bytes per second,
    `compute_cap_major` and `compute_cap_minor`.
    """
    for plane, stats in sorted(events.plane_stats.items()):
        clock, cores = stats.get("clock_rate", 0), stats.get("core_count", 0)
        bandwidth = stats.get("memory_bandwidth", 0)
        if _DEVICE.match(plane) and clock and cores and bandwidth:
            capability = stats.get("compute_cap_major", 0), stats.get("compute_cap_minor", 0)
            in_cycle = _FLOPS.get(capability, _OTHER_FLOPS)
            kind = f"GPU of compute capability {capability[0]}.{capability[1]}, {cores} multiprocessors"
            return Peaks(kind, 1e3 * clock * cores * in_cycle, float(bandwidth))
    return None


def gpu_losses(events: Events) -> Iterator[str]:
    """Sentences for the user about kernels in command buffers, which lack annotations."""
    rows = gpu_rows(events)
    lengths = events.end_ns[rows.event] - events.start_ns[rows.event]
    in_graph = events.stat("cuda_graph_id")[rows.event] > 0
    hidden = in_graph & (events.stat("hlo_op")[rows.event] == ABSENT)
    if hidden.any():
        seconds = float(lengths[hidden].sum()) / 1e9
        yield (
            f"{seconds_text(seconds)} ({percent_text(lengths[hidden].sum() / max(1, lengths.sum()))} of the time on GPUs) ran in "
            "command buffers, whose kernels have no line. Compile with "
            f'`compiler_options={{"{COMMAND_BUFFER_OPTION}": ""}}` to see them.'
        )


def explain_error(error: str) -> str:
    """A recorder's error or warning, with a remedy where one is known.

    >>> explain_error("CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED")[:46]
    'Another profiler is attached to this process, '
    """
    if "INSUFFICIENT_PRIVILEGES" in error:
        return (
            "The driver lets only administrators read the GPU's counters, so nothing was recorded of it. Load the module "
            "nvidia with NVreg_RestrictProfilingToAdminUsers=0, or run with the capability CAP_SYS_ADMIN."
        )
    if "MULTIPLE_SUBSCRIBERS" in error:
        return "Another profiler is attached to this process, such as Nsight or DCGM, so nothing was recorded of the GPU: end it."
    return f"XLA's recorder says: {error}"
