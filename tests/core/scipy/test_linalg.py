"""`pellucid.scipy.linalg` gives what SciPy gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg

import pellucid as pl
import pellucid.numpy as jnp
from pellucid._machine.base.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    DtypeError,
    MissingRule,
    ShapeError,
    UnsupportedError,
)
from pellucid.scipy import linalg

PAIRS = [
    *(f"solve_triangular(x, y[:, 0], trans={t!r}, lower={low})" for t in (0, 1, "C") for low in (True, False)),
    "solve_triangular(x, y, unit_diagonal=True)",
    *(f"lu_solve(L.lu_factor(x), y, {t})" for t in (0, 1, 2)), "lu_solve(L.lu_factor(x), y[:, 0])",
    *(f"cho_solve(L.cho_factor(h, {low}), y)" for low in (True, False)),
    "cholesky(h)", "cholesky(h, lower=True)", "solve(x, y)", "solve(h, y[:, 0], assume_a='pos')", "inv(x)", "det(x)",
    *(f"lu({x}, permute_l={p})" for x in ("x", "x[:3]", "x[:, :3]") for p in (True, False)),
    *(f"qr(y, mode={m!r}, pivoting={p})" for m in ("full", "r", "economic") for p in (True, False)),
    "qr_multiply(y, h)", "qr_multiply(y, y[:3], 'left')", "qr_multiply(x, y[:, 0])", "qr_multiply(x, h, pivoting=True, conjugate=True)",
    "svd(y, compute_uv=False)", "eigh(h, eigvals_only=True)", "eigh(x + x.conj().T, lower=False, eigvals_only=True)",
    *(f"eigh(x + x.conj().T, h, type={t}, lower={low}, eigvals_only=True)" for t in (1, 2, 3) for low in (True, False)),
    "expm(x)", "expm(5 * x)", "expm(0.01 * x)", "expm(np.triu(x))", "expm(np.stack([x, h / 4]))", "expm_frechet(x, h)",
    "expm_frechet(x, h, compute_expm=False)", "sqrtm(h) + 0j", "sqrtm(x) + 0j", "hessenberg(x)", "hessenberg(x, calc_q=True)",
    "solve_sylvester(x, y.T @ y, y)", "polar(y)", "polar(y, method='qdwh')", "polar(y.T, 'left', method='svd')",
    "polar(y.T, 'left')",
]  # fmt: skip
"""Expressions of a regular matrix x [4, 4], y [4, 3] and a Hermitian, positive definite h [4, 4]."""
SPECIAL = [
    "block_diag(v, np.ones((2, 2)), 5)", "block_diag()", "toeplitz(v)", "toeplitz(v, w)", "toeplitz(1j * v)", "hankel(v)",
    "hankel(v, w)", "circulant(v)", "circulant(v.reshape(2, 2))", "companion(v)", "convolution_matrix(v, 3)",
    *(f"convolution_matrix({x}, {n}, {m!r})" for x in "vw" for n in (3, 5) for m in ("same", "valid")),
    "dft(4)", "dft(5, 'n')", "dft(5, 'sqrtn')", "fiedler(v)", "fiedler(v.reshape(2, 2))", "fiedler_companion(v)", "fiedler_companion(w)",
    "fiedler_companion(np.arange(1.0, 8.0))", "hadamard(8)", "helmert(4)", "helmert(4, True)", "hilbert(4)", "invhilbert(5)",
    "leslie(v, w)", "leslie(v.reshape(2, 2), w[:2, None])", *(f"{f}(4, {k!r})" for f in ("pascal", "invpascal") for k in ("symmetric", "lower", "upper")),
]  # fmt: skip


def first_of_each(rows):
    """All rows rotate but the first one of each function."""
    seen = set()
    for row in rows:
        name = row.partition("(")[0]
        yield pytest.param(row, marks=[pytest.mark.rotates] if name in seen else [])
        seen.add(name)


def evaluated(row, module, **operands):
    return eval(f"L.{row}", operands | {"L": module, "np": np})


def assert_agree(got, want) -> None:
    if isinstance(want, tuple):
        for a, b in zip(got, want, strict=True):
            assert_agree(a, b)
        return
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("row", [
    "toeplitz(a)", "toeplitz(a, b)", "hankel(a)", "hankel(a, b)", "companion(a)", "fiedler_companion(a)",
    "fiedler_companion(a[..., :2])", "convolution_matrix(a, 3, 'same')", "leslie(a, b)",
])  # fmt: skip
def test_special_matrices_of_batches(row) -> None:
    a, b = np.arange(1.0, 9.0, dtype=np.float32).reshape(2, 4), np.ones(3, np.float32)
    each = [evaluated(row, linalg, a=part, b=b) for part in a]
    np.testing.assert_allclose(evaluated(row, linalg, a=a, b=b), np.stack(each), 1e-6)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("row", list(first_of_each(PAIRS)))
def test_as_scipy(row, dtype) -> None:
    rng = np.random.default_rng(1)
    x, y = (
        (rng.normal(size=(4, n)) + 1j * rng.normal(size=(4, n)) * (dtype == "complex64"))
        for n in (4, 3)
    )
    operands = {"x": x, "y": y, "h": x @ x.conj().T + np.eye(4)}
    if dtype == "float32":
        operands = {name: value.real for name, value in operands.items()}
    theirs = row.replace(", method='qdwh'", "").replace(", method='svd'", "")
    want = evaluated(theirs, scipy.linalg, **operands)
    assert_agree(evaluated(row, linalg, **{k: v.astype(dtype) for k, v in operands.items()}), want)


@pytest.mark.parametrize("row", SPECIAL)
def test_special_matrices(row) -> None:
    operands = {"v": np.array([1.0, -3.0, 2.0, 5.0]), "w": np.array([1.0, 7.0, 8.0])}
    assert_agree(evaluated(row, linalg, **operands), evaluated(row, scipy.linalg, **operands))


def test_functions_of_eigenvalues() -> None:
    x = np.random.default_rng(2).normal(size=(4, 4)).astype(np.float32)
    result, error = linalg.funm(x, jnp.exp, disp=False)
    np.testing.assert_allclose(result, scipy.linalg.expm(x), rtol=1e-3, atol=1e-3)
    assert 0 < float(error) < 1e-3


def test_vectors_of_pairs() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(2, 4, 4)).astype(np.float32)
    a, b = x[0] + x[0].T, x[1] @ x[1].T + np.eye(4, dtype=np.float32)
    left = {1: lambda v: a @ v, 2: lambda v: a @ (b @ v), 3: lambda v: b @ (a @ v)}
    for kind in (1, 2, 3):
        w, v = map(np.asarray, linalg.eigh(a, b, type=kind))
        right = b @ v * w if kind == 1 else v * w
        np.testing.assert_allclose(left[kind](v), right, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("output", ["real", "complex"])
def test_schur_form(output) -> None:
    x = np.random.default_rng(1).normal(size=(4, 4)).astype(np.float32)
    form, vectors = map(np.asarray, linalg.schur(x, output))
    assert not np.tril(form, -2 if output == "real" else -1).any()
    np.testing.assert_allclose(vectors @ form @ vectors.conj().T, x, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(vectors @ vectors.conj().T, np.eye(4), atol=1e-5)


def test_complex_schur_form_of_a_real_one() -> None:
    real = scipy.linalg.schur(np.array([[0.0, 2, 1], [-2, 0, 3], [0, 0, 1]]))
    form, vectors = map(np.asarray, linalg.rsf2csf(*real))
    assert not np.tril(form, -1).any()
    np.testing.assert_allclose(
        vectors @ form @ vectors.conj().T, real[1] @ real[0] @ real[1].T, atol=1e-5
    )


@pytest.mark.parametrize(
    "options",
    [{}, {"select": "i", "select_range": (1, 2)}, {"select": "v", "select_range": (-1, 1)}],
)
def test_tridiagonal_eigenvalues(options) -> None:
    d, e = np.array([1.0, 0.2, -1, 3]), np.array([0.5, 2, 1])
    got = linalg.eigh_tridiagonal(d, e, eigvals_only=True, **options)
    want = scipy.linalg.eigh_tridiagonal(d, e, eigvals_only=True, **options)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_exponential_of_a_large_matrix() -> None:
    assert np.isnan(linalg.expm(np.full((2, 2), 1e4, np.float32), max_squarings=4)).all()
    gradient = pl.grad(lambda x: linalg.expm(x).sum())(np.zeros((2, 2), np.float32))
    np.testing.assert_allclose(gradient, np.ones((2, 2)), rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("solve_triangular(np.eye(2), np.ones(2), trans=3)", ArgumentValueError),
        ("solve_triangular(np.eye(2), np.ones(3))", ShapeError),
        ("qr(np.eye(2), mode='reduced')", ArgumentValueError),
        ("qr_multiply(np.ones((3, 2)), np.ones((3, 3)), 'left')", ShapeError),
        ("solve(np.eye(2), np.ones(2), assume_a='x')", ArgumentValueError),
        ("eigh(np.eye(2), eigvals=(0, 1))", UnsupportedError),
        ("eigh(np.eye(2), np.eye(2), type=4)", ArgumentValueError),
        ("eigh_tridiagonal(np.ones(3), np.ones(3))", ShapeError),
        ("eigh_tridiagonal(np.ones(3), np.ones(2), select='v')", ArgumentValueError),
        ("polar(np.eye(2), 'up')", ArgumentValueError),
        ("polar(np.ones((2, 3)))", ShapeError),
        ("sqrtm(np.ones((2, 3)))", ShapeError),
        ("schur(np.eye(2), 'x')", ArgumentValueError),
        ("solve_sylvester(np.eye(2), np.eye(3), np.ones((2, 2)))", ShapeError),
        ("hadamard(3)", ArgumentValueError),
        ("companion(np.ones(1))", ShapeError),
        ("leslie(np.ones(2), np.ones(2))", ShapeError),
        ("convolution_matrix(np.ones(2), 2, 'x')", ArgumentValueError),
        ("pascal(2, 'x')", ArgumentValueError),
        ("dft(2, 'x')", ArgumentValueError),
        ("dft(2, dtype='uint8')", ArgumentValueError),
        ("block_diag(np.ones((1, 1, 1)))", ShapeError),
        ("hilbert(-1)", ShapeError),
        ("expm(np.eye(2, dtype=np.float16))", DtypeError),
        ("det(pl.random.split(pl.random.key(0), (2, 2)))", DtypeError),
    ],
)
def test_errors(call, error) -> None:
    with pytest.raises(error):
        eval(f"L.{call}", {"L": linalg, "np": np, "pl": pl})


@pytest.mark.parametrize("name", ["svd", "inv", "det", "eigh", "cholesky", "lu", "qr", "solve"])
def test_errors_name_the_module_that_was_called(name: str) -> None:
    more = [np.ones(3, np.float32)] * (name == "solve")
    for argument in (np.ones(3, np.float32), "text"):
        with pytest.raises((ShapeError, ArgumentTypeError)) as caught:
            getattr(linalg, name)(argument, *more)
        assert str(caught.value).startswith(f"scipy.linalg.{name} ")


def test_fourier_matrix_of_a_negative_size_is_empty() -> None:
    assert linalg.dft(-1).shape == (0, 0)  # as in the reference


def _drawn(is_complex: bool, *shape: int) -> Any:
    rng = np.random.default_rng(sum(shape))
    x = rng.standard_normal(shape)
    return x + 1j * rng.standard_normal(shape) if is_complex else x


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("eigenvalues", [[1, 2, 3, 4], [1, 2, 2, 3], [2, 2, 2, 2]])
def test_derivatives_of_roots_of_matrices(eigenvalues: list[int], is_complex: bool) -> None:
    """Of dX, where X X = A, also at equal eigenvalues: it solves X dX + dX X = dA."""
    turn, e, weights = np.linalg.qr(_drawn(is_complex, 4, 4))[0], *_drawn(is_complex, 2, 4, 4)
    a = turn * eigenvalues @ turn.conj().T
    with pl.enable_x64():
        root, along = pl.jvp(linalg.sqrtm, (a,), (e,))
        np.testing.assert_allclose(root @ along + along @ root, e, atol=1e-12)
        loss = lambda a: jnp.real((weights * linalg.sqrtm(a)).sum())
        slope = jnp.real((pl.grad(loss)(a) * e).sum())
        np.testing.assert_allclose(slope, jnp.real((weights * along).sum()), rtol=1e-10)
        # Twice: X ddX + 2 dX dX + ddX X = 0.
        twice = pl.jvp(lambda a: pl.jvp(linalg.sqrtm, (a,), (e,))[1], (a,), (e,))[1]
        np.testing.assert_allclose(root @ twice + twice @ root, -2 * along @ along, atol=1e-10)


@pytest.mark.parametrize("is_complex", [False, True])
def test_derivatives_of_solutions_of_the_equation_of_sylvester(is_complex: bool) -> None:
    shapes = ((4, 4), (3, 3), (4, 3))
    with pl.enable_x64():
        operands = [_drawn(is_complex, *shape) for shape in shapes]
        pl.test_util.check_grads(linalg.solve_sylvester, operands, 2, rtol=1e-5, atol=1e-5)


def test_schur_forms_say_what_has_derivatives() -> None:
    with pytest.raises(MissingRule, match="hermitian_function"):
        pl.grad(lambda a: linalg.funm(a, jnp.sin).real.sum())(np.eye(2))


@pytest.mark.parametrize("shape", [(3, 3), (4, 3), (3, 4)])
@pytest.mark.parametrize("side", ["right", "left"])
def test_derivatives_of_polar_factors_at_equal_singular_values(
    shape: tuple[int, int], side: str
) -> None:
    a, (e, weights) = 2 * np.eye(*shape), _drawn(False, 2, *shape)

    def factor(a: Any, xp: Any) -> Any:
        if xp is jnp:
            return (linalg.polar(a, side, method="svd")[0] * weights).sum()
        u, _, vh = np.linalg.svd(a, full_matrices=False)
        return (u @ vh * weights).sum()

    with pl.enable_x64():
        gradient = pl.jit(pl.grad(lambda a: factor(a, jnp)))
        expected = (factor(a + 1e-5 * e, np) - factor(a - 1e-5 * e, np)) / 2e-5
        np.testing.assert_allclose((gradient(a) * e).sum(), expected, rtol=1e-7)
        # A = U P, or P U, whatever the direction; and twice, by differences of gradients.
        (u, p), (u_dot, p_dot) = pl.jvp(lambda a: linalg.polar(a, side, method="svd"), (a,), (e,))
        product = u_dot @ p + u @ p_dot if side == "right" else p_dot @ u + p @ u_dot
        np.testing.assert_allclose(product, e, atol=1e-12)
        twice = pl.jvp(gradient, (a,), (e,))[1]
        nearly = (gradient(a + 1e-5 * e) - gradient(a - 1e-5 * e)) / 2e-5
        np.testing.assert_allclose(twice, nearly, atol=1e-7)
