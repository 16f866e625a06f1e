"""Minima and solutions of linear equations, against the known ones, and their derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from rotation import rotating

import pellucid as pl
import pellucid.numpy as jnp
from pellucid._machine.base.errors import ArgumentTypeError, ArgumentValueError, ShapeError
from pellucid.scipy.optimize import minimize
from pellucid.scipy.sparse import linalg

LIMITED = "l-bfgs-experimental-do-not-rely-on-this"


def rosenbrock(x, scale=100.0):
    """A curved valley with its minimum 0 at ones."""
    return jnp.sum(scale * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


@pytest.mark.parametrize("method", ["BFGS", LIMITED])
def test_minimum(method) -> None:
    with pl.enable_x64(True):
        options = {"gtol": 1e-7} | ({"ftol": 0.0} if method == LIMITED else {})
        solve = pl.jit(
            pl.vmap(lambda x: minimize(rosenbrock, x, (10.0,), method=method, options=options))
        )
        starts = np.array([[0.0, 0.0, 0.0], [-1.2, 1.0, 2.0], [3.0, -2.0, 0.5]])
        result = solve(starts)
        np.testing.assert_allclose(result.x, np.ones((3, 3)), 1e-5)
        assert np.all(result.success)
        assert not np.any(result.status)
        assert np.all(np.abs(result.jac) < 1e-7)
        assert np.all((result.nit <= result.nfev) & (result.nfev < 80))


def test_hessian_and_single_precision() -> None:
    matrix = np.array([[3.0, 1.0], [1.0, 2.0]], np.float32)
    result = minimize(lambda x: x @ matrix @ x / 2 - x[0], np.zeros(2, np.float32), method="BFGS")
    np.testing.assert_allclose(result.x, np.linalg.solve(matrix, [1.0, 0.0]), 1e-4)
    np.testing.assert_allclose(result.hess_inv, np.linalg.inv(matrix), 1e-2)


@pytest.mark.parametrize(
    ("method", "options", "status"),
    rotating(
        [
            ("BFGS", {"maxiter": 3}, 1),
            (LIMITED, {"maxfun": 3}, 2),
            (LIMITED, {"maxgrad": 3}, 3),
            (LIMITED, {"ftol": 0.5}, 4),
            ("BFGS", {"maxiter": 0}, 1),
        ],
        lambda case: "",
    ),
)
def test_reasons_to_end(method, options, status) -> None:
    result = minimize(rosenbrock, np.zeros(3, np.float32), method=method, options=options)
    assert int(result.status) == status
    assert not result.success


def test_function_without_a_minimum() -> None:
    result = minimize(jnp.sum, np.ones(2, np.float32), method="BFGS")
    assert int(result.status) == 5


SOLVERS = {
    "cg": linalg.cg,
    "bicgstab": linalg.bicgstab,
    "gmres": linalg.gmres,
    "incremental": lambda *a, **k: linalg.gmres(*a, solve_method="incremental", restart=4, **k),
}


@pytest.mark.parametrize(
    ("name", "dtype"),
    rotating(
        [(n, d) for d in ("complex128", "float64") for n in SOLVERS], lambda case: case[0] == "cg"
    ),
)
def test_solution_and_derivatives(name, dtype) -> None:
    rng = np.random.default_rng(0)
    part = 1j * rng.normal(size=(7, 7)) if dtype == "complex128" else 0
    a, b = rng.normal(size=(7, 7)) + part, rng.normal(size=7).astype(dtype)
    a = a @ a.conj().T + 3 * np.eye(7) if name == "cg" else a + 9 * np.eye(7)
    solve = lambda a, b, **options: SOLVERS[name](a, b, tol=1e-12, **options)[0]
    with pl.enable_x64(True):
        np.testing.assert_allclose(
            solve(a, b, M=np.diag(1 / np.diag(a))), np.linalg.solve(a, b), 1e-8
        )
        loss = lambda solve: lambda a, b: jnp.sum(jnp.abs(solve(a, b)) ** 3)
        ours, theirs = (
            pl.jit(pl.value_and_grad(loss(f), argnums=(0, 1)))(a, b)
            for f in (solve, jnp.linalg.solve)
        )
        for x, y in zip(pl.tree.leaves(ours), pl.tree.leaves(theirs), strict=True):
            np.testing.assert_allclose(x, y, 1e-7, 1e-10)


def test_trees_and_batches() -> None:
    halved = linalg.cg(
        lambda t: {"a": 2 * t["a"], "b": 4 * t["b"]}, {"a": np.ones(2), "b": np.ones((2, 2))}
    )[0]
    np.testing.assert_allclose(halved["a"], [0.5, 0.5])
    np.testing.assert_allclose(halved["b"], np.full((2, 2), 0.25))
    matrix = np.diag(np.arange(1.0, 6.0)).astype(np.float32)
    inverse = pl.vmap(lambda b: linalg.gmres(matrix, b, restart=5)[0])(np.eye(5, dtype=np.float32))
    np.testing.assert_allclose(inverse, np.linalg.inv(matrix), atol=1e-5)
    assert not linalg.bicgstab(matrix, np.zeros(5, np.float32))[0].any()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("minimize(np.sum, np.zeros(2), method='Nelder-Mead')", ArgumentValueError),
        ("minimize(np.sum, np.zeros(2), method=None)", ArgumentValueError),
        ("minimize(np.sum, np.zeros(2), np.ones(2), method='BFGS')", ArgumentTypeError),
        ("minimize(np.sum, np.zeros((2, 2)), method='BFGS')", ShapeError),
        ("minimize(np.sum, np.zeros(2), method='BFGS', options={'maxcor': 2})", ArgumentTypeError),
        ("linalg.cg(np.ones((2, 3)), np.ones(2))", ShapeError),
        ("linalg.cg(np.eye(2), np.ones(2), np.ones(3))", ArgumentValueError),
        ("linalg.cg('x', np.ones(2))", ArgumentTypeError),
        ("linalg.gmres(np.eye(2), np.ones(2), solve_method='x')", ArgumentValueError),
    ],
)
def test_errors(call, error) -> None:
    with pytest.raises(error):
        eval(call, {"np": np, "minimize": minimize, "linalg": linalg})
