"""Kernels in the simulator in the form in which debuggers step through them: a run that pauses before each equation of a core, and runs again.

The order in which cores take turns is the machine's own, so a stepped run gives what the run gives that isn't stepped, bit for bit. Going
back is running again from the beginning; effects outside of the machine, as printing, happen once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.ir import Equation, Jaxpr, Literal, Values, Var
from pellucid._machine.tracing import bind
from pellucid._machine.tracing.current import ensure_compile_time_eval
from pellucid.kernels.simulator.call import Simulation, simulate_p
from pellucid.kernels.simulator.journal import Journal
from pellucid.kernels.simulator.machine import Core, Level
from pellucid.kernels.simulator.memory import Buffer
from pellucid.kernels.simulator.phases import Barriers, BarrierState
from pellucid.kernels.simulator.semaphore import Semaphores

from .noting import images_of

__all__ = [
    "BarrierValue", "Core", "Level", "SemaphoreValue", "SimulatedRun", "copies_in_flight", "is_simulated", "known_value", "simulated_body", "value_of",
]  # fmt: skip


def is_simulated(equation: Any) -> bool:
    """Whether an equation runs a kernel in the simulator."""
    return equation is not None and equation.primitive is simulate_p


def simulated_body(equation: Equation) -> Jaxpr | None:
    """The program of a kernel that an equation runs in the simulator; None for other equations."""
    params: Any = equation.params
    return params.simulation.kernel.body.jaxpr if is_simulated(equation) else None


class SimulatedRun:
    """The run of a simulated kernel, for the number and operands of each device that has a machine, in order.

    `advance` gives the core that comes next, before its next equation, and None at the end; then there are `results`.
    """

    def __init__(self, equation: Equation, devices: Sequence[tuple[int, Values]]) -> None:
        params: Any = equation.params
        self.simulation: Simulation = params.simulation
        self._devices = [(number, [*map(np.asarray, operands)]) for number, operands in devices]
        self._journals = [Journal() for _ in devices]
        self.restart()

    def restart(self) -> None:
        """Go back to the beginning."""
        for journal in self._journals:
            journal.rewind()
        self.results: list[list[np.ndarray]] = []
        """The results of each machine that has ended."""
        self.core: Core | None = None
        self._paused = self._steps()

    def advance(self) -> Core | None:
        """The core that comes next; None at the end. Raises: what the run raises."""
        self.core = next(self._paused, None)
        return self.core

    def finish(self) -> list[list[np.ndarray]]:
        """The results, after a run from its beginning to its end. Raises: what the run raises."""
        self.restart()
        while self.advance() is not None:
            pass
        return self.results

    def _steps(self) -> Generator[Core, None, None]:
        for (number, operands), journal in zip(self._devices, self._journals, strict=True):
            found = yield from self.simulation.steps(number, operands, journal)
            avals: Any = self.simulation.kernel.results
            self.results.append(
                [np.asarray(x, m.aval.dtype) for x, m in zip(found, avals, strict=True)]
            )


# What there is to look at ---------------------------------------------------------------------------------------


class SemaphoreValue(NamedTuple):
    """What a semaphore has, and the copies in flight that will signal it."""

    count: int  # pyright: ignore[reportIncompatibleMethodOverride]  # hides tuple.count
    in_flight: tuple[str, ...] = ()

    def __repr__(self) -> str:
        flights = f", signalled next by {'; '.join(self.in_flight)}" if self.in_flight else ""
        return f"{self.count}{flights}"


class BarrierValue(NamedTuple):
    """The phase of a barrier: how many are complete, and who has arrived in the next one."""

    phases: int
    num_arrivals: int
    arrived: tuple[str, ...] = ()
    in_flight: tuple[str, ...] = ()
    """Copies whose arrival it waits for."""

    def __repr__(self) -> str:
        flights = f", waits for {'; '.join(self.in_flight)}" if self.in_flight else ""
        return f"phase {self.phases}: {len(self.arrived)} of {self.num_arrivals} arrivals{flights}"


def value_of(held: Any) -> Any:
    """What a core has as a value, for those who look: what a buffer holds now, what semaphores and barriers have."""
    if type(held) is Buffer:
        return np.array(held.array) if held.counts is None else value_of(held.counts)
    if type(held) is Semaphores:
        return _by_position(held.shape, functools.partial(_semaphore, held))
    if type(held) is Barriers:
        return _by_position(held.shape, functools.partial(_barrier, held))
    return held


def _by_position(shape: tuple[int, ...], value: Callable[[tuple[int, ...]], Any]) -> Any:
    """One value, or nested lists of those at all positions."""
    if not shape:
        return value(())
    n, *rest = shape

    def of_row(i: int) -> Callable[[tuple[int, ...]], Any]:
        return lambda place: value((i, *place))

    return [_by_position(tuple(rest), of_row(i)) for i in range(n)]


def _semaphore(sems: Semaphores, place: tuple[int, ...]) -> SemaphoreValue:
    found: Any = sems.by_position.get(place)
    if found is None:
        return SemaphoreValue(0)
    return SemaphoreValue(found.count, tuple([copy.brief() for copy in found.pending]))


def _barrier(barriers: Barriers, place: tuple[int, ...]) -> BarrierValue:
    state: BarrierState = barriers.states[place]  # pyright: ignore[reportAssignmentType]  # an array of objects
    flights = tuple([copy.brief() for copy in state.pending])
    return BarrierValue(len(state.phases), state.num_arrivals, tuple(state.arrived), flights)


def copies_in_flight(core: Core) -> list[str]:
    """The copies and products that a core has started and that haven't ended."""
    found = [each for each in core.machine.in_flight if each.core is core]
    thread: Any = core
    waiting = [
        *getattr(thread, "loose", ()),
        *[c for g in getattr(thread, "groups", ()) for c in g],
    ]
    found += [copy for copy in waiting if not copy.is_done]
    texts = [f"copy of {copy.brief()}, {copy.n_bytes} bytes" for copy in found]
    products = [each for each in getattr(thread, "products", ()) if not each.is_made]
    return [*texts, *[f"product into `{each.acc.name}`" for each in products]]


def known_value(level: Level, variable: Var) -> Any:
    """The value of a variable of a program that a core runs. Raises: KeyError for one that isn't known there yet.

    Values within what is compiled as one are computed here, equation by equation; the run itself doesn't take them.
    """
    return _known(level, variable, {})


def _known(level: Level, variable: Any, found: dict[Any, Any]) -> Any:
    if variable in level.values:
        return level.values[variable]
    if variable not in found:
        jaxpr = level.jaxpr
        origins = jaxpr.remembered(
            "origins of a simulated program",
            lambda: {v: i for i, e in enumerate(jaxpr.equations) for v in e.results},
        )
        position = origins[variable]
        equation = jaxpr.equations[position]
        if position >= level.position or equation.effects:
            raise KeyError(variable)
        operands = [
            a.val if type(a) is Literal else _known(level, a, found) for a in equation.operands
        ]
        with ensure_compile_time_eval():
            results: Any = bind(equation.primitive, *operands, params=equation.params)
        found.update(zip(equation.results, results, strict=True))
    return found[variable]


def noted_value(levels: Sequence[Level], noted: Var) -> Any:
    """The value of a variable that was noted in a trace, in the innermost program that knows it. Raises: KeyError if none does."""
    for level in reversed(levels):
        images = images_of(level.jaxpr)
        own = noted if images is None else images.variables.get(noted, noted)
        try:
            return value_of(known_value(level, own))
        except KeyError:
            continue
    raise KeyError(noted)
