"""Names of kernels for TPUs that have a meaning on every device, as in `jax.experimental.pallas.tpu`."""

from pellucid._machine.base.errors import UnsupportedError as LoweringException
from pellucid.kernels.chips import (
    ChipVersion as ChipVersion,
    CoreType as CoreType,
    Tiling as Tiling,
    TpuInfo as TpuInfo,
    get_tpu_info as get_tpu_info,
    get_tpu_info_for_chip as get_tpu_info_for_chip,
    is_tpu_device as is_tpu_device,
)
from pellucid.kernels.copies import (
    async_copy as async_copy,
    async_remote_copy as async_remote_copy,
    make_async_copy as make_async_copy,
    make_async_remote_copy as make_async_remote_copy,
    sync_copy as sync_copy,
)
from pellucid.kernels.cores import (
    core_barrier as core_barrier,
    run_on_first_core as run_on_first_core,
)
from pellucid.kernels.einshape import einshape as einshape
from pellucid.kernels.inside import store as store
from pellucid.kernels.meshes import create_tensorcore_mesh as create_tensorcore_mesh
from pellucid.kernels.packing import (
    pack_elementwise as pack_elementwise,
    stochastic_round as stochastic_round,
    unpack_elementwise as unpack_elementwise,
)
from pellucid.kernels.pipeline import emit_pipeline as emit_pipeline
from pellucid.kernels.semaphores import (
    get_barrier_semaphore as get_barrier_semaphore,
    semaphore_read as semaphore_read,
    semaphore_signal as semaphore_signal,
    semaphore_wait as semaphore_wait,
)
from pellucid.kernels.simulator.params import (
    InterpretParams as InterpretParams,
    force_tpu_interpret_mode as force_tpu_interpret_mode,
    reset_tpu_interpret_mode_state as reset_tpu_interpret_mode_state,
    set_tpu_interpret_mode as set_tpu_interpret_mode,
)
from pellucid.kernels.specs import (
    HOST as HOST,
    DeviceIdType as DeviceIdType,
    PrefetchScalarGridSpec as PrefetchScalarGridSpec,
    SemaphoreType as SemaphoreType,
)
from pellucid.kernels.tpu import (
    CompilerParams as CompilerParams,
    GridDimensionSemantics as GridDimensionSemantics,
    MemorySpace as MemorySpace,
    SideEffectType as SideEffectType,
    bitcast as bitcast,
    load as load,
    roll as roll,
    touch as touch,
    with_memory_space_constraint as with_memory_space_constraint,
)
from pellucid.kernels.tpu_random import (
    prng_random_bits as prng_random_bits,
    prng_seed as prng_seed,
    sample_block as sample_block,
    stateful_bernoulli as stateful_bernoulli,
    stateful_bits as stateful_bits,
    stateful_normal as stateful_normal,
    stateful_uniform as stateful_uniform,
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
    "ChipVersion", "CoreType", "LoweringException", "Tiling", "TpuInfo", "core_barrier", "einshape", "get_tpu_info", "get_tpu_info_for_chip",
    "is_tpu_device", "pack_elementwise", "run_on_first_core", "sample_block", "stateful_bernoulli", "stateful_bits", "stateful_normal",
    "stateful_uniform", "stochastic_round", "touch", "unpack_elementwise", "with_memory_space_constraint",
    "ARBITRARY", "CMEM", "CORE_PARALLEL", "HBM", "HOST", "PARALLEL", "SMEM", "SUBCORE_PARALLEL", "VMEM", "VMEM_SHARED",
    "CompilerParams", "DeviceIdType", "GridDimensionSemantics", "MemorySpace", "PrefetchScalarGridSpec", "SemaphoreType", "SideEffectType", "async_copy",
    "async_remote_copy", "bitcast", "create_tensorcore_mesh", "emit_pipeline", "force_tpu_interpret_mode", "get_barrier_semaphore", "InterpretParams", "reset_tpu_interpret_mode_state", "set_tpu_interpret_mode", "make_async_remote_copy",
    "load", "make_async_copy", "prng_random_bits", "prng_seed", "roll", "semaphore_read", "semaphore_signal", "semaphore_wait", "store", "sync_copy",
]  # fmt: skip
