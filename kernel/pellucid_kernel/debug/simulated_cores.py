"""Steps through a kernel in the simulator: by the user's lines, on each device, core or thread, forwards and backwards."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from pellucid.introspect.errors import ArgumentValueError, PellucidError
from pellucid.introspect.simulation import (
    Core,
    Level,
    SimulatedRun,
    copies_in_flight,
    known_value,
    noted_value,
    value_of,
)
from pellucid.introspect.stepping import is_variable, latest_variables
from pellucid_kernel.debug.equation_stacks import Line
from pellucid_kernel.debug.visits import Visit, visits_of

_LOOPS = ("scan", "while")


class CoreState(NamedTuple):
    """What a core does: a row of the table of cores."""

    name: str
    program: str
    """The position in the grid, in words; empty if it isn't in one."""
    line: Line | None
    state: str
    """`its turn`, `can go on`, `waits for …`, `hasn't begun`, `has ended`, or `failed`."""
    in_flight: list[str]
    """Its copies in flight."""
    is_chosen: bool


class CoreFrame(NamedTuple):
    """A user's line in the stack of a core."""

    line: Line
    run: str
    """The device or core and its program for the body of the kernel, the iteration for one of a loop."""
    level: Level
    depth: int
    """Index of the function within its program."""


Key = tuple[int, int]
"""(call of a program, function call within it)."""


class SimulatedCores:
    """A run of a simulated kernel, stopped before a line of one of its cores.

    Cores take turns as they do without a debugger: to step one lets the others go as far as they would until it is at its next line.
    """

    def __init__(self, run: SimulatedRun, outer: Line | None) -> None:
        self._run = run
        self._outer = outer
        """The line that calls the kernel."""
        self.chosen = ("", 0)
        """The core that is shown and stepped, as `_identity` has it."""
        self._begin()

    def _begin(self) -> None:
        self._run.restart()
        self._core: Core | None = None
        self._cores: list[Core] = []
        self._pending: list[Visit] = []
        """The visits that begin where the run pauses, after the current one."""
        self._visit: Visit | None = None
        self._reached: dict[Level, int] = {}
        """Up to which position of each program its lines have been visited."""
        self.count = 0
        """The number of the stop at which it is, from 1 on."""
        self.has_ended = False
        self._is_broken_off = False
        self.failure: BaseException | None = None

    @property
    def results(self) -> list[list[Any]]:
        """The results of each machine; only at the end."""
        return self._run.results

    # Cores ------------------------------------------------------------------------------------------------------

    def cores(self) -> list[CoreState]:
        """What each device, core or thread does."""
        return [self._state(core) for core in self._cores]

    def choose(self, number: int) -> None:
        """Show and step another core, by its row in `cores()`. Raises: ArgumentValueError if there is none."""
        if not 0 <= number < len(self._cores):
            raise ArgumentValueError(
                "there is no such row in the table of cores.",
                got=str(number),
                do=f"Name one from 0 to {len(self._cores) - 1}: `cores` lists them.",
            )
        self.chosen = _identity(self._cores[number])

    @property
    def core(self) -> Core | None:
        """The core that is shown."""
        found = (core for core in self._cores if _identity(core) == self.chosen)
        return next(found, self._core)

    def _state(self, core: Core) -> CoreState:
        frames = self.stack(core)
        if self.failure is not None and core.machine.current is core:
            state = "failed"
        elif core.waiting is not None and not core.waiting.is_met():
            state = core.waiting.text()
        elif core.has_ended:
            state = "has ended"
        elif not core.levels:
            state = "hasn't begun"
        else:
            state = "its turn" if core is self._core else "can go on"
        line = frames[-1].line if frames else None
        program = "" if core.has_ended else core.program.removeprefix(" in ")
        flights = copies_in_flight(core)
        return CoreState(_name(core), program, line, state, flights, core is self.core)

    # The stack --------------------------------------------------------------------------------------------------

    def stack(self, core: Core | None = None) -> list[CoreFrame]:
        """The lines of a core (default: the one that is shown), outermost first."""
        core = core or self.core
        if core is None:
            return []
        frames: list[CoreFrame] = []
        for depth, level in enumerate(core.levels):
            visit = self._visit_of(core, level)
            if visit is None:
                continue
            if frames and visit.calls[-1] < 0 and visit.lines[-1:] == (frames[-1].line,):
                continue  # a program that the library has made for that line
            for i, line in enumerate(visit.lines):
                run = self._run_text(core, depth) if i == 0 or not frames else ""
                frames.append(CoreFrame(line, run, level, i))
        return frames

    def _run_text(self, core: Core, depth: int) -> str:
        level = core.levels[depth]
        if level.ids is not None:
            name, program = _name(core), core.program.removeprefix(" in ")
            return f"({', '.join(filter(None, [name, program]))})"
        around = core.levels[depth - 1] if depth else None
        if around is None or around.position == len(around.jaxpr.equations):
            return ""
        caller = around.jaxpr.equations[around.position]
        return f"(iteration {level.turn})" if caller.primitive.name in _LOOPS else ""

    def _visit_of(self, core: Core, level: Level) -> Visit | None:
        """The visit at which a program of a core is; None before its first line."""
        if core is self._core and level is core.levels[-1] and self._visit is not None:
            return self._visit
        found = None
        for visit in visits_of(level.jaxpr):
            if visit.position > level.position:
                break
            found = visit
        return found

    def stack_of(self, number: int | None) -> list[CoreFrame]:
        """The lines of a core by its row in `cores()`, or of the one that is shown."""
        return self.stack(None if number is None else self._cores[number])

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """A context in which the core is shown whose turn it is."""
        before = self.chosen
        self._choose_current()
        try:
            yield
        finally:
            self.chosen = before

    def variables(self, frame: int, number: int | None = None) -> dict[str, Any]:
        """What the names of a frame of `stack_of(number)` refer to: arrays, what references hold now, what semaphores and barriers have."""
        core, row = (
            self.core if number is None else self._cores[number],
            self.stack_of(number)[frame],
        )
        assert core is not None
        visit = self._visit_of(core, row.level)
        held = None if visit is None else visit.held[row.depth]
        levels = core.levels[: core.levels.index(row.level) + 1]
        found: dict[str, Any] = {}
        if held is None:
            names = latest_variables(row.level.jaxpr, row.level.position, row.line.function)
            for name, variable in names.items():
                if variable in row.level.values or row.level.position:
                    _add(found, name, lambda v=variable: value_of(known_value(row.level, v)))
            return found
        for name, value in held.items():
            if is_variable(value):
                _add(found, name, lambda v=value: noted_value(levels, v))
            else:
                found[name] = value
        return found

    # Steps ------------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Go to the next line of the core that is shown. These commands give whether there is one; there is none at the end of the run."""
        return self._go(self._is_chosen)

    def next(self) -> bool:
        """Go to its next line in the same function, over calls, or in a caller."""
        keys = self._keys()
        return self._go(lambda: self._is_chosen() and (not keys or self._keys()[-1] in keys))

    def out(self) -> bool:
        """Go to its next line in a caller of the function."""
        keys = self._keys()[:-1]
        return self._go(lambda: self._is_chosen() and self._keys()[-1] in keys)

    def run(self, stops: Callable[[], bool]) -> bool:
        """Go to the next line of any core at which `stops()`, and show that core."""
        return self._go(stops, chooses=True)

    def back(self) -> bool:
        """Go back to the line before of the core that is shown, over what it called."""
        keys = self._keys()
        return self._go_back(lambda: self._is_chosen() and (not keys or self._keys()[-1] in keys))

    def run_back(self, stops: Callable[[], bool]) -> bool:
        """Go back to the last line of any core at which `stops()`, and show that core."""
        return self._go_back(stops, chooses=True)

    def to_program(self, position: tuple[int, ...]) -> bool:
        """Go to the first line of the program at a position of the grid, of whichever core; False where it is if there is none."""
        before, chosen = self.count, self.chosen

        def stops() -> bool:
            core = self._core
            return core is not None and core.levels[0].ids == position and len(core.levels) == 1

        self._begin()
        if self._go(stops, chooses=True):
            return True
        self._to(before)
        self.chosen = chosen
        return False

    def to_end(self) -> None:
        """Go on to the end of the run."""
        self._go(lambda: False)

    @property
    def line(self) -> Line | None:
        """The line at which the run is."""
        return None if self._visit is None else self._visit.lines[-1]

    def _go(self, stops: Callable[[], bool], *, chooses: bool = False) -> bool:
        if self.failure is not None:
            raise self.failure
        while self._advance():
            if self.failure is not None or stops():
                if chooses or self.failure is not None or self.count == 1:
                    self._choose_current()
                return True
        return False

    def _choose_current(self) -> None:
        core = self._core
        if self.failure is not None and core is not None:
            core = core.machine.current or self.core
        if core is not None:
            self.chosen = _identity(core)

    def _go_back(self, stops: Callable[[], bool], *, chooses: bool = False) -> bool:
        """Go to the last stop before this one at which `stops()`: the run begins anew."""
        end = self.count + (self.has_ended or self.failure is not None)
        last = 0
        self._begin()
        while self.count + 1 < end and self._advance():
            if stops():
                last = self.count
        if last:
            self._to(last)
            if chooses:
                self._choose_current()
        return bool(last)

    def _to(self, count: int) -> None:
        """Go to a stop by its number."""
        self._begin()
        while self.count < count and self._advance():
            pass

    def _advance(self) -> bool:
        """Go to the next line of any core; False at the end. A failure is a stop, too."""
        if self._is_broken_off:
            self._to(self.count)
        while not self.has_ended:
            while self._pending:
                visit = self._pending.pop(0)
                if visit.is_stop and self._is_own(visit):
                    self._visit = visit
                    self.count += 1
                    if not self.chosen[0]:
                        self._choose_current()
                    return True
            self._visit = None
            try:
                core = self._run.advance()
            except PellucidError as error:
                self.failure = error
                return True
            except (
                BaseException
            ):  # an interrupt, which ends the run: it begins anew with the next command
                self._is_broken_off = True
                raise
            if core is None:
                self.has_ended = True
                break
            self._core = core
            if core not in self._cores:
                # Devices that don't reach each other have machines of their own, one after another.
                others = [each for each in self._cores if each.machine is not core.machine]
                self._cores = [*others, *core.machine.cores]
            self._arrive(core)
        return False

    def _arrive(self, core: Core) -> None:
        """Collect the visits that begin where a core has come to."""
        level = core.levels[-1]
        reached = self._reached.get(level, -1)
        self._pending = [
            v for v in visits_of(level.jaxpr) if reached < v.position <= level.position
        ]
        self._reached[level] = level.position
        if level.position == len(level.jaxpr.equations):
            del self._reached[level]

    def _is_own(self, visit: Visit) -> bool:
        """Whether a visit is a line of its own, and not one that its program has of its call's."""
        core = self._core
        if core is None or visit.calls[-1] > 0:
            return True
        around = [*core.levels[:-1]]
        lines = [found.lines[-1] for level in around if (found := self._visit_of(core, level))]
        caller = lines[-1] if lines else self._outer
        return visit.lines[-1] != caller

    def _is_chosen(self) -> bool:
        return self._core is not None and _identity(self._core) == self.chosen

    def _keys(self) -> list[Key]:
        """The functions that are active on the core that is shown, outermost first; none before its first line."""
        core = self.core
        keys: list[Key] = []
        for level in [] if core is None else core.levels:
            visit = self._visit_of(core, level)  # type: ignore[arg-type]
            keys += [(level.call, n) for n in (() if visit is None else visit.calls)]
        return keys


def _add(found: dict[str, Any], name: str, value: Callable[[], Any]) -> None:
    try:
        found[name] = value()
    except KeyError:  # what isn't computed yet
        return


def _identity(core: Core) -> tuple[str, int]:
    return core.name, core.machine.first_device


def _name(core: Core) -> str:
    """Its name; that of a machine of one device among several has the device's number."""
    first = core.machine.first_device
    return core.name.replace("device 0", f"device {first}", 1) if first else core.name


def table_of(rows: Sequence[CoreState]) -> str:
    """The table of cores as text.

    >>> table_of([CoreState("device 0", "", None, "has ended", [], True)])
    '> 0  device 0  has ended'
    """
    cells = [
        (
            f"{'>' if row.is_chosen else ' '} {i}",
            " ".join(filter(None, [row.name, row.program])),
            "" if row.line is None else f"line {row.line.line}",
            "; ".join([row.state, *[f"in flight: {each}" for each in row.in_flight]]),
        )
        for i, row in enumerate(rows)
    ]
    widths = [max([len(row[k]) for row in cells], default=0) for k in range(3)]
    return "\n".join(
        "  ".join(
            [*[text.ljust(n) for text, n in zip(row, widths, strict=False) if n], row[3]]
        ).rstrip()
        for row in cells
    )
