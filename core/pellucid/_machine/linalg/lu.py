"""The LU decomposition with partial pivoting."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import ArrayLike, DtypeError, ShapeError, smaller
from pellucid._machine.higher_order.loops import fori_loop
from pellucid._machine.ir import NoParams, Traits
from pellucid._machine.primitives.arithmetic import add, mul, sub
from pellucid._machine.primitives.creation import broadcasted_iota
from pellucid._machine.primitives.families import zero_of
from pellucid._machine.primitives.logical import eq, ge, select_n
from pellucid._machine.primitives.movement import broadcast_in_dim, expand_dims
from pellucid._machine.primitives.slicing import dynamic_index_in_dim, slice_in_dim
from pellucid._machine.primitives.sorting import take_along
from pellucid._machine.tracing import bind, bind1, type_of
from pellucid._machine.xla.arrays import Array

from .matrices import (
    MatrixPrimitive,
    columns,
    decomposition,
    identity,
    matrix_aval,
    nan_unless,
    pad_matrices,
    product,
    rows,
    tril,
    triu,
)
from .native import INT32, gpu_name, lapack_name, native
from .triangular import triangular_solve


class Lu(MatrixPrimitive[NoParams]):
    """Returns (L and U in one matrix, pivots, permutation)."""

    name = "lu"
    traits = decomposition(1.0)

    def abstract_eval(self, avals, params):
        [x] = avals
        batch = self.check(avals)
        *_, m, n = x.shape
        pivots = matrix_aval(x, *batch, smaller(m, n), dtype=INT32)
        return [x.strip_weak_type(), pivots, matrix_aval(x, *batch, m, dtype=INT32)]

    def jvp(self, primals, tangents, params):
        lu, pivots, permutation = bind(self, *primals, params=params)
        *_, m, n = type_of(lu).shape
        k = smaller(m, n)
        # L and U are completed by parts of identity matrices to square ones, so that both can be solved with.
        lower = add(pad_matrices(tril(columns(lu, k), -1), m, m), identity(lu, m))
        rest = sub(identity(lu, n), pad_matrices(identity(lu, k), n, n))
        upper = add(pad_matrices(triu(rows(lu, k)), n, n), rest)
        change = rows_at(tangents[0], permutation)
        solved = triangular_solve(lower, change, left_side=True, lower=True, unit_diagonal=True)
        solved = triangular_solve(upper, solved)
        tangent = add(product(lower, tril(solved, -1)), product(triu(solved), upper))
        return [lu, pivots, permutation], [tangent, zero_of(pivots), zero_of(permutation)]

    def definition(self, operands, params, platform):
        [x] = operands
        aval = type_of(x)
        *batch, m, n = aval.shape
        k = smaller(m, n)
        matrix, n_batch = (aval.shape, aval.dtype), len(batch)
        if platform == "tpu":
            results = [matrix, ((*batch, k), INT32), ((*batch, m), INT32)]
            return native("LuDecomposition", operands, results, n_batch, api_version=2)
        target = (
            lapack_name("getrf", x)
            if platform == "cpu"
            else gpu_name("cusolver_getrf_ffi", platform)
        )
        results = [matrix, ((*batch, k), INT32), (batch, INT32)]
        lu, pivots, info = native(target, operands, results, n_batch, "", [(0, 0)])
        lu = nan_unless(ge(info, np.int32(0)), lu)  # a positive `info` reports that U is singular
        pivots = sub(pivots, np.int32(1))
        return [lu, pivots, lu_pivots_to_permutation(pivots, m)]

    def empty(self, operands, results, params):
        lu, pivots, _ = super().empty(operands, results, params)
        return [lu, pivots, lu_pivots_to_permutation(pivots, results[2].shape[-1])]


lu_p = Lu()


def lu(x: ArrayLike) -> tuple[Array, Array, Array]:
    """The LU decomposition of the matrices in `x`, of shape [..., m, n], with exchanges of rows: P x = L U.

    Gives (both factors in one matrix, pivots, permutation). L is the lower triangle with ones on its diagonal, U the
    upper one. Row i was exchanged with row pivots[i], for i = 0, 1, …, min(m, n) - 1; row i of P x is row
    permutation[i] of `x`. Both are int32. U of a singular matrix has zeros on its diagonal.

    Raises: ShapeError below rank 2; DtypeError unless elements are float32, float64, complex64 or complex128.
    Source: LAPACK, `getrf`; derivative: Murray (2016), as for Cholesky's.

    >>> lu(np.array([[0.0, 1.0], [2.0, 3.0]], np.float32))[2]
    Array([1, 0], dtype=int32)
    """
    factors, pivots, permutation = bind(lu_p, x, params=NoParams())
    return factors, pivots, permutation


def rows_at(x: Array, permutation: Array) -> Array:
    """The matrices in `x` with their rows in the order `permutation`."""
    ndim = type_of(x).ndim
    shape = (*type_of(permutation).shape, type_of(x).shape[-1])
    indices = broadcast_in_dim(permutation, shape, tuple(range(ndim - 1)))
    return take_along(x, indices, ndim - 2)


# lu_pivots_to_permutation -------------------------------------------------------------------------


class LuPivotsToPermutationParams(NamedTuple):
    permutation_size: int


class LuPivotsToPermutation(MatrixPrimitive[LuPivotsToPermutationParams]):
    name = "lu_pivots_to_permutation"
    traits = Traits(kind="indexing", flops=0.0, parts="otherwise")
    core_ranks = (1,)

    def abstract_eval(self, avals, params):
        [pivots] = avals
        if pivots.dtype != INT32:
            raise DtypeError(
                "lu_pivots_to_permutation needs pivots of int32.", got=f"pivots: {pivots.text()}"
            )
        if pivots.ndim < 1 or params.permutation_size < pivots.shape[-1]:
            raise ShapeError(
                "lu_pivots_to_permutation needs a vector of pivots no longer than the permutation.",
                got=[f"pivots: {pivots.text()}", f"permutation_size: {params.permutation_size}"],
            )
        return [matrix_aval(pivots, *pivots.shape[:-1], params.permutation_size)]

    def jvp(self, primals, tangents, params):
        result = bind1(self, *primals, params=params)
        return [result], [zero_of(result)]

    def definition(self, operands, params, platform):
        [pivots] = operands
        batch, size = type_of(pivots).shape[:-1], params.permutation_size
        if platform in ("cuda", "rocm"):
            target = gpu_name("cu_lu_pivots_to_permutation", platform)
            return native(target, operands, [((*batch, size), INT32)], len(batch))
        first_pivots = slice_in_dim(pivots, 0, 1, axis=len(batch))
        positions = broadcasted_iota(INT32, (*[1] * len(batch), size), len(batch))
        # Sharded along its batch axes as `pivots`.
        positions = add(mul(first_pivots, np.int32(0)), positions)

        def exchange(i: Any, order: Any) -> Any:
            target = expand_dims(
                dynamic_index_in_dim(pivots, i, len(batch), keepdims=False), (len(batch),)
            )
            here, there = eq(positions, i), eq(positions, target)
            first = expand_dims(
                dynamic_index_in_dim(order, i, len(batch), keepdims=False), (len(batch),)
            )
            second = take_along(order, target, len(batch))
            first, second = (
                broadcast_in_dim(x, (*batch, size), range(len(batch) + 1)) for x in (first, second)
            )
            return select_n(here, select_n(there, order, first), second)

        n_pivots = np.int32(type_of(pivots).shape[-1])
        return [fori_loop(np.int32(0), n_pivots, exchange, positions)]

    def empty(self, operands, results, params):
        [result] = results
        return [broadcasted_iota(INT32, result.shape, result.ndim - 1)]


lu_pivots_to_permutation_p = LuPivotsToPermutation()


def lu_pivots_to_permutation(pivots: ArrayLike, permutation_size: int) -> Array:
    """The order of `permutation_size` rows after the exchanges that `pivots`, of shape [..., k], describe.

    Raises: DtypeError unless pivots are int32; ShapeError where there are more of them than rows.

    >>> lu_pivots_to_permutation(np.array([1, 2], np.int32), 3)
    Array([1, 2, 0], dtype=int32)
    """
    params = LuPivotsToPermutationParams(int(permutation_size))
    return bind1(lu_pivots_to_permutation_p, pivots, params=params)


__all__ = ["lu", "lu_p", "lu_pivots_to_permutation", "lu_pivots_to_permutation_p"]
