"""`checkpoint` (`remat`): the backward pass computes again what the forward pass would have kept, as policies choose."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    ConcretizationTypeError,
    EffectsError,
    RemovedError,
    renamed,
    strict_zip,
    tree_map,
)
from pellucid._machine.ir import (
    ClosedJaxpr,
    Jaxpr,
    Mask,
    Operands,
    Primitive,
    StateEffect,
    Values,
    Var,
    remove_dead_equations,
    subjaxprs,
    with_known,
    without_forwarded,
)
from pellucid._machine.primitives import IdentityOfValues, device_put, stage
from pellucid._machine.sharding.memory import space_of_kind
from pellucid._machine.tracing import (
    Call as FunctionCall,
    FunctionSpec,
    bind,
    bind1,
    check_distinct,
    context,
    discharged,
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
    paired,
    result_leaves,
    stage_open,
    wraps,
)

from .bodies import Body, body_of_flat, known_body
from .calls import (
    Call,
    ClosedCallParams,
    closed_call_p,
    without_calls,
)
from .custom_rules import CustomCall
from .structured import remembered_on_program, with_forwarded

Policy = Callable[..., Any]
"""`policy(primitive, *types of operands, **params)`: True or `Saveable` to keep the results, False or `Recompute`
to compute them again, `Offloadable` to keep them in another memory."""

# Names ------------------------------------------------------------------------------------------------


class NameParams(NamedTuple):
    """`name` is the name of the value."""

    name: str


class Name(IdentityOfValues[NameParams]):
    """The identity; it gives a value a name."""

    name = "name"


name_p = Name()


def checkpoint_name(x: Any, name: str) -> Any:
    """The tree `x` of arrays, whose values policies of `checkpoint` then know by `name`.

    >>> checkpoint_name(np.float32(1), "activations")
    Array(1., dtype=float32)
    """
    if not isinstance(name, str):
        raise ArgumentTypeError("checkpoint_name takes a string.", got=f"got {type(name).__name__}")
    return tree_map(lambda leaf: bind1(name_p, leaf, params=NameParams(name)), x)


# Answers of policies ----------------------------------------------------------------------------------


class _Answer:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


Saveable = _Answer("Saveable")
Recompute = _Answer("Recompute")


class Offloadable(NamedTuple):
    """Keep a value in memory `dst` (as "pinned_host") and bring it back to `src` (as "device") when it is needed.

    >>> Offloadable(src="device", dst="pinned_host").dst
    'pinned_host'
    """

    src: str
    dst: str


def decision(answer: Any) -> bool | Offloadable:
    """The answer of a policy as a bool or Offloadable; raises ArgumentTypeError for other answers."""
    if isinstance(answer, Offloadable):
        return answer
    if answer is Saveable or answer is Recompute:
        return answer is Saveable
    if isinstance(answer, bool):
        return answer
    raise ArgumentTypeError(
        "a policy of `checkpoint` must answer with a bool, Saveable, Recompute or Offloadable.",
        got=f"it answered {answer!r:.60}",
    )


# Policies ---------------------------------------------------------------------------------------------


def everything_saveable(*_: Any, **__: Any) -> bool:
    """Keep everything, as without `checkpoint`."""
    return True


def nothing_saveable(*_: Any, **__: Any) -> bool:
    """Keep nothing but the arguments, as without a policy."""
    return False


def dots_saveable(primitive: Primitive, *_: Any, **__: Any) -> bool:
    """Keep results of matrix products (and convolutions), which are dear to compute again."""
    return primitive.name in ("dot_general", "conv_general_dilated")


def dots_with_no_batch_dims_saveable(primitive: Primitive, *_: Any, **params: Any) -> bool:
    """Keep results of matrix products without batch dimensions."""
    if primitive.name != "dot_general":
        return False
    _, (lhs_batch, rhs_batch) = params["dimension_numbers"]
    return not lhs_batch and not rhs_batch


def offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str) -> Policy:
    """Keep results of matrix products without batch dimensions in memory `offload_dst`.

    >>> from pellucid import checkpoint, grad
    >>> f = checkpoint(lambda x: checkpoint_name(x * x, "square") ** 2, policy=offload_dot_with_no_batch_dims("device", "pinned_host"))
    >>> grad(f)(2.0)
    Array(32., dtype=float32, weak_type=True)
    """

    def policy(*equation: Any, **params: Any) -> Any:
        is_kept = dots_with_no_batch_dims_saveable(*equation, **params)
        return Offloadable(offload_src, offload_dst) if is_kept else Recompute

    return policy


@dataclass(frozen=True)  # not a tuple: policies of different classes differ
class NamesSaveable:
    """Keep values with certain names, or with any names but these, and perhaps `others`, which have no name."""

    names: frozenset[str]
    are_kept: bool
    others: bool = False

    def __call__(self, primitive: Primitive, *_: Any, **params: Any) -> bool:
        if primitive is not name_p:
            return self.others
        return (params["name"] in self.names) is self.are_kept


def save_only_these_names(*names_which_can_be_saved: str) -> Policy:
    """Keep values named by `checkpoint_name`, and only with these names.

    >>> from pellucid import checkpoint, grad
    >>> f = checkpoint(lambda x: checkpoint_name(x * x, "square") ** 2, policy=save_only_these_names("square"))
    >>> grad(f)(2.0)
    Array(32., dtype=float32, weak_type=True)
    """
    return NamesSaveable(frozenset(names_which_can_be_saved), are_kept=True)


def save_any_names_but_these(*names_not_to_save: str) -> Policy:
    """Keep values named by `checkpoint_name`, but not with these names.

    >>> from pellucid import checkpoint, grad
    >>> f = checkpoint(lambda x: checkpoint_name(x * x, "square") ** 2, policy=save_any_names_but_these("square"))
    >>> grad(f)(2.0)
    Array(32., dtype=float32, weak_type=True)
    """
    return NamesSaveable(frozenset(names_not_to_save), are_kept=False)


def save_anything_except_these_names(*names_not_to_save: str) -> Policy:
    """Keep everything but values with these names.

    >>> from pellucid import checkpoint, grad
    >>> f = checkpoint(lambda x: checkpoint_name(x * x, "square") ** 2, policy=save_anything_except_these_names("square"))
    >>> grad(f)(2.0)
    Array(32., dtype=float32, weak_type=True)
    """
    return NamesSaveable(frozenset(names_not_to_save), are_kept=False, others=True)


def save_and_offload_only_these_names(
    *,
    names_which_can_be_saved: Sequence[str],
    names_which_can_be_offloaded: Sequence[str],
    offload_src: str,
    offload_dst: str,
) -> Policy:
    """Keep values with some names, and those with others in memory `offload_dst`.

    Raises: ArgumentValueError for a name in both lists.

    >>> from pellucid import checkpoint, grad
    >>> policy = save_and_offload_only_these_names(
    ...     names_which_can_be_saved=["square"], names_which_can_be_offloaded=[],
    ...     offload_src="device", offload_dst="pinned_host",
    ... )
    >>> grad(checkpoint(lambda x: checkpoint_name(x * x, "square") ** 2, policy=policy))(2.0)
    Array(32., dtype=float32, weak_type=True)
    """
    saved, offloaded = frozenset(names_which_can_be_saved), frozenset(names_which_can_be_offloaded)
    if saved & offloaded:
        raise ArgumentValueError(
            "save_and_offload_only_these_names needs names that are either saved or offloaded.",
            got=f"both: {', '.join(sorted(saved & offloaded))}",
        )

    def policy(primitive: Primitive, *_: Any, **params: Any) -> Any:
        if primitive is name_p and params["name"] in saved:
            return Saveable
        if primitive is name_p and params["name"] in offloaded:
            return Offloadable(offload_src, offload_dst)
        return Recompute

    return policy


def save_from_both_policies(policy_1: Policy, policy_2: Policy) -> Policy:
    """Keep what either policy keeps; both must answer with bools.

    Raises: ArgumentValueError for other answers.

    >>> from pellucid import checkpoint, grad
    >>> f = checkpoint(lambda x: checkpoint_name(x * x, "square") ** 2, policy=save_from_both_policies(dots_saveable, everything_saveable))
    >>> grad(f)(2.0)
    Array(32., dtype=float32, weak_type=True)
    """

    def policy(primitive: Primitive, *avals: Any, **params: Any) -> bool:
        answers = policy_1(primitive, *avals, **params), policy_2(primitive, *avals, **params)
        if not all(isinstance(answer, bool) for answer in answers):
            raise ArgumentValueError(
                "save_from_both_policies needs policies that answer with bools.", got=f"got {answers}",
                do="Write a policy function that combines them.",
            )  # fmt: skip
        return any(answers)

    return policy


checkpoint_policies = types.SimpleNamespace(
    everything_saveable=everything_saveable,
    nothing_saveable=nothing_saveable,
    dots_saveable=dots_saveable,
    checkpoint_dots=dots_saveable,
    dots_with_no_batch_dims_saveable=dots_with_no_batch_dims_saveable,
    checkpoint_dots_with_no_batch_dims=dots_with_no_batch_dims_saveable,
    offload_dot_with_no_batch_dims=offload_dot_with_no_batch_dims,
    save_anything_except_these_names=save_anything_except_these_names,
    save_any_names_but_these=save_any_names_but_these,
    save_only_these_names=save_only_these_names,
    save_from_both_policies=save_from_both_policies,
    save_and_offload_only_these_names=save_and_offload_only_these_names,
)
"""The policies, under the names of the reference."""


# The primitive --------------------------------------------------------------------------------------


class RematParams(NamedTuple):
    """`differentiated` marks the linear half, which computes again; `policy` chooses what is kept for it."""

    differentiated: bool
    jaxpr: ClosedJaxpr
    policy: Policy | None
    prevent_cse: bool | Mask

    def on(self, program: ClosedJaxpr) -> RematParams:
        """Params of a call of a program derived from this one."""
        return self._replace(jaxpr=program)


class Remat(Call[RematParams]):
    """A call whose linearization keeps its arguments (and what the policy allows) instead of all residuals."""

    name = "remat2"
    rule_params = ("policy",)

    def linearize(self, trace, primals, tangents, params):
        mask = tuple(nonzero_mask(tangents))
        if any(isinstance(effect, StateEffect) for effect in params.jaxpr.effects):
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
        operands = (*parts.consts, *primals)
        if context.trace.is_eager:
            values = bind(closed_call_p, *operands, params=ClosedCallParams(parts.primal))
        else:
            values = replay(parts.primal.jaxpr, (), *operands)
        n = len(parts.mask)
        results, saved = values[:n], values[n:]
        out: Operands = ()
        if any(parts.mask):
            residuals = [x for x, u in strict_zip(operands, parts.needed) if u]
            inputs = (*residuals, *saved, *parts.constants, *nonzero(tangents))
            linear = params._replace(jaxpr=parts.linear, differentiated=True)
            out = trace.stage_linear(self, inputs, linear)
        return paired([*results, *out], parts.mask)

    def lower(self, ctx, operands, params):
        if params.differentiated and params.prevent_cse is not False:
            # Without a barrier the compiler would find that all this was computed before, and keep it.
            flags = params.prevent_cse
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
    """A rematerialized program split at a point.

    `primal` takes (`consts`, operands) and gives (results, saved values). `linear` takes (those of these operands
    that are `needed`, saved values, `constants`, tangents): it computes the residuals again.
    """

    primal: ClosedJaxpr
    consts: Values
    linear: ClosedJaxpr
    needed: Mask
    constants: Values
    mask: Mask


@remembered_on_program
def split_remat(params: RematParams, nonzero: Mask) -> RematParts:
    """The parts of a rematerialized program whose operands have tangents where `nonzero`."""
    parts = linearize_jaxpr(params.jaxpr.jaxpr, nonzero)
    n_results = len(parts.nonzero_out)
    body = parts.primal.jaxpr
    if params.policy is not None and params.policy is not nothing_saveable:
        body = without_calls(body, remat_p)
    saved = _saved(body, params.policy)
    first = len(parts.consts)
    residuals = [
        body.invars[first + s.index] if s.kind == "input" else body.outvars[s.index]
        for s in parts.sources
        if s.kind != "constant"
    ]
    recompute = with_known(body, list(saved), residuals)
    pruned, used = remove_dead_equations(recompute)
    n_inputs = len(body.invars)
    needed, used_saved = used[:n_inputs], used[n_inputs:]
    saved_and_used = {v: how for (v, how), u in strict_zip(saved.items(), used_saved) if u}
    primal = _primal_program(body, n_results, saved_and_used)
    constant = [s.kind == "constant" for s in parts.sources]
    linear = _linear_program(parts, pruned, constant, list(saved_and_used.values()), sum(needed))
    constants = [parts.constants[s.index] for s in parts.sources if s.kind == "constant"]
    return RematParts(primal, parts.consts, linear, tuple(needed), constants, parts.nonzero_out)


def _saved(body: Jaxpr, policy: Policy | None) -> dict[Var, bool | Offloadable]:
    """The variables that the policy keeps, and how; of primitives with a rule `saved`, those that it answers with."""
    saved: dict[Var, bool | Offloadable] = {}
    for equation in body.equations:
        rule = getattr(equation.primitive, "saved", None)
        if rule is not None:
            saved |= rule(policy or nothing_saveable, equation)
        elif policy is not None:
            avals = [a.aval for a in equation.operands]
            how = decision(policy(equation.primitive, *avals, **equation.params._asdict()))
            if how is not False:
                saved.update((v, how) for v in equation.results)
    return saved


def _primal_program(
    body: Jaxpr, n_results: int, saved: dict[Var, bool | Offloadable]
) -> ClosedJaxpr:
    """Results, and the values that are kept, in the memory where they are kept."""
    pruned, _ = remove_dead_equations(
        body.replace(outvars=[*body.outvars[:n_results], *saved]), keep_inputs=True
    )
    if not any(isinstance(how, Offloadable) for how in saved.values()):
        return ClosedJaxpr(pruned)

    def primal(*operands):
        values = replay(pruned, (), *operands)
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
    """From (needed operands, kept values, constants, tangents) to tangents of the results."""
    linear = parts.linear.jaxpr
    n_known, n_constants = len(recompute.invars), sum(constant)
    avals = list(recompute.in_avals)
    for i, how in enumerate(saved):
        if isinstance(how, Offloadable):
            avals[n_needed + i] = avals[n_needed + i].update(memory_space=space_of_kind(how.dst))  # type: ignore[attr-defined]
    residual_avals = linear.in_avals[: len(constant)]
    avals += [a for a, c in strict_zip(residual_avals, constant) if c]
    avals += linear.in_avals[len(constant) :]

    def run(*operands):
        inputs = list(operands[:n_known])
        for i, how in enumerate(saved):
            if isinstance(how, Offloadable):
                inputs[n_needed + i] = device_put(inputs[n_needed + i], space_of_kind(how.src))
        with named_scope("rematted_computation"):
            computed = iter(replay(recompute, (), *inputs))
        constants = iter(operands[n_known : n_known + n_constants])
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
    """`fun`, whose intermediate values are computed again for its derivative instead of being kept.

    `policy`, one of `checkpoint_policies`, chooses values that are kept nevertheless. `prevent_cse=False` lets the compiler
    share the two computations; it is safe within `scan`. Arguments at `static_argnums` (or `static_argnames`) stay
    Python values.

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
    nums, names = resolve_arguments(fun, static_argnums or None, static_argnames or None, "static")
    spec = FunctionSpec(fun, name_of(fun), nums, names)

    @wraps(fun, "Rematerialized form")
    def rematerialized(*args: Any, **kwargs: Any) -> Any:
        call = spec.call(args, kwargs, hashes=False)  # without, it is traced at each call
        body = known_body(
            fun, ("checkpoint", call.tree, call.avals, call.static), lambda: _traced(spec, call)
        )
        params = RematParams(False, body.program, policy, prevent_cse)
        operands = [*body.consts, *call.leaves]
        if any(map(is_reference, operands)) and not _has_rules_with_references(body.program.jaxpr):
            return body.out_tree.unflatten(_on_values(params, operands))
        if not context.trace.is_eager:
            return body.out_tree.unflatten(bind(remat_p, *operands, params=params))
        [program], forwarded = without_forwarded((body.program,))
        results = bind(remat_p, *operands, params=params.on(program))
        results = with_forwarded(results, forwarded, operands)
        return body.out_tree.unflatten([x if hasattr(x, "aval") else stage(x) for x in results])

    return rematerialized


def _on_values(params: RematParams, operands: Operands) -> Values:
    """Results of a rematerialized program with references, which are read before it and written after it.

    So what the backward pass computes again begins with the values that the forward pass began with, and writes
    nothing a second time.
    """
    check_distinct("checkpoint", (), operands)
    body = discharged(params.jaxpr.jaxpr)
    values = [x.aval.methods["get"](x) if is_reference(x) else x for x in operands]
    results = bind(remat_p, *body.consts, *values, params=params.on(body.program))
    n = len(params.jaxpr.out_avals)
    for position, value in strict_zip(body.written, results[n:]):
        reference = operands[position]
        reference.aval.methods["set"](reference, value)
    return results[:n]


def _has_rules_with_references(jaxpr: Jaxpr) -> bool:
    """Whether a function with a derivative of its own uses references, which it would lose on values."""
    return any(
        (isinstance(e.primitive, CustomCall) and any(map(is_reference, e.operands)))
        or any(map(_has_rules_with_references, subjaxprs(e.params)))
        for e in jaxpr.equations
    )


def _traced(spec: FunctionSpec, call: FunctionCall) -> Body:

    def flat(*leaves):
        return result_leaves(spec.run(call, leaves), "checkpoint", spec.function)

    try:
        return body_of_flat(flat, call.avals, spec.debug_info(call))
    except ConcretizationTypeError as error:
        raise type(error)(
            error.what, got=error.got, where=f"checkpoint of `{spec.name}`",
            do=f"{error.do} `checkpoint` traces all arguments but those in static_argnums.",
        ) from error  # fmt: skip


remat = renamed(checkpoint, "remat")
