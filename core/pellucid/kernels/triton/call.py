"""Kernels on GPUs: their text in Triton's dialect, and the call of it in a program."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import ArgumentValueError, UnsupportedError, strict_zip
from pellucid._machine.ir import Var
from pellucid._machine.lowering.custom_calls import custom_call
from pellucid._machine.refs.primitives import swap_p
from pellucid._machine.xla.mlir import PassManager, bytecode
from pellucid._machine.xla.triton import arith, ir, new_triton_context, triton
from pellucid.kernels.lowering.programs import Scope, identifier
from pellucid.kernels.mappings import Along, BlockMapping
from pellucid.kernels.programs import GridKernel
from pellucid.kernels.specs import step_of

from . import assembly, halves, memory, printing, rules
from .lowering import Lowering

_TARGET = "__gpu$xla.gpu.triton"
_MAX_GRID = (2**31 - 1, 2**16 - 1, 2**16 - 1)
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
        if position in kernel.written and _is_shared(mapping) and not _is_whole(mapping):
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


def _is_shared(mapping: BlockMapping) -> bool:
    """Whether several programs see one block of an array."""
    table = mapping.indices
    return table is not None and len(np.unique(table, axis=0)) < len(table)


def _is_whole(mapping: BlockMapping) -> bool:
    return mapping.sizes == mapping.aval.shape


def launch_grid(grid: Sequence[int]) -> tuple[int, int, int]:
    """Programs along the three axes that a GPU has: the last axes of the grid first, or all of them along one."""
    sizes = [*reversed(grid)]
    if len(sizes) <= 3 and all(n <= m for n, m in zip(sizes, _MAX_GRID, strict=False)):
        x, y, z = [*sizes, 1, 1, 1][:3]
        return x, y, z
    return math.prod(sizes), 1, 1


def _position(grid: Sequence[int], ctx: Lowering) -> Sequence[ir.Value]:
    """The position of the program along each axis of the grid."""
    if launch_grid(grid)[1:] != (1, 1) or len(grid) <= 1:
        ids = [triton.get_program_id(axis) for axis in range(len(grid))]
        return ids[::-1]
    number = triton.get_program_id(0)
    found: list[ir.Value] = []
    for n in reversed(grid[1:]):
        found.append(arith.remsi(number, ctx.int32(n)))
        number = arith.divsi(number, ctx.int32(n))
    return [number, *reversed(found)]


def beginnings(kernel: GridKernel) -> list[int]:
    """The inputs whose values results start with. Each is passed once more, so that the kernel can still read the
    unchanged input.
    """
    return [kernel.aliases[o] for o in sorted(kernel.aliases)]


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
        ids = _position([n or 0 for n in kernel.grid], ctx)
        n_inputs, read = len(kernel.inputs), _read(kernel)
        pointers = [
            memory.Pointer(
                base, m, _starts(ctx, m, ids), _is_shared(m), i in kernel.written and i in read
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


def _read(kernel: GridKernel) -> set[int]:
    """Positions of the references that the body reads; all those that it passes to inner programs count as read."""
    jaxpr = kernel.body.jaxpr
    places = {v: i for i, v in enumerate(jaxpr.invars[kernel.n_front :])}
    found = set()
    for equation in jaxpr.equations:
        if equation.primitive is not swap_p or equation.results[0] in Scope(jaxpr).first_uses:
            found.update(places[a] for a in equation.operands if type(a) is Var and a in places)
    return found


def _starts(ctx: Lowering, mapping: BlockMapping, ids: Sequence[ir.Value]) -> tuple[Any, ...]:
    """For each dimension of an array the first element of the block that the program at `ids` sees."""
    indices: list[Any] = [None] * len(mapping.dims)
    if None in mapping.known:
        indices = ctx.inline(mapping.program.jaxpr, ids)
    starts: list[Any] = []
    rows = strict_zip(mapping.dims, mapping.known, indices[: len(mapping.dims)], mapping.units)
    for dim, known, x, unit in rows:
        if isinstance(known, int):
            starts.append(known * step_of(dim))
            continue
        if type(known) is Along:
            x, unit = ids[known.axis], step_of(dim)
        starts.append(x if unit == 1 else arith.muli(x, ctx.int32(unit)))
    return tuple(starts)


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
    )
    return list(operation.results)
