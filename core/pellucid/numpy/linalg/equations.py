"""Linear equations, inverses and determinants."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    ShapeError,
    dtypes,
    library_code,
    public_functions,
)
from pellucid._machine.higher_order.cond import cond
from pellucid._machine.higher_order.custom_jvp import custom_jvp
from pellucid._machine.higher_order.custom_vmap import custom_vmap
from pellucid._machine.linalg import (
    lu as lu_module,
    solve as solve_module,
    svd as svd_module,
    symmetric_eigen,
)
from pellucid._machine.linalg.matrices import (
    H,
    columns,
    diagonal_of,
    eye_like,
    product,
    rows,
)
from pellucid._machine.linalg.qr import qr as lax_qr
from pellucid._machine.linalg.triangular import triangular_solve
from pellucid._machine.primitives.movement import canonical_axis
from pellucid._machine.primitives.precision import Precision
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array
from pellucid.numpy.compiled import numpy_function
from pellucid.numpy.creation import arange, asarray, ones_like, zeros_like
from pellucid.numpy.cumulative import cumprod
from pellucid.numpy.elementwise import abs as absolute, log, sign
from pellucid.numpy.joining import concatenate
from pellucid.numpy.manipulation import (
    broadcast_to,
    diag,
    expand_dims,
    flip,
    reshape,
    squeeze,
    where,
)
from pellucid.numpy.number_kinds import conj, real
from pellucid.numpy.products import matmul
from pellucid.numpy.promotion import aval_of, known_int
from pellucid.numpy.reductions import max as greatest, prod, sum as total

from .arguments import common_batch, inexact, matrices, repeat_matrices, square_matrices

_HIGHEST = Precision.HIGHEST


class SlogdetResult(NamedTuple):
    """Sign of determinants, and logarithm of their absolute values."""

    sign: Any
    logabsdet: Any


# Solutions ----------------------------------------------------------------------------------------


@numpy_function
def _solve(a: ArrayLike, b: ArrayLike) -> Any:
    a, b = inexact("solve", a, b)
    a = square_matrices("solve", a)
    n = type_of(a).shape[-1]
    is_vector = type_of(b).ndim == 1
    b = expand_dims(b, -1) if is_vector else b
    if type_of(b).ndim < 2 or type_of(b).shape[-2] != n:
        raise ShapeError(
            "jnp.linalg.solve: sizes of the matrix and of the right-hand sides differ.",
            got=[f"argument 0: {type_of(a).text()}", f"argument 1: {type_of(b).text()}"],
            do="Rows of b count the equations; only a b of one dimension is a vector.",
        )
    batch = common_batch("solve", a, b)
    x = solve_module.solve(repeat_matrices(a, batch), repeat_matrices(b, batch))
    return squeeze(x, -1) if is_vector else x


def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """The solutions x of a x = b, for `a` of shape [..., n, n] and `b` of shape [..., n, k], or a vector [n].

    Leading axes are broadcast. Solutions of singular systems are infinite or NaN.
    Raises: ShapeError for shapes that don't fit.

    >>> solve(np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([2.0, 2.0]))
    Array([1. , 0.5], dtype=float32)
    """
    return _solve(a, b)


@numpy_function
def _inv(a: Any) -> Any:
    a = square_matrices("inv", a)
    return solve_module.solve(a, eye_like(a))


def inv(a: ArrayLike) -> Array:
    """Inverses of matrices of shape [..., n, n]; infinite or NaN where they are singular.

    Result: shape and dtype of `a`, float32 for integers (float64 for 64-bit ones).
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ShapeError for matrices that aren't square,
    DtypeError for half precision and random keys.

    >>> inv(np.array([[2.0, 0.0], [0.0, 4.0]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    return _inv(a)


def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    """The inverse of `a` as a map from its last axes to its first `ind` ones.

    Result: shape `(*a.shape[ind:], *a.shape[:ind])`; dtype of `a`, float32 for integers (float64 for 64-bit ones).
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for `ind` that is no int,
    ArgumentValueError unless `ind` is positive; ShapeError where the two groups' sizes differ.

    >>> tensorinv(np.eye(4).reshape(2, 2, 4)).shape
    (4, 2, 2)
    """
    ind = known_int("linalg.tensorinv", "ind", ind)
    if ind < 1:
        raise ArgumentValueError("jnp.linalg.tensorinv needs a positive `ind`.", got=f"ind: {ind}")
    aval = aval_of("linalg.tensorinv", a)
    first, last = aval.shape[:ind], aval.shape[ind:]
    if math.prod(first) != math.prod(last):
        raise ShapeError(
            "jnp.linalg.tensorinv: the first axes and the others have unequal numbers of elements.",
            got=[f"argument 0: {aval.text()}", f"ind: {ind}"],
        )
    n = math.prod(first)
    return reshape(inv(reshape(asarray(a), (n, n))), (*last, *first))


def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """The x with tensordot(a, x, x.ndim) = `b`; `axes` of `a` are moved to its end first.

    Result: the shape of `a` after its first `b.ndim` axes; floating or complex dtype that both promote to.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for axes that are no ints, AxisError for
    axes out of bounds, ShapeError where sizes don't fit.

    >>> tensorsolve(2 * np.eye(4).reshape(2, 2, 2, 2), np.ones((2, 2)))
    Array([[0.5, 0.5],
           [0.5, 0.5]], dtype=float32)
    """
    a, b = inexact("tensorsolve", a, b)
    ndim = type_of(a).ndim
    if axes is not None:
        moved = [canonical_axis(i, ndim) for i in axes]
        a = asarray(a).transpose([*(i for i in range(ndim) if i not in moved), *moved])
    shape = type_of(a).shape[type_of(b).ndim :]
    n = math.prod(shape)
    if type_of(a).size != n * n or type_of(b).size != n:
        raise ShapeError(
            "jnp.linalg.tensorsolve: `a` must be a square matrix when its axes are joined.",
            got=[f"argument 0: {type_of(a).text()}", f"argument 1: {type_of(b).text()}"],
        )
    return reshape(solve(reshape(a, (n, n)), reshape(b, (n,))), shape)


# Least squares ------------------------------------------------------------------------------------


@numpy_function(static="numpy_resid")
def _lstsq(
    a: ArrayLike, b: ArrayLike, rcond: ArrayLike | None, numpy_resid: bool
) -> tuple[Any, ...]:
    a, b = inexact("lstsq", a, b)
    if (
        type_of(a).ndim != 2
        or type_of(b).ndim not in (1, 2)
        or type_of(a).shape[0] != type_of(b).shape[0]
    ):
        raise ShapeError(
            "jnp.linalg.lstsq needs a matrix and one or more right-hand sides with as many rows.",
            got=[f"argument 0: {type_of(a).text()}", f"argument 1: {type_of(b).text()}"],
        )
    is_vector = type_of(b).ndim == 1
    b = expand_dims(b, 1) if is_vector else b
    m, n = type_of(a).shape
    if 0 in (m, n):
        s = real(zeros_like(a))[:0].reshape(0) if 0 in (m, n) else None
        x = zeros_like(b, shape=(n, type_of(b).shape[1]))
        rank = asarray(0, np.int32)
    else:
        u, s, vh = svd_module.svd(a, full_matrices=False)
        floor = rcond * s[0]
        is_kept = s > where(floor < 0, -1, floor)
        rank = total(is_kept, dtype=np.int32)
        inverses = where(is_kept, 1 / where(is_kept, s, 1), 0).astype(type_of(u).dtype)
        x = product(H(vh), expand_dims(inverses, 1) * product(H(u), b))
    rest = b - matmul(a, x, precision=_HIGHEST)
    residuals = total(absolute(rest) ** 2, axis=0)
    if numpy_resid and (m <= n):
        residuals = residuals[:0]
    x = squeeze(x, 1) if is_vector else x
    return x, residuals, rank, s


def lstsq(
    a: ArrayLike, b: ArrayLike, rcond: ArrayLike | None = None, *, numpy_resid: bool = False
) -> tuple[Any, Any, Any, Any]:
    """Least-squares solution of a x = b for `a` of shape [m, n] and `b` of shape [m] or [m, k].

    Gives (x, sums of squared residuals for each right-hand side, rank, singular values). Singular values of at most
    `rcond` (default: the dtype's precision times max(m, n)) times the greatest count as 0; of the solutions the one of
    least norm is given. NumPy gives no residuals where rank < n or m <= n: here they are always there, and with
    `numpy_resid` outside of jit as NumPy has them. Raises: ShapeError for shapes that don't fit.

    >>> lstsq(np.array([[1.0], [0.0]]), np.array([2.0, 3.0]))[0]
    Array([2.], dtype=float32)
    """
    avals = [aval_of("linalg.lstsq", x, i) for i, x in enumerate((a, b))]
    if rcond is None or (isinstance(rcond, (int, float)) and rcond < 0):
        [probe] = inexact("lstsq", zeros_like(a, shape=()) + zeros_like(b, shape=()))
        precision = dtypes.finfo(type_of(probe).dtype).eps
        rcond = (
            float(precision) * max(avals[0].shape[-2:], default=1)
            if rcond is None
            else float(precision)
        )
    x, residuals, rank, s = _lstsq(a, b, rcond, bool(numpy_resid))
    if numpy_resid and int(rank) < avals[0].shape[1]:
        residuals = residuals[:0]
    return x, residuals, rank, s


def _default_tolerance(x: ArrayLike) -> float:
    """Default relative tolerance: machine epsilon of the dtype times the larger size of the matrices."""
    aval = type_of(x)
    return float(np.finfo(aval.dtype).eps) * max(aval.shape[-2:])


@custom_jvp
def _inverse_by_svd(a: ArrayLike, rtol: ArrayLike) -> Any:
    return _pseudo_inverse(a, rtol, hermitian=False)


@custom_jvp
def _inverse_by_eigenvalues(a: ArrayLike, rtol: ArrayLike) -> Any:
    return _pseudo_inverse(a, rtol, hermitian=True)


def _pseudo_inverse(a: ArrayLike, rtol: Any, *, hermitian: bool) -> Any:
    if hermitian:
        v, w = symmetric_eigen.eigh(a)
        u, s, vh = v, w, H(v)
    else:
        u, s, vh = svd_module.svd(a, full_matrices=False)
    floor = rtol[..., None] * greatest(absolute(s), axis=-1, keepdims=True, initial=0)
    is_kept = absolute(s) > floor
    inverses = where(is_kept, 1 / where(is_kept, s, 1), 0).astype(type_of(u).dtype)
    return product(H(vh), expand_dims(inverses, -1) * H(u))


def _pseudo_inverse_jvp(
    inverse: Callable[..., Any], primals: Any, tangents: Any
) -> tuple[Any, Any]:
    """Golub and Pereyra, The differentiation of pseudo-inverses (1973), (4.12)."""
    a, rtol = primals
    a_dot = tangents[0]
    p = inverse(a, rtol)
    first = product(p, a_dot, p)
    second = product(p, H(p), H(a_dot))
    second = second - product(second, a, p)
    third = product(H(a_dot), H(p), p)
    third = third - product(p, a, third)
    return p, second + third - first


_inverse_by_svd.defjvp(library_code(lambda x, t: _pseudo_inverse_jvp(_inverse_by_svd, x, t)))
_inverse_by_eigenvalues.defjvp(
    library_code(lambda x, t: _pseudo_inverse_jvp(_inverse_by_eigenvalues, x, t))
)


@numpy_function(static="hermitian")
def _pinv(a: ArrayLike, rtol: ArrayLike | None, hermitian: bool) -> Any:
    a = matrices("pinv", a)
    *batch, m, n = type_of(a).shape
    if 0 in (m, n):
        return zeros_like(a, shape=(*batch, n, m))
    rtol = 10 * _default_tolerance(a) if rtol is None else rtol
    rtol = asarray(rtol, real(a).dtype) + zeros_like(real(a), shape=tuple(batch))
    if hermitian and m == n:
        a = (a + H(a)) / 2  # `eigh` does the same, so derivatives agree with its
    return (_inverse_by_eigenvalues if hermitian else _inverse_by_svd)(a, rtol)


def pinv(
    a: ArrayLike,
    rtol: ArrayLike | None = None,
    hermitian: bool = False,
    *,
    rcond: ArrayLike | None = None,
) -> Array:
    """Pseudo-inverses of matrices of shape [..., m, n].

    Singular values of at most `rtol` times the greatest count as 0; the default is 10 * max(m, n) times the precision of
    the dtype. `rcond` is its older name. `hermitian` says that matrices are, so that their eigenvalues serve.
    Differentiable where the rank doesn't change.
    Result: shape [..., n, m]; dtype of `a`, float32 for integers (float64 for 64-bit ones).
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ShapeError for fewer than two dimensions,
    ArgumentValueError for both `rtol` and `rcond`, DtypeError for half precision and random keys.

    >>> pinv(np.array([[2.0], [0.0]]))
    Array([[0.5, 0. ]], dtype=float32)
    """
    if rcond is not None:
        if rtol is not None:
            raise ArgumentValueError("jnp.linalg.pinv takes rtol or rcond, not both.")
        rtol = rcond
    return _pinv(a, rtol, bool(hermitian))


@numpy_function(static="hermitian")
def _matrix_rank(M: Any, rtol: ArrayLike | None, tol: ArrayLike | None, hermitian: bool) -> Any:
    [M] = inexact("matrix_rank", M)
    if type_of(M).ndim < 2:
        return (M != 0).any().astype(np.int32)
    if hermitian:
        s = absolute(symmetric_eigen.eigh(square_matrices("matrix_rank", M))[1])
    else:
        s = svd_module.svd(M, full_matrices=False, compute_uv=False)
    if tol is None:
        relative = asarray(_default_tolerance(M) if rtol is None else rtol, type_of(s).dtype)
        floor = greatest(s, axis=-1, keepdims=True, initial=0) * relative[..., None]
    else:
        floor = asarray(tol, type_of(s).dtype)[..., None]
    return total(s > floor, axis=-1, dtype=np.int32)


def matrix_rank(
    M: ArrayLike,
    rtol: ArrayLike | None = None,
    *,
    hermitian: bool = False,
    tol: ArrayLike | None = None,
) -> Array:
    """Number of singular values of matrices of shape [..., m, n] that are greater than `rtol` times the greatest.

    The default is max(m, n) times the precision of the dtype; `tol` is an absolute bound instead.
    Result: shape [...]; dtype int32. A vector or a scalar has rank 1, or 0 if it is zero.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ArgumentValueError for both `rtol` and
    `tol`, ShapeError for `hermitian` matrices that aren't square.

    >>> matrix_rank(np.array([[1.0, 1.0], [1.0, 1.0]]))
    Array(1, dtype=int32)
    """
    if rtol is not None and tol is not None:
        raise ArgumentValueError("jnp.linalg.matrix_rank takes rtol or tol, not both.")
    return _matrix_rank(M, rtol, tol, bool(hermitian))


# Determinants -------------------------------------------------------------------------------------


def _parity(pivots: ArrayLike) -> Any:
    """Number of exchanges of rows, modulo 2, of pivots of shape [..., n]."""
    here = np.arange(type_of(pivots).shape[-1], dtype=np.int32)
    return total(pivots != here, axis=-1, dtype=np.int32) % 2


@numpy_function(static="method")
def _slogdet(a: ArrayLike, method: str) -> tuple[Any, Any]:
    a = square_matrices("slogdet", a)
    if method == "qr":
        q, r = lax_qr(a, full_matrices=False)
        diagonal = diagonal_of(r)
        # Q is a product of reflections, each with determinant -1 where it isn't 1.
        odd = _det_of(q)
        sign = odd / absolute(odd) * prod(_signs(diagonal), axis=-1)
    else:
        factors, pivots, _ = lu_module.lu(a)
        diagonal = diagonal_of(factors)
        sign = prod(_signs(diagonal), axis=-1) * (1 - 2 * _parity(pivots)).astype(type_of(a).dtype)
    return sign, total(log(absolute(diagonal)), axis=-1)


def _signs(x: ArrayLike) -> Any:
    size = absolute(x)
    signs = x / where(size == 0, 1, size).astype(type_of(x).dtype)
    return where(size == 0, 0, where(size == np.inf, sign(x), signs))


def slogdet(a: ArrayLike, *, method: str | None = None) -> SlogdetResult:
    """Sign and logarithm of the absolute value of determinants of matrices of shape [..., n, n].

    Where a determinant is 0, its sign is 0 and the logarithm minus infinity. `method` is "lu" (default) or "qr".
    Result: two arrays of shape [...]; the sign of the dtype of `a`, the logarithm of that of its parts.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ShapeError for matrices that aren't square,
    ArgumentValueError for an unknown `method`, DtypeError for half precision and random keys.

    >>> slogdet(np.array([[0.0, 2.0], [1.0, 0.0]])).sign
    Array(-1., dtype=float32)
    """
    if method not in (None, "lu", "qr"):
        raise ArgumentValueError(
            "jnp.linalg.slogdet: method must be 'lu' or 'qr'.", got=f"method: {method!r}"
        )
    return SlogdetResult(*_slogdet(a, method or "lu"))


def _det_of(a: Array) -> Any:
    """Determinants: by their formula up to 3×3, else by LU factors."""
    n = type_of(a).shape[-1]
    if n > 3:
        return _det_by_lu(a)
    x = [[a[..., i, j] for j in range(n)] for i in range(n)]
    match n:
        case 0:
            return ones_like(a, shape=type_of(a).shape[:-2])
        case 1:
            return x[0][0]
        case 2:
            return x[0][0] * x[1][1] - x[0][1] * x[1][0]
    return (
        x[0][0] * (x[1][1] * x[2][2] - x[1][2] * x[2][1])
        - x[0][1] * (x[1][0] * x[2][2] - x[1][2] * x[2][0])
        + x[0][2] * (x[1][0] * x[2][1] - x[1][1] * x[2][0])
    )


@custom_jvp
def _det_by_lu(a: ArrayLike) -> Any:
    factors, pivots, _ = lu_module.lu(a)
    sign = (1 - 2 * _parity(pivots)).astype(type_of(a).dtype)
    return prod(diagonal_of(factors), axis=-1) * sign


@_det_by_lu.defjvp
@library_code
def _det_by_lu_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    """tr(adj(A) dA), adj(A) = det(U) U⁻¹ L⁻¹ P, without a division by the last pivot.

    Where another pivot is 0, adj(A) is that of the singular value decomposition.
    """
    [a], [a_dot] = primals, tangents
    n = type_of(a).shape[-1]
    factors, pivots, permutation = lu_module.lu(a)
    is_degenerate = (diagonal_of(factors)[..., : n - 1] == 0).any(-1)
    each = expand_dims(is_degenerate, (-2, -1))
    other = broadcast_to(diag(arange(1, n + 1).astype(type_of(a).dtype)), type_of(a).shape)
    cofactors = cond(_is_any(is_degenerate), _cofactors_by_svd, zeros_like, where(each, a, other))
    factors = where(each, eye_like(a), factors)
    change = lu_module.rows_at(a_dot, permutation)
    change = triangular_solve(factors, change, left_side=True, lower=True, unit_diagonal=True)
    top = rows(factors, n - 1)
    corner = columns(top, n - 1)
    solved = triangular_solve(corner, columns(rows(change, n - 1), n - 1), left_side=True)
    last = triangular_solve(corner, top[..., n - 1 :], left_side=True)
    bottom = change[..., n - 1, :]
    trace = (
        factors[..., n - 1, n - 1] * total(diagonal_of(solved), axis=-1)
        - total(bottom[..., : n - 1] * last[..., 0], axis=-1)
        + bottom[..., n - 1]
    )
    sign = (1 - 2 * _parity(pivots)).astype(type_of(a).dtype)
    before_last = prod(diagonal_of(corner), axis=-1) * sign
    return (
        where(is_degenerate, 0, before_last * factors[..., n - 1, n - 1]),
        where(is_degenerate, total(cofactors * a_dot, axis=(-2, -1)), before_last * trace),
    )


@custom_vmap
def _is_any(x: Array) -> Any:
    """Whether any element of `x` is true, over the whole batch under `vmap`: a `cond` on the result stays a branch."""
    return x.any()


@_is_any.def_vmap
def _is_any_of_batch(axis_size: int, in_batched: Any, x: ArrayLike) -> tuple[Any, bool]:
    return _is_any(x), False


def _cofactors_by_svd(a: ArrayLike) -> Any:
    """Cofactors of matrices A = U diag(s) Vᴴ of any rank: cof(U) cof(diag(s)) cof(Vᴴ), where cof(U) = det(U) conj(U)."""
    u, s, vh = svd_module.svd(a, full_matrices=False)
    ones = ones_like(s[..., :1])
    before = cumprod(concatenate([ones, s[..., :-1]], -1), -1)
    after = flip(cumprod(concatenate([ones, flip(s[..., 1:], -1)], -1), -1), -1)
    scaled = _det_by_lu(u) * _det_by_lu(vh)
    vectors = expand_dims(scaled, (-2, -1)) * conj(u) * expand_dims(before * after, -2)
    return matmul(vectors, conj(vh), precision=_HIGHEST)


@numpy_function
def _det(a: ArrayLike) -> Any:
    return _det_of(square_matrices("det", a))


def det(a: ArrayLike) -> Array:
    """Determinants of matrices of shape [..., n, n].

    The second derivative of a singular matrix larger than 3×3 is NaN if another pivot than the last is zero. Raises: ShapeError unless matrices are square.

    >>> det(np.array([[1.0, 2.0], [3.0, 4.0]]))
    Array(-2., dtype=float32)
    """
    return _det(a)


__all__ = [
    "det", "inv", "lstsq", "matrix_rank", "pinv", "slogdet", "solve", "tensorinv", "tensorsolve",
]  # fmt: skip

public_functions(__all__, globals())
