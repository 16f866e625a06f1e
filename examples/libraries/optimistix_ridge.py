"""Penalties of a regression tuned by gradients through its solution: lineax solves it, optimistix finds an equilibrium.

All of it is written for jax: `python -m pellucid.as_jax examples/libraries/optimistix_ridge.py` runs it on pellucid.
"""

import jax
import jax.numpy as jnp
import lineax as lx
import optax
import optimistix as optx

FEATURES = 12


def weights(penalties: jax.Array, inputs: jax.Array, outputs: jax.Array) -> jax.Array:
    """The best weights under a quadratic penalty for each feature."""
    normal = inputs.T @ inputs / len(inputs) + jnp.diag(jnp.exp(penalties))
    operator = lx.MatrixLinearOperator(normal, lx.positive_semidefinite_tag)
    return lx.linear_solve(operator, inputs.T @ outputs / len(inputs), lx.Cholesky()).value


def equilibrium(w: jax.Array, inputs: jax.Array) -> jax.Array:
    """Outputs that answer to their own mean: y = tanh(x w) + mean(y) / 2, found by Newton's method."""
    drive = jnp.tanh(inputs @ w)
    solver = optx.Newton(rtol=1e-5, atol=1e-5)
    return optx.root_find(
        lambda y, drive: y - drive - jnp.tanh(y.mean()) / 2, solver, drive, drive
    ).value


def calibrated(predicted: jax.Array, outputs: jax.Array) -> jax.Array:
    """Residuals of the best scale and shift, by Levenberg and Marquardt's method."""
    solver = optx.LevenbergMarquardt(rtol=1e-4, atol=1e-4)
    start = jnp.array([1.0, 0.0])
    solution = optx.least_squares(
        lambda line, _: predicted * line[0] + line[1] - outputs, solver, start
    )
    return predicted * solution.value[0] + solution.value[1] - outputs


def main(steps: int = 60) -> list[float]:
    """Tunes for some steps and returns their losses on examples that the regression doesn't see."""
    keys = jax.random.split(jax.random.key(0), 3)
    truth = jnp.where(jnp.arange(FEATURES) < 4, 1.0, 0.0)
    inputs = jax.random.normal(keys[0], (2, 24, FEATURES))
    outputs = inputs @ truth + jax.random.normal(keys[1], (2, 24))
    optimizer = optax.adam(0.1)
    penalties = jnp.zeros(FEATURES)
    state = optimizer.init(penalties)

    @jax.jit
    def step(penalties, state):
        def mean_loss(penalties):
            w = weights(penalties, inputs[0], outputs[0])
            return jnp.mean(calibrated(equilibrium(w, inputs[1]), outputs[1]) ** 2)

        loss, gradient = jax.value_and_grad(mean_loss)(penalties)
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
