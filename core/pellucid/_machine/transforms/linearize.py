"""The linear approximation of a function at a point, in one pass.

A rule runs on primals that belong to the parent trace and tangents that are tracers of a linear staging
trace. Each primitive that the rule binds goes to the one or the other by its operands, so the primal part
is computed (or staged) by the parent and the linear part is written down, in one run of the function.

The spine, for `y = sin(x) * x` and the tangent `t` of `x`. Each equation stands in the trace that it goes to:

    parent trace: primals                 linear trace: tangents

    x                                     t
    b = sin x
    c = cos x     ───── residual c ────▶  e = mul t c
    y = mul b x   ──┬── residual x ────▶  f = mul e x
                    └── residual b ────▶  g = mul b t
                                          h = add_any f g
    result: y                             result: h, the tangent of y

A residual is a primal value that the linear program uses, here `c`, `x` and `b`: an intermediate value, an argument or an
array from outside. In `LinearProgram` residuals are the constants of the jaxpr, in `LinearizedJaxpr` its first inputs. The
linear program takes one tangent per primal that has a nonzero one, and gives one per result that has a nonzero one; so
its lists are shorter than those of the function, and masks (`nonzero_in`, `nonzero_out`) say which entries they have.
Forward mode runs it (`replay`); reverse mode runs it backwards, from cotangents of its results to cotangents of its
inputs (`backward_pass` in `transpose.py`).
"""

# Tracers and their traces share attributes with private names.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    EffectsError,
    Function,
    Partial,
    PellucidError,
    ScopeStack,
    UnexpectedTracerError,
    config,
    strict_zip,
)
from pellucid._machine.base.late import late
from pellucid._machine.ir import (
    Atom,
    Avals,
    ClosedJaxpr,
    Equation,
    Jaxpr,
    Lineage,
    Linearized,
    Literal,
    Mask,
    Operands,
    Primitive,
    Results,
    Values,
    Var,
    Zero,
    accum_effect,
    called,
    constants_as_inputs,
    remove_dead_equations,
    write_effect,
)
from pellucid._machine.primitives import instantiate, zero_of, zeros
from pellucid._machine.tracing import (
    Draft,
    ExecutionPlan,
    StagingTrace,
    StagingTracer,
    Trace,
    Tracer,
    computes_known,
    context,
    execution_plan,
    is_reference,
    name_of,
    on_values,
    plumbing,
    replay,
    type_of,
    types_of,
    use_lineage,
    use_trace,
    without_references,
)
from pellucid._machine.xla import ArrayImpl, flatten_tangents, unflatten_tangents

from .arguments import (
    FlatFunction,
    as_results,
    check_callable,
    flat_arguments,
    is_differentiable,
    structure_lines,
)
from .derived import derivation, listed, stage_open, unnamed
from .jvp import JVPTrace, JVPTracer
from .masks import masked_if_asked
from .recomputation import Worth, with_fewer_residuals
from .transpose import backward_pass
from .vmap import BatchTrace
from .zeros import nonzero as nonzero_of, nonzero_mask, spread

MIN_LAYERED_EQUATIONS = 48
"""Minimum number of a program's equations for which repeated layers are searched for."""


class LinearProgram(NamedTuple):
    """The linear part of a function at a point: `jaxpr` maps tangents of some inputs to those of some results.

    `residuals` are the values of its constants; the masks say which inputs' and results' tangents are nonzero.
    """

    jaxpr: Jaxpr
    residuals: Values
    nonzero_in: list[bool]
    nonzero_out: list[bool]
    out_avals: Avals

    def without_dead_code(self) -> LinearProgram:
        """This program with only the residuals that its results need."""
        jaxpr, _ = remove_dead_equations(self.jaxpr, keep_inputs=True)
        # The constants that remain; each residual belongs to the constvar at its position, before and after.
        live = {*jaxpr.constvars}
        residuals = [r for v, r in strict_zip(self.jaxpr.constvars, self.residuals) if v in live]
        return self._replace(jaxpr=jaxpr, residuals=residuals)

    def opened(self) -> tuple[LinearProgram, Values]:
        """This program without its residuals, which are values of a trace; and these."""
        return self._replace(residuals=[]), self.residuals

    def pulled_back(self, cotangents: Operands, are_unit_vectors: bool = False) -> Values:
        """Cotangents of the inputs, from one for each result of the function; tangents that are zero get none."""
        # Before: one cotangent per result of the function. After: one per result of `jaxpr`.
        live = [*compress(cotangents, self.nonzero_out)]

        def pulled_back(cts: Operands) -> Values:
            return backward_pass(self.jaxpr, self.residuals, cts)

        return masked_if_asked(pulled_back, live, are_unit_vectors)


def linearize_flat(
    function: Function, primals: Operands, nonzero: Mask, instantiate_results: Mask = ()
) -> tuple[Values, LinearProgram, Values]:
    """Results of a function of flat values, the linear program of their tangents, auxiliary values.

    `function` gives (results, auxiliary values); the latter may be anything. `instantiate_results` marks results that get a
    tangent even where it is zero; none if it is empty.
    """
    # `staged_by` is the trace below any vmap and jvp. Repeated layers are looked for only where it writes a program.
    parent = staged_by = context.trace
    while isinstance(staged_by, (BatchTrace, JVPTrace)):
        staged_by = staged_by.parent
    if type(staged_by) is not StagingTrace or not config.call_repeated_layers.value:
        return _linearized(
            function, primals, nonzero, LinearizeTrace(parent, Draft()), instantiate_results
        )
    with_calls = None

    def logged(*arguments: Any) -> tuple[Values, Values]:
        nonlocal with_calls
        results, aux = function(*arguments)
        # The operations are known, and the traces still open: the function with repeated layers as calls, or None.
        with_calls = trace.with_layers_called(arguments, results, aux)
        return results, aux

    trace = LoggedLinearizeTrace(parent, Draft(), staged_by)
    linearized = _linearized(logged, primals, nonzero, trace, instantiate_results)
    if with_calls is None:
        return linearized
    # The function is linearized a second time; the equations that the first run left are superseded.
    again = LinearizeTrace(parent, Draft())
    return _linearized(with_calls, primals, nonzero, again, instantiate_results)


def _linearized(
    function: Function,
    primals: Operands,
    nonzero: Mask,
    trace: LinearizeTrace,
    instantiate_results: Mask = (),
) -> tuple[Values, LinearProgram, Values]:
    # `linear` stages the linear program: each new argument is the tangent of one primal that has a nonzero tangent.
    linear, scope = trace.linear, context.scope
    arguments = [
        JVPTracer(trace, p, linear.new_argument(type_of(p).tangent())) if nz else p
        for p, nz in strict_zip(primals, nonzero)
    ]
    try:
        with use_trace(trace):
            results, aux = function(*arguments)
            if instantiate_results:
                wanted = strict_zip(results, instantiate_results)
                results = [with_tangent(x) if w else x for x, w in wanted]
        # One (primal, tangent) per result; the tangent is `Zero` where the result depends on no nonzero tangent.
        split = [trace.split(x) for x in results]
        out_primals, out_tangents = [p for p, _ in split], [t for _, t in split]
        if scope is not None:
            _leave_scope(linear.equations, scope)
        # The linear program gives the nonzero tangents only. Its constants, in order of first use, are the residuals.
        jaxpr, residuals = linear.finish(nonzero_of(out_tangents))
        # References that the linear program makes for itself become values; constants may come in front.
        if not any(map(is_reference, jaxpr.invars)):
            jaxpr, constants = without_references(jaxpr)
            residuals = [*constants, *residuals]
    finally:
        trace.alive = False
        linear.close()
    program = LinearProgram(
        jaxpr, residuals, list(nonzero), nonzero_mask(out_tangents), types_of(out_primals)
    )
    return out_primals, program, [trace.primal(x) for x in aux]


def _leave_scope(equations: Sequence[Equation], outer: ScopeStack) -> None:
    """Take `outer` from the name stacks of `equations`: their program runs within scopes of its own."""
    # By identity of a name stack, the same without `outer`: many equations share one stack.
    inner: dict[int, ScopeStack | None] = {id(None): None}
    for equation in equations:
        scope = equation.scope
        if id(scope) not in inner:
            inner[id(scope)] = scope.without(outer)
        equation.scope = inner[id(scope)]


def linearize(fun: Function, *primals: Any, has_aux: bool = False) -> Any:
    """`(fun(*primals), derivative)`, where `derivative(*tangents)` is linear and runs `fun` no more.

    The derivative is a tree whose leaves are what it keeps of the point, so it can be returned from `jit`.
    With `has_aux`, `fun` gives `(result, aux)`, and `aux` comes last.

    >>> y, derivative = linearize(lambda x: x * x, 3.0)
    >>> y, derivative(1.0)
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    return linearized_call(
        fun,
        "linearize",
        primals,
        has_aux,
        lambda derivative, _, residuals: Partial(derivative, residuals),
    )


def linearized_call(
    fun: Function,
    caller: str,
    primals: tuple[Any, ...],
    has_aux: bool,
    derivative: Callable[[Derivative, Values, Values], Any],
) -> Any:
    """`(fun(*primals), derivative(...))`, and the auxiliary data if any.

    `derivative` gets the linear function, the leaves of `primals` and the residuals.
    """
    check_callable(fun, caller)
    leaves, tree = flat_arguments(primals, caller, fun, primals)
    avals = types_of(leaves)
    flat = FlatFunction(fun, caller, has_aux, tree.unflatten)
    results, program, aux = linearize_flat(flat, leaves, [is_differentiable(a) for a in avals])
    # The residuals become the leaves of the derivative; `Derivative`, without them, is its static part.
    program, residuals = program.without_dead_code().opened()
    linear = Derivative(name_of(fun), program, tuple(avals), tree, flat.out_tree)
    result = flat.out_tree.unflatten(as_results(results))
    return flat.with_aux((result, derivative(linear, leaves, residuals)), aux)


class Derivative(NamedTuple):
    """A function linearized at a point, without the residuals; called with them and tangents, its derivative."""

    name: str
    program: LinearProgram
    in_avals: Avals
    in_tree: Any
    out_tree: Any

    # By identity: static data of a tree must hash, and the lists in `program` don't.
    __hash__ = object.__hash__
    __eq__ = object.__eq__

    def __call__(self, residuals: Values, *tangents: Any) -> Any:
        leaves, tree = flatten_tangents(self.in_tree, tangents)
        if tree != self.in_tree:
            raise ArgumentTypeError(
                f"the derivative of `{self.name}` got tangents that don't have the structure of its arguments.",
                got=structure_lines("tangents", self.in_tree, tree, leaves),
            )
        for aval, t in strict_zip(self.in_avals, leaves):
            expected, got = aval.tangent(), type_of(t)
            if got.strip_weak_type() is not expected.strip_weak_type():
                raise ArgumentValueError(
                    f"the derivative of `{self.name}` got a tangent that doesn't have the type of its argument.",
                    got=f"argument {aval.text()}, expected tangent {expected.text()}, got {got.text()}",
                )
        # Before: one tangent per argument. After: one per input of the linear program.
        live = [t for t, nz in strict_zip(leaves, self.program.nonzero_in) if nz]
        nonzero = replay(self.program.jaxpr, residuals, *live)
        # Before: the nonzero tangents. After: one per result, `Zero` for the others; they are returned as zeros.
        out_tangents = spread(nonzero, self.program.nonzero_out, self.program.out_avals)
        with plumbing("linearize"):
            return unflatten_tangents(self.out_tree, as_results(map(instantiate, out_tangents)))


class _Split(NamedTuple):
    """A plan, linearized."""

    primal: ExecutionPlan
    """From the operands to results and residuals."""
    linear: ExecutionPlan
    """From nonzero tangents and residuals to the nonzero tangents of results."""
    nonzero_out: Mask
    origins: list[int]
    """For each step of `linear` the step of `primal` whose tangent it computes; -1 for plumbing."""


def _split(plan: ExecutionPlan, nonzero: Mask, avals: Avals) -> _Split | None:
    """`plan` on operands of the types `avals`, linearized; None where a derivative rule raises."""
    if len({*plan.results}.difference(range(len(avals)))) < len(plan.results):
        return None  # a result that is an operand, or another result, is the same tracer
    # Two drafts: `trace` stages the primal half, whose operands are its arguments, and the other one the linear half.
    trace = Draft()
    linearizing = LinearizeTrace(trace, Draft())
    arguments = [trace.new_argument(aval) for aval in avals]
    try:
        with use_trace(trace), use_lineage(None):
            results, program, _ = _linearized(
                lambda *xs: (Trace.run_plan(linearizing, plan, [*xs]), ()),
                arguments,
                nonzero,
                linearizing,
            )
        # The primal half gives results, then residuals; `run_split` cuts them apart.
        program = program.without_dead_code()
        primal, consts = trace.finish([*results, *program.residuals])
    except (PellucidError, TypeError, ValueError, IndexError):
        return None  # the rule will raise it again, about the user's own values
    finally:
        trace.close()
    # A plan has operands and literals, but no constants.
    if consts:
        return None
    # Position of each equation of the primal half: the linear half refers to these.
    steps = {e: i for i, e in enumerate(primal.equations)}
    origins = [
        steps.get(e.lineage.origins[0], -1) if e.lineage and e.lineage.origins else -1
        for e in program.jaxpr.equations
    ]
    return _Split(
        execution_plan(primal), execution_plan(program.jaxpr), program.nonzero_out, origins
    )


class LinearizeTrace(JVPTrace):
    """Runs jvp rules; the linear half of what they bind is staged, the rest goes to the parent."""

    __slots__ = ("linear",)
    rules: RuleTrace

    def __init__(self, parent: Trace, linear: StagingTrace) -> None:
        self.linear = linear
        super().__init__(parent, RuleTrace(self, parent))

    def stage_linear(self, primitive: Primitive, operands: Operands, params: Any) -> Any:
        """Write an equation of the linear program, for rules that split programs."""
        return self.rules.staged(primitive, operands, params)

    def joined(self, primals: Operands, tangents: Operands) -> Values:
        """Tracers of values with their tangents; plain values where the tangent is zero.

        A tangent that does not depend on the linear inputs (a rule made it of constants) joins them as a constant.
        """
        return [
            p if type(t) is Zero else JVPTracer(self, p, self.linear_value(t))
            for p, t in strict_zip(primals, tangents)
        ]

    def linear_value(self, t: Any) -> StagingTracer:
        """`t` as a tracer of the linear program, which makes zeros itself: they are no residuals."""
        if _belongs(t, self.linear):
            return t
        if type(t) is Zero:
            with use_trace(self.linear), plumbing("linearize"):
                t = instantiate(t)
        # A value of another trace becomes a constant of the linear program.
        return StagingTracer(self.linear, self.linear.atom(t), None)  # type: ignore[arg-type]

    def interpret(self, primitive: Primitive, operands: Operands, params: Any) -> Values:
        self.rules.primal_results = None
        return super().interpret(primitive, operands, params)

    def _derivative(
        self, primitive: Primitive, primals: Operands, tangents: Operands, params: Any
    ) -> Any:
        # Primitives that hold programs (jit, scan, cond) split these into a primal and a linear one.
        if isinstance(primitive, Linearized) and primitive.is_linearized:
            with use_trace(self.parent):
                return primitive.linearize(self, primals, tangents, params)
        return super()._derivative(primitive, primals, tangents, params)

    def run_plan(self, plan: ExecutionPlan, operands: Values) -> Results:
        # Which operands have a tangent. A plan is linearized once for each such mask.
        mask = tuple([type(x) is JVPTracer and x._trace is self for x in operands])
        if True not in mask or computes_known.value:
            return super().run_plan(plan, operands)
        if mask not in plan.derived:
            plan.derived[mask] = _split(plan, mask, types_of(operands))
        split = plan.derived[mask]
        if split is None:
            return super().run_plan(plan, operands)
        return self.run_split(plan, split, operands, mask)

    def run_split(
        self, plan: ExecutionPlan, split: _Split, operands: Operands, mask: Mask
    ) -> Values:
        """Results of `plan`, of which `split` is the linearized form for operands with tangents by `mask`."""
        parent, linear = self.parent, self.linear
        written = parent.equations if type(parent) is StagingTrace else []
        # How many equations there were before, to find those that this plan adds.
        begin, linear_begin = len(written), len(linear.equations)
        with use_trace(parent):
            values = parent.run_plan(split.primal, [*map(self.primal, operands)])
        # `values` are the results of `plan`, then the residuals.
        n_results = len(split.nonzero_out)
        results, residuals = values[:n_results], values[n_results:]
        tangents = [x.tangent for x in compress(operands, mask)]
        # `tangents` has one entry per operand in `mask`; `moved` has one per result in `split.nonzero_out`.
        moved = linear.run_plan(split.linear, [*tangents, *residuals])
        outer = context.lineage
        # One entry per equation that the primal half added, and a last one, which -1 finds, for plumbing.
        origins = [*[(e,) for e in written[begin:]], () if outer is None else outer.origins]
        lineages = [Lineage("linearize", equations) for equations in origins]
        for equation, step in strict_zip(linear.equations[linear_begin:], split.origins):
            equation.lineage = lineages[min(step, len(lineages) - 1)]
        return self.joined(results, spread(moved, split.nonzero_out, types_of(results)))

    def custom_call(self, call: Any, operands: Operands) -> Values:
        self.rules.primal_results = None
        return super().custom_call(call, operands)


class LoggedLinearizeTrace(LinearizeTrace):
    """A LinearizeTrace whose operations are noted, as a program that can be rewritten before it is differentiated.

    A function that is differentiated while it is staged leaves no program of its own: its equations are written, by
    `staged_by`, as the derivative rules run. Where repeated layers should be calls, they must be so before that.
    """

    __slots__ = ("begin", "effects", "operations", "scope", "staged_by")

    def __init__(self, parent: Trace, linear: StagingTrace, staged_by: StagingTrace) -> None:
        super().__init__(parent, linear)
        self.staged_by = staged_by
        self.scope = context.scope
        """The name stack around the function."""
        self.begin = len(staged_by.equations)
        self.effects = staged_by.effects
        self.operations: list[tuple[Primitive | None, Operands, Any, Values, int]] = []
        """(primitive, operands, params, results, number of the equations staged before it).

        A call of a function with rules of its own has no primitive, and is its params.
        """

    def interpret(self, primitive: Primitive, operands: Operands, params: Any) -> Values:
        at = len(self.staged_by.equations)
        results = LinearizeTrace.interpret(self, primitive, operands, params)
        self.operations.append((primitive, operands, params, results, at))
        return results

    def run_split(self, plan: ExecutionPlan, split: Any, operands: Operands, mask: Mask) -> Any:
        at = len(self.staged_by.equations)
        results = super().run_split(plan, split, operands, mask)
        # By position in the plan its results. The values between were never made here: stand-ins take their places.
        result_at = dict(strict_zip(plan.results, results))
        # All values of the plan by position: operands, fixed values, then the results of each step.
        values: Values = [*operands, *plan.fixed]
        for primitive, params, take, avals, _ in plan.steps:
            step_results = [
                result_at[i] if i in result_at else Tracer(self, aval)
                for i, aval in enumerate(avals, len(values))
            ]
            self.operations.append((primitive, take(values), params, step_results, at))
            values += step_results
        return results

    def custom_call(self, call: Any, operands: Operands) -> Values:
        at = len(self.staged_by.equations)
        results = super().custom_call(call, operands)
        self.operations.append((None, operands, call, results, at))
        return results

    def with_layers_called(
        self, arguments: Operands, results: Results, aux: Values
    ) -> Function | None:
        """The function, which gave `results` and `aux`, with its repeated layers as calls; None without such, or with effects.

        The equations that the function has left are superseded by those of the new one.
        """
        written = self.staged_by.equations
        if (
            len(self.operations) < MIN_LAYERED_EQUATIONS
            or self.staged_by.effects is not self.effects
        ):
            return None
        # `atoms` has the variable of each value in the new program; `constants` the values that come from outside.
        invars = [Var(type_of(x)) for x in arguments]
        atoms: dict[Any, Any] = {_key(x): v for x, v in strict_zip(arguments, invars)}
        constants: dict[Var, Any] = {}

        def atom(x: Any) -> Atom:
            key = _key(x)
            if key not in atoms:
                if isinstance(x, (bool, int, float, complex, np.generic)):
                    return Literal(x, type_of(x))
                atoms[key] = Var(type_of(x))
                constants[atoms[key]] = x
            return atoms[key]

        # Stands in for a trace: gives (primitive, operands, params) instead of binding them.
        def as_parts(*parts: Any) -> tuple[Any, ...]:
            return parts

        parts = SimpleNamespace(interpret=as_parts)
        equations: list[Equation] = []
        # One equation for each operation, in the order in which the function ran them.
        for primitive, operands, params, values, at in self.operations:
            # `params` is the call of a function with its own derivative; the equation that it would stage is used.
            if primitive is None:
                primitive, operands, params = params.staged(parts, operands)
            operand_atoms = [atom(x) for x in operands]
            variables = [Var(type_of(x)) for x in values]
            for x, v in strict_zip(values, variables):
                if isinstance(
                    x, (Tracer, ArrayImpl)
                ):  # other results are known without the equation
                    atoms.setdefault(_key(x), v)
            source = scope = None
            if at < len(written):  # the first one that was written for the operation
                source, scope = written[at].source, written[at].scope
                if scope is not None and self.scope is not None:
                    scope = scope.without(self.scope)
            equations.append(
                Equation(operand_atoms, variables, primitive, params, source=source, scope=scope)
            )
        # Keys of the results and auxiliary values that the program computes, each once, in the order of its outvars.
        computed = dict.fromkeys(key for x in (*results, *aux) if (key := _key(x)) in atoms)
        outvars = [atoms[key] for key in computed]
        jaxpr = Jaxpr([*constants], invars, equations, outvars)
        if self.staged_by.superseded:  # a gradient within the function has left operations
            jaxpr, _ = remove_dead_equations(jaxpr, keep_inputs=True)
        layered = late("with layers called")(jaxpr)
        if layered is jaxpr:
            return None
        self.staged_by.superseded.update(written[self.begin :])

        def again(*arguments: Any) -> tuple[Values, Values]:
            consts = [constants[v] for v in layered.constvars]
            replayed = replay(layered, consts, *arguments)
            # Results that the program doesn't compute, such as constants, stay as they were.
            values = dict(strict_zip(computed, replayed))
            return (
                [values.get(_key(x), x) for x in results],
                [values.get(_key(x), x) for x in aux],
            )

        return again


def _key(x: Any) -> Any:
    """Identity of a value: its variable in a program, else that of the object."""
    return x.variable if type(x) is StagingTracer else id(x)


class RuleTrace(Trace):
    """Current while a jvp rule runs: what touches a linear value is staged, the rest is the parent's."""

    __slots__ = ("linear", "owner", "parent", "primal_results")

    def __init__(self, owner: LinearizeTrace, parent: Trace) -> None:
        self.owner = owner
        self.parent = parent
        self.linear = owner.linear
        self.primal_results: Any = None

    def interpret(self, primitive: Primitive, operands: Operands, params: Any) -> Values:
        if self.touches_linear(operands):
            if isinstance(primitive, Linearized) and primitive.is_linearized:
                return self.linear_part(primitive, operands, params)
            return self.staged(primitive, operands, params)
        with use_trace(self.parent):
            # Only primals: the parent computes or stages it.
            results = self.parent.interpret(primitive, operands, params)
        # The first equation that a rule stages for primals is what the tangents say they come from.
        if self.primal_results is None and results and type(results[0]) is StagingTracer:
            self.primal_results = (results[0].equation,)
        return results

    def as_tangent(self, value: Any) -> Any:
        return self.owner.linear_value(value)

    def staged(self, primitive: Primitive, operands: Operands, params: Any) -> Any:
        """Write an equation of the linear program.

        Raises: EffectsError for one that writes to a reference of the other part, which runs before.
        """
        writes = not primitive.own_effects.isdisjoint({write_effect, accum_effect})
        for x in operands:
            if writes and is_reference(x) and not _belongs(x, self.linear):
                raise EffectsError(
                    "a derivative rule can't write tangents to a reference of values: it is read when the rule runs, before "
                    "there are tangents.",
                    got=f"{x.aval.text()}, written by `{primitive.name}`",
                    do="Make a reference that takes tangents of one: `new_ref(0 * tangent)`.",
                )
        outer = context.lineage
        origins = self.primal_results or (outer.origins if outer is not None else ())
        context.lineage = Lineage("linearize", origins)
        try:
            return self.linear.interpret(primitive, operands, params)
        finally:
            context.lineage = outer

    def linear_part(self, primitive: Any, operands: Operands, params: Any) -> Any:
        """A program within the rule of a user, linear in some operands, is split into both parts.

        A call is made equation by equation. Others are linear, so their derivative at zero is what they are.
        """
        body = called(primitive, params)
        if body is not None:
            # What a reference made within holds may be linear later: as values each part finds its place.
            return replay(*without_references(body), *operands)
        # Being linear, it is its own derivative at zero: there linear operands are tangents, the others primals.
        linear = [_belongs(x, self.linear) for x in operands]
        if any(is_linear and is_reference(x) for is_linear, x in strict_zip(linear, operands)):
            return on_values(primitive, operands, params)
        at = [zeros(x.aval) if t else x for x, t in strict_zip(operands, linear)]
        tangents = [x if t else zero_of(x) for x, t in strict_zip(operands, linear)]
        with use_trace(self.parent):
            results, out_tangents = primitive.linearize(
                self.owner, tuple(at), tuple(tangents), params
            )
        # At zero a linear result is its tangent; a result without a tangent depends on the other operands only.
        return [p if type(t) is Zero else t for p, t in strict_zip(results, out_tangents)]

    def custom_call(self, call: Any, operands: Operands) -> Values:
        if self.touches_linear(operands):
            return call.function(*operands)
        with use_trace(self.parent):
            return self.parent.custom_call(call, operands)

    def touches_linear(self, operands: Operands) -> bool:
        """Whether some operand is a value of the linear program.

        Raises UnexpectedTracerError for values that are being differentiated: a rule gets values and tangents
        apart, so these come from a closure.
        """
        is_any_linear = False
        for x in operands:
            if type(x) is StagingTracer:
                is_any_linear = is_any_linear or x._trace is self.linear
            elif type(x) is JVPTracer and x._trace is self.owner:
                raise UnexpectedTracerError(
                    "a function with its own derivative uses a value from outside by which it is differentiated.",
                    got=f"captured: {x.aval.text()}",
                    do="Pass the value as an argument: the derivative rule only speaks of arguments.",
                )
        return is_any_linear


class Source(NamedTuple):
    """Where a residual is found: `kind` is "input", "result" (of the primal program) or "constant"."""

    kind: str
    index: int  # pyright: ignore[reportIncompatibleMethodOverride]  # hides tuple.index


class LinearizedJaxpr(NamedTuple):
    """A program split at a point: `primal` gives results, then residuals; `linear` maps (residuals, tangents).

    Neither has constants; those that the primal program needs, `consts`, come in front of its inputs.
    `nonzero_out` says which results have a tangent. `sources` has the place of each residual: only those
    that are neither inputs nor results nor `constants` are further results of `primal`. `forwarded` holds, for each
    result that is an input, the number of that input, else None.
    """

    primal: ClosedJaxpr
    consts: Values
    linear: ClosedJaxpr
    nonzero_out: Mask
    sources: tuple[Source, ...]
    constants: Values
    forwarded: tuple[int | None, ...]

    def residuals(self, primals: Operands, results: Results) -> Values:
        """Values of the residuals, given the inputs (without `consts`) and all results of the primal program."""
        values = {"input": primals, "result": results, "constant": self.constants}
        return [values[kind][index] for kind, index in self.sources]


@derivation("linearize")
def linearize_jaxpr(
    jaxpr: Jaxpr,
    nonzero: Mask,
    instantiate_results: Mask | bool = False,
    recompute: Worth | None = None,
) -> LinearizedJaxpr:
    """`jaxpr` (without constants) split into its primal and its linear part.

    Residuals that the linear part can cheaply compute of others are left out where `recompute` says so.
    """
    # `want` marks results that get a tangent even where it is zero. The lists are filled while `primal` is staged.
    want = listed(instantiate_results, len(jaxpr.outvars))
    programs: list[LinearProgram] = []
    sources: list[Source] = []
    constants: Values = []
    forwarded: list[int | None] = []

    def run(*xs: Any) -> tuple[Values, tuple[()]]:
        return replay(jaxpr, (), *xs), ()

    def primal(*arguments: Any) -> Values:
        trace = context.trace
        results, program, _ = linearize_flat(run, arguments, nonzero, want)
        program = program.without_dead_code()
        if recompute is not None:
            program = _with_fewer_residuals(program, trace, results, recompute)
        program, residuals = program.opened()
        programs.append(program)
        # `places` has, by variable, where a value is found already: inputs first, then results.
        inputs = {x.variable: i for i, x in enumerate(arguments)}
        forwarded[:] = [inputs.get(x.variable) if _belongs(x, trace) else None for x in results]
        places = {
            x.variable: Source("result", i) for i, x in enumerate(results) if _belongs(x, trace)
        }
        places |= {variable: Source("input", i) for variable, i in inputs.items()}
        # Residuals that are no input and no result become further results, behind those of `jaxpr`.
        extra: Values = []
        for residual in residuals:
            # A value from outside the program, such as an array on a device.
            if not _belongs(residual, trace):
                sources.append(Source("constant", len(constants)))
                constants.append(residual)
                continue
            if residual.variable not in places:
                places[residual.variable] = Source("result", len(results) + len(extra))
                extra.append(residual)
            sources.append(places[residual.variable])
        return [*results, *extra]

    primal_program, consts = stage_open(primal, jaxpr.in_avals, jaxpr.debug)
    [program] = programs
    # Its constants, the residuals, become inputs in front: it maps (residuals, nonzero tangents) to nonzero tangents.
    linear = ClosedJaxpr(constants_as_inputs(program.jaxpr).replace(debug=unnamed(jaxpr.debug)))
    return LinearizedJaxpr(
        primal_program, consts, linear, tuple(program.nonzero_out), tuple(sources), constants,
        tuple(forwarded),
    )  # fmt: skip


def _with_fewer_residuals(
    program: LinearProgram, trace: StagingTrace, results: Results, worth: Worth
) -> LinearProgram:
    """`program` without the residuals that are cheap to compute again of others of `trace`."""
    # Residuals from outside the primal program, by their variable in the linear program.
    constants = {
        v: r
        for v, r in strict_zip(program.jaxpr.constvars, program.residuals)
        if not _belongs(r, trace)
    }
    residuals = strict_zip(program.jaxpr.constvars, program.residuals)
    # Each residual as a variable: of the primal program, or of the linear one if it is from outside.
    jaxpr, variables = with_fewer_residuals(
        program.jaxpr,
        [v if v in constants else r.variable for v, r in residuals],
        trace.equations,
        {x.variable for x in results if _belongs(x, trace)},
        worth,
    )
    # `variables` give the residuals that remain, and what computing the others again needs; back to values.
    values = [constants[v] if v in constants else StagingTracer(trace, v, None) for v in variables]
    return program._replace(jaxpr=jaxpr, residuals=values)


def _belongs(x: Any, trace: StagingTrace) -> bool:
    return type(x) is StagingTracer and x._trace is trace


def with_tangent(x: Any) -> Any:
    """`x` with an explicit tangent, zeros if it has none, under the current LinearizeTrace."""
    trace = context.trace
    primal, tangent = trace.split(x)
    return JVPTracer(trace, primal, trace.linear_value(tangent))
