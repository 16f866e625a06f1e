"""Cumulative operations on blocks: each element becomes one of all before it."""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid._machine.ir import Primitive
from pellucid._machine.primitives import cumulative
from pellucid._machine.xla.mosaic_gpu import arith
from pellucid.kernels.lowering.elements import Build, build_for

from .layouts import Splat, Strided
from .lowering import Lowering, rule
from .reductions import as_dtype, widened


def _cumulative(
    primitive: Primitive, on_floats: Build, on_integers: Build, on_unsigned: Build | None = None
) -> None:
    """A row of the table: each element becomes one of all up to it, in as many exchanges as its position has bits."""

    @rule(primitive)
    def lower(ctx: Lowering, equation, operands):
        [x] = operands
        aval, (axis, is_reversed) = equation.operands[0].aval, equation.params
        dtype = np.dtype(aval.dtype)
        build = build_for(ctx, primitive, dtype, on_floats, on_integers, on_unsigned, None)
        wide = widened(dtype)
        layout: Any = Strided(x.shape) if type(x.layout) is Splat else x.layout
        x = as_dtype(ctx, ctx.changed(x, layout), dtype, wide)
        size, distance = aval.shape[axis], 1
        places = [layout.place(ctx, r) for r in range(layout.registers)]
        while distance < size:
            read, values = ctx.exchanged(x), []
            for value, place in zip(ctx.parts(x), places, strict=True):
                along = ctx.plus(place[axis], distance if is_reversed else -distance)
                last = ctx.int32(size - 1)
                is_there = (
                    arith.cmpi(arith.CmpIPredicate.sle, along, last)
                    if is_reversed
                    else arith.cmpi(arith.CmpIPredicate.sge, along, ctx.int32(0))
                )
                moved = arith.minsi(arith.maxsi(along, ctx.int32(0)), last)
                other = read([moved if i == axis else p for i, p in enumerate(place)])
                values.append(arith.select(is_there, build(other, value), value))
            x = ctx.joined(values, layout)
            distance *= 2
        return [as_dtype(ctx, x, wide, dtype)]


_cumulative(cumulative.cumsum_p, arith.addf, arith.addi)
_cumulative(cumulative.cumprod_p, arith.mulf, arith.muli)
_cumulative(cumulative.cummax_p, arith.maximumf, arith.maxsi, arith.maxui)
_cumulative(cumulative.cummin_p, arith.minimumf, arith.minsi, arith.minui)
