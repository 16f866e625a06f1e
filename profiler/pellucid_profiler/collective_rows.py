"""Collectives: how long each device waited for the last one to arrive, and how long they exchanged data."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np

from pellucid_profiler.session_data import SessionData

SLOW_FACTOR = 1.5
"""Time of a device's own operations, against the median's, from which on it is the straggler."""


class CollectiveRow(NamedTuple):
    """A collective of a program, over the whole session; seconds are those of all devices together."""

    info: int
    """Its number in `Session.infos`."""
    count: int  # pyright: ignore[reportIncompatibleMethodOverride]  # hides tuple.count
    """Executions, on all devices."""
    wait_seconds: float
    """Before the last device arrived."""
    work_seconds: float
    """The rest, in which data is exchanged."""
    straggler: int
    """The device that was waited for longest; -1 where nobody met."""
    straggler_seconds: float
    """Of `wait_seconds`: for that device."""

    @property
    def seconds(self) -> float:
        """Waiting and working."""
        return self.wait_seconds + self.work_seconds


def collective_rows(session: SessionData) -> list[CollectiveRow]:
    """The collectives of a session, the one with most time first."""
    ops, met = session.operations, session.collectives
    info_of_met = session.info_of_operation[met.operation]
    waits = np.bincount(info_of_met, met.wait_ns / 1e9, len(session.infos))
    blamed: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    wait_of_meeting = np.bincount(met.meeting, met.wait_ns / 1e9)
    for row in np.flatnonzero(met.is_last):
        device = int(ops.device[met.operation[row]])
        blamed[int(info_of_met[row])][device] += float(wait_of_meeting[met.meeting[row]])
    rows: list[CollectiveRow] = []
    for i, info in enumerate(session.infos):
        if info.category != "collective":
            continue
        straggler, seconds = max(blamed[i].items(), key=lambda item: item[1], default=(-1, 0.0))
        wait = min(float(waits[i]), float(session.seconds_of_infos[i]))
        rows.append(
            CollectiveRow(
                i, int(session.counts_of_infos[i]), wait,
                float(session.seconds_of_infos[i]) - wait, straggler, seconds,
            )
        )  # fmt: skip
    return sorted(rows, key=lambda row: -row.seconds)


class Straggler(NamedTuple):
    """The device that others wait for, and why it is late."""

    device: int
    wait_seconds: float
    """Of the other devices for it, averaged over them."""
    own_seconds: float
    """Of its operations that aren't collectives."""
    median_seconds: float
    """Of those of all devices, the median."""
    info: int
    """The instruction, by its number in `Session.infos`, in which it loses most against the median device."""


def straggler(session: SessionData) -> Straggler | None:
    """The device that collectives wait for; None where none do.

    Where several devices share a core, the order of arrivals is the scheduler's. So a device whose own operations take
    half as much time again as the median's is the straggler, and only without one it is the last to arrive. Only runs
    of programs in which devices meet count.
    """
    ops, met = session.operations, session.collectives
    in_meetings = np.flatnonzero(np.isin(ops.run, ops.run[met.operation]))
    devices = np.unique(ops.device[in_meetings])
    if len(devices) < 2:
        return None
    is_collective = np.array([info.category == "collective" for info in session.infos], bool)
    n = len(session.infos)
    seconds = np.zeros((len(devices), n))
    np.add.at(
        seconds,
        (
            np.searchsorted(devices, ops.device[in_meetings]),
            session.info_of_operation[in_meetings],
        ),
        session.seconds_of_operation[in_meetings],
    )
    seconds[:, is_collective] = 0
    busy_seconds = seconds.sum(1)
    last = np.flatnonzero(met.is_last)
    wait_of_meeting = np.bincount(met.meeting, met.wait_ns / 1e9)
    sizes = np.bincount(met.meeting)
    shares = wait_of_meeting / np.maximum(sizes - 1, 1)
    of_device = np.bincount(
        np.searchsorted(devices, ops.device[met.operation[last]]),
        shares[met.meeting[last]], len(devices),
    )  # fmt: skip
    slowest, median = int(np.argmax(busy_seconds)), float(np.median(busy_seconds))
    late = slowest if busy_seconds[slowest] > SLOW_FACTOR * median else int(np.argmax(of_device))
    excess = seconds[late] - np.median(seconds, axis=0)
    waited = float(shares.sum()) if late == slowest else float(of_device[late])
    return Straggler(
        int(devices[late]), waited, float(busy_seconds[late]), median, int(np.argmax(excess))
    )
