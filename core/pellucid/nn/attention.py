"""Scaled dot-product attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pellucid import numpy as jnp
from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    ShapeError,
    dtypes,
    public_functions,
)
from pellucid._machine.base.late import late
from pellucid._machine.tracing import type_of
from pellucid.numpy.promotion import aval_of

from .cudnn import AttentionSetting
from .cudnn_support import check_operands
from .fused_attention import attention_and_sums, differentiable_attention
from .plain_attention import Window, attention_mask, broadcast_to_heads, plain_attention


def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: ArrayLike | None = None,
    key_value_seq_lengths: ArrayLike | None = None,
    local_window_size: int | Window | None = None,
    implementation: str | None = None,
    return_residual: bool = False,
) -> Any:
    """`softmax(scale * query key^T + bias) value` for each head (Vaswani et al., "Attention is all you need", 2017).

    `query`: [B, T, N, H] or [T, N, H]; `key` and `value`: [B, S, K, H], where K divides N: each of their heads serves
    N / K heads of the query. Result: shape of `query`. `scale`: 1 / sqrt(H) by default.
    `bias` and the bool `mask` broadcast to [B, N, T, S]; where the mask is false, nothing is attended to. `is_causal`:
    position t attends to s ≤ t. `query_seq_lengths` and `key_value_seq_lengths` [B]: how many positions count; results
    beyond are 0. `local_window_size`: how many positions before and after are attended to, one number for both.
    `return_residual`: also the logarithms [B, T, N] of the sums of exponentials. Softmax is computed in float32.
    `implementation`: None and "xla" are the plain form. The others have no [T, S] matrix in memory, and no forward mode. "kernel" is several times
    quicker for long sequences, on every device, and gives 0 where nothing is attended to; a bias or a mask lies in memory; it has no local window or residuals. "cudnn"
    is one kernel of cuDNN on NVIDIA GPUs, and the plain form elsewhere; it has no second derivatives, and what a query that sees no key gives is undefined.
    Raises: ShapeError for operands that don't fit; UnsupportedError for what an implementation hasn't, and for "cudnn" for dtypes other than float16 and
    bfloat16, head sizes above 256 or that 8 doesn't divide, and odd lengths with a bias, a mask or a derivative.

    >>> x = jnp.ones((1, 2, 1, 4))
    >>> dot_product_attention(x, x, x, is_causal=True).shape
    (1, 2, 1, 4)
    """
    if implementation not in (None, "xla", "kernel", "cudnn"):
        raise ArgumentValueError(
            'nn.dot_product_attention has the implementations "xla", "kernel" and "cudnn".',
            got=f"got {implementation!r}",
        )
    avals = [aval_of("nn.dot_product_attention", x, i) for i, x in enumerate((query, key, value))]
    texts = [
        f"{name}: {aval.text()}"
        for name, aval in zip(("query", "key", "value"), avals, strict=True)
    ]
    shapes = [aval.shape for aval in avals]
    if len({len(shape) for shape in shapes}) > 1 or len(shapes[0]) not in (3, 4):
        raise ShapeError(
            "nn.dot_product_attention needs operands [B, T, N, H] or [T, N, H], all alike.",
            got=texts,
        )
    q, k, v = shapes
    if k != v or q[-1] != k[-1] or q[:-3] != k[:-3] or not k[-2] or q[-2] % k[-2]:
        raise ShapeError(
            "nn.dot_product_attention needs key and value of one shape, with the batch and the head size of the query, "
            "and a number of heads that divides the query's.",
            got=texts,
        )
    if mask is not None and aval_of("nn.dot_product_attention", mask, 4).dtype != np.bool_:
        raise ArgumentValueError(
            "nn.dot_product_attention needs a mask of bools.", got=f"mask: {type_of(mask).text()}"
        )
    size = local_window_size
    window = (size, size) if isinstance(size, int) else size
    # Kernels have no blocks of empty arrays.
    is_kernel = implementation == "kernel" and 0 not in (*q, *k)
    attention = late("attention by kernels") if is_kernel else plain_attention
    if implementation == "cudnn":
        check_operands(*avals)
        attention = _attention_of_cudnn
    return attention(
        query, key, value, bias, mask, query_seq_lengths, key_value_seq_lengths,
        1 / math.sqrt(q[-1]) if scale is None else scale, bool(is_causal), window, bool(return_residual),
    )  # fmt: skip


def _attention_of_cudnn(
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
) -> Any:
    """`plain_attention` by one operation, which has no mask of elements: a bias takes its place."""
    query, key, value = map(jnp.asarray, (query, key, value))
    is_single, dtype = query.ndim == 3, query.dtype
    if is_single:
        query, key, value = (jnp.expand_dims(x, 0) for x in (query, key, value))
    b, t, s = *query.shape[:2], key.shape[1]
    if not isinstance(scale, (int, float, np.number)):  # only numbers are part of the call
        query, scale = (query * scale).astype(dtype), 1.0
    # Positions before its own are what the operation's window has; another one is a mask.
    has_own_window = window is not None and (is_causal or window[1] == 0)
    masked = attention_mask(mask, None, None, False, None if has_own_window else window, t, s, is_single)  # fmt: skip
    whole = bias_of_mask(bias, masked, dtype, t, s, is_single=is_single)
    extras: list[Any] = [] if whole is None else [whole]
    has_lengths = query_lengths is not None or key_lengths is not None
    if has_lengths:
        lengths = (
            jnp.full((b,), t) if query_lengths is None else query_lengths,
            jnp.full((b,), s) if key_lengths is None else key_lengths,
        )
        extras += [jnp.asarray(x).astype(np.int32) for x in lengths]
    left = window[0] + 1 if window is not None and has_own_window else 0
    setting = AttentionSetting(float(scale), is_causal, left, whole is not None, has_lengths)
    if not return_residual:
        result = differentiable_attention(setting, query, key, value, *extras)
        return result[0] if is_single else result
    result, sums = attention_and_sums(setting, query, key, value, *extras)
    sums = jnp.moveaxis(sums, 1, 2).astype(dtype)
    return (result[0], sums[0]) if is_single else (result, sums)


def bias_of_mask(bias: Any, mask: Any, dtype: Any, t: int, s: int, *, is_single: bool) -> Any:
    """The bias [B or 1, N or 1, T, S] that hides what the mask doesn't allow, as the operation has no mask of elements; None without both."""
    if bias is None and mask is None:
        return None
    total = jnp.zeros((1, 1, 1, 1), dtype) if bias is None else broadcast_to_heads(bias, is_single)
    if mask is not None:
        lowest = np.asarray(-0.7 * float(dtypes.finfo(dtype).max), dtype)[()]
        total = jnp.where(mask, total, lowest)
    whole = jnp.expand_dims(total, tuple(range(4 - total.ndim)))
    return jnp.broadcast_to(whole, (*whole.shape[:2], t, s)).astype(dtype)


__all__ = ["dot_product_attention"]

public_functions(__all__, globals())
