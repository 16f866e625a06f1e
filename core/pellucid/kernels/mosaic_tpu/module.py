"""The module of a kernel on TPUs: a function of the position in the grid and of references, with the windows of its blocks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import UnsupportedError, strict_zip
from pellucid._machine.xla.mlir import MLIRError, PassManager
from pellucid._machine.xla.mosaic_tpu import func, ir, new_mosaic_context, tpu
from pellucid.kernels.lowering.programs import identifier
from pellucid.kernels.programs import GridKernel
from pellucid.kernels.targets import TpuChip

from . import access, dma, exchange, language, loops, reductions, rules
from .bounds import Known
from .checks import check, check_memory, parts_of
from .lowering import Lowering, MemRef
from .memory import MemoryPart
from .windows import (
    argument_of,
    block_argument,
    index_function,
    is_moved,
    scratch_argument,
    window,
)

RULES = (access, dma, exchange, language, loops, reductions, rules)
"""The modules whose rules are used."""
_NO_VALUE: Any = None
_NO_FAILURE = MemRef(_NO_VALUE, (), (), np.dtype(np.int32), "none")
"""Stands for the reference to what failed, which is passed on, but neither read nor written."""
_UNKNOWN_SIZE = -(1 << 63)


class MosaicKernel(NamedTuple):
    """A kernel in Mosaic's dialect: a verified module with the function `name`."""

    name: str
    module: ir.Module
    memory: list[MemoryPart]
    """What it holds in VMEM and SMEM: prefetched scalars, the buffers of each array's blocks, then each scratch."""

    @property
    def vmem(self) -> list[tuple[str, int]]:
        """What it holds in VMEM: (name, bytes)."""
        return [(part.name, part.n_bytes) for part in self.memory if part.space == "vmem"]

    @property
    def text(self) -> str:
        """The module as MLIR text, without locations."""
        return str(self.module)


def lowered(
    kernel: GridKernel, chip: TpuChip | None = None, line: str | None = None, mesh: Any = None
) -> MosaicKernel:
    """A kernel in Mosaic's dialect, for a `chip`, or else for the one with the most memory; `line` is the user's that calls it, on
    each device of `mesh`.

    Raises: UnsupportedError for what TPUs can't do, or what has no rule.
    """
    check(kernel, line)
    context = new_mosaic_context()
    with context, ir.Location.unknown():
        ctx = Lowering(kernel.name, context, (*kernel.inputs, *kernel.results))
        ctx.line, ctx.mesh = line, mesh
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            _function(ctx, kernel)
        parts = [*parts_of(kernel), *ctx.memory_made]
        check_memory(kernel, parts, chip, line)
        try:
            module.operation.verify()
            PassManager.parse("builtin.module(canonicalize,cse)").run(module.operation)
        except MLIRError as error:
            raise UnsupportedError(
                f"the kernel `{kernel.name}` can't be lowered to TPUs: its program isn't valid there.",
                got=str(error).splitlines()[:10],
                where=line,
            ) from error
    return MosaicKernel(identifier(kernel.name), module, parts)


def _function(ctx: Lowering, kernel: GridKernel) -> None:
    grid = kernel.grid or (1,)
    scalars = [argument_of(a, "smem") for a in kernel.scalars]
    blocks = [block_argument(ctx, m) for m in (*kernel.inputs, *kernel.results)]
    spaces = kernel.spaces or (None,) * len(kernel.scratch)
    scratch = [scratch_argument(ctx, a, s) for a, s in strict_zip(kernel.scratch, spaces)]
    arguments = [*scalars, *blocks, *scratch]
    int32 = ir.IntegerType.get_signless(32)
    types = [*[int32] * len(grid), *[a.type(ctx) for a in arguments]]
    function = func.FuncOp(identifier(kernel.name), ir.FunctionType.get(types, []))
    block = ctx.entry = function.add_entry_block()
    values = [*block.arguments]
    ids = values[: len(grid)]
    refs = [a.ref(x) for a, x in strict_zip(arguments, values[len(grid) :])]
    jaxpr = kernel.body.jaxpr
    n_consts = len(kernel.consts)
    for variable, size in zip(jaxpr.invars[n_consts:], kernel.grid, strict=False):
        if size is not None:
            ctx.facts[variable] = Known(0, size - 1, 1)
    with ctx.inside(block):
        consts = [ctx.uniform(x) for x in kernel.consts]
        bounds = [tpu.iteration_bound(i) for i, size in enumerate(kernel.grid) if size is None]
        # A wait that would never end is noted nowhere: on TPUs it never ends.
        failure = [_NO_FAILURE] if kernel.sites else []
        ctx.inline(jaxpr, [*consts, *ids[: len(kernel.grid)], *bounds, *refs, *failure])
        func.ReturnOp([])
    # References that the body makes have become further arguments.
    types = [x.type for x in block.arguments]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, []))
    _describe(ctx, function, kernel, len(types) - len(grid) - len(scalars) - len(blocks))
    for i, mapping in enumerate((*kernel.inputs, *kernel.results)):
        if is_moved(blocks[i].space):
            index_function(ctx, mapping, _symbol(i), len(grid), scalars)


def _symbol(i: int) -> str:
    return f"transform_{i}"


def _describe(ctx: Lowering, function: Any, kernel: GridKernel, n_scratch: int) -> None:
    """State the grid, the windows of the blocks, and what the arguments are."""
    attributes = function.attributes
    int64 = ir.IntegerType.get_signless(64)
    grid = kernel.grid or (1,)
    sizes = [_UNKNOWN_SIZE if n is None else n for n in grid]
    attributes["iteration_bounds"] = ir.DenseI64ArrayAttr.get(sizes)
    attributes["dimension_semantics"] = ir.ArrayAttr.get(
        [ir.Attribute.parse(f"#tpu.dimension_semantics<{s}>") for s in semantics_of(kernel)]
    )
    attributes["scalar_prefetch"] = ir.IntegerAttr.get(int64, len(kernel.scalars))
    attributes["scratch_operands"] = ir.IntegerAttr.get(int64, n_scratch)
    attributes["tpu.core_type"] = ir.Attribute.parse("#tpu.core_type<tc>")
    mappings = (*kernel.inputs, *kernel.results)
    attributes["window_params"] = ir.ArrayAttr.get(
        [window(ctx, m, _symbol(i)) for i, m in enumerate(mappings)]
    )


def semantics_of(kernel: GridKernel) -> list[str]:
    """For each axis of the grid whether its programs are independent, as the dialect names it."""
    stated = getattr(kernel.compiler_params, "dimension_semantics", None) or ()
    names = [str(getattr(s, "value", s)).lower() for s in stated]
    return names or ["arbitrary"] * max(len(kernel.grid), 1)
