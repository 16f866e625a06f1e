"""Factors of matrices, and linear equations solved with them."""

from __future__ import annotations

from typing import Any

import numpy as np

import pellucid.numpy as jnp
from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    ShapeError,
    UnsupportedError,
    public_functions,
)
from pellucid._machine.linalg import (
    cholesky as cholesky_module,
    lu as lu_module,
    qr as qr_module,
    symmetric_eigen,
)
from pellucid._machine.linalg.matrices import H, product
from pellucid._machine.linalg.solve import inverse_of, solve as solved_by_lu, with_factors
from pellucid._machine.linalg.triangular import triangular_solve
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array
from pellucid.numpy import linalg as numpy_linalg
from pellucid.numpy.compiled import numpy_function
from pellucid.numpy.creation import of_sequence
from pellucid.numpy.linalg.arguments import (
    common_batch,
    inexact,
    matrices,
    repeat_matrices,
    square_matrices,
)

_FORMS = {0: 0, "N": 0, 1: 1, "T": 1, 2: 2, "C": 2}


def _form(name: str, trans: Any) -> int:
    try:
        return _FORMS[trans]
    except (KeyError, TypeError):
        raise ArgumentValueError(
            f"scipy.linalg.{name}: trans must be 0, 1, 2, 'N', 'T' or 'C'.", got=f"trans: {trans!r}"
        ) from None


def _columns(name: str, a: Array, b: Array) -> tuple[Any, Any, bool]:
    """(matrices, right-hand sides, both with equal leading axes; whether the right-hand sides were vectors)."""
    is_vector = type_of(b).ndim == type_of(a).ndim - 1
    b = b[..., None] if is_vector else b
    if type_of(b).ndim < 2 or type_of(a).shape[-1] != type_of(b).shape[-2]:
        raise ShapeError(
            f"{name}: sizes of the matrix and of the right-hand sides differ.",
            got=[f"argument 0: {type_of(a).text()}", f"argument 1: {type_of(b).text()}"],
        )
    batch = common_batch(name, a, b)
    return repeat_matrices(a, batch), repeat_matrices(b, batch), is_vector


# Determinants and inverses ------------------------------------------------------------------------


def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Determinants of matrices of shape [..., n, n], as `numpy.linalg.det` gives them.

    The result has shape [...] and a floating-point or complex dtype.
    Raises: ShapeError for matrices that are not square, DtypeError for PRNG keys, ArgumentTypeError for lists and
    strings.

    >>> det(np.array([[1.0, 2.0], [3.0, 4.0]]))
    Array(-2., dtype=float32)
    """
    return numpy_linalg.det(square_matrices("scipy.linalg.det", a))


def inv(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Inverses of matrices of shape [..., n, n], as `numpy.linalg.inv` gives them.

    The result has the shape of `a`, and its floating-point or complex dtype; where `a` is singular it holds infinities
    or NaN.
    Raises: ShapeError for matrices that are not square, DtypeError for other dtypes than float32, float64, complex64
    and complex128 (integers count as floats), ArgumentTypeError for lists and strings.

    >>> inv(np.array([[2.0, 0.0], [0.0, 4.0]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    return numpy_linalg.inv(square_matrices("scipy.linalg.inv", a))


# Triangular systems and Cholesky ------------------------------------------------------------------


@numpy_function(static=("form", "lower", "unit_diagonal"))
def _solve_triangular(a: Any, b: Any, form: int, lower: bool, unit_diagonal: bool) -> Array:
    a, b = inexact("scipy.linalg.solve_triangular", a, b)
    a, b, is_vector = _columns(
        "scipy.linalg.solve_triangular", square_matrices("scipy.linalg.solve_triangular", a), b
    )
    x = triangular_solve(
        a, b, left_side=True, lower=lower, transpose_a=form > 0, conjugate_a=form == 2, unit_diagonal=unit_diagonal
    )  # fmt: skip
    return x[..., 0] if is_vector else x


def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> Array:
    """The solutions x of a x = b for triangular `a` of shape [..., n, n], `b` of shape [..., n] or [..., n, k].

    `trans` 1 or 'T' transposes `a`, 2 or 'C' conjugates it, too. Only the `lower` or the upper triangle is read,
    without its diagonal if `unit_diagonal`. Raises: ShapeError for shapes that don't fit.

    >>> solve_triangular(np.array([[2.0, 0.0], [1.0, 1.0]]), np.array([4.0, 5.0]), lower=True)
    Array([2., 3.], dtype=float32)
    """
    return _solve_triangular(
        of_sequence(a),
        of_sequence(b),
        _form("solve_triangular", trans),
        bool(lower),
        bool(unit_diagonal),
    )


@numpy_function(static="lower")
def _cholesky(a: Any, lower: bool) -> Array:
    a = square_matrices("scipy.linalg.cholesky", a)
    if lower:
        return cholesky_module.cholesky(a, symmetrize_input=False)
    return H(cholesky_module.cholesky(H(a), symmetrize_input=False))


def cholesky(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Array:
    """The upper triangular U with a = Uᴴ U, or with `lower` L with a = L Lᴴ; only that triangle of `a` is read.

    NaN where `a`, of shape [..., n, n], is not positive definite.

    The result has the shape of `a`, and its floating-point or complex dtype.
    Raises: ShapeError for matrices that are not square, DtypeError for other dtypes than float32, float64, complex64
    and complex128 (integers count as floats), ArgumentTypeError for strings.

    >>> cholesky(np.array([[4.0, 2.0], [2.0, 5.0]]))
    Array([[2., 1.],
           [0., 2.]], dtype=float32)
    """
    return _cholesky(of_sequence(a), bool(lower))


def cho_factor(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, bool]:
    """(Cholesky factor, `lower`) of Hermitian matrices of shape [..., n, n], for `cho_solve`.

    The factor has the shape of `a`, and its floating-point or complex dtype.
    Raises: ShapeError for matrices that are not square, DtypeError for other dtypes than float32, float64, complex64
    and complex128 (integers count as floats), ArgumentTypeError for strings.

    >>> cho_factor(np.array([[4.0]]))[0]
    Array([[2.]], dtype=float32)
    """
    return _cholesky(of_sequence(a), bool(lower)), lower


@numpy_function(static="lower")
def _cho_solve(c: Array, b: Any, lower: bool) -> Array:
    c, b = inexact("scipy.linalg.cho_solve", c, b)
    c, b, is_vector = _columns(
        "scipy.linalg.cho_solve", square_matrices("scipy.linalg.cho_solve", c), b
    )
    options = {"left_side": True, "lower": lower}
    x = triangular_solve(c, b, transpose_a=not lower, conjugate_a=not lower, **options)
    x = triangular_solve(c, x, transpose_a=lower, conjugate_a=lower, **options)
    return x[..., 0] if is_vector else x


def cho_solve(
    c_and_lower: tuple[Any, bool],
    b: ArrayLike,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """The solutions x of a x = b, for `a` whose factor `cho_factor` gave.

    The result has the shape of `b`, [n] or [n, k], and the dtype to which factor and `b` promote.
    Raises: ShapeError for shapes that do not fit, TypeError for a first argument that is no pair, DtypeError for PRNG
    keys, ArgumentTypeError for lists and strings.

    >>> cho_solve(cho_factor(np.array([[4.0]])), np.array([8.0]))
    Array([2.], dtype=float32)
    """
    c, lower = c_and_lower
    return _cho_solve(c, b, bool(lower))


# LU -----------------------------------------------------------------------------------------------


@numpy_function
def _lu_factor(a: Any) -> tuple[Array, Array]:
    factors, pivots, _ = lu_module.lu(matrices("scipy.linalg.lu_factor", a))
    return factors, pivots


def lu_factor(
    a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, Array]:
    """(both LU factors in one matrix, pivots) of matrices of shape [..., m, n]; row i was exchanged with row pivots[i].

    Factors have the shape of `a`, and its floating-point or complex dtype; pivots are int32[..., k] for the smaller k
    of m and n.
    Raises: ShapeError for fewer than two axes, DtypeError for other dtypes than float32, float64, complex64 and
    complex128 (integers count as floats), ArgumentTypeError for strings.

    >>> lu_factor(np.array([[0.0, 1.0], [2.0, 3.0]]))[1]
    Array([1, 1], dtype=int32)
    """
    factors, pivots = _lu_factor(of_sequence(a))
    return factors, pivots


@numpy_function(static="form")
def _lu_solve(factors: Array, pivots: Array, b: Any, form: int) -> Array:
    factors, b = inexact("scipy.linalg.lu_solve", factors, b)
    factors, b, is_vector = _columns(
        "scipy.linalg.lu_solve", square_matrices("scipy.linalg.lu_solve", factors), b
    )
    n = type_of(factors).shape[-1]
    permutation = lu_module.lu_pivots_to_permutation(jnp.asarray(pivots), n)
    permutation = jnp.broadcast_to(permutation, type_of(factors).shape[:-1])
    x = with_factors(factors, permutation, b, form)
    return x[..., 0] if is_vector else x


def lu_solve(
    lu_and_piv: tuple[Any, Any],
    b: ArrayLike,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """The solutions x of a x = b (aᵀ x, aᴴ x with `trans` 1, 2), for `a` whose factors `lu_factor` gave.

    The result has the shape of `b`, [n] or [n, k], and the dtype to which factors and `b` promote.
    Raises: ShapeError for shapes that do not fit, ArgumentValueError for another `trans`, DtypeError for pivots that
    aren't integers, ArgumentTypeError for lists and strings.

    >>> lu_solve(lu_factor(np.array([[0.0, 1.0], [2.0, 0.0]])), np.array([3.0, 4.0]))
    Array([2., 3.], dtype=float32)
    """
    factors, pivots = lu_and_piv
    return _lu_solve(factors, pivots, b, _form("lu_solve", trans))


@numpy_function(static="permute_l")
def _lu(a: Any, permute_l: bool) -> tuple[Array, ...]:
    a = matrices("scipy.linalg.lu", a)
    *_, m, n = type_of(a).shape
    k = min(m, n)
    factors, _, permutation = lu_module.lu(a)
    lower = jnp.tril(factors[..., :k], -1) + jnp.eye(m, k, dtype=factors.dtype)
    upper = jnp.triu(factors[..., :k, :])
    undo = inverse_of(permutation)
    if permute_l:
        return lu_module.rows_at(lower, undo), upper
    return (undo[..., None] == np.arange(m, dtype=np.int32)).astype(factors.dtype), lower, upper


def lu(
    a: ArrayLike, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, ...]:
    """(P, L, U) with a = P L U for matrices of shape [..., m, n]; (P L, U) with `permute_l`.

    P has shape [..., m, m], L [..., m, k] and U [..., k, n] for the smaller k of m and n; all have the floating-point
    or complex dtype of `a`.
    Raises: ShapeError for fewer than two axes, DtypeError for other dtypes than float32, float64, complex64 and
    complex128 (integers count as floats), ArgumentTypeError for strings.

    >>> lu(np.array([[0.0, 1.0], [2.0, 3.0]]))[0]
    Array([[0., 1.],
           [1., 0.]], dtype=float32)
    """
    return tuple(_lu(of_sequence(a), bool(permute_l)))


_ASSUMED = {
    "gen": "gen", "general": "gen", "sym": "gen", "symmetric": "gen", "her": "gen", "hermitian": "gen",
    "pos": "pos", "positive definite": "pos",
}  # fmt: skip


def solve(
    a: ArrayLike,
    b: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Array:
    """The solutions x of a x = b, for `a` of shape [..., n, n], `b` of shape [..., n] or [..., n, k].

    `assume_a` "pos" says that `a` is positive definite, which takes half the time; "gen", "sym" and "her" are the same.
    Raises: ArgumentValueError for another one.

    >>> solve(np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([2.0, 2.0]))
    Array([1. , 0.5], dtype=float32)
    """
    if assume_a not in _ASSUMED:
        raise ArgumentValueError(
            f"scipy.linalg.solve: assume_a must be one of {', '.join(_ASSUMED)}.",
            got=f"assume_a: {assume_a!r}",
        )
    if _ASSUMED[assume_a] == "pos":
        return cho_solve(cho_factor(a, lower), b)
    return _solve(a, b)


@numpy_function
def _solve(a: Any, b: Any) -> Array:
    a, b = inexact("scipy.linalg.solve", a, b)
    a, b, is_vector = _columns("scipy.linalg.solve", square_matrices("scipy.linalg.solve", a), b)
    x = solved_by_lu(a, b)
    return x[..., 0] if is_vector else x


# QR, SVD ------------------------------------------------------------------------------------------


@numpy_function(static=("mode", "pivoting"))
def _qr(a: Any, mode: str, pivoting: bool) -> tuple[Array, ...]:
    a = matrices("scipy.linalg.qr", a)
    q, r, *order = qr_module.qr(a, full_matrices=mode in ("full", "r"), pivoting=pivoting)
    return (r, *order) if mode == "r" else (q, r, *order)


def qr(
    a: ArrayLike,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Array, ...]:
    """(Q, R), or (R,) in mode "r", of matrices of shape [..., m, n]; with `pivoting` the order of columns comes last.

    "full" gives a square Q, "economic" one with min(m, n) columns. Raises: ArgumentValueError for another `mode`.

    >>> qr(np.array([[3.0], [4.0]]), mode="economic")[1]
    Array([[-5.]], dtype=float32)
    """
    if mode not in ("full", "r", "economic"):
        raise ArgumentValueError(
            "scipy.linalg.qr: mode must be 'full', 'r' or 'economic'.", got=f"mode: {mode!r}"
        )
    return tuple(_qr(of_sequence(a), mode, bool(pivoting)))


@numpy_function(static=("mode", "pivoting", "conjugate"))
def _qr_multiply(a: Any, c: Any, mode: str, pivoting: bool, conjugate: bool) -> tuple[Array, ...]:
    a, c = inexact("scipy.linalg.qr_multiply", a, c)
    a = matrices("scipy.linalg.qr_multiply", a)
    is_vector = type_of(c).ndim == 1
    if is_vector:
        c = c[:, None] if mode == "left" else c[None, :]
    q, r, *order = qr_module.qr(a, full_matrices=False, pivoting=pivoting)
    size = type_of(c).shape[-2 if mode == "left" else -1]
    if size != type_of(q).shape[-1 if mode == "left" else -2]:
        raise ShapeError(
            "scipy.linalg.qr_multiply: sizes of Q and of the matrix differ.",
            got=[f"a: {type_of(a).text()}", f"c: {type_of(c).text()}"],
        )
    q = q.conj() if conjugate else q
    cq = product(q, c) if mode == "left" else product(c, q)
    return (cq.reshape(-1) if is_vector else cq), r, *order


def qr_multiply(
    a: ArrayLike,
    c: ArrayLike,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple[Array, ...]:
    """(c Q, R), or with mode "left" (Q c, R), for the QR decomposition of `a`, of shape [m, n]; the order of columns last.

    `conjugate` conjugates Q. Raises: ArgumentValueError for another `mode`; ShapeError for sizes that don't fit.

    >>> qr_multiply(np.array([[3.0], [4.0]]), np.array([[3.0, 4.0]]))[0]
    Array([[-5.]], dtype=float32)
    """
    if mode not in ("left", "right"):
        raise ArgumentValueError(
            "scipy.linalg.qr_multiply: mode must be 'left' or 'right'.", got=f"mode: {mode!r}"
        )
    a, c = of_sequence(a), of_sequence(c)
    return tuple(_qr_multiply(a, c, mode, bool(pivoting), bool(conjugate)))


def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """(U, s, Vᴴ) of matrices of shape [..., m, n], or s alone without `compute_uv`; see `jnp.linalg.svd`.

    U and Vᴴ have the floating-point or complex dtype of `a`, s the dtype of its parts.
    Raises: ShapeError for fewer than two axes, DtypeError for other dtypes than float32, float64, complex64 and
    complex128 (integers count as floats), ArgumentTypeError for strings.

    >>> svd(np.array([[3.0, 0.0], [0.0, 4.0]]), compute_uv=False)
    Array([4., 3.], dtype=float32)
    """
    a = matrices("scipy.linalg.svd", of_sequence(a))
    result = numpy_linalg.svd(a, full_matrices=full_matrices, compute_uv=compute_uv)
    return tuple(result) if compute_uv else result


# Eigenvalues --------------------------------------------------------------------------------------


@numpy_function(static=("lower", "kind"))
def _generalized_eigh(a: Any, b: Any, lower: bool, kind: int) -> tuple[Any, Any]:
    """Eigenvalues and vectors of a v = w b v (kind 1), a b v = w v (2) or b a v = w v (3), by b = L Lᴴ."""
    a, b = inexact("scipy.linalg.eigh", a, b)
    a, b = square_matrices("scipy.linalg.eigh", a), square_matrices("scipy.linalg.eigh", b)
    if not lower:
        a, b = H(a), H(b)
    below = jnp.tril(a, -1)
    a = below + H(below) + jnp.tril(jnp.triu(a))
    factor = cholesky_module.cholesky(b, symmetrize_input=False)
    left = {"left_side": True, "lower": True}
    if kind == 1:
        half = triangular_solve(factor, a, **left)
        inner = triangular_solve(factor, half, lower=True, transpose_a=True, conjugate_a=True)
    else:
        inner = product(H(factor), a, factor)
    v, w = symmetric_eigen.eigh(inner)
    if kind == 3:
        return w, product(factor, v)
    return w, triangular_solve(factor, v, transpose_a=True, conjugate_a=True, **left)


def eigh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Any:
    """(eigenvalues w, eigenvectors v) of Hermitian matrices of shape [..., n, n], or w alone: a v = v diag(w).

    With a positive definite `b`: a v = b v diag(w) (`type` 1), a b v = v diag(w) (2) or b a v = v diag(w) (3). Only the
    `lower` or the upper triangle is read. Raises: UnsupportedError for a range of `eigvals`.

    >>> eigh(np.array([[0.0, 1.0], [1.0, 0.0]]), eigvals_only=True)
    Array([-1.,  1.], dtype=float32)
    """
    if eigvals is not None:
        raise UnsupportedError(
            "scipy.linalg.eigh can only find all eigenvalues.", do="Cut a part of the result."
        )
    if type not in (1, 2, 3):
        raise ArgumentValueError(
            "scipy.linalg.eigh: type must be 1, 2 or 3.", got=f"type: {type!r}"
        )
    a, b = of_sequence(a), of_sequence(b)
    if b is None:
        a = square_matrices("scipy.linalg.eigh", a)
        w, v = numpy_linalg.eigh(a, UPLO="L" if lower else "U", symmetrize_input=False)
    else:
        w, v = _generalized_eigh(a, b, bool(lower), type)
    return w if eigvals_only else (w, v)


def eigh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    *,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: tuple[float, float] | None = None,
    tol: Any = None,
    key: Any = None,
) -> Any:
    """(eigenvalues, eigenvectors), or the values alone, of the Hermitian matrix of diagonal `d` [n], superdiagonal `e`.

    `select` "i" keeps those from index select_range[0] to select_range[1], "v" those in that interval, (low, high],
    which must be known; by default all. `tol` and `key` have no effect.
    Raises: ArgumentValueError for another `select`, or one without its range; ShapeError unless `e` has one element less than `d`.

    >>> eigh_tridiagonal(np.zeros(2), np.ones(1), eigvals_only=True)
    Array([-1.,  1.], dtype=float32)
    """
    if select not in ("a", "i", "v"):
        raise ArgumentValueError(
            "scipy.linalg.eigh_tridiagonal: select must be 'a', 'i' or 'v'.", got=f"{select!r}"
        )
    if select != "a" and select_range is None:
        raise ArgumentValueError(
            f"scipy.linalg.eigh_tridiagonal: select={select!r} needs a `select_range`.",
            do="Pass (low, high).",
        )
    w, v = _eigh_tridiagonal(d, e)
    low, high = select_range or (0, 0)
    if select == "i":
        w, v = w[int(low) : int(high) + 1], v[:, int(low) : int(high) + 1]
    elif select == "v":
        inside = np.asarray((w > low) & (w <= high))
        w, v = w[inside], v[:, inside]
    return w if eigvals_only else (w, v)


@numpy_function
def _eigh_tridiagonal(d: Any, e: Any) -> tuple[Array, Array]:
    d, e = inexact("scipy.linalg.eigh_tridiagonal", d, e)
    if type_of(d).ndim != 1 or type_of(e).shape != (type_of(d).shape[0] - 1,):
        raise ShapeError(
            "scipy.linalg.eigh_tridiagonal needs a diagonal, and a superdiagonal with one element less.",
            got=[f"d: {type_of(d).text()}", f"e: {type_of(e).text()}"],
        )
    v, w = symmetric_eigen.eigh(jnp.diag(d) + jnp.diag(jnp.conj(e), -1), symmetrize_input=False)
    return w, v


__all__ = [
    "cho_factor", "cho_solve", "cholesky", "det", "eigh", "eigh_tridiagonal", "inv", "lu", "lu_factor", "lu_solve", "qr", "qr_multiply",
    "solve", "solve_triangular", "svd",
]  # fmt: skip

public_functions(__all__, globals())
