"""Kernel ridge regression, solved by conjugate gradients that never build the Gram matrix.

The kernel is a function of two points; `vmap` twice makes it one of two sets. Products with the Gram matrix are computed
block by block by `lax.map`. Run it: python examples/kernel_least_squares.py
"""

import numpy as np

import pellucid as jax
import pellucid.numpy as jnp
from pellucid import lax

WIDTH = 0.5
RIDGE = 0.1
BLOCK = 100  # rows of the Gram matrix that exist at a time


def kernel(x, y):
    """Similarity of two points [2]: 1 for equal points, falling with their distance."""
    return jnp.exp(-jnp.sum((x - y) ** 2) / (2 * WIDTH**2))


gram = jax.vmap(jax.vmap(kernel, in_axes=(None, 0)), in_axes=(0, None))
"""Similarities [n, m] of the points [n, 2] with the points [m, 2]."""


def product(points, centers, coefficients):
    """`gram(points, centers) @ coefficients`, for a block of points at a time."""
    blocks = points.reshape(-1, BLOCK, points.shape[-1])
    return lax.map(lambda block: gram(block, centers) @ coefficients, blocks).reshape(-1)


def samples(count):
    """Points [count, 2] of a square, and noisy values of a wavy function there [count]."""
    random = np.random.default_rng(0)
    points = random.uniform(-2, 2, (count, 2)).astype(np.float32)
    values = truth(points) + 0.1 * random.normal(size=count)
    return points, values.astype(np.float32)


def truth(points):
    """The function to learn."""
    return np.sin(2 * points[:, 0]) * np.cos(points[:, 1])


def conjugate_gradients(operator, target, steps):
    """(x that solves `operator(x) = target`, `x·operator(x)/2 - x·target` after each step [steps], which falls)."""

    def step(state, _):
        solution, residual, direction, size = state
        image = operator(direction)
        length = size / (direction @ image)
        solution, residual = solution + length * direction, residual - length * image
        new_size = residual @ residual
        direction = residual + new_size / size * direction
        objective = (
            -solution @ (target + residual) / 2
        )  # without another product: the residual has it
        return (solution, residual, direction, new_size), objective

    start = (jnp.zeros_like(target), target, target, target @ target)
    (solution, *_), objectives = lax.scan(step, start, length=steps)
    return solution, objectives


@jax.jit(static_argnames="steps")
def fit(points, values, steps):
    """(coefficients of the kernel at each point [n], the objective per point after each step [steps])."""
    operator = lambda c: product(points, points, c) + RIDGE * c
    coefficients, objectives = conjugate_gradients(operator, values, steps)
    return coefficients, objectives / len(values)


def main(steps=30):
    """Fit a function of two variables and print how well; returns the objective after each step."""
    points, values = samples(1000)
    coefficients, objectives = fit(points, values, steps)
    losses = [float(x) for x in objectives]
    for step in range(0, steps, 5):
        print(f"step {step:4}  loss {losses[step]:.5f}")
    elsewhere = np.random.default_rng(1).uniform(-1.8, 1.8, (500, 2)).astype(np.float32)
    predicted = product(elsewhere, points, coefficients)
    slope = jax.grad(lambda x: gram(x[None], points)[0] @ coefficients)(jnp.zeros(2))
    print(f"error elsewhere: {np.std(predicted - truth(elsewhere)):.3f}, of a signal of 0.5")
    print(f"slope at the origin: {np.asarray(slope).round(2)}, which should be [2, 0]")
    return losses


if __name__ == "__main__":
    main()
