"""Kernels on GPUs: their text in Triton's dialect, and the call of it in a program."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import ArgumentValueError, UnsupportedError
from pellucid._machine.lowering.custom_calls import custom_call
from pellucid._machine.xla.mlir import PassManager, bytecode
from pellucid._machine.xla.triton import ir, new_triton_context, triton
from pellucid.kernels.lowering.costs import cost_attributes
from pellucid.kernels.lowering.launches import (
    beginnings,
    block_starts,
    is_shared,
    launch_grid,
    position,
    read_references,
)
from pellucid.kernels.lowering.programs import identifier
from pellucid.kernels.mappings import BlockMapping
from pellucid.kernels.programs import GridKernel

from . import assembly, halves, memory, printing, rules
from .lowering import Lowering

_TARGET = "__gpu$xla.gpu.triton"
_WARPS = (1, 2, 4, 8, 16, 32)
_DIVISIBILITY = 16
"""Bytes of which the addresses of arrays are multiples."""
RULES = (assembly, halves, memory, printing, rules)
"""The modules whose rules are used."""


class TritonKernel(NamedTuple):
    """A kernel in Triton's dialect: a verified module with the function `name`, and how it is launched."""

    name: str
    module: ir.Module
    grid: tuple[int, int, int]
    num_warps: int
    num_stages: int

    @property
    def text(self) -> str:
        """The module as MLIR text, without locations."""
        return str(self.module)


def lowered(kernel: GridKernel) -> TritonKernel:
    """A kernel in Triton's dialect.

    Raises: UnsupportedError for what Triton can't do, or what has no rule; ArgumentValueError for warps and stages that it
    doesn't have.
    """
    params = kernel.compiler_params
    warps, stages = [
        default if n is None else n
        for n, default in (
            (getattr(params, "num_warps", None), 4),
            (getattr(params, "num_stages", None), 3),
        )
    ]
    if warps not in _WARPS:
        raise ArgumentValueError(
            f"the kernel `{kernel.name}` has another number of warps than GPUs run.",
            got=f"num_warps={warps}",
            do=f"It is one of {', '.join(map(str, _WARPS))}: a warp has 32 threads, a program at most 1,024.",
        )
    if not isinstance(stages, int) or not 1 <= stages <= 16:
        raise ArgumentValueError(
            f"the kernel `{kernel.name}` has another number of stages than Triton takes.",
            got=f"num_stages={stages}, of 1 to 16",
        )
    _check(kernel)
    context = new_triton_context()
    with context, ir.Location.unknown():
        ctx = Lowering(kernel.name, context, (*kernel.inputs, *kernel.results))
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            grid = _function(ctx, kernel)
        try:
            module.operation.verify()
            PassManager.parse("builtin.module(canonicalize,cse)").run(module.operation)
        except ir.MLIRError as error:
            raise UnsupportedError(
                f"the kernel `{kernel.name}` can't be lowered to Triton: its program isn't valid there.",
                got=str(error).splitlines()[:10],
            ) from error
    return TritonKernel(identifier(kernel.name), module, grid, warps, stages)


def _check(kernel: GridKernel) -> None:
    """Raise UnsupportedError for kernels that need what GPUs don't have."""
    what = ""
    if None in kernel.grid:
        what = "sizes of its grid are known only when the program runs."
    elif kernel.scalars:
        what = "it has prefetched scalars; pass them as inputs."
    elif kernel.scratch:
        what = "it has scratch; carry the value through the kernel, or use a result."
    elif kernel.sites:
        what = "it waits for semaphores."
    if not what:
        for mapping in (*kernel.inputs, *kernel.results):
            if mapping.indices is None and 0 not in kernel.grid:
                what = f"blocks of {mapping.name} aren't known before it runs."
            elif math.prod(mapping.aval.shape) >= 1 << 31:
                what = f"arrays have less than 2^31 elements there: {mapping.name}."
    if what:
        raise UnsupportedError(f"the kernel `{kernel.name}` can't be lowered to Triton: {what}")
    for i, mapping in enumerate(kernel.results):
        position = len(kernel.inputs) + i
        if position in kernel.written and is_shared(mapping) and not _is_whole(mapping):
            raise UnsupportedError(
                f"the kernel `{kernel.name}` can't be lowered to Triton: its programs run at once, and several write one block "
                f"of {mapping.name}.",
                where=mapping.spec.line,
                do="Let the block depend on all axes of the grid, and sum by a loop in the kernel.",
            )
    for position in kernel.written:
        if position < len(kernel.inputs):
            raise UnsupportedError(
                f"the kernel `{kernel.name}` can't be lowered to Triton: it writes to an input.",
                do="Alias a result with it, and write to that: `input_output_aliases`.",
            )


def _is_whole(mapping: BlockMapping) -> bool:
    return mapping.sizes == mapping.aval.shape


def _function(ctx: Lowering, kernel: GridKernel) -> tuple[int, int, int]:
    """Make the function of pointers to the inputs, to what results begin as, and to the results; the grid of the device."""
    begun = [kernel.inputs[i] for i in beginnings(kernel)]
    mappings = [*kernel.inputs, *begun, *kernel.results]
    types = [triton.PointerType.get(ctx.in_memory(m.aval.dtype), 1) for m in mappings]
    function = triton.FuncOp(
        identifier(kernel.name),
        ir.TypeAttr.get(ir.FunctionType.get(types, [])),
        sym_visibility="public",
        res_attrs=ir.DictAttr.get({"noinline": ir.BoolAttr.get(False)}),
    )
    divisible: dict[str, ir.Attribute] = {
        "tt.divisibility": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), _DIVISIBILITY)
    }
    function.arg_attrs = ir.ArrayAttr.get([ir.DictAttr.get(divisible) for _ in types])
    block = function.body.blocks.append(*types, arg_locs=[ir.Location.unknown()] * len(types))
    with ctx.inside(block):
        ids = position(ctx, [n or 0 for n in kernel.grid], triton.get_program_id)
        n_inputs, read = len(kernel.inputs), read_references(kernel)
        pointers = [
            memory.Pointer(
                base, m, block_starts(ctx, m, ids), is_shared(m), i in kernel.written and i in read
            )
            for i, (base, m) in enumerate(
                [
                    *zip(block.arguments[:n_inputs], kernel.inputs, strict=True),
                    *zip(block.arguments[n_inputs + len(begun) :], kernel.results, strict=True),
                ]
            )
        ]
        consts = [ctx.uniform(x) for x in kernel.consts]
        ctx.inline(kernel.body.jaxpr, [*consts, *ids, *pointers])
        triton.return_([])
    return launch_grid([n or 0 for n in kernel.grid])


def call(ctx: Any, kernel: GridKernel, operands: list[Any]) -> list[Any]:
    """Values of the results of a kernel in a program for GPUs, which calls it."""
    made = lowered(kernel)
    avals, begun = [m.aval for m in kernel.results], beginnings(kernel)
    config = {
        "name": made.name,
        "ir": bytecode(made.module),
        "num_warps": np.int32(made.num_warps),
        "num_stages": np.int32(made.num_stages),
        "grid_x": np.int32(made.grid[0]),
        "grid_y": np.int32(made.grid[1]),
        "grid_z": np.int32(made.grid[2]),
        "debug": False,
    }
    row_major = lambda aval: tuple(range(aval.ndim))[::-1]
    operation = custom_call(
        ctx,
        _TARGET,
        [*operands, *[operands[i] for i in begun]],
        result_types=ctx.types(avals),
        operand_layouts=[row_major(kernel.inputs[i].aval) for i in [*range(len(operands)), *begun]],
        result_layouts=[*map(row_major, avals)],
        backend_config=config,
        operand_output_aliases={len(operands) + k: o for k, o in enumerate(sorted(kernel.aliases))},
        extra_attributes=cost_attributes(ctx, kernel),
    )
    return list(operation.results)
