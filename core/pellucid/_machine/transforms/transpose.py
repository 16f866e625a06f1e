"""Transposition of a linear program: from cotangents of its results to cotangents of its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any

from pellucid._machine.base import strict_zip
from pellucid._machine.ir import (
    Avals,
    Equation,
    HigherOrderPrimitive,
    Jaxpr,
    Lineage,
    LinearOperand,
    Literal,
    Mask,
    Operands,
    TransposedByUser,
    Values,
    Zero,
    programs_of,
)
from pellucid._machine.primitives import add_tangents, instantiate
from pellucid._machine.tracing import (
    run_equations,
    use_facts,
    value_of_literal,
    values_of_constants,
    without_references,
)

from .derived import Derived, derivation, flag_list, stage_open
from .zeros import as_cotangent_of


def backward_pass(
    jaxpr: Jaxpr, consts: Operands, cotangents: Operands, operands: Operands | None = None
) -> Values:
    """Cotangents of the inputs given as `LinearOperand` (None for others), under the current trace.

    `jaxpr` is jointly linear in these inputs (without `operands`, in all inputs). Cotangents may be `Zero`. Equations
    that depend on no linear input are evaluated first.
    """
    jaxpr, more_consts = without_references(jaxpr)
    consts = [*more_consts, *consts]
    # Each variable is in one of two tables: `values` if its value is known, `linear` if it depends on a linear input.
    values = values_of_constants(jaxpr, consts)
    linear: dict[Any, LinearOperand] = {}
    if operands is None:
        operands = [LinearOperand(v.aval) for v in jaxpr.invars]  # type: ignore[arg-type]
    for var, x in strict_zip(jaxpr.invars, operands):
        (linear if type(x) is LinearOperand else values)[var] = x
    # Equations with a linear operand are transposed, in reverse; the others have known operands and run now.
    scheduled: list[Equation] = []
    nonlinear: list[Equation] = []
    for equation in jaxpr.equations:
        if not linear.keys().isdisjoint(equation.operands):
            for v in equation.results:
                linear[v] = LinearOperand(v.aval)  # type: ignore[arg-type]
            scheduled.append(equation)
        else:
            nonlinear.append(equation)
    run_equations(nonlinear, values)

    # For each variable, the sum of the cotangents received from its uses so far.
    cotangent_of: dict[Any, Any] = {}
    asks_user = any(_asks_user(e) for e in scheduled if isinstance(e.primitive, _ASKING))
    zeros: set[Any] = set()
    """Values with a zero cotangent that reach the results: user rules are called for these, too."""

    def add(atom: Any, ct: Any) -> None:
        if ct is None or type(ct) is Zero:
            zeros.add(atom)
        else:
            cotangent_of[atom] = (
                add_tangents(cotangent_of[atom], ct) if atom in cotangent_of else ct
            )

    # One cotangent per result. Results that don't depend on linear inputs are skipped.
    for atom, ct in strict_zip(jaxpr.outvars, cotangents):
        if atom in linear:
            add(atom, ct)

    with use_facts() as facts:
        # In reverse, so that all uses of an equation's results come first, and their cotangents are complete.
        for equation in reversed(scheduled):
            results, operands = equation.results, equation.operands
            # Without a nonzero cotangent, skip the equation, unless a user rule must be called for zeros.
            if cotangent_of.keys().isdisjoint(results):
                if not asks_user or zeros.isdisjoint(results):
                    continue
                if not _asks_user(equation):
                    zeros.update(operands)
                    continue
            result_cotangents: Values = []
            for v in results:
                # Removed, so that its memory can be freed: no further equation uses it.
                ct = cotangent_of.pop(v) if v in cotangent_of else Zero(v.aval)
                result_cotangents.append(ct)
            # Operands as the rule sees them: known values, or a `LinearOperand` (type only).
            operand_values = [
                value_of_literal(a)
                if type(a) is Literal
                else linear[a]
                if a in linear
                else values[a]
                for a in operands
            ]
            lineage = equation.lineage
            origins = lineage.origins if lineage is not None else (equation,)
            facts.enter(equation, Lineage("transpose", origins))
            operand_cotangents = equation.primitive.transpose(
                tuple(result_cotangents), tuple(operand_values), equation.params
            )
            # The rule returns one cotangent per operand, None for those that are not linear.
            for atom, ct in strict_zip(operands, operand_cotangents):
                if atom in linear:
                    add(atom, as_cotangent_of(atom.aval, ct))
    return [
        cotangent_of.get(var, Zero(var.aval)) if var in linear else None for var in jaxpr.invars
    ]


_ASKING = TransposedByUser, HigherOrderPrimitive


def _asks_user(equation: Equation) -> bool:
    """Whether transposing the equation, or an equation of an inner program, calls a user rule."""
    return isinstance(equation.primitive, TransposedByUser) or any(
        map(_any_asks_user, programs_of(equation))
    )


def _any_asks_user(jaxpr: Jaxpr) -> bool:
    return jaxpr.remembered("asks user", lambda: any(map(_asks_user, jaxpr.equations)))


def _cotangent_names(jaxpr: Jaxpr, linear: Mask, mask: Sequence[bool]) -> list[str]:
    """`d(x)` for the cotangent of each linear input marked by `mask`, which is `x` or the tangent `δ(x)`."""
    n = len(jaxpr.invars)
    names = () if jaxpr.debug is None else jaxpr.debug.rearranged(n, range(n)).argument_names
    primal = [name[2:-1] if name.startswith("δ(") else name for name in names]
    return [name and f"d({name})" for name in compress(compress(primal, linear), mask)]


@derivation("transpose")
def transpose_jaxpr(
    jaxpr: Jaxpr,
    linear: Mask,
    cotangent_avals: Avals,
    instantiate_results: bool | Mask,
    in_avals: Avals | None = None,
) -> Derived:
    """The transpose of `jaxpr`, which has no constants, for cotangents of the given types, None for zeros.

    It maps (nonlinear inputs, nonzero cotangents of the results) to the cotangents of the linear inputs marked by
    `mask`: nonzero ones, and those in `instantiate_results`. Rules see linear inputs with types `in_avals` (default:
    those of `jaxpr`), which may only differ in weak types.
    """
    # `want` and `mask` have one flag per linear input; `linear` one per input, `cotangent_avals` one per result.
    want = flag_list(instantiate_results, sum(linear))
    rule_avals = in_avals or jaxpr.in_avals
    mask: list[bool] = []

    def backward(*arguments: Any) -> Values:
        # `arguments` are the nonlinear inputs, then the nonzero cotangents; here all are put back in their places.
        values = iter(arguments)
        operands = [
            LinearOperand(aval) if is_linear else next(values)  # type: ignore[arg-type]
            for aval, is_linear in strict_zip(rule_avals, linear)
        ]
        cotangents = [
            Zero(v.aval) if aval is None else next(values)
            for v, aval in strict_zip(jaxpr.outvars, cotangent_avals)
        ]
        argument_cotangents = backward_pass(jaxpr, (), cotangents, operands)
        # Before: one per input, None for nonlinear ones. After: one per linear input.
        linear_cotangents = [
            ct for ct, is_linear in strict_zip(argument_cotangents, linear) if is_linear
        ]
        mask[:] = [w or type(ct) is not Zero for w, ct in strict_zip(want, linear_cotangents)]
        # The program returns those marked by `mask`, as arrays.
        return [instantiate(ct) for ct, m in strict_zip(linear_cotangents, mask) if m]

    # Types of `arguments`, in their order.
    avals = [v.aval for v, is_linear in strict_zip(jaxpr.invars, linear) if not is_linear]
    avals += [aval for aval in cotangent_avals if aval is not None]
    # Nonlinear inputs keep their names; cotangents have none.
    kept = [i for i, is_linear in enumerate(linear) if not is_linear]
    positions = [*kept, *[None] * (len(avals) - len(kept))]
    debug = jaxpr.debug and jaxpr.debug.rearranged(len(linear), positions, ())
    if debug is not None:
        debug = debug.with_results(lambda: _cotangent_names(jaxpr, linear, mask))
    program, consts = stage_open(backward, avals, debug)
    return Derived(program, consts, tuple(mask))
