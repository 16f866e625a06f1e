"""Host spans and calls of jitted functions, and the program run that each call started."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pellucid_profiler.gpu import FIRST_RUN, is_on_gpu
from pellucid_profiler.operations import Operations, match_values
from pellucid_profiler.xspace import ABSENT, Column, Events

_CALL = "PjitFunction("
"""Prefix of the name of the event that records a call of a jitted function."""
_WAIT = "CommonPjRtBuffer::Await"
"""Name of the two events that mark where a thread begins and ends to wait for an array."""
WAITING = "waiting for an array"
"""Name given to the span between these two events."""
_RECORDED, _STARTED = "ThreadpoolListener::Record", "ThreadpoolListener::StartRegion"
"""Events of XLA's thread pool: a task is queued by one thread, and started by another."""


@dataclass(eq=False)
class HostSpans:
    """Spans of time on host threads, column by column: entry i of each column describes span i."""

    name: Column
    """Index of the span's name in the recording's names."""
    thread: Column
    start_ns: Column
    end_ns: Column
    detail: Column
    """Index of a detail in the recording's names: the module, kernel or step, such as `step 3`; `ABSENT` if there is
    none.
    """

    def __len__(self) -> int:
        return len(self.name)

    def rows(self, rows: Column) -> HostSpans:
        """The spans at `rows`."""
        return HostSpans(*(column[rows] for column in vars(self).values()))


@dataclass(eq=False)
class LaunchColumns:
    """Calls of jitted functions, column by column: entry i of each column describes call i."""

    name: Column
    """Index of the function's name in the recording's names."""
    thread: Column
    start_ns: Column
    end_ns: Column
    """When the call returned to Python."""
    run: Column
    """Number of the program run that the call started; `ABSENT` if no operation of it was recorded."""

    def __len__(self) -> int:
        return len(self.name)


def nesting(thread: Column, start_ns: Column, end_ns: Column) -> Column:
    """For each span, the index of the innermost other span of the same thread that contains it; `ABSENT` if none does."""
    parents = np.full(len(thread), ABSENT)
    open_spans: list[int] = []
    # Outer spans come first: of those that begin together, the longest.
    for row in np.lexsort((-end_ns, start_ns, thread)):
        while open_spans and (
            thread[open_spans[-1]] != thread[row] or end_ns[open_spans[-1]] < end_ns[row]
        ):
            open_spans.pop()
        if open_spans:
            parents[row] = open_spans[-1]
        open_spans.append(int(row))
    return parents


def alone(start_ns: Column, end_ns: Column) -> npt.NDArray[np.bool_]:
    """Mask of the spans that overlap no other span. Spans must be sorted by their start.

    >>> alone(np.array([0, 2, 3, 9]), np.array([2, 5, 4, 9])).tolist()
    [True, False, False, True]
    """
    is_first = np.ones(len(start_ns) + 1, bool)
    if len(start_ns):
        is_first[1:-1] = start_ns[1:] >= np.maximum.accumulate(end_ns)[:-1]
    return is_first[:-1] & is_first[1:]


def spans_of(events: Events, operations: Operations) -> HostSpans:
    """Host spans of a recording: every event except operations, their end events, thread-pool bookkeeping and GPU
    events.
    """
    is_host = np.array(
        [not name.startswith(("end: ", "ThreadpoolListener::")) for name in events.names], bool
    )
    chosen = is_host[events.name] if len(events) else np.zeros(0, bool)
    chosen[operations.event] = False
    chosen &= ~is_on_gpu(events)
    rows = np.flatnonzero(chosen)
    rows = rows[np.argsort(events.start_ns[rows], kind="stable")]
    detail = events.stat("module")
    detail = np.where(detail == ABSENT, events.stat("name"), detail)
    detail = np.where(detail == ABSENT, _details_of_steps(events), detail)
    spans = HostSpans(events.name, events.thread, events.start_ns, events.end_ns, detail).rows(rows)
    return _with_waiting(spans, events, rows)


def _details_of_steps(events: Events) -> Column:
    """For each event, the index of the text `step N` if it is a step annotation; `ABSENT` for other events."""
    numbers = events.stat("step_num")
    details = np.full(len(events), ABSENT)
    for number in np.unique(numbers[numbers != ABSENT]):
        events.names.append(f"step {number}")
        details[numbers == number] = len(events.names) - 1
    return details


def _with_waiting(spans: HostSpans, events: Events, rows: Column) -> HostSpans:
    """Merges each pair of events around a wait for an array into one span named `WAITING`."""
    is_wait = events.texts_are(spans.name, _WAIT)
    produced, consumed = events.stat("_p")[rows], events.stat("_c")[rows]
    ends = np.flatnonzero(is_wait & (consumed != ABSENT))
    over = match_values(np.where(is_wait, produced, ABSENT), consumed[ends], spans.end_ns[ends])
    begins = over != ABSENT
    if begins.any():
        events.names.append(WAITING)
        spans.name[begins] = len(events.names) - 1
        spans.end_ns[begins] = over[begins]
    keep = np.ones(len(spans), bool)
    keep[ends] = False
    return spans.rows(np.flatnonzero(keep))


def calls_of(events: Events, operations: Operations) -> LaunchColumns:
    """The outermost calls of jitted functions in a recording, each with the program run that it started."""
    is_call = np.array([name.startswith(_CALL) for name in events.names], bool)
    rows = np.flatnonzero(is_call[events.name]) if len(events) else np.zeros(0, np.int64)
    rows = rows[np.argsort(events.start_ns[rows], kind="stable")]
    thread, start, end = events.thread[rows], events.start_ns[rows], events.end_ns[rows]
    outermost = nesting(thread, start, end) == ABSENT
    rows, thread, start, end = (each[outermost] for each in (rows, thread, start, end))
    calls = LaunchColumns(events.name[rows], thread, start, end, np.full(len(rows), ABSENT))
    runs, first = np.unique(operations.run, return_index=True)
    began = _origins(events, operations.thread[first], operations.start_ns[first])
    called_by = enclosing(calls, *began)
    on_gpu = np.flatnonzero(runs >= FIRST_RUN)
    launching = runs[on_gpu] - FIRST_RUN
    called_by[on_gpu] = enclosing(calls, events.thread[launching], events.start_ns[launching])
    # Each run is assigned to the call that started it, in two passes.
    # 1. By time and thread: a call owns the first run that started within it. Later runs within the same call were
    # queued by earlier calls, and started only because this call produced their operands.
    in_time = np.argsort(first)
    callers, of_callers = np.unique(called_by[in_time], return_index=True)
    leading = in_time[of_callers[callers != ABSENT]]
    calls.run[called_by[leading]] = runs[leading]
    started = np.zeros(len(runs), bool)
    started[leading] = True
    modules = events.stat("hlo_module")[operations.event[first]]
    waiting = np.flatnonzero(~started)
    # 2. By name: the runs of a program that are left are assigned, in order, to the calls without a run of functions
    # that share it. The runs of a program are numbered in the order of its calls.
    for functions, shared in _sharing(events.names, calls, runs, modules, waiting):
        rest = np.flatnonzero(np.isin(calls.name, functions) & (calls.run == ABSENT))
        ran = runs[waiting[np.isin(modules[waiting], shared)]]
        n = min(len(ran), len(rest))
        # The last n runs: earlier ones were called before the recording.
        calls.run[rest[:n]] = ran[len(ran) - n :]
    return calls


def _sharing(
    names: list[str], calls: LaunchColumns, runs: Column, modules: Column, waiting: Column
) -> list[tuple[list[int], list[int]]]:
    """Groups of functions that share compiled modules, as (function names, module names), both as indices into `names`.

    `modules[i]` is the module of `runs[i]`; `waiting` are indices of runs not yet assigned to a call. A function's
    modules are those of its calls that have a run, and the module with its name. If there are none, it is the one
    module whose number of unassigned runs equals the function's number of calls without a run.
    """
    numbers = {names[int(i)]: int(i) for i in np.unique(modules) if i >= 0}
    has_run = calls.run != ABSENT
    module_of_call = modules[np.searchsorted(runs, calls.run[has_run])]
    modules_of: dict[int, set[int]] = {}
    calls_left: Counter[int] = Counter(calls.name[~has_run].tolist())
    functions: list[int] = np.unique(calls.name).tolist()
    for function in functions:
        joined = {*module_of_call[calls.name[has_run] == function].tolist()} - {ABSENT}
        module_of_name = numbers.get(module_name(function_name(names[function])))
        modules_of[function] = joined if module_of_name is None else joined | {module_of_name}
    runs_left: Counter[int] = Counter(modules[waiting].tolist())
    for function, shared in modules_of.items():
        for module in shared:
            runs_left[module] -= calls_left[function]
    for function in (each for each in calls_left if not modules_of[each]):
        fitting = [module for module, n in runs_left.items() if n == calls_left[function]]
        modules_of[function].update(fitting if len(fitting) == 1 else [])
    groups: list[tuple[list[int], list[int]]] = []
    for function, shared in modules_of.items():
        apart = [group for group in groups if not shared & {*group[1]}]
        near = [group for group in groups if shared & {*group[1]}]
        functions = [function, *(each for group in near for each in group[0])]
        groups = [*apart, (functions, [*shared.union(*(group[1] for group in near))])]
    return groups


def function_name(event: str) -> str:
    """The function name in the name of a call event; names of other events are returned unchanged.

    >>> function_name("PjitFunction(step)"), function_name("load batch")
    ('step', 'load batch')
    """
    return event[len(_CALL) : -1] if event.startswith(_CALL) else event


def module_name(function: str) -> str:
    """The name of the HLO module of a jitted function.

    >>> module_name("<lambda>")
    'jit__lambda'
    """
    return re.sub(r"[^\w.-]", "_", f"jit_{function}").rstrip("_")


def _origins(events: Events, thread: Column, time_ns: Column) -> tuple[Column, Column]:
    """(threads, times) at which the work that began on `thread` at `time_ns` was queued; unchanged if it was not
    queued.
    """
    regions = np.flatnonzero(events.texts_are(events.name, _STARTED))
    records = np.flatnonzero(events.texts_are(events.name, _RECORDED))
    record_of = match_values(events.stat("_c")[regions], events.stat("_p")[records], records)
    order = np.lexsort((events.start_ns[regions], events.thread[regions]))
    regions, record_of = regions[order], record_of[order]
    threads, times = thread.copy(), time_ns.copy()
    keys = list(zip(events.thread[regions], events.start_ns[regions], strict=True))
    begins = np.array(keys, dtype=[("thread", np.int64), ("start", np.int64)])
    begin = np.array(list(zip(thread, time_ns, strict=True)), dtype=begins.dtype)
    at = np.searchsorted(begins, begin, side="right") - 1
    is_region = (at >= 0) & (events.thread[regions][at] == thread) if len(regions) else at >= 0
    rows = np.where(is_region, record_of[at], ABSENT) if len(regions) else np.full(len(at), ABSENT)
    handed = rows != ABSENT
    threads[handed], times[handed] = events.thread[rows[handed]], events.start_ns[rows[handed]]
    return threads, times


def enclosing(calls: LaunchColumns | HostSpans, thread: Column, time_ns: Column) -> Column:
    """For each (thread, time), the index of the call or span that contains it; `ABSENT` if none does. `calls` must not
    nest.
    """
    result = np.full(len(thread), ABSENT)
    for each in np.unique(calls.thread):
        rows = np.flatnonzero(calls.thread == each)
        chosen = np.flatnonzero(thread == each)
        at = np.searchsorted(calls.start_ns[rows], time_ns[chosen], side="right") - 1
        inside: npt.NDArray[np.bool_] = at >= 0
        inside &= calls.end_ns[rows][at] >= time_ns[chosen]
        result[chosen[inside]] = rows[at[inside]]
    return result
