"""How operations on elements are lowered on every device, by MLIR's `arith` and `math`: a table of primitives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from pellucid._machine.base import dtypes
from pellucid._machine.ir import Primitive, ShapedArray
from pellucid._machine.primitives import (
    arithmetic,
    conversion,
    creation,
    error_functions,
    logical,
    staging,
    transcendental,
)
from pellucid._machine.xla.kernel_dialects import arith, ir, math

from .programs import COMMON, Lowering, Rules, is_float, is_unsigned, registering

Build: TypeAlias = Callable[..., ir.Value]
"""Makes an operation of SSA values."""
_FLOAT32 = np.dtype(np.float32)
rule = registering(COMMON)


def float_bits(dtype: Any) -> int:
    """Bits of an element, of whatever kind."""
    return dtypes.itemsize_bits(np.dtype(dtype))


# Operations on elements ---------------------------------------------------------------------------------------


def build_for(
    ctx: Lowering,
    primitive: Primitive,
    dtype: np.dtype,
    on_floats: Build | None,
    on_integers: Build | None,
    on_unsigned: Build | None,
    on_booleans: Build | None,
) -> Build:
    """The operation for elements of `dtype`; the one for unsigned integers is by default that for signed ones."""
    if dtype == np.bool_:
        build = on_booleans
    elif is_float(dtype):
        build = on_floats
    else:
        build = on_unsigned if is_unsigned(dtype) and on_unsigned is not None else on_integers
    if build is None:
        name = dtypes.short_name(dtype)
        raise ctx.unsupported(f"there is no rule for `{primitive.name}` of {name}.")
    return build


def elementwise(
    primitive: Primitive,
    on_floats: Build | None = None,
    on_integers: Build | None = None,
    on_unsigned: Build | None = None,
    on_booleans: Build | None = None,
    *,
    widened: bool = False,
    rules: Rules = COMMON,
) -> None:
    """A row of `rules`: the operation for each kind of operands; with `widened` narrow floating numbers are computed in float32."""

    @registering(rules)(primitive)
    def lower(ctx: Lowering, equation, operands):
        [result] = equation.results
        dtype = np.dtype(equation.operands[0].aval.dtype)
        build = build_for(ctx, primitive, dtype, on_floats, on_integers, on_unsigned, on_booleans)
        inputs = [ctx.spread(x, result.aval.shape) for x in operands]
        if widened and is_float(dtype) and float_bits(dtype) < 32:
            wide = ctx.type(result.aval.shape, ctx.element(_FLOAT32))
            inputs = [arith.extf(wide, x) for x in inputs]
            return [arith.truncf(ctx.type_of(result.aval), build(*inputs))]
        return [build(*inputs)]


elementwise(arithmetic.add_p, arith.addf, arith.addi, None, arith.ori)
elementwise(arithmetic.sub_p, arith.subf, arith.subi)
elementwise(arithmetic.mul_p, arith.mulf, arith.muli, None, arith.andi)
elementwise(arithmetic.div_p, arith.divf, arith.divsi, arith.divui)
elementwise(arithmetic.rem_p, arith.remf, arith.remsi, arith.remui)
elementwise(arithmetic.max_p, arith.maximumf, arith.maxsi, arith.maxui, arith.ori)
elementwise(arithmetic.min_p, arith.minimumf, arith.minsi, arith.minui, arith.andi)
elementwise(arithmetic.floor_p, math.floor, widened=True)
elementwise(arithmetic.ceil_p, math.ceil, widened=True)
elementwise(arithmetic.sqrt_p, math.sqrt, widened=True)
elementwise(arithmetic.rsqrt_p, math.rsqrt, widened=True)
elementwise(arithmetic.log_p, math.log, widened=True)
elementwise(arithmetic.square_p, lambda x: arith.mulf(x, x), lambda x: arith.muli(x, x))
elementwise(transcendental.exp_p, math.exp, widened=True)
elementwise(transcendental.exp2_p, math.exp2, widened=True)
elementwise(transcendental.sin_p, math.sin, widened=True)
elementwise(transcendental.cos_p, math.cos, widened=True)
elementwise(error_functions.erf_p, math.erf, widened=True)
elementwise(logical.and_p, None, arith.andi, None, arith.andi)
elementwise(logical.or_p, None, arith.ori, None, arith.ori)
elementwise(logical.xor_p, None, arith.xori, None, arith.xori)


@rule(logical.not_p)
def _not(ctx: Lowering, equation, operands):
    [x] = operands
    aval = equation.results[0].aval
    ones = ctx.constant(1 if aval.dtype == np.bool_ else -1, aval.dtype, aval.shape)
    return [arith.xori(x, ones)]


def _shift(primitive: Primitive, build: Build, is_arithmetic: bool) -> None:
    @rule(primitive)
    def lower(ctx: Lowering, equation, operands):
        aval = equation.results[0].aval
        x, n = [ctx.spread(v, aval.shape) for v in operands]
        bits = float_bits(aval.dtype)
        # By as many bits as there are, or more, the operation of MLIR is undefined; here the sign remains, or nothing.
        is_in_range = arith.cmpi(
            arith.CmpIPredicate.ult, n, ctx.constant(bits, aval.dtype, aval.shape)
        )
        last = ctx.constant(bits - 1, aval.dtype, aval.shape)
        shifted = build(x, arith.select(is_in_range, n, last))
        if is_arithmetic:
            return [shifted]
        return [arith.select(is_in_range, shifted, ctx.constant(0, aval.dtype, aval.shape))]


_shift(logical.shift_left_p, arith.shli, False)
_shift(logical.shift_right_logical_p, arith.shrui, False)
_shift(logical.shift_right_arithmetic_p, arith.shrsi, True)


@rule(arithmetic.neg_p)
def _neg(ctx: Lowering, equation, operands):
    [x] = operands
    aval = equation.results[0].aval
    zero = ctx.constant(0, aval.dtype, aval.shape)
    return [arith.negf(x) if is_float(aval.dtype) else arith.subi(zero, x)]


@rule(arithmetic.abs_p)
def _abs(ctx: Lowering, equation, operands):
    [x] = operands
    dtype = equation.results[0].aval.dtype
    return [x if is_unsigned(dtype) else math.absf(x) if is_float(dtype) else math.absi(x)]


@rule(arithmetic.sign_p)
def _sign(ctx: Lowering, equation, operands):
    [x] = operands
    aval = equation.results[0].aval
    zero, one = [ctx.constant(n, aval.dtype, aval.shape) for n in (0, 1)]
    if is_unsigned(aval.dtype):
        return [arith.select(arith.cmpi(arith.CmpIPredicate.ne, x, zero), one, zero)]
    minus = ctx.constant(-1, aval.dtype, aval.shape)
    if is_float(aval.dtype):  # zeros and NaN are their own signs
        compare, above, below = arith.cmpf, arith.CmpFPredicate.OGT, arith.CmpFPredicate.OLT
    else:
        compare, above, below = arith.cmpi, arith.CmpIPredicate.sgt, arith.CmpIPredicate.slt
    rest = arith.select(compare(below, x, zero), minus, x)
    return [arith.select(compare(above, x, zero), one, rest)]


@rule(arithmetic.integer_pow_p)
def _integer_pow(ctx: Lowering, equation, operands):
    [x] = operands
    aval, y = equation.results[0].aval, equation.params.y
    floats = is_float(aval.dtype)
    multiply = arith.mulf if floats else arith.muli
    one = ctx.constant(1, aval.dtype, aval.shape)
    power, square, n = None, x, abs(y)
    while n:
        if n & 1:
            power = square if power is None else multiply(power, square)
        n >>= 1
        if n:
            square = multiply(square, square)
    power = one if power is None else power
    if y >= 0:
        return [power]
    if not floats:
        raise ctx.unsupported("integers have no negative powers.")
    return [arith.divf(one, power)]


@rule(transcendental.logistic_p)
def _logistic(ctx: Lowering, equation, operands):
    [x] = operands
    aval = equation.results[0].aval
    kind = ctx.type_of(aval)
    is_narrow = float_bits(aval.dtype) < 32
    dtype = _FLOAT32 if is_narrow else aval.dtype
    if is_narrow:
        x = arith.extf(ctx.type(aval.shape, ctx.element(dtype)), x)
    one = ctx.constant(1, dtype, aval.shape)
    y = arith.divf(one, arith.addf(one, math.exp(arith.negf(x))))
    return [arith.truncf(kind, y) if is_narrow else y]


def _comparison(primitive: Primitive, name: str) -> None:
    @rule(primitive)
    def lower(ctx: Lowering, equation, operands):
        result = equation.results[0].aval
        dtype = equation.operands[0].aval.dtype
        x, y = [ctx.spread(v, result.shape) for v in operands]
        if is_float(dtype):  # with NaN all are false but `ne`
            prefix = "U" if name == "ne" else "O"
            return [arith.cmpf(getattr(arith.CmpFPredicate, prefix + name.upper()), x, y)]
        prefix = "" if name in ("eq", "ne") else "u" if is_unsigned(dtype) else "s"
        return [arith.cmpi(getattr(arith.CmpIPredicate, prefix + name), x, y)]


for _primitive, _name in {
    logical.eq_p: "eq", logical.ne_p: "ne", logical.ge_p: "ge",
    logical.gt_p: "gt", logical.le_p: "le", logical.lt_p: "lt",
}.items():  # fmt: skip
    _comparison(_primitive, _name)


@rule(logical.is_finite_p)
def _is_finite(ctx: Lowering, equation, operands):
    [x] = operands
    aval = equation.operands[0].aval
    infinite = ctx.constant(np.inf, aval.dtype, aval.shape)
    return [arith.cmpf(arith.CmpFPredicate.OLT, math.absf(x), infinite)]


@rule(logical.select_n_p)
def _select_n(ctx: Lowering, equation, operands):
    which, *cases = operands
    aval = equation.results[0].aval
    dtype = equation.operands[0].aval.dtype
    which, *cases = [ctx.spread(x, aval.shape) for x in (which, *cases)]
    if dtype == np.bool_:
        return [arith.select(which, cases[1], cases[0])]
    chosen = cases[-1]
    # From the last case but one to the first.
    for i in reversed(range(len(cases) - 1)):
        number = ctx.constant(i, dtype, aval.shape)
        is_it = arith.cmpi(arith.CmpIPredicate.sle, which, number)
        chosen = arith.select(is_it, cases[i], chosen)
    return [chosen]


@rule(logical.clamp_p)
def _clamp(ctx: Lowering, equation, operands):
    aval = equation.results[0].aval
    low, x, high = [ctx.spread(v, aval.shape) for v in operands]
    if is_float(aval.dtype):
        return [arith.minimumf(arith.maximumf(x, low), high)]
    if is_unsigned(aval.dtype):
        return [arith.minui(arith.maxui(x, low), high)]
    return [arith.minsi(arith.maxsi(x, low), high)]


@rule(
    conversion.stop_gradient_p, conversion.copy_p, staging.optimization_barrier_p, staging.stage_p
)
def _same(ctx: Lowering, equation, operands):
    return operands


# Conversion ---------------------------------------------------------------------------------------------------


@rule(conversion.convert_element_type_p)
def _convert(ctx: Lowering, equation, operands):
    [x] = operands
    return [converted(ctx, x, equation.operands[0].aval, equation.results[0].aval.dtype)]


def converted(ctx: Lowering, x: ir.Value, aval: ShapedArray, dtype: Any) -> ir.Value:
    """`x`, of type `aval`, as elements of `dtype`."""
    old, new = np.dtype(aval.dtype), np.dtype(dtype)
    kind = ctx.type(aval.shape, ctx.element(new))
    if old == new:
        return x
    if new == np.bool_:
        zero = ctx.constant(0, old, aval.shape)
        if is_float(old):
            return arith.cmpf(arith.CmpFPredicate.UNE, x, zero)
        return arith.cmpi(arith.CmpIPredicate.ne, x, zero)
    if is_float(old) and is_float(new):
        bits, new_bits = float_bits(old), float_bits(new)
        if bits == new_bits:  # float16 and bfloat16
            wide = ctx.type(aval.shape, ctx.element(_FLOAT32))
            return arith.truncf(kind, arith.extf(wide, x))
        return arith.extf(kind, x) if new_bits > bits else arith.truncf(kind, x)
    if is_float(old) and float_bits(new) < 32:
        return _narrow_integer(ctx, x, aval, new)
    if is_float(old):
        return arith.fptoui(kind, x) if is_unsigned(new) else arith.fptosi(kind, x)
    if is_float(new):
        return arith.uitofp(kind, x) if is_unsigned(old) else arith.sitofp(kind, x)
    if old != np.bool_ and float_bits(old) == float_bits(new):
        return x
    if old != np.bool_ and float_bits(old) > float_bits(new):
        return arith.trunci(kind, x)
    return arith.extui(kind, x) if is_unsigned(old) else arith.extsi(kind, x)


def clamp(ctx: Lowering, x: ir.Value, aval: ShapedArray, dtype: np.dtype) -> ir.Value:
    """`x`, of type `aval`, as the nearest numbers that integers of a narrower `dtype` have, 0 for NaN: instructions would wrap."""
    limits = dtypes.iinfo(dtype)
    low, high, zero = [ctx.constant(n, aval.dtype, aval.shape) for n in (limits.min, limits.max, 0)]
    is_number = arith.cmpf(arith.CmpFPredicate.OEQ, x, x)
    return arith.select(is_number, arith.minimumf(arith.maximumf(x, low), high), zero)


def _narrow_integer(ctx: Lowering, x: ir.Value, aval: ShapedArray, dtype: np.dtype) -> ir.Value:
    """Floating numbers as integers of fewer than 32 bits, by way of 32."""
    wide = aval.update(dtype=max(np.dtype(aval.dtype), _FLOAT32, key=float_bits))
    x = clamp(ctx, converted(ctx, x, aval, wide.dtype), wide, dtype)
    whole = arith.fptosi(ctx.type(aval.shape, ctx.element(np.dtype(np.int32))), x)
    return arith.trunci(ctx.type(aval.shape, ctx.element(dtype)), whole)


@rule(creation.empty_p)
def _empty(ctx: Lowering, equation, operands):
    aval = equation.results[0].aval
    return [ctx.constant(0, aval.dtype, aval.shape)]
