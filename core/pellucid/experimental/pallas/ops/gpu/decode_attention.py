"""Attention of one new query for each sequence of a batch, over keys that are kept: the keys are divided among programs.

In decoding there are few queries, and a program for each head would leave most of a GPU idle. So `k_splits` programs share the keys of a head,
and their results are joined (`split_softmax`).
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

import pellucid.numpy as jnp
from pellucid._machine.base import ArgumentValueError, ShapeError
from pellucid._machine.higher_order.cond import cond
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.higher_order.loops import fori_loop
from pellucid._machine.ir import shaped_array
from pellucid._machine.primitives.dslice import ds
from pellucid._machine.tracing import type_of
from pellucid.experimental.pallas.ops.online_softmax import (
    Logits,
    attention,
    nothing_seen,
    wide,
)
from pellucid.experimental.pallas.ops.sizes import check_blocks, fitted, padded_to
from pellucid.experimental.pallas.ops.split_softmax import as_lengths, joined
from pellucid.kernels.grid import program_id
from pellucid.kernels.inside import cdiv
from pellucid.kernels.kernel_call import pallas_call
from pellucid.kernels.specs import BlockSpec
from pellucid.kernels.triton.language import CompilerParams

_STATIC = (
    "block_h", "block_k", "k_splits", "num_warps", "num_stages", "grid", "interpret", "debug", "return_residuals",
    "normalize_output",
)  # fmt: skip


def _check(caller: str, q: Any, k: Any, v: Any, sizes: dict[str, int], grid: Any) -> None:
    fits = (
        q.ndim == 3
        and k.ndim == 4
        and k.shape == v.shape
        and q.shape[0] == k.shape[0]
        and q.shape[2] == k.shape[3]
    )
    if not fits or not k.shape[2] or q.shape[1] % k.shape[2] or not k.shape[1]:
        raise ShapeError(
            f"{caller} needs one query for each head, and keys and values of a number of heads that divides theirs.",
            got=[f"{name}: {type_of(x).text()}" for name, x in (("q", q), ("k", k), ("v", v))],
        )
    check_blocks(caller, sizes)
    if grid is not None:
        raise ArgumentValueError(
            f"{caller}: the grid follows from `block_h` and `k_splits`.",
            got=f"grid {grid}",
            do="Leave it out.",
        )


@functools.partial(jit, static_argnames=_STATIC)
def gqa(
    q: Any,
    k: Any,
    v: Any,
    start_idx: Any = None,
    kv_seq_len: Any = None,
    sm_scale: Any = None,
    block_h: int = 16,
    block_k: int = 128,
    k_splits: int = 16,
    num_warps: int | None = None,
    num_stages: int = 2,
    grid: tuple[int, ...] | None = None,
    interpret: bool = False,
    debug: bool = False,
    return_residuals: bool = False,
    normalize_output: bool = True,
) -> Any:
    """`softmax(sm_scale q k^T) v` of one query for each head: [batch, heads, head size].

    `q`: [batch, heads, head size]; `k`, `v`: [batch, keys, heads of keys, head size], each of whose heads serves heads / heads of keys consecutive heads of `q`.
    Keys from `start_idx` to below `kv_seq_len` are seen, of all sequences or [batch]; a query without one gives 0. `sm_scale`: 1 / sqrt(head size) by default.
    `block_h` heads and `block_k` keys are a block, `k_splits` programs share the keys; sizes that they don't divide are padded. `return_residuals`: also
    (sum of exp(logit - largest), largest logit), [batch, heads]; without `normalize_output` the result isn't divided by that sum. `num_warps` and `num_stages` are for GPUs;
    `interpret` and `debug` change nothing.

    Raises: ShapeError, ArgumentValueError for operands and sizes that don't fit, and for a `grid`.

    >>> q, k = jnp.ones((1, 4, 8)), jnp.ones((1, 5, 2, 8))
    >>> gqa(q, k, k, kv_seq_len=3).shape
    (1, 4, 8)
    """
    q, k, v = map(jnp.asarray, (q, k, v))
    _check("gqa", q, k, v, {"block_h": block_h, "block_k": block_k, "k_splits": k_splits}, grid)
    (b, n, h), (s, n_groups) = q.shape, k.shape[1:3]
    group, dtype = n // n_groups, wide(q.dtype)
    scale = 1 / math.sqrt(h) if sm_scale is None else sm_scale
    lengths = jnp.minimum(as_lengths(kv_seq_len, b, s), s)
    starts = as_lengths(start_idx, b, 0)
    block_h, block_k = fitted(block_h, group), fitted(block_k, cdiv(s, k_splits))
    per_split = cdiv(cdiv(s, k_splits), block_k)
    k_splits = cdiv(s, per_split * block_k)
    width = fitted(1 << 30, h)
    # [batch, heads of keys, their heads, head size]
    grouped = padded_to(
        (q * jnp.asarray(scale, q.dtype)).reshape((b, n_groups, group, h)), {2: block_h, 3: width}
    )
    k, v = [padded_to(x, {1: k_splits * per_split * block_k, 3: width}) for x in (k, v)]
    n_heads = grouped.shape[2]

    def kernel(
        q_ref: Any,
        k_ref: Any,
        v_ref: Any,
        start_ref: Any,
        length_ref: Any,
        o_ref: Any,
        l_ref: Any,
        m_ref: Any,
    ) -> None:
        queries, first, end = q_ref[...], start_ref[...].max(), length_ref[...].max()
        base = program_id(3) * (per_split * block_k)

        def step(i: Any, progress: Any) -> Any:
            part = ds(i * block_k, block_k)
            places = base + i * block_k + jnp.arange(block_k, dtype=np.int32)

            def add(progress: Any) -> Any:
                is_seen = jnp.broadcast_to(
                    ((places >= first) & (places < end))[None, :], (block_h, block_k)
                )
                return progress.after(Logits().of(queries, k_ref[part, :]), is_seen, v_ref[part, :])

            low = base + i * block_k
            return cond((low < end) & (low + block_k > first), add, lambda x: x, progress)

        progress = fori_loop(0, per_split, step, nothing_seen(block_h, width, dtype))
        o_ref[...] = progress.weighted
        l_ref[...], m_ref[...] = progress.total[:, 0], progress.largest[:, 0]

    own_keys = BlockSpec((None, per_split * block_k, None, width), lambda b, g, i, j: (b, j, g, 0))
    number = BlockSpec((1,), lambda b, g, i, j: (b,))
    statistic = BlockSpec((None, None, None, block_h), lambda b, g, i, j: (b, g, j, i))
    parts = (b, n_groups, k_splits, n_heads)
    weighted, total, largest = pallas_call(
        kernel,
        [
            shaped_array((*parts, width), dtype),
            shaped_array(parts, dtype),
            shaped_array(parts, dtype),
        ],
        grid=(b, n_groups, n_heads // block_h, k_splits),
        in_specs=[
            BlockSpec((None, None, block_h, width), lambda b, g, i, j: (b, g, i, 0)),
            own_keys,
            own_keys,
            number,
            number,
        ],
        out_specs=[
            BlockSpec((None, None, None, block_h, width), lambda b, g, i, j: (b, g, j, i, 0)),
            statistic,
            statistic,
        ],
        compiler_params=CompilerParams(num_warps, num_stages),
        name="decode_attention",
    )(grouped, k, v, starts, lengths)
    found = joined(weighted, total, largest, axis=2, normalized=normalize_output)
    result, total, largest = [x[:, :, :group].reshape((b, n, *x.shape[3:])) for x in found]
    result = result[..., :h].astype(q.dtype)
    return (result, (total, largest)) if return_residuals else result


@functools.partial(jit, static_argnames=_STATIC)
def mqa(
    q: Any,
    k: Any,
    v: Any,
    start_idx: Any = None,
    kv_seq_len: Any = None,
    sm_scale: Any = None,
    block_h: int = 16,
    block_k: int = 256,
    k_splits: int = 16,
    num_warps: int | None = None,
    num_stages: int = 2,
    grid: tuple[int, ...] | None = None,
    interpret: bool = False,
    debug: bool = False,
    return_residuals: bool = False,
    normalize_output: bool = True,
) -> Any:
    """`gqa` with one head of keys and values, [batch, keys, head size], for all heads of `q`.

    >>> mqa(jnp.ones((1, 4, 8)), jnp.ones((1, 5, 8)), jnp.ones((1, 5, 8))).shape
    (1, 4, 8)
    """
    k, v = [jnp.expand_dims(jnp.asarray(x), 2) for x in (k, v)]
    return gqa(
        q, k, v, start_idx, kv_seq_len, sm_scale, block_h, block_k, k_splits, num_warps, num_stages, grid, interpret,
        debug, return_residuals, normalize_output,
    )  # fmt: skip


def gqa_reference(
    q: Any,
    k: Any,
    v: Any,
    start_idx: Any = None,
    kv_seq_len: Any = None,
    sm_scale: Any = None,
    return_residuals: bool = False,
    normalize_output: bool = True,
) -> Any:
    """The plain form of `gqa`, with all logits at once.

    >>> gqa_reference(jnp.ones((1, 4, 8)), jnp.ones((1, 5, 2, 8)), jnp.ones((1, 5, 2, 8))).shape
    (1, 4, 8)
    """
    q, k, v = map(jnp.asarray, (q, k, v))
    (b, n, h), (s, n_groups) = q.shape, k.shape[1:3]
    scale = 1 / math.sqrt(h) if sm_scale is None else sm_scale
    grouped = q.reshape((b, n_groups, n // n_groups, h))
    logits = jnp.einsum("bgnh,bsgh->bgns", grouped, k, preferred_element_type=wide(q.dtype)) * scale
    places = jnp.arange(s, dtype=np.int32)[None, :]
    first, end = as_lengths(start_idx, b, 0)[:, None], as_lengths(kv_seq_len, b, s)[:, None]
    mask = ((places >= first) & (places < end))[:, None, None, :]
    result, lse = attention(logits, mask, jnp.swapaxes(v, 1, 2))
    largest = jnp.where(mask, logits, -jnp.inf).max(axis=-1)
    total = jnp.where(largest == -jnp.inf, 0, jnp.exp(lse - largest))
    result = result if normalize_output else result * total[..., None]
    result = result.reshape(q.shape).astype(q.dtype)
    statistics = tuple([x.reshape((b, n)) for x in (total, largest)])
    return (result, statistics) if return_residuals else result


def mqa_reference(
    q: Any,
    k: Any,
    v: Any,
    start_idx: Any = None,
    kv_seq_len: Any = None,
    sm_scale: Any = None,
    return_residuals: bool = False,
    normalize_output: bool = True,
) -> Any:
    """The plain form of `mqa`.

    >>> mqa_reference(jnp.ones((1, 4, 8)), jnp.ones((1, 5, 8)), jnp.ones((1, 5, 8))).shape
    (1, 4, 8)
    """
    k, v = [jnp.expand_dims(jnp.asarray(x), 2) for x in (k, v)]
    return gqa_reference(
        q, k, v, start_idx, kv_seq_len, sm_scale, return_residuals, normalize_output
    )


def mha_reference(
    q: Any, k: Any, v: Any, start_idx: Any = None, kv_seq_len: Any = None, sm_scale: Any = None
) -> Any:
    """The plain form for heads that have keys and values of their own, [batch, keys, heads, head size].

    >>> mha_reference(jnp.ones((1, 2, 8)), jnp.ones((1, 5, 2, 8)), jnp.ones((1, 5, 2, 8))).shape
    (1, 2, 8)
    """
    return gqa_reference(q, k, v, start_idx, kv_seq_len, sm_scale)


__all__ = ["gqa", "gqa_reference", "mha_reference", "mqa", "mqa_reference"]
