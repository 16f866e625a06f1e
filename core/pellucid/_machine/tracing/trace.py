"""Traces, which interpret primitives.

Each thread has one current trace; rules run under its parent.
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
    """Whether results are computed at once, so that compiled functions may use the C++ call path."""
    evaluates_its_tracers = False
    """Whether the trace also interprets operations on its tracers in eager code, as traces of libraries do."""
    call: Any
    """The call of the user function that is being transformed; None or unset if there is none."""

    def as_tangent(self, value: Any) -> Any:
        """`value`, a tangent that a rule made from constants, in a form to which other tangents can be added."""
        return value

    def name_of_argument(self, x: Any) -> str | None:
        """Argument name of `x` in the user function that is being transformed; None if it isn't an argument."""
        call = getattr(self, "call", None)
        return None if call is None else call.name_of(x)

    @property
    def main(self) -> Any:
        """The trace itself, for libraries that compare it with a tracer's trace."""
        return self

    def interpret(self, primitive: Primitive, operands: Operands, params: Any) -> Any:
        """Applies `primitive`; returns its results as a list."""
        raise NotImplementedError(type(self))

    def run_plan(self, plan: ExecutionPlan, operands: Values) -> Results:
        """Runs a plan on `operands`, which have the types that the plan was made for."""
        interpret = self.interpret
        values = [*operands, *plan.fixed]
        for primitive, params, take, _, _ in plan.steps:
            values += interpret(primitive, tuple(take(values)), params)
        return plan.take(values)

    def custom_call(self, call: Any, operands: Operands) -> Any:
        """Applies a function with a custom derivative; returns its results as a list.

        `call` has `function(*operands)`, `rule(primals, tangents)`, `call_on_batches(axis, dims, tag)`,
        `stage(trace, operands)` and `has_forward_mode`, which is False if only reverse mode can compute the rule's
        tangents.
        """
        raise NotImplementedError(type(self))


def bind(primitive: Primitive, *operands: Any, params: Any = NO_PARAMS) -> Values:
    """Applies `primitive` to `operands` under the current trace; returns its results as a list."""
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
    """Raises the error of the type rule, or of an operand without a type, for the caller's operands, with their
    names.

    The rule that raised `failure` may have seen other operands: whole batches, or values within a program. An error of
    another class is not the same failure.
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
    """The only result of `primitive` applied to `operands` under the current trace."""
    return bind(primitive, *operands, params=params)[0]


def find_top_trace(xs: Any) -> Trace:
    """The current trace; `xs` is ignored.

    >>> find_top_trace(()).is_eager
    True
    """
    return context.trace


class OpaqueTraceState:
    """Identifies the trace that was current at some time. Equal for the same trace."""

    __slots__ = ("_trace",)

    def __init__(self, trace: Trace) -> None:
        # The bottom trace is made on first use, so two objects may represent it.
        self._trace = None if trace.is_eager else weakref.ref(trace)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueTraceState) and self._trace == other._trace

    __hash__ = None  # type: ignore[assignment]


def get_opaque_trace_state(convention: Any = None) -> OpaqueTraceState:
    """The identity of the current trace, to compare with that of another time; `convention` is ignored.

    >>> from pellucid import jit
    >>> here = get_opaque_trace_state()
    >>> here == get_opaque_trace_state(), jit(lambda: here == get_opaque_trace_state())()
    (True, Array(False, dtype=bool))
    """
    return OpaqueTraceState(context.trace)
