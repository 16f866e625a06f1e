"""The polar decomposition by dynamically weighted Halley iterations."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from pellucid._machine.base import ArrayLike, ShapeError
from pellucid._machine.higher_order.loops import scan
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
from pellucid._machine.primitives.conversion import convert_quietly, imag, real
from pellucid._machine.primitives.creation import broadcasted_iota, full_like
from pellucid._machine.primitives.logical import bitwise_and, eq, le, lt, select_n
from pellucid._machine.primitives.movement import expand_dims, reduce_sum
from pellucid._machine.primitives.reduction import reduce_max
from pellucid._machine.primitives.slicing import index_in_dim, slice_in_dim
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array

from .cholesky import cholesky
from .matrices import H, hermitian_part, identity, product, rows
from .qr import qr
from .triangular import triangular_solve

_INT32 = np.dtype(np.int32)
_LARGEST_CHOLESKY_WEIGHT = 100.0
"""Weights up to this one let an iteration use a Cholesky factor instead of QR (Nakatsukasa and Higham 2013, 3.2)."""


Weights = list[tuple[float, float, float]]


def iteration_weights(least: float, eps: float, max_iterations: int) -> Weights:
    """Weights (a, b, c) of the iterations that bring singular values from [least, 1] to 1, but for some `eps`.

    Source: Nakatsukasa, Bai and Gygi (2010).
    """
    weights = []
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

    >>> qdwh(np.float32([[3, 0], [4, 5]]))[1].round(3)
    Array([[4.472, 2.236],
           [2.236, 4.472]], dtype=float32)
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
    x, scale = divide_by_largest(x)
    weights = iteration_weights(eps, eps, 10 if max_iterations is None else int(max_iterations))
    u, before = halley_steps(divide_by_bound(x), weights)
    # One Newton-Schulz step corrects rounding errors.
    half = aval.dtype.type(0.5)
    u = sub(mul(u, aval.dtype.type(1.5)), mul(half, product(u, product(H(u), u))))
    u = hermitian_part(u) if is_hermitian else u
    h = mul(hermitian_part(product(H(u), x)), as_matrices(scale, x))
    change = reduce_max(absolute(sub(u, before)), tuple(range(aval.ndim)))
    tolerance = type_of(change).dtype.type((4 * eps) ** (1 / 3))
    return u, h, np.int32(len(weights)), le(change, tolerance)


def largest_part(x: Any) -> Array:
    """The greatest absolute value among the real and imaginary parts of the elements of each matrix in `x`."""
    parts = [real(x), imag(x)] if type_of(x).dtype.kind == "c" else [x]
    last = (type_of(x).ndim - 2, type_of(x).ndim - 1)
    return functools.reduce(greater, [reduce_max(absolute(part), last) for part in parts])


def divide_by_largest(x: Any) -> tuple[Array, Array]:
    """The matrices in `x`, each divided by its `largest_part`, and the divisors; those of zeros are 1.

    Sums and products of what is at most 1 stay in the range of the dtype, and are no subnormal numbers.
    """
    return _divide(x, largest_part(x))


def divide_by_bound(x: Array) -> Array:
    """The matrices in `x`, of elements of at most 1, each divided by an upper bound of its greatest singular value."""
    return _divide(x, _norm_bound(x))[0]


def _divide(x: Array, divisor: Array) -> tuple[Array, Array]:
    divisor = select_n(eq(divisor, full_like(divisor, 0)), divisor, full_like(divisor, 1))
    return div(x, as_matrices(divisor, x)), divisor


def as_matrices(x: Array, like: Array) -> Array:
    """Numbers, one for each matrix in `like`, with two more axes and its dtype."""
    ndim = type_of(x).ndim
    return convert_quietly(expand_dims(x, (ndim, ndim + 1)), type_of(like).dtype)


def _norm_bound(x: Array) -> Array:
    """The geometric mean of the greatest sums of rows and of columns, an upper bound of the greatest singular value."""
    ndim = type_of(x).ndim
    sums = [reduce_max(reduce_sum(absolute(x), (i,)), (ndim - 2,)) for i in (ndim - 2, ndim - 1)]
    return sqrt(mul(*sums))


def halley_steps(u: Array, weights: Weights, *, is_hermitian: bool = False) -> tuple[Array, Array]:
    """The results of the last weighted Halley iteration and of that before, u (a + b uᴴ u) (1 + c uᴴ u)⁻¹.

    Weights decrease; the first ones need QR. Iterations of a kind are a loop, as compilers of TPUs take a minute for each QR.
    """
    before = u
    for step, some in (
        (_step_by_qr, [w for w in weights if w[2] > _LARGEST_CHOLESKY_WEIGHT]),
        (_step_by_cholesky, [w for w in weights if w[2] <= _LARGEST_CHOLESKY_WEIGHT]),
    ):
        if not some:
            continue
        factors = np.array([(b / c, math.sqrt(c), a - b / c) for a, b, c in some])

        def iterate(
            pair: tuple[Array, Array], factors: Any, step: Any = step
        ) -> tuple[tuple[Array, Array], tuple[()]]:
            u = step(pair[0], *(index_in_dim(factors, i, keepdims=False) for i in range(3)))
            return (hermitian_part(u) if is_hermitian else u, pair[0]), ()

        (u, before), _ = scan(iterate, (u, before), factors.astype(type_of(u).dtype))
    return u, before


def _step_by_qr(u: Array, kept: Any, root: Any, changed: Any) -> Array:
    m, n = type_of(u).shape[-2:]
    last = type_of(u).ndim - 1
    below = add(full_like(rows(u, n), 0), identity(u, n))
    q, _ = qr(concatenate([mul(u, root), below], last - 1), full_matrices=False)
    low = slice_in_dim(q, m, m + n, axis=last - 1)
    return add(mul(u, kept), mul(product(rows(q, m), H(low)), div(changed, root)))


def _step_by_cholesky(u: Array, kept: Any, root: Any, changed: Any) -> Array:
    gram = mul(product(H(u), u), mul(root, root))
    factor = cholesky(add(gram, identity(u, type_of(u).shape[-1])))
    solved = triangular_solve(factor, u, lower=True, transpose_a=True, conjugate_a=True)
    solved = triangular_solve(factor, solved, lower=True)
    return add(mul(u, kept), mul(solved, changed))


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


__all__ = ["qdwh"]
