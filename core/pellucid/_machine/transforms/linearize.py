"""Linearization: the linear approximation of a function at a point, in a single run.

A jvp rule runs on primals that belong to the parent trace, and tangents that are tracers of a linear staging trace.
Each primitive bound by the rule goes to one of the two traces, depending on its operands. So the primal part is
computed (or staged) by the parent, and the linear part is recorded, in one run of the function.

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
array from outside. In `LinearMap` residuals are the constants of the jaxpr, in `LinearizedJaxpr` its first inputs. The
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
    called_program,
    constants_as_inputs,
    remove_dead_equations,
    subjaxprs,
    uses_references,
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
    keeps_layers,
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
from .derived import derivation, flag_list, stage_open
from .jvp import JVPTrace, JVPTracer
from .masks import mask_if_enabled
from .recomputation import Worth, with_fewer_residuals
from .transpose import backward_pass
from .vmap import BatchTrace
from .zeros import nonzero as nonzero_of, nonzero_mask, spread

MIN_LAYERED_EQUATIONS = 48
"""Minimum number of equations of a program in which repeated layers are searched for."""


class LinearMap(NamedTuple):
    """The derivative of a function at a point, a linear map: `jaxpr` maps tangents of some inputs to tangents of some results.

    `residuals` are the values of its constants; the masks mark inputs and results with nonzero tangents.
    """

    jaxpr: Jaxpr
    residuals: Values
    nonzero_in: list[bool]
    nonzero_out: list[bool]
    out_avals: Avals

    def without_dead_code(self) -> LinearMap:
        """This program with only the residuals that its results need."""
        jaxpr, _ = remove_dead_equations(self.jaxpr, keep_inputs=True)
        # The remaining constants; each residual belongs to the constvar at the same index, before and after.
        live = {*jaxpr.constvars}
        residuals = [r for v, r in strict_zip(self.jaxpr.constvars, self.residuals) if v in live]
        return self._replace(jaxpr=jaxpr, residuals=residuals)

    def without_residuals(self) -> tuple[LinearMap, Values]:
        """(this program without its residuals, which are values of a trace; the residuals)."""
        return self._replace(residuals=[]), self.residuals

    def pulled_back(self, cotangents: Operands, are_unit_vectors: bool = False) -> Values:
        """Cotangents of the inputs with nonzero tangents, from one cotangent per result of the function."""
        # Before: one cotangent per result of the function. After: one per result of `jaxpr`.
        live = [*compress(cotangents, self.nonzero_out)]

        def pulled_back(cts: Operands) -> Values:
            return backward_pass(self.jaxpr, self.residuals, cts)

        return mask_if_enabled(pulled_back, live, are_unit_vectors)


def linearize_flat(
    function: Function, primals: Operands, nonzero: Mask, instantiate_results: Mask = ()
) -> tuple[Values, LinearMap, Values]:
    """(results, linear program of their tangents, auxiliary values) of a function of flat values.

    `function` gives (results, auxiliary values); the latter may be anything. `instantiate_results` marks results that get a
    tangent even where it is zero; none if it is empty.
    """
    # `staged_by`: the trace below any vmap and jvp. Repeated layers are only searched for if it records a program.
    parent = staged_by = context.trace
    while isinstance(staged_by, (BatchTrace, JVPTrace)):
        staged_by = staged_by.parent
    if (
        type(staged_by) is not StagingTrace
        or keeps_layers.value
        or not config.call_repeated_layers.value
    ):
        return _linearize(
            function, primals, nonzero, LinearizeTrace(parent, Draft()), instantiate_results
        )
    with_calls = None

    def call_and_log(*arguments: Any) -> tuple[Values, Values]:
        nonlocal with_calls
        results, aux = function(*arguments)
        # The operations are recorded and traces are still open: the function with repeated layers as calls, or None.
        with_calls = trace.with_layer_calls(arguments, results, aux)
        return results, aux

    trace = LoggedLinearizeTrace(parent, Draft(), staged_by)
    linearized = _linearize(call_and_log, primals, nonzero, trace, instantiate_results)
    if with_calls is None:
        return linearized
    # The function is linearized a second time; the equations that the first run left are superseded.
    again = LinearizeTrace(parent, Draft())
    return _linearize(with_calls, primals, nonzero, again, instantiate_results)


def _linearize(
    function: Function,
    primals: Operands,
    nonzero: Mask,
    trace: LinearizeTrace,
    instantiate_results: Mask = (),
) -> tuple[Values, LinearMap, Values]:
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
    program = LinearMap(
        jaxpr, residuals, list(nonzero), nonzero_mask(out_tangents), types_of(out_primals)
    )
    return out_primals, program, [trace.primal(x) for x in aux]


def _leave_scope(equations: Sequence[Equation], outer: ScopeStack) -> None:
    """Removes the scopes `outer` from the name stacks of `equations`, whose program runs within scopes of its own."""
    # By identity of a name stack, the same without `outer`: many equations share one stack.
    inner: dict[int, ScopeStack | None] = {id(None): None}
    for equation in equations:
        scope = equation.scope
        if id(scope) not in inner:
            inner[id(scope)] = scope.without(outer)
        equation.scope = inner[id(scope)]


def linearize(fun: Function, *primals: Any, has_aux: bool = False) -> Any:
    """`(fun(*primals), derivative)`, where `derivative(*tangents)` is linear and doesn't run `fun` again.

    The derivative is a pytree whose leaves are the residuals, so it can be returned from `jit`. With `has_aux`, `fun`
    returns `(result, aux)`, and `aux` is the third result.

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

    `derivative` is called with the linear function, the leaves of `primals` and the residuals.
    """
    check_callable(fun, caller)
    leaves, tree = flat_arguments(primals, caller, fun, primals)
    avals = types_of(leaves)
    flat = FlatFunction(fun, caller, has_aux, tree.unflatten)
    results, program, aux = linearize_flat(flat, leaves, [is_differentiable(a) for a in avals])
    # The residuals become the leaves of the derivative; `Derivative`, without them, is its static part.
    program, residuals = program.without_dead_code().without_residuals()
    linear = Derivative(name_of(fun), program, tuple(avals), tree, flat.out_tree)
    result = flat.out_tree.unflatten(as_results(results))
    return flat.with_aux((result, derivative(linear, leaves, residuals)), aux)


class Derivative(NamedTuple):
    """A function linearized at a point, without its residuals: called with residuals and tangents, it returns the
    derivative.
    """

    name: str
    program: LinearMap
    in_avals: Avals
    in_tree: Any
    out_tree: Any

    # Hashed by identity: static data of a pytree must be hashable, and lists in `program` are not.
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
    """An execution plan, linearized."""

    primal: ExecutionPlan
    """Maps operands to results and residuals."""
    linear: ExecutionPlan
    """Maps nonzero tangents and residuals to the nonzero tangents of results."""
    nonzero_out: Mask
    origins: list[int]
    """For each step of `linear`, the step of `primal` whose tangent it computes; -1 for plumbing."""


def _split_plan(plan: ExecutionPlan, nonzero: Mask, avals: Avals) -> _Split | None:
    """Linearizes `plan` for operands of types `avals`; None if a derivative rule raises."""
    if len({*plan.results}.difference(range(len(avals)))) < len(plan.results):
        return None  # if a result is an operand or another result, both are the same tracer
    # Two drafts: `trace` stages the primal half, with the operands as arguments; the other one stages the linear half.
    trace = Draft()
    linearizing = LinearizeTrace(trace, Draft())
    arguments = [trace.new_argument(aval) for aval in avals]
    try:
        with use_trace(trace), use_lineage(None):
            results, program, _ = _linearize(
                lambda *xs: (Trace.run_plan(linearizing, plan, [*xs]), ()),
                arguments,
                nonzero,
                linearizing,
            )
        # The primal half returns results, then residuals; `run_split` separates them.
        program = program.without_dead_code()
        primal, consts = trace.finish([*results, *program.residuals])
    except (PellucidError, TypeError, ValueError, IndexError):
        return None  # raised again by the rule, for the user's own values
    finally:
        trace.close()
    # A plan contains operands and literals, but no constants.
    if consts:
        return None
    # Index of each equation of the primal half, to which the linear half refers.
    steps = {e: i for i, e in enumerate(primal.equations)}
    origins = [
        steps.get(e.lineage.origins[0], -1) if e.lineage and e.lineage.origins else -1
        for e in program.jaxpr.equations
    ]
    return _Split(
        execution_plan(primal), execution_plan(program.jaxpr), program.nonzero_out, origins
    )


class LinearizeTrace(JVPTrace):
    """Runs jvp rules; stages the linear half of what they bind, and passes the primal half to the parent."""

    __slots__ = ("linear",)
    rules: RuleTrace

    def __init__(self, parent: Trace, linear: StagingTrace) -> None:
        self.linear = linear
        super().__init__(parent, RuleTrace(self, parent))

    def stage_linear(self, primitive: Primitive, operands: Operands, params: Any) -> Any:
        """Stages an equation of the linear program, for rules that split programs."""
        return self.rules.stage_equation(primitive, operands, params)

    def as_tangent(self, value: Any) -> Any:
        # To a derivative that is linearized its tangents are values as others.
        return self.parent.as_tangent(value)

    def joined(self, primals: Operands, tangents: Operands) -> Values:
        """Tracers of values with their tangents; plain values for zero tangents.

        A tangent that doesn't depend on the linear inputs (a rule computed it from constants) becomes a constant of the
        linear program.
        """
        return [
            p if type(t) is Zero else JVPTracer(self, p, self.linear_value(t))
            for p, t in strict_zip(primals, tangents)
        ]

    def linear_value(self, t: Any) -> StagingTracer:
        """`t` as a tracer of the linear program, which creates zeros itself, so that they are no residuals."""
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
        # Primitives that contain programs (jit, scan, cond) split these into a primal and a linear program.
        if isinstance(primitive, Linearized) and primitive.is_linearized:
            with use_trace(self.parent):
                return primitive.linearize(self, primals, tangents, params)
        return super()._derivative(primitive, primals, tangents, params)

    def run_plan(self, plan: ExecutionPlan, operands: Values) -> Results:
        # Operands with a tangent. A plan is linearized once for each such mask.
        mask = tuple([type(x) is JVPTracer and x._trace is self for x in operands])
        if True not in mask or computes_known.value:
            return super().run_plan(plan, operands)
        if mask not in plan.derived:
            plan.derived[mask] = _split_plan(plan, mask, types_of(operands))
        split = plan.derived[mask]
        if split is None:
            return super().run_plan(plan, operands)
        return self.run_split(plan, split, operands, mask)

    def run_split(
        self, plan: ExecutionPlan, split: _Split, operands: Operands, mask: Mask
    ) -> Values:
        """Runs `plan` in its linearized form `split`, for operands with tangents marked by `mask`."""
        parent, linear = self.parent, self.linear
        written = parent.equations if type(parent) is StagingTrace else []
        # Number of equations before, to find those that this plan adds.
        begin, linear_begin = len(written), len(linear.equations)
        with use_trace(parent):
            values = parent.run_plan(split.primal, [*map(self.primal, operands)])
        # `values` are the results of `plan`, then the residuals.
        n_results = len(split.nonzero_out)
        results, residuals = values[:n_results], values[n_results:]
        tangents = [x.tangent for x in compress(operands, mask)]
        # `tangents` has one entry per operand in `mask`; `moved` one per result in `split.nonzero_out`.
        moved = linear.run_plan(split.linear, [*tangents, *residuals])
        outer = context.lineage
        # One entry per equation added by the primal half, and a last one for plumbing, which index -1 selects.
        origins = [*[(e,) for e in written[begin:]], () if outer is None else outer.origins]
        lineages = [Lineage("linearize", equations) for equations in origins]
        for equation, step in strict_zip(linear.equations[linear_begin:], split.origins):
            equation.lineage = lineages[min(step, len(lineages) - 1)]
        return self.joined(results, spread(moved, split.nonzero_out, types_of(results)))

    def custom_call(self, call: Any, operands: Operands) -> Values:
        self.rules.primal_results = None
        return super().custom_call(call, operands)


class LoggedLinearizeTrace(LinearizeTrace):
    """A LinearizeTrace that logs operations as a program, which can be rewritten before it is differentiated.

    A function differentiated while it is staged leaves no program of its own: its equations are recorded by `staged_by`
    as the derivative rules run. To turn repeated layers into calls, that must happen before differentiation.
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
        """(primitive, operands, params, results, number of equations staged before).

        A call of a function with custom rules has no primitive, and is its params.
        """

    def interpret(self, primitive: Primitive, operands: Operands, params: Any) -> Values:
        at = len(self.staged_by.equations)
        results = LinearizeTrace.interpret(self, primitive, operands, params)
        self.operations.append((primitive, operands, params, results, at))
        return results

    def run_split(self, plan: ExecutionPlan, split: Any, operands: Operands, mask: Mask) -> Any:
        at = len(self.staged_by.equations)
        results = super().run_split(plan, split, operands, mask)
        # Results by index in the plan. Intermediate values were not computed here, so stand-ins replace them.
        result_at = dict(strict_zip(plan.results, results))
        # All values of the plan by index: operands, fixed values, then the results of each step.
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

    def with_layer_calls(
        self, arguments: Operands, results: Results, aux: Values
    ) -> Function | None:
        """The function that computed `results` and `aux`, with its repeated layers as calls; None without layers, or
        with effects.

        The equations that the function has staged are superseded by those of the new one.
        """
        written = self.staged_by.equations
        if (
            len(self.operations) < MIN_LAYERED_EQUATIONS
            or self.staged_by.effects is not self.effects
        ):
            return None
        # `atoms` has the variable of each value in the new program; `constants` the values from outside.
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

        # Replaces a trace: returns (primitive, operands, params) instead of binding them.
        def as_parts(*parts: Any) -> tuple[Any, ...]:
            return parts

        parts = SimpleNamespace(interpret=as_parts)
        equations: list[Equation] = []
        # One equation for each operation, in the order in which the function ran them.
        for primitive, operands, params, values, at in self.operations:
            # `params` is the call of a function with a custom derivative; the equation that it would stage is used.
            if primitive is None:
                primitive, operands, params = params.stage(parts, operands)
            operand_atoms = [atom(x) for x in operands]
            variables = [Var(type_of(x)) for x in values]
            for x, v in strict_zip(values, variables):
                if isinstance(x, (Tracer, ArrayImpl)):  # other results need no equation
                    atoms.setdefault(_key(x), v)
            source = scope = None
            if at < len(written):  # the first equation staged for the operation
                source, scope = written[at].source, written[at].scope
                if scope is not None and self.scope is not None:
                    scope = scope.without(self.scope)
            equations.append(
                Equation(operand_atoms, variables, primitive, params, source=source, scope=scope)
            )
        # Keys of the results and auxiliary values computed by the program, in the order of its outvars, each once.
        computed = dict.fromkeys(key for x in (*results, *aux) if (key := _key(x)) in atoms)
        outvars = [atoms[key] for key in computed]
        jaxpr = Jaxpr([*constants], invars, equations, outvars)
        if (
            self.staged_by.superseded
        ):  # a gradient within the function may leave equations that nothing uses
            jaxpr, _ = remove_dead_equations(jaxpr, keep_inputs=True)
        layered = late("with layers called")(jaxpr)
        if layered is jaxpr:
            return None
        self.staged_by.superseded.update(written[self.begin :])

        def again(*arguments: Any) -> tuple[Values, Values]:
            consts = [constants[v] for v in layered.constvars]
            replayed = replay(layered, consts, *arguments)
            # Results that the program doesn't compute, such as constants, stay unchanged.
            values = dict(strict_zip(computed, replayed))
            return (
                [values.get(_key(x), x) for x in results],
                [values.get(_key(x), x) for x in aux],
            )

        return again


def _key(x: Any) -> Any:
    """Identity of a value: its variable in a program, or else its object id."""
    return x.variable if type(x) is StagingTracer else id(x)


class RuleTrace(Trace):
    """Current while a jvp rule runs: stages operations on linear values, and passes all others to the parent."""

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
            return self.stage_equation(primitive, operands, params)
        with use_trace(self.parent):
            # Only primals: computed or staged by the parent.
            results = self.parent.interpret(primitive, operands, params)
        # The tangents' lineage is the first equation that a rule stages for primals.
        if self.primal_results is None and results and type(results[0]) is StagingTracer:
            self.primal_results = (results[0].equation,)
        return results

    def as_tangent(self, value: Any) -> Any:
        return self.owner.linear_value(value)

    def stage_equation(self, primitive: Primitive, operands: Operands, params: Any) -> Any:
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
        """Splits a program within a user's rule, linear in some operands, into primal and linear part.

        A call is staged equation by equation. Other programs are linear, so they equal their derivative at zero.
        """
        body = called_program(primitive, params)
        if body is not None:
            # A reference made within may hold a linear value later: as plain values each part gets its place.
            return replay(*without_references(body), *operands)
        # Being linear, it is its own derivative at zero: there linear operands are tangents, the others primals.
        linear = [_belongs(x, self.linear) for x in operands]
        takes = any(is_linear and is_reference(x) for is_linear, x in strict_zip(linear, operands))
        if takes or any(map(uses_references, subjaxprs(params))):
            return on_values(primitive, operands, params)
        at = [zeros(x.aval) if t else x for x, t in strict_zip(operands, linear)]
        tangents = [x if t else zero_of(x) for x, t in strict_zip(operands, linear)]
        with use_trace(self.parent):
            results, out_tangents = primitive.linearize(
                self.owner, tuple(at), tuple(tangents), params
            )
        # At zero, a linear result is its tangent; a result without tangent depends on other operands only.
        return [p if type(t) is Zero else t for p, t in strict_zip(results, out_tangents)]

    def custom_call(self, call: Any, operands: Operands) -> Values:
        if self.touches_linear(operands):
            return call.function(*operands)
        with use_trace(self.parent):
            return self.parent.custom_call(call, operands)

    def touches_linear(self, operands: Operands) -> bool:
        """Whether some operand is a value of the linear program.

        Raises UnexpectedTracerError for values of the trace being differentiated: since a rule gets primals and
        tangents separately, these come from a closure.
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
    """Origin of a residual: `kind` is "input", "result" (of the primal program) or "constant"."""

    kind: str
    index: int  # pyright: ignore[reportIncompatibleMethodOverride]  # hides tuple.index


class LinearizedJaxpr(NamedTuple):
    """A program split at a point: `primal` returns results, then residuals; `linear` maps (residuals, tangents) to
    tangents.

    Neither has constants; those of the primal program, `consts`, are its leading inputs. `nonzero_out` marks results
    with a tangent. `sources` has the origin of each residual: only those that are neither inputs, results nor
    `constants` are additional results of `primal`. `forwarded` has, for each result that is an input, the index of that
    input, else None.
    """

    primal: ClosedJaxpr
    consts: Values
    linear: ClosedJaxpr
    nonzero_out: Mask
    sources: tuple[Source, ...]
    constants: Values
    forwarded: tuple[int | None, ...]

    def residuals(self, primals: Operands, results: Results) -> Values:
        """The residuals, selected from the inputs (without `consts`) and all results of the primal program."""
        values = {"input": primals, "result": results, "constant": self.constants}
        return [values[kind][index] for kind, index in self.sources]


@derivation("linearize")
def linearize_jaxpr(
    jaxpr: Jaxpr,
    nonzero: Mask,
    instantiate_results: Mask | bool = False,
    recompute: Worth | None = None,
) -> LinearizedJaxpr:
    """Splits `jaxpr` (without constants) into its primal and its linear part.

    `recompute` tells which residuals the linear part computes from others instead.
    """
    # `want` marks results that get a tangent even if it is zero. The lists are filled while `primal` is staged.
    want = flag_list(instantiate_results, len(jaxpr.outvars))
    programs: list[LinearMap] = []
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
        program, residuals = program.without_residuals()
        programs.append(program)
        # `places` maps variables to where their values are available: inputs first, then results.
        inputs = {x.variable: i for i, x in enumerate(arguments)}
        forwarded[:] = [inputs.get(x.variable) if _belongs(x, trace) else None for x in results]
        places = {
            x.variable: Source("result", i) for i, x in enumerate(results) if _belongs(x, trace)
        }
        places |= {variable: Source("input", i) for variable, i in inputs.items()}
        # Residuals that are neither inputs nor results become additional results, after those of `jaxpr`.
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

    n = len(jaxpr.invars)
    debug = jaxpr.debug and jaxpr.debug.rearranged(n, range(n))
    primal_program, consts = stage_open(primal, jaxpr.in_avals, debug)
    [program] = programs
    # Its constants, the residuals, become leading inputs: it maps (residuals, nonzero tangents) to nonzero tangents.
    # A residual that is an input has its name; those that are computed have none here.
    inputs = [s.index if s.kind == "input" else None for s in sources]
    with_tangent = [i for i, nz in enumerate(nonzero) if nz]
    debug = jaxpr.debug and jaxpr.debug.rearranged(n, inputs, (), with_tangent)
    linear = ClosedJaxpr(constants_as_inputs(program.jaxpr).replace(debug=debug))
    return LinearizedJaxpr(
        primal_program, consts, linear, tuple(program.nonzero_out), tuple(sources), constants,
        tuple(forwarded),
    )  # fmt: skip


def _with_fewer_residuals(
    program: LinearMap, trace: StagingTrace, results: Results, worth: Worth
) -> LinearMap:
    """`program` without the residuals that can be recomputed cheaply from others of `trace`."""
    # Residuals from outside the primal program, by their variable in the linear program.
    constants = {
        v: r
        for v, r in strict_zip(program.jaxpr.constvars, program.residuals)
        if not _belongs(r, trace)
    }
    residuals = strict_zip(program.jaxpr.constvars, program.residuals)
    # The variable of each residual: of the primal program, or of the linear one if it is from outside.
    jaxpr, variables = with_fewer_residuals(
        program.jaxpr,
        [v if v in constants else r.variable for v, r in residuals],
        trace.equations,
        {x.variable for x in results if _belongs(x, trace)},
        worth,
    )
    # `variables` are the remaining residuals and what is needed to recompute the others; mapped back to values.
    values = [constants[v] if v in constants else StagingTracer(trace, v, None) for v in variables]
    return program._replace(jaxpr=jaxpr, residuals=values)


def _belongs(x: Any, trace: StagingTrace) -> bool:
    return type(x) is StagingTracer and x._trace is trace


def with_tangent(x: Any) -> Any:
    """`x` with an explicit tangent, zeros if it has none, under the current LinearizeTrace."""
    trace = context.trace
    primal, tangent = trace.split(x)
    return JVPTracer(trace, primal, trace.linear_value(tangent))
