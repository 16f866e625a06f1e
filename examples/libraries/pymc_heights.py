"""A regression of pymc, whose logarithm of the density jax compiles: its maximum by optax, and draws by numpyro and nutpie.

All of it is written for jax: `python -m pellucid.as_jax examples/libraries/pymc_heights.py` runs it on pellucid.
"""

import jax
import numpy as np
import nutpie
import optax
import pymc as pm
from pymc.sampling.jax import get_jaxified_logp, sample_numpyro_nuts


def main(steps: int = 60) -> list[float]:
    """Descends for some steps, samples, and returns the negative logarithms of the density."""
    random = np.random.default_rng(0)
    group = np.arange(60) % 4
    x = random.normal(size=60)
    y = 1.0 + 0.5 * group + 2.0 * x + 0.3 * random.normal(size=60)
    with pm.Model(coords={"group": range(4)}) as model:
        centre = pm.Normal("centre", 0, 2)
        spread = pm.HalfNormal("spread", 1)
        level = pm.Normal("level", centre, spread, dims="group")
        slope = pm.StudentT("slope", nu=4, mu=0, sigma=2)
        noise = pm.Exponential("noise", 1)
        pm.Normal("height", level[group] + slope * x, noise, observed=y)
    negative = get_jaxified_logp(model, negative_logp=False)  # which pymc means by it
    optimizer = optax.adam(0.1)

    @jax.jit
    def step(point, state):
        loss, gradient = jax.value_and_grad(negative)(point)
        updates, state = optimizer.update(gradient, state)
        return optax.apply_updates(point, updates), state, loss

    start = model.initial_point()
    point = [np.asarray(start[v.name]) for v in model.value_vars]
    state, losses = optimizer.init(point), []
    for _ in range(steps):
        point, state, loss = step(point, state)
        losses.append(float(loss))
    with model:
        drawn = sample_numpyro_nuts(
            draws=100,
            tune=100,
            chains=1,
            random_seed=1,
            progressbar=False,
            compute_convergence_checks=False,
        )
    assert abs(float(drawn.posterior["slope"].mean()) - 2) < 0.2
    compiled = nutpie.compile_pymc_model(model, backend="jax", gradient_backend="jax")
    drawn = nutpie.sample(compiled, draws=100, tune=100, chains=1, seed=1, progress_bar=False)
    assert abs(float(drawn.posterior["slope"].mean()) - 2) < 0.2
    return losses


if __name__ == "__main__":
    for number, value in enumerate(main()):
        if number % 10 == 0:
            print(f"step {number}: {value:.6f}")
