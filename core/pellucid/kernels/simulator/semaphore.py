"""Semaphores of simulated cores, and copies in flight that will signal them."""

from __future__ import annotations

from typing import Any, Protocol

from .clocks import Agent, Clock, Signal, needed


class InFlight(Protocol):
    """What will signal a semaphore: a copy."""

    issuer: Any
    n_bytes: int
    ends: float

    def goes_on_for(self, sem: Semaphore) -> None:
        """Do what the semaphore waits for."""
        ...


class Semaphore:
    """A number that signals raise and waits take away, for copies a number of bytes."""

    __slots__ = ("count", "last_copy", "name", "pending", "signals", "taken")

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        self.taken = 0
        """What waits have taken away."""
        self.signals: dict[Any, list[Signal]] = {}
        """By issuer, in the order of arrival."""
        self.pending: list[InFlight] = []
        """Copies that will signal it, in the order in which they started."""
        self.last_copy = ""
        """Which copy has signalled it last, in words."""

    def signal(self, amount: int, issuer: Any, clock: Clock, at: float) -> None:
        """Raise it by `amount`, on behalf of `issuer`."""
        self.count += amount
        row = self.signals.setdefault(issuer, [])
        row.append(Signal((row[-1].sum if row else 0) + amount, clock, at))

    def take(self, agent: Agent, value: int, *, decrement: bool) -> float:
        """End a wait of `agent` for `value`, and say when the last signal that it needed arrived."""
        in_flight: dict[Any, int] = {}
        for copy in self.pending:
            in_flight[copy.issuer] = in_flight.get(copy.issuer, 0) + copy.n_bytes
        at = 0.0
        for signal in needed(self.signals, in_flight, self.taken + value):
            agent.joins(signal.clock)
            at = max(at, signal.at)
        if decrement:
            self.count -= value
            self.taken += value
        if not self.count and not self.pending:
            # Its core has taken over all clocks.
            self.signals.clear()
            self.taken = 0
        return at


class Semaphores:
    """Semaphores of one core by their positions, of a reference to an array of them."""

    __slots__ = ("by_position", "device", "is_of_copies", "key", "name", "owner", "shape")

    def __init__(
        self, name: str, shape: tuple[int, ...], device: int, owner: str, *, is_of_copies: bool
    ) -> None:
        self.name, self.shape, self.device, self.owner = name, shape, device, owner
        self.is_of_copies = is_of_copies
        self.key: Any = None
        """Under what those of another device are found: (core, key)."""
        self.by_position: dict[tuple[int, ...], Semaphore] = {}

    def at(self, position: tuple[int, ...]) -> Semaphore:
        """The semaphore at a position."""
        found = self.by_position.get(position)
        if found is None:
            place = f"[{', '.join(map(str, position))}]" if position else ""
            found = Semaphore(f"`{self.name}{place}` of {self.owner}")
            self.by_position[position] = found
        return found
