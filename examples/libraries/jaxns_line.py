"""Nested sampling of a line's height and slope by jaxns, whose evidence is known.

All of it is written for jax: `python -m pellucid.as_jax examples/libraries/jaxns_line.py` runs it on pellucid.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxns.constrained_sampler import UniDimSliceSampler
from jaxns.core import NestedSampler
from jaxns.model import Model
from jaxns.priors import Prior
from jaxns.results import NestedSamplerResults
from tensorflow_probability.substrates.jax import distributions

PLACES = jnp.linspace(0.0, 1.0, 6)
HEIGHTS = jnp.array([0.15, 0.32, 0.83, 1.08, 1.52, 1.77])
NOISE, HEIGHT_SCALE, SLOPE_SCALE = 0.5, 1.0, 2.0


def line(places: jax.Array, heights: jax.Array) -> jax.Array:
    """Logarithm of the likelihood of heights under a line that is drawn from its prior."""
    height = Prior(distributions.Normal(0.0, HEIGHT_SCALE), name="height").realise()
    slope = Prior(distributions.Normal(0.0, SLOPE_SCALE), name="slope").realise()
    return jnp.sum(distributions.Normal(height + slope * places, NOISE).log_prob(heights))


def sample(roots: int) -> NestedSamplerResults:
    """The result of nested sampling from that many independent roots."""
    sampler = NestedSampler(
        model=Model(prior_model=line),
        root_allocation_degree=roots,
        max_samples=40 * roots,
        sampler=UniDimSliceSampler(num_slices=6),
    )
    state = sampler.run(key=jax.random.key(6), args=(PLACES, HEIGHTS))
    return state.to_result().trim()


def log_evidence() -> float:
    """Logarithm of the evidence, in closed form: all heights together are normal."""
    covariance = (
        NOISE**2 * np.eye(PLACES.size) + HEIGHT_SCALE**2 + SLOPE_SCALE**2 * np.outer(PLACES, PLACES)
    )
    _, logarithm = np.linalg.slogdet(2 * np.pi * covariance)
    heights = np.asarray(HEIGHTS)
    return float(-0.5 * (logarithm + heights @ np.linalg.solve(covariance, heights)))


def main(steps: int = 12) -> list[float]:
    """Samples from ten roots for each step; returns the mean loss of each of as many parts, from the prior to the peak."""
    result = sample(10 * steps)
    assert abs(result.log_Z_mean - log_evidence()) < 3 * result.log_Z_uncert
    return [float(-np.mean(part)) for part in np.array_split(np.asarray(result.log_L), steps)]


if __name__ == "__main__":
    for number, value in enumerate(main()):
        print(f"part {number}: {value:.6f}")
