"""Atomic operations: each thread changes its elements of a part of a reference in one step each."""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid._machine.xla.mosaic_gpu import ir, llvm
from pellucid.kernels.atomics import atomic_update_p
from pellucid.kernels.lowering.programs import is_float, is_unsigned

from .layouts import Fragment
from .lowering import Lowering, rule
from .memory import Memory, as_block, both, part_of

_BINARY = llvm.AtomicBinOp
_OPERATIONS = {
    "add": (_BINARY.fadd, _BINARY.add, _BINARY.add),
    "max": (_BINARY.fmax, _BINARY.max, _BINARY.umax),
    "min": (_BINARY.fmin, _BINARY.min, _BINARY.umin),
    "and": (None, _BINARY._and, _BINARY._and),
    "or": (None, _BINARY._or, _BINARY._or),
    "xor": (None, _BINARY._xor, _BINARY._xor),
    "xchg": (_BINARY.xchg, _BINARY.xchg, _BINARY.xchg),
}
"""By operation what LLVM calls it on floats, integers and unsigned integers."""
_WIDTHS = (32, 64)
"""Bits of the elements that GPUs change in one step."""


@rule(atomic_update_p)
def _atomic_update(ctx: Lowering, equation, operands):
    ref, value, which, *rest = operands
    operation, dtype = equation.params.operation, np.dtype(equation.operands[1].aval.dtype)
    if not isinstance(ref, Memory):
        raise ctx.unsupported("atomic operations are on arrays in memory.")
    is_extreme_of_floats = operation in ("max", "min") and is_float(dtype)
    found: Any = _OPERATIONS.get(operation)
    if found is None or is_extreme_of_floats or 8 * dtype.itemsize not in _WIDTHS:
        raise ctx.unsupported(
            "atomic operations are of 32 and 64 bits: sums and exchanges, and of integers extremes and bits, too.",
            f"atomic_{operation} of {dtype}",
        )
    kind = found[0 if is_float(dtype) else 2 if is_unsigned(dtype) else 1]
    avals = [a.aval for a in equation.operands[3:]]
    part = part_of(ctx, ref, equation.params.index, rest, avals)
    is_used = equation.results[0] in ctx.scope.first_uses
    ctx.meet()

    def change(x: ir.Value, holds: ir.Value | None, place: Any, counts: ir.Value) -> Any:
        pointer, exists = part.address(place)
        condition = both(both(holds, exists), counts)
        if not is_used:
            with ctx.only_if(condition):
                llvm.atomicrmw(kind, pointer, x, llvm.AtomicOrdering.monotonic, syncscope="device")
            return x
        raise ctx.unsupported(
            "atomic operations give no previous value.", do="Ignore what they return."
        )

    if not part.shape:
        return [change(value, ctx.is_first_thread(), [], which)]
    block = as_block(ctx, value, part.shape)
    layout = block.layout
    mask = which if type(which) is not Fragment else ctx.changed(which, layout)
    masks = ctx.parts(mask) if type(mask) is Fragment else [mask] * layout.registers
    for r, (x, counts) in enumerate(zip(ctx.parts(block), masks, strict=True)):
        change(x, layout.holds(ctx, r), layout.place(ctx, r), counts)
    if ref.is_in_shared_memory:
        ctx.fence()
    ctx.meet()
    return [block]
