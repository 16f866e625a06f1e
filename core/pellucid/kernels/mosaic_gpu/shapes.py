"""Blocks with other shapes: repeated along axes, and with the same elements."""

from __future__ import annotations

import math
from typing import Any

from pellucid._machine.base import strict_zip
from pellucid._machine.xla.mosaic_gpu import ir

from .layouts import (
    THREADS,
    Accumulator,
    AccumulatorColumns,
    AccumulatorRows,
    Deferred,
    Fragment,
    Replicated,
    Splat,
    State,
    Strided,
)


def repeated(ctx: State, x: Fragment, axes: tuple[int, ...], shape: tuple[int, ...]) -> Fragment:
    """A block whose axes are those of one of `shape` at `axes`, repeated along the others and where it has one element."""
    layout = x.layout
    if type(layout) is Splat:
        return Fragment(x.value, Splat(shape))
    ctx.check_size(shape)
    if type(layout) is Deferred:
        return layout.spread(axes, shape)
    count = math.prod(x.shape)
    if count == math.prod(shape):
        return reshaped(ctx, x, shape)
    strided = Strided(shape)
    if count == 1:
        return Fragment(reshaped(ctx, x, ()), Splat(shape))  # pyright: ignore[reportArgumentType]
    varying = [a for a, n in strict_zip(axes, x.shape) if n > 1]
    rest = math.prod(shape[varying[-1] + 1 :])
    if type(layout) is Replicated and varying == [*range(len(varying))] and rest % THREADS == 0:
        # Each register holds elements of one row, the same in all threads.
        parts = ctx.parts(x)
        return ctx.joined([parts[r * THREADS // rest] for r in range(strided.registers)], strided)
    if (
        isinstance(layout, (AccumulatorRows, AccumulatorColumns))
        and Accumulator.fits(shape)
        and varying == [0 if type(layout) is AccumulatorRows else 1]
    ):
        goal, parts = Accumulator(shape), ctx.parts(x)
        places = [layout.register_of(*goal.split(r)) for r in range(goal.registers)]
        return ctx.joined([parts[i] for i in places], goal)

    def source(place: list[ir.Value]) -> list[ir.Value]:
        pairs = strict_zip(axes, x.shape)
        return [place[a] if n > 1 else ctx.int32(0) for a, n in pairs]

    return ctx.gathered(x, strided, source)


def reshaped(ctx: State, x: Any, shape: tuple[int, ...]) -> Any:
    """The elements of a block, in row-major order, with another shape."""
    if ctx.shape(x) == shape:
        return x
    if type(x) is not Fragment:
        return Fragment(x, Splat(shape))
    x = ctx.held(x)
    if not shape:  # registers without an element hold that of the last
        return ctx.parts(x)[0]
    if isinstance(x.layout, (AccumulatorRows, AccumulatorColumns)) and max(shape) == max(x.shape):
        return Fragment(x.value, type(x.layout)(shape))
    if not isinstance(x.layout, (Splat, Strided, Replicated)):
        x = ctx.changed(x, Strided(x.shape))
    return Fragment(x.value, type(x.layout)(shape))
