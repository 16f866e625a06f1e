"""Steps through a program and the programs within it, forwards and backwards: a stack of frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pellucid.introspect.compiling_ahead import compile_in_threads
from pellucid.introspect.errors import ArgumentValueError
from pellucid.introspect.stepping import (
    EquationRuns,
    SteppedFrame,
    Turn,
    can_enter,
    n_bytes,
    slots_of,
)

Matches = Callable[[Any], bool]
"""Whether to stop before an equation."""


NextRun = Callable[[int, int, bool], int | None]
"""Of the loop at a depth of the stack the first run from one on, or the last before it, to go through; None for none.

Its arguments are the depth, the run, and whether one goes forward.
"""


class Level:
    """A frame of the stack, and the call that it is a turn of: None for the outermost."""

    __slots__ = ("call", "frame", "turn", "visit")

    def __init__(
        self, frame: SteppedFrame, call: EquationRuns | None = None, turn: Turn = (0, 0)
    ) -> None:
        self.frame = frame
        self.call = call
        self.turn = turn
        self.visit: tuple[int, int] | None = None
        """(position, number of the visit where it stands there), see `visits`; None, or of another position, for the last there."""


class Stepper:
    """A program that stops before an equation of its own, or of a program within it; `budget` is in bytes of values."""

    def __init__(self, frame: SteppedFrame, budget: int = 1 << 30) -> None:
        self.levels = [Level(frame)]
        self.budget = budget
        self.passed: Callable[[Any, str], Any] | None = None
        """Called with an equation of which `run_to` can't enter the programs, though it is to stop there, and why."""

    @property
    def top(self) -> Level:
        """The innermost level."""
        return self.levels[-1]

    @property
    def equation(self) -> Any:
        """The next equation; None at the end of a program."""
        return self.top.frame.equation

    @property
    def is_done(self) -> bool:
        """Whether the outermost program has come to its end."""
        return len(self.levels) == 1 and self.equation is None

    @property
    def is_at_start(self) -> bool:
        """Whether nothing lies before this place."""
        return len(self.levels) == 1 and self.top.frame.position == 0

    def place(self) -> tuple[int, ...]:
        """Where it stopped: of each level the program, its run, and the position there."""
        return tuple([n for level in self.levels for n in (*level.turn, level.frame.position)][2:])

    # One equation -------------------------------------------------------------------------------------------

    def forward(self, *, into: bool = False) -> None:
        """Go over the next equation, or `into` its programs; at a program's end to the next run, or out of it."""
        level = self.top
        equation = level.frame.equation
        if equation is None:
            self._end_turn()
            return
        call = level.frame.call() if into else None
        turn = None if call is None else call.first()
        if call is not None and turn is not None:
            self._enter(call, turn, at_end=False)
        else:
            self._move(level.frame.position + 1)
        self._keep_to_budget()

    def move(self, position: int) -> None:
        """Go on, or back, to an equation of the innermost program, by its number."""
        self._move(position)
        self._keep_to_budget()

    def back(self, *, into: bool = False) -> None:
        """Go back before the equation before this place, or `into` the end of its programs."""
        level = self.top
        if level.frame.position == 0:
            self._begin_turn()
            return
        edited = level.frame.calls.get(level.frame.position - 1)
        if into and edited is not None and edited.n_edits:
            level.frame.position -= 1
        else:
            self._move(level.frame.position - 1)
        call = level.frame.call() if into else None
        turn = None if call is None else call.last()
        if call is not None and turn is not None:
            self._enter(call, turn, at_end=True)
        self._keep_to_budget()

    def out(self) -> None:
        """Go on to the end of this program's equation: behind all of its runs."""
        if len(self.levels) == 1:
            self._move(len(self.top.frame.jaxpr.equations))
            return
        self.levels.pop()
        self._move(self.top.frame.position + 1)
        self._keep_to_budget()

    def back_out(self) -> None:
        """Go back before the equation that this program belongs to, or to the start."""
        if len(self.levels) == 1:
            self._move(0)
        else:
            self.levels.pop()
            self._move(self.top.frame.position)

    def restart(self) -> None:
        """Go back to the start."""
        del self.levels[1:]
        self.top.frame.undo(-1)
        self._move(0)

    def edit(self, variable: Any, value: Any) -> None:
        """Give a variable of the innermost program another value from here on; to go back before here takes it back."""
        self.top.frame.edit(variable, value)
        self._cut()

    def jump(self, run: int) -> None:
        """Go to the start of a run of the innermost loop, or else of the loop that comes next.

        Raises: ArgumentValueError where there is no loop, or no such run.
        """
        loops = [(i, c) for i, level in enumerate(self.levels) if (c := level.call) and c.is_loop]
        depth, call = loops[-1] if loops else (len(self.levels), self.top.frame.call())
        if call is None or not call.is_loop:
            raise ArgumentValueError(
                "there is no loop here whose runs one could jump to.",
                do="Go to the line of a loop, or into one, before.",
            )
        turn = call.jump(run)
        del self.levels[depth:]
        self._enter(call, turn, at_end=False)

    def compile_ahead(self, next_stop: int) -> None:
        """Begin to compile, in threads, what a step from here runs: on to `next_stop` of this program, in, or out."""
        *around, top = [level.frame for level in self.levels]
        chains = top.chains_ahead(next_stop)
        compile_in_threads([*chains, *[frame.chain_behind() for frame in around[::-1]]])

    # Many equations -----------------------------------------------------------------------------------------

    def run_to(self, matches: Matches, next_run: NextRun | None = None) -> bool:
        """Run to the next equation that `matches`, compiled in between; False if none does, at the program's end.

        With `next_run` runs of loops are passed that it passes, though they have equations that match.
        """
        marks = _Marks(matches)
        if self.equation is not None:
            self.forward(into=marks.within(self.equation))
        while True:
            if next_run is not None:
                self._pass_runs(next_run, is_forward=True)
            frame = self.top.frame
            target = marks.next(frame.jaxpr, frame.position)
            self._move(len(frame.jaxpr.equations) if target is None else target)
            if self.is_done:
                return False
            if target is None:
                self._end_turn()
            elif matches(frame.equation):
                self._keep_to_budget()
                return True
            else:
                self.forward(into=True)
                if (obstacle := frame.obstacle(target)) and self.passed is not None:
                    self.passed(frame.jaxpr.equations[target], obstacle)
            self._keep_to_budget()

    def run_back_to(self, matches: Matches, next_run: NextRun | None = None) -> bool:
        """Go back to the last equation before this place that `matches`; False if none does, at the start."""
        marks = _Marks(matches)
        while True:
            if next_run is not None:
                depth = len(self.levels)
                self._pass_runs(next_run, is_forward=False)
                if len(self.levels) < depth and matches(self.equation):
                    return True
            frame = self.top.frame
            target = marks.previous(frame.jaxpr, frame.position)
            if target is not None:
                self._move(target + 1)
                self.back(into=marks.within(frame.jaxpr.equations[target]))
                if self.top.frame is frame and matches(frame.equation):
                    return True
                continue
            if len(self.levels) == 1:
                self._move(0)
                return False
            depth = len(self.levels)
            self._begin_turn()
            if len(self.levels) < depth and matches(self.equation):
                return True

    # ----------------------------------------------------------------------------------------------------------

    def _enter(self, call: EquationRuns, turn: Turn, *, at_end: bool) -> None:
        if call.undo(turn):
            self.top.frame.cut(call)
            self._cut()
        frame = call.frame(turn)
        self.levels.append(Level(frame, call, turn))
        self._move(len(frame.jaxpr.equations) if at_end else 0)

    def _move(self, position: int) -> None:
        """Move the innermost program; where that takes an edit back, what was computed from it around is forgotten."""
        frame = self.top.frame
        n_edits = frame.n_edits
        frame.move(position)
        if frame.n_edits < n_edits:
            self._cut()

    def _cut(self) -> None:
        """Forget what programs around the innermost one have computed from its results."""
        for outer, level in zip(self.levels[-2::-1], self.levels[:0:-1], strict=True):
            level.call.cut(level.turn)  # type: ignore[union-attr]
            outer.frame.cut(level.call)

    def _pass_runs(self, next_run: NextRun, *, is_forward: bool) -> None:
        """At the start of a loop's turn, or on the way back at its end, go to the next one to go through, or out."""
        while (call := self.top.call) is not None and call.is_loop:
            level = self.top
            if level.frame.position != (0 if is_forward else len(level.frame.jaxpr.equations)):
                return
            is_predicate, ends = call.is_predicate(level.turn), call.slots.ends
            number = level.turn[1]
            # On the way back runs before `number` are asked for.
            number += (is_predicate and ends) if is_forward else not (is_predicate and not ends)
            chosen = next_run(len(self.levels) - 1, number, is_forward)
            if chosen == number - (not is_forward):
                return
            self.levels.pop()
            if chosen is not None:
                self._enter(call, call.jump(chosen), at_end=not is_forward)
                return
            self._move(self.top.frame.position + is_forward)

    def _end_turn(self) -> None:
        """From the end of a program to its next run, or behind the equation that it belongs to."""
        level = self.top
        if level.call is None:
            return
        turn = level.call.after(level.turn)
        self.levels.pop()
        if turn is None:
            self._move(self.top.frame.position + 1)
        else:
            self._enter(level.call, turn, at_end=False)

    def _begin_turn(self) -> None:
        """From the start of a program to the end of the run before it, or before the equation that it belongs to."""
        level = self.top
        if level.call is None:
            return
        turn = level.call.before(level.turn)
        self.levels.pop()
        if turn is not None:
            self._enter(level.call, turn, at_end=True)
        else:
            self._move(self.top.frame.position)

    def _keep_to_budget(self) -> None:
        """Forget what can be computed again if the values take more than the budget."""
        if self.bytes <= self.budget:
            return
        for level in self.levels:
            for call in list(level.frame.calls.values()):
                if all(call is not each.call for each in self.levels):
                    level.frame.forget(call)
            level.frame.drop()

    @property
    def bytes(self) -> int:
        """Bytes of the values that are kept."""
        waiting, total = [self.levels[0].frame], 0
        for frame in waiting:  # grows meanwhile
            total += sum(map(n_bytes, frame.values.values()))
            waiting += [each for call in frame.calls.values() for each in call.frames.values()]
        return total


class _Marks:
    """Equations of programs that match, or that run programs with equations that do."""

    def __init__(self, matches: Matches) -> None:
        self._matches = matches
        self._positions: dict[Any, list[int]] = {}

    def within(self, equation: Any) -> bool:
        """Whether an equation within the programs of this one matches."""
        if not can_enter(equation):
            return False
        return any(self.positions(slot.program.jaxpr) for slot in slots_of(equation).programs)

    def positions(self, jaxpr: Any) -> list[int]:
        """Positions of the marked equations of a program."""
        if jaxpr not in self._positions:
            self._positions[jaxpr] = [
                i for i, e in enumerate(jaxpr.equations) if self._matches(e) or self.within(e)
            ]
        return self._positions[jaxpr]

    def next(self, jaxpr: Any, position: int) -> int | None:
        """The first marked position from `position` on."""
        return next((i for i in self.positions(jaxpr) if i >= position), None)

    def previous(self, jaxpr: Any, position: int) -> int | None:
        """The last marked position before `position`."""
        return next((i for i in reversed(self.positions(jaxpr)) if i < position), None)
