"""Eigenvectors and direct solutions of sparse matrices are NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import pellucid as pl
from pellucid import numpy as jnp
from pellucid._machine.base.errors import ArgumentTypeError, ArgumentValueError, ShapeError
from pellucid.experimental import sparse
from pellucid.experimental.sparse.linalg import lobpcg_standard, spsolve

N = 40
RNG = np.random.default_rng(3)


def sparse_matrix(n: int) -> np.ndarray:
    """A matrix of which a tenth isn't zero, and the diagonal."""
    entries = RNG.normal(size=(n, n)) * (RNG.uniform(size=(n, n)) < 0.1)
    return (entries + np.diag(RNG.uniform(2, 3, n))).astype(np.float32)


@pytest.mark.parametrize("kind", ["dense", "sparse", "function", "jitted"])
def test_greatest_eigenvalues_and_their_vectors(kind: str) -> None:
    half = sparse_matrix(N)
    mat = half + half.T
    X = RNG.normal(size=(N, 3)).astype(np.float32)
    operand = {"sparse": sparse.BCOO.fromdense(mat), "function": lambda x: jnp.dot(mat, x)}.get(
        kind, mat
    )
    search = lambda X: lobpcg_standard(operand, X, m=200)
    theta, vectors, steps = (pl.jit(search) if kind == "jitted" else search)(X)
    np.testing.assert_allclose(theta, np.linalg.eigvalsh(mat)[:-4:-1], rtol=1e-5)
    np.testing.assert_allclose(mat @ np.asarray(vectors), vectors * theta, atol=2e-2)
    np.testing.assert_allclose(np.asarray(vectors).T @ vectors, np.eye(3), atol=1e-5)
    assert 1 <= int(steps) <= 200


def test_equal_vectors_to_begin_with_are_no_obstacle() -> None:
    theta, *_ = lobpcg_standard(jnp.diag(jnp.arange(1.0, 31.0)), jnp.ones((30, 2)))
    np.testing.assert_allclose(theta, [30, 29], rtol=1e-5)


@pytest.mark.parametrize(
    ("A", "X", "error"),
    [
        (np.eye(9, dtype="f"), np.ones((9, 2), "f"), ArgumentValueError),
        (np.eye(9, dtype="f"), np.ones(9, "f"), ArgumentTypeError),
        (np.eye(9, dtype="f"), np.ones((9, 1), int), ArgumentTypeError),
        (np.eye(9, dtype=int), np.ones((9, 1), "f"), ArgumentTypeError),
        (np.eye(8, dtype="f"), np.ones((9, 1), "f"), ShapeError),
    ],
)
def test_operands_that_do_not_fit_are_refused(A, X, error) -> None:
    with pytest.raises(error, match="lobpcg_standard"):
        lobpcg_standard(A, X)


def test_direct_solutions_and_their_derivatives() -> None:
    dense = sparse_matrix(N)
    mat, b = sparse.CSR.fromdense(jnp.asarray(dense)), RNG.normal(size=N).astype(np.float32)

    def solved(data, b):
        return spsolve(data, mat.indices, mat.indptr, b)

    def expected(data, b):
        return jnp.linalg.solve(
            sparse.CSR((data, mat.indices, mat.indptr), shape=(N, N)).todense(), b
        )

    for transformed in (
        lambda f: f,
        pl.jit,
        lambda f: pl.grad(lambda *xs: (f(*xs) ** 2).sum(), (0, 1)),
        lambda f: lambda *xs: pl.jvp(f, xs, xs)[1],
        lambda f: lambda data, b: pl.vmap(f, (None, 0))(data, jnp.stack([b, 2 * b])),
    ):
        pl.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-3, atol=1e-4),
            transformed(solved)(mat.data, b),
            transformed(expected)(mat.data, b),
        )
    with pytest.raises(ShapeError, match="spsolve"):
        spsolve(mat.data, mat.indices, mat.indptr, b[1:])
