"""How operations on values are lowered to Triton: a table of primitives."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid._machine.ir import Primitive
from pellucid._machine.primitives import (
    arithmetic,
    contraction,
    conversion,
    creation,
    cumulative,
    error_functions,
    logical,
    movement,
    reduction,
    transcendental,
)
from pellucid._machine.xla.triton import arith, ir, triton
from pellucid.kernels.lowering.elements import (
    Build,
    build_for,
    converted,
    elementwise,
    float_bits,
)
from pellucid.kernels.lowering.programs import is_float, is_unsigned

from .lowering import RULES, Lowering, rule

_FLOAT32 = np.dtype(np.float32)
_INT32 = np.dtype(np.int32)


# Operations on elements ---------------------------------------------------------------------------------------


def _extern(name: str) -> Build:
    """A function of CUDA's mathematical library, of the width of its operands."""

    def build(*operands: ir.Value) -> ir.Value:
        kind = operands[0].type
        element = ir.RankedTensorType(kind).element_type if hasattr(kind, "shape") else kind
        symbol = f"__nv_{name}" + ("f" if element == ir.F32Type.get() else "")
        return triton.extern_elementwise(kind, operands, "", "", symbol, True)

    return build


_elementwise = functools.partial(elementwise, rules=RULES)
_elementwise(arithmetic.cbrt_p, _extern("cbrt"), widened=True)
_elementwise(arithmetic.pow_p, _extern("pow"), widened=True)
for _primitive, _name in {
    transcendental.expm1_p: "expm1",
    transcendental.log1p_p: "log1p",
    transcendental.tan_p: "tan",
    transcendental.asin_p: "asin",
    transcendental.acos_p: "acos",
    transcendental.atan_p: "atan",
    transcendental.atan2_p: "atan2",
    transcendental.sinh_p: "sinh",
    transcendental.cosh_p: "cosh",
    transcendental.tanh_p: "tanh",
    transcendental.asinh_p: "asinh",
    transcendental.acosh_p: "acosh",
    transcendental.atanh_p: "atanh",
    transcendental.lgamma_p: "lgamma",
}.items():
    _elementwise(_primitive, _extern(_name), widened=True)
_elementwise(error_functions.erfc_p, _extern("erfc"), widened=True)
_elementwise(error_functions.erf_inv_p, _extern("erfinv"), widened=True)


@rule(arithmetic.round_p)
def _round(ctx: Lowering, equation, operands):
    [x] = operands
    aval = equation.results[0].aval
    to_even = equation.params.rounding_method == arithmetic.RoundingMethod.TO_NEAREST_EVEN
    build = _extern("rint" if to_even else "round")
    if float_bits(aval.dtype) >= 32:
        return [build(x)]
    wide = ctx.type(aval.shape, ctx.element(_FLOAT32))
    return [arith.truncf(ctx.type_of(aval), build(arith.extf(wide, x)))]


@rule(arithmetic.nextafter_p)
def _nextafter(ctx: Lowering, equation, operands):
    """By bits: as integers, numbers of one sign are in the order of their bits; the next one differs by 1."""
    aval = equation.results[0].aval
    x, y = [ctx.spread(v, aval.shape) for v in operands]
    dtype = np.dtype(f"int{float_bits(aval.dtype)}")
    kind, least = ctx.type(aval.shape, ctx.element(dtype)), np.iinfo(dtype).min
    number = lambda value: ctx.constant(value, dtype, aval.shape)
    compare = lambda name, a, b: arith.cmpi(getattr(arith.CmpIPredicate, name), a, b)
    zero, one = number(0), number(1)

    def ordered(bits: ir.Value) -> ir.Value:
        """Integers in the order of the numbers, 0 for both zeros; of such ones, the bits again, but of -0."""
        return arith.select(compare("slt", bits, zero), arith.subi(number(least), bits), bits)

    bits = triton.bitcast(kind, x)
    here, there = ordered(bits), ordered(triton.bitcast(kind, y))
    up, down = arith.addi(here, one), arith.subi(here, one)
    following = ordered(arith.select(compare("slt", here, there), up, down))
    sign = arith.andi(bits, number(least))
    following = arith.select(compare("eq", following, zero), sign, following)
    moved = triton.bitcast(ctx.type_of(aval), following)
    is_nan = arith.cmpf(arith.CmpFPredicate.UNO, x, y)
    found = arith.select(compare("eq", here, there), y, moved)
    return [arith.select(is_nan, ctx.constant(np.nan, aval.dtype, aval.shape), found)]


# Bits ---------------------------------------------------------------------------------------------------------


def _count(primitive: Primitive, name: str, counts_leading: bool) -> None:
    """A row for a function of CUDA's library that counts bits of 32 or 64, in int32."""

    @rule(primitive)
    def lower(ctx: Lowering, equation, operands):
        [x] = operands
        aval = equation.results[0].aval
        bits = 8 * np.dtype(aval.dtype).itemsize
        unsigned = aval.update(dtype=np.dtype(f"uint{bits}"))
        wide = converted(ctx, x, unsigned, f"uint{max(bits, 32)}")
        kind = ctx.type(aval.shape, ctx.element(_INT32))
        symbol = f"__nv_{name}" + ("ll" if bits == 64 else "")
        found = triton.extern_elementwise(kind, [wide], "", "", symbol, True)
        if counts_leading and bits < 32:  # those in front are zeros
            found = arith.subi(found, ctx.int32(32 - bits, aval.shape))
        return [converted(ctx, found, aval.update(dtype=_INT32), aval.dtype)]


_count(logical.population_count_p, "popc", False)
_count(logical.clz_p, "clz", True)


# Conversion ---------------------------------------------------------------------------------------------------


@rule(conversion.convert_element_type_p)
def _convert(ctx: Lowering, equation, operands):
    [x] = operands
    aval, dtype = equation.operands[0].aval, np.dtype(equation.results[0].aval.dtype)
    if dtype == aval.dtype or not is_float(aval.dtype) or not is_float(dtype):
        return [converted(ctx, x, aval, dtype)]
    bits, new_bits = float_bits(aval.dtype), float_bits(dtype)
    if min(bits, new_bits) >= 16:
        return [converted(ctx, x, aval, dtype)]
    rounding = triton.RoundingMode.RTNE if new_bits < bits else None
    return [triton.fp_to_fp(ctx.type(aval.shape, ctx.element(dtype)), x, rounding=rounding)]


@rule(conversion.bitcast_convert_type_p)
def _bitcast(ctx: Lowering, equation, operands):
    [x] = operands
    old, new = equation.operands[0].aval, equation.results[0].aval
    if old.shape != new.shape or np.bool_ in (old.dtype, new.dtype):
        raise ctx.unsupported("bits are seen as elements of the same width only.")
    kind = ctx.type_of(new)
    return [x if x.type == kind else triton.bitcast(kind, x)]


# Movement -----------------------------------------------------------------------------------------------------


@rule(creation.iota_p)
def _iota(ctx: Lowering, equation, operands):
    result, axis = equation.results[0].aval, equation.params.dimension
    along = positions(ctx, result.shape, axis)
    return [converted(ctx, along, result.update(dtype=_INT32), result.dtype)]


def positions(ctx: Lowering, shape: Any, axis: int) -> ir.Value:
    """The position of each element of a block along an axis, in int32."""
    n = shape[axis]
    kind = ctx.type((n,), ctx.element(_INT32))
    return ctx.along(triton.make_range(kind, 0, n), (axis,), shape)


@rule(movement.broadcast_in_dim_p)
def _broadcast_in_dim(ctx: Lowering, equation, operands):
    [x] = operands
    return [ctx.along(x, equation.params.broadcast_dimensions, equation.results[0].aval.shape)]


@rule(movement.reshape_p, movement.squeeze_p)
def _reshape(ctx: Lowering, equation, operands):
    [x] = operands
    return [reshaped(ctx, x, equation.results[0].aval.shape)]


def reshaped(ctx: Lowering, x: ir.Value, shape: Any) -> ir.Value:
    """The elements of a block, in row-major order, with another shape."""
    before = ctx.shape(x)
    if before == tuple(shape):
        return x
    if not before:
        return ctx.along(x, (), shape)
    if not shape:
        return triton.unsplat(x)
    return triton.reshape(ctx.type(shape, ctx.scalar_type(x)), x)


@rule(movement.transpose_p)
def _transpose(ctx: Lowering, equation, operands):
    [x] = operands
    order = list(equation.params.permutation)
    return [triton.trans(x, order)]


# Reductions and products ------------------------------------------------------------------------------------


def _combine(
    ctx: Lowering,
    operation: Any,
    finish: Callable[..., Any],
    operands: list[ir.Value],
    combine: Callable[..., Sequence[ir.Value]],
) -> list[ir.Value]:
    """Results of a reduction or a scan, whose region `combine` fills with what becomes of first, then second elements."""
    kinds = [ctx.scalar_type(x) for x in operands] * 2
    block = operation.regions[0].blocks.append(*kinds, arg_locs=[ir.Location.current] * len(kinds))
    with ctx.inside(block):
        finish(combine(*block.arguments))
    return list(operation.results)


def _reduced(
    ctx: Lowering, operands: list[ir.Value], axis: int, combine: Callable[..., Sequence[ir.Value]]
) -> list[ir.Value]:
    """Blocks without an axis, along which `combine` (of first, then second elements) has made one of two."""
    operation = triton.ReduceOp(operands, axis)
    return _combine(ctx, operation, triton.reduce_return, operands, combine)


def _reduction(
    primitive: Primitive, on_floats: Build | None, on_integers: Build, on_unsigned: Build | None = None,
    on_booleans: Build | None = None,
) -> None:  # fmt: skip
    @rule(primitive)
    def lower(ctx: Lowering, equation, operands):
        [x] = operands
        aval = equation.operands[0].aval
        dtype = np.dtype(aval.dtype)
        build = build_for(ctx, primitive, dtype, on_floats, on_integers, on_unsigned, on_booleans)
        is_narrow = is_float(dtype) and float_bits(dtype) < 32
        if is_narrow:
            x = arith.extf(ctx.type(aval.shape, ctx.element(_FLOAT32)), x)
        # From the last axis on, so that the others keep their numbers.
        for axis in sorted(equation.params.axes, reverse=True):
            [x] = _reduced(ctx, [x], axis, lambda a, b: [build(a, b)])
        return [arith.truncf(ctx.type_of(equation.results[0].aval), x) if is_narrow else x]


_reduction(movement.reduce_sum_p, arith.addf, arith.addi)
_reduction(reduction.reduce_prod_p, arith.mulf, arith.muli)
_reduction(reduction.reduce_max_p, arith.maximumf, arith.maxsi, arith.maxui, arith.ori)
_reduction(reduction.reduce_min_p, arith.minimumf, arith.minsi, arith.minui, arith.andi)
_reduction(reduction.reduce_and_p, None, arith.andi, None, arith.andi)
_reduction(reduction.reduce_or_p, None, arith.ori, None, arith.ori)
_reduction(reduction.reduce_xor_p, None, arith.xori, None, arith.xori)


def _cumulative(
    primitive: Primitive, on_floats: Build, on_integers: Build, on_unsigned: Build | None = None
) -> None:
    @rule(primitive)
    def lower(ctx: Lowering, equation, operands):
        [x] = operands
        aval, (axis, reverse) = equation.results[0].aval, equation.params
        dtype = np.dtype(aval.dtype)
        build = build_for(ctx, primitive, dtype, on_floats, on_integers, on_unsigned, None)
        is_narrow = is_float(dtype) and float_bits(dtype) < 32
        if is_narrow:
            x = arith.extf(ctx.type(aval.shape, ctx.element(_FLOAT32)), x)
        operation = triton.ScanOp([x], axis, reverse)
        [x] = _combine(ctx, operation, triton.scan_return, [x], lambda a, b: [build(a, b)])
        return [arith.truncf(ctx.type_of(aval), x) if is_narrow else x]


_cumulative(cumulative.cumsum_p, arith.addf, arith.addi)
_cumulative(cumulative.cumprod_p, arith.mulf, arith.muli)
_cumulative(cumulative.cummax_p, arith.maximumf, arith.maxsi, arith.maxui)
_cumulative(cumulative.cummin_p, arith.minimumf, arith.minsi, arith.minui)


def _arg_extreme(primitive: Primitive, name: str) -> None:
    @rule(primitive)
    def lower(ctx: Lowering, equation, operands):
        [x] = operands
        aval, [axis] = equation.operands[0].aval, equation.params.axes
        dtype = np.dtype(aval.dtype)
        if dtype == np.bool_:
            raise ctx.unsupported(f"there is no rule for `{primitive.name}` of bool.")
        if is_float(dtype) and float_bits(dtype) < 32:
            x = arith.extf(ctx.type(aval.shape, ctx.element(_FLOAT32)), x)

        def combine(a, i, b, j):
            earlier = arith.cmpi(arith.CmpIPredicate.slt, i, j)
            if is_float(dtype):
                # NaN is the extreme, the first one of several; equal ones likewise.
                better = arith.cmpf(getattr(arith.CmpFPredicate, "O" + name), a, b)
                a_nan = arith.cmpf(arith.CmpFPredicate.UNO, a, a)
                b_nan = arith.cmpf(arith.CmpFPredicate.UNO, b, b)
                same = arith.ori(
                    arith.cmpf(arith.CmpFPredicate.OEQ, a, b), arith.andi(a_nan, b_nan)
                )
                true = ctx.constant(1, np.bool_)
                better = arith.ori(better, arith.andi(a_nan, arith.xori(b_nan, true)))
            else:
                prefix = "u" if is_unsigned(dtype) else "s"
                better = arith.cmpi(getattr(arith.CmpIPredicate, prefix + name.lower()), a, b)
                same = arith.cmpi(arith.CmpIPredicate.eq, a, b)
            first = arith.ori(better, arith.andi(same, earlier))
            return [arith.select(first, a, b), arith.select(first, i, j)]

        _, index = _reduced(ctx, [x, positions(ctx, aval.shape, axis)], axis, combine)
        result = equation.results[0].aval
        return [converted(ctx, index, result.update(dtype=_INT32), result.dtype)]


_arg_extreme(reduction.argmax_p, "GT")
_arg_extreme(reduction.argmin_p, "LT")


@rule(contraction.dot_general_p)
def _dot_general(ctx: Lowering, equation, operands):
    a, b = operands
    left, right = [x.aval for x in equation.operands]
    result = equation.results[0].aval
    (contracted, batch), precision = equation.params.dimension_numbers, equation.params.precision
    if left.ndim != 2 or right.ndim != 2 or any(batch) or [*map(len, contracted)] != [1, 1]:
        raise ctx.unsupported("it multiplies two matrices.", f"{left.text()}, {right.text()}")
    sizes = (
        left.shape[1 - contracted[0][0]],
        right.shape[1 - contracted[1][0]],
        left.shape[contracted[0][0]],
    )
    if min(sizes) < 16:
        raise ctx.unsupported(
            "matrices that are multiplied have 16 rows and columns at least.",
            f"{sizes[0]} rows, {sizes[1]} columns, {sizes[2]} products each",
        )
    # Axis 1 of the first, axis 0 of the second.
    a = triton.trans(a, [1, 0]) if tuple(contracted[0]) == (0,) else a
    b = triton.trans(b, [1, 0]) if tuple(contracted[1]) == (1,) else b
    if left.dtype != right.dtype:
        raise ctx.unsupported(
            "it multiplies matrices of one dtype.", f"{left.text()}, {right.text()}"
        )
    floats = is_float(left.dtype)
    sums = np.dtype(np.float64) if left.dtype == np.float64 else _FLOAT32 if floats else _INT32
    zero = ctx.constant(0, sums, result.shape)
    product = triton.DotOp(a, b, zero, inputPrecision=_input_precision(precision)).result
    return [converted(ctx, product, result.update(dtype=sums), result.dtype)]


def _input_precision(precision: Any) -> int:
    """How float32 is multiplied: exactly, but where the user asks for less."""
    names = {str(getattr(p, "name", p)).upper() for p in precision or ()}
    if names == {"HIGH"}:
        return triton.InputPrecision.TF32x3
    if any("TF32" in name for name in names):
        return triton.InputPrecision.TF32
    return triton.InputPrecision.IEEE
