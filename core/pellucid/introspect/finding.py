"""The first equation of a program, in execution order, whose result satisfies a condition."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import EffectsError, cached
from pellucid._machine.checks.check import check_p
from pellucid._machine.checks.checkify import Errors, checked_program
from pellucid._machine.checks.errors import CheckSite
from pellucid._machine.checks.watch import FirstNote, Watch, is_watched, noted_by
from pellucid._machine.ir import ClosedJaxpr, DropVar, Equation, Jaxpr, Operands, Values
from pellucid._machine.primitives.assembly import stack
from pellucid._machine.tracing import type_of
from pellucid._machine.transforms import stage_open

from .bodies import bodies_of, programs_within
from .lineage import origins_of
from .loops import LoopSearch
from .silence import silence
from .stepping import (
    EquationRuns,
    SteppedFrame,
    Turn,
    calls_host,
    can_enter,
    run_at,
    scope_of,
    slots_of,
)

MAX_OPERATIONS = 100_000
"""Maximum number of operations of a run that is searched one by one: each takes some 50 us beyond its work."""
MAX_OPERATIONS_AGAIN = 1_000
"""The limit for all runs of a program that is searched again: beyond it, compiling a program that searches pays off."""
VALUES_AT_ONCE = 256
"""Number of values whose conditions are read together, because reading waits for the device."""
GROUP = 16
"""Number of values of one type that one compiled program tests."""


class Match(NamedTuple):
    """An equation that satisfies the condition: the frames that lead to it, and the turns that these run."""

    frames: list[SteppedFrame]
    calls: list[EquationRuns]
    """For each frame but the first, the runs of the equation that it is a turn of."""
    turns: list[Turn]

    @property
    def equation(self) -> Equation:
        """The equation whose result satisfies the condition."""
        frame = self.frames[-1]
        return frame.jaxpr.equations[frame.position]


def first_match(frame: SteppedFrame, condition: Callable[[Any], Any]) -> Match | None:
    """The first equation, in a program or the programs within it, with a result for which `condition` has a true
    element.

    `condition` is a traceable function of one array that gives booleans. A program that runs few operations is searched
    operation by operation, as each kind of them is compiled once, and as a session steps through it. Others, and those that
    are searched again, run compiled, once as a whole and once for each program on the way, at all positions of a
    `shard_map` together; what was compiled serves the next search for the condition.
    Prints and other effects don't happen. Raises: EffectsError for a program that calls Python for values, which would be
    called again.
    """
    check_effects(frame)
    watch = Watch(condition)
    if frame.positions is None and _is_short(frame.jaxpr, watch):
        levels = _ByOperation(watch).levels(frame)
        if levels is None:
            return None
        match = Match(*map(list, zip(*levels, strict=True)))
        # Rounding differs where a loop or call is compiled as one: no operation within it may satisfy the condition.
        if not can_enter(match.equation):
            return match
    return first_failure(frame, frozenset({watch}))


def _is_short(jaxpr: Jaxpr, watch: Watch) -> bool:
    """Whether a run of a program is to be searched one operation after another, by what runs were before."""
    key = "searched operations", watch
    before = jaxpr.memo.get(key, 0)
    total = jaxpr.memo[key] = before + n_operations(jaxpr)
    return total <= (MAX_OPERATIONS if not before else min(MAX_OPERATIONS, MAX_OPERATIONS_AGAIN))


def n_operations(jaxpr: Jaxpr) -> float:
    """Number of operations that a program runs; infinite if it is unknown or an operation has an effect.

    A while loop counts as infinitely many.
    """
    total = 0.0
    for equation in jaxpr.equations:
        slots = slots_of(equation)
        if equation.effects or calls_host(equation) or (slots is not None and slots.by_position):
            return math.inf
        if slots is None:
            total += 1
        else:
            runs = [n_operations(slot.program.jaxpr) for slot in slots.programs]
            total += (math.inf if slots.runs is None else slots.runs) * sum(runs)
    return total


class _ByOperation:
    """A search that runs each operation by itself, until one satisfies the condition."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def levels(
        self, frame: SteppedFrame
    ) -> list[tuple[SteppedFrame, EquationRuns | None, Turn]] | None:
        """The levels from `frame` to the first match; None if the frame ran to its end without one."""
        here: list[tuple[SteppedFrame, EquationRuns | None, Turn]] = [(frame, None, (0, 0))]
        waiting: list[tuple[int, Any]] = []

        def is_found() -> bool:
            """Whether a result since the last call satisfies the condition; if so, the frame moves to the first such
            equation.
            """
            first = self._first(waiting)
            waiting.clear()
            frame.position = frame.position if first is None else first
            return first is not None

        for position, equation in enumerate(frame.jaxpr.equations):
            is_call = can_enter(equation)
            if (is_call or len(waiting) >= VALUES_AT_ONCE) and is_found():
                return here
            call = frame.call() if is_call else None
            turn = None if call is None else call.first()
            while call is not None and turn is not None:
                inner = self.levels(call.frame(turn))
                if inner is not None:
                    return [*here, (call.frame(turn), call, turn), *inner[1:]]
                turn = call.after(turn)
            frame.run_next()
            watched = equation.results if is_watched(equation) else ()
            results = [v for v in watched if type(v) is not DropVar]
            waiting += [(position, frame.values[v]) for v in results]
        if is_found():
            return here
        frame.drop()
        return None

    def _first(self, values: Sequence[tuple[int, Any]]) -> int | None:
        """The smallest number among (number, value) pairs whose value satisfies the condition; None if none does."""
        by_type: dict[Any, list[tuple[int, Any]]] = {}
        for number, value in values:
            by_type.setdefault(type_of(value), []).append((number, value))
        groups = [
            rows[i : i + GROUP] for rows in by_type.values() for i in range(0, len(rows), GROUP)
        ]
        flags = [self._flags_of([value for _, value in group]) for group in groups]
        holding = [
            number
            for group, holds in zip(groups, flags, strict=True)
            if holds is not None
            for (number, _), flag in zip(group, np.asarray(holds).tolist(), strict=False)
            if flag
        ]
        return min(holding, default=None)

    def _flags_of(self, values: Sequence[Any]) -> Any:
        """Booleans `[GROUP]` for values of one type: whether any element satisfies the condition. None if none can."""
        flags = _flags_program(self._watch, type_of(values[0]))
        if flags is None:
            return None
        program, consts = flags
        padded = [*values, *[values[-1]] * (GROUP - len(values))]
        return run_at(None, program, padded, consts)[0]


@cached(256)
def _flags_program(watch: Watch, aval: Any) -> tuple[ClosedJaxpr, Values] | None:
    """The program of a condition on several values of a type; None where it never holds."""
    flags: list[Any] = []

    def run(*xs: Any) -> Values:
        flags.extend([watch.holds(x) for x in xs])
        return [] if flags[0] is None else [stack(flags, 0)]

    program = stage_open(run, [aval] * GROUP, None)
    return None if flags[0] is None else program


def first_failure(frame: SteppedFrame, errors: Errors | None) -> Match | None:
    """The first equation, in a program or the programs within it, that fails a check of the categories `errors`.

    `errors` is None for checks that `checkify` has already made part of the program.
    """
    with silence():
        levels = _search(frame, frozenset({FirstNote()}) if errors is None else errors)
    if levels is None:
        return None
    match = Match(*map(list, zip(*levels, strict=True)))
    if errors is None and (checked := noted_by(match.equation)) is not None:
        _move_to_copy(match.frames[-1], checked)
    return match


def _move_to_copy(frame: SteppedFrame, checked: Equation) -> None:
    """Move a frame from the equation that records a failure back to the first one made from the checked equation."""
    copies = (
        position
        for position, equation in enumerate(frame.jaxpr.equations[: frame.position])
        if origins_of(equation, frozenset({checked.id}))
    )
    frame.move(next(copies, frame.position))


def check_effects(frame: SteppedFrame) -> None:
    """Raise EffectsError if a program calls Python for results."""
    for jaxpr in programs_within(frame.jaxpr):
        for equation in jaxpr.equations:
            if equation.effects and equation.results and not bodies_of(equation):
                raise EffectsError(
                    "a program is searched by running it several times, and this one has effects that give values.",
                    got=f"`{equation.primitive.name}`",
                    do="Step through it; or search the part of the program that has no such effect.",
                )


def _search(
    frame: SteppedFrame, errors: Errors
) -> list[tuple[SteppedFrame, EquationRuns | None, Turn]] | None:
    """The levels from `frame` to the first match; None if there is none."""
    with scope_of(frame.positions):
        checked = checked_program(frame.jaxpr, errors)
    if not checked.sites:
        return None
    inputs = [frame.values[v] for v in frame.jaxpr.invars]
    codes = np.ravel(run_at(frame.positions, checked.program, inputs, checked.consts)[0])
    if not codes.any():
        return None
    site = checked.sites[int(min(codes[codes > 0])) - 1]
    failing = site.equation or _check_of(frame, site)
    here: list[tuple[SteppedFrame, EquationRuns | None, Turn]] = [(frame, None, (0, 0))]
    for position, equation in enumerate(frame.jaxpr.equations):
        if not _holds(equation, failing):
            continue
        frame.move(position)
        call = None if equation is failing else frame.call()
        if call is None:
            return here
        for turn in _turns(call, errors):
            inner = _search(call.frame(turn), errors)
            if inner is not None:
                _, *rest = inner
                return [*here, (call.frame(turn), call, turn), *rest]
    return here  # compiled by itself, a value close to the threshold may round to the other side


def _turns(call: EquationRuns, errors: Errors) -> Iterator[Turn]:
    """The turns of a call in which a result may satisfy the condition, in order. One program searches all runs of a
    loop.
    """
    turn = call.first()
    if not call.is_loop or call.equation.effects:
        while turn is not None:
            yield turn
            turn = call.after(turn)
        return

    def always(values: Operands) -> Errors:
        return errors

    search = LoopSearch(("watch", errors), always)
    number = call.meeting(search, 0)
    while number is not None:
        yield from call.turns_of(number)
        number = call.meeting(search, number + 1)
    if (last := call.last()) is not None:
        yield last  # the predicate after the last run


def _check_of(frame: SteppedFrame, site: CheckSite) -> Equation:
    """The equation of a `check` that the user wrote."""
    equations = [e for program in programs_within(frame.jaxpr) for e in program.equations]
    return next(e for e in equations if e.primitive is check_p and site in e.params.sites)


def _holds(equation: Equation, other: Equation) -> bool:
    """Whether `equation` is `other`, or runs a program that contains it."""
    return equation is other or any(
        other in program.equations
        for body in bodies_of(equation)
        for program in programs_within(body.jaxpr)
    )
