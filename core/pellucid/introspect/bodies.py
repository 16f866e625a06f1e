"""The programs among the params of equations, such as the branches of a `cond`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from pellucid._machine.base.narrowing import is_list_or_tuple
from pellucid._machine.ir import ClosedJaxpr, Equation, HigherOrderPrimitive, Jaxpr, subjaxprs


class EquationBody(NamedTuple):
    """A program in a param of an equation."""

    jaxpr: Jaxpr
    role: str
    """The param that contains it, for example `jaxpr` or `branches[1]`."""
    trips: int | None
    """Number of runs of the program per run of the equation: 0 if only transformations use it; None if unknown."""
    is_branch: bool
    """Whether it is one of several programs of which the equation runs one."""


def bodies_of(equation: Equation) -> list[EquationBody]:
    """The programs among the params of `equation`."""
    params = equation.params
    if not isinstance(equation.primitive, HigherOrderPrimitive) or not subjaxprs(params):
        return []
    slots = equation.primitive.slots(params)
    is_branch = slots is not None and bool(slots.choosing)
    running = equation.primitive.running_program
    programs = None if slots is None else {id(slot.program) for slot in slots.programs}

    def trips(role: str, program: Jaxpr | ClosedJaxpr) -> int | None:
        if running:
            return 1 if role == running else 0
        if slots is None or programs is None:
            return None
        if id(program) not in programs:
            return 0
        return None if is_branch else slots.runs

    bodies: list[EquationBody] = []
    for role, value in zip(params._fields, params, strict=True):
        if isinstance(value, (Jaxpr, ClosedJaxpr)):
            bodies.append(EquationBody(_open(value), role, trips(role, value), is_branch))
        elif is_list_or_tuple(value):
            names = getattr(value, "_fields", None) or range(len(value))
            bodies += [
                EquationBody(
                    _open(item), f"{role}[{name}]", trips(f"{role}[{name}]", item), is_branch
                )
                for name, item in zip(names, value, strict=True)
                if isinstance(item, (Jaxpr, ClosedJaxpr))
            ]
    return bodies


def _open(program: Jaxpr | ClosedJaxpr) -> Jaxpr:
    return program.jaxpr if isinstance(program, ClosedJaxpr) else program


def programs_within(
    jaxpr: Jaxpr, bodies: Callable[[Equation], list[EquationBody]] = bodies_of
) -> Iterator[Jaxpr]:
    """A program and every program within it, once each, callers first; `bodies` gives those of an equation."""
    programs = {jaxpr: None}
    waiting = [jaxpr]
    for program in waiting:  # grows during the loop
        yield program
        for equation in program.equations:
            for body in bodies(equation):
                if body.jaxpr not in programs:
                    programs[body.jaxpr] = None
                    waiting.append(body.jaxpr)
