"""Attention by its formula, with all logits in memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid import numpy as jnp
from pellucid._machine.base import dtypes
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array
from pellucid.numpy.compiled import numpy_function
from pellucid.numpy.log_sums import logsumexp

from .normalizations import softmax

Window = tuple[int, int]
"""How many positions before and after its own a query attends to."""


@numpy_function(static=("is_causal", "window", "return_residual"))
def plain_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any,
    mask: Any,
    query_lengths: Any,
    key_lengths: Any,
    scale: Any,
    is_causal: bool,
    window: Window | None,
    return_residual: bool,
    factors: Any = None,
) -> Any:
    """`dot_product_attention` of operands that fit; `return_residual`: also the logarithms [B, T, N] of sums of exponentials.

    The head size of values may be another one. `factors` [B, N, T, S] multiply the weights.
    """
    dtype, is_single = type_of(query).dtype, type_of(query).ndim == 3
    if is_single:
        query, key, value = (jnp.expand_dims(x, 0) for x in (query, key, value))
    b, t, n, h = type_of(query).shape
    s, groups = type_of(key).shape[1:3]
    # The N heads of the query as [K, G]: each of the K heads of the key serves G of them.
    grouped = query.reshape((b, t, groups, n // groups, h))
    wide = dtypes.promote_types(dtype, np.float32)
    logits = jnp.einsum("btkgh,bskh->bkgts", grouped, key, preferred_element_type=wide)
    logits = logits.reshape((b, n, t, s)) * jnp.asarray(scale, dtype=wide)
    if bias is not None:
        logits = logits + broadcast_to_heads(bias, is_single)
    allowed = attention_mask(mask, query_lengths, key_lengths, is_causal, window, t, s, is_single)
    if allowed is not None:
        lowest = np.asarray(-0.7 * float(dtypes.finfo(wide).max), wide)[()]
        logits = jnp.where(allowed, logits, lowest)
    weights = softmax(logits, axis=-1)
    if factors is not None:
        weights = weights * factors
    weights = weights.astype(type_of(key).dtype)
    weights = weights.reshape((b, groups, n // groups, t, s))
    result = jnp.einsum("bkgts,bskh->btkgh", weights, value)
    result = result.reshape((b, t, n, type_of(value).shape[-1])).astype(dtype)
    if query_lengths is not None:
        counts = jnp.arange(t)[None, :] < jnp.asarray(query_lengths)[:, None]
        result = jnp.where(counts[:, :, None, None], result, 0)
    result = result[0] if is_single else result
    if not return_residual:
        return result
    residual = jnp.moveaxis(logsumexp(logits, axis=-1), 1, 2).astype(type_of(key).dtype)
    return result, residual[0] if is_single else residual


def broadcast_to_heads(x: Array, is_single: bool) -> Array:
    """`x` that broadcasts to [B, N, T, S]; that of a single example broadcasts to [N, T, S]."""
    return jnp.expand_dims(x, 0) if is_single and type_of(x).ndim == 3 else jnp.asarray(x)


def attention_mask(
    mask: Array | None,
    query_lengths: Array | None,
    key_lengths: Array | None,
    is_causal: bool,
    window: Window | None,
    t: int,
    s: int,
    is_single: bool,
) -> Any:
    """Mask of the positions that attend to each other, which broadcasts to [B, N, T, S]; None if all do."""
    rows, columns = jnp.arange(t)[:, None], jnp.arange(s)[None, :]
    masks = [] if mask is None else [broadcast_to_heads(mask, is_single)]
    if is_causal:
        masks.append((columns <= rows)[None, None])
    if window is not None:
        masks.append(((columns >= rows - window[0]) & (columns <= rows + window[1]))[None, None])
    if query_lengths is not None:
        masks.append((rows[None] < jnp.asarray(query_lengths)[:, None, None])[:, None])
    if key_lengths is not None:
        masks.append((columns[None] < jnp.asarray(key_lengths)[:, None, None])[:, None])
    if not masks:
        return None
    result = masks[0]
    for each in masks[1:]:
        result = result & each
    return result
