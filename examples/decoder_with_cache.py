"""A decoder that learns to sort digits, and writes with a cache: keys and values of earlier places are kept, not computed again.

With the cache a new place costs one row of attention; without it, all rows before it. Both write the same.
Run it: python examples/decoder_with_cache.py
"""

import functools

import numpy as np

import pellucid as jax
import pellucid.numpy as jnp
from pellucid import lax, nn

WIDTH, HEADS, LAYERS = 48, 4, 2
DIGITS = 6
LENGTH = 2 * DIGITS + 1  # the digits, a mark, the digits in order
MARK, LETTERS = 10, 11
BATCH_SIZE = 128
LEARNING_RATE = 3e-3


def examples(rng, count):
    """Sequences [count, LENGTH]: digits, the mark, the same digits sorted."""
    digits = rng.integers(0, 10, (count, DIGITS), dtype=np.int32)
    return np.concatenate([digits, np.full((count, 1), MARK, np.int32), np.sort(digits)], axis=1)


def initial_params(key):
    """Embeddings, and the parameters of all layers with a leading axis for the layer."""
    keys = iter(jax.random.split(key, 6))
    normal = lambda *shape: 0.1 * jax.random.normal(next(keys), shape)
    layers = {
        "attend": normal(LAYERS, WIDTH, 3 * WIDTH), "mix": normal(LAYERS, WIDTH, WIDTH),
        "widen": normal(LAYERS, WIDTH, 4 * WIDTH), "narrow": normal(LAYERS, 4 * WIDTH, WIDTH),
    }  # fmt: skip
    return {"letters": normal(LETTERS, WIDTH), "places": normal(LENGTH, WIDTH), "layers": layers}


def normalized(x):
    """`x` with mean 0 and variance 1 along its last axis."""
    return nn.standardize(x, axis=-1, epsilon=1e-5)


def split_into_heads(x, layer):
    """Queries, keys and values [batch, time, heads, features] of `x` [batch, time, width]."""
    parts = jnp.split(normalized(x) @ layer["attend"], 3, axis=-1)
    return [part.reshape(*x.shape[:2], HEADS, WIDTH // HEADS) for part in parts]


def finished(x, attended, layer):
    """What a layer makes of `x` and of what its heads attended to."""
    x = x + attended.reshape(x.shape) @ layer["mix"]
    return x + nn.gelu(normalized(x) @ layer["widen"]) @ layer["narrow"]


def logits(params, letters):
    """Scores [batch, time, letters] of the next letter after each of `letters` [batch, time]: all places at once."""

    def block(x, layer):
        q, k, v = split_into_heads(x, layer)
        return finished(x, nn.dot_product_attention(q, k, v, is_causal=True), layer), None

    x = params["letters"][letters] + params["places"][: letters.shape[1]]
    x, _ = lax.scan(block, x, params["layers"])
    return normalized(x) @ params["letters"].T


def empty_cache(batch):
    """Keys and values [layers, batch, LENGTH, heads, features] of places that aren't there yet."""
    zeros = jnp.zeros((LAYERS, batch, LENGTH, HEADS, WIDTH // HEADS))
    return {"keys": zeros, "values": zeros}


def next_logits(params, cache, letters, place):
    """(scores [batch, letters] after `letters` [batch] at `place`, the cache with that place)."""

    def block(x, parts):
        layer, kept = parts
        q, k, v = split_into_heads(x, layer)
        put = lambda kept, new: lax.dynamic_update_slice(kept, new, (0, place, 0, 0))
        kept = {"keys": put(kept["keys"], k), "values": put(kept["values"], v)}
        seen = jnp.arange(LENGTH) <= place  # later places hold zeros
        attended = nn.dot_product_attention(
            q, kept["keys"], kept["values"], mask=seen[None, None, None]
        )
        return finished(x, attended, layer), kept

    x = (params["letters"][letters] + params["places"][place])[:, None]
    x, cache = lax.scan(block, x, (params["layers"], cache))
    return (normalized(x) @ params["letters"].T)[:, 0], cache


@jax.jit
def written(params, prompt):
    """The letters [batch, DIGITS] that follow `prompt` [batch, DIGITS + 1], each the most probable one, with the cache."""

    def step(carry, place):
        cache, letters = carry
        scores, cache = next_logits(params, cache, letters, place)
        # Within the prompt the next letter is known.
        given = prompt[:, jnp.minimum(place + 1, DIGITS)]
        following = jnp.where(place < DIGITS, given, jnp.argmax(scores, axis=-1))
        return (cache, following.astype(prompt.dtype)), following

    carry = (empty_cache(len(prompt)), prompt[:, 0])
    return lax.scan(step, carry, jnp.arange(LENGTH - 1))[1].T[:, DIGITS:]


@jax.jit
def written_without_cache(params, prompt):
    """The same, where each letter is computed from all before it."""
    letters = jnp.pad(prompt, ((0, 0), (0, DIGITS)))
    for place in range(DIGITS, LENGTH - 1):
        best = jnp.argmax(logits(params, letters)[:, place], axis=-1)
        letters = letters.at[:, place + 1].set(best.astype(letters.dtype))
    return letters[:, DIGITS + 1 :]


def loss(params, sequences):
    """Mean cross entropy of the sorted digits, in nats."""
    log_probabilities = nn.log_softmax(logits(params, sequences[:, :-1])[:, DIGITS:])
    return -jnp.mean(
        jnp.take_along_axis(log_probabilities, sequences[:, DIGITS + 1 :, None], axis=-1)
    )


@jax.jit
def train_step(params, means, squares, step, sequences):
    """(parameters, both moments of Adam, loss) after step number `step`, counted from 1."""
    value, gradients = jax.value_and_grad(loss)(params, sequences)
    means = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, means, gradients)
    squares = jax.tree.map(lambda s, g: 0.99 * s + 0.01 * g**2, squares, gradients)
    rate = LEARNING_RATE * jnp.sqrt(1 - 0.99**step) / (1 - 0.9**step)
    update = lambda p, m, s: p - rate * m / (jnp.sqrt(s) + 1e-6)
    return jax.tree.map(update, params, means, squares), means, squares, value


def main(steps=400):
    """Train, print losses and what is written of three prompts; returns all losses."""
    rng = np.random.default_rng(0)
    params = initial_params(jax.random.key(0))
    means = squares = jax.tree.map(jnp.zeros_like, params)
    losses = []
    for step in range(1, steps + 1):
        sequences = examples(rng, BATCH_SIZE)
        params, means, squares, value = train_step(params, means, squares, step, sequences)
        losses.append(float(value))
        if step % 50 == 1:
            print(f"step {step:4}  loss {losses[-1]:.4f}")
    shown = functools.partial(np.array2string, separator=" ")
    prompts = examples(rng, 200)[:, : DIGITS + 1]
    answers = np.asarray(written(params, prompts))
    for prompt, answer in zip(prompts[:3], answers[:3], strict=True):
        print(f"{shown(prompt[:DIGITS])} sorted: {shown(answer)}")
    right = np.mean(np.all(answers == np.sort(prompts[:, :DIGITS]), axis=1))
    print(f"right: {right:.0%}")
    return losses


if __name__ == "__main__":
    main()
