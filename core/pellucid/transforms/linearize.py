"""The linear approximation of a function at a point, in one pass.

A rule runs on primals that belong to the parent trace and tangents that are tracers of a linear staging
trace. Each primitive that the rule binds goes to the one or the other by its operands, so the primal part
is computed (or staged) by the parent and the linear part is written down, in one run of the function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pellucid.ir.jaxpr import Jaxpr, Lineage
from pellucid.ir.primitive import Primitive
from pellucid.ir.rules import Zero
from pellucid.tracing.context import context, use_trace
from pellucid.tracing.replay import replay
from pellucid.tracing.staging import StagingTrace, StagingTracer, stage
from pellucid.tracing.trace import Trace
from pellucid.tracing.tracer import Tracer
from pellucid.tracing.values import type_of
from pellucid.transforms.jvp import concrete_value
from pellucid.transforms.zeros import instantiate


class LinearProgram(NamedTuple):
    """The linear part of a function at a point: `jaxpr` maps tangents of some inputs to those of some results.

    `residuals` are the values of its constants; the masks say which inputs' and results' tangents are nonzero.
    """

    jaxpr: Jaxpr
    residuals: list[Any]
    nonzero_in: list[bool]
    nonzero_out: list[bool]
    out_avals: list[Any]


def linearize_flat(
    function: Callable[..., Sequence[Any]], primals: Sequence[Any], nonzero: Sequence[bool]
) -> tuple[list[Any], LinearProgram]:
    """Results of a function of flat values, and the linear program of its tangents."""
    parent = context.trace
    linear = StagingTrace()
    trace = LinearizeTrace(parent, linear)
    arguments = [
        LinearizeTracer(trace, p, linear.new_argument(type_of(p).tangent())) if nz else p
        for p, nz in zip(primals, nonzero, strict=True)
    ]
    try:
        with use_trace(trace):
            results = function(*arguments)
        split = [trace.split(x) for x in results]
        tangents = [t for _, t in split if type(t) is not Zero]
        jaxpr, residuals = linear.finish(tangents)
    finally:
        linear.close()
    nonzero_out = [type(t) is not Zero for _, t in split]
    out_avals = [type_of(p) for p, _ in split]
    return [p for p, _ in split], LinearProgram(jaxpr, residuals, list(nonzero), nonzero_out, out_avals)


class LinearizeTracer(Tracer):
    """A value with the tracer of its tangent."""

    __slots__ = ("primal", "tangent")

    def __init__(self, trace: LinearizeTrace, primal: Any, tangent: StagingTracer) -> None:
        self.trace = trace
        self.aval = type_of(primal)
        self.primal = primal
        self.tangent = tangent

    def concrete(self) -> Any:
        return concrete_value(self.primal)

    def origin(self) -> str | None:
        return self.primal.origin() if isinstance(self.primal, Tracer) else None


class LinearizeTrace(Trace):
    """Runs jvp rules; the linear half of what they bind is staged, the rest goes to the parent."""

    __slots__ = ("linear", "parent", "rules")

    def __init__(self, parent: Trace, linear: StagingTrace) -> None:
        self.parent = parent
        self.linear = linear
        self.rules = RuleTrace(parent, linear)

    def split(self, x: Any) -> tuple[Any, Any]:
        """(primal, tangent) of `x`."""
        if type(x) is LinearizeTracer and x.trace is self:
            return x.primal, x.tangent
        return x, Zero(type_of(x).tangent())

    def joined(self, primals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """Tracers of values with their tangents; plain values where the tangent is zero.

        A tangent that does not depend on the linear inputs (a rule made it of constants) joins them as a constant.
        """
        return [
            p if type(t) is Zero else LinearizeTracer(self, p, self.linear_value(t))
            for p, t in zip(primals, tangents, strict=True)
        ]

    def linear_value(self, t: Any) -> StagingTracer:
        """`t` as a tracer of the linear program."""
        if type(t) is StagingTracer and t.trace is self.linear:
            return t
        var = self.linear.atom(t)
        return StagingTracer(self.linear, var, None)  # type: ignore[arg-type]

    def interpret(self, primitive: Primitive[Any], operands: tuple[Any, ...], params: Any) -> Any:
        primals = []
        tangents = []
        any_nonzero = False
        for x in operands:
            if type(x) is LinearizeTracer and x.trace is self:
                primals.append(x.primal)
                tangents.append(x.tangent)
                any_nonzero = True
            else:
                primals.append(x)
                tangents.append(None)
        if not any_nonzero:
            with use_trace(self.parent):
                return self.parent.interpret(primitive, operands, params)
        tangents = [
            Zero(type_of(p).tangent()) if t is None else t for p, t in zip(primals, tangents, strict=True)
        ]
        if primitive.linearize is not None:
            with use_trace(self.parent):
                results, out_tangents = primitive.linearize(self, tuple(primals), tuple(tangents), params)
        else:
            self.rules.primal_results = None
            with use_trace(self.rules):
                results, out_tangents = primitive.jvp(tuple(primals), tuple(tangents), params)
        return self.joined(results, out_tangents)

    def custom_jvp_call(self, function: Any, jvp: Any, operands: tuple[Any, ...], params: Any) -> Any:
        primals, tangents = zip(*map(self.split, operands), strict=True) if operands else ((), ())
        if all(type(t) is Zero for t in tangents):
            with use_trace(self.parent):
                return self.parent.custom_jvp_call(function, jvp, primals, params)
        with use_trace(self.rules):
            results, out_tangents = jvp(primals, tangents)
        return self.joined(results, out_tangents)

    def custom_vjp_call(
        self, function: Any, forward: Any, backward: Any, operands: tuple[Any, ...], params: Any
    ) -> Any:
        primals, tangents = zip(*map(self.split, operands), strict=True) if operands else ((), ())
        if all(type(t) is Zero for t in tangents):
            with use_trace(self.parent):
                return self.parent.custom_vjp_call(function, forward, backward, primals, params)
        with use_trace(self.rules):
            results, out_tangents = params.linear_jvp(forward, backward, primals, tangents)
        return self.joined(results, out_tangents)


class RuleTrace(Trace):
    """Current while a jvp rule runs: what touches a linear value is staged, the rest is the parent's."""

    __slots__ = ("is_eager", "linear", "parent", "primal_results")

    def __init__(self, parent: Trace, linear: StagingTrace) -> None:
        self.parent = parent
        self.linear = linear
        self.primal_results: Any = None
        self.is_eager = False

    def interpret(self, primitive: Primitive[Any], operands: tuple[Any, ...], params: Any) -> Any:
        linear = self.linear
        for x in operands:
            if type(x) is StagingTracer and x.trace is linear:
                outer = context.lineage
                origins = self.primal_results or (outer.origins if outer is not None else ())
                context.lineage = Lineage("linearize", origins)
                try:
                    return linear.interpret(primitive, operands, params)
                finally:
                    context.lineage = outer
        with use_trace(self.parent):
            results = self.parent.interpret(primitive, operands, params)
        if self.primal_results is None and type(results[0]) is StagingTracer:
            self.primal_results = (results[0].equation,)
        return results

    def custom_jvp_call(self, function: Any, jvp: Any, operands: tuple[Any, ...], params: Any) -> Any:
        if self.touches_linear(operands):
            return function(*operands)
        with use_trace(self.parent):
            return self.parent.custom_jvp_call(function, jvp, operands, params)

    def custom_vjp_call(
        self, function: Any, forward: Any, backward: Any, operands: tuple[Any, ...], params: Any
    ) -> Any:
        if self.touches_linear(operands):
            return function(*operands)
        with use_trace(self.parent):
            return self.parent.custom_vjp_call(function, forward, backward, operands, params)

    def touches_linear(self, operands: Sequence[Any]) -> bool:
        """Whether some operand is a value of the linear program."""
        return any(type(x) is StagingTracer and x.trace is self.linear for x in operands)


class LinearizedJaxpr(NamedTuple):
    """A program split at a point: `primal` gives results, then residuals; `linear` maps (residuals, tangents).

    Neither has constants. `nonzero_out` says which results have a tangent. `forwarded` tells, for each
    residual, the index of the input it is (such residuals are not among the primal program's results), or None.
    """

    primal: Jaxpr
    linear: Jaxpr
    nonzero_out: tuple[bool, ...]
    forwarded: tuple[int | None, ...]


def linearize_jaxpr(
    jaxpr: Jaxpr, nonzero: Sequence[bool], instantiate_results: Sequence[bool] | bool = False
) -> LinearizedJaxpr:
    """`jaxpr` (without constants) split into its primal and its linear part, remembered by what is asked."""
    key = ("linearize", tuple(nonzero), instantiate_results if isinstance(instantiate_results, bool) else tuple(instantiate_results))
    found = jaxpr.memo.get(key)
    if found is None:
        found = jaxpr.memo[key] = _linearize_jaxpr(jaxpr, nonzero, instantiate_results)
    return found


def _linearize_jaxpr(
    jaxpr: Jaxpr, nonzero: Sequence[bool], instantiate_results: Sequence[bool] | bool
) -> LinearizedJaxpr:
    parts: list[Any] = []
    want = (
        [instantiate_results] * len(jaxpr.outvars)
        if isinstance(instantiate_results, bool)
        else list(instantiate_results)
    )

    def primal(*arguments: Any) -> list[Any]:
        def run(*xs: Any) -> list[Any]:
            results = replay(jaxpr, (), *xs)
            return [with_tangent(x) if w else x for x, w in zip(results, want, strict=True)]

        results, program = linearize_flat(run, arguments, nonzero)
        by_id = {id(x): i for i, x in enumerate(arguments)}
        forwarded = tuple([by_id.get(id(r)) for r in program.residuals])
        parts[:] = [program, forwarded]
        returned = [r for r, f in zip(program.residuals, forwarded, strict=True) if f is None]
        return [*results, *returned]

    primal_jaxpr, consts = stage(primal, jaxpr.in_avals, jaxpr.debug)
    program, forwarded = parts
    if consts:
        raise RuntimeError("a program without constants was linearized into one with constants")
    linear = program.jaxpr.replace(
        constvars=(), invars=(*program.jaxpr.constvars, *program.jaxpr.invars), debug=jaxpr.debug
    )
    return LinearizedJaxpr(primal_jaxpr, linear, tuple(program.nonzero_out), forwarded)


def with_tangent(x: Any) -> Any:
    """`x` with an explicit tangent, zeros if it has none, under the current LinearizeTrace."""
    trace = context.trace
    if type(x) is LinearizeTracer and x.trace is trace:
        return x
    aval = type_of(x).tangent()
    zero = instantiate(Zero(aval))
    return LinearizeTracer(trace, x, trace.linear_value(zero))
