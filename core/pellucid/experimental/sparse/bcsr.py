"""BCSR: batched compressed sparse rows. Like BCOO with two sparse dimensions, but with row starts in place of row
indices.

`data` has the shape [*batch, nse, *dense], `indices` [*batch, nse] the columns, `indptr` [*batch, rows + 1] where each row
begins. What lies after the last row is padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid import numpy as jnp
from pellucid._machine.base import public_functions
from pellucid._machine.base.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    DtypeError,
    ShapeError,
    UnsupportedError,
)
from pellucid._machine.base.tree import register_pytree_node_class
from pellucid._machine.transforms.vmap import Container
from pellucid.experimental.sparse.base import JAXSparse, mapped_shape
from pellucid.experimental.sparse.coordinates import (
    BCOO,
    SparseInfo,
    bcoo_eliminate_zeros,
    bcoo_extract_p,
    bcoo_fromdense,
    bcoo_fromdense_p,
    bcoo_sum_duplicates,
    bcoo_todense_p,
)
from pellucid.experimental.sparse.movement import bcoo_broadcast_in_dim, bcoo_concatenate
from pellucid.experimental.sparse.operation import SparseOperation, over_batch
from pellucid.experimental.sparse.products import (
    Numbers,
    bcoo_dot_general_p,
    check_kinds,
    numbers_of,
    product_type,
)
from pellucid.experimental.sparse.rows import row_numbers, row_starts


def bcoo_indices(indices: Any, indptr: Any) -> Any:
    """The indices [*batch, nse, 2] of a BCOO array with the rows of a BCSR array."""
    batch = jnp.broadcast_shapes(indices.shape[:-1], indptr.shape[:-1])
    element = lambda column, starts: jnp.stack(
        [row_numbers(starts, len(column)).astype(column.dtype), column], -1
    )
    return over_batch(element, batch, indices, indptr)


@register_pytree_node_class
class BCSR(JAXSparse, Container):
    """A sparse array of batched compressed rows: BCSR((data, indices, indptr), shape=shape).

    `data` [*batch, nse, *dense], `indices` [*batch, nse] and `indptr` [*batch, rows + 1] of integers; `shape` is
    (*batch, rows, columns, *dense).

    Raises: ShapeError, DtypeError for buffers that don't fit.

    >>> BCSR(([2.0, 3.0], [1, 0], [0, 1, 1, 2]), shape=(3, 2)).todense()
    Array([[0., 2.],
           [0., 0.],
           [3., 0.]], dtype=float32)
    """

    indices: Any
    indptr: Any
    indices_sorted: bool
    unique_indices: bool
    n_sparse = 2

    def __init__(
        self,
        args: tuple[Any, Any, Any],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> None:
        self.data, self.indices, self.indptr = map(jnp.asarray, args)
        self.indices_sorted, self.unique_indices = bool(indices_sorted), bool(unique_indices)
        super().__init__(args, shape=shape)
        self._check()

    def _check(self) -> None:
        n, buffers = self.n_batch, (self.data, self.indices, self.indptr)
        got = ", ".join(
            f"{name} {x.shape}"
            for name, x in zip(("data", "indices", "indptr"), buffers, strict=True)
        )
        got = f"{got}, shape {self.shape}"
        if any(x.dtype.kind not in "iu" for x in buffers[1:]):
            raise DtypeError("BCSR: indices and indptr must be integers.", got=got)
        if n < 0 or self.n_dense < 0 or self.ndim != n + 2 + self.n_dense:
            raise ShapeError("BCSR: the dimensions of the buffers don't make up the shape.", got=got)  # fmt: skip
        if any(a not in (1, b) for x in buffers for a, b in zip(x.shape[:n], self.shape, strict=False)):  # fmt: skip
            raise ShapeError("BCSR: batch dimensions of the buffers don't fit the shape.", got=got)
        if self.data.shape[n:] != (self.nse, *self.shape[n + 2 :]):
            raise ShapeError("BCSR: data don't fit the indices and the shape.", got=got)
        if self.indptr.ndim != n + 1 or self.indptr.shape[-1] != self.shape[n] + 1:
            raise ShapeError("BCSR: indptr must have one more element than rows.", got=got)

    @property
    def nse(self) -> int:
        return self.indices.shape[-1]

    @property
    def n_batch(self) -> int:
        """The number of batch dimensions."""
        return self.indices.ndim - 1

    @property
    def n_dense(self) -> int:
        """The number of dense dimensions."""
        return self.data.ndim - self.indices.ndim

    @property
    def info(self) -> SparseInfo:
        """The static data of the array."""
        return SparseInfo(self.shape, self.indices_sorted, self.unique_indices)

    def layout(self) -> dict[str, int]:
        return {"n_batch": self.n_batch, "n_dense": self.n_dense}

    @classmethod
    def fromdense(
        cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32, n_dense: int = 0, n_batch: int = 0
    ) -> BCSR:  # fmt: skip
        """The array with the elements of `mat` other than zero; as `bcsr_fromdense`."""
        return bcsr_fromdense(
            mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch
        )

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> BCSR:
        """The array with the elements of a BCOO array, sorted by rows.

        Raises: UnsupportedError unless it has two sparse dimensions.
        """
        if arr.n_sparse != 2:
            raise UnsupportedError("BCSR.from_bcoo needs two sparse dimensions.", got=repr(arr))
        arr = arr if arr.indices_sorted else arr.sort_indices()
        n_rows = arr.shape[arr.n_batch]
        starts = over_batch(
            lambda indices: row_starts(indices[:, 0], n_rows), arr.indices.shape[:-2], arr.indices
        )
        return cls((arr.data, arr.indices[..., 1], starts), shape=arr.shape)

    @classmethod
    def from_scipy_sparse(
        cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0
    ) -> BCSR:
        """The array with the elements that a matrix of `scipy.sparse` stores.

        Raises: UnsupportedError for batch or dense dimensions.
        """
        if n_dense or n_batch:
            raise UnsupportedError("BCSR.from_scipy_sparse makes no batch or dense dimensions.")
        csr, dtype = mat.tocsr(), index_dtype or np.int32
        buffers = (
            csr.data,
            jnp.asarray(csr.indices).astype(dtype),
            jnp.asarray(csr.indptr).astype(dtype),
        )
        return cls(buffers, shape=csr.shape)

    @classmethod
    def _empty(cls, shape: Any, **options: Any) -> BCSR:
        if len(shape) - options.get("n_batch", 0) - options.get("n_dense", 0) != 2:
            raise ArgumentValueError(
                "BCSR arrays have two sparse dimensions.", got=f"shape: {tuple(shape)}, {options}"
            )
        return cls.from_bcoo(BCOO._empty(shape, **options))

    def to_bcoo(self) -> BCOO:
        """The BCOO array with the same elements."""
        indices = bcoo_indices(self.indices, self.indptr)
        return BCOO((self.data, indices), **self.info._asdict())

    def todense(self) -> Any:
        return bcsr_todense(self)

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCSR:
        """The array with one element for each place; as `bcsr_sum_duplicates`."""
        mat = bcsr_eliminate_zeros(self, nse=self.nse) if remove_zeros else self
        return bcsr_sum_duplicates(mat, nse)

    def transpose(self, *args: Any, **kwargs: Any) -> Any:
        """Raises UnsupportedError: the rows of the result would be columns. `to_bcoo().T` is transposed."""
        raise UnsupportedError("BCSR arrays can't be transposed.", do="Use `to_bcoo().transpose()`.")  # fmt: skip

    def tree_flatten(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The buffers, and the static data by name."""
        return (self.data, self.indices, self.indptr), self.info._asdict()

    def _set_buffers(self, *buffers: Any) -> None:
        self.data, self.indices, self.indptr = buffers

    def element(self, dims: Any) -> BCSR:
        return self.with_shape(mapped_shape(self, dims, None))

    def stack(self, dims: Any, size: int) -> BCSR:
        return self.with_shape(mapped_shape(self, dims, size))


def checked_bcsr(mat: Any, caller: str, name: str = "mat") -> BCSR:
    """`mat`; ArgumentTypeError unless it is a BCSR array."""
    if not isinstance(mat, BCSR):
        raise ArgumentTypeError(f"{caller} needs BCSR arrays.", got=f"{name}: {type(mat).__name__}")
    return mat


def _todense(data: Any, indices: Any, indptr: Any, *, spinfo: SparseInfo) -> Any:
    return bcoo_todense_p.function(data, bcoo_indices(indices, indptr), spinfo=spinfo)


bcsr_todense_p = SparseOperation("bcsr_todense", _todense)


def bcsr_todense(mat: BCSR) -> Any:
    """The dense array of a BCSR array.

    >>> bcsr_todense(BCSR(([2.0], [1], [0, 1]), shape=(1, 2)))
    Array([[0., 2.]], dtype=float32)
    """
    checked_bcsr(mat, "bcsr_todense")
    return bcsr_todense_p.bind(mat.data, mat.indices, mat.indptr, spinfo=mat.info)


def _fromdense(mat: Any, *, nse: int, n_batch: int, n_dense: int, index_dtype: Any) -> Any:
    data, indices = bcoo_fromdense_p.function(
        mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype
    )
    starts = lambda indices: row_starts(indices[:, 0], mat.shape[n_batch])
    return data, indices[..., 1], over_batch(starts, mat.shape[:n_batch], indices)


bcsr_fromdense_p = SparseOperation("bcsr_fromdense", _fromdense, returns_list=True)


def bcsr_fromdense(
    mat: Any, *, nse: int | None = None, n_batch: int = 0, n_dense: int = 0, index_dtype: Any = np.int32
) -> BCSR:  # fmt: skip
    """A BCSR array with the elements of `mat` other than zero; arguments are those of `bcoo_fromdense`.

    Raises: ArgumentValueError unless two dimensions are sparse; ConcretizationTypeError for traced arrays without `nse`.

    >>> bcsr_fromdense(jnp.array([[0.0, 1.0], [2.0, 0.0]])).indptr
    Array([0, 1, 2], dtype=int32)
    """
    mat = jnp.asarray(mat)
    if mat.ndim != n_batch + 2 + n_dense:
        raise ArgumentValueError(
            "bcsr_fromdense: two dimensions must be sparse.",
            got=f"{mat.ndim} dimensions, n_batch: {n_batch}, n_dense: {n_dense}",
        )
    if nse is None:
        nse = bcoo_fromdense(mat, n_batch=n_batch, n_dense=n_dense).nse
    buffers = bcsr_fromdense_p.bind(
        mat, nse=int(nse), n_batch=n_batch, n_dense=n_dense, index_dtype=np.dtype(index_dtype)
    )
    return BCSR(tuple(buffers), shape=mat.shape)


def _extract(indices: Any, indptr: Any, mat: Any) -> Any:
    return bcoo_extract_p.function(bcoo_indices(indices, indptr), mat, assume_unique=True)


bcsr_extract_p = SparseOperation("bcsr_extract", _extract)


def bcsr_extract(indices: Any, indptr: Any, mat: Any) -> Any:
    """The elements [*batch, nse, *dense] of the dense array `mat` at the places of a BCSR array.

    >>> bcsr_extract(jnp.array([1]), jnp.array([0, 0, 1]), jnp.arange(4.0).reshape(2, 2))
    Array([3.], dtype=float32)
    """
    return bcsr_extract_p.bind(indices, indptr, mat)


def bcsr_sum_duplicates(mat: BCSR, nse: int | None = None) -> BCSR:
    """The array with its elements in order, where those at one place are added; `nse` as in `bcoo_sum_duplicates`.

    >>> bcsr_sum_duplicates(BCSR(([2.0, 3.0], [1, 1], [0, 2]), shape=(1, 2))).data
    Array([5.], dtype=float32)
    """
    return BCSR.from_bcoo(
        bcoo_sum_duplicates(checked_bcsr(mat, "bcsr_sum_duplicates").to_bcoo(), nse)
    )


def bcsr_eliminate_zeros(mat: BCSR, nse: int | None = None) -> BCSR:
    """The array without stored zeros; `nse` as in `bcoo_sum_duplicates`.

    >>> bcsr_eliminate_zeros(BCSR(([2.0, 0.0], [0, 1], [0, 2]), shape=(1, 2)))
    BCSR(float32[1, 2], nse=1)
    """
    return BCSR.from_bcoo(
        bcoo_eliminate_zeros(checked_bcsr(mat, "bcsr_eliminate_zeros").to_bcoo(), nse)
    )


def _dot_general(data: Any, indices: Any, indptr: Any, rhs: Any, **settings: Any) -> Any:
    return bcoo_dot_general_p.function(data, bcoo_indices(indices, indptr), rhs, **settings)


bcsr_dot_general_p = SparseOperation("bcsr_dot_general", _dot_general)


def bcsr_dot_general(
    lhs: BCSR,
    rhs: Any,
    *,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The contraction of a BCSR and a dense array, with the numbers of `lax.dot_general`.

    Raises: UnsupportedError for other operands, and as `bcoo_dot_general`.

    >>> bcsr_dot_general(bcsr_fromdense(jnp.eye(2)), jnp.arange(2.0), dimension_numbers=(((1,), (0,)), ((), ())))
    Array([0., 1.], dtype=float32)
    """
    if not isinstance(lhs, BCSR) or isinstance(rhs, JAXSparse) or out_sharding is not None:
        raise UnsupportedError(
            "bcsr_dot_general needs a BCSR and a dense array, and no out_sharding.",
            got=f"lhs: {type(lhs).__name__}, rhs: {type(rhs).__name__}",
            do="Convert the arrays with `to_bcoo`.",
        )
    numbers: Numbers = numbers_of(dimension_numbers)
    preferred = None if preferred_element_type is None else np.dtype(preferred_element_type)
    rhs = jnp.asarray(rhs)
    product_type(lhs, rhs, numbers, preferred)
    (contract, _), (batch, _) = numbers
    check_kinds("bcsr_dot_general", lhs, contract, batch)
    more = {} if precision is None else {"precision": precision}
    return bcsr_dot_general_p.bind(
        lhs.data, lhs.indices, lhs.indptr, rhs, dimension_numbers=numbers, lhs_spinfo=lhs.info,
        preferred_element_type=preferred, **more,
    )  # fmt: skip


def bcsr_broadcast_in_dim(
    mat: BCSR, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], sharding: Any = None
) -> BCSR:
    """The array in a larger shape; as `bcoo_broadcast_in_dim`.

    >>> bcsr_broadcast_in_dim(bcsr_fromdense(jnp.eye(2)), shape=(3, 2, 2), broadcast_dimensions=(1, 2))
    BCSR(float32[3, 2, 2], nse=2, n_batch=1)
    """
    bcoo = checked_bcsr(mat, "bcsr_broadcast_in_dim").to_bcoo()
    return BCSR.from_bcoo(
        bcoo_broadcast_in_dim(
            bcoo, shape=shape, broadcast_dimensions=broadcast_dimensions, sharding=sharding
        )
    )


def bcsr_concatenate(operands: Sequence[BCSR], *, dimension: int) -> BCSR:
    """BCSR arrays one after the other along a batch or sparse dimension; as `bcoo_concatenate`.

    >>> bcsr_concatenate([bcsr_fromdense(jnp.eye(2))] * 2, dimension=0)
    BCSR(float32[4, 2], nse=4)
    """
    arrays = [checked_bcsr(x, "bcsr_concatenate", "operand").to_bcoo() for x in operands]
    return BCSR.from_bcoo(bcoo_concatenate(arrays, dimension=dimension))


__all__ = [
    "BCSR",
    "bcsr_broadcast_in_dim",
    "bcsr_concatenate",
    "bcsr_dot_general",
    "bcsr_dot_general_p",
    "bcsr_eliminate_zeros",
    "bcsr_extract",
    "bcsr_extract_p",
    "bcsr_fromdense",
    "bcsr_fromdense_p",
    "bcsr_sum_duplicates",
    "bcsr_todense",
    "bcsr_todense_p",
]

public_functions(__all__, globals())
