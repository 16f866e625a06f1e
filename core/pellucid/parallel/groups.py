"""Collectives within groups of positions, along an axis that `vmap` binds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid.base.errors import UnsupportedError
from pellucid.ir.primitive import Primitive
from pellucid.ir.rules import BatchAxis, BatchDim
from pellucid.primitives.broadcasting import broadcast
from pellucid.primitives.movement import move_axis, reshape
from pellucid.primitives.slicing import index_take
from pellucid.tracing.values import type_of
from pellucid.transforms.vmap import batch_flat, brought_to


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
    x = broadcast(x, (axis.size,)) if dim is None else move_axis(x, dim, 0)
    grouped = reshape(
        index_take(x, (order.reshape(-1),), (0,)), (*order.shape, *type_of(x).shape[1:])
    )
    within = BatchAxis(order.shape[1], axis.name)
    alone = params._replace(axis_index_groups=None)

    def one_group(part: Any) -> list[Any]:
        [result], [found] = primitive.batch(within, (part,), (0,), alone)
        return [brought_to(within, result, found, 0)]

    [results], [found] = batch_flat(one_group, BatchAxis(len(order)), [grouped], [0])
    results = brought_to(BatchAxis(len(order)), results, found, 0)
    flat = reshape(results, (axis.size, *type_of(results).shape[2:]))
    return [index_take(flat, (np.argsort(order.reshape(-1)),), (0,))], [0]
