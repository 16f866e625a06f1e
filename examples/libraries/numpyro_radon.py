"""A hierarchical regression in numpyro: variational inference, then a chain of the no-U-turn sampler.

All of it is written for jax: `python -m pellucid.as_jax examples/libraries/numpyro_radon.py` runs it on pellucid.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal

COUNTIES, HOUSES = 8, 160


def measurements() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """County, floor and logarithm of radon of each house; made up, with known effects."""
    rng = np.random.default_rng(0)
    county = rng.integers(0, COUNTIES, HOUSES)
    floor = rng.integers(0, 2, HOUSES).astype(np.float32)
    intercept = rng.normal(1.4, 0.4, COUNTIES)
    radon = intercept[county] - 0.7 * floor + rng.normal(0, 0.3, HOUSES)
    return county, floor, radon.astype(np.float32)


def model(county: np.ndarray, floor: np.ndarray, radon: np.ndarray) -> None:
    """Radon with an intercept for each county, and one slope by floor."""
    mean = numpyro.sample("mean", dist.Normal(0.0, 2.0))
    spread = numpyro.sample("spread", dist.HalfNormal(1.0))
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    noise = numpyro.sample("noise", dist.HalfNormal(1.0))
    with numpyro.plate("counties", COUNTIES):
        intercept = numpyro.sample("intercept", dist.Normal(mean, spread))
    with numpyro.plate("houses", HOUSES):
        expected = intercept[county] + slope * floor
        numpyro.sample("radon", dist.Normal(expected, noise), obs=radon)


def main(steps: int = 400) -> list[float]:
    """The negative evidence lower bound of each step of variational inference."""
    svi = SVI(model, AutoNormal(model), numpyro.optim.Adam(0.03), Trace_ELBO(num_particles=8))
    run = svi.run(jax.random.key(0), steps, *measurements(), progress_bar=False)
    return [float(loss) for loss in run.losses]


def slopes(samples: int = 200) -> jax.Array:
    """Samples of the slope by floor, of one chain."""
    chain = MCMC(NUTS(model), num_warmup=200, num_samples=samples, progress_bar=False)
    chain.run(jax.random.key(1), *measurements())
    return chain.get_samples()["slope"]


if __name__ == "__main__":
    losses = main()
    print(f"loss {losses[0]:.1f} -> {losses[-1]:.1f}")
    slope = slopes()
    print(f"slope by floor: {jnp.mean(slope):.2f} +- {jnp.std(slope):.2f}; -0.7 was put in")
