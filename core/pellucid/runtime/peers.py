"""The job of this process, as the rest of the runtime uses it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from pellucid.base import DistributedError, interruptible

T = TypeVar("T")

FAILURE_REPORT_SECONDS = 2.0
"""Time in seconds that the coordinator may take to report why a connection broke."""


class Proposal(NamedTuple):
    """The program that a process is about to run with others, who have to propose the same."""

    subject: str
    """The subject of the agreement, for messages."""
    text: str
    """The program and the types of its arguments."""
    process_ids: Sequence[int]
    """The group: all processes that run the program."""
    key: str
    """Digest of `text`."""
    contents: str = ""
    """Digest of the arguments that each process has for itself; empty if there are none."""


class Watch(Protocol):
    """Source of failures of other processes."""

    def failure(self, seconds: float = 0.0) -> DistributedError | None: ...


class Meetings(Protocol):
    """Agreement of processes on what they do next."""

    def agree(self, what: str, text: str, process_ids: Sequence[int] | None = None) -> None: ...

    def launch(
        self,
        start: Callable[[Any], T],
        argument: Any,
        proposal: Proposal,
        *,
        is_order_enough: bool = False,
    ) -> T: ...

    def admit(self, proposal: Proposal) -> Any: ...


_watch: list[Watch] = []
_meetings: list[Meetings] = []


def enter(watch: Watch, meetings: Meetings) -> None:
    """Note that this process is in a job."""
    _watch[:] = [watch]
    _meetings[:] = [meetings]


def leave() -> None:
    """Note that this process is in no job."""
    _watch.clear()
    _meetings.clear()


def is_alone() -> bool:
    """Whether this process is in no job, so that every device is its own."""
    return not _watch


def agree(what: str, text: str, process_ids: Sequence[int] | None = None) -> None:
    """Wait until all processes (of `process_ids`) have proposed the same `text` about `what`; alone, return at once.

    Raises: AgreementError in each of them if the texts differ.
    """
    if _meetings:
        _meetings[0].agree(what, text, process_ids)


def launch(
    start: Callable[[Any], T], argument: Any, proposal: Proposal, *, is_order_enough: bool
) -> T:
    """`start(argument)`, which exchanges data with a group of processes, when all of them have made the `proposal`.

    With `is_order_enough`, they wait for each other only where it follows another program than before.
    """
    if not _meetings:  # the job is over; the devices say so
        return start(argument)
    return _meetings[0].launch(start, argument, proposal, is_order_enough=is_order_enough)


def admit(proposal: Proposal) -> Any:
    """Agree on a program where it follows another one than before; the caller appends (group, key) to the result and starts it at once."""
    return _meetings[0].admit(proposal) if _meetings else []


def digest(values: Iterable[Any]) -> str:
    """Digest of the bytes of the arrays `values`: 16 hexadecimal digits."""
    digest = hashlib.sha256()
    for value in values:
        digest.update(np.ascontiguousarray(value).tobytes())
    return digest.hexdigest()[:16]


def check() -> None:
    """Raise PeerFailureError if a process of the job has failed, AgreementError if launches differed."""
    error = _watch[0].failure() if _watch else None
    if error is not None:
        raise error


def wait(function: Callable[..., T], *arguments: Any) -> T:
    """`function(*arguments)`, which waits for other processes; Ctrl-C and the errors of `check` end it."""
    return interruptible(function, *arguments, check=check)


def failure_behind(text: str) -> DistributedError | None:
    """The failure of a process that explains the error `text` of a program.

    A broken connection is often seen by the program before the coordinator has told of its reason.
    """
    if not _watch:
        return None
    is_about_connections = "gloo" in text.lower() or "nccl" in text.lower()
    return _watch[0].failure(FAILURE_REPORT_SECONDS if is_about_connections else 0.0)
