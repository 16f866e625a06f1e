"""`jit` and other primitives that call a single program."""

from __future__ import annotations

from typing import Any, NamedTuple

from pellucid._machine.base.late import late
from pellucid._machine.ir import (
    ClosedJaxpr,
    Equation,
    HigherOrderPrimitive,
    Jaxpr,
    Linearized,
    Mask,
    OneJaxprPrimitive,
    P,
    Primitive,
    Shown,
    Values,
    called_program,
    inline_programs,
)
from pellucid._machine.primitives import broadcast_in_dim, select_n
from pellucid._machine.tracing import (
    bind,
    context,
    keeps_calls,
    replay,
    type_of,
    types_of,
)
from pellucid._machine.transforms import (
    WORTH_AN_EQUATION,
    Worth,
    batch_jaxpr,
    cotangents_of,
    jvp_jaxpr,
    linear_parts,
    linearize_jaxpr,
    nonzero,
    nonzero_mask,
    split_tangents,
    transpose_jaxpr,
)

from .structured import Structured, with_linear_part

# What derived programs share --------------------------------------------------------------------------------


def without_calls(jaxpr: Jaxpr, excluded: Primitive | None = None) -> Jaxpr:
    """The program with calls inlined, except those by the primitive `excluded`; cached."""

    def body_of(equation: Equation) -> ClosedJaxpr | None:
        body = called_program(equation.primitive, equation.params)
        return None if body is None or equation.primitive is excluded else ClosedJaxpr(body)

    return jaxpr.remembered(("without calls", excluded), lambda: inline_programs(jaxpr, body_of)[0])


def select_rows(which: Any, *cases: Any) -> Any:
    """Selects among `cases` for each element along axis 0, by the vector `which`."""
    shape = type_of(cases[0]).shape
    return select_n(broadcast_in_dim(which, shape, (0,)) if len(shape) > 1 else which, *cases)


# Calls of one program -------------------------------------------------------------------------------


_RECOMPUTE = Worth(least_bytes=WORTH_AN_EQUATION, by_kernel=True)


class JaxprCall(Linearized, OneJaxprPrimitive[P], Structured[P]):
    """A call of a jaxpr. `params.on(jaxpr)` are the params for a jaxpr derived from it."""

    def with_slots(self, params: Any, slots):
        return params.on(slots.programs[0].program)

    def called(self, params):
        return self.program(params).jaxpr

    def jvp(self, primals, tangents, params: Any):
        program, consts, mask = jvp_jaxpr(params.jaxpr.jaxpr, nonzero_mask(tangents), False)
        # The derived program takes (consts, primals, nonzero tangents), returns (results, tangents marked by `mask`).
        operands = (*consts, *primals, *nonzero(tangents))
        results = bind(self, *operands, params=params.on(program))
        return split_tangents(results, mask)

    def linearize(self, trace, primals, tangents, params):
        parts = linearize_jaxpr(params.jaxpr.jaxpr, nonzero_mask(tangents), recompute=_RECOMPUTE)
        results = bind(self, *parts.consts, *primals, params=params.on(parts.primal))
        # `results` are those of the call, then residuals. A result that is an operand is replaced by that operand.
        n = len(parts.nonzero_out)
        results = [
            *(
                r if i is None else primals[i]
                for r, i in zip(results, parts.forwarded, strict=False)
            ),
            *results[n:],
        ]
        operands = (*parts.residuals(primals, results), *nonzero(tangents))
        linear = params.on(parts.linear)
        return with_linear_part(trace, self, results, parts.nonzero_out, operands, linear)

    def transpose(self, cotangents, operands, params: Any):
        linear, avals, residuals = linear_parts(operands, cotangents)
        # Takes (consts, nonlinear operands, nonzero cotangents), returns the cotangents marked by `mask`.
        program, consts, mask = transpose_jaxpr(params.jaxpr.jaxpr, linear, avals, False)
        results = bind(self, *consts, *residuals, *nonzero(cotangents), params=params.on(program))
        return cotangents_of(operands, results, mask)

    def batch(self, axis, operands, dims, params: Any):
        program, consts, out_dims = batch_jaxpr(params.jaxpr.jaxpr, axis, dims)
        return bind(self, *consts, *operands, params=params.on(program)), out_dims


class ClosedCallParams(NamedTuple):
    """The called program, without constants."""

    jaxpr: ClosedJaxpr

    def on(self, program: ClosedJaxpr) -> ClosedCallParams:
        """Params of a call of a program derived from this one."""
        return ClosedCallParams(program)


class ClosedCall(Shown, JaxprCall):
    """A plain call, without compilation of its own; its rules are those of the program."""

    name = "closed_call"

    def printed_params(self, equation):
        return {"call_jaxpr": equation.params.jaxpr}


closed_call_p = ClosedCall()


def run_program(jaxpr: Jaxpr, *operands: Any) -> Values:
    """Results of a program of one of the user's functions, as part of the current one: its equations are added to it, or, under
    `keeps_calls`, a call. Operands of other types than it was traced with are taken by its equations.
    """
    if (
        keeps_calls.value
        and not context.trace.is_eager
        and types_of(operands) == list(jaxpr.in_avals)
    ):
        return bind(closed_call_p, *operands, params=ClosedCallParams(ClosedJaxpr(jaxpr)))
    return replay(jaxpr, (), *operands)


class CoreCall(ClosedCall):
    """A plain call, under JAX's name for calls of functions."""

    name = "call"

    def bind(self, *operands: Any, **params: Any) -> Any:
        """Results of a program `jaxpr`, or of a function of flat values, `subfuns=(function,)`."""
        if "subfuns" in params:
            return late("call of functions")(*operands, **params)
        return super().bind(*operands, **params)


call_p = CoreCall()


# jit -----------------------------------------------------------------------------------------------


class JitParams(NamedTuple):
    """`jaxpr` has no constants: the values that the function closes over are the leading operands."""

    name: str
    jaxpr: ClosedJaxpr
    donated_invars: Mask = ()
    inline: bool = False
    keep_unused: bool = False
    in_shardings: tuple[Any, ...] | None = None
    out_shardings: tuple[Any, ...] | None = None
    compiler_options: tuple[tuple[str, Any], ...] = ()
    is_layer: bool = False
    """Whether the call replaces one of several equal runs of equations; it is inlined in partitioned programs."""

    def on(self, program: ClosedJaxpr) -> JitParams:
        """Params of a call of a program derived from this one."""
        return JitParams(
            self.name,
            program,
            inline=self.inline,
            compiler_options=self.compiler_options,
            is_layer=self.is_layer,
        )


class Jit(Shown, JaxprCall[JitParams]):
    """A call of a program that is compiled as a separate function."""

    name = "jit"
    unshown, says_nothing = ("compiler_options", "is_layer"), (None, False, ())

    def lower(self, ctx, operands, params):
        return ctx.call(params.jaxpr.jaxpr, params.name, operands)


jit_p = Jit()


class Defined(JaxprCall[P]):
    """A primitive defined by a call: `params.as_call()` are params of a `definition`, an equivalent call.

    Its transformations are those of the call. Compilers and tools that know the primitive expect all its operands and
    results.
    """

    definition: JaxprCall = jit_p

    def program(self, params: Any):
        return params.as_call().jaxpr

    @staticmethod
    def _rule_of_definition(name: str) -> Any:
        """Implements a rule, whose last argument are the params, by that of the definition."""
        return lambda self, *args: getattr(self.definition, name)(*args[:-1], args[-1].as_call())

    jvp, linearize, transpose, masked, batch, discharge = map(
        _rule_of_definition, ("jvp", "linearize", "transpose", "masked", "batch", "discharge")
    )
    dead_code = HigherOrderPrimitive.dead_code
