"""Recomputation of residuals in the linear program, where that needs less memory than keeping them.

An inner program returns its residuals as results, so XLA can't see that some of them follow cheaply from others (a
quotient of two that are kept, a 0-or-1 mask from a comparison). Loops keep them for every step. Equations that are
cheap and save memory are moved from the primal to the linear program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pellucid._machine.base import ScopeStack, known_at_least, strict_zip
from pellucid._machine.ir import Atom, Equation, Jaxpr, Lineage, Literal, Var, next_id

WORTH_AN_EQUATION = 1024
"""Minimum number of bytes kept, over all steps of a loop, that justify one recomputed equation."""

SMALL_FRACTION_DIVISOR = 16
"""An operand is small if it has this many times fewer elements than the result."""

MAX_RECOMPUTED_EQUATIONS = 16
"""Maximum number of equations to recompute a residual."""


_RECOMPUTED = ScopeStack(None, "rematted_computation")
"""Scope of recomputed equations, named as in JAX."""


class RecomputationPlan(NamedTuple):
    """How the linear program gets a variable: recomputed by `equation`, or kept if None.

    `extra_bytes` must be kept for it besides the residuals; `equations` is the number of equations to run.
    `from_memory` means that all it depends on is in memory anyway: inputs and results of costly primitives.
    """

    equation: Equation | None
    extra_bytes: int
    equations: int
    from_memory: bool


class Worth(NamedTuple):
    """Criterion for recomputing a residual.

    It is recomputed if that saves `least_bytes`. With `by_kernel`, also if it hardly needs more memory than keeping it,
    and only depends on values in memory: XLA makes a kernel for each result of a call that isn't inlined.
    """

    least_bytes: int
    by_kernel: bool

    def justifies(self, plan: RecomputationPlan, nbytes: int) -> bool:
        """Whether a residual of `nbytes` bytes is recomputed."""
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
    """(`jaxpr` with other constants, variables of the primal program that provide their values).

    `residuals` are the variables for the constants of `jaxpr`, `primal_equations` the equations of the primal program.
    Those in `settled` (results of the program, available anyway) stay. A residual is dropped if it is worth recomputing
    from what else is kept.
    """
    distinct = set(residuals)
    plans = _plans(distinct, primal_equations)
    going = {
        v: plan
        for v, plan in plans.items()
        if v in distinct and v not in settled and worth.justifies(plan, v.aval.nbytes)  # type: ignore[attr-defined]
    }
    # A variable that is a residual twice has two constants, of which `renamed` could only map one.
    if not going or len(distinct) < len(residuals):
        return jaxpr, list(residuals)
    # Remaining residuals; after them, what is needed additionally to recompute the others.
    residual_vars = [v for v in residuals if v not in going]
    # Maps variables of the primal program to those with the same value in the linear program.
    renamed: dict[Var | Literal, Var] = dict(strict_zip(residuals, jaxpr.constvars))
    needed: set[int] = set()
    # From dropped residuals back to the equations that compute them.
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
    # These equations in the order of the primal program, to run before the linear ones.
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
    """For each variable computed by cheap equations, the best way to provide it in the linear program."""
    plans: dict[Var, RecomputationPlan] = {}
    for equation in primal_equations:
        if not _is_cheap(equation):
            continue
        # Summed over this equation and the cheap ones that compute its operands.
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
