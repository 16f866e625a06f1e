"""Monoids: operations that combine elements in any grouping, each with the element that changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import Function, Ints, dtypes
from pellucid._machine.ir import ClosedJaxpr, ShapedArray, shaped_array
from pellucid._machine.lowering.exact import protect_value
from pellucid._machine.lowering.faults import LARGE_EXTREMES_WITHOUT_NAN
from pellucid._machine.lowering.module import LOWERED
from pellucid._machine.tracing import stage_with_constants, use_lineage
from pellucid._machine.xla.mlir import ir

from .logical import compare_lexically, gt, lt, select_n

DType = np.dtype[Any]
_BOOL = np.dtype(bool)


class Monoid(NamedTuple):
    """An operation on elements, as reductions, windows, scatters and collectives use it."""

    name: str
    """Suffix in the names of the monoid's primitives: `reduce_sum`, `cumsum`, `psum`."""
    combine: str
    """Name of the primitive that combines two elements."""
    hlo: str
    identity: Callable[[DType], Any]
    """Returns the identity element as a NumPy scalar of the given dtype."""


def lowest(dtype: DType) -> Any:
    """The least value of `dtype`: minus infinity if it exists; for complex dtypes with imaginary part 0."""
    return _extreme(dtype, -1)


def highest(dtype: DType) -> Any:
    """The greatest value of `dtype`: infinity if it exists; for complex dtypes with imaginary part 0."""
    return _extreme(dtype, 1)


def _extreme(dtype: DType, sign: int):
    if dtype == _BOOL:
        return np.bool_(sign > 0)
    if not dtypes.is_inexact(dtype):
        limits = dtypes.iinfo(dtype)
        return dtype.type(limits.max if sign > 0 else limits.min)
    if dtypes.supports_inf(dtype):
        return dtype.type(sign * np.inf)
    finite = dtypes.finfo(dtype)
    return dtype.type(finite.max if sign > 0 else finite.min)


def _zero(dtype: DType):
    return dtype.type(0)


def _one(dtype: DType):
    return dtype.type(1)


def _all_bits(dtype: DType):
    """The value whose bits are all ones."""
    if dtype == _BOOL:
        return np.bool_(True)
    return dtype.type(dtypes.iinfo(dtype).max if dtype.name.startswith("uint") else -1)


MONOIDS: dict[str, Monoid] = {
    monoid.name: monoid
    for monoid in (
        Monoid("sum", "add", "stablehlo.add", _zero),
        Monoid("prod", "mul", "stablehlo.multiply", _one),
        Monoid("max", "max", "stablehlo.maximum", lowest),
        Monoid("min", "min", "stablehlo.minimum", highest),
        Monoid("and", "and", "stablehlo.and", _all_bits),
        Monoid("or", "or", "stablehlo.or", _zero),
        Monoid("xor", "xor", "stablehlo.xor", _zero),
    )
}
"""The monoids by name."""

_BY_COMBINE = {monoid.combine: monoid for monoid in MONOIDS.values()}


def monoid_of(combine: str) -> Monoid | None:
    """The monoid whose operation is the primitive named `combine`; None if there is none."""
    return _BY_COMBINE.get(combine)


# Lowering -----------------------------------------------------------------------------------------


def scalar_program(function: Function, *dtypes: DType) -> ClosedJaxpr:
    """The program of `function`, of scalars of `dtypes`, for the region of an operation."""
    with use_lineage(LOWERED):
        return stage_with_constants(function, [shaped_array((), dtype) for dtype in dtypes])


def combine(ctx: Any, monoid: Monoid, x: ir.Value, y: ir.Value, aval: ShapedArray) -> ir.Value:
    """`x` and `y`, of type `aval`, combined."""
    compare = {"max": gt, "min": lt}.get(monoid.name)
    if aval.dtype.kind == "c" and compare is not None:
        program = stage_with_constants(
            lambda x, y: [select_n(compare_lexically(compare, x, y), y, x)], [aval, aval]
        )
        return ctx.inline_closed(program, [x, y])[0]
    return ctx.op1(monoid.hlo, aval, [x, y])


def monoid_body(
    ctx: Any, region: ir.Region, monoid: Monoid, dtype: DType, *, keeps_nan: bool = False
) -> None:
    """Fill `region` with the monoid's operation on scalars of `dtype`.

    With `keeps_nan` an extreme chooses NaN by itself, so that no library takes the operation for one that loses it.
    """
    aval = shaped_array((), dtype)
    with ctx.inside(region, [aval, aval]) as (first, last):
        result = combine(ctx, monoid, first, last, aval)
        if keeps_nan:
            # The second one is an element: its test waits for no other combination.
            is_nan = ctx.compare(last, last, "NE", aval)
            result = ctx.op1("stablehlo.select", aval, [is_nan, last, result])
        ctx.op("stablehlo.return", [], [result])


def lower_reduction(
    ctx: Any, x: ir.Value, monoid: Monoid, axes: Ints, result: ShapedArray
) -> ir.Value:
    """`x` reduced along `axes`."""
    initial = ctx.constant(monoid.identity(result.dtype))
    if monoid.name == "prod":
        x = protect_value(ctx, x, result.update(shape=tuple(ir.RankedTensorType(x.type).shape)))
    reduction = ctx.op(
        "stablehlo.reduce", [ctx.type(result)], [x, initial], {"dimensions": axes}, regions=1
    )
    may_be_nan = dtypes.is_inexact(result.dtype) and result.dtype.kind != "c"
    is_extreme = may_be_nan and monoid.name in ("max", "min")
    is_lost = is_extreme and ctx.has_fault(LARGE_EXTREMES_WITHOUT_NAN)
    monoid_body(ctx, reduction.regions[0], monoid, result.dtype, keeps_nan=is_lost)
    return reduction.result


def reduce_through_integers(
    ctx: Any,
    x: ir.Value,
    aval: ShapedArray,
    result: ShapedArray,
    monoid: Monoid,
    reduce: Callable[[ir.Value, ShapedArray, ShapedArray], ir.Value],
) -> ir.Value:
    """`x` of type `aval` reduced to `result` by the maximum or minimum of integers in the order of its floating numbers.

    NaN is the extreme integer (see `EXTREMES_WITHOUT_NAN` in `lowering/faults.py`). `reduce` is given the integers, their type and that of its own result.
    """
    if dtypes.itemsize_bits(aval.dtype) < 16:  # narrow formats have their NaN at other places
        wide, extreme = (a.update(dtype=np.dtype(np.float32)) for a in (aval, result))
        converted = reduce_through_integers(
            ctx, ctx.convert(x, wide), wide, extreme, monoid, reduce
        )
        return ctx.convert(converted, result)
    dtype = np.dtype(f"int{dtypes.itemsize_bits(aval.dtype)}")
    keys, extremes = aval.update(dtype=dtype), result.update(dtype=dtype)
    key = _reverse_below_zero(ctx, ctx.op1("stablehlo.bitcast_convert", keys, [x]), keys)
    of_nan = ctx.full(keys, (highest if monoid.name == "max" else lowest)(dtype))
    key = ctx.op1("stablehlo.select", keys, [ctx.compare(x, x, "NE", aval), of_nan, key])
    bits = _reverse_below_zero(ctx, reduce(key, keys, extremes), extremes)
    return ctx.op1("stablehlo.bitcast_convert", result, [bits])


def _reverse_below_zero(ctx, bits: ir.Value, aval: ShapedArray) -> ir.Value:
    """`bits` of floating numbers as integers in the order of these numbers, and back again.

    The largest and the smallest of these integers are bits of NaN.
    """
    n_bits, magnitude = 8 * aval.dtype.itemsize, np.iinfo(aval.dtype).max
    sign = ctx.op1("stablehlo.shift_right_arithmetic", aval, [bits, ctx.full(aval, n_bits - 1)])
    flipped = ctx.op1("stablehlo.and", aval, [sign, ctx.full(aval, magnitude)])
    return ctx.op1("stablehlo.xor", aval, [bits, flipped])
