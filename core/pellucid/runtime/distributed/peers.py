"""The job that this process is in, as the rest of the runtime asks about it."""

from __future__ import annotations

from pellucid.base.errors import PeerFailureError
from pellucid.runtime.distributed.membership import Membership

_SECONDS_TO_HEAR_OF_A_FAILURE = 2.0
_current: list[Membership] = []


def current() -> Membership | None:
    """This process's membership in a job; None if it is in none."""
    return _current[0] if _current else None


def set_current(membership: Membership | None) -> None:
    """Note that this process is in a job, or in none."""
    _current[:] = [] if membership is None else [membership]


def check() -> None:
    """Raise PeerFailureError if a process of the job has failed."""
    membership = current()
    error = membership and membership.failure()
    if error:
        raise error


def failure_behind(text: str) -> PeerFailureError | None:
    """The failure of a process that explains the error `text` of a program.

    A broken connection is often seen by the program before the coordinator has told of its reason.
    """
    membership = current()
    if membership is None:
        return None
    is_about_connections = "gloo" in text.lower() or "nccl" in text.lower()
    return membership.failure(_SECONDS_TO_HEAR_OF_A_FAILURE if is_about_connections else 0.0)
