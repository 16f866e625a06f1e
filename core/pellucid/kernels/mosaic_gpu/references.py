"""References that a kernel is given as scratch, or makes: to shared memory, barriers, accumulators."""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid._machine.ir import AbstractRef, Jaxpr, programs_of
from pellucid._machine.refs.primitives import addupdate_p, empty_ref_p, new_ref_p, swap_p
from pellucid.kernels.gpu.memory import ACC, Barrier, Memory as MemoryType, MemorySpace
from pellucid.kernels.gpu.transforms import SwizzleTransform, TilingTransform
from pellucid.kernels.specs import SharedScratch

from .barriers import new_barriers
from .lowering import Lowering, rule
from .memory import scratch, whole, write
from .swizzles import ALIGNMENT, Swizzle, fitting_swizzle
from .wgmma import new_accumulator


def new_reference(
    ctx: Lowering, aval: Any, kind: Any, value: Any = None, *, is_of_block: bool = True, origin: Any = None,
) -> Any:  # fmt: skip
    """A reference to new memory of a type, which begins as `value` if that is given; a block has it once, or each warpgroup.

    `origin` identifies it, so that it is swizzled if a product needs that.
    """
    if isinstance(kind, Barrier):
        return new_barriers(ctx, kind, is_of_block)
    if isinstance(kind, ACC):
        return new_accumulator(ctx, kind, value)
    space = kind.memory_space if isinstance(kind, MemoryType) else kind
    if space not in (None, MemorySpace.SMEM, MemorySpace.REGS):
        raise ctx.unsupported(
            "scratch is in shared memory, SMEM, or in registers.", f"{aval.text()} in {space}"
        )
    swizzle = _swizzle(ctx, aval, getattr(kind, "transforms", ()))
    if swizzle is None and origin in ctx.chosen:
        swizzle = fitting_swizzle(aval.shape, aval.dtype)
    ref = scratch(ctx, aval.shape, aval.dtype, swizzle, is_of_block=is_of_block)
    ref = ref._replace(origin=origin)
    if value is not None:
        ctx.meet()
        write(ctx, ref, whole(ctx, ref), value)
    return ref


def _swizzle(ctx: Lowering, aval: Any, transforms: Any) -> Swizzle | None:
    """How elements lie in shared memory for which `transforms` are stated; None in row-major order."""
    spans = [t.swizzle for t in transforms if isinstance(t, SwizzleTransform)]
    if not spans:
        return None  # tiles alone change no address that anybody sees
    [span] = spans[-1:]
    shape, itemsize = tuple(aval.shape), np.dtype(aval.dtype).itemsize
    fits = len(shape) > 1 and shape[-2] % 8 == 0 and shape[-1] * itemsize % span == 0
    tilings = [t.tiling for t in transforms if isinstance(t, TilingTransform)]
    if any(tiling[-1] * itemsize != span for tiling in tilings):
        raise ctx.unsupported(
            "rows of a tile have as many bytes as the swizzle.",
            f"tiles of {tilings[0]} elements of {itemsize} bytes, swizzle {span}",
            f"State TilingTransform((8, {span // itemsize})).",
        )
    found = Swizzle(shape, span, itemsize)
    if not fits or (len(shape) > 2 and found.panels * found.panel_bytes % ALIGNMENT):
        raise ctx.unsupported(
            f"a matrix that is swizzled by {span} bytes has a multiple of 8 rows and of {span // itemsize} columns, in all of {ALIGNMENT} bytes.",
            f"scratch of type {aval.text()}",
        )
    return found


@rule(new_ref_p, empty_ref_p)
def _new_ref(ctx: Lowering, equation, operands):
    aval: Any = equation.results[0].aval
    # Scratch has no contents at first: those of the definition say so.
    is_undefined = isinstance(aval.kind, (Barrier, MemoryType)) or not operands
    value = None if is_undefined else operands[0]
    is_of_block = isinstance(getattr(equation.params, "memory_space", None), SharedScratch)
    if is_of_block and ctx.conditions and ctx.n_warpgroups > 1:
        raise ctx.unsupported(
            "all threads of a block make scratch that they have in common.",
            f"{aval.text()}, made where a condition holds",
            "Make it outside of conditions: `run_scoped(..., collective_axes=...)`, with the condition within.",
        )
    origin = "equation", id(equation)
    return [
        new_reference(
            ctx, aval.inner_aval, aval.kind, value, is_of_block=is_of_block, origin=origin
        )
    ]


def writes_shared_memory(jaxpr: Jaxpr) -> bool:
    """Whether equations of a program write to references that may be in shared memory."""
    for equation in jaxpr.equations:
        if equation.primitive in (swap_p, addupdate_p):
            aval = equation.operands[0].aval
            if type(aval) is AbstractRef and isinstance(aval.kind, MemoryType):
                return True
        if any(writes_shared_memory(getattr(p, "jaxpr", p)) for p in programs_of(equation)):
            return True
    return False
