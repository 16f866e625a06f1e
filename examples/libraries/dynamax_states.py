"""Hidden Markov and linear Gaussian models of dynamax, fitted by expectation maximization.

All of it is written for jax: `python -m pellucid.as_jax examples/libraries/dynamax_states.py` runs it on pellucid.
"""

import jax
import jax.numpy as jnp
from dynamax.hidden_markov_model import GaussianHMM
from dynamax.linear_gaussian_ssm import LinearGaussianSSM


def main(steps: int = 12) -> list[float]:
    """Fits for some steps and returns the negative logarithms of the likelihood."""
    model = GaussianHMM(3, 2)
    true, _ = model.initialize(jax.random.key(0))
    _, emissions = model.sample(true, jax.random.key(1), 100)
    params, properties = model.initialize(jax.random.key(2))
    _, found = model.fit_em(params, properties, emissions, num_iters=steps, verbose=False)
    linear = LinearGaussianSSM(2, 2)
    params, properties = linear.initialize(jax.random.key(3))
    _, more = linear.fit_em(params, properties, emissions, num_iters=steps, verbose=False)
    return [*(-jnp.asarray(found)).tolist(), *(-jnp.asarray(more)).tolist()]


if __name__ == "__main__":
    for number, value in enumerate(main()):
        print(f"step {number}: loss {value:.6f}")
