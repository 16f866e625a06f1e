"""Names of kernels for GPUs that pellucid has no meaning for, each with what to do instead: importable, but using them raises."""

from __future__ import annotations

from pellucid.kernels.missing import refusing

_MODULE = "pellucid.experimental.pallas.mosaic_gpu"
_BLACKWELL = (
    "It is of Blackwell GPUs: write the kernel for Hopper, with `wgmma` and operands in SMEM."
)
_CLUSTER = "Blocks of a cluster can't reach each other: let each copy what it needs from GMEM."
_DEVICES = "Kernels on GPUs can't reach other devices: use collectives of `lax` around them."
_WARPS = "A thread is a whole warpgroup: its operations need no choice of a warp."

TMEMLayout = refusing(_MODULE, "TMEMLayout", _BLACKWELL)
TryClusterCancelResult = refusing(_MODULE, "TryClusterCancelResult", _BLACKWELL)
async_copy_scales_to_tmem = refusing(_MODULE, "async_copy_scales_to_tmem", _BLACKWELL)
async_copy_smem_to_tmem = refusing(_MODULE, "async_copy_smem_to_tmem", _BLACKWELL)
async_copy_sparse_metadata_to_tmem = refusing(
    _MODULE, "async_copy_sparse_metadata_to_tmem", _BLACKWELL
)
async_load_tmem = refusing(_MODULE, "async_load_tmem", _BLACKWELL)
async_store_tmem = refusing(_MODULE, "async_store_tmem", _BLACKWELL)
commit_tmem = refusing(_MODULE, "commit_tmem", _BLACKWELL)
dynamic_scheduling_loop = refusing(_MODULE, "dynamic_scheduling_loop", _BLACKWELL)
format_tcgen05_sparse_metadata = refusing(_MODULE, "format_tcgen05_sparse_metadata", _BLACKWELL)
query_cluster_cancel = refusing(_MODULE, "query_cluster_cancel", _BLACKWELL)
tcgen05_commit_arrive = refusing(_MODULE, "tcgen05_commit_arrive", _BLACKWELL)
tcgen05_mma = refusing(_MODULE, "tcgen05_mma", _BLACKWELL)
try_cluster_cancel = refusing(_MODULE, "try_cluster_cancel", _BLACKWELL)
wait_load_tmem = refusing(_MODULE, "wait_load_tmem", _BLACKWELL)

CopyPartition = refusing(_MODULE, "CopyPartition", _CLUSTER)
async_store_smem = refusing(_MODULE, "async_store_smem", _CLUSTER)
cluster_ref = refusing(_MODULE, "cluster_ref", _CLUSTER)

PeerMemRef = refusing(_MODULE, "PeerMemRef", _DEVICES)
multicast_ref = refusing(_MODULE, "multicast_ref", _DEVICES)
multimem_load_reduce = refusing(_MODULE, "multimem_load_reduce", _DEVICES)
multimem_store = refusing(_MODULE, "multimem_store", _DEVICES)
remote_ref = refusing(_MODULE, "remote_ref", _DEVICES)
semaphore_signal_multicast = refusing(_MODULE, "semaphore_signal_multicast", _DEVICES)

WarpMesh = refusing(_MODULE, "WarpMesh", _WARPS)
warp_map = refusing(_MODULE, "warp_map", _WARPS)

RefUnion = refusing(
    _MODULE, "RefUnion",
    "Make scratch for each reference, or one within `run_scoped` where the other has ended.",
)  # fmt: skip
as_torch_kernel = refusing(
    _MODULE, "as_torch_kernel",
    "Pass arrays by DLPack: `dlpack`.",
)  # fmt: skip
inline_mgpu = refusing(
    _MODULE, "inline_mgpu",
    "It takes code of the reference's compiler: write the computation with the functions of `numpy`.",
)  # fmt: skip
transform_ref = refusing(
    _MODULE, "transform_ref",
    "State how a reference lies where it is made: `SMEM(shape, dtype, transforms=…)`.",
)  # fmt: skip
