"""The module of a kernel on Hopper GPUs: a function of the host that launches blocks of threads, with the program of a thread within."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import UnsupportedError, strict_zip
from pellucid._machine.xla.mlir import MLIRError, PassManager
from pellucid._machine.xla.mosaic_gpu import (
    MemRefType,
    arith,
    func,
    gpu,
    ir,
    llvm,
    memref,
    new_mosaic_gpu_context,
    nvvm,
    scf,
)
from pellucid.kernels.gpu.memory import Barrier, Memory as MemoryType, MemorySpace
from pellucid.kernels.gpu.transforms import SwizzleTransform
from pellucid.kernels.lowering.launches import (
    beginnings,
    block_starts,
    is_shared_by_blocks,
    launch_grid,
    position,
    read_references,
)
from pellucid.kernels.lowering.programs import identifier
from pellucid.kernels.mappings import BlockMapping
from pellucid.kernels.programs import GridKernel
from pellucid.kernels.specs import Squeezed, padding_of

from . import (
    atomics,
    checks,
    contractions,
    control,
    cumulative,
    memory,
    reductions,
    references,
    rules,
    tma,
    waits,
    wgmma,
)
from .layouts import THREADS, WARP
from .lowering import BlockMemory, Lowering, SwizzleNeeded, element_pointer
from .memory import Memory
from .references import new_reference, writes_shared_memory
from .swizzles import fitting_swizzle

RULES = (atomics, contractions, control, cumulative, memory, reductions, references, rules, tma, waits, wgmma)  # fmt: skip
"""The modules whose rules are used."""
_ARCHITECTURE = {"mosaic_gpu.arch_major": 9, "mosaic_gpu.arch_minor": 0}


class MosaicGpuKernel(NamedTuple):
    """A kernel as a verified module with the function `name`, and how it is launched."""

    name: str
    module: ir.Module
    grid: tuple[int, int, int]
    threads: int
    """Threads of a block."""
    shared_bytes: int
    """Bytes of shared memory of a block."""
    memory: tuple[BlockMemory, ...] = ()
    """What references take of it, and of registers, scratch of the call first; what threads exchange elements in is the last."""

    @property
    def text(self) -> str:
        """The module as MLIR text, without locations."""
        return str(self.module)


def lowered(kernel: GridKernel, line: str | None = None) -> MosaicGpuKernel:
    """A kernel as a module of Mosaic; `line` is the user's that calls it.

    Raises: UnsupportedError for what Hopper GPUs can't do, or what has no rule.
    """
    checks.check(kernel, line)
    chosen: frozenset[Any] = frozenset()
    while True:
        try:
            return _lowered(kernel, line, chosen)
        except SwizzleNeeded as needed:
            chosen |= {needed.origin}


def _lowered(kernel: GridKernel, line: str | None, chosen: frozenset[Any]) -> MosaicGpuKernel:
    """A kernel as a module, in which the arrays in shared memory that are `chosen` are swizzled. Raises: SwizzleNeeded for one more."""
    name = identifier(kernel.name)
    grid = launch_grid([n or 0 for a, n in enumerate(kernel.grid) if a not in within_block(kernel)])
    context = new_mosaic_gpu_context()
    with context, ir.Location.unknown():
        ctx = Lowering(kernel.name, context, (*kernel.inputs, *kernel.results))
        ctx.n_warpgroups, ctx.chosen = warpgroups_of(kernel), chosen
        ctx.line = line
        module = ir.Module.create()
        for key, value in _ARCHITECTURE.items():
            attribute = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), value)
            module.operation.attributes[key] = attribute
        with ir.InsertionPoint(module.body):
            shared_bytes = _function(ctx, kernel, name, grid)
        checks.check_shared_memory(kernel, ctx, line)
        try:
            module.operation.verify()
            PassManager.parse("builtin.module(canonicalize,cse)").run(module.operation)
        except MLIRError as error:
            raise UnsupportedError(
                f"the kernel `{kernel.name}` can't be lowered to Mosaic GPU: its program isn't valid there.",
                got=str(error).splitlines()[:10],
                where=line,
            ) from error
    if ctx.exchanged_bytes:
        ctx.equation = None
        size = shared_bytes - ctx.shared_bytes
        needed = ctx.exchanged_bytes * ctx.n_warpgroups
        ctx.note_memory("shared", "exchange between threads", size, needed)
    return MosaicGpuKernel(
        name, module, grid, THREADS * warpgroups_of(kernel), shared_bytes, tuple(ctx.memory)
    )


def warpgroups_of(kernel: GridKernel) -> int:
    """The number of warpgroups of a block: what users call threads."""
    axis = kernel.thread_axis
    return 1 if axis is None else kernel.grid[axis] or 1


def _function(ctx: Lowering, kernel: GridKernel, name: str, grid: tuple[int, int, int]) -> int:
    """Make the function of the stream and of pointers to the inputs, to what results begin as, and to the results; bytes of shared memory."""
    pointer = ir.Type.parse("!llvm.ptr")
    llvm.GlobalOp(
        ir.Type.parse("!llvm.array<0 x i8>"),
        "global_scratch",
        ir.Attribute.parse("#llvm.linkage<external>"),
        addr_space=4,
    )
    kind = ir.FunctionType.get([pointer, pointer], [])
    function = func.FuncOp(f"{name}_mosaic_gpu", kind)
    function.attributes["llvm.emit_c_interface"] = ir.UnitAttr.get()
    block = function.add_entry_block()
    with ctx.inside(block):
        stream, buffers = block.arguments
        token = ir.Type.parse("!gpu.async.token")
        ready = ir.Operation.create(
            "builtin.unrealized_conversion_cast", results=[token], operands=[stream]
        ).result
        n_inputs, n_begun = len(kernel.inputs), len(beginnings(kernel))
        count = n_inputs + n_begun + len(kernel.results)
        arrays = [llvm.load(pointer, element_pointer(buffers, i, pointer)) for i in range(count)]
        sizes = [_index(n) for n in (*grid, THREADS * ctx.n_warpgroups, 1, 1)]
        bytes_of_block = ctx.int32(0)
        launch = gpu.LaunchOp(
            tuple(sizes[:3]), tuple(sizes[3:]), [ready], dynamic_shared_memory_size=bytes_of_block
        )
        ctx.entry = launch.body.blocks[0]
        with ctx.inside(ctx.entry):
            _program(ctx, kernel, [*arrays[:n_inputs], *arrays[n_inputs + n_begun :]])
            gpu.terminator()
        func.ReturnOp([])
        if ctx.described:
            with ir.InsertionPoint(launch):
                table = tma.describe_all(ctx)
            with ir.InsertionPoint.at_block_begin(ctx.entry):
                passed = ir.Operation.create(
                    "builtin.unrealized_conversion_cast", results=[pointer], operands=[table]
                ).result
            ctx.descriptor_base.replace_all_uses_with(passed)
    if ctx.described:
        with ir.InsertionPoint.at_block_begin(function.operation.block):
            tma.declare()
    # How much shared memory there is, and where threads exchange elements in it, is known only now.
    unit = ctx.exchange_alignment
    start = -(-ctx.shared_bytes // unit) * unit
    own = -(-ctx.exchanged_bytes // unit) * unit if ctx.n_warpgroups > 1 else ctx.exchanged_bytes
    shared_bytes = start + own * ctx.n_warpgroups if ctx.exchanged_bytes else ctx.shared_bytes
    for constant, value in [
        (bytes_of_block, shared_bytes),
        *[(x, start) for x in ctx.exchange_starts],
        *[(x, own) for x in ctx.exchange_sizes],
    ]:
        constant.owner.attributes["value"] = ir.IntegerAttr.get(ctx.element(np.int32), value)
    return shared_bytes


def _index(n: int) -> ir.Value:
    kind = ir.IndexType.get()
    return arith.ConstantOp(kind, ir.IntegerAttr.get(kind, n)).result


def _program(ctx: Lowering, kernel: GridKernel, arrays: list[ir.Value]) -> None:
    """The program of a thread, at the insertion point."""
    int32 = ctx.element(np.int32)
    axes = [gpu.Dimension.x, gpu.Dimension.y, gpu.Dimension.z]
    ctx.thread = arith.index_cast(int32, gpu.thread_id(gpu.Dimension.x))
    if ctx.n_warpgroups > 1:
        ctx.warpgroup = _warpgroup(ctx)
        ctx.thread = arith.remui(ctx.thread, ctx.int32(THREADS))
    ctx.shared = _shared_memory()
    # Stands for the pointer to descriptions of copies, of which it is known only in the end how many there are.
    ctx.descriptor_base = llvm.mlir_undef(ir.Type.parse("!llvm.ptr"))
    ctx.writes_shared_memory = writes_shared_memory(kernel.body.jaxpr)
    number_along = lambda axis: arith.index_cast(int32, gpu.block_id(axes[axis]))
    within = within_block(kernel)
    outer = [n or 0 for a, n in enumerate(kernel.grid) if a not in within]
    blocks = iter(position(ctx, outer, number_along))
    # By axis of the grid where the program is; None along those that its block of threads goes along.
    ids = [None if a in within else next(blocks) for a in range(len(kernel.grid))]
    if ctx.n_warpgroups > 1:
        ids[kernel.thread_axis or -1] = ctx.warpgroup
    consts = [ctx.uniform(x) for x in kernel.consts]
    spaces = kernel.spaces or (None,) * len(kernel.scratch)
    scratch = [
        new_reference(ctx, a, s, origin=("scratch", i))
        for i, (a, s) in enumerate(strict_zip(kernel.scratch, spaces))
    ]
    _programs(ctx, kernel, arrays, consts, ids, scratch, _staged(ctx, kernel))


class Stage(NamedTuple):
    """Blocks of inputs that come to shared memory before each program: by number of the input its reference there, and their barrier."""

    blocks: dict[int, Memory]
    barrier: Any


def _staged(ctx: Lowering, kernel: GridKernel) -> Stage:
    """New shared memory for blocks whose specs state how they lie there; others are read where they are."""
    blocks = {}
    for i, mapping in enumerate(kernel.inputs):
        transforms = tuple(getattr(mapping.spec, "transforms", ()))
        if ("block", i) in ctx.chosen:
            swizzle = fitting_swizzle(mapping.block_aval.shape, mapping.aval.dtype)
            transforms = () if swizzle is None else (SwizzleTransform(swizzle.span),)
        if transforms:
            kind = MemoryType(mapping.block_aval, MemorySpace.SMEM, transforms)
            blocks[i] = new_reference(ctx, mapping.block_aval, kind)
    barrier = new_reference(ctx, None, Barrier(num_arrivals=len(blocks))) if blocks else None
    return Stage(blocks, barrier)


def within_block(kernel: GridKernel) -> list[int]:
    """Axes of the grid whose programs run one after another in a block of threads."""
    return sorted(kernel.within_block or ())


def _programs(
    ctx: Lowering, kernel: GridKernel, arrays: list[ir.Value], consts: list[Any], ids: list[Any], scratch: list[Any],
    stage: Stage,
) -> None:  # fmt: skip
    """Run the body for all positions along axes that have none in `ids`, in a loop for each."""
    rest = [a for a, x in enumerate(ids) if x is None]
    if rest:
        axis = rest[0]
        lower, upper, step = [ctx.int32(n) for n in (0, kernel.grid[axis] or 0, 1)]
        loop: Any = scf.ForOp(lower, upper, step, [])
        with ctx.inside(loop.body):
            now = [loop.induction_variable if a == axis else x for a, x in enumerate(ids)]
            _programs(ctx, kernel, arrays, consts, now, scratch, stage)
            ctx.meet_all()
            scf.yield_([])
        return
    read = read_references(kernel)
    mappings = (*kernel.inputs, *kernel.results)
    references = []
    for i, (base, m) in enumerate(strict_zip(arrays, mappings)):
        is_mixed = i in kernel.written and (i in read or bool(within_block(kernel)))
        ref = _reference(ctx, base, m, block_starts(ctx, m, ids), is_mixed)
        # What is only read, and may come to shared memory, does so if a product needs it there.
        may_come = (
            i < len(kernel.inputs) and i not in kernel.written and m.spec.memory_space is None
        )
        origin = ("block", i) if may_come and ("block", i) not in ctx.chosen else None
        references.append(ref._replace(is_shared=is_shared_by_blocks(kernel, m), origin=origin))
    for i, shared in stage.blocks.items():
        tma.copy_to_shared(ctx, references[i], shared, stage.barrier.pointer(ctx))
        references[i] = shared
    if stage.blocks:
        waits.wait_for(ctx, stage.barrier)
    # A wait that would never end is noted nowhere: on GPUs it never ends.
    failure = [None] if kernel.sites else []
    ctx.inline(kernel.body.jaxpr, [*consts, *ids, *references, *scratch, *failure])
    if stage.blocks:  # products have read them before the next ones come
        nvvm.wgmma_wait_group_sync_aligned(0)


def _warpgroup(ctx: Lowering) -> ir.Value:
    """The number of a thread's warpgroup, as the first of its warp has it: the assembler then knows that a warp goes one way."""
    number = arith.divui(ctx.thread, ctx.int32(THREADS))
    every, last = ctx.int32(-1), ctx.int32(WARP - 1)
    kind = ctx.element(np.int32)
    return nvvm.shfl_sync(every, number, ctx.int32(0), last, nvvm.ShflKind.idx, results=[kind])


def _shared_memory() -> ir.Value:
    """A pointer to the shared memory of a block."""
    kind = MemRefType.parse("memref<?xi8, #gpu.address_space<workgroup>>")
    address = memref.extract_aligned_pointer_as_index(gpu.dynamic_shared_memory(kind))
    number = arith.index_cast(ir.IntegerType.get_signless(64), address)
    return llvm.inttoptr(ir.Type.parse("!llvm.ptr<3>"), number)


def _reference(
    ctx: Lowering, base: ir.Value, mapping: BlockMapping, starts: Any, is_mixed: bool
) -> Memory:
    """The reference to the block of an array at `starts`."""
    limits: list[tuple[int, int] | None] = []
    for dim, n, padding in zip(mapping.dims, mapping.aval.shape, mapping.padding(), strict=True):
        before = padding_of(dim)[0]
        limits.append(None if padding == (0, 0) else (before, n + before))
    kept = [i for i, dim in enumerate(mapping.dims) if type(dim) is not Squeezed]
    return Memory(
        base,
        mapping.aval.shape,
        tuple(kept),
        tuple(starts),
        mapping.sizes,
        tuple(limits),
        np.dtype(mapping.aval.dtype),
        is_mixed=is_mixed,
        mapping=mapping,
    )
