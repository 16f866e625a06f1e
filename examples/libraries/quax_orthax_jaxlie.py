"""Three small libraries: quantities with units by quax, quadrature by orthax, and poses found by jaxlie.

All of it is written for jax: `python -m pellucid.as_jax examples/libraries/quax_orthax_jaxlie.py` runs it on pellucid.
"""

import jax
import jax.numpy as jnp
import jaxlie
import orthax
import quax
from quax.examples.lora import LoraArray


def main(steps: int = 30) -> list[float]:
    """Descends to a pose for some steps and returns the losses."""
    goal = jaxlie.SE3.from_rotation_and_translation(
        jaxlie.SO3.from_rpy_radians(0.3, -0.2, 0.5), jnp.array([1.0, 2.0, 3.0])
    )

    @jax.jit
    def step(pose):
        def loss(p):
            return jnp.sum((goal.inverse() @ p).log() ** 2)

        value, gradient = jaxlie.manifold.value_and_grad(loss)(pose)
        return jaxlie.manifold.rplus(pose, jax.tree.map(lambda g: -0.1 * g, gradient)), value

    pose, losses = jaxlie.SE3.identity(), []
    for _ in range(steps):
        pose, value = step(pose)
        losses.append(float(value))
    matrix = jax.random.normal(jax.random.key(0), (6, 6))
    weight = LoraArray(matrix, rank=2, key=jax.random.key(1))  # which begins as the matrix
    product = quax.quaxify(lambda w, x: w @ x)(weight, jnp.arange(6.0))
    assert jnp.allclose(product, matrix @ jnp.arange(6.0), rtol=1e-5)
    nodes, weights = orthax.orthgauss(6, orthax.recurrence.Legendre())
    integral = jnp.sum(weights * jnp.exp(nodes))
    assert abs(float(integral) - (jnp.e - 1 / jnp.e)) < 1e-5
    return losses


if __name__ == "__main__":
    for number, value in enumerate(main()):
        print(f"step {number}: {value:.6f}")
