"""A normalizing flow of distrax: coupling layers turn a normal distribution into two moons.

All of it is written for jax: `python -m pellucid.as_jax examples/libraries/distrax_flow.py` runs it on pellucid.
"""

import distrax
import jax
import jax.numpy as jnp
import numpy as np
import optax

LAYERS, WIDTH, POINTS = 4, 24, 256


def moons() -> np.ndarray:
    """Points (n, 2) on two arcs, with noise."""
    rng = np.random.default_rng(0)
    angles = rng.uniform(0, np.pi, POINTS)
    is_lower = rng.integers(0, 2, POINTS)
    upper = np.stack([np.cos(angles), np.sin(angles)], 1)
    points = np.where(is_lower[:, None], [1, 0.5] - upper, upper)
    return (points + 0.05 * rng.normal(size=points.shape)).astype(np.float32)


def conditioner(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    """Shift and logarithm of scale of each variable, by a network of one hidden layer."""
    hidden = jnp.tanh(x @ params["in"] + params["bias"])
    return hidden @ params["out"]


def flow(params: list[dict[str, jax.Array]]) -> distrax.Transformed:
    """The distribution of points."""
    layers = [
        distrax.MaskedCoupling(
            mask=jnp.arange(2) % 2 == i % 2,
            conditioner=lambda x, p=p: conditioner(p, x).reshape(*x.shape, 2),
            bijector=lambda values: distrax.ScalarAffine(values[..., 0], log_scale=values[..., 1]),
        )
        for i, p in enumerate(params)
    ]
    base = distrax.MultivariateNormalDiag(jnp.zeros(2), jnp.ones(2))
    return distrax.Transformed(base, distrax.Chain(layers))


def initial(key: jax.Array) -> list[dict[str, jax.Array]]:
    """Parameters of all layers."""
    return [
        {
            "in": jax.random.normal(k, (2, WIDTH)),
            "bias": jnp.zeros(WIDTH),
            "out": 0.1 * jax.random.normal(jax.random.fold_in(k, 1), (WIDTH, 4)),
        }
        for k in jax.random.split(key, LAYERS)
    ]


def main(steps: int = 300) -> list[float]:
    """The mean negative logarithm of the density at the points, in each step of Adam."""
    points = moons()
    optimizer = optax.adam(1e-2)

    @jax.jit
    def step(params, state):
        loss, gradients = jax.value_and_grad(lambda p: -flow(p).log_prob(points).mean())(params)
        updates, state = optimizer.update(gradients, state)
        return optax.apply_updates(params, updates), state, loss

    params = initial(jax.random.key(0))
    state = optimizer.init(params)
    losses = []
    for _ in range(steps):
        params, state, loss = step(params, state)
        losses.append(float(loss))
    samples = flow(params).sample(seed=jax.random.key(1), sample_shape=(100,))
    assert samples.shape == (100, 2)
    return losses


if __name__ == "__main__":
    losses = main()
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}")
