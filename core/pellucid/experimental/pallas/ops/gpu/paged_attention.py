"""Attention of one new query for each sequence, over keys in pages of a pool: a table names the pages of each sequence.

A program reads the numbers of its pages and loads these. Pages are divided among programs as keys are in `decode_attention`.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import pellucid.numpy as jnp
from pellucid._machine.base import DtypeError, ShapeError
from pellucid._machine.higher_order.cond import cond
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.higher_order.loops import fori_loop
from pellucid._machine.ir import shaped_array
from pellucid._machine.primitives.dslice import ds
from pellucid._machine.tracing import type_of
from pellucid.experimental.pallas.ops.online_softmax import (
    DEFAULT_MASK_VALUE as DEFAULT_MASK_VALUE,
    Logits,
    attention,
    check_mask_value,
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


def check_pages(caller: str, q: Any, k_pages: Any, v_pages: Any, tables: Any, lengths: Any) -> None:
    """Raise for queries [batch, heads, head size], pages [heads of keys, pages, page size, head size] and tables that don't fit."""
    named = {"q": q, "k_pages": k_pages, "v_pages": v_pages, "page tables": tables}
    texts = [f"{name}: {type_of(x).text()}" for name, x in named.items()]
    fits = (
        q.ndim == 3
        and k_pages.ndim == 4
        and k_pages.shape == v_pages.shape
        and 0 not in k_pages.shape
    )
    if not fits or q.shape[2] != k_pages.shape[3] or q.shape[1] % k_pages.shape[0]:
        raise ShapeError(
            f"{caller} needs one query for each head, and pages [heads, pages, page size, head size] of a number of heads that divides theirs.",
            got=texts,
        )
    if (
        tables.ndim != 2
        or tables.shape[0] != q.shape[0]
        or not tables.shape[1]
        or (lengths is not None and jnp.shape(lengths) != q.shape[:1])
    ):
        raise ShapeError(
            f"{caller} needs a length and a row of pages for each sequence.",
            got=[*texts, f"lengths: {None if lengths is None else jnp.shape(lengths)}"],
        )
    if tables.dtype.kind not in "iu":
        raise DtypeError(f"{caller} needs tables of integers.", got=texts[3:])


@functools.partial(
    jit,
    static_argnames=(
        "block_h", "pages_per_compute_block", "k_splits", "num_warps", "num_stages", "interpret", "debug", "mask_value",
        "attn_logits_soft_cap",
    ),
)  # fmt: skip
def paged_attention(
    q: Any,
    k_pages: Any,
    v_pages: Any,
    block_tables: Any,
    lengths: Any,
    k_scales_pages: Any = None,
    v_scales_pages: Any = None,
    *,
    block_h: int = 16,
    pages_per_compute_block: int = 8,
    k_splits: int = 16,
    num_warps: int = 8,
    num_stages: int = 2,
    interpret: bool = False,
    debug: bool = False,
    mask_value: float = DEFAULT_MASK_VALUE,
    attn_logits_soft_cap: float | None = None,
) -> Any:
    """`softmax(q k^T) v` of one query for each head, over the first `lengths` [batch] keys in the pages of its sequence.

    `q`: [batch, heads, head size]; `k_pages`, `v_pages`: [heads of keys, pages, page size, head size], each of whose heads serves consecutive heads of `q`;
    `block_tables`: [batch, pages of a sequence], numbers of pages; those behind the length aren't looked at. Without `lengths` all keys are seen. `k_scales_pages`,
    `v_scales_pages`: [heads of keys, pages, page size] factors of pages of integers. Logits are not scaled; with `attn_logits_soft_cap` c they are `c tanh(logit / c)`.
    A sequence without keys gives 0, and one with a page that isn't in the pool NaN.

    `k_splits` programs share the pages of a sequence, of which they take `pages_per_compute_block` at once, for `block_h` heads. `num_warps` and `num_stages` are for
    GPUs; `interpret` and `debug` change nothing. Raises: ShapeError, DtypeError for operands that don't fit.

    >>> pages = jnp.ones((1, 3, 4, 8))
    >>> paged_attention(jnp.ones((2, 2, 8)), pages, pages, np.array([[2, 0], [1, 9]]), np.array([7, 3])).shape
    (2, 2, 8)
    """
    q, k_pages, v_pages, tables = map(jnp.asarray, (q, k_pages, v_pages, block_tables))
    check_pages("paged_attention", q, k_pages, v_pages, tables, lengths)
    check_mask_value("paged_attention", mask_value)
    check_blocks(
        "paged_attention",
        {
            "block_h": block_h,
            "pages_per_compute_block": pages_per_compute_block,
            "k_splits": k_splits,
        },
    )
    (b, n, h), (n_groups, n_pages, page_size) = q.shape, k_pages.shape[:3]
    scales = [x for x in (k_scales_pages, v_scales_pages) if x is not None]
    for scale in scales:
        if jnp.shape(scale) != k_pages.shape[:3]:
            raise ShapeError(
                "paged_attention needs a factor for each key of a page.",
                got=f"k_pages: {type_of(k_pages).text()}, factors: {type_of(scale).text()}",
            )
    group, dtype, width = n // n_groups, wide(q.dtype), fitted(1 << 30, h)
    lengths = as_lengths(lengths, b, tables.shape[1] * page_size)
    is_used = jnp.arange(tables.shape[1], dtype=np.int32) * page_size < lengths[:, None]
    tables = jnp.where(is_used, tables.astype(np.int32), 0)
    is_there = ((tables >= 0) & (tables < n_pages)).all(axis=1)
    block_h, at_once = fitted(block_h, group), min(pages_per_compute_block, tables.shape[1])
    # Each program takes `steps` times `at_once` pages: its part of the row of the table, padded to whole parts.
    steps = cdiv(cdiv(tables.shape[1], at_once), k_splits)
    per_split = steps * at_once
    k_splits = cdiv(tables.shape[1], per_split)
    tables = padded_to(tables, {1: per_split * k_splits})
    # [batch, heads of keys, their heads in whole blocks, head size as a power of two]
    grouped = padded_to(q.reshape((b, n_groups, group, h)), {2: block_h, 3: width})
    pages = [padded_to(x, {3: width}) for x in (k_pages, v_pages)]
    n_heads, keys = grouped.shape[2], at_once * page_size

    def kernel(
        q_ref: Any, k_ref: Any, v_ref: Any, table_ref: Any, length_ref: Any, *refs: Any
    ) -> None:
        *scale_refs, o_ref, l_ref, m_ref = refs
        k_scale_ref = None if k_scales_pages is None else scale_refs[0]
        v_scale_ref = None if v_scales_pages is None else scale_refs[-1]
        queries, length = q_ref[...], length_ref[...].max()
        logits = Logits(1.0, attn_logits_soft_cap)

        def loaded(ref: Any, numbers: Any, scale_ref: Any) -> Any:
            """Some pages, as [keys, head size]."""
            x = ref[numbers].reshape((keys, width))
            if scale_ref is not None:
                x = x.astype(dtype) * scale_ref[numbers].reshape((keys,)).astype(dtype)[:, None]
            return x.astype(queries.dtype)

        def step(i: Any, progress: Any) -> Any:
            first = program_id(3) * (per_split * page_size) + i * keys

            def add(progress: Any) -> Any:
                numbers = table_ref[ds(i * at_once, at_once)]
                places = first + jnp.arange(keys, dtype=np.int32)
                is_seen = jnp.broadcast_to((places < length)[None, :], (block_h, keys))
                found = logits.of(queries, loaded(k_ref, numbers, k_scale_ref))
                return progress.after(found, is_seen, loaded(v_ref, numbers, v_scale_ref))

            return cond(first < length, add, lambda x: x, progress)

        progress = fori_loop(0, steps, step, nothing_seen(block_h, width, dtype))
        o_ref[...] = progress.weighted
        l_ref[...], m_ref[...] = progress.total[:, 0], progress.largest[:, 0]

    # Programs (sequence b, head of keys g, block i of its heads, part j of the pages).
    pool = BlockSpec((None, n_pages, page_size, width), lambda b, g, i, j: (g, 0, 0, 0))
    factors = BlockSpec((None, n_pages, page_size), lambda b, g, i, j: (g, 0, 0))
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
            pool,
            pool,
            BlockSpec((None, per_split), lambda b, g, i, j: (b, j)),
            BlockSpec((1,), lambda b, g, i, j: (b,)),
            *[factors] * len(scales),
        ],
        out_specs=[
            BlockSpec((None, None, None, block_h, width), lambda b, g, i, j: (b, g, j, i, 0)),
            statistic,
            statistic,
        ],
        compiler_params=CompilerParams(num_warps, num_stages),
        name="paged_attention",
    )(grouped, *pages, tables, lengths, *scales)
    result, _, _ = joined(weighted, total, largest, axis=2, normalized=True)
    result = result[:, :, :group, :h].reshape((b, n, h)).astype(q.dtype)
    return jnp.where(is_there[:, None, None], result, jnp.nan)


def paged_attention_reference(
    q: Any,
    k: Any,
    v: Any,
    lengths: Any,
    *,
    mask_value: float = DEFAULT_MASK_VALUE,
    attn_logits_soft_cap: float | None = None,
) -> Any:
    """The plain form, for keys and values that aren't in pages: [batch, keys, heads of keys, head size].

    >>> paged_attention_reference(jnp.ones((1, 2, 8)), jnp.ones((1, 5, 1, 8)), jnp.ones((1, 5, 1, 8)), np.array([3])).shape
    (1, 2, 8)
    """
    check_mask_value("paged_attention_reference", mask_value)
    q, k, v = map(jnp.asarray, (q, k, v))
    (b, n, h), (s, n_groups) = q.shape, k.shape[1:3]
    grouped = q.reshape((b, n_groups, n // n_groups, h))
    logits = jnp.einsum("bgnh,bsgh->bgns", grouped, k, preferred_element_type=wide(q.dtype))
    if attn_logits_soft_cap is not None:
        logits = attn_logits_soft_cap * jnp.tanh(logits / attn_logits_soft_cap)
    mask = jnp.arange(s, dtype=np.int32)[None, :] < as_lengths(lengths, b, s)[:, None]
    result, _ = attention(logits, mask[:, None, None, :], jnp.swapaxes(v, 1, 2))
    return result.reshape(q.shape).astype(q.dtype)


__all__ = ["DEFAULT_MASK_VALUE", "paged_attention", "paged_attention_reference"]
