"""A Gaussian process of tinygp, whose scales gradient descent fits to noisy waves.

All of it is written for jax: `python -m pellucid.as_jax examples/libraries/tinygp_waves.py` runs it on pellucid.
"""

import jax
import jax.numpy as jnp
import numpy as np
import tinygp


def main(steps: int = 60) -> list[float]:
    """Fits for some steps and returns the negative logarithms of the likelihood."""
    random = np.random.default_rng(0)
    times = np.sort(random.uniform(0, 10, 40)).astype("float32")
    values = (np.sin(3 * times) + 0.1 * random.normal(size=40)).astype("float32")

    def process(params):
        kernel = jnp.exp(params["amplitude"]) * tinygp.kernels.Matern52(jnp.exp(params["scale"]))
        kernel += 0.1 * tinygp.kernels.ExpSineSquared(scale=2.0, gamma=jnp.exp(params["gamma"]))
        return tinygp.GaussianProcess(kernel, times, diag=jnp.exp(params["noise"]))

    @jax.jit
    def step(params):
        loss, gradient = jax.value_and_grad(lambda p: -process(p).log_probability(values))(params)
        return jax.tree.map(lambda p, g: p - 3e-3 * g, params, gradient), loss

    params = {"amplitude": 0.0, "scale": 0.5, "gamma": 0.0, "noise": -2.0}
    losses = []
    for _ in range(steps):
        params, loss = step(params)
        losses.append(float(loss))
    mean, variance = process(params).predict(values, jnp.linspace(0.0, 10, 5), return_var=True)
    assert jnp.isfinite(mean).all()
    assert (variance > 0).all()
    return losses


if __name__ == "__main__":
    for number, value in enumerate(main()):
        if number % 10 == 0:
            print(f"step {number}: loss {value:.6f}")
