"""Conditions and loops of kernels on every device, by MLIR's `scf`."""

from __future__ import annotations

from typing import Any

from pellucid._machine.higher_order.cond import cond_p
from pellucid._machine.higher_order.loop_primitives import scan_p, while_p
from pellucid._machine.ir import AbstractRef, Values
from pellucid._machine.xla.kernel_dialects import arith, ir, scf

from .programs import COMMON, Lowering, registering

rule = registering(COMMON)


@rule(cond_p)
def _cond(ctx: Lowering, equation, operands):
    index, *inputs = operands
    atoms = equation.operands[1:]
    branches = equation.params.branches
    if equation.params.branches_platforms is not None:
        raise ctx.unsupported("branches for platforms have no rule.")
    kinds = [ctx.type_of(v.aval) for v in equation.results]

    def choose(first: int) -> list[ir.Value]:
        """Results of the branches from `first` on."""
        if first == len(branches) - 1:
            return ctx.inline(branches[first].jaxpr, inputs, atoms)
        is_it = arith.cmpi(arith.CmpIPredicate.sle, index, ctx.int32(first))
        operation: Any = scf.IfOp(is_it, kinds, has_else=True)
        with ctx.inside(operation.then_block):
            scf.yield_(ctx.inline(branches[first].jaxpr, inputs, atoms))
        with ctx.inside(operation.else_block):
            scf.yield_(choose(first + 1))
        return list(operation.results)

    ctx.writes += 1  # a branch may write: what was read before is no longer known to be there
    results = choose(0)
    ctx.writes += 1
    return results


def operands_of_scan(ctx: Lowering, equation, operands) -> tuple[Values, Values]:
    """(constants, carried values) of a loop. Raises: UnsupportedError for loops with stacked values, and that carry references."""
    consts, carry, stacked = equation.params.split(operands)
    if stacked or len(equation.results) > len(carry):
        raise ctx.unsupported(
            "loops have no stacked inputs and results.", do="Use `fori_loop`, and references."
        )
    if any(type(a.aval) is AbstractRef for a in equation.operands[len(consts) :]):
        raise ctx.unsupported("a loop can't carry references.")
    return consts, carry


@rule(scan_p)
def _scan(ctx: Lowering, equation, operands):
    params = equation.params
    consts, carry = operands_of_scan(ctx, equation, operands)
    lower, upper, step = [ctx.int32(n) for n in (0, params.length, 1)]
    loop: Any = scf.ForOp(lower, upper, step, carry)
    ctx.writes += 1
    with ctx.inside(loop.body):
        inputs = [*consts, *loop.inner_iter_args]
        scf.yield_(ctx.inline(params.jaxpr.jaxpr, inputs, equation.operands[: len(consts)]))
    ctx.writes += 1
    return list(loop.results)


@rule(while_p)
def _while(ctx: Lowering, equation, operands):
    params = equation.params
    tested, consts, carry = params.split(operands)
    of_test, of_body, _ = params.split(equation.operands)
    kinds = [x.type for x in carry]
    loop: Any = scf.WhileOp(kinds, carry)
    locations = [ir.Location.current] * len(kinds)
    ctx.writes += 1
    before = loop.before.blocks.append(*kinds, arg_locs=locations)
    with ctx.inside(before):
        [goes_on] = ctx.inline(params.cond_jaxpr.jaxpr, [*tested, *before.arguments], of_test)
        scf.ConditionOp(goes_on, list(before.arguments))
    after = loop.after.blocks.append(*kinds, arg_locs=locations)
    with ctx.inside(after):
        scf.yield_(ctx.inline(params.body_jaxpr.jaxpr, [*consts, *after.arguments], of_body))
    ctx.writes += 1
    return list(loop.results)
