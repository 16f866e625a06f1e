"""Traces, which interpret primitives.

One trace is current in each thread; a rule runs under its parent.
"""

from __future__ import annotations

import weakref
from typing import Any

from pellucid._machine.base import ArgumentTypeError, PellucidError, tracebacks
from pellucid._machine.base.errors import DtypeError
from pellucid._machine.ir import (
    NO_PARAMS,
    Operands,
    Primitive,
    Results,
    Values,
    primitive as primitives,
)

from .current import context
from .execution_plan import ExecutionPlan
from .operand_texts import name_operands
from .operands import (
    as_operand,
    at_full_width,
    type_handlers,
    type_of,
    types_of,
    value_types,
)

tracebacks.install()


class Trace:
    """Interprets primitives."""

    __slots__ = ("__weakref__", "call")

    is_eager = False
    """Whether results are computed at once; only then may compiled functions skip Python."""
    evaluates_its_tracers = False
    """Whether it interprets also what eager code does with its tracers, as traces of libraries do."""
    call: Any
    """The call of the user's function that is being transformed; None, or not set, where there is none."""

    def as_tangent(self, value: Any) -> Any:
        """`value`, a tangent that a rule made of constants, as one to which others may be added later."""
        return value

    def name_of_argument(self, x: Any) -> str | None:
        """The name of `x` as an argument of the user's function that is being transformed; None if it is none."""
        call = getattr(self, "call", None)
        return None if call is None else call.name_of(x)

    @property
    def main(self) -> Any:
        """The trace itself: libraries compare it with that of a tracer to see whose the tracer is."""
        return self

    def interpret(self, primitive: Primitive, operands: Operands, params: Any) -> Any:
        """Results of `primitive`, as a list."""
        raise NotImplementedError(type(self))

    def run_plan(self, plan: ExecutionPlan, operands: Values) -> Results:
        """Results of a program on `operands`, whose types are those that it was made for."""
        interpret = self.interpret
        values = [*operands, *plan.fixed]
        for primitive, params, take, _, _ in plan.steps:
            values += interpret(primitive, tuple(take(values)), params)
        return plan.take(values)

    def custom_call(self, call: Any, operands: Operands) -> Any:
        """Results of a function with its own derivative, as a list.

        `call` has `function(*operands)`, `rule(primals, tangents)`, `batched(axis, dims)`, `staged(trace, operands)`
        and `has_forward_mode`, which is False where only reverse mode can compute the rule's tangents.
        """
        raise NotImplementedError(type(self))


def bind(primitive: Primitive, *operands: Any, params: Any = NO_PARAMS) -> Values:
    """Results of `primitive` applied to `operands` under the current trace."""
    for x in operands:
        if type(x) not in value_types and type(x) not in type_handlers:
            operands = tuple(map(as_operand, operands))
            break
    if context.unify is not None:
        operands = context.unify(primitive, operands)
    try:
        return context.trace.interpret(primitive, operands, params)
    except PellucidError as error:
        wide = at_full_width(operands) if isinstance(error, DtypeError) else operands
        if wide is not operands:
            return context.trace.interpret(primitive, wide, params)
        if not isinstance(error, NotImplementedError):
            _check_types(primitive, operands, params, error)
        raise


def _check_types(
    primitive: Primitive, operands: Operands, params: Any, failure: PellucidError
) -> None:
    """Raise what the type rule raises for the operands as the caller has them, with their names.

    The rule that raised `failure` under the current trace may have had other operands: whole batches, or values within a
    program. An error of another class isn't the same failure.
    """
    for i, x in enumerate(operands):
        try:
            type_of(x)
        except ArgumentTypeError as error:
            place = f"argument {i} of `{primitive.name}`"
            error.state_got([f"{place}: {line.removeprefix('got ')}" for line in error.got])
            raise
    try:
        primitive.types(tuple(types_of(operands)), params)
    except type(failure) as error:
        raise name_operands(error, operands) from None
    except PellucidError:
        return


primitives.binder = bind


def bind1(primitive: Primitive, *operands: Any, params: Any = NO_PARAMS) -> Any:
    """The one result of `primitive` applied to `operands` under the current trace."""
    return bind(primitive, *operands, params=params)[0]


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
