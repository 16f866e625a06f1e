"""The first equation of a program, in execution order, whose result satisfies a condition."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import EffectsError, cached, config
from pellucid._machine.checks.check import check_p
from pellucid._machine.checks.checkify import Errors, checked_program
from pellucid._machine.checks.errors import CheckSite
from pellucid._machine.checks.watch import FirstNote, Watch, checked_equation, of_elements
from pellucid._machine.compilation.options import keeps_apart
from pellucid._machine.ir import ClosedJaxpr, Equation, Jaxpr, Operands, Values
from pellucid._machine.primitives.assembly import stack
from pellucid._machine.tracing import type_of
from pellucid._machine.transforms import stage_open
from pellucid._machine.xla import flags

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
    "Match",
    "check_effects",
    "first_failure",
    "first_match",
    "match_again",
    "meets",
    "of_elements",
]

MAX_RUNS = 300
"""Maximum number of runs of a loop that are searched by themselves: a program that searches the others compiles as long as that takes."""
TESTED_TOGETHER = 8
"""Number of values of one type that one call tests: a program that tested all values of a stretch would compile as long as they do."""
MAX_RUNS_AGAIN = 100
"""Number of operations that were searched, for each equation of a program, from which on it first runs as one with a check of each
value if it is searched again: that program is worth its compilation then."""
MIN_TESTED_TOGETHER = 32
"""Minimum number of values of one type in a stretch that are tested together: for fewer the program isn't worth its compilation."""
MAX_UNOPTIMIZED = 5_000_000
"""Maximum number of elements, for each equation, that a program computes in all its runs where optimizing it takes longer."""
RUNS_UNKNOWN = 100
"""Number of runs by which a `while_loop` counts towards the elements that a program computes."""
MIN_VARIETY = 0.25
"""Part of a program's equations that differ from all others from which on optimizing it takes longer; equal ones are compiled once."""


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

    `condition` is a traceable function of one array that gives booleans. Programs give all values, stretch by stretch of the
    equations and run by run of loops, and each is tested; the runs of a long loop are searched by one program. No operation is
    compiled into another, so that a value is what the next operation takes, as when each operation is called by itself.
    A program that calls Python, or runs at the positions of a `shard_map`, runs compiled with a check of each value, once as a
    whole and once for each program on the way. So does, as a whole, any that is searched again and again. What was compiled
    serves the next search for the condition.
    Prints and other effects don't happen. Raises: EffectsError for a program that calls Python for values, which would be
    called again.
    """
    check_effects(frame)
    watch = Watch(condition)
    if frame.positions is not None or not _is_plain(frame.jaxpr):
        return first_failure(frame, frozenset({watch}))
    with silence(), flags.overridden(keeps_apart, True):
        if _is_searched_again(frame.jaxpr, watch) and not _has_match(frame, watch):
            return None
        levels = _ByStretch(watch, frame.jaxpr).levels(frame)
    return None if levels is None else Match(*map(list, zip(*levels, strict=True)))


def _is_plain(jaxpr: Jaxpr) -> bool:
    """Whether a program, notes aside, neither calls Python nor has effects, and runs at no positions of a mesh; cached."""
    if "is plain" not in jaxpr.memo:
        jaxpr.memo["is plain"] = all(map(_is_plain_equation, jaxpr.equations))
    return jaxpr.memo["is plain"]


def _is_plain_equation(equation: Equation) -> bool:
    slots = slots_of(equation)
    if is_note(equation):
        return True
    if slots is None:
        return not calls_host(equation) and not equation.effects
    return not slots.by_position and all(_is_plain(slot.program.jaxpr) for slot in slots.programs)


def _is_searched_again(jaxpr: Jaxpr, watch: Watch) -> bool:
    """Whether a program was searched for a condition before, and is to run as one with a check of each value. Counts the searches."""
    key = "searched operations", watch
    before = jaxpr.memo.get(key, 0)
    total = jaxpr.memo[key] = before + _n_operations(jaxpr)
    n_equations = sum(len(program.equations) for program in programs_within(jaxpr))
    return bool(before) and total > MAX_RUNS_AGAIN * n_equations


def _n_operations(jaxpr: Jaxpr) -> int:
    """Number of operations that a program runs, those of all branches included."""
    total = len(jaxpr.equations)
    for equation in jaxpr.equations:
        if (slots := slots_of(equation)) is not None:
            total += _runs_of(slots) * sum(
                _n_operations(slot.program.jaxpr) for slot in slots.programs
            )
    return total


def _runs_of(slots: Any) -> int:
    """Number of runs of the programs of an equation, an assumed one for a `while_loop`."""
    return RUNS_UNKNOWN if slots.runs is None else slots.runs


def _has_match(frame: SteppedFrame, watch: Watch) -> bool:
    """Whether a check of each value fails, of the whole program compiled as one."""
    checked = checked_program(frame.jaxpr, frozenset({watch}))
    if not checked.sites:
        return False
    inputs = [frame.values[v] for v in frame.jaxpr.invars]
    return bool(np.any(run_at(None, checked.program, inputs, checked.consts)[0]))


def _is_quick(jaxpr: Jaxpr) -> bool:
    """Whether a program computes so few elements that it takes longer to optimize its stretches than to run them."""
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
            elements += _runs_of(slots) * sum(n for _, n in inner)
    return count, elements


def _is_varied(stretch: Stretch) -> bool:
    """Whether many equations of a stretch are unlike all others; cached."""
    jaxpr = stretch.program.jaxpr
    if "is varied" not in jaxpr.memo:
        kinds = {
            (e.primitive, e.params, tuple([a.aval for a in e.operands])) for e in jaxpr.equations
        }
        jaxpr.memo["is varied"] = len(kinds) >= MIN_VARIETY * len(jaxpr.equations)
    return jaxpr.memo["is varied"]


_Levels = list[tuple[SteppedFrame, EquationRuns | None, Turn]]


class _ByStretch:
    """A search that runs each stretch by itself, until a value in it satisfies the condition."""

    def __init__(self, watch: Watch, jaxpr: Jaxpr) -> None:
        self._watch = watch
        self._passed_by = frozenset(
            each for program in programs_within(jaxpr) for each in watch.passes_by(program)
        )
        self._is_quick = _is_quick(jaxpr)
        self._n_runs: dict[Equation, int] = {}
        """The number of runs of each loop that were searched by themselves."""
        self._known_runs: dict[Equation, int] = {}
        """The number of runs of each loop in the whole program, as far as equations state it."""
        self._count_runs(jaxpr, 1)

    def levels(self, frame: SteppedFrame) -> _Levels | None:
        """The levels from `frame` to the first match; None if the frame ran to its end without one."""
        here: _Levels = [(frame, None, (0, 0))]
        while frame.equation is not None:
            stretch = stretch_from(frame.jaxpr, frame.position)
            if stretch is not None:
                with self._compilation(is_varied=_is_varied(stretch)):
                    values = run_stretch(frame, stretch)
                if (place := self._first(stretch, values)) is not None:
                    return [*here, *levels_to(frame, stretch, place, values)]
                continue
            call = frame.call()
            if call is not None:
                for turn in self._turns(call):
                    inner_frame = call.frame(turn)
                    inner = self.levels(inner_frame)
                    if inner is not None:
                        return [*here, (inner_frame, call, turn), *inner[1:]]
            frame.pass_by()
        frame.drop()
        return None

    def _turns(self, call: EquationRuns) -> Iterator[Turn]:
        """The turns of a call, in order; of the later runs of a long loop those in which a program finds the condition to hold."""
        turn = first = call.first()
        while turn is not None:
            begins_run = first is not None and turn[0] == first[0]
            if begins_run and self._is_long(call):
                yield from self._turns_found(call, turn[1])
                return
            yield turn
            turn = call.after(turn)

    def _turns_found(self, call: EquationRuns, start: int) -> Iterator[Turn]:
        """The turns from run `start` of a loop on in which a program finds the condition to hold."""
        turns = _turns(call, frozenset({self._watch}), start)
        while True:
            with self._compilation(is_varied=True):
                turn = next(turns, None)
            if turn is None:
                return
            yield turn

    def _is_long(self, call: EquationRuns) -> bool:
        """Whether the next runs of a loop are to be searched by one program. Counts those that aren't."""
        if not call.is_loop:
            return False
        searched = self._n_runs[call.equation] = self._n_runs.get(call.equation, 0) + 1
        return max(searched, self._known_runs.get(call.equation, 0)) > MAX_RUNS

    def _count_runs(self, jaxpr: Jaxpr, around: int) -> None:
        for equation in jaxpr.equations:
            slots = slots_of(equation)
            if slots is not None:
                runs = around * (slots.runs or 1)
                self._known_runs[equation] = self._known_runs.get(equation, 0) + runs
                for slot in slots.programs:
                    self._count_runs(slot.program.jaxpr, runs)

    def _compilation(self, *, is_varied: bool) -> contextlib.AbstractContextManager[Any]:
        """The context in which a program compiles, of which many equations are unlike all others if it `is_varied`."""
        is_unoptimized = self._is_quick and is_varied
        return (
            config.disable_most_optimizations(True) if is_unoptimized else contextlib.nullcontext()
        )

    def _first(self, stretch: Stretch, values: dict[Any, Any]) -> Place | None:
        """The first equation of a stretch with a value that satisfies the condition; None if there is none."""
        # The watched results by type, each with the number of its place.
        tested: dict[Any, list[tuple[int, Any]]] = {}
        for number, place in enumerate(stretch.places):
            if place.equation not in self._passed_by:
                for v in place.results:
                    tested.setdefault(type_of(values[v]), []).append((number, values[v]))
        found: list[tuple[list[int], Any]] = []
        for aval, rows in tested.items():
            for chunk in _chunks(rows):
                made = _flag_program(self._watch, aval, len(chunk))
                if made is None:
                    break  # for no value of this type
                results = run_at(None, made[0], [x for _, x in chunk], made[1])
                found.append(([number for number, _ in chunk], results[0]))
        numbers = [
            own[int(i)] for own, holds in found for i in np.flatnonzero(np.asarray(holds))[:1]
        ]
        return stretch.places[min(numbers)] if numbers else None


def meets(condition: Callable[[Any], Any], value: Any) -> bool:
    """Whether any element of an array satisfies a condition; of the parts on this process's devices if others have some, too."""
    watch = Watch(condition)
    shards = () if value.is_fully_addressable else value.addressable_shards
    parts = [shard.data for shard in shards] or [value]
    with silence():
        return any(_meets(watch, x) for x in parts)


def _meets(watch: Watch, value: Any) -> bool:
    made = _flag_program(watch, type_of(value), 1)
    return made is not None and bool(np.asarray(run_at(None, made[0], [value], made[1])[0])[0])


def _chunks(rows: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """The rows of values of a type that are tested together, in order; the last value fills its chunk up."""
    size = TESTED_TOGETHER if len(rows) >= MIN_TESTED_TOGETHER else 1
    for start in range(0, len(rows), size):
        chunk = rows[start : start + size]
        yield [*chunk, *[chunk[-1]] * (size - len(chunk))]


@cached(256)
def _flag_program(watch: Watch, aval: Any, count: int) -> tuple[ClosedJaxpr, Values] | None:
    """The program from `count` values of a type to booleans `[count]`: whether a condition holds for them; None where it never does."""

    def run(*values: Any) -> Values:
        flags = [flag for x in values if (flag := watch.holds(x)) is not None]
        return [stack(flags)] if flags else []

    program, consts = stage_open(run, [aval] * count, None)
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


def _turns(call: EquationRuns, errors: Errors, start: int = 0) -> Iterator[Turn]:
    """The turns of a call, of a loop those from run `start` on, in which a result may satisfy the condition, in order. One
    program searches all runs of a loop.
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
    number = call.meeting(search, start)
    while number is not None:
        yield from call.turns_of(number)
        number = call.meeting(search, number + 1)
    if (last := call.last()) is not None and call.is_predicate(last):
        yield last  # it belongs to no run


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
