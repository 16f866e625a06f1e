"""Transfers between host and devices when they begin, each with the user's line that causes it."""

from __future__ import annotations

import sys
from typing import NamedTuple

from pellucid._machine.base import Observer, SourceFrame, TransferStarted, frame_of, is_user_file


class Transfer(NamedTuple):
    """A transfer of data from the host to devices, back, or between devices."""

    time_ns: int
    """Time of its start on the clock `time.monotonic_ns`."""
    direction: str
    """`host_to_device`, `device_to_host` or `device_to_device`."""
    n_bytes: int
    frame: SourceFrame | None
    """The user's line that was running; None if there is none, as in callbacks."""


class TransferLog(Observer):
    """An observer that collects the transfers that begin while it is active.

    >>> from pellucid._machine.base.events import observe
    >>> log = TransferLog()
    >>> with observe(log):
    ...     x = pl.device_put(np.ones(8, np.float32))
    >>> [(each.direction, each.n_bytes) for each in log.transfers]
    [('host_to_device', 32)]
    """

    def __init__(self) -> None:
        self.transfers: list[Transfer] = []

    def transfer_started(self, event: TransferStarted, /) -> None:
        frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # public by use
        while frame is not None and not is_user_file(frame.f_code.co_filename):
            frame = frame.f_back
        place = None if frame is None else frame_of(frame.f_code, frame.f_lasti)
        self.transfers.append(Transfer(event.time_ns, event.direction, event.n_bytes, place))


__all__ = ["Transfer", "TransferLog"]
