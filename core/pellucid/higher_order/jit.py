"""The call of a program as a primitive, which jitted functions become under a trace."""

from __future__ import annotations

from typing import Any, NamedTuple

from pellucid.higher_order.calls import Call
from pellucid.ir.jaxpr import ClosedJaxpr
from pellucid.ir.primitive import P
from pellucid.ir.rules import Mask, Shown


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
