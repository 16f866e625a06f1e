"""Handwritten digits with `nn`: a convolutional network with initializers, dropout and Adam.

Parameters are a dictionary, so `tree.map` writes an optimizer in a few lines.
Run it: python examples/digits_with_nn.py
"""

import numpy as np
from sklearn.datasets import load_digits

import pellucid as jax
import pellucid.numpy as jnp
from pellucid import lax, nn

BATCH_SIZE = 64
LEARNING_RATE = 2e-3
KEEP = 0.8  # probability that dropout keeps a feature


def initial_params(key):
    """Kernels of two convolutions and the weights of the last layer."""
    keys = jax.random.split(key, 3)
    he, glorot = nn.initializers.he_normal(), nn.initializers.glorot_uniform()
    return {
        "first": {"kernel": he(keys[0], (3, 3, 1, 16)), "bias": jnp.zeros(16)},
        "second": {"kernel": he(keys[1], (3, 3, 16, 32)), "bias": jnp.zeros(32)},
        "last": {"weights": glorot(keys[2], (2 * 2 * 32, 10)), "bias": jnp.zeros(10)},
    }


def convolution(layer, x):
    """`x` [batch, height, width, channels] after a convolution with stride 2."""
    y = lax.conv_general_dilated(
        x, layer["kernel"], (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return nn.gelu(y + layer["bias"])


def logits(params, images, key=None):
    """Scores of the ten digits [batch, 10]; a `key` switches dropout on."""
    x = convolution(params["first"], images)
    x = convolution(params["second"], x)
    x = x.reshape(x.shape[0], -1)
    if key is not None:
        x = jnp.where(jax.random.bernoulli(key, KEEP, x.shape), x / KEEP, 0)
    return x @ params["last"]["weights"] + params["last"]["bias"]


def loss(params, images, labels, key):
    """Mean cross entropy between predictions and one-hot labels."""
    log_probabilities = nn.log_softmax(logits(params, images, key))
    return -jnp.mean(jnp.sum(nn.one_hot(labels, 10) * log_probabilities, axis=1))


def initial_moments(params):
    """State of Adam: running means of gradients and of their squares."""
    zeros = jax.tree.map(jnp.zeros_like, params)
    return zeros, zeros


def adam(params, moments, gradients, step):
    """(parameters, moments) after step number `step`, counted from 1."""
    means, squares = moments
    means = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, means, gradients)
    squares = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g**2, squares, gradients)
    rate = LEARNING_RATE * jnp.sqrt(1 - 0.999**step) / (1 - 0.9**step)
    update = lambda p, m, s: p - rate * m / (jnp.sqrt(s) + 1e-8)
    return jax.tree.map(update, params, means, squares), (means, squares)


@jax.jit
def train_step(params, moments, step, images, labels, key):
    """(parameters, moments, loss) after one step on a batch."""
    value, gradients = jax.value_and_grad(loss)(
        params, images, labels, jax.random.fold_in(key, step)
    )
    params, moments = adam(params, moments, gradients, step)
    return params, moments, value


@jax.jit
def accuracy(params, images, labels):
    """Share of images whose highest score is that of the label."""
    return jnp.mean(jnp.argmax(logits(params, images), axis=1) == labels)


def main(steps=300):
    """Train, print the loss now and then and the accuracy on unseen images; returns all losses."""
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32).reshape(-1, 8, 8, 1)
    key = jax.random.key(0)
    params = initial_params(key)
    moments = initial_moments(params)
    shuffled = np.random.default_rng(0)
    losses = []
    for step in range(1, steps + 1):
        batch = shuffled.choice(1500, BATCH_SIZE, replace=False)
        params, moments, value = train_step(
            params, moments, step, images[batch], labels[batch], key
        )
        losses.append(float(value))
        if step % 50 == 1:
            print(f"step {step:4}  loss {losses[-1]:.4f}")
    print(f"accuracy on unseen digits: {accuracy(params, images[1500:], labels[1500:]):.3f}")
    return losses


if __name__ == "__main__":
    main()
