"""How operations on values are lowered to Triton: a table of primitives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from pellucid._machine.base import dtypes
from pellucid._machine.higher_order.cond import cond_p
from pellucid._machine.higher_order.loop_primitives import scan_p, while_p
from pellucid._machine.ir import AbstractRef, Primitive, ShapedArray
from pellucid._machine.primitives import (
    arithmetic,
    contraction,
    conversion,
    creation,
    error_functions,
    logical,
    movement,
    reduction,
    staging,
    transcendental,
)
from pellucid._machine.xla.triton import arith, ir, math, scf, triton

from .lowering import Lowering, is_float, is_unsigned, rule

Build: TypeAlias = Callable[..., ir.Value]
"""Makes an operation of SSA values."""
_FLOAT32 = np.dtype(np.float32)
_INT32 = np.dtype(np.int32)


def _float_bits(dtype: Any) -> int:
    return dtypes.itemsize_bits(np.dtype(dtype))


# Operations on elements ---------------------------------------------------------------------------------------


def _build_for(
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


def _elementwise(
    primitive: Primitive,
    on_floats: Build | None = None,
    on_integers: Build | None = None,
    on_unsigned: Build | None = None,
    on_booleans: Build | None = None,
    *,
    widened: bool = False,
) -> None:
    """A row: the operation for each kind of operands; with `widened` narrow floating numbers are computed in float32."""

    @rule(primitive)
    def lower(ctx: Lowering, equation, operands):
        [result] = equation.results
        dtype = np.dtype(equation.operands[0].aval.dtype)
        build = _build_for(ctx, primitive, dtype, on_floats, on_integers, on_unsigned, on_booleans)
        inputs = [ctx.spread(x, result.aval.shape) for x in operands]
        if widened and is_float(dtype) and _float_bits(dtype) < 32:
            wide = ctx.type(result.aval.shape, ctx.element(_FLOAT32))
            inputs = [arith.extf(wide, x) for x in inputs]
            return [arith.truncf(ctx.type_of(result.aval), build(*inputs))]
        return [build(*inputs)]


def _extern(name: str) -> Build:
    """A function of CUDA's mathematical library, of the width of its operands."""

    def build(*operands: ir.Value) -> ir.Value:
        kind = operands[0].type
        element = ir.RankedTensorType(kind).element_type if hasattr(kind, "shape") else kind
        symbol = f"__nv_{name}" + ("f" if element == ir.F32Type.get() else "")
        return triton.extern_elementwise(kind, operands, "", "", symbol, True)

    return build


_elementwise(arithmetic.add_p, arith.addf, arith.addi, None, arith.ori)
_elementwise(arithmetic.sub_p, arith.subf, arith.subi)
_elementwise(arithmetic.mul_p, arith.mulf, arith.muli, None, arith.andi)
_elementwise(arithmetic.div_p, arith.divf, arith.divsi, arith.divui)
_elementwise(arithmetic.rem_p, arith.remf, arith.remsi, arith.remui)
_elementwise(arithmetic.max_p, arith.maximumf, arith.maxsi, arith.maxui, arith.ori)
_elementwise(arithmetic.min_p, arith.minimumf, arith.minsi, arith.minui, arith.andi)
_elementwise(arithmetic.floor_p, math.floor, widened=True)
_elementwise(arithmetic.ceil_p, math.ceil, widened=True)
_elementwise(arithmetic.sqrt_p, math.sqrt, widened=True)
_elementwise(arithmetic.rsqrt_p, math.rsqrt, widened=True)
_elementwise(arithmetic.cbrt_p, _extern("cbrt"), widened=True)
_elementwise(arithmetic.log_p, math.log, widened=True)
_elementwise(arithmetic.pow_p, _extern("pow"), widened=True)
_elementwise(arithmetic.square_p, lambda x: arith.mulf(x, x), lambda x: arith.muli(x, x))
_elementwise(transcendental.exp_p, math.exp, widened=True)
_elementwise(transcendental.exp2_p, math.exp2, widened=True)
_elementwise(transcendental.sin_p, math.sin, widened=True)
_elementwise(transcendental.cos_p, math.cos, widened=True)
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
_elementwise(error_functions.erf_p, math.erf, widened=True)
_elementwise(error_functions.erfc_p, _extern("erfc"), widened=True)
_elementwise(logical.and_p, None, arith.andi, None, arith.andi)
_elementwise(logical.or_p, None, arith.ori, None, arith.ori)
_elementwise(logical.xor_p, None, arith.xori, None, arith.xori)


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
        bits = 8 * np.dtype(aval.dtype).itemsize
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


@rule(arithmetic.round_p)
def _round(ctx: Lowering, equation, operands):
    [x] = operands
    aval = equation.results[0].aval
    to_even = equation.params.rounding_method == arithmetic.RoundingMethod.TO_NEAREST_EVEN
    build = _extern("rint" if to_even else "round")
    if _float_bits(aval.dtype) >= 32:
        return [build(x)]
    wide = ctx.type(aval.shape, ctx.element(_FLOAT32))
    return [arith.truncf(ctx.type_of(aval), build(arith.extf(wide, x)))]


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
    is_narrow = _float_bits(aval.dtype) < 32
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
        bits, new_bits = _float_bits(old), _float_bits(new)
        if min(bits, new_bits) < 16:
            rounding = triton.RoundingMode.RTNE if new_bits < bits else None
            return triton.fp_to_fp(kind, x, rounding=rounding)
        if bits == new_bits:  # float16 and bfloat16
            wide = ctx.type(aval.shape, ctx.element(_FLOAT32))
            return arith.truncf(kind, arith.extf(wide, x))
        return arith.extf(kind, x) if new_bits > bits else arith.truncf(kind, x)
    if is_float(old):
        return arith.fptoui(kind, x) if is_unsigned(new) else arith.fptosi(kind, x)
    if is_float(new):
        return arith.uitofp(kind, x) if is_unsigned(old) else arith.sitofp(kind, x)
    if old != np.bool_ and old.itemsize == new.itemsize:
        return x
    if old != np.bool_ and old.itemsize > new.itemsize:
        return arith.trunci(kind, x)
    return arith.extui(kind, x) if is_unsigned(old) else arith.extsi(kind, x)


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


@rule(creation.empty_p)
def _empty(ctx: Lowering, equation, operands):
    aval = equation.results[0].aval
    return [ctx.constant(0, aval.dtype, aval.shape)]


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


def _reduced(
    ctx: Lowering, operands: list[ir.Value], axis: int, combine: Callable[..., Sequence[ir.Value]]
) -> list[ir.Value]:
    """Blocks without an axis, along which `combine` (of first, then second elements) has made one of two."""
    kinds = [ctx.scalar_type(x) for x in operands]
    operation = triton.ReduceOp(operands, axis)
    arguments = [*kinds, *kinds]
    block = operation.regions[0].blocks.append(
        *arguments, arg_locs=[ir.Location.current] * len(arguments)
    )
    with ctx.inside(block):
        triton.reduce_return(combine(*block.arguments))
    return list(operation.results)


def _reduction(
    primitive: Primitive, on_floats: Build | None, on_integers: Build, on_unsigned: Build | None = None,
    on_booleans: Build | None = None,
) -> None:  # fmt: skip
    @rule(primitive)
    def lower(ctx: Lowering, equation, operands):
        [x] = operands
        aval = equation.operands[0].aval
        dtype = np.dtype(aval.dtype)
        build = _build_for(ctx, primitive, dtype, on_floats, on_integers, on_unsigned, on_booleans)
        is_narrow = is_float(dtype) and _float_bits(dtype) < 32
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


def _arg_extreme(primitive: Primitive, name: str) -> None:
    @rule(primitive)
    def lower(ctx: Lowering, equation, operands):
        [x] = operands
        aval, [axis] = equation.operands[0].aval, equation.params.axes
        dtype = np.dtype(aval.dtype)
        if dtype == np.bool_:
            raise ctx.unsupported(f"there is no rule for `{primitive.name}` of bool.")
        if is_float(dtype) and _float_bits(dtype) < 32:
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


# Control flow ---------------------------------------------------------------------------------------------------


@rule(cond_p)
def _cond(ctx: Lowering, equation, operands):
    index, *inputs = operands
    branches = equation.params.branches
    if equation.params.branches_platforms is not None:
        raise ctx.unsupported("branches for platforms have no rule.")
    kinds = [ctx.type_of(v.aval) for v in equation.results]

    def choose(first: int) -> list[ir.Value]:
        """Results of the branches from `first` on."""
        if first == len(branches) - 1:
            return ctx.inline(branches[first].jaxpr, inputs)
        is_it = arith.cmpi(arith.CmpIPredicate.sle, index, ctx.int32(first))
        operation: Any = scf.IfOp(is_it, kinds, has_else=True)
        with ctx.inside(operation.then_block):
            scf.yield_(ctx.inline(branches[first].jaxpr, inputs))
        with ctx.inside(operation.else_block):
            scf.yield_(choose(first + 1))
        return list(operation.results)

    ctx.writes += 1  # a branch may write: what was read before is no longer known to be there
    results = choose(0)
    ctx.writes += 1
    return results


@rule(scan_p)
def _scan(ctx: Lowering, equation, operands):
    params = equation.params
    consts, carry, stacked = params.split(operands)
    if stacked or len(equation.results) > len(carry):
        raise ctx.unsupported(
            "loops have no stacked inputs and results.", do="Use `fori_loop`, and references."
        )
    if any(type(a.aval) is AbstractRef for a in equation.operands[len(consts) :]):
        raise ctx.unsupported("a loop can't carry references.")
    lower, upper, step = [ctx.int32(n) for n in (0, params.length, 1)]
    loop: Any = scf.ForOp(lower, upper, step, carry)
    ctx.writes += 1
    with ctx.inside(loop.body):
        scf.yield_(ctx.inline(params.jaxpr.jaxpr, [*consts, *loop.inner_iter_args]))
    ctx.writes += 1
    return list(loop.results)


@rule(while_p)
def _while(ctx: Lowering, equation, operands):
    params = equation.params
    tested, consts, carry = params.split(operands)
    kinds = [x.type for x in carry]
    loop: Any = scf.WhileOp(kinds, carry)
    locations = [ir.Location.current] * len(kinds)
    ctx.writes += 1
    before = loop.before.blocks.append(*kinds, arg_locs=locations)
    with ctx.inside(before):
        [goes_on] = ctx.inline(params.cond_jaxpr.jaxpr, [*tested, *before.arguments])
        scf.ConditionOp(goes_on, list(before.arguments))
    after = loop.after.blocks.append(*kinds, arg_locs=locations)
    with ctx.inside(after):
        scf.yield_(ctx.inline(params.body_jaxpr.jaxpr, [*consts, *after.arguments]))
    ctx.writes += 1
    return list(loop.results)
