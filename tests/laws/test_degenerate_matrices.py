"""Derivatives of what doesn't depend on the choice of eigenvectors or singular vectors are right or NaN, never finite and wrong.

Expected are central differences in double precision; where those of both sides differ there is no derivative.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp

N = 4
_rng = np.random.default_rng(1)
TURN, OTHER = (np.linalg.qr(_rng.standard_normal((N, N)))[0] for _ in range(2))
TALL_TURN = np.linalg.qr(_rng.standard_normal((N + 2, N)))[0]
K, TALL_K = _rng.standard_normal((N, N)), _rng.standard_normal((N + 2, N))


def _hermitian(values: list[float]) -> Any:
    return np.diag(np.array(values, float))


HERMITIAN = {
    "generic": (TURN * [1, 1.7, 2.6, 4] @ TURN.T),
    "pairs": _hermitian([1, 1, 3, 3]),
    "a pair": _hermitian([1, 2, 2, 3]),
    "multiple of one": _hermitian([2, 2, 2, 2]),
    "rank-deficient": _hermitian([0, 0, 1, 2]),
    "of rank 3": _hermitian([0, 1, 2, 3.5]),
}
GENERAL = {
    **HERMITIAN,
    "generic": TURN * [4, 2.6, 1.7, 1] @ OTHER,
    "tall": TALL_TURN * [4, 2.6, 1.7, 1] @ OTHER,
    "tall, a pair": np.vstack([_hermitian([3, 2, 2, 1]), np.zeros((2, N))]),
    "tall of rank 3": np.vstack([_hermitian([3, 2, 1, 0]), np.zeros((2, N))]),
    "tall of rank 2": np.vstack([_hermitian([3, 2, 0, 0]), np.zeros((2, N))]),
    "wide of rank 3": np.hstack([_hermitian([3, 2, 1, 0]), np.zeros((N, 2))]),
}


def _by_eigh(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, xp: f(xp, *xp.linalg.eigh((a + a.T) / 2))


def _by_svd(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, xp: f(xp, *xp.linalg.svd(a, full_matrices=False))


def _weighted(x: Any) -> Any:
    return (x * np.resize(TALL_K, x.shape)).sum()


OF_EIGENVALUES: dict[str, Callable[..., Any]] = {
    "sum of squares": lambda xp, w, v: (w**2).sum(),
    "entropy": lambda xp, w, v: (w * xp.log(w)).sum(),
    "log det": lambda xp, w, v: xp.log(w).sum(),
    "root": lambda xp, w, v: _weighted(v * xp.sqrt(w) @ v.T),
    "logarithm": lambda xp, w, v: _weighted(v * xp.log(w) @ v.T),
    "made again": lambda xp, w, v: _weighted(v * w @ v.T),
    "projector": lambda xp, w, v: _weighted(v[:, :2] @ v[:, :2].T),
    "projector on the least": lambda xp, w, v: _weighted(v[:, :1] @ v[:, :1].T),
}
OF_SINGULAR_VALUES: dict[str, Callable[..., Any]] = {
    "nuclear norm": lambda xp, u, s, vh: s.sum(),
    "norm of the matrix made again": lambda xp, u, s, vh: xp.linalg.norm(u * s @ vh),
    "matrix made again": lambda xp, u, s, vh: _weighted(u * s @ vh),
    "polar factor": lambda xp, u, s, vh: _weighted(u @ vh),
    "part of rank 2": lambda xp, u, s, vh: _weighted(u[:, :2] * s[:2] @ vh[:2]),
    "projector on columns": lambda xp, u, s, vh: _weighted(u @ u.T),
    "positive factor": lambda xp, u, s, vh: _weighted((vh.T * s) @ vh),
}
ROWS = [
    *((f"eigh: {name}", _by_eigh(f), of, a) for name, f in OF_EIGENVALUES.items() for of, a in HERMITIAN.items()),
    *((f"svd: {name}", _by_svd(f), of, a) for name, f in OF_SINGULAR_VALUES.items() for of, a in GENERAL.items()),
]  # fmt: skip


def _differences(f: Callable[..., Any], a: Any, h: float = 1e-5) -> Any:
    """Central differences by each element; NaN where those of both sides differ."""
    slopes = np.full(a.shape, np.nan)
    at = f(a, np)
    for i in np.ndindex(a.shape):
        e = np.zeros(a.shape)
        e[i] = h
        after, before = f(a + e, np), f(a - e, np)
        if abs(after - 2 * at + before) < 1e-3 * h:
            slopes[i] = (after - before) / (2 * h)
    return slopes


@functools.cache
def _gradient(f: Callable[..., Any]) -> Any:
    return pl.jit(pl.grad(lambda a: f(a, jnp)))


@pytest.mark.parametrize("mode", ["plain", pytest.param("masked", marks=pytest.mark.rotates)])
@pytest.mark.parametrize(("name", "f", "of", "a"), ROWS, ids=[f"{r[0]} of {r[2]}" for r in ROWS])
def test_gradients_are_right_or_nan(name: str, f: Any, of: str, a: Any, mode: str) -> None:
    with pl.enable_x64(), pl.masked_gradients(mode == "masked"), np.errstate(all="ignore"):
        found = np.asarray(_gradient(f)(a))
        expected = _differences(f, a)
    known = np.isfinite(found) & np.isfinite(expected)
    np.testing.assert_allclose(found[known], expected[known], rtol=1e-5, atol=1e-5)
    if of.startswith(("generic", "tall")) and " " not in of:
        assert known.all()


ROUNDED = (TURN * [1, 1, 3, 3] @ TURN.T + (TURN * [1, 1, 3, 3] @ TURN.T).T) / 2
"""Eigenvalues that are equal up to rounding."""
AS_FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "root": (lambda a: jnp.linalg.hermitian_function(jnp.sqrt, a), np.sqrt),
    "logarithm": (lambda a: jnp.linalg.hermitian_function(jnp.log, a), np.log),
    "square": (lambda a: jnp.linalg.hermitian_function(lambda w: w * w, a), np.square),
    "sqrtm": (lambda a: pl.scipy.linalg.sqrtm(a).real, np.sqrt),
    "expm": (pl.scipy.linalg.expm, np.exp),
}


@pytest.mark.parametrize("name", AS_FUNCTIONS)
def test_functions_of_matrices_have_gradients_everywhere(name: str) -> None:
    function, of_values = AS_FUNCTIONS[name]
    loss = lambda a: _weighted(function((a + a.T) / 2))
    scaled = lambda w, v: _weighted(v * of_values(w) @ v.T)
    by_values = lambda a, _: scaled(*np.linalg.eigh((a + a.T) / 2))
    matrices = [a for of, a in HERMITIAN.items() if "rank" not in of]
    with pl.enable_x64():
        gradient = pl.jit(pl.grad(loss))
        for a in (*matrices, ROUNDED):
            expected = _differences(by_values, a)
            assert np.isfinite(expected).all()
            np.testing.assert_allclose(gradient(a), expected, rtol=1e-5, atol=1e-5)


def test_masks_keep_vectors_that_are_left_out_from_the_others() -> None:
    """Of equal values, whose vectors a slice leaves out."""
    rows = [(_by_eigh(OF_EIGENVALUES["projector on the least"]), np.diag([1.0, 2, 2, 2])),
            (_by_svd(OF_SINGULAR_VALUES["part of rank 2"]), np.diag([4.0, 3, 1, 1])),
            (_by_svd(OF_SINGULAR_VALUES["part of rank 2"]), GENERAL["tall of rank 2"])]  # fmt: skip
    for f, a in rows:
        gradient = _gradient(f)
        with pl.enable_x64():
            expected = _differences(f, a)
            assert not np.isfinite(gradient(a)).all()
            with pl.masked_gradients():
                np.testing.assert_allclose(gradient(a), expected, rtol=1e-5, atol=1e-5)


DEGREES = {
    "sum of squares": 2, "log det": 0, "root": 0.5, "logarithm": 0, "made again": 1, "projector": 0, "projector on the least": 0,
    "nuclear norm": 1, "norm of the matrix made again": 1, "matrix made again": 1, "polar factor": 0, "part of rank 2": 1,
    "projector on columns": 0, "positive factor": 1,
}  # fmt: skip
"""The power of c by which f(c A) is a multiple of f(A), up to what doesn't depend on A."""
SCALED = [row for row in ROWS if row[2] in ("generic", "tall") and row[0].split(": ")[1] in DEGREES]


@pytest.mark.parametrize(
    ("name", "f", "of", "a"), SCALED, ids=[f"{r[0]} of {r[2]}" for r in SCALED]
)
def test_gradients_are_scaled_as_the_function_is(name: str, f: Any, of: str, a: Any) -> None:
    degree = DEGREES[name.split(": ")[1]]
    gradient = _gradient(f)
    a = a.astype(np.float32)
    expected = np.asarray(gradient(a))
    for exponent in (-60, -30, 30, 60):
        found = gradient(a * np.float32(2.0**exponent))
        scale = 2.0 ** (exponent * (degree - 1))
        np.testing.assert_allclose(np.float64(found) / scale, expected, rtol=1e-4, atol=1e-5)
