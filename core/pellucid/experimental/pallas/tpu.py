"""Names of kernels for TPUs that have a meaning on every device, as in `jax.experimental.pallas.tpu`."""

from pellucid.kernels.inside import store as store
from pellucid.kernels.specs import (
    HOST as HOST,
    CompilerParams as CompilerParams,
    DeviceIdType as DeviceIdType,
    PrefetchScalarGridSpec as PrefetchScalarGridSpec,
)
from pellucid.kernels.tpu import (
    GridDimensionSemantics as GridDimensionSemantics,
    MemorySpace as MemorySpace,
    load as load,
    roll as roll,
    sync_copy as sync_copy,
)

VMEM, VMEM_SHARED, SMEM, CMEM, HBM = (
    MemorySpace.VMEM,
    MemorySpace.VMEM_SHARED,
    MemorySpace.SMEM,
    MemorySpace.CMEM,
    MemorySpace.HBM,
)
PARALLEL, ARBITRARY = GridDimensionSemantics.PARALLEL, GridDimensionSemantics.ARBITRARY
CORE_PARALLEL = GridDimensionSemantics.CORE_PARALLEL
SUBCORE_PARALLEL = GridDimensionSemantics.SUBCORE_PARALLEL

__all__ = [
    "ARBITRARY", "CMEM", "CORE_PARALLEL", "HBM", "HOST", "PARALLEL", "SMEM", "SUBCORE_PARALLEL", "VMEM", "VMEM_SHARED",
    "CompilerParams", "DeviceIdType", "GridDimensionSemantics", "MemorySpace", "PrefetchScalarGridSpec", "load", "roll",
    "store", "sync_copy",
]  # fmt: skip
