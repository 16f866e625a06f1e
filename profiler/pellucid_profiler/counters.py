"""Counters of GPUs over a session: power, temperature and others sampled by CUPTI, and memory in use by XLA's
allocator.

CUPTI's samples are events without duration on the line `_counters_` of a GPU's plane; their stat is the value
(openxla/xla, cupti_collector.cc). XLA's allocator records a host event at each allocation and release (tsl,
bfc_allocator.cc), with the stats `bytes_allocated`, the total then in use, and `allocator_name`, such as `GPU_0_bfc`
for the first GPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pellucid_profiler.gpu import is_on_gpu, places_of_gpus
from pellucid_profiler.xspace import ABSENT, Column, Events

LINE = "_counters_"
IN_USE = "memory in use"
"""Name of the counter made from the allocator's events, in bytes."""
_ALLOCATIONS = ("MemoryAllocation", "MemoryDeallocation")
_ALLOCATOR = re.compile(r"GPU_(\d+)_")


@dataclass(eq=False)
class Counters:
    """Samples of counters sorted by time, column by column: entry i of each column describes sample i."""

    name: Column
    """Index of the counter's name in the recording's names."""
    device: Column
    time_ns: Column
    value: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.name)

    @classmethod
    def none(cls) -> Counters:
        """Counters without samples."""
        none = np.zeros(0, np.int64)
        return cls(none, none, none, np.zeros(0))

    def series(self) -> Iterator[tuple[int, int, Column, npt.NDArray[np.float64]]]:
        """Yields (index of the name, device, times, values) for each counter."""
        for name, device in dict.fromkeys(
            zip(self.name.tolist(), self.device.tolist(), strict=True)
        ):
            rows = (self.name == name) & (self.device == device)
            yield name, device, self.time_ns[rows], self.value[rows]


def counters_of(events: Events) -> Counters:
    """The counter samples of a recording. Appends `IN_USE` to the recording's names if there are allocator events."""
    parts = [Counters.none()]
    devices = places_of_gpus(events)
    is_sample = is_on_gpu(events)
    if is_sample.any():
        is_sample &= np.array([line == LINE for line in events.threads], bool)[events.thread]
        for stat, column in events.stats.items():
            rows = np.flatnonzero(is_sample & (column != ABSENT))
            values = events.doubles[stat][rows] if stat in events.doubles else column[rows]
            device = devices[events.thread[rows]]
            value = values.astype(np.float64)
            parts.append(Counters(events.name[rows], device, events.start_ns[rows], value))
    rows = (
        np.flatnonzero(events.texts_are(events.name, *_ALLOCATIONS)) if len(events) else is_sample
    )
    rows = rows[events.stat("bytes_allocated")[rows] != ABSENT]
    allocators = events.stat("allocator_name")[rows]
    numbers: list[int] = allocators.tolist()
    matches = [_ALLOCATOR.match(events.names[i]) if i >= 0 else None for i in numbers]
    device = np.array([ABSENT if match is None else int(match[1]) for match in matches], np.int64)
    rows, device = rows[device != ABSENT], device[device != ABSENT]
    if len(rows):
        events.names.append(IN_USE)
        name = np.full(len(rows), len(events.names) - 1)
        value = events.stat("bytes_allocated")[rows].astype(np.float64)
        parts.append(Counters(name, device, events.start_ns[rows], value))
    together = Counters(
        np.concatenate([each.name for each in parts]),
        np.concatenate([each.device for each in parts]),
        np.concatenate([each.time_ns for each in parts]),
        np.concatenate([each.value for each in parts]),
    )
    order = np.argsort(together.time_ns, kind="stable")
    return Counters(*(column[order] for column in vars(together).values()))
