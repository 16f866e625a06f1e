"""Residuals that are computed again in the linear program, because that takes less memory than keeping them.

A program within a program hands its residuals over as results, so XLA can't see that some of them follow from
others at little cost (a quotient of two that are kept anyway, a 0-or-1 mask made of a comparison). Loops keep
them for every step. What is cheap and saves memory moves from the primal program into the linear one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pellucid._machine.base import ScopeStack, known_at_least, strict_zip
from pellucid._machine.ir import Atom, Equation, Jaxpr, Lineage, Literal, Var, next_id

WORTH_AN_EQUATION = 1024
"""Bytes kept, in all steps of a loop together, from which on computing a residual again is worth an equation."""

SMALL_FRACTION_DIVISOR = 16
"""An operand is small if it has this many times fewer elements than the result."""

MAX_RECOMPUTED_EQUATIONS = 16
"""A residual that takes more equations than this to compute again is kept."""


_RECOMPUTED = ScopeStack(None, "rematted_computation")
"""The scope of equations that are run again, as the reference calls it."""


class RecomputationPlan(NamedTuple):
    """How a variable is had in the linear program: from `equation`, or kept if that is None.

    `extra_bytes` is what must be kept for that besides the residuals, `equations` how many there are to run.
    `from_memory` says that what is kept lies in memory anyway: inputs and results of costly primitives.
    """

    equation: Equation | None
    extra_bytes: int
    equations: int
    from_memory: bool


class Worth(NamedTuple):
    """When a residual is worth computing again.

    If that saves `least_bytes`; and with `by_kernel` also if it takes hardly more bytes than keeping it, but is
    made of what lies in memory anyway: XLA makes a kernel for each result of a call that isn't inlined.
    """

    least_bytes: int
    by_kernel: bool

    def justifies(self, plan: RecomputationPlan, nbytes: int) -> bool:
        """Whether a residual of `nbytes` bytes goes."""
        if known_at_least(nbytes - plan.extra_bytes, self.least_bytes):
            return True
        return (
            self.by_kernel
            and plan.from_memory
            and known_at_least(nbytes, self.least_bytes)
            and known_at_least(nbytes + nbytes // SMALL_FRACTION_DIVISOR, plan.extra_bytes)
        )


def with_fewer_residuals(
    jaxpr: Jaxpr,
    residuals: Sequence[Var],
    primal_equations: Sequence[Equation],
    settled: set[Var],
    worth: Worth,
) -> tuple[Jaxpr, list[Var]]:
    """`jaxpr` with other constants, and the variables of the primal program that give their values.

    `residuals` are the variables behind the constants of `jaxpr`, and `primal_equations` the equations of the primal program.
    Those in `settled` (results of the program, which are there anyway) stay. A residual goes if computing it
    again from what else is kept is worth it.
    """
    distinct = set(residuals)
    plans = _plans(distinct, primal_equations)
    going = {
        v: plan
        for v, plan in plans.items()
        if v in distinct and v not in settled and worth.justifies(plan, v.aval.nbytes)  # type: ignore[attr-defined]
    }
    # A variable that is a residual twice has two constants, of which `renamed` would know one.
    if not going or len(distinct) < len(residuals):
        return jaxpr, list(residuals)
    # Residuals that stay; behind them comes what computing the others again needs besides.
    residual_vars = [v for v in residuals if v not in going]
    # From a variable of the primal program to the one that has its value in the linear program.
    renamed: dict[Var | Literal, Var] = dict(strict_zip(residuals, jaxpr.constvars))
    needed: set[int] = set()
    # From the residuals that go back to the equations that they follow from.
    pending = list(going)
    while pending:
        var = pending.pop()
        equation = (going.get(var) or plans[var]).equation
        if equation is None or equation.id in needed:
            continue
        needed.add(equation.id)
        for atom in equation.operands:
            if not isinstance(atom, Var) or atom in residual_vars or atom in going:
                continue
            if atom not in renamed:
                renamed[atom] = Var(atom.aval)
            plan = plans.get(atom)
            if plan is None or plan.equation is None:
                residual_vars.append(atom)
            else:
                pending.append(atom)
    # Those equations in the order of the primal program, to run before the linear ones.
    again = [
        equation.replace(
            id=next_id(),
            operands=[renamed.get(a, a) for a in equation.operands],
            results=[renamed[v] for v in equation.results],
            scope=_RECOMPUTED if equation.scope is None else equation.scope.on(_RECOMPUTED),
            lineage=Lineage("recompute", (equation,)),
        )
        for equation in primal_equations
        if equation.id in needed
    ]
    constvars = [renamed[v] for v in residual_vars]
    return jaxpr.replace(constvars=constvars, equations=[*again, *jaxpr.equations]), residual_vars


def _bytes_of(atom: Atom) -> int:
    return atom.aval.nbytes  # type: ignore[attr-defined]  # an array


def _plans(
    residuals: set[Var], primal_equations: Sequence[Equation]
) -> dict[Var, RecomputationPlan]:
    """For each variable that cheap equations make, the best way to have it in the linear program."""
    plans: dict[Var, RecomputationPlan] = {}
    for equation in primal_equations:
        if not _is_cheap(equation):
            continue
        # Summed over this equation and the cheap ones that its operands follow from.
        extra, equations, from_memory = 0, 1, True
        for atom in set(equation.operands):
            if type(atom) is Literal or atom in residuals:
                continue
            plan = plans.get(atom)  # type: ignore[arg-type]
            if plan is None or plan.equation is None:
                extra += _bytes_of(atom)
                from_memory &= plan is None
            else:
                extra += plan.extra_bytes
                equations += plan.equations
                from_memory &= plan.from_memory
        [var] = equation.results
        nbytes = _bytes_of(var)
        pays = equations <= MAX_RECOMPUTED_EQUATIONS and known_at_least(
            nbytes + nbytes // SMALL_FRACTION_DIVISOR, extra
        )
        plans[var] = (
            RecomputationPlan(equation, extra, equations, from_memory)
            if pays
            else RecomputationPlan(None, nbytes, 0, False)
        )
    return plans


def _is_cheap(equation: Equation) -> bool:
    if equation.effects or len(equation.results) != 1:
        return False
    cheap = equation.primitive.traits.cheap
    if cheap == "if one operand is small":
        [result], operands = equation.results, equation.operands
        most = result.aval.size // SMALL_FRACTION_DIVISOR  # type: ignore[attr-defined]
        return any(
            type(x) is Literal or known_at_least(most, x.aval.size)  # type: ignore[attr-defined]
            for x in operands
        )
    return cheap
