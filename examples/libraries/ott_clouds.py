"""Points that descend the transport costs to another cloud, by ott's Sinkhorn iterations and their implicit derivative.

All of it is written for jax: `python -m pellucid.as_jax examples/libraries/ott_clouds.py` runs it on pellucid.
"""

import jax
import jax.numpy as jnp
from ott.geometry import pointcloud
from ott.problems.linear import linear_problem
from ott.solvers.linear import sinkhorn


def main(steps: int = 30) -> list[float]:
    """Moves the points for some steps and returns the costs."""
    key, other = jax.random.split(jax.random.key(0))
    points = jax.random.normal(key, (24, 2))
    goal = 0.3 * jax.random.normal(other, (30, 2)) + jnp.array([3.0, 1.0])
    solve = sinkhorn.Sinkhorn()

    @jax.jit
    @jax.value_and_grad
    def cost(points):
        geometry = pointcloud.PointCloud(points, goal, epsilon=0.1)
        return solve(linear_problem.LinearProblem(geometry)).reg_ot_cost

    costs = []
    for _ in range(steps):
        value, gradient = cost(points)
        points = points - 2.0 * gradient
        costs.append(float(value))
    return costs


if __name__ == "__main__":
    for number, value in enumerate(main()):
        if number % 10 == 0:
            print(f"step {number}: cost {value:.6f}")
