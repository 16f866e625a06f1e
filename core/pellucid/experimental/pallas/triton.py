"""Names of kernels for GPUs that have a meaning on every device, as in `jax.experimental.pallas.triton`."""

from pellucid.kernels.inside import dot as dot
from pellucid.kernels.specs import CompilerParams as CompilerParams
from pellucid.kernels.triton import (
    approx_tanh as approx_tanh,
    atomic_add as atomic_add,
    atomic_cas as atomic_cas,
    atomic_max as atomic_max,
    atomic_min as atomic_min,
    atomic_xchg as atomic_xchg,
    debug_barrier as debug_barrier,
    load as load,
    max_contiguous as max_contiguous,
    store as store,
)

__all__ = [
    "CompilerParams", "approx_tanh", "atomic_add", "atomic_cas", "atomic_max", "atomic_min", "atomic_xchg", "debug_barrier", "dot", "load", "max_contiguous", "store",
]  # fmt: skip
