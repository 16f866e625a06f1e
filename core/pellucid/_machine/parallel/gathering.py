"""Values gathered from all positions along named axes, and sums scattered over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentValueError,
    CollectiveError,
    DtypeError,
    Ints,
    UnsupportedError,
    insert_at,
    replace_axis_size,
    tree_map,
)
from pellucid._machine.ir import COLLECTIVE, Primitive, Shown, registry, words
from pellucid._machine.lowering.collectives import Groups, device_groups, global_attributes
from pellucid._machine.primitives import (
    brought_to,
    canonical_axis,
    constant_like,
    dynamic_slice_in_dim,
    move_axis,
    mul,
    reduce_sum,
    reshape,
    vary,
)
from pellucid._machine.sharding import get_abstract_mesh
from pellucid._machine.sharding.partition_spec import AxisName
from pellucid._machine.tracing import bind1, context, type_of

from .axes import (
    AxisNames,
    LinearExchange,
    axes_and_even_groups,
    axis_index,
    size_along,
)
from .reductions import are_addends


class GatherAxesParams(NamedTuple):
    """`axis_size` parts along the axes (or within a group) are gathered at `all_gather_dimension`.

    `mesh` has the axes over which the result is reduced; None if it isn't.
    """

    all_gather_dimension: int
    axis_index_groups: Groups | None
    axis_name: AxisNames
    axis_size: int
    tiled: bool
    mesh: Any = None


class ScatterSumParams(NamedTuple):
    """The sum is divided into `axis_size` parts along `scatter_dimension`."""

    axis_index_groups: Groups | None
    axis_name: AxisNames
    axis_size: int
    scatter_dimension: int
    tiled: bool


def merge_axes(x: Any, axis: int) -> Any:
    """`x` with its axes `axis` and `axis + 1` merged."""
    shape = type_of(x).shape
    return reshape(x, (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]))


def split(x: Any, axis: int, parts: int) -> Any:
    """`x` with its axis `axis` split into two, the first of size `parts`."""
    shape = type_of(x).shape
    return reshape(x, replace_axis_size(shape, axis, parts, shape[axis] // parts))


def check_parts(
    caller: str, aval: Any, dim: int, parts: int, tiled: bool, axes: AxisNames, do: str
) -> None:
    """Raise CollectiveError unless dimension `dim` has size `parts` or, if `tiled`, is divisible by it."""
    if aval.shape[dim] % parts if tiled else aval.shape[dim] != parts:
        need = "a multiple of" if tiled else "equal to"
        raise CollectiveError(
            f"{caller} needs a dimension {dim} whose size is {need} the number of positions, {parts}.",
            got=f"x: {aval.text()}, axis_name={axes!r}",
            do=do,
        )


class AllGather(Shown, LinearExchange[GatherAxesParams]):
    """Gathers the values of all positions along named axes, at each of them."""

    name = "all_gather"
    traits = COLLECTIVE.replace(equalizes=True)
    dim_fields, unshown = ("all_gather_dimension",), ("mesh",)
    inverse: ClassVar[str] = "reduce_scatter"
    """Name of the primitive that transposes it."""

    def abstract_eval(self, avals, params):
        [x], dim = avals, params.all_gather_dimension
        if not params.tiled:
            return [x.with_dim(dim, params.axis_size)]
        size = x.shape[dim] * params.axis_size
        return [x.update(shape=replace_axis_size(x.shape, dim, size))]

    def factors(self, avals, results, params):
        if params.tiled:
            return super().factors(avals, results, params)
        dims = words(avals[0].ndim)
        return [dims], [insert_at(dims, params.all_gather_dimension, *words(1, len(dims)))]

    def operand_cotangent(self, cotangent, aval, params):
        dim, groups, names, size, tiled, _ = params
        scatter = ScatterSumParams(groups, names, size, dim, tiled)
        return bind1(registry[self.inverse], cotangent, params=scatter)

    def among_batch(self, axis, x, dim, params):
        stacked, at = brought_to(axis, x, dim, 0), params.all_gather_dimension
        i = params.axis_name.index(axis.name)
        outer, inner = params.axis_name[:i], params.axis_name[i + 1 :]
        # Axes before the batch axis are gathered before it, those after it between it and the rest.
        x = self.gather_and_merge(stacked, inner, 1) if inner else stacked
        x = self.gather_and_merge(x, outer, 0) if outer else x
        x = move_axis(x, 0, at)
        return [merge_axes(x, at) if params.tiled else x], [None]

    def gather_and_merge(self, x: Any, names: AxisNames, at: int) -> Any:
        """`x` gathered along the axes `names`, merged before or after its first axis."""
        gather = GatherAxesParams(at, None, names, size_along(names), False)
        return merge_axes(bind1(self, x, params=gather), 0)

    def lower(self, ctx, operands, params):
        [x], [aval], [result] = operands, ctx.avals_in, ctx.avals_out
        dim = params.all_gather_dimension
        groups = device_groups(ctx, params.axis_name, params.axis_index_groups)
        if not params.tiled:
            x = ctx.reshape(x, aval.update(shape=insert_at(aval.shape, dim, 1)))
        if params.axis_size == 1:
            return [x]
        if not result.size:  # StableHLO can't gather empty arrays
            return [ctx.zeros(result)]
        attributes = global_attributes(ctx, groups) | {"all_gather_dim": dim}
        return [ctx.op1("stablehlo.all_gather", result, [x], attributes)]


class AllGatherInvariant(AllGather):
    """An all_gather whose result is typed as equal at all positions, so that each position uses its copy separately."""

    name, state = "all_gather_invariant", "the same"
    unshown = ("mesh", "axis_index_groups")

    def operand_cotangent(self, cotangent, aval, params):
        dim = params.all_gather_dimension
        length = type_of(cotangent).shape[dim] // params.axis_size
        start = mul(axis_index(params.axis_name), np.int32(length))
        part = dynamic_slice_in_dim(vary(cotangent, params.axis_name), start, length, dim)
        return part if params.tiled else reshape(part, aval.shape)


class AllGatherReduced(AllGather):
    """An all_gather whose result is reduced: its cotangents are unreduced summands, which the transpose sums and
    scatters.
    """

    name, state, inverse = "all_gather_reduced", "reduced", "unreduced_reduce_scatter"


all_gather_p = AllGather()
all_gather_invariant_p = AllGatherInvariant()
all_gather_reduced_p = AllGatherReduced()


_GATHERS = {
    "varying": all_gather_p, "invarying": all_gather_invariant_p, "reduced": all_gather_reduced_p
}  # fmt: skip


def all_gather(
    x: Any,
    axis_name: AxisName | Sequence[AxisName],
    *,
    axis_index_groups: Sequence[Ints] | None = None,
    axis: int = 0,
    tiled: bool = False,
    to: str = "varying",
) -> Any:
    """`x` (arrays in a tree) of all positions along `axis_name`, at each of them.

    They are stacked along a new axis at `axis`, or if `tiled` concatenated along the axis that is there.
    `axis_index_groups` gathers within groups of positions, all of one size. In `shard_map`, `to="invarying"` gives a
    result whose type says that it is the same along the axis, and `to="reduced"` one whose cotangent is unreduced too.

    Raises: AxisNameError where no axis has that name; CollectiveError for groups that don't fit.

    Of the shape `[...]` of an array this makes `[..., n, ...]` for `n` positions; if `tiled`, the size of the axis
    times `n`. Dtypes stay.

    >>> from pellucid import vmap
    >>> vmap(lambda x: all_gather(x, "i"), axis_name="i")(np.arange(3))
    Array([[0, 1, 2],
           [0, 1, 2],
           [0, 1, 2]], dtype=int32)
    """
    if to not in _GATHERS:
        raise ArgumentValueError(
            'all_gather: `to` must be "varying", "invarying" or "reduced".', got=f"to={to!r}"
        )
    axes, groups = axes_and_even_groups("all_gather", axis_name, axis_index_groups)
    if to != "varying" and groups is not None:
        raise UnsupportedError(
            'all_gather: with axis_index_groups, groups have different results, so `to` is "varying".'
        )
    # Only a result typed as equal at all positions is used separately by each of them.
    is_typed = context.checked_axes.issuperset(axes)
    primitive = _GATHERS[to] if is_typed else all_gather_p

    def gather_leaf(leaf):
        ndim = type_of(leaf).ndim
        at = canonical_axis(axis, ndim if tiled else ndim + 1, "all_gather: axis")
        leaf = vary(leaf, axes)
        params = GatherAxesParams(at, groups, axes, size_along(axes, groups), tiled)
        if primitive is all_gather_reduced_p:
            shown = type_of(leaf).shown_sharding
            params = params._replace(mesh=get_abstract_mesh() if shown is None else shown.mesh)
        return bind1(primitive, leaf, params=params)

    return tree_map(gather_leaf, x) if axes else x


# psum_scatter -------------------------------------------------------------------------------------


class ReduceScatter(LinearExchange[ScatterSumParams]):
    """The sum along named axes; each position keeps one part."""

    name = "reduce_scatter"
    dim_fields = ("scatter_dimension",)
    inverse: ClassVar[Primitive[Any]] = all_gather_p
    traits = COLLECTIVE.replace(flops=1.0, makes_nan=True)

    def abstract_eval(self, avals, params):
        [x], dim = avals, params.scatter_dimension
        if not params.tiled:
            return [x.without_dim(dim)]
        size = x.shape[dim] // params.axis_size
        return [x.update(shape=replace_axis_size(x.shape, dim, size))]

    def factors(self, avals, results, params):
        [dims], results = super().factors(avals, results, params)
        return [dims], results if params.tiled else [
            replace_axis_size(dims, params.scatter_dimension)
        ]

    def operand_cotangent(self, cotangent, aval: Any, params):
        groups, names, size, dim, tiled = params
        mesh = aval.shown_sharding.mesh if self.inverse is all_gather_reduced_p else None
        gather = GatherAxesParams(dim, groups, names, size, tiled, mesh)
        return bind1(self.inverse, cotangent, params=gather)

    def among_batch(self, axis, x, dim, params):
        x = mul(x, constant_like(x, axis.size)) if dim is None else reduce_sum(x, (dim,))
        sizes = [
            axis.size if name == axis.name else context.axes[name] for name in params.axis_name
        ]
        return [_scatter_parts(x, params, sizes, axis.name)], [0]

    def lower(self, ctx, operands, params):
        [aval], [result] = ctx.avals_in, ctx.avals_out
        if params.axis_size == 1:
            return [operands[0] if params.tiled else ctx.reshape(operands[0], result)]
        if not result.size:  # StableHLO can't scatter empty arrays
            return [ctx.zeros(result)]
        dim = params.scatter_dimension
        shape = replace_axis_size(aval.shape, dim, aval.shape[dim] // params.axis_size)
        groups = device_groups(ctx, params.axis_name, params.axis_index_groups)
        attributes = global_attributes(ctx, groups) | {"scatter_dimension": dim}
        part = aval.update(shape=shape)
        op = ctx.op("stablehlo.reduce_scatter", [ctx.type(part)], operands, attributes, regions=1)
        ctx.scalar_body(op.regions[0], "stablehlo.add", aval.dtype)
        return [op.result if params.tiled else ctx.reshape(op.result, result)]


def _scatter_parts(x, params: ScatterSumParams, sizes: Ints, name):
    """Parts of `x`, already summed over the batch axis `name`, with the position along it as leading axis."""
    dim, shape = params.scatter_dimension, type_of(x).shape
    i = params.axis_name.index(name)
    x = reshape(x, replace_axis_size(shape, dim, *sizes, shape[dim] // params.axis_size))
    x = move_axis(x, dim + i, 0)
    dim += 1
    rest = params.axis_name[:i] + params.axis_name[i + 1 :]
    size = params.axis_size // sizes[i]
    shape = type_of(x).shape
    if rest:
        x = reshape(x, (*shape[:dim], size, *shape[dim + len(rest) :]))
        x = bind1(reduce_scatter_p, x, params=ScatterSumParams(None, rest, size, dim, False))
    if params.tiled:
        return x
    return reshape(x, replace_axis_size(type_of(x).shape, dim))


class UnreducedReduceScatter(ReduceScatter):
    """The sum of unreduced summands along named axes; each position keeps one part."""

    name, state, inverse = "unreduced_reduce_scatter", "varying", all_gather_reduced_p


reduce_scatter_p = ReduceScatter()
unreduced_reduce_scatter_p = UnreducedReduceScatter()


def psum_scatter(
    x: Any,
    axis_name: AxisName | Sequence[AxisName],
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Sequence[Ints] | None = None,
    tiled: bool = False,
) -> Any:
    """The sum of `x` (arrays in a tree) along `axis_name`, of which each position keeps its part.

    The axis `scatter_dimension` of `x` is as long as the named axis and vanishes; if `tiled`, it is cut into as
    many parts and stays. `axis_index_groups` does so within groups of positions, all of one size.

    Raises: AxisNameError where no axis has that name; CollectiveError for a dimension or groups that don't fit.

    Of the shape `[n, m]` this makes `[m]`, and if `tiled` `[1, m]`, for `n` positions and dimension 0. Dtypes stay.
    DtypeError for bool.

    >>> from pellucid import vmap
    >>> vmap(lambda x: psum_scatter(x, "i"), axis_name="i")(np.ones((2, 2)))
    Array([2., 2.], dtype=float32)
    """
    axes, groups = axes_and_even_groups("psum_scatter", axis_name, axis_index_groups)
    parts = size_along(axes, groups)

    def scatter_leaf(leaf):
        aval = type_of(leaf)
        if aval.dtype == np.bool_:
            raise DtypeError(
                "psum_scatter does not sum booleans.", got=f"x: {aval.text()}",
                do="Convert them first: `x.astype(int)`.",
            )  # fmt: skip
        dim = canonical_axis(scatter_dimension, aval.ndim, "psum_scatter: scatter_dimension")
        do = "Pad it, scatter another dimension, or use `psum`."
        check_parts("psum_scatter", aval, dim, parts, tiled, axes, do)
        params = ScatterSumParams(groups, axes, parts, dim, tiled)
        if are_addends("psum_scatter", leaf, axes, groups):
            return bind1(unreduced_reduce_scatter_p, leaf, params=params)
        return bind1(reduce_scatter_p, vary(leaf, axes), params=params)

    return tree_map(scatter_leaf, x) if axes else x
