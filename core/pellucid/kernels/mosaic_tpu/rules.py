"""How operations on values are lowered to Mosaic, beyond those that all devices share: a table of primitives."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import Shape
from pellucid._machine.ir import Primitive
from pellucid._machine.primitives import (
    arithmetic,
    assembly,
    conversion,
    creation,
    logical,
    movement,
    transcendental,
)
from pellucid._machine.xla.mosaic_tpu import arith, ir, math, tpu, vector
from pellucid.kernels.lowering.elements import clamp, converted, elementwise, float_bits
from pellucid.kernels.lowering.programs import COMMON, is_float, is_unsigned

from .lowering import RULES, Lowering, is_vector, rule
from .tiles import has_four_bits

_INT32 = np.dtype(np.int32)
_FLOAT32 = np.dtype(np.float32)
_elementwise = functools.partial(elementwise, rules=RULES)


# Operations on elements ---------------------------------------------------------------------------------------


for _primitive, _build in {
    transcendental.tanh_p: math.tanh,
    transcendental.log1p_p: math.log1p,
    transcendental.tan_p: math.tan,
    arithmetic.pow_p: math.powf,
}.items():
    _elementwise(_primitive, _build, widened=True)


@rule(transcendental.expm1_p)
def _expm1(ctx: Lowering, equation, operands):
    """e^x - 1 as tanh(x/2) (e^x + 1), which loses nothing near 0."""
    [x] = operands
    aval = equation.results[0].aval
    wide = aval.update(dtype=_FLOAT32)
    x = converted(ctx, x, aval, _FLOAT32)
    half, one = [ctx.constant(n, _FLOAT32, aval.shape) for n in (0.5, 1)]
    y = arith.mulf(math.tanh(arith.mulf(x, half)), arith.addf(math.exp(x), one))
    return [converted(ctx, y, wide, aval.dtype)]


@rule(arithmetic.round_p)
def _round(ctx: Lowering, equation, operands):
    [x] = operands
    aval = equation.results[0].aval
    to_even = equation.params.rounding_method == arithmetic.RoundingMethod.TO_NEAREST_EVEN
    build = math.roundeven if to_even else math.round
    if float_bits(aval.dtype) >= 32:
        return [build(x)]
    wide = ctx.type(aval.shape, ctx.element(_FLOAT32))
    return [arith.truncf(ctx.type_of(aval), build(arith.extf(wide, x)))]


# Integers -------------------------------------------------------------------------------------------------------


def _comparison(primitive: Primitive, name: str) -> None:
    common = COMMON[primitive]

    @rule(primitive)
    def lower(ctx: Lowering, equation, operands):
        result, aval = equation.results[0].aval, equation.operands[0].aval
        x, y = [ctx.spread(v, result.shape) for v in operands]
        if is_float(aval.dtype) and name == "ne":  # the unit has no comparison that holds for NaN
            equal = arith.cmpf(arith.CmpFPredicate.OEQ, x, y)
            return [arith.xori(equal, ctx.constant(1, np.bool_, result.shape))]
        if not is_unsigned(aval.dtype) or name in ("eq", "ne"):
            return common(ctx, equation, operands)
        return [_unsigned(ctx, name, x, y, result.shape)]


def _unsigned(ctx: Lowering, name: str, x: ir.Value, y: ir.Value, shape: Shape) -> ir.Value:
    """A comparison of unsigned integers, as one of signed ones with the first bit inverted."""
    first_bit = ctx.constant(-1 << 31, _INT32, shape)
    x, y = arith.xori(x, first_bit), arith.xori(y, first_bit)
    return arith.cmpi(getattr(arith.CmpIPredicate, f"s{name}"), x, y)


for _primitive, _name in {
    logical.eq_p: "eq", logical.ne_p: "ne", logical.ge_p: "ge",
    logical.gt_p: "gt", logical.le_p: "le", logical.lt_p: "lt",
}.items():  # fmt: skip
    _comparison(_primitive, _name)


def _extreme(primitive: Primitive, name: str) -> None:
    common = COMMON[primitive]

    @rule(primitive)
    def lower(ctx: Lowering, equation, operands):
        result = equation.results[0].aval
        if result.dtype == np.bool_ or not is_unsigned(result.dtype):
            return common(ctx, equation, operands)
        x, y = [ctx.spread(v, result.shape) for v in operands]
        return [arith.select(_unsigned(ctx, name, x, y, result.shape), x, y)]


_extreme(arithmetic.max_p, "gt")
_extreme(arithmetic.min_p, "lt")


@rule(logical.clamp_p)
def _clamp(ctx: Lowering, equation, operands):
    result = equation.results[0].aval
    if not is_unsigned(result.dtype):
        return COMMON[logical.clamp_p](ctx, equation, operands)
    low, x, high = [ctx.spread(v, result.shape) for v in operands]
    x = arith.select(_unsigned(ctx, "gt", x, low, result.shape), x, low)
    return [arith.select(_unsigned(ctx, "lt", x, high, result.shape), x, high)]


class _Atom(NamedTuple):
    aval: Any


def _in_32_bits(primitive: Primitive) -> None:
    """Let a rule compute integers of fewer bits in 32 of them: the unit has operations of these."""
    lower = RULES.get(primitive) or COMMON[primitive]

    @rule(primitive)
    def lower_wide(ctx: Lowering, equation, operands):
        atoms = [*equation.operands, *equation.results]
        if not any(_is_narrow(a.aval.dtype) for a in atoms):
            return lower(ctx, equation, operands)
        wide = [_Atom(a.aval.update(dtype=_wide(a.aval.dtype))) for a in atoms]
        inputs = [
            converted(ctx, x, a.aval, w.aval.dtype)
            for x, a, w in zip(operands, equation.operands, wide, strict=False)
        ]
        n = len(operands)
        as_wide: Any = _Equation(equation.primitive, wide[:n], wide[n:], equation.params)
        [result] = lower(ctx, as_wide, inputs)
        return [converted(ctx, result, wide[n].aval, equation.results[0].aval.dtype)]


class _Equation(NamedTuple):
    """What rules read of an equation."""

    primitive: Primitive
    operands: list[_Atom]
    results: list[_Atom]
    params: Any


def _is_narrow(dtype: Any) -> bool:
    return np.dtype(dtype).kind in "iu" and np.dtype(dtype).itemsize < 4


def _wide(dtype: Any) -> Any:
    if not _is_narrow(dtype):
        return dtype
    return _of_32_bits(dtype)


for _primitive in (
    arithmetic.add_p, arithmetic.sub_p, arithmetic.mul_p, arithmetic.div_p, arithmetic.rem_p, arithmetic.max_p,
    arithmetic.min_p, arithmetic.neg_p, arithmetic.abs_p, arithmetic.sign_p, arithmetic.square_p, arithmetic.integer_pow_p,
    logical.clamp_p, logical.eq_p, logical.ne_p, logical.ge_p, logical.gt_p, logical.le_p, logical.lt_p,
):  # fmt: skip
    _in_32_bits(_primitive)


# Choices ----------------------------------------------------------------------------------------------------------


@rule(logical.select_n_p)
def _select_n(ctx: Lowering, equation, operands):
    which, *cases = operands
    aval, dtype = equation.results[0].aval, equation.operands[0].aval.dtype
    cases = [ctx.spread(x, aval.shape) for x in cases]
    if ctx.shape(which):
        which = ctx.spread(which, aval.shape)
    # From the last case but one to the first; a scalar chooses whole vectors.
    chosen = cases[-1]
    for i in reversed(range(len(cases) - 1)):
        if dtype == np.bool_:
            return [_chosen(ctx, which, cases[1], cases[0])]
        number = ctx.constant(i, dtype, ctx.shape(which))
        chosen = _chosen(ctx, arith.cmpi(arith.CmpIPredicate.sle, which, number), cases[i], chosen)
    return [chosen]


def _chosen(ctx: Lowering, which: ir.Value, yes: ir.Value, no: ir.Value) -> ir.Value:
    if ctx.scalar_type(yes) != ctx.element(np.bool_) or not is_vector(yes):
        return arith.select(which, yes, no)
    # Between masks, as numbers.
    shape = ctx.shape(yes)
    kind = ctx.type(shape, ctx.element(_INT32))
    chosen = arith.select(which, arith.extui(kind, yes), arith.extui(kind, no))
    return arith.cmpi(arith.CmpIPredicate.ne, chosen, ctx.int32(0, shape))


# Conversion ---------------------------------------------------------------------------------------------------


@rule(conversion.convert_element_type_p)
def _convert(ctx: Lowering, equation, operands):
    [x] = operands
    aval, dtype = equation.operands[0].aval, np.dtype(equation.results[0].aval.dtype)
    return [_as_dtype(ctx, x, aval, dtype)]


def _as_dtype(ctx: Lowering, x: ir.Value, aval: Any, dtype: np.dtype) -> ir.Value:
    """`x`, of type `aval`, as elements of `dtype`; those of 4 bits by way of 32, of which the unit has conversions."""
    if aval.dtype == dtype:
        return x
    if has_four_bits(aval.dtype):
        wide = _of_32_bits(aval.dtype)
        return _as_dtype(ctx, converted(ctx, x, aval, wide), aval.update(dtype=wide), dtype)
    is_narrow = not is_float(dtype) and dtype != np.bool_ and float_bits(dtype) < 32
    if is_narrow and is_float(aval.dtype):
        x, aval = converted(ctx, x, aval, _FLOAT32), aval.update(dtype=_FLOAT32)
        x = clamp(ctx, x, aval, dtype)
    if has_four_bits(dtype):
        wide = _of_32_bits(dtype)
        return converted(ctx, _as_dtype(ctx, x, aval, wide), aval.update(dtype=wide), dtype)
    old = np.dtype(aval.dtype)
    if dtype == np.bool_ and is_float(old):
        equal = arith.cmpf(arith.CmpFPredicate.OEQ, x, ctx.constant(0, old, aval.shape))
        return arith.xori(equal, ctx.constant(1, np.bool_, aval.shape))
    if is_float(old) != is_float(dtype) and np.bool_ not in (old, dtype):
        return _between_kinds(ctx, x, aval, dtype)
    if old == np.bool_ and dtype not in (_INT32, np.bool_):
        x, aval = converted(ctx, x, aval, _INT32), aval.update(dtype=_INT32)
    return converted(ctx, x, aval, dtype)


def _between_kinds(ctx: Lowering, x: ir.Value, aval: Any, dtype: np.dtype) -> ir.Value:
    """An integer as a floating number, or one as an integer, by 32 bits: the unit has conversions of these."""
    old = np.dtype(aval.dtype)
    middle = _FLOAT32 if is_float(old) else _of_32_bits(old)
    x, aval = converted(ctx, x, aval, middle), aval.update(dtype=middle)
    goal = _of_32_bits(dtype) if is_float(old) else _FLOAT32
    x, aval = converted(ctx, x, aval, goal), aval.update(dtype=goal)
    return converted(ctx, x, aval, dtype)


def _of_32_bits(dtype: Any) -> np.dtype:
    """The integers of 32 bits that have those of a dtype."""
    return np.dtype(np.uint32 if is_unsigned(dtype) else np.int32)


@rule(conversion.bitcast_convert_type_p)
def _bitcast(ctx: Lowering, equation, operands):
    [x] = operands
    old, new = equation.operands[0].aval, equation.results[0].aval
    if old.shape != new.shape or np.bool_ in (old.dtype, new.dtype):
        raise ctx.unsupported(
            "bits are seen as elements of the same width only.", do="Use `tpu.bitcast`."
        )
    kind = ctx.type_of(new)
    if x.type == kind:
        return [x]
    return [tpu.bitcast(kind, x) if is_vector(x) else arith.bitcast(kind, x)]


# Movement -----------------------------------------------------------------------------------------------------


@rule(creation.iota_p)
def _iota(ctx: Lowering, equation, operands):
    result, axis = equation.results[0].aval, equation.params.dimension
    along = positions(ctx, result.shape, axis)
    return [converted(ctx, along, result.update(dtype=_INT32), result.dtype)]


def positions(ctx: Lowering, shape: Any, axis: int) -> ir.Value:
    """The position of each element of a vector along an axis, in int32."""
    if len(shape) == 1:  # there are positions along rows and columns only
        return ctx.reshaped(positions(ctx, (1, *shape), 1), shape)
    return tpu.iota(ctx.type(shape, ctx.element(_INT32)), [axis])


@rule(movement.broadcast_in_dim_p)
def _broadcast_in_dim(ctx: Lowering, equation, operands):
    [x] = operands
    return [ctx.along(x, equation.params.broadcast_dimensions, equation.results[0].aval.shape)]


@rule(movement.reshape_p, movement.squeeze_p)
def _reshape(ctx: Lowering, equation, operands):
    [x] = operands
    return [ctx.reshaped(x, equation.results[0].aval.shape)]


@rule(movement.transpose_p)
def _transpose(ctx: Lowering, equation, operands):
    [x] = operands
    result = equation.results[0].aval
    order = [*equation.params.permutation]
    if order == [*range(len(order))]:
        return [x]
    if result.dtype == np.bool_:
        wide = arith.extui(ctx.type(ctx.shape(x), ctx.element(_INT32)), x)
        moved = tpu.transpose(ctx.type(result.shape, ctx.element(_INT32)), wide, order)
        return [arith.cmpi(arith.CmpIPredicate.ne, moved, ctx.int32(0, result.shape))]
    return [tpu.transpose(ctx.type_of(result), x, order)]


@rule(assembly.slice_p)
def _slice(ctx: Lowering, equation, operands):
    [x] = operands
    params, result = equation.params, equation.results[0].aval
    if params.strides is not None and any(s != 1 for s in params.strides):
        raise ctx.unsupported(
            "values are cut without steps.", do="Read the part from the reference: `ref[::2, :]`."
        )
    return [_cut(ctx, x, params.start_indices, result.shape)]


def _cut(ctx: Lowering, x: ir.Value, starts: Any, sizes: Any) -> ir.Value:
    if ctx.shape(x) == tuple(sizes):
        return x
    kind = ctx.type(sizes, ctx.scalar_type(x))
    return vector.extract_strided_slice(kind, x, [*starts], [*sizes], [1] * len(sizes))


@rule(assembly.split_p)
def _split(ctx: Lowering, equation, operands):
    [x] = operands
    axis, start, parts = equation.params.axis, 0, []
    for result in equation.results:
        shape = result.aval.shape
        parts.append(_cut(ctx, x, [start if i == axis else 0 for i in range(len(shape))], shape))
        start += shape[axis]
    return parts


@rule(assembly.concatenate_p)
def _concatenate(ctx: Lowering, equation, operands):
    aval = equation.results[0].aval
    if aval.ndim < 2:
        raise ctx.unsupported(
            "vectors of one dimension aren't joined.", f"a result of type {aval.text()}"
        )
    return [_joined(operands, equation.params.dimension)]


@rule(assembly.stack_p)
def _stack(ctx: Lowering, equation, operands):
    aval, axis = equation.results[0].aval, equation.params.axis
    if aval.ndim < 2:
        raise ctx.unsupported(
            "numbers aren't joined to vectors.", f"a result of type {aval.text()}"
        )
    shape = (*aval.shape[:axis], 1, *aval.shape[axis + 1 :])
    return [_joined([ctx.reshaped(x, shape) for x in operands], axis)]


@rule(assembly.unstack_p)
def _unstack(ctx: Lowering, equation, operands):
    [x] = operands
    aval, axis = equation.operands[0].aval, equation.params.axis
    sizes = [1 if i == axis else n for i, n in enumerate(aval.shape)]
    parts = []
    for k, result in enumerate(equation.results):
        part = _cut(ctx, x, [k if i == axis else 0 for i in range(aval.ndim)], sizes)
        parts.append(ctx.reshaped(part, result.aval.shape))
    return parts


def _joined(parts: list[ir.Value], axis: int) -> ir.Value:
    return parts[0] if len(parts) == 1 else tpu.concatenate(parts, axis)


@rule(assembly.pad_p)
def _pad(ctx: Lowering, equation, operands):
    x, element = operands
    config = equation.params.padding_config
    if any(inner or before < 0 or behind < 0 for before, behind, inner in config):
        raise ctx.unsupported("arrays are padded at their ends only.")
    for axis, (before, behind, _) in enumerate(config):
        shape = ctx.shape(x)
        ends = [
            [ctx.along(element, (), (*shape[:axis], n, *shape[axis + 1 :]))] if n else []
            for n in (before, behind)
        ]
        x = _joined([*ends[0], x, *ends[1]], axis)
    return [x]
