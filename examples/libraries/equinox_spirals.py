"""Two spirals told apart by a network of equinox, trained by optax, with einops and shapes that jaxtyping checks.

All of it is written for jax: `python -m pellucid.as_jax examples/libraries/equinox_spirals.py` runs it on pellucid.
"""

import einops
import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

POINTS_PER_SPIRAL = 128


def spirals() -> tuple[Float[Array, "points 2"], Float[Array, " points"]]:
    """Points on two arms of a spiral, and which of them each is on."""
    turn = jnp.linspace(0.5, 3.0, POINTS_PER_SPIRAL) * jnp.pi
    arm = jnp.stack([turn * jnp.cos(turn), turn * jnp.sin(turn)], axis=-1) / 8
    points = einops.rearrange(jnp.stack([arm, -arm]), "arm point xy -> (arm point) xy")
    return points, einops.repeat(jnp.arange(2.0), "arm -> (arm point)", point=POINTS_PER_SPIRAL)


class Classifier(eqx.Module):
    """A residual network with dropout: the logit of one arm."""

    first: eqx.nn.Linear
    layers: list[eqx.nn.Linear]
    norm: eqx.nn.LayerNorm
    dropout: eqx.nn.Dropout
    last: eqx.nn.Linear

    def __init__(self, width: int, depth: int, key: PRNGKeyArray) -> None:
        first, last, *keys = jax.random.split(key, depth + 2)
        self.first = eqx.nn.Linear(2, width, key=first)
        self.layers = [eqx.nn.Linear(width, width, key=k) for k in keys]
        self.norm = eqx.nn.LayerNorm(width)
        self.dropout = eqx.nn.Dropout(0.1)
        self.last = eqx.nn.Linear(width, "scalar", key=last)

    def __call__(self, point: Float[Array, "2"], key: PRNGKeyArray) -> Float[Array, ""]:
        """The logit of `point`."""
        x = self.first(point)
        for layer in self.layers:
            x = x + jax.nn.gelu(layer(self.norm(x)))
        return self.last(self.dropout(x, key=key))


def main(steps: int = 200) -> list[float]:
    """Trains for some steps and returns their losses."""
    points, arms = spirals()
    model = Classifier(32, 3, jax.random.key(0))
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-2))
    state = optimizer.init(eqx.filter(model, eqx.is_inexact_array))

    def mean_loss(model: Classifier, key: PRNGKeyArray) -> Float[Array, ""]:
        logits = jax.vmap(model)(points, jax.random.split(key, len(points)))
        return optax.sigmoid_binary_cross_entropy(logits, arms).mean()

    @eqx.filter_jit
    def step(model, state, key):
        loss, gradient = eqx.filter_value_and_grad(mean_loss)(model, key)
        updates, state = optimizer.update(gradient, state, eqx.filter(model, eqx.is_inexact_array))
        return eqx.apply_updates(model, updates), state, loss

    losses = []
    for key in jax.random.split(jax.random.key(1), steps):
        model, state, loss = step(model, state, key)
        losses.append(float(loss))
    return losses


if __name__ == "__main__":
    for number, value in enumerate(main()):
        if number % 20 == 0:
            print(f"step {number}: loss {value:.6f}")
