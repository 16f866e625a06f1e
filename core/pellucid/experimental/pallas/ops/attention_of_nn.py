"""`nn.dot_product_attention(implementation="kernel")`: the same by `flash_attention`, without the matrix of logits in memory."""

from __future__ import annotations

from typing import Any

import numpy as np

import pellucid.numpy as jnp
from pellucid._machine.base import UnsupportedError
from pellucid._machine.tracing import type_of
from pellucid.experimental.pallas.ops.online_softmax import wide
from pellucid.experimental.pallas.ops.tpu.flash_attention import SegmentIds, flash_attention


def attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any,
    mask: Any,
    query_lengths: Any,
    key_lengths: Any,
    scale: float,
    is_causal: bool,
    window: Any,
    return_residual: bool,
) -> Any:
    """Attention of [B, T, N, H] or [T, N, H] to [B, S, K, H], whose types `nn.dot_product_attention` has checked.

    Raises: UnsupportedError for a window, for residuals, and for numbers that aren't floating ones.

    >>> x = np.ones((1, 5, 2, 4), np.float32)
    >>> attention(x, x, x, None, None, None, None, 0.5, True, None, False).shape
    (1, 5, 2, 4)
    """
    if window is not None or return_residual:
        raise UnsupportedError(
            'nn.dot_product_attention: implementation="kernel" has no local_window_size and no return_residual.',
            do='Use implementation="xla", or a `LocalMask` of `experimental.pallas.ops.tpu.splash_attention`.',
        )
    query, key, value = map(jnp.asarray, (query, key, value))
    if not all(jnp.issubdtype(x.dtype, np.floating) for x in (query, key, value)):
        raise UnsupportedError(
            'nn.dot_product_attention: implementation="kernel" has real floating numbers only.',
            got=", ".join([type_of(x).text() for x in (query, key, value)]),
            do="Convert the operands.",
        )
    is_single = query.ndim == 3
    if is_single:
        query, key, value = [jnp.expand_dims(x, 0) for x in (query, key, value)]
    (b, t, n, _), s = query.shape, key.shape[1]
    # [B, N, T, H]: each head of keys serves a group of heads of queries.
    key, value = [jnp.repeat(x, n // x.shape[2], axis=2) for x in (key, value)]
    ab, dtype = None, wide(query.dtype)
    # The scale may be too small for a narrow dtype in which the products are in range.
    query = (query * jnp.asarray(scale, dtype)).astype(query.dtype)
    q, k, v = [jnp.swapaxes(x, 1, 2) for x in (query, key, value)]
    for x in (bias, None if mask is None else jnp.where(jnp.asarray(mask), 0, -jnp.inf)):
        if x is not None:
            x = jnp.asarray(x).astype(dtype)
            x = jnp.expand_dims(x, 0) if is_single and x.ndim == 3 else x
            ab = x if ab is None else ab + x
    ab = None if ab is None else jnp.broadcast_to(ab, (b, n, t, s))
    ids = None
    if query_lengths is not None or key_lengths is not None:
        ids = SegmentIds(_ids(query_lengths, b, t, 1), _ids(key_lengths, b, s, 2))
    result = jnp.swapaxes(flash_attention(q, k, v, ab, ids, causal=is_causal), 1, 2)
    return result[0] if is_single else result


def _ids(lengths: Any, batch: int, size: int, behind: int) -> Any:
    """[batch, size]: 0 for the places that count, `behind` for others."""
    if lengths is None:
        return jnp.zeros((batch, size), np.int32)
    counts = jnp.arange(size, dtype=np.int32)[None, :] < jnp.asarray(lengths)[:, None]
    return jnp.where(counts, 0, behind).astype(np.int32)
