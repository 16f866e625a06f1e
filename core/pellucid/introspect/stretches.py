"""Consecutive equations of a program as one compiled program that gives all their values, also those within calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pellucid._machine.ir import (
    ClosedJaxpr,
    DropVar,
    Equation,
    Jaxpr,
    Literal,
    Var,
)

from .silence import is_note
from .stepping import (
    EquationRuns,
    SteppedFrame,
    Turn,
    called_program,
    can_enter,
    n_bytes,
    run_at,
    slots_of,
)

MAX_BYTES = 1 << 28
"""Maximum bytes of the values of one stretch, unless a single equation has more."""

Path = tuple[int, ...]
"""Position of an equation in a program, after those of the calls around it."""
Scope = dict[Any, Any]
"""For each variable of a program that a stretch contains, the variable of the stretch's program or the literal that holds it."""


class Place(NamedTuple):
    """An equation, and the variables of the stretch's program that hold its results."""

    path: Path
    equation: Equation
    results: tuple[Any, ...]


class Stretch(NamedTuple):
    """Consecutive equations of a program, up to before `end`."""

    end: int
    program: ClosedJaxpr
    """It has the calls inlined, and gives each value that it computes."""
    places: tuple[Place, ...]
    """The equations that compute values, in execution order, and not the calls around them."""
    scopes: dict[Path, Scope]
    """That of each call, by its path, and that of the equations outside of calls, by ()."""


def is_straight(equation: Equation) -> bool:
    """Whether an equation belongs to stretches: it runs no program, or calls one once of which all equations do."""
    if not can_enter(equation):
        return True
    program = called_program(equation)
    return program is not None and is_straight_program(program.jaxpr)


def is_straight_program(jaxpr: Jaxpr) -> bool:
    """Whether all equations of a program belong to stretches; cached."""
    if "is straight" not in jaxpr.memo:
        jaxpr.memo["is straight"] = all(map(is_straight, jaxpr.equations))
    return jaxpr.memo["is straight"]


def stretch_from(jaxpr: Jaxpr, start: int) -> Stretch | None:
    """The stretch that begins at an equation; None if that runs programs that don't belong to it. Cached."""
    key = "searched stretch", start
    if key not in jaxpr.memo:
        end = _end_of(jaxpr, start)
        jaxpr.memo[key] = _stretch(jaxpr, start, end) if end > start else None
    return jaxpr.memo[key]


def _end_of(jaxpr: Jaxpr, start: int) -> int:
    total = 0
    for position in range(start, len(jaxpr.equations)):
        equation = jaxpr.equations[position]
        total += _bytes_of(equation)
        if not is_straight(equation) or (total > MAX_BYTES and position > start):
            return position
    return len(jaxpr.equations)


def _bytes_of(equation: Equation) -> int:
    """Bytes of the results of an equation, and of all values of the programs that it calls."""
    inner = [e for slot in _programs(equation) for e in slot.program.jaxpr.equations]
    return sum(n_bytes(v.aval) for v in equation.results) + sum(map(_bytes_of, inner))


def _programs(equation: Equation) -> Sequence[Any]:
    slots = slots_of(equation)
    return () if slots is None else slots.programs


def _stretch(jaxpr: Jaxpr, start: int, end: int) -> Stretch:
    equations: list[Equation] = []
    places: list[Place] = []
    scopes: dict[Path, Scope] = {}

    def visit(source: Iterator[tuple[int, Equation]], around: Path, held: Scope) -> None:
        scopes[around] = held
        for position, equation in source:
            if is_note(equation):
                continue
            path = (*around, position)
            operands: list[Any] = [
                a if type(a) is Literal else held.get(a, a) for a in equation.operands
            ]
            program = called_program(equation)
            if program is None:
                # A DropVar is a result that nothing uses: it has no value to know.
                results: list[Any] = [
                    v if type(v) is DropVar else Var(v.aval) for v in equation.results
                ]
                equations.append(equation.replace(operands=operands, results=results))
                places.append(
                    Place(path, equation, tuple(v for v in results if type(v) is not DropVar))
                )
            else:
                inner: Scope = dict(zip(program.jaxpr.invars, operands, strict=True))
                visit(enumerate(program.jaxpr.equations), path, inner)
                results = [
                    a if type(a) is Literal else inner.get(a, a) for a in program.jaxpr.outvars
                ]
            held.update(zip(equation.results, results, strict=True))

    own: Scope = {}
    visit(iter([*enumerate(jaxpr.equations)][start:end]), (), own)
    computed = dict.fromkeys(v for place in places for v in place.results)
    # Each variable that the equations use and don't compute, in order of first use.
    inputs: dict[Any, None] = dict.fromkeys(
        a for e in equations for a in e.operands if type(a) is not Literal and a not in computed
    )
    program = Jaxpr((), [*inputs], equations, [*computed], debug=jaxpr.debug)
    return Stretch(end, ClosedJaxpr(program), tuple(places), scopes)


def run_stretch(frame: SteppedFrame, stretch: Stretch) -> dict[Any, Any]:
    """The values of a stretch, by variable of its program. The frame, which stands before it, goes to its end."""
    program = stretch.program.jaxpr
    inputs: dict[Any, Any] = dict(zip(program.invars, frame.read(program.invars), strict=True))
    values: dict[Any, Any] = {}
    if program.outvars:
        results = run_at(frame.positions, stretch.program, [*inputs.values()])
        values = dict(zip(program.outvars, results, strict=True))
    frame.know_to(stretch.end, _values_by_scope(stretch.scopes[()], inputs | values))
    return inputs | values


def levels_to(
    frame: SteppedFrame, stretch: Stretch, place: Place, values: dict[Any, Any]
) -> list[tuple[SteppedFrame, EquationRuns, Turn]]:
    """The levels from a frame that ran a stretch to one of its equations, before which they stop; its `values` are known."""
    levels: list[tuple[SteppedFrame, EquationRuns, Turn]] = []
    for depth, position in enumerate(place.path):
        frame.know_from(position, _values_by_scope(stretch.scopes[place.path[:depth]], values))
        if depth + 1 < len(place.path):
            call = frame.call()
            turn = None if call is None else call.first()
            assert call is not None
            assert turn is not None
            frame = call.frame(turn)
            levels.append((frame, call, turn))
    return levels


def _values_by_scope(scope: Scope, values: dict[Any, Any]) -> dict[Any, Any]:
    """The values of the variables of a program, by `scope`, which maps each to an atom of the stretch."""
    return {
        v: a.val if type(a) is Literal else values[a]
        for v, a in scope.items()
        if type(a) is Literal or a in values
    }
