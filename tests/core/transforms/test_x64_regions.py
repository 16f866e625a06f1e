"""Derivatives of functions that switch 64-bit types on or off for a part of their work."""

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax


def under(is_wide, function):
    """`function` with 64-bit types on or off."""

    def call(*arguments):
        with pl.enable_x64(is_wide):
            return function(*arguments)

    return call


SINE = under(True, jnp.sin)


def _scanned(v):
    def body(carry, x):
        y = SINE(x)
        return carry + y.astype(jnp.float32), y

    return lax.scan(body, jnp.float32(0), v)[0]


def _twice(x):
    return under(True, lambda z: z.astype(jnp.float64) * 2)(x).astype(jnp.float32)


X, V = np.float32(1), np.arange(3, dtype=np.float32)
WIDE = np.array([0.1, 0.2, 0.3])
ROWS = {
    "grad of a number": (lambda: pl.grad(SINE)(1.0), np.cos(1), "float32"),
    "second derivative": (lambda: pl.grad(pl.grad(SINE))(1.0), -np.sin(1), "float32"),
    "a number and an array": (lambda: pl.grad(lambda x: 3 * x + SINE(x).astype(jnp.float32))(1.0), 3 + np.cos(1), "float32"),
    "products": (lambda: pl.grad(under(True, lambda x: x * x * jnp.float64(3)))(1.0), 6, "float32"),
    "a NumPy scalar": (lambda: pl.grad(under(True, lambda x: x * np.float64(2)))(X), 2, "float32"),
    "converted within": (lambda: pl.grad(_twice)(X), 2, "float32"),
    "powers": (lambda: pl.grad(under(True, lambda x: x**3))(1.0), 3, "float32"),
    "choices": (lambda: pl.grad(under(True, lambda x: jnp.where(x > 0, x, 2 * x)))(1.0), 1, "float32"),
    "complex": (lambda: pl.grad(under(True, lambda x: jnp.abs(jnp.exp(1j * x) * x)))(1.0), 1, "float32"),
    "jit within": (lambda: pl.grad(under(True, pl.jit(jnp.sin)))(1.0), np.cos(1), "float32"),
    "jit around": (lambda: pl.jit(pl.grad(SINE))(X), np.cos(1), "float32"),
    "vmap": (lambda: pl.vmap(pl.grad(SINE))(V), np.cos(V), "float32"),
    "scan": (lambda: pl.grad(_scanned)(V), np.cos(V), "float32"),
    "vjp": (lambda: pl.vjp(SINE, 1.0)[1](np.float32(1))[0], np.cos(1), "float32"),
    "linearize": (lambda: pl.linearize(SINE, 1.0)[1](1.0), np.cos(1), "float32"),
    "constants of NumPy": (lambda: pl.grad(under(True, lambda x: (x * WIDE).sum()))(V), WIDE, "float32"),
    "constants of NumPy beside arrays": (lambda: pl.grad(under(True, lambda x: lax.mul(x.astype("float64"), WIDE).sum()))(V), WIDE, "float32"),
    "constants of NumPy in checkpoint": (lambda: pl.grad(pl.checkpoint(under(True, lambda x: (jnp.sin(x) * WIDE).sum())))(V), np.cos(V) * WIDE, "float32"),
    "constants of NumPy in jit": (lambda: pl.grad(pl.jit(under(True, lambda x: (jnp.sin(x) * WIDE).sum())))(V), np.cos(V) * WIDE, "float32"),
    "constants of NumPy in a Hessian": (lambda: pl.hessian(under(True, lambda x: (x**3 * WIDE).sum()))(V), np.diag(6 * WIDE * V), "float32"),
    "interpolation": (lambda: pl.grad(under(True, lambda x: jnp.interp(x, WIDE, WIDE**2).sum()))(0.15 + 0 * V), [0.3] * 3, "float32"),
    "jacrev": (lambda: pl.jacrev(under(True, lambda x: x * WIDE))(V), np.diag(WIDE), "float32"),
    "jacfwd": (lambda: pl.jacfwd(under(True, lambda x: x * WIDE))(V), np.diag(WIDE), "float64"),
    "Jacobian of a number": (lambda: pl.jacrev(under(True, lambda x: x * 2.0))(1.0), 2, "float32"),
    "Hessian of a number": (lambda: pl.hessian(under(True, lambda x: x * x * 2.0))(1.0), 4, "float32"),
    "narrow part": (under(True, lambda: pl.grad(under(False, jnp.sin))(1.0)), np.cos(1), "float64"),
    "narrow part with constants": (under(True, lambda: pl.grad(under(False, lambda x: x * 3.0 * x))(jnp.float32(1))), 6, "float32"),
}  # fmt: skip
"""Derivative, its value, its dtype."""


@pytest.mark.parametrize("row", ROWS)
def test_derivatives_have_the_type_of_their_argument(row) -> None:
    derivative, value, dtype = ROWS[row]
    result = derivative()
    assert result.dtype == dtype
    np.testing.assert_allclose(result, value, 1e-6)
    assert not pl.config.jax_enable_x64


def test_tangents_of_numbers_keep_the_type_with_which_they_came() -> None:
    assert [x.dtype for x in pl.jvp(lambda x: SINE(x) * x, (X,), (X,))] == ["float32", "float32"]
    primal, tangent = under(True, lambda: pl.jvp(jnp.sin, (1.0,), (1.0,)))()
    assert (primal.dtype, tangent.dtype) == ("float64", "float64")
