"""Primitives that call a program: the rules that jit, remat and others share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pellucid.ir.effects import Effects
from pellucid.ir.facets import Linearized, OnReferences, Shown
from pellucid.ir.jaxpr import ClosedJaxpr, Equation
from pellucid.ir.primitive import P, Programs
from pellucid.ir.rewriting import remove_dead_equations
from pellucid.ir.rules import BatchAxis, BatchDim, LinearOperand, Zero
from pellucid.ir.slots import Slots, call_slots
from pellucid.ir.traits import CONTROL
from pellucid.tracing.discharge import discharged, held
from pellucid.tracing.trace import bind
from pellucid.tracing.values import type_of
from pellucid.transforms.jvp import jvp_jaxpr
from pellucid.transforms.linearize import linearize_jaxpr
from pellucid.transforms.recomputation import WORTH_AN_EQUATION, Worth
from pellucid.transforms.transpose import transpose_jaxpr
from pellucid.transforms.vmap import batch_jaxpr
from pellucid.transforms.zeros import spread

_RECOMPUTE = Worth(least_bytes=WORTH_AN_EQUATION, by_kernel=True)


class Call(Linearized, OnReferences, Programs[P]):
    """A call of `params.jaxpr`, which has no constants; `params.on(program)` calls a program derived from it."""

    traits = CONTROL

    def abstract_eval(self, avals, params: Any):
        return params.jaxpr.out_avals

    def effects(self, avals, params: Any):
        return params.jaxpr.effects

    def slots(self, params: Any):
        return call_slots(params.jaxpr)

    def called(self, params: Any):
        return params.jaxpr.jaxpr

    def jvp(self, primals, tangents, params: Any):
        nonzero = [type(t) is not Zero for t in tangents]
        program, consts, nonzero_out = jvp_jaxpr(params.jaxpr.jaxpr, nonzero, False)
        given = [t for t, nz in zip(tangents, nonzero, strict=True) if nz]
        results = bind(self, *consts, *primals, *given, params=params.on(program))
        n = len(nonzero_out)
        return results[:n], spread(results[n:], nonzero_out, params.jaxpr.out_avals)

    def linearize(self, trace, primals, tangents, params: Any):
        nonzero = [type(t) is not Zero for t in tangents]
        parts = linearize_jaxpr(params.jaxpr.jaxpr, nonzero, recompute=_RECOMPUTE)
        results = bind(self, *parts.consts, *primals, params=params.on(parts.primal))
        n = len(parts.nonzero_out)
        results = [
            *(
                r if i is None else primals[i]
                for r, i in zip(results, parts.forwarded, strict=False)
            ),
            *results[n:],
        ]
        found: Sequence[Any] = ()
        if any(parts.nonzero_out) or parts.linear.effects:
            given = [t for t, nz in zip(tangents, nonzero, strict=True) if nz]
            operands = (*parts.residuals(primals, results), *given)
            found = trace.stage_linear(self, operands, params.on(parts.linear))
        return results[:n], spread(found, parts.nonzero_out, params.jaxpr.out_avals)

    def transpose(self, cotangents, operands, params: Any):
        linear = [type(x) is LinearOperand for x in operands]
        avals = [None if type(ct) is Zero else type_of(ct) for ct in cotangents]
        program, consts, mask = transpose_jaxpr(params.jaxpr.jaxpr, linear, avals, False)
        given = [x for x, is_linear in zip(operands, linear, strict=True) if not is_linear]
        given += [ct for ct in cotangents if type(ct) is not Zero]
        results = iter(bind(self, *consts, *given, params=params.on(program)))
        masked = iter(mask)
        return [
            None if not is_linear else next(results) if next(masked) else Zero(x.aval)
            for x, is_linear in zip(operands, linear, strict=True)
        ]

    def batch(self, axis, operands, dims, params: Any):
        program, consts, out_dims = batch_jaxpr(params.jaxpr.jaxpr, axis, dims)
        return bind(self, *consts, *operands, params=params.on(program)), out_dims

    def discharge(self, operands, params: Any):
        body = discharged(params.jaxpr.jaxpr, operands)
        found = bind(self, *body.consts, *held(operands), params=params.on(body.program))
        return body.settle(operands, found)

    def lower(self, ctx, operands, params: Any):
        return ctx.inline(params.jaxpr.jaxpr, (), operands)

    def dead_code(self, used, equation):
        program: ClosedJaxpr = equation.params.jaxpr
        jaxpr = program.jaxpr
        key = ("dead code", tuple(used))
        found = jaxpr.memo.get(key)
        if found is None:
            pruned, used_inputs = remove_dead_equations(jaxpr, used)
            unchanged = pruned.equations == jaxpr.equations and all(used) and all(used_inputs)
            found = (None if unchanged else ClosedJaxpr(pruned), used_inputs)
            jaxpr.memo[key] = found
        pruned_program, used_inputs = found
        if pruned_program is None:
            return used_inputs, equation
        program = pruned_program
        if not program.jaxpr.equations and not program.effects and not any(used):
            return used_inputs, None
        operands = [x for x, u in zip(equation.operands, used_inputs, strict=True) if u]
        results = [x for x, u in zip(equation.results, used, strict=True) if u]
        return used_inputs, equation.replace(
            operands=operands, results=results, params=equation.params.on(program)
        )


class ClosedCallParams(NamedTuple):
    """The program, without constants."""

    jaxpr: ClosedJaxpr

    def on(self, program: ClosedJaxpr) -> ClosedCallParams:
        """Params of a call of a program derived from this one."""
        return ClosedCallParams(program)


class ClosedCall(Shown, Call):
    """A plain call: no compilation of its own, no rules but those of its program."""

    name = "closed_call"

    def printed_params(self, equation):
        return {"call_jaxpr": equation.params.jaxpr}


closed_call_p = ClosedCall()
