"""Variational inference and the no-U-turn sampler of blackjax on a curved density.

All of it is written for jax: `python -m pellucid.as_jax examples/libraries/blackjax_banana.py` runs it on pellucid.
"""

import blackjax
import jax
import jax.numpy as jnp
import optax


def log_density(x: jax.Array) -> jax.Array:
    """Logarithm of a density of two variables, the second of which lies around the square of the first."""
    return -0.5 * x[0] ** 2 - 2.0 * (x[1] - x[0] ** 2) ** 2


def main(steps: int = 200) -> list[float]:
    """The loss of each step of a variational approximation by a normal distribution."""
    vi = blackjax.meanfield_vi(log_density, optax.adam(0.05), num_samples=64)
    state = vi.init(jnp.array([2.0, 2.0]))
    step = jax.jit(vi.step)
    losses = []
    for key in jax.random.split(jax.random.key(0), steps):
        state, info = step(key, state)
        losses.append(float(info.elbo))
    return losses


def samples(count: int = 300) -> jax.Array:
    """Samples of one chain, after window adaptation of its step size and masses."""
    warmup_key, key = jax.random.split(jax.random.key(1))
    adaptation = blackjax.window_adaptation(blackjax.nuts, log_density)
    (state, parameters), _ = adaptation.run(warmup_key, jnp.zeros(2), num_steps=300)
    kernel = blackjax.nuts(log_density, **parameters)

    def step(state, key):
        state, _ = kernel.step(key, state)
        return state, state.position

    return jax.lax.scan(step, state, jax.random.split(key, count))[1]


if __name__ == "__main__":
    losses = main()
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}")
    print(f"means {jnp.mean(samples(), 0)}")
