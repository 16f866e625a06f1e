"""Transfers between host and devices, and their bytes by line."""

from __future__ import annotations

from typing import NamedTuple

from pellucid_profiler.sources import SourceLine


class Transfer(NamedTuple):
    """One copy of data from the host to devices, back, or between devices."""

    time_ns: int
    """Time since the session began."""
    direction: str
    """`host_to_device`, `device_to_host` or `device_to_device`."""
    n_bytes: int
    place: SourceLine | None
    """The user's line that caused the transfer."""


class TransferRow(NamedTuple):
    """The transfers of one line in one direction."""

    place: SourceLine | None
    direction: str
    count: int  # pyright: ignore[reportIncompatibleMethodOverride]  # hides tuple.count
    n_bytes: int


def transfer_rows(transfers: list[Transfer]) -> list[TransferRow]:
    """Transfers grouped by line and direction, sorted by bytes, most first."""
    totals: dict[tuple[SourceLine | None, str], list[int]] = {}
    for each in transfers:
        total = totals.setdefault((each.place, each.direction), [0, 0])
        total[0] += 1
        total[1] += each.n_bytes
    rows = [TransferRow(*key, *total) for key, total in totals.items()]
    return sorted(rows, key=lambda row: -row.n_bytes)
