"""`jnp.linalg` gives what NumPy gives, eagerly, under jit and under vmap, and is differentiable."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid._machine.base.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    DtypeError,
    ShapeError,
)

ORDERS = (None, "'fro'", "'nuc'", 1, -1, 2, -2, "np.inf", "-np.inf")
ROWS = [
    "inv(x)", "det(x)", "det(x[:3, :3])", "det(x[:2, :2])", "det(x[:1, :1])", "det(x[:0, :0])",
    "tuple(L.slogdet(x))", "tuple(L.slogdet(0 * x))",
    "solve(x, y)", "solve(x, y[:, 0])", "solve(x, y[None])",
    *(f"norm(x, {o})" for o in ORDERS),
    *(f"norm(x, {o}, axis=(1, 0), keepdims=True)" for o in ORDERS[1:]),
    *(f"norm(x, {o}, axis=1)" for o in (None, 0, 1, 2, 3, 0.5, -1, "np.inf", "-np.inf")),
    "norm(x[None])", "vector_norm(x)", "vector_norm(x, axis=0, ord=3)", "vector_norm(x[None], axis=(0, 2), ord=1)",
    "matrix_norm(x[None])", "matrix_norm(x, ord=2, keepdims=True)",
    *(f"cond(x, {o})" for o in ORDERS),
    "pinv(y)", "pinv(h, hermitian=True)", "pinv(y[:, :0])", "matrix_rank(x)", "matrix_rank(0 * x)",
    "matrix_rank(h, hermitian=True)", "matrix_rank(x[0])", "matrix_rank(x, tol=100.0)",
    "matrix_power(x, 3)", "matrix_power(x, 0)", "matrix_power(x, -2)",
    "cholesky(h)", "cholesky(h, upper=True)",
    "eigvalsh(h)", "eigvalsh(h, 'U')", "eigh(h).eigenvalues",
    "abs(L.eigvals(h)).sum()", "abs(L.eig(h).eigenvalues).sum()",
    "qr(x, 'r')", "tuple(L.qr(y))", "tuple(L.qr(y, 'complete'))", "tuple(L.qr(y.T))",
    "svdvals(y)", "svd(y, compute_uv=False)", "svd(h, hermitian=True).S", "svd(h, hermitian=True, compute_uv=False)",
    "abs(L.svd(y, full_matrices=False).U)", "abs(L.svd(y).Vh)", "svd(y[:, :0]).U",
    "cross(x[:3], y[:3, :1], axis=0)", "trace(x, offset=1)", "diagonal(y, offset=-1)", "outer(x[0], y[0])",
    "matrix_transpose(y)", "matmul(x, y)", "vecdot(x, y[:, 0])", "tensordot(x, y, axes=1)",
    "multi_dot([x, y, y.T, x[0]])", "multi_dot([y[:, 0], x])",
    "lstsq(y, x)[:3]", "lstsq(y, x[0])[0]", "lstsq(y.T, x[:2])[0]", "lstsq(y, x, 0.9)[0]", "lstsq(0 * y, x)[2:]",
    "tensorinv(x.reshape(2, 2, 4))", "tensorinv(x, 1)", "tensorsolve(x.reshape(2, 2, 4), y[:2].reshape(2, 2)[:, :])",
]  # fmt: skip
"""Expressions of a regular matrix x [4, 4], y [4, 2] and a Hermitian, positive definite h [4, 4]."""


def rotating(single, double, first_stay):
    """Rows with alternating dtypes; all rotate but the first one of each function, if that stays."""
    seen = set()
    parts = []
    for i, row in enumerate(ROWS):
        name = re.search(r"(?:L\.)?(\w+)\(", row.removeprefix("tuple(").removeprefix("abs("))[1]
        marks = [] if first_stay and name not in seen else [pytest.mark.rotates]
        seen.add(name)
        parts.append(pytest.param(row, double if i % 3 == 1 else single, marks=marks))
    return parts


def operands(dtype):
    rng = np.random.default_rng(3)

    def draw(*shape):
        x = rng.normal(size=shape)
        return x + 1j * rng.normal(size=shape) if dtype.startswith("c") else x

    x, y = draw(4, 4), draw(4, 2)
    return [a.astype(dtype) for a in (x, y, x @ x.conj().T + np.eye(4))]


def evaluated(row, module, operand_arrays):
    names = dict(zip("xyh", operand_arrays, strict=True)) | {"L": module, "np": np}
    return eval(row if row.startswith(("tuple(", "abs(")) else f"L.{row}", names)


def compare(got, want, tolerance) -> None:
    if isinstance(want, tuple):
        for a, b in zip(got, want, strict=True):
            compare(a, b, tolerance)
        return
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape
    assert (got.dtype.kind, got.dtype.itemsize) == (
        want.dtype.kind,
        want.dtype.itemsize,
    ) or got.dtype == np.int32
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def check(row, dtype, tolerance) -> None:
    """Eagerly, and under jit and vmap together, as NumPy."""
    operand_arrays = operands(dtype)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        want = evaluated(row, np.linalg, operand_arrays)
    compare(evaluated(row, jnp.linalg, list(map(jnp.asarray, operand_arrays))), want, tolerance)
    batched = [np.stack([x[::-1] if i < 2 else x, x]) for i, x in enumerate(operand_arrays)]
    both = pl.jit(pl.vmap(lambda *xs: _leaves(evaluated(row, jnp.linalg, xs))))(*batched)
    for got, expected in zip(both, _leaves(want), strict=True):
        np.testing.assert_allclose(got[1], expected, rtol=tolerance, atol=tolerance)


def _leaves(x):
    return list(x) if isinstance(x, tuple) else [x]


@pytest.mark.parametrize(("row", "dtype"), rotating("float32", "complex64", first_stay=True))
def test_as_numpy(row, dtype) -> None:
    check(row, dtype, 5e-4)


@pytest.mark.parametrize(("row", "dtype"), rotating("complex128", "float64", first_stay=False))
def test_as_numpy_in_double_precision(row, dtype) -> None:
    with pl.enable_x64(True):
        check(row, dtype, 1e-9)


DERIVATIVES = [
    "pinv(x)", "pinv(x.T)", "pinv(x[:3], hermitian=True)", "norm(x, 'nuc')", "norm(x, 2)", "cond(x)", "lstsq(x, x[:, :1] + 1)[0]",
    "slogdet(x[:3], method='qr')[1]", "slogdet(x[:3])[1]", "solve(x[:3], x[:3] + 1)", "det(x @ x.T)",
    "det(x[:3])", "matrix_power(x[:3], 3)", "inv(x[:3])", "eigvalsh(x @ x.T)[2:]", "abs(jnp.linalg.eigvals(x[:3])).sum()",
]  # fmt: skip


@pytest.mark.parametrize("row", DERIVATIVES)
def test_derivatives_are_differences(row) -> None:
    f = eval(f"lambda x: {'' if row.startswith('abs') else 'jnp.linalg.'}{row}", {"jnp": jnp})
    rng = np.random.default_rng(5)
    step = 1e-6
    with pl.enable_x64(True):
        x, t = rng.normal(size=(2, 4, 3))
        _, tangent = pl.jvp(f, (x,), (t,))
        slope = (np.asarray(f(x + step * t)) - np.asarray(f(x - step * t))) / (2 * step)
        np.testing.assert_allclose(tangent, slope, rtol=1e-5, atol=1e-5)


def test_derivative_of_a_vanishing_determinant() -> None:
    """The cofactors, though the inverse doesn't exist."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6, 4, 4))
    x[0, :, 3] = x[0, :, 0]
    x[1, 0] = 0  # a pivot before the last is 0
    x[2] = np.triu(x[2]) * (1 - np.eye(4))
    x[3] = rng.normal(size=(4, 2)) @ rng.normal(size=(2, 4))
    x[4] = 0
    cofactors = [
        [
            [(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(a, i, 0), j, 1)) for j in range(4)]
            for i in range(4)
        ]
        for a in x
    ]
    gradient = pl.vmap(pl.grad(jnp.linalg.det))(x.astype(np.float32))
    np.testing.assert_allclose(gradient, cofactors, rtol=1e-3, atol=1e-4)


def test_raw_reflections() -> None:
    x = operands("float64")[1]
    for got, want in zip(jnp.linalg.qr(x, "raw"), np.linalg.qr(x, "raw"), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_residuals_as_numpy() -> None:
    x, y, _ = operands("float32")
    assert jnp.linalg.lstsq(y.T, x[:2], numpy_resid=True)[1].shape == (0,)
    assert jnp.linalg.lstsq(0 * y, x, numpy_resid=True)[1].shape == (0,)
    assert jnp.linalg.lstsq(y, x, numpy_resid=True)[1].shape == (4,)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("inv(np.ones((2, 3)))", ShapeError),
        ("inv(np.ones(2))", ShapeError),
        ("solve(np.eye(2), np.ones(3))", ShapeError),
        ("solve(np.ones((3, 2, 2)), np.ones((2, 2, 1)))", ShapeError),
        ("norm(np.ones((2, 2)), 'nope')", ArgumentValueError),
        ("norm(np.ones((2, 2, 2)), 2)", ArgumentValueError),
        ("norm(np.ones(2), 'fro', axis=0)", ArgumentValueError),
        ("qr(np.eye(2), 'full')", ArgumentValueError),
        ("eigh(np.eye(2), 'X')", ArgumentValueError),
        ("matrix_power(np.eye(2), 0.5)", ArgumentTypeError),
        ("matrix_power(np.ones((2, 3)), 2)", ShapeError),
        ("multi_dot([np.eye(2)])", ArgumentValueError),
        ("cross(np.ones(2), np.ones(2))", ShapeError),
        ("outer(np.eye(2), np.eye(2))", ShapeError),
        ("tensorinv(np.ones((2, 3)), 1)", ShapeError),
        ("lstsq(np.ones((2, 2)), np.ones(3))", ShapeError),
        ("lstsq(np.eye(2, dtype='bfloat16'), np.ones(2, 'bfloat16'))", DtypeError),
        ("cond(np.ones((0, 0)))", ShapeError),
        ("slogdet(np.eye(2), method='svd')", ArgumentValueError),
        ("pinv(np.eye(2), 1.0, rcond=1.0)", ArgumentValueError),
        ("svd(np.eye(2), hermitian=True, subset_by_index=(0, 1))", NotImplementedError),
    ],
)
def test_errors(call, error) -> None:
    with pytest.raises(error):
        eval(f"L.{call}", {"L": jnp.linalg, "np": np})


@pytest.mark.parametrize("shape", [(3, 3), (4, 3), (3, 4)])
def test_derivatives_of_svd_are_scaled_as_the_matrix_is(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    x, weights = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))

    def loss(x):
        u, _, vh = jnp.linalg.svd(x, full_matrices=False)
        return (weights * (u @ vh * u[:, :1])).sum()

    def largest(x):
        return jnp.linalg.svd(x, compute_uv=False)[0]

    gradient = pl.jit(pl.grad(loss))
    curvature = pl.jit(lambda x: pl.jvp(pl.grad(largest), (x,), (weights,))[1])
    expected = gradient(x), curvature(x)
    for exponent in (-100, -66, 63, 100):
        scale = np.float32(2.0**exponent)
        for found, at_one in zip(
            (gradient(x * scale), curvature(x * scale)), expected, strict=True
        ):
            np.testing.assert_allclose(found * scale, at_one, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_norms_of_whole_arrays_are_scaled_as_these_are(dtype: str) -> None:
    """Also where the sum of squares leaves the range; with gradients and second derivatives."""
    with pl.enable_x64():
        rng = np.random.default_rng(0)
        x = (
            rng.standard_normal(5) + (1j * rng.standard_normal(5) if dtype[0] == "c" else 0)
        ).astype(dtype)
        weights = rng.standard_normal(5).astype(dtype)
        gradient = pl.grad(jnp.linalg.norm)
        curvature = pl.jit(lambda x: pl.jvp(gradient, (x,), (weights,))[1])
        at_one = jnp.linalg.norm(x), gradient(x), curvature(x)
        exponents = (-1000, -600, 600, 1000) if dtype == "float64" else (-100, -66, 66, 100)
        for exponent in exponents:
            y = (x * 2.0**exponent).astype(dtype)
            found = jnp.linalg.norm(y), gradient(y), curvature(y)
            batched = pl.vmap(jnp.linalg.norm)(y[None])[0], pl.vmap(gradient)(y[None])[0]
            for values in (found, batched):
                for value, expected, power in zip(values, at_one, (-1, 0, 1), strict=False):
                    np.testing.assert_allclose(
                        value * 2.0 ** (power * exponent), expected, rtol=1e-6
                    )


def test_norms_at_the_ends_of_the_range() -> None:
    norm = jnp.linalg.norm
    assert norm(np.full(4, 300, np.float16)) == 600
    assert norm(np.full((2, 2), 2.0**100, np.float32), keepdims=True) == np.full((1, 1), 2.0**101)
    assert norm(np.array([np.inf, 1])) == np.inf
    assert np.isnan(norm(np.array([np.nan, 1])))
    assert norm(np.zeros(3)) == norm(np.zeros((0, 3))) == 0
    assert np.isnan(pl.grad(norm)(np.zeros(3))).all()  # there is no derivative


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_gradients_of_the_greatest_norms(dtype: str) -> None:
    """Of a norm whose reciprocal is subnormal."""
    with pl.enable_x64():
        exponent = np.finfo(dtype).maxexp - 2
        x = np.array([1, -2, 0.5], dtype)
        for gradient in (pl.grad(jnp.linalg.norm), pl.jit(pl.grad(jnp.linalg.norm))):
            expected = gradient(x)
            np.testing.assert_allclose(gradient(x * 2.0**exponent), expected, rtol=1e-6)


def test_signs_of_infinite_determinants_are_those_of_numpy() -> None:
    """An infinite factor has a sign, too."""
    matrices = [[[np.inf, 0], [0, 1]], [[-np.inf, 2], [0, 3]], [[np.inf, 1], [1, 1]], [[-np.inf, 2], [0, -3]]]  # fmt: skip
    got = jnp.linalg.slogdet(np.array(matrices, np.float32))
    np.testing.assert_array_equal(got.sign, [1, -1, 1, 1])
    np.testing.assert_array_equal(got.logabsdet, [np.inf] * 4)
