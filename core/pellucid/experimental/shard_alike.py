"""Arrays that the compiler lays out alike, under the names of `jax.experimental.shard_alike`."""

from __future__ import annotations

from typing import Any

from pellucid._machine.base.errors import ArgumentValueError
from pellucid._machine.base.functional import strict_zip
from pellucid._machine.ir.factors import words
from pellucid._machine.ir.primitive import NoParams, Primitive
from pellucid._machine.ir.traits import Traits
from pellucid._machine.primitives.creation import instantiate
from pellucid._machine.primitives.movement import brought_to, move_axis
from pellucid._machine.tracing.operands import as_operand, type_of
from pellucid._machine.tracing.trace import bind


class ShardAlike(Primitive[NoParams]):
    """Returns its two operands, to which Shardy gives one sharding, as members of a group."""

    name = "shard_alike"
    traits = Traits(kind="movement", flops=0.0, linear="all", returns_list=True, cheap=True)

    def abstract_eval(self, avals, params):
        return [aval.update(shown_sharding=None, varying=frozenset()) for aval in avals]

    def factors(self, avals, results, params):
        dims = words(avals[0].ndim)
        return [dims, dims], [dims, dims]

    def jvp(self, primals, tangents, params):
        return bind(self, *primals, params=params), bind(
            self, *map(instantiate, tangents), params=params
        )

    def transpose(self, cotangents, operands, params):
        return bind(self, *map(instantiate, cotangents), params=params)

    def batch(self, axis, operands, dims, params):
        dim = next(d for d in dims if d is not None)
        inputs = [
            brought_to(axis, x, d, dim) if d is None else move_axis(x, d, dim)
            for x, d in strict_zip(operands, dims)
        ]
        return bind(self, *inputs, params=params), [dim, dim]

    def lower(self, ctx, operands, params):
        if ctx.sharding_attributes is not None:
            group = ctx.sharding_groups = ctx.sharding_groups + 1
            for x in operands:
                ctx.op("sdy.sharding_group", [], [x], {"group_id": group})
        return list(operands)


shard_alike_p = ShardAlike()


def shard_alike(x: Any, y: Any) -> tuple[Any, Any]:
    """Both arrays, which the compiler shards alike, as far as it is free to choose.

    Raises: ArgumentValueError for arrays of other shapes or dtypes than each other.

    >>> x, y = shard_alike(np.zeros(4), np.ones(4))
    >>> y.tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    operands = [as_operand(x), as_operand(y)]
    avals = [type_of(a) for a in operands]
    if (avals[0].shape, avals[0].dtype) != (avals[1].shape, avals[1].dtype):
        raise ArgumentValueError(
            "shard_alike needs two arrays of one shape and dtype.",
            got=" and ".join(aval.text() for aval in avals),
        )
    first, second = bind(shard_alike_p, *operands, params=NoParams())
    return first, second


__all__ = ["shard_alike"]
