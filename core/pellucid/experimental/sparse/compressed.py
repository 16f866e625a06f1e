"""COO, CSR and CSC: sparse matrices without batch or dense dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid import numpy as jnp
from pellucid._machine.base import public_functions
from pellucid._machine.base.errors import ArgumentTypeError, ShapeError, UnsupportedError
from pellucid._machine.base.tree import register_pytree_node_class
from pellucid.experimental.sparse.base import JAXSparse
from pellucid.experimental.sparse.coordinates import BCOO, bcoo_fromdense, bcoo_fromdense_p
from pellucid.experimental.sparse.indices import gather_rows, scatter_rows, sorted_rows
from pellucid.experimental.sparse.operation import SparseOperation
from pellucid.experimental.sparse.rows import row_numbers, row_starts


class COOInfo(NamedTuple):
    """Static data of a COO matrix: its shape, and the order of its elements."""

    shape: tuple[int, ...]
    rows_sorted: bool = False
    cols_sorted: bool = False


class Matrix(JAXSparse):
    """Base class of sparse matrices: products with dense vectors and matrices."""

    def __init__(self, args: tuple[Any, ...], *, shape: Sequence[int]) -> None:
        super().__init__(args, shape=shape)
        self._set_buffers(*map(jnp.asarray, args))
        if len(self.shape) != 2:
            raise ShapeError(f"{type(self).__name__} is a format of matrices.", got=f"shape: {self.shape}")  # fmt: skip

    @property
    def nse(self) -> int:
        return self.data.shape[0]

    def product(self, x: Any, *, transpose: bool = False) -> Any:
        """The product with a dense vector or matrix, of the transposed matrix if `transpose`."""
        raise NotImplementedError(f"{type(self).__name__}.product")

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, JAXSparse):
            raise UnsupportedError(
                "matmul between two sparse matrices.",
                got=f"{self!r} @ {other!r}",
                do="Convert them to BCOO.",
            )
        return self.product(other)


def _operand(mat: Matrix, x: Any, ndim: int | None, transpose: bool, caller: str) -> Any:
    """The dense operand `x`; ShapeError where it doesn't fit the matrix."""
    x = jnp.asarray(x)
    ndims = (1, 2) if ndim is None else (ndim,)
    if x.ndim not in ndims or x.shape[0] != mat.shape[0 if transpose else 1]:
        raise ShapeError(
            f"{caller}: the operands don't fit.", got=f"{mat!r}, dense: {x.shape}, transpose: {transpose}"
        )  # fmt: skip
    return x


def _matrix_product(
    data: Any, row: Any, col: Any, x: Any, shape: Sequence[int], transpose: bool
) -> Any:
    """The product of a matrix, given by its elements, with a vector [columns] or matrix [columns, n]."""
    size, free, contracted = (shape[1], col, row) if transpose else (shape[0], row, col)
    factors = gather_rows(x, contracted[:, None])
    dtype = jnp.result_type(data.dtype, x.dtype)
    data = data.astype(dtype).reshape(-1, *[1] * (factors.ndim - 1))
    return scatter_rows(data * factors.astype(dtype), free[:, None], (size,))


def _array_and_count(mat: Any, nse: int | None, index_dtype: Any, caller: str) -> tuple[Any, int]:
    """`mat` as an array, and the number of elements to store."""
    mat = jnp.asarray(mat)
    if mat.ndim != 2:
        raise ShapeError(f"{caller} needs a matrix.", got=f"{mat.ndim} dimensions")
    return mat, bcoo_fromdense(mat).nse if nse is None else int(nse)


def check_format(kind: type[Any], mat: Any, caller: str) -> None:
    """Raise ArgumentTypeError unless `mat` has the format `kind`."""
    if not isinstance(mat, kind):
        raise ArgumentTypeError(f"{caller} needs a {kind.__name__} matrix.", got=type(mat).__name__)


# Coordinates ------------------------------------------------------------------------------------------------


@register_pytree_node_class
class COO(Matrix):
    """A sparse matrix of coordinates: COO((data, row, col), shape=shape), each of shape [nse].

    `rows_sorted` and `cols_sorted` state that elements are in the order of their rows, or columns.

    >>> COO(([2.0], [0], [1]), shape=(1, 2)).todense()
    Array([[0., 2.]], dtype=float32)
    """

    row: Any
    col: Any
    rows_sorted: bool
    cols_sorted: bool

    def __init__(
        self,
        args: tuple[Any, Any, Any],
        *,
        shape: Sequence[int],
        rows_sorted: bool = False,
        cols_sorted: bool = False,
    ) -> None:
        super().__init__(args, shape=shape)
        self.rows_sorted, self.cols_sorted = bool(rows_sorted), bool(cols_sorted)

    @property
    def info(self) -> COOInfo:
        """The static data of the matrix."""
        return COOInfo(self.shape, self.rows_sorted, self.cols_sorted)

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> COO:
        """The matrix with the elements of `mat` other than zero; as `coo_fromdense`."""
        return coo_fromdense(mat, nse=nse, index_dtype=index_dtype)

    @classmethod
    def _empty(cls, shape: Any, *, dtype: Any = None, index_dtype: Any = "int32") -> COO:
        data, (row, col) = jnp.zeros(0, dtype), jnp.zeros((2, 0), index_dtype)
        return cls((data, row, col), shape=shape, rows_sorted=True, cols_sorted=True)

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = "int32") -> COO:
        mat = BCOO._eye(N, M, k, dtype=dtype, index_dtype=index_dtype)
        row, col = mat.indices.T
        return cls((mat.data, row, col), shape=(N, M), rows_sorted=True, cols_sorted=True)

    def todense(self) -> Any:
        return coo_todense(self)

    def transpose(self, axes: Any = None) -> COO:
        """The transposed matrix, of the same buffers; UnsupportedError for `axes`."""
        if axes is not None:
            raise UnsupportedError("COO.transpose takes no axes.", got=f"axes: {axes}")
        return COO(
            (self.data, self.col, self.row), shape=self.shape[::-1],
            rows_sorted=self.cols_sorted, cols_sorted=self.rows_sorted,
        )  # fmt: skip

    def sort_indices(self) -> COO:
        """The matrix with its elements in the order of rows, then columns."""
        indices, order = sorted_rows(jnp.stack([self.row, self.col], -1))
        return COO((self.data[order], *indices.T), shape=self.shape, rows_sorted=True)

    def product(self, x: Any, *, transpose: bool = False) -> Any:
        x = _operand(self, x, None, transpose, "COO product")
        operation = coo_matvec_p if x.ndim == 1 else coo_matmat_p
        return operation.bind(
            self.data, self.row, self.col, x, spinfo=self.info, transpose=transpose
        )

    def tree_flatten(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The buffers, and the static data by name."""
        return (self.data, self.row, self.col), self.info._asdict()

    def _set_buffers(self, *buffers: Any) -> None:
        self.data, self.row, self.col = buffers


def _coo_todense(data: Any, row: Any, col: Any, *, spinfo: COOInfo) -> Any:
    return scatter_rows(data, jnp.stack([row, col], -1), spinfo.shape)


coo_todense_p = SparseOperation("coo_todense", _coo_todense)


def coo_todense(mat: COO) -> Any:
    """The dense matrix of a COO matrix; elements at one place are added.

    >>> coo_todense(COO(([2.0, 1.0], [0, 0], [1, 1]), shape=(1, 2)))
    Array([[0., 3.]], dtype=float32)
    """
    check_format(COO, mat, "coo_todense")
    return coo_todense_p.bind(mat.data, mat.row, mat.col, spinfo=mat.info)


def _coo_fromdense(mat: Any, *, nse: int, index_dtype: Any) -> Any:
    data, indices = bcoo_fromdense_p.function(
        mat, nse=nse, n_batch=0, n_dense=0, index_dtype=index_dtype
    )
    return data, indices[:, 0], indices[:, 1]


coo_fromdense_p = SparseOperation("coo_fromdense", _coo_fromdense, returns_list=True)


def coo_fromdense(mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> COO:
    """A COO matrix with the elements of `mat` other than zero; `nse` as in `bcoo_fromdense`.

    >>> coo_fromdense(jnp.array([[0.0, 1.0], [2.0, 0.0]])).col
    Array([1, 0], dtype=int32)
    """
    mat, nse = _array_and_count(mat, nse, index_dtype, "coo_fromdense")
    buffers = coo_fromdense_p.bind(mat, nse=nse, index_dtype=np.dtype(index_dtype))
    return COO(tuple(buffers), shape=mat.shape, rows_sorted=True)


def _coo_matmat(data: Any, row: Any, col: Any, x: Any, *, spinfo: COOInfo, transpose: bool) -> Any:
    return _matrix_product(data, row, col, x, spinfo.shape, transpose)


coo_matvec_p = SparseOperation("coo_matvec", _coo_matmat)
coo_matmat_p = SparseOperation("coo_matmat", _coo_matmat)


def coo_matvec(mat: COO, v: Any, transpose: bool = False) -> Any:
    """The product of a COO matrix, or the transposed one, with a vector.

    >>> coo_matvec(COO(([2.0], [0], [1]), shape=(2, 2)), jnp.array([1.0, 3.0]))
    Array([6., 0.], dtype=float32)
    """
    check_format(COO, mat, "coo_matvec")
    return mat.product(_operand(mat, v, 1, transpose, "coo_matvec"), transpose=bool(transpose))


def coo_matmat(mat: COO, B: Any, *, transpose: bool = False) -> Any:
    """The product of a COO matrix, or the transposed one, with a dense matrix.

    >>> coo_matmat(COO(([2.0], [0], [1]), shape=(1, 2)), jnp.ones((2, 2)))
    Array([[2., 2.]], dtype=float32)
    """
    check_format(COO, mat, "coo_matmat")
    return mat.product(_operand(mat, B, 2, transpose, "coo_matmat"), transpose=bool(transpose))


# Compressed rows and columns --------------------------------------------------------------------------------


class _Compressed(Matrix):
    """A matrix of the buffers data [nse], indices [nse] and indptr."""

    indices: Any
    indptr: Any

    def tree_flatten(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The buffers, and the shape."""
        return (self.data, self.indices, self.indptr), {"shape": self.shape}

    def _set_buffers(self, *buffers: Any) -> None:
        self.data, self.indices, self.indptr = buffers

    def _without_axes(self, axes: Any) -> None:
        if axes is not None:
            raise UnsupportedError(f"{type(self).__name__}.transpose takes no axes.", got=f"axes: {axes}")  # fmt: skip


@register_pytree_node_class
class CSR(_Compressed):
    """A sparse matrix of compressed rows: CSR((data, indices, indptr), shape=shape).

    `indices` [nse] are columns; `indptr` [rows + 1] is where each row begins among the elements.

    >>> CSR(([2.0], [1], [0, 1]), shape=(1, 2)).todense()
    Array([[0., 2.]], dtype=float32)
    """

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> CSR:
        """The matrix with the elements of `mat` other than zero; as `csr_fromdense`."""
        return csr_fromdense(mat, nse=nse, index_dtype=index_dtype)

    @classmethod
    def _empty(cls, shape: Any, *, dtype: Any = None, index_dtype: Any = "int32") -> CSR:
        starts = jnp.zeros(shape[0] + 1, index_dtype)
        return cls((jnp.zeros(0, dtype), starts[:0], starts), shape=shape)

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = "int32") -> CSR:
        mat = BCOO._eye(N, M, k, dtype=dtype, index_dtype=index_dtype)
        row, col = mat.indices.T
        return cls((mat.data, col, row_starts(row, N)), shape=(N, M))

    def todense(self) -> Any:
        return csr_todense(self)

    def transpose(self, axes: Any = None) -> CSC:
        """The transposed matrix, of the same buffers; UnsupportedError for `axes`."""
        self._without_axes(axes)
        return CSC((self.data, self.indices, self.indptr), shape=self.shape[::-1])

    def product(self, x: Any, *, transpose: bool = False) -> Any:
        x = _operand(self, x, None, transpose, "CSR product")
        operation = csr_matvec_p if x.ndim == 1 else csr_matmat_p
        return operation.bind(
            self.data, self.indices, self.indptr, x, shape=self.shape, transpose=transpose
        )


@register_pytree_node_class
class CSC(_Compressed):
    """A sparse matrix of compressed columns: CSC((data, indices, indptr), shape=shape).

    `indices` [nse] are rows; `indptr` [columns + 1] is where each column begins among the elements.

    >>> CSC(([2.0], [0], [0, 0, 1]), shape=(1, 2)).todense()
    Array([[0., 2.]], dtype=float32)
    """

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> CSC:
        """The matrix with the elements of `mat` other than zero; as `csr_fromdense`."""
        return csr_fromdense(jnp.asarray(mat).T, nse=nse, index_dtype=index_dtype).T

    @classmethod
    def _empty(cls, shape: Any, **options: Any) -> CSC:
        return CSR._empty(tuple(shape)[::-1], **options).T

    @classmethod
    def _eye(cls, N: int, M: int, k: int, **options: Any) -> CSC:
        return CSR._eye(M, N, -k, **options).T

    def todense(self) -> Any:
        return csr_todense(self.T).T

    def transpose(self, axes: Any = None) -> CSR:
        """The transposed matrix, of the same buffers; UnsupportedError for `axes`."""
        self._without_axes(axes)
        return CSR((self.data, self.indices, self.indptr), shape=self.shape[::-1])

    def product(self, x: Any, *, transpose: bool = False) -> Any:
        return self.T.product(x, transpose=not transpose)


def _csr_todense(data: Any, indices: Any, indptr: Any, *, shape: tuple[int, ...]) -> Any:
    row = row_numbers(indptr, len(data))
    return scatter_rows(data, jnp.stack([row, indices.astype(row.dtype)], -1), shape)


csr_todense_p = SparseOperation("csr_todense", _csr_todense)


def csr_todense(mat: CSR) -> Any:
    """The dense matrix of a CSR matrix; elements at one place are added.

    >>> csr_todense(CSR(([2.0, 1.0], [1, 1], [0, 2]), shape=(1, 2)))
    Array([[0., 3.]], dtype=float32)
    """
    check_format(CSR, mat, "csr_todense")
    return csr_todense_p.bind(mat.data, mat.indices, mat.indptr, shape=mat.shape)


def _csr_fromdense(mat: Any, *, nse: int, index_dtype: Any) -> Any:
    data, row, col = _coo_fromdense(mat, nse=nse, index_dtype=index_dtype)
    return data, col, row_starts(row, mat.shape[0])


csr_fromdense_p = SparseOperation("csr_fromdense", _csr_fromdense, returns_list=True)


def csr_fromdense(mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> CSR:
    """A CSR matrix with the elements of `mat` other than zero; `nse` as in `bcoo_fromdense`.

    >>> csr_fromdense(jnp.array([[0.0, 1.0], [2.0, 0.0]])).indptr
    Array([0, 1, 2], dtype=int32)
    """
    mat, nse = _array_and_count(mat, nse, index_dtype, "csr_fromdense")
    buffers = csr_fromdense_p.bind(mat, nse=nse, index_dtype=np.dtype(index_dtype))
    return CSR(tuple(buffers), shape=mat.shape)


def _csr_matmat(
    data: Any, indices: Any, indptr: Any, x: Any, *, shape: tuple[int, ...], transpose: bool
) -> Any:
    return _matrix_product(data, row_numbers(indptr, len(data)), indices, x, shape, transpose)


csr_matvec_p = SparseOperation("csr_matvec", _csr_matmat)
csr_matmat_p = SparseOperation("csr_matmat", _csr_matmat)


def csr_matvec(mat: CSR, v: Any, transpose: bool = False) -> Any:
    """The product of a CSR matrix, or the transposed one, with a vector.

    >>> csr_matvec(CSR(([2.0], [1], [0, 1, 1]), shape=(2, 2)), jnp.array([1.0, 3.0]))
    Array([6., 0.], dtype=float32)
    """
    check_format(CSR, mat, "csr_matvec")
    return mat.product(_operand(mat, v, 1, transpose, "csr_matvec"), transpose=bool(transpose))


def csr_matmat(mat: CSR, B: Any, *, transpose: bool = False) -> Any:
    """The product of a CSR matrix, or the transposed one, with a dense matrix.

    >>> csr_matmat(CSR(([2.0], [1], [0, 1]), shape=(1, 2)), jnp.ones((2, 2)))
    Array([[2., 2.]], dtype=float32)
    """
    check_format(CSR, mat, "csr_matmat")
    return mat.product(_operand(mat, B, 2, transpose, "csr_matmat"), transpose=bool(transpose))


__all__ = [
    "COO",
    "CSC",
    "CSR",
    "coo_fromdense",
    "coo_fromdense_p",
    "coo_matmat",
    "coo_matmat_p",
    "coo_matvec",
    "coo_matvec_p",
    "coo_todense",
    "coo_todense_p",
    "csr_fromdense",
    "csr_fromdense_p",
    "csr_matmat",
    "csr_matmat_p",
    "csr_matvec",
    "csr_matvec_p",
    "csr_todense",
    "csr_todense_p",
]

public_functions(__all__, globals())
