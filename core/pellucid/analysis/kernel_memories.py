"""Records of what kernels hold in the fast memories of TPUs, and of blocks of threads on GPUs, by buffer and line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pellucid._machine.base import UnsupportedError, by_tool, describe, source
from pellucid._machine.base.errors import CompilationError
from pellucid._machine.higher_order.stages import make_jaxpr
from pellucid._machine.ir import Equation
from pellucid._machine.tracing import name_of
from pellucid.introspect import schema
from pellucid.introspect.bodies import programs_within
from pellucid.introspect.kernel_steps import block_names, is_kernel
from pellucid.introspect.mosaic_gpu_text import mosaic_gpu_text
from pellucid.introspect.spans import source_record
from pellucid.kernels.gpu import params as mosaic_gpu
from pellucid.kernels.mosaic_gpu.checks import MAX_SHARED_BYTES
from pellucid.kernels.mosaic_gpu.lowering import BlockMemory
from pellucid.kernels.mosaic_gpu.module import lowered as lowered_to_gpu
from pellucid.kernels.mosaic_tpu.checks import parts_of
from pellucid.kernels.mosaic_tpu.memory import MemoryPart
from pellucid.kernels.mosaic_tpu.module import lowered
from pellucid.kernels.programs import GridKernel
from pellucid.kernels.targets import TPU_CHIPS, tpu_chip

from .comparisons import resources_text

MAX_KERNELS = 32
_REGISTER_BYTES = 256 << 10
"""Registers of a multiprocessor of an H100."""


@by_tool
def kernel_memories(
    function: Callable[..., Any], *args: Any, chip: str = "v5e"
) -> schema.KernelMemoriesRecord:
    """The kernels that `function` calls for these arguments, with what they hold in the fast memories of TPUs, or of an H100 if they are for Hopper GPUs.

    Nothing runs, and no compiler of TPUs is needed: sizes are those of blocks in whole tiles, times their buffers, and of scratch. The
    compiler adds what it needs for values in between. Of kernels for GPUs these are shared memory, barriers in it, and accumulators in registers; where the
    extra `gpu-aot` is installed, they are compiled, and registers and spills said. Arguments may be ShapeDtypeStructs. Raises: ArgumentValueError for an unknown chip.

    >>> from pellucid.experimental.pallas import BlockSpec, pallas_call
    >>> def double(x_ref, o_ref):
    ...     o_ref[...] = x_ref[...] * 2
    >>> x, row = np.zeros((32, 100), np.float32), BlockSpec((8, 100), lambda i: (i, 0))
    >>> [kernel] = kernel_memories(pallas_call(double, x, grid=4, in_specs=[row], out_specs=row), x).kernels
    >>> [(part.name, part.buffer_count, part.bytes, part.needed_bytes) for part in kernel.parts]
    [('x_ref', 2, 8192, 6400), ('o_ref', 2, 8192, 6400)]
    """
    tpu_chip(chip)
    calls = [
        e
        for program in programs_within(make_jaxpr(function)(*args).jaxpr)
        for e in program.equations
        if is_kernel(e)
    ]
    return schema.KernelMemoriesRecord(
        name=name_of(function),
        kernels=[_kernel(e) for e in calls[:MAX_KERNELS]],
        chips=[
            schema.ChipRecord(name=c.name, vmem_bytes=c.vmem, smem_bytes=c.smem)
            for c in TPU_CHIPS.values()
        ],
        chip=chip,
        hidden_count=max(0, len(calls) - MAX_KERNELS),
    )


def _kernel(call: Equation) -> schema.KernelMemoryRecord:
    params: Any = call.params
    kernel: GridKernel = params.kernel
    if isinstance(kernel.compiler_params, mosaic_gpu.CompilerParams):
        return _gpu_kernel(call)
    refusal, parts = "", []
    try:
        parts = parts_of(kernel)
        parts = lowered(kernel, line=describe(call.source)).memory
    except UnsupportedError as error:
        refusal = str(error)
    if not params.is_own:
        refusal = "a derivative or batch of a kernel, which runs as an ordinary program"
    stated = getattr(kernel.compiler_params, "vmem_limit_bytes", None)
    frame = source.user_frame(call.source)
    return schema.KernelMemoryRecord(
        name=kernel.name,
        gpu=None,
        # Scratch and scalars are stated by the call.
        parts=_parts(kernel, [p._replace(source=p.source or call.source) for p in parts]),
        limit_bytes=None if stated is None else int(stated),
        refusal=refusal,
        source=None if frame is None else source_record(frame.file, (frame.line, frame.end_line)),
        line=0 if frame is None else frame.line,
    )


def _gpu_kernel(call: Equation) -> schema.KernelMemoryRecord:
    params: Any = call.params
    kernel: GridKernel = params.kernel
    refusal, compiled = "", ""
    parts: list[schema.KernelMemoryPartRecord] = []
    try:
        made = lowered_to_gpu(kernel, describe(call.source))
        parts = _gpu_parts(kernel, made.memory, call)
        compiled = _compiled_text(kernel, describe(call.source))
    except UnsupportedError as error:
        refusal = str(error)
    if not params.is_own:
        refusal = "a derivative or batch of a kernel, which runs as an ordinary program"
    frame = source.user_frame(call.source)
    return schema.KernelMemoryRecord(
        name=kernel.name,
        gpu=schema.GpuMemoryRecord(
            name="H100",
            shared_bytes=MAX_SHARED_BYTES,
            register_bytes=_REGISTER_BYTES,
            compiled=compiled,
        ),
        parts=parts,
        limit_bytes=None,
        refusal=refusal,
        source=None if frame is None else source_record(frame.file, (frame.line, frame.end_line)),
        line=0 if frame is None else frame.line,
    )


def _compiled_text(kernel: GridKernel, line: str | None) -> str:
    """What a kernel needs of an H100 as compiled, or why that isn't known."""
    try:
        return resources_text(mosaic_gpu_text(kernel, line).resources())
    except (UnsupportedError, CompilationError) as error:
        return " ".join(str(error).split())


def _gpu_parts(
    kernel: GridKernel, memory: Sequence[BlockMemory], call: Equation
) -> list[schema.KernelMemoryPartRecord]:
    """Records of what references take: scratch of the call by its names, in order; what lies in registers of threads is none of it."""
    n = len(kernel.scratch)
    names = _scratch_names(kernel)
    found: list[schema.KernelMemoryPartRecord] = []
    for number, part in enumerate(memory):
        is_exchange = part.kind.startswith("exchange")
        is_of_call = part.source is None and number < n
        name = names[number] if is_of_call else ""
        captured = part.source or call.source
        frame = source.user_frame(captured)
        found.append(
            schema.KernelMemoryPartRecord(
                name="exchange between threads"
                if is_exchange
                else name or ("a block" if part.source is None else "made in the kernel"),
                role="exchange" if is_exchange else "scratch",
                type="bytes" if is_exchange else part.kind,
                space="shared" if part.space == "shared" else "registers",
                buffer_count=1,
                bytes=part.n_bytes,
                needed_bytes=part.needed_bytes,
                source=None
                if frame is None
                else source_record(frame.file, (frame.line, frame.end_line)),
                line=0 if frame is None else frame.line,
                text="" if frame is None else describe(captured) or "",
            )
        )
    return found


def _scratch_names(kernel: GridKernel) -> list[str]:
    """The names of references to scratch."""
    return kernel.reference_names[kernel.n_references - len(kernel.scratch) :]


def _parts(kernel: GridKernel, parts: list[MemoryPart]) -> list[schema.KernelMemoryPartRecord]:
    """Records of parts; references that the body makes at one line, of one type, are buffers of one."""
    names = dict(
        zip([m.name for m in (*kernel.inputs, *kernel.results)], block_names(kernel), strict=True)
    )
    names |= {f"scratch {i}": name for i, name in enumerate(_scratch_names(kernel)) if name}
    joined: dict[Any, MemoryPart] = {}
    for number, part in enumerate(parts):
        is_made = part.name.startswith("a reference")
        key = (part.name, part.space, source.user_frame(part.source)) if is_made else number
        before = joined.get(key)
        joined[key] = part if before is None else before._replace(
            n_bytes=before.n_bytes + part.n_bytes,
            needed_bytes=before.needed_bytes + part.needed_bytes,
            n_buffers=before.n_buffers + part.n_buffers,
        )  # fmt: skip
    return [_part(part, names) for part in joined.values()]


def _part(part: MemoryPart, names: dict[str, str]) -> schema.KernelMemoryPartRecord:
    frame = source.user_frame(part.source)
    is_made = part.name.startswith("a reference")
    role: Any = "scratch" if is_made or part.name.startswith("scratch") else "block"
    return schema.KernelMemoryPartRecord(
        name="made in the kernel" if is_made else names.get(part.name, part.name),
        role="scalars" if part.name.startswith("scalars") else role,
        type=part.type,
        space="vmem" if part.space == "vmem" else "smem",
        buffer_count=part.n_buffers,
        bytes=part.n_bytes,
        needed_bytes=part.needed_bytes,
        source=None if frame is None else source_record(frame.file, (frame.line, frame.end_line)),
        line=0 if frame is None else frame.line,
        text="" if frame is None else describe(part.source) or "",
    )
