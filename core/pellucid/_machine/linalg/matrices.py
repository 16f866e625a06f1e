"""The family of primitives on batches of matrices, and the matrix algebra that their rules use."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from pellucid._machine.base import ArrayLike, CompilationError, DtypeError, DTypeLike, ShapeError
from pellucid._machine.ir import (
    Avals,
    CountRule,
    Primitive,
    ShapedArray,
    Traits,
    batched_factors,
    real_operations,
    shaped_array,
)
from pellucid._machine.primitives.arithmetic import add, div, mul
from pellucid._machine.primitives.assembly import pad
from pellucid._machine.primitives.contraction import dot_general
from pellucid._machine.primitives.conversion import conj, convert_quietly, real, real_dtype
from pellucid._machine.primitives.creation import broadcasted_iota, full_like
from pellucid._machine.primitives.families import scalar
from pellucid._machine.primitives.logical import eq, ge, select_n
from pellucid._machine.primitives.movement import (
    aligned_at,
    broadcast_in_dim,
    expand_dims,
    reduce_sum,
    transpose,
)
from pellucid._machine.primitives.precision import Precision
from pellucid._machine.primitives.slicing import slice_in_dim
from pellucid._machine.primitives.varying import vary
from pellucid._machine.tracing import bind, type_of
from pellucid._machine.xla.arrays import Array

P = TypeVar("P")
ACCEPTED = ("float32", "float64", "complex64", "complex128")
"""Dtypes that the libraries support."""
PLATFORMS_OF_LIBRARIES = ("cpu", "cuda", "rocm")
"""Platforms with LAPACK or a counterpart of it."""
_INT32 = np.dtype(np.int32)


def cubic(factor: float) -> CountRule:
    """Operation count of a decomposition of m×n matrices: `factor` * m * n * min(m, n) for each."""

    def count(operands: Avals, results: Avals, params: Any) -> float:
        *batch, m, n = operands[0].shape
        return math.prod(batch) * factor * m * n * min(m, n) * real_operations(operands[0])

    return count


def decomposition(flops: float) -> Traits:
    """Traits of a matrix decomposition with `flops` * m * n * min(m, n) operations per matrix."""
    return Traits(kind="contraction", flops=cubic(flops), makes_nan=True, returns_list=True)


class MatrixPrimitive(Primitive[P]):
    """A primitive on a batch of problems; its operands share their leading axes, those of the batch.

    `core_ranks`: for each operand, the number of its trailing axes that belong to one problem.
    """

    core_ranks: tuple[int, ...] = (2,)

    def platforms_for(self, params: P) -> tuple[str, ...] | None:
        """Platforms that have an implementation; None for all."""
        return None

    def batch_ndim(self, avals: Avals) -> int:
        """Number of leading batch axes."""
        return avals[0].ndim - self.core_ranks[0]

    def check(self, avals: Avals, *, square: bool = False) -> tuple[int, ...]:
        """The batch axes' sizes.

        Raises: DtypeError for elements that no library computes with, or of several dtypes; ShapeError for ranks and
        batch axes that don't fit, and for matrices that aren't square where they must be.
        """
        got = [f"operand {i}: {a.text()}" for i, a in enumerate(avals)]
        dtype = avals[0].dtype
        if dtype.name not in ACCEPTED or any(a.dtype != dtype for a in avals):
            raise DtypeError(
                f"{self.name} needs elements of float32, float64, complex64 or complex128"
                f"{', the same in all operands' if len(avals) > 1 else ''}.",
                got=got,
            )
        n_batch = self.batch_ndim(avals)
        batch = avals[0].shape[: max(n_batch, 0)]
        if n_batch < 0 or any(
            a.ndim - rank != n_batch or a.shape[:n_batch] != batch
            for a, rank in zip(avals, self.core_ranks, strict=True)
        ):
            ranks = ", ".join(map(str, self.core_ranks))
            raise ShapeError(
                f"{self.name} needs arrays with equal leading axes, and {ranks} axes behind them.",
                got=got,
            )
        if square and avals[0].shape[-1] != avals[0].shape[-2]:
            raise ShapeError(f"{self.name} needs square matrices.", got=got)
        return batch

    def factors(self, avals, results, params):
        ranks = [a.ndim for a in (*avals, *results)]
        return batched_factors(ranks, len(avals), self.batch_ndim(avals))

    def batch(self, axis, operands, dims, params):
        aligned = aligned_at(axis, operands, dims)
        results = bind(self, *aligned, params=params)
        return results, [0] * len(results)

    def lower(self, ctx, operands, params):
        platforms = self.platforms_for(params)
        if platforms is not None and ctx.platform not in platforms:
            raise CompilationError(
                f"`{self.name}` has no implementation for platform {ctx.platform}, with these params.",
                got=f"{params}",
                do=f"Platforms that have one: {', '.join(platforms)}.",
            )
        is_empty = any(0 in aval.shape for aval in ctx.avals_in)
        return ctx.from_python(
            self._without_elements if is_empty else self._on_platform,
            operands,
            (params, ctx.platform),
        )

    def _on_platform(self, *arguments: Any) -> list[Any]:
        *operands, params, platform = arguments
        return self.definition(operands, params, platform)

    def _without_elements(self, *arguments: Any) -> list[Any]:
        *operands, params, _ = arguments
        results = self.abstract_eval(tuple(map(type_of, operands)), params)
        return self.empty(operands, results, params)

    def definition(self, operands: Sequence[Any], params: P, platform: str) -> list[Any]:
        """The results on `platform`, computed by native calls and other primitives."""
        raise self.missing("definition")

    def empty(self, operands: Sequence[Any], results: Avals, params: P) -> list[Any]:
        """The results where an operand has no elements; by default zeros."""
        return [broadcast_in_dim(scalar(0, r.dtype), r.shape, ()) for r in results]


# Algebra ------------------------------------------------------------------------------------------


def T(x: ArrayLike) -> Array:
    """The matrices in `x`, transposed."""
    ndim = type_of(x).ndim
    return transpose(x, (*range(ndim - 2), ndim - 1, ndim - 2))


def H(x: ArrayLike) -> Array:
    """The matrices in `x`, transposed and conjugated."""
    return T(conjugate(x))


def conjugate(x: ArrayLike) -> Any:
    """The conjugate of `x`, which is `x` where it is real."""
    return conj(x) if type_of(x).dtype.kind == "c" else x


def product(x: Array, y: Any, *others: Any) -> Array:
    """Products of the matrices in arrays of one rank, in full precision, from the left."""
    n = type_of(x).ndim - 2
    batch = tuple(range(n))
    result = dot_general(x, y, (((n + 1,), (n,)), (batch, batch)), precision=Precision.HIGHEST)
    return product(result, *others) if others else result


def scale_columns(x: Array, scale: Array) -> Array:
    """The matrices in `x`, each column multiplied by an element of the vectors in `scale`."""
    return mul(x, convert_quietly(expand_dims(scale, (type_of(scale).ndim - 1,)), type_of(x).dtype))


def hermitian_part(x: ArrayLike) -> Array:
    """(x + xᴴ) / 2."""
    return div(add(x, H(x)), type_of(x).dtype.type(2))


def is_at(shape: Sequence[int], k: int, compare: Callable[[Any, Any], Any] = ge) -> Array:
    """For each element of a matrix, its row number plus `k` compared with its column number; >= by default."""
    sizes = tuple(shape[-2:])
    rows, columns = (broadcasted_iota(_INT32, sizes, i) for i in (0, 1))
    return compare(add(rows, np.int32(k)), columns)


def where_in_matrix(mask: Array, x: Array, y: Array) -> Array:
    """Elements of `x` where `mask`, of the shape of one matrix, is True, else of `y`."""
    aval = type_of(x)
    dims = (aval.ndim - 2, aval.ndim - 1)
    mask = broadcast_in_dim(mask, aval.shape, dims, out_sharding=aval.shown_sharding)
    return select_n(mask, y, x)


def tril(x: Array, k: int = 0) -> Array:
    """The matrices in `x`, with zeros above diagonal `k`."""
    return where_in_matrix(is_at(type_of(x).shape, k), x, full_like(x, 0))


def triu(x: Array, k: int = 0) -> Array:
    """The matrices in `x`, with zeros below diagonal `k`."""
    return where_in_matrix(is_at(type_of(x).shape, k - 1), full_like(x, 0), x)


def eye_like(x: Array) -> Array:
    """Identity matrices of the type of `x`: its shape, dtype, layout, and axes over which it varies."""
    aval = type_of(x)
    dims = (aval.ndim - 2, aval.ndim - 1)
    one = convert_quietly(is_at(aval.shape, 0, eq), aval.dtype)
    repeated = broadcast_in_dim(one, aval.shape, dims, out_sharding=aval.shown_sharding)
    return vary(repeated, aval.varying)


def identity(x: Array, n: int) -> Array:
    """The n×n identity matrix, of the dtype and rank of `x`; its leading axes have size 1."""
    aval = type_of(x)
    one = convert_quietly(is_at((n, n), 0, eq), aval.dtype)
    return expand_dims(one, tuple(range(aval.ndim - 2)))


def diagonal_of(x: Array) -> Array:
    """The diagonals of the matrices in `x`: sums of rows in which only the diagonal is left."""
    alone = where_in_matrix(is_at(type_of(x).shape, 0, eq), x, full_like(x, 0))
    *_, m, n = type_of(x).shape
    ndim = type_of(x).ndim
    return reduce_sum(alone, (ndim - 2 if m > n else ndim - 1,))


def diagonal_matrix(x: Array) -> Array:
    """Square matrices with the vectors in `x` as diagonals, and zeros elsewhere."""
    rows = expand_dims(x, (type_of(x).ndim - 1,))
    return mul(rows, identity(rows, type_of(x).shape[-1]))


def hermitian_from(x: Array, *, lower: bool) -> Array:
    """Hermitian matrices whose lower (or upper) triangles are those of `x`, with real diagonals."""
    half = tril(x, -1) if lower else triu(x, 1)
    whole = add(half, H(half))
    inner = where_in_matrix(is_at(type_of(x).shape, 0, eq), x, full_like(x, 0))
    return add(
        whole, convert_quietly(real(inner), aval_dtype(x)) if aval_dtype(x).kind == "c" else inner
    )


def aval_dtype(x: Array) -> np.dtype:
    """The dtype of `x`."""
    return type_of(x).dtype


def columns(x: Array, count: int) -> Array:
    """The first `count` columns of the matrices in `x`."""
    return slice_in_dim(x, 0, count, axis=type_of(x).ndim - 1)


def rows(x: Array, count: int) -> Array:
    """The first `count` rows of the matrices in `x`."""
    return slice_in_dim(x, 0, count, axis=type_of(x).ndim - 2)


def pad_matrices(x: Array, m: int, n: int) -> Array:
    """The matrices in `x` with zeros after their rows and columns, m×n then."""
    *batch, old_m, old_n = type_of(x).shape
    if (old_m, old_n) == (m, n):
        return x
    config = [(0, 0, 0)] * len(batch) + [(0, m - old_m, 0), (0, n - old_n, 0)]
    return pad(x, aval_dtype(x).type(0), config)


def nan_unless(succeeded: Array, x: Array) -> Array:
    """`x` where `succeeded`, which has its leading axes, else NaN."""
    aval = type_of(x)
    mask = broadcast_in_dim(succeeded, aval.shape, tuple(range(type_of(succeeded).ndim)))
    return select_n(mask, full_like(x, np.nan), x)


def without_info(results: Sequence[Any]) -> list[Array]:
    """All results but the last, LAPACK's `info`; NaN where it reports failure."""
    *values, info = results
    succeeded = eq(info, np.int32(0))
    return [nan_unless(succeeded, x) for x in values]


def matrix_aval(x: ShapedArray, *shape: int, dtype: DTypeLike | None = None) -> ShapedArray:
    """The type of an array of `shape` with the dtype of `x`, or another."""
    return shaped_array(shape, x.dtype if dtype is None else np.dtype(dtype))


def real_of(x: ShapedArray) -> np.dtype:
    """The dtype of the real parts of `x`."""
    return real_dtype(x.dtype) if x.dtype.kind == "c" else x.dtype
