"""The coordinator's side of agreement: compares, by position, the programs that the processes of a group launch.

A process *proposes* its next launch, and waits for the others before it launches, or has launched already. All members
of a group must make the same proposal at the same position of the group's order; differences are detected here.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from pellucid._machine.base import AgreementError, DistributedError, DistributedTimeoutError, Ints
from pellucid._machine.runtime.peers import processes_in_words

CHECK_INTERVAL_SECONDS = 0.1
"""Interval of the coordinator's calls of `Agreements.check`."""
_MAX_QUOTED_LINES = 4
_STOPPED_PEER_GRACE_SECONDS = 1.0
"""Seconds before a stopped process is reported to its waiting peers, because it may continue."""
_IN_ORDER = (
    "Let all processes call the same functions, on values of the same types, in the same order."
)
Group = tuple[int, ...]


@dataclass(slots=True)
class Order:
    """The proposals of a group that some members haven't made yet."""

    counts: dict[int, int]
    """Number of proposals, the first ones in `keys`, that each member has made."""
    keys: deque[str] = field(default_factory=deque)
    since: float = 0.0
    """Time at which the current first proposal became the first."""
    seconds: float = 0.0
    """Maximum time in seconds, from `since`, until all members have made it."""

    def missing(self) -> list[int]:
        """Members that haven't made the first proposal."""
        return [member for member, count in self.counts.items() if self.keys and not count]


class Agreements:
    """Releases the members of a group when all of them have made the same proposal.

    A process waits at one place at a time. If processes wait for each other at different places, none could continue;
    this is detected at once. If a disagreement involves only waiting processes, each gets an error and the job
    continues; if one of them has launched its program, the job fails. `send(process, event, **fields)` sends a message
    to a member; `fail_process(process, reason)` and `fail_order(lines)` end the job.
    """

    def __init__(
        self,
        send: Callable[..., None],
        fail_process: Callable[[int, str], None],
        fail_order: Callable[[list[str]], None],
    ) -> None:
        self._send = send
        self._fail_process = fail_process
        self._fail_order = fail_order
        self._orders: dict[Group, Order] = {}
        self._place: dict[int, Group] = {}
        """The group in which each waiting process waits, for agreement on its last proposal there."""
        self._texts: dict[str, tuple[str, str]] = {}
        """Maps each key to its (subject, proposal)."""
        self._last: dict[int, str] = {}
        """Key of each process's last proposal that all others made too."""
        self._owed: dict[tuple[Group, int], dict[str, Any]] = {}
        """Errors to deliver to members that hadn't arrived when their group was decided."""
        self._stopped: dict[int, tuple[str, float]] = {}
        """Processes that don't propose for now, with (reason, time since when)."""

    def propose(
        self, process: int, group: Ints, what: str, text: str, seconds: float, key: str = ""
    ) -> None:
        """`process` proposes `text` about `what` to its `group`, and waits up to `seconds` for the others."""
        group = tuple(group)
        self._stopped.pop(process, None)
        if error := self._owed.pop((group, process), None):
            self._send(process, "error", **error)
            return
        key = key or f"{what}\0{text}"
        self._texts[key] = what, text
        self._propose(process, group, [key], seconds, is_waiting=True)
        if circle := self._circle(process):
            proposals = {
                member: order.keys[count - 1]
                for order in map(self._orders.__getitem__, circle)
                for member, count in order.counts.items()
                if count
            }
            self._reject(proposals, circle, any(map(self._is_launched, circle)))

    def report_launch(self, process: int, group: Ints, keys: Iterable[str], seconds: float) -> None:
        """`process` has launched the programs `keys` with its `group`, in this order, without waiting."""
        self._propose(process, tuple(group), keys, seconds, is_waiting=False)

    def _propose(
        self, process: int, group: Group, keys: Iterable[str], seconds: float, *, is_waiting: bool
    ) -> None:
        """Compare the proposals of `process` with those of the others, and remove those that all have made."""
        order = self._orders.setdefault(group, Order(dict.fromkeys(group, 0)))
        order.seconds = seconds
        for key in keys:
            if not order.keys:
                order.since = time.monotonic()
            index = order.counts[process]
            if index == len(order.keys):
                order.keys.append(key)
            elif (other := order.keys[index]) != key:
                proposals = {m: other for m, count in order.counts.items() if count > index}
                is_launched = not is_waiting or self._is_launched(group)
                self._reject({**proposals, process: key}, [group], is_launched, process)
                return
            order.counts[process] += 1
            if is_waiting:
                self._place[process] = group
            if all(order.counts.values()):
                self._release(group, order)

    def _release(self, group: Group, order: Order) -> None:
        """Remove the first proposal, which all members have made, and release those that wait for it."""
        self._last.update(dict.fromkeys(group, order.keys.popleft()))
        order.since = time.monotonic()
        for member in group:
            order.counts[member] -= 1
            if not order.counts[member] and self._waits(member, group):
                del self._place[member]
                self._send(member, "agreed")

    def _waits(self, process: int, group: Group) -> bool:
        return self._place.get(process) == group

    def _is_launched(self, group: Group) -> bool:
        """Whether any member has launched a program that not all others have proposed."""
        counts = self._orders[group].counts
        return any(count > self._waits(member, group) for member, count in counts.items())

    def stop(self, process: int, reason: str | None) -> None:
        """`process` makes no proposals for now, for `reason`; None if it continues. Peers that wait for it get an
        error.
        """
        self._stopped.pop(process, None)
        if reason is not None:
            self._stopped[process] = reason, time.monotonic()

    def withdraw(self, process: int) -> None:
        """`process` stops waiting; it gets an answer after earlier messages."""
        self.forget(process)
        self._send(process, "withdrawn")

    def forget(self, process: int) -> None:
        """`process` stops waiting, without an answer."""
        group = self._place.pop(process, None)
        if group is not None:
            order = self._orders[group]
            order.counts[process] -= 1
            while len(order.keys) > max(order.counts.values()):
                order.keys.pop()

    def check(self) -> None:
        """End waits for processes that have stopped or are late; called periodically."""
        now = time.monotonic()
        for group, order in self._orders.items():
            missing = order.missing()
            stopped = {
                process: reason
                for process, (reason, since) in self._stopped.items()
                if process in missing
                and now > max(order.since, since) + _STOPPED_PEER_GRACE_SECONDS
            }
            if stopped:
                self._let_go(
                    group, stopped, DistributedError, f"{processes_in_words([*stopped])} stopped before.",
                    [f"process {process}: {reason}" for process, reason in stopped.items()],
                    "Mend that, and run it again in all processes.",
                )  # fmt: skip
            elif missing and now > order.since + order.seconds:
                what, text = self._text(order.keys[0])
                reason = f"it did not come to {text} within {order.seconds:g} s"
                self._let_go(
                    group, dict.fromkeys(missing, reason), DistributedTimeoutError,
                    f"{processes_in_words(missing)} did not come within {order.seconds:g} s.",
                    [f"process {member}: last agreed on {self._last_text(member)}" for member in missing],
                    "Look at what they do; or raise the option peer_timeout_seconds.",
                )  # fmt: skip
                late = f"{what}: the others waited {order.seconds:g} s for this process, and then gave up."
                for member in missing:
                    got = [f"process {member} comes only now"]
                    error = _error(DistributedTimeoutError, late, got, _IN_ORDER)
                    self._owed[group, member] = error

    def _let_go(
        self,
        group: Group,
        reasons: dict[int, str],
        kind: type[DistributedError],
        problem: str,
        got: list[str],
        do: str,
    ) -> None:
        """End a group's wait with an error; end the job with the processes' `reasons` if a member has launched."""
        if self._is_launched(group):
            for process, reason in reasons.items():
                self._fail_process(process, reason)
        else:
            what, _ = self._text(self._orders[group].keys[0])
            self._dismiss([group], _error(kind, f"{what}: {problem}", got, do))

    def _reject(
        self, proposals: dict[int, str], groups: list[Group], is_launched: bool, *arrived: int
    ) -> None:
        """Reject what `groups` propose: an error for each member, including `arrived`; the end of the job if
        `is_launched`.
        """
        by_key = defaultdict(list)
        for process, key in sorted(proposals.items()):
            by_key[key].append(process)
        texts = [(processes_in_words(who), *self._text(key)) for key, who in by_key.items()]
        is_one_thing = len({what for _, what, _ in texts}) == 1
        lines = [
            f"{who}: {text if is_one_thing else f'{what}, {text}'}" for who, what, text in texts
        ]
        if is_launched:
            self._fail_order(_quote(lines))
            return
        what = (
            f"{texts[0][1]}: the processes don't agree."
            if is_one_thing
            else "the processes are not at the same point of their programs."
        )
        error = _error(AgreementError, what, lines, _IN_ORDER)
        informed = {*arrived, *self._dismiss(groups, error)}
        for process in arrived:
            self._send(process, "error", **error)
        for group in groups:
            self._owed.update({(group, process): error for process in set(group) - informed})

    def _dismiss(self, groups: list[Group], error: dict[str, Any]) -> list[int]:
        """The waiting members of `groups`, after sending them an error and withdrawing their proposals."""
        waiting = [process for group in groups for process in group if self._waits(process, group)]
        for process in waiting:
            self.forget(process)
            self._send(process, "error", **error)
        return waiting

    def _text(self, key: str) -> tuple[str, str]:
        """(subject, proposal) of a key; a launch appends a digest of argument values to its program's key."""
        program, _, contents = key.partition(":")
        if key in self._texts or program not in self._texts:
            return self._texts.get(key, ("a program", key))
        what, text = self._texts[program]
        return what, f"{text}, arguments of its own with contents {contents}"

    def _last_text(self, process: int) -> str:
        return (
            ": ".join(self._text(self._last[process])) if process in self._last else "nothing yet"
        )

    def _circle(self, process: int) -> list[Group]:
        """The groups whose members wait for each other in a cycle with `process`; empty if there is none."""
        seen = set()

        def way_back(waiting: int) -> list[Group]:
            """The path of groups from `waiting` to `process`."""
            group = self._place.get(waiting)
            if group is None or group in seen:
                return []
            seen.add(group)
            for other in self._orders[group].missing():
                rest = way_back(other)
                if other == process or rest:
                    return [group, *rest]
            return []

        return way_back(process)


def _quote(lines: list[str]) -> list[str]:
    if len(lines) <= _MAX_QUOTED_LINES:
        return lines
    return [*lines[: _MAX_QUOTED_LINES - 1], "and others"]


def _error(kind: type[DistributedError], what: str, lines: list[str], do: str) -> dict[str, Any]:
    """An error as a message to a member."""
    return {"kind": kind.__name__, "what": what, "got": _quote(lines), "do": do}
