"""Copies between the memory of the GPU and shared memory by the copy engine, TMA: one thread asks for a box of an array, which comes to a barrier."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import dtypes, strict_zip
from pellucid._machine.xla.mosaic_gpu import func, ir, llvm, nvvm
from pellucid.kernels.gpu.copies import copy_gmem_to_smem_p, copy_smem_to_gmem_p
from pellucid.kernels.gpu.fences import commit_group_p, commit_smem_p, copy_wait_p

from .barriers import BarrierArray, arrive_with_bytes
from .lowering import Lowering, bytes_of, element_pointer, int64, rule, store, strides_of
from .memory import (
    Memory,
    Start,
    both,
    check_part_of_matrix,
    known_factor,
    sum_of,
    value_of,
)
from .views import parts_of

_SYMBOL = "mosaic_gpu_init_tma_desc"
_DESCRIPTOR_BYTES = 128
_MAX_BOX = 256
_ALIGNMENT = 128
"""Bytes of which a box begins at a multiple in shared memory."""
_NUMBERS = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "uint32": 3, "uint64": 4, "float64": 4, "float16": 5, "float32": 6,
    "bfloat16": 7, "int32": 9, "int64": 10,
}  # fmt: skip
"""By dtype the number that the runtime has for it."""


_BITS = ("int32", "uint32", "int64", "uint64")
_COMBINED = {
    "add": ("int32", "uint32", "uint64", "bfloat16", "float16", "float32"),
    "min": (*_BITS, "bfloat16", "float16"), "max": (*_BITS, "bfloat16", "float16"),
}  # fmt: skip
"""By operation the dtypes that copies combine; `_BITS` by others."""


class Box(NamedTuple):
    """A piece of a copy: where it begins in the array and in shared memory, in bytes from the first element of the part there."""

    first: tuple[int, ...]
    """Along each dimension of the array, from the first position of the part."""
    offset: int


# Descriptors --------------------------------------------------------------------------------------------------


def descriptor(ctx: Lowering, ref: Memory, box: Sequence[int], span: int) -> ir.Value:
    """A pointer to the description of an array for the copy engine, and of the boxes that are copied, which the host makes before the launch."""
    key = ref.base, tuple(box), span
    number = ctx.descriptors.setdefault(key, len(ctx.descriptors))
    if number == len(ctx.descriptors) - 1 and number == len(ctx.described):
        ctx.described.append(lambda at: _describe(ctx, ref, box, span, at))
    byte = ir.IntegerType.get_signless(8)
    return element_pointer(ctx.descriptor_base, number * _DESCRIPTOR_BYTES, byte)


def _describe(ctx: Lowering, ref: Memory, box: Sequence[int], span: int, at: ir.Value) -> None:
    """Let the runtime write a description to the host's memory."""
    numbers = [_number(ctx, ref.dtype), len(ref.shape)]
    sizes, strides, window = [_table(row) for row in (ref.shape, strides_of(ref.shape), box)]
    kind, rank = [int64(n) for n in numbers]
    operands = [at, ref.base, kind, rank, sizes, strides, int64(span), window]
    func.CallOp([], _SYMBOL, operands)


def _number(ctx: Lowering, dtype: np.dtype) -> int:
    name = np.dtype(dtype).name
    if np.dtype(dtype).itemsize == 1 and dtypes.is_inexact(np.dtype(dtype)):
        name = "uint8"  # bits are copied
    if name not in _NUMBERS:
        raise ctx.unsupported(f"there are no copies of {dtypes.short_name(dtype)}.")
    return _NUMBERS[name]


def _table(row: Sequence[int]) -> ir.Value:
    """A pointer to 64-bit integers on the host."""
    kind, pointer = ir.IntegerType.get_signless(64), ir.Type.parse("!llvm.ptr")
    table = llvm.alloca(pointer, int64(len(row)), kind)
    for i, n in enumerate(row):
        store(int64(n), element_pointer(table, i, kind), 8)
    return table


def declare() -> None:
    """Declare the runtime's function, at the insertion point."""
    pointer, number = ir.Type.parse("!llvm.ptr"), ir.IntegerType.get_signless(64)
    kinds = [pointer, pointer, number, number, pointer, pointer, number, pointer]
    func.FuncOp(_SYMBOL, ir.FunctionType.get(kinds, []), visibility="private")


def describe_all(ctx: Lowering) -> ir.Value:
    """The descriptions of all copies, as one value that is passed to the launch, from operations of the host at the insertion point."""
    size = _DESCRIPTOR_BYTES * len(ctx.described)
    kind, pointer = ir.Type.parse(f"!llvm.array<{size} x i8>"), ir.Type.parse("!llvm.ptr")
    table = llvm.alloca(pointer, int64(1), kind, alignment=64)
    byte = ir.IntegerType.get_signless(8)
    for i, make in enumerate(ctx.described):
        make(element_pointer(table, i * _DESCRIPTOR_BYTES, byte))
    return llvm.load(kind, table)


# Boxes --------------------------------------------------------------------------------------------------------


def boxes(ctx: Lowering, device: Memory, shared: Memory) -> tuple[tuple[int, ...], list[Box]]:
    """(sizes of a box, where boxes begin) of a copy of all that two references of one shape see.

    Raises: UnsupportedError for arrays that the copy engine can't address.
    """
    size = np.dtype(device.dtype).itemsize
    sizes = [device.sizes[i] for i in range(len(device.shape))]
    name = f"{device.name}: {dtypes.short_name(device.dtype)}{list(device.shape)}"
    if not 1 <= len(sizes) <= 5:
        raise ctx.unsupported("copies are of arrays of 1 to 5 dimensions.", name)
    row = device.shape[-1] * size
    if len(sizes) > 1 and row % 16:
        raise ctx.unsupported(
            "rows of an array that is copied have a multiple of 16 bytes.",
            f"{name}, {row} bytes",
            f"Pad the last dimension to {-(-row // 16) * 16 // size}.",
        )
    matrix = shared.swizzle
    check_part_of_matrix(ctx, shared)
    is_in_order = all([*ref.kept] == sorted(ref.kept) for ref in (device, shared))
    if not is_in_order or (matrix is not None and device.kept[-1] != len(sizes) - 1):
        raise ctx.unsupported(
            "copies keep the order of dimensions, and have rows of neighbours.",
            name,
            "Copy the part as it is, and transpose it in shared memory: `transpose_ref`.",
        )
    inner = matrix.columns if matrix is not None else sizes[-1]
    if inner * size % 16:
        raise ctx.unsupported(
            "copies have rows of a multiple of 16 bytes.",
            f"{sizes[-1]} elements of {size} bytes",
            f"Copy a multiple of {16 // size} elements.",
        )
    _check_shared(ctx, shared)
    # Along each dimension the sizes of pieces, of at most as many elements as a box may have.
    limits = [*[_MAX_BOX] * (len(sizes) - 1), min(inner, _MAX_BOX)]
    if matrix is not None:
        # Several matrices lie together in one box only if each is a panel, and all of it is copied.
        rows, columns = shared.sizes[-2:]
        is_one = rows == matrix.shape[-2] <= _MAX_BOX and columns == matrix.columns == matrix.shape[-1]  # fmt: skip
        for dim in () if is_one else device.kept[:-2]:
            limits[dim] = 1
    box = [_largest_divisor(n, limit) for n, limit in strict_zip(sizes, limits)]
    is_cut_small = any(n == 1 < min(m, limit) for n, m, limit in strict_zip(box, sizes, limits))
    if is_cut_small or box[-1] * size % 16:
        raise ctx.unsupported(
            f"a copy is cut into boxes of at most {_MAX_BOX} elements along each dimension.",
            f"a part of sizes {sizes}, which have no such divisors",
        )
    found = []
    for first in itertools.product(*[range(0, n, b) for n, b in strict_zip(sizes, box)]):
        offset = _offset_of(first, device, shared) * size
        if offset % _ALIGNMENT:
            raise ctx.unsupported(
                f"boxes of a copy begin at multiples of {_ALIGNMENT} bytes in shared memory.",
                f"a part of sizes {sizes} in boxes of {box}",
            )
        found.append(Box(first, offset))
    # Of plain rows, pieces along any but the first dimension would not lie together.
    cut = [i for i, (n, b) in enumerate(strict_zip(sizes, box)) if n != b]
    outer = next((i for i, n in enumerate(sizes) if n != 1), 0)
    if matrix is None and any(i != outer for i in cut):
        raise ctx.unsupported(
            f"rows of more than {_MAX_BOX} elements are copied into panels.",
            f"a part of sizes {sizes}",
            "State `transforms=(TilingTransform((8, n)), SwizzleTransform(bytes))` of the scratch, or copy fewer columns at once.",
        )
    return tuple(box), found


def _offset_of(first: Sequence[int], device: Memory, shared: Memory) -> int:
    """The number of the first element of a box in shared memory, counted from that of the part."""
    matrix = shared.swizzle
    if matrix is None:
        sizes = [device.sizes[i] for i in range(len(first))]
        return sum(a * s for a, s in strict_zip(first, strides_of(sizes)))
    # Along the dimensions that the kernel sees, of which the last two are those of the matrix.
    *outer, row, column = [first[dim] for dim in device.kept]
    strides = strides_of(shared.shape[:-2])
    number = sum(a * strides[dim] for a, dim in strict_zip(outer, shared.kept[:-2]))
    panel = number * matrix.panels + column // matrix.columns
    return (panel * matrix.shape[-2] + row) * matrix.columns


def _largest_divisor(n: int, limit: int) -> int:
    return next(d for d in range(min(n, limit), 0, -1) if n % d == 0)


def _check_shared(ctx: Lowering, shared: Memory) -> None:
    """Raise UnsupportedError for a part of shared memory whose elements don't lie together."""
    sizes = list(shared.sizes)
    leading = next((i for i, n in enumerate(sizes) if n != 1), len(sizes))
    # Of matrices that are swizzled, `check_part_of_matrix` says which parts are one.
    last = len(sizes) if shared.swizzle is None else len(sizes) - 2
    is_together = all(
        n == m for n, m in strict_zip(sizes[leading + 1 : last], shared.shape[leading + 1 : last])
    )
    # Parts begin at multiples of what a copy's target is aligned to.
    size = bytes_of(ctx.in_memory(shared.dtype))
    strides = [n * size for n in strides_of(shared.shape)]
    is_aligned = all(
        known_factor(start) * stride % _ALIGNMENT == 0 or n == 1 == m
        for start, n, m, stride in [
            *strict_zip(shared.starts, shared.sizes, shared.shape, strides)
        ][:last]
    )
    if not is_aligned:
        raise ctx.unsupported(
            f"copies go to parts of shared memory that begin at multiples of {_ALIGNMENT} bytes.",
            f"sizes {sizes} of scratch of shape {list(shared.shape)}, {shared.dtype}",
            f"Let the part have a multiple of {_ALIGNMENT // size} elements.",
        )
    if not is_together:
        raise ctx.unsupported(
            "copies go to whole matrices and rows in shared memory.",
            f"sizes {sizes} of scratch of shape {list(shared.shape)}",
            "Give the part a scratch of its own, or a leading dimension of one.",
        )


def _ends(
    ctx: Lowering, device: Memory, shared: Memory
) -> Iterator[tuple[ir.Value, list[ir.Value], ir.Value]]:
    """Of each box of a copy (the description of the array, the position in it, the innermost first, a pointer to shared memory)."""
    if device.is_in_shared_memory or not shared.is_in_shared_memory:
        raise ctx.unsupported("copies go between the memory of the GPU and shared memory.")
    if any(limit is not None and limit[0] for limit in device.limits):
        raise ctx.unsupported(
            "copies are of blocks without elements in front of the array.", device.name
        )
    box, found = boxes(ctx, device, shared)
    span = 16 if shared.swizzle is None else shared.swizzle.span
    base, byte = part_base(ctx, shared), ir.IntegerType.get_signless(8)
    table = descriptor(ctx, device, box, span)
    for piece in found:
        place: list[Start] = [
            sum_of(ctx, start, a) for start, a in strict_zip(device.starts, piece.first)
        ]
        to = element_pointer(base, piece.offset, byte) if piece.offset else base
        yield table, [value_of(ctx, x) for x in reversed(place)], to


def part_base(ctx: Lowering, shared: Memory) -> ir.Value:
    """A pointer to the first element of a part of shared memory, which begins rows and panels of a matrix where its elements are swizzled."""
    total: Start = 0
    strides = strides_of(shared.shape)
    if shared.swizzle is not None:
        # Rows of a panel are neighbours, and a panel has one of so many rows for each of its columns.
        strides[-2:] = shared.swizzle.columns, shared.shape[-2]
    for start, stride in strict_zip(shared.starts, strides):
        scaled = start * stride if isinstance(start, int) else ctx.times(start, stride)
        total = sum_of(ctx, total, scaled)
    return element_pointer(shared.base, total, ctx.in_memory(shared.dtype))


# Primitives ---------------------------------------------------------------------------------------------------


@rule(copy_gmem_to_smem_p)
def _copy_to_shared(ctx: Lowering, equation, operands):
    (device, shared, barrier), _ = parts_of(ctx, equation, operands, is_moved=False)
    copy_to_shared(ctx, device, shared, barrier_pointer(ctx, barrier))
    return []


def copy_to_shared(ctx: Lowering, device: Memory, shared: Memory, pointer: ir.Value) -> None:
    """Start a copy to shared memory, which arrives at the barrier that `pointer` points to."""
    _check_bounds(ctx, device)
    ends = [*_ends(ctx, device, shared)]
    size = int(np.prod(shared.sizes, dtype=int)) * bytes_of(ctx.in_memory(shared.dtype))
    if device.is_mixed:
        nvvm.fence_proxy(ir.Attribute.parse("#nvvm.proxy_kind<async>"))
    # What threads have read and written there before is done.
    ctx.meet_once()
    with ctx.only_if(ctx.is_first_thread()):
        arrive_with_bytes(ctx, pointer, size)
        for table, place, to in ends:
            # With a predicate the operation takes a pointer to the memory of this block.
            nvvm.cp_async_bulk_tensor_shared_cluster_global(
                to, table, place, pointer, [], predicate=ctx.constant(1, np.bool_)
            )


def barrier_pointer(ctx: Lowering, barrier: Any) -> ir.Value:
    """A pointer to one barrier."""
    if not isinstance(barrier, BarrierArray):
        raise ctx.unsupported("copies to shared memory arrive at a barrier.")
    return barrier.pointer(ctx)


def _check_bounds(ctx: Lowering, device: Memory) -> None:
    """Raise UnsupportedError for a part of a block, of which the copy engine would see more than the kernel does."""
    mapping = device.mapping
    if mapping is None or mapping.sizes == mapping.aval.shape or device.sizes == mapping.sizes:
        return
    raise ctx.unsupported(
        "copies are of whole blocks, or of parts of whole arrays.",
        f"{device.name}: sizes {list(device.sizes)} of a block {mapping.sizes}",
        "Leave the array in its memory, `BlockSpec(memory_space=mosaic_gpu.GMEM)`, and copy parts of it.",
    )


@rule(copy_smem_to_gmem_p)
def _copy_from_shared(ctx: Lowering, equation, operands):
    (shared, device), others = parts_of(ctx, equation, operands, is_moved=False)
    reduction = _reduction(ctx, equation.params.reduction, device)
    _check_bounds(ctx, device)
    ends = [*_ends(ctx, device, shared)]
    ctx.meet_once()
    condition: ir.Value | None = ctx.is_first_thread()
    for other in others:
        condition = both(condition, other)
    with ctx.only_if(condition):
        for table, place, source in ends:
            if reduction is None:
                nvvm.cp_async_bulk_tensor_global_shared_cta(table, source, place)
            else:
                nvvm.cp_async_bulk_tensor_reduce(table, source, reduction, place)
        if equation.params.commit_group:
            nvvm.cp_async_bulk_commit_group()
    return []


def _reduction(ctx: Lowering, name: str | None, device: Memory) -> Any:
    """How a copy combines what it brings with what is there; None if it replaces that."""
    if name is None:
        return None
    known = _COMBINED.get(name, _BITS)
    if np.dtype(device.dtype).name not in known:
        raise ctx.unsupported(
            f"copies combine {', '.join(known)} by {name}.", dtypes.short_name(device.dtype)
        )
    return getattr(nvvm.TMAReduxKind, name.upper())


@rule(commit_group_p)
def _commit_group(ctx: Lowering, equation, operands):
    with ctx.only_if(ctx.is_first_thread()):
        nvvm.cp_async_bulk_commit_group()
    return []


@rule(commit_smem_p)
def _commit(ctx: Lowering, equation, operands):
    ctx.meet_once()  # writes to shared memory have their fence behind them
    return []


@rule(copy_wait_p)
def _wait(ctx: Lowering, equation, operands):
    params = equation.params
    with ctx.only_if(ctx.is_first_thread()):
        nvvm.cp_async_bulk_wait_group(params.n, read=params.read_only or None)
    ctx.meet()
    return []
