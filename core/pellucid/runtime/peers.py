"""The job that this process is in, as the rest of the runtime asks about it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from pellucid.base.errors import DistributedError
from pellucid.base.interruption import interruptible

T = TypeVar("T")

_SECONDS_TO_HEAR_OF_A_FAILURE = 2.0


class Watch(Protocol):
    """Who knows which processes have failed."""

    def failure(self, seconds: float = 0.0) -> DistributedError | None: ...


class Meetings(Protocol):
    """Where processes compare what they say."""

    def agree(self, what: str, said: str, process_ids: Sequence[int] | None = None) -> None: ...

    def launch(
        self,
        start: Callable[[Any], T],
        argument: Any,
        what: str,
        said: str,
        process_ids: Sequence[int],
        key: str,
        contents: str = "",
        *,
        is_order_enough: bool = False,
    ) -> T: ...


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


def agree(what: str, said: str, process_ids: Sequence[int] | None = None) -> None:
    """Wait until all processes (of `process_ids`) have said the same about `what`; alone, one agrees with itself.

    Raises: AgreementError in each of them if they said different things.
    """
    if _meetings:
        _meetings[0].agree(what, said, process_ids)


def launch(
    start: Callable[[Any], T],
    argument: Any,
    what: str,
    said: str,
    process_ids: Sequence[int],
    key: str,
    contents: str,
    *,
    is_order_enough: bool,
) -> T:
    """`start(argument)`, which exchanges data with `process_ids`, when all of them have agreed on the program `said`.

    With `is_order_enough`, they wait for each other only where it follows another program than before.
    """
    if not _meetings:  # the job is over; the devices say so
        return start(argument)
    return _meetings[0].launch(
        start, argument, what, said, process_ids, key, contents, is_order_enough=is_order_enough
    )


def digest(values: Iterable[Any]) -> str:
    """A short text that is the same for the same bytes of the arrays `values`."""
    found = hashlib.sha256()
    for value in values:
        found.update(np.ascontiguousarray(value).tobytes())
    return found.hexdigest()[:16]


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
    return _watch[0].failure(_SECONDS_TO_HEAR_OF_A_FAILURE if is_about_connections else 0.0)
