"""BCOO: batched coordinates. Stored elements with one row of indices each, over leading batch dimensions.

`data` has the shape [*batch, nse, *dense], `indices` [*batch, nse, n_sparse]; batch dimensions of size 1 are stretched.
Rows with an index outside of its dimension are padding: they count as zeros, whatever their data is.
Rows may occur more than once; their elements add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid import numpy as jnp
from pellucid._machine.base import public_functions
from pellucid._machine.base.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    ConcretizationTypeError,
    DtypeError,
    ShapeError,
    UnsupportedError,
)
from pellucid._machine.base.tree import register_pytree_node_class
from pellucid._machine.tracing.tracer import Tracer
from pellucid._machine.transforms.vmap import Container
from pellucid.experimental.sparse.base import JAXSparse, mapped_shape
from pellucid.experimental.sparse.indices import (
    coordinates,
    gather_rows,
    groups,
    in_bounds,
    pad_rows,
    scatter_rows,
    sorted_rows,
    zero_dropped_elements,
)
from pellucid.experimental.sparse.operation import SparseOperation, over_batch


class SparseInfo(NamedTuple):
    """Static data of a sparse array: its shape, and facts about its rows.

    >>> SparseInfo((2, 3), unique_indices=True)
    SparseInfo(shape=(2, 3), indices_sorted=False, unique_indices=True)
    """

    shape: tuple[int, ...]
    indices_sorted: bool = False
    unique_indices: bool = False


class SparseDimensions(NamedTuple):
    """How many dimensions are batch, sparse and dense, in this order, and the number of stored elements."""

    n_batch: int
    n_sparse: int
    n_dense: int
    nse: int

    def split(self, shape: Sequence[Any]) -> tuple[tuple[Any, ...], ...]:
        """(batch, sparse, dense) parts of a sequence with one item per dimension."""
        n, m = self.n_batch, self.n_batch + self.n_sparse
        return tuple(shape[:n]), tuple(shape[n:m]), tuple(shape[m:])


def layout_of(data: Any, indices: Any, shape: Sequence[int]) -> SparseDimensions:
    """The layout of buffers; ShapeError, DtypeError where they don't fit one another and `shape`."""
    n_batch, n_dense = indices.ndim - 2, data.ndim + 1 - indices.ndim
    got = f"data {data.shape}, indices {indices.shape}, shape {tuple(shape)}"
    if indices.ndim < 2 or n_dense < 0:
        raise ShapeError("BCOO: data or indices have too few dimensions.", got=got)
    if indices.dtype.kind not in "iu":
        raise DtypeError("BCOO: indices must be integers.", got=f"indices of dtype {indices.dtype}")
    layout = SparseDimensions(n_batch, indices.shape[-1], n_dense, indices.shape[-2])
    if n_batch + layout.n_sparse + n_dense != len(shape):
        raise ShapeError("BCOO: the dimensions of the buffers don't make up the shape.", got=got)
    batch, _, dense = layout.split(shape)
    for name, buffer in (("data", data), ("indices", indices)):
        if any(a not in (1, b) for a, b in zip(buffer.shape[:n_batch], batch, strict=True)):
            raise ShapeError(f"BCOO: the batch dimensions of {name} don't fit the shape.", got=got)
    if data.shape[n_batch:] != (layout.nse, *dense):
        raise ShapeError("BCOO: data don't fit the indices and the shape.", got=got)
    return layout


@register_pytree_node_class
class BCOO(JAXSparse, Container):
    """A sparse array of batched coordinates: BCOO((data, indices), shape=shape).

    `data` [*batch, nse, *dense], `indices` [*batch, nse, n_sparse] of integers; `shape` is (*batch, *sparse, *dense).
    `indices_sorted` and `unique_indices` state that rows are in lexicographic order, and that none occurs twice.

    Raises: ShapeError, DtypeError for buffers that don't fit.

    >>> BCOO(([2.0, 3.0], [[0, 1], [2, 0]]), shape=(3, 2)).todense()
    Array([[0., 2.],
           [0., 0.],
           [3., 0.]], dtype=float32)
    """

    indices: Any
    indices_sorted: bool
    unique_indices: bool
    rows: object | None = None
    """Identity of the rows: equal objects for arrays that a function under `sparsify` made of one array."""

    def __init__(
        self,
        args: tuple[Any, Any],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> None:
        self.data, self.indices = map(jnp.asarray, args)
        self.indices_sorted, self.unique_indices = bool(indices_sorted), bool(unique_indices)
        super().__init__(args, shape=shape)
        layout_of(self.data, self.indices, self.shape)

    @property
    def nse(self) -> int:
        return self.indices.shape[-2]

    @property
    def n_batch(self) -> int:
        """The number of batch dimensions."""
        return self.indices.ndim - 2

    @property
    def n_sparse(self) -> int:
        """The number of sparse dimensions."""
        return self.indices.shape[-1]

    @property
    def n_dense(self) -> int:
        """The number of dense dimensions."""
        return self.data.ndim + 1 - self.indices.ndim

    @property
    def info(self) -> SparseInfo:
        """The static data of the array."""
        return SparseInfo(self.shape, self.indices_sorted, self.unique_indices)

    def layout(self) -> dict[str, int]:
        return {"n_batch": self.n_batch, "n_dense": self.n_dense}

    def dims(self) -> SparseDimensions:
        """The layout of the buffers."""
        return SparseDimensions(self.n_batch, self.n_sparse, self.n_dense, self.nse)

    @classmethod
    def fromdense(
        cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32, n_dense: int = 0, n_batch: int = 0
    ) -> BCOO:  # fmt: skip
        """The array with the elements of `mat` other than zero; as `bcoo_fromdense`."""
        return bcoo_fromdense(
            mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch
        )

    @classmethod
    def from_scipy_sparse(
        cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0
    ) -> BCOO:
        """The array with the elements that a matrix of `scipy.sparse` stores.

        Raises: UnsupportedError for batch or dense dimensions.
        """
        if n_dense or n_batch:
            raise UnsupportedError("BCOO.from_scipy_sparse makes no batch or dense dimensions.")
        coo = mat.tocoo()
        indices = jnp.column_stack((coo.row, coo.col)).astype(index_dtype or np.int32)
        return cls((coo.data, indices), shape=coo.shape)

    @classmethod
    def _empty(
        cls, shape: Any, *, dtype: Any = None, index_dtype: Any = "int32", n_dense: int = 0, n_batch: int = 0, nse: int = 0
    ) -> BCOO:  # fmt: skip
        n_sparse = len(shape) - n_batch - n_dense
        if n_sparse < 0 or min(n_dense, n_batch, nse) < 0:
            raise ArgumentValueError(
                "sparse.empty: the dimensions don't make up the shape.",
                got=f"shape: {tuple(shape)}, n_batch: {n_batch}, n_dense: {n_dense}, nse: {nse}",
            )
        batch, sparse, dense = SparseDimensions(n_batch, n_sparse, n_dense, nse).split(shape)
        rows = jnp.broadcast_to(jnp.asarray(sparse, index_dtype), (*batch, nse, n_sparse))
        data = jnp.zeros((*batch, nse, *dense), dtype)
        return cls((data, rows), shape=shape, indices_sorted=True, unique_indices=True)

    @classmethod
    def _eye(
        cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = "int32", n_batch: int = 0, n_dense: int = 0
    ) -> BCOO:  # fmt: skip
        if not 0 <= n_batch + n_dense <= 2 or min(n_batch, n_dense) < 0:
            raise ArgumentValueError(
                "sparse.eye: at most two dimensions can be batch or dense ones.",
                got=f"n_batch: {n_batch}, n_dense: {n_dense}",
            )
        nse = max(0, min(M, N + k) - max(0, k))
        if n_batch + n_dense:
            nse = 1 if n_batch or n_dense > 1 else nse
            dense = jnp.eye(N, M, k, dtype=dtype)
            return bcoo_fromdense(
                dense, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype
            )
        diagonal = jnp.arange(nse, dtype=index_dtype)
        indices = jnp.stack([diagonal + max(0, -k), diagonal + max(0, k)], 1)
        data = jnp.ones(nse, dtype)
        return cls((data, indices), shape=(N, M), indices_sorted=True, unique_indices=True)

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCOO:
        """The array with one row for each place, in order; as `bcoo_sum_duplicates`.

        With `remove_zeros`, stored zeros are removed first.
        """
        mat = bcoo_eliminate_zeros(self, nse=self.nse) if remove_zeros else self
        return bcoo_sum_duplicates(mat, nse=nse)

    def sort_indices(self) -> BCOO:
        """The array with its rows in lexicographic order."""
        return bcoo_sort_indices(self)

    def todense(self) -> Any:
        return bcoo_todense(self)

    def transpose(self, axes: Sequence[int] | None = None) -> BCOO:
        """The array with its dimensions in the order `axes`, by default reversed.

        Raises: UnsupportedError where batch, sparse and dense dimensions would mix.
        """
        axes = range(self.ndim)[::-1] if axes is None else axes
        return bcoo_transpose(self, permutation=[*axes])

    def tree_flatten(self) -> tuple[tuple[Any, Any], dict[str, Any]]:
        """The buffers, and the static data by name."""
        return (self.data, self.indices), self.info._asdict()

    def _set_buffers(self, *buffers: Any) -> None:
        self.data, self.indices = buffers

    def element(self, dims: Any) -> BCOO:
        return self.with_shape(mapped_shape(self, dims, None))

    def stack(self, dims: Any, size: int) -> BCOO:
        return self.with_shape(mapped_shape(self, dims, size))


def checked_layout(mat: Any, caller: str, name: str = "mat") -> SparseDimensions:
    """The layout of `mat`; ArgumentTypeError unless it is a BCOO array."""
    if not isinstance(mat, BCOO):
        raise ArgumentTypeError(
            f"{caller} needs BCOO arrays.",
            got=f"{name}: {type(mat).__name__}",
            do="Convert it with `BCOO.fromdense` or, from other formats, `to_bcoo`.",
        )
    return layout_of(mat.data, mat.indices, mat.shape)


# To dense and back ------------------------------------------------------------------------------------------


def _todense(data: Any, indices: Any, *, spinfo: SparseInfo) -> Any:
    batch, sparse, _ = layout_of(data, indices, spinfo.shape).split(spinfo.shape)

    def element(data: Any, indices: Any) -> Any:
        return scatter_rows(data, indices, sparse)

    return over_batch(element, batch, data, indices)


bcoo_todense_p = SparseOperation("bcoo_todense", _todense)


def bcoo_todense(mat: BCOO) -> Any:
    """The dense array of a BCOO array.

    >>> bcoo_todense(BCOO(([2.0, 3.0], [[1], [1]]), shape=(3,)))
    Array([0., 5., 0.], dtype=float32)
    """
    checked_layout(mat, "bcoo_todense")
    return bcoo_todense_p.bind(mat.data, mat.indices, spinfo=mat.info)


def _elements_at(indices: Any, mat: Any) -> Any:
    """Elements of `mat` at rows of indices; without sparse dimensions, the first row has all of it."""
    data = gather_rows(mat, indices)
    return data if indices.shape[1] else zero_dropped_elements(data, jnp.arange(len(data)) == 0)


def _extract(indices: Any, mat: Any, *, assume_unique: bool) -> Any:
    batch, shape = mat.shape[: indices.ndim - 2], mat.shape[indices.ndim - 2 :]

    def element(indices: Any, mat: Any) -> Any:
        data = _elements_at(indices, mat)
        if assume_unique:
            return data
        _, permutation, numbers = groups(indices, shape[: indices.shape[1]])
        repeats = jnp.concatenate(
            [jnp.zeros(min(len(numbers), 1), bool), numbers[1:] == numbers[:-1]]
        )
        return zero_dropped_elements(data, jnp.ones(len(data), bool).at[permutation].set(~repeats))  # fmt: skip

    return over_batch(element, batch, indices, mat)


bcoo_extract_p = SparseOperation("bcoo_extract", _extract)


def bcoo_extract(sparr: BCOO, arr: Any, *, assume_unique: bool | None = None) -> BCOO:
    """The elements of the dense array `arr` at the rows of `sparr`, as a BCOO array.

    Of equal rows the first gets the element and the others zero, unless `assume_unique` (by default
    `sparr.unique_indices`): then all do.

    Raises: ShapeError for arrays of different shapes.

    >>> from pellucid.experimental import sparse
    >>> bcoo_extract(sparse.eye(2), jnp.arange(4.0).reshape(2, 2)).data
    Array([0., 3.], dtype=float32)
    """
    checked_layout(sparr, "bcoo_extract", "sparr")
    arr = jnp.asarray(arr)
    if arr.shape != sparr.shape:
        raise ShapeError(
            "bcoo_extract: the arrays have different shapes.",
            got=f"sparr: {sparr.shape}, arr: {arr.shape}",
        )
    unique = sparr.unique_indices if assume_unique is None else assume_unique
    data = bcoo_extract_p.bind(sparr.indices, arr, assume_unique=bool(unique))
    return BCOO((data, sparr.indices), **sparr.info._asdict())


def concrete(x: Any, what: str, do: str) -> int:
    """The integer `x`; ConcretizationTypeError where it is traced."""
    if isinstance(x, Tracer) and x.concrete() is None:
        raise ConcretizationTypeError(
            f"{what} depends on the values of the array, which are known only when the program runs.",
            do=do,
        )
    return int(x)


def _fromdense(mat: Any, *, nse: int, n_batch: int, n_dense: int, index_dtype: Any) -> Any:
    n_sparse = mat.ndim - n_batch - n_dense
    batch, sparse, _ = SparseDimensions(n_batch, n_sparse, n_dense, nse).split(mat.shape)

    def element(mat: Any) -> Any:
        stored = (mat != 0).any(axis=tuple(range(n_sparse, mat.ndim))).reshape(-1)
        (flat,) = jnp.nonzero(stored, size=nse, fill_value=stored.size)
        indices = coordinates(flat, sparse).astype(index_dtype)
        return _elements_at(indices, mat), indices

    return over_batch(element, batch, mat)


bcoo_fromdense_p = SparseOperation("bcoo_fromdense", _fromdense, returns_list=True)


def bcoo_fromdense(
    mat: Any, *, nse: int | None = None, n_batch: int = 0, n_dense: int = 0, index_dtype: Any = np.int32
) -> BCOO:  # fmt: skip
    """A BCOO array with the elements of `mat` other than zero.

    `nse` is the number of rows for each batch: if there are more elements, the last are left out; if there are fewer,
    the rest is padding. By default it is the smallest that has room for all, and `mat` must not be traced.

    Raises: ArgumentValueError for numbers of dimensions that `mat` doesn't have; ConcretizationTypeError for traced arrays
    without `nse`.

    >>> bcoo_fromdense(jnp.array([[0.0, 1.0], [2.0, 0.0]])).indices
    Array([[0, 1],
           [1, 0]], dtype=int32)
    """
    mat = jnp.asarray(mat)
    n_sparse = mat.ndim - n_batch - n_dense
    if n_sparse < 0 or n_batch < 0 or n_dense < 0:
        raise ArgumentValueError(
            "bcoo_fromdense: the array has fewer dimensions.",
            got=f"{mat.ndim} dimensions, n_batch: {n_batch}, n_dense: {n_dense}",
        )
    if nse is None:
        stored = (mat != 0).any(axis=tuple(range(n_batch + n_sparse, mat.ndim)))
        count = stored.sum(axis=tuple(range(n_batch, n_batch + n_sparse))).max(initial=0)
        nse = concrete(count, "bcoo_fromdense: the number of stored elements", "Give `nse`.")
    data, indices = bcoo_fromdense_p.bind(
        mat, nse=int(nse), n_batch=n_batch, n_dense=n_dense, index_dtype=np.dtype(index_dtype)
    )
    return BCOO((data, indices), shape=mat.shape, indices_sorted=True, unique_indices=True)


# Order of rows and dimensions -------------------------------------------------------------------------------


def _sort(data: Any, indices: Any, *, spinfo: SparseInfo) -> Any:
    batch, _, _ = layout_of(data, indices, spinfo.shape).split(spinfo.shape)

    def element(data: Any, indices: Any) -> Any:
        new_indices, permutation = sorted_rows(indices)
        return data[permutation], new_indices

    return over_batch(element, batch, data, indices)


bcoo_sort_indices_p = SparseOperation("bcoo_sort_indices", _sort, returns_list=True)


def bcoo_sort_indices(mat: BCOO) -> BCOO:
    """The array with its rows in lexicographic order; equal rows stay in their order.

    >>> bcoo_sort_indices(BCOO(([1.0, 2.0], [[2], [0]]), shape=(3,))).data
    Array([2., 1.], dtype=float32)
    """
    checked_layout(mat, "bcoo_sort_indices")
    buffers = bcoo_sort_indices_p.bind(mat.data, mat.indices, spinfo=mat.info)
    return BCOO(
        tuple(buffers), shape=mat.shape, indices_sorted=True, unique_indices=mat.unique_indices
    )


def _sum_duplicates(data: Any, indices: Any, *, spinfo: SparseInfo, nse: int) -> Any:
    batch, sparse, _ = layout_of(data, indices, spinfo.shape).split(spinfo.shape)

    def element(data: Any, indices: Any) -> Any:
        if not nse:
            return data[:0], indices[:0]
        sorted_indices, permutation, numbers = groups(indices, sparse)
        data = zero_dropped_elements(data, in_bounds(indices, sparse))[permutation]
        empty = jnp.broadcast_to(jnp.asarray(sparse, indices.dtype), (nse, len(sparse)))
        sums = scatter_rows(data, numbers[:, None], (nse,))
        return sums, empty.at[numbers].set(sorted_indices, mode="drop")

    return over_batch(element, batch, data, indices)


bcoo_sum_duplicates_p = SparseOperation("bcoo_sum_duplicates", _sum_duplicates, returns_list=True)


def bcoo_sum_duplicates(mat: BCOO, nse: int | None = None) -> BCOO:
    """The array with its rows in order, where elements of equal rows are added.

    `nse` is the number of rows of the result: if there are more places, the last are left out; if there are fewer, the
    rest is padding. By default it is the largest number of places in a batch, and `mat` must not be traced.

    Raises: ConcretizationTypeError for traced arrays without `nse`.

    >>> bcoo_sum_duplicates(BCOO(([1.0, 2.0, 4.0], [[2], [0], [2]]), shape=(3,))).data
    Array([2., 5.], dtype=float32)
    """
    layout = checked_layout(mat, "bcoo_sum_duplicates")
    if nse is None:
        batch, sparse, _ = layout.split(mat.shape)

        def places(indices: Any) -> Any:
            sorted_indices, _, numbers = groups(indices, sparse)
            return jnp.max(numbers + 1, initial=0, where=in_bounds(sorted_indices, sparse))

        counts = over_batch(places, batch, mat.indices).max(initial=0)
        nse = concrete(counts, "bcoo_sum_duplicates: the number of distinct rows", "Give `nse`.")
    buffers = bcoo_sum_duplicates_p.bind(mat.data, mat.indices, spinfo=mat.info, nse=int(nse))
    return BCOO(tuple(buffers), shape=mat.shape, indices_sorted=True, unique_indices=True)


def bcoo_eliminate_zeros(mat: BCOO, nse: int | None = None) -> BCOO:
    """The array without stored zeros, and with rows in order and distinct; `nse` as for `bcoo_sum_duplicates`.

    >>> bcoo_eliminate_zeros(BCOO(([1.0, 0.0], [[2], [0]]), shape=(3,)))
    BCOO(float32[3], nse=1)
    """
    layout = checked_layout(mat, "bcoo_eliminate_zeros")
    _, sparse, _ = layout.split(mat.shape)
    n = layout.n_batch
    stored = (mat.data != 0).any(axis=tuple(range(n + 1, mat.data.ndim)))
    indices = pad_rows(mat.indices, stored, sparse)
    return bcoo_sum_duplicates(BCOO((mat.data, indices), shape=mat.shape), nse=nse)


def _transpose(data: Any, indices: Any, *, permutation: Sequence[int], spinfo: SparseInfo) -> Any:
    layout = layout_of(data, indices, spinfo.shape)
    n, m = layout.n_batch, layout.n_sparse
    batch, sparse, dense = layout.split(permutation)
    return (
        data.transpose(*batch, n, *(d - m + 1 for d in dense)),
        indices.transpose(*batch, n, n + 1)[..., np.array(sparse, int) - n],
    )


bcoo_transpose_p = SparseOperation("bcoo_transpose", _transpose, returns_list=True)


def bcoo_transpose(mat: BCOO, *, permutation: Sequence[int]) -> BCOO:
    """The array with its dimensions permuted, each among those of its kind: batch, sparse or dense.

    Raises: ArgumentTypeError for anything that isn't a permutation, UnsupportedError for one that mixes kinds of dimensions.

    >>> bcoo_transpose(BCOO(([2.0], [[0, 1]]), shape=(1, 2)), permutation=(1, 0)).indices
    Array([[1, 0]], dtype=int32)
    """
    layout = checked_layout(mat, "bcoo_transpose")
    permutation = tuple([int(p) for p in permutation])
    if sorted(permutation) != [*range(mat.ndim)]:
        raise ArgumentTypeError(
            "bcoo_transpose: permutation must name each dimension once.",
            got=f"permutation: {permutation}, {mat.ndim} dimensions",
        )
    if permutation == tuple(range(mat.ndim)):
        return mat
    parts = layout.split(permutation), layout.split(range(mat.ndim))
    if any(sorted(new) != [*old] for new, old in zip(*parts, strict=True)):
        raise UnsupportedError(
            "bcoo_transpose: batch, sparse and dense dimensions can't be mixed.",
            got=f"permutation: {permutation}, {mat!r}",
            do="Use `update_layout` before.",
        )
    buffers = bcoo_transpose_p.bind(mat.data, mat.indices, permutation=permutation, spinfo=mat.info)
    is_sorted = mat.indices_sorted and parts[0][1] == parts[1][1]
    shape = [mat.shape[p] for p in permutation]
    return BCOO(
        tuple(buffers), shape=shape, indices_sorted=is_sorted, unique_indices=mat.unique_indices
    )


__all__ = [
    "BCOO",
    "SparseInfo",
    "bcoo_eliminate_zeros",
    "bcoo_extract",
    "bcoo_extract_p",
    "bcoo_fromdense",
    "bcoo_fromdense_p",
    "bcoo_sort_indices",
    "bcoo_sort_indices_p",
    "bcoo_sum_duplicates",
    "bcoo_sum_duplicates_p",
    "bcoo_todense",
    "bcoo_todense_p",
    "bcoo_transpose",
    "bcoo_transpose_p",
]

public_functions(__all__, globals())
