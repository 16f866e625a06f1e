"""The primitive `cond`: one of several programs, chosen when it runs."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid.base.errors import MissingRule
from pellucid.higher_order.bodies import check_batched_effects
from pellucid.ir.effects import Effects
from pellucid.ir.facets import Linearized, OnReferences, Shown
from pellucid.ir.jaxpr import ClosedJaxpr, Equation, Jaxpr, Var
from pellucid.ir.primitive import Primitive, Programs
from pellucid.ir.rewriting import remove_dead_equations
from pellucid.ir.rules import Avals, BatchAxis, BatchDim, LinearOperand, Operands, Zero
from pellucid.ir.slots import Group, Role, Slot, Slots
from pellucid.ir.traits import CONTROL
from pellucid.lowering.loops import case
from pellucid.lowering.module import ordered
from pellucid.primitives.broadcasting import broadcast_in_dim, brought_to
from pellucid.primitives.conversion import stop_gradient
from pellucid.primitives.logical import eq, select_n
from pellucid.tracing.discharge import Discharged, discharged, held
from pellucid.tracing.replay import replay
from pellucid.tracing.trace import bind, bind1
from pellucid.tracing.values import type_of
from pellucid.transforms.derived import remembered, stage_open
from pellucid.transforms.jvp import jvp_jaxpr
from pellucid.transforms.linearize import LinearizedJaxpr, Source, linearize_jaxpr
from pellucid.transforms.transpose import transpose_jaxpr
from pellucid.transforms.vmap import batch_jaxpr
from pellucid.transforms.zeros import spread, zeros

Platforms = tuple[tuple[str, ...] | None, ...]


class CondParams(NamedTuple):
    """Operands are the number of the branch (int32, in range) and what every branch takes.

    `branches_platforms` names, where the platform chooses, the platforms of each branch; None for the default.
    """

    branches: tuple[ClosedJaxpr, ...]
    branches_platforms: Platforms | None = None


class Cond(Linearized, OnReferences, Shown, Programs[CondParams]):
    """Results of the branch number `index`."""

    name = "cond"
    traits = CONTROL

    def abstract_eval(self, avals, params):
        return params.branches[0].out_avals

    def effects(self, avals, params):
        return frozenset().union(*(b.effects for b in params.branches))

    def slots(self, params):
        jaxpr = params.branches[0].jaxpr
        return Slots(
            (Group(Role.INDEX, 1), Group(Role.CONSTANT, len(jaxpr.invars))),
            (Group(Role.RESULT, len(jaxpr.outvars)),),
            tuple([Slot(branch, (1,), (0,)) for branch in params.branches]),
        )

    # Derivatives ----------------------------------------------------------------------------------

    def jvp(self, primals, tangents, params):
        nonzero = [type(t) is not Zero for t in tangents[1:]]
        derived, mask = _agreeing(params, lambda jaxpr, want: jvp_jaxpr(jaxpr, nonzero, want))
        branches, consts = with_common_consts(
            [d.program for d in derived], [d.consts for d in derived]
        )
        live = [t for t in tangents[1:] if type(t) is not Zero]
        results = bind(
            self,
            primals[0],
            *consts,
            *primals[1:],
            *live,
            params=params._replace(branches=branches),
        )
        n = len(mask)
        return results[:n], spread(results[n:], mask, [type_of(x) for x in results[:n]])

    def linearize(self, trace, primals, tangents, params):
        nonzero = tuple([type(t) is not Zero for t in tangents[1:]])
        parts = split_branches(params, nonzero)
        results = bind(
            self,
            primals[0],
            *parts.consts,
            *primals[1:],
            params=params._replace(branches=parts.primal),
        )
        n = len(parts.mask)
        out: Operands = ()
        if any(parts.mask) or any(b.effects for b in parts.linear):
            known = {"input": primals[1:], "result": results, "constant": parts.constants}
            residuals = [known[slot.kind][slot.index] for slot in parts.slots]
            live = [t for t in tangents[1:] if type(t) is not Zero]
            operands = (primals[0], *residuals, *live)
            out = trace.stage_linear(self, operands, params._replace(branches=parts.linear))
        return results[:n], spread(out, parts.mask, [type_of(x) for x in results[:n]])

    def transpose(self, cotangents, operands, params):
        linear = [type(x) is LinearOperand for x in operands[1:]]
        avals = [None if type(ct) is Zero else type_of(ct) for ct in cotangents]
        derived, mask = _agreeing(
            params, lambda jaxpr, want: transpose_jaxpr(jaxpr, linear, avals, want)
        )
        branches, consts = with_common_consts(
            [d.program for d in derived], [d.consts for d in derived]
        )
        given = [x for x in operands[1:] if type(x) is not LinearOperand]
        given += [ct for ct in cotangents if type(ct) is not Zero]
        found = iter(
            bind(self, operands[0], *consts, *given, params=params._replace(branches=branches))
        )
        masked = iter(mask)
        return [
            None,
            *(
                None
                if type(x) is not LinearOperand
                else next(found)
                if next(masked)
                else Zero(x.aval)
                for x in operands[1:]
            ),
        ]

    # Batches --------------------------------------------------------------------------------------

    def batch(self, axis, operands, dims, params):
        if dims[0] is not None:
            return _all_branches(axis, operands, dims, params)
        derived, mask = _agreeing(
            params,
            lambda jaxpr, want: batch_jaxpr(jaxpr, axis, dims[1:], want),
            lambda d: [x is not None for x in d.mask],
        )
        branches, consts = with_common_consts(
            [d.program for d in derived], [d.consts for d in derived]
        )
        results = bind(
            self, operands[0], *consts, *operands[1:], params=params._replace(branches=branches)
        )
        return results, [0 if m else None for m in mask]

    # References -----------------------------------------------------------------------------------

    def discharge(self, operands, params):
        bodies = [discharged(b.jaxpr, operands[1:]) for b in params.branches]
        written = sorted({i for body in bodies for i in body.written})
        branches, consts = with_common_consts(
            [_giving_written(b, written) for b in bodies], [b.consts for b in bodies]
        )
        found = bind(
            self,
            operands[0],
            *consts,
            *held(operands[1:]),
            params=params._replace(branches=branches),
        )
        n = len(found) - len(written)
        for i, value in zip(written, found[n:], strict=True):
            operands[1 + i].value = value
        return found[:n]

    # Running --------------------------------------------------------------------------------------

    def lower(self, ctx, operands, params):
        index, given = operands[0], operands[1:]
        branches = [b.jaxpr for b in params.branches]
        if params.branches_platforms is not None:
            chosen = branches[platform_branch(ctx.platform, params.branches_platforms)]
            return ctx.inline(chosen, (), given)
        effects = ordered(self.effects((), params))
        avals = ctx.avals_out
        return case(
            ctx, index, avals, [lambda b=b: ctx.inline(b, (), given) for b in branches], effects
        )

    def dead_code(self, used, equation):
        if not any(used) and not equation.effects:
            return [False] * len(equation.operands), None
        branches, needed = _pruned_branches(equation.params, tuple(used))
        used_inputs = [True, *needed]
        keep = lambda items, flags: [x for x, u in zip(items, flags, strict=True) if u]
        remaining = equation.replace(
            operands=keep(equation.operands, used_inputs), results=keep(equation.results, used),
            params=equation.params._replace(branches=branches),
        )  # fmt: skip
        return used_inputs, remaining

    def printed_params(self, equation):
        params = equation.params
        shown: dict[str, Any] = {"branches": params.branches}
        if params.branches_platforms is not None:
            shown["branches_platforms"] = params.branches_platforms
        return shown


cond_p = Cond()


def platform_branch(platform: str, platforms: Platforms) -> int:
    """The number of the branch for `platform`."""
    for i, names in enumerate(platforms):
        if names is None or platform in names:
            return i
    raise MissingRule(f"no branch is for the platform {platform!r}.", got=repr(platforms))


def _giving_written(body: Discharged, written: Sequence[int]) -> ClosedJaxpr:
    """A branch that gives what references at `written` hold, also those that only other branches write."""
    jaxpr = body.program.jaxpr
    n, n_more = len(jaxpr.outvars) - len(body.written), len(body.consts)
    finals = dict(zip(body.written, jaxpr.outvars[n:], strict=True))
    outvars = [finals.get(i, jaxpr.invars[n_more + i]) for i in written]
    return ClosedJaxpr(jaxpr.replace(outvars=[*jaxpr.outvars[:n], *outvars]))


# Making branches agree ----------------------------------------------------------------------------------


def _agreeing(
    params: CondParams,
    derive: Callable[[Jaxpr, Sequence[bool]], Any],
    mask_of: Callable[[Any], Sequence[bool]] = lambda d: d.mask,
) -> tuple[list[Any], list[bool]]:
    """What `derive(branch, wanted results)` makes of each branch, so that the masks of all are the same."""
    jaxprs = [b.jaxpr for b in params.branches]
    first = [mask_of(derive(jaxpr, False)) for jaxpr in jaxprs]  # type: ignore[arg-type]
    wanted = [any(column) for column in zip(*first, strict=True)]
    return [derive(jaxpr, wanted) for jaxpr in jaxprs], wanted


def with_common_consts(
    programs: Sequence[ClosedJaxpr], consts: Sequence[Sequence[Any]]
) -> tuple[tuple[ClosedJaxpr, ...], list[Any]]:
    """Programs that take all `consts`, those that are the same object once, in front of their common inputs.

    Each program's own constants are its first inputs.
    """
    values: list[Any] = []
    positions: dict[int, int] = {}
    own: list[tuple[int, ...]] = []
    for group in consts:
        for x in group:
            if id(x) not in positions:
                positions[id(x)] = len(values)
                values.append(x)
        own.append(tuple([positions[id(x)] for x in group]))
    if not values:
        return tuple(programs), values
    avals = tuple([type_of(x) for x in values])
    return tuple(
        [_with_consts(p, where, avals) for p, where in zip(programs, own, strict=True)]
    ), values


def _with_consts(program: ClosedJaxpr, own: tuple[int, ...], avals: tuple[Any, ...]) -> ClosedJaxpr:
    """The program with inputs of types `avals` in front, of which its own constants are those at `own`."""
    jaxpr = program.jaxpr
    if own == tuple(range(len(avals))):
        return program
    key = ("with consts", own, avals)
    found = jaxpr.memo.get(key)
    if found is None:
        front = [Var(a) for a in avals]
        for var, position in zip(jaxpr.invars, own, strict=False):
            front[position] = var
        found = jaxpr.memo[key] = ClosedJaxpr(
            jaxpr.replace(invars=[*front, *jaxpr.invars[len(own) :]])
        )
    return found


# Linearize ----------------------------------------------------------------------------------------------


class ResidualPlace(NamedTuple):
    """Where a residual of the branches is: an operand ("input"), a result of the primal cond, or a "constant"."""

    kind: str
    index: int


class SplitBranches(NamedTuple):
    """Branches split at a point: `primal` take (`consts`, operands), `linear` take (a value for each slot, tangents)."""

    primal: tuple[ClosedJaxpr, ...]
    consts: list[Any]
    linear: tuple[ClosedJaxpr, ...]
    slots: list[ResidualPlace]
    constants: list[Any]
    mask: list[bool]


def split_branches(params: CondParams, nonzero: tuple[bool, ...]) -> SplitBranches:
    """The primal and the linear parts of all branches, for operands that have tangents where `nonzero`."""
    key = ("split branches", nonzero, tuple([b.jaxpr for b in params.branches[1:]]))
    return remembered(params.branches[0].jaxpr, key, lambda: _split_branches(params, nonzero))


def _split_branches(params: CondParams, nonzero: tuple[bool, ...]) -> SplitBranches:
    parts, mask = _agreeing(
        params, lambda jaxpr, want: linearize_jaxpr(jaxpr, nonzero, want), lambda p: p.nonzero_out
    )
    n_results = len(mask)
    shared_avals, shared_of = _shared_results(params, parts, n_results)
    slots: list[ResidualPlace] = []
    constants: list[Any] = []
    slots_of: list[list[int]] = []
    for part, shared in zip(parts, shared_of, strict=True):
        positions = {source: position for position, source in shared.items()}
        mine = []
        for source in part.sources:
            if source in positions:
                slot = ResidualPlace("result", n_results + positions[source])
            elif source.kind == "constant":
                constants.append(part.constants[source.index])
                slot = ResidualPlace("constant", len(constants) - 1)
            else:
                slot = ResidualPlace(source.kind, source.index)
            if slot not in slots:
                slots.append(slot)
            mine.append(slots.index(slot))
        slots_of.append(mine)
    primal, consts = with_common_consts(
        [
            _with_shared_results(p, shared, shared_avals, n_results)
            for p, shared in zip(parts, shared_of, strict=True)
        ],
        [p.consts for p in parts],
    )
    slot_avals = [_slot_aval(s, params, parts[0], shared_avals, constants) for s in slots]
    linear = tuple(
        [_with_slots(p.linear, mine, slot_avals) for p, mine in zip(parts, slots_of, strict=True)]
    )
    return SplitBranches(primal, consts, linear, slots, constants, mask)


def _shared_results(
    params: CondParams, parts: Sequence[LinearizedJaxpr], n_results: int
) -> tuple[list[Any], list[dict[int, Source]]]:
    """Types of the further results that branches share; for each branch, which of its residuals is at which position.

    An operand is handed on in a place that others need anyway, if there is one in each branch that keeps it: so
    loops need not keep it for all steps.
    """
    avals: list[Any] = []
    shared_of: list[dict[int, Source]] = [{} for _ in parts]
    for part, shared in zip(parts, shared_of, strict=True):
        for source in part.sources:
            if source.kind == "result" and source.index >= n_results:
                aval = part.primal.out_avals[source.index]
                position = _free_position(avals, aval, shared)
                if position is None:
                    position = len(avals)
                    avals.append(aval)
                shared[position] = source
    for i, aval in enumerate(params.branches[0].in_avals):
        source = Source("input", i)
        users = [s for part, s in zip(parts, shared_of, strict=True) if source in part.sources]
        positions = [_free_position(avals, aval, shared) for shared in users]
        if None not in positions:
            for shared, position in zip(users, positions, strict=True):
                shared[position] = source  # pyright: ignore[reportArgumentType]
    return avals, shared_of


def _free_position(avals: Avals, aval: Any, taken: Container[int]) -> int | None:
    """The first position of type `aval` that is not taken."""
    return next((i for i, a in enumerate(avals) if a is aval and i not in taken), None)


def _slot_aval(
    slot: ResidualPlace,
    params: CondParams,
    part: LinearizedJaxpr,
    shared: list[Any],
    constants: list[Any],
) -> Any:
    if slot.kind == "input":
        return params.branches[0].in_avals[slot.index]
    if slot.kind == "constant":
        return type_of(constants[slot.index])
    n_results = len(part.nonzero_out)
    return (
        part.primal.out_avals[slot.index]
        if slot.index < n_results
        else shared[slot.index - n_results]
    )


def _with_shared_results(
    part: LinearizedJaxpr,
    shared: dict[int, Source],
    shared_avals: Avals,
    n_results: int,
) -> ClosedJaxpr:
    """The primal branch whose further results are at the shared positions; those of other branches are zeros."""
    jaxpr = part.primal.jaxpr

    def branch(*operands: Any) -> list[Any]:
        found = replay(jaxpr, (), *operands)
        values = {"result": found, "input": operands[len(part.consts) :]}
        further = [
            values[shared[i].kind][shared[i].index] if i in shared else zeros(aval)
            for i, aval in enumerate(shared_avals)
        ]
        return [*found[:n_results], *further]

    return stage_open(branch, jaxpr.in_avals, jaxpr.debug)[0]


def _with_slots(linear: ClosedJaxpr, mine: Sequence[int], avals: Avals) -> ClosedJaxpr:
    """The linear branch that takes a value for every slot; its own residuals are those at `mine`."""
    jaxpr = linear.jaxpr
    front = [Var(a) for a in avals]
    for var, slot in zip(jaxpr.invars, mine, strict=False):
        front[slot] = var
    return ClosedJaxpr(jaxpr.replace(invars=[*front, *jaxpr.invars[len(mine) :]]))


# Batches ------------------------------------------------------------------------------------------------


def _all_branches(
    axis: BatchAxis, operands: tuple[Any, ...], dims: tuple[BatchDim, ...], params: CondParams
) -> tuple[list[Any], list[BatchDim]]:
    """Results where elements of a batch choose different branches: all are computed, and selected from.

    Where an element doesn't choose a branch, no derivative flows through its operands: NaNs of that branch would.
    """
    check_batched_effects("cond", cond_p.effects((), params))
    if params.branches_platforms is not None:
        index = bind1(platform_index_p, params=PlatformIndexParams(params.branches_platforms))
        return cond_p.batch(axis, (index, *operands[1:]), (None, *dims[1:]), params)  # type: ignore[return-value]
    index, *given = [brought_to(axis, x, d, 0) for x, d in zip(operands, dims, strict=True)]
    dtype = type_of(index).dtype
    outs = []
    for i, branch in enumerate(params.branches):
        is_chosen = eq(index, dtype.type(i))
        guarded = [_select(is_chosen, stop_gradient(x), x) for x in given]
        program, consts, _ = batch_jaxpr(branch.jaxpr, axis, [0] * len(given), True)
        outs.append(replay(program.jaxpr, (), *consts, *guarded))
    return [_select(index, *cases) for cases in zip(*outs, strict=True)], [0] * len(outs[0])


def _select(which: Any, *cases: Any) -> Any:
    """One of `cases` for each element along axis 0."""
    shape = type_of(cases[0]).shape
    return select_n(broadcast_in_dim(which, shape, (0,)) if len(shape) > 1 else which, *cases)


# Dead code ----------------------------------------------------------------------------------------------


def _pruned_branches(
    params: CondParams, used: tuple[bool, ...]
) -> tuple[tuple[ClosedJaxpr, ...], list[bool]]:
    """(branches that give the `used` results, which operands they take)."""
    first = params.branches[0].jaxpr
    key = ("pruned branches", used, tuple([b.jaxpr for b in params.branches[1:]]))
    found = first.memo.get(key)
    if found is None:
        pruned = [remove_dead_equations(b.jaxpr, used) for b in params.branches]
        needed = [any(column) for column in zip(*(n for _, n in pruned), strict=True)]
        branches = tuple(
            [
                ClosedJaxpr(
                    jaxpr.replace(
                        invars=[v for v, n in zip(b.jaxpr.invars, needed, strict=True) if n]
                    )
                )
                for (jaxpr, _), b in zip(pruned, params.branches, strict=True)
            ]
        )
        found = first.memo[key] = branches, needed
    return found


# The platform ---------------------------------------------------------------------------------------------


class PlatformIndexParams(NamedTuple):
    """For each branch its platforms; None for the default."""

    platforms: Platforms


class PlatformIndex(Primitive[PlatformIndexParams]):
    """The number of the branch for the platform that a program is compiled for."""

    name = "platform_index"
    traits = CONTROL.replace(flops=0.0, returns_list=False)

    def abstract_eval(self, avals, params):
        return [_INDEX]

    def lower(self, ctx, operands, params):
        return [ctx.constant(np.int32(platform_branch(ctx.platform, params.platforms)))]


platform_index_p = PlatformIndex()
_INDEX = type_of(np.int32(0))
