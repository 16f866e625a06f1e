"""A regression by GPJax, whose kernel and noise are fitted to a noisy curve.

All of it is written for jax: `python -m pellucid.as_jax examples/libraries/gpjax_curve.py` runs it on pellucid.
"""

import gpjax
import jax
import jax.numpy as jnp
import optax


def main(steps: int = 60) -> list[float]:
    """Fits for some steps and returns their losses."""
    key, noise = jax.random.split(jax.random.key(0))
    inputs = jnp.sort(jax.random.uniform(key, (40, 1), minval=-3.0, maxval=3.0), axis=0)
    values = jnp.sin(4 * inputs) + 0.1 * jax.random.normal(noise, inputs.shape)
    data = gpjax.Dataset(inputs, values)
    prior = gpjax.gps.Prior(mean_function=gpjax.mean_functions.Zero(), kernel=gpjax.kernels.RBF())
    posterior = prior * gpjax.likelihoods.Gaussian(0.5)
    fitted, history = gpjax.fit(
        model=posterior,
        objective=lambda p, d: -gpjax.objectives.conjugate_mll(p, d),
        train_data=data, optim=optax.adam(0.03), num_iters=steps, key=key, verbose=False,
    )  # fmt: skip
    assert jnp.isfinite(fitted.predict(inputs, data).mean).all()
    return history.tolist()


if __name__ == "__main__":
    for number, value in enumerate(main()):
        if number % 10 == 0:
            print(f"step {number}: loss {value:.6f}")
