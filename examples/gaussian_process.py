"""Gaussian process regression whose kernel is learned by gradients of the marginal likelihood.

One Cholesky factor gives the likelihood, its derivative and the predictions. Run it: python examples/gaussian_process.py
"""

import numpy as np

import pellucid as jax
import pellucid.numpy as jnp
from pellucid.scipy.linalg import cho_solve, solve_triangular

LEARNING_RATE = 0.03
MOMENTUM = 0.9
JITTER = 1e-5  # added to the diagonal, so that rounding doesn't make the matrix indefinite


def covariance(params, x, y):
    """Covariances [n, m] of the process between points [n] and [m]: an RBF kernel."""
    scale, amplitude = jnp.exp(params["log_scale"]), jnp.exp(params["log_amplitude"])
    return amplitude**2 * jnp.exp(-0.5 * ((x[:, None] - y[None, :]) / scale) ** 2)


def factor(params, x):
    """Cholesky factor [n, n] of the covariances of noisy observations at `x` [n]."""
    variance = jnp.exp(2 * params["log_noise"]) + JITTER
    return jnp.linalg.cholesky(covariance(params, x, x) + variance * jnp.eye(len(x)))


def loss(params, x, y):
    """Negative log marginal likelihood of the observations `y` at `x`, per observation."""
    triangle = factor(params, x)
    fit = 0.5 * y @ cho_solve((triangle, True), y)
    volume = jnp.sum(jnp.log(jnp.diagonal(triangle)))
    return (fit + volume) / len(x) + 0.5 * jnp.log(2 * jnp.pi)


def posterior(params, x, y, where):
    """(mean, standard deviation) of the function at the points `where` [m], given the observations."""
    triangle = factor(params, x)
    cross = covariance(params, x, where)
    mean = cross.T @ cho_solve((triangle, True), y)
    explained = solve_triangular(triangle, cross, lower=True)
    prior = jnp.exp(2 * params["log_amplitude"])
    return mean, jnp.sqrt(jnp.maximum(prior - jnp.sum(explained**2, axis=0), 0))


@jax.jit
def train_step(params, velocity, x, y):
    """(parameters, velocity, loss) after one step of descent with momentum."""
    value, gradients = jax.value_and_grad(loss)(params, x, y)
    velocity = jax.tree.map(lambda v, g: MOMENTUM * v - LEARNING_RATE * g, velocity, gradients)
    return jax.tree.map(jnp.add, params, velocity), velocity, value


def observations(count):
    """Points [count] and noisy values [count] of a sine that has a gap in the middle."""
    random = np.random.default_rng(0)
    x = np.sort(
        np.concatenate([random.uniform(-4, -1, count // 2), random.uniform(1, 4, count // 2)])
    )
    y = np.sin(2 * x) + 0.2 * random.normal(size=len(x))
    return x.astype(np.float32), y.astype(np.float32)


def main(steps=200):
    """Learn scale, amplitude and noise; print a few predictions; returns all losses."""
    x, y = observations(60)
    params = {
        "log_scale": jnp.zeros(()),
        "log_amplitude": jnp.zeros(()),
        "log_noise": jnp.zeros(()),
    }
    velocity = jax.tree.map(jnp.zeros_like, params)
    losses = []
    for step in range(steps):
        params, velocity, value = train_step(params, velocity, x, y)
        losses.append(float(value))
        if step % 25 == 0:
            print(f"step {step:4}  loss {losses[-1]:.4f}")
    print({name.removeprefix("log_"): round(float(np.exp(p)), 3) for name, p in params.items()})
    where = np.linspace(-4, 4, 9, dtype=np.float32)
    for point, mean, deviation in zip(where, *posterior(params, x, y, where), strict=True):
        print(
            f"f({point:4.1f}) = {mean:6.3f} ± {2 * deviation:.3f}   truth {np.sin(2 * point):6.3f}"
        )
    return losses


if __name__ == "__main__":
    main()
