"""Sparse primitives: a name and a definition in gathers, scatters and products of dense arrays.

Derivatives, batches and lowering are those of the definition (`Defined`). Definitions compute with the stored elements
alone, so their derivatives do too: the cotangent of `data` has the shape of `data`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pellucid import numpy as jnp
from pellucid._machine.base import public_functions
from pellucid._machine.base.caching import cached
from pellucid._machine.higher_order.calls import Defined, JitParams
from pellucid._machine.ir.facets import Shown
from pellucid._machine.ir.jaxpr import ClosedJaxpr
from pellucid._machine.ir.traits import CONTROL
from pellucid._machine.tracing.operands import type_of
from pellucid._machine.tracing.trace import bind
from pellucid._machine.transforms.derived import stage_open
from pellucid._machine.transforms.vmap import vmap
from pellucid._machine.xla.flags import trace_context

PROGRAMS_KEPT = 4096
"""Number of definitions, for operand types and settings, that are kept."""

Settings = tuple[tuple[str, Any], ...]


class SparseParams(NamedTuple):
    """The settings of an operation by name, and its definition for the types of the operands."""

    name: str
    settings: Settings
    jaxpr: ClosedJaxpr

    def as_call(self) -> JitParams:
        """Params of a call of the definition."""
        return JitParams(self.name, self.jaxpr)


class SparseOperation(Shown, Defined[SparseParams]):
    """A primitive `name` whose results are `function(*operands, **settings)`: an array, or a tuple of arrays."""

    def __init__(
        self, name: str, function: Callable[..., Any], *, returns_list: bool = False
    ) -> None:
        self.traits = CONTROL.replace(returns_list=returns_list)
        super().__init__(name)
        self.function = function

    def bind(self, *operands: Any, **settings: Any) -> Any:
        arrays = [jnp.asarray(x) for x in operands]
        avals = tuple([type_of(x) for x in arrays])
        params, consts = _define(self, avals, tuple(settings.items()), trace_context())
        results = bind(self, *consts, *arrays, params=params)
        return list(results) if self.multiple_results else results[0]

    def get_bind_params(self, params):
        return dict(params["settings"])

    def printed_params(self, equation):
        return dict(equation.params.settings)


@cached(PROGRAMS_KEPT)
def _define(
    operation: SparseOperation, avals: tuple[Any, ...], settings: Settings, flags: Any
) -> tuple[SparseParams, list[Any]]:
    def results(*operands: Any) -> list[Any]:
        value = operation.function(*operands, **dict(settings))
        return list(value) if operation.multiple_results else [value]

    program, consts = stage_open(results, avals, None)
    return SparseParams(operation.name, settings, program), consts


def stretch_batch(x: Any, batch: tuple[int, ...]) -> Any:
    """`x` with the shape `batch` in place of its first dimensions, which have these sizes or 1."""
    return jnp.broadcast_to(x, (*batch, *x.shape[len(batch) :]))


def map_over_leading(
    function: Callable[..., Any], mapped: Sequence[Sequence[bool]], *arrays: Any
) -> Any:
    """`function` over leading dimensions: for each of them, which of the `arrays` have it in front.

    >>> map_over_leading(lambda x, y: x * y, [(True, False)], jnp.arange(3), 2)
    Array([0, 2, 4], dtype=int32)
    """
    for flags in reversed(mapped):
        function = vmap(function, in_axes=tuple([0 if flag else None for flag in flags]))
    return function(*arrays)


def over_batch(function: Callable[..., Any], batch: tuple[int, ...], *arrays: Any) -> Any:
    """`function` of one element of each of `arrays`, for all elements; batch dimensions of size 1 are stretched.

    >>> over_batch(lambda x, y: x * y, (3,), jnp.arange(3), jnp.full((1,), 2))
    Array([0, 2, 4], dtype=int32)
    """
    flags = [(True,) * len(arrays)] * len(batch)
    return map_over_leading(function, flags, *(stretch_batch(x, batch) for x in arrays))


__all__ = ["SparseOperation", "SparseParams", "over_batch", "map_over_leading", "stretch_batch"]

public_functions(__all__, globals())
