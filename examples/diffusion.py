"""Diffusion in the plane: a network learns what noise was added to points of two moons, and then makes points out of noise.

A point with noise is `sqrt(kept) * point + sqrt(1 - kept) * noise`; who knows the noise knows the way back (Ho et al., 2020).
Run it: python examples/diffusion.py
"""

import numpy as np

import pellucid as jax
import pellucid.numpy as jnp
from pellucid import lax, nn

LEVELS = 50
HIDDEN, LAYERS = 64, 3
BATCH_SIZE = 512
LEARNING_RATE = 3e-3
KEPT_BY_STEP = 1 - np.linspace(1e-4, 0.2, LEVELS, dtype=np.float32)
KEPT = np.cumprod(KEPT_BY_STEP)  # how much of the squared length is the point's, by level


def moons(key, count):
    """Points [count, 2] on two half circles."""
    keys = jax.random.split(key, 3)
    angle = jnp.pi * jax.random.uniform(keys[0], (count,))
    side = jnp.where(jax.random.bernoulli(keys[1], shape=(count,)), 1.0, -1.0)
    points = jnp.stack([jnp.cos(angle) - side / 2, side * jnp.sin(angle) - side / 4], axis=1)
    return points + 0.05 * jax.random.normal(keys[2], (count, 2))


def distances(points):
    """How far `points` [count, 2] are from the nearer half circle."""
    to_curve = []
    for side in (1.0, -1.0):
        x, y = points[:, 0] + side / 2, side * points[:, 1] + 1 / 4
        to_arc = jnp.abs(jnp.hypot(x, y) - 1)
        to_end = jnp.hypot(jnp.abs(x) - 1, y)
        to_curve.append(jnp.where(y >= 0, to_arc, to_end))
    return jnp.minimum(*to_curve)


def initial_params(key):
    """Weights of a network from a point and the features of its level to a noise, with residual layers."""
    keys = jax.random.split(key, 3)
    he = nn.initializers.he_normal()
    return {
        "into": he(keys[0], (2 + 8, HIDDEN)), "bias": jnp.zeros(HIDDEN),
        "middle": he(keys[1], (LAYERS, HIDDEN + 8, HIDDEN)), "biases": jnp.zeros((LAYERS, HIDDEN)),
        "out": 0.1 * he(keys[2], (HIDDEN, 2)),
    }  # fmt: skip


def noise_in(params, points, levels):
    """The noise [batch, 2] that the network sees in `points` [batch, 2] of `levels` [batch]."""
    turns = levels[:, None] / LEVELS * jnp.pi * 2.0 ** jnp.arange(4)
    level = jnp.concatenate([jnp.sin(turns), jnp.cos(turns)], axis=1)
    x = nn.silu(jnp.concatenate([points, level], axis=1) @ params["into"] + params["bias"])

    def block(x, parts):
        weights, bias = parts
        return x + nn.silu(jnp.concatenate([x, level], axis=1) @ weights + bias), None

    x, _ = lax.scan(block, x, (params["middle"], params["biases"]))
    return x @ params["out"]


def loss(params, points, key):
    """Mean squared error of the noise, at levels drawn at random."""
    keys = jax.random.split(key)
    levels = jax.random.randint(keys[0], (len(points),), 0, LEVELS)
    noise = jax.random.normal(keys[1], points.shape)
    kept = jnp.asarray(KEPT)[levels][:, None]
    noisy = jnp.sqrt(kept) * points + jnp.sqrt(1 - kept) * noise
    return jnp.mean((noise_in(params, noisy, levels) - noise) ** 2)


@jax.jit
def train_step(params, means, squares, step, key):
    """(parameters, both moments of Adam, loss) after step number `step`, counted from 1, with fresh points."""
    keys = jax.random.split(key)
    value, gradients = jax.value_and_grad(loss)(params, moons(keys[0], BATCH_SIZE), keys[1])
    means = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, means, gradients)
    squares = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g**2, squares, gradients)
    rate = LEARNING_RATE * jnp.sqrt(1 - 0.999**step) / (1 - 0.9**step)
    update = lambda p, m, s: p - rate * m / (jnp.sqrt(s) + 1e-8)
    return jax.tree.map(update, params, means, squares), means, squares, value


@jax.jit
def sampled(params, key):
    """Points [1000, 2] made of noise, level by level from the last one; the last step adds no noise."""
    keys = jax.random.split(key, LEVELS + 1)

    def step(points, drawn):
        level, key = drawn
        kept, by_step = jnp.asarray(KEPT)[level], jnp.asarray(KEPT_BY_STEP)[level]
        noise = noise_in(params, points, jnp.full(len(points), level))
        points = (points - (1 - by_step) / jnp.sqrt(1 - kept) * noise) / jnp.sqrt(by_step)
        fresh = jnp.sqrt(1 - by_step) * jax.random.normal(key, points.shape)
        return points + jnp.where(level > 0, fresh, 0), None

    drawn = (jnp.arange(LEVELS)[::-1], keys[1:])
    return lax.scan(step, jax.random.normal(keys[0], (1000, 2)), drawn)[0]


def main(steps=2000):
    """Train, print losses and how far points made of noise are from the moons; returns all losses."""
    keys = jax.random.split(jax.random.key(0), steps + 2)
    params = initial_params(keys[0])
    means = squares = jax.tree.map(jnp.zeros_like, params)
    losses = []
    for step in range(1, steps + 1):
        params, means, squares, value = train_step(params, means, squares, step, keys[step])
        losses.append(float(value))
        if step % 200 == 1:
            print(f"step {step:4}  loss {losses[-1]:.4f}")
    away = distances(sampled(params, keys[-1]))
    print(f"of 1000 points made of noise {jnp.mean(away < 0.2):.0%} are within 0.2 of a moon")
    return losses


if __name__ == "__main__":
    main()
