"""Handwritten digits with nothing but arrays: a network is a list of matrices, training is three short functions.

`predict` is written for one image; `vmap` makes it one for a batch, `grad` gives the direction of descent, and `jit`
compiles the step. Run it: python examples/digits_from_scratch.py
"""

import numpy as np
from sklearn.datasets import load_digits

import pellucid as jax
import pellucid.numpy as jnp

SIZES = (64, 128, 64, 10)
BATCH_SIZE = 128
LEARNING_RATE = 0.3


def digits():
    """(images [1797, 64] between 0 and 1, labels [1797]) of 8×8 handwritten digits."""
    images, labels = load_digits(return_X_y=True)
    return (images / 16).astype(np.float32), labels.astype(np.int32)


def initial_params(key):
    """A list of (weights, biases), one pair for each layer; weights are scaled by the number of inputs."""
    keys = jax.random.split(key, len(SIZES) - 1)
    return [
        (jax.random.normal(k, (n, m)) / jnp.sqrt(n), jnp.zeros(m))
        for k, n, m in zip(keys, SIZES[:-1], SIZES[1:], strict=True)
    ]


def predict(params, image):
    """Logarithms of the probabilities of the ten digits for one image [64]."""
    activations = image
    for weights, biases in params[:-1]:
        activations = jnp.tanh(activations @ weights + biases)
    weights, biases = params[-1]
    logits = activations @ weights + biases
    return logits - jnp.log(jnp.sum(jnp.exp(logits - logits.max()))) - logits.max()


predict_batch = jax.vmap(predict, in_axes=(None, 0))


def loss(params, images, labels):
    """Mean negative log-likelihood of the labels."""
    log_probabilities = predict_batch(params, images)
    return -jnp.mean(jnp.take_along_axis(log_probabilities, labels[:, None], axis=1))


@jax.jit
def train_step(params, images, labels):
    """The parameters after one step of gradient descent, and the loss before it."""
    value, gradients = jax.value_and_grad(loss)(params, images, labels)
    return jax.tree.map(lambda p, g: p - LEARNING_RATE * g, params, gradients), value


@jax.jit
def accuracy(params, images, labels):
    """Share of images whose most probable digit is the label."""
    return jnp.mean(jnp.argmax(predict_batch(params, images), axis=1) == labels)


def main(steps=400):
    """Train, print the loss now and then and the accuracy on unseen images; returns all losses."""
    images, labels = digits()
    train_images, test_images = images[:1500], images[1500:]
    train_labels, test_labels = labels[:1500], labels[1500:]
    params = initial_params(jax.random.key(0))
    shuffled = np.random.default_rng(0)
    losses = []
    for step in range(steps):
        batch = shuffled.choice(1500, BATCH_SIZE, replace=False)
        params, value = train_step(params, train_images[batch], train_labels[batch])
        losses.append(float(value))
        if step % 50 == 0:
            print(f"step {step:4}  loss {losses[-1]:.4f}")
    print(f"accuracy on unseen digits: {accuracy(params, test_images, test_labels):.3f}")
    return losses


if __name__ == "__main__":
    main()
