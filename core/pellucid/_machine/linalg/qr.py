"""The QR decomposition, and orthogonal matrices as products of Householder reflections."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import ArrayLike, ShapeError, smaller
from pellucid._machine.higher_order.loops import scan
from pellucid._machine.ir import NoParams
from pellucid._machine.primitives.arithmetic import add, mul, sub
from pellucid._machine.primitives.conversion import complex as complex_of, imag
from pellucid._machine.primitives.creation import broadcasted_iota, full_like
from pellucid._machine.primitives.families import zero_of
from pellucid._machine.primitives.movement import broadcast_in_dim, expand_dims, move_axis
from pellucid._machine.tracing import bind, bind1, type_of
from pellucid._machine.xla.arrays import Array

from .lu import rows_at
from .matrices import (
    PLATFORMS_OF_LIBRARIES,
    H,
    MatrixPrimitive,
    T,
    columns,
    conjugate,
    decomposition,
    diagonal_matrix,
    diagonal_of,
    eye_like,
    matrix_aval,
    pad_matrices,
    product,
    rows,
    tril,
    triu,
)
from .native import INT32, boolean, gpu_name, lapack_name, native
from .triangular import triangular_solve


class QrParams(NamedTuple):
    full_matrices: bool
    pivoting: bool
    use_magma: bool | None


class Qr(MatrixPrimitive[QrParams]):
    """Returns (Q, R), with pivoting also the order of columns."""

    name = "qr"
    traits = decomposition(2.0)

    def abstract_eval(self, avals, params):
        [x] = avals
        batch = self.check(avals)
        *_, m, n = x.shape
        k = m if params.full_matrices else smaller(m, n)
        results = [matrix_aval(x, *batch, m, k), matrix_aval(x, *batch, k, n)]
        return [*results, matrix_aval(x, *batch, n, dtype=INT32)] if params.pivoting else results

    def jvp(self, primals, tangents, params):
        q, r, *order = bind(self, *primals, params=params)
        [tangent] = tangents
        for p in order:
            tangent = T(rows_at(T(tangent), p))
        *_, m, n = type_of(tangent).shape
        k = smaller(m, n)
        square = columns(tangent, k)
        solved = triangular_solve(rows(columns(r, k), k), square)  # dA R⁻¹
        change = product(H(q), solved)
        # Qᴴ dQ is skew-Hermitian, dR R⁻¹ upper triangular with a real diagonal; `change` is the sum of both.
        below = tril(change, -1)
        size = type_of(q).shape[-1]
        below = pad_matrices(below, size, size)
        turn = sub(below, H(below))
        if type_of(q).dtype.kind == "c":
            phases = imag(diagonal_of(rows(change, k)))
            twist = diagonal_matrix(complex_of(full_like(phases, 0), phases))
            turn = add(turn, pad_matrices(twist, size, size))
        q_dot = product(q, turn)
        if size < m:
            q_dot = add(q_dot, sub(solved, product(q, change)))
        r_dot = sub(product(H(q), tangent), product(turn, r))
        return [q, r, *order], [q_dot, triu(r_dot), *map(zero_of, order)]

    def platforms_for(self, params):
        return PLATFORMS_OF_LIBRARIES if params.pivoting else None

    def definition(self, operands, params, platform):
        [x] = operands
        *_, m, n = type_of(x).shape
        k = smaller(m, n)
        if params.pivoting:
            reflections, order, taus = _factor_with_pivoting(x, params, platform)
            orders = [sub(order, np.int32(1))]
        else:
            (reflections, taus), orders = geqrf(x), []
        r = triu(reflections)
        if params.full_matrices:
            wide = pad_matrices(reflections, m, m) if m > n else columns(reflections, m)
            return [householder_product(wide, taus), r, *orders]
        return [householder_product(columns(reflections, k), taus), rows(r, k), *orders]

    def empty(self, operands, results, params):
        q, r = super().empty(operands, results[:2], params)
        if 0 not in type_of(q).shape:  # without columns, Q is the identity
            q = eye_like(q)
        return [q, r, *[broadcasted_iota(INT32, o.shape, o.ndim - 1) for o in results[2:]]]


qr_p = Qr()


class Geqrf(MatrixPrimitive[NoParams]):
    """Returns (Householder reflections below R, their factors)."""

    name = "geqrf"
    traits = decomposition(2.0)

    def abstract_eval(self, avals, params):
        [x] = avals
        batch = self.check(avals)
        return [x.strip_weak_type(), matrix_aval(x, *batch, smaller(*x.shape[-2:]))]

    def definition(self, operands, params, platform):
        [x] = operands
        aval = type_of(x)
        *batch, m, n = aval.shape
        results = [(aval.shape, aval.dtype), ((*batch, smaller(m, n)), aval.dtype)]
        if platform == "tpu":
            return native("Qr", [x], results, len(batch), api_version=1)
        target = (
            lapack_name("geqrf", x)
            if platform == "cpu"
            else gpu_name("cusolver_geqrf_ffi", platform)
        )
        return native(target, [x], results, len(batch), "", [(0, 0)])


geqrf_p = Geqrf()


def geqrf(x: Array) -> list[Array]:
    """Householder reflections below R, and their factors, of matrices of shape [..., m, n]. Source: LAPACK, `geqrf`."""
    return list(bind(geqrf_p, x, params=NoParams()))


def _factor_with_pivoting(x: Array, params: QrParams, platform: str) -> list[Any]:
    """(reflections below R, order of columns counted from 1, factors) of a decomposition with pivoting."""
    aval = type_of(x)
    *batch, m, n = aval.shape
    order = broadcast_in_dim(np.int32(0), (*batch, n), ())  # 0: every column may be moved
    results = [
        (aval.shape, aval.dtype),
        ((*batch, n), INT32),
        ((*batch, smaller(m, n)), aval.dtype),
    ]
    aliases = [(0, 0), (1, 1)]
    if platform == "cpu":
        return native(lapack_name("geqp3", x), [x, order], results, len(batch), "", aliases)
    magma = {None: "auto", True: "on", False: "off"}[params.use_magma]
    target = gpu_name("cuhybrid_geqp3", platform)
    return native(target, [x, order], results, len(batch), f'magma = "{magma}"', aliases)


def qr(
    x: ArrayLike,
    *,
    pivoting: bool = False,
    full_matrices: bool = True,
    use_magma: bool | None = None,
) -> tuple[Array, ...]:
    """The QR decomposition of the matrices in `x`, of shape [..., m, n]: Q with orthonormal columns, R upper triangular.

    Q has shape [..., m, m] and R [..., m, n] with `full_matrices`, else [..., m, k] and [..., k, n], k = min(m, n).
    With `pivoting` the third result is the order of columns (int32) with x[:, order] = Q R, in which the diagonal of
    R decreases; it exists on CPUs and GPUs. `use_magma` chooses its library on GPUs.

    Differentiable where the first k columns (after pivoting) are independent. Columns of a full Q beyond the n-th are
    free to turn; their derivative is the one that doesn't turn them among themselves.

    Raises: ShapeError below rank 2; DtypeError unless elements are float32, float64, complex64 or complex128.
    Source: LAPACK, `geqrf`, `geqp3`; derivative: Walter and Lehmann, Algorithmic differentiation of linear algebra
    functions (2010).

    >>> qr(np.array([[3.0], [4.0]], np.float32), full_matrices=False)[1]
    Array([[-5.]], dtype=float32)
    """
    return tuple(bind(qr_p, x, params=QrParams(bool(full_matrices), bool(pivoting), use_magma)))


# Householder reflections --------------------------------------------------------------------------


class HouseholderProduct(MatrixPrimitive[NoParams]):
    name = "householder_product"
    traits = decomposition(2.0).replace(returns_list=False)
    core_ranks = (2, 1)

    def abstract_eval(self, avals, params):
        a, taus = avals
        self.check(avals)
        *_, m, n = a.shape
        if m < n or taus.shape[-1] > n:
            raise ShapeError(
                "householder_product needs at least as many rows as columns, and as many columns as factors.",
                got=[f"a: {a.text()}", f"taus: {taus.text()}"],
            )
        return [a.strip_weak_type()]

    def definition(self, operands, params, platform):
        [a, _] = operands
        aval = type_of(a)
        n_batch = aval.ndim - 2
        results = [(aval.shape, aval.dtype)]
        if platform == "tpu":
            target = "ProductOfElementaryHouseholderReflectors"
            return native(target, operands, results, n_batch, api_version=1)
        target = (
            lapack_name("orgqr", a, "ungqr")
            if platform == "cpu"
            else gpu_name("cusolver_orgqr_ffi", platform)
        )
        return native(target, operands, results, n_batch, "", [(0, 0)])

    def empty(self, operands, results, params):
        return [eye_like(operands[0])]


householder_product_p = HouseholderProduct()


def householder_product(a: ArrayLike, taus: ArrayLike) -> Array:
    """The first n columns of a product of Householder reflections H₁ H₂ … H_k, Hᵢ = 1 - tauᵢ vᵢ vᵢᴴ.

    `a` has shape [..., m, n], m ≥ n; vᵢ stands below the diagonal of column i, with an implied 1 on it. `taus` has
    shape [..., k], k ≤ n. Raises: ShapeError for other shapes. Source: LAPACK, `orgqr`.

    >>> householder_product(np.float32([[0], [1]]), np.float32([1]))
    Array([[ 0.],
           [-1.]], dtype=float32)
    """
    return bind1(householder_product_p, a, taus, params=NoParams())


class OrmqrParams(NamedTuple):
    left: bool
    transpose: bool


class Ormqr(MatrixPrimitive[OrmqrParams]):
    name = "ormqr"
    traits = decomposition(4.0).replace(returns_list=False, parts="first")
    core_ranks = (2, 1, 2)

    def abstract_eval(self, avals, params):
        a, taus, c = avals
        self.check(avals)
        if a.shape[-2] != c.shape[-2 if params.left else -1] or taus.shape[-1] > a.shape[-1]:
            raise ShapeError(
                "ormqr: sizes of the reflections and of the matrix differ.",
                got=[f"a: {a.text()}", f"taus: {taus.text()}", f"c: {c.text()}"],
            )
        return [c.strip_weak_type()]

    def definition(self, operands, params, platform):
        a, taus, c = operands
        aval = type_of(c)
        if platform not in PLATFORMS_OF_LIBRARIES:
            return [_reflected(a, taus, c, params)]
        target = (
            lapack_name("ormqr", a, "unmqr")
            if platform == "cpu"
            else gpu_name("cusolver_ormqr_ffi", platform)
        )
        config = f"left = {boolean(params.left)}, transpose = {boolean(params.transpose)}"
        results = [(aval.shape, aval.dtype)]
        return native(target, operands, results, aval.ndim - 2, config, [(0, 2)], linear=(2,))

    def empty(self, operands, results, params):
        return [operands[2]]


ormqr_p = Ormqr()


def _reflected(a: Array, taus: Array, c: Array, params: OrmqrParams) -> Array:
    """What `ormqr` gives, one reflection after another."""
    if not params.left:  # c Q = (Qᴴ cᴴ)ᴴ
        turned = params._replace(left=True, transpose=not params.transpose)
        return H(_reflected(a, taus, H(c), turned))
    ndim, count = type_of(a).ndim, type_of(taus).shape[-1]
    reflections = add(tril(a, -1), eye_like(a))
    vectors = expand_dims(move_axis(columns(reflections, count), ndim - 1, 0), (ndim,))
    factors = expand_dims(move_axis(taus, ndim - 2, 0), (ndim - 1, ndim))
    factors = conjugate(factors) if params.transpose else factors

    def reflect(c: Any, reflection: Any) -> Any:
        v, tau = reflection
        return sub(c, mul(tau, product(v, product(H(v), c)))), ()

    # The last reflection comes first, unless Q is transposed.
    return scan(reflect, c, (vectors, factors), reverse=not params.transpose)[0]


def ormqr(
    a: ArrayLike, taus: ArrayLike, c: ArrayLike, *, left: bool = True, transpose: bool = False
) -> Array:
    """Q `c` if `left`, else `c` Q, for the square Q = H₁ H₂ … H_k of `a` and `taus`, which isn't formed.

    `a` and `taus` are as for `householder_product`; with `transpose` Q is transposed and conjugated.
    Raises: ShapeError for sizes that don't fit. Source: LAPACK, `ormqr`.

    The result has the shape and dtype of `c`, a matrix or a batch of them. DtypeError for dtypes that differ or that
    are no float32, float64, complex64 or complex128.

    >>> ormqr(np.zeros((2, 1), np.float32), np.float32([2]), np.eye(2, dtype=np.float32))
    Array([[-1.,  0.],
           [ 0.,  1.]], dtype=float32)
    """
    return bind1(ormqr_p, a, taus, c, params=OrmqrParams(bool(left), bool(transpose)))


__all__ = [
    "householder_product", "householder_product_p", "ormqr", "ormqr_p", "qr", "qr_p",
]  # fmt: skip
