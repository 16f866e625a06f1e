"""Expressions of objects that become arrays by `__jax_array__`."""

from __future__ import annotations

from typing import Any

import numpy as np


class Wrapped:
    """An array in an object of its own."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __jax_array__(self) -> Any:
        return self.array


def evaluate(jax: Any, text: str) -> Any:
    """The value of an expression of the vector `x`, of `o`, which wraps it, and of `W`, which wraps anything."""
    x = jax.numpy.arange(3.0)
    return eval(
        text,
        {
            "jax": jax,
            "jnp": jax.numpy,
            "lax": jax.lax,
            "np": np,
            "x": x,
            "o": Wrapped(x),
            "W": Wrapped,
        },
    )


AS_THE_REFERENCE = [
    "jnp.asarray(o)", "jnp.array(o)", "jnp.array([o, o])", "x + o", "o.array - o", "x @ o", "x ** o", "x == o", "divmod(x, o)",
    "jnp.concatenate([x, o])", "jnp.stack([o, o])", "jnp.reshape(o, (3, 1))", "jnp.transpose(o)", "jnp.tile(o, 2)",
    "jnp.broadcast_to(o, (2, 3))", "jnp.expand_dims(o, 0)", "jnp.squeeze(o)", "jnp.power(o, 2)", "jnp.power(2.0, o)",
    "jnp.repeat(o, 2)", "jnp.diag(o)", "jnp.split(o, 3)", "jnp.array_equal(o, x)", "jnp.fft.fft(o)", "jnp.roll(o, 1)",
    "jnp.einsum('i,i', o, o)", "jnp.tensordot(o, o, 1)", "jnp.flip(o)", "jnp.nonzero(o)", "jnp.meshgrid(o, o)",
    "x.at[0].set(W(jnp.float32(3)))", "jax.jit(lambda: x + o)()", "jax.jit(lambda a: a + W(a))(x)",
    "jax.jit(lambda a: W(a) + a)(x)", "jnp.eye(3, k=W(jnp.int32(1)))", "jnp.matrix_transpose(W(jnp.ones((2, 3))))",
    "jax.grad(lambda a: jnp.reshape(W(a * a), (3, 1)).sum())(x)", "jax.vmap(lambda a: jnp.asarray(W(a)) * 2)(x)",
    "jax.vmap(lambda a: a + W(a))(x)", "jnp.zeros_like(o)", "jnp.full_like(o, 2)", "jnp.argmax(o)",
]  # fmt: skip

BEYOND_THE_REFERENCE = {
    "jnp.sin(o)": "jnp.sin(x)", "jnp.sum(o)": "x.sum()", "jnp.add(o, 1)": "x + 1", "jnp.where(x > 1, o, 0)": "jnp.where(x > 1, x, 0)",
    "jax.jit(lambda a: a + 1)(o)": "x + 1", "jax.jit(lambda a: jnp.sin(W(a)))(x)": "jnp.sin(x)", "lax.add(o, o)": "x + x",
    "jax.vmap(lambda a: jnp.sin(W(a)))(x)": "jnp.sin(x)", "x[W(jnp.array([1, 0]))]": "x[jnp.array([1, 0])]",
    "jax.grad(lambda a: lax.cos(W(a)))(1.0)": "jax.grad(lax.cos)(1.0)", "jax.vmap(lambda a: lax.cos(W(a)))(x)": "lax.cos(x)",
    "jax.jvp(lambda a: lax.mul(W(a), a), (x,), (x,))": "jax.jvp(lambda a: a * a, (x,), (x,))", "jax.device_put(o)": "x", "jax.vmap(jnp.sin)(o)": "jnp.sin(x)",
}  # fmt: skip
"""What the reference refuses, and what it means."""
