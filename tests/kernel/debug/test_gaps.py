"""Derivatives of decompositions that divide by differences of equal, or nearly equal, values are said to do so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid.debugger import explain_grad, find, isnan

TURN = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))[0]
NEAR = (TURN * [1, 1, 3, 3] @ TURN.T).astype(np.float32)
APART = np.diag([1, 2, 3, 4]).astype(np.float32) + 0.1
EQUAL = np.eye(4, dtype=np.float32)


def projected(a: Any) -> Any:
    _, v = jnp.linalg.eigh(a)
    return (v[:, :2] @ v[:, :2].T)[0, 1]


def turned(a: Any) -> Any:
    u, _, vh = jnp.linalg.svd(a, full_matrices=False)
    return (u @ vh)[0, 1]


def first_of_eig(a: Any) -> Any:
    _, _, v = pl.lax.linalg.eig(a, enable_eigvec_derivs=True)
    return jnp.abs(v[0, 0])


@pytest.mark.parametrize(("f", "values"), [(projected, "eigenvalues"), (turned, "singular values")])
def test_gradients_by_gaps_of_a_few_eps_are_said_to_be_noise(f: Any, values: str) -> None:
    assert explain_grad(f)(APART).notes == []
    explanation = explain_grad(f)(NEAR)
    assert explanation.faults == []  # it is finite, and wrong
    [note] = explanation.notes
    assert f"{values} that are equal up to rounding" in note
    assert "jnp.linalg.hermitian_function(f, A)" in note
    assert note in str(explanation)
    assert note in explanation.record().within
    # One matrix of a batch is enough.
    batched = lambda x: pl.vmap(f)(x).sum()
    assert len(explain_grad(batched)(np.stack([APART, NEAR])).notes) == 1


@pytest.mark.parametrize("f", [projected, turned, first_of_eig])
def test_nan_of_equal_values_names_what_has_a_derivative(f: Any) -> None:
    [note] = explain_grad(f)(EQUAL).notes
    assert "that are equal, and the gradient divides by their difference, 0" in note


def test_a_found_quotient_names_the_decomposition() -> None:
    text = str(find(pl.grad(projected), isnan)(EQUAL))
    assert "a quotient of the derivative of `eigh`" in text
    assert "hermitian_function" in text


@pytest.mark.parametrize(
    "f",
    [
        lambda a: (1 / jnp.linalg.eigh(a)[0]).sum(),  # the user's own quotient
        lambda a: jnp.linalg.hermitian_function(jnp.sqrt, a)[0, 1],
        lambda a: pl.scipy.linalg.sqrtm(a).real[0, 1],
    ],
)
def test_nothing_is_said_of_what_has_a_derivative(f: Any) -> None:
    assert explain_grad(f)(NEAR).notes == []
    assert find(pl.grad(f), isnan)(EQUAL) is None


def test_equal_values_may_all_be_0() -> None:
    [note] = explain_grad(projected)(0 * EQUAL).notes
    assert "that are equal" in note
