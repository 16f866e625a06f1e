"""Where this process meets others: each says what it is about to do, and goes on when all have said the same."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pellucid.base import config
from pellucid.base.errors import AgreementError, DistributedTimeoutError
from pellucid.runtime.distributed.membership import Membership, processes_in_words

T = TypeVar("T")
_LONGEST_TEXT = 400
_MOST_LINES = 4
_IN_ORDER = (
    "Let all processes call the same functions, on values of the same types, in the same order."
)


class Meetings:
    """The member's side of `Agreements`: says what this process does next, and waits for the others."""

    def __init__(self, membership: Membership, send: Callable[..., None]) -> None:
        self._membership = membership
        self._send = send
        self._lock = threading.RLock()
        self._decided = threading.Event()
        self._withdrawn = threading.Event()
        self._outcome: dict[str, Any] = {}

    def hear(self, message: dict[str, Any]) -> None:
        """Take what the coordinator decided; called in the thread of the connections."""
        if message["event"] == "withdrawn":
            self._withdrawn.set()
        else:
            self._outcome = message
            self._decided.set()

    def wake(self) -> None:
        """Wait no longer, since a process has failed."""
        self._decided.set()
        self._withdrawn.set()

    def agree(
        self,
        what: str,
        said: str,
        process_ids: Sequence[int] | None = None,
        seconds: float | None = None,
    ) -> None:
        """Wait until all processes (of `process_ids`) have said the same about `what`.

        Raises: AgreementError in each of them if they said different things, or wait for each other at different
        places; DistributedTimeoutError if some don't come within `seconds` (the option `peer_timeout_seconds`);
        PeerFailureError as soon as one fails.
        """
        self.launch(_nothing, None, what, said, process_ids, seconds)

    def launch(
        self,
        start: Callable[[Any], T],
        argument: Any,
        what: str,
        said: str,
        process_ids: Sequence[int] | None = None,
        seconds: float | None = None,
    ) -> T:
        """`start(argument)`, a call into C++ without Python, once all processes have agreed as in `agree`.

        Then nothing comes between: one that has agreed starts, also if Ctrl-C is pressed meanwhile, and starts of
        other threads wait. So all processes start the same programs in the same order.
        """
        group = sorted(process_ids or range(self._membership.num_processes))
        started: list[T] = []
        with self._lock:
            if len(group) == 1:
                return start(argument)
            self._raise_failure()
            self._outcome = {}
            self._decided.clear()
            self._withdrawn.clear()
            try:
                self._send(
                    "come", group=group, what=what, said=_shortened(said),
                    seconds=seconds or config.peer_timeout_seconds.value,
                )  # fmt: skip
                self._decided.wait()
                self._check(what)
                # All of this line is C: Python looks for signals before it and after it.
                started.extend(map(start, (argument,)))
            except KeyboardInterrupt:
                if not started:
                    self._send("withdraw")
                    self._withdrawn.wait()
                    if self._outcome.get("event") == "agreed":
                        started.extend(map(start, (argument,)))
                raise
        return started[0]

    def _raise_failure(self) -> None:
        failure = self._membership.failure()
        if failure is not None:
            raise failure

    def _check(self, what: str) -> None:
        outcome = self._outcome
        if not outcome:
            self._raise_failure()
        if outcome["event"] == "disagreed":
            raise _disagreement(what, outcome["said"])
        if outcome["event"] == "late":
            raise _late(what, self._membership.process_id, outcome)


def _nothing(_: Any) -> None:
    return None


def _shortened(said: str) -> str:
    """`said`, or its beginning and a hash of all of it, so that what differs still does."""
    if len(said) <= _LONGEST_TEXT:
        return said
    return f"{said[:_LONGEST_TEXT]}… (as a whole {hashlib.sha256(said.encode()).hexdigest()[:16]})"


def _disagreement(what: str, said: list[tuple[list[int], str, str]]) -> AgreementError:
    is_one_thing = len({about for _, about, _ in said}) == 1
    lines = [
        f"{processes_in_words(who)}: {text if is_one_thing else f'{about}, {text}'}"
        for who, about, text in said
    ]
    return AgreementError(
        f"{what}: the processes don't agree."
        if is_one_thing
        else "the processes are not at the same point of their programs.",
        got=_first(lines),
        do=_IN_ORDER,
    )


def _late(what: str, process: int, outcome: dict[str, Any]) -> DistributedTimeoutError:
    missing, seconds = outcome["missing"], outcome["seconds"]
    if process in missing:
        return DistributedTimeoutError(
            f"{what}: the others waited {seconds:g} s for this process, and then gave up.",
            got=f"process {process} comes only now",
            do=_IN_ORDER,
        )
    return DistributedTimeoutError(
        f"{what}: {processes_in_words(missing)} did not come within {seconds:g} s.",
        got=_first(
            [f"{processes_in_words(who)}: last agreed on {text}" for who, text in outcome["last"]]
        ),
        do="Look at what they do; or raise the option peer_timeout_seconds.",
    )


def _first(lines: list[str]) -> list[str]:
    return lines if len(lines) <= _MOST_LINES else [*lines[: _MOST_LINES - 1], "and others"]
