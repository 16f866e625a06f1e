"""How operations on values are lowered to threads of a GPU: a table of primitives."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import strict_zip
from pellucid._machine.ir import Primitive
from pellucid._machine.primitives import (
    arithmetic,
    assembly,
    conversion,
    creation,
    error_functions,
    movement,
    slicing,
    staging,
    transcendental,
)
from pellucid._machine.xla.mosaic_gpu import arith, ir, math
from pellucid.kernels.lowering.elements import converted, elementwise, float_bits
from pellucid.kernels.lowering.programs import registering

from .layouts import Deferred, Fragment, Splat, Strided
from .lowering import ON_ELEMENTS, Lowering, of_elements, rule, take_deferred
from .memory import as_block
from .shapes import repeated, reshaped

_FLOAT32 = np.dtype(np.float32)
_INT32 = np.dtype(np.int32)
on_elements = registering(ON_ELEMENTS)
of_elements(__name__)
take_deferred(movement.broadcast_in_dim_p, movement.reshape_p, movement.squeeze_p)


# Operations on elements ---------------------------------------------------------------------------------------

_elementwise = functools.partial(elementwise, rules=ON_ELEMENTS)
for _primitive, _build in {
    arithmetic.cbrt_p: math.cbrt,
    arithmetic.pow_p: math.powf,
    transcendental.expm1_p: math.expm1,
    transcendental.log1p_p: math.log1p,
    transcendental.tan_p: math.tan,
    transcendental.asin_p: math.asin,
    transcendental.acos_p: math.acos,
    transcendental.atan_p: math.atan,
    transcendental.atan2_p: math.atan2,
    transcendental.sinh_p: math.sinh,
    transcendental.cosh_p: math.cosh,
    transcendental.tanh_p: math.tanh,
    transcendental.asinh_p: math.asinh,
    transcendental.acosh_p: math.acosh,
    transcendental.atanh_p: math.atanh,
    error_functions.erfc_p: math.erfc,
}.items():
    _elementwise(_primitive, _build, widened=True)


@on_elements(arithmetic.round_p)
def _round(ctx: Lowering, equation, operands):
    [x] = operands
    aval = equation.results[0].aval
    to_even = equation.params.rounding_method == arithmetic.RoundingMethod.TO_NEAREST_EVEN
    build = math.roundeven if to_even else math.round
    if float_bits(aval.dtype) >= 32:
        return [build(x)]
    wide = ctx.type(aval.shape, ctx.element(_FLOAT32))
    return [arith.truncf(ctx.type_of(aval), build(arith.extf(wide, x)))]


@on_elements(conversion.bitcast_convert_type_p)
def _bitcast(ctx: Lowering, equation, operands):
    [x] = operands
    old, new = equation.operands[0].aval, equation.results[0].aval
    if old.shape != new.shape or np.bool_ in (old.dtype, new.dtype):
        raise ctx.unsupported("bits are seen as elements of the same width only.")
    kind = ctx.type_of(new)
    return [x if x.type == kind else arith.bitcast(kind, x)]


@rule(staging.optimization_barrier_p, staging.stage_p)
def _same(ctx: Lowering, equation, operands):
    return operands


# Movement -----------------------------------------------------------------------------------------------------


@rule(creation.iota_p)
def _iota(ctx: Lowering, equation, operands):
    result, axis = equation.results[0].aval, equation.params.dimension
    ctx.check_size(result.shape)
    return [places(ctx, axis, tuple(result.shape), result)]


def places(ctx: Lowering, axis: int, shape: tuple[int, ...], result: Any) -> Fragment:
    """A block of the positions along an axis, as elements of the dtype of `result`."""

    def compute(layout: Any) -> ir.Value:
        along = [layout.place(ctx, r)[axis] for r in range(layout.registers)]
        return positions(ctx, along, layout, result).value

    def spread(axes: Sequence[int], larger: tuple[int, ...]) -> Fragment:
        if shape[axis] == larger[axes[axis]]:
            return places(ctx, axes[axis], larger, result)
        return Fragment(ctx.constant(0, result.dtype), Splat(larger))  # its one position

    return Fragment(None, Deferred(shape, compute, spread))


def positions(ctx: Lowering, along: Sequence[ir.Value], layout: Any, result: Any) -> Fragment:
    """A block of positions, in int32, as elements of the dtype of `result`."""
    aval = result.update(dtype=_INT32, shape=())
    return ctx.joined([converted(ctx, x, aval, result.dtype) for x in along], layout)


@rule(movement.broadcast_in_dim_p)
def _broadcast_in_dim(ctx: Lowering, equation, operands):
    x, shape = operands[0], tuple(equation.results[0].aval.shape)
    axes = tuple(equation.params.broadcast_dimensions)
    if not shape:
        return [x]
    if type(x) is not Fragment:
        return [Fragment(x, Splat(shape))]
    return [repeated(ctx, x, axes, shape)]


@rule(movement.reshape_p, movement.squeeze_p)
def _reshape(ctx: Lowering, equation, operands):
    return [reshaped(ctx, operands[0], tuple(equation.results[0].aval.shape))]


def _moved(primitive: Primitive, source_of: Callable[..., Any]) -> None:
    """A row of the table: of each place of the result, `source_of(params)` gives a function that gives the place of the operand."""

    @rule(primitive)
    def lower(ctx: Lowering, equation, operands):
        shape = tuple(equation.results[0].aval.shape)
        x = operands[0]
        if type(x.layout) is Splat:
            return [Fragment(x.value, Splat(shape))]
        ctx.check_size(shape)
        source = source_of(ctx, equation.params, x.shape)
        return [ctx.gathered(x, Strided(shape), source)]


def _of_transpose(ctx: Lowering, params: Any, shape: Sequence[int]) -> Any:
    order = list(params.permutation)
    return lambda place: [place[order.index(i)] for i in range(len(order))]


def _of_slice(ctx: Lowering, params: Any, shape: Sequence[int]) -> Any:
    starts, steps = params.start_indices, params.strides or [1] * len(shape)
    return lambda place: [
        ctx.plus(ctx.times(x, n), a) for x, n, a in strict_zip(place, steps, starts)
    ]


def _of_rev(ctx: Lowering, params: Any, shape: Sequence[int]) -> Any:
    return lambda place: [
        arith.subi(ctx.int32(n - 1), x) if i in params.dimensions else x
        for i, (x, n) in enumerate(strict_zip(place, shape))
    ]


_moved(movement.transpose_p, _of_transpose)
_moved(movement.rev_p, _of_rev)
_moved(assembly.slice_p, _of_slice)


@rule(slicing.dynamic_slice_p)
def _dynamic_slice(ctx: Lowering, equation, operands):
    x, *starts = operands
    shape = tuple(equation.results[0].aval.shape)
    if not shape:
        return [x]
    ctx.check_size(shape)
    zero = ctx.int32(0)
    # Starts are moved so that the whole slice lies inside.
    first = [
        arith.minsi(arith.maxsi(ctx.signed32(s), zero), ctx.int32(n - m))
        for s, n, m in strict_zip(starts, x.shape, shape)
    ]
    if type(x.layout) is Splat:
        return [Fragment(x.value, Splat(shape))]
    source = lambda place: [arith.addi(a, b) for a, b in strict_zip(place, first)]
    return [ctx.gathered(x, Strided(shape), source)]


@rule(assembly.concatenate_p)
def _concatenate(ctx: Lowering, equation, operands):
    shape, axis = tuple(equation.results[0].aval.shape), equation.params.dimension
    ctx.check_size(shape)
    layout = Strided(shape)
    places = [layout.place(ctx, r) for r in range(layout.registers)]
    found: list[Any] = [None] * len(places)
    end = 0
    # Each operand is exchanged, and read where it lies or the nearest inside; the last that begins before a place has it.
    for x in operands:
        x = as_block(ctx, x, x.shape)
        read, size = ctx.exchanged(x), x.shape[axis]
        for i, place in enumerate(places):
            along = ctx.plus(place[axis], -end)
            moved = arith.minsi(arith.maxsi(along, ctx.int32(0)), ctx.int32(size - 1))
            value = read([moved if a == axis else p for a, p in enumerate(place)])
            begins = arith.cmpi(arith.CmpIPredicate.sge, along, ctx.int32(0))
            found[i] = value if found[i] is None else arith.select(begins, value, found[i])
        end += size
    return [ctx.joined(found, layout)]
