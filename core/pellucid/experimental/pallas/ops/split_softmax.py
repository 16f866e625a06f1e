"""Attention of one query for each head over keys that are divided among programs, whose results are joined afterwards.

Each part has its largest logit m, the sum l of exp(logit - m), and the sum o of exp(logit - m) times the values. With M the largest m the whole has
`l = sum exp(m - M) l` and `o = sum exp(m - M) o` (Dao et al., Flash-Decoding, 2023).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import pellucid.numpy as jnp


def joined(
    weighted: Any, total: Any, largest: Any, *, axis: int, normalized: bool
) -> tuple[Any, Any, Any]:
    """(weighted sum or mean of the values, sum of exp(logit - largest), largest logit), of all parts along `axis`.

    `weighted` has the head size as its last axis, behind those of the others. Without a key: 0, 0, -inf.
    """
    whole = largest.max(axis=axis, keepdims=True)
    factors = jnp.exp(largest - jnp.where(whole == -jnp.inf, 0, whole))
    total = (factors * total).sum(axis=axis)
    weighted = (factors[..., None] * weighted).sum(axis=axis)
    if normalized:
        weighted = weighted / jnp.where(total == 0, 1, total)[..., None]
    return weighted, total, jnp.squeeze(whole, axis)


def as_lengths(x: Any, batch: int, default: int) -> Any:
    """[batch] integers, from one for all, one for each, or None for `default`."""
    return jnp.broadcast_to(jnp.asarray(default if x is None else x).astype(np.int32), (batch,))
