"""An operation that has run eagerly, as a program in which a debugger stands: with its line, and the locals and batches there."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import called_by_user, capture, is_user_file, strict_zip
from pellucid._machine.base.source import ScopeStack
from pellucid._machine.checks.watch import UNDEFINED, unwatched_equations
from pellucid._machine.compilation.interception import Operation
from pellucid._machine.higher_order.calls import JitParams, jit_p
from pellucid._machine.ir import (
    BatchDim,
    ClosedJaxpr,
    DebugInfo,
    Equation,
    Jaxpr,
    Operands,
    Primitive,
    Results,
    Values,
    Var,
    no_effects,
)
from pellucid._machine.tracing import StagingTracer, context, is_reference, type_of, types_of
from pellucid._machine.transforms import stage_open
from pellucid._machine.transforms.jvp import JVPTracer
from pellucid._machine.transforms.vmap import BatchTrace, BatchTracer, Lanes
from pellucid._machine.xla import ARRAY_TYPES

from .noting import Activation, TracedMoment, TraceNotes, are_equal, held_values
from .stepping import user_stack

__all__ = ["LocatedOperation", "computes", "locate"]


class LocatedOperation(NamedTuple):
    """An operation as a program of one equation, which knows its line, its batches, and what the names there hold."""

    name: str
    """Name of the function of the library that the user called; of the operation where it isn't known."""
    program: ClosedJaxpr
    operands: Values
    results: Results
    frame: FrameType | None
    """The user's frame that runs it; None in a backward pass, whose lines have run before."""


def computes(operation: Operation) -> bool:
    """Whether the results of an operation are values of the user's computation.

    An array that is filled with a number, made of values of the host, or read from a reference, isn't: it is found where an operation
    takes from it.
    """
    if any(map(is_reference, operation.operands)):
        return False
    program = operation.program().jaxpr
    moves = all(e.primitive.traits.kind in ("movement", "creation") for e in program.equations)
    given = [type(x) in ARRAY_TYPES and np.ndim(x) > 0 for x in operation.operands]
    if moves and not any(given):
        return False
    if context.lineage is not None and context.lineage.transformation in UNDEFINED:
        return False
    return unwatched_equations(program).isdisjoint(program.equations[-1:])


def locate(operation: Operation) -> LocatedOperation:
    """The operation that has just run, as the program of one equation of the user's current line.

    In a backward pass it is the line of the equation that is transposed. Called from where the operation has run.
    """
    batches, frame = _callers()
    if context.source is not None:
        frame = None
    jaxpr, consts = _closed(operation.program())
    equation = _equation_of(operation, jaxpr)
    scope, lanes = _with_lanes(context.scope, batches, equation)
    equation = equation.replace(
        effects=no_effects,
        source=context.source or capture(),
        scope=scope,
        lineage=context.lineage,
    )
    inputs, operands = [*jaxpr.constvars, *jaxpr.invars], [*consts, *operation.operands]
    debug = None
    if frame is not None:
        seen = _Seen(lanes)
        notes = _notes_at(frame, equation, seen)
        inputs, operands = [*seen.inputs, *inputs], [*seen.values, *operands]
        notes.inputs = inputs
        debug = notes.debug
    program = Jaxpr((), inputs, (equation,), equation.results, debug=debug)
    name = (called_by_user() if frame is not None else None) or operation.name
    if name.startswith("_"):  # a function behind an operator or a method
        name = operation.program().jaxpr.equations[-1].primitive.name
    return LocatedOperation(name, ClosedJaxpr(program), operands, operation.results, frame)


def _closed(program: ClosedJaxpr) -> tuple[Jaxpr, Operands]:
    return program.jaxpr, program.consts


def _equation_of(operation: Operation, jaxpr: Jaxpr) -> Equation:
    """One equation for all of an operation: a call where its function of the library is a program of several."""
    results = [Var(v.aval) for v in jaxpr.outvars]
    if len(jaxpr.equations) == 1 and [*jaxpr.outvars] == [*jaxpr.equations[0].results]:
        [equation] = jaxpr.equations
        # A new one: tools keep what they know of equations by their identity.
        return Equation(equation.operands, results, equation.primitive, equation.params)
    inputs = [*jaxpr.constvars, *jaxpr.invars]
    callee = ClosedJaxpr(jaxpr.replace(constvars=(), invars=inputs))
    return Equation(inputs, results, jit_p, JitParams(operation.name, callee))


# The user's line ------------------------------------------------------------------------------------------


class _Seen:
    """Values that locals hold for a whole batch, as inputs of the program beside its operands."""

    def __init__(self, lanes: dict[BatchTrace, Lanes]) -> None:
        self._lanes = lanes
        self.inputs: list[Var] = []
        self.values: list[Any] = []

    def value_of(self, tracer: Any) -> Any:
        """What a local holds: the known value, or the variable that is added for one that contains a batch."""
        dims: list[tuple[Any, int]] = []
        value = tracer
        while isinstance(value, (BatchTracer, JVPTracer)):
            if isinstance(value, JVPTracer):
                value = value.primal
            else:
                dims.append((value._trace, value.dim))  # pyright: ignore[reportPrivateUsage]  # tracers and traces share attributes
                value = value.value
        if type(value) not in ARRAY_TYPES:
            return None
        if not dims:
            return value
        variable = Var(type_of(value))
        for trace, dim in dims:
            if trace in self._lanes:
                self._lanes[trace].dims[variable] = dim
        self.inputs.append(variable)
        self.values.append(value)
        return variable


def _notes_at(frame: FrameType, equation: Equation, seen: _Seen) -> TraceNotes:
    """The notes of a program whose only line is the one at which a frame stands."""
    code = frame.f_code
    debug = DebugInfo("an eager operation", code.co_name)
    entries = () if equation.scope is None else equation.scope.entries()
    n_batches = sum(entry.batch is not None for entry in entries)
    notes = TraceNotes(debug, (), (equation,), len(user_stack(equation)) - 1)
    activation = Activation(0, code, n_batches)
    held = held_values(frame, seen.value_of)
    notes.events.append(TracedMoment(0, (activation,), (frame.f_lineno,), (held,), is_line=True))
    debug.notes = notes
    return notes


# Batches --------------------------------------------------------------------------------------------------


class _Batched(NamedTuple):
    """A call of a batching rule that is running."""

    trace: BatchTrace
    primitive: Primitive[Any]
    params: Any
    operands: Operands
    """As the trace got them: one element of its batch."""
    values: Operands
    """As its rule gets them: the whole batch."""
    dims: tuple[BatchDim, ...]


def _callers() -> tuple[list[_Batched], FrameType | None]:
    """(the batching rules that run around, that of the outermost batch first; the user's innermost frame)."""
    rules: list[_Batched] = []
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # public by use
    while frame is not None and not is_user_file(frame.f_code.co_filename):
        if frame.f_code is BatchTrace.interpret.__code__:
            held = frame.f_locals
            rules.append(
                _Batched(
                    held["self"], held["primitive"], held["params"], held["operands"],
                    held["values"], held["dims"],
                )
            )  # fmt: skip
        frame = frame.f_back
    return rules, frame


def _with_lanes(
    scope: ScopeStack | None, rules: Sequence[_Batched], equation: Equation
) -> tuple[ScopeStack | None, dict[BatchTrace, Lanes]]:
    """(the name stack, whose batches know their dimensions in the equation's variables; these batches by trace).

    Rules run for the outermost batches; the others are those of the equation that is transposed.
    """
    entries = [] if scope is None else scope.entries()
    if len(rules) > sum(entry.batch is not None for entry in entries):
        return scope, {}
    lanes = [Lanes(rule.trace.axis) for rule in rules]
    made = equation.primitive, equation.params, [a.aval for a in equation.operands]
    for rule, each in strict_zip(rules, lanes):
        operand_dims, result_dims = _dims_within(rule, *made)
        pairs = [*zip(equation.operands, operand_dims, strict=False)]
        pairs += zip(equation.results, result_dims, strict=False)
        each.dims.update((v, d) for v, d in pairs if isinstance(v, Var) and d is not None)
        made = rule.primitive, rule.params, [*types_of(rule.operands)]
    waiting, rebuilt = [*lanes], None
    for entry in entries:
        batch = entry.batch
        if batch is not None:
            batch = waiting.pop(0) if waiting else _as_of_origin(batch, equation)
        rebuilt = entry._replace(parent=rebuilt, batch=batch)
    return rebuilt, dict(zip([rule.trace for rule in rules], lanes, strict=True))


def _as_of_origin(lanes: Lanes, equation: Equation) -> Lanes:
    """A batch, with its dimensions also in the variables of an equation that is the same operation as its origin."""
    lineage = context.lineage
    if lineage is None or lineage.transformation == "transpose" or len(lineage.origins) != 1:
        return lanes
    [origin] = lineage.origins
    if origin.primitive is not equation.primitive:
        return lanes
    copy = Lanes(lanes.axis, lanes.unbatched)
    pairs = [*zip(origin.operands, equation.operands, strict=False)]
    pairs += zip(origin.results, equation.results, strict=False)
    copy.dims = lanes.dims | {b: lanes.dims[a] for a, b in pairs if a in lanes.dims}
    return copy


def _dims_within(
    rule: _Batched, primitive: Primitive[Any], params: Any, avals: Sequence[Any]
) -> tuple[Sequence[BatchDim], Sequence[BatchDim]]:
    """(batch dimensions of the operands, and of the results) of the operation that a batching rule runs; empty if it is unknown which."""
    if all(dim is None for dim in rule.dims):
        return (), ()
    noted: dict[Any, BatchDim] = {}

    def note(values: Sequence[Any], dims: Sequence[BatchDim]) -> None:
        pairs = zip(values, dims, strict=True)
        noted.update((x.variable, d) for x, d in pairs if type(x) is StagingTracer)

    def run(*values: Any) -> Values:
        note(values, rule.dims)
        results, dims = rule.primitive.batch(rule.trace.axis, values, rule.dims, rule.params)
        note(results, dims)
        return [*results]

    try:
        program, _ = stage_open(run, [*types_of(rule.values)], None)
    except Exception:  # a rule that needs values
        return (), ()
    for equation in program.jaxpr.equations:
        operands = equation.operands
        is_it = equation.primitive is primitive and [a.aval for a in operands] == [*avals]
        if is_it and are_equal(equation.params, params):
            return [noted.get(v) for v in operands], [noted.get(v) for v in equation.results]
    return (), ()
