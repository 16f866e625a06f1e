"""Names of kernels for Hopper GPUs, as in `jax.experimental.pallas.mosaic_gpu`. Those that pellucid has no meaning for refuse use."""

from pellucid.kernels.gpu.atomics import (
    atomic_add as atomic_add,
    atomic_and as atomic_and,
    atomic_max as atomic_max,
    atomic_min as atomic_min,
    atomic_or as atomic_or,
    atomic_xor as atomic_xor,
)
from pellucid.kernels.gpu.barriers import (
    barrier_arrive as barrier_arrive,
    barrier_test as barrier_test,
    barrier_wait as barrier_wait,
)
from pellucid.kernels.gpu.blocks import BlockSpec as BlockSpec
from pellucid.kernels.gpu.copies import (
    OOBFillMode as OOBFillMode,
    async_prefetch as async_prefetch,
    copy_gmem_to_smem as copy_gmem_to_smem,
    copy_smem_to_gmem as copy_smem_to_gmem,
)
from pellucid.kernels.gpu.fences import (
    commit_smem as commit_smem,
    commit_smem_to_gmem_group as commit_smem_to_gmem_group,
    griddepcontrol_launch_dependents as griddepcontrol_launch_dependents,
    griddepcontrol_wait as griddepcontrol_wait,
    set_max_registers as set_max_registers,
    wait_smem_to_gmem as wait_smem_to_gmem,
    wgmma_wait as wgmma_wait,
)
from pellucid.kernels.gpu.kernel import Mesh as Mesh, kernel as kernel
from pellucid.kernels.gpu.layouts import (
    Layout as Layout,
    Replicated as Replicated,
    ShapeDtypeStruct as ShapeDtypeStruct,
    Tiling as Tiling,
    broadcasted_iota as broadcasted_iota,
    layout_cast as layout_cast,
    load as load,
    print_layout as print_layout,
)
from pellucid.kernels.gpu.loops import (
    NDLoopInfo as NDLoopInfo,
    nd_loop as nd_loop,
    planar_snake as planar_snake,
)
from pellucid.kernels.gpu.memory import (
    ACC as ACC,
    Barrier as Barrier,
    ClusterBarrier as ClusterBarrier,
    MemorySpace as MemorySpace,
    RefType as RefType,
    SemaphoreType as SemaphoreType,
)
from pellucid.kernels.gpu.missing import BLACKWELL, CLUSTERS, DEVICES, OTHERS
from pellucid.kernels.gpu.params import (
    CompilerParams as CompilerParams,
    LoweringSemantics as LoweringSemantics,
    TraceScope as TraceScope,
)
from pellucid.kernels.gpu.pipeline import emit_pipeline as emit_pipeline
from pellucid.kernels.gpu.products import (
    wgmma as wgmma,
    wgmma_accumulator_load as wgmma_accumulator_load,
)
from pellucid.kernels.gpu.semaphores import (
    SemaphoreSignal as SemaphoreSignal,
    semaphore_signal as semaphore_signal,
    semaphore_signal_parallel as semaphore_signal_parallel,
    semaphore_wait as semaphore_wait,
)
from pellucid.kernels.gpu.specialized import (
    PipelinePipeline as PipelinePipeline,
    emit_pipeline_warp_specialized as emit_pipeline_warp_specialized,
)
from pellucid.kernels.gpu.transforms import (
    SwizzleTransform as SwizzleTransform,
    TilingTransform as TilingTransform,
    Transform as Transform,
    find_swizzle as find_swizzle,
    transpose_ref as transpose_ref,
)

from pellucid.kernels.simulator.params import GpuInterpretParams as InterpretParams

GMEM, SMEM, TMEM, REGS = (
    MemorySpace.GMEM,
    MemorySpace.SMEM,
    MemorySpace.TMEM,
    MemorySpace.REGS,
)
WGMMAAccumulatorRef = ACC
_REFUSED = {**BLACKWELL, **CLUSTERS, **DEVICES, **OTHERS}
globals().update(_REFUSED)

__all__ = [
    "ACC", "Barrier", "BlockSpec", "ClusterBarrier", "CompilerParams", "GMEM", "InterpretParams", "Layout", "LoweringSemantics", "MemorySpace", "Mesh",
    "NDLoopInfo", "OOBFillMode", "REGS", "RefType", "Replicated", "SMEM", "SemaphoreSignal", "SemaphoreType", "ShapeDtypeStruct",
    "SwizzleTransform", "TMEM", "Tiling", "TilingTransform", "TraceScope", "Transform", "WGMMAAccumulatorRef", "async_prefetch",
    "atomic_add", "atomic_and", "atomic_max", "atomic_min", "atomic_or", "atomic_xor", "barrier_arrive", "barrier_test", "barrier_wait",
    "broadcasted_iota", "commit_smem", "commit_smem_to_gmem_group", "copy_gmem_to_smem", "copy_smem_to_gmem", "emit_pipeline",
    "PipelinePipeline", "emit_pipeline_warp_specialized", "find_swizzle", "griddepcontrol_launch_dependents", "griddepcontrol_wait", "kernel", "layout_cast", "load", "nd_loop", "planar_snake",
    "print_layout", "semaphore_signal", "semaphore_signal_parallel", "semaphore_wait", "set_max_registers", "transpose_ref",
    "wait_smem_to_gmem", "wgmma", "wgmma_accumulator_load", "wgmma_wait", *_REFUSED,
]  # fmt: skip
