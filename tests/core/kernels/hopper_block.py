"""What warpgroups of a block share in the interpreter of kernels for Hopper GPUs: memories, barriers, turns, and what each knows of the others."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

THREADS, MAX_WARPGROUPS = 128, 8


class Agent(NamedTuple):
    """A warpgroup: its number, by warpgroup the time before which it knows all that it did, and the copies that it has waited for."""

    number: int
    clock: np.ndarray
    copies: set[int]

    @property
    def now(self) -> int:
        """Its own time: the number of barriers before."""
        return int(self.clock[self.number])

    def threads(self, active: np.ndarray) -> np.ndarray:
        """The numbers in the block of its threads."""
        return np.flatnonzero(active) + THREADS * self.number


class Bytes:
    """A memory: its bytes, and of each which thread wrote it, which one of each warpgroup read it last, and when, at that warpgroup's time."""

    def __init__(self, data: np.ndarray, is_written: bool, n_warpgroups: int = 1) -> None:
        self.data = data
        n = len(data)
        self.is_written = np.full(n, is_written)
        self.writer, self.written = np.full(n, -1), np.full(n, -1)
        self.readers, self.read_at = [np.full((n_warpgroups, n), -1) for _ in range(2)]
        self.copy = np.full(n, -1)
        """Numbers of the copies that have brought them."""
        self.is_unfenced = np.zeros(n, bool)
        """Written by a thread, not yet seen by copies and matrix products."""
        self.in_flight = np.zeros(n, bool)
        """Written by a copy that nobody has waited for."""
        self.uses = np.zeros(n, int)
        """Numbers of copies and products that still read it."""

    def read(self, offsets: np.ndarray, threads: np.ndarray, size: int, agent: Agent) -> np.ndarray:
        """What `threads` of a warpgroup read at `offsets`, `size` bytes each: an array of a row of bytes for each."""
        places = self._places(offsets, size)
        assert self.is_written[places].all(), "a read of what nobody has written"
        mine = threads[:, None]
        assert not (self.is_unknown(places, agent) & (self.writer[places] != mine)).any(), "a read of what another thread has written since the last barrier"  # fmt: skip
        self.check_copies(places, agent, "a read")
        # Of several readers -2 is noted.
        reader, read_at = self.readers[agent.number], self.read_at[agent.number]
        again = (read_at[places] == agent.now) & (reader[places] != mine)
        counts = np.bincount(places.ravel(), minlength=1)
        several = again | (counts[places] > 1)
        reader[places] = np.where(several, -2, mine)
        read_at[places] = agent.now
        return self.data[places]

    def write(
        self, offsets: np.ndarray, threads: np.ndarray, rows: np.ndarray, agent: Agent
    ) -> None:
        """Write rows of bytes at `offsets`."""
        places = self._places(offsets, rows.shape[1])
        assert len(np.unique(places)) == places.size, "threads write to one place"
        assert not self.uses[places].any(), "a write of what a copy or product still reads"
        self.check_copies(places, agent, "a write")
        mine = threads[:, None]
        assert not (self.is_unknown(places, agent) & (self.writer[places] != mine)).any(), "a write of what another thread has written since the last barrier"  # fmt: skip
        assert not self.is_read(places, agent, mine), "a write of what another thread has read since the last barrier"  # fmt: skip
        self.data[places] = rows
        self.is_written[places] = self.is_unfenced[places] = True
        self.writer[places], self.written[places] = mine, agent.now
        self.copy[places] = -1

    def is_unknown(self, places: np.ndarray, agent: Agent) -> np.ndarray:
        """Which bytes threads have written at a time that a warpgroup doesn't know to be over."""
        writer = np.maximum(self.writer[places], 0) // THREADS
        writer = np.minimum(writer, len(agent.clock) - 1)  # of blocks before
        return self.written[places] >= agent.clock[writer]

    def is_read(self, places: np.ndarray, agent: Agent, mine: Any = -1) -> bool:
        """Whether another thread than `mine` has read bytes at a time that a warpgroup doesn't know to be over."""
        for group, now in enumerate(agent.clock):
            other = self.readers[group][places] != mine
            if (other & (self.read_at[group][places] >= now)).any():
                return True
        return False

    def check_copies(self, places: np.ndarray, agent: Agent, what: str) -> None:
        """Raise for bytes that a copy may still bring, or has brought to a barrier that a warpgroup hasn't waited for."""
        assert not self.in_flight[places].any(), f"{what} of what a copy may still write"
        assert {*np.unique(self.copy[places])} <= {-1, *agent.copies}, f"{what} of what a copy has brought that this warpgroup hasn't waited for"  # fmt: skip

    def _places(self, offsets: np.ndarray, size: int) -> np.ndarray:
        assert (offsets % min(size, 16) == 0).all(), "an address that isn't aligned"
        places = offsets[:, None] + np.arange(size)
        assert ((places >= 0) & (places < len(self.data))).all(), "outside of the memory"
        return places


class Barrier:
    """A barrier in shared memory: how many arrivals and bytes its phase lacks, and the copies that bring them."""

    def __init__(self, arrivals: int) -> None:
        self.arrivals = self.pending = arrivals
        self.bytes = 0
        self.phase = 0
        self.copies: list[Any] = []
        self.known: list[Agent] = []
        """What those know who have arrived in the phase at hand."""
        self.of_phases: list[Agent] = []
        """What those know who have arrived before it."""
        self.brought: set[int] = set()
        """Numbers of the copies that have come."""

    def arrive(self, agent: Agent, n_bytes: int = 0) -> None:
        """Count an arrival, and bytes that are to come."""
        self.bytes += n_bytes
        self.pending -= 1
        assert self.pending >= 0, "more arrivals than a barrier counts"
        self.known.append(Agent(agent.number, agent.clock.copy(), {*agent.copies}))
        self.settle()

    def settle(self) -> None:
        """Begin the next phase if this one lacks nothing."""
        if self.pending == 0 and self.bytes == 0:
            self.phase += 1
            self.pending = self.arrivals
            self.of_phases, self.known = self.known, []


class Team:
    """The warpgroups of a block: they take turns, each until it waits for what hasn't happened."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.turns = [threading.Semaphore(0) for _ in range(count)]
        self.is_done = [False] * count
        self.in_vain = 0
        self.errors: list[BaseException] = []
        self.meeting: list[Agent] = []
        self.meetings = 0
        self.agreed: list[Agent] = []
        self.registers = [65536 // (THREADS * count) // 8 * 8] * count

    def run(self, programs: list[Callable[[], None]]) -> None:
        """Run a program for each warpgroup to its end."""
        threads = [threading.Thread(target=self._run, args=row) for row in enumerate(programs)]
        for thread in threads:
            thread.start()
        self.turns[-1].release()  # the last one first
        for thread in threads:
            thread.join()
        if self.errors:
            raise self.errors[0]

    def _run(self, number: int, program: Callable[[], None]) -> None:
        self.turns[number].acquire()
        try:
            if not self.errors:
                with np.errstate(all="ignore"):
                    program()
        except BaseException as error:
            self.errors.append(error)
        self.is_done[number] = True
        self.in_vain = 0
        self._pass_on(number)

    def _pass_on(self, number: int) -> None:
        rest = [(number + 1 + i) % self.count for i in range(self.count)]
        for other in rest:
            if not self.is_done[other]:
                self.turns[other].release()
                return

    def wait_until(self, number: int, is_so: Callable[[], bool]) -> None:
        """Let others go on until something is so."""
        while not is_so():
            self.in_vain += 1
            assert self.in_vain <= 2 * self.is_done.count(False), "a wait without end"
            if self.count > 1:
                self._pass_on(number)
                self.turns[number].acquire()
            assert not self.errors, "another warpgroup has failed"
        self.in_vain = 0
