"""Collectives: how long each device waited for the last participant, and how long the exchange of data took."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pellucid_profiler.session_data import SessionData

SLOW_FACTOR = 1.5
"""A device is a straggler if its own operations take this many times the median device's time."""


class CollectiveRow(NamedTuple):
    """One collective of a program, summed over its executions. Seconds are summed over devices."""

    info: int
    """Index of its instruction in `Session.infos`."""
    count: int  # pyright: ignore[reportIncompatibleMethodOverride]  # hides tuple.count
    """Number of executions, counted once for each device."""
    wait_seconds: float
    """Time that devices waited for the last one to arrive."""
    work_seconds: float
    """The remaining time, in which data is exchanged."""
    straggler: int
    """Device that the others waited for longest; -1 if no rendezvous was recorded."""
    straggler_seconds: float
    """The part of `wait_seconds` spent waiting for the straggler."""

    @property
    def seconds(self) -> float:
        """Total time: waiting and exchanging."""
        return self.wait_seconds + self.work_seconds


def _are_collectives(session: SessionData) -> npt.NDArray[np.bool_]:
    """For each instruction, whether devices meet in it: collectives, and others of which meetings were recorded."""
    are = np.array([info.category == "collective" for info in session.infos], bool)
    met = np.unique(session.info_of_operation[session.collectives.operation])
    containers = np.array([info.is_container for info in session.infos], bool)
    are[met] |= ~containers[met]
    return are


def collective_rows(session: SessionData) -> list[CollectiveRow]:
    """The collectives of a session, sorted by time, longest first."""
    ops, met = session.operations, session.collectives
    info_of_met = session.info_of_operation[met.operation]
    waits = np.bincount(info_of_met, met.wait_ns / 1e9, len(session.infos))
    blamed: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    wait_of_meeting = np.bincount(met.meeting, met.wait_ns / 1e9)
    for row in np.flatnonzero(met.is_last):
        device = int(ops.device[met.operation[row]])
        blamed[int(info_of_met[row])][device] += float(wait_of_meeting[met.meeting[row]])
    rows: list[CollectiveRow] = []
    for i in map(int, np.flatnonzero(_are_collectives(session))):
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
    """The device that delays collectives, with the figures that explain why."""

    device: int
    wait_seconds: float
    """Time that the other devices waited for it, averaged over them."""
    own_seconds: float
    """Time of this device's operations, without collectives."""
    median_seconds: float
    """Median over devices of the time of their operations, without collectives."""
    info: int
    """Index in `Session.infos` of the instruction in which this device is slowest compared with the median device."""


def straggler(session: SessionData) -> Straggler | None:
    """The device that delays collectives; None if fewer than two devices took part in any.

    Where devices share a CPU core, the order of arrivals depends on the OS scheduler. So a device is chosen first by
    its own operations, if they take `SLOW_FACTOR` times the median, and otherwise by who arrives last. Only runs of
    programs with collectives are counted.
    """
    ops, met = session.operations, session.collectives
    in_meetings = np.flatnonzero(np.isin(ops.run, ops.run[met.operation]))
    devices = np.unique(ops.device[in_meetings])
    if len(devices) < 2:
        return None
    is_collective = _are_collectives(session)
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
