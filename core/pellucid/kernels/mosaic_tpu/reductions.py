"""Reductions and products of kernels on TPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import dtypes
from pellucid._machine.ir import Primitive
from pellucid._machine.primitives import contraction, movement, reduction
from pellucid._machine.xla.mosaic_tpu import arith, ir, tpu, vector
from pellucid.kernels.lowering.elements import converted, float_bits
from pellucid.kernels.lowering.programs import is_float, is_unsigned

from .lowering import Lowering, rule
from .rules import positions

_INT32 = np.dtype(np.int32)
_FLOAT32 = np.dtype(np.float32)
Kind = vector.CombiningKind


def _reduced(
    ctx: Lowering, x: ir.Value, axes: Sequence[int], kind: Any, start: Any, dtype: Any
) -> ir.Value:
    """A vector, or a scalar, without `axes`, whose elements are combined; `start` changes nothing."""
    shape = ctx.shape(x)
    rest = tuple([n for i, n in enumerate(shape) if i not in axes])
    if rest:
        start = ctx.constant(start, dtype, rest)
        return vector.multi_reduction(kind, x, start, [*axes])
    # To a vector of one element first, from which it is taken.
    x = ctx.reshaped(x, (1, *((1,) if len(shape) < 2 else ()), *shape))
    n = len(ctx.shape(x))
    total = vector.multi_reduction(kind, x, ctx.constant(start, dtype, (1,)), [*range(1, n)])
    return ctx.first(ctx.reshaped(total, (1,) * n))


def _extreme(name: str, dtype: np.dtype) -> tuple[Any, Any]:
    """(kind of the reduction to the greatest or the least element, the number that changes nothing in it)."""
    if is_float(dtype):
        return (Kind.MAXIMUMF, -np.inf) if name == "max" else (Kind.MINIMUMF, np.inf)
    limits = dtypes.iinfo(dtype)
    return (Kind.MAXSI, limits.min) if name == "max" else (Kind.MINSI, limits.max)


def _reduction(primitive: Primitive, name: str, *, of_booleans: bool = False) -> None:
    """A row: a reduction by addition, or to the least or the greatest element; booleans are numbers 0 and 1."""

    @rule(primitive)
    def lower(ctx: Lowering, equation, operands):
        [x] = operands
        aval, result = equation.operands[0].aval, equation.results[0].aval
        dtype = np.dtype(aval.dtype)
        if dtype == np.bool_:
            wide = ctx.type(aval.shape, ctx.element(_INT32))
            kind, start = _extreme(name, _INT32)
            found = _reduced(ctx, arith.extui(wide, x), equation.params.axes, kind, start, _INT32)
            return [arith.cmpi(arith.CmpIPredicate.ne, found, ctx.int32(0, result.shape))]
        wide = _FLOAT32 if is_float(dtype) else _INT32
        if of_booleans or (is_unsigned(dtype) and name != "add"):
            raise ctx.unsupported(
                f"there is no rule for `{primitive.name}` of {dtypes.short_name(dtype)}."
            )
        x = converted(ctx, x, aval, wide)
        kind, start = (Kind.ADD, 0) if name == "add" else _extreme(name, wide)
        found = _reduced(ctx, x, equation.params.axes, kind, start, wide)
        return [converted(ctx, found, result.update(dtype=wide), dtype)]


_reduction(movement.reduce_sum_p, "add")
_reduction(reduction.reduce_max_p, "max")
_reduction(reduction.reduce_min_p, "min")
_reduction(reduction.reduce_or_p, "max", of_booleans=True)
_reduction(reduction.reduce_and_p, "min", of_booleans=True)


def _arg_extreme(primitive: Primitive, name: str) -> None:
    """A row: the position of the first extreme element along an axis, or of the first NaN."""

    @rule(primitive)
    def lower(ctx: Lowering, equation, operands):
        [x] = operands
        aval, axes = equation.operands[0].aval, equation.params.axes
        dtype, result = np.dtype(aval.dtype), equation.results[0].aval
        if is_unsigned(dtype):
            raise ctx.unsupported(
                f"there is no rule for `{primitive.name}` of {dtypes.short_name(dtype)}."
            )
        wide = _FLOAT32 if is_float(dtype) else _INT32
        x = converted(ctx, x, aval, wide)
        kind, start = _extreme(name, wide)
        extreme = _reduced(ctx, x, axes, kind, start, wide)
        kept = [i for i in range(aval.ndim) if i not in axes]
        extreme = ctx.along(extreme, kept, aval.shape)
        if not is_float(wide):
            found = _first_where(ctx, arith.cmpi(arith.CmpIPredicate.eq, x, extreme), axes)
        else:
            found = _first_where(ctx, arith.cmpf(arith.CmpFPredicate.OEQ, x, extreme), axes)
            is_number = arith.cmpf(arith.CmpFPredicate.OEQ, x, x)
            is_nan = arith.xori(is_number, ctx.constant(1, np.bool_, aval.shape))
            nan = _first_where(ctx, is_nan, axes)
            end = ctx.int32(aval.shape[axes[0]], result.shape)
            has_nan = arith.cmpi(arith.CmpIPredicate.slt, nan, end)
            found = arith.select(has_nan, nan, found)
        return [converted(ctx, found, result.update(dtype=_INT32), result.dtype)]


def _first_where(ctx: Lowering, mask: ir.Value, axes: Sequence[int]) -> ir.Value:
    """The first position along an axis where a mask holds; the number of positions where it holds nowhere."""
    shape = ctx.shape(mask)
    end = shape[axes[0]]
    place = arith.select(mask, positions(ctx, shape, axes[0]), ctx.int32(end, shape))
    return _reduced(ctx, place, axes, *_extreme("min", _INT32), _INT32)


_arg_extreme(reduction.argmax_p, "max")
_arg_extreme(reduction.argmin_p, "min")


# Products -----------------------------------------------------------------------------------------------------


@rule(contraction.dot_general_p)
def _dot_general(ctx: Lowering, equation, operands):
    a, b = operands
    left, right = [x.aval for x in equation.operands]
    result = equation.results[0].aval
    (contracted, batch), precision = equation.params.dimension_numbers, equation.params.precision
    n_batch = len(batch[0])
    a, left, contracted0 = _as_matrix(ctx, a, left, n_batch, contracted[0])
    b, right, contracted1 = _as_matrix(ctx, b, right, n_batch, contracted[1])
    contracted = contracted0, contracted1
    if [*map(len, contracted)] != [1, 1] or left.ndim != n_batch + 2 or right.ndim != n_batch + 2:
        raise ctx.unsupported(
            "it multiplies matrices, or batches of them.",
            f"{left.text()}, {right.text()}, contracted along {contracted[0]} and {contracted[1]}",
        )
    if left.dtype != right.dtype:
        raise ctx.unsupported(
            "it multiplies matrices of one dtype.", f"{left.text()}, {right.text()}"
        )
    if not is_float(left.dtype) and np.dtype(left.dtype) not in (np.int8, np.uint8):
        raise ctx.unsupported(
            "integers that it multiplies have 8 bits.", f"{left.text()}, {right.text()}"
        )
    sums = _FLOAT32 if is_float(left.dtype) else _INT32
    free = [
        [i for i in range(n) if i not in c and i not in d]
        for n, c, d in zip((left.ndim, right.ndim), contracted, batch, strict=True)
    ]
    # Results have the batch, then what is left of the first, then of the second: each is (operand, dimension).
    order = [(0, i) for i in batch[0]] + [(0, i) for i in free[0]] + [(1, i) for i in free[1]]
    sides = [contracted[0], contracted[1], free[0], free[1], [x for pair in order for x in pair]]
    numbers = ", ".join([str([*map(int, side)]) for side in (*sides, *batch)])
    shape = tuple([(left, right)[side].shape[i] for side, i in order])
    product = tpu.matmul(
        ctx.type(shape, ctx.element(sums)),
        a,
        b,
        ctx.constant(0, sums, shape),
        False,
        dimension_numbers=ir.Attribute.parse(f"#tpu.dot_dimension_numbers<{numbers}>"),
        precision=_precision(ctx, precision, left.dtype),
    )
    product = ctx.reshaped(product, result.shape)
    return [converted(ctx, product, result.update(dtype=sums), result.dtype)]


def _as_matrix(
    ctx: Lowering, x: ir.Value, aval: Any, n_batch: int, contracted: Sequence[int]
) -> tuple[ir.Value, Any, Sequence[int]]:
    """An operand with a dimension of one that is not contracted, if it has none: (value, type, contracted dimensions)."""
    if aval.ndim != n_batch + len(contracted):
        return x, aval, contracted
    shape = (1, *aval.shape)
    if n_batch:  # dimensions of the batch come first
        raise ctx.unsupported("it multiplies no batches of vectors.", aval.text())
    return ctx.reshaped(x, shape), aval.update(shape=shape), [i + 1 for i in contracted]


def _precision(ctx: Lowering, precision: Any, dtype: Any) -> ir.Attribute | None:
    """How float32 is multiplied: by bfloat16, as the compiler does elsewhere, unless the user asks for more."""
    names = {str(getattr(p, "name", p)).upper() for p in precision or ()}
    if not names or names == {"DEFAULT"} or float_bits(dtype) < 32:
        return None
    if names <= {"HIGH", "HIGHEST", "DEFAULT"}:
        return ir.Attribute.parse("#tpu.contract_precision<fp32>")
    raise ctx.unsupported(
        "matrices are multiplied with the precision DEFAULT, HIGH or HIGHEST.",
        f"precision {', '.join(sorted(names))}",
    )
