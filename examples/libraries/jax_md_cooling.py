"""Soft spheres of jax-md that cool down to a minimum of their energy, with a list of neighbours.

All of it is written for jax: `python -m pellucid.as_jax examples/libraries/jax_md_cooling.py` runs it on pellucid.
"""

import jax
import jax.numpy as jnp
from jax_md import energy, minimize, space


def main(steps: int = 60) -> list[float]:
    """Descends for some steps and returns the energies."""
    side = 6.0
    displacement, shift = space.periodic(side)
    positions = side * jax.random.uniform(jax.random.key(0), (32, 2))
    total = energy.soft_sphere_pair(displacement)
    neighbors, listed = energy.soft_sphere_neighbor_list(displacement, side)
    near = neighbors.allocate(positions)
    assert jnp.allclose(listed(positions, near), total(positions), rtol=1e-4)
    begin, step = minimize.fire_descent(total, shift)
    state = begin(positions)
    energies = []
    step = jax.jit(step)
    for _ in range(steps):
        energies.append(float(total(state.position)))
        state = step(state)
    return energies


if __name__ == "__main__":
    for number, value in enumerate(main()):
        if number % 10 == 0:
            print(f"step {number}: energy {value:.6f}")
