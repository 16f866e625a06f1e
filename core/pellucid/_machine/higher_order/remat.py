"""`checkpoint` (`remat`): the backward pass recomputes intermediate values, instead of the forward pass saving them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pellucid._machine.base import (
    ConcretizationTypeError,
    EffectsError,
    RemovedError,
    copy_with_name,
    strict_zip,
)
from pellucid._machine.ir import (
    ClosedJaxpr,
    Equation,
    Jaxpr,
    Mask,
    Operands,
    Values,
    Var,
    drop_forwarded_results,
    remove_dead_equations,
    subjaxprs,
    with_programs,
    with_variables_as_inputs,
)
from pellucid._machine.primitives import device_put, stage
from pellucid._machine.sharding.memory import space_of_kind
from pellucid._machine.tracing import (
    FunctionCall,
    FunctionSpec,
    bind,
    check_distinct,
    context,
    discharge_program,
    indices,
    is_reference,
    name_of,
    named_scope,
    replay,
    resolve_arguments,
    type_of,
)
from pellucid._machine.transforms import (
    LinearizedJaxpr,
    check_callable,
    linearize_jaxpr,
    nonzero,
    nonzero_mask,
    result_leaves,
    split_tangents,
    stage_open,
    wraps,
)

from .bodies import TracedBody, body_of_flat, known_body
from .calls import (
    ClosedCallParams,
    JaxprCall,
    closed_call_p,
    run_program,
    without_calls,
)
from .custom_rules import CustomCall
from .remat_policies import Offloadable, Policy, PolicyWithin, decision, nothing_saveable
from .structured import Structured, insert_forwarded_results, remembered_on_program, uses_state

# The primitive --------------------------------------------------------------------------------------


class RematParams(NamedTuple):
    """`differentiated` marks the linear half, which recomputes; `policy` selects what is saved for it."""

    differentiated: bool
    jaxpr: ClosedJaxpr
    policy: Policy | None
    prevent_cse: bool | Mask

    def on(self, program: ClosedJaxpr) -> RematParams:
        """Params of a call of a program derived from this one."""
        return self._replace(jaxpr=program)


class Remat(JaxprCall[RematParams]):
    """A call whose linearization saves its arguments (and what the policy selects) instead of all residuals."""

    name = "remat2"
    rule_params = ("policy",)

    def linearize(self, trace, primals, tangents, params):
        mask = tuple(nonzero_mask(tangents))
        if uses_state(params.jaxpr.effects):
            raise EffectsError(
                "checkpoint can't be differentiated where a function with its own derivative uses references.",
                got=", ".join(type_of(x).text() for x in primals if is_reference(x)),
                do="Pass what the references hold, and return what they shall hold.",
            )
        once = [effect for effect in params.jaxpr.effects if not effect.may_repeat]
        if once:
            raise EffectsError(
                "checkpoint can't be differentiated where it has side effects: they would happen again in the backward pass.",
                got=", ".join(map(repr, once)),
                do="Call `io_callback` outside of the checkpoint, or `debug.callback`, which may be called any number of times.",
            )
        parts = split_remat(params, mask)
        # Inputs of the primal program: closed-over values first.
        operands = (*parts.consts, *primals)
        # Eagerly, the forward pass is one compiled call; under a trace, its equations are added to the current program.
        if context.trace.is_eager:
            values = bind(closed_call_p, *operands, params=ClosedCallParams(parts.primal))
        else:
            values = run_program(parts.primal.jaxpr, *operands)
        n = len(parts.mask)
        # `values` are the results, then the values saved by the policy.
        results, saved = values[:n], values[n:]
        out: Operands = ()
        if any(parts.mask):
            # Saved for the backward pass: the operands that it needs, and `saved`; it recomputes the rest.
            residuals = [x for x, u in strict_zip(operands, parts.needed) if u]
            inputs = (*residuals, *saved, *parts.constants, *nonzero(tangents))
            linear = params._replace(jaxpr=parts.linear, differentiated=True)
            out = trace.stage_linear(self, inputs, linear)
        return split_tangents([*results, *out], parts.mask)

    def lower(self, ctx, operands, params):
        if params.differentiated and params.prevent_cse is not False:
            # Without a barrier, the compiler would reuse the values of the first computation, and keep them.
            flags = params.prevent_cse
            # One flag per operand; marked ones pass through the barrier, and the order of operands stays.
            flags = flags if isinstance(flags, tuple) else (True,) * len(operands)
            behind = [i for i, prevented in enumerate(flags[: len(operands)]) if prevented]
            if behind:
                operands = list(operands)
                moved = [operands[i] for i in behind]
                barrier = ctx.op("stablehlo.optimization_barrier", [x.type for x in moved], moved)
                for i, x in strict_zip(behind, barrier.results):
                    operands[i] = x
        with ctx.named("checkpoint/"):
            return ctx.inline(params.jaxpr.jaxpr, (), operands)


remat_p = Remat()

# What is kept -------------------------------------------------------------------------------------------


class RematParts(NamedTuple):
    """A rematerialized program, linearized.

    `primal` takes (`consts`, operands) and returns (results, saved values). `linear` takes (the operands that are
    `needed`, saved values, `constants`, tangents), and recomputes the residuals.
    """

    primal: ClosedJaxpr
    consts: Values
    linear: ClosedJaxpr
    needed: Mask
    constants: Values
    mask: Mask


@remembered_on_program
def split_remat(params: RematParams, nonzero: Mask) -> RematParts:
    """The parts of a rematerialized program whose operands have tangents marked by `nonzero`."""
    # First linearized as if all residuals were saved; then decide which ones are.
    parts = linearize_jaxpr(_saving_within(params.jaxpr.jaxpr, params.policy), nonzero)
    n_results = len(parts.nonzero_out)
    # `body` takes (`parts.consts`, operands), returns (results, residuals that are neither inputs nor results).
    body = parts.primal.jaxpr
    if params.policy is not None and params.policy is not nothing_saveable:
        # A policy decides for each equation, so calls are inlined; what an inner checkpoint computes again stays in it.
        body = without_calls(body, remat_p)
    body, again, saved = _split_at_saved(body, params.policy)
    # The residuals as variables of `body`, in the order of `parts.sources`, without constants.
    first = len(parts.consts)
    residuals = [
        body.invars[first + s.index] if s.kind == "input" else body.outvars[s.index]
        for s in parts.sources
        if s.kind != "constant"
    ]
    # Takes (inputs of `body`, saved values), returns the residuals; `pruned` only takes the inputs that it uses.
    recompute = with_variables_as_inputs(again, list(saved), residuals)
    pruned, used = remove_dead_equations(recompute)
    n_inputs = len(body.invars)
    # `used` has a flag per input of `body`, then one per saved value. Unused values are not saved.
    needed, used_saved = used[:n_inputs], used[n_inputs:]
    saved_and_used = {v: how for (v, how), u in strict_zip(saved.items(), used_saved) if u}
    primal = _primal_program(body, n_results, saved_and_used)
    # One flag per residual: constants are passed on, the others are recomputed.
    constant = [s.kind == "constant" for s in parts.sources]
    linear = _linear_program(parts, pruned, constant, list(saved_and_used.values()), sum(needed))
    # What it recomputes from has the names of the arguments.
    places = [i for i, is_needed in enumerate(needed) if is_needed]
    if body.debug is not None:
        with_tangent = [first + i for i, nz in enumerate(nonzero) if nz]
        others = [None] * (len(linear.jaxpr.invars) - len(places) - len(with_tangent))
        debug = body.debug.rearranged(n_inputs, [*places, *others], (), with_tangent)
        linear = ClosedJaxpr(linear.jaxpr.replace(debug=debug), linear.consts)
    constants = [parts.constants[s.index] for s in parts.sources if s.kind == "constant"]
    return RematParts(primal, parts.consts, linear, tuple(needed), constants, parts.nonzero_out)


def _saving_within(program: Jaxpr, policy: Policy | None) -> Jaxpr:
    """The program with inner checkpoints that also save what `policy` saves, so that they don't compute it again."""
    if policy is None or policy is nothing_saveable:
        return program

    def change(program: Jaxpr) -> Jaxpr:
        equations = []
        for equation in program.equations:
            params = with_programs(equation.params, change)
            if equation.primitive is remat_p and not params.differentiated:
                own = params.policy or nothing_saveable
                params = params._replace(policy=PolicyWithin(own, policy))
            equations.append(
                equation if params is equation.params else equation.replace(params=params)
            )
        changed = any(new is not old for new, old in strict_zip(equations, program.equations))
        return program.replace(equations=equations) if changed else program

    return change(program)


Saved = dict[Var, bool | Offloadable]


def _split_at_saved(body: Jaxpr, policy: Policy | None) -> tuple[Jaxpr, Jaxpr, Saved]:
    """`body` as it runs forward and as it is recomputed, and the variables saved by the policy, and how.

    What is saved within the program of an equation that can be split there is a further result of it, and a further operand
    of the equation that recomputes its results. Primitives with a rule `saved` decide themselves.
    """
    saved: Saved = {}
    forward: list[Equation] = []
    again: list[Equation] = []
    for equation in body.equations:
        first = second = equation
        rule = getattr(equation.primitive, "saved", None)
        primitive = equation.primitive
        if rule is not None:
            saved |= rule(policy or nothing_saveable, equation)
        elif policy is not None:
            if how := _how_saved(equation, policy):
                # References are no values: each pass makes its own.
                saved.update((v, how) for v in equation.results if not is_reference(v))
            elif isinstance(primitive, Structured) and (
                parts := primitive.split_at(equation.params, _split_within(policy))
            ):
                known, recomputed, rows = parts
                kept = {Var(aval): how for aval, how in rows}
                first = equation.replace(params=known, results=[*equation.results, *kept])
                second = equation.replace(params=recomputed, operands=[*equation.operands, *kept])
                saved |= kept
        forward.append(first)
        again.append(second)
    if forward == again:
        return body, body, saved
    return body.replace(equations=forward), body.replace(equations=again), saved


def _split_within(policy: Policy) -> Callable[[Jaxpr], tuple[Jaxpr, Jaxpr, Saved]]:
    """A function that inlines the calls of an equation's program, and splits it at what the policy saves there."""
    return lambda program: _split_at_saved(without_calls(program, remat_p), policy)


def _how_saved(equation: Equation, policy: Policy) -> bool | Offloadable:
    avals = [a.aval for a in equation.operands]
    return decision(policy(equation.primitive, *avals, **equation.params._asdict()))


def _primal_program(body: Jaxpr, n_results: int, saved: Saved) -> ClosedJaxpr:
    """Results and saved values, in the memory where they are saved."""
    # `body` returns (results, residuals), `pruned` returns (results, saved values).
    pruned, _ = remove_dead_equations(
        body.replace(outvars=[*body.outvars[:n_results], *saved]), keep_inputs=True
    )
    if not any(isinstance(how, Offloadable) for how in saved.values()):
        return ClosedJaxpr(pruned)

    def primal(*operands):
        values = replay(pruned, (), *operands)
        # Offloaded values are moved at the end of the forward pass, and moved back in the linear program.
        away = [
            device_put(x, space_of_kind(how.dst)) if isinstance(how, Offloadable) else x
            for x, how in strict_zip(values[n_results:], saved.values())
        ]
        return [*values[:n_results], *away]

    return stage_open(primal, body.in_avals, body.debug)[0]


def _linear_program(
    parts: LinearizedJaxpr,
    recompute: Jaxpr,
    constant: Mask,
    saved: Sequence[bool | Offloadable],
    n_needed: int,
) -> ClosedJaxpr:
    """Maps (needed operands, saved values, constants, tangents) to tangents of the results."""
    linear = parts.linear.jaxpr
    n_known, n_constants = len(recompute.invars), sum(constant)
    # Types of the inputs: needed operands, saved values (`recompute` takes both), then constants, then tangents.
    avals = list(recompute.in_avals)
    for i, how in enumerate(saved):
        if isinstance(how, Offloadable):
            avals[n_needed + i] = avals[n_needed + i].update(memory_space=space_of_kind(how.dst))  # type: ignore[attr-defined]
    # `linear` takes all residuals, of which only constants are inputs here, then the tangents.
    residual_avals = linear.in_avals[: len(constant)]
    avals += [a for a, c in strict_zip(residual_avals, constant) if c]
    avals += linear.in_avals[len(constant) :]

    def run(*operands):
        inputs = list(operands[:n_known])
        for i, how in enumerate(saved):
            if isinstance(how, Offloadable):
                inputs[n_needed + i] = device_put(inputs[n_needed + i], space_of_kind(how.src))
        with named_scope("rematted_computation"):
            # Residuals that are not constants, in order.
            computed = iter(replay(recompute, (), *inputs))
        constants = iter(operands[n_known : n_known + n_constants])
        # Interleaves both kinds, as `linear` expects them.
        residuals = [next(constants) if c else next(computed) for c in constant]
        return replay(linear, (), *residuals, *operands[n_known + n_constants :])

    return stage_open(run, avals, linear.debug)[0]


# The function users call ----------------------------------------------------------------------------------


def checkpoint(
    fun: Callable[..., Any] | None = None,
    *,
    prevent_cse: bool | Mask = True,
    policy: Policy | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    concrete: bool = False,
) -> Any:
    """`fun` with its intermediate values recomputed for derivatives instead of saved.

    `policy`, one of `checkpoint_policies`, selects values that are saved nevertheless. `prevent_cse=False` lets the
    compiler merge both computations; it is safe within `scan`. Arguments at `static_argnums` (or `static_argnames`)
    stay Python values.

    >>> from pellucid import grad
    >>> grad(checkpoint(lambda x: x * x))(3.0)
    Array(6., dtype=float32, weak_type=True)
    """
    if fun is None:
        return functools.partial(
            checkpoint, prevent_cse=prevent_cse, policy=policy, static_argnums=static_argnums,
            static_argnames=static_argnames, concrete=concrete,
        )  # fmt: skip
    check_callable(fun, "checkpoint")
    if concrete:
        raise RemovedError(
            "checkpoint: the option `concrete` does not exist any more.",
            do="Make arguments whose values Python needs static, with static_argnums.",
        )
    # Without positions, or without names, each is completed from the other.
    nums, names = resolve_arguments(
        fun,
        indices(static_argnums, "static_argnums") or None,
        static_argnames or None,
        "static",
    )
    spec = FunctionSpec(fun, name_of(fun), nums, names)

    @wraps(fun, "Rematerialized form")
    def rematerialized_function(*args: Any, **kwargs: Any) -> Any:
        # Unhashable static arguments are allowed: with them, the function is traced at each call.
        call = spec.call(args, kwargs, hashes=False)
        body = known_body(
            fun, ("checkpoint", call.tree, call.avals, call.static), lambda: _trace_body(spec, call)
        )
        params = RematParams(False, body.program, policy, prevent_cse)
        # Closed-over values first, then the arguments.
        operands = [*body.consts, *call.leaves]
        if any(map(is_reference, operands)) and not _has_rules_with_references(body.program.jaxpr):
            return body.out_tree.unflatten(_discharge_references(params, operands))
        if not context.trace.is_eager:
            return body.out_tree.unflatten(bind(remat_p, *operands, params=params))
        # Eagerly, a result that is an operand is returned as that object, not as a copy by the compiled call.
        [program], forwarded = drop_forwarded_results((body.program,))
        results = bind(remat_p, *operands, params=params.on(program))
        results = insert_forwarded_results(results, forwarded, operands)
        return body.out_tree.unflatten([x if hasattr(x, "aval") else stage(x) for x in results])

    return rematerialized_function


def _discharge_references(params: RematParams, operands: Operands) -> Values:
    """Results of a rematerialized program with references, which are read before it and written after it.

    So the backward pass recomputes from the initial contents, and writes nothing a second time.
    """
    check_distinct("checkpoint", (), operands)
    body = discharge_program(params.jaxpr.jaxpr)
    values = [x.aval.methods["get"](x) if is_reference(x) else x for x in operands]
    results = bind(remat_p, *body.consts, *values, params=params.on(body.program))
    # `results` are those of the function, then the final content of each reference that it wrote.
    n = len(params.jaxpr.out_avals)
    for position, value in strict_zip(body.written, results[n:]):
        reference = operands[position]
        reference.aval.methods["set"](reference, value)
    return results[:n]


def _has_rules_with_references(jaxpr: Jaxpr) -> bool:
    """Whether a function with a custom derivative uses references; discharging would drop its rules."""
    return any(
        (isinstance(e.primitive, CustomCall) and any(map(is_reference, e.operands)))
        or any(map(_has_rules_with_references, subjaxprs(e.params)))
        for e in jaxpr.equations
    )


def _trace_body(spec: FunctionSpec, call: FunctionCall) -> TracedBody:

    def flat(*leaves):
        return result_leaves(spec.run(call, leaves), "checkpoint", spec.function)

    try:
        return body_of_flat(flat, call.avals, spec.debug_info(call, traced_for="checkpoint"))
    except ConcretizationTypeError as error:
        raise type(error)(
            error.what, got=error.got, where=f"checkpoint of `{spec.name}`",
            do=f"{error.do} `checkpoint` traces all arguments but those in static_argnums.",
        ) from error  # fmt: skip


remat = copy_with_name(checkpoint, "remat")
