"""Attention over blocks of keys: a softmax whose maximum and sum grow block by block, and its derivative from what was kept.

For logits s of one query and values v the result is `sum_j exp(s_j - m) v_j / l`, with `l = sum_j exp(s_j - m)`. After some of the
keys, m, l and the sum over v are known for these; a block with a larger maximum scales them by `exp(m_old - m_new)`. Sources:
Milakov and Gimelshein, Online normalizer calculation for softmax (2018); Dao et al., FlashAttention (2022), algorithm 4
for the derivative. A key that isn't visible has no weight; a query that sees no key has the result 0.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import pellucid.numpy as jnp
from pellucid._machine.base import ArgumentValueError, dtypes

DEFAULT_MASK_VALUE = -0.7 * float(np.finfo(np.float32).max)
"""What the reference puts in the place of logits that aren't visible."""
_LARGEST_MASK_VALUE = -1e4


class Progress(NamedTuple):
    """The softmax of some queries over the keys seen so far: weighted sums, sums of exponentials, largest logits."""

    largest: Any
    """[queries, 1]: the largest logit so far, -inf before the first."""
    total: Any
    """[queries, 1]: the sum of exp(logit - largest)."""
    weighted: Any
    """[queries, head size]: the sum of exp(logit - largest) times the values."""

    def after(self, logits: Any, visible: Any, values: Any) -> Progress:
        """The progress after another block: `logits` and `visible` [queries, keys], `values` [keys, head size].

        `visible` is None where all keys are.
        """
        seen = logits if visible is None else jnp.where(visible, logits, -jnp.inf)
        largest = jnp.maximum(self.largest, seen.max(axis=1, keepdims=True))
        # Without a key the largest logit is -inf, from which nothing can be subtracted.
        shift = jnp.where(largest == -jnp.inf, 0, largest)
        weights = jnp.exp(seen - shift)
        before = jnp.exp(self.largest - shift)
        total = before * self.total + weights.sum(axis=1, keepdims=True)
        product = _product(weights.astype(values.dtype), values)
        return Progress(largest, total, before * self.weighted + product)

    def result(self) -> Any:
        """[queries, head size]: the weighted mean of the values; 0 without a visible key."""
        return self.weighted / jnp.where(self.total == 0, 1, self.total)

    def logsumexp(self) -> Any:
        """[queries, 1]: the logarithm of the sum of exp(logit); -inf without a visible key."""
        return self.largest + jnp.log(self.total)


def nothing_seen(queries: int, head_size: int, dtype: Any) -> Progress:
    """The progress before the first key."""
    return Progress(
        jnp.full((queries, 1), -jnp.inf, dtype),
        jnp.zeros((queries, 1), dtype),
        jnp.zeros((queries, head_size), dtype),
    )


@dataclass(frozen=True)
class Logits:
    """How logits come from queries and keys: `scale * q k^T`, and with a cap c `c tanh(that / c)`."""

    scale: Any = 1.0
    soft_cap: float | None = None

    def of(self, queries: Any, keys: Any, bias: Any = None) -> Any:
        """[queries, keys], in float32 or wider. A `bias` is added before the scale."""
        logits = _product(queries, keys.T)
        if bias is not None:
            logits = logits + bias.astype(logits.dtype)
        logits = logits * jnp.asarray(self.scale, logits.dtype)
        if self.soft_cap is None:
            return logits
        return self.soft_cap * jnp.tanh(logits / self.soft_cap)

    def of_products(self, logits: Any, derivative: Any) -> Any:
        """The derivative with respect to `q k^T + bias`, from that with respect to the logits."""
        if self.soft_cap is not None:
            derivative = derivative * (1 - (logits / self.soft_cap) ** 2)
        return derivative * jnp.asarray(self.scale, derivative.dtype)


class Block(NamedTuple):
    """One block of queries and one of keys in the backward pass."""

    queries: Any
    keys: Any
    values: Any
    cotangents: Any
    """[queries, head size]: of the result."""
    logsumexp: Any
    """[queries, 1]: +inf for a query that sees no key."""
    delta: Any
    """[queries, 1]: the sum of cotangent times result."""

    def derivatives(self, logits: Logits, visible: Any, bias: Any = None) -> tuple[Any, Any]:
        """(weights, derivatives of `q k^T + bias`), both [queries, keys].

        With weights p and cotangents g of the result the derivative of a logit is `p (g v^T - delta)`.
        """
        s = logits.of(self.queries, self.keys, bias)
        seen = s if visible is None else jnp.where(visible, s, -jnp.inf)
        weights = jnp.exp(seen - self.logsumexp)
        cotangents = _product(self.cotangents, self.values.T)
        derivative = weights * (cotangents - self.delta)
        products = logits.of_products(s, derivative)
        # An infinite logit has a tangent of 0 where it has no weight.
        return weights, jnp.where(weights == 0, 0, products)

    def of_queries(self, products: Any) -> Any:
        """What this block adds to the cotangents of the queries."""
        return _product(products.astype(self.keys.dtype), self.keys)

    def of_keys(self, products: Any) -> Any:
        """What this block adds to the cotangents of the keys."""
        return _product(products.astype(self.queries.dtype).T, self.queries)

    def of_values(self, weights: Any) -> Any:
        """What this block adds to the cotangents of the values."""
        return _product(weights.astype(self.cotangents.dtype).T, self.cotangents)


def _product(x: Any, y: Any) -> Any:
    return jnp.dot(x, y, preferred_element_type=wide(x.dtype))


def wide(dtype: Any) -> np.dtype:
    """The dtype that sums are computed in: float32, or that of the numbers if it is wider."""
    return dtypes.promote_types(dtype, np.float32)


def all_of(masks: Sequence[Any]) -> Any:
    """The positions that all masks allow; None without one."""
    masks = [mask for mask in masks if mask is not None]
    return functools.reduce(jnp.logical_and, masks) if masks else None


def for_backward(logsumexp: Any) -> Any:
    """`logsumexp` as `Block` takes it: +inf for a query that saw no key, so that all its weights are 0."""
    return jnp.where(logsumexp == -jnp.inf, jnp.inf, logsumexp)


def delta_of(result: Any, cotangent: Any) -> Any:
    """The sum of cotangent times result over the last axis."""
    dtype = wide(result.dtype)
    return (result.astype(dtype) * cotangent.astype(dtype)).sum(axis=-1)


def attention(logits: Any, visible: Any, values: Any) -> tuple[Any, Any]:
    """(result, logarithm of the sum of exponentials), with all logits at once: the plain form of this file.

    `logits` and `visible` are [..., queries, keys], `values` [..., keys, head size].
    """
    seen = logits if visible is None else jnp.where(visible, logits, -jnp.inf)
    largest = seen.max(axis=-1, keepdims=True)
    shift = jnp.where(largest == -jnp.inf, 0, largest)
    weights = jnp.exp(seen - shift)
    total = weights.sum(axis=-1, keepdims=True)
    result = jnp.matmul(weights / jnp.where(total == 0, 1, total), values.astype(weights.dtype))
    return result, (largest + jnp.log(total))[..., 0]


def check_mask_value(caller: str, mask_value: float) -> None:
    """Raise ArgumentValueError for a `mask_value` so large that masked keys would have a weight."""
    if not mask_value <= _LARGEST_MASK_VALUE:
        raise ArgumentValueError(
            f"{caller}: positions that aren't visible have no weight, which `mask_value` must say.",
            got=f"mask_value {mask_value}",
            do=f"Leave it out, or give one of at most {_LARGEST_MASK_VALUE:g}; what shall count a little is a bias.",
        )
