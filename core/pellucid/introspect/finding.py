"""The first equation of a program, in execution order, whose result satisfies a condition."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import EffectsError, cached, config
from pellucid._machine.checks.check import check_p
from pellucid._machine.checks.checkify import Errors, checked_program
from pellucid._machine.checks.errors import CheckSite
from pellucid._machine.checks.watch import FirstNote, Watch, checked_equation, of_elements
from pellucid._machine.ir import ClosedJaxpr, Equation, Jaxpr, Operands, Values
from pellucid._machine.tracing import type_of
from pellucid._machine.transforms import stage_open

from .bodies import bodies_of, programs_within
from .lineage import origins_of
from .loops import LoopSearch
from .silence import is_note, silence
from .stepping import (
    EquationRuns,
    SteppedFrame,
    Turn,
    calls_host,
    run_at,
    scope_of,
    slots_of,
)
from .stretches import Place, Stretch, levels_to, run_stretch, stretch_from

__all__ = [
    "Match", "check_effects", "first_failure", "first_match", "match_again", "n_operations", "of_elements",
]  # fmt: skip

MAX_OPERATIONS = 100_000
"""Maximum number of operations of a run of which each value is tested by itself: that takes some 100 us beyond its work."""
MAX_RUNS_AGAIN = 100
"""The same for each equation of a program, in all its runs, if it is searched again: the program that tests all values as one
is worth its compilation then."""
MAX_UNOPTIMIZED = 5_000_000
"""Maximum number of elements, for each equation, that a program computes in all its runs where optimizing it takes longer."""


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


def match_again(frame: SteppedFrame, place: Sequence[int]) -> Match:
    """The match at a place, in a frame of the same call: the position in the program, then, for each program within, its turn and
    the position in it.
    """
    frames: list[SteppedFrame] = [frame]
    calls: list[Any] = [None]
    turns: list[Turn] = [(0, 0)]
    position, *rest = place
    with silence():
        frame.move(position)
        for which, number, position in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
            call: Any = frames[-1].call()
            calls.append(call)
            turns.append((which, number))
            frames.append(call.frame(turns[-1]))
            frames[-1].move(position)
    return Match(frames, calls, turns)


def first_match(frame: SteppedFrame, condition: Callable[[Any], Any]) -> Match | None:
    """The first equation, in a program or the programs within it, with a result for which `condition` has a true
    element.

    `condition` is a traceable function of one array that gives booleans. A program that runs few operations gives all values,
    stretch by stretch of its equations and run by run of its loops, and each is tested. Others, and those that are searched
    again, run compiled with a check of each value, once as a whole and once for each program on the way, at all positions of
    a `shard_map` together; what was compiled serves the next search for the condition.
    Prints and other effects don't happen. Raises: EffectsError for a program that calls Python for values, which would be
    called again.
    """
    check_effects(frame)
    watch = Watch(condition)
    if frame.positions is not None or not _is_short(frame.jaxpr, watch):
        return first_failure(frame, frozenset({watch}))
    with silence():
        levels = _ByStretch(watch, frame.jaxpr).levels(frame)
    return None if levels is None else Match(*map(list, zip(*levels, strict=True)))


def _is_short(jaxpr: Jaxpr, watch: Watch) -> bool:
    """Whether a run of a program is to be searched one stretch after another, by what runs were before."""
    key = "searched operations", watch
    before = jaxpr.memo.get(key, 0)
    total = jaxpr.memo[key] = before + n_operations(jaxpr)
    n_equations = sum(len(program.equations) for program in programs_within(jaxpr))
    again = MAX_RUNS_AGAIN * n_equations
    return total <= (min(MAX_OPERATIONS, again) if before else MAX_OPERATIONS)


def n_operations(jaxpr: Jaxpr) -> float:
    """Number of operations that a program runs, without notes; infinite if it is unknown or one calls Python or has an effect.

    A while loop counts as infinitely many.
    """
    total = 0.0
    for equation in jaxpr.equations:
        slots = slots_of(equation)
        if is_note(equation):
            continue
        if calls_host(equation) or (slots is None and equation.effects):
            return math.inf
        if slots is None:
            total += 1
        elif slots.by_position or slots.runs is None:
            return math.inf
        else:
            total += slots.runs * sum(n_operations(slot.program.jaxpr) for slot in slots.programs)
    return total


def _is_quick(jaxpr: Jaxpr) -> bool:
    """Whether the stretches of a program compute so few elements that it takes longer to optimize them than to run them."""
    n_equations, n_elements = _work(jaxpr)
    return n_elements <= n_equations * MAX_UNOPTIMIZED


def _work(jaxpr: Jaxpr) -> tuple[int, float]:
    """(number of equations in a program and those within it, number of elements that they compute in all runs)."""
    count, elements = len(jaxpr.equations), 0.0
    for equation in jaxpr.equations:
        elements += sum(getattr(v.aval, "size", 0) for v in equation.results)
        slots = slots_of(equation)
        if slots is not None:
            inner = [_work(slot.program.jaxpr) for slot in slots.programs]
            count += sum(n for n, _ in inner)
            elements += slots.runs * sum(n for _, n in inner)
    return count, elements


_Levels = list[tuple[SteppedFrame, EquationRuns | None, Turn]]


class _ByStretch:
    """A search that runs each stretch by itself, until a value in it satisfies the condition."""

    def __init__(self, watch: Watch, jaxpr: Jaxpr) -> None:
        self._watch = watch
        self._passed_by = frozenset(
            each for program in programs_within(jaxpr) for each in watch.passes_by(program)
        )
        self._is_quick = _is_quick(jaxpr)

    def levels(self, frame: SteppedFrame) -> _Levels | None:
        """The levels from `frame` to the first match; None if the frame ran to its end without one."""
        here: _Levels = [(frame, None, (0, 0))]
        while frame.equation is not None:
            stretch = stretch_from(frame.jaxpr, frame.position)
            if stretch is not None:
                with self._compilation():
                    values = run_stretch(frame, stretch)
                if (place := self._first(stretch, values)) is not None:
                    return [*here, *levels_to(frame, stretch, place, values)]
                continue
            with self._compilation():
                call = frame.call()
                turn = None if call is None else call.first()
            while call is not None and turn is not None:
                with self._compilation():
                    inner_frame = call.frame(turn)
                inner = self.levels(inner_frame)
                if inner is not None:
                    return [*here, (inner_frame, call, turn), *inner[1:]]
                with self._compilation():
                    turn = call.after(turn)
            with self._compilation():
                frame.pass_by()
        frame.drop()
        return None

    def _compilation(self) -> contextlib.AbstractContextManager[Any]:
        """The context in which programs of the user's operations compile."""
        is_unoptimized = config.disable_most_optimizations
        return is_unoptimized(True) if self._is_quick else contextlib.nullcontext()

    def _first(self, stretch: Stretch, values: dict[Any, Any]) -> Place | None:
        """The first equation of a stretch with a value that satisfies the condition; None if there is none."""
        flags = [
            (place, flag)
            for place in stretch.places
            if place.equation not in self._passed_by
            for v in place.results
            if (flag := self._flag_of(values[v])) is not None
        ]
        return next((place for place, flag in flags if np.asarray(flag)), None)

    def _flag_of(self, value: Any) -> Any:
        return _flag_of(self._watch, value)


def meets(condition: Callable[[Any], Any], value: Any) -> bool:
    """Whether any element of an array satisfies a condition; of the parts on this process's devices if others have some, too."""
    watch = Watch(condition)
    shards = () if value.is_fully_addressable else value.addressable_shards
    parts = [shard.data for shard in shards] or [value]
    with silence():
        return any(np.asarray(flag) for x in parts if (flag := _flag_of(watch, x)) is not None)


def _flag_of(watch: Watch, value: Any) -> Any:
    """Boolean scalar: whether any element of a value satisfies the condition. None if none can."""
    flag = _flag_program(watch, type_of(value))
    return None if flag is None else run_at(None, flag[0], [value], flag[1])[0]


@cached(256)
def _flag_program(watch: Watch, aval: Any) -> tuple[ClosedJaxpr, Values] | None:
    """The program of a condition on a value of a type; None where it never holds."""

    def run(x: Any) -> Values:
        flag = watch.holds(x)
        return [] if flag is None else [flag]

    program, consts = stage_open(run, [aval], None)
    return (program, consts) if program.jaxpr.outvars else None


def first_failure(frame: SteppedFrame, errors: Errors | None) -> Match | None:
    """The first equation, in a program or the programs within it, that fails a check of the categories `errors`.

    `errors` is None for checks that `checkify` has already made part of the program.
    """
    with silence():
        levels = _search(frame, frozenset({FirstNote()}) if errors is None else errors)
    if levels is None:
        return None
    match = Match(*map(list, zip(*levels, strict=True)))
    if errors is None and (checked := checked_equation(match.equation)) is not None:
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
    """Raises EffectsError if a program calls Python functions that return results."""
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
