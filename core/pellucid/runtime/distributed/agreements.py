"""Coordinator side of agreement on programs: compares, position by position, what the processes of a group launch.

A process *proposes* what it does next. It waits for the others before it does it, or has launched it already. All
members of a group propose the same at the same position of the group's order; what differs is found here.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

_MAX_QUOTED_PROCESSES = 5
_STOPPED_PEER_GRACE_SECONDS = 1.0
"""Grace period before a stopped process is reported to its waiting peers: it may be about to go on."""
Group = tuple[int, ...]
Send = Callable[..., None]
"""`send(process, event, **fields)` sends a message to a member."""


class Position(NamedTuple):
    """A position in a group's order: the proposal `key`, the members that made it, and those of them that wait."""

    key: str
    members: set[int]
    waiting: set[int]

    def is_launched(self) -> bool:
        """Whether a member has launched the program without waiting."""
        return len(self.waiting) < len(self.members)


@dataclass(slots=True)
class Order:
    """Proposals of a group that not all members have made yet."""

    seconds: float = 0.0
    """Limit of the time that members wait for each other."""
    positions: deque[Position] = field(default_factory=deque)
    counts: Counter[int] = field(default_factory=Counter)
    """Number of proposals of each member."""
    done: int = 0
    """Number of proposals that all members have made."""
    timer: asyncio.TimerHandle | None = None

    def waiting(self) -> set[int]:
        """Members that wait for the others."""
        return set().union(*[position.waiting for position in self.positions])

    def is_launched(self) -> bool:
        """Whether a member has launched something that not all others have proposed."""
        return any(position.is_launched() for position in self.positions)

    def remove(self, process: int) -> None:
        """Take back the proposal for which `process` waits."""
        for position in self.positions:
            if process in position.waiting:
                position.waiting.remove(process)
                position.members.remove(process)
                self.counts[process] -= 1
        while self.positions and not self.positions[-1].members:
            self.positions.pop()


class Fail(NamedTuple):
    """Ends of a job: `process(index, reason)` for a process that failed, `order(proposals)` for orders that differ."""

    process: Callable[[int, str], None]
    order: Callable[[list[Any]], None]


class Agreements:
    """Releases the members of a group when all of them have proposed the same.

    A process waits at one place at a time, so processes that wait for each other at different places would do so for
    ever, which is found at once. If a disagreement concerns waiting processes only, each of them gets an error and
    the job continues; if one of them has launched its program, the job has failed.
    """

    def __init__(self, send: Send, fail: Fail) -> None:
        self._send = send
        self._fail = fail
        self._orders: dict[Group, Order] = {}
        self._place: dict[int, Group] = {}
        """The group in which each waiting process waits."""
        self._texts: dict[str, tuple[str, str]] = {}
        """(subject, proposal) for each key."""
        self._last: dict[int, str] = {}
        """Key of the last proposal of each process that all others made too."""
        self._owed: dict[tuple[Group, int], dict[str, Any]] = {}
        """Outcomes to deliver to members that had not arrived when their group was decided."""
        self._stopped: dict[int, str] = {}
        """Processes that propose nothing for now, and why."""

    def come(
        self, process: int, group: Group, what: str, text: str, seconds: float, key: str = ""
    ) -> None:
        """`process` proposes `text` about `what` to its `group`, and waits at most `seconds` for the others."""
        self._stopped.pop(process, None)
        owed = self._owed.pop((group, process), None)
        if owed is not None:
            self._send(process, **owed)
            return
        key = key or f"{what}\0{text}"
        self._texts[key] = what, text
        self._place[process] = group
        order = self._orders.setdefault(group, Order())
        order.seconds = seconds
        if not self._propose(order, process, group, key, is_waiting=True):
            return
        self._set_timer(order, group)
        if circle := self._circle(process):
            proposals = {
                member: position.key
                for group in circle
                for position in self._orders[group].positions
                for member in position.members
            }
            self._reject(proposals, circle)
        elif self._stopped:
            self._let_go_soon(group)

    def launched(self, process: int, group: Group, keys: Iterable[str], seconds: float) -> None:
        """`process` has launched the programs `keys` with its `group`, in this order, without waiting."""
        order = self._orders.setdefault(group, Order())
        order.seconds = seconds
        for key in keys:
            if not self._propose(order, process, group, key, is_waiting=False):
                return
        self._set_timer(order, group)
        if self._stopped:
            self._let_go_soon(group)

    def _propose(
        self, order: Order, process: int, group: Group, key: str, *, is_waiting: bool
    ) -> bool:
        """Whether the proposal is, so far, that of the others; it isn't pending any more if they all have made it."""
        index = order.counts[process] - order.done
        if index == len(order.positions):
            order.positions.append(Position(key, set(), set()))
        position = order.positions[index]
        if position.key != key:
            proposals = {**dict.fromkeys(position.members, position.key), process: key}
            self._reject(proposals, [group], {process} if is_waiting else None)
            return False
        order.counts[process] += 1
        position.members.add(process)
        if is_waiting:
            position.waiting.add(process)
        if len(position.members) == len(group):
            order.positions.popleft()
            order.done += 1
            if order.timer is not None:
                order.timer.cancel()
                order.timer = None
            self._last.update(dict.fromkeys(group, key))
            for member in position.waiting:
                del self._place[member]
                self._send(member, "agreed")
        return True

    def stop(self, process: int, reason: str | None) -> None:
        """`process` proposes nothing for now, for `reason`; None if it continues. Its waiting peers get an error."""
        self._stopped.pop(process, None)
        if reason is not None:
            self._stopped[process] = reason
            for group in self._orders:
                self._let_go_soon(group)

    def _let_go_soon(self, group: Group) -> None:
        asyncio.get_running_loop().call_later(_STOPPED_PEER_GRACE_SECONDS, self._let_go, group)

    def _let_go(self, group: Group) -> None:
        """Report stopped processes to the members of `group` that wait for them."""
        order = self._orders[group]
        missing = self._missing(group)
        stopped = [
            [process, self._stopped[process]] for process in missing if process in self._stopped
        ]
        if not stopped:
            return
        if order.is_launched():
            for process, reason in stopped:
                self._fail.process(process, reason)
            return
        for process in self._dismiss(group):
            self._send(process, "stopped", stopped=stopped[:_MAX_QUOTED_PROCESSES])

    def withdraw(self, process: int) -> None:
        """`process` doesn't wait any more; the answer follows what it may have been told before."""
        self.forget(process)
        self._send(process, "withdrawn")

    def forget(self, process: int) -> None:
        """`process` doesn't wait any more."""
        group = self._place.pop(process, None)
        if group is not None:
            order = self._orders[group]
            order.remove(process)
            self._set_timer(order, group)

    def _dismiss(self, group: Group) -> set[int]:
        """The waiting members of `group`, whose proposals are taken back."""
        order = self._orders[group]
        waiting = order.waiting()
        for process in waiting:
            self.forget(process)
        return waiting

    def _set_timer(self, order: Order, group: Group) -> None:
        """Limit the time until all members have made the proposal at the order's first position."""
        if order.timer is None and order.positions:
            loop = asyncio.get_running_loop()
            order.timer = loop.call_later(order.seconds, self._give_up, group)
        elif order.timer is not None and not order.positions:
            order.timer.cancel()
            order.timer = None

    def _give_up(self, group: Group) -> None:
        order = self._orders[group]
        order.timer = None
        missing = list(self._missing(group))
        if order.is_launched():
            text = self._text(order.positions[0].key)[1]
            for process in missing:
                self._fail.process(process, f"it did not come to {text} within {order.seconds:g} s")
            return
        last = [
            [[process], self._last_text(process)] for process in missing[:_MAX_QUOTED_PROCESSES]
        ]
        self._end(
            [group], {"event": "late", "missing": missing, "last": last, "seconds": order.seconds}
        )

    def _reject(
        self, proposals: dict[int, str], groups: list[Group], arrived: Iterable[int] | None = ()
    ) -> None:
        """End what `groups` propose: an error for each member, of which those `arrived` haven't begun to wait.

        The job fails if a member has launched its program: one of the groups', or that just proposed (None).
        """
        quoted = self._quoted(proposals)
        if arrived is None or any(self._orders[group].is_launched() for group in groups):
            self._fail.order(quoted)
        else:
            self._end(groups, {"event": "disagreed", "said": quoted}, arrived)

    def _end(
        self, groups: list[Group], outcome: dict[str, Any], arrived: Iterable[int] = ()
    ) -> None:
        """Deliver `outcome` to all members of `groups`: to the waiting and `arrived` ones now, to others when they come."""
        present = {*arrived}.union(*[self._dismiss(group) for group in groups])
        for process in present:
            self._place.pop(process, None)
            self._send(process, **outcome)
        for group in groups:
            self._owed.update({(group, process): outcome for process in set(group) - present})

    def _quoted(self, proposals: dict[int, str]) -> list[Any]:
        """[processes, subject, proposal] for each different proposal."""
        by_key = {}
        for process, key in sorted(proposals.items()):
            by_key.setdefault(key, []).append(process)
        quoted = [[members, *self._text(key)] for key, members in by_key.items()]
        return sorted(quoted)[:_MAX_QUOTED_PROCESSES]

    def _text(self, key: str) -> tuple[str, str]:
        """(subject, proposal) of a key; what a launch adds to its program's key is a digest of argument values."""
        program, _, contents = key.partition(":")
        if key in self._texts or program not in self._texts:
            return self._texts.get(key, ("a program", key))
        what, text = self._texts[program]
        return what, f"{text}, arguments of its own with contents {contents}"

    def _last_text(self, process: int) -> str:
        if process not in self._last:
            return "nothing yet"
        return ": ".join(self._text(self._last[process]))

    def _circle(self, process: int) -> list[Group]:
        """Groups whose members wait for each other, `process` among them; empty if there is a way out."""
        seen = set()

        def way_back(group: Group) -> list[Group]:
            seen.add(group)
            for other in self._missing(group):
                if other == process:
                    return [group]
                place = self._place.get(other)
                if place is not None and place not in seen and (rest := way_back(place)):
                    return [group, *rest]
            return []

        place = self._place.get(process)
        return [] if place is None else way_back(place)

    def _missing(self, group: Group) -> Iterable[int]:
        """Members that have not made the proposal at the order's first position."""
        positions = self._orders[group].positions
        if not positions:
            return []
        return [member for member in group if member not in positions[0].members]
