"""Decompositions of matrices under NumPy's names."""

from __future__ import annotations

from typing import Any, NamedTuple

from pellucid._machine.base import ArgumentValueError, ArrayLike, UnsupportedError, public_functions
from pellucid._machine.linalg import (
    cholesky as cholesky_module,
    eig as eig_module,
    qr as qr_module,
    svd as svd_module,
    symmetric_eigen,
)
from pellucid._machine.linalg.matrices import H
from pellucid._machine.primitives.movement import broadcast_in_dim
from pellucid._machine.primitives.sorting import take_along
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array
from pellucid.numpy.compiled import numpy_function
from pellucid.numpy.elementwise import abs as absolute, sign
from pellucid.numpy.manipulation import flip, matrix_transpose
from pellucid.numpy.sorting import argsort

from .arguments import matrices, square_matrices


class EighResult(NamedTuple):
    """Eigenvalues and eigenvectors of Hermitian matrices."""

    eigenvalues: Any
    eigenvectors: Any


class EigResult(NamedTuple):
    """Eigenvalues and eigenvectors of matrices."""

    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    """A matrix with orthonormal columns, and an upper triangular one."""

    Q: Any
    R: Any


class SVDResult(NamedTuple):
    """Left singular vectors, singular values, right singular vectors in rows."""

    U: Any
    S: Any
    Vh: Any


# Cholesky -----------------------------------------------------------------------------------------


@numpy_function(static=("upper", "symmetrize_input"))
def _cholesky(a: ArrayLike, upper: bool, symmetrize_input: bool) -> Any:
    a = square_matrices("cholesky", a)
    if upper and not symmetrize_input:
        a = H(a)
    factor = cholesky_module.cholesky(a, symmetrize_input=symmetrize_input)
    return H(factor) if upper else factor


def cholesky(a: ArrayLike, *, upper: bool = False, symmetrize_input: bool = True) -> Array:
    """Lower triangular L with `a` = L Lᴴ for Hermitian, positive definite matrices of shape [..., n, n].

    `upper` gives Lᴴ. Where a matrix isn't positive definite, its factor is NaN. By default (a + aᴴ) / 2 is decomposed,
    else the triangle alone is read that the result has. Raises: ShapeError unless matrices are square.

    >>> cholesky(np.array([[4.0, 2.0], [2.0, 5.0]]))
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    return _cholesky(a, bool(upper), bool(symmetrize_input))


# Eigenvalues --------------------------------------------------------------------------------------


@numpy_function(static=("lower", "symmetrize_input"))
def _eigh(a: ArrayLike, lower: bool, symmetrize_input: bool) -> tuple[Any, Any]:
    a = square_matrices("eigh", a)
    v, w = symmetric_eigen.eigh(a, lower=lower, symmetrize_input=symmetrize_input)
    return w, v


def eigh(a: ArrayLike, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """Eigenvalues w and eigenvectors v of Hermitian matrices of shape [..., n, n]: a v = v diag(w).

    w is real, increases, and has shape [..., n]; vectors are columns. Only the triangle that `UPLO` ('L', by default,
    or 'U') names is read with `symmetrize_input=False`; by default (a + aᴴ) / 2 is decomposed.

    Raises: ShapeError unless matrices are square; ArgumentValueError for another `UPLO`.

    >>> eigh(np.array([[0.0, 1.0], [1.0, 0.0]])).eigenvalues
    Array([-1.,  1.], dtype=float32)
    """
    return EighResult(*_eigh(a, _is_lower("eigh", UPLO), bool(symmetrize_input)))


def eigvalsh(a: ArrayLike, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Array:
    """Eigenvalues of Hermitian matrices in increasing order; see `eigh`.

    Result: shape [..., n]; the real dtype of the elements. `UPLO` ("L" or "U") is the triangle that is read without
    `symmetrize_input`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ShapeError for matrices that aren't square,
    ArgumentValueError for another `UPLO`, DtypeError for half precision and random keys.

    >>> eigvalsh(np.array([[0.0, 1.0], [1.0, 0.0]]))
    Array([-1.,  1.], dtype=float32)
    """
    return _eigh(a, _is_lower("eigvalsh", UPLO), bool(symmetrize_input))[0]


def _is_lower(name: str, triangle: str | None) -> bool:
    if triangle not in (None, "L", "U"):
        raise ArgumentValueError(
            f"jnp.linalg.{name}: UPLO must be 'L' or 'U'.", got=f"UPLO: {triangle!r}"
        )
    return triangle != "U"


@numpy_function
def _eig(a: ArrayLike) -> tuple[Any, Any]:
    a = square_matrices("eig", a)
    w, v = eig_module.eig(a, compute_left_eigenvectors=False)
    return w, v


def eig(a: ArrayLike) -> EigResult:
    """Eigenvalues w, in no order, and eigenvectors v of matrices of shape [..., n, n]: a v = v diag(w).

    Both are complex; vectors are columns of norm 1. CPUs and GPUs have it. Vectors have no derivative here: see
    `lax.linalg.eig`. Raises: ShapeError unless matrices are square.

    >>> eig(np.array([[0.0, -1.0], [1.0, 0.0]])).eigenvalues
    Array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    return EigResult(*_eig(a))


@numpy_function
def _eigvals(a: ArrayLike) -> Any:
    a = square_matrices("eigvals", a)
    return eig_module.eig(a, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0]


def eigvals(a: ArrayLike) -> Array:
    """Eigenvalues of matrices of shape [..., n, n], complex and in no order; see `eig`.

    Result: shape [..., n]; complex64, or complex128 for elements of 64-bit dtypes.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ShapeError for matrices that aren't square,
    DtypeError for half precision and random keys.

    >>> eigvals(np.array([[0.0, -1.0], [1.0, 0.0]]))
    Array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    return _eigvals(a)


# QR -----------------------------------------------------------------------------------------------


@numpy_function(static="mode")
def _qr(a: Any, mode: str) -> Any:
    a = matrices("qr", a)
    if mode == "raw":
        reflections, taus = qr_module.geqrf(a)
        return matrix_transpose(reflections), taus
    q, r = qr_module.qr(a, full_matrices=mode == "complete")
    return r if mode == "r" else (q, r)


def qr(a: ArrayLike, mode: str = "reduced") -> Any:
    """QR decomposition of matrices of shape [..., m, n]: Q with orthonormal columns times upper triangular R.

    With k = min(m, n), Q and R have shapes [..., m, k] and [..., k, n] ("reduced"), or [..., m, m] and [..., m, n]
    ("complete"). "r" gives R alone, "raw" LAPACK's reflections, transposed, with their factors.
    Raises: ArgumentValueError for another `mode`; ShapeError below rank 2.

    >>> qr(np.array([[3.0], [4.0]])).R
    Array([[-5.]], dtype=float32)
    """
    if mode not in ("reduced", "complete", "r", "raw"):
        raise ArgumentValueError(
            "jnp.linalg.qr: mode must be 'reduced', 'complete', 'r' or 'raw'.",
            got=f"mode: {mode!r}",
        )
    result = _qr(a, mode)
    return result if mode == "r" else QRResult(*result) if mode != "raw" else tuple(result)


# SVD ----------------------------------------------------------------------------------------------


@numpy_function(static=("full_matrices", "compute_uv", "subset"))
def _svd(a: ArrayLike, full_matrices: bool, compute_uv: bool, subset: Any) -> Any:
    return svd_module.svd(
        matrices("svd", a),
        full_matrices=full_matrices,
        compute_uv=compute_uv,
        subset_by_index=subset,
    )


@numpy_function(static="compute_uv")
def _hermitian_svd(a: ArrayLike, compute_uv: bool) -> Any:
    v, w = symmetric_eigen.eigh(square_matrices("svd", a))
    s = absolute(w)
    order = flip(argsort(s), -1)
    s = take_along(s, order, type_of(s).ndim - 1)
    if not compute_uv:
        return s
    shape = type_of(v).shape
    columns = broadcast_in_dim(order, shape, (*range(len(shape) - 2), len(shape) - 1))
    v = take_along(v, columns, len(shape) - 1)
    signs = take_along(sign(w), order, type_of(w).ndim - 1)
    signed = broadcast_in_dim(signs, shape, (*range(len(shape) - 2), len(shape) - 1))
    return v * signed.astype(type_of(v).dtype), s, H(v)


def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Any:
    """Singular value decomposition U diag(S) Vh of matrices of shape [..., m, n]; S alone without `compute_uv`.

    S is real, decreases, and has shape [..., k], k = min(m, n). U and Vh have shapes [..., m, m] and [..., n, n] with
    `full_matrices`, else [..., m, k] and [..., k, n]. `hermitian` says that matrices are, so that their eigenvalues
    serve. `subset_by_index` (start, end) keeps a range of singular values and their vectors.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ShapeError for fewer than two dimensions,
    UnsupportedError for `subset_by_index` with `hermitian`, ArgumentValueError for it with `full_matrices`, DtypeError
    for half precision and random keys.

    >>> svd(np.array([[3.0, 0.0], [0.0, -4.0]])).S
    Array([4., 3.], dtype=float32)
    """
    if hermitian:
        if subset_by_index is not None:
            raise UnsupportedError(
                "jnp.linalg.svd has no subset of the decomposition of Hermitian matrices.",
                do="Use hermitian=False, or eigh.",
            )
        result = _hermitian_svd(a, bool(compute_uv))
    else:
        subset = None if subset_by_index is None else tuple(map(int, subset_by_index))
        result = _svd(a, bool(full_matrices), bool(compute_uv), subset)
    return SVDResult(*result) if compute_uv else result


def svdvals(x: ArrayLike, /) -> Array:
    """Singular values of matrices of shape [..., m, n] in decreasing order.

    Result: shape [..., min(m, n)]; the real dtype of the elements, float32 for integers.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ShapeError for fewer than two dimensions,
    DtypeError for half precision and random keys.

    >>> svdvals(np.array([[3.0, 0.0], [0.0, -4.0]]))
    Array([4., 3.], dtype=float32)
    """
    return _svd(x, False, False, None)


__all__ = ["cholesky", "eig", "eigh", "eigvals", "eigvalsh", "qr", "svd", "svdvals"]

public_functions(__all__, globals())
