"""Which accesses are ordered: vector clocks of cores and copies, what semaphores pass on, and races.

An agent is a core or a copy in flight. Its clock says, for each agent, up to which of its times everything has happened before. A
signal passes the clock on; a wait takes over the clocks of the signals without which it couldn't have ended, in any order of events.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from pellucid._machine.base.source import describe
from pellucid._machine.checks.errors import CheckError

from .memory import Buffer, Region, overlap

Clock = dict[int, int]


class Agent:
    """What accesses memory by itself: a core, or a copy in flight."""

    clock: Clock
    number: int
    source: Any
    """The user's line that it is at."""
    name: str
    """The device and core, for messages."""
    program: str
    """The position in the grid, for messages."""
    time: float
    """How far it is, in steps of simulated time."""

    def text(self) -> str:
        """Which one it is, for messages."""
        raise NotImplementedError(type(self))

    def released(self) -> Clock:
        """Its clock for whoever waits for it; what it does from now on comes later."""
        clock = dict(self.clock)
        self.clock[self.number] += 1
        return clock

    def joins(self, clock: Clock) -> None:
        """Let everything that `clock` knows of have happened before."""
        own = self.clock
        for agent, time in clock.items():
            if own.get(agent, -1) < time:
                own[agent] = time


class Access(NamedTuple):
    """An access to a region of a buffer, by an agent at a time of its own clock."""

    agent: int
    time: int
    region: Region
    is_write: bool
    text: str
    source: Any


def note_access(buffer: Buffer, region: Region, agent: Agent, *, is_write: bool) -> None:
    """Remember an access; raise CheckError if it isn't ordered with an earlier one of the same elements, of which one writes."""
    clock = agent.clock
    for other in buffer.accesses.values():
        if other.agent == agent.number or not (is_write or other.is_write):
            continue
        if clock.get(other.agent, -1) >= other.time:
            continue
        if overlap(region, other.region, buffer.array.shape):
            raise _race(buffer, other, Access(0, 0, region, is_write, agent.text(), agent.source))
    key = agent.number, is_write, region.text(), agent.source
    buffer.accesses[key] = Access(
        agent.number, clock[agent.number], region, is_write, agent.text(), agent.source
    )


def _race(buffer: Buffer, first: Access, second: Access) -> CheckError:
    rows = []
    for access in (first, second):
        verb = "writes" if access.is_write else "reads"
        line = describe(access.source)
        where = "" if line is None else f", {line}"
        rows.append(f"{access.text} {verb} {access.region.text()}{where}")
    return CheckError(
        f"a race: nothing orders two accesses to {buffer}.",
        got=rows,
        do="Wait for the copy, or let a semaphore or a barrier order them: what happens first differs from run to run on a device.",
    )


class Signal(NamedTuple):
    """A signal: the sum of those of its issuer up to it, the issuer's clock, and when it arrived."""

    sum: int
    clock: Clock
    at: float


def needed(
    signals: dict[Any, list[Signal]], in_flight: dict[Any, int], value: int
) -> Iterable[Signal]:
    """The signals without which a semaphore couldn't have had `value`, counted from its beginning, in any order of arrival.

    Signals of one issuer arrive in their order. `in_flight` is what each issuer has sent beside those that have arrived.
    """
    sums = {issuer: row[-1].sum for issuer, row in signals.items()}
    total = sum(sums.values()) + sum(in_flight.values())
    for issuer, row in signals.items():
        missing = value - (total - sums[issuer] - in_flight.get(issuer, 0))
        if missing > 0:
            found = next((signal for signal in row if signal.sum >= missing), None)
            if found is not None:
                yield found
