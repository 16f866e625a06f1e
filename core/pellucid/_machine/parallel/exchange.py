"""Exchanges along named axes: permutations, broadcasts, transpositions with an array's own axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    CollectiveError,
    Ints,
    expecting,
    ints,
    strict_zip,
    tree_map,
)
from pellucid._machine.ir import (
    COLLECTIVE,
    BatchAxis,
    Shown,
    shaped_array,
)
from pellucid._machine.lowering.collectives import (
    Groups,
    all_reduce,
    device_groups,
    group_attributes,
    position_along,
)
from pellucid._machine.primitives import (
    CollectiveParams,
    add,
    broadcast,
    broadcast_in_dim,
    brought_to,
    canonical_axis,
    dynamic_index_in_dim,
    eq,
    expand_dims,
    full_like,
    index_take,
    iota,
    move_axis,
    mul,
    select,
    squeeze,
    sum_along,
    vary,
)
from pellucid._machine.sharding.partition_spec import AxisName
from pellucid._machine.tracing import bind1, context, type_of

from .axes import (
    POSITION,
    AxisNames,
    LinearExchange,
    axes_and_even_groups,
    axis_index,
    listed_axes,
    size_along,
)
from .gathering import GatherAxesParams, all_gather_p, check_parts, merge_axes, split

Pairs = tuple[tuple[int, int], ...]


def gather_positions(axis: BatchAxis, x: Any, axes: AxisNames) -> tuple[Any, Any]:
    """(values of all positions along `axes`, the batch's too, along one leading axis; each position in the batch).

    The batch is the leading axis of `x`.
    """
    params = GatherAxesParams(0, None, axes, size_with(axis, axes), False)
    [everything], _ = all_gather_p.batch(axis, (x,), (0,), params)
    here: Any = np.zeros((), POSITION)
    for name in axes:
        size, position = (axis.size, iota(POSITION, axis.size)) if name == axis.name else (
            context.axes[name], axis_index(name))  # fmt: skip
        here = add(mul(here, np.int32(size)), position)
    return everything, here


def size_with(axis: BatchAxis, axes: AxisNames) -> int:
    """Number of positions along `axes`, one of which is the batch's."""
    return axis.size * size_along(tuple([a for a in axes if a != axis.name]))


# ppermute -----------------------------------------------------------------------------------------


class PPermuteParams(NamedTuple):
    """`perm` contains pairs (source, destination) of positions along the axes."""

    axis_name: AxisNames
    perm: Pairs


class PPermute(LinearExchange[PPermuteParams]):
    """Each position receives the value of its source, or zeros if it has none."""

    name = "ppermute"

    def operand_cotangent(self, cotangent, aval, params):
        inverse = tuple([(destination, source) for source, destination in params.perm])
        return bind1(self, cotangent, params=params._replace(perm=inverse))

    def among_batch(self, axis, x, dim, params):
        x = brought_to(axis, x, dim, 0)
        source = np.full(size_with(axis, params.axis_name), -1, POSITION)
        for s, d in params.perm:
            source[d] = s
        if len(params.axis_name) == 1:
            everything, origin = x, source
        else:
            everything, here = gather_positions(axis, x, params.axis_name)
            origin = index_take(source, (here,), (0,))
        received = index_take(everything, (origin,), (0,))
        if not (source >= 0).all():
            has_source = broadcast_in_dim(origin >= 0, type_of(received).shape, (0,))
            received = select(has_source, received, full_like(received, 0))
        return [received], [0]

    def lower(self, ctx, operands, params):
        groups = device_groups(ctx, params.axis_name)
        if groups.shape[1] == 1:
            return [operands[0] if params.perm else ctx.zeros(ctx.avals_out[0])]
        attributes = pair_attributes(ctx, params)
        return [ctx.as_result("stablehlo.collective_permute", operands, attributes)]


ppermute_p = PPermute()


def pair_attributes(ctx: Any, params: Any) -> dict[str, Any]:
    """The attributes in which a collective lists its pairs of devices."""
    groups = device_groups(ctx, params.axis_name)
    attributes = group_attributes(ctx, groups)
    del attributes["replica_groups"]
    pairs = groups[:, np.array(params.perm, np.int64).reshape(-1, 2)].reshape(-1, 2)
    return attributes | {"source_target_pairs": ctx.int_matrix(pairs)}


def axes_and_pairs(caller: str, axis_name: Any, perm: Iterable[Ints]) -> tuple[AxisNames, Pairs]:
    """(the named axes in the order of the mesh, `perm` as a tuple of pairs).

    Raises: CollectiveError for positions out of range, or in several pairs on the same side.
    """
    names = listed_axes(caller, axis_name)
    axes = tuple([axis for axis in context.axes if axis in names])
    with expecting(
        f"{caller}: perm must be a list of pairs (source, destination) of positions", perm
    ):
        pairs = tuple([(s, d) for s, d in map(ints, perm)])
    size = size_along(axes)
    for what, positions in zip(("source", "destination"), strict_zip(*pairs), strict=False):
        bad = [p for p in positions if not 0 <= p < size]
        twice = sorted({p for p in positions if positions.count(p) > 1})
        if bad or twice:
            raise CollectiveError(
                f"{caller}: each position must be the {what} of one pair at most, and between 0 and {size - 1}.",
                got=f"{what} {(bad or twice)[0]} in perm={list(pairs)}, axis_name={axes!r} of size {size}",
            )
    return axes, pairs


def ppermute(x: Any, axis_name: AxisName | Sequence[AxisName], perm: Iterable[Ints]) -> Any:
    """`x` (arrays in a tree) sent along `axis_name`: `perm` holds pairs (source, destination) of positions.

    A position that is no destination gets zeros. Along several axes positions are counted with the innermost axis (the
    last of the mesh) fastest, in whatever order they are named.

    Raises: AxisNameError where no axis has that name; CollectiveError for positions that the axis lacks, or that are
    the source or the destination of several pairs.

    The result has the structure, the shapes and the dtypes of `x`.

    >>> from pellucid import vmap
    >>> vmap(lambda x: ppermute(x, "i", [(0, 1), (1, 2)]), axis_name="i")(np.array([1, 2, 3]))
    Array([0, 1, 2], dtype=int32)
    """
    axes, pairs = axes_and_pairs("ppermute", axis_name, perm)
    params = PPermuteParams(axes, pairs)
    return tree_map(lambda leaf: bind1(ppermute_p, vary(leaf, axes), params=params), x)


def pshuffle(x: Any, axis_name: AxisName | Sequence[AxisName], perm: Ints) -> Any:
    """`x` (arrays in a tree) sent along `axis_name`, so that position `i` gets the value of position `perm[i]`.

    Raises: CollectiveError unless `perm` holds each position once.

    >>> from pellucid import vmap
    >>> vmap(lambda x: pshuffle(x, "i", [2, 0, 1]), axis_name="i")(np.array([1, 2, 3]))
    Array([3, 1, 2], dtype=int32)
    """
    size = size_along(listed_axes("pshuffle", axis_name))
    with expecting("pshuffle: perm must be a list of positions", perm):
        sources = ints(perm)
    if sorted(sources) != list(range(size)):
        raise CollectiveError(
            "pshuffle: perm must hold each position along the axis exactly once.",
            got=f"perm={list(sources)}, axis_name={axis_name!r} of size {size}",
        )
    return ppermute(x, axis_name, [(source, i) for i, source in enumerate(sources)])


# pbroadcast ---------------------------------------------------------------------------------------


class PBroadcastParams(NamedTuple):
    axis_name: AxisNames
    source: int


class PBroadcast(LinearExchange[PBroadcastParams]):
    """All positions receive the value of one."""

    name = "pbroadcast"
    traits = COLLECTIVE.replace(equalizes=True)

    def operand_cotangent(self, cotangent, aval, params):
        summed = sum_along(cotangent, CollectiveParams(params.axis_name))
        is_source = eq(axis_index(params.axis_name), np.int32(params.source))
        return select(is_source, vary(summed, params.axis_name), full_like(summed, 0))

    def among_batch(self, axis, x, dim, params):
        everything, _ = gather_positions(axis, brought_to(axis, x, dim, 0), params.axis_name)
        one = dynamic_index_in_dim(everything, params.source, 0, keepdims=False)
        return [broadcast(one, (axis.size,))], [0]

    def lower(self, ctx, operands, params):
        [x], [aval] = operands, ctx.avals_in
        groups = device_groups(ctx, params.axis_name)
        if groups.shape[1] == 1:
            return operands
        # The CPU has no broadcast: positions are summed, and all but the source contribute zeros.
        if ctx.platform == "cpu":
            scalar = shaped_array((), POSITION)
            here = position_along(ctx, params.axis_name)
            is_source = ctx.compare(here, ctx.constant(np.int32(params.source)), "EQ", scalar)
            wide = aval if aval.dtype.kind != "b" else aval.update(dtype=POSITION)
            addend = x if wide is aval else ctx.convert(x, wide)
            addend = ctx.op1("stablehlo.select", wide, [is_source, addend, ctx.zeros(wide)])
            result = all_reduce(ctx, addend, wide, "stablehlo.add", groups)
            return [result if wide is aval else ctx.convert(result, aval)]
        first = [params.source, *(i for i in range(groups.shape[1]) if i != params.source)]
        attributes = group_attributes(ctx, groups[:, first])
        return [ctx.op1("stablehlo.collective_broadcast", aval, operands, attributes)]


pbroadcast_p = PBroadcast()


def pbroadcast(x: Any, axis_name: AxisName | Sequence[AxisName], source: int) -> Any:
    """`x` (arrays in a tree) of the position `source` along `axis_name`, at all positions.

    Raises: AxisNameError where no axis has that name; CollectiveError for a position that it lacks.

    The result has the structure, the shapes and the dtypes of `x`.

    >>> from pellucid import vmap
    >>> vmap(lambda x: pbroadcast(x, "i", 1), axis_name="i")(np.array([1, 2, 3]))
    Array([2, 2, 2], dtype=int32)
    """
    axes = listed_axes("pbroadcast", axis_name)
    with expecting("pbroadcast: source must be a position", source):
        [source] = ints([source])
    if not 0 <= source < size_along(axes):
        raise CollectiveError(
            f"pbroadcast: the axis has no position {source}.",
            got=f"axis_name={axes!r} of size {size_along(axes)}",
        )
    params = PBroadcastParams(axes, source)
    return tree_map(lambda leaf: bind1(pbroadcast_p, vary(leaf, axes), params=params), x)


# all_to_all ---------------------------------------------------------------------------------------


class AllToAllParams(NamedTuple):
    """`split_axis` is divided into parts, one per position; received parts are joined along `concat_axis`."""

    axis_index_groups: Groups | None
    axis_name: AxisNames
    concat_axis: int
    split_axis: int
    tiled: bool
    parts: int


class AllToAll(Shown, LinearExchange[AllToAllParams]):
    """Each position sends a part of its value to each other one, and joins the received parts in order of their source."""

    name = "all_to_all"
    dim_fields, unshown = ("split_axis", "concat_axis"), ("parts",)

    def abstract_eval(self, avals, params):
        [x] = avals
        shape = list(x.shape)
        shape[params.split_axis] //= params.parts
        shape[params.concat_axis] *= params.parts
        return [x.update(shape=tuple(shape), weak_type=False)]

    def printed_params(self, equation):
        names = equation.params.axis_name
        shown = {"axis_name": names[0] if len(names) == 1 else names}
        return super().printed_params(equation) | shown

    def operand_cotangent(self, cotangent, aval, params):
        swapped = params._replace(split_axis=params.concat_axis, concat_axis=params.split_axis)
        return bind1(self, cotangent, params=swapped)

    def among_batch(self, axis, x, dim, params):
        x, here = brought_to(axis, x, dim, 0), None
        if len(params.axis_name) > 1:
            x, here = gather_positions(axis, x, params.axis_name)
        at, to = params.split_axis + 1, params.concat_axis + 1
        x = move_axis(split(x, at, params.parts), at, 0)  # destination, origin, rest
        if here is not None:
            x = index_take(x, (here,), (0,))  # batch, origin, rest
        return [merge_axes(move_axis(x, 1, to), to)], [0]

    def lower(self, ctx, operands, params):
        if params.parts == 1:
            return operands
        groups = device_groups(ctx, params.axis_name, params.axis_index_groups)
        attributes = group_attributes(ctx, groups) | {
            "split_dimension": params.split_axis,
            "concat_dimension": params.concat_axis,
            "split_count": groups.shape[1],
        }
        return [ctx.as_result("stablehlo.all_to_all", operands, attributes)]


all_to_all_p = AllToAll()


def all_to_all(
    x: Any,
    axis_name: AxisName | Sequence[AxisName],
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Sequence[Ints] | None = None,
    tiled: bool = False,
) -> Any:
    """`x` (arrays in a tree) with the named axis and the axis `split_axis` exchanged.

    Each position sends the part of `x` at `j` along `split_axis` to position `j`, and stacks what it gets along a new
    axis `concat_axis`; if `tiled`, `split_axis` is cut into as many parts, which are concatenated along
    `concat_axis`, so that the rank stays. `axis_index_groups` does so within groups of positions, all of one size.

    Raises: AxisNameError where no axis has that name; CollectiveError for a size or groups that don't fit.

    Dtypes stay. Of the shape `[n, m]` with `split_axis=0` and `concat_axis=1` this makes `[m, n]`, and if `tiled` `[1,
    n * m]`, for `n` positions.

    >>> from pellucid import vmap
    >>> vmap(lambda x: all_to_all(x, "i", 0, 0), axis_name="i")(np.array([[1, 2], [3, 4]]))
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    axes, groups = axes_and_even_groups("all_to_all", axis_name, axis_index_groups)
    parts = size_along(axes, groups)

    def exchange_leaf(leaf):
        aval = type_of(leaf)
        at = canonical_axis(split_axis, aval.ndim, "all_to_all: split_axis")
        to = canonical_axis(concat_axis, aval.ndim, "all_to_all: concat_axis")
        check_parts(
            "all_to_all", aval, at, parts, tiled, axes, "Pad it, or split another dimension."
        )
        if not tiled and at != to:
            # The new axis is at `concat_axis` after `split_axis` has been removed.
            to, at = (to + 1, at) if at < to else (to, at + 1)
            leaf = expand_dims(leaf, (to,))
        params = AllToAllParams(groups, axes, to, at, tiled, parts)
        result = bind1(all_to_all_p, vary(leaf, axes), params=params)
        return squeeze(result, (at,)) if not tiled and at != to else result

    return tree_map(exchange_leaf, x) if axes else x


def pswapaxes(
    x: Any,
    axis_name: AxisName | Sequence[AxisName],
    axis: int,
    *,
    axis_index_groups: Sequence[Ints] | None = None,
) -> Any:
    """`x` (arrays in a tree) with the named axis and its axis `axis`, which are equally long, exchanged.

    Raises: as `all_to_all`.

    Shapes and dtypes stay.

    >>> from pellucid import vmap
    >>> vmap(lambda x: pswapaxes(x, "i", 0), axis_name="i")(np.array([[1, 2], [3, 4]]))
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)
