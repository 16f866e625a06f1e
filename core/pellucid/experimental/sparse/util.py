"""Warnings and facts of sparse arrays, under the names of `jax.experimental.sparse.util`."""

from pellucid.experimental.sparse.base import (
    CuSparseEfficiencyWarning,
    SparseEfficiencyError,
    SparseEfficiencyWarning,
)
from pellucid.experimental.sparse.coordinates import (
    SparseInfo,
)

__all__ = [
    "CuSparseEfficiencyWarning",
    "SparseEfficiencyError",
    "SparseEfficiencyWarning",
    "SparseInfo",
]
