"""Staging runs a function on tracers and records its equations; replay runs a program."""

# Tracers and their traces share attributes with private names.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ConcretizationTypeError,
    EquationStaged,
    ForbiddenError,
    Symbol,
    TraceFinished,
    TracerLeaked,
    UnexpectedTracerError,
    config,
    on,
    publish,
    source,
    stage_events,
    strict_zip,
)
from pellucid._machine.ir import (
    AbstractValue,
    ClosedJaxpr,
    DebugInfo,
    Equation,
    Folds,
    Jaxpr,
    Lineage,
    Literal,
    Operands,
    Primitive,
    Results,
    Values,
    Var,
    no_effects,
    values_of,
)

from .captured import substitute
from .current import bottom, computes_known, context, use_facts, use_no_scope, use_trace
from .leaks import check_no_leaks
from .operands import as_operand, as_type, type_of, value_of_literal
from .trace import ExecutionPlan, Trace
from .tracer import Tracer, origin_lines

_capture = source.capture


class StagingTracer(Tracer):
    """Tracer of a value that is known only when the program runs; `variable` represents it in the program.

    >>> _ = pl.make_jaxpr(lambda x: print(isinstance(x, StagingTracer)) or x)(1.0)
    True
    """

    __slots__ = ("variable", "equation")

    def __init__(self, trace: StagingTrace, var: Var, equation: Equation | None) -> None:
        self._trace = trace
        self.aval = var.aval
        self.variable = var
        self.equation = equation

    def origin(self):
        if self.equation is not None:
            place = source.describe(self.equation.source)
            return f"{place} (by `{self.equation.primitive.name}`)" if place else None
        debug = self._trace.debug
        if debug is None:
            return None
        name = self.argument_name()
        return f"{'an argument' if name is None else f'argument {name}'} of {debug.name}"

    def __repr__(self) -> str:
        look = self._trace.look
        text = None if look is None else look.text(self)
        return super().__repr__() if text is None else text

    def ask_for(self, use: str, kind: type[ConcretizationTypeError], do: str) -> Any:
        look = self._trace.look
        is_known, value = (False, None) if look is None else look.known_value(self)
        if is_known and value is None:
            raise kind(
                f"an array that differs between devices was used as {use}.",
                got=[f"got {self.aval.text()}", *origin_lines(self)],
                do="Keep it an array (`jnp.where`, `lax.cond`), or make one value of it for all devices, as `lax.psum` does.",
            )
        return value

    def argument_name(self):
        return None if self.equation is not None else self._argument_names().get(self.variable)

    def only_argument(self):
        names = self._argument_names()
        equations = {v: e for e in self._trace.equations for v in e.results}
        variable = self.variable
        while variable in equations:
            # Follows equations with a single operand back to the argument that the value was computed from.
            operands = {v for v in equations[variable].operands if isinstance(v, Var)}
            if len(operands) != 1:
                return None
            [variable] = operands
        return names.get(variable)

    def _argument_names(self) -> dict[Var, str]:
        debug = self._trace.debug
        names = () if debug is None else debug.argument_names
        return dict(zip(self._trace.invars, names, strict=False))


_LITERALS = (bool, int, float, complex, np.generic, np.ndarray)
"""Types of scalars that become literals. An array on a device becomes a constant, unless it was made during tracing."""


class StagingTrace(Trace):
    """Records equations: every primitive bound while it is current becomes part of the program."""

    __slots__ = (
        "_makers", "_n_indexed", "_users", "alive", "constants", "debug", "effects", "equations", "invars", "look", "parent",
        "superseded",
    )  # fmt: skip
    is_heard = True
    """Whether its equations are published as events."""

    def __init__(self, debug: DebugInfo | None = None) -> None:
        self.equations: list[Equation] = []
        self.invars: list[Var] = []
        self.constants: dict[int, tuple[Var | Literal, Any]] = {}
        """For each outside value, by id: its variable (or literal, for a scalar made during tracing) and the value
        itself.
        """
        self.effects = no_effects
        self.debug = debug
        self.alive = True
        self.parent = context.trace
        """The trace that was current when this one began; None after `close`."""
        self.look: Any = None
        """Computes values of the program on request while it is traced; None if that isn't possible yet."""
        self.superseded: set[Equation] = set()
        """Equations replaced by others. They stay in the program only if their results are still used."""
        self._makers: dict[Var, Equation] = {}
        self._users: dict[Any, list[Equation]] = {}
        self._n_indexed = 0

    def new_argument(self, aval: AbstractValue) -> StagingTracer:
        """Creates an argument of the program, and returns its tracer."""
        var = Var(aval)
        self.invars.append(var)
        return StagingTracer(self, var, None)

    def interpret(self, primitive: Primitive, operands: Operands, params: Any) -> Values:
        if isinstance(primitive, Folds):
            # Results that need no equation, for example of an operation that changes nothing.
            folded = primitive.fold(operands, params)
            if folded is not None:
                return folded
        # Within `ensure_compile_time_eval`, operations on known values run now.
        if computes_known.value and _are_known(operands):
            with use_trace(bottom()) as trace:
                return trace.interpret(primitive, operands, params)
        # The variable or literal of each operand, and its type.
        atoms: list[Any] = []
        avals: list[AbstractValue] = []
        for x in operands:
            atom = x.variable if type(x) is StagingTracer and x._trace is self else self.atom(x)
            atoms.append(atom)
            avals.append(atom.aval)
        result_avals, effects = primitive.types(tuple(avals), params)
        results: list[Var] = []
        tracers: list[StagingTracer] = []
        # Equations made during the replay of an equation keep that equation's source.
        facts = context
        equation = Equation(
            atoms, results, primitive, params, effects,
            facts.source or _capture(), facts.scope, facts.lineage,
        )  # fmt: skip
        # A variable for each result, and a tracer that refers to this equation.
        for aval in result_avals:
            var = Var(aval)
            results.append(var)
            tracers.append(StagingTracer(self, var, equation))
        self.equations.append(equation)
        if effects:
            self.effects = self.effects | effects
        if on.equation_staged and self.is_heard:
            publish(EquationStaged(equation))
        return tracers

    def run_plan(self, plan: ExecutionPlan, operands: Values) -> Results:
        """Records the equations of `plan`, whose types are known, all with the user's current line as source."""
        if computes_known.value:
            return super().run_plan(plan, operands)
        # Both grow with each step, by index in the plan: `values` are tracers, `atoms` their variables or literals.
        values: Values = [*operands, *plan.fixed]
        atoms: Values = [*map(self.atom, operands), *plan.literals]
        facts = context
        stack, scope, lineage = facts.source or _capture(), facts.scope, facts.lineage
        for primitive, params, take, avals, effects in plan.steps:
            results: list[Var] = []
            equation = Equation(
                take(atoms), results, primitive, params, effects, stack, scope, lineage
            )
            for aval in avals:
                var = Var(aval)
                results.append(var)
                values.append(StagingTracer(self, var, equation))
            atoms += results
            self.equations.append(equation)
            if effects:
                self.effects = self.effects | effects
            if on.equation_staged and self.is_heard:
                publish(EquationStaged(equation))
        return plan.take(values)

    def custom_call(self, call: Any, operands: Operands) -> Values:
        if computes_known.value and _are_known(operands):
            with use_trace(bottom()) as trace:
                return trace.custom_call(call, operands)
        return call.stage(self, operands)

    def atom(self, x: Any) -> Var | Literal:
        """The variable or literal that represents `x` in this program."""
        if type(x) is StagingTracer and x._trace is self:
            return x.variable
        # One object is one constant. The entry keeps the object alive, so that its id isn't reused.
        constant = self.constants.get(id(x))
        if constant is not None:
            return constant[0]
        if isinstance(x, Tracer):
            # A user's rule may run with values substituted for those that it captured.
            value = substitute(x, self.parent)
            if value is not x:
                return self.atom(value)
            check_alive(x)
            aval = x.aval
        else:
            if isinstance(x, Symbol):
                with use_trace(self):
                    return self.atom(x.as_value())
            operand = as_operand(x)
            if operand is not x:
                return self.atom(operand)
            aval = type_of(x)
            # Host scalars become literals in equations; other values become constants of the program.
            if getattr(aval, "shape", None) == () and isinstance(x, _LITERALS):
                return Literal(x, aval)
        var = Var(aval)
        self.constants[id(x)] = var, x
        return var

    def maker(self, variable: Var) -> Equation | None:
        """The equation whose result is `variable`; None for an argument and a constant."""
        self._index()
        return self._makers.get(variable)

    def users(self, variable: Var) -> list[Equation]:
        """The equations so far that have `variable` among their operands."""
        self._index()
        return self._users.get(variable, [])

    def _index(self) -> None:
        for equation in self.equations[self._n_indexed :]:
            self._makers.update(dict.fromkeys(equation.results, equation))
            for atom in equation.operands:
                if type(atom) is Var:
                    self._users.setdefault(atom, []).append(equation)
        self._n_indexed = len(self.equations)

    def finish(self, results: Results) -> tuple[Jaxpr, Values]:
        """(the program that computes `results`, values of its constants)."""
        outvars = [self.atom(x) for x in results]
        if self.superseded:
            self._drop_superseded_equations(outvars)
        # Constants in order of first use, without the entries of literals.
        constants = [(v, x) for v, x in self.constants.values() if type(v) is Var]
        jaxpr = Jaxpr(
            [v for v, _ in constants],
            self.invars,
            self.equations,
            outvars,
            self.effects,
            self.debug,
        )
        return jaxpr, [as_type(x, v.aval) for v, x in constants]

    def _drop_superseded_equations(self, outvars: Sequence[Var | Literal]) -> None:
        # From the last equation to the first: a superseded equation stays if a remaining equation or a result uses it.
        used: set[Any] = {*outvars}
        live: list[Equation] = []
        for equation in reversed(self.equations):
            if equation not in self.superseded or not used.isdisjoint(equation.results):
                live.append(equation)
                used.update(equation.operands)
        self.equations = live[::-1]

    def close(self) -> None:
        """Marks the trace as ended: its tracers may not be used any more."""
        self.alive = False
        self.parent = self.look = None


class Draft(StagingTrace):
    """A trace of an intermediate program, such as a linear one: its equations aren't published as events."""

    __slots__ = ()
    is_heard = False


def note_scalar(array: Any, *values: Any) -> None:
    """Makes `array`, a scalar put on a device while the current program is traced, a literal of that program.

    The literal's value is the first of `values` (equal host numbers) with the array's type, or else the array.
    """
    if trace := _current_staging():
        aval = array.aval
        value = next((x for x in values if type_of(x) is aval), array)
        # Stored by the array's id; the entry keeps the array alive, so that its id isn't reused.
        trace.constants.setdefault(id(array), (Literal(value, aval), array))


def as_rule_operands(operands: Operands) -> Values:
    """Operands of an equation for a user's rule, with numbers and NumPy arrays converted to tracers.

    Users' rules expect arrays. Outside of staging, and where known values are computed, operands stay unchanged.
    """
    trace = _current_staging()
    return [
        StagingTracer(trace, trace.atom(x), None)  # pyright: ignore[reportArgumentType]
        if trace and isinstance(x, _LITERALS)
        else x
        for x in operands
    ]


def _current_staging() -> StagingTrace | None:
    """The innermost staging trace; None where known values are computed."""
    trace = None if computes_known.value else context.trace
    # Skips traces of jvp and vmap, which record no program.
    while trace is not None and not isinstance(trace, StagingTrace):
        trace = getattr(trace, "parent", None)
    return trace


def _are_known(operands: Operands) -> bool:
    return not any(isinstance(x, Tracer) for x in operands)


def check_alive(tracer: Tracer) -> None:
    """Raises UnexpectedTracerError if the trace of `tracer` has ended."""
    if getattr(tracer._trace, "alive", True):
        return
    if on.tracer_leaked:
        publish(TracerLeaked(tracer))
    debug = getattr(tracer._trace, "debug", None)
    name = f" of `{debug.name}`" if debug is not None else ""
    raise UnexpectedTracerError(
        f"a traced value was used after the tracing{name} that made it had ended.",
        got=[f"got {tracer.aval.text()}", *origin_lines(tracer)],
        do="Return it from the traced function instead of storing it in a global, an attribute or a list.",
    )


def stage(
    function: Callable[..., Sequence[Any]],
    avals: Sequence[AbstractValue],
    debug: DebugInfo | None = None,
) -> tuple[Jaxpr, Values]:
    """(program of `function`, a function of flat values; values of its constants).

    The program's names don't include the scopes around the call, which are on the equation that calls the program.

    Raises: ForbiddenError under `no_tracing`.
    """
    name = debug.name if debug is not None else "program"
    if config.no_tracing.value:
        raise ForbiddenError(
            f"`{name}` has to be traced, which `no_tracing` forbids.",
            got=f"for arguments of types {', '.join(aval.text() for aval in avals) or '()'}",
            do="Call it before with arguments of these types; `explain_misses` says why it is traced again.",
        )
    trace = StagingTrace(debug)
    arguments = [trace.new_argument(aval) for aval in avals]
    start = time.perf_counter()
    try:
        with stage_events("trace", name, trace), use_trace(trace), use_no_scope():
            results = function(*arguments)
        jaxpr, consts = trace.finish(results)
    finally:
        trace.close()
    if on.trace_finished:
        publish(TraceFinished(name, function, jaxpr, time.perf_counter() - start))
    if config.check_tracer_leaks.value:
        # Drop our own references to tracers, which would count as leaks.
        del arguments, results
        check_no_leaks(trace, name)
    return jaxpr, consts


def stage_with_constants(
    function: Callable[..., Sequence[Any]],
    avals: Sequence[AbstractValue],
    debug: DebugInfo | None = None,
) -> ClosedJaxpr:
    """The program of `function`, with its constants."""
    return ClosedJaxpr(*stage(function, avals, debug))


# Replay --------------------------------------------------------------------------------------------


class Pause(NamedTuple):
    """The moment before an equation runs: `values` holds everything computed so far."""

    equation: Equation
    operands: Values
    values: dict[Var, Any]


def replay(jaxpr: Jaxpr, consts: Operands, *arguments: Any) -> Values:
    """Runs `jaxpr` on `arguments` under the current trace, and returns its results.

    New equations get the source and scope of the equation being replayed, and refer to it as their lineage.
    """
    values = values_of_constants(jaxpr, consts)
    values.update(strict_zip(jaxpr.invars, arguments))
    run_equations(jaxpr.equations, values)
    return values_of(jaxpr.outvars, values)


def values_of_constants(jaxpr: Jaxpr, consts: Operands) -> dict[Any, Any]:
    """The values of the constants of `jaxpr`, by variable."""
    return {v: as_type(x, v.aval) for v, x in strict_zip(jaxpr.constvars, consts)}


def run_equations(equations: Iterable[Equation], values: dict[Any, Any]) -> None:
    """Runs `equations` under the current trace. `values` contains their operands, and receives their results."""
    interpret = context.trace.interpret
    with use_facts() as facts:
        for equation in equations:
            facts.enter(equation, Lineage("replay", (equation,)))
            results = interpret(
                equation.primitive,
                tuple(
                    [
                        value_of_literal(a) if type(a) is Literal else values[a]
                        for a in equation.operands
                    ]
                ),
                equation.params,
            )
            values.update(strict_zip(equation.results, results))


def eval_jaxpr(
    jaxpr: Jaxpr, consts: Operands, *args: Any, propagate_source_info: bool = True
) -> Values:
    """Results of a program with constants `consts` on `args`, as a list; traced if the arguments are.

    >>> program = pl.make_jaxpr(lambda x: x * 2.0)(1.0)
    >>> eval_jaxpr(program.jaxpr, program.consts, 4.0)
    [Array(8., dtype=float32, weak_type=True)]
    """
    return replay(jaxpr, consts, *args)


def jaxpr_as_fun(closed_jaxpr: ClosedJaxpr, *args: Any) -> Callable[..., Values]:
    """A function that runs a program with its constants and returns a list of results; `args` are its first arguments.

    >>> program = pl.make_jaxpr(lambda x: x + 1)(np.float32(1))
    >>> jaxpr_as_fun(program)(np.float32(2))
    [Array(3., dtype=float32)]
    """
    return functools.partial(replay, closed_jaxpr.jaxpr, closed_jaxpr.consts, *args)


def steps(jaxpr: Jaxpr, consts: Operands, *arguments: Any) -> Generator[Pause, None, Values]:
    """Like `replay`, but a generator that pauses before each equation and finally returns the results."""
    values: dict[Any, Any] = dict(strict_zip(jaxpr.constvars, consts))
    values.update(strict_zip(jaxpr.invars, arguments))
    for equation in jaxpr.equations:
        operands = values_of(equation.operands, values)
        yield Pause(equation, operands, values)
        results = context.trace.interpret(equation.primitive, tuple(operands), equation.params)
        values.update(strict_zip(equation.results, results))
    return values_of(jaxpr.outvars, values)
