"""The product of two matrices in blocks, summed over the last axis of the grid."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import pellucid.numpy as jnp
from pellucid._machine.base import DtypeError, ShapeError, dtypes
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.ir import shaped_array
from pellucid._machine.tracing import type_of
from pellucid.experimental.pallas.ops.sizes import check_blocks, padded_to
from pellucid.kernels.grid import num_programs, program_id
from pellucid.kernels.inside import when
from pellucid.kernels.kernel_call import pallas_call
from pellucid.kernels.specs import BlockSpec, CompilerParams
from pellucid.kernels.tpu import MemorySpace


def matmul_kernel(x_tile_ref: Any, y_tile_ref: Any, o_tile_ref: Any, acc_ref: Any) -> None:
    """Adds the product of two blocks to `acc_ref`, and writes the sum in the last program of axis 2.

    >>> [block, sums] = [jnp.ones((2, 2)), pallas_call(matmul_kernel, jnp.ones((2, 2)), grid=(1, 1, 1),
    ...     scratch_shapes=[MemorySpace.VMEM((2, 2), np.float32)])]
    >>> sums(block, block)[0]
    Array([2., 2.], dtype=float32)
    """

    @when(program_id(2) == 0)
    def _() -> None:
        acc_ref[...] = jnp.zeros(acc_ref.shape, acc_ref.dtype)

    acc_ref[...] += jnp.dot(x_tile_ref[...], y_tile_ref[...], preferred_element_type=acc_ref.dtype)

    @when(program_id(2) == num_programs(2) - 1)
    def _() -> None:
        o_tile_ref[...] = acc_ref[...].astype(o_tile_ref.dtype)


@functools.partial(jit, static_argnames=("block_shape", "block_k", "debug", "out_dtype"))
def matmul(
    x: Any,
    y: Any,
    *,
    block_shape: tuple[int, int],
    block_k: int = 256,
    out_dtype: Any = None,
    debug: bool = False,
) -> Any:
    """`x @ y` for [m, k] and [k, n], in blocks of `block_shape` of the result and `block_k` of what is summed.

    Sums are in float32 or wider, of integers in int32 or wider, and converted once, to `out_dtype`: by default the dtype of `x` and `y`. Matrices that
    blocks don't divide are padded. `debug` changes nothing. Raises: ShapeError, DtypeError for matrices that don't fit.

    >>> matmul(jnp.ones((3, 4)), jnp.ones((4, 5)), block_shape=(2, 2), block_k=2)[0]
    Array([4., 4., 4., 4., 4.], dtype=float32)
    """
    x, y = jnp.asarray(x), jnp.asarray(y)
    texts = [f"x: {type_of(x).text()}", f"y: {type_of(y).text()}"]
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[0]:
        raise ShapeError("matmul needs matrices [m, k] and [k, n].", got=texts)
    if x.dtype != y.dtype:
        raise DtypeError("matmul needs matrices of one dtype.", got=texts)
    block_m, block_n = block_shape
    check_blocks(
        "matmul", {"block_shape[0]": block_m, "block_shape[1]": block_n, "block_k": block_k}
    )
    (m, k), n = x.shape, y.shape[1]
    out_dtype = x.dtype if out_dtype is None else dtypes.check_user_dtype(out_dtype, "matmul")
    if not m * n * k:
        return jnp.zeros((m, n), out_dtype)
    block_m, block_n, block_k = min(block_m, m), min(block_n, n), min(block_k, k)
    x, y = padded_to(x, {0: block_m, 1: block_k}), padded_to(y, {0: block_k, 1: block_n})
    sum_dtype = np.float32 if dtypes.is_inexact(x.dtype) else np.int32
    result = pallas_call(
        matmul_kernel,
        shaped_array((x.shape[0], y.shape[1]), out_dtype),
        grid=(x.shape[0] // block_m, y.shape[1] // block_n, x.shape[1] // block_k),
        in_specs=[
            BlockSpec((block_m, block_k), lambda i, j, k: (i, k)),
            BlockSpec((block_k, block_n), lambda i, j, k: (k, j)),
        ],
        out_specs=BlockSpec((block_m, block_n), lambda i, j, k: (i, j)),
        scratch_shapes=[
            MemorySpace.VMEM((block_m, block_n), dtypes.promote_types(x.dtype, sum_dtype))
        ],
        compiler_params=CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")),
    )(x, y)
    return result[:m, :n]


__all__ = ["matmul", "matmul_kernel"]
