"""Residuals that are computed again in the linear program, because that takes less memory than keeping them.

A program within a program hands its residuals over as results, so XLA can't see that some of them follow from
others at little cost (a quotient of two that are kept anyway, a 0-or-1 mask made of a comparison). Loops keep
them for every step. What is cheap and saves memory moves from the primal program into the linear one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pellucid.ir.jaxpr import Equation, Jaxpr, Lineage, Literal, Var

CHEAP = frozenset({
    "abs", "and", "broadcast_in_dim", "clamp", "convert_element_type", "div", "eq", "expand_dims", "ge", "gt", "imag",
    "integer_pow", "iota", "le", "lt", "max", "min", "mul", "ne", "neg", "not", "or", "real", "reshape", "select_n",
    "sign", "square", "squeeze", "xor",
})  # fmt: skip
"""Primitives that take no longer than reading a result from memory would.

Sums are not among them: with them, whole polynomials move into the backward kernels and cost a tenth of a step.
"""

WORTH_AN_EQUATION = 1024
"""Bytes kept, in all steps of a loop together, from which on computing a residual again is worth an equation."""

_MOST_EQUATIONS = 16
"""A residual that takes more equations than this to compute again is kept."""


class Plan(NamedTuple):
    """How a variable is had in the linear program: from `equation`, or kept if that is None.

    `extra_bytes` is what must be kept for that besides the residuals, `equations` how many there are to run.
    """

    equation: Equation | None
    extra_bytes: int
    equations: int


def with_fewer_residuals(
    jaxpr: Jaxpr,
    residuals: Sequence[Var],
    known: Sequence[Equation],
    settled: set[Var],
    least_bytes: int,
) -> tuple[Jaxpr, list[Var]]:
    """`jaxpr` with other constants, and the variables of the primal program that give their values.

    `residuals` are the variables behind the constants of `jaxpr`, and `known` the equations of the primal program.
    Those in `settled` (results of the program, which are there anyway) stay. A residual goes if computing it
    again from what else is kept saves at least `least_bytes`.
    """
    plans = _plans(set(residuals), known)
    going = {
        v: plan
        for v, plan in plans.items()
        if v in residuals and v not in settled and v.aval.nbytes - plan.extra_bytes >= least_bytes  # type: ignore[attr-defined]
    }
    if not going or len(set(residuals)) < len(residuals):
        return jaxpr, list(residuals)
    kept = [v for v in residuals if v not in going]
    renamed = dict(zip(residuals, jaxpr.constvars, strict=True))
    needed: set[int] = set()
    pending = list(going)
    while pending:
        var = pending.pop()
        equation = (going.get(var) or plans[var]).equation
        if equation is None or equation.id in needed:
            continue
        needed.add(equation.id)
        for atom in equation.operands:
            if not isinstance(atom, Var) or atom in kept or atom in going:
                continue
            if atom not in renamed:
                renamed[atom] = Var(atom.aval)
            if _is_kept(plans.get(atom)):
                kept.append(atom)
            else:
                pending.append(atom)
    again = [
        equation.replace(
            id=None,
            operands=[a if type(a) is Literal else renamed[a] for a in equation.operands],  # type: ignore[index]
            results=[renamed[v] for v in equation.results],
            lineage=Lineage("recompute", (equation,)),
        )
        for equation in known
        if equation.id in needed
    ]
    constvars = [renamed[v] for v in kept]
    return jaxpr.replace(constvars=constvars, equations=[*again, *jaxpr.equations]), kept


def _plans(residuals: set[Var], known: Sequence[Equation]) -> dict[Var, Plan]:
    """For each variable that cheap equations make, the best way to have it in the linear program."""
    plans: dict[Var, Plan] = {}
    for equation in known:
        if equation.primitive.name not in CHEAP or equation.effects:
            continue
        extra, equations = 0, 1
        for atom in set(equation.operands):
            if type(atom) is Literal or atom in residuals:
                continue
            plan = plans.get(atom)  # type: ignore[arg-type]
            if plan is None or _is_kept(plan):
                extra += atom.aval.nbytes  # type: ignore[attr-defined]
            else:
                extra += plan.extra_bytes
                equations += plan.equations
        [var] = equation.results
        own = var.aval.nbytes  # type: ignore[attr-defined]
        pays = extra < own and equations <= _MOST_EQUATIONS
        plans[var] = Plan(equation, extra, equations) if pays else Plan(None, own, 0)
    return plans


def _is_kept(plan: Plan | None) -> bool:
    return plan is None or plan.equation is None
