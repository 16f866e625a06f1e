"""Names of kernels for GPUs that pellucid has no meaning for, each with what to do instead: importable, but using them raises."""

from __future__ import annotations

from pellucid.kernels.missing import refusing

_MODULE = "pellucid.experimental.pallas.mosaic_gpu"
_BLACKWELL = "It is of Blackwell GPUs: write the kernel for Hopper, with `wgmma` and operands in SMEM."
_CLUSTER = "Blocks of a cluster can't reach each other: let each copy what it needs from GMEM."
_DEVICES = "Kernels on GPUs can't reach other devices: use collectives of `lax` around them."

BLACKWELL = {
    name: refusing(_MODULE, name, _BLACKWELL)
    for name in (
        "TMEMLayout", "async_copy_scales_to_tmem", "async_copy_smem_to_tmem", "async_copy_sparse_metadata_to_tmem", "async_load_tmem",
        "async_store_tmem", "commit_tmem", "format_tcgen05_sparse_metadata", "tcgen05_commit_arrive", "tcgen05_mma", "wait_load_tmem",
        "TryClusterCancelResult", "dynamic_scheduling_loop", "query_cluster_cancel", "try_cluster_cancel",
    )
}  # fmt: skip
CLUSTERS = {
    name: refusing(_MODULE, name, _CLUSTER)
    for name in ("CopyPartition", "async_store_smem", "cluster_ref")
}
DEVICES = {
    name: refusing(_MODULE, name, _DEVICES)
    for name in (
        "PeerMemRef", "multicast_ref", "multimem_load_reduce", "multimem_store", "remote_ref", "semaphore_signal_multicast",
    )
}  # fmt: skip
OTHERS = {
    "RefUnion": refusing(_MODULE, "RefUnion", "Make scratch for each reference, or one within `run_scoped` where the other has ended."),
    "as_torch_kernel": refusing(_MODULE, "as_torch_kernel", "Pass arrays by DLPack: `pellucid.dlpack`."),
    "inline_mgpu": refusing(_MODULE, "inline_mgpu", "It takes code of the reference's compiler: write the computation with the functions of `numpy`."),
    "WarpMesh": refusing(_MODULE, "WarpMesh", "A thread is a whole warpgroup: its operations need no choice of a warp."),
    "warp_map": refusing(_MODULE, "warp_map", "A thread is a whole warpgroup: its operations need no choice of a warp."),
    "transform_ref": refusing(_MODULE, "transform_ref", "State how a reference lies where it is made: `SMEM(shape, dtype, transforms=…)`."),
}  # fmt: skip
