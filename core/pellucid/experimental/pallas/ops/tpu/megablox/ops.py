"""`gmm` with a derivative that is made of grouped products."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np

import pellucid.numpy as jnp
from pellucid._machine.base import dtypes
from pellucid._machine.higher_order.custom_vjp import custom_vjp
from pellucid._machine.higher_order.jitted import jit
from pellucid.experimental.pallas.ops.sizes import vary_alike

# The package shows the function of this name in the place of the module.
_kernels = importlib.import_module("pellucid.experimental.pallas.ops.tpu.megablox.gmm")


@functools.partial(
    jit, static_argnames=("preferred_element_type", "tiling", "transpose_rhs", "interpret")
)
def gmm(
    lhs: Any,
    rhs: Any,
    group_sizes: Any,
    preferred_element_type: Any = np.float32,
    tiling: Any = (128, 128, 128),
    group_offset: Any = None,
    existing_out: Any = None,
    transpose_rhs: bool = False,
    interpret: bool = False,
) -> Any:
    """Row i of `lhs` [m, k] times the matrix `rhs[g]` of its group, as `megablox.gmm.gmm`; with derivatives.

    With cotangents g of the result those of `lhs` are the grouped product of g and the transposed matrices, those of `rhs` for each group the product of
    its rows, `lhs^T g` (`tgmm`). Errors are those of the kernel.

    >>> lhs, rhs = jnp.ones((3, 2)), jnp.ones((2, 2, 1))
    >>> from pellucid import grad
    >>> grad(lambda rhs: gmm(lhs, rhs, jnp.array([1, 2])).sum())(rhs)[:, 0, 0]
    Array([1., 2.], dtype=float32)
    """
    dtype = dtypes.check_user_dtype(preferred_element_type, "gmm")
    setting = (dtype, tiling, bool(transpose_rhs))
    arrays = [jnp.asarray(x) for x in (lhs, rhs, group_sizes)]
    return _gmm(setting, *vary_alike(*arrays, group_offset, existing_out))


def _result(
    setting: Any, lhs: Any, rhs: Any, group_sizes: Any, group_offset: Any, existing_out: Any
) -> Any:
    dtype, tiling, transpose_rhs = setting
    return _kernels.gmm(
        lhs, rhs, group_sizes, dtype, tiling, group_offset, existing_out, transpose_rhs
    )


def _forward(
    setting: Any, lhs: Any, rhs: Any, group_sizes: Any, group_offset: Any, existing_out: Any
) -> Any:
    result = _result(setting, lhs, rhs, group_sizes, group_offset, existing_out)
    return result, (lhs, rhs, group_sizes, group_offset, existing_out is not None)


def _backward(setting: Any, kept: Any, cotangent: Any) -> Any:
    _, tiling, transpose_rhs = setting
    lhs, rhs, group_sizes, group_offset, has_existing = kept
    n_groups = rhs.shape[0]
    # In the result a place of k becomes one of n, and the other way round.
    swapped = tiling if callable(tiling) or tiling is None else (tiling[0], tiling[2], tiling[1])
    g = cotangent.astype(lhs.dtype)
    dlhs = _kernels.gmm(
        g, rhs, group_sizes, lhs.dtype, swapped, group_offset, None, not transpose_rhs
    )
    drhs = _kernels.tgmm(lhs.T, g, group_sizes, rhs.dtype, tiling, group_offset, n_groups)
    drhs = jnp.swapaxes(drhs, 1, 2) if transpose_rhs else drhs
    dexisting = None
    if has_existing:
        start = jnp.asarray(0 if group_offset is None else group_offset)
        offsets = jnp.concatenate([jnp.zeros(1, np.int32), jnp.cumsum(group_sizes)])
        rows = jnp.arange(lhs.shape[0])[:, None]
        end = jnp.minimum(start + n_groups, group_sizes.size)
        is_local = (rows >= offsets[start]) & (rows < offsets[end])
        dexisting = jnp.where(is_local, 0, cotangent)
    return dlhs, drhs, None, None, dexisting


_gmm = custom_vjp(_result, nondiff_argnums=(0,))
_gmm.defvjp(_forward, _backward)

__all__ = ["gmm"]
