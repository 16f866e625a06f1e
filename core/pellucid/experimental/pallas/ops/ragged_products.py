"""`lax.ragged_dot` on CPUs, by the kernels of grouped products: without a copy of the rows for each group."""

from __future__ import annotations

import importlib
from typing import Any

_ROWS = 64
"""Rows of a block: in measurements with 8 to 32 groups as quick as other sizes, or quicker."""


def product(lhs: Any, rhs: Any, group_sizes: Any, dtype: Any, *, is_transposed: bool) -> Any:
    """Rows [m, k] times the matrices [groups, k, n] of their groups; if `is_transposed`, for each group its rows [m, k], transposed, times its rows [m, n].

    >>> product(np.ones((3, 2)), np.ones((2, 2, 1)), np.array([1, 1]), np.dtype(np.float32), is_transposed=False)[:, 0]
    Array([2., 2., 0.], dtype=float32)
    """
    kernels = importlib.import_module("pellucid.experimental.pallas.ops.tpu.megablox.gmm")
    (k, n), rows = (lhs.shape[1], rhs.shape[-1]), min(_ROWS, max(lhs.shape[0], 1))
    tiling = (rows, max(k, 1), max(n, 1))
    if is_transposed:
        return kernels.tgmm(lhs.T, rhs, group_sizes, dtype, tiling)
    return kernels.gmm(lhs, rhs, group_sizes, dtype, tiling)
