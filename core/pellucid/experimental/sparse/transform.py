"""Functions of dense arrays applied to sparse ones, under the names of `jax.experimental.sparse.transform`."""

from pellucid.experimental.sparse.trace import (
    SparseTracer,
    sparsify,
)

__all__ = [
    "SparseTracer",
    "sparsify",
]
