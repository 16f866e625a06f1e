"""Linear exchanges of values along named axes: what their rules share, also within groups of positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pellucid.base.errors import UnsupportedError
from pellucid.ir.factors import alike
from pellucid.ir.primitive import P, Primitive
from pellucid.ir.rules import COLLECTIVE, BatchAxis, BatchDim, Collective, Dims, Results
from pellucid.primitives.addends import restated
from pellucid.primitives.movement import Movement, move_axis, reshape, with_batch_dim
from pellucid.primitives.slicing import index_take
from pellucid.tracing.trace import bind, type_of
from pellucid.transforms.vmap import batch_flat, brought_to


class Exchange(Collective, Movement[P]):
    """A linear exchange of values along `params.axis_name`, also within `params.axis_index_groups` if there are such."""

    traits = COLLECTIVE
    state: ClassVar[str | None] = None
    """The state of the result along the axes (see `restated`), where it isn't that of the operand."""

    def factors(self, avals, results, params):
        return alike(avals, results, "!", self.worked_dims(params))

    def typed(self, avals, results, params: Any):
        [result] = super().typed(avals, results, params)
        if self.state is None:
            return [result]
        mesh = getattr(params, "mesh", None)
        return [restated(result, frozenset(params.axis_name), self.state, mesh)]

    def batch(self, axis, operands, dims, params: Any):
        [x], [dim] = operands, dims
        if axis.name is None or axis.name not in params.axis_name:
            if dim is None:
                return bind(self, x, params=params), [None]
            behind = with_batch_dim(params, self.dim_fields, 0)
            return bind(self, move_axis(x, dim, 0), params=behind), [0]
        if getattr(params, "axis_index_groups", None) is not None:
            return batched_in_groups(self, axis, x, dim, params, params.axis_name)
        return self.among_batch(axis, x, dim, params)

    def among_batch(
        self, axis: BatchAxis, x: Any, dim: BatchDim, params: Any
    ) -> tuple[Results, Dims]:
        """The batch rule where the batch is one of the named axes, and there are no groups."""
        raise self.missing("batch")


def batched_in_groups(
    primitive: Primitive[Any],
    axis: BatchAxis,
    x: Any,
    dim: BatchDim,
    params: Any,
    axes: Sequence[Any],
) -> tuple[Sequence[Any], Sequence[BatchDim]]:
    """The batch rule of a collective over `axes` whose `axis_index_groups` split the batch `axis`.

    Each group is a batch of its own, and they are a batch of groups.

    Raises: UnsupportedError for groups of several sizes, and where positions are counted along other axes too.
    """
    groups = params.axis_index_groups
    if len(axes) > 1 or len({len(group) for group in groups}) > 1:
        raise UnsupportedError(
            f"{primitive.name}: vmap needs groups of one size, along its axis alone.",
            got=f"axis_index_groups={[list(g) for g in groups]}, axis_name={tuple(axes)!r}",
            do="Use shard_map, or two nested vmaps with an axis name each.",
        )
    order = np.array(groups)
    x = brought_to(axis, x, dim, 0)
    grouped = reshape(
        index_take(x, (order.reshape(-1),), (0,)), (*order.shape, *type_of(x).shape[1:])
    )
    within = BatchAxis(order.shape[1], axis.name)
    alone = params._replace(axis_index_groups=None)

    def one_group(part: Any) -> list[Any]:
        [result], [result_dim] = primitive.batch(within, (part,), (0,), alone)
        return [brought_to(within, result, result_dim, 0)]

    [results], [result_dim] = batch_flat(one_group, BatchAxis(len(order)), [grouped], [0])
    results = brought_to(BatchAxis(len(order)), results, result_dim, 0)
    flat = reshape(results, (axis.size, *type_of(results).shape[2:]))
    return [index_take(flat, (np.argsort(order.reshape(-1)),), (0,))], [0]
