"""What the processes of a job say where they meet, as process 0 hears it, and what comes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

_MOST_LINES = 5
"""Of what many processes say, so much is told: a message has to stay short."""
_SECONDS_TO_GO_ON = 1.0
"""So long is one waited for that has stopped: it may be about to go on."""
Group = tuple[int, ...]
Tell = Callable[..., None]
"""`tell(process, event, **fields)` sends a message to a member."""


class Agreements:
    """Decides when the members of a group may go on: when all of them have come and have said the same.

    A process waits at one place at a time. So the processes of a group meet in one order, which needs no numbers,
    and processes that wait for each other at different places will do so for ever, which is found at once.
    """

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._said: dict[Group, dict[int, tuple[str, str]]] = {}
        """By group, what those said who wait."""
        self._place: dict[int, Group] = {}
        """Where each process waits that does."""
        self._last: dict[int, str] = {}
        """On what each process agreed last."""
        self._owed: dict[tuple[Group, int], dict[str, Any]] = {}
        """What those hear as soon as they come who weren't there when it was decided."""
        self._stopped: dict[int, str] = {}
        """Who does no more for now, and why."""
        self._timers: dict[Group, asyncio.TimerHandle] = {}

    def come(self, process: int, group: Group, what: str, said: str, seconds: float) -> None:
        """`process` says `said` about `what` to its `group`, and waits `seconds` at most for the others."""
        self._stopped.pop(process, None)
        owed = self._owed.pop((group, process), None)
        if owed is not None:
            self._tell(process, **owed)
            return
        here = self._said.setdefault(group, {})
        here[process] = what, said
        self._place[process] = group
        loop = asyncio.get_running_loop()
        if len(here) == 1:
            self._timers[group] = loop.call_later(seconds, self._give_up, group, seconds)
        if len(set(here.values())) > 1:
            self._refuse([group])
        elif len(here) == len(group):
            for member in self._dismiss(group):
                self._last[member] = f"{what}: {said}"
                self._tell(member, "agreed")
        elif circle := self._circle(process):
            self._refuse(circle)
        elif self._stopped:
            loop.call_later(_SECONDS_TO_GO_ON, self._let_go, group)

    def stop(self, process: int, reason: str | None) -> None:
        """`process` comes nowhere for now, for `reason`: who waits for it then, or later, is told; None if it goes on."""
        self._stopped.pop(process, None)
        if reason is not None:
            self._stopped[process] = reason
            for group in self._said:
                asyncio.get_running_loop().call_later(_SECONDS_TO_GO_ON, self._let_go, group)

    def _let_go(self, group: Group) -> None:
        """Tell those who wait in `group` for one that has stopped."""
        missing = self._missing(group) if group in self._said else ()
        stopped = [
            [process, self._stopped[process]] for process in missing if process in self._stopped
        ]
        if stopped:
            for process in self._dismiss(group):
                self._tell(process, "stopped", stopped=stopped[:_MOST_LINES])

    def withdraw(self, process: int) -> None:
        """`process` doesn't wait any more; it hears that after what it may have been told before."""
        self.forget(process)
        self._tell(process, "withdrawn")

    def forget(self, process: int) -> None:
        """`process` doesn't wait any more."""
        group = self._place.pop(process, None)
        if group is not None:
            del self._said[group][process]
            if not self._said[group]:
                self._dismiss(group)

    def _dismiss(self, group: Group) -> list[int]:
        """Who waited in `group`; they don't any more."""
        here = list(self._said.pop(group))
        self._timers.pop(group).cancel()
        for process in here:
            self._place.pop(process, None)
        return here

    def _give_up(self, group: Group, seconds: float) -> None:
        missing = [process for process in group if process not in self._said[group]]
        named = missing[:_MOST_LINES]
        last = [[[process], self._last.get(process, "nothing yet")] for process in named]
        self._end([group], {"event": "late", "missing": missing, "last": last, "seconds": seconds})

    def _refuse(self, groups: list[Group]) -> None:
        by_text: dict[tuple[str, str], list[int]] = {}
        for group in groups:
            for process, text in self._said[group].items():
                by_text.setdefault(text, []).append(process)
        said = [[sorted(who), *text] for text, who in by_text.items()]
        self._end(groups, {"event": "disagreed", "said": sorted(said)[:_MOST_LINES]})

    def _end(self, groups: list[Group], outcome: dict[str, Any]) -> None:
        """Tell all members of `groups` the `outcome`: those who wait at once, the others when they come."""
        waiting = {group: self._dismiss(group) for group in groups}
        told = {process for here in waiting.values() for process in here}
        for process in told:
            self._tell(process, **outcome)
        for group in groups:
            self._owed.update({(group, process): outcome for process in set(group) - told})

    def _circle(self, process: int) -> list[Group]:
        """Groups whose members wait for each other, `process` among them; empty if there is a way out."""
        seen: set[Group] = set()

        def way_back(group: Group) -> list[Group]:
            seen.add(group)
            for other in self._missing(group):
                if other == process:
                    return [group]
                place = self._place.get(other)
                if place is not None and place not in seen and (rest := way_back(place)):
                    return [group, *rest]
            return []

        return way_back(self._place[process])

    def _missing(self, group: Group) -> Iterable[int]:
        return (member for member in group if member not in self._said[group])
