"""Operations that kernels name for TPUs: rotations, bits seen as another dtype, packed elements, random bits, printing."""

from __future__ import annotations

import string

import numpy as np

from pellucid._machine.base import dtypes
from pellucid._machine.callbacks.debug import debug_print_p
from pellucid._machine.higher_order.composite import composite_p
from pellucid._machine.xla.mosaic_tpu import arith, tpu
from pellucid.kernels.lowering.elements import converted
from pellucid.kernels.lowering.programs import is_float, is_unsigned
from pellucid.kernels.named import BITCAST, PACK, ROLL, UNPACK, attributes_of
from pellucid.kernels.tpu_random import prng_random_bits_p, prng_seed_p

from .lowering import Lowering, rule
from .tiles import LANES

_INT32, _FLOAT32 = np.dtype(np.int32), np.dtype(np.float32)


def _roll(ctx: Lowering, equation, operands):
    x, shift = operands[-2:]
    aval = equation.results[0].aval
    options = attributes_of(equation.params)
    axis, stride = options["axis"] % aval.ndim, options.get("stride")
    n = aval.shape[axis]
    is_odd = axis == aval.ndim - 1 and n % LANES
    if aval.ndim < 2 or aval.dtype == np.bool_ or is_odd:
        raise ctx.unsupported(
            f"arrays of numbers are rotated, with two dimensions or more, and along the last one with multiples of {LANES} elements.",
            f"{aval.text()} along dimension {axis}",
        )
    size = ctx.int32(n)
    shift = arith.remsi(ctx.signed32(shift), size)  # of any sign
    is_negative = arith.cmpi(arith.CmpIPredicate.slt, shift, ctx.int32(0))
    shift = arith.select(is_negative, arith.addi(shift, size), shift)
    more = {}
    if stride is not None:
        if axis != aval.ndim - 1 or options["stride_axis"] % aval.ndim != aval.ndim - 2:
            raise ctx.unsupported(
                "rows are rotated along the last dimension by amounts that differ along the second last one.",
                f"{aval.text()} along {axis}, by steps along {options['stride_axis']}",
            )
        more = {"stride": stride % n, "stride_dimension": options["stride_axis"] % aval.ndim}
    # The unit rotates elements of 32 bits: narrower ones are widened, rotated and narrowed.
    wide = _FLOAT32 if is_float(aval.dtype) else _INT32
    if dtypes.itemsize_bits(aval.dtype) == 32:
        return [tpu.dynamic_rotate(x, shift, axis, **more)]
    turned = tpu.dynamic_rotate(converted(ctx, x, aval, wide), shift, axis, **more)
    return [converted(ctx, turned, aval.update(dtype=wide), aval.dtype)]


def _bitcast(ctx: Lowering, equation, operands):
    x = operands[-1]
    result = equation.results[0].aval
    if np.bool_ in (result.dtype, equation.operands[-1].aval.dtype):
        raise ctx.unsupported("masks have no bits.")
    kind = ctx.type_of(result)
    return [x if x.type == kind else tpu.bitcast(kind, x)]


def _pack(ctx: Lowering, equation, operands):
    aval, packed = equation.results[0].aval, _packed_element(ctx, equation)
    return [tpu.pack_elementwise(ctx.type_of(aval), operands, packed)]


def _unpack(ctx: Lowering, equation, operands):
    """By shifts of whole words; a bfloat16 is the first half of a float32."""
    aval, [*_, x] = equation.results[0].aval, operands
    options = attributes_of(equation.params)
    _packed_element(ctx, equation)
    packed = dtypes.as_dtype(options["packed_dtype"])
    bits, shape = dtypes.itemsize_bits(packed), aval.shape
    if is_float(packed) and (packed.name, aval.dtype) != ("bfloat16", _FLOAT32):
        raise ctx.unsupported(
            "floating numbers are unpacked from bfloat16 to float32.",
            f"{packed.name} to {aval.text()}",
        )
    first = arith.shli(x, ctx.int32(32 - bits * (options["index"] + 1), shape))
    if is_float(packed):
        half = arith.andi(first, ctx.int32(-1 << bits, shape))
        return [tpu.bitcast(ctx.type_of(aval), half)]
    shift = arith.shrui if is_unsigned(packed) else arith.shrsi
    return [shift(first, ctx.int32(32 - bits, shape))]


def _packed_element(ctx: Lowering, equation):
    """The type of packed elements; wide ones have 32 bits, and two dimensions."""
    dtype = dtypes.as_dtype(attributes_of(equation.params)["packed_dtype"])
    for atom in (*equation.operands[-1:], *equation.results):
        if atom.aval.ndim < 2 or dtypes.itemsize_bits(atom.aval.dtype) != 32:
            raise ctx.unsupported(
                "elements of 32 bits in arrays of two dimensions or more are packed.",
                atom.aval.text(),
            )
    return ctx.element(dtype)


_NAMED = {ROLL: _roll, BITCAST: _bitcast, PACK: _pack, UNPACK: _unpack}


@rule(composite_p)
def _composite(ctx: Lowering, equation, operands):
    params = equation.params
    if params.name in _NAMED:
        return _NAMED[params.name](ctx, equation, operands)
    return ctx.inline(params.jaxpr.jaxpr, operands, equation.operands)


# Random bits --------------------------------------------------------------------------------------------------


@rule(prng_seed_p)
def _seed(ctx: Lowering, equation, operands):
    tpu.prng_set_seed_32([ctx.signed32(x) for x in operands])
    return []


@rule(prng_random_bits_p)
def _random_bits(ctx: Lowering, equation, operands):
    return [tpu.prng_random_bits(ctx.type_of(equation.results[0].aval))]


# Printing -----------------------------------------------------------------------------------------------------


@rule(debug_print_p)
def _print(ctx: Lowering, equation, operands):
    """A line in the log of the TPU: 32-bit integers in a text, or one float32 behind it."""
    params, atoms = equation.params, equation.operands
    parts = [*string.Formatter().parse(params.fmt)] if params.has_placeholders else [(params.fmt, None, None, None)]  # fmt: skip
    known, given = dict(params.static_args), iter(zip(operands, atoms, strict=True))
    text, numbers, position = "", [], 0
    for literal, name, options, conversion in parts:
        text += literal
        if name is None:
            continue
        if name or options or conversion:
            raise ctx.unsupported('it prints into fields "{}" only.', params.fmt)
        if position in known:
            text += str(known[position])
        else:
            text += "{}"
            numbers.append(next(given))
        position += 1
    if [*given]:
        raise ctx.unsupported("it prints numbers into fields of the text.", params.fmt)
    avals = [atom.aval for _, atom in numbers]
    if any(aval.shape for aval in avals):
        raise ctx.unsupported("it prints numbers, no arrays.", [aval.text() for aval in avals])
    if [aval.dtype for aval in avals] == [_FLOAT32] and text.endswith("{}"):
        tpu.log([x for x, _ in numbers], text.removesuffix("{}"), formatted=False)
        return []
    if numbers and text.count("{") + text.count("}") > 2 * len(numbers):
        raise ctx.unsupported("it prints no braces beside numbers.", params.fmt)
    # The compiler ends the process for others.
    if not all(aval.dtype.kind in "iu" and aval.dtype.itemsize <= 4 and aval.dtype != np.uint32 for aval in avals):  # fmt: skip
        raise ctx.unsupported(
            "it prints integers, or one float32 at the end of a text.",
            [aval.text() for aval in avals],
            do="Print one float32 a line; convert others to int32.",
        )
    tpu.log(
        [converted(ctx, x, atom.aval, _INT32) for x, atom in numbers],
        text,
        formatted=bool(numbers),
    )
    return []
