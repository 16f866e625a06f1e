"""Steps through a program and the programs within it, forwards and backwards, with a stack of frames."""

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
"""Chooses the next run of a loop to step through: from a given run on or, going back, the last before it; None to leave
the loop.

Arguments: depth of the loop in the stack, run, whether stepping goes forward.
"""


class Level:
    """A frame of the stack, with the call and the run (turn) of it that it executes; the outermost has no call."""

    __slots__ = ("call", "frame", "turn", "visit")

    def __init__(
        self, frame: SteppedFrame, call: EquationRuns | None = None, turn: Turn = (0, 0)
    ) -> None:
        self.frame = frame
        self.call = call
        self.turn = turn
        self.visit: tuple[int, int] | None = None
        """(position, index of the current visit at that position), see `visits`. None or another position means the
        last visit there.
        """


class Stepper:
    """Execution of a program, stopped before one of its equations or of a program within it. `budget`: maximum bytes of
    values.
    """

    def __init__(self, frame: SteppedFrame, budget: int = 1 << 30) -> None:
        self.levels = [Level(frame)]
        self.budget = budget
        self.passed: Callable[[Any, str], Any] | None = None
        """Called with an equation and a reason if `run_to` should stop within its programs, but can't enter them."""

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
        """Whether the outermost program has ended."""
        return len(self.levels) == 1 and self.equation is None

    @property
    def is_at_start(self) -> bool:
        """Whether it is at the start of the outermost program."""
        return len(self.levels) == 1 and self.top.frame.position == 0

    def place(self) -> tuple[int, ...]:
        """Current place: for each level the program, its run, and the position in it."""
        return tuple([n for level in self.levels for n in (*level.turn, level.frame.position)][2:])

    # One equation -------------------------------------------------------------------------------------------

    def forward(self, *, into: bool = False) -> None:
        """Steps over the next equation, or `into` its programs. At the end of a program, goes to its next run, or
        leaves it.
        """
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
        """Goes forwards or backwards to an equation of the innermost program, by its position."""
        self._move(position)
        self._keep_to_budget()

    def back(self, *, into: bool = False) -> None:
        """Steps back over the previous equation, or `into` the end of its programs."""
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
        """Leaves the innermost program: goes after the equation that calls it, after all its runs. Goes to the end of
        the outermost one.
        """
        if len(self.levels) == 1:
            self._move(len(self.top.frame.jaxpr.equations))
            return
        self.levels.pop()
        self._move(self.top.frame.position + 1)
        self._keep_to_budget()

    def back_out(self) -> None:
        """Goes back before the equation that calls the innermost program, or to the start."""
        if len(self.levels) == 1:
            self._move(0)
        else:
            self.levels.pop()
            self._move(self.top.frame.position)

    def restart(self) -> None:
        """Goes back to the start."""
        del self.levels[1:]
        self.top.frame.undo(-1)
        self._move(0)

    def edit(self, variable: Any, value: Any) -> None:
        """Assigns another value to a variable of the innermost program from here on. Going back before this place
        reverts it.
        """
        self.top.frame.edit(variable, value)
        self._cut()

    def jump(self, run: int) -> None:
        """Goes to the start of a run of the innermost loop, or of the next equation's loop.

        Raises: ArgumentValueError if there is no loop, or no such run.
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
        """Starts to compile, in threads, what a step may run next: up to `next_stop` in this program, into calls, or
        out.
        """
        *around, top = [level.frame for level in self.levels]
        chains = top.chains_ahead(next_stop)
        compile_in_threads([*chains, *[frame.chain_behind() for frame in around[::-1]]])

    # Many equations -----------------------------------------------------------------------------------------

    def run_to(self, matches: Matches, next_run: NextRun | None = None) -> bool:
        """Runs compiled to the next equation for which `matches`. Returns False, at the end of the program, if there is
        none.

        With `next_run`, it skips the loop runs that this function skips, although they contain matches.
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
        """Goes back to the last equation for which `matches`. Returns False, at the start, if there is none."""
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
        """Moves the innermost program. If that reverts an edit, values of outer programs computed from it are dropped."""
        frame = self.top.frame
        n_edits = frame.n_edits
        frame.move(position)
        if frame.n_edits < n_edits:
            self._cut()

    def _cut(self) -> None:
        """Drops values of outer programs that were computed from the innermost program's results."""
        for outer, level in zip(self.levels[-2::-1], self.levels[:0:-1], strict=True):
            level.call.cut(level.turn)  # type: ignore[union-attr]
            outer.frame.cut(level.call)

    def _pass_runs(self, next_run: NextRun, *, is_forward: bool) -> None:
        """At the start of a loop's run (at its end when going back), goes to the next run to step through, or leaves
        the loop.
        """
        while (call := self.top.call) is not None and call.is_loop:
            level = self.top
            if level.frame.position != (0 if is_forward else len(level.frame.jaxpr.equations)):
                return
            is_predicate, ends = call.is_predicate(level.turn), call.slots.ends
            number = level.turn[1]
            # When going back, runs before `number` are requested.
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
        """Goes from the end of a program to its next run, or after the equation that calls it."""
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
        """Goes from the start of a program to the end of its previous run, or before the equation that calls it."""
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
        """Drops values that can be recomputed if all values exceed the budget."""
        if self.bytes <= self.budget:
            return
        for level in self.levels:
            for call in list(level.frame.calls.values()):
                if all(call is not each.call for each in self.levels):
                    level.frame.forget(call)
            level.frame.drop()

    @property
    def bytes(self) -> int:
        """Bytes of the values currently kept."""
        waiting, total = [self.levels[0].frame], 0
        for frame in waiting:  # the list grows during the loop
            total += sum(map(n_bytes, frame.values.values()))
            waiting += [each for call in frame.calls.values() for each in call.frames.values()]
        return total


class _Marks:
    """Marks the equations that match, and those that run programs containing such equations."""

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
        """First marked position from `position` on; None if there is none."""
        return next((i for i in self.positions(jaxpr) if i >= position), None)

    def previous(self, jaxpr: Any, position: int) -> int | None:
        """Last marked position before `position`; None if there is none."""
        return next((i for i in reversed(self.positions(jaxpr)) if i < position), None)
