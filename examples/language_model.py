"""A transformer that learns the Zen of Python by heart, letter by letter, and recites it.

Layers are equal, so their parameters are stacked and `lax.scan` runs through them: the program stays small, however deep
the model is. Run it: python examples/language_model.py
"""

import codecs
import contextlib
import io

import numpy as np

import pellucid as jax
import pellucid.numpy as jnp
from pellucid import lax, nn

WIDTH, HEADS, LAYERS, CONTEXT = 64, 4, 2, 64
BATCH_SIZE = 32
LEARNING_RATE = 3e-3
DECAY = 1e-2


def zen():
    """The text that `import this` prints, whose source is encoded."""
    with contextlib.redirect_stdout(io.StringIO()):
        import this
    return codecs.decode(this.s, "rot13")


def initial_params(key, letters):
    """Embeddings, and the parameters of all layers with a leading axis for the layer."""
    keys = iter(jax.random.split(key, 6))
    normal = lambda *shape: 0.1 * jax.random.normal(next(keys), shape)
    layers = {
        "attend": normal(LAYERS, WIDTH, 3 * WIDTH), "mix": normal(LAYERS, WIDTH, WIDTH),
        "widen": normal(LAYERS, WIDTH, 4 * WIDTH), "narrow": normal(LAYERS, 4 * WIDTH, WIDTH),
    }  # fmt: skip
    return {"letters": normal(letters, WIDTH), "places": normal(CONTEXT, WIDTH), "layers": layers}


def normalized(x):
    """`x` with mean 0 and variance 1 along its last axis."""
    return nn.standardize(x, axis=-1, epsilon=1e-5)


def block(x, layer):
    """`x` [batch, time, width] after attention to earlier letters and a network for each letter."""
    heads = (*x.shape[:2], HEADS, WIDTH // HEADS)
    q, k, v = jnp.split(normalized(x) @ layer["attend"], 3, axis=-1)
    attended = nn.dot_product_attention(
        q.reshape(heads), k.reshape(heads), v.reshape(heads), is_causal=True
    )
    x = x + attended.reshape(x.shape) @ layer["mix"]
    x = x + nn.gelu(normalized(x) @ layer["widen"]) @ layer["narrow"]
    return x, None


def logits(params, letters):
    """Scores [batch, time, letters] of the next letter after each letter [batch, time]."""
    x = params["letters"][letters] + params["places"][: letters.shape[1]]
    x, _ = lax.scan(jax.checkpoint(block), x, params["layers"])
    return normalized(x) @ params["letters"].T


def loss(params, texts):
    """Mean cross entropy of each letter of `texts` [batch, time + 1] given those before it, in nats."""
    log_probabilities = nn.log_softmax(logits(params, texts[:, :-1]))
    return -jnp.mean(jnp.take_along_axis(log_probabilities, texts[:, 1:, None], axis=-1))


@jax.jit
def train_step(params, means, squares, step, texts):
    """(parameters, both moments of AdamW, loss) after step number `step`, counted from 1."""
    value, gradients = jax.value_and_grad(loss)(params, texts)
    means = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, means, gradients)
    squares = jax.tree.map(lambda s, g: 0.99 * s + 0.01 * g**2, squares, gradients)
    rate = LEARNING_RATE * jnp.sqrt(1 - 0.99**step) / (1 - 0.9**step)
    update = lambda p, m, s: p * (1 - LEARNING_RATE * DECAY) - rate * m / (jnp.sqrt(s) + 1e-6)
    return jax.tree.map(update, params, means, squares), means, squares, value


@jax.jit
def recited(params, start):
    """The letters [time] that follow `start` [CONTEXT], each the most probable one."""

    def step(context, _):
        letter = jnp.argmax(logits(params, context[None])[0, -1]).astype(context.dtype)
        return jnp.append(context[1:], letter), letter

    return lax.scan(step, start, length=120)[1]


def main(steps=300):
    """Train on pieces of the text, print losses and a recitation; returns all losses."""
    text = zen()
    alphabet = sorted(set(text))
    encoded = np.array([alphabet.index(letter) for letter in text], np.int32)
    pieces = np.lib.stride_tricks.sliding_window_view(encoded, CONTEXT + 1)
    params = initial_params(jax.random.key(0), len(alphabet))
    means = squares = jax.tree.map(jnp.zeros_like, params)
    shuffled = np.random.default_rng(0)
    losses = []
    for step in range(1, steps + 1):
        texts = pieces[shuffled.choice(len(pieces), BATCH_SIZE)]
        params, means, squares, value = train_step(params, means, squares, step, texts)
        losses.append(float(value))
        if step % 50 == 1:
            print(f"step {step:4}  loss {losses[-1]:.4f}")
    print(f"{text[:CONTEXT]}|" + "".join(alphabet[i] for i in recited(params, encoded[:CONTEXT])))
    return losses


if __name__ == "__main__":
    main()
