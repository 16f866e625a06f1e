"""`merge`: joins the sessions of several processes into one, aligned by their clocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np

from pellucid.introspect.errors import ArgumentValueError
from pellucid_profiler.calls import HostSpans, LaunchColumns
from pellucid_profiler.collectives import Collectives
from pellucid_profiler.counters import Counters
from pellucid_profiler.live_arrays import HeapRow, LiveArrays
from pellucid_profiler.operations import Operations
from pellucid_profiler.session import Session
from pellucid_profiler.xspace import ABSENT, Column

T = TypeVar("T", Operations, LaunchColumns, HostSpans, Collectives, Counters)
"""A table of a session whose columns are arrays."""


def merge(sessions: Sequence[Session], *, offsets_ns: Sequence[int] | None = None) -> Session:
    """Merges the sessions of several processes into one, aligned by the wall clock at which each began.

    Devices are renumbered consecutively, and thread names are prefixed with the process number. Collectives across
    processes are not joined: each process's view stays separate. `offsets_ns` corrects clocks that differ: nanoseconds
    to add to the times of each session, 0 for processes on one machine.

    Raises: ArgumentValueError if `sessions` is empty or `offsets_ns` has another length.

    >>> with pl.profiler.profile() as first:
    ...     y = jnp.sin(1.0)
    >>> with pl.profiler.profile() as second:
    ...     y = jnp.sin(1.0)
    >>> len(merge([first.wait(), second.wait()]).calls)
    2
    """
    sessions = [each if isinstance(each, Session) else each.wait() for each in sessions]  # pyright: ignore[reportUnnecessaryIsInstance]  # a Profile waits
    offsets = [0] * len(sessions) if offsets_ns is None else list(offsets_ns)
    if not sessions or len(offsets) != len(sessions):
        raise ArgumentValueError(
            "sessions can't be merged without one clock offset for each.",
            got=f"{len(sessions)} sessions, {len(offsets)} offsets",
            do="Pass at least one session, and no offsets where the clocks agree.",
        )
    begins = [each.begin_unix_ns + offset for each, offset in zip(sessions, offsets, strict=True)]
    begin = min(begins)
    shifts = [each - begin for each in begins]
    parts = [_shift_session(*each) for each in zip(sessions, shifts, _bases(sessions), strict=True)]
    first = parts[0]
    operations = _concatenate([each.operations for each in parts])
    order = np.argsort(operations.start_ns, kind="stable")
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    collectives = _concatenate([each.collectives for each in parts])
    collectives.operation = position[collectives.operation]
    return replace(
        first,
        names=[name for each in parts for name in each.names],
        threads=[name for each in parts for name in each.threads],
        programs={key: value for each in parts for key, value in each.programs.items()},
        operations=Operations(
            *(getattr(operations, each.name)[order] for each in fields(operations))
        ),
        calls=_concatenate([each.calls for each in parts]),
        spans=_sort_by_start(_concatenate([each.spans for each in parts])),
        collectives=collectives,
        compilations=[row for each in parts for row in each.compilations],
        transfers=[row for each in parts for row in each.transfers],
        callbacks=[row for each in parts for row in each.callbacks],
        live_arrays=_live_together([each.live_arrays for each in parts]),
        counters=_concatenate([each.counters for each in parts]),
        heap=_heap_together([each.heap for each in parts]),
        memory={key: value for each in parts for key, value in each.memory.items()},
        begin_unix_ns=begin,
        wall_ns=max(shift + each.wall_ns for shift, each in zip(shifts, sessions, strict=True)),
        sources={path: text for each in parts for path, text in each.sources.items()},
        remarks=[remark for each in parts for remark in each.remarks],
        number=0,
        is_detail=any(each.is_detail for each in sessions),
    )


class _Bases(dict[str, int]):
    """Offsets added to the ids of one session (names, threads, programs, …), by kind of id. `process` is the session's
    index.
    """


def _bases(sessions: Sequence[Session]) -> list[_Bases]:
    bases = _Bases(process=0, name=0, thread=0, program=0, run=0, device=0, event=0, operation=0, meeting=0)  # fmt: skip
    result: list[_Bases] = []
    for each in sessions:
        ops = each.operations
        base = _Bases(bases)
        base["run"] -= int(ops.run.min(initial=0))  # run numbers of a session may start above 0
        result.append(base)
        sizes = {
            "process": 1,
            "name": len(each.names),
            "thread": len(each.threads),
            "program": max(each.programs, default=-1) + 1,
            "run": int(ops.run.max(initial=-1)) - int(ops.run.min(initial=0)) + 1,
            "device": int(ops.device.max(initial=-1)) + 1,
            "event": int(ops.event.max(initial=-1)) + 1,
            "operation": len(ops),
            "meeting": int(each.collectives.meeting.max(initial=-1)) + 1,
        }
        bases = _Bases({key: value + sizes[key] for key, value in bases.items()})
    return result


def _shift_session(session: Session, shift_ns: int, base: _Bases) -> Session:
    """A copy of the session with the offsets `base` added to its ids, and `shift_ns` to its times."""
    ops, calls, spans, met, counters = (
        session.operations, session.calls, session.spans, session.collectives, session.counters,
    )  # fmt: skip

    def later(column: Column) -> Column:
        return column + shift_ns

    return replace(
        session,
        threads=[f"process {base['process']}: {name}" for name in session.threads],
        programs={key + base["program"]: value for key, value in session.programs.items()},
        memory={key + base["program"]: value for key, value in session.memory.items()},
        operations=Operations(
            ops.event + base["event"], ops.instruction + base["name"],
            ops.program + base["program"], ops.run + base["run"], ops.device + base["device"],
            ops.thread + base["thread"], later(ops.start_ns), later(ops.end_ns), ops.iteration,
        ),
        calls=LaunchColumns(
            calls.name + base["name"], calls.thread + base["thread"], later(calls.start_ns),
            later(calls.end_ns), _shift(calls.run, base["run"]),
        ),
        spans=HostSpans(
            spans.name + base["name"], spans.thread + base["thread"], later(spans.start_ns),
            later(spans.end_ns), _shift(spans.detail, base["name"]),
        ),
        collectives=Collectives(
            met.operation + base["operation"], met.meeting + base["meeting"], met.wait_ns, met.is_last,
        ),
        transfers=[each._replace(time_ns=each.time_ns + shift_ns) for each in session.transfers],
        live_arrays=replace(session.live_arrays, time_ns=later(session.live_arrays.time_ns)),
        counters=Counters(
            counters.name + base["name"], counters.device + base["device"],
            later(counters.time_ns), counters.value,
        ),
    )  # fmt: skip


def _shift(column: Column, base: int) -> Column:
    return np.where(column == ABSENT, ABSENT, column + base)


def _concatenate(tables: Sequence[T]) -> T:
    names = [each.name for each in fields(tables[0])]
    return type(tables[0])(
        *(np.concatenate([getattr(each, name) for each in tables]) for name in names)
    )


def _sort_by_start(spans: HostSpans) -> HostSpans:
    return spans.rows(np.argsort(spans.start_ns, kind="stable"))


def _live_together(samples: Sequence[LiveArrays]) -> LiveArrays:
    """Sum of the processes' live arrays at every sampled time; a process counts as 0 before its first sample."""
    times = np.unique(np.concatenate([each.time_ns for each in samples]))
    n_bytes, count = np.zeros(len(times), np.int64), np.zeros(len(times), np.int64)
    for each in samples:
        at = np.searchsorted(each.time_ns, times, side="right") - 1
        n_bytes += np.r_[each.n_bytes, 0][at]
        count += np.r_[each.count, 0][at]
    return LiveArrays(times, n_bytes, count)


def _heap_together(heaps: Sequence[Sequence[HeapRow]]) -> list[HeapRow]:
    totals: dict[Any, HeapRow] = {}
    for row in (row for heap in heaps for row in heap):
        before = totals.get(row.place, HeapRow(row.place, 0, 0, 0, 0))
        sums = (a + b for a, b in zip(before[1:], row[1:], strict=True))
        totals[row.place] = HeapRow(row.place, *sums)
    return sorted(totals.values(), key=lambda row: (-row.peak_bytes, -row.end_bytes))
