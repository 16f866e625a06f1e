"""Values that change places along named axes: permutations, broadcasts, transpositions with an array's own axis, parts of
different lengths, and sending and receiving apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    CollectiveError,
    DtypeError,
    Ints,
    UnsupportedError,
    expecting,
    ints,
    strict_zip,
    tree_map,
)
from pellucid._machine.ir import (
    COLLECTIVE,
    BatchAxis,
    Collective,
    Operands,
    P,
    Primitive,
    ShapedArray,
    Shown,
    abstract_token,
    shaped_array,
)
from pellucid._machine.lowering.collectives import (
    Groups,
    all_reduce,
    device_groups,
    group_attributes,
    position_along,
    region_of,
)
from pellucid._machine.primitives import (
    CollectiveParams,
    add,
    bitwise_and,
    broadcast,
    broadcast_in_dim,
    brought_to,
    canonical_axis,
    clamp,
    convert_element_type,
    dynamic_index_in_dim,
    eq,
    expand_dims,
    full_like,
    ge,
    index_in_dim,
    index_take,
    instantiate,
    iota,
    lt,
    move_axis,
    mul,
    select,
    squeeze,
    sub,
    vary,
)
from pellucid._machine.tracing import bind, bind1, bound_axes, context, stage, type_of, types_of
from pellucid._machine.transforms import backward_pass, batch_flat

from .axes import (
    AxisNames,
    Exchange,
    axes_and_even_groups,
    axis_index,
    listed_axes,
    psum_p,
    size_along,
)
from .gathering import GatherAxesParams, all_gather_p, check_parts, folded, split

Pairs = tuple[tuple[int, int], ...]
_INDEX = np.dtype(np.int32)


def of_all_positions(axis: BatchAxis, x: Any, axes: AxisNames) -> tuple[Any, Any]:
    """(values of all positions along `axes`, those of the batch among them, in front; each position in the batch).

    `x` holds the batch in front.
    """
    params = GatherAxesParams(0, None, axes, size_with(axis, axes), False)
    [everything], _ = all_gather_p.batch(axis, (x,), (0,), params)
    here: Any = np.zeros((), _INDEX)
    for name in axes:
        size, position = (axis.size, iota(_INDEX, axis.size)) if name == axis.name else (
            context.axes[name], axis_index(name))  # fmt: skip
        here = add(mul(here, np.int32(size)), position)
    return everything, here


def size_with(axis: BatchAxis, axes: AxisNames) -> int:
    """Number of positions along `axes`, of which one is that of the batch."""
    return axis.size * size_along(tuple([a for a in axes if a != axis.name]))


# ppermute -----------------------------------------------------------------------------------------


class PPermuteParams(NamedTuple):
    """`perm` holds pairs (source, destination) of positions along the axes."""

    axis_name: AxisNames
    perm: Pairs


class PPermute(Exchange[PPermuteParams]):
    """Each position gets the value of its source, or zeros if it has none."""

    name = "ppermute"

    def undo(self, cotangent, aval, params):
        inverse = tuple([(destination, source) for source, destination in params.perm])
        return bind1(self, cotangent, params=params._replace(perm=inverse))

    def among_batch(self, axis, x, dim, params):
        x = brought_to(axis, x, dim, 0)
        source = np.full(size_with(axis, params.axis_name), -1, _INDEX)
        for s, d in params.perm:
            source[d] = s
        if len(params.axis_name) == 1:
            everything, origin = x, source
        else:
            everything, here = of_all_positions(axis, x, params.axis_name)
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
        attributes = _pair_attributes(ctx, params)
        return [ctx.as_result("stablehlo.collective_permute", operands, attributes)]


ppermute_p = PPermute()


def _pair_attributes(ctx: Any, params: Any) -> dict[str, Any]:
    """The attributes by which a collective names its pairs of devices."""
    groups = device_groups(ctx, params.axis_name)
    attributes = group_attributes(ctx, groups)
    del attributes["replica_groups"]
    pairs = groups[:, np.array(params.perm, np.int64).reshape(-1, 2)].reshape(-1, 2)
    return attributes | {"source_target_pairs": ctx.int_matrix(pairs)}


def axes_and_pairs(caller: str, axis_name: Any, perm: Iterable[Ints]) -> tuple[AxisNames, Pairs]:
    """The named axes in the order of the mesh, and `perm` as a tuple of pairs.

    Raises: CollectiveError for positions that the axes lack, or that are in several pairs on one side.
    """
    names = listed_axes(caller, axis_name)
    axes = tuple([axis for axis in context.axes if axis in names])
    with expecting(f"{caller}: perm is a list of pairs (source, destination) of positions", perm):
        pairs = tuple([(s, d) for s, d in map(ints, perm)])
    size = size_along(axes)
    for what, positions in zip(("source", "destination"), strict_zip(*pairs), strict=False):
        bad = [p for p in positions if not 0 <= p < size]
        twice = sorted({p for p in positions if positions.count(p) > 1})
        if bad or twice:
            raise CollectiveError(
                f"{caller}: each position is the {what} of one pair at most, and between 0 and {size - 1}.",
                got=f"{what} {(bad or twice)[0]} in perm={list(pairs)}, axis_name={axes!r} of size {size}",
            )
    return axes, pairs


def ppermute(x: Any, axis_name: Any, perm: Iterable[Ints]) -> Any:
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


def pshuffle(x: Any, axis_name: Any, perm: Ints) -> Any:
    """`x` (arrays in a tree) sent along `axis_name`, so that position `i` gets the value of position `perm[i]`.

    Raises: CollectiveError unless `perm` holds each position once.

    >>> from pellucid import vmap
    >>> vmap(lambda x: pshuffle(x, "i", [2, 0, 1]), axis_name="i")(np.array([1, 2, 3]))
    Array([3, 1, 2], dtype=int32)
    """
    size = size_along(listed_axes("pshuffle", axis_name))
    with expecting("pshuffle: perm is a list of positions", perm):
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


class PBroadcast(Exchange[PBroadcastParams]):
    """All positions get the value of one."""

    name = "pbroadcast"
    traits = COLLECTIVE.replace(equalizes=True)

    def undo(self, cotangent, aval, params):
        summed = bind1(psum_p, cotangent, params=CollectiveParams(params.axis_name))
        is_source = eq(axis_index(params.axis_name), np.int32(params.source))
        return select(is_source, vary(summed, params.axis_name), full_like(summed, 0))

    def among_batch(self, axis, x, dim, params):
        everything, _ = of_all_positions(axis, brought_to(axis, x, dim, 0), params.axis_name)
        one = dynamic_index_in_dim(everything, params.source, 0, keepdims=False)
        return [broadcast(one, (axis.size,))], [0]

    def lower(self, ctx, operands, params):
        [x], [aval] = operands, ctx.avals_in
        groups = device_groups(ctx, params.axis_name)
        if groups.shape[1] == 1:
            return operands
        if ctx.platform == "cpu":  # which has no broadcast: all add zeros but the source
            scalar = shaped_array((), _INDEX)
            here = position_along(ctx, params.axis_name)
            is_source = ctx.compare(here, ctx.constant(np.int32(params.source)), "EQ", scalar)
            wide = aval if aval.dtype.kind != "b" else aval.update(dtype=_INDEX)
            addend = x if wide is aval else ctx.convert(x, wide)
            addend = ctx.op1("stablehlo.select", wide, [is_source, addend, ctx.zeros(wide)])
            result = all_reduce(ctx, addend, wide, "stablehlo.add", groups)
            return [result if wide is aval else ctx.convert(result, aval)]
        first = [params.source, *(i for i in range(groups.shape[1]) if i != params.source)]
        attributes = group_attributes(ctx, groups[:, first])
        return [ctx.op1("stablehlo.collective_broadcast", aval, operands, attributes)]


pbroadcast_p = PBroadcast()


def pbroadcast(x: Any, axis_name: Any, source: int) -> Any:
    """`x` (arrays in a tree) of the position `source` along `axis_name`, at all positions.

    Raises: AxisNameError where no axis has that name; CollectiveError for a position that it lacks.

    The result has the structure, the shapes and the dtypes of `x`.

    >>> from pellucid import vmap
    >>> vmap(lambda x: pbroadcast(x, "i", 1), axis_name="i")(np.array([1, 2, 3]))
    Array([2, 2, 2], dtype=int32)
    """
    axes = listed_axes("pbroadcast", axis_name)
    with expecting("pbroadcast: source is a position", source):
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
    """`split_axis` is cut into parts, one for each position; those received are joined along `concat_axis`."""

    axis_index_groups: Groups | None
    axis_name: AxisNames
    concat_axis: int
    split_axis: int
    tiled: bool
    parts: int


class AllToAll(Shown, Exchange[AllToAllParams]):
    """Each position sends a part of its value to each other, and joins the parts it gets in order of their origin."""

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

    def undo(self, cotangent, aval, params):
        swapped = params._replace(split_axis=params.concat_axis, concat_axis=params.split_axis)
        return bind1(self, cotangent, params=swapped)

    def among_batch(self, axis, x, dim, params):
        x, here = brought_to(axis, x, dim, 0), None
        if len(params.axis_name) > 1:
            x, here = of_all_positions(axis, x, params.axis_name)
        at, to = params.split_axis + 1, params.concat_axis + 1
        x = move_axis(split(x, at, params.parts), at, 0)  # destination, origin, rest
        if here is not None:
            x = index_take(x, (here,), (0,))  # batch, origin, rest
        return [folded(move_axis(x, 1, to), to)], [0]

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
    axis_name: Any,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Any = None,
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

    def exchanged(leaf):
        aval = type_of(leaf)
        at = canonical_axis(split_axis, aval.ndim, "all_to_all: split_axis")
        to = canonical_axis(concat_axis, aval.ndim, "all_to_all: concat_axis")
        check_parts(
            "all_to_all", aval, at, parts, tiled, axes, "Pad it, or split another dimension."
        )
        if not tiled and at != to:
            # The new axis stands at `concat_axis` once `split_axis` is gone.
            to, at = (to + 1, at) if at < to else (to, at + 1)
            leaf = expand_dims(leaf, (to,))
        params = AllToAllParams(groups, axes, to, at, tiled, parts)
        result = bind1(all_to_all_p, vary(leaf, axes), params=params)
        return squeeze(result, (at,)) if not tiled and at != to else result

    return tree_map(exchanged, x) if axes else x


def pswapaxes(x: Any, axis_name: Any, axis: int, *, axis_index_groups: Any = None) -> Any:
    """`x` (arrays in a tree) with the named axis and its axis `axis`, which are equally long, exchanged.

    Raises: as `all_to_all`.

    Shapes and dtypes stay.

    >>> from pellucid import vmap
    >>> vmap(lambda x: pswapaxes(x, "i", 0), axis_name="i")(np.array([[1, 2], [3, 4]]))
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


# ragged_all_to_all ---------------------------------------------------------------------------------


_NAMES = ("input_offsets", "send_sizes", "output_offsets", "recv_sizes")


class RaggedExchangeParams(NamedTuple):
    axis_name: AxisNames
    axis_index_groups: Groups | None


class RaggedAllToAll(Collective, Primitive[RaggedExchangeParams]):
    """Each position sends a slice of its operand to each other, into their outputs.

    It is linear in (operand, output) together; derivatives and batches are those of `by_gathering`, which defines it.
    """

    name = "ragged_all_to_all"
    traits = COLLECTIVE.replace(linear=None)

    def abstract_eval(self, avals, params):
        return [avals[1].update(weak_type=False)]

    def jvp(self, primals, tangents, params):
        dense_tangents = [instantiate(t) for t in tangents[:2]]
        tangents = bind(self, *dense_tangents, *primals[2:], params=params)
        return bind(self, *primals, params=params), tangents

    def transpose(self, cotangents, operands, params):
        jaxpr, consts = stage(lambda *xs: [by_gathering(xs, params)], types_of(operands))
        return backward_pass(jaxpr, consts, cotangents, operands)

    def batch(self, axis, operands, dims, params):
        return batch_flat(lambda *xs: [by_gathering(xs, params)], axis, operands, dims)

    def lower(self, ctx, operands, params):
        if ctx.platform != "cpu":
            groups = device_groups(ctx, params.axis_name, params.axis_index_groups)
            config = f"{{replica_groups = {ctx.int_matrix(groups)}, channel_id = 1 : i64}}"
            attributes = {
                "call_target_name": self.name,
                "backend_config": ctx.attribute(config),
                "api_version": ctx.integer(4, 32),
            }
            return [ctx.as_result("stablehlo.custom_call", operands, attributes)]
        # The CPU has no such operation.
        mesh = region_of(ctx, params.axis_name).mesh
        with bound_axes({name: mesh.shape[name] for name in params.axis_name}):
            return ctx.from_python(lambda *xs: by_gathering(xs, params), operands)


ragged_all_to_all_p = RaggedAllToAll()


def by_gathering(operands: Operands, params: RaggedExchangeParams) -> Any:
    """The exchange by other collectives: everything is gathered, and each position takes what is for it."""
    operand, output, input_offsets, send_sizes, output_offsets, _ = operands
    groups = params.axis_index_groups
    size = size_along(params.axis_name, groups)
    gather = GatherAxesParams(0, groups, params.axis_name, size, False)
    here = axis_index(params.axis_name)
    if groups is not None:
        places = np.argsort(np.concatenate(groups)) % size  # of each position, within its group
        here = dynamic_index_in_dim(places.astype(_INDEX), here, 0, keepdims=False)

    def for_me(x):
        everywhere = bind1(all_gather_p, convert_element_type(x, _INDEX), params=gather)
        return dynamic_index_in_dim(everywhere, here, 1, keepdims=False)

    sent = bind1(all_gather_p, operand, params=gather)
    starts, lengths, places = map(for_me, (input_offsets, send_sizes, output_offsets))
    rows = iota(_INDEX, type_of(output).shape[0])
    last = np.int32(type_of(operand).shape[0] - 1)
    for origin in range(size):
        start, length, place = (
            index_in_dim(x, origin, 0, keepdims=False) for x in (starts, lengths, places)
        )
        row = sub(rows, place)
        is_filled = bitwise_and(ge(row, np.int32(0)), lt(row, length))
        received = index_take(
            index_in_dim(sent, origin, 0, keepdims=False),
            (clamp(np.int32(0), add(row, start), last),),
            (0,),
        )
        output = select(broadcast_in_dim(is_filled, type_of(output).shape, (0,)), received, output)
    return output


def ragged_all_to_all(
    operand: Any,
    output: Any,
    input_offsets: Any,
    send_sizes: Any,
    output_offsets: Any,
    recv_sizes: Any,
    *,
    axis_name: Any,
    axis_index_groups: Any = None,
) -> Any:
    """`output` with rows of the operands of all positions along `axis_name` written into it.

    A position sends rows `input_offsets[j]` to `input_offsets[j] + send_sizes[j]` of its operand to position `j`,
    where they stand from row `output_offsets[j]` on; it gets `recv_sizes[j]` rows from position `j`. Other rows of
    `output` stay.

    Shapes: operand (n, …), output (m, …), offsets and sizes one integer for each position along the axis.
    Raises: CollectiveError for offsets and sizes of another shape, DtypeError if they are no integers.

    >>> from pellucid import vmap
    >>> send = lambda x, at: ragged_all_to_all(
    ...     x, np.zeros(2), np.arange(2), np.ones(2, int), at, np.ones(2, int), axis_name="i")
    >>> vmap(send, axis_name="i")(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[0, 0], [1, 1]]))
    Array([[1., 3.],
           [2., 4.]], dtype=float32)
    """
    axes, groups = axes_and_even_groups("ragged_all_to_all", axis_name, axis_index_groups)
    size = size_along(axes, groups)
    layout = (input_offsets, send_sizes, output_offsets, recv_sizes)
    for what, x in strict_zip(_NAMES, layout):
        aval = type_of(x)
        if aval.dtype.kind not in "iu":
            raise DtypeError(
                "ragged_all_to_all: offsets and sizes are integers.", got=f"{what}: {aval.text()}"
            )
        if aval.shape != (size,):
            raise CollectiveError(
                f"ragged_all_to_all: offsets and sizes have one element for each of {size} positions.",
                got=f"{what}: {aval.text()}, axis_name={axes!r}",
            )
    operands = [vary(x, axes) for x in (operand, output, *layout)]
    return bind1(ragged_all_to_all_p, *operands, params=RaggedExchangeParams(axes, groups))


# Two halves of a ppermute, joined by a token --------------------------------------------------------


_PLATFORMS = ("cuda", "gpu", "rocm")


class PRecvParams(NamedTuple):
    """`out_shape` is the type of what comes."""

    axis_name: AxisNames
    out_shape: ShapedArray
    perm: Pairs


class PointToPoint(Collective, Primitive[P]):
    """One half of an exchange along `params.axis_name`."""

    traits = COLLECTIVE.replace(linear=None)

    def attributes(self, ctx: Any, params: Any) -> dict[str, Any]:
        """Attributes of the StableHLO operation.

        Raises: UnsupportedError on platforms whose devices can't do it.
        """
        if ctx.platform not in _PLATFORMS:
            raise UnsupportedError(
                f"{self.name}: devices of the platform {ctx.platform!r} don't send and receive apart.",
                do="Use `ppermute`, which does both.",
            )
        return _pair_attributes(ctx, params)


class PSend(PointToPoint[PPermuteParams]):
    """Sends its operand; the result is a token."""

    name = "psend"

    def abstract_eval(self, avals, params):
        return [abstract_token]

    def lower(self, ctx, operands, params):
        attributes = self.attributes(ctx, params)
        token = ctx.op1("stablehlo.create_token", abstract_token, [])
        return [ctx.op1("stablehlo.send", abstract_token, [*operands, token], attributes)]


class PRecv(PointToPoint[PRecvParams]):
    """Receives an array after what its operand, a token, waits for."""

    name = "precv"

    def abstract_eval(self, avals, params):
        if avals[0] is not abstract_token:
            raise ArgumentTypeError(
                "precv takes a token.",
                got=avals[0].text(),
                do="Give what `psend` gave, or `create_token()`.",
            )
        return [params.out_shape]

    def lower(self, ctx, operands, params):
        types = [ctx.type(params.out_shape), ctx.type(abstract_token)]
        return [ctx.op("stablehlo.recv", types, operands, self.attributes(ctx, params)).results[0]]


psend_p = PSend()
precv_p = PRecv()


def psend(x: Any, axis_name: Any, perm: Iterable[Ints]) -> Any:
    """Send `x` (arrays in a tree) along `axis_name`; gives a token for each array.

    `perm` is as in `ppermute`. GPUs only; a program that does it can't be lowered for others.

    Raises: what `ppermute` raises.

    Arrays may have any shape and dtype; tokens have none.

    >>> from pellucid import make_jaxpr
    >>> make_jaxpr(lambda x: psend(x, "i", [(0, 1)]), axis_env=[("i", 2)])(1.0)
    { lambda ; a:f32[]. let b:Tok = psend[axis_name=('i',) perm=((0, 1),)] a in (b,) }
    """
    axes, pairs = axes_and_pairs("psend", axis_name, perm)
    params = PPermuteParams(axes, pairs)
    return tree_map(lambda leaf: bind1(psend_p, vary(leaf, axes), params=params), x)


def precv(token: Any, out_shape: Any, axis_name: Any, perm: Iterable[Ints]) -> Any:
    """The value that `psend` sent along `axis_name`, with shape and dtype of `out_shape` (in a tree), received after `token`.

    Raises: what `ppermute` raises; ArgumentTypeError for what is no token.

    >>> from pellucid import make_jaxpr
    >>> make_jaxpr(lambda x: precv(psend(x, "i", [(0, 1)]), x, "i", [(0, 1)]), axis_env=[("i", 2)])(1.0)
    { lambda ; a:f32[]. let
        b:Tok = psend[axis_name=('i',) perm=((0, 1),)] a
        c:f32[] = precv[axis_name=('i',) out_shape=float32[] perm=((0, 1),)] b
      in (c,) }
    """
    axes, pairs = axes_and_pairs("precv", axis_name, perm)

    def received(out):
        aval: Any = out if hasattr(out, "shape") and hasattr(out, "dtype") else type_of(out)
        params = PRecvParams(axes, shaped_array(tuple(aval.shape), np.dtype(aval.dtype)), pairs)
        return vary(bind1(precv_p, token, params=params), axes)

    return tree_map(received, out_shape)
