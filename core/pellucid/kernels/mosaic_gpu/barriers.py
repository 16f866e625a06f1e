"""Barriers in shared memory, at which copies and threads arrive, and whose phases all threads of a block wait for."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import Shape, strict_zip
from pellucid._machine.xla.mosaic_gpu import arith, ir, nvvm

from .lowering import Lowering, element_pointer, store, strides_of

_MAX_BARRIERS = 32


class BarrierArray(NamedTuple):
    """An array of barriers of `shape`, or one of them: number `index`."""

    base: ir.Value
    phases: ir.Value
    """Points to a thread's own 32 bits: of each barrier the parity of the phase that it waits for next."""
    shape: Shape
    index: Any = 0
    """An int or a 32-bit value."""

    def at(self, ctx: Lowering, items: list[Any]) -> BarrierArray:
        """The barrier at a position."""
        total: Any = self.index
        strides = strides_of(self.shape)
        for item, stride in strict_zip(items, strides):
            start = item[0] if isinstance(item, tuple) else item
            if isinstance(item, tuple) and item[1] != 1:
                raise ctx.unsupported("one barrier is waited for at a time.")
            if isinstance(start, int) and isinstance(total, int):
                total += start * stride
            else:
                start = (
                    ctx.int32(start * stride)
                    if isinstance(start, int)
                    else ctx.times(start, stride)
                )
                total = arith.addi(ctx.int32(total) if isinstance(total, int) else total, start)
        return self._replace(index=total)

    def pointer(self, ctx: Lowering) -> ir.Value:
        """A pointer to the one barrier."""
        return element_pointer(self.base, self.index, ir.IntegerType.get_signless(64))

    def get(self, ctx: Lowering, equation: Any) -> Any:
        """Raises UnsupportedError: nothing reads how many arrivals a barrier has."""
        raise ctx.unsupported("barriers aren't read.", do="Wait: `barrier_wait`.")

    def number(self, ctx: Lowering) -> ir.Value:
        """The number of the one barrier in the array."""
        return ctx.int32(self.index) if isinstance(self.index, int) else self.index


def new_barriers(ctx: Lowering, kind: Any, is_of_block: bool = True) -> BarrierArray:
    """Barriers of the type `kind`, in their first phase, which a block has once, or each warpgroup."""
    count = math.prod(kind.shape)
    if count > _MAX_BARRIERS:
        raise ctx.unsupported(
            f"an array has at most {_MAX_BARRIERS} barriers.", f"{count} barriers"
        )
    base = ctx.allocated(8 * count, 8, f"{count} barrier{'s' * (count != 1)}", is_of_block)
    phases = ctx.own(ctx.element(np.int32))
    store(ctx.int32(0), phases, 4)
    found = BarrierArray(base, phases, tuple(kind.shape))
    meet = ctx.meet_all if is_of_block else ctx.meet
    meet()
    first = ctx.is_first_thread_of_block() if is_of_block else ctx.is_first_thread()
    with ctx.only_if(first):
        for i in range(count):
            arrivals = ctx.int32(kind.num_arrivals)
            nvvm.mbarrier_init(found._replace(index=i).pointer(ctx), arrivals)
        nvvm.fence_mbarrier_init()
        # Copies see the barrier only behind this.
        ctx.fence()
    meet()
    return found


def arrive_with_bytes(ctx: Lowering, pointer: ir.Value, size: int) -> None:
    """Arrive at a barrier, whose phase then also waits for `size` bytes of copies."""
    nvvm.mbarrier_arrive_expect_tx(
        pointer, ctx.int32(size), results=[ir.IntegerType.get_signless(64)]
    )
