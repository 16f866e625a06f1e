"""`stop_gradient`: the value itself, whose derivative is taken to be zero."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pellucid.ir.primitive import NoParams, Primitive
from pellucid.ir.rules import BatchAxis, BatchDim, Zero
from pellucid.tracing.trace import bind1
from pellucid.tracing.tracer import Tracer
from pellucid.tracing.values import type_of
from pellucid.xla.pytree import flatten


class StopGradient(Primitive[NoParams]):
    name = "stop_gradient"

    def abstract_eval(self, avals: tuple[Any, ...], params: NoParams) -> Sequence[Any]:
        return avals

    def explicit_sharding(self, avals: tuple[Any, ...], results: Sequence[Any], params: NoParams) -> Sequence[Any]:
        return avals

    def jvp(self, primals: tuple[Any, ...], tangents: tuple[Any, ...], params: NoParams) -> tuple[Any, Any]:
        [x] = primals
        return [stop_gradient(x)], [Zero(type_of(x).tangent())]

    def batch(
        self, axis: BatchAxis, operands: tuple[Any, ...], dims: tuple[BatchDim, ...], params: NoParams
    ) -> tuple[Sequence[Any], Sequence[BatchDim]]:
        return [stop_gradient(operands[0])], dims

    def lower(self, ctx: Any, operands: Sequence[Any], params: NoParams) -> Sequence[Any]:
        return operands


stop_gradient_p = StopGradient()


def stop_gradient(x: Any) -> Any:
    """The tree `x` of arrays, taken as a constant by every derivative.

    >>> stop_gradient({"a": np.arange(2)})
    {'a': array([0, 1])}
    """
    leaves, tree = flatten(x)
    return tree.unflatten([bind1(stop_gradient_p, leaf) if isinstance(leaf, Tracer) else leaf for leaf in leaves])


__all__ = ["stop_gradient", "stop_gradient_p"]
