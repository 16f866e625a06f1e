"""The member's side of agreement on programs: proposes this process's next launch, and waits if it is new."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import operator
import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from pellucid._machine import base
from pellucid._machine.base import DistributedError, Ints, config
from pellucid._machine.runtime.peers import FAILURE_REPORT_SECONDS, Proposal

from . import wire
from .membership import Membership

T = TypeVar("T")
_MAX_TEXT_LENGTH = 400
_SIGNAL_CHECK_SECONDS = 0.5
"""Interval of checks for signals: one that arrives just before a wait begins doesn't interrupt it."""
_MAX_LAUNCHES_PER_MESSAGE = 1000
REPORT_INTERVAL_SECONDS = 0.1
_call: Any = operator.call


class Meetings:
    """The member's side of `Agreements`: proposes this process's next launch, and waits for the others.

    It has its own connection, which the waiting thread reads directly: each additional thread on the way to the
    coordinator and back would double the cost.
    """

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._lock = threading.RLock()
        self._received: list[bytes] = []
        """Bytes received since the last message that this process sent."""
        self._sending = threading.RLock()
        self._launched: deque[tuple[tuple[int, ...], str]] = deque()
        """(group, key) of programs that were launched without waiting and aren't reported yet."""
        self._previous = ""
        """Key of the most recently launched program; empty if unknown."""
        self._agreed_successions: set[tuple[str, str]] = set()
        """Pairs (first program, second program) that were launched in this order with the group's agreement."""

        self._connection: socket.socket | None = None

    def connect(self, host: str, port: int) -> None:
        """Open the connection to the coordinator of the job that this process has joined."""
        try:
            self._connection = socket.create_connection((host, port))
        except OSError as error:
            self._membership.check(FAILURE_REPORT_SECONDS)
            raise DistributedError(
                f"process 0 can't be reached any more at {host}:{port}.", got=str(error)
            ) from None
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection.settimeout(_SIGNAL_CHECK_SECONDS)
        self._say("meetings", process_id=self._membership.process_id, job=self._membership.job)

    def wake(self) -> None:
        """End waiting: a process has failed, or the job is over."""
        if self._connection is not None:
            with contextlib.suppress(OSError):  # already closed
                self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the connection."""
        self.wake()
        with self._lock:
            if self._connection is not None:
                self._connection.close()

    def stop(self, reason: str | None) -> None:
        """Tell the others that this process makes no launches for now, and the `reason`; None: it continues."""
        with self._lock:
            self._say("stop", reason=reason and _shorten(reason))

    def agree(
        self, what: str, text: str, process_ids: Ints | None = None, seconds: float | None = None
    ) -> None:
        """Wait until all processes (of `process_ids`) have proposed the same `text` about `what`.

        Raises: AgreementError in each of them if the texts differ, or they wait for each other at different
        places; DistributedTimeoutError if some don't come within `seconds` (the option `peer_timeout_seconds`);
        PeerFailureError as soon as one fails.
        """
        group = sorted(process_ids or range(self._membership.num_processes))
        self._start_together(bool, None, Proposal(what, text, group, ""), seconds)

    def launch(
        self,
        start: Callable[[Any], T],
        argument: Any,
        proposal: Proposal,
        *,
        is_order_enough: bool = False,
    ) -> T:
        """`start(argument)`, a call into C++ without Python, once all processes have agreed as in `agree`.

        Nothing comes in between: after an agreement the program is started even if Ctrl-C is pressed, and starts of
        other threads wait. So all processes start the same programs in the same order. With `is_order_enough`, a
        program that this process has launched after the same predecessor before starts at once, and the others compare
        it afterwards.

        Raises: as `agree`; AgreementError also if processes launched different programs.
        """
        key, contents = proposal.key, proposal.contents
        full_key = f"{key}:{contents}" if contents else key
        with self._lock:
            succession = self._previous, key
            if is_order_enough and succession in self._agreed_successions:
                self._membership.check()
                self._previous = key
                # This line runs entirely in C: Python handles signals before and after it.
                launched = tuple(proposal.process_ids), full_key
                _, result = map(_call, (self._launched.append, start), (launched, argument))
                return result
            self._previous = ""
            result = self._start_together(start, argument, proposal._replace(key=full_key))
            self._previous = key
            if succession[0]:
                self._agreed_successions.add(succession)
            return result

    def admit(self, proposal: Proposal) -> Any:
        """Agree on a launch in a new order; the caller appends (group, key) to the result and starts at once.

        Starts of other threads aren't blocked until then.
        """
        key = proposal.key
        if (self._previous, key) in self._agreed_successions and not self._membership.has_failed:
            self._previous = key
            return self._launched
        self.launch(bool, None, proposal)
        return []

    def _start_together(
        self,
        start: Callable[[Any], T],
        argument: Any,
        proposal: Proposal,
        seconds: float | None = None,
    ) -> T:
        """`start(argument)` once all members of the group have made the same proposal."""
        started = []
        what, text, group, key, contents = proposal
        if contents:
            text += f", arguments of its own with contents {contents}"
        with self._lock:
            if len(group) == 1:
                return start(argument)
            self._membership.check()
            self._received.clear()
            try:
                self.report()
                self._say(
                    "come", group=group, what=what, text=_shorten(text), key=key,
                    seconds=seconds or config.peer_timeout_seconds.value,
                )  # fmt: skip
                outcome = self._receive(1)[0]
                if outcome.pop("event") == "error":
                    raise getattr(base, outcome.pop("kind"))(**outcome)
                # This line runs entirely in C: Python handles signals before and after it.
                started.extend(map(start, (argument,)))
            except KeyboardInterrupt:
                if not started and self._comes_too_late_to_withdraw():
                    started.extend(map(start, (argument,)))
                raise
        return started[0]

    def _comes_too_late_to_withdraw(self) -> bool:
        """Withdraw this process's proposal; True if the others had agreed to it before, so that it has to start."""
        self._say("withdraw")
        count = 1
        try:
            while (messages := self._receive(count))[-1]["event"] != "withdrawn":
                count += 1
        except KeyboardInterrupt:
            self.wake()  # whether the others rely on this process is unknown now
            raise
        return messages[0]["event"] == "agreed"

    def _say(self, event: str, **fields: Any) -> None:
        assert self._connection is not None
        # Without a connection no answer will arrive, either.
        with self._sending, contextlib.suppress(OSError):
            self._connection.sendall(wire.line(event, **fields))

    def report(self) -> None:
        """Send the launches since the last report to the coordinator."""
        with self._sending:
            while self._launched:
                count = min(len(self._launched), _MAX_LAUNCHES_PER_MESSAGE)
                launched = [self._launched.popleft() for _ in range(count)]
                for group, entries in itertools.groupby(launched, operator.itemgetter(0)):
                    self._say(
                        "launched", group=group, keys=[key for _, key in entries],
                        seconds=config.peer_timeout_seconds.value,
                    )  # fmt: skip

    def _receive(self, count: int) -> list[dict[str, Any]]:
        """At least `count` messages of the coordinator, starting with the first since this process last sent one."""
        assert self._connection is not None
        while True:
            lines = b"".join(self._received).split(b"\n")[:-1]
            if len(lines) >= count:
                return [json.loads(line) for line in lines]
            # In C, as above, so that nothing is lost between the connection and the list.
            try:
                self._received.extend(map(self._connection.recv, (wire.CHUNK,)))
            except TimeoutError:
                continue
            except OSError:
                self._received.append(b"")
            if self._received[-1]:
                continue
            self._membership.check(FAILURE_REPORT_SECONDS)
            raise DistributedError(
                "the connection to process 0 is closed.",
                do="Call distributed.shutdown() here, and initialize() anew in all processes.",
            )


def _shorten(text: str) -> str:
    """`text`, or if it is long its beginning and a hash, so that different texts stay different."""
    if len(text) <= _MAX_TEXT_LENGTH:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{text[:_MAX_TEXT_LENGTH]}… (as a whole {digest})"
