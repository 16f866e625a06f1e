"""Differentially private stochastic gradient descent: what is learned depends little on any single image.

`vmap(grad(loss))` gives the gradient of each example; each is clipped, and noise is added to their sum (Abadi et al.,
"Deep learning with differential privacy", 2016). Run it: python examples/private_sgd.py
"""

import math

import numpy as np
from sklearn.datasets import load_digits

import pellucid as jax
import pellucid.numpy as jnp
from pellucid import nn

BATCH_SIZE = 256
LEARNING_RATE = 1.0
CLIP = 1.0  # largest norm of an example's gradient
NOISE = 4.0  # standard deviation of the noise, in units of CLIP
DELTA = 1e-4  # probability with which the guarantee may fail


def logits(params, image):
    """Scores of the ten digits for one image [64]."""
    return jnp.tanh(image @ params["into"]) @ params["out"]


def loss(params, image, label):
    """Cross entropy of one example."""
    return -nn.log_softmax(logits(params, image))[label]


def clipped(gradients):
    """The gradients of one example, scaled down to a norm of `CLIP` if it is larger."""
    norm = jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(gradients)))
    return jax.tree.map(lambda g: g * jnp.minimum(1, CLIP / norm), gradients)


def private_gradients(params, images, labels, key):
    """(mean loss, mean of clipped gradients with noise) of a batch."""
    examples = jax.vmap(jax.value_and_grad(loss), in_axes=(None, 0, 0))
    values, gradients = examples(params, images, labels)
    sums = jax.tree.map(lambda g: jnp.sum(g, axis=0), jax.vmap(clipped)(gradients))
    leaves, structure = jax.tree.flatten(sums)
    keys = jax.random.split(key, len(leaves))
    noisy = [
        (g + CLIP * NOISE * jax.random.normal(k, g.shape)) / len(images)
        for g, k in zip(leaves, keys, strict=True)
    ]
    return jnp.mean(values), jax.tree.unflatten(structure, noisy)


@jax.jit
def train_step(params, images, labels, key):
    """(parameters, loss) after one private step."""
    value, gradients = private_gradients(params, images, labels, key)
    return jax.tree.map(lambda p, g: p - LEARNING_RATE * g, params, gradients), value


def spent_budget(steps):
    """ε of the (ε, DELTA) guarantee after `steps` steps.

    The Gaussian mechanism has the Rényi divergence α / (2 NOISE²) of order α, steps add up, and the best order counts
    (Mironov 2017). That batches are drawn at random, which makes ε smaller still, is left out.
    """
    orders = [1 + x / 100 for x in range(1, 2000)]
    return min(steps * a / (2 * NOISE**2) + math.log(1 / DELTA) / (a - 1) for a in orders)


def main(steps=60):
    """Train privately, print losses, accuracy and the privacy budget; returns all losses."""
    images, labels = load_digits(return_X_y=True)
    images, labels = (images / 16).astype(np.float32), labels.astype(np.int32)
    keys = jax.random.split(jax.random.key(0), 3)
    params = {
        "into": jax.random.normal(keys[0], (64, 32)) / 8,
        "out": jax.random.normal(keys[1], (32, 10)) / 32**0.5,
    }
    shuffled = np.random.default_rng(0)
    losses = []
    for step in range(steps):
        batch = shuffled.choice(1500, BATCH_SIZE, replace=False)
        key = jax.random.fold_in(keys[2], step)
        params, value = train_step(params, images[batch], labels[batch], key)
        losses.append(float(value))
        if step % 10 == 0:
            print(f"step {step:4}  loss {losses[-1]:.4f}  ε ≤ {spent_budget(step + 1):.1f}")
    scores = jax.vmap(logits, in_axes=(None, 0))(params, images[1500:])
    print(f"accuracy on unseen digits: {np.mean(np.argmax(scores, axis=1) == labels[1500:]):.3f}")
    return losses


if __name__ == "__main__":
    main()
