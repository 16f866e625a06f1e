"""Traces: interpreters of primitives. One is current in each thread; a rule runs under its parent."""

from __future__ import annotations

import weakref
from typing import Any

from pellucid.base import tracebacks
from pellucid.ir import primitive as primitives
from pellucid.ir.primitive import NO_PARAMS, Primitive
from pellucid.ir.rules import Operands, Values
from pellucid.tracing.context import context
from pellucid.tracing.plan import Plan

tracebacks.install()


class Trace:
    """Interprets primitives."""

    __slots__ = ("__weakref__",)

    is_eager = False
    """Whether results are computed at once; only then may compiled functions skip Python."""

    @property
    def main(self) -> Any:
        """The trace itself: libraries compare it with that of a tracer to see whose the tracer is."""
        return self

    def interpret(self, primitive: Primitive[Any], operands: Operands, params: Any) -> Any:
        """Results of `primitive`, as a list."""
        raise NotImplementedError(type(self))

    def run_plan(self, plan: Plan, operands: Values) -> Values:
        """Results of a program on `operands`, whose types are those that it was made for."""
        interpret = self.interpret
        values = [*operands, *plan.fixed]
        for primitive, params, reads, _, _ in plan.steps:
            values += interpret(primitive, tuple([values[i] for i in reads]), params)
        return [values[i] for i in plan.results]

    def custom_call(self, call: Any, operands: Operands) -> Any:
        """Results of a function with its own derivative, as a list.

        `call` has `function(*operands)`, `rule(primals, tangents)`, `batched(axis, dims)`, `staged(trace, operands)`
        and `has_forward_mode`, which is False where only reverse mode can compute the rule's tangents.
        """
        raise NotImplementedError(type(self))


def bind(primitive: Primitive[Any], *operands: Any, params: Any = NO_PARAMS) -> Values:
    """Results of `primitive` applied to `operands` under the current trace."""
    if context.unify is not None:
        operands = context.unify(primitive, operands)
    return context.trace.interpret(primitive, operands, params)


primitives.binder = bind


def bind1(primitive: Primitive[Any], *operands: Any, params: Any = NO_PARAMS) -> Any:
    """The one result of `primitive` applied to `operands` under the current trace."""
    if context.unify is not None:
        operands = context.unify(primitive, operands)
    return context.trace.interpret(primitive, operands, params)[0]


def find_top_trace(xs: Any) -> Trace:
    """The current trace, whatever the values `xs` are.

    >>> find_top_trace(()).is_eager
    True
    """
    return context.trace


class OpaqueTraceState:
    """Which trace was current at some moment; equal only to that of the same trace."""

    __slots__ = ("_trace",)

    def __init__(self, trace: Trace) -> None:
        # The bottom trace is made when it is first used, so that two objects may stand for it.
        self._trace = None if trace.is_eager else weakref.ref(trace)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueTraceState) and self._trace == other._trace

    __hash__ = None  # type: ignore[assignment]


def get_opaque_trace_state(convention: Any = None) -> OpaqueTraceState:
    """The trace that is current, to be compared with that of another moment; `convention` does nothing.

    >>> from pellucid import jit
    >>> here = get_opaque_trace_state()
    >>> here == get_opaque_trace_state(), jit(lambda: here == get_opaque_trace_state())()
    (True, Array(False, dtype=bool))
    """
    return OpaqueTraceState(context.trace)
