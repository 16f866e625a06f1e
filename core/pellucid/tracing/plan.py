"""Programs as short lists of steps, for those that are written into other programs again and again."""

from __future__ import annotations

from typing import Any, NamedTuple

from pellucid.ir.jaxpr import Atom, Jaxpr, Literal
from pellucid.ir.primitive import Primitive
from pellucid.ir.rules import Avals, Effects, Operands, Values


class Step(NamedTuple):
    """One equation; `reads` are positions of its operands among all values so far."""

    primitive: Primitive[Any]
    params: Any
    reads: list[int]
    avals: Avals
    effects: Effects


class Plan(NamedTuple):
    """The steps of a program. Its values are the operands, then `fixed`, then the results of each step.

    `fixed` are constants and literals; `literals` has for each the Literal, or None for a constant.
    `results` are positions among the values; `container` is the type of a result that holds several.
    """

    fixed: Values
    literals: list[Literal | None]
    steps: list[Step]
    results: list[int]
    container: type | None = None


def plan_of(jaxpr: Jaxpr, consts: Operands, container: type | None = None) -> Plan:
    """The plan of a program with its constants."""
    fixed = list(consts)
    literals: list[Literal | None] = [None] * len(fixed)
    positions: dict[Any, int] = {v: i for i, v in enumerate((*jaxpr.invars, *jaxpr.constvars))}
    atoms = [a for e in jaxpr.equations for a in e.operands] + list(jaxpr.outvars)
    for atom in atoms:
        if type(atom) is Literal and atom not in positions:
            positions[atom] = len(positions)
            fixed.append(atom.val)
            literals.append(atom)
    for equation in jaxpr.equations:
        for var in equation.results:
            positions[var] = len(positions)

    def position(atom: Atom) -> int:
        return positions[atom]

    steps = [
        Step(
            e.primitive, e.params, [position(a) for a in e.operands],
            tuple([v.aval for v in e.results]), e.effects,
        )
        for e in jaxpr.equations
    ]  # fmt: skip
    return Plan(fixed, literals, steps, [position(a) for a in jaxpr.outvars], container)
