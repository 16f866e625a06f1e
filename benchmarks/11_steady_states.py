"""How fast are compiled programs of other kinds, once they run, with jitted layers and flat?

Each row is a program of four layers: its gradient with respect to the weights, where it has one. `flat` calls the layer
as a Python function, `calls` as a jitted one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from versus import Target, compare, per_call

LAYERS = 4
_rng = np.random.default_rng(0)


def _array(*shape: int, scale: float = 0.1) -> np.ndarray:
    return (_rng.normal(size=shape) * scale).astype(np.float32)


def _weights(*shapes: tuple[int, ...]) -> list[tuple[np.ndarray, ...]]:
    return [tuple(_array(*shape) for shape in shapes) for _ in range(LAYERS)]


def programs(jax: Any) -> dict[str, tuple[Callable[..., Any], Any, Any, bool]]:
    """By name: a layer (weights, x) -> x, the weights of all layers, x, and whether it is differentiated."""
    jnp, lax = jax.numpy, jax.lax

    def conv(x: Any, w: Any, stride: int = 1) -> Any:
        numbers = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=numbers)

    def relu(x: Any) -> Any:
        return jnp.maximum(x, 0)

    def normalized(x: Any) -> Any:
        return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)

    def resnet(w: Any, x: Any) -> Any:
        return x + conv(relu(normalized(conv(x, w[0]))), w[1])

    def u_net(w: Any, x: Any) -> Any:
        half = relu(conv(x, w[0], stride=2))
        whole = jnp.repeat(jnp.repeat(half, 2, axis=1), 2, axis=2)
        return relu(conv(jnp.concatenate([x, whole], -1), w[1]))

    def attended(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 4
        weights = jnp.exp(scores - lax.stop_gradient(scores.max(-1, keepdims=True)))
        return jnp.einsum("bhqk,bkhd->bqhd", weights / weights.sum(-1, keepdims=True), v)

    def vit(w: Any, x: Any) -> Any:
        q, k, v = (normalized(x) @ m for m in w[:3])
        heads = (*x.shape[:2], 4, 16)
        x = x + attended(*(y.reshape(heads) for y in (q, k, v))).reshape(x.shape) @ w[3]
        return x + jnp.tanh(normalized(x) @ w[4]) @ w[5]

    def attention(w: Any, x: Any) -> Any:
        return attended(x * w[0], x, x)

    def rnn(w: Any, x: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = jnp.tanh(h @ w[0] + x @ w[1])
            return h, h

        return lax.scan(step, jnp.zeros_like(x[0]), x)[1]

    def sorting(w: Any, x: Any) -> Any:
        return jnp.sort(x * w[0], axis=-1) + x[:, jnp.argsort(w[0])]

    def scatter(w: Any, x: Any) -> Any:
        index = (jnp.abs(x[:, 0]) * 1000).astype(jnp.int32) % x.shape[0]
        return jnp.tanh(x.at[index].add(x * w[0])[::-1])

    def fft(w: Any, x: Any) -> Any:
        return jnp.fft.irfft(jnp.fft.rfft(x) * w[0], n=x.shape[-1])

    square = (64, 64)
    images = _array(8, 32, 32, 16, scale=1.0)
    return {
        "ResNet": (resnet, _weights((3, 3, 16, 16), (3, 3, 16, 16)), images, True),
        "U-Net": (u_net, _weights((3, 3, 16, 32), (3, 3, 48, 16)), images, True),
        "ViT": (
            vit, _weights(*[square] * 4, (64, 256), (256, 64)), _array(8, 65, 64, scale=1.0), True,
        ),
        "attention": (attention, _weights((32,)), _array(4, 128, 4, 32, scale=1.0), True),
        "RNN": (rnn, _weights(square, square), _array(64, 16, 64, scale=1.0), True),
        "sorting": (sorting, _weights((512,)), _array(256, 512, scale=1.0), True),
        "scatter": (scatter, _weights((128,)), _array(2048, 128, scale=1.0), True),
        "FFT": (fft, _weights((257,)), _array(256, 512, scale=1.0), True),
        "sorting, forward": (sorting, _weights((512,)), _array(256, 512, scale=1.0), False),
        "RNN, forward": (rnn, _weights(square, square), _array(64, 16, 64, scale=1.0), False),
    }  # fmt: skip


def measurements(jax: Any) -> dict[str, Any]:
    """Seconds of one run of each program."""

    def measured(layer: Any, weights: Any, x: Any, is_differentiated: bool) -> Callable[[], float]:
        def loss(weights: Any, x: Any) -> Any:
            y = functools.reduce(lambda y, w: layer(w, y), weights, x)
            return (y * y).mean()

        step = jax.jit(jax.grad(loss) if is_differentiated else loss)
        arguments = jax.device_put((weights, x))
        return lambda: per_call(lambda: jax.block_until_ready(step(*arguments)), seconds=0.4)

    return {
        f"{name}, {how}": measured(jax.jit(layer) if how == "calls" else layer, *rest)
        for name, (layer, *rest) in programs(jax).items()
        for how in ("flat", "calls")
    }


if __name__ == "__main__":
    compare(__file__, {}, otherwise=Target(1.05, "ms"))
