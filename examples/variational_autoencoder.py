"""A variational autoencoder of handwritten digits: eight numbers describe an image, and make new ones.

Encoder and decoder are trained together by gradients through a random sample, written as a function of noise (Kingma and
Welling, 2013). Run it: python examples/variational_autoencoder.py
"""

import numpy as np
from sklearn.datasets import load_digits

import pellucid as jax
import pellucid.numpy as jnp
from pellucid import nn

HIDDEN, LATENT = 64, 8
BATCH_SIZE = 128
LEARNING_RATE = 3e-3
SHADES = " .:-=+*#%@"


def initial_params(key):
    """Weights of both networks, one matrix for each layer."""
    shapes = {
        "encode": (64, HIDDEN), "describe": (HIDDEN, 2 * LATENT),
        "decode": (LATENT, HIDDEN), "draw": (HIDDEN, 64),
    }  # fmt: skip
    keys = jax.random.split(key, len(shapes))
    glorot = nn.initializers.glorot_normal()
    return {name: glorot(k, shape) for k, (name, shape) in zip(keys, shapes.items(), strict=True)}


def encoder(params, image):
    """(mean, logarithm of the deviation) of the code [8] of one image [64]."""
    return jnp.split(nn.silu(image @ params["encode"]) @ params["describe"], 2)


def decoder(params, code):
    """Logits [64] of the brightness of each pixel."""
    return nn.silu(code @ params["decode"]) @ params["draw"]


def image_loss(params, image, key):
    """Negative evidence lower bound of one image, in nats, with one sample of the code."""
    mean, log_deviation = encoder(params, image)
    code = mean + jnp.exp(log_deviation) * jax.random.normal(key, mean.shape)
    scores = decoder(params, code)
    # Brightness between 0 and 1 counts as the probability of a white pixel.
    reconstruction = -jnp.sum(
        image * nn.log_sigmoid(scores) + (1 - image) * nn.log_sigmoid(-scores)
    )
    divergence = 0.5 * jnp.sum(jnp.exp(2 * log_deviation) + mean**2 - 1 - 2 * log_deviation)
    return reconstruction + divergence


def loss(params, images, key):
    """Mean of `image_loss` over a batch, with noise of its own for each image."""
    keys = jax.random.split(key, len(images))
    return jnp.mean(jax.vmap(image_loss, in_axes=(None, 0, 0))(params, images, keys))


@jax.jit
def train_step(params, means, squares, step, images, key):
    """(parameters, both moments of Adam, loss) after step number `step`, counted from 1."""
    value, gradients = jax.value_and_grad(loss)(params, images, key)
    means = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, means, gradients)
    squares = jax.tree.map(lambda s, g: 0.99 * s + 0.01 * g**2, squares, gradients)
    rate = LEARNING_RATE * jnp.sqrt(1 - 0.99**step) / (1 - 0.9**step)
    update = lambda p, m, s: p - rate * m / (jnp.sqrt(s) + 1e-8)
    return jax.tree.map(update, params, means, squares), means, squares, value


def drawn(pixels):
    """Images [n, 64] side by side, as lines of text."""
    rows = (
        np.clip(np.asarray(pixels) * len(SHADES), 0, len(SHADES) - 1).astype(int).reshape(-1, 8, 8)
    )
    return "\n".join(
        "  ".join("".join(SHADES[p] for p in image[i]) for image in rows) for i in range(8)
    )


def main(steps=400):
    """Train, print the loss now and then, and five digits that nobody wrote; returns all losses."""
    images = (load_digits().data / 16).astype(np.float32)
    key = jax.random.key(0)
    params = initial_params(key)
    means = squares = jax.tree.map(jnp.zeros_like, params)
    shuffled = np.random.default_rng(0)
    losses = []
    for step in range(1, steps + 1):
        batch = images[shuffled.choice(len(images), BATCH_SIZE, replace=False)]
        noise = jax.random.fold_in(key, step)
        params, means, squares, value = train_step(params, means, squares, step, batch, noise)
        losses.append(float(value))
        if step % 50 == 1:
            print(f"step {step:4}  loss {losses[-1]:.3f}")
    codes = jax.random.normal(key, (5, LATENT))
    print(drawn(nn.sigmoid(decoder(params, codes))))
    return losses


if __name__ == "__main__":
    main()
