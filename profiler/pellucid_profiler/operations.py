"""Runs of instructions: when each began and was complete, in which run of which program, on which device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pellucid_profiler.gpu import gpu_rows, is_on_gpu
from pellucid_profiler.xspace import ABSENT, Column, Events

_END = "end: "
"""Begin of the names of events that mark where an asynchronous kernel is complete."""
_REGION = "ThreadpoolListener::StartRegion"
"""Event of a pool's thread that begins a task."""
_WAIT_FOR_RUN = "ThunkExecutor::Execute (wait for completion)"
"""Event of a thread that waits for all operations of a run."""


@dataclass(eq=False)
class Operations:
    """Executed instructions in the order in which they began: one entry of each column for one execution."""

    event: Column
    """Its row among the events."""
    instruction: Column
    """Number of its name."""
    program: Column
    """The program's number in the recording."""
    run: Column
    """Number of the run of the program; unique in a recording."""
    device: Column
    """Position among the devices of the process."""
    thread: Column
    start_ns: Column
    end_ns: Column
    """When it was complete."""
    iteration: Column
    """How often the instruction had run in its run, on its device: the iteration of the loop around it."""

    def __len__(self) -> int:
        return len(self.event)

    @property
    def duration_ns(self) -> Column:
        """Nanoseconds until each was complete."""
        return self.end_ns - self.start_ns


def operations_of(events: Events) -> Operations:
    """The executed instructions of a recording."""
    rows = np.flatnonzero((events.stat("hlo_op") != ABSENT) & ~is_on_gpu(events))
    stats = {
        "instruction": "hlo_op",
        "program": "program_id",
        "run": "run_id",
        "device": "device_ordinal",
    }
    columns = {name: events.stat(stat)[rows] for name, stat in stats.items()}
    kernels = gpu_rows(events)
    rows = np.r_[rows, kernels.event]
    order = np.argsort(events.start_ns[rows], kind="stable")
    columns = {
        name: np.r_[column, getattr(kernels, name)][order] for name, column in columns.items()
    }
    rows = rows[order]
    return Operations(
        event=rows,
        thread=events.thread[rows],
        start_ns=events.start_ns[rows],
        end_ns=np.maximum(events.end_ns[rows], _completions(events, rows)),
        iteration=running_count(
            columns["run"], columns["device"], columns["program"], columns["instruction"]
        ),
        **columns,
    )


def has_end(events: Events, rows: Column) -> npt.NDArray[np.bool_]:
    """Which of `rows`, operations, have a recorded end, or record none because they produce nothing to wait for."""
    is_end = np.array([name.startswith(_END) for name in events.names], bool)
    produced, ends = events.stat("_p")[rows], np.flatnonzero(is_end[events.name])
    return (produced == ABSENT) | (matched(produced, events.stat("_c")[ends], ends) != ABSENT)


def _completions(events: Events, rows: Column) -> Column:
    """When each of `rows`, operations, was complete; `ABSENT` for those that are when their own event ends.

    An asynchronous kernel is complete where an `end:` event consumes what it produces. The thread that completes it
    begins the operations that depend on it before it records that event, so the first of them bounds its end; and the
    run is over when the executor has waited for all of its operations.
    """
    is_end = np.array([name.startswith(_END) for name in events.names], bool)
    ends = np.flatnonzero(is_end[events.name])
    end = matched(events.stat("_p")[rows], events.stat("_c")[ends], ends)
    chosen, end = np.flatnonzero(end != ABSENT), end[end != ABSENT]
    # Moments order events by thread, then time.
    span = int(events.end_ns.max(initial=0)) + 1
    moments = events.thread * span + events.start_ns
    of_thread, begin = events.thread[end] * span, events.start_ns[rows[chosen]]
    regions = np.r_[ABSENT, np.sort(moments[events.texts_are(events.name, _REGION)])]
    region = regions[np.searchsorted(regions, moments[end], "right") - 1]
    begins = np.r_[np.sort(moments[rows]), np.iinfo(np.int64).max]
    dependent = begins[np.searchsorted(begins, np.maximum(region, of_thread + begin), "right")]
    complete = np.minimum(moments[end], dependent) - of_thread
    waits = np.flatnonzero(events.texts_are(events.name, _WAIT_FOR_RUN))
    both = np.r_[waits, rows[chosen]]
    run = grouped(events.stat("run_id")[both], events.stat("device_ordinal")[both])
    waited = matched(run[len(waits) :], run[: len(waits)], events.end_ns[waits])
    completions = np.full(len(rows), ABSENT)
    completions[chosen] = np.where(waited > begin, np.minimum(complete, waited), complete)
    return completions


def matched(keys: Column, other_keys: Column, values: Column) -> Column:
    """For each key the value of the same key among `other_keys`, which are unique; `ABSENT` where there is none."""
    if not len(other_keys):
        return np.full(len(keys), ABSENT)
    order = np.argsort(other_keys, kind="stable")
    at = np.minimum(np.searchsorted(other_keys[order], keys), len(order) - 1)
    is_same = (other_keys[order][at] == keys) & (keys != ABSENT)
    return np.where(is_same, values[order][at], ABSENT)


def running_count(*columns: Column) -> Column:
    """For each row, how many rows before it agree with it in all columns."""
    groups = grouped(*columns)
    order = np.argsort(groups, kind="stable")
    in_order = groups[order]
    begins = np.flatnonzero(np.r_[True, in_order[1:] != in_order[:-1]]) if len(order) else order
    counts = np.empty(len(order), np.int64)
    sizes = np.diff(np.r_[begins, len(order)])
    counts[order] = np.arange(len(order)) - np.repeat(begins, sizes)
    return counts


def grouped(*columns: Column) -> Column:
    """A number for each row, equal where rows agree in all columns; in the order of the columns."""
    groups: npt.NDArray[np.int64] = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, numbers = ranked(column)
        if len(values) > 1:
            _, groups = ranked(groups * len(values) + numbers)
    return groups


def ranked(column: Column) -> tuple[Column, Column]:
    """(the values of a column, each once and in order; the position of each row's value among them).

    >>> [each.tolist() for each in ranked(np.array([7, 3, 7]))]
    [[3, 7], [1, 0, 1]]
    """
    low, high = int(column.min(initial=0)), int(column.max(initial=0))
    if high - low > SPARSE * len(column):
        values, numbers = np.unique(column, return_inverse=True)
        return values, numbers.reshape(-1)
    is_there = np.zeros(high - low + 1, bool)  # counting sorts faster than comparing
    is_there[column - low] = True
    return np.flatnonzero(is_there) + low, (np.cumsum(is_there) - 1)[column - low]


SPARSE = 8
"""Range of a column's values, in its rows, from which on they are sorted rather than counted."""
