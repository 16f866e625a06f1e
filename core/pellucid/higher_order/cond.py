"""The primitive `cond`: one of several programs, chosen when it runs."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid.base import MissingRule, strict_zip
from pellucid.ir import (
    CONTROL,
    Avals,
    BatchAxis,
    BatchDim,
    ClosedJaxpr,
    Group,
    Jaxpr,
    Linearized,
    Mask,
    Operands,
    Primitive,
    Results,
    Role,
    Shown,
    Slot,
    Slots,
    Values,
)
from pellucid.lowering.loops import case
from pellucid.lowering.module import ordered
from pellucid.primitives.conversion import stop_gradient
from pellucid.primitives.logical import eq, select_n
from pellucid.primitives.movement import broadcast_in_dim, brought_to
from pellucid.tracing import bind, bind1, replay, type_of
from pellucid.transforms.derived import Derived, remembered, stage_open
from pellucid.transforms.jvp import jvp_jaxpr
from pellucid.transforms.linearize import LinearizedJaxpr, Source, linearize_jaxpr
from pellucid.transforms.transpose import transpose_jaxpr
from pellucid.transforms.vmap import batch_jaxpr
from pellucid.transforms.zeros import (
    cotangents_of,
    linear_parts,
    nonzero,
    nonzero_mask,
    paired,
    zeros,
)

from .bodies import check_batched_effects
from .structured import Structured, with_common_consts, with_common_inputs

Platforms = tuple[tuple[str, ...] | None, ...]


class CondParams(NamedTuple):
    """Operands are the number of the branch (int32, in range) and what every branch takes.

    `branches_platforms` names, where the platform chooses, the platforms of each branch; None for the default.
    """

    branches: tuple[ClosedJaxpr, ...]
    branches_platforms: Platforms | None = None


class Cond(Linearized, Shown, Structured[CondParams]):
    """Results of the branch number `index`."""

    name = "cond"
    says_nothing = (None,)

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

    def with_slots(self, params, slots):
        return params._replace(branches=tuple([slot.program for slot in slots.programs]))

    def bind_derived(
        self, derived: Sequence[Derived], operands: Operands, params: CondParams
    ) -> Values:
        """Results of a cond whose branches are `derived`, on the index and the operands of all branches."""
        index, *rest = operands
        branches, consts = with_common_consts(
            [d.program for d in derived], [d.consts for d in derived]
        )
        return bind(self, index, *consts, *rest, params=params._replace(branches=branches))

    # Derivatives ----------------------------------------------------------------------------------

    def jvp(self, primals, tangents, params):
        flags = nonzero_mask(tangents[1:])
        derived, mask = _agreeing(params, lambda jaxpr, want: jvp_jaxpr(jaxpr, flags, want))
        results = self.bind_derived(derived, (*primals, *nonzero(tangents[1:])), params)
        return paired(results, mask)

    def linearize(self, trace, primals, tangents, params):
        index, *inputs = primals
        parts = split_branches(params, tuple(nonzero_mask(tangents[1:])))
        results = bind(
            self, index, *parts.consts, *inputs, params=params._replace(branches=parts.primal)
        )
        n = len(parts.mask)
        out_tangents: Results = ()
        if any(parts.mask) or any(b.effects for b in parts.linear):
            sources = {"input": inputs, "result": results, "constant": parts.constants}
            residuals = [sources[place.kind][place.index] for place in parts.places]
            out_tangents = trace.stage_linear(
                self,
                (index, *residuals, *nonzero(tangents[1:])),
                params._replace(branches=parts.linear),
            )
        return paired([*results[:n], *out_tangents], parts.mask)

    def transpose(self, cotangents, operands, params):
        linear, avals, residuals = linear_parts(operands, cotangents)
        derived, mask = _agreeing(
            params, lambda jaxpr, want: transpose_jaxpr(jaxpr, linear[1:], avals, want)
        )
        results = self.bind_derived(derived, (*residuals, *nonzero(cotangents)), params)
        return cotangents_of(operands, results, mask)

    # Batches --------------------------------------------------------------------------------------

    def batch(self, axis, operands, dims, params):
        if dims[0] is not None:
            return _all_branches(axis, operands, dims, params)
        derived, mask = _agreeing(
            params,
            lambda jaxpr, want: batch_jaxpr(jaxpr, axis, dims[1:], want),
            lambda d: [x is not None for x in d.mask],
        )
        return self.bind_derived(derived, operands, params), [0 if m else None for m in mask]

    # Running --------------------------------------------------------------------------------------

    def lower(self, ctx, operands, params):
        index, *inputs = operands
        branches = [b.jaxpr for b in params.branches]
        if params.branches_platforms is not None:
            chosen = branches[platform_branch(ctx.platform, params.branches_platforms)]
            return ctx.inline(chosen, (), inputs)
        effects = ordered(self.effects((), params))
        bodies = [lambda b=b: ctx.inline(b, (), inputs) for b in branches]
        return case(ctx, index, ctx.avals_out, bodies, effects)


cond_p = Cond()


def platform_branch(platform: str, platforms: Platforms) -> int:
    """The number of the branch for `platform`."""
    for i, names in enumerate(platforms):
        if names is None or platform in names:
            return i
    raise MissingRule(f"no branch is for the platform {platform!r}.", got=repr(platforms))


# Making branches agree ----------------------------------------------------------------------------------


def _agreeing(
    params: CondParams,
    derive: Callable[[Jaxpr, Mask], Any],
    mask_of: Callable[[Any], Mask] = lambda d: d.mask,
) -> tuple[Values, list[bool]]:
    """(the program that `derive(branch, results to instantiate)` gives for each branch, the mask that all share)."""
    jaxprs = [b.jaxpr for b in params.branches]
    masks = [mask_of(derive(jaxpr, False)) for jaxpr in jaxprs]  # type: ignore[arg-type]
    mask = [any(column) for column in strict_zip(*masks)]
    return [derive(jaxpr, mask) for jaxpr in jaxprs], mask


# Linearize ----------------------------------------------------------------------------------------------


class SplitBranches(NamedTuple):
    """Branches split at a point.

    `primal` take (`consts`, operands) and give (results, residuals that all branches share); `linear` take (the values
    at `places`, tangents). These are operands ("input"), results of the primal cond, or `constants`.
    """

    primal: tuple[ClosedJaxpr, ...]
    consts: Values
    linear: tuple[ClosedJaxpr, ...]
    places: list[Source]
    constants: Values
    mask: list[bool]


def split_branches(params: CondParams, nonzero: Mask) -> SplitBranches:
    """The primal and the linear parts of all branches, for operands that have tangents where `nonzero`."""
    key = ("split branches", nonzero, tuple([b.jaxpr for b in params.branches[1:]]))
    return remembered(params.branches[0].jaxpr, key, lambda: _split_branches(params, nonzero))


def _split_branches(params: CondParams, nonzero: Mask) -> SplitBranches:
    parts, mask = _agreeing(
        params, lambda jaxpr, want: linearize_jaxpr(jaxpr, nonzero, want), lambda p: p.nonzero_out
    )
    n_results = len(mask)
    shared_avals, shared_of = _shared_residuals(params, parts, n_results)
    places: list[Source] = []
    avals: Avals = []
    constants: Values = []
    positions_of: list[list[int]] = []  # for each branch, those of its residuals in `places`
    for part, shared in strict_zip(parts, shared_of):
        shared_positions = {source: position for position, source in shared.items()}
        positions = []
        for source in part.sources:
            place, aval = source, None
            if source in shared_positions:
                place = Source("result", n_results + shared_positions[source])
                aval = shared_avals[shared_positions[source]]
            elif source.kind == "constant":
                constants.append(part.constants[source.index])
                place = Source("constant", len(constants) - 1)
                aval = type_of(constants[-1])
            elif place not in places:
                is_input = source.kind == "input"
                source_avals = (
                    params.branches[0].in_avals if is_input else parts[0].primal.out_avals
                )
                aval = source_avals[source.index]
            if place not in places:
                places.append(place)
                avals.append(aval)
            positions.append(places.index(place))
        positions_of.append(positions)
    primal, consts = with_common_consts(
        [
            _with_shared_residuals(p, shared, shared_avals, n_results)
            for p, shared in strict_zip(parts, shared_of)
        ],
        [p.consts for p in parts],
    )
    linear = tuple(
        [
            with_common_inputs(p.linear, positions, avals)
            for p, positions in strict_zip(parts, positions_of)
        ]
    )
    return SplitBranches(primal, consts, linear, places, constants, mask)


def _shared_residuals(
    params: CondParams, parts: Sequence[LinearizedJaxpr], n_results: int
) -> tuple[Values, list[dict[int, Source]]]:
    """(types of the residuals that branches share, for each branch: which of its own are at which position).

    An operand takes a position that other residuals need anyway, if there is one in each branch that saves it: so
    loops don't save it for all steps.
    """
    avals: Avals = []
    shared_of: list[dict[int, Source]] = [{} for _ in parts]
    for part, shared in strict_zip(parts, shared_of):
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
        users = [s for part, s in strict_zip(parts, shared_of) if source in part.sources]
        positions = [_free_position(avals, aval, shared) for shared in users]
        if None not in positions:
            for shared, position in strict_zip(users, positions):
                shared[position] = source  # pyright: ignore[reportArgumentType]
    return avals, shared_of


def _free_position(avals: Avals, aval, occupied: Container[int]) -> int | None:
    """The first position of type `aval` that is not taken."""
    return next((i for i, a in enumerate(avals) if a is aval and i not in occupied), None)


def _with_shared_residuals(
    part: LinearizedJaxpr, shared: dict[int, Source], avals: Avals, n_results: int
) -> ClosedJaxpr:
    """The primal branch that gives its results, then the shared residuals; zeros for those of other branches."""
    jaxpr = part.primal.jaxpr

    def branch(*operands):
        results = replay(jaxpr, (), *operands)
        values = {"result": results, "input": operands[len(part.consts) :]}
        residuals = [
            values[shared[i].kind][shared[i].index] if i in shared else zeros(aval)
            for i, aval in enumerate(avals)
        ]
        return [*results[:n_results], *residuals]

    return stage_open(branch, jaxpr.in_avals, jaxpr.debug)[0]


# Batches ------------------------------------------------------------------------------------------------


def _all_branches(
    axis: BatchAxis, operands: Operands, dims: tuple[BatchDim, ...], params: CondParams
) -> tuple[Values, list[BatchDim]]:
    """Results where elements of a batch choose different branches: all are computed, and selected from.

    Where an element doesn't choose a branch, no derivative flows through its operands: NaNs of that branch would.
    """
    check_batched_effects("cond", cond_p.effects((), params))
    if params.branches_platforms is not None:
        index = bind1(platform_index_p, params=PlatformIndexParams(params.branches_platforms))
        return cond_p.batch(axis, (index, *operands[1:]), (None, *dims[1:]), params)  # type: ignore[return-value]
    index, *inputs = [brought_to(axis, x, d, 0) for x, d in strict_zip(operands, dims)]
    dtype = type_of(index).dtype
    results = []
    for i, branch in enumerate(params.branches):
        is_chosen = eq(index, dtype.type(i))
        guarded = [_select(is_chosen, stop_gradient(x), x) for x in inputs]
        program, consts, _ = batch_jaxpr(branch.jaxpr, axis, [0] * len(inputs), True)
        results.append(replay(program.jaxpr, (), *consts, *guarded))
    return [_select(index, *cases) for cases in strict_zip(*results)], [0] * len(results[0])


def _select(which, *cases):
    """One of `cases` for each element along axis 0."""
    shape = type_of(cases[0]).shape
    return select_n(broadcast_in_dim(which, shape, (0,)) if len(shape) > 1 else which, *cases)


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
