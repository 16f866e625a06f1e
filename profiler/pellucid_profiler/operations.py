"""Executed instructions: start and end time, run, program and device of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pellucid_profiler.gpu import gpu_rows, is_on_gpu
from pellucid_profiler.xspace import ABSENT, Column, Events

_END = "end: "
"""Name prefix of events that mark the completion of an asynchronous kernel."""
_REGION = "ThreadpoolListener::StartRegion"
"""Name of the event with which a pool's thread starts a task."""
_WAIT_FOR_RUN = "ThunkExecutor::Execute (wait for completion)"
"""Name of the event of a thread that waits for all operations of a run."""


@dataclass(eq=False)
class Operations:
    """Executed instructions sorted by start, column by column: entry i of each column describes one execution."""

    event: Column
    """Row in the recording's events."""
    instruction: Column
    """Index of the instruction's name in the recording's names."""
    program: Column
    """Number of the program in the recording."""
    run: Column
    """Number of the run of the program, unique in a recording."""
    device: Column
    """Index of the device among the process's devices."""
    thread: Column
    start_ns: Column
    end_ns: Column
    """When the operation was complete, which for asynchronous ones is later than the end of their event."""
    iteration: Column
    """Number of earlier executions of the instruction in the same run on the same device: the iteration of its loop."""

    def __len__(self) -> int:
        return len(self.event)

    @property
    def duration_ns(self) -> Column:
        """Nanoseconds from start to completion."""
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


def with_copies(
    operations: Operations, names: Sequence[str], copies: Mapping[int, Mapping[str, int]]
) -> Operations:
    """The operations, of which those begin with their copies for which XLA runs so many under the same name.

    `copies` has their numbers by program and instruction.
    """
    numbers = {
        (program, names.index(name)): count
        for program, by_name in copies.items()
        for name, count in by_name.items()
        if name in names
    }
    if not numbers:
        return operations
    count = np.zeros(len(operations), np.int64)
    for (program, instruction), each in numbers.items():
        count[(operations.program == program) & (operations.instruction == instruction)] = each
    iteration, part = np.divmod(operations.iteration, count + 1)
    execution = group_rows(
        operations.run, operations.device, operations.program, operations.instruction, iteration
    )
    start = np.full(execution.max(initial=-1) + 1, np.iinfo(np.int64).max)
    np.minimum.at(start, execution, operations.start_ns)
    begun = replace(operations, iteration=iteration, start_ns=start[execution])
    kept = np.flatnonzero(part == count)
    kept = kept[np.argsort(begun.start_ns[kept], kind="stable")]
    return Operations(**{name: column[kept] for name, column in vars(begun).items()})


def has_end(events: Events, rows: Column) -> npt.NDArray[np.bool_]:
    """Mask of the operations `rows` whose completion is known: recorded by an `end:` event, or synchronous."""
    is_end = np.array([name.startswith(_END) for name in events.names], bool)
    produced, ends = events.stat("_p")[rows], np.flatnonzero(is_end[events.name])
    return (produced == ABSENT) | (match_values(produced, events.stat("_c")[ends], ends) != ABSENT)


def _completions(events: Events, rows: Column) -> Column:
    """Completion times of the operations `rows`; `ABSENT` for synchronous ones, complete when their event ends.

    An asynchronous kernel is complete when an `end:` event consumes the flow id that it produced. The completing thread
    starts dependent operations before it records that event, so the start of the first of them is an upper bound; so is
    the time when the executor has waited for all operations of the run.
    """
    is_end = np.array([name.startswith(_END) for name in events.names], bool)
    ends = np.flatnonzero(is_end[events.name])
    end = match_values(events.stat("_p")[rows], events.stat("_c")[ends], ends)
    chosen, end = np.flatnonzero(end != ABSENT), end[end != ABSENT]
    # Keys that sort events by thread, then by time.
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
    run = group_rows(events.stat("run_id")[both], events.stat("device_ordinal")[both])
    waited = match_values(run[len(waits) :], run[: len(waits)], events.end_ns[waits])
    completions = np.full(len(rows), ABSENT)
    completions[chosen] = np.where(waited > begin, np.minimum(complete, waited), complete)
    return completions


def match_values(keys: Column, other_keys: Column, values: Column) -> Column:
    """For each key, the value at the same key in the unique `other_keys`; `ABSENT` if it is missing."""
    if not len(other_keys):
        return np.full(len(keys), ABSENT)
    order = np.argsort(other_keys, kind="stable")
    at = np.minimum(np.searchsorted(other_keys[order], keys), len(order) - 1)
    is_same = (other_keys[order][at] == keys) & (keys != ABSENT)
    return np.where(is_same, values[order][at], ABSENT)


def running_count(*columns: Column) -> Column:
    """For each row, the number of earlier rows with the same values in all columns."""
    groups = group_rows(*columns)
    order = np.argsort(groups, kind="stable")
    in_order = groups[order]
    begins = np.flatnonzero(np.r_[True, in_order[1:] != in_order[:-1]]) if len(order) else order
    counts = np.empty(len(order), np.int64)
    sizes = np.diff(np.r_[begins, len(order)])
    counts[order] = np.arange(len(order)) - np.repeat(begins, sizes)
    return counts


def group_rows(*columns: Column) -> Column:
    """Group numbers of rows, equal for rows that agree in all columns, and sorted like the columns."""
    groups: npt.NDArray[np.int64] = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, numbers = rank(column)
        if len(values) > 1:
            _, groups = rank(groups * len(values) + numbers)
    return groups


def rank(column: Column) -> tuple[Column, Column]:
    """(sorted unique values of a column, index of each row's value among them).

    >>> [each.tolist() for each in rank(np.array([7, 3, 7]))]
    [[3, 7], [1, 0, 1]]
    """
    low, high = int(column.min(initial=0)), int(column.max(initial=0))
    if high - low > SPARSE * len(column):
        values, numbers = np.unique(column, return_inverse=True)
        return values, numbers.reshape(-1)
    is_there = np.zeros(high - low + 1, bool)  # counting is faster than sorting
    is_there[column - low] = True
    return np.flatnonzero(is_there) + low, (np.cumsum(is_there) - 1)[column - low]


SPARSE = 8
"""Columns are sorted rather than counted if their range exceeds their length by this factor."""
