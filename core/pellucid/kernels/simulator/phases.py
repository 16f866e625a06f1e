"""Barriers of a block: phases, who has arrived in each, and which of them each thread has waited for."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base.source import describe
from pellucid._machine.checks.errors import CheckError
from pellucid.kernels.gpu.memory import Barrier

from .clocks import Clock


class Phase(NamedTuple):
    """What a completed phase passes on: the clocks of all that arrived, and when the last one did."""

    clock: Clock
    at: float


class BarrierState:
    """A barrier: arrivals of the current phase, copies that have arrived and aren't made, phases that are complete."""

    def __init__(self, name: str, num_arrivals: int) -> None:
        self.name, self.num_arrivals = name, num_arrivals
        self.arrived: list[str] = []
        """Who has arrived in the current phase, for messages."""
        self.pending: list[Any] = []
        """Copies of the current phase that aren't made."""
        self.clock: Clock = {}
        self.at = 0.0
        self.phases: list[Phase] = []
        self.waited: dict[int, int] = {}
        """How many phases each thread has waited for, by its number."""

    def arrive(self, who: Any, copy: Any = None) -> None:
        """Let a thread, or a copy that it starts, arrive. Raises: CheckError where the phase has all of its arrivals."""
        text = f"{who.text()}, {describe(who.source)}"
        if len(self.arrived) == self.num_arrivals:
            raise CheckError(
                f"{who.text()} arrives at barrier {self.name}, whose phase has all of its arrivals and isn't complete.",
                got=self.arrived[:8],
                where=describe(who.source),
                do=f"It counts {self.num_arrivals}: state as many as there are in each phase, `Barrier(num_arrivals=…)`, or wait for the phase first.",
            )
        self.arrived.append(text)
        self._joins(who.released(), who.time)
        if copy is not None:
            self.pending.append(copy)
        self._complete()

    def made(self, copy: Any) -> None:
        """A copy that has arrived is made."""
        self.pending.remove(copy)
        self._joins(copy.released(), copy.ends)
        self._complete()

    def _joins(self, clock: Clock, at: float) -> None:
        for agent, time in clock.items():
            if self.clock.get(agent, -1) < time:
                self.clock[agent] = time
        self.at = max(self.at, at)

    def _complete(self) -> None:
        if len(self.arrived) == self.num_arrivals and not self.pending:
            self.phases.append(Phase(self.clock, self.at))
            self.arrived, self.clock = [], {}

    def is_complete(self, core: Any) -> bool:
        """Whether the phase is complete that a thread waits for next. Raises: CheckError where it has missed one."""
        n = self.waited.get(core.number, 0)
        if len(self.phases) > n + 1:
            raise CheckError(
                f"{core.text()} waits for phase {n} of barrier {self.name}, which has completed {len(self.phases)} of them since: a device tells only phases that are even from odd ones.",
                where=describe(core.source),
                do="Wait for each phase, or let those that arrive wait until this thread has gone on.",
            )
        return len(self.phases) > n

    def goes_on(self, random: Any) -> bool:
        """Let one of the copies of the current phase be made; False if there is none."""
        if not self.pending:
            return False
        k = 0 if random is None else int(random.integers(len(self.pending)))
        self.pending[k].write()
        return True

    def take(self, core: Any, *, counts: bool) -> None:
        """Let a thread know of the phase that it has waited for."""
        n = self.waited.get(core.number, 0)
        phase = self.phases[n]
        core.joins(phase.clock)
        if counts:
            self.waited[core.number] = n + 1
            core.time = max(core.time, phase.at)


class PhaseWait(NamedTuple):
    """What a thread waits for: the next phase of a barrier."""

    state: BarrierState
    core: Any

    def ends(self, core: Any) -> bool:
        """Whether the phase is complete, after the copies that it waits for are made."""
        state = self.state
        while not state.is_complete(core):
            if len(state.arrived) < state.num_arrivals or not state.goes_on(core.machine.random):
                return False
        start = core.time
        state.take(core, counts=True)
        core.note("wait", start, state.name)
        return True

    def is_met(self) -> bool:
        """Whether it ends as soon as it is the thread's turn."""
        return len(self.state.phases) > self.state.waited.get(self.core.number, 0)

    def text(self) -> str:
        """What is missing, for messages."""
        state, n = self.state, self.state.waited.get(self.core.number, 0)
        return f"waits for phase {n} of barrier {state.name}, which has {len(state.arrived)} of {state.num_arrivals} arrivals"


class Barriers:
    """The barriers of a reference, by position."""

    def __init__(self, name: str, kind: Barrier, owner: str) -> None:
        self.name, self.kind, self.shape, self.owner = name, kind, kind.shape, owner
        self.dtype = kind.dtype
        self.states = np.empty(self.shape, object)
        for position in np.ndindex(*self.shape):
            place = f"[{', '.join(map(str, position))}]" if self.states.size > 1 else ""
            self.states[position] = BarrierState(f"`{name}{place}`", kind.num_arrivals)

    def __str__(self) -> str:
        return f"`{self.name}` (barrier of {self.owner})"
