"""The first place of a program, in the order in which it runs, whose result meets a condition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import EffectsError
from pellucid._machine.checks.check import check_p
from pellucid._machine.checks.checkify import Errors, checked_program
from pellucid._machine.checks.errors import Site
from pellucid._machine.checks.watch import FirstNote, Watch, noted_by
from pellucid._machine.ir import Equation

from .bodies import bodies_of, programs_within
from .lineage import origins_of
from .loops import Search
from .stepping import Call, Frame, Turn, run_at, scope_of


class Match(NamedTuple):
    """A place: the frames that lead there, each at the position of its equation, and the turns that they are."""

    frames: list[Frame]
    calls: list[Call]
    """For each frame but the first the call that it is a turn of."""
    turns: list[Turn]

    @property
    def equation(self) -> Equation:
        """The equation whose result meets the condition."""
        frame = self.frames[-1]
        return frame.jaxpr.equations[frame.position]


def first_match(frame: Frame, condition: Callable[[Any], Any]) -> Match | None:
    """The first equation of a program, or of programs within it, with a result for which `condition` has a true element.

    `condition` is a traceable function of one array that gives booleans. The program runs compiled, once for itself
    and once for each program on the way, at all positions of a `shard_map` together.
    Raises: EffectsError for a program that calls Python for values, which would be called again.
    """
    check_effects(frame)
    return first_failure(frame, frozenset({Watch(condition)}))


def first_failure(frame: Frame, errors: Errors | None) -> Match | None:
    """The first equation of a program, or of programs within it, that fails a check of the categories `errors`.

    None: that fails a check which `checkify` has made part of the program.
    """
    levels = _search(frame, frozenset({FirstNote()}) if errors is None else errors)
    if levels is None:
        return None
    match = Match(*map(list, zip(*levels, strict=True)))
    if errors is None and (checked := noted_by(match.equation)) is not None:
        _move_to_copy(match.frames[-1], checked)
    return match


def _move_to_copy(frame: Frame, checked: Equation) -> None:
    """Move a frame that stands at the note of a failure back to the first equation that was made from the checked one."""
    copies = (
        position
        for position, equation in enumerate(frame.jaxpr.equations[: frame.position])
        if origins_of(equation, frozenset({checked.id}))
    )
    frame.move(next(copies, frame.position))


def check_effects(frame: Frame) -> None:
    """Raise EffectsError for a program that calls Python for values."""
    for jaxpr in programs_within(frame.jaxpr):
        for equation in jaxpr.equations:
            if equation.effects and equation.results and not bodies_of(equation):
                raise EffectsError(
                    "a program is searched by running it several times, and this one has effects that give values.",
                    got=f"`{equation.primitive.name}`",
                    do="Step through it; or search the part of the program that has no such effect.",
                )


def _search(frame: Frame, errors: Errors) -> list[tuple[Frame, Call | None, Turn]] | None:
    """The levels from `frame` to the first match, or None."""
    with scope_of(frame.positions):
        checked = checked_program(frame.jaxpr, errors)
    if not checked.sites:
        return None
    inputs = [frame.values[v] for v in frame.jaxpr.invars]
    codes = np.ravel(run_at(frame.positions, checked.program, inputs, checked.consts)[0])
    if not codes.any():
        return None
    site = checked.sites[min(codes[codes > 0]) - 1]
    failing = site.equation or _check_of(frame, site)
    here: list[tuple[Frame, Call | None, Turn]] = [(frame, None, (0, 0))]
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
    return here  # compiled apart, a value at the bound of the condition may round to the other side


def _turns(call: Call, errors: Errors) -> Iterator[Turn]:
    """The turns of a call in which a result may meet the condition, in their order: of a loop those found by one program."""
    turn = call.first()
    if not call.is_loop or call.equation.effects:
        while turn is not None:
            yield turn
            turn = call.after(turn)
        return
    search = Search(("watch", errors), lambda _: errors)
    number = call.meeting(search, 0)
    while number is not None:
        yield from call.turns_of(number)
        number = call.meeting(search, number + 1)
    if (last := call.last()) is not None:
        yield last  # the test that ends the loop


def _check_of(frame: Frame, site: Site) -> Equation:
    """The equation of a `check` of the user."""
    equations = [e for program in programs_within(frame.jaxpr) for e in program.equations]
    return next(e for e in equations if e.primitive is check_p and site in e.params.sites)


def _holds(equation: Equation, other: Equation) -> bool:
    """Whether an equation is the other one, or runs a program that it lies in."""
    return equation is other or any(
        other in program.equations
        for body in bodies_of(equation)
        for program in programs_within(body.jaxpr)
    )
