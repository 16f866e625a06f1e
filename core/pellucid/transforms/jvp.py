"""Forward mode: values together with their tangents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pellucid.ir.jaxpr import ClosedJaxpr, Jaxpr
from pellucid.ir.primitive import Primitive
from pellucid.ir.rules import Zero
from pellucid.tracing.context import context, use_trace
from pellucid.tracing.replay import replay
from pellucid.tracing.staging import stage
from pellucid.tracing.trace import Trace
from pellucid.tracing.tracer import Tracer
from pellucid.tracing.values import type_of
from pellucid.transforms.zeros import instantiate


def jvp_flat(
    function: Callable[..., Sequence[Any]], primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """Results of a function of flat values, and their tangents; a tangent may be `Zero`."""
    trace = JvpTrace(context.trace)
    arguments = [
        p if type(t) is Zero else JvpTracer(trace, p, t) for p, t in zip(primals, tangents, strict=True)
    ]
    with use_trace(trace):
        results = function(*arguments)
    split = [trace.split(x) for x in results]
    return [p for p, _ in split], [t for _, t in split]


class JvpTracer(Tracer):
    """A value with its tangent."""

    __slots__ = ("primal", "tangent")

    def __init__(self, trace: JvpTrace, primal: Any, tangent: Any) -> None:
        self.trace = trace
        self.aval = type_of(primal)
        self.primal = primal
        self.tangent = tangent

    def concrete(self) -> Any:
        return concrete_value(self.primal)

    def origin(self) -> str | None:
        return self.primal.origin() if isinstance(self.primal, Tracer) else None


class JvpTrace(Trace):
    """Applies jvp rules. A value of another trace has a zero tangent: no perturbation is confused."""

    __slots__ = ("parent",)

    def __init__(self, parent: Trace) -> None:
        self.parent = parent

    def split(self, x: Any) -> tuple[Any, Any]:
        """(primal, tangent) of `x`."""
        if type(x) is JvpTracer and x.trace is self:
            return x.primal, x.tangent
        return x, Zero(type_of(x).tangent())

    def joined(self, primals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """Tracers of values with their tangents; plain values where the tangent is zero."""
        return [
            p if type(t) is Zero else JvpTracer(self, p, t)
            for p, t in zip(primals, tangents, strict=True)
        ]

    def interpret(self, primitive: Primitive[Any], operands: tuple[Any, ...], params: Any) -> Any:
        primals, tangents = zip(*map(self.split, operands), strict=True) if operands else ((), ())
        if all(type(t) is Zero for t in tangents):
            with use_trace(self.parent):
                return self.parent.interpret(primitive, primals, params)
        with use_trace(self.parent):
            results, out_tangents = primitive.jvp(primals, tangents, params)
        return self.joined(results, out_tangents)

    def custom_jvp_call(self, function: Any, jvp: Any, operands: tuple[Any, ...], params: Any) -> Any:
        primals, tangents = zip(*map(self.split, operands), strict=True) if operands else ((), ())
        if all(type(t) is Zero for t in tangents):
            with use_trace(self.parent):
                return self.parent.custom_jvp_call(function, jvp, primals, params)
        with use_trace(self.parent):
            results, out_tangents = jvp(primals, tangents)
        return self.joined(results, out_tangents)

    def custom_vjp_call(
        self, function: Any, forward: Any, backward: Any, operands: tuple[Any, ...], params: Any
    ) -> Any:
        primals, tangents = zip(*map(self.split, operands), strict=True) if operands else ((), ())
        if all(type(t) is Zero for t in tangents):
            with use_trace(self.parent):
                return self.parent.custom_vjp_call(function, forward, backward, primals, params)
        with use_trace(self.parent):
            results, out_tangents = params.linear_jvp(forward, backward, primals, tangents)
        return self.joined(results, out_tangents)


def concrete_value(x: Any) -> Any:
    """The value of `x` where it is known, through tracers of eager transformations; else None."""
    return x.concrete() if isinstance(x, Tracer) else x


def jvp_jaxpr(jaxpr: Jaxpr, nonzero: Sequence[bool], instantiate_results: bool | Sequence[bool]) -> tuple[ClosedJaxpr, list[bool]]:
    """The program of values and tangents, remembered by what is asked.

    Its inputs are the program's, then the tangents of those that are `nonzero`; its results the program's,
    then the tangents of those marked in the returned list. `jaxpr` has no constants.
    """
    want = [instantiate_results] * len(jaxpr.outvars) if isinstance(instantiate_results, bool) else list(instantiate_results)
    key = ("jvp", tuple(nonzero), tuple(want))
    found = jaxpr.memo.get(key)
    if found is None:
        nonzero_out: list[bool] = []

        def both(*arguments: Any) -> list[Any]:
            primals = arguments[: len(jaxpr.invars)]
            given = iter(arguments[len(jaxpr.invars) :])
            tangents = [
                next(given) if nz else Zero(v.aval.tangent())
                for v, nz in zip(jaxpr.invars, nonzero, strict=True)
            ]
            results, out_tangents = jvp_flat(lambda *xs: replay(jaxpr, (), *xs), primals, tangents)
            nonzero_out[:] = [
                w or type(t) is not Zero for w, t in zip(want, out_tangents, strict=True)
            ]
            return [*results, *(instantiate(t) for t, nz in zip(out_tangents, nonzero_out, strict=True) if nz)]

        tangent_avals = [v.aval.tangent() for v, nz in zip(jaxpr.invars, nonzero, strict=True) if nz]
        program = ClosedJaxpr(*stage(both, [*jaxpr.in_avals, *tangent_avals], jaxpr.debug))
        found = jaxpr.memo[key] = (program, nonzero_out)
    return found

