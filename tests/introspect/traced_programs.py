"""Programs of real functions, traced: a step of training, and a loop that Python unrolled."""

from __future__ import annotations

import dataclasses

import pellucid as pl
import pellucid.numpy as jnp
from pellucid.introspect import schema


def dense(layer, x):
    return x @ layer["w"] + layer["b"]


def loss(params, images, labels):
    hidden = jnp.tanh(dense(params["hidden"], images))
    logits = dense(params["out"], hidden)
    logp = logits - pl.nn.logsumexp(logits, axis=-1, keepdims=True)
    return -(logp * labels).sum(-1).mean()


def step(params, images, labels):
    value, gradients = pl.value_and_grad(loss)(params, images, labels)
    params = pl.tree.map(lambda p, g: p - 0.1 * g, params, gradients)
    return params, value


def _layer(rows: int, columns: int) -> dict[str, pl.ShapeDtypeStruct]:
    return {
        "w": pl.ShapeDtypeStruct((rows, columns), "float32"),
        "b": pl.ShapeDtypeStruct((columns,), "float32"),
    }


def _encoder(wrap):
    def block(x, w):
        return jnp.tanh(x @ w) + x

    def encoder(x, weights):
        for w in weights:
            x = wrap(block)(x, w)
        return (x**2).sum()

    return encoder


def diff_wrapped() -> schema.DiffRecord:
    """Three blocks, each of them wrapped in checkpoint on one side."""
    x = pl.ShapeDtypeStruct((32, 64), "float32")
    weights = [pl.ShapeDtypeStruct((64, 64), "float32")] * 3
    return pl.analysis.diff(_encoder(lambda f: f), _encoder(pl.checkpoint), x, weights)


def train_step() -> schema.ProgramRecord:
    """A step of gradient descent of a two-layer perceptron."""
    params = {"hidden": _layer(784, 128), "out": _layer(128, 10)}
    images = pl.ShapeDtypeStruct((32, 784), "float32")
    return pl.analysis.program(step, params, images, pl.ShapeDtypeStruct((32, 10), "float32"))


def compiled_step() -> schema.LensRecord:
    """The step through the compiler."""
    params = {"hidden": _layer(784, 128), "out": _layer(128, 10)}
    images = pl.ShapeDtypeStruct((32, 784), "float32")
    return pl.analysis.lens(step, params, images, pl.ShapeDtypeStruct((32, 10), "float32"))


def recurrent(weights, inputs):
    def cell(state, x):
        state = jnp.tanh(weights @ state + x)
        return state, state

    _, states = pl.lax.scan(cell, jnp.zeros(64), inputs)
    return (states**2).sum()


def compiled() -> schema.CompiledRecord:
    """A loop and its gradient, compiled."""
    weights = pl.ShapeDtypeStruct((64, 64), "float32")
    inputs = pl.ShapeDtypeStruct((50, 64), "float32")
    return pl.analysis.compiled(pl.value_and_grad(recurrent), weights, inputs)


def timed_compiled() -> schema.CompiledRecord:
    """The same with times of its kernels, 1 µs for the first, 2 µs for the second and so on."""
    record = compiled()
    kernels = [
        dataclasses.replace(each, seconds=1e-6 * i) for i, each in enumerate(record.kernels, 1)
    ]
    return dataclasses.replace(record, kernels=kernels)


def gradient() -> schema.ProgramRecord:
    """The gradient alone: all of its equations come from one function."""
    params = {"hidden": _layer(784, 128), "out": _layer(128, 10)}
    images = pl.ShapeDtypeStruct((32, 784), "float32")
    return pl.analysis.program(
        pl.grad(loss), params, images, pl.ShapeDtypeStruct((32, 10), "float32")
    )


def unrolled(x):
    for _ in range(2500):
        y = jnp.sin(x) * 0.5
        z = jnp.cos(y)
        x = x + z * y - 1.0
    return x


def pattern() -> schema.ProgramRecord:
    """15,000 equations: six of them, 2,500 times."""
    return pl.analysis.program(unrolled, pl.ShapeDtypeStruct((8,), "float32"))


def mesh() -> schema.ShardingRecord:
    """A mesh itself, of two axes."""
    record = pl.introspect.sharding(pl.sharding.AbstractMesh((2, 4), ("data", "model")))
    placed = dataclasses.replace(record.mesh, device_ids=[*range(8)], process_indices=[0] * 8)
    return dataclasses.replace(record, mesh=placed)


def what_if() -> schema.WhatIfRecord:
    """A perceptron over 64 devices, with the placements that a search found."""
    mesh = pl.sharding.AbstractMesh((16, 4), ("data", "model"))

    def placed(shape: tuple[int, ...], *spec: str | None) -> pl.ShapeDtypeStruct:
        sharding = pl.NamedSharding(mesh, pl.P(*spec))
        return pl.ShapeDtypeStruct(shape, "float32", sharding=sharding)

    layers = {"up": placed((256, 1024), None, "model"), "down": placed((1024, 256), "model")}
    possible = pl.analysis.WhatIf(perceptron, layers, placed((512, 256), "data"))
    changed = possible.placement({"data": 8, "model": 8}, {"*['up']": pl.P()})
    return possible.record(changed, pl.analysis.fastest(possible, changed, count=3))


def perceptron(layers, x):
    return (jnp.tanh(x @ layers["up"]) @ layers["down"]).sum()
