"""Hand-written kernels over blocks of arrays, under the names of `jax.experimental.pallas`."""

from pellucid._machine.base.config import pallas_enable_debug_checks as enable_debug_checks
from pellucid._machine.primitives.dslice import Slice as Slice, ds as ds
from pellucid.experimental.pallas import mosaic_gpu as mosaic_gpu, tpu as tpu, triton as triton
from pellucid.experimental.pallas.estimates import estimate_cost as estimate_cost
from pellucid.experimental.pallas.lowered import (
    lower_as_mlir as lower_as_mlir,
    pallas_export_experimental as pallas_export_experimental,
)
from pellucid.experimental.pallas.tuning import (
    Candidate as Candidate,
    Tuning as Tuning,
    tune as tune,
)
from pellucid.kernels.copies import select_ref as select_ref
from pellucid.kernels.grid import num_programs as num_programs, program_id as program_id
from pellucid.kernels.inside import (
    align_to as align_to,
    cdiv as cdiv,
    debug_check as debug_check,
    debug_checks_enabled as debug_checks_enabled,
    debug_print as debug_print,
    delay as delay,
    dot as dot,
    empty as empty,
    empty_like as empty_like,
    empty_ref_like as empty_ref_like,
    enable_poison_buffers as enable_poison_buffers,
    get_global as get_global,
    loop as loop,
    multiple_of as multiple_of,
    next_power_of_2 as next_power_of_2,
    reciprocal as reciprocal,
    run_scoped as run_scoped,
    run_state as run_state,
    strides_from_shape as strides_from_shape,
    when as when,
    with_scoped as with_scoped,
)
from pellucid.kernels.kernel_call import pallas_call as pallas_call, pallas_call_p as pallas_call_p
from pellucid.kernels.meshes import core_map as core_map, kernel as kernel
from pellucid.kernels.missing import refusing
from pellucid.kernels.semaphores import (
    semaphore_read as semaphore_read,
    semaphore_signal as semaphore_signal,
    semaphore_wait as semaphore_wait,
)
from pellucid.kernels.specs import (
    ANY as ANY,
    HOST as HOST,
    BlockDim as BlockDim,
    Blocked as Blocked,
    BlockSpec as BlockSpec,
    BoundedSlice as BoundedSlice,
    Buffered as Buffered,
    CompilerParams as CompilerParams,
    CostEstimate as CostEstimate,
    DeviceIdType as DeviceIdType,
    Element as Element,
    GridSpec as GridSpec,
    Indirect as Indirect,
    MemoryRef as MemoryRef,
    MemorySpace as MemorySpace,
    RevisitMode as RevisitMode,
    Squeezed as Squeezed,
    no_block_spec as no_block_spec,
    squeezed as squeezed,
)
from pellucid.numpy import broadcast_to as broadcast_to

dslice = ds
semaphore = refusing(__name__, "semaphore")

__all__ = [
    "ANY", "HOST", "BlockDim", "BlockSpec", "Blocked", "BoundedSlice", "Buffered", "Candidate", "CompilerParams", "CostEstimate",
    "DeviceIdType", "Element", "GridSpec", "Indirect", "MemoryRef", "MemorySpace", "RevisitMode", "Slice", "Squeezed", "Tuning",
    "align_to", "broadcast_to", "cdiv", "core_map", "debug_check", "debug_checks_enabled", "debug_print", "delay", "dot", "ds", "dslice",
    "empty", "empty_like", "empty_ref_like", "enable_debug_checks", "enable_poison_buffers", "estimate_cost",
    "get_global", "kernel", "loop", "lower_as_mlir", "mosaic_gpu", "multiple_of", "next_power_of_2",
    "no_block_spec", "num_programs", "pallas_call", "pallas_call_p", "pallas_export_experimental", "program_id", "reciprocal", "run_scoped",
    "run_state", "select_ref", "semaphore", "semaphore_read", "semaphore_signal", "semaphore_wait", "squeezed", "strides_from_shape", "tpu", "triton", "tune", "when", "with_scoped",
]  # fmt: skip
