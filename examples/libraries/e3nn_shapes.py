"""Equivariant features of points by e3nn: their energy is trained, and turns with the points.

All of it is written for jax: `python -m pellucid.as_jax examples/libraries/e3nn_shapes.py` runs it on pellucid.
"""

import e3nn_jax as e3nn
import jax
import jax.numpy as jnp


def main(steps: int = 30) -> list[float]:
    """Trains for some steps and returns their losses."""
    points = jax.random.normal(jax.random.key(0), (8, 3))
    irreps = e3nn.Irreps("2x0e + 1x1o + 1x2e")

    def features(weights, points):
        harmonics = e3nn.spherical_harmonics("0e + 1o + 2e", points, normalize=True)
        product = e3nn.tensor_product(harmonics, harmonics, filter_ir_out=["0e", "1o", "2e"])
        linear = e3nn.FunctionalLinear(product.irreps, irreps)
        paths = linear.split_weights(weights[: linear.num_weights])
        return jax.vmap(lambda x: linear(paths, x))(product)

    def energy(weights, points):
        x = features(weights, points)
        return jnp.sum(e3nn.dot(x, x).array) / len(points)

    rotation = e3nn.rand_matrix(jax.random.key(1), ())
    weights = jax.random.normal(jax.random.key(2), (64,))
    turned = energy(weights, points @ rotation.T)
    assert jnp.allclose(turned, energy(weights, points), rtol=1e-4)
    step = jax.jit(jax.value_and_grad(lambda w: (energy(w, points) - 1.0) ** 2))
    losses = []
    for _ in range(steps):
        loss, gradient = step(weights)
        weights = weights - 0.003 * gradient
        losses.append(float(loss))
    return losses


if __name__ == "__main__":
    for number, value in enumerate(main()):
        if number % 10 == 0:
            print(f"step {number}: loss {value:.6f}")
