"""Handwritten digits told apart by a convolutional network of haiku with batch normalization; chex checks its shapes.

All of it is written for jax: `python -m pellucid.as_jax examples/libraries/haiku_digits.py` runs it on pellucid.
"""

import chex
import haiku as hk
import jax
import jax.numpy as jnp
import optax
from sklearn.datasets import load_digits

CLASSES = 10


@chex.dataclass(frozen=True)
class Batch:
    """Images (n, 8, 8, 1) and their digits (n)."""

    images: chex.Array
    digits: chex.Array


def network(images: jax.Array, is_training: bool) -> jax.Array:
    """Logits (n, 10) of `images`."""
    x = hk.Conv2D(16, 3)(images)
    x = jax.nn.relu(hk.BatchNorm(True, True, 0.9)(x, is_training))
    x = hk.MaxPool(2, 2, "SAME")(x)
    x = jax.nn.relu(hk.Conv2D(16, 3)(x))
    if is_training:
        x = hk.dropout(hk.next_rng_key(), 0.1, x)
    return hk.nets.MLP([32, CLASSES])(hk.Flatten()(x))


def batches(size: int) -> Batch:
    """All digits in batches of `size`, with a leading axis of batches."""
    data = load_digits()
    n = len(data.target) // size
    images = jnp.asarray(data.images[: n * size] / 16.0, jnp.float32)
    return Batch(
        images=images.reshape(n, size, 8, 8, 1),
        digits=jnp.asarray(data.target[: n * size]).reshape(n, size),
    )


def main(steps: int = 60) -> list[float]:
    """Trains for some steps and returns their losses."""
    data = batches(64)
    model = hk.transform_with_state(network)
    keys = hk.PRNGSequence(0)
    params, state = model.init(next(keys), data.images[0], is_training=True)
    optimizer = optax.adam(3e-3)
    optimizer_state = optimizer.init(params)

    def mean_loss(params, state, key, batch: Batch):
        logits, state = model.apply(params, state, key, batch.images, is_training=True)
        chex.assert_shape(logits, (len(batch.digits), CLASSES))
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, batch.digits)
        return losses.mean(), state

    @jax.jit
    @chex.assert_max_traces(n=1)
    def step(params, state, optimizer_state, key, batch: Batch):
        (loss, state), gradient = jax.value_and_grad(mean_loss, has_aux=True)(
            params, state, key, batch
        )
        updates, optimizer_state = optimizer.update(gradient, optimizer_state)
        return optax.apply_updates(params, updates), state, optimizer_state, loss

    losses = []
    for number in range(steps):
        batch = jax.tree.map(lambda x, n=number: x[n % len(x)], data)
        params, state, optimizer_state, loss = step(
            params, state, optimizer_state, next(keys), batch
        )
        losses.append(float(loss))
    chex.assert_tree_all_finite(params)
    return losses


if __name__ == "__main__":
    for number, value in enumerate(main()):
        if number % 10 == 0:
            print(f"step {number}: loss {value:.6f}")
