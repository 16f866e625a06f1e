"""Products of blocks that threads hold: by the tensor cores where these have them, else by a loop in each thread."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import dtypes, strict_zip
from pellucid._machine.ir import shaped_array
from pellucid._machine.primitives import contraction
from pellucid._machine.xla.mosaic_gpu import arith, ir, llvm, scf
from pellucid.kernels.gpu.memory import ACC
from pellucid.kernels.lowering.elements import converted
from pellucid.kernels.lowering.programs import is_float

from .layouts import Accumulator, Fragment, Strided, unravel
from .lowering import Lowering, bytes_of, element_pointer, rule, store
from .memory import as_block
from .swizzles import ALIGNMENT, Swizzle, fitting_swizzle
from .wgmma import (
    OPERANDS,
    TF32,
    Operands,
    fits,
    matrix_at,
    multiply,
    new_accumulator,
    read_accumulator,
    words_of,
)

_FLOAT32, _INT32 = np.dtype(np.float32), np.dtype(np.int32)


@rule(contraction.dot_general_p)
def _dot_general(ctx: Lowering, equation, operands):
    left, right = [x.aval for x in equation.operands]
    result = equation.results[0].aval
    a, b = [as_block(ctx, x, aval.shape) for x, aval in strict_zip(operands, (left, right))]
    numbers = equation.params.dimension_numbers
    known = _instruction(left, right, result, equation.params)
    if known is not None:
        (of_left, of_right), _ = numbers
        found = _by_tensor_cores(ctx, a, b, of_left[0] == 0, of_right[0] == 0, known, left.dtype)
    else:
        found = _by_loops(ctx, a, b, numbers, left, right, result)
    dtype = _sums_of(left.dtype, right.dtype) if known is None else _accumulator_of(left.dtype)
    return [_as_result(ctx, found, dtype, result)]


def _as_result(ctx: Lowering, x: Any, dtype: np.dtype, result: Any) -> Any:
    aval = shaped_array((), dtype)
    if type(x) is not Fragment:
        return converted(ctx, x, aval, result.dtype)
    parts = [converted(ctx, part, aval, result.dtype) for part in ctx.parts(x)]
    return ctx.joined(parts, x.layout)


def _accumulator_of(dtype: Any) -> np.dtype:
    """The dtype in which the tensor cores sum."""
    return _INT32 if np.dtype(dtype).kind in "iu" else _FLOAT32


def _sums_of(left: Any, right: Any) -> np.dtype:
    """The dtype in which threads sum."""
    dtype = np.promote_types(left, right) if is_float(left) == is_float(right) else np.dtype(left)
    if is_float(dtype):
        return np.dtype(np.float64) if dtype == np.float64 else _FLOAT32
    return dtype if dtype.itemsize > 4 else _INT32


# Tensor cores -------------------------------------------------------------------------------------------------


def _instruction(left: Any, right: Any, result: Any, params: Any) -> Operands | None:
    """What the tensor cores' instruction for a product takes; None if there is none, or it would give less than is asked for."""
    contracted, batch = params.dimension_numbers
    if left.ndim != 2 or right.ndim != 2 or any(batch) or [*map(len, contracted)] != [1, 1]:
        return None
    dtype = np.dtype(left.dtype)
    if right.dtype != dtype or dtypes.itemsize_bits(dtype) < 8:
        return None
    known = TF32 if dtype == np.float32 and _asks_for_tf32(params.precision) else None
    known = OPERANDS.get(dtype.name) if known is None else known
    depth = left.shape[contracted[0][0]]
    if known is None or not fits(result.shape[0], result.shape[1], depth, known, dtype):
        return None
    shapes = [(n, depth) for n in result.shape]
    return known if all(fitting_swizzle(shape, dtype) for shape in shapes) else None


def _asks_for_tf32(precision: Any) -> bool:
    """Whether the user names products of 10 bits, as no default does."""
    given = precision if isinstance(precision, (tuple, list)) else (precision,)
    return {getattr(p, "name", None) for p in given} == {"TF32_TF32_F32"}


def _by_tensor_cores(
    ctx: Lowering, a: Fragment, b: Fragment, is_left_transposed: bool, is_right_plain: bool, known: Operands, dtype: Any,
) -> Fragment:  # fmt: skip
    """A product of matrices, whose sums run along rows in shared memory."""
    dtype = np.dtype(dtype)
    (m, depth), n = a.shape, b.shape[1]
    if is_left_transposed:
        m, depth = depth, m
    if not is_right_plain:
        n = b.shape[0]
    in_registers = type(a.layout) is Accumulator and dtype.itemsize == 2 and not is_left_transposed
    # In shared memory are (columns, products) of the right matrix, then (rows, products) of the left one.
    placed = [(b, (n, depth), is_right_plain)]
    placed += [] if in_registers else [(a, (m, depth), is_left_transposed)]
    swizzles: Any = [fitting_swizzle(shape, dtype) for _, shape, _ in placed]
    starts, end = [], 0
    for _, shape, _ in placed:
        starts.append(end)
        end = -(-(end + math.prod(shape) * dtype.itemsize) // ALIGNMENT) * ALIGNMENT
    ctx.exchange_alignment = ALIGNMENT
    base, byte = ctx.exchange_area(end), ir.IntegerType.get_signless(8)
    bases = [element_pointer(base, start, byte) if start else base for start in starts]
    ctx.meet()
    for (x, _, is_reversed), swizzle, to in strict_zip(placed, swizzles, bases):
        _write(ctx, x, to, swizzle, is_reversed, known is TF32)
    ctx.fence()
    ctx.meet()
    second, *more = [matrix_at(to, s, False) for to, s in strict_zip(bases, swizzles)]
    acc = new_accumulator(ctx, ACC((m, n), _accumulator_of(dtype)))
    pieces = words_of(ctx, a, (m, depth), dtype) if in_registers else None
    multiply(ctx, acc, None if in_registers else more[0], pieces, second, depth, known)
    return read_accumulator(ctx, acc)


def _write(
    ctx: Lowering, x: Fragment, base: ir.Value, swizzle: Swizzle, is_reversed: bool, is_rounded: bool
) -> None:  # fmt: skip
    """Let swizzled shared memory hold a matrix, or its transposition."""
    kind = ctx.scalar_type(x)
    for r, value in enumerate(ctx.parts(x)):
        value = _rounded(ctx, value) if is_rounded else value
        place = x.layout.place(ctx, r)
        place = place[::-1] if is_reversed else place
        with ctx.only_if(x.layout.holds(ctx, r)):
            pointer = element_pointer(base, swizzle.offset(ctx, place), value.type)
            store(value, pointer, bytes_of(kind))


def _rounded(ctx: Lowering, x: ir.Value) -> ir.Value:
    """A float32 with the nearest mantissa of 10 bits."""
    return llvm.inline_asm(ir.F32Type.get(), [x], "cvt.rna.tf32.f32 $0, $1;", "=f,f")


# Loops --------------------------------------------------------------------------------------------------------


def _by_loops(
    ctx: Lowering, a: Fragment, b: Fragment, numbers: Any, left: Any, right: Any, result: Any
) -> Any:
    """A product of which each thread sums its own elements, reading all of both blocks from shared memory."""
    (of_left, of_right), (along_left, along_right) = numbers
    sums = _sums_of(left.dtype, right.dtype)
    sizes = [left.shape[i] for i in of_left]
    rest_left = [i for i in range(left.ndim) if i not in (*of_left, *along_left)]
    rest_right = [i for i in range(right.ndim) if i not in (*of_right, *along_right)]
    read_left, read_right = ctx.exchanged_together([a, b])
    zero = ctx.constant(0, sums)
    lower, upper, step = [ctx.int32(n) for n in (0, math.prod(sizes), 1)]

    def element(place: Sequence[ir.Value]) -> ir.Value:
        loop: Any = scf.ForOp(lower, upper, step, [zero])
        with ctx.inside(loop.body):
            inner = unravel(ctx, loop.induction_variable, tuple(sizes)) if sizes else []
            # A result's axes are those of the batch, then the others of the left block, then those of the right one.
            n, n_left = len(along_left), len(rest_left)
            at_left = {**dict(zip(of_left, inner, strict=True)), **dict(zip(along_left, place[:n], strict=True)),
                       **dict(zip(rest_left, place[n : n + n_left], strict=True))}  # fmt: skip
            at_right = {**dict(zip(of_right, inner, strict=True)), **dict(zip(along_right, place[:n], strict=True)),
                        **dict(zip(rest_right, place[n + n_left :], strict=True))}  # fmt: skip
            x = read_left([at_left[i] for i in range(left.ndim)])
            y = read_right([at_right[i] for i in range(right.ndim)])
            x, y = [converted(ctx, v, shaped_array((), np.dtype(t.dtype)), sums) for v, t in ((x, left), (y, right))]  # fmt: skip
            [total] = loop.inner_iter_args
            multiply, add = (arith.mulf, arith.addf) if is_float(sums) else (arith.muli, arith.addi)
            scf.yield_([add(total, multiply(x, y))])
        return loop.results[0]

    shape = tuple(result.shape)
    if not shape:
        return element([])
    ctx.check_size(shape)
    layout = Strided(shape)
    return ctx.joined([element(layout.place(ctx, r)) for r in range(layout.registers)], layout)
