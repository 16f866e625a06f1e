"""Reductions: each thread combines what it holds, then threads exchange what they have by shuffles within a warp, and through shared memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import dtypes, strict_zip
from pellucid._machine.ir import Primitive, shaped_array
from pellucid._machine.primitives import movement, reduction
from pellucid._machine.xla.mosaic_gpu import FloatType, arith, ir, nvvm, scf
from pellucid.kernels.lowering.elements import Build, build_for, converted, float_bits
from pellucid.kernels.lowering.programs import is_float, is_unsigned

from .layouts import (
    THREADS,
    WARP,
    Accumulator,
    AccumulatorColumns,
    AccumulatorRows,
    Fragment,
    Layout,
    Replicated,
    Splat,
    Strided,
    unravel,
)
from .lowering import Lowering, rule

Values = list[ir.Value]
Combine = Callable[[Values, Values], Values]
"""Of two elements of each operand makes one."""
_FLOAT32, _INT32 = np.dtype(np.float32), np.dtype(np.int32)
_WARPS = THREADS // WARP
_MAX_ROWS = 64
"""Rows whose reductions each thread holds; of more it holds its share."""


def reduced(
    ctx: Lowering, operands: Sequence[Fragment], axes: Sequence[int], combine: Combine, neutral: Values
) -> list[Any]:  # fmt: skip
    """Blocks of one shape without some axes, along which `combine` has made one element of all; `neutral` elements change none."""
    shape = operands[0].shape
    kept = [i for i in range(len(shape)) if i not in axes]
    result = tuple([shape[i] for i in kept])
    layout = operands[0].layout
    if type(layout) is Splat or any(x.layout != layout for x in operands):
        layout = Strided(shape) if type(layout) is Splat else layout
        operands = [ctx.changed(x, layout) for x in operands]
    # By register a list of one element for each operand.
    rows = [list(row) for row in zip(*[ctx.parts(x) for x in operands], strict=True)]
    is_trailing = kept == [*range(len(kept))]
    size, count = math.prod([shape[a] for a in axes]), math.prod(result)
    if (
        type(layout) is Strided
        and is_trailing
        and (not result or (size % THREADS == 0 and count <= _MAX_ROWS))
    ):
        # Of several rows each has whole registers of all threads.
        mine = [_or_neutral(ctx, layout, r, x, neutral) for r, x in enumerate(rows)]
        n = len(mine) // count
        found = [_folded(mine[i * n : (i + 1) * n], combine) for i in range(count)]
        found = [_within_warp(ctx, x, combine, [16, 8, 4, 2, 1]) for x in found]
        found = _across_warps(ctx, found, combine)
        if not result:
            return found[0]
        return _columns(ctx, found, Replicated(result))
    if type(layout) is Replicated and is_trailing:
        found = [_folded(rows[i * size : (i + 1) * size], combine) for i in range(count)]
        return found[0] if not result else _columns(ctx, found, Replicated(result))
    if type(layout) is Accumulator and len(axes) == 1:
        return _of_accumulator(ctx, layout, rows, axes[0], combine)
    return _serially(ctx, operands, kept, combine, neutral)


def _or_neutral(
    ctx: Lowering, layout: Strided, register: int, x: Values, neutral: Values
) -> Values:
    """The elements of a register, or neutral ones in threads that hold none there."""
    holds = layout.holds(ctx, register)
    if holds is None:
        return x
    return [arith.select(holds, a, b) for a, b in strict_zip(x, neutral)]


def _folded(rows: Sequence[Values], combine: Combine) -> Values:
    """All rows combined, in pairs, so that few operations wait for each other."""
    now = [*rows]
    while len(now) > 1:
        pairs = [combine(a, b) for a, b in zip(now[::2], now[1::2], strict=False)]
        now = [*pairs, *now[len(pairs) * 2 :]]
    return now[0]


def _columns(ctx: Lowering, rows: Sequence[Values], layout: Layout) -> list[Any]:
    """A block for each operand, from the elements of all by register."""
    return [ctx.joined([row[i] for row in rows], layout) for i in range(len(rows[0]))]


def _within_warp(ctx: Lowering, x: Values, combine: Combine, distances: Sequence[int]) -> Values:
    """Elements combined with those of threads whose numbers differ in a bit, for each distance."""
    for distance in distances:
        x = combine(x, [shuffled(ctx, value, distance) for value in x])
    return x


def shuffled(ctx: Lowering, x: ir.Value, distance: int) -> ir.Value:
    """The value of the thread of the warp whose number differs by the bit `distance`."""
    kind, int32, int64 = x.type, ir.IntegerType.get_signless(32), ir.IntegerType.get_signless(64)
    if kind in (int32, ir.F32Type.get()):
        every, last = ctx.int32(-1), ctx.int32(WARP - 1)
        return nvvm.shfl_sync(
            every, x, ctx.int32(distance), last, nvvm.ShflKind.bfly, results=[kind]
        )
    if isinstance(kind, FloatType) and kind != ir.F64Type.get():
        wide = arith.extf(ir.F32Type.get(), x)
        return arith.truncf(kind, shuffled(ctx, wide, distance))
    if kind not in (int64, ir.F64Type.get()):
        return arith.trunci(kind, shuffled(ctx, arith.extui(int32, x), distance))
    bits = x if kind == int64 else arith.bitcast(int64, x)
    shift = arith.ConstantOp(int64, ir.IntegerAttr.get(int64, 32)).result
    # The lower 32 bits, then the upper ones.
    lower, upper = arith.trunci(int32, bits), arith.trunci(int32, arith.shrui(bits, shift))
    lower, upper = [arith.extui(int64, shuffled(ctx, half, distance)) for half in (lower, upper)]
    bits = arith.ori(lower, arith.shli(upper, shift))
    return bits if kind == int64 else arith.bitcast(kind, bits)


def _across_warps(
    ctx: Lowering, rows: Sequence[Values], combine: Combine, lanes: int = 1
) -> list[Values]:
    """Rows of elements, the same in threads of a warp whose numbers are the same modulo `lanes`, combined over the four warps."""
    by_warp: list[list[Values]] = [[[] for _ in range(_WARPS)] for _ in rows]
    for i in range(len(rows[0])):
        for warps, values in strict_zip(
            by_warp, ctx.exchanged_by_warp([row[i] for row in rows], lanes)
        ):
            for elements, value in strict_zip(warps, values):
                elements.append(value)
    return [_folded(warps, combine) for warps in by_warp]


def _of_accumulator(
    ctx: Lowering, layout: Accumulator, rows: Sequence[Values], axis: int, combine: Combine
) -> list[Any]:
    """Rows or columns of an `Accumulator` combined."""
    m, n = layout.shape
    of_rows = axis == 1
    goal: Any = AccumulatorRows((m,)) if of_rows else AccumulatorColumns((n,))
    groups: list[list[Values]] = [[] for _ in range(goal.registers)]
    for r, x in enumerate(rows):
        groups[goal.register_of(*layout.split(r))].append(x)
    # Four threads share a row, eight of each warp a column.
    distances = [2, 1] if of_rows else [16, 8, 4]
    found = [_within_warp(ctx, _folded(group, combine), combine, distances) for group in groups]
    if of_rows:
        return _columns(ctx, found, goal)
    # Warps hold other rows of the same columns, which threads with the same last bits hold.
    return _columns(ctx, _across_warps(ctx, found, combine, 4), goal)


def _serially(
    ctx: Lowering, operands: Sequence[Fragment], kept: Sequence[int], combine: Combine, neutral: Values
) -> list[Any]:  # fmt: skip
    """Reductions of which each thread computes its own, reading all their elements from shared memory."""
    shape = operands[0].shape
    axes = [i for i in range(len(shape)) if i not in kept]
    layout = Strided(tuple([shape[i] for i in kept]))
    size = tuple([shape[a] for a in axes])
    found: list[list[ir.Value]] = [[] for _ in operands]
    readers = ctx.exchanged_together(operands)
    for r in range(layout.registers):
        place = layout.place(ctx, r)
        lower, upper, step = [ctx.int32(n) for n in (0, math.prod(size), 1)]
        loop: Any = scf.ForOp(lower, upper, step, neutral)
        with ctx.inside(loop.body):
            inner = unravel(ctx, loop.induction_variable, size)
            whole: list[Any] = [None] * len(shape)
            for axis, x in [*strict_zip(kept, place), *strict_zip(axes, inner)]:
                whole[axis] = x
            scf.yield_(combine(list(loop.inner_iter_args), [read(whole) for read in readers]))
        for values, x in strict_zip(found, list(loop.results)):
            values.append(x)
    return [ctx.joined(values, layout) for values in found]


# Primitives ---------------------------------------------------------------------------------------------------


def _least(dtype: np.dtype) -> Any:
    if dtype == np.bool_:
        return False
    return -np.inf if is_float(dtype) else dtypes.iinfo(dtype).min


def _greatest(dtype: np.dtype) -> Any:
    if dtype == np.bool_:
        return True
    return np.inf if is_float(dtype) else dtypes.iinfo(dtype).max


def _reduction(
    primitive: Primitive, neutral_of: Callable[[np.dtype], Any], on_floats: Build | None, on_integers: Build,
    on_unsigned: Build | None = None, on_booleans: Build | None = None,
) -> None:  # fmt: skip
    @rule(primitive)
    def lower(ctx: Lowering, equation, operands):
        [x] = operands
        aval, result = equation.operands[0].aval, equation.results[0].aval
        dtype = np.dtype(aval.dtype)
        build = build_for(ctx, primitive, dtype, on_floats, on_integers, on_unsigned, on_booleans)
        axes = [*equation.params.axes]
        if not axes or type(x) is not Fragment:
            return [x]
        wide = widened(dtype)
        x = as_dtype(ctx, x, dtype, wide)
        neutral = ctx.constant(neutral_of(dtype), wide)
        combine = lambda a, b: [build(a[0], b[0])]
        [y] = reduced(ctx, [x], axes, combine, [neutral])
        return [as_dtype(ctx, y, wide, np.dtype(result.dtype))]


def widened(dtype: np.dtype) -> np.dtype:
    """The dtype that elements are combined in."""
    return _FLOAT32 if is_float(dtype) and float_bits(dtype) < 32 else dtype


def as_dtype(ctx: Lowering, x: Any, dtype: np.dtype, goal: np.dtype) -> Any:
    """A block or scalar as one of another dtype."""
    if dtype == goal:
        return x
    if type(x) is not Fragment:
        return converted(ctx, x, _scalar(dtype), goal)
    parts = [converted(ctx, part, _scalar(dtype), goal) for part in ctx.parts(x)]
    return ctx.joined(parts, x.layout)


def _scalar(dtype: np.dtype) -> Any:
    return shaped_array((), dtype)


_reduction(movement.reduce_sum_p, lambda dtype: 0, arith.addf, arith.addi)
_reduction(reduction.reduce_prod_p, lambda dtype: 1, arith.mulf, arith.muli)
_reduction(reduction.reduce_max_p, _least, arith.maximumf, arith.maxsi, arith.maxui, arith.ori)
_reduction(reduction.reduce_min_p, _greatest, arith.minimumf, arith.minsi, arith.minui, arith.andi)
_reduction(
    reduction.reduce_and_p,
    lambda dtype: True if dtype == np.bool_ else -1,
    None,
    arith.andi,
    None,
    arith.andi,
)
_reduction(reduction.reduce_or_p, lambda dtype: 0, None, arith.ori, None, arith.ori)
_reduction(reduction.reduce_xor_p, lambda dtype: 0, None, arith.xori, None, arith.xori)


def _arg_extreme(primitive: Primitive, name: str) -> None:
    @rule(primitive)
    def lower(ctx: Lowering, equation, operands):
        [x] = operands
        aval, [axis] = equation.operands[0].aval, equation.params.axes
        result, dtype = equation.results[0].aval, np.dtype(aval.dtype)
        if dtype == np.bool_:
            raise ctx.unsupported(f"there is no rule for `{primitive.name}` of bool.")
        wide = widened(dtype)
        x = as_dtype(ctx, x, dtype, wide)
        if type(x.layout) is Splat:
            x = ctx.changed(x, Strided(x.shape))
        along = [x.layout.place(ctx, r)[axis] for r in range(x.layout.registers)]

        def combine(first: Values, second: Values) -> Values:
            (a, i), (b, j) = first, second
            earlier = arith.cmpi(arith.CmpIPredicate.slt, i, j)
            if is_float(dtype):
                # NaN is the extreme, the first one of several; equal ones likewise.
                better = arith.cmpf(getattr(arith.CmpFPredicate, "O" + name), a, b)
                a_nan, b_nan = [arith.cmpf(arith.CmpFPredicate.UNO, v, v) for v in (a, b)]
                equal = arith.cmpf(arith.CmpFPredicate.OEQ, a, b)
                same = arith.ori(equal, arith.andi(a_nan, b_nan))
                is_number = arith.xori(b_nan, ctx.constant(1, np.bool_))
                better = arith.ori(better, arith.andi(a_nan, is_number))
            else:
                prefix = "u" if is_unsigned(dtype) else "s"
                better = arith.cmpi(getattr(arith.CmpIPredicate, prefix + name.lower()), a, b)
                same = arith.cmpi(arith.CmpIPredicate.eq, a, b)
            chosen = arith.ori(better, arith.andi(same, earlier))
            return [arith.select(chosen, a, b), arith.select(chosen, i, j)]

        extreme = _least(dtype) if name == "GT" else _greatest(dtype)
        neutral = [ctx.constant(extreme, wide), ctx.int32(np.iinfo(np.int32).max)]
        index = reduced(ctx, [x, ctx.joined(along, x.layout)], [axis], combine, neutral)[1]
        return [as_dtype(ctx, index, _INT32, np.dtype(result.dtype))]


_arg_extreme(reduction.argmax_p, "GT")
_arg_extreme(reduction.argmin_p, "LT")
