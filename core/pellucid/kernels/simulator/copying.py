"""Copies in flight: they read their source and write their target beside the program that has started them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.refs.index import RefIndex

from . import memory
from .clocks import Agent, note_access
from .memory import Buffer, Place, Region
from .semaphore import Semaphore

BYTES_PER_STEP = 1 << 10
"""Bytes that a copy moves, and elements that a core computes, in one step of simulated time."""
LATENCY = 1
"""Steps that a copy takes besides."""


def copy_steps(n_bytes: int) -> float:
    """Steps of simulated time that a copy of `n_bytes` takes."""
    return LATENCY + n_bytes / BYTES_PER_STEP


class Window(NamedTuple):
    """A part of a buffer: the place of the first index, and the steps behind it."""

    place: Place
    steps: tuple[tuple[Any, tuple[Any, ...]], ...]
    nothing: Any = None
    """What elements outside of the buffer are; undefined if that is None."""

    def value(self, array: np.ndarray) -> np.ndarray:
        """What the part holds in `array`, a buffer's."""
        nothing = memory.undefined_element(array.dtype) if self.nothing is None else self.nothing
        value = memory.read(array, self.place, nothing)
        for step, operands in self.steps:
            value = memory.stepped(value, step, operands)
        return value

    def write(self, array: np.ndarray, value: Any, *, add: bool) -> None:
        """Let the part hold `value`, or add it."""
        if not self.steps:
            memory.write(array, self.place, value, add=add)
            return
        part = memory.read(array, self.place, memory.undefined_element(array.dtype))
        memory.write(array, self.place, memory.changed(part, self.steps, value, add=add))

    def region(self, shape: tuple[int, ...]) -> Region:
        """The elements of an array of `shape` that it has."""
        if not any(type(step) is RefIndex for step, _ in self.steps):
            return memory.within(self.place.region, shape)
        positions = np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape)
        return memory.points_of(self.value(positions).ravel(), shape)


class Copy(Agent):
    """A copy that has started: its window of the source, then that of the target.

    A copy to a named device signals one semaphore when it has read, and another one when it has written; a copy within a core signals one.
    """

    def __init__(
        self,
        number: int,
        core: Agent,
        source: tuple[Buffer, Window],
        target: tuple[Buffer, Window],
        sems: tuple[Semaphore | None, Semaphore | None],
        *,
        is_remote: bool,
        add: bool,
        finds_races: bool,
        ended: Callable[[Copy], None],
    ) -> None:
        self.number, self.name = number, core.name
        self.core = core
        self.clock = core.released()
        self.clock[number] = 0
        self.source, self.program, self.time = core.source, core.program, core.time
        self.read_from, self.write_to = source, target
        self.send_sem, self.recv_sem = sems
        self.add, self.finds_races, self.ended = add, finds_races, ended
        self.issuer: Any = core.number if is_remote else ("copy", number)
        self.data: np.ndarray | None = None
        self.is_done = False
        buffer, window = source
        shape = window.value(buffer.array).shape
        self.n_bytes = int(np.prod(shape, dtype=np.int64)) * buffer.array.dtype.itemsize
        self.ends = self.time + copy_steps(self.n_bytes)
        for sem in (self.send_sem, self.recv_sem):
            if sem is not None:
                sem.pending.append(self)

    def text(self) -> str:
        """Who has started it."""
        return f"a copy started by {self.name}{self.program}"

    def brief(self) -> str:
        """Its buffers by their names, as the core that has started it sees them."""
        device = self.read_from[0].device
        return f"{self.read_from[0].brief(device)} to {self.write_to[0].brief(device)}"

    def read(self) -> None:
        """Read the source, and signal that."""
        if self.data is not None:
            return
        buffer, window = self.read_from
        if self.finds_races:
            note_access(buffer, window.region(buffer.array.shape), self, is_write=False)
        self.data = window.value(buffer.array)
        self._signal(self.send_sem)

    def write(self) -> None:
        """Write the target, and signal that."""
        self.read()
        if self.is_done:
            return
        self.is_done = True
        buffer, window = self.write_to
        if self.finds_races:
            note_access(buffer, window.region(buffer.array.shape), self, is_write=True)
        window.write(buffer.array, self.data, add=self.add)
        self.ended(self)
        self._signal(self.recv_sem)

    def _signal(self, sem: Semaphore | None) -> None:
        if sem is not None:
            sem.pending.remove(self)
            sem.last_copy = self.brief()
            sem.signal(self.n_bytes, self.issuer, self.released(), self.ends)

    def goes_on_for(self, sem: Semaphore) -> None:
        """Do what `sem` waits for."""
        if sem is self.recv_sem:
            self.write()
        else:
            self.read()
