"""Copies between memories and devices, and semaphores, of kernels on TPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import dtypes
from pellucid._machine.parallel.axes import axis_index_p
from pellucid._machine.refs.index import RefIndex
from pellucid._machine.xla.mosaic_tpu import MemRefType, arith, ir, tpu
from pellucid.kernels.buffering import emit_pipeline_p
from pellucid.kernels.copies import dma_start_p, dma_wait_p
from pellucid.kernels.parts import Part
from pellucid.kernels.semaphores import (
    get_barrier_semaphore_p,
    semaphore_read_p,
    semaphore_signal_p,
    semaphore_wait_p,
)

from .access import is_multiple, part_of
from .lowering import Lowering, MemRef, rule
from .tiles import LANES, bits_of, tile_of

_INT32 = np.dtype(np.int32)


def _parts(ctx: Lowering, equation: Any, operands: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """(the parts of references that an equation takes, None for an absent one; the operands that follow them)."""
    params = equation.params
    parts, n = params.parts, params.n_consts
    own, atoms = operands[n:], equation.operands[n:]
    found: list[MemRef | None] = []
    rest = iter(range(parts.n_refs, len(own)))
    for part in parts.parts:
        if part is None:
            found.append(None)
            continue
        places = [next(rest) for _ in range(sum(part.sizes))]
        found.append(_view(ctx, part, own, atoms, iter(places)))
    return found, [*own[parts.n_operands :]]


def _view(
    ctx: Lowering, part: Part, values: Sequence[Any], atoms: Sequence[Any], places: Iterator[int]
) -> MemRef:
    """The part of a reference that steps lead to."""
    ref: MemRef = values[part.ref]
    for step, n in zip(part.steps, part.sizes, strict=True):
        if not isinstance(step, RefIndex):
            raise ctx.unsupported(
                "copies are of slices of references, which have their own shape and dtype.",
                do="Copy a slice, `ref.at[index]`, and change the shape of what is read.",
            )
        taken = [next(places) for _ in range(n)]
        ref = _sliced(ctx, ref, step, [values[i] for i in taken], [atoms[i] for i in taken])
    return ref


def _sliced(
    ctx: Lowering, ref: MemRef, index: RefIndex, operands: Sequence[Any], atoms: Sequence[Any]
) -> MemRef:
    part = part_of(ctx, ref, index, operands, atoms)
    if any(s != 1 for s in part.strides):
        raise ctx.unsupported("copies make no steps.", f"steps {part.strides}")
    if ref.space in ("vmem", "hbm", "any"):
        for dim, place in enumerate(zip(part.starts, part.sizes, part.strides, strict=True)):
            _check_copied(ctx, ref, dim, *place[:2])
    value = ref.value
    if part.sizes != ref.shape:
        starts = [ctx.int32(s) if isinstance(s, int) else s for s in part.starts]
        value = tpu.memref_slice(_memref(ctx, ref, part.sizes), value, starts, [])
    if part.shape != part.sizes:
        value = tpu.memref_squeeze(_memref(ctx, ref, part.shape), value)
    kept = tuple(range(len(part.shape)))
    return ref._replace(value=value, shape=part.shape, kept=kept)


def _check_copied(ctx: Lowering, ref: MemRef, dim: int, start: int | ir.Value, size: int) -> None:
    """Raise UnsupportedError for a copied slice along a dimension that doesn't begin or end at a tile."""
    tile = tile_of(ref.shape, ref.dtype)
    place = dim - (len(ref.shape) - len(tile))
    if place < 0 or (size == ref.shape[dim] and is_multiple(start, size)):
        return
    bits = bits_of(ref.dtype)
    is_row = len(tile) > 1 and place == 0
    if is_row and bits == 32 and (size == 1 or ref.shape[-1] == LANES):
        return
    least = 32 // bits if is_row else tile[place]
    is_whole = size % tile[place] == 0 or (size < tile[place] and size % least == 0)
    if is_multiple(start, tile[place]) and is_whole:
        return
    raise ctx.unsupported(
        f"copies begin at multiples of {tile[place]} there"
        + (f", and have multiples of {least} elements" if least > 1 else ", and have elements")
        + (f" up to {tile[place]}, or multiples of that." if least < tile[place] else "."),
        f"{size} elements along dimension {dim} of a reference of shape {list(ref.shape)}, {dtypes.short_name(ref.dtype)}, from "
        + (f"{start} on" if isinstance(start, int) else "a start that isn't known to be one on"),
        f"Compute the start as a product with {tile[place]}, state it by `pl.multiple_of(start, {tile[place]})`, or copy whole tiles.",
    )


def _memref(ctx: Lowering, ref: MemRef, shape: Sequence[int]) -> ir.Type:
    """The type of a part of a memref."""
    kind = MemRefType(ref.value.type)
    return MemRefType.get([*shape], kind.element_type, memory_space=kind.memory_space)


def _whole(ctx: Lowering, ref: MemRef) -> ir.Value:
    """The memref without the dimensions that the kernel doesn't see."""
    shape = tuple([ref.shape[i] for i in ref.kept])
    return (
        ref.value if shape == ref.shape else tpu.memref_squeeze(_memref(ctx, ref, shape), ref.value)
    )


# Copies -------------------------------------------------------------------------------------------------------


@rule(dma_start_p)
def _start(ctx: Lowering, equation, operands):
    params = equation.params
    (source, target, sender, receiver), others = _parts(ctx, equation, operands)
    if receiver is None:
        raise ctx.unsupported(
            "a copy signals a semaphore.",
            do="Pass one: scratch of the type `tpu.SemaphoreType.DMA`.",
        )
    if params.add:
        raise ctx.unsupported(
            "a copy replaces what its target holds.", do="Copy to scratch, and add what that holds."
        )
    if "smem" in (source.space, target.space) and "vmem" in (source.space, target.space):
        raise ctx.unsupported(
            "nothing is copied between VMEM and SMEM.", do="Copy to HBM, and from there."
        )
    if params.priority not in (0, 1) or (params.priority and params.has_device):
        raise ctx.unsupported(
            "copies have priority 0 or 1, those to other devices 0.", f"priority {params.priority}"
        )
    options: dict[str, Any] = {"target_semaphore": _whole(ctx, receiver)}
    if params.has_device:
        options |= {"source_semaphore": _whole(ctx, sender), "device_id": others[0]}
    tpu.enqueue_dma(_whole(ctx, source), _whole(ctx, target), priority=params.priority, **options)
    ctx.writes += 1
    return []


@rule(dma_wait_p)
def _wait(ctx: Lowering, equation, operands):
    (semaphore, ref), _ = _parts(ctx, equation, operands)
    part = _whole(ctx, ref)
    tpu.wait_dma2(_whole(ctx, semaphore), part, part)
    ctx.writes += 1
    return []


# Semaphores ---------------------------------------------------------------------------------------------------


@rule(semaphore_signal_p)
def _signal(ctx: Lowering, equation, operands):
    params = equation.params
    [semaphore], (amount, *others) = _parts(ctx, equation, operands)
    rest = iter(others)
    options: dict[str, Any] = {}
    if params.has_device:
        options["device_id"] = next(rest)
    if params.has_core:
        options["core_id"] = next(rest)
    tpu.sem_signal(_whole(ctx, semaphore), ctx.signed32(amount), **options)
    return []


@rule(semaphore_wait_p)
def _wait_for(ctx: Lowering, equation, operands):
    [semaphore], [amount] = _parts(ctx, equation, operands)
    if not equation.params.decrement:
        raise ctx.unsupported(
            "a wait takes away what it waits for.", do="Signal as much to the semaphore afterwards."
        )
    tpu.sem_wait(_whole(ctx, semaphore), ctx.signed32(amount))
    ctx.writes += 1
    return []


@rule(semaphore_read_p)
def _read(ctx: Lowering, equation, operands):
    [semaphore], _ = _parts(ctx, equation, operands)
    return [tpu.sem_read(_whole(ctx, semaphore))]


@rule(get_barrier_semaphore_p)
def _barrier(ctx: Lowering, equation, operands):
    kind = ir.Type.parse("memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>")
    return [MemRef(tpu.sem_barrier(kind), (), (), _INT32, "semaphore_mem")]


# Pipelines ----------------------------------------------------------------------------------------------------


@rule(emit_pipeline_p)
def _pipeline(ctx: Lowering, equation, operands):
    params = equation.params
    program, own, reason = params.with_buffers(operands)
    if program is None:
        raise ctx.unsupported(reason)
    return ctx.inline(program.jaxpr, own, params.with_buffers(equation.operands)[1])


# Devices ------------------------------------------------------------------------------------------------------


@rule(axis_index_p)
def _axis_index(ctx: Lowering, equation, operands):
    name, mesh = equation.params.axis_name, ctx.mesh
    if mesh is None or name not in mesh.shape:
        raise ctx.unsupported(
            f"the axis {name!r} has no devices where it is lowered.",
            do="Lower the function that calls it under `shard_map`.",
        )
    axes = list(mesh.axis_names)
    behind = int(np.prod([mesh.shape[a] for a in axes[axes.index(name) + 1 :]], dtype=int))
    number = tpu.device_id()
    along = arith.divsi(number, ctx.int32(behind)) if behind > 1 else number
    return [arith.remsi(along, ctx.int32(mesh.shape[name]))]
