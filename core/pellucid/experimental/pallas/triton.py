"""Names of kernels for GPUs that have a meaning on every device, as in `jax.experimental.pallas.triton`."""

from pellucid.kernels.atomics import (
    atomic_add as atomic_add,
    atomic_and as atomic_and,
    atomic_cas as atomic_cas,
    atomic_max as atomic_max,
    atomic_min as atomic_min,
    atomic_or as atomic_or,
    atomic_xchg as atomic_xchg,
    atomic_xor as atomic_xor,
)
from pellucid.kernels.inside import dot as dot
from pellucid.kernels.triton.assembly import elementwise_inline_asm as elementwise_inline_asm
from pellucid.kernels.triton.language import (
    CompilerParams as CompilerParams,
    approx_tanh as approx_tanh,
    debug_barrier as debug_barrier,
    load as load,
    max_contiguous as max_contiguous,
    store as store,
)

__all__ = [
    "CompilerParams", "approx_tanh", "atomic_add", "atomic_and", "atomic_cas", "atomic_max", "atomic_min", "atomic_or",
    "atomic_xchg", "atomic_xor", "debug_barrier", "dot", "elementwise_inline_asm", "load", "max_contiguous", "store",
]  # fmt: skip
