"""The plain form of attention of one query for each sequence."""

from __future__ import annotations

from typing import Any

import pellucid.numpy as jnp
from pellucid._machine.base import ShapeError
from pellucid._machine.tracing import type_of
from pellucid.experimental.pallas.ops.gpu.paged_attention import paged_attention_reference
from pellucid.experimental.pallas.ops.online_softmax import DEFAULT_MASK_VALUE

from .quantization_utils import QuantizedTensor, unquantize_from_int8

MASK_VALUE = DEFAULT_MASK_VALUE


def grouped_query_attention_reference(
    queries: Any,
    k_pages: Any,
    v_pages: Any,
    seq_lens: Any,
    soft_cap: float | None = None,
    debug: bool = False,
) -> Any:
    """`softmax(q k^T) v` over the first `seq_lens` [batch] keys: [batch, heads, head size].

    `queries`: [batch, heads, head size]; `k_pages`, `v_pages`: [batch, heads of keys, keys, head size], numbers or `QuantizedTensor`. Logits aren't scaled; with a
    `soft_cap` c they are `c tanh(logit / c)`. `debug` changes nothing. Raises: ShapeError for operands that don't fit.

    >>> keys = jnp.ones((1, 1, 5, 8))
    >>> grouped_query_attention_reference(jnp.ones((1, 2, 8)), keys, keys, jnp.array([3])).shape
    (1, 2, 8)
    """
    k, v = [
        unquantize_from_int8(x) if isinstance(x, QuantizedTensor) else jnp.asarray(x)
        for x in (k_pages, v_pages)
    ]
    queries = jnp.asarray(queries)
    if (
        k.ndim != 4
        or queries.ndim != 3
        or k.shape[0] != queries.shape[0]
        or queries.shape[1] % k.shape[1]
    ):
        raise ShapeError(
            "grouped_query_attention_reference needs queries [batch, heads, head size] and keys [batch, heads of keys, keys, head size].",
            got=f"queries: {type_of(queries).text()}, keys: {type_of(k).text()}",
        )
    k, v = [jnp.swapaxes(x, 1, 2) for x in (k, v)]
    return paged_attention_reference(queries, k, v, seq_lens, attn_logits_soft_cap=soft_cap)


__all__ = ["MASK_VALUE", "grouped_query_attention_reference"]
