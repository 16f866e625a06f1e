"""A network of flax.nnx with batch normalization and dropout learns to read digits; its modules are objects with state.

Run it with jax, or on pellucid: `python -m pellucid.as_jax examples/libraries/nnx_digits.py`.
"""

from __future__ import annotations

import sys

import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from sklearn.datasets import load_digits

BATCH = 64


class Network(nnx.Module):
    """A convolution, a hidden layer with normalization and dropout, and a score for each digit."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.conv = nnx.Conv(1, 12, (3, 3), strides=2, rngs=rngs)
        self.hidden = nnx.Linear(4 * 4 * 12, 48, rngs=rngs)
        self.norm = nnx.BatchNorm(48, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)
        self.scores = nnx.Linear(48, 10, rngs=rngs)

    def __call__(self, images: jnp.ndarray) -> jnp.ndarray:
        x = nnx.relu(self.conv(images))
        x = self.norm(self.hidden(x.reshape(x.shape[0], -1)))
        return self.scores(self.dropout(nnx.relu(x)))


def loss_of(network: Network, images: jnp.ndarray, digits: jnp.ndarray) -> jnp.ndarray:
    """Cross-entropy of a batch."""
    return optax.softmax_cross_entropy_with_integer_labels(network(images), digits).mean()


@nnx.jit
def step(
    network: Network, optimizer: nnx.Optimizer, images: jnp.ndarray, digits: jnp.ndarray
) -> jnp.ndarray:
    """One step of Adam, which changes network and optimizer in place."""
    loss, gradients = nnx.value_and_grad(loss_of)(network, images, digits)
    optimizer.update(network, gradients)
    return loss


def main(steps: int = 120) -> list[float]:
    """The loss of each step."""
    data = load_digits()
    images = (data.images / 16).astype(np.float32)[..., None]
    digits = data.target.astype(np.int32)
    network = Network(nnx.Rngs(0))
    optimizer = nnx.Optimizer(network, optax.adam(3e-3), wrt=nnx.Param)
    losses = []
    for i in range(steps):
        batch = np.arange(i * BATCH, (i + 1) * BATCH) % len(images)
        losses.append(float(step(network, optimizer, images[batch], digits[batch])))
    return losses


if __name__ == "__main__":
    losses = main(*map(int, sys.argv[1:]))
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}")
