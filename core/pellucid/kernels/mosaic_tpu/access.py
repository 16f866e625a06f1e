"""Access of kernels through references: loads and stores of vectors, and of scalars in scalar memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import dtypes, strict_zip
from pellucid._machine.ir import Equation, Literal
from pellucid._machine.primitives import creation, movement
from pellucid._machine.refs.index import RefIndex
from pellucid._machine.refs.primitives import addupdate_p, empty_ref_p, get_p, new_ref_p, swap_p
from pellucid._machine.xla.mosaic_tpu import arith, ir, memref, tpu, vector
from pellucid.kernels.lowering.programs import is_float
from pellucid.kernels.programs import UNDEFINED

from .bounds import known
from .lowering import Lowering, MemRef, rule
from .memory import memory_part
from .tiles import LANES, bits_of, tile_of
from .windows import scratch_argument

_INT32 = np.dtype(np.int32)


class Part(NamedTuple):
    """A part of a memref: along each of its dimensions the first position, the number of positions, and the step between them."""

    starts: tuple[int | ir.Value, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    shape: tuple[int, ...]
    """Of the part as the kernel sees it: without the dimensions of integer indices."""


def part_of(
    ctx: Lowering, ref: MemRef, index: RefIndex, operands: Sequence[ir.Value], atoms: Sequence[Any]
) -> Part:
    """The part of a reference that an index selects. Positions outside are moved inside, as in the kernel's definition."""
    rest = iter(strict_zip(operands, atoms))
    starts: list[int | ir.Value] = [0] * len(ref.shape)
    sizes, strides, shape = [1] * len(ref.shape), [1] * len(ref.shape), []
    for dim, entry, size in strict_zip(ref.kept, index.entries, index.shape):
        if entry is None:
            x, atom = next(rest)
            if atom.aval.shape:
                raise ctx.unsupported(
                    "references have no positions by arrays there.",
                    f"an index of type {atom.aval.text()}",
                    "Use slices and integers, `pl.ds(start, size)`, or a loop.",
                )
            starts[dim] = _inside(ctx, x, atom, size, 1)
            continue
        shape.append(entry.size)
        sizes[dim], strides[dim] = entry.size, entry.stride
        starts[dim] = entry.start or 0
        if entry.start is None:
            x, atom = next(rest)
            starts[dim] = _inside(ctx, x, atom, size, entry.span)
    return Part(tuple(starts), tuple(sizes), tuple(strides), tuple(shape))


def _inside(ctx: Lowering, x: ir.Value, atom: Any, size: int, span: int) -> int | ir.Value:
    """The first of `span` positions along a dimension of `size`: negative ones count from the end, others are moved inside."""
    facts, last = known(ctx, atom), size - span
    if facts.low == facts.high:
        n = facts.low + size if facts.low < 0 else facts.low
        return min(max(n, 0), last)
    x, is_inside = ctx.signed32(x), facts.lies_in(0, last)
    if not is_inside:
        zero = ctx.int32(0)
        if facts.low < 0:
            is_negative = arith.cmpi(arith.CmpIPredicate.slt, x, zero)
            x = arith.select(is_negative, arith.addi(x, ctx.int32(size)), x)
        x = arith.minsi(arith.maxsi(x, zero), ctx.int32(last))
    # Clamping keeps a factor of `x` if both ends, 0 and `last`, have it.
    for factor in _FACTORS:
        keeps = is_inside or (size % factor == 0 and last % factor == 0)
        if facts.is_multiple_of(factor) and keeps:
            return tpu.assume_multiple(x, factor)
    return x


_FACTORS = (1024, 512, 256, 128, 64, 32, 16, 8)


def _check_alignment(
    ctx: Lowering, ref: MemRef, dim: int, start: int | ir.Value, size: int, stride: int
) -> None:
    """Raise UnsupportedError for a slice of VMEM along a dimension that doesn't begin or end at a tile."""
    tile = tile_of(ref.shape, ref.dtype)
    place = dim - (len(ref.shape) - len(tile))
    is_wide = bits_of(ref.dtype) == 32 and ref.shape[-1] == LANES
    if stride != 1 and (dim == len(ref.shape) - 1 or not is_wide):
        raise ctx.unsupported(
            f"steps are made along rows of {LANES} elements of 32 bits.",
            f"a step of {stride} along dimension {dim} of a reference of shape {list(ref.shape)}, {dtypes.short_name(ref.dtype)}",
            "Read the whole, and take the part of that by a reshape.",
        )
    if place < 0 or isinstance(start, int):
        return
    is_row = len(tile) > 1 and place == 0
    if is_row and bits_of(ref.dtype) == 32 and (size == 1 or is_wide):
        return
    needed = tile[place] if len(tile) > 1 else LANES
    if not is_multiple(start, needed):
        raise ctx.unsupported(
            f"a start that is known only when the kernel runs must be a multiple of {needed} there.",
            f"dimension {dim} of a reference of shape {list(ref.shape)}, {dtypes.short_name(ref.dtype)}: a start that isn't known to be one",
            f"Compute it as a product with {needed}, state it by `pl.multiple_of(start, {needed})`, or read the whole and `tpu.roll` it.",
        )


def is_multiple(start: int | ir.Value, n: int) -> bool:
    """Whether a start is known, or stated, to be a multiple of `n`."""
    if isinstance(start, int):
        return start % n == 0
    owner = start.owner
    if isinstance(owner, ir.Block):  # an argument
        return False
    operation: Any = owner.opview
    return operation.name == "tpu.assume_multiple" and operation.multiple.value % n == 0


def is_whole(ref: MemRef, part: Part) -> bool:
    """Whether a part is all that the reference holds."""
    return part.sizes == ref.shape and all(isinstance(s, int) and s == 0 for s in part.starts)


# Loads and stores ---------------------------------------------------------------------------------------------


def load(ctx: Lowering, ref: MemRef, part: Part) -> ir.Value:
    """What a part of a reference holds."""
    indices = [ctx.index(s) for s in part.starts]
    if ref.space == "smem":
        if part.shape:
            raise ctx.unsupported(
                "scalar memory is read one number at a time.",
                f"a part of shape {list(part.shape)}",
                "Read `ref[i]` for an integer `i`; arrays for vectors belong in VMEM.",
            )
        return _as_value(ctx, memref.load(ref.value, indices), ref.dtype, ())
    _check_vector_memory(ctx, ref, part)
    kind = ctx.type(part.sizes, ctx.in_memory(ref.dtype))
    if any(s != 1 for s in part.strides):
        x = tpu.strided_load(kind, ref.value, indices, [*part.strides])
    else:
        x = vector.load(kind, ref.value, indices)
    return ctx.reshaped(_as_value(ctx, x, ref.dtype, part.sizes), part.shape)


def store(ctx: Lowering, ref: MemRef, part: Part, value: ir.Value) -> None:
    """Let a part of a reference hold `value`."""
    ctx.writes += 1
    indices = [ctx.index(s) for s in part.starts]
    if ref.space == "smem":
        if part.shape:
            raise ctx.unsupported(
                "scalar memory is written one number at a time.",
                f"a part of shape {list(part.shape)}",
                "Write `ref[i]` for an integer `i`, in a loop.",
            )
        memref.store(_in_memory(ctx, value, ref.dtype, ()), ref.value, indices)
        return
    _check_vector_memory(ctx, ref, part)
    value = ctx.reshaped(ctx.spread(value, part.shape), part.sizes)
    value = _in_memory(ctx, value, ref.dtype, part.sizes)
    if any(s != 1 for s in part.strides):
        tpu.strided_store(value, ref.value, indices, [*part.strides])
    else:
        tpu.vector_store(value, ref.value, indices)


def _check_vector_memory(ctx: Lowering, ref: MemRef, part: Part) -> None:
    if not ref.in_vector_memory:
        name = "a reference" if ref.mapping is None else ref.mapping.name
        raise ctx.unsupported(
            "only what is in VMEM or SMEM is read and written; other memories are copied from and to.",
            f"{name} in the memory `{ref.space}`",
            "Copy it: `tpu.sync_copy(ref, scratch)`, or give it a block in VMEM.",
        )
    for dim, place in enumerate(strict_zip(part.starts, part.sizes, part.strides)):
        _check_alignment(ctx, ref, dim, *place)


def _as_value(ctx: Lowering, x: ir.Value, dtype: np.dtype, shape: Sequence[int]) -> ir.Value:
    if dtype != np.bool_:
        return x
    return arith.cmpi(arith.CmpIPredicate.ne, x, ctx.int32(0, shape))


def _in_memory(ctx: Lowering, x: ir.Value, dtype: np.dtype, shape: Sequence[int]) -> ir.Value:
    if dtype != np.bool_:
        return x
    return arith.extui(ctx.type(shape, ctx.element(_INT32)), x)


# Rules --------------------------------------------------------------------------------------------------------


def accessed(
    ctx: Lowering, equation: Equation, operands: list[Any], n_values: int
) -> tuple[MemRef, Part]:
    """(reference, part) of an equation whose operands are a reference, `n_values` values, and those of the index."""
    n = 1 + n_values
    ref = operands[0]
    return ref, part_of(ctx, ref, equation.params.index, operands[n:], equation.operands[n:])


@rule(get_p)
def _get(ctx: Lowering, equation, operands):
    return [load(ctx, *accessed(ctx, equation, operands, 0))]


@rule(swap_p)
def _swap(ctx: Lowering, equation, operands):
    ref, part = accessed(ctx, equation, operands, 1)
    is_used = equation.results[0] in ctx.scope.first_uses
    old = load(ctx, ref, part) if is_used else None
    store(ctx, ref, part, operands[1])
    return [old]


@rule(addupdate_p)
def _addupdate(ctx: Lowering, equation, operands):
    ref, part = accessed(ctx, equation, operands, 1)
    old, new = load(ctx, ref, part), ctx.spread(operands[1], part.shape)
    store(ctx, ref, part, arith.addf(old, new) if is_float(ref.dtype) else arith.addi(old, new))
    return []


def _made(ctx: Lowering, equation: Equation) -> MemRef:
    """The scratch that a new reference is: one more argument of the kernel's function."""
    result: Any = equation.results[0]
    if result not in ctx.made:
        aval = result.aval.inner_aval
        argument = scratch_argument(ctx, aval, equation.params.memory_space)
        value = ctx.entry.add_argument(argument.type(ctx), ir.Location.unknown())
        ctx.made[result] = argument.ref(value)
        if argument.space in ("vmem", "smem"):
            name = f"a reference of type {aval.text()}"
            ctx.memory_made.append(
                memory_part(name, argument.space, argument.shape, aval, equation.source)
            )
    return ctx.made[result]


@rule(new_ref_p)
def _new_ref(ctx: Lowering, equation, operands):
    ref = _made(ctx, equation)
    if ref.space == "semaphore_mem":  # they begin at 0
        return [ref]
    if not has_no_value(ctx, equation.operands[0]):
        whole = Part((0,) * len(ref.shape), ref.shape, (1,) * len(ref.shape), ref.shape)
        store(ctx, ref, whole, operands[0])
    return [ref]


@rule(empty_ref_p)
def _empty_ref(ctx: Lowering, equation, operands):
    return [_made(ctx, equation)]


def has_no_value(ctx: Lowering, atom: Any) -> bool:
    """Whether an array is one without values, with which scratch begins."""
    if type(atom) is Literal:
        return False
    equation = ctx.scope.definitions.get(atom)
    if equation is None:
        return False
    if equation.primitive is creation.empty_p:
        return True
    return equation.primitive is movement.broadcast_in_dim_p and equation.lineage is UNDEFINED
