"""Arrivals of devices in collectives, and how long each waited for the last one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pellucid_profiler.calls import HostSpans, enclosing
from pellucid_profiler.operations import Operations, group_rows, running_count
from pellucid_profiler.xspace import ABSENT, Column, Events

RENDEZVOUS = "Rendezvous"
"""Name of the events in which devices meet. Their stat `name` contains the run, the devices and the operation."""


@dataclass(eq=False)
class Collectives:
    """Participations of devices in collectives, column by column: one entry for each device of each execution."""

    operation: Column
    """Row of the collective in `Session.operations`."""
    meeting: Column
    """Number of the execution; devices that exchange data with each other have the same number."""
    wait_ns: Column
    """Time from the device's arrival to that of the last device."""
    is_last: Column
    """1 for the last device to arrive, for which the others waited."""

    def __len__(self) -> int:
        return len(self.operation)


def collectives_of(events: Events, operations: Operations) -> Collectives:
    """The collectives of a recording: one row for each device that took part in an execution."""
    rows = np.flatnonzero(events.texts_are(events.name, RENDEZVOUS))
    kernels = operations.event
    kernel_spans = HostSpans(
        events.name, events.thread, events.start_ns, events.end_ns, events.name
    ).rows(kernels)
    operation = enclosing(kernel_spans, events.thread[rows], events.start_ns[rows])
    rows, operation = rows[operation != ABSENT], operation[operation != ABSENT]
    order = np.argsort(events.start_ns[rows], kind="stable")
    rows, operation = rows[order], operation[order]
    key = events.stat("name")[rows]
    # A loop runs the same collective on the same devices again: the nth arrival of a device belongs to the nth
    # execution.
    meeting = group_rows(key, running_count(key, operations.device[operation]))
    arrival = events.start_ns[rows]
    latest = np.full(meeting.max(initial=-1) + 1, 0)
    np.maximum.at(latest, meeting, arrival)
    wait = np.minimum(latest[meeting], operations.end_ns[operation]) - arrival
    last = np.zeros(len(latest), np.int64)
    # Rows are sorted by arrival, so the last one overwrites the others.
    last[meeting] = np.arange(len(meeting))
    is_last = np.zeros(len(meeting), np.int64)
    is_last[last] = 1
    return Collectives(operation, meeting, np.maximum(wait, 0), is_last)
