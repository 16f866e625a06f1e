"""The job of this process, as the rest of the runtime uses it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from pellucid.base import DistributedError, interruptible

if TYPE_CHECKING:
    from .distributed.job import Job

T = TypeVar("T")

FAILURE_REPORT_SECONDS = 2.0
"""Time in seconds that the coordinator may take to report why a connection broke."""
_MAX_NAMED_PROCESSES = 16


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


jobs: list[Job] = []
"""The job that this process is in; empty if it is in none, so that every device is its own."""


def agree(what: str, text: str, process_ids: Sequence[int] | None = None) -> None:
    """Wait until all processes (of `process_ids`) have proposed the same `text` about `what`; alone, return at once.

    Raises: AgreementError in each of them if the texts differ.
    """
    for job in jobs:
        job.meetings.agree(what, text, process_ids)


def launch(
    start: Callable[[Any], T], argument: Any, proposal: Proposal, *, is_order_enough: bool
) -> T:
    """`start(argument)`, which exchanges data with a group of processes, when all of them have made the `proposal`.

    With `is_order_enough`, they wait for each other only where it follows another program than before.
    """
    if not jobs:  # the job is over; the devices say so
        return start(argument)
    return jobs[0].meetings.launch(start, argument, proposal, is_order_enough=is_order_enough)


def admit(proposal: Proposal) -> Any:
    """Agree on a program where it follows another one than before; the caller appends (group, key) to the result and starts it at once."""
    return jobs[0].meetings.admit(proposal) if jobs else []


def digest(values: Iterable[Any]) -> str:
    """Digest of the bytes of the arrays `values`: 16 hexadecimal digits."""
    digest = hashlib.sha256()
    for value in values:
        digest.update(np.ascontiguousarray(value).tobytes())
    return digest.hexdigest()[:16]


def check() -> None:
    """Raise PeerFailureError if a process of the job has failed, AgreementError if launches differed."""
    for job in jobs:
        job.membership.check()


def wait(function: Callable[..., T], *arguments: Any) -> T:
    """`function(*arguments)`, which waits for other processes; Ctrl-C and the errors of `check` end it."""
    return interruptible(function, *arguments, check=check)


def failure_behind(text: str) -> DistributedError | None:
    """The failure of a process that explains the error `text` of a program.

    A broken connection is often seen by the program before the coordinator has told of its reason.
    """
    if not jobs:
        return None
    is_about_connections = "gloo" in text.lower() or "nccl" in text.lower()
    return jobs[0].membership.failure(FAILURE_REPORT_SECONDS if is_about_connections else 0.0)


def processes_in_words(indices: Sequence[int]) -> str:
    """As in "process 3" or "processes 0, 2"; of very many, the first."""
    shown = ", ".join(map(str, indices[:_MAX_NAMED_PROCESSES]))
    if len(indices) > _MAX_NAMED_PROCESSES:
        shown += f" and {len(indices) - _MAX_NAMED_PROCESSES} others"
    return f"process {shown}" if len(indices) == 1 else f"processes {shown}"
