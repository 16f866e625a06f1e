"""`ragged_all_to_all`: exchanges of parts of different sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArrayLike,
    CollectiveError,
    DtypeError,
    Ints,
    strict_zip,
)
from pellucid._machine.ir import (
    COLLECTIVE,
    Collective,
    Operands,
    Primitive,
)
from pellucid._machine.lowering.collectives import (
    Groups,
    device_groups,
    region_of,
)
from pellucid._machine.primitives import (
    add,
    bitwise_and,
    broadcast_in_dim,
    clamp,
    convert_element_type,
    dynamic_index_in_dim,
    ge,
    index_in_dim,
    index_take,
    instantiate,
    iota,
    lt,
    select,
    sub,
    vary,
)
from pellucid._machine.sharding.partition_spec import AxisName
from pellucid._machine.tracing import bind, bind1, bound_axes, stage, type_of, types_of
from pellucid._machine.transforms import backward_pass, batch_flat
from pellucid._machine.xla import Array

from .axes import (
    POSITION,
    AxisNames,
    axes_and_even_groups,
    axis_index,
    size_along,
)
from .gathering import GatherAxesParams, all_gather_p

_NAMES = ("input_offsets", "send_sizes", "output_offsets", "recv_sizes")


class RaggedExchangeParams(NamedTuple):
    axis_name: AxisNames
    axis_index_groups: Groups | None


class RaggedAllToAll(Collective, Primitive[RaggedExchangeParams]):
    """Each position sends a slice of its operand to each other position, which writes it to its output.

    It is linear in (operand, output) jointly; derivatives and batches use `exchange_by_gathering`, which defines it.
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
        jaxpr, consts = stage(lambda *xs: [exchange_by_gathering(xs, params)], types_of(operands))
        return backward_pass(jaxpr, consts, cotangents, operands)

    def batch(self, axis, operands, dims, params):
        return batch_flat(lambda *xs: [exchange_by_gathering(xs, params)], axis, operands, dims)

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
        # The CPU lacks this operation.
        mesh = region_of(ctx, params.axis_name).mesh
        with bound_axes({name: mesh.shape[name] for name in params.axis_name}):
            return ctx.from_python(lambda *xs: exchange_by_gathering(xs, params), operands)


ragged_all_to_all_p = RaggedAllToAll()


def exchange_by_gathering(operands: Operands, params: RaggedExchangeParams) -> Any:
    """The exchange by means of other collectives: everything is gathered, and each position selects its slices."""
    operand, output, input_offsets, send_sizes, output_offsets, _ = operands
    groups = params.axis_index_groups
    size = size_along(params.axis_name, groups)
    gather = GatherAxesParams(0, groups, params.axis_name, size, False)
    here = axis_index(params.axis_name)
    if groups is not None:
        # The place of each position within its group.
        places = np.argsort(np.concatenate(groups)) % size
        here = dynamic_index_in_dim(places.astype(POSITION), here, 0, keepdims=False)

    def for_me(x):
        everywhere = bind1(all_gather_p, convert_element_type(x, POSITION), params=gather)
        return dynamic_index_in_dim(everywhere, here, 1, keepdims=False)

    sent = bind1(all_gather_p, operand, params=gather)
    starts, lengths, places = map(for_me, (input_offsets, send_sizes, output_offsets))
    rows = iota(POSITION, type_of(output).shape[0])
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
    operand: ArrayLike,
    output: ArrayLike,
    input_offsets: ArrayLike,
    send_sizes: ArrayLike,
    output_offsets: ArrayLike,
    recv_sizes: ArrayLike,
    *,
    axis_name: AxisName | Sequence[AxisName],
    axis_index_groups: Sequence[Ints] | None = None,
) -> Array:
    """`output` with rows of the operands of all positions along `axis_name` written into it.

    A position sends rows `input_offsets[j]` to `input_offsets[j] + send_sizes[j]` of its operand to position `j`,
    where they stand from row `output_offsets[j]` on; it gets `recv_sizes[j]` rows from position `j`. Other rows of
    `output` stay.

    Shapes: operand (n, …), output (m, …), offsets and sizes one integer for each position along the axis.
    Raises: CollectiveError for offsets and sizes of another shape, DtypeError if they aren't integers.

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
                "ragged_all_to_all: offsets and sizes must be integers.",
                got=f"{what}: {aval.text()}",
            )
        if aval.shape != (size,):
            raise CollectiveError(
                f"ragged_all_to_all: offsets and sizes must have one element for each of {size} positions.",
                got=f"{what}: {aval.text()}, axis_name={axes!r}",
            )
    operands = [vary(x, axes) for x in (operand, output, *layout)]
    return bind1(ragged_all_to_all_p, *operands, params=RaggedExchangeParams(axes, groups))
