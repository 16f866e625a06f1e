"""A regression by TensorFlow Probability on its jax substrate: HMC samples it, and a Gaussian is fitted to it.

All of it is written for jax: `python -m pellucid.as_jax examples/libraries/tfp_regression.py` runs it on pellucid.
"""

import jax
import jax.numpy as jnp
import optax
from tensorflow_probability.substrates import jax as tfp


def main(steps: int = 30) -> list[float]:
    """Fits for some steps and returns their losses; the last value is that of the samples' mean."""
    distributions = tfp.distributions
    x = jax.random.normal(jax.random.key(0), (40, 2))
    y = x @ jnp.array([1.5, -0.5]) + 0.1 * jax.random.normal(jax.random.key(1), (40,))

    def log_density(weights):
        prior = distributions.MultivariateNormalDiag(jnp.zeros(2), jnp.ones(2)).log_prob(weights)
        return prior + jnp.sum(distributions.Normal(x @ weights, 0.3).log_prob(y))

    optimizer = optax.adam(0.1)
    params = {"mean": jnp.zeros(2), "scale": jnp.zeros(2)}
    state = optimizer.init(params)

    @jax.jit
    def step(params, state, key):
        def loss(p):
            q = distributions.Independent(
                distributions.Normal(p["mean"], jax.nn.softplus(p["scale"])), 1
            )
            samples = q.sample(8, seed=key)
            return jnp.mean(q.log_prob(samples) - jax.vmap(log_density)(samples))

        value, gradient = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(gradient, state)
        return optax.apply_updates(params, updates), state, value

    losses = []
    for number in range(steps):
        params, state, value = step(params, state, jax.random.fold_in(jax.random.key(2), number))
        losses.append(float(value))
    kernel = tfp.mcmc.HamiltonianMonteCarlo(log_density, step_size=0.02, num_leapfrog_steps=5)

    @jax.jit
    def sample(key):
        return tfp.mcmc.sample_chain(
            60, params["mean"], kernel=kernel, trace_fn=None, num_burnin_steps=20, seed=key
        )

    mean = sample(jax.random.key(3)).mean(axis=0)
    assert jnp.abs(mean - jnp.array([1.5, -0.5])).max() < 0.3
    return losses


if __name__ == "__main__":
    for number, value in enumerate(main()):
        if number % 10 == 0:
            print(f"step {number}: loss {value:.6f}")
