"""Division of spectra, and what is made of polar factors, against LAPACK where spectra are hard."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pellucid as pl
from pellucid._machine.linalg.spectrum import divide_spectrum
from pellucid.sharding import AxisType, NamedSharding, PartitionSpec as P

linalg = pl.lax.linalg
QDWH = linalg.EighImplementation.QDWH
POLAR = linalg.SvdAlgorithm.POLAR
N = 24
_rng = np.random.default_rng(7)

SPECTRA = {
    "even": np.linspace(-1, 1, N),
    "random": _rng.normal(size=N),
    "one value": np.ones(N),
    "two values": np.repeat([-1.0, 1.0], N // 2),
    "many of one": np.r_[np.zeros(N - 3), -1, 1, 2],
    "of rank 1": np.r_[np.zeros(N - 1), 1],
    "a cluster": 1 + 1e-6 * _rng.normal(size=N),
    "two clusters": np.r_[1 + 1e-7 * _rng.normal(size=N // 2), 1e-12 * _rng.normal(size=N // 2)],
    "graded": (-2.0) ** -np.arange(N),
    "steeply graded": 16.0 ** -np.arange(N),
    "one far away": np.r_[np.linspace(0, 1e-5, N - 1), 1e3],
}
PATTERNS = {
    "zeros": np.zeros((N, N)),
    "diagonal": np.diag(_rng.normal(size=N)),
    "a corner": np.pad([[1.0, 2.0], [2.0, 5.0]], (N - 2, 0)),
    "ones": np.ones((N, N)),
    "exchange": np.eye(N)[::-1],
    "two by blocks": np.kron([[0, 1], [1, 0]], np.eye(N // 2)),
    "differences": 2 * np.eye(N) - np.eye(N, k=1) - np.eye(N, k=-1),
}


def of_spectrum(values: np.ndarray, dtype: str) -> np.ndarray:
    x = _rng.normal(size=(N, N)) + 1j * _rng.normal(size=(N, N)) * (np.dtype(dtype).kind == "c")
    q = np.linalg.qr(x)[0]
    x = q * values @ q.conj().T
    return (x + x.conj().T) / 2


def hard_matrices(dtype: str) -> np.ndarray:
    found = [of_spectrum(values, dtype) for values in SPECTRA.values()]
    found += [x * (1 + 0j) for x in PATTERNS.values()]
    found += [of_spectrum(SPECTRA["random"], dtype) * 2.0**k for k in (-100, 100)]
    stacked = np.stack(found)
    return stacked.astype(dtype) if np.dtype(dtype).kind == "c" else stacked.real.astype(dtype)


def relative_errors(x: Any, vectors: Any, values: Any) -> list[float]:
    """Of A V - V diag(w), of Vᴴ V - 1 and of w, in rounding errors of a matrix of this norm."""
    eps = np.finfo(np.asarray(values).dtype).eps
    x, v, w = (np.asarray(y).astype(np.complex128) for y in (x, vectors, values))
    norm = np.linalg.norm(x, 2) or 1
    expected = np.linalg.eigvalsh(x)
    return [
        np.linalg.norm(x @ v - v * w) / norm / eps,
        np.linalg.norm(v.conj().T @ v - np.eye(v.shape[-1])) / eps,
        abs(w - expected).max() / norm / eps,
    ]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_hard_spectra(dtype: str) -> None:
    """As exact as a decomposition can be: errors of few rounding errors for each row."""
    x = hard_matrices(dtype)
    with pl.enable_x64():
        vectors, values = pl.jit(lambda x: divide_spectrum(x, linalg.eigh, smallest=6))(x)
    assert np.asarray(values).dtype == np.real(x).dtype
    names = [*SPECTRA, *PATTERNS, "small", "large"]
    for name, *one in zip(names, x, vectors, values, strict=True):
        assert max(relative_errors(*one)) < 3 * N, (name, relative_errors(*one))
        assert (np.diff(one[2]) >= 0).all(), name


def test_what_is_not_finite_is_nan_by_itself() -> None:
    x = np.stack([np.diag(np.arange(10.0)).astype(np.float32)] * 3)
    x[1, 2, 3] = x[1, 3, 2] = np.nan
    x[2, 2, 3] = x[2, 3, 2] = np.inf
    vectors, values = pl.jit(lambda x: divide_spectrum(x, linalg.eigh, smallest=4))(x)
    np.testing.assert_array_equal(values[0], np.arange(10))
    assert np.isnan(values[1:]).all()
    assert np.isnan(vectors[1:]).all()


def test_a_part_of_a_spectrum() -> None:
    x = of_spectrum(SPECTRA["random"], "float32").real.astype(np.float32)
    _, values = divide_spectrum(x, linalg.eigh, subset=(3, 8), smallest=4)
    np.testing.assert_allclose(values[3:8], np.linalg.eigvalsh(x)[3:8], atol=1e-5)


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=str)
def test_devices_divide_their_own_spectra(kind: AxisType) -> None:
    x = _rng.normal(size=(8, 10, 10)).astype(np.float32)
    x += np.swapaxes(x, -1, -2)
    mesh = pl.make_mesh((8,), ("x",), axis_types=(kind,))
    with pl.set_mesh(mesh):
        cut = pl.device_put(x, NamedSharding(mesh, P("x")))
        vectors, values = pl.jit(lambda x: divide_spectrum(x, linalg.eigh, smallest=4))(cut)
    assert vectors.sharding.spec[0] == values.sharding.spec[0] == "x"
    np.testing.assert_allclose(values, np.linalg.eigvalsh(x), atol=1e-5)


def test_as_asked_for() -> None:
    """Above 256 rows, on this platform, too, with the primitive's derivative."""
    x = _rng.normal(size=(260, 260)).astype(np.float32)
    x += x.T

    def largest(x: Any) -> Any:
        vectors, values = linalg.eigh(x, implementation=QDWH)
        return values[-1], (vectors, values)

    (_, pair), slope = pl.jit(pl.value_and_grad(largest, has_aux=True))(x)
    assert max(relative_errors(x, *pair)) < 3 * 260
    vector = np.linalg.eigh(x)[1][:, -1]
    np.testing.assert_allclose(slope, np.outer(vector, vector), atol=1e-5)
    text = pl.jit(lambda x: linalg.eigh(x, implementation=QDWH)).lower(x).as_text()
    assert "geqrf" in text


RECTANGLES = {
    "tall": _rng.normal(size=(6, 4)),
    "wide": _rng.normal(size=(4, 6)),
    "square": _rng.normal(size=(5, 5)),
    "of rank 1": np.outer(np.arange(6.0), np.arange(4.0) + 1),
    "zeros": np.zeros((5, 3)),
    "steep": np.diag([1, 1e-3, 1e-6, 1e-9, 1e-12]),
    "large": _rng.normal(size=(5, 5)) * 2.0**100,
    "small": _rng.normal(size=(5, 5)) * 2.0**-100,
}


@pytest.mark.parametrize("name", RECTANGLES)
def test_singular_values_by_polar_factors(name: str) -> None:
    """Vectors are orthonormal where singular values are 0, too."""
    for dtype, factor in ((np.float32, 1), (np.complex64, 0.6 + 0.8j)):
        x = (RECTANGLES[name] * factor).astype(dtype)
        for full in (False, True):
            u, s, vh = map(np.asarray, linalg.svd(x, full_matrices=full, algorithm=POLAR))
            scale = abs(x).max() or 1
            k = len(s)
            np.testing.assert_allclose((u[:, :k] * s @ vh[:k]) / scale, x / scale, atol=3e-6)
            np.testing.assert_allclose(
                s / scale, np.linalg.svd(x, compute_uv=False) / scale, atol=3e-6
            )
            np.testing.assert_allclose(u.conj().T @ u, np.eye(u.shape[1]), atol=3e-6)
            np.testing.assert_allclose(vh @ vh.conj().T, np.eye(len(vh)), atol=3e-6)


@pytest.mark.parametrize("power", [-100, 100, 120])
def test_polar_factors_of_any_size(power: int) -> None:
    x = (RECTANGLES["square"] * 2.0**power).astype(np.float32)
    u, h, _, converged = linalg.qdwh(x)
    assert converged
    np.testing.assert_allclose(u.T @ u, np.eye(5), atol=1e-6)
    np.testing.assert_allclose(u @ h / 2.0**power, RECTANGLES["square"], atol=1e-5)
