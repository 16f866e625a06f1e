"""Expressions of arrays of 64 bits that were made while these were on, evaluated while they are off."""

from __future__ import annotations

from typing import Any

import numpy as np


def evaluate(jax: Any, text: str) -> Any:
    """The value of an expression of `a` (float64), `i` (int64), `c` (complex128) and `b` (float32), vectors of three."""
    with jax.enable_x64(True):
        a, i = jax.numpy.arange(3.0) + 0.5, jax.numpy.arange(3)
        c, b = a * 1j, jax.numpy.float32([1, 2, 3])
    names = {"jax": jax, "jnp": jax.numpy, "lax": jax.lax, "np": np, "a": a, "i": i, "c": c, "b": b}
    return eval(text, names)


AS_THE_REFERENCE = [
    "a + 1", "a + 1.5", "1 + a", "a * b", "b * a", "a + a", "-a", "jnp.sin(a)", "a.sum()", "a.mean()", "a.max()",
    "jnp.cumsum(a)", "jnp.cumprod(a)", "jnp.sort(a)", "a[0]", "a[1:]", "a[jnp.array([0, 1])]", "a.at[0].set(1)",
    "a @ a", "jnp.concatenate([a, b])", "jnp.stack([a, a])", "jnp.where(a > 1, a, 0)", "jnp.where(a > 1, a, b)",
    "jax.jit(lambda x: x)(a)", "jax.jit(lambda x: x + 1)(a)", "jax.jit(lambda x: x * x)(a)",
    "jax.grad(lambda x: (x * x).sum())(a)", "jax.vmap(lambda x: x * 2)(a)",
    "lax.scan(lambda c, x: (c + x, c), a[0], a)", "lax.scan(lambda c, x: (c + x, c), 0.0, a)",
    "jax.jit(lambda x: lax.scan(lambda c, y: (c + y, y), x[0], x))(a)", "jnp.zeros_like(a)", "jnp.full_like(a, 2)",
    "jnp.ones_like(a)", "a ** 2", "a ** 2.0", "a ** a", "i + 1", "i.sum()", "i * a", "i / 2", "i // 2", "i % 2",
    "i < 2", "i == 1", "c + 1", "c.real", "abs(c)", "c * a", "jnp.std(a)", "jnp.var(a)", "jnp.clip(a, 0, 1)",
    "jnp.max(a, initial=0)", "jnp.prod(a)", "jnp.nansum(a)", "jnp.average(a)", "jnp.arctan2(a, b)", "jnp.diag(a)",
    "jnp.tril(a[None])", "a + np.float64(1)", "a + np.arange(3.0)", "a.sum() + a", "jnp.einsum('i,i', a, b)",
    "jax.eval_shape(lambda x: x + 1, a)", "jax.checkpoint(lambda x: x * 2)(a)", "jnp.roll(a, 1)", "lax.add(a, a)",
    "jax.vmap(jnp.sum)(a[None])", "a.astype(float)", "jnp.array(a, dtype=float)", "jnp.repeat(a, 2)",
    "jnp.sort(c)", "jnp.sort(i)", "jnp.argsort(a)", "jnp.argsort(c)", "jnp.lexsort((c, a))", "jax.jit(jnp.sort)(c)",
    "jax.vmap(jnp.sort)(c[None])", "lax.sort((c, i), num_keys=2)", "lax.sort([a, c, b], num_keys=2)", "jnp.median(a)",
    "jnp.unique(a)", "lax.top_k(a, 2)", "lax.cummax(a)", "lax.cumlogsumexp(a)", "a.at[0].max(1)",
    "lax.reduce_window(a, a[0] - a[0], lambda x, y: x + y, (2,), (1,), 'VALID')",
    "lax.reduce_window(a, a[0] - a[0], lax.max, (2,), (1,), 'VALID')",
    "jnp.fft.rfft(a)", "jnp.fft.ihfft(a)", "jnp.fft.rfftn(a)",
]  # fmt: skip
