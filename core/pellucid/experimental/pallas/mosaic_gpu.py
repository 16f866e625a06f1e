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
from pellucid.kernels.gpu.missing import (
    CopyPartition as CopyPartition,
    PeerMemRef as PeerMemRef,
    RefUnion as RefUnion,
    TMEMLayout as TMEMLayout,
    TryClusterCancelResult as TryClusterCancelResult,
    WarpMesh as WarpMesh,
    as_torch_kernel as as_torch_kernel,
    async_copy_scales_to_tmem as async_copy_scales_to_tmem,
    async_copy_smem_to_tmem as async_copy_smem_to_tmem,
    async_copy_sparse_metadata_to_tmem as async_copy_sparse_metadata_to_tmem,
    async_load_tmem as async_load_tmem,
    async_store_smem as async_store_smem,
    async_store_tmem as async_store_tmem,
    cluster_ref as cluster_ref,
    commit_tmem as commit_tmem,
    dynamic_scheduling_loop as dynamic_scheduling_loop,
    format_tcgen05_sparse_metadata as format_tcgen05_sparse_metadata,
    inline_mgpu as inline_mgpu,
    multicast_ref as multicast_ref,
    multimem_load_reduce as multimem_load_reduce,
    multimem_store as multimem_store,
    query_cluster_cancel as query_cluster_cancel,
    remote_ref as remote_ref,
    semaphore_signal_multicast as semaphore_signal_multicast,
    tcgen05_commit_arrive as tcgen05_commit_arrive,
    tcgen05_mma as tcgen05_mma,
    transform_ref as transform_ref,
    try_cluster_cancel as try_cluster_cancel,
    wait_load_tmem as wait_load_tmem,
    warp_map as warp_map,
)
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
from pellucid.kernels.gpu_kernel import Mesh as Mesh, kernel as kernel
from pellucid.kernels.simulator.params import GpuInterpretParams as InterpretParams

GMEM, SMEM, TMEM, REGS = (
    MemorySpace.GMEM,
    MemorySpace.SMEM,
    MemorySpace.TMEM,
    MemorySpace.REGS,
)
WGMMAAccumulatorRef = ACC

__all__ = [
    "ACC", "Barrier", "BlockSpec", "ClusterBarrier", "CompilerParams", "CopyPartition", "GMEM", "InterpretParams", "Layout", "LoweringSemantics",
    "MemorySpace", "Mesh", "NDLoopInfo", "OOBFillMode", "PeerMemRef", "PipelinePipeline", "REGS", "RefType", "RefUnion", "Replicated", "SMEM",
    "SemaphoreSignal", "SemaphoreType", "ShapeDtypeStruct", "SwizzleTransform", "TMEM", "TMEMLayout", "Tiling", "TilingTransform", "TraceScope",
    "Transform", "TryClusterCancelResult", "WGMMAAccumulatorRef", "WarpMesh", "as_torch_kernel", "async_copy_scales_to_tmem",
    "async_copy_smem_to_tmem", "async_copy_sparse_metadata_to_tmem", "async_load_tmem", "async_prefetch", "async_store_smem", "async_store_tmem",
    "atomic_add", "atomic_and", "atomic_max", "atomic_min", "atomic_or", "atomic_xor", "barrier_arrive", "barrier_test", "barrier_wait",
    "broadcasted_iota", "cluster_ref", "commit_smem", "commit_smem_to_gmem_group", "commit_tmem", "copy_gmem_to_smem", "copy_smem_to_gmem",
    "dynamic_scheduling_loop", "emit_pipeline", "emit_pipeline_warp_specialized", "find_swizzle", "format_tcgen05_sparse_metadata",
    "griddepcontrol_launch_dependents", "griddepcontrol_wait", "inline_mgpu", "kernel", "layout_cast", "load", "multicast_ref",
    "multimem_load_reduce", "multimem_store", "nd_loop", "planar_snake", "print_layout", "query_cluster_cancel", "remote_ref", "semaphore_signal",
    "semaphore_signal_multicast", "semaphore_signal_parallel", "semaphore_wait", "set_max_registers", "tcgen05_commit_arrive", "tcgen05_mma",
    "transform_ref", "transpose_ref", "try_cluster_cancel", "wait_load_tmem", "wait_smem_to_gmem", "warp_map", "wgmma", "wgmma_accumulator_load",
    "wgmma_wait",
]  # fmt: skip
