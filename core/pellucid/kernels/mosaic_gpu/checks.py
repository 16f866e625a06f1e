"""What Hopper GPUs don't have, said before anything is compiled: of kernels, of their blocks, of shared memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pellucid._machine.base import UnsupportedError
from pellucid._machine.base.dims import Symbol
from pellucid.kernels.lowering.launches import is_shared_by_blocks
from pellucid.kernels.programs import GridKernel
from pellucid.kernels.specs import SemaphoreType

if TYPE_CHECKING:
    from .lowering import Lowering

MAX_SHARED_BYTES = 227 << 10
"""Bytes of shared memory that a block may have: 228 KiB of a multiprocessor, but for 1 KiB of the system."""


def _refused(
    kernel: GridKernel, what: str, line: str | None, got: Any = (), do: str | None = None
) -> UnsupportedError:
    return UnsupportedError(
        f"the kernel `{kernel.name}` can't be lowered to Mosaic GPU: {what}",
        got=got,
        where=line,
        do=do,
    )


def check(kernel: GridKernel, line: str | None) -> None:
    """Raise UnsupportedError for kernels that need what Hopper GPUs don't have; `line` is the user's that calls it."""
    if None in kernel.grid:
        raise _refused(kernel, "sizes of its grid are known only when the program runs.", line)
    if 0 in kernel.grid or any(0 in m.aval.shape for m in (*kernel.inputs, *kernel.results)):
        raise _refused(kernel, "it has no empty grids and arrays.", line, f"grid {kernel.grid}")
    if kernel.scalars:
        raise _refused(kernel, "it has prefetched scalars.", line, do="Pass them as inputs.")
    if any(isinstance(space, SemaphoreType) for space in kernel.spaces):
        raise _refused(kernel, "it has semaphores.", line, do="Use barriers: `Barrier()`.")
    for mapping in (*kernel.inputs, *kernel.results):
        where = mapping.spec.line or line
        if any(isinstance(n, Symbol) for n in (*mapping.aval.shape, *mapping.sizes)):
            raise _refused(kernel, f"the shape of {mapping.name} is a symbol.", where)
        if mapping.indices is None and 0 not in kernel.grid:
            raise _refused(kernel, f"blocks of {mapping.name} aren't known before it runs.", where)
        if math.prod(mapping.aval.shape) >= 1 << 31:
            raise _refused(
                kernel,
                "arrays have less than 2^31 elements there.",
                where,
                f"{mapping.name}: {mapping.aval.text()}",
            )
    for position in sorted(kernel.written):
        if position < len(kernel.inputs):
            raise _refused(
                kernel,
                f"it writes to an input, {kernel.inputs[position].name}.",
                kernel.inputs[position].spec.line or line,
                do="Alias a result with it, and write to that: `input_output_aliases`.",
            )
        number = position - len(kernel.inputs)
        if number >= len(kernel.results):
            continue
        mapping = kernel.results[number]
        if is_shared_by_blocks(kernel, mapping) and mapping.sizes != mapping.aval.shape:
            raise _refused(
                kernel,
                f"its programs run at once, and several write one block of {mapping.name}.",
                mapping.spec.line or line,
                do="Let the block depend on all axes of the grid, and sum by a loop in the kernel.",
            )


def check_shared_memory(kernel: GridKernel, ctx: Lowering, line: str | None) -> None:
    """Raise UnsupportedError for a kernel whose references and exchanges don't fit into shared memory."""
    exchanged = ctx.exchanged_bytes * ctx.n_warpgroups
    total = ctx.shared_bytes + exchanged
    if total <= MAX_SHARED_BYTES:
        return
    raise _refused(
        kernel,
        f"it needs {total / 1024:.1f} KiB of shared memory, and a block has {MAX_SHARED_BYTES >> 10} KiB.",
        line,
        [
            f"{ctx.shared_bytes / 1024:.1f} KiB for references",
            f"{exchanged / 1024:.1f} KiB to exchange elements between threads",
        ],
        "Choose smaller blocks and scratch, or fewer stages.",
    )
