"""Models in plain Python, written against the array library given: a vision transformer, a ResNet and a U-Net.

Each is a pair of its parameters and its loss, a function of parameters and a batch of images.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

BATCH, SIZE, CLASSES = 4, 32, 10
Model = tuple[Any, Callable[[Any, Any], Any]]
_rng = np.random.default_rng(0)


def images() -> np.ndarray:
    """A batch of random images, with their channels last."""
    return np.random.default_rng(1).normal(size=(BATCH, SIZE, SIZE, 3)).astype(np.float32)


def _weights(*shape: int) -> np.ndarray:
    return (_rng.normal(size=shape) / np.sqrt(np.prod(shape[:-1]))).astype(np.float32)


def vit(jax: Any, *, layers: int = 12, width: int = 64, heads: int = 4, patch: int = 8) -> Model:
    """A vision transformer: patches, equal layers with weights of their own in a Python loop, a mean, classes."""
    jnp = jax.numpy
    n = (SIZE // patch) ** 2
    parameters = {
        "patch": _weights(patch * patch * 3, width),
        "position": _weights(n, width),
        "layers": [
            {
                **{name: _weights(width, width) for name in ("q", "k", "v", "out")},
                "up": _weights(width, 4 * width),
                "down": _weights(4 * width, width),
                "scale": np.ones((2, width), np.float32),
            }
            for _ in range(layers)
        ],
        "head": _weights(width, CLASSES),
    }

    def normalized(x: Any, scale: Any) -> Any:
        return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale

    def layer(p: Any, x: Any) -> Any:
        y = normalized(x, p["scale"][0])
        q, k, v = ((y @ p[name]).reshape(*x.shape[:2], heads, -1) for name in ("q", "k", "v"))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(width // heads)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
        x = x + mixed.reshape(x.shape) @ p["out"]
        return x + jax.nn.gelu(normalized(x, p["scale"][1]) @ p["up"]) @ p["down"]

    def loss(p: Any, batch: Any) -> Any:
        x = batch.reshape(BATCH, SIZE // patch, patch, SIZE // patch, patch, 3)
        x = x.transpose(0, 1, 3, 2, 4, 5).reshape(BATCH, n, -1) @ p["patch"] + p["position"]
        for each in p["layers"]:
            x = layer(each, x)
        return -jax.nn.log_softmax(x.mean(1) @ p["head"])[:, 0].mean()

    return parameters, loss


def _convolution(jax: Any, x: Any, w: Any, stride: int = 1) -> Any:
    numbers = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=numbers)


def resnet(jax: Any, *, blocks: int = 3, widths: tuple[int, ...] = (16, 32, 64)) -> Model:
    """A ResNet: stages of `blocks` residual blocks, each stage at half the size and twice the width of the one before."""
    jnp = jax.numpy

    def block_weights(before: int, after: int) -> Any:
        return {
            "first": _weights(3, 3, before, after),
            "second": _weights(3, 3, after, after),
            "scale": np.ones((2, after), np.float32),
            "short": _weights(1, 1, before, after) if before != after else None,
        }

    stages = [
        [block_weights(before, after), *(block_weights(after, after) for _ in range(blocks - 1))]
        for before, after in itertools.pairwise((widths[0], *widths))
    ]
    parameters = {
        "stem": _weights(3, 3, 3, widths[0]),
        "stages": stages,
        "head": _weights(widths[-1], CLASSES),
    }

    def normalized(x: Any, scale: Any) -> Any:
        mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
        return (x - mean) / jnp.sqrt(variance + 1e-5) * scale

    def block(p: Any, x: Any, stride: int) -> Any:
        y = _convolution(jax, x, p["first"], stride)
        y = jax.nn.relu(normalized(y, p["scale"][0]))
        y = normalized(_convolution(jax, y, p["second"]), p["scale"][1])
        short = x if p["short"] is None else _convolution(jax, x, p["short"], stride)
        return jax.nn.relu(y + short)

    def loss(p: Any, batch: Any) -> Any:
        x = _convolution(jax, batch, p["stem"])
        for i, stage in enumerate(p["stages"]):
            for j, each in enumerate(stage):
                x = block(each, x, 2 if i and not j else 1)
        return -jax.nn.log_softmax(x.mean((1, 2)) @ p["head"])[:, 0].mean()

    return parameters, loss


def u_net(jax: Any, *, widths: tuple[int, ...] = (16, 32, 64)) -> Model:
    """A U-Net: levels of two convolutions on the way down and up, joined at each size."""
    jnp = jax.numpy
    parameters = {
        "down": [
            (_weights(3, 3, before, after), _weights(3, 3, after, after))
            for before, after in itertools.pairwise((3, *widths))
        ],
        "up": [
            (_weights(3, 3, below + level, level), _weights(3, 3, level, level))
            for level, below in itertools.pairwise(widths)
        ],
        "last": _weights(1, 1, widths[0], 3),
    }

    def level(pair: Any, x: Any) -> Any:
        for w in pair:
            x = jax.nn.relu(_convolution(jax, x, w))
        return x

    def loss(p: Any, batch: Any) -> Any:
        x, sides = batch, []
        for pair in p["down"]:
            x = level(pair, x)
            sides.append(x)
            x = x.reshape(BATCH, x.shape[1] // 2, 2, x.shape[2] // 2, 2, -1).max((2, 4))
        x = sides.pop()
        for pair in reversed(p["up"]):
            doubled = jnp.repeat(jnp.repeat(x, 2, axis=1), 2, axis=2)
            x = level(pair, jnp.concatenate([doubled, sides.pop()], -1))
        return ((_convolution(jax, x, p["last"]) - batch) ** 2).mean()

    return parameters, loss


MODELS = {"ViT": vit, "ResNet": resnet, "U-Net": u_net}
