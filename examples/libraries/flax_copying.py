"""Recalling the start of a sequence: a recurrent network and attention of flax.linen, scanned and recomputed layers.

All of it is written for jax: `python -m pellucid.as_jax examples/libraries/flax_copying.py` runs it on pellucid.
"""

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from flax.training import train_state

SYMBOLS, LENGTH, WIDTH = 8, 12, 32


class Block(nn.Module):
    """Attention over what came before, and a feed-forward layer, with dropout."""

    @nn.compact
    def __call__(self, x, _):
        """The features of the next layer, and no output of its own, as a step of a scan over layers."""
        mask = nn.make_causal_mask(x[..., 0])
        y = nn.SelfAttention(num_heads=2, dropout_rate=0.05)(
            nn.LayerNorm()(x), mask=mask, deterministic=False
        )
        x = x + y
        return x + nn.Dense(WIDTH)(nn.gelu(nn.Dense(2 * WIDTH)(nn.LayerNorm()(x)))), None


class Recaller(nn.Module):
    """Logits (batch, length, SYMBOLS) of the symbol that follows each position."""

    @nn.compact
    def __call__(self, symbols):
        """The logits after each of `symbols` (batch, length)."""
        x = nn.Embed(SYMBOLS, WIDTH)(symbols)
        x = nn.RNN(nn.GRUCell(WIDTH))(x)
        layers = nn.scan(
            nn.remat(Block),
            variable_axes={"params": 0},
            split_rngs={"params": True, "dropout": True},
            length=2,
        )
        x, _ = layers()(x, None)
        return nn.Dense(SYMBOLS)(nn.BatchNorm(use_running_average=False)(x))


class State(train_state.TrainState):
    """The state of training, with running statistics."""

    statistics: dict


def main(steps: int = 60) -> list[float]:
    """Trains for some steps and returns their losses."""
    keys = jax.random.split(jax.random.key(0), 3)
    half = jax.random.randint(keys[0], (64, LENGTH), 0, SYMBOLS)
    sequence = jnp.concatenate([half, half], axis=1)
    model = Recaller()
    variables = jax.jit(model.init)({"params": keys[1], "dropout": keys[2]}, sequence[:, :-1])
    state = State.create(
        apply_fn=model.apply,
        params=variables["params"],
        tx=optax.adamw(3e-3),
        statistics=variables["batch_stats"],
    )

    @jax.jit
    def step(state, key):
        def mean_loss(params):
            logits, changes = state.apply_fn(
                {"params": params, "batch_stats": state.statistics},
                sequence[:, :-1],
                rngs={"dropout": key},
                mutable=["batch_stats"],
            )
            losses = optax.softmax_cross_entropy_with_integer_labels(logits, sequence[:, 1:])
            return losses[:, LENGTH:].mean(), changes["batch_stats"]

        (loss, statistics), gradient = jax.value_and_grad(mean_loss, has_aux=True)(state.params)
        return state.apply_gradients(grads=gradient, statistics=statistics), loss

    losses = []
    for key in jax.random.split(jax.random.key(1), steps):
        state, loss = step(state, key)
        losses.append(float(loss))
    return losses


if __name__ == "__main__":
    for number, value in enumerate(main()):
        if number % 10 == 0:
            print(f"step {number}: loss {value:.6f}")
