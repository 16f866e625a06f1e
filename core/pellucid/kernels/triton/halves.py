"""Blocks that are joined and cut on GPUs, where sizes are powers of two: by halves, again and again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pellucid._machine.base import Shape, insert_at, replace_axis_size
from pellucid._machine.primitives import assembly
from pellucid._machine.xla.triton import arith, ir, triton

from .lowering import Lowering, rule
from .rules import reshaped

_BOOL, _BYTE = np.dtype(np.bool_), np.dtype(np.int8)


def _with_last(ctx: Lowering, x: ir.Value, axis: int) -> ir.Value:
    """A block whose axis `axis` has become the last one."""
    order = [i for i in range(len(ctx.shape(x))) if i != axis]
    return x if axis == len(order) else triton.trans(x, [*order, axis])


def _from_last(ctx: Lowering, x: ir.Value, axis: int) -> ir.Value:
    """A block whose last axis has become the axis `axis`."""
    last = len(ctx.shape(x)) - 1
    return x if axis == last else triton.trans(x, insert_at(range(last), axis, last))


def _pair(ctx: Lowering, x: ir.Value, y: ir.Value) -> ir.Value:
    """Two blocks of one shape side by side along a new last axis."""
    shape = ctx.shape(x)
    kind = ctx.type((*(shape or (1,)), 2), ctx.scalar_type(x))
    if shape:
        return triton.join(kind, x, y)
    return reshaped(ctx, triton.join(kind, *[ctx.along(v, (), (1,)) for v in (x, y)]), (2,))


def _two(ctx: Lowering, x: ir.Value) -> list[ir.Value]:
    """The two blocks that a last axis of two elements holds."""
    shape = ctx.shape(x)[:-1]
    if shape:
        return list(triton.split(x))
    return [reshaped(ctx, part, ()) for part in triton.split(reshaped(ctx, x, (1, 2)))]


def _stack_along_last(ctx: Lowering, parts: Sequence[ir.Value]) -> ir.Value:
    """Blocks of one shape along a new last axis; their number is a power of two."""
    if len(parts) == 1:
        return reshaped(ctx, parts[0], (*ctx.shape(parts[0]), 1))
    # Those at even and those at odd positions: pairs of them follow each other.
    pairs = _pair(ctx, _stack_along_last(ctx, parts[0::2]), _stack_along_last(ctx, parts[1::2]))
    return reshaped(ctx, pairs, (*ctx.shape(parts[0]), len(parts)))


def _parts_along_last(ctx: Lowering, x: ir.Value) -> list[ir.Value]:
    """The blocks along the last axis of `x`."""
    *shape, n = ctx.shape(x)
    if n == 1:
        return [reshaped(ctx, x, shape)]
    even, odd = _two(ctx, reshaped(ctx, x, (*shape, n // 2, 2)))
    pairs = zip(_parts_along_last(ctx, even), _parts_along_last(ctx, odd), strict=True)
    return [part for pair in pairs for part in pair]


def _halves(ctx: Lowering, x: ir.Value, axis: int) -> list[ir.Value]:
    """The two halves of a block along an axis."""
    shape = ctx.shape(x)
    n = shape[axis] // 2
    apart = reshaped(ctx, x, insert_at(replace_axis_size(shape, axis, n), axis, 2))
    return _two(ctx, _with_last(ctx, apart, axis))


def join(ctx: Lowering, parts: Sequence[ir.Value], axis: int) -> ir.Value:
    """Blocks one after the other along an axis; the sizes of all of them and of the whole are powers of two."""
    if len(parts) == 1:
        return parts[0]
    middle = sum(ctx.shape(x)[axis] for x in parts) // 2
    # A block that reaches over the middle is cut until none does.
    first, rest, size = list[ir.Value](), list(parts), 0
    while size < middle:
        x, *rest = rest
        n = ctx.shape(x)[axis]
        if size + n > middle:
            rest = [*_halves(ctx, x, axis), *rest]
        else:
            first.append(x)
            size += n
    pair = _pair(ctx, join(ctx, first, axis), join(ctx, rest, axis))
    shape: Shape = replace_axis_size(ctx.shape(parts[0]), axis, 2 * middle)
    return reshaped(ctx, _from_last(ctx, pair, axis), shape)


def pieces(ctx: Lowering, x: ir.Value, axis: int, start: int, size: int) -> list[ir.Value]:
    """The `size` elements from `start` along an axis of a block, as blocks whose sizes are powers of two."""
    n = ctx.shape(x)[axis]
    if not size or size == n:
        return [x] if size else []
    middle, end = n // 2, start + size
    low, high = _halves(ctx, x, axis)
    return [
        *pieces(ctx, low, axis, start, min(end, middle) - start if start < middle else 0),
        *pieces(
            ctx, high, axis, max(start - middle, 0), end - max(start, middle) if end > middle else 0
        ),
    ]


def _as_bytes(ctx: Lowering, x: ir.Value, dtype: np.dtype) -> ir.Value:
    """A block that Triton joins and cuts: booleans are bytes."""
    return arith.extui(ctx.type(ctx.shape(x), ctx.element(_BYTE)), x) if dtype == _BOOL else x


def _from_bytes(ctx: Lowering, x: ir.Value, dtype: np.dtype) -> ir.Value:
    if dtype != _BOOL:
        return x
    return arith.cmpi(arith.CmpIPredicate.ne, x, ctx.constant(0, _BYTE, ctx.shape(x)))


@rule(assembly.concatenate_p)
def _concatenate(ctx: Lowering, equation, operands):
    result = equation.results[0].aval
    ctx.type_of(result)  # a power of two
    parts = [_as_bytes(ctx, x, result.dtype) for x in operands]
    return [_from_bytes(ctx, join(ctx, parts, equation.params.dimension), result.dtype)]


@rule(assembly.stack_p)
def _stack(ctx: Lowering, equation, operands):
    result = equation.results[0].aval
    ctx.type_of(result)
    parts = [_as_bytes(ctx, x, result.dtype) for x in operands]
    x = _from_last(ctx, _stack_along_last(ctx, parts), equation.params.axis)
    return [_from_bytes(ctx, x, result.dtype)]


@rule(assembly.unstack_p)
def _unstack(ctx: Lowering, equation, operands):
    [x] = operands
    dtype = equation.operands[0].aval.dtype
    parts = _parts_along_last(ctx, _with_last(ctx, _as_bytes(ctx, x, dtype), equation.params.axis))
    return [_from_bytes(ctx, part, dtype) for part in parts]


@rule(assembly.split_p)
def _split(ctx: Lowering, equation, operands):
    [x] = operands
    axis, start, parts = equation.params.axis, 0, []
    dtype = equation.operands[0].aval.dtype
    x = _as_bytes(ctx, x, dtype)
    for result in equation.results:
        ctx.type_of(result.aval)
        size = result.aval.shape[axis]
        parts.append(_from_bytes(ctx, join(ctx, pieces(ctx, x, axis, start, size), axis), dtype))
        start += size
    return parts


@rule(assembly.slice_p)
def _slice(ctx: Lowering, equation, operands):
    [x] = operands
    params, result = equation.params, equation.results[0].aval
    if params.strides is not None and any(s != 1 for s in params.strides):
        raise ctx.unsupported(
            "values are cut without steps.", do="Read the part from the reference: `ref[::2]`."
        )
    ctx.type_of(result)
    x = _as_bytes(ctx, x, result.dtype)
    for axis, (start, size) in enumerate(zip(params.start_indices, result.shape, strict=True)):
        x = join(ctx, pieces(ctx, x, axis, start, size), axis)
    return [_from_bytes(ctx, x, result.dtype)]
