"""A regression with outliers: L-BFGS of optimistix fits a robust loss, and gradients through its minimum tune the penalty.

All of it is written for jax: `python -m pellucid.as_jax examples/libraries/optimistix_robust.py` runs it on pellucid.
"""

import jax
import jax.numpy as jnp
import optax
import optimistix as optx

FEATURES = 8


def robust(residuals: jax.Array, width: jax.Array) -> jax.Array:
    """Mean loss of residuals: quadratic for small ones, and growing like their size beyond `width`."""
    return jnp.mean(width**2 * (jnp.sqrt(1 + (residuals / width) ** 2) - 1))


def fitted(penalties: jax.Array, inputs: jax.Array, outputs: jax.Array) -> jax.Array:
    """The weights of least robust loss under a quadratic penalty for each feature."""
    width = jnp.float32(0.5)  # the solver compares functions that close over it

    def objective(w: jax.Array, penalties: jax.Array) -> jax.Array:
        return robust(inputs @ w - outputs, width) + jnp.sum(jnp.exp(penalties) * w**2)

    solver = optx.LBFGS(rtol=1e-4, atol=1e-4)
    start = jnp.zeros(FEATURES)
    return optx.minimise(objective, solver, start, penalties, max_steps=200).value


def main(steps: int = 40) -> list[float]:
    """Tunes for some steps and returns their losses on examples that the regression doesn't see."""
    keys = jax.random.split(jax.random.key(0), 3)
    truth = jnp.where(jnp.arange(FEATURES) < 3, 1.0, 0.0)
    inputs = jax.random.normal(keys[0], (2, 32, FEATURES))
    outputs = inputs @ truth + jax.random.t(keys[1], 1.5, (2, 32))
    optimizer = optax.adam(0.2)
    penalties = jnp.full(FEATURES, -3.0)
    state = optimizer.init(penalties)
    margin = jnp.array(1.0)

    @jax.jit
    def step(penalties, state):
        def unseen_loss(penalties):
            w = fitted(penalties, inputs[0], outputs[0])
            return robust(inputs[1] @ w - outputs[1], margin)

        loss, gradient = jax.value_and_grad(unseen_loss)(penalties)
        updates, state = optimizer.update(gradient, state)
        return optax.apply_updates(penalties, updates), state, loss

    losses = []
    for _ in range(steps):
        penalties, state, loss = step(penalties, state)
        losses.append(float(loss))
    return losses


if __name__ == "__main__":
    for number, value in enumerate(main()):
        if number % 10 == 0:
            print(f"step {number}: loss {value:.6f}")
