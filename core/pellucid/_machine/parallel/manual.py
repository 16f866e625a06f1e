"""`shard_map` as a primitive with all rules: a program that runs once per position along mesh axes.

Specs relate the types of whole values to those of the parts at one position along manual mesh axes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from itertools import compress
from typing import Any, NamedTuple

from pellucid._machine.base import (
    CollectiveError,
    UnsupportedError,
    insert_at,
    is_static,
    strict_zip,
)
from pellucid._machine.higher_order.calls import without_calls
from pellucid._machine.higher_order.structured import (
    Structured,
    remembered_on_program,
    with_linear_part,
)
from pellucid._machine.ir import (
    Avals,
    BatchAxis,
    ClosedJaxpr,
    Collective,
    Dims,
    Jaxpr,
    Linearized,
    Mask,
    OneJaxprPrimitive,
    Placed,
    ShapedArray,
    Values,
    axis_names_of,
    is_linear,
    with_variables_as_inputs,
)
from pellucid._machine.lowering.collectives import Parts, manual_computation
from pellucid._machine.primitives import (
    CollectiveParams,
    Marks,
    constant_like,
    div,
    marks_of,
    reshape,
    sum_along,
    unify_axes,
    vary,
    with_marks,
)
from pellucid._machine.sharding import (
    AxisType,
    NamedSharding,
    PartitionSpec,
    get_abstract_mesh,
    mesh_context,
)
from pellucid._machine.sharding.errors import indivisible_error
from pellucid._machine.sharding.explicit_types import explicit_part, shown_sharding
from pellucid._machine.sharding.mesh import AnyMesh
from pellucid._machine.sharding.partition_spec import AxisSet, axes_text, rank_error
from pellucid._machine.tracing import bind, bound_axes, replay
from pellucid._machine.transforms import (
    ARRAY,
    Derived,
    Fixed,
    LinearizedJaxpr,
    array_of,
    batch_jaxpr,
    cache_on_program,
    cotangents_of,
    is_maskable,
    jvp_jaxpr,
    kind_of_live,
    known_array,
    linearize_jaxpr,
    masked_jaxpr,
    nonzero,
    nonzero_mask,
    split_tangents,
    stage_open,
    transpose_jaxpr,
)

from .axes import AxisNames
from .divergence import check_no_divergence, check_of_executable

REPLICATED = PartitionSpec()
"""The spec of a value that every position has as a whole."""


def check_is_array(aval: Any, path: str) -> None:
    """Raise UnsupportedError for references and tokens, which can't be divided into parts."""
    if not isinstance(aval, ShapedArray):
        raise UnsupportedError(
            "shard_map needs arrays, no references or tokens.", got=f"{path}: {aval.text()}",
            do="Make references inside the function, or pass them as arguments.",
        )  # fmt: skip


def local_type(
    aval: Any, mesh: AnyMesh, spec: PartitionSpec, manual: AxisSet, checked: bool, path: str
) -> ShapedArray:
    """Type of the part at one position along the axes `manual`, for a value that a user passed as `path`.

    If types are `checked`, it varies over the axes of `spec`. Shardings over other axes are kept.

    Raises: PartitionSpecError for a spec longer than the rank, IndivisibleError for a size that isn't a multiple.
    """
    check_is_array(aval, path)
    if len(spec) > aval.ndim:
        error = rank_error(spec, aval.ndim)
        raise type(error)(
            f"shard_map: in_specs give {spec!r} to an argument of rank {aval.ndim}.",
            got=f"{path}: {aval.text()}", do=error.do,
        )  # fmt: skip
    shape = list(aval.shape)
    for dim, parts in enumerate(map(mesh.parts_of, spec.axes_per_dim)):
        if shape[dim] % parts:
            axes = axes_text(spec.axes_per_dim[dim])
            shown = f"{path}: {aval.text()}, {spec!r}"
            raise indivisible_error(shown, aval.shape, dim, parts, axes)
        shape[dim] //= parts
    varying = aval.varying | spec.axis_names if checked else aval.varying
    shown = aval.shown_sharding
    local = aval.update(shape=tuple(shape), varying=varying, shown_sharding=None)
    marks = Marks(spec.unreduced, spec.reduced)
    if any(marks) and checked:
        inside = dict.fromkeys(manual, AxisType.Manual)
        return with_marks(local, marks, mesh.abstract_mesh.update_axis_types(inside))
    if shown is None or shown.mesh.shape_tuple != mesh.shape_tuple:
        return local
    return local.update(shown_sharding=_drop_manual_axes(shown, manual))


def _drop_manual_axes(sharding: NamedSharding, manual: AxisSet) -> NamedSharding | None:
    """The part of `sharding` that remains in a type if the axes `manual` are Manual."""
    rest = [[a for a in axes if a not in manual] for axes in sharding.spec.axes_per_dim]
    mesh = sharding.mesh.abstract_mesh.update_axis_types(dict.fromkeys(manual, AxisType.Manual))
    return shown_sharding(mesh, PartitionSpec(*[tuple(axes) or None for axes in rest]))


def whole_type(
    aval: ShapedArray, mesh: AnyMesh, spec: PartitionSpec, manual: AxisSet
) -> ShapedArray:
    """Type of the whole value, given the type of the parts along the axes `manual`."""
    shape = list(aval.shape)
    for dim, axes in enumerate(spec.axes_per_dim):
        shape[dim] *= mesh.parts_of(axes)
    shown = aval.shown_sharding
    if any(marks_of(aval)):
        shown = None  # the spec contains it
    whole, over = spec.padded(len(shape)), mesh.abstract_mesh
    if shown is not None:
        entries = strict_zip(whole.axes_per_dim, shown.spec.axes_per_dim)
        whole = PartitionSpec(*[(*axes, *others) or None for axes, others in entries])
        types = {axis: mesh.axis_type_by_name[axis] for axis in manual}
        over = shown.mesh.abstract_mesh.update_axis_types(types)
    sharding = shown_sharding(over, explicit_part(whole, over, len(shape)))
    return aval.update(shape=tuple(shape), varying=aval.varying - manual, shown_sharding=sharding)


def spec_along(dim: int | None, axis: Any) -> PartitionSpec:
    """The spec of a value that is partitioned along `dim` over mesh axis `axis`; replicated if `dim` is None."""
    return REPLICATED if dim is None else PartitionSpec(*[None] * dim, axis)


def leading_spec(mesh: AnyMesh, axes: Sequence[Any] | AxisSet) -> PartitionSpec:
    """The spec that joins the parts of all positions along `axes` at the first dimension."""
    names = tuple([name for name in mesh.axis_names if name in axes])
    return PartitionSpec(names) if names else REPLICATED


# The primitive --------------------------------------------------------------------------------------


Specs = tuple[PartitionSpec, ...]


@contextlib.contextmanager
def bind_manual_axes(mesh: AnyMesh, manual_axes: AxisSet, check_vma: bool) -> Iterator[None]:
    """The context for tracing at one position along `manual_axes`: collectives may use them, and they are Manual in the
    mesh.
    """
    current = get_abstract_mesh()
    outer = mesh.abstract_mesh if current.empty else current
    inner = outer.update_axis_types(dict.fromkeys(manual_axes, AxisType.Manual))
    sizes = {name: mesh.shape[name] for name in mesh.axis_names if name in manual_axes}
    previous = mesh_context.abstract.swap_local(inner)
    try:
        checked = manual_axes if check_vma else frozenset()
        with bound_axes(sizes, checked, unify_axes if check_vma else None):
            yield
    finally:
        mesh_context.abstract.set_local(previous)


class ShardMapParams(NamedTuple):
    """`jaxpr` has no constants, and computes on the parts at one position along `newly_manual_axes`."""

    check_vma: bool
    in_specs: Specs
    jaxpr: ClosedJaxpr
    newly_manual_axes: AxisSet
    mesh: AnyMesh
    out_specs: Specs

    def scope(self) -> contextlib.AbstractContextManager[None]:
        """The context in which programs that belong to this one are traced."""
        return bind_manual_axes(self.mesh, self.newly_manual_axes, self.check_vma)

    @property
    def unchecked_axes(self) -> AxisSet:
        """The manual axes over which types don't record whether values vary."""
        return frozenset() if self.check_vma else self.newly_manual_axes

    def unmentioned_axes(self, spec: PartitionSpec) -> AxisNames:
        """The manual axes that `spec` doesn't use."""
        axes = self.newly_manual_axes - spec.axis_names
        return tuple([a for a in self.mesh.axis_names if a in axes])

    def check_no_divergence(self, jaxpr: Jaxpr) -> list[AxisSet]:
        """`check_no_divergence` for a program with these `in_specs`."""
        axes = axes_of(self.in_specs)
        return check_no_divergence("shard_map", jaxpr, axes, self.mesh, self.unchecked_axes)

    def on(self, program: ClosedJaxpr, in_specs: Sequence[Any], out_specs: Sequence[Any]) -> Any:
        """Params for calling a program derived from this one; its results are cast to vary as `out_specs` require.

        `in_specs` are those of its last inputs; earlier ones are the same at all positions.
        """
        program = _cast_results(program, self, tuple(out_specs))
        consts = [REPLICATED] * (len(program.jaxpr.invars) - len(in_specs))
        in_specs, out_specs = (*consts, *in_specs), tuple(out_specs)
        return self._replace(jaxpr=program, in_specs=in_specs, out_specs=out_specs)


class ShardMap(
    Linearized, Collective, Placed, OneJaxprPrimitive[ShardMapParams], Structured[ShardMapParams]
):
    """A call of a program at each position along mesh axes, on parts of its operands."""

    name = "shard_map"
    statement = "out_specs of shard_map"

    def slots(self, params):
        return super().slots(params)._replace(by_position=True)

    def with_slots(self, params, slots):
        # Further operands are constants in front; of further results, in front, each position has one row.
        [program] = [slot.program for slot in slots.programs]
        rows = len(program.out_avals) - len(params.out_specs)
        row_specs = [leading_spec(params.mesh, params.newly_manual_axes)] * rows
        return params.on(program, params.in_specs, (*row_specs, *params.out_specs))

    def scope(self, params):
        return params.scope()

    def selected(self, params, operands, results):
        return params._replace(
            in_specs=tuple(compress(params.in_specs, operands)),
            out_specs=tuple(compress(params.out_specs, results)),
        )

    def abstract_eval(self, avals, params):
        out_avals: Avals = params.jaxpr.out_avals
        return [
            whole_type(aval, params.mesh, spec, params.newly_manual_axes)
            for aval, spec in strict_zip(out_avals, params.out_specs)
        ]

    def axis_names(self, params, inner):
        return inner - params.newly_manual_axes

    def placements(self, params):
        return (params.mesh,)

    # Derivatives ----------------------------------------------------------------------------------

    def jvp(self, primals, tangents, params):
        mask = nonzero_mask(tangents)
        with params.scope():
            program, consts, mask_out = jvp_jaxpr(params.jaxpr.jaxpr, mask, False)
        # Takes (consts, primals, nonzero tangents), gives (results, tangents in `mask_out`): a tangent is cut as its value.
        in_specs = (*params.in_specs, *compress(params.in_specs, mask))
        out_specs = (*params.out_specs, *compress(params.out_specs, mask_out))
        called = params.on(program, in_specs, out_specs)
        results = bind(self, *consts, *primals, *nonzero(tangents), params=called)
        return split_tangents(results, mask_out)

    def linearize(self, trace, primals, tangents, params):
        with params.scope():
            parts, primal, linear = split_manual(params, tuple(nonzero_mask(tangents)))
        # Results of the primal part: those of the call, then residuals, joined from all positions.
        results = bind(self, *parts.consts, *primals, params=primal)
        operands = (*parts.residuals(primals, results), *nonzero(tangents))
        return with_linear_part(trace, self, results, parts.nonzero_out, operands, linear)

    def split_at(self, params, split):
        # Values of chosen variables leave, and enter again, joined from all positions as residuals are.
        body, recomputed, chosen = split(params.jaxpr.jaxpr)
        if not chosen:
            return None
        n = len(body.outvars)
        known = body.replace(outvars=[*body.outvars, *chosen], debug=None)
        again = with_variables_as_inputs(recomputed, [*chosen], body.outvars)
        with params.scope():
            specs, joined = _specs_of_rows(params, known, n)
            forward = _with_vectors(ClosedJaxpr(known), results=[False] * n + joined)
            flags = [False] * len(body.invars) + joined
            backward = _with_vectors(ClosedJaxpr(again), flags)
            rows = forward.out_avals[n:]
            types = [
                whole_type(aval, params.mesh, spec, params.newly_manual_axes)
                for aval, spec in strict_zip(rows, specs)
            ]
            return (
                params.on(forward, params.in_specs, (*params.out_specs, *specs)),
                params.on(backward, (*params.in_specs, *specs), params.out_specs),
                [*strict_zip(types, chosen.values())],
            )

    def transpose(self, cotangents, operands, params):
        linear = tuple(map(is_linear, operands))
        mask = tuple(nonzero_mask(cotangents))
        with params.scope():
            program, consts, mask_out = _transpose_program(params, linear, mask)
        # Takes (consts, operands that aren't linear, nonzero cotangents), gives cotangents of those linear operands that
        # `mask_out` marks. A cotangent is cut as its value, with unreduced and reduced axes exchanged.
        is_residual = [not is_linear for is_linear in linear]
        in_specs = (
            *compress(params.in_specs, is_residual),
            *(spec.to_ct_spec() for spec in compress(params.out_specs, mask)),
        )
        linear_specs = compress(compress(params.in_specs, linear), mask_out)
        called = params.on(program, in_specs, [spec.to_ct_spec() for spec in linear_specs])
        called.check_no_divergence(program.jaxpr)
        inputs = (*consts, *compress(operands, is_residual), *nonzero(cotangents))
        return cotangents_of(operands, bind(self, *inputs, params=called), mask_out)

    def masked(self, operands, lives, params):
        # Positions have parts of the operands, so what the program fixes of them isn't fixed there.
        of_whole = [
            kind_of_live(live) if is_maskable(x) else None
            for x, live in strict_zip(operands, lives)
        ]
        kinds = [ARRAY if isinstance(kind, Fixed) else kind for kind in of_whole]
        n, jaxpr = len(params.out_specs), params.jaxpr.jaxpr
        with params.scope():
            is_fixed = [isinstance(k, Fixed) for k in masked_jaxpr(jaxpr, kinds, [False] * n).mask]
            program, consts, mask = masked_jaxpr(jaxpr, kinds, is_fixed)
        # The array that marks an array's live elements is partitioned as that is.
        is_array = [kind == ARRAY for kind in kinds]
        arrays = [array_of(live, x) for x, live in compress(strict_zip(operands, lives), is_array)]
        in_specs = (*params.in_specs, *compress(params.in_specs, is_array))
        out_specs = (*params.out_specs, *compress(params.out_specs, [k == ARRAY for k in mask]))
        called = params.on(program, in_specs, out_specs)
        results = bind(self, *consts, *operands, *arrays, params=called)
        # The results are those of the program, then the arrays.
        out = iter(results[n:])
        return results[:n], [known_array(next(out)) if kind == ARRAY else kind for kind in mask]

    # Batches --------------------------------------------------------------------------------------

    def batch(self, axis, operands, dims, params):
        over = tuple([a for a in axis.spmd_name or () if a in params.newly_manual_axes])
        _check_batch_axes(over, params)
        over = over or _free_axes(axis, params)
        size = axis.size // params.mesh.parts_of(over)
        local = BatchAxis(size, axis.name, None if over else axis.spmd_name)
        entry = over or None
        with params.scope():
            program, consts, out_dims = _batch_program(params, local, dims, frozenset(over))
        in_specs = _with_batch_dims(params.in_specs, dims, entry)
        out_specs = _with_batch_dims(params.out_specs, out_dims, entry)
        called = params.on(program, in_specs, out_specs)
        return bind(self, *consts, *operands, params=called), out_dims

    # Running --------------------------------------------------------------------------------------

    def lower(self, ctx, operands, params):
        jaxpr = params.jaxpr.jaxpr
        if not all(is_static(aval.shape) for aval in (*ctx.avals_in, *ctx.avals_out)):
            raise UnsupportedError(
                "shard_map can't be lowered with symbolic dimensions: XLA refines no shapes within it.",
                got=f"operands: {', '.join(aval.text() for aval in ctx.avals_in)}",
                do="Export it for the sizes that are needed, or cut the program by `in_shardings` of jit.",
            )
        self.check_when_compiled(ctx, params)
        operand_parts = Parts(params.in_specs, ctx.avals_in, jaxpr.in_avals)
        result_parts = Parts(params.out_specs, ctx.avals_out, jaxpr.out_avals)
        with ctx.named("shard_map/", ""):
            return manual_computation(
                ctx, params.mesh, params.newly_manual_axes, operand_parts, result_parts, operands,
                lambda parts: ctx.inline(jaxpr, (), parts),
            )  # fmt: skip

    def check_when_compiled(self, ctx: Any, params: ShardMapParams) -> None:
        """Schedule the check of the compiled program, if the compiler may insert permutations that only some devices
        reach.
        """
        outer = frozenset() if ctx.manual is None else ctx.manual.manual
        free = set(params.mesh.axis_names) - params.newly_manual_axes - outer
        if ctx.platform == "cpu" and any(params.mesh.shape[axis] > 1 for axis in free):
            check = check_of_executable(
                self.name,
                params.jaxpr.jaxpr,
                axes_of(params.in_specs),
                params.mesh,
                params.unchecked_axes,
            )
            if check is not None:
                ctx.checks.append(check)


shard_map_p = ShardMap()


def axes_of(specs: Sequence[PartitionSpec]) -> list[AxisSet]:
    """For each spec, the mesh axes that it uses."""
    return [spec.axis_names for spec in specs]


# Derived programs ---------------------------------------------------------------------------------


def _cast_results(program: ClosedJaxpr, params: ShardMapParams, out_specs: Specs) -> ClosedJaxpr:
    """`program` with results cast to vary over the axes in `out_specs`, as the types of whole values require."""
    if not params.check_vma:
        return program
    avals: Avals = program.out_avals
    varying_axes = [aval.varying & params.newly_manual_axes for aval in avals]
    spec_axes = [spec.axis_names for spec in out_specs]
    if varying_axes == spec_axes:
        return program
    for varying, axes, aval in strict_zip(varying_axes, spec_axes, avals):
        if not varying <= axes:
            raise CollectiveError(
                "shard_map: a derivative varies over mesh axes over which its value is the same.",
                got=f"{aval.text()}, the same over {sorted(map(repr, varying - axes))}",
                do="Sum it with `psum` in the derivative rule that makes it.",
            )
    jaxpr = program.jaxpr

    def derive() -> Derived:
        def run(*operands: Any) -> Values:
            results = replay(jaxpr, (), *operands)
            return [vary(x, axes) for x, axes in strict_zip(results, spec_axes)]

        return Derived(*stage_open(run, jaxpr.in_avals, jaxpr.debug), ())

    with params.scope():
        return cache_on_program(jaxpr, ("varying results", tuple(spec_axes)), derive).program


class SplitManual(NamedTuple):
    """A program split into its primal and its linear part, as params of both; `parts` describes their inputs and
    results.
    """

    parts: LinearizedJaxpr
    primal: ShardMapParams
    linear: ShardMapParams

    @property
    def consts(self) -> Values:
        return [*self.parts.consts, *self.parts.constants]


@remembered_on_program
def split_manual(params: ShardMapParams, nonzero: Mask) -> SplitManual:
    """The split of a program whose operands have tangents where `nonzero` is true.

    A residual that differs between positions leaves the primal part as one array with the values of all of them.
    """
    parts = linearize_jaxpr(params.jaxpr.jaxpr, nonzero)
    # The primal part gives `n` results, then extra ones, residuals: they are joined along the axes over which they vary.
    n, body = len(parts.nonzero_out), parts.primal.jaxpr
    consts = [REPLICATED] * len(parts.consts)
    with_consts = params._replace(in_specs=(*consts, *params.in_specs))
    extra_specs, joined = _specs_of_rows(with_consts, body, n)
    # Operands of the linear part: one for each of `parts.sources` (constant, input, result or residual), then the nonzero tangents.
    specs_by_kind = {"input": params.in_specs, "result": (*params.out_specs, *extra_specs)}
    specs = [
        REPLICATED if s.kind == "constant" else specs_by_kind[s.kind][s.index]
        for s in parts.sources
    ]
    scalars = [s.kind == "result" and s.index >= n and joined[s.index - n] for s in parts.sources]
    primal = _with_vectors(parts.primal, results=[False] * n + joined)
    linear = _with_vectors(parts.linear, scalars)
    specs += compress(params.in_specs, nonzero)
    return SplitManual(
        parts,
        params.on(primal, params.in_specs, (*params.out_specs, *extra_specs)),
        params.on(linear, specs, [*compress(params.out_specs, parts.nonzero_out)]),
    )


def _specs_of_rows(
    params: ShardMapParams, body: Jaxpr, n: int
) -> tuple[list[PartitionSpec], list[bool]]:
    """Specs of the results of `body` behind the first `n`, joined along the axes over which they vary, and a flag for each
    that is a scalar, which has no dimension along which the positions' values could be joined.
    """
    avals: Any = body.out_avals[n:]
    specs = [
        leading_spec(params.mesh, axes & params.newly_manual_axes).update(None, *marks_of(aval))
        for axes, aval in strict_zip(params.check_no_divergence(body)[n:], avals)
    ]
    return specs, [a.shape == () and bool(s) for a, s in strict_zip(avals, specs)]


def _with_vectors(
    program: ClosedJaxpr, inputs: Sequence[bool] = (), results: Sequence[bool] = ()
) -> ClosedJaxpr:
    """`program` with some scalars among its first inputs, or results, replaced by vectors of length 1 (see flags)."""
    if not any((*inputs, *results)):
        return program
    in_avals: Avals = program.in_avals
    flags = [*inputs, *[False] * (len(in_avals) - len(inputs))]
    avals = [a.update(shape=(1,)) if s else a for a, s in strict_zip(in_avals, flags)]

    def run(*operands: Any) -> Values:
        xs = [reshape(x, ()) if s else x for x, s in strict_zip(operands, flags)]
        ys = replay(program.jaxpr, (), *xs)
        return [
            reshape(y, (1,)) if s else y for y, s in strict_zip(ys, results or [False] * len(ys))
        ]

    return stage_open(run, avals, program.jaxpr.debug)[0]


def _transpose_program(
    params: ShardMapParams, linear: tuple[bool, ...], nonzero: tuple[bool, ...]
) -> Derived:
    """The transposed program, from (known operands, cotangents) to cotangents of the linear operands in `mask`.

    If types don't record which values are the same at all positions, the cotangent of an invariant result is divided
    among the positions, and cotangents of replicated operands are summed.
    """
    out_avals: Avals = params.jaxpr.out_avals
    avals = [aval.cotangent() if nz else None for aval, nz in strict_zip(out_avals, nonzero)]
    derived = transpose_jaxpr(params.jaxpr.jaxpr, linear, avals, False)
    if params.check_vma:
        return derived
    key = ("transposed manual", linear, nonzero, params._replace(jaxpr=None))
    return cache_on_program(
        params.jaxpr.jaxpr, key, lambda: _share_out(derived, params, linear, nonzero)
    )


def _share_out(
    derived: Derived, params: ShardMapParams, linear: tuple[bool, ...], nonzero: tuple[bool, ...]
) -> Derived:
    program = derived.program.jaxpr
    # Operands of `derived`: constants and known operands, then, from `first` on, the nonzero cotangents.
    ct_specs = [*compress(params.out_specs, nonzero)]
    result_specs = [*compress(compress(params.in_specs, linear), derived.mask)]
    first = len(program.invars) - len(ct_specs)

    def run(*operands: Any) -> Values:
        shares = []
        for ct, spec in strict_zip(operands[first:], ct_specs):
            n = params.mesh.parts_of(params.unmentioned_axes(spec))
            shares.append(ct if n == 1 else div(ct, constant_like(ct, n)))
        results = replay(program, (), *operands[:first], *shares)
        return [
            _sum_over(x, params.unmentioned_axes(spec))
            for x, spec in strict_zip(results, result_specs)
        ]

    shared, _ = stage_open(run, program.in_avals, program.debug)
    return Derived(shared, derived.consts, derived.mask)


def _sum_over(x, axes: AxisNames):
    return sum_along(x, CollectiveParams(axes)) if axes else x


def _check_batch_axes(over: AxisNames, params: ShardMapParams) -> None:
    """Raise CollectiveError if specs already use the mesh axes of a batch."""
    for spec in (*params.in_specs, *params.out_specs):
        used = [a for a in over if a in spec.axis_names]
        if used:
            raise CollectiveError(
                f"vmap can't shard its batch over mesh axis {used[0]!r}, which specs of shard_map use.",
                got=f"spmd_axis_name={over!r}, spec {spec!r}",
                do="Choose another mesh axis for the batch.",
            )


def _free_axes(axis: BatchAxis, params: ShardMapParams) -> AxisNames:
    """The Explicit mesh axes of the batch, if the program runs over them and nothing in it depends on them.

    Each position then processes its own part of the batch; otherwise each has the whole batch.
    """
    axes = () if axis.explicit is None else axis.explicit.spec.axes_per_dim[0]
    used = axis_names_of(params.jaxpr.jaxpr).union(*axes_of((*params.in_specs, *params.out_specs)))
    is_free = params.newly_manual_axes.issuperset(axes) and used.isdisjoint(axes)
    return tuple(axes) if is_free else ()


def _with_batch_dims(specs: Specs, dims: Dims, entry) -> list[PartitionSpec]:
    """`specs` with `entry` inserted for each value's new dimension, if it has one."""
    return [
        spec
        if d is None
        else PartitionSpec(*insert_at([*spec, *[None] * (d - len(spec))], d, entry))
        for spec, d in strict_zip(specs, dims)
    ]


def _batch_program(params: ShardMapParams, axis: BatchAxis, dims: Dims, over: AxisSet) -> Derived:
    """The program on batches, which are partitioned over the mesh axes `over`; `mask` has the results that are batched."""
    jaxpr = params.jaxpr.jaxpr
    if not over or not params.check_vma:
        return batch_jaxpr(jaxpr, axis, dims)
    # The types of an inner call's program are fixed.
    return batch_jaxpr(without_calls(jaxpr), axis, dims, varying=over)
