"""Loops and branches in StableHLO, with tokens of ordered effects passed through them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pellucid._machine.base import fits, strict_zip
from pellucid._machine.ir import Avals, Effect, abstract_token, physical, shaped_array
from pellucid._machine.xla.mlir import ir

if TYPE_CHECKING:
    from .module import LoweringContext, OrderedEffects

Values = Sequence[Any]


def while_loop(
    ctx: LoweringContext,
    avals: Avals,
    initial: Values,
    condition: Callable[[list[Any]], Any],
    body: Callable[[list[Any]], Values],
    effects: OrderedEffects = (),
) -> list[Any]:
    """Runs `while condition(values): values = body(values)` from `initial`; returns the final values."""
    n = len(effects)
    all_avals = [*(abstract_token for _ in effects), *avals]
    with ctx.named("", "while"):
        loop = ctx.op(
            "stablehlo.while",
            ctx.types(all_avals),
            [*(ctx.tokens[e] for e in effects), *initial],
            regions=2,
        )
    outer = ctx.tokens
    with ctx.inside(loop.regions[0], all_avals) as arguments, ctx.named("while/cond/"):
        ctx.op("stablehlo.return", [], [condition(arguments[n:])])
    with ctx.inside(loop.regions[1], all_avals) as arguments, ctx.named("while/body/"):
        ctx.tokens = outer | dict(strict_zip(effects, arguments[:n]))
        ctx.loop_depth += 1
        results = body(arguments[n:])
        ctx.loop_depth -= 1
        ctx.op("stablehlo.return", [], [*(ctx.tokens[e] for e in effects), *results])
    return _without_tokens(ctx, loop, effects, outer)


def case(
    ctx: LoweringContext,
    index: Any,
    avals: Avals,
    branches: Sequence[Callable[[], Values]],
    effects: OrderedEffects = (),
) -> list[Any]:
    """Runs the branch with number `index` (int32); returns its results, of types `avals`."""
    all_avals = [*(abstract_token for _ in effects), *avals]
    operation = ctx.op("stablehlo.case", ctx.types(all_avals), [index], regions=len(branches))
    outer = ctx.tokens
    for i, (region, branch) in enumerate(strict_zip(operation.regions, branches)):
        with ctx.inside(region, []), ctx.named(f"cond/branch_{i}_fun/"):
            ctx.tokens = dict(outer)
            results = branch()
            ctx.op("stablehlo.return", [], [*(ctx.tokens[e] for e in effects), *results])
    return _without_tokens(ctx, operation, effects, outer)


def _without_tokens(
    ctx: LoweringContext, operation: ir.Operation, effects: OrderedEffects, outer: dict[Effect, Any]
) -> list[Any]:
    """Results of `operation` without the leading tokens, which become the current tokens of `effects`."""
    results: list[ir.Value] = list(operation.results)
    ctx.tokens = outer | dict(zip(effects, results, strict=False))
    return results[len(effects) :]


def counter_dtype(length: int) -> np.dtype:
    """Dtype of the counter of a loop of `length` iterations."""
    return np.dtype(np.int32 if fits(length, 2**31 - 1) else np.int64)


def element_at(ctx: LoweringContext, x: Any, aval: Any, index: Any, element: Any) -> Any:
    """`x[index]`; `index` is a scalar, `aval` and `element` are the types of `x` and of the result."""
    full, part = physical(aval), physical(element)
    window = shaped_array((1, *part.shape), part.dtype)
    scope = "jit(dynamic_index_in_dim)/"
    with ctx.named(scope, "dynamic_slice"):
        row = ctx.op1(
            "stablehlo.dynamic_slice", window, [x, *_starts(ctx, index, full.ndim)],
            {"slice_sizes": window.shape},
        )  # fmt: skip
    with ctx.named(scope, "squeeze"):
        return ctx.reshape(row, part)


def with_element_at(
    ctx: LoweringContext, x: Any, aval: Any, index: Any, value: Any, element: Any
) -> Any:
    """`x` with `x[index] = value`."""
    full, part = physical(aval), physical(element)
    scope = "jit(dynamic_update_index_in_dim)/"
    with ctx.named(scope, "broadcast_in_dim"):
        window = ctx.reshape(value, shaped_array((1, *part.shape), part.dtype))
    with ctx.named(scope, "dynamic_update_slice"):
        return ctx.op1(
            "stablehlo.dynamic_update_slice", full, [x, window, *_starts(ctx, index, full.ndim)]
        )


def _starts(ctx: LoweringContext, index: ir.Value, ndim: int) -> list[ir.Value]:
    if ndim == 1:
        return [index]
    wide = ir.RankedTensorType(index.type).element_type == ir.IntegerType.get_signless(64)
    zero = ctx.constant(np.zeros((), np.int64 if wide else np.int32))
    return [index, *[zero] * (ndim - 1)]
