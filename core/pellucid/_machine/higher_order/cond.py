"""Branches: `cond`, `switch`, `platform_dependent`, and the primitive that runs one of several programs.

Devices inside `shard_map` may take different branches. Then the values used in a branch must vary over the same axes as
the choice, and are cast before the branch: the transpose of the cast sums over devices, which is only possible where
all devices run it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    ArrayLike,
    Function,
    MissingRule,
    Names,
    config,
    keystr,
    strict_zip,
    structure_differences,
)
from pellucid._machine.base.late import late
from pellucid._machine.ir import (
    CONTROL,
    Avals,
    BatchAxis,
    BatchDim,
    ClosedJaxpr,
    Jaxpr,
    Linearized,
    Mask,
    Operands,
    Primitive,
    Role,
    Shown,
    Slot,
    SlotGroup,
    Slots,
    Values,
    Var,
    drop_forwarded_results,
    values_of,
    with_variables_as_inputs,
)
from pellucid._machine.lowering.loops import case
from pellucid._machine.lowering.module import ordered_effects_of
from pellucid._machine.primitives import (
    aligned_at,
    clamp,
    convert_element_type,
    eq,
    pvary_p,
    stage,
    stop_gradient,
    vary,
    zeros,
)
from pellucid._machine.tracing import (
    Tracer,
    bind,
    bind1,
    check_distinct,
    context,
    is_array_like,
    name_of,
    name_operands,
    replay,
    type_of,
    types_of,
)
from pellucid._machine.transforms import (
    Derived,
    LinearizedJaxpr,
    Source,
    batch_jaxpr,
    cache_on_program,
    check_callable,
    cotangents_of,
    flat_arguments,
    jvp_jaxpr,
    linear_parts,
    linearize_jaxpr,
    nonzero,
    nonzero_mask,
    split_tangents,
    stage_open,
    transpose_jaxpr,
)

from .bodies import (
    TracedBody,
    check_batched_effects,
    differing_types,
    has_guards,
    layout_advice,
    trace_program,
    type_lines,
)
from .calls import run_program, select_rows, without_calls
from .structured import (
    Structured,
    batch_on_values,
    insert_forwarded_results,
    marks,
    uses_state,
    with_common_consts,
    with_common_inputs,
    with_linear_part,
)

Platforms = tuple[Names | None, ...]


class CondParams(NamedTuple):
    """Operands are the branch index (int32, in range) and the operands of all branches.

    If the platform selects the branch, `branches_platforms` has the platforms of each branch; None for the default.
    """

    branches: tuple[ClosedJaxpr, ...]
    branches_platforms: Platforms | None = None


class Cond(Linearized, Shown, Structured[CondParams]):
    """Results of the branch with number `index`."""

    name = "cond"
    says_nothing = (None,)

    def abstract_eval(self, avals, params):
        return params.branches[0].out_avals

    def effects(self, avals, params):
        return frozenset().union(*(b.effects for b in params.branches))

    def slots(self, params):
        # Operand groups: 0 the index, 1 the operands of all branches. All branches return the single result group.
        jaxpr = params.branches[0].jaxpr
        return Slots(
            (SlotGroup(Role.INDEX, 1), SlotGroup(Role.CONSTANT, len(jaxpr.invars))),
            (SlotGroup(Role.RESULT, len(jaxpr.outvars)),),
            tuple([Slot(branch, (1,), (0,)) for branch in params.branches]),
        )

    def with_slots(self, params, slots):
        return params._replace(branches=tuple([slot.program for slot in slots.programs]))

    def bind_branches(
        self, derived: Sequence[Derived], operands: Operands, params: CondParams
    ) -> Values:
        """Binds a cond with branches `derived` on the index and the operands of all branches."""
        index, *rest = operands
        branches, consts = with_common_consts(derived)
        return bind(self, index, *consts, *rest, params=params._replace(branches=branches))

    # Derivatives ----------------------------------------------------------------------------------

    def jvp(self, primals, tangents, params):
        # Without the index, the first of `primals` and `tangents`, which is an integer.
        flags = nonzero_mask(tangents[1:])
        derived, mask = _agreeing(params, lambda jaxpr, want: jvp_jaxpr(jaxpr, flags, want))
        # Each derived branch takes (inputs, nonzero tangents) and returns (results, tangents marked by `mask`).
        results = self.bind_branches(derived, (*primals, *nonzero(tangents[1:])), params)
        return split_tangents(results, mask)

    def linearize(self, trace, primals, tangents, params):
        index, *inputs = primals
        parts = split_branches(params, tuple(nonzero_mask(tangents[1:])))
        results = bind(
            self, index, *parts.consts, *inputs, params=params._replace(branches=parts.primal)
        )
        # `results` are those of the branches, then their shared residuals.
        sources = {"input": inputs, "result": results, "constant": parts.constants}
        residuals = [sources[place.kind][place.index] for place in parts.places]
        # The linear cond uses the same index: it runs the linear half of the branch that ran.
        operands = (index, *residuals, *nonzero(tangents[1:]))
        linear = params._replace(branches=parts.linear)
        return with_linear_part(trace, self, results, parts.mask, operands, linear)

    def split_at(self, params, split):
        parts = [split(branch.jaxpr) for branch in params.branches]
        # Values of several branches share a row, as one of them runs: for each branch, which of its values is in which row.
        rows: list[tuple[Any, Any]] = []
        values_of: list[dict[int, Var]] = []
        for *_, chosen in parts:
            own: dict[int, Var] = {}
            for variable, how in chosen.items():
                row = (variable.aval, how)
                place = next((i for i, r in enumerate(rows) if r == row and i not in own), None)
                if place is None:
                    place = len(rows)
                    rows.append(row)
                own[place] = variable
            values_of.append(own)
        if not rows:
            return None
        known: list[ClosedJaxpr] = []
        again: list[ClosedJaxpr] = []
        for (forward, recomputed, _), own in strict_zip(parts, values_of):
            known.append(_with_rows(forward, own, [aval for aval, _ in rows]))
            program = with_variables_as_inputs(recomputed, [*own.values()], recomputed.outvars)
            n = len(recomputed.invars)
            # Before: the branch's operands, its own values. After: operands, a value for each row, of which it uses its own.
            inputs = dict(strict_zip(own, program.invars[n:]))
            taken = [inputs.get(i) or Var(aval) for i, (aval, _) in enumerate(rows)]
            again.append(
                ClosedJaxpr(program.replace(invars=[*program.invars[:n], *taken], debug=None))
            )
        both = (params._replace(branches=tuple(programs)) for programs in (known, again))
        return (*both, rows)

    def transpose(self, cotangents, operands, params):
        # `linear` has a flag per operand, `avals` an entry per result; `residuals` begins with the index.
        linear, avals, residuals = linear_parts(operands, cotangents)
        derived, mask = _agreeing(
            params, lambda jaxpr, want: transpose_jaxpr(jaxpr, linear[1:], avals, want)
        )
        # Each transposed branch takes (residuals, nonzero cotangents), returns cotangents of linear operands.
        results = self.bind_branches(derived, (*residuals, *nonzero(cotangents)), params)
        return cotangents_of(operands, results, mask)

    # Batches --------------------------------------------------------------------------------------

    def batch(self, axis, operands, dims, params):
        # Batched index: each element selects a branch. Otherwise one branch runs for the whole batch.
        if dims[0] is not None:
            return _all_branches(axis, operands, dims, params)
        derived, mask = _agreeing(
            params, lambda jaxpr, want: batch_jaxpr(jaxpr, axis, dims[1:], want)
        )
        return self.bind_branches(derived, operands, params), [0 if m else None for m in mask]

    # Running --------------------------------------------------------------------------------------

    def lower(self, ctx, operands, params):
        index, *inputs = operands
        branches = [b.jaxpr for b in params.branches]
        if params.branches_platforms is not None:
            chosen = branches[platform_branch(ctx.platform, params.branches_platforms)]
            return ctx.inline(chosen, (), inputs)
        effects = ordered_effects_of(self.effects((), params))
        bodies = [lambda b=b: ctx.inline(b, (), inputs) for b in branches]
        return case(ctx, index, ctx.avals_out, bodies, effects)


cond_p = Cond()


def platform_branch(platform: str, platforms: Platforms) -> int:
    """Index of the branch for `platform`."""
    for i, names in enumerate(platforms):
        if names is None or platform in names:
            return i
    raise MissingRule(f"no branch is for the platform {platform!r}.", got=repr(platforms))


# Making branches agree ----------------------------------------------------------------------------------


def _agreeing(params: CondParams, derive: Callable[[Jaxpr, Any], Any]) -> tuple[Values, list[bool]]:
    """(program returned by `derive(branch, results to instantiate)` for each branch, the common mask)."""
    jaxprs = [b.jaxpr for b in params.branches]
    # Before: one mask per branch. After: one for all, which marks a result that any branch marks.
    masks = [marks(derive(jaxpr, False)) for jaxpr in jaxprs]
    mask = [any(column) for column in strict_zip(*masks)]
    # Now branches instantiate zeros where only others have a tangent (cotangent, batch axis).
    return [derive(jaxpr, mask) for jaxpr in jaxprs], mask


# Linearize ----------------------------------------------------------------------------------------------


class SplitBranches(NamedTuple):
    """Linearized branches.

    `primal` take (`consts`, operands) and return (results, residuals shared by all branches); `linear` take (values at
    `places`, tangents). Places are operands ("input"), results of the primal cond, or `constants`.
    """

    primal: tuple[ClosedJaxpr, ...]
    consts: Values
    linear: tuple[ClosedJaxpr, ...]
    places: list[Source]
    constants: Values
    mask: list[bool]


def split_branches(params: CondParams, nonzero: Mask) -> SplitBranches:
    """The primal and linear parts of all branches, for operands with tangents marked by `nonzero`."""
    key = ("split branches", nonzero, tuple([b.jaxpr for b in params.branches[1:]]))
    return cache_on_program(params.branches[0].jaxpr, key, lambda: _split_branches(params, nonzero))


def _split_branches(params: CondParams, nonzero: Mask) -> SplitBranches:
    parts, mask = _agreeing(params, lambda jaxpr, want: linearize_jaxpr(jaxpr, nonzero, want))
    # `parts` has one LinearizedJaxpr per branch. Their residuals differ, but result types must agree.
    n_results = len(mask)
    shared_avals, shared_of = _shared_residuals(params, parts, n_results)
    primal, consts = with_common_consts(
        [
            # Before: (results, own residuals). After: (results, shared residuals), from (common constants, operands).
            (_with_shared_residuals(p, shared, shared_avals, n_results), p.consts)
            for p, shared in strict_zip(parts, shared_of)
        ]
    )
    constants: Values = []
    places_of: list[list[Any]] = []  # for each branch, the places of its residuals
    for part, shared in strict_zip(parts, shared_of):
        # Maps places within this branch to those in the whole cond; operands have the same place in both.
        moved: dict[Any, Source] = {
            s: Source("result", n_results + position) for position, s in shared.items()
        }
        n = len(constants)
        moved |= {
            Source("constant", i): Source("constant", n + i) for i in range(len(part.constants))
        }
        constants += part.constants
        places_of.append([moved.get(source, source) for source in part.sources])
    # Residual places of all branches without duplicates, in order of first use: operands of the linear cond.
    places = [*dict.fromkeys(chain(*places_of))]
    avals_by_kind = {
        "input": params.branches[0].in_avals, "result": primal[0].out_avals, "constant": types_of(constants)
    }  # fmt: skip
    avals = [avals_by_kind[place.kind][place.index] for place in places]
    # Before: each linear branch takes its own residuals. After: all take those at `places`, and use their own.
    linear = tuple(
        [
            with_common_inputs(p.linear, [*map(places.index, places_of_branch)], avals)
            for p, places_of_branch in strict_zip(parts, places_of)
        ]
    )
    return SplitBranches(primal, consts, linear, places, constants, mask)


def _shared_residuals(
    params: CondParams, parts: Sequence[LinearizedJaxpr], n_results: int
) -> tuple[Values, list[dict[int, Source]]]:
    """(types of the shared residuals, for each branch: which of its own residuals are at which index).

    An operand is assigned an index that other residuals need anyway, if there is one in each branch that saves it, so
    that loops don't save it for every step.
    """
    avals: Avals = []
    shared_of: list[dict[int, Source]] = [{} for _ in parts]
    # `shared` maps indices in `avals` to residuals of this branch. First those that the branch computes.
    for part, shared in strict_zip(parts, shared_of):
        for source in part.sources:
            if source.kind == "result" and source.index >= n_results:
                aval = part.primal.out_avals[source.index]
                position = _free_position(avals, aval, shared)
                if position is None:
                    position = len(avals)
                    avals.append(aval)
                shared[position] = source
    # Then the operands, if every branch that keeps one has a free index.
    for i, aval in enumerate(params.branches[0].in_avals):
        source = Source("input", i)
        users = [s for part, s in strict_zip(parts, shared_of) if source in part.sources]
        positions = [_free_position(avals, aval, shared) for shared in users]
        if None not in positions:
            for shared, position in strict_zip(users, positions):
                shared[position] = source  # pyright: ignore[reportArgumentType]
    return avals, shared_of


def _free_position(avals: Avals, aval, occupied: Container[int]) -> int | None:
    """The first index of type `aval` that is not occupied."""
    return next((i for i, a in enumerate(avals) if a is aval and i not in occupied), None)


def _with_shared_residuals(
    part: LinearizedJaxpr, shared: dict[int, Source], avals: Avals, n_results: int
) -> ClosedJaxpr:
    """The primal branch with its results and the shared residuals; zeros for those of other branches."""
    jaxpr = part.primal.jaxpr

    def branch(*operands):
        results = replay(jaxpr, (), *operands)
        # Sources count inputs without the branch's constants, which come first.
        values = {"result": results, "input": operands[len(part.consts) :]}
        residuals = [
            values[shared[i].kind][shared[i].index] if i in shared else zeros(aval)
            for i, aval in enumerate(avals)
        ]
        return [*results[:n_results], *residuals]

    return stage_open(branch, jaxpr.in_avals, jaxpr.debug)[0]


def _with_rows(body: Jaxpr, own: dict[int, Var], avals: Avals) -> ClosedJaxpr:
    """The branch with rows of types `avals` as further results: the values of its `own` variables, and zeros in other rows."""
    n = len(body.outvars)
    with_own = body.replace(outvars=[*body.outvars, *own.values()], debug=None)

    def branch(*operands):
        values = replay(with_own, (), *operands)
        rows = dict(strict_zip(own, values[n:]))
        return [*values[:n], *(rows[i] if i in rows else zeros(a) for i, a in enumerate(avals))]

    return stage_open(branch, body.in_avals, body.debug)[0]


# Batches ------------------------------------------------------------------------------------------------


def _all_branches(
    axis: BatchAxis, operands: Operands, dims: tuple[BatchDim, ...], params: CondParams
) -> tuple[Values, list[BatchDim]]:
    """Results if elements of a batch select different branches: all branches are computed, then selected from.

    No derivative flows to operands from branches that an element doesn't select: NaNs there would spread.
    """
    if uses_state(cond_p.effects((), params)):
        return batch_on_values(cond_p, axis, operands, dims, params)
    if has_guards(cond_p.effects((), params)):
        return late("batched guards")(cond_p, axis, operands, dims, params)
    check_batched_effects("cond", cond_p.effects((), params))
    if params.branches_platforms is not None:
        index = bind1(platform_index_p, params=PlatformIndexParams(params.branches_platforms))
        return cond_p.batch(axis, (index, *operands[1:]), (None, *dims[1:]), params)  # type: ignore[return-value]
    # All operands with the batch at axis 0, broadcast if they had none.
    index, *inputs = aligned_at(axis, operands, dims)
    dtype = type_of(index).dtype
    results = []
    for i, branch in enumerate(params.branches):
        is_chosen = eq(index, dtype.type(i))
        # `select_rows` selects the second case where true: `x` itself for elements that select this branch.
        guarded = [select_rows(is_chosen, stop_gradient(x), x) for x in inputs]
        program, consts, _ = batch_jaxpr(branch.jaxpr, axis, [0] * len(inputs), True)
        results.append(run_program(program.jaxpr, *consts, *guarded))
    # `results` has one list per branch; `cases` are the same result of each branch.
    return [select_rows(index, *cases) for cases in strict_zip(*results)], [0] * len(results[0])


# The platform ---------------------------------------------------------------------------------------------


class PlatformIndexParams(NamedTuple):
    """Platforms of each branch; None for the default."""

    platforms: Platforms


class PlatformIndex(Primitive[PlatformIndexParams]):
    """Index of the branch for the platform that a program is compiled for."""

    name = "platform_index"
    traits = CONTROL.replace(flops=0.0, returns_list=False)

    def abstract_eval(self, avals, params):
        return [_INDEX]

    def lower(self, ctx, operands, params):
        return [ctx.constant(np.int32(platform_branch(ctx.platform, params.platforms)))]


platform_index_p = PlatformIndex()
_INDEX = type_of(np.int32(0))


# Branches as users call them ------------------------------------------------------------------------


_NO_OPERAND = object()


def cond(
    pred: ArrayLike,
    true_fun: Function,
    false_fun: Function,
    *operands: Any,
    operand: Any = _NO_OPERAND,
) -> Any:
    """`true_fun(*operands)` if the scalar `pred` is true, else `false_fun(*operands)`; only one of them runs.

    Both must return the same structure and types. Under `vmap` with different `pred`s both run, and results are
    selected. The older form `cond(pred, true_operand, true_fun, false_operand, false_fun)` also works.

    Raises: ArgumentTypeError for branches of different types (with the path and both types).

    >>> cond(True, lambda x: x + 1, lambda x: x - 1, 10)
    Array(11, dtype=int32, weak_type=True)
    """
    if (
        len(operands) == 2
        and callable(operands[1])
        and callable(false_fun)
        and not callable(true_fun)
    ):
        return _cond_of_two_operands(pred, true_fun, false_fun, *operands)
    if operand is not _NO_OPERAND:
        operands = (*operands, operand)
    check_callable(true_fun, "cond")
    check_callable(false_fun, "cond")
    _check_scalar("cond", "pred", pred)
    if config.disable_jit.value and not isinstance(pred, Tracer):
        return true_fun(*operands) if pred else false_fun(*operands)
    # False is 0, so the branch for false is number 0.
    index = _index_of_predicate(pred)
    return _branch("cond", index, (false_fun, true_fun), ("false_fun", "true_fun"), operands)


def _cond_of_two_operands(pred, true_operand, true_fun, false_operand, false_fun):
    return cond(
        pred,
        lambda pair: true_fun(pair[0]),
        lambda pair: false_fun(pair[1]),
        (true_operand, false_operand),
    )


def _check_scalar(caller: str, name: str, x) -> None:
    if not is_array_like(x):
        raise ArgumentTypeError(f"{caller} needs a scalar {name}.", got=f"got {type(x).__name__}")
    aval = type_of(x)
    if aval.shape != ():
        error = ArgumentTypeError(
            f"{caller} needs a scalar {name}.", got=f"{name}: {aval.text()}",
            do="Reduce it, for example with `.any()` or `.all()`, or use `jnp.where` or `vmap` to choose elementwise.",
        )  # fmt: skip
        raise name_operands(error, (x,))
    if aval.dtype.kind not in "biuf":
        error = ArgumentTypeError(
            f"{caller} needs a {name} that is a number or a boolean.", got=f"{name}: {aval.text()}"
        )
        raise name_operands(error, (x,))


def _index_of_predicate(pred):
    if isinstance(pred, (bool, np.bool_)):
        return np.int32(pred)
    if type_of(pred).dtype != np.bool_:
        pred = convert_element_type(pred, np.bool_)
    return convert_element_type(pred, np.int32)


def switch(
    index: ArrayLike, branches: Sequence[Function], *operands: Any, operand: Any = _NO_OPERAND
) -> Any:
    """`branches[index](*operands)`; `index` is clamped to the valid range. Only one branch runs.

    All branches must return the same structure and types.

    Raises: ArgumentTypeError for branches of different types and for an index that isn't an integer; ArgumentValueError
    without branches.

    >>> switch(1, [lambda x: x + 1, lambda x: x * 2], 10)
    Array(20, dtype=int32, weak_type=True)
    """
    if operand is not _NO_OPERAND:
        operands = (*operands, operand)
    branches = tuple(branches)
    if not branches:
        raise ArgumentValueError("switch needs at least one branch.")
    for branch in branches:
        check_callable(branch, "switch")
    _check_scalar("switch", "index", index)
    aval = type_of(index)
    if aval.dtype.kind not in "iu":
        raise ArgumentTypeError("switch needs an integer index.", got=f"got {aval.text()}",
                                do="For a boolean use `cond`; else convert with `.astype(int)`.")  # fmt: skip
    last = len(branches) - 1
    if last == 0:
        return branches[0](*operands)
    if config.disable_jit.value and not isinstance(index, Tracer):
        return branches[min(max(int(index), 0), last)](*operands)  # pyright: ignore[reportArgumentType]  # an integer
    bounded = clamp(np.int32(0), convert_element_type(index, np.int32), np.int32(last))
    names = [f"branches[{i}]" for i in range(len(branches))]
    return _branch("switch", bounded, branches, names, operands)


def _branch(
    caller: str, index, functions: Sequence[Function], names: Sequence[str], operands: Operands,
    platforms = None,
):  # fmt: skip
    """Results of the function with number `index`."""
    leaves, tree = flat_arguments(operands, caller, functions[0], operands)
    # If devices take different branches, all values used in a branch vary over the axes of the choice.
    axes = type_of(index).varying
    leaves = [vary(x, axes) for x in leaves]
    # The branch for true is traced first, in the order of arguments.
    order = -1 if caller == "cond" else 1
    avals = types_of(leaves)
    bodies = [trace_program(f, tree, avals, caller, is_remembered=True) for f in functions[::order]]
    # Back in the order of `functions`.
    bodies = varying_alike(bodies[::order], axes)
    check_branches(caller, functions, names, bodies)
    programs, consts = with_common_consts(bodies)
    # Values closed over by the branches without duplicates, then the operands: all branches take all of them.
    inputs = [*consts, *leaves]
    check_distinct(
        caller,
        (*("used from outside" for _ in consts), *("an operand" for _ in leaves)),
        inputs,
    )
    # A result that is the same input in all branches needs no cond.
    programs, forwarded = drop_forwarded_results(programs)
    results = bind(cond_p, index, *inputs, params=CondParams(programs, platforms))
    results = insert_forwarded_results(results, forwarded, inputs)
    return bodies[0].out_tree.unflatten([x if hasattr(x, "aval") else stage(x) for x in results])


def check_branches(
    caller: str,
    functions: Sequence[Function],
    names: Sequence[str],
    bodies: Sequence[TracedBody],
) -> None:
    """Raises ArgumentTypeError unless all branches return the same types."""
    first = bodies[0]
    for function, name, body in strict_zip(functions[1:], names[1:], bodies[1:]):
        what = f"{caller}: {names[0]} (`{name_of(functions[0])}`) and {name} (`{name_of(function)}`) must return results"
        if body.out_tree != first.out_tree:
            differences = structure_differences(first.out_tree, body.out_tree)
            raise ArgumentTypeError(
                f"{what} of one structure.",
                got=[
                    f"result{keystr(d.path)}: {names[0]} gives {d.expected}, {name} gives {d.got}"
                    for d in differences[:4]
                ],
            )
        different = differing_types(first.out_avals, body.out_avals)
        if different:
            sides = (f"{names[0]} gives", f"{name} gives")
            raise ArgumentTypeError(
                f"{what} of one type.",
                got=type_lines("result", first.out_tree, first.out_avals, body.out_avals, sides),
                do=layout_advice(first.out_avals[different[0]], body.out_avals[different[0]])
                or "Convert one of them, for example with `.astype`.",
            )


def platform_dependent(
    *args: Any, default: Function | None = None, **per_platform: Function
) -> Any:
    """Result of the function for the platform that the program is compiled for: `cpu=`, `tpu=`, `cuda=`, `rocm=`.

    `default` is for all other platforms. All functions must return the same structure and types.

    Raises: ArgumentValueError without any function; ArgumentTypeError for functions with results of different types.

    Results have the structure, the shapes and the dtypes that all functions give.

    >>> platform_dependent(1.0, cpu=lambda x: x + 1, default=lambda x: x)
    Array(2., dtype=float32, weak_type=True)
    """
    names = {"gpu": ("cuda", "rocm")}
    branches = dict(per_platform)
    platforms: list[Any] = [names.get(p, (p,)) for p in branches]
    if default is not None:
        branches["default"] = default
        platforms.append(None)
    functions = [*branches.values()]
    if not functions:
        raise ArgumentValueError(
            "platform_dependent needs a function for some platform, or a default."
        )
    for function in functions:
        check_callable(function, "platform_dependent")
    if len(functions) == 1 and default is not None:
        return default(*args)
    index = bind1(platform_index_p, params=PlatformIndexParams(tuple(platforms)))
    return _branch("platform_dependent", index, functions, [*branches], args, tuple(platforms))


# Branches among which devices choose differently ---------------------------------------------------


def varying_alike(bodies: list[TracedBody], axes: frozenset[Any]) -> list[TracedBody]:
    """The bodies, changed to take constants that vary over `axes`, and to return results that vary over the same axes."""
    if not context.checked_axes:
        return bodies
    if axes:
        # A value used by several branches is cast once, so that its cotangents are summed once.
        used = {id(x): x for body in bodies for x in body.consts}
        varying = {i: vary(x, axes) for i, x in used.items()}
        bodies = [_with_constants(body, [varying[id(x)] for x in body.consts]) for body in bodies]
    if len({len(body.out_avals) for body in bodies}) > 1:
        return bodies
    # One column per result, with its type in each branch. All get the axes of the choice and of every branch.
    columns: Any = strict_zip(*(body.out_avals for body in bodies))
    result_axes = [axes.union(*(aval.varying for aval in column)) for column in columns]
    return [_with_varying_results(body, result_axes) for body in bodies]


def _with_constants(body: TracedBody, consts: Values) -> TracedBody:
    """`body` with its constants replaced by others, which may vary over more axes."""
    if all(a is b for a, b in strict_zip(consts, body.consts)):
        return body
    jaxpr = without_calls(body.program.jaxpr)  # the types of a called program are fixed
    # Inputs are the constants, whose types change, then the operands.
    avals = [*types_of(consts), *jaxpr.in_avals[len(consts) :]]
    return body._replace(
        program=stage_open(lambda *xs: _replay(jaxpr, xs), avals, jaxpr.debug)[0], consts=consts
    )


def _replay(jaxpr: Jaxpr, operands: Operands) -> Values:
    """Replays a program without calls on operands that vary over more axes than it was traced with."""
    values: dict[Any, Any] = dict(strict_zip(jaxpr.invars, operands))
    for equation in jaxpr.equations:
        inputs = values_of(equation.operands, values)
        # The cast may have fewer axes to add now, or none.
        if equation.primitive is pvary_p:
            results = [vary(inputs[0], equation.params.axes)]
        else:
            results = bind(equation.primitive, *inputs, params=equation.params)
        values.update(strict_zip(equation.results, results))
    return values_of(jaxpr.outvars, values)


def _with_varying_results(body: TracedBody, result_axes: Sequence[frozenset[Any]]) -> TracedBody:
    avals: Avals = body.out_avals
    if all(aval.varying == axes for aval, axes in strict_zip(avals, result_axes)):
        return body
    jaxpr = body.program.jaxpr

    def run(*operands):
        results = replay(jaxpr, (), *operands)
        return [vary(x, axes) for x, axes in strict_zip(results, result_axes)]

    return body._replace(program=stage_open(run, jaxpr.in_avals, jaxpr.debug)[0])
