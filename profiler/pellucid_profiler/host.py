"""Time of the threads that call jitted functions, by activity: dispatch, transfers, waiting, compilation, Python."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from pellucid_profiler.calls import WAITING
from pellucid_profiler.compile_steps import COMPILE
from pellucid_profiler.session_data import SessionData
from pellucid_profiler.xspace import Column

Activity = Literal[
    "callbacks", "operations", "transfers", "waiting", "compilation", "dispatch",
    "Python or waiting, devices busy", "Python, devices idle",
]  # fmt: skip
RECORDED: tuple[Activity, ...] = (
    "callbacks", "operations", "transfers", "waiting", "compilation", "dispatch",
)  # fmt: skip
"""Recorded activities by priority: where several overlap, the first one counts. XLA doesn't record waits for arrays on
several devices, so the remaining time is either such a wait or Python, while devices run.
"""
_TRANSFERS = ("DevicePut", "DevicePutWithSharding", "CopyToDevice", "CopyRawToHost")


class HostRow(NamedTuple):
    """Time of one thread in one activity; the rows of a thread add up to the session's time."""

    thread: str
    activity: Activity
    seconds: float
    count: int  # pyright: ignore[reportIncompatibleMethodOverride]  # hides tuple.count


def host_rows(session: SessionData) -> list[HostRow]:
    """Time of each thread that called jitted functions, divided by activity."""
    ops = session.operations
    running = union(np.clip(np.stack([ops.start_ns, ops.end_ns], axis=1), 0, session.wall_ns))
    rows: list[HostRow] = []
    for thread in np.unique(session.calls.thread):
        busy = np.zeros((0, 2), np.int64)
        for activity in RECORDED:
            intervals, count = _intervals(session, activity, int(thread))
            before = _length(busy)
            busy = union(np.concatenate([busy, intervals]))
            rows.append(
                HostRow(session.threads[thread], activity, (_length(busy) - before) / 1e9, count)
            )
        recorded_ns = _length(busy)
        all_ns = _length(union(np.concatenate([busy, running])))
        while_running = (all_ns - recorded_ns) / 1e9
        idle = max(session.wall_ns - all_ns, 0) / 1e9
        name = session.threads[int(thread)]
        rows.append(HostRow(name, "Python or waiting, devices busy", while_running, 0))
        rows.append(HostRow(name, "Python, devices idle", idle, 0))
    return rows


def _intervals(
    session: SessionData, activity: Activity, thread: int
) -> tuple[npt.NDArray[np.int64], int]:
    """(time intervals [n, 2] in nanoseconds in which a thread does an activity, clipped to the session, and their
    number).
    """
    names, spans, ops, calls = session.names, session.spans, session.operations, session.calls
    if activity == "operations":
        rows = ops.thread == thread
        start, end = ops.start_ns[rows], ops.end_ns[rows]
    elif activity == "callbacks":
        opcode = np.array([info.is_callback for info in session.infos], bool)
        rows = (ops.thread == thread) & (
            opcode[session.info_of_operation] if len(ops) else np.zeros(0, bool)
        )
        start, end = ops.start_ns[rows], ops.end_ns[rows]
    elif activity == "dispatch":
        rows = calls.thread == thread
        start, end = calls.start_ns[rows], calls.end_ns[rows]
    elif activity == "compilation":
        rows = np.array([name == COMPILE for name in names], bool)[spans.name]
        start, end = spans.start_ns[rows], spans.end_ns[rows]
        inside = (calls.thread == thread)[:, None] & (calls.start_ns[:, None] <= start) & (
            calls.end_ns[:, None] >= end
        )  # fmt: skip
        start, end = start[inside.any(0)], end[inside.any(0)]
    else:
        names_of_activity = (WAITING,) if activity == "waiting" else _TRANSFERS
        rows = np.array([name in names_of_activity for name in names], bool)[spans.name]
        rows &= spans.thread == thread
        start, end = spans.start_ns[rows], spans.end_ns[rows]
    intervals = np.clip(np.stack([start, end], axis=1), 0, session.wall_ns)
    return intervals, len(intervals)


def union(intervals: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The union of `intervals` as sorted disjoint intervals [n, 2].

    >>> union(np.array([[5, 7], [0, 2], [1, 3]])).tolist()
    [[0, 3], [5, 7]]
    """
    if not len(intervals):
        return intervals
    ordered = intervals[np.argsort(intervals[:, 0], kind="stable")]
    reached: Column = np.maximum.accumulate(ordered[:, 1])
    is_first = np.r_[True, ordered[1:, 0] > reached[:-1]]
    last = np.r_[np.flatnonzero(is_first)[1:] - 1, len(ordered) - 1]
    return np.stack([ordered[is_first, 0], reached[last]], axis=1)


def _length(intervals: npt.NDArray[np.int64]) -> int:
    return int((intervals[:, 1] - intervals[:, 0]).sum())
