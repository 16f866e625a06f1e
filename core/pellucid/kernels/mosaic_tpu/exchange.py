"""Elements that change places along a dimension: reversal, gathers, cumulative combinations, sorting.

Rows and lanes are exchanged by rotating whole vectors: elements that have come from the wrong end are masked away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import dtypes
from pellucid._machine.ir import Primitive
from pellucid._machine.primitives import cumulative, movement, sorting
from pellucid._machine.primitives.gather import gather_p
from pellucid._machine.primitives.index_dims import GatherScatterMode, other_axes
from pellucid._machine.xla.mosaic_tpu import arith, ir, tpu, vector
from pellucid.kernels.lowering.elements import converted
from pellucid.kernels.lowering.programs import is_float, is_unsigned

from .lowering import Lowering, rule
from .rules import positions
from .tiles import LANES, ROWS

_INT32, _UINT32, _FLOAT32 = map(np.dtype, ("int32", "uint32", "float32"))
_MAX_SORTED = 1024
"""Elements along the dimension of a sort: a thousand take 55 comparisons of whole arrays."""
_MAX_CHOICES = 128
"""Elements along the dimension of a gather that chooses among them one after another."""
_MAX_PAIRS_OF_TILES = 64
"""Gathers within tiles that one gather along a dimension is made of."""


def _wide(dtype: Any) -> np.dtype:
    """The dtype of 32 bits that has all values of a dtype."""
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return _INT32
    return _FLOAT32 if is_float(dtype) else _UINT32 if is_unsigned(dtype) else _INT32


def _at_least_two(ctx: Lowering, x: ir.Value, axis: int) -> tuple[ir.Value, int]:
    """A vector of one dimension as one row of a matrix, and the axis of it."""
    shape = ctx.shape(x)
    return (ctx.reshaped(x, (1, *shape)), axis + 1) if len(shape) == 1 else (x, axis)


def _check_rotation(ctx: Lowering, shape: Sequence[int], axis: int) -> None:
    if axis == len(shape) - 1 and shape[axis] % LANES:
        raise ctx.unsupported(
            f"elements change places along the last dimension if it has a multiple of {LANES} of them.",
            f"a value of shape {[*shape]} along dimension {axis}",
            do="Pad it, or work along another dimension.",
        )


def _rotated(ctx: Lowering, x: ir.Value, amount: int, axis: int) -> ir.Value:
    """A vector of 32-bit elements whose elements are moved by `amount` along `axis`, those at the end to the front."""
    n = ctx.shape(x)[axis]
    return tpu.dynamic_rotate(x, ctx.int32(amount % n), axis) if amount % n else x


def _compared(
    ctx: Lowering, predicate: str, x: ir.Value, number: int, shape: Sequence[int]
) -> ir.Value:  # fmt: skip
    return arith.cmpi(getattr(arith.CmpIPredicate, predicate), x, ctx.int32(number, shape))


# Cumulative combinations --------------------------------------------------------------------------------------


def _cumulative(
    primitive: Primitive, combine: Callable[..., Any], start: Callable[..., Any]
) -> None:
    """A row: each element with all before it, by combining elements 1, 2, 4, … places away."""

    @rule(primitive)
    def lower(ctx: Lowering, equation, operands):
        [x] = operands
        aval, params = equation.operands[0].aval, equation.params
        wide = _wide(aval.dtype)
        x, axis = _at_least_two(ctx, converted(ctx, x, aval, wide), params.axis)
        shape = ctx.shape(x)
        n = shape[axis]
        _check_rotation(ctx, shape, axis)
        places = positions(ctx, shape, axis)
        neutral = ctx.constant(start(wide), wide, shape)
        step = 1
        while step < n:
            if params.reverse:
                moved, is_inside = _rotated(ctx, x, -step, axis), ("slt", n - step)
            else:
                moved, is_inside = _rotated(ctx, x, step, axis), ("sge", step)
            moved = arith.select(_compared(ctx, is_inside[0], places, is_inside[1], shape), moved, neutral)  # fmt: skip
            x = combine(ctx, wide, x, moved)
            step *= 2
        x = ctx.reshaped(x, aval.shape)
        return [converted(ctx, x, aval.update(dtype=wide), aval.dtype)]


def _extreme_of(name: str) -> Callable[..., ir.Value]:
    def combine(ctx: Lowering, dtype: np.dtype, x: ir.Value, y: ir.Value) -> ir.Value:
        if is_float(dtype):
            return (arith.maximumf if name == "max" else arith.minimumf)(x, y)
        return arith.select(_is_before(ctx, dtype, y, x) if name == "max" else _is_before(ctx, dtype, x, y), x, y)  # fmt: skip

    return combine


def _is_before(ctx: Lowering, dtype: np.dtype, x: ir.Value, y: ir.Value) -> ir.Value:
    """Whether integers of 32 bits are less than others."""
    if is_unsigned(dtype):  # as signed ones with the first bit inverted
        first = ctx.constant(-1 << 31, _INT32, ctx.shape(x))
        x, y = arith.xori(x, first), arith.xori(y, first)
    return arith.cmpi(arith.CmpIPredicate.slt, x, y)


def _limit(name: str) -> Callable[[np.dtype], Any]:
    """What changes no maximum, or no minimum."""
    if name == "max":
        return lambda dtype: -np.inf if is_float(dtype) else dtypes.iinfo(dtype).min
    return lambda dtype: np.inf if is_float(dtype) else dtypes.iinfo(dtype).max


def _combination(on_floats: Any, on_integers: Any) -> Callable[..., ir.Value]:
    return lambda ctx, dtype, x, y: (on_floats if is_float(dtype) else on_integers)(x, y)


_cumulative(cumulative.cumsum_p, _combination(arith.addf, arith.addi), lambda _: 0)
_cumulative(cumulative.cumprod_p, _combination(arith.mulf, arith.muli), lambda _: 1)
_cumulative(cumulative.cummax_p, _extreme_of("max"), _limit("max"))
_cumulative(cumulative.cummin_p, _extreme_of("min"), _limit("min"))


# Reversal -----------------------------------------------------------------------------------------------------


@rule(movement.rev_p)
def _rev(ctx: Lowering, equation, operands):
    [x] = operands
    aval, dtype = equation.operands[0].aval, equation.operands[0].aval.dtype
    wide = _wide(dtype)
    x = converted(ctx, x, aval, wide)
    for axis in equation.params.dimensions:
        row, along = _at_least_two(ctx, x, axis)
        x = ctx.reshaped(_reversed(ctx, row, along), aval.shape)
    return [converted(ctx, x, aval.update(dtype=wide), dtype)]


def _reversed(ctx: Lowering, x: ir.Value, axis: int) -> ir.Value:
    """A vector of 32-bit elements in reverse order along `axis`."""
    shape = ctx.shape(x)
    n = shape[axis]
    if n == 1:
        return x
    if n & (n - 1) == 0:
        _check_rotation(ctx, shape, axis)
        places = positions(ctx, shape, axis)
        step = 1
        while step < n:  # the place of each element with all its bits inverted
            x = _partner(ctx, x, places, step, axis)
            step *= 2
        return x
    if axis == len(shape) - 1 or n > _MAX_CHOICES:
        raise ctx.unsupported(
            f"values are reversed along powers of two, and but for the last dimension along up to {_MAX_CHOICES} elements.",
            f"a value of shape {[*shape]} along dimension {axis}",
        )
    return tpu.concatenate([_part(ctx, x, axis, k, 1) for k in reversed(range(n))], axis)


def _partner(
    ctx: Lowering, x: ir.Value, places: ir.Value, step: int, axis: int
) -> ir.Value:  # fmt: skip
    """For each element the one at its place with the bit `step` inverted."""
    shape = ctx.shape(x)
    bit = arith.andi(places, ctx.int32(step, shape))
    return arith.select(
        _compared(ctx, "eq", bit, 0, shape),
        _rotated(ctx, x, -step, axis),
        _rotated(ctx, x, step, axis),
    )


# Gathers ------------------------------------------------------------------------------------------------------


@rule(gather_p)
def _gather(ctx: Lowering, equation, operands):
    """Elements along one dimension, all others as they are: what `take_along_axis` asks for."""
    x, indices = operands
    aval, result = equation.operands[0].aval, equation.results[0].aval
    numbers, params = equation.params.dimension_numbers, equation.params
    axes = [*numbers.start_index_map]
    is_along = (
        len(axes) == 1
        and tuple(numbers.collapsed_slice_dims) == tuple(axes)
        and not numbers.offset_dims
        and tuple(numbers.operand_batching_dims) == tuple(other_axes(aval.ndim, axes))
        and tuple(numbers.start_indices_batching_dims) == tuple(numbers.operand_batching_dims)
        and params.mode is not GatherScatterMode.ONE_HOT
    )
    if not is_along:
        raise ctx.unsupported(
            "elements are gathered along one dimension, as by `take_along_axis`.",
            do="Read rows from the reference: `ref[i, :]`.",
        )
    [axis] = axes
    index_aval = equation.operands[1].aval.update(shape=result.shape)
    if dtypes.itemsize_bits(index_aval.dtype) > 32:
        raise ctx.unsupported("positions have 32 bits or fewer.", index_aval.text())
    at = converted(ctx, ctx.reshaped(indices, result.shape), index_aval, _wide(index_aval.dtype))
    wide = _wide(aval.dtype)
    x, at_row = converted(ctx, x, aval, wide), at
    if aval.ndim == 1:
        x, at_row = ctx.reshaped(x, (1, *aval.shape)), ctx.reshaped(at, (1, *result.shape))
    shape, along = ctx.shape(at_row), axis + (aval.ndim == 1)
    n = aval.shape[axis]
    # Of unsigned positions those that no signed number is are behind the end.
    is_before = _compared(ctx, "slt", at_row, 0, shape)
    is_behind = _compared(ctx, "sge", at_row, n, shape)
    first, last = ctx.int32(0, shape), ctx.int32(n - 1, shape)
    inside = arith.select(is_before, last if is_unsigned(index_aval.dtype) else first, at_row)
    inside = arith.select(is_behind, last, inside)
    found = _taken(ctx, x, inside, along)
    if params.mode is GatherScatterMode.FILL_OR_DROP:
        fill = ctx.constant(np.asarray(params.fill_value).astype(aval.dtype).astype(wide), wide, shape)  # fmt: skip
        found = arith.select(arith.ori(is_before, is_behind), fill, found)
    found = ctx.reshaped(found, result.shape)
    return [converted(ctx, found, result.update(dtype=wide), aval.dtype)]


def _taken(ctx: Lowering, x: ir.Value, at: ir.Value, axis: int) -> ir.Value:
    """The 32-bit elements of `x` at the positions `at` along `axis`, which are inside."""
    shape, source = ctx.shape(at), ctx.shape(x)
    n, tile = source[axis], LANES if axis == len(source) - 1 else ROWS
    in_tiles = axis >= len(source) - 2 and not (n % tile or shape[axis] % tile)
    if in_tiles and n * shape[axis] <= _MAX_PAIRS_OF_TILES * tile * tile:
        return _taken_from_tiles(ctx, x, at, axis, tile)
    if n > _MAX_CHOICES:
        raise ctx.unsupported(
            f"elements are gathered from up to {_MAX_CHOICES} along a dimension, or from some tiles of it.",
            f"a value of shape {[*source]} along dimension {axis}, positions of shape {[*shape]}",
        )
    found = None
    for k in range(n):
        one = vector.broadcast(ctx.type(shape, ctx.scalar_type(x)), _part(ctx, x, axis, k, 1))
        found = one if found is None else arith.select(_compared(ctx, "eq", at, k, shape), one, found)  # fmt: skip
    assert found is not None
    return found


def _taken_from_tiles(
    ctx: Lowering, x: ir.Value, at: ir.Value, axis: int, tile: int
) -> ir.Value:  # fmt: skip
    """The same, by the unit's gathers within a tile: for each tile of positions one for each tile of elements."""
    parts = []
    for start in range(0, ctx.shape(at)[axis], tile):
        places = _part(ctx, at, axis, start, tile)
        shape = ctx.shape(places)
        within = arith.andi(places, ctx.int32(tile - 1, shape))
        found = None
        for first in range(0, ctx.shape(x)[axis], tile):
            one = tpu.dynamic_gather(_part(ctx, x, axis, first, tile), within, [axis])
            is_there = _compared(ctx, "sge", places, first, shape)
            found = one if found is None else arith.select(is_there, one, found)
        parts.append(found)
    return parts[0] if len(parts) == 1 else tpu.concatenate(parts, axis)


def _part(ctx: Lowering, x: ir.Value, axis: int, start: int, size: int) -> ir.Value:
    """`size` elements of a vector along `axis`, from `start`."""
    shape = ctx.shape(x)
    if shape[axis] == size:
        return x
    sizes = [size if i == axis else n for i, n in enumerate(shape)]
    starts = [start if i == axis else 0 for i in range(len(shape))]
    kind = ctx.type(sizes, ctx.scalar_type(x))
    return vector.extract_strided_slice(kind, x, starts, sizes, [1] * len(shape))


# Sorting ------------------------------------------------------------------------------------------------------


@rule(sorting.sort_p)
def _sort(ctx: Lowering, equation, operands):
    """Batcher's bitonic sort. The place of an element decides between equal ones, so that the order is stable."""
    params, atoms = equation.params, equation.operands
    aval = atoms[0].aval
    n = aval.shape[params.dimension]
    if n & (n - 1) or n > _MAX_SORTED:
        raise ctx.unsupported(
            f"values are sorted along a power of two of elements, up to {_MAX_SORTED}.",
            f"{aval.text()} along dimension {params.dimension}",
            do="Pad them.",
        )
    moved, axis = [], params.dimension
    for x, atom in zip(operands, atoms, strict=True):
        x, axis = _at_least_two(
            ctx, converted(ctx, x, atom.aval, _wide(atom.aval.dtype)), params.dimension
        )
        moved.append(x)
    shape = ctx.shape(moved[0])
    _check_rotation(ctx, shape, axis)
    keys = [
        _ordered(ctx, x, _wide(atom.aval.dtype))
        for x, atom in zip(moved[: params.num_keys], atoms, strict=False)
    ]
    places = positions(ctx, shape, axis)
    # What is exchanged: keys as signed integers, the places from which elements come, and all operands.
    n_keys = len(keys)
    columns = [*keys, places, *moved]
    block = 2
    while block <= n:
        step = block // 2
        while step:
            others = [_partner(ctx, x, places, step, axis) for x in columns]
            is_less = _is_less(ctx, columns[: n_keys + 1], others[: n_keys + 1])
            # The first of a pair keeps the lesser element in blocks that ascend, every second one descends.
            bits = [arith.andi(places, ctx.int32(b, shape)) for b in (step, block)]
            is_first, ascends = [_compared(ctx, "eq", b, 0, shape) for b in bits]
            keeps = arith.xori(arith.xori(is_less, is_first), ascends)
            columns = [arith.select(keeps, x, y) for x, y in zip(columns, others, strict=True)]
            step //= 2
        block *= 2
    return [
        converted(ctx, ctx.reshaped(x, a.aval.shape), a.aval.update(dtype=_wide(a.aval.dtype)), a.aval.dtype)
        for x, a in zip(columns[n_keys + 1 :], atoms, strict=True)
    ]  # fmt: skip


def _ordered(ctx: Lowering, x: ir.Value, dtype: np.dtype) -> ir.Value:
    """Signed integers in the order of 32-bit elements: both zeros are equal, NaN are equal and last."""
    shape = ctx.shape(x)
    if not is_float(dtype):
        return arith.xori(x, ctx.constant(-1 << 31, _INT32, shape)) if is_unsigned(dtype) else x
    zero = ctx.constant(0, dtype, shape)
    x = arith.select(arith.cmpf(arith.CmpFPredicate.OEQ, x, zero), zero, x)
    bits = tpu.bitcast(ctx.type(shape, ctx.element(_INT32)), x)
    # Negative numbers are ordered by the inverse of their other bits.
    is_negative = _compared(ctx, "slt", bits, 0, shape)
    order = arith.select(is_negative, arith.xori(bits, ctx.int32((1 << 31) - 1, shape)), bits)
    is_number = arith.cmpf(arith.CmpFPredicate.OEQ, x, x)
    return arith.select(is_number, order, ctx.int32((1 << 31) - 1, shape))


def _is_less(ctx: Lowering, xs: Sequence[ir.Value], ys: Sequence[ir.Value]) -> ir.Value:
    """Whether rows of signed integers come before others, by the first in which they differ."""
    *front, last = zip(xs, ys, strict=True)
    found = arith.cmpi(arith.CmpIPredicate.slt, *last)
    for x, y in reversed(front):
        is_equal = arith.cmpi(arith.CmpIPredicate.eq, x, y)
        is_less = arith.cmpi(arith.CmpIPredicate.slt, x, y)
        found = arith.ori(is_less, arith.andi(is_equal, found))
    return found
