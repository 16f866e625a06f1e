"""The call of a kernel on Hopper GPUs in a program."""

from __future__ import annotations

from typing import Any

from pellucid._machine.base import UnsupportedError, describe
from pellucid._machine.lowering.custom_calls import custom_call, row_major
from pellucid._machine.xla.mosaic_gpu import serialized
from pellucid.kernels.lowering.costs import cost_attributes
from pellucid.kernels.lowering.launches import beginnings
from pellucid.kernels.programs import GridKernel

from .module import lowered

_TARGET = "mosaic_gpu_v2"


def call(ctx: Any, kernel: GridKernel, operands: list[Any]) -> list[Any]:
    """Values of the results of a kernel in a program for GPUs, which calls it."""
    line = None if ctx.equation is None else describe(ctx.equation.source)
    if ctx.is_partitioned:
        raise UnsupportedError(
            f"the kernel `{kernel.name}` can't be lowered to Mosaic GPU: nothing divides its blocks among devices.",
            where=line,
            do="Call it under `shard_map` over all axes of the mesh.",
        )
    made = serialized(lowered(kernel, line).module)
    begun = beginnings(kernel)
    avals = [m.aval for m in kernel.results]
    given = [*[m.aval for m in kernel.inputs], *[kernel.inputs[i].aval for i in begun]]
    operation = custom_call(
        ctx,
        _TARGET,
        [*operands, *[operands[i] for i in begun]],
        result_types=ctx.types(avals),
        operand_layouts=[*map(row_major, given)],
        result_layouts=[*map(row_major, avals)],
        backend_config={
            "module": made.body,
            "kernel_hash": made.digest,
            "use_custom_barrier": False,
            "uses_xla_collective_metadata": False,
        },
        operand_output_aliases={len(operands) + k: o for k, o in enumerate(sorted(kernel.aliases))},
        extra_attributes=cost_attributes(ctx, kernel),
    )
    found = list(operation.results)
    # What may fail on other devices is reported by one more result, which says here that nothing did.
    return found + [ctx.zeros(a) for a in ctx.avals_out[len(found) :]]
