"""Symmetric products of matrices with their transposes, and rank-one updates of Cholesky factors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import ArrayLike, DtypeError, ShapeError
from pellucid._machine.higher_order.loops import scan
from pellucid._machine.ir import NoParams, Traits, Zero, real_operations, size_of
from pellucid._machine.primitives.arithmetic import add, div, mul, sqrt, sub
from pellucid._machine.primitives.creation import iota
from pellucid._machine.primitives.families import add_tangents
from pellucid._machine.primitives.movement import move_axis
from pellucid._machine.primitives.slicing import dynamic_index_in_dim
from pellucid._machine.tracing import bind1, type_of
from pellucid._machine.xla.arrays import Array

from .matrices import MatrixPrimitive, T, decomposition, product, tril
from .native import gpu_name, native


class SymmetricProductParams(NamedTuple):
    alpha: float
    beta: float


def _operations(operands: Any, results: Any, params: Any) -> float:
    return size_of(results[0]) * operands[0].shape[-1] * real_operations(operands[0])


class SymmetricProduct(MatrixPrimitive[SymmetricProductParams]):
    """A symmetric product; on GPUs only the lower triangle of the result is defined."""

    name = "symmetric_product"
    traits = Traits(kind="contraction", flops=_operations, makes_nan=True, linear=None)
    core_ranks = (2, 2)

    def abstract_eval(self, avals, params):
        self.check(avals)
        a, c = avals
        n = a.shape[-2]
        if c.shape[-2:] != (n, n):
            raise ShapeError(
                "symmetric_product: the addend must be square, with as many rows as the factor.",
                got=[f"a_matrix: {a.text()}", f"c_matrix: {c.text()}"],
            )
        return [c.strip_weak_type()]

    def jvp(self, primals, tangents, params):
        [a, c], [a_dot, c_dot] = primals, tangents
        result = bind1(self, a, c, params=params)
        total: Any = (
            c_dot if type(c_dot) is Zero else mul(c_dot, type_of(c).dtype.type(params.beta))
        )
        if type(a_dot) is not Zero:
            half = product(a_dot, T(a))
            change = mul(add(half, T(half)), type_of(a).dtype.type(params.alpha))
            total = add_tangents(total, change)
        return [result], [total]

    def definition(self, operands, params, platform):
        a, c = operands
        aval = type_of(c)
        alpha, beta = (aval.dtype.type(x) for x in params)
        if platform in ("cuda", "rocm") and aval.dtype.kind == "f":
            target = gpu_name("cusolver_syrk_ffi", platform)
            results = [(aval.shape, aval.dtype)]
            return native(
                target,
                [a, c, alpha, beta],
                results,
                0,
                "transpose = false",
                [(0, 1)],
                row_major=True,
            )
        return [add(mul(product(a, T(a)), alpha), mul(c, beta))]

    def empty(self, operands, results, params):
        return [mul(operands[1], results[0].dtype.type(params.beta))]


symmetric_product_p = SymmetricProduct()


def symmetric_product(
    a_matrix: ArrayLike,
    c_matrix: ArrayLike,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    symmetrize_output: bool = False,
) -> Array:
    """`alpha` a aᵀ + `beta` c, for `a_matrix` of shape [..., n, k] and a symmetric `c_matrix` of shape [..., n, n].

    On GPUs only the lower triangle of the result is defined, unless `symmetrize_output` mirrors it.
    Raises: ShapeError for shapes that don't fit. Source: BLAS, `syrk`.

    >>> symmetric_product(np.float32([[1], [2]]), np.zeros((2, 2), np.float32), symmetrize_output=True)
    Array([[1., 2.],
           [2., 4.]], dtype=float32)
    """
    params = SymmetricProductParams(float(alpha), float(beta))
    result = bind1(symmetric_product_p, a_matrix, c_matrix, params=params)
    return add(tril(result), T(tril(result, -1))) if symmetrize_output else result


# cholesky_update ----------------------------------------------------------------------------------


class CholeskyUpdate(MatrixPrimitive[NoParams]):
    name = "cholesky_update"
    traits = decomposition(0.0).replace(returns_list=False, flops=lambda o, r, p: 6 * size_of(o[0]))
    core_ranks = (2, 1)

    def abstract_eval(self, avals, params):
        self.check(avals, square=True)
        r, w = avals
        if r.dtype.kind != "f":
            raise DtypeError("cholesky_update needs real matrices.", got=f"r_matrix: {r.text()}")
        if w.shape[-1] != r.shape[-1]:
            raise ShapeError(
                "cholesky_update: sizes of the matrix and of the vector differ.",
                got=[f"r_matrix: {r.text()}", f"w_vector: {w.text()}"],
            )
        return [r.strip_weak_type()]

    def definition(self, operands, params, platform):
        r, w = operands
        if platform in ("cuda", "rocm") and type_of(r).ndim == 2:
            target = gpu_name("cu_cholesky_update_ffi", platform)
            types = [(type_of(x).shape, type_of(x).dtype) for x in operands]
            return native(target, operands, types, 0, "", [(0, 0), (1, 1)], row_major=True)[:1]
        return [update_factor(r, w)]


cholesky_update_p = CholeskyUpdate()


def update_factor(r: Array, w: Array) -> Array:
    """The upper triangular factor of rᵀ r + w wᵀ, by a Givens rotation of each row of `r` with `w`."""
    last = type_of(w).ndim - 1
    rows = move_axis(r, last, 0)

    def rotate_row(rest: Any, numbered: Any) -> Any:
        row, k = numbered
        x, y = (dynamic_index_in_dim(v, k, last) for v in (row, rest))
        size = sqrt(add(mul(x, x), mul(y, y)))
        cosine, sine = div(x, size), div(y, size)
        new = add(mul(cosine, row), mul(sine, rest))
        return sub(mul(cosine, rest), mul(sine, row)), new

    _, turned_rows = scan(rotate_row, w, (rows, iota(np.int32, type_of(w).shape[-1])))
    return move_axis(turned_rows, 0, last)


def cholesky_update(r_matrix: ArrayLike, w_vector: ArrayLike) -> Array:
    """The upper triangular R' with R'ᵀ R' = Rᵀ R + w wᵀ, for upper triangular R of shape [..., n, n], w of shape [..., n].

    Takes n² operations, where a new decomposition takes n³ / 3. It has no derivative.
    Raises: DtypeError for complex matrices; ShapeError for shapes that don't fit.
    Source: Golub and Van Loan, Matrix Computations, 6.5.4.

    >>> cholesky_update(np.float32([[3]]), np.float32([4]))
    Array([[5.]], dtype=float32)
    """
    return bind1(cholesky_update_p, r_matrix, w_vector, params=NoParams())


__all__ = [
    "cholesky_update", "cholesky_update_p", "symmetric_product", "symmetric_product_p",
]  # fmt: skip
