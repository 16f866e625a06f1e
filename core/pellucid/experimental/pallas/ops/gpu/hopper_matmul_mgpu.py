"""Matrix products on Hopper GPUs: of each block's three threads one copies tiles for two that multiply them on the tensor cores."""

from __future__ import annotations

import enum
import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

import pellucid.numpy as jnp
from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    ShapeError,
    UnsupportedError,
    public_functions,
)
from pellucid._machine.higher_order.cond import platform_dependent
from pellucid._machine.higher_order.custom_vjp import custom_vjp
from pellucid._machine.higher_order.custom_vmap import sequential_vmap
from pellucid._machine.ir import shaped_array
from pellucid._machine.parallel.axes import axis_index
from pellucid._machine.primitives.dslice import ds
from pellucid.experimental.pallas.ops.sizes import padded_to
from pellucid.kernels.gpu.blocks import BlockSpec
from pellucid.kernels.gpu.copies import copy_smem_to_gmem
from pellucid.kernels.gpu.fences import commit_smem, wait_smem_to_gmem, wgmma_wait
from pellucid.kernels.gpu.memory import ACC, MemorySpace
from pellucid.kernels.gpu.products import wgmma
from pellucid.kernels.gpu.specialized import emit_pipeline_warp_specialized
from pellucid.kernels.gpu.transforms import SwizzleTransform, TilingTransform
from pellucid.kernels.gpu_kernel import kernel as gpu_kernel
from pellucid.kernels.inside import run_scoped

DTYPES = ("bfloat16", "float16")
"""Names of the dtypes that tensor cores multiply with sums in float32, in any order of rows."""
COPIED = 8
"""Elements of 16 bits of which rows that are copied have a multiple."""


class MatmulDimension(enum.IntEnum):
    """A dimension of the result of a product: its rows, M, or its columns, N."""

    M = 0
    N = 1


@dataclass(frozen=True)
class TuningConfig:
    """Sizes of a matrix product on Hopper GPUs.

    Each of two threads has `tile_m` rows and `tile_n` columns of the result, beside the other one along `wg_dimension`, and sums over `tile_k` in each of
    its steps, for which `max_concurrent_steps` tiles are copied ahead. Blocks that follow each other are neighbours along `grid_minor_dim`. The others
    change nothing: the result leaves in whole tiles.

    >>> TuningConfig(tile_m=64, tile_n=128, tile_k=64, max_concurrent_steps=4).wg_dimension
    <MatmulDimension.N: 1>
    """

    tile_m: int
    tile_n: int
    tile_k: int
    max_concurrent_steps: int
    epi_tile_n: int | None = 64
    epi_tile_m: int | None = 64
    grid_minor_dim: MatmulDimension = MatmulDimension.N
    grid_tile_width: int = 1
    wg_dimension: MatmulDimension = MatmulDimension.N
    cluster_dimension: MatmulDimension | None = None

    def __post_init__(self) -> None:
        if self.cluster_dimension is not None:
            raise UnsupportedError(
                "TuningConfig: blocks of a cluster can't share tiles.",
                got=f"cluster_dimension={self.cluster_dimension!r}",
                do="Leave it out: each block copies its own tiles.",
            )
        steps = (("tile_m", 64), ("tile_n", 16), ("tile_k", 16), ("max_concurrent_steps", 1))
        for name, step in steps:
            n = getattr(self, name)
            if isinstance(n, bool) or not isinstance(n, int) or n < 1 or n % step:
                raise ArgumentValueError(
                    f"TuningConfig: `{name}` is a multiple of {step}.", got=f"got {n!r:.40}"
                )


def matmul(a: Any, b: Any, c: Any, config: TuningConfig) -> Any:
    """`a @ b`, rounded to the dtype of `a`, plus `c` unless that is None; sums are in float32.

    `a` is (M, K), `b` (K, N), both of bfloat16 or float16, `c` (M, N). On NVIDIA's GPUs it is a kernel for Hopper; sizes are padded to what copies take. Elsewhere, and for
    derivatives, it is the plain product. Raises: ArgumentTypeError for other dtypes, ShapeError for shapes that don't fit.

    >>> a, b = jnp.ones((2, 3), jnp.bfloat16), jnp.ones((3, 4), jnp.bfloat16)
    >>> matmul(a, b, None, TuningConfig(64, 128, 64, 2))
    Array([[3, 3, 3, 3],
           [3, 3, 3, 3]], dtype=bfloat16)
    """
    a, b = jnp.asarray(a), jnp.asarray(b)
    check_matrices("matmul", a, b)
    if not isinstance(config, TuningConfig):
        raise ArgumentTypeError("matmul takes a `TuningConfig`.", got=f"got {config!r:.60}")
    if c is not None and tuple(jnp.shape(c)) != (a.shape[0], b.shape[1]):
        raise ShapeError(
            "matmul: `c` has the shape of the product.",
            got=f"{jnp.shape(c)}, product {(a.shape[0], b.shape[1])}",
        )
    found = _product(config, a, b)
    return found if c is None else found + c


def check_matrices(caller: str, a: Any, b: Any) -> None:
    """Raise ShapeError or ArgumentTypeError for what aren't two matrices of a product on tensor cores."""
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ShapeError(f"{caller} takes matrices (M, K) and (K, N).", got=f"{a.shape}, {b.shape}")
    if a.dtype != b.dtype or a.dtype.name not in DTYPES:
        raise ArgumentTypeError(
            f"{caller} takes matrices of one dtype, bfloat16 or float16.",
            got=f"{a.dtype}, {b.dtype}",
            do="Convert them; `jnp.matmul` multiplies all dtypes.",
        )


@functools.partial(custom_vjp, nondiff_argnums=(0,))
def _product(config: TuningConfig, a: Any, b: Any) -> Any:
    if 0 in (*a.shape, *b.shape):
        return plain_product(a, b)
    by_kernel = sequential_vmap(functools.partial(product_by_kernel, config))
    return platform_dependent(a, b, cuda=by_kernel, default=plain_product)


def _forward(config: TuningConfig, a: Any, b: Any) -> Any:
    return _product(config, a, b), (a, b)


def _backward(config: TuningConfig, saved: Any, cotangent: Any) -> Any:
    a, b = saved
    return plain_product(cotangent, b.T), plain_product(a.T, cotangent)


_product.defvjp(_forward, _backward)


def plain_product(a: Any, b: Any) -> Any:
    """A product with sums in float32, rounded to the dtype of its matrices."""
    return jnp.matmul(a, b, preferred_element_type=np.float32).astype(a.dtype)


def product_by_kernel(config: TuningConfig, a: Any, b: Any, groups: Any = None) -> Any:
    """`plain_product` by a kernel for Hopper GPUs. With `groups`, `b` has several matrices, (groups, K, N), and tile `i` of the rows of `a` is multiplied by number `groups[i]`."""
    m, n, dtype = a.shape[0], b.shape[-1], a.dtype
    rows, columns = config.tile_m, config.tile_n
    along_m = config.wg_dimension == MatmulDimension.M
    # Rows and columns of the tile that both threads have together.
    whole = (2 * rows, columns) if along_m else (rows, 2 * columns)
    # Rows are whole copies, and each array has one tile at least.
    a = padded_to(a, {0: at_least(m, whole[0]), 1: at_least(a.shape[1], config.tile_k, COPIED)})
    b = padded_to(b, {b.ndim - 2: a.shape[1], b.ndim - 1: at_least(n, whole[1], COPIED)})
    k = a.shape[1]
    tiles = {"m": -(-a.shape[0] // whole[0]), "n": -(-b.shape[-1] // whole[1])}
    names = ("m", "n") if config.grid_minor_dim == MatmulDimension.N else ("n", "m")

    def body(a_ref: Any, b_ref: Any, *more: Any) -> None:
        *group_refs, o_ref, held = more
        i, j, own = axis_index("m"), axis_index("n"), axis_index("wg")
        row, column = (own * rows, 0) if along_m else (0, own * columns)
        part = (ds(row, rows), ds(column, columns))

        def context(pipeline: Any) -> None:
            def run(acc: Any) -> Any:
                pipeline(acc)
                return acc[...]

            held[own] = run_scoped(run, ACC((rows, columns))).astype(dtype)
            commit_smem()
            target = ds(i * whole[0] + row, rows), ds(j * whole[1] + column, columns)
            copy_smem_to_gmem(held.at[own], o_ref.at[target])
            wait_smem_to_gmem(0)

        def step(_: Any, left: Any, right: Any, acc: Any) -> Any:
            wgmma(acc, left.at[part[0]], right.at[:, part[1]])
            wgmma_wait(delay)
            return acc

        delay = 1 if config.max_concurrent_steps > 1 else 0
        block = functools.partial(BlockSpec, delay_release=delay)
        of_a, of_b = swizzle_of(config.tile_k), swizzle_of(columns)
        # The matrix of a tile's group, if there are several.
        which = tuple([ref[i] for ref in group_refs])
        emit_pipeline_warp_specialized(
            step,
            grid=(-(-k // config.tile_k),),
            memory_registers=40,
            in_specs=[
                block((whole[0], config.tile_k), lambda t: (i, t), transforms=of_a),
                block(
                    (*[None] * len(which), config.tile_k, whole[1]),
                    lambda t: (*which, t, j),
                    transforms=of_b,
                ),
            ],
            max_concurrent_steps=config.max_concurrent_steps,
            wg_axis="wg",
            num_compute_wgs=2,
            compute_context=context,
        )(a_ref, b_ref)

    call = gpu_kernel(
        body,
        shaped_array((a.shape[0], b.shape[-1]), dtype),
        grid=tuple([tiles[name] for name in names]),
        grid_names=names,
        num_threads=3,
        thread_name="wg",
        scratch_types=[MemorySpace.SMEM((2, rows, columns), dtype, transforms=swizzle_of(columns))],
        kernel_name="hopper_matmul",
    )
    found = call(a, b) if groups is None else call(a, b, groups)
    return found[:m, :n]


def at_least(n: int, least: int, step: int = 1) -> int:
    """A size of which `n` elements are padded to a multiple: `least` where there are fewer, else `step`."""
    return least if n < least else step


def swizzle_of(columns: int) -> tuple[Any, ...]:
    """The widest swizzle of matrices of 16 bits whose parts of so many columns are whole panels."""
    span = next(n for n in (128, 64, 32) if 2 * columns % n == 0)
    return TilingTransform((8, span // 2)), SwizzleTransform(span)


__all__ = [
    "MatmulDimension",
    "TuningConfig",
    "matmul",
]  # of the reference's names, those that pellucid has

public_functions(__all__, globals())
