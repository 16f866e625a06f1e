"""Products of groups of rows with a matrix each on Hopper GPUs: each group is padded to whole tiles, of which a block has one."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

import pellucid.numpy as jnp
from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    ShapeError,
    public_functions,
)
from pellucid._machine.higher_order.cond import platform_dependent
from pellucid._machine.higher_order.custom_vjp import custom_vjp
from pellucid._machine.higher_order.custom_vmap import sequential_vmap
from pellucid._machine.primitives.blockwise import ragged_dot as plain_ragged_dot
from pellucid._machine.transforms.gradient import vjp

from .hopper_matmul_mgpu import DTYPES, TuningConfig, product_by_kernel


def ragged_dot(
    lhs: Any,
    rhs: Any,
    *,
    group_sizes: Any,
    block_m: int,
    block_n: int,
    block_k: int,
    max_concurrent_steps: int,
    grid_block_n: int,
    transpose_rhs: bool = False,
    load_group_sizes_to_register: bool = True,
) -> Any:
    """Rows of `lhs` (M, K) times matrices of `rhs` (groups, K, N): the first `group_sizes[0]` rows meet the first matrix. Rows after the last group give 0.

    With `transpose_rhs` matrices are (N, K). Both are of bfloat16 or float16, and so is the result; sums are in float32. A block has `block_m` rows and `block_n` columns, and sums over `block_k` in each
    step, for which `max_concurrent_steps` tiles are copied ahead; `grid_block_n` and `load_group_sizes_to_register` change nothing. On NVIDIA's GPUs it is a kernel for Hopper. Elsewhere, and for
    derivatives, it is `lax.ragged_dot`. Raises: ArgumentTypeError for other dtypes, ArgumentValueError for sizes of blocks, ShapeError for shapes that don't fit.

    >>> x, y = jnp.ones((3, 2), jnp.bfloat16), jnp.ones((2, 2, 4), jnp.bfloat16)
    >>> sizes = {"block_m": 64, "block_n": 64, "block_k": 64, "max_concurrent_steps": 2, "grid_block_n": 1}
    >>> ragged_dot(x, y, group_sizes=jnp.array([1, 1]), **sizes)
    Array([[2, 2, 2, 2],
           [2, 2, 2, 2],
           [0, 0, 0, 0]], dtype=bfloat16)
    """
    lhs, rhs, group_sizes = map(jnp.asarray, (lhs, rhs, group_sizes))
    if transpose_rhs and rhs.ndim == 3:
        rhs = jnp.swapaxes(rhs, 1, 2)
    fits = lhs.ndim == 2 and rhs.ndim == 3 and group_sizes.shape == rhs.shape[:1]
    if not fits or lhs.shape[1] != rhs.shape[1]:
        raise ShapeError(
            "ragged_dot takes rows (M, K), matrices (groups, K, N), and a size for each group.",
            got=f"{lhs.shape}, {rhs.shape}, {group_sizes.shape}",
        )
    if lhs.dtype != rhs.dtype or lhs.dtype.name not in DTYPES or group_sizes.dtype.kind not in "iu":
        raise ArgumentTypeError(
            "ragged_dot takes matrices of one dtype, bfloat16 or float16, and integer sizes.",
            got=f"{lhs.dtype}, {rhs.dtype}, {group_sizes.dtype}",
        )
    if isinstance(block_n, bool) or not isinstance(block_n, int) or block_n % 32 or block_n < 1:
        raise ArgumentValueError(
            "ragged_dot: `block_n` is a multiple of 32.", got=f"got {block_n!r:.40}"
        )
    config = TuningConfig(block_m, block_n // 2, block_k, max_concurrent_steps)
    return _ragged_dot(config, lhs, rhs, group_sizes)


@functools.partial(custom_vjp, nondiff_argnums=(0,))
def _ragged_dot(config: TuningConfig, lhs: Any, rhs: Any, group_sizes: Any) -> Any:
    if 0 in (*lhs.shape, *rhs.shape):
        return _plain(lhs, rhs, group_sizes)
    by_kernel = sequential_vmap(functools.partial(ragged_dot_by_kernel, config))
    return platform_dependent(lhs, rhs, group_sizes, cuda=by_kernel, default=_plain)


def _forward(config: TuningConfig, lhs: Any, rhs: Any, group_sizes: Any) -> Any:
    return _ragged_dot(config, lhs, rhs, group_sizes), (lhs, rhs, group_sizes)


def _backward(config: TuningConfig, saved: Any, cotangent: Any) -> Any:
    lhs, rhs, group_sizes = saved
    _, pull = vjp(lambda x, y: _plain(x, y, group_sizes), lhs, rhs)
    return *pull(cotangent), None


_ragged_dot.defvjp(_forward, _backward)


def _plain(lhs: Any, rhs: Any, group_sizes: Any) -> Any:
    found = plain_ragged_dot(lhs, rhs, group_sizes, preferred_element_type=np.float32)
    return found.astype(lhs.dtype)


class _Places(NamedTuple):
    """Where rows are when each group is padded to whole tiles."""

    of_row: Any
    """By row its place; one behind all for rows of no group."""
    group: Any
    """By tile the number of its group."""


def _places(group_sizes: Any, rows: int, tile: int, tiles: int) -> _Places:
    sizes = group_sizes.astype(np.int32)
    ends = jnp.cumsum(sizes)
    counts = (sizes + (tile - 1)) // tile
    last_tiles = jnp.cumsum(counts)
    row = jnp.arange(rows, dtype=np.int32)
    # A row's group is the number of groups that end before it; behind the last one it is clamped, and dropped below.
    group = jnp.searchsorted(ends, row, side="right").astype(np.int32)
    own = jnp.minimum(group, sizes.size - 1)
    place = (last_tiles - counts)[own] * tile + row - (ends - sizes)[own]
    of_tile = jnp.searchsorted(last_tiles, jnp.arange(tiles, dtype=np.int32), side="right")
    return _Places(
        jnp.where(row < ends[-1], place, tiles * tile),
        jnp.minimum(of_tile, sizes.size - 1).astype(np.int32),
    )


def ragged_dot_by_kernel(config: TuningConfig, lhs: Any, rhs: Any, group_sizes: Any) -> Any:
    """`lax.ragged_dot` by a kernel for Hopper GPUs."""
    rows, tile = lhs.shape[0], config.tile_m
    # Each group fills its last tile in part.
    tiles = -(-rows // tile) + rhs.shape[0]
    places = _places(group_sizes, rows, tile, tiles)
    padded = jnp.zeros((tiles * tile, lhs.shape[1]), lhs.dtype)
    padded = padded.at[places.of_row].set(lhs, mode="drop")
    found = product_by_kernel(config, padded, rhs, places.group)
    return found.at[places.of_row].get(mode="fill", fill_value=0)


__all__ = ["ragged_dot"]  # of the reference's names, those that pellucid has

public_functions(__all__, globals())
