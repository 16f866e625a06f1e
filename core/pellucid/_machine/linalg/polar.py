"""The polar decomposition by dynamically weighted Halley iterations, and the singular value decomposition from it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pellucid._machine.base import ArrayLike, ShapeError
from pellucid._machine.primitives.arithmetic import (
    abs as absolute,
    add,
    div,
    max as greater,
    mul,
    sqrt,
    sub,
)
from pellucid._machine.primitives.assembly import concatenate
from pellucid._machine.primitives.conversion import convert_quietly
from pellucid._machine.primitives.creation import broadcasted_iota, full_like
from pellucid._machine.primitives.logical import bitwise_and, eq, le, lt, select_n
from pellucid._machine.primitives.movement import expand_dims, reduce_sum, rev
from pellucid._machine.primitives.reduction import reduce_max
from pellucid._machine.primitives.slicing import slice_in_dim
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array

from .cholesky import cholesky
from .matrices import H, hermitian_part, identity, product, rows
from .qr import qr
from .symmetric_eigen import eigh
from .triangular import triangular_solve

_INT32 = np.dtype(np.int32)
_LARGEST_CHOLESKY_WEIGHT = 100.0
"""Weights up to this one let an iteration use a Cholesky factor instead of QR (Nakatsukasa and Higham 2013, 3.2)."""


def _iteration_weights(eps: float, max_iterations: int) -> list[tuple[float, float, float]]:
    """Weights (a, b, c) of the iterations that bring singular values from [eps, 1] to 1 (Nakatsukasa, Bai, Gygi 2010)."""
    weights = []
    least = eps
    while abs(1 - least) > 4 * eps and len(weights) < max_iterations:
        squared = least * least
        d = (4 * (1 - squared) / squared**2) ** (1 / 3)
        root = math.sqrt(1 + d)
        a = root + 0.5 * math.sqrt(8 - 4 * d + 8 * (2 - squared) / (squared * root))
        b = (a - 1) ** 2 / 4
        c = a + b - 1
        weights.append((a, b, c))
        least = min(1.0, least * (a + b * squared) / (1 + c * squared))
    return weights


def qdwh(
    x: ArrayLike,
    *,
    is_hermitian: bool = False,
    max_iterations: int | None = None,
    eps: float | None = None,
    dynamic_shape: tuple[Any, Any] | None = None,
) -> tuple[Any, Any, Any, Any]:
    """The polar decomposition x = u h of the matrices in `x`, of shape [..., m, n], m ≥ n.

    Gives (u with orthonormal columns, h Hermitian and positive semidefinite, number of iterations, whether they
    converged). `eps` is the precision aimed at, by default that of the dtype, and the least singular value, relative to
    the greatest, that is brought to 1; `max_iterations` (10) bounds the iterations. Of matrices of a `dynamic_shape`
    (rows, columns) the rest counts as zeros. `is_hermitian` makes u Hermitian too.

    Raises: ShapeError for fewer rows than columns. Source: Nakatsukasa, Bai and Gygi, Optimizing Halley's iteration for
    computing the matrix polar decomposition (2010).

    >>> qdwh(np.float32([[0, 2], [-2, 0]]))[1].round(3)
    Array([[2., 0.],
           [0., 2.]], dtype=float32)
    """
    aval = type_of(x)
    if aval.ndim < 2 or aval.shape[-2] < aval.shape[-1]:
        raise ShapeError(
            "qdwh needs matrices with at least as many rows as columns.", got=f"x: {aval.text()}"
        )
    if dynamic_shape is not None:
        x = _cut(x, dynamic_shape)
    eps = float(np.finfo(aval.dtype).eps) if eps is None else float(eps)
    if aval.size == 0:
        return x, product(H(x), x), np.int32(0), np.bool_(True)
    last = (aval.ndim - 2, aval.ndim - 1)
    sums = [reduce_max(reduce_sum(absolute(x), (i,)), (aval.ndim - 2,)) for i in last]
    bound = sqrt(mul(*sums))  # an upper bound of the largest singular value
    bound = select_n(eq(bound, full_like(bound, 0)), bound, full_like(bound, 1))
    u = div(x, convert_quietly(expand_dims(bound, last), aval.dtype))
    before = u
    weights = _iteration_weights(eps, 10 if max_iterations is None else int(max_iterations))
    for a, b, c in weights:
        before, u = u, _halley_step(u, a, b, c)
    # One Newton-Schulz step corrects rounding errors.
    half = aval.dtype.type(0.5)
    u = sub(mul(u, aval.dtype.type(1.5)), mul(half, product(u, product(H(u), u))))
    u = hermitian_part(u) if is_hermitian else u
    h = hermitian_part(product(H(u), x))
    change = reduce_max(absolute(sub(u, before)), tuple(range(aval.ndim)))
    tolerance = type_of(change).dtype.type((4 * eps) ** (1 / 3))
    return u, h, np.int32(len(weights)), le(change, tolerance)


def _halley_step(u: Array, a: float, b: float, c: float) -> Array:
    """One weighted Halley iteration: u (a + b uᴴ u) (1 + c uᴴ u)⁻¹."""
    number = type_of(u).dtype.type
    n = type_of(u).shape[-1]
    keep = mul(u, number(b / c))
    if c > _LARGEST_CHOLESKY_WEIGHT:
        below = add(full_like(rows(u, n), 0), identity(u, n))
        stacked = concatenate([mul(u, number(math.sqrt(c))), below], type_of(u).ndim - 2)
        q = qr(stacked, full_matrices=False)[0]
        m = type_of(u).shape[-2]
        low = slice_in_dim(q, m, m + n, axis=type_of(u).ndim - 2)
        return add(keep, mul(product(rows(q, m), H(low)), number((a - b / c) / math.sqrt(c))))
    gram = product(H(u), u)
    factor = cholesky(add(mul(gram, number(c)), identity(u, n)))
    solved = triangular_solve(factor, u, lower=True, transpose_a=True, conjugate_a=True)
    solved = triangular_solve(factor, solved, lower=True)
    return add(keep, mul(solved, number(a - b / c)))


def _cut(x: ArrayLike, shape: tuple[Any, Any]) -> Array:
    """`x` with zeros beyond the rows and columns of `shape`."""
    sizes = type_of(x).shape
    inside = [
        lt(
            broadcasted_iota(_INT32, sizes, len(sizes) - 2 + i),
            full_like(broadcasted_iota(_INT32, sizes, 0), size),
        )
        for i, size in enumerate(shape)
    ]
    return select_n(bitwise_and(*inside), full_like(x, 0), x)


def svd_by_polar(x: Array, *, full_matrices: bool, compute_uv: bool) -> list[Array]:
    """[s, u, vᴴ], or [s], by the eigenvalues of the Hermitian factor of the polar decomposition."""
    *_, m, n = type_of(x).shape
    if m < n:
        s, *vectors = svd_by_polar(H(x), full_matrices=full_matrices, compute_uv=compute_uv)
        return [s, *map(H, reversed(vectors))]
    unitary, hermitian, _, _ = qdwh(x)
    v, s = eigh(hermitian)
    last = type_of(s).ndim - 1
    s, v = rev(s, (last,)), rev(v, (last + 1,))
    s = greater(s, full_like(s, 0))
    if not compute_uv:
        return [s]
    u = product(unitary, v)
    if full_matrices and m > n:
        rest = qr(u, full_matrices=True)[0]
        u = concatenate([u, slice_in_dim(rest, n, m, axis=last + 1)], last + 1)
    return [s, u, H(v)]


__all__ = ["qdwh"]
