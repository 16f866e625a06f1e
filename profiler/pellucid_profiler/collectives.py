"""Meetings of devices in collectives: who arrived when, and how long each waited for the last one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pellucid_profiler.calls import HostSpans, enclosing
from pellucid_profiler.operations import Operations, grouped, running_count
from pellucid_profiler.xspace import ABSENT, Column, Events

RENDEZVOUS = "Rendezvous"
"""Name of the events in which devices meet; their stat `name` has the run, the devices and the operation."""


@dataclass(eq=False)
class Collectives:
    """Meetings of devices: one entry of each column for one device in one meeting."""

    operation: Column
    """Its row in the session's operations."""
    meeting: Column
    """Equal for devices that exchange with each other."""
    wait_ns: Column
    """From its arrival to that of the last one."""
    is_last: Column
    """1 for the device that the others waited for."""

    def __len__(self) -> int:
        return len(self.operation)


def collectives_of(events: Events, operations: Operations) -> Collectives:
    """The meetings of a recording."""
    rows = np.flatnonzero(events.texts_are(events.name, RENDEZVOUS))
    kernels = operations.event
    kernel_spans = HostSpans(
        events.name, events.thread, events.start_ns, events.end_ns, events.name
    ).chosen(kernels)
    operation = enclosing(kernel_spans, events.thread[rows], events.start_ns[rows])
    rows, operation = rows[operation != ABSENT], operation[operation != ABSENT]
    order = np.argsort(events.start_ns[rows], kind="stable")
    rows, operation = rows[order], operation[order]
    key = events.stat("name")[rows]
    # In loops the same devices meet again for the same operation: a device's nth time is the nth meeting.
    meeting = grouped(key, running_count(key, operations.device[operation]))
    arrival = events.start_ns[rows]
    latest = np.full(meeting.max(initial=-1) + 1, 0)
    np.maximum.at(latest, meeting, arrival)
    wait = np.minimum(latest[meeting], operations.end_ns[operation]) - arrival
    last = np.zeros(len(latest), np.int64)
    last[meeting] = np.arange(len(meeting))  # in order of arrival: the last one stays
    is_last = np.zeros(len(meeting), np.int64)
    is_last[last] = 1
    return Collectives(operation, meeting, np.maximum(wait, 0), is_last)
