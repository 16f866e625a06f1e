"""Primitives that call a program: the rules that jit, remat and others share, and the call that jitted functions become."""

from __future__ import annotations

from typing import Any, NamedTuple

from pellucid.ir import ClosedJaxpr, Linearized, Mask, OneProgram, P, Results, Shown
from pellucid.tracing import bind
from pellucid.transforms.jvp import jvp_jaxpr
from pellucid.transforms.linearize import linearize_jaxpr
from pellucid.transforms.recomputation import WORTH_AN_EQUATION, Worth
from pellucid.transforms.transpose import transpose_jaxpr
from pellucid.transforms.vmap import batch_jaxpr
from pellucid.transforms.zeros import cotangents_of, linear_parts, nonzero, nonzero_mask, paired

from .structured import Structured

_RECOMPUTE = Worth(least_bytes=WORTH_AN_EQUATION, by_kernel=True)


class Call(Linearized, OneProgram[P], Structured[P]):
    """A call of a program; `params.on(program)` calls one derived from it."""

    def with_slots(self, params: Any, slots):
        return params.on(slots.programs[0].program)

    def called(self, params):
        return self.program(params).jaxpr

    def jvp(self, primals, tangents, params: Any):
        program, consts, mask = jvp_jaxpr(params.jaxpr.jaxpr, nonzero_mask(tangents), False)
        operands = (*consts, *primals, *nonzero(tangents))
        results = bind(self, *operands, params=params.on(program))
        return paired(results, mask)

    def linearize(self, trace, primals, tangents, params):
        parts = linearize_jaxpr(params.jaxpr.jaxpr, nonzero_mask(tangents), recompute=_RECOMPUTE)
        results = bind(self, *parts.consts, *primals, params=params.on(parts.primal))
        n = len(parts.nonzero_out)
        results = [
            *(
                r if i is None else primals[i]
                for r, i in zip(results, parts.forwarded, strict=False)
            ),
            *results[n:],
        ]
        out_tangents: Results = ()
        if any(parts.nonzero_out) or parts.linear.effects:
            operands = (*parts.residuals(primals, results), *nonzero(tangents))
            out_tangents = trace.stage_linear(self, operands, params.on(parts.linear))
        return paired([*results[:n], *out_tangents], parts.nonzero_out)

    def transpose(self, cotangents, operands, params: Any):
        linear, avals, residuals = linear_parts(operands, cotangents)
        program, consts, mask = transpose_jaxpr(params.jaxpr.jaxpr, linear, avals, False)
        results = bind(self, *consts, *residuals, *nonzero(cotangents), params=params.on(program))
        return cotangents_of(operands, results, mask)

    def batch(self, axis, operands, dims, params: Any):
        program, consts, out_dims = batch_jaxpr(params.jaxpr.jaxpr, axis, dims)
        return bind(self, *consts, *operands, params=params.on(program)), out_dims


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


class CoreCall(ClosedCall):
    """A plain call under the name that the reference gives to calls of functions."""

    name = "call"


call_p = CoreCall()


# jit -----------------------------------------------------------------------------------------------


class JitParams(NamedTuple):
    """`jaxpr` has no constants: what the function closes over are operands in front of its arguments."""

    name: str
    jaxpr: ClosedJaxpr
    donated_invars: Mask = ()
    inline: bool = False
    keep_unused: bool = False
    in_shardings: tuple[Any, ...] | None = None
    out_shardings: tuple[Any, ...] | None = None
    compiler_options: tuple[tuple[str, Any], ...] = ()

    def on(self, program: ClosedJaxpr) -> JitParams:
        """Params of a call of a program derived from this one."""
        return JitParams(
            self.name, program, inline=self.inline, compiler_options=self.compiler_options
        )


class Jit(Shown, Call[JitParams]):
    """A call of a program that is compiled as a function of its own."""

    name = "jit"
    unshown, says_nothing = ("compiler_options",), (None, False, ())

    def lower(self, ctx, operands, params):
        return ctx.call(params.jaxpr.jaxpr, params.name, operands)


jit_p = Jit()


class Defined(Call[P]):
    """A primitive with a definition: `params.as_call()` are params of a `definition`, a call that does the same.

    Transformed, it is the transformed call. Compilers and tools that know it expect all of its operands and results.
    """

    definition: Call[Any] = jit_p

    def program(self, params: Any):
        return params.as_call().jaxpr

    def jvp(self, primals, tangents, params):
        return self.definition.jvp(primals, tangents, params.as_call())

    def linearize(self, trace, primals, tangents, params):
        return self.definition.linearize(trace, primals, tangents, params.as_call())

    def transpose(self, cotangents, operands, params):
        return self.definition.transpose(cotangents, operands, params.as_call())

    def batch(self, axis, operands, dims, params):
        return self.definition.batch(axis, operands, dims, params.as_call())

    def discharge(self, operands, params):
        return self.definition.discharge(operands, params.as_call())

    def dead_code(self, used, equation):
        return [True] * len(equation.operands), equation
