"""Creation of sparse arrays: empty ones, identities, random ones; and their dense arrays."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid import numpy as jnp, random
from pellucid._machine.base import public_functions
from pellucid._machine.base.errors import ArgumentValueError
from pellucid._machine.base.tree import tree_flatten
from pellucid._machine.transforms.vmap import vmap
from pellucid.experimental.sparse.base import JAXSparse
from pellucid.experimental.sparse.bcsr import BCSR
from pellucid.experimental.sparse.compressed import COO, CSC, CSR
from pellucid.experimental.sparse.coordinates import BCOO, SparseDimensions
from pellucid.experimental.sparse.indices import coordinates
from pellucid.experimental.sparse.operation import SparseOperation

FORMATS: dict[str, type[JAXSparse]] = {
    "bcoo": BCOO,
    "bcsr": BCSR,
    "coo": COO,
    "csr": CSR,
    "csc": CSC,
}


def _todense(*buffers: Any, tree: Any) -> Any:
    array = tree.unflatten(buffers)
    return array.todense() if isinstance(array, JAXSparse) else array


todense_p = SparseOperation("todense", _todense)


def todense(arr: Any) -> Any:
    """The dense array of a sparse one; other arrays as they are.

    >>> todense(eye(2))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    buffers, tree = tree_flatten(arr)
    return todense_p.bind(*buffers, tree=tree)


def _format(sparse_format: str) -> type[JAXSparse]:
    if sparse_format not in FORMATS:
        raise ArgumentValueError(
            f"there is no sparse format {sparse_format!r}.", do=f"Choose one of {', '.join(FORMATS)}."
        )  # fmt: skip
    return FORMATS[sparse_format]


def empty(
    shape: Sequence[int],
    dtype: Any = None,
    index_dtype: Any = "int32",
    sparse_format: str = "bcoo",
    **kwds: Any,
) -> Any:
    """A sparse array without stored elements, in the format "bcoo", "bcsr", "coo", "csr" or "csc".

    BCOO and BCSR take `n_batch`, `n_dense` and `nse`, the number of rows of padding, too.

    >>> empty((2, 3))
    BCOO(float32[2, 3], nse=0)
    """
    kind = _format(sparse_format)
    return kind._empty(tuple(shape), dtype=dtype, index_dtype=index_dtype, **kwds)


def eye(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: Any = None,
    index_dtype: Any = "int32",
    sparse_format: str = "bcoo",
    **kwds: Any,
) -> Any:
    """A sparse matrix [N, M] with ones on the diagonal `k`, in a format as `empty` takes it.

    >>> eye(2, 3, k=1).todense()
    Array([[0., 1., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    kind = _format(sparse_format)
    M = N if M is None else M
    return kind._eye(
        operator.index(N), operator.index(M), operator.index(k), dtype=dtype, index_dtype=index_dtype, **kwds
    )  # fmt: skip


def random_bcoo(
    key: Any,
    shape: Sequence[int],
    *,
    dtype: Any = np.float64,
    indices_dtype: Any = None,
    nse: float = 0.2,
    n_batch: int = 0,
    n_dense: int = 0,
    unique_indices: bool = True,
    sorted_indices: bool = False,
    generator: Callable[..., Any] = random.uniform,
    **kwds: Any,
) -> BCOO:
    """A BCOO array with random rows, and data from `generator(key, shape=..., dtype=..., **kwds)`.

    `nse` is the number of rows for each batch, or below 1 the share of all places. The rows are distinct if
    `unique_indices`, and in order if `sorted_indices`.

    Raises: ArgumentValueError for numbers of rows or dimensions that don't fit the shape.

    >>> random_bcoo(pl.random.key(0), (4, 5), nse=3, dtype=np.float32)
    BCOO(float32[4, 5], nse=3)
    """
    shape = tuple([operator.index(n) for n in shape])
    n_sparse = len(shape) - n_batch - n_dense
    if min(n_batch, n_dense, n_sparse) < 0:
        raise ArgumentValueError(
            "random_bcoo: the dimensions don't make up the shape.",
            got=f"shape: {shape}, n_batch: {n_batch}, n_dense: {n_dense}",
        )
    batch, sparse, dense = SparseDimensions(n_batch, n_sparse, n_dense, 0).split(shape)
    size = math.prod(sparse)
    if not 0 <= nse < size:
        raise ArgumentValueError(
            "random_bcoo: nse must be below the number of places.",
            got=f"nse: {nse}, {size} places",
        )
    n_rows = math.ceil(nse * size) if 0 < nse < 1 else operator.index(int(nse))
    index_dtype = np.dtype(jnp.asarray(0).dtype if indices_dtype is None else indices_dtype)
    if size > jnp.iinfo(index_dtype).max:
        raise ArgumentValueError(
            "random_bcoo: positions exceed the range of the indices.",
            got=f"{size} places, indices_dtype: {index_dtype}",
        )

    def rows_of(key: Any) -> Any:
        if not sparse:
            return jnp.zeros((n_rows, 0), index_dtype)
        flat = random.choice(key, size, shape=(n_rows,), replace=not unique_indices)
        return coordinates(flat.astype(index_dtype), sparse)

    keys = random.split(key, math.prod(batch) + 1)
    data = generator(keys[0], shape=(*batch, n_rows, *dense), dtype=dtype, **kwds)
    indices = vmap(rows_of)(keys[1:]).reshape(*batch, n_rows, n_sparse)
    mat = BCOO((data, indices), shape=shape)
    return mat.sort_indices() if sorted_indices else mat


__all__ = ["empty", "eye", "random_bcoo", "todense", "todense_p"]

public_functions(__all__, globals())
