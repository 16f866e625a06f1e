"""Systems of linear equations by LU factors, differentiated as equations."""

from __future__ import annotations

import numpy as np

from pellucid._machine.higher_order.linear_calls import custom_linear_solve
from pellucid._machine.primitives.conversion import stop_gradient
from pellucid._machine.primitives.creation import broadcasted_iota
from pellucid._machine.primitives.movement import move_axis, reshape
from pellucid._machine.primitives.sorting import sort_key_val
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array

from .lu import lu, rows_at
from .matrices import product
from .triangular import triangular_solve

PLAIN, TRANSPOSED, ADJOINT = range(3)
"""Forms op(A) in which a factorized matrix is solved with, by SciPy's numbers."""


def with_factors(factors: Array, permutation: Array, b: Array, form: int = PLAIN) -> Array:
    """Solves op(A) x = b with the factors of A that `lu` returns; `form` selects op.

    Shapes are [..., n, n], [..., n] and [..., n, k] with equal leading axes; or `b` alone has leading axes.
    """
    ndim = type_of(b).ndim
    # One matrix for all systems, whose right-hand sides are joined.
    if type_of(factors).ndim == 2 < ndim:
        rows_first = move_axis(b, ndim - 2, 0)
        shape = type_of(rows_first).shape
        b = reshape(rows_first, (shape[0], int(np.prod(shape[1:]))))
        return move_axis(reshape(with_factors(factors, permutation, b, form), shape), 0, ndim - 2)
    if form == PLAIN:
        b = rows_at(b, permutation)
        b = triangular_solve(factors, b, left_side=True, lower=True, unit_diagonal=True)
        return triangular_solve(factors, b, left_side=True)
    turned = {"left_side": True, "transpose_a": True, "conjugate_a": form == ADJOINT}
    b = triangular_solve(factors, b, **turned)
    b = triangular_solve(factors, b, lower=True, unit_diagonal=True, **turned)
    return rows_at(b, inverse_of(permutation))


def inverse_of(permutation: Array) -> Array:
    """The permutations that undo those in `permutation`, of shape [..., n]."""
    aval = type_of(permutation)
    positions = broadcasted_iota(
        aval.dtype, aval.shape, aval.ndim - 1, out_sharding=aval.shown_sharding
    )
    return sort_key_val(permutation, positions)[1]


def solve(a: Array, b: Array) -> Array:
    """The solutions x of `a` x = `b`, of shapes [..., n, n] and [..., n, k] with equal leading axes."""
    factors, _, permutation = lu(stop_gradient(a))
    return custom_linear_solve(
        lambda x: product(a, x),
        b,
        solve=lambda _, y: with_factors(factors, permutation, y),
        transpose_solve=lambda _, y: with_factors(factors, permutation, y, TRANSPOSED),
    )


__all__ = ["solve", "with_factors"]
