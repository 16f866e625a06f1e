"""Eigenvectors and solutions of sparse matrices, under the names of `jax.experimental.sparse.linalg`."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from pellucid import numpy as jnp
from pellucid._machine.base import public_functions
from pellucid._machine.base.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    ShapeError,
    UnsupportedError,
)
from pellucid._machine.callbacks.pure import pure_callback
from pellucid._machine.higher_order.linear_calls import custom_linear_solve
from pellucid._machine.higher_order.loops import while_loop
from pellucid._machine.higher_order.shape_dtype_struct import ShapeDtypeStruct
from pellucid._machine.primitives.precision import Precision
from pellucid.experimental.sparse.base import JAXSparse
from pellucid.experimental.sparse.compressed import CSR
from pellucid.numpy.compiled import numpy_function
from pellucid.numpy.promotion import promote_dtypes_inexact

__all__ = ["lobpcg_standard", "spsolve"]

_COLUMNS_PER_VECTOR = 5
"""Rows that a matrix has more of than this many for each vector searched for, as in the reference."""


def lobpcg_standard(A: Any, X: Any, m: int = 100, tol: Any = None) -> tuple[Any, Any, Any]:
    """The greatest eigenvalues of a symmetric matrix and their vectors, by products with it only.

    `A` is a dense or sparse matrix [n, n] of floating dtype, or a function of matrices [n, k] that multiplies by one; `X`
    [n, k] of the same dtype are the vectors to begin with, n > 5 k. At most `m` steps are made. It ends when for each
    pair |A u - theta u| < tol * 10 * n * (|theta| + the greatest |theta|); `tol` is the dtype's epsilon by default.
    Returns eigenvalues [k], the greatest first, orthonormal vectors [n, k], and the number of steps. Only forward
    mode differentiates it.

    Raises: ShapeError, ArgumentTypeError and ArgumentValueError for operands that don't fit.
    Source: Knyazev, Toward the optimal preconditioned eigensolver, SIAM J. Sci. Comput. 23 (2001), 517.

    >>> theta, vectors, steps = lobpcg_standard(jnp.diag(jnp.arange(1.0, 9.0)), jnp.ones((8, 1)))
    >>> print(round(float(theta[0]), 4))
    8.0
    """
    X = jnp.asarray(X)
    if X.ndim != 2 or X.dtype.kind != "f":
        raise ArgumentTypeError(
            "lobpcg_standard needs a floating matrix X [n, k] to begin with.", got=f"X: {X.dtype}{list(X.shape)}"
        )  # fmt: skip
    n, k = X.shape
    if _COLUMNS_PER_VECTOR * k >= n:
        raise ArgumentValueError(
            "lobpcg_standard can only search for less than a fifth of the eigenvectors.",
            got=f"X: {k} vectors of {n} elements",
            do="Take all of them: `jnp.linalg.eigh(A)`.",
        )
    epsilon = np.finfo(X.dtype).eps if tol is None else tol
    if not isinstance(A, JAXSparse) and callable(A):
        return _greatest(A, X, m, epsilon)
    A = A if isinstance(A, JAXSparse) else jnp.asarray(A)
    if A.shape != (X.shape[0],) * 2:
        raise ShapeError(
            "lobpcg_standard: the operands don't fit.", got=f"A: {A.shape}, X: {X.shape}"
        )
    if A.dtype != X.dtype:
        raise ArgumentTypeError("lobpcg_standard needs operands of one dtype.", got=f"A: {A.dtype}, X: {X.dtype}")  # fmt: skip
    return _greatest_of(A, X, m, epsilon)


@numpy_function
def _greatest_of(A: Any, X: Any, m: Any, epsilon: Any) -> tuple[Any, Any, Any]:
    product = lambda x: A @ x if isinstance(A, JAXSparse) else _dot(A, x)
    return _greatest(product, X, m, epsilon)


def _greatest(apply: Callable[[Any], Any], X: Any, m: Any, epsilon: Any) -> tuple[Any, Any, Any]:
    """As `lobpcg_standard`, of the matrix that `apply` multiplies by."""
    n, k = X.shape

    def improve(space: Any) -> tuple[Any, ...]:
        """The best pairs in a space that the columns of a matrix span, their residuals, and what isn't in the first k."""
        space = jnp.linalg.qr(space)[0]
        image = apply(space)
        values, weights = jnp.linalg.eigh(_dot(space.T, image))
        theta, weights = values[: -k - 1 : -1], weights[:, : -k - 1 : -1]
        U = _dot(space, weights)
        return theta, U, _dot(image, weights) - U * theta, _dot(space[:, k:], weights[k:])

    def goes_on(state: tuple[Any, ...]) -> Any:
        step, theta, _, residual, _ = state
        bound = epsilon * 10 * n * (abs(theta) + abs(theta).max())
        return (step < m) & ~(jnp.linalg.norm(residual, axis=0) < bound).all()

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        number, _, U, residual, directions = state
        return number + 1, *improve(jnp.concatenate([U, residual, directions], axis=1))

    first = improve(X)
    # QR replaces zeros by arbitrary directions, which enlarge the space.
    directions = jnp.zeros_like(X)
    _, theta, U, residual, directions = step((0, *first[:3], directions))
    state = while_loop(goes_on, step, (np.int32(1), theta, U, residual, directions))
    return state[1], state[2], state[0]


def _dot(x: Any, y: Any) -> Any:
    return jnp.dot(x, y, precision=Precision.HIGHEST)


def spsolve(data: Any, indices: Any, indptr: Any, b: Any, tol: Any = 1e-6, reorder: int = 1) -> Any:
    """The solution x [n] of A x = b [n], directly, for a CSR matrix of floating `data` [nse], `indices` [nse], `indptr` [n + 1].

    SciPy solves it on the host. Derivatives by `data` and `b` are those of the equation. `tol` and `reorder` are for
    solvers of accelerators.

    Raises: ShapeError for operands that don't fit; UnsupportedError where SciPy isn't installed.

    >>> spsolve([2.0, 4.0], [0, 1], [0, 1, 2], [1.0, 2.0])
    Array([0.5, 0.5], dtype=float32)
    """
    data, b = promote_dtypes_inexact("spsolve", jnp.asarray(data), jnp.asarray(b))
    indices, indptr = jnp.asarray(indices), jnp.asarray(indptr)
    if b.ndim != 1 or indptr.shape != (b.size + 1,) or data.shape != indices.shape:
        raise ShapeError(
            "spsolve: the operands don't fit.",
            where=f"b [n] and indptr [n + 1]: {b.shape} and {indptr.shape}",
            got=f"data [nse] and indices [nse]: {data.shape} and {indices.shape}",
        )
    solver = _host_solver()

    def solve(b: Any, *, transpose: bool) -> Any:
        def on_host(data: Any, indices: Any, indptr: Any, b: Any) -> Any:
            return solver(*map(np.asarray, (data, indices, indptr, b)), transpose)

        result = ShapeDtypeStruct(b.shape, b.dtype)
        return pure_callback(on_host, result, data, indices, indptr, b, vmap_method="sequential")

    return custom_linear_solve(
        CSR((data, indices, indptr), shape=(b.size, b.size)).product,
        b,
        lambda _, b: solve(b, transpose=False),
        lambda _, b: solve(b, transpose=True),
    )


def _host_solver() -> Callable[..., np.ndarray]:
    """`solver(data, indices, indptr, b, transpose)`, by SciPy."""
    try:
        sparse = importlib.import_module("scipy.sparse")
        solvers = importlib.import_module("scipy.sparse.linalg")
    except ImportError as error:
        raise UnsupportedError(
            "spsolve needs SciPy, whose solver runs on the host.",
            do="Install it: `pip install scipy`; or solve iteratively, by `gmres`.",
        ) from error

    def solver(data: Any, indices: Any, indptr: Any, b: Any, transpose: bool) -> np.ndarray:
        mat = sparse.csr_array((data, indices, indptr), shape=(b.size, b.size))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # singular matrices warn, and the solution is NaN
            return solvers.spsolve((mat.T if transpose else mat).tocsc(), b).astype(b.dtype)

    return solver


public_functions(__all__, globals())
