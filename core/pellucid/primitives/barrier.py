"""A barrier that the compiler may not move computations across."""

from __future__ import annotations

from typing import Any

from pellucid.base import tree
from pellucid.ir.primitive import Primitive
from pellucid.ir.rules import MOVEMENT, Operands, Zero, is_linear
from pellucid.tracing.trace import bind


class OptimizationBarrier(Primitive[Any]):
    """Gives its operands back, any number of them."""

    name = "optimization_barrier"
    traits = MOVEMENT.replace(returns_list=True)

    def abstract_eval(self, avals, params):
        return avals

    def factors(self, avals, results, params):
        return None  # the types have their shardings already

    def jvp(self, primals, tangents, params):
        return bind(self, *primals), _through_barrier(tangents)

    def transpose(self, cotangents, operands, params):
        return [
            c if is_linear(x) else None
            for c, x in zip(_through_barrier(cotangents), operands, strict=True)
        ]

    def batch(self, axis, operands, dims, params):
        return bind(self, *operands), dims

    def lower(self, ctx, operands, params):
        return list(
            ctx.op("stablehlo.optimization_barrier", ctx.types(ctx.avals_out), operands).results
        )


optimization_barrier_p = OptimizationBarrier()


def _through_barrier(tangents: Operands) -> list[Any]:
    """`tangents` behind a barrier of their own; known zeros need none."""
    nonzero = iter(bind(optimization_barrier_p, *(t for t in tangents if type(t) is not Zero)))
    return [t if type(t) is Zero else next(nonzero) for t in tangents]


def optimization_barrier(operand: Any, /) -> Any:
    """`operand`, an array or a tree of arrays, none of which is available before all of them are.

    The compiler moves no computation across the barrier.
    Source: StableHLO specification, `optimization_barrier`.

    >>> optimization_barrier((np.float32(1), np.float32(2)))
    (Array(1., dtype=float32), Array(2., dtype=float32))
    """
    leaves, structure = tree.tree_flatten(operand)
    return structure.unflatten(bind(optimization_barrier_p, *leaves)) if leaves else operand


__all__ = ["optimization_barrier", "optimization_barrier_p"]
