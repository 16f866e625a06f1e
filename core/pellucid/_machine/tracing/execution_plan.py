"""Execution plans: how operands and results of consecutive primitives are connected."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pellucid._machine.ir import (
    Avals,
    Effects,
    Jaxpr,
    Literal,
    Operands,
    Primitive,
    Results,
    Values,
)


class PlannedEquation(NamedTuple):
    """One equation; `take` selects its operands from the list of all values so far."""

    primitive: Primitive
    params: Any
    take: Callable[[Values], Operands]
    avals: Avals
    effects: Effects


class ExecutionPlan(NamedTuple):
    """The steps of a program. The list of values consists of the operands, then `fixed`, then the results of each step.

    `fixed` are the values of `literals`. `results` are indices of the program's results in the list, and `take` selects
    them; `container` is the type of a result with several values. `derived` are programs that transformations made of
    the plan.
    """

    fixed: Values
    literals: list[Literal]
    steps: list[PlannedEquation]
    results: list[int]
    take: Callable[[Values], Results]
    container: type | None = None
    derived: dict[Any, Any] = {}  # noqa: RUF012  (each plan has one of its own)


def execution_plan(jaxpr: Jaxpr, container: type | None = None) -> ExecutionPlan:
    """The plan of a program, which takes its constants after its inputs."""
    equations = jaxpr.equations
    atoms = (*(a for e in equations for a in e.operands), *jaxpr.outvars)
    literals = [*dict.fromkeys(a for a in atoms if isinstance(a, Literal))]
    computed = [v for e in equations for v in e.results]
    values = (*jaxpr.invars, *jaxpr.constvars, *literals, *computed)
    positions: dict[Any, int] = {v: i for i, v in enumerate(values)}
    steps = [
        PlannedEquation(
            e.primitive, e.params, _taker([positions[a] for a in e.operands]),
            tuple([v.aval for v in e.results]), e.effects,
        )
        for e in equations
    ]  # fmt: skip
    return ExecutionPlan(
        [literal.val for literal in literals],
        literals,
        steps,
        (results := [positions[a] for a in jaxpr.outvars]),
        _taker(results),
        container,
        {},
    )


def _taker(positions: Sequence[int]) -> Callable[[Values], Sequence[Any]]:
    """A function that selects the elements of a list at `positions`, as a list or tuple."""
    if len(positions) > 1:
        return operator.itemgetter(*positions)
    [first] = positions or [0]
    return operator.itemgetter(slice(first, first + len(positions)))
