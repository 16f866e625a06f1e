"""Lowering of formulas and of iterations: series and continued fractions, until they converge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid.base import dtypes
from pellucid.ir import Operands, ShapedArray, shaped_array
from pellucid.tracing import stage

from .formulas import Term

MAX_STEPS = 20_000
"""Maximum number of steps of an iteration, converged or not."""

_NARROWEST = np.dtype(np.float32)
"""Narrowest dtype of intermediate values: with fewer digits iterations would not converge."""

Avals = Sequence[ShapedArray]


class Formula:
    """A lowering rule: `function` of terms, computed in float32 at least."""

    def __init__(self, function: Callable[..., Term]) -> None:
        self.function = function

    def __call__(self, ctx: Any, operands: Operands, params: Any) -> Any:
        [result] = ctx.avals_out
        wide = shaped_array(result.shape, result.dtype)
        if dtypes.itemsize_bits(result.dtype) < dtypes.itemsize_bits(_NARROWEST):
            wide = wide.update(dtype=_NARROWEST)
            operands = [ctx.convert(x, wide) for x in operands]
        value = self.lowered(ctx, operands, [wide] * len(operands))
        return value if wide.dtype == result.dtype else ctx.convert(value, result)

    def lowered(self, ctx: Any, operands: Operands, avals: Avals) -> Any:
        """The result for `operands` of types `avals`, all wide enough."""
        return inlined(ctx, lambda *terms: [self.function(*terms)], operands, avals)[0][0]


class Iteration(Formula):
    """A lowering rule: `start` a state, `step` while some element is active, `finish` with a result.

    `start(*operands)` gives the state, a list whose first item is a bool array: the active elements.
    `step(*state)` gives the next state. `finish(*operands, *state)` gives the result.
    """

    def __init__(
        self,
        start: Callable[..., Sequence[Term]],
        step: Callable[..., Sequence[Term]],
        finish: Callable[..., Term],
    ) -> None:
        super().__init__(finish)
        self.start = start
        self.step = step

    def lowered(self, ctx, operands, avals):
        state, state_avals = inlined(ctx, self.start, operands, avals)
        state = self.loop(ctx, state, state_avals)
        return super().lowered(ctx, [*operands, *state], [*avals, *state_avals])

    def loop(self, ctx: Any, state: Sequence[Any], avals: Avals) -> list[Any]:
        """The state when no element is active any more."""
        loop = ctx.op("stablehlo.while", ctx.types(avals), state, regions=2)
        condition, body = loop.regions
        with ctx.inside(condition, avals) as [active, *_]:
            if avals[0].ndim:
                truth = shaped_array((), np.dtype(bool))
                axes = range(avals[0].ndim)
                active = ctx.reduce(active, ctx.constant(np.False_), axes, "stablehlo.or", truth)
            ctx.op("stablehlo.return", [], [active])
        with ctx.inside(body, avals) as values:
            ctx.op("stablehlo.return", [], inlined(ctx, self.step, values, avals)[0])
        return list(loop.results)


def inlined(
    ctx: Any, function: Callable[..., Sequence[Term]], operands: Operands, avals: Avals
) -> tuple[list[Any], list[Any]]:
    """Lowered results of a function of terms, and their types."""
    jaxpr, consts = stage(lambda *xs: [term.value for term in function(*map(Term, xs))], avals)
    return ctx.inline(jaxpr, [ctx.constant(c) for c in consts], operands), list(jaxpr.out_avals)
