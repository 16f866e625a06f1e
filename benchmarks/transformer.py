"""A 12-layer transformer's forward pass and loss, written against the array library given."""

from __future__ import annotations

from typing import Any

import numpy as np

LAYERS, WIDTH, HEADS, LENGTH, BATCH, VOCABULARY = 12, 64, 4, 16, 2, 128


def parameters(jax: Any) -> Any:
    """Small random parameters, as nested dicts."""
    rng = np.random.default_rng(0)

    def matrix(*shape: int) -> Any:
        return jax.numpy.asarray((rng.normal(size=shape) * 0.02).astype(np.float32))

    layers = [
        {
            "attention": {k: matrix(WIDTH, WIDTH) for k in ("q", "k", "v", "o")},
            "mlp": {"up": matrix(WIDTH, 4 * WIDTH), "down": matrix(4 * WIDTH, WIDTH)},
            "norm1": {"scale": matrix(WIDTH), "bias": matrix(WIDTH)},
            "norm2": {"scale": matrix(WIDTH), "bias": matrix(WIDTH)},
        }
        for _ in range(LAYERS)
    ]
    return {
        "embedding": matrix(VOCABULARY, WIDTH),
        "layers": layers,
        "head": matrix(WIDTH, VOCABULARY),
    }


def tokens(jax: Any, batch: int = BATCH) -> Any:
    """A batch of token numbers."""
    rng = np.random.default_rng(1)
    return jax.numpy.asarray(rng.integers(0, VOCABULARY, size=(batch, LENGTH)).astype(np.int32))


def normalize(jnp: Any, p: Any, x: Any) -> Any:
    mean = jnp.mean(x, axis=-1, keepdims=True)
    centred = x - mean
    variance = jnp.mean(centred * centred, axis=-1, keepdims=True)
    return centred / jnp.sqrt(variance + 1e-5) * p["scale"] + p["bias"]


def attention(jnp: Any, p: Any, x: Any) -> Any:
    def heads(w: Any) -> Any:
        return (x @ w).reshape(*x.shape[:2], HEADS, WIDTH // HEADS).transpose(0, 2, 1, 3)

    q, k, v = heads(p["q"]), heads(p["k"]), heads(p["v"])
    scores = q @ k.transpose(0, 1, 3, 2) / 4.0
    positions = jnp.arange(LENGTH)
    scores = jnp.where(positions[:, None] >= positions, scores, -1e9)
    scores = scores - jnp.max(scores, axis=-1, keepdims=True)
    weights = jnp.exp(scores)
    weights = weights / jnp.sum(weights, axis=-1, keepdims=True)
    mixed = (weights @ v).transpose(0, 2, 1, 3).reshape(x.shape)
    return mixed @ p["o"]


def layer(jnp: Any, p: Any, x: Any) -> Any:
    x = x + attention(jnp, p["attention"], normalize(jnp, p["norm1"], x))
    hidden = gelu(jnp, normalize(jnp, p["norm2"], x) @ p["mlp"]["up"])
    return x + hidden @ p["mlp"]["down"]


def gelu(jnp: Any, x: Any) -> Any:
    return 0.5 * x * (1.0 + jnp.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def forward(jax: Any, p: Any, ids: Any, *, jit_layers: bool = False) -> Any:
    """Logits of the next token at each position."""
    jnp = jax.numpy
    one_layer = (
        jax.jit(lambda q, x: layer(jnp, q, x)) if jit_layers else lambda q, x: layer(jnp, q, x)
    )
    x = p["embedding"][ids]
    for q in p["layers"]:
        x = one_layer(q, x)
    return x @ p["head"]


def loss(jax: Any, p: Any, ids: Any, *, jit_layers: bool = False) -> Any:
    """Mean cross entropy of the next token."""
    jnp = jax.numpy
    logits = forward(jax, p, ids, jit_layers=jit_layers)[:, :-1]
    largest = jnp.max(logits, axis=-1, keepdims=True)
    log_normalizer = jnp.log(jnp.sum(jnp.exp(logits - largest), axis=-1)) + largest[..., 0]
    chosen = jnp.sum(jnp.where(ids[:, 1:, None] == jnp.arange(VOCABULARY), logits, 0.0), axis=-1)
    return jnp.mean(log_normalizer - chosen)


def train_step(jax: Any, *, jit_layers: bool = False, learning_rate: float = 0.1) -> Any:
    """One step of gradient descent: (parameters, tokens) -> (parameters, loss)."""

    def step(p: Any, ids: Any) -> Any:
        value, gradient = jax.value_and_grad(lambda q: loss(jax, q, ids, jit_layers=jit_layers))(p)
        return jax.tree.map(lambda a, g: a - learning_rate * g, p, gradient), value

    return step
