"""Functions of Hermitian matrices: values and derivatives, above all where eigenvalues are equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid._machine.base.errors import ArgumentTypeError, DerivativeRuleError, ShapeError

_rng = np.random.default_rng(0)
TURN = np.linalg.qr(_rng.standard_normal((4, 4)))[0]
COMPLEX_TURN = np.linalg.qr(_rng.standard_normal((4, 4)) + 1j * _rng.standard_normal((4, 4)))[0]
WEIGHTS, E, G = (x + x.T for x in _rng.standard_normal((3, 4, 4)))
SPECTRA = {
    "different": [1.0, 2.3, 3.1, 4.4], "pair": [1.0, 2.0, 2.0, 3.0], "multiple of one": [2.0] * 4,
    "near": [1.0, 1.0 + 1e-9, 2.0, 2.0 + 1e-5], "around the threshold": [1.0, 1.06, 1.065, 1.13],
}  # fmt: skip
TURNS = {"diagonal": np.eye(4), "rotated": TURN, "complex": COMPLEX_TURN}


@pytest.fixture(autouse=True)
def _wide():
    with pl.enable_x64():
        yield


def _cubed(a: Any) -> Any:
    return jnp.real((jnp.linalg.hermitian_function(lambda w: w**3 + 2 * w, a) * WEIGHTS).sum())


def _expected(a: Any) -> Any:
    return jnp.real(((a @ a @ a + 2 * a) * WEIGHTS).sum())


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("spectrum", SPECTRA)
def test_derivatives_are_those_of_the_polynomial(spectrum: str, turn: str) -> None:
    """A cubic polynomial of a matrix is also a sum of products, whose derivatives know nothing of eigenvalues."""
    v = TURNS[turn]
    a = v @ np.diag(SPECTRA[spectrum]) @ v.conj().T
    e, g = E.astype(a.dtype), G.astype(a.dtype)

    def derivatives(f: Any) -> list[Any]:
        along = lambda a: pl.jvp(f, (a,), (e,))[1]
        slope = lambda a: jnp.real((pl.grad(f)(a) * e).sum())
        return [
            f(a),
            along(a),
            slope(a),
            pl.jvp(along, (a,), (g,))[1],
            pl.jvp(slope, (a,), (g,))[1],
        ]

    found, expected = (pl.jit(lambda f=f: derivatives(f))() for f in (_cubed, _expected))
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    gradient = pl.grad(lambda a: jnp.real((pl.grad(_cubed)(a) * e).sum()))(a)
    slopes = jnp.real((gradient * g).sum())
    np.testing.assert_allclose(slopes, expected[-1], rtol=1e-10)


@pytest.mark.parametrize("spectrum", ["pair", "multiple of one", "near"])
def test_gradients_of_roots_and_logarithms_at_equal_eigenvalues(spectrum: str) -> None:
    a = TURN @ np.diag(SPECTRA[spectrum]) @ TURN.T
    w, v = np.linalg.eigh(a)
    for f, quotient in (
        (jnp.sqrt, lambda x, y: 1 / (np.sqrt(x) + np.sqrt(y))),
        (lambda w: 1 / w, lambda x, y: -1 / (x * y)),
    ):
        loss = lambda a, f=f: (jnp.linalg.hermitian_function(f, a) * WEIGHTS).sum()
        gradient = pl.grad(loss)(a)
        expected = v @ (quotient(w[:, None], w) * (v.T @ WEIGHTS @ v)) @ v.T
        np.testing.assert_allclose(gradient, expected, rtol=1e-10, atol=1e-12)


def test_gradients_in_single_precision_are_accurate_at_all_gaps() -> None:
    for gap in 10.0 ** np.arange(-8, 1):
        w = np.array([1, 1 + gap], np.float32)
        a = np.diag(w)
        gradient = pl.grad(lambda a: jnp.linalg.hermitian_function(jnp.sqrt, a)[0, 1])(a)
        x, y = np.sqrt(np.float64(w))
        np.testing.assert_allclose(gradient[0, 1], 0.5 / (x + y), rtol=3e-6)


def test_what_the_function_closes_over_is_differentiated() -> None:
    a = 2 * jnp.eye(3)

    def loss(t: Any, a: Any) -> Any:
        powers = jnp.linalg.hermitian_function(lambda w: t * w**2 + w**t, a)
        return powers.sum()

    t = 1.3
    np.testing.assert_allclose(pl.grad(loss)(t, a), 3 * (4 + 2**t * np.log(2)))
    np.testing.assert_allclose(pl.grad(pl.grad(loss))(t, a), 3 * 2**t * np.log(2) ** 2)
    mixed = pl.grad(lambda t: pl.grad(loss, 1)(t, a)[0, 1])(t)
    np.testing.assert_allclose(mixed, 4 + 2 ** (t - 1) * (1 + t * np.log(2)))
    with pytest.raises(DerivativeRuleError, match="no derivatives by the matrix"):
        pl.grad(lambda a: pl.grad(loss)(t, a))(a)


def test_batches_and_mapped_calls_are_those_of_one() -> None:
    batch = np.stack([2 * np.eye(3), np.diag([1.0, 1.0, 3.0])])
    root = lambda a: jnp.linalg.hermitian_function(jnp.sqrt, a)
    gradient = pl.grad(lambda a: (root(a) ** 3).sum())
    expected = np.stack([gradient(a) for a in batch])
    np.testing.assert_allclose(gradient(batch), expected, rtol=1e-12)
    np.testing.assert_allclose(pl.vmap(gradient)(batch), expected, rtol=1e-12)


def test_values_outside_the_domain_are_nan_and_wrong_arguments_refused() -> None:
    assert np.isnan(jnp.linalg.hermitian_function(jnp.sqrt, -np.eye(2))).any()
    with pytest.raises(ArgumentTypeError, match="function of eigenvalues"):
        jnp.linalg.hermitian_function(np.eye(2), jnp.sqrt)  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="square"):
        jnp.linalg.hermitian_function(jnp.sqrt, np.ones((2, 3)))
