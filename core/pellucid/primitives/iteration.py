"""Lowering of primitives that are computed by iteration: series and continued fractions, until they converge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid.base import dtypes
from pellucid.ir.avals import ShapedArray, shaped_array
from pellucid.ir.rules import Operands
from pellucid.tracing.staging import stage

MOST_STEPS = 20_000
"""No iteration goes on for longer, converged or not."""

NARROWEST = np.dtype(np.float32)
"""Iterations run in this dtype at least: with fewer digits they would not converge."""


class Iteration:
    """A lowering rule: `start` a state, `step` while some element is active, `finish` with a result.

    `start(*operands)` gives the state, a list whose first item is a bool array: the active elements.
    `step(*state)` gives the next state. `finish(*operands, *state)` gives the result.
    """

    def __init__(
        self,
        start: Callable[..., Sequence[Any]],
        step: Callable[..., Sequence[Any]],
        finish: Callable[..., Any],
    ) -> None:
        self.start = start
        self.step = step
        self.finish = finish

    def __call__(self, ctx: Any, operands: Operands, params: Any) -> Any:
        [result] = ctx.avals_out
        wide = shaped_array(result.shape, widened(result.dtype))
        if wide.dtype != result.dtype:
            operands = [ctx.convert(x, wide) for x in operands]
        avals = [wide] * len(operands)
        state, state_avals = inlined(ctx, self.start, operands, avals)
        state = self.loop(ctx, state, state_avals)
        [value], _ = inlined(ctx, self.finish, [*operands, *state], [*avals, *state_avals])
        return value if wide.dtype == result.dtype else ctx.convert(value, result)

    def loop(self, ctx: Any, state: Sequence[Any], avals: Sequence[ShapedArray]) -> list[Any]:
        """The state after as many steps as it takes."""
        loop = ctx.op("stablehlo.while", ctx.types(avals), state, regions=2)
        condition, body = loop.regions
        with ctx.inside(condition, avals) as [active, *_]:
            truth = shaped_array((), np.dtype(bool))
            axes = range(avals[0].ndim)
            some = (
                ctx.reduce(active, ctx.constant(np.False_), axes, "stablehlo.or", truth)
                if axes
                else active
            )
            ctx.op("stablehlo.return", [], [some])
        with ctx.inside(body, avals) as values:
            following, _ = inlined(ctx, self.step, values, avals)
            ctx.op("stablehlo.return", [], following)
        return list(loop.results)


def widened(dtype: np.dtype) -> np.dtype:
    """The dtype in which functions of `dtype` are computed."""
    return NARROWEST if dtypes.itemsize_bits(dtype) < dtypes.itemsize_bits(NARROWEST) else dtype


def inlined(
    ctx: Any, function: Callable[..., Any], operands: Operands, avals: Sequence[ShapedArray]
) -> tuple[list[Any], list[ShapedArray]]:
    """Values of the results of a Python definition by other primitives, and their types."""

    def listed(*xs: Any) -> list[Any]:
        results = function(*xs)
        return list(results) if isinstance(results, (list, tuple)) else [results]

    jaxpr, consts = stage(listed, avals)
    return ctx.inline(jaxpr, [ctx.constant(c) for c in consts], operands), list(jaxpr.out_avals)  # pyright: ignore[reportReturnType]
