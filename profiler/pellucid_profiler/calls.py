"""Calls of jitted functions, steps and annotations: what the host did, and which runs of programs it started."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pellucid_profiler.gpu import FIRST_RUN, is_on_gpu
from pellucid_profiler.operations import Operations, matched
from pellucid_profiler.xspace import ABSENT, Column, Events

_CALL = "PjitFunction("
"""Begin of the name of the event of a jitted function's call."""
_WAIT = "CommonPjRtBuffer::Await"
"""Name of the two events between which a thread waits for an array."""
WAITING = "waiting for an array"
"""Name of the spans between them."""
_RECORDED, _STARTED = "ThreadpoolListener::Record", "ThreadpoolListener::StartRegion"
"""Events of work that a thread hands to others: where it is handed over, and where it begins."""


@dataclass(eq=False)
class HostSpans:
    """Activities of the host: one entry of each column for one span of time on one thread."""

    name: Column
    """Number of its name."""
    thread: Column
    start_ns: Column
    end_ns: Column
    detail: Column
    """Number of the name of its module, kernel or step, such as `step 3`; `ABSENT` for none."""

    def __len__(self) -> int:
        return len(self.name)

    def chosen(self, rows: Column) -> HostSpans:
        """The spans at `rows`."""
        return HostSpans(*(column[rows] for column in vars(self).values()))


@dataclass(eq=False)
class LaunchColumns:
    """Calls of jitted functions: one entry of each column for one call."""

    name: Column
    """Number of the function's name."""
    thread: Column
    start_ns: Column
    end_ns: Column
    """When Python went on."""
    run: Column
    """The run of a program that it started; `ABSENT` where no operation was recorded."""

    def __len__(self) -> int:
        return len(self.name)


def nesting(thread: Column, start_ns: Column, end_ns: Column) -> Column:
    """For each span the innermost other one of its thread that it lies in; `ABSENT` for none."""
    parents = np.full(len(thread), ABSENT)
    open_spans: list[int] = []
    # Of spans that begin together the longest is outermost.
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
    """Which spans, in the order in which they begin, share no time with others.

    >>> alone(np.array([0, 2, 3, 9]), np.array([2, 5, 4, 9])).tolist()
    [True, False, False, True]
    """
    is_first = np.ones(len(start_ns) + 1, bool)
    if len(start_ns):
        is_first[1:-1] = start_ns[1:] >= np.maximum.accumulate(end_ns)[:-1]
    return is_first[:-1] & is_first[1:]


def spans_of(events: Events, operations: Operations) -> HostSpans:
    """Spans of the host: all events but operations, their ends, and the bookkeeping of threads."""
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
    spans = HostSpans(events.name, events.thread, events.start_ns, events.end_ns, detail).chosen(
        rows
    )
    return _with_waiting(spans, events, rows)


def _details_of_steps(events: Events) -> Column:
    """For each event the number of the text that names its step; `ABSENT` for others."""
    numbers = events.stat("step_num")
    details = np.full(len(events), ABSENT)
    for number in np.unique(numbers[numbers != ABSENT]):
        events.names.append(f"step {number}")
        details[numbers == number] = len(events.names) - 1
    return details


def _with_waiting(spans: HostSpans, events: Events, rows: Column) -> HostSpans:
    """The spans in which a thread waits for an array as such: two events record where one begins and ends."""
    is_wait = events.texts_are(spans.name, _WAIT)
    produced, consumed = events.stat("_p")[rows], events.stat("_c")[rows]
    ends = np.flatnonzero(is_wait & (consumed != ABSENT))
    over = matched(np.where(is_wait, produced, ABSENT), consumed[ends], spans.end_ns[ends])
    begins = over != ABSENT
    if begins.any():
        events.names.append(WAITING)
        spans.name[begins] = len(events.names) - 1
        spans.end_ns[begins] = over[begins]
    keep = np.ones(len(spans), bool)
    keep[ends] = False
    return spans.chosen(np.flatnonzero(keep))


def calls_of(events: Events, operations: Operations) -> LaunchColumns:
    """The calls of jitted functions of a recording, outermost ones, each with the run that it started."""
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
    # A program whose operands weren't there yet was begun by the thread that made them, within their call: of the runs
    # that one call began, the first is its own. The runs of a program are numbered in the order in which they are
    # called. Functions share programs, whose names are the first one's.
    in_time = np.argsort(first)
    callers, of_callers = np.unique(called_by[in_time], return_index=True)
    leading = in_time[of_callers[callers != ABSENT]]
    calls.run[called_by[leading]] = runs[leading]
    started = np.zeros(len(runs), bool)
    started[leading] = True
    modules = events.stat("hlo_module")[operations.event[first]]
    waiting = np.flatnonzero(~started)
    for functions, shared in _sharing(events.names, calls, runs, modules, waiting):
        rest = np.flatnonzero(np.isin(calls.name, functions) & (calls.run == ABSENT))
        ran = runs[waiting[np.isin(modules[waiting], shared)]]
        n = min(len(ran), len(rest))
        calls.run[rest[:n]] = ran[len(ran) - n :]  # others were called before the recording
    return calls


def _sharing(
    names: list[str], calls: LaunchColumns, runs: Column, modules: Column, waiting: Column
) -> list[tuple[list[int], list[int]]]:
    """(functions, modules), by the numbers of their names, of each set of functions that share programs.

    `modules` [n] has that of each of `runs`; `waiting` are positions of the runs that are no call's yet. A function's
    modules are those of its other calls, and the one named after it. Of a function without any it is the one module that
    has as many runs too many as the function has calls too many.
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
    """The jitted function whose call an event is; other names as they are.

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
    """(threads, times) at which work was handed over that was done on `thread` at `time_ns`; itself where it wasn't."""
    regions = np.flatnonzero(events.texts_are(events.name, _STARTED))
    records = np.flatnonzero(events.texts_are(events.name, _RECORDED))
    record_of = matched(events.stat("_c")[regions], events.stat("_p")[records], records)
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
    """The call or span on each thread at each time, of ones that don't nest; `ABSENT` where there is none."""
    result = np.full(len(thread), ABSENT)
    for each in np.unique(calls.thread):
        rows = np.flatnonzero(calls.thread == each)
        chosen = np.flatnonzero(thread == each)
        at = np.searchsorted(calls.start_ns[rows], time_ns[chosen], side="right") - 1
        inside: npt.NDArray[np.bool_] = at >= 0
        inside &= calls.end_ns[rows][at] >= time_ns[chosen]
        result[chosen[inside]] = rows[at[inside]]
    return result
