"""Changes of layout: sparse dimensions of a BCOO array become batch or dense ones, and back."""

from __future__ import annotations

import math
import warnings
from typing import Any

from pellucid import numpy as jnp
from pellucid._machine.base import public_functions
from pellucid._machine.base.errors import ArgumentValueError
from pellucid.experimental.sparse.base import SparseEfficiencyError, SparseEfficiencyWarning
from pellucid.experimental.sparse.coordinates import BCOO, checked_layout
from pellucid.experimental.sparse.indices import columns, in_bounds, pad_rows, zero_dropped_elements
from pellucid.experimental.sparse.operation import over_batch, stretch_batch


def bcoo_update_layout(
    mat: BCOO,
    *,
    n_batch: int | None = None,
    n_dense: int | None = None,
    on_inefficient: str | None = "error",
) -> BCOO:
    """The array with other numbers of batch and dense dimensions.

    Each sparse dimension that becomes a batch dimension repeats all rows along it, and one that becomes dense stores
    its zeros. `on_inefficient` says what happens then: "error", "warn" or None.

    Raises: SparseEfficiencyError for such layouts, ArgumentValueError for numbers that the array hasn't room for.

    >>> bcoo_update_layout(BCOO.fromdense(jnp.ones((2, 3)), n_batch=1), n_batch=0)
    BCOO(float32[2, 3], nse=6)
    """
    layout = checked_layout(mat, "bcoo_update_layout")
    n_batch = layout.n_batch if n_batch is None else int(n_batch)
    n_dense = layout.n_dense if n_dense is None else int(n_dense)
    if min(n_batch, n_dense) < 0 or n_batch + n_dense > mat.ndim:
        raise ArgumentValueError(
            "update_layout: the dimensions don't make up the shape.",
            got=f"{mat!r}, n_batch: {n_batch}, n_dense: {n_dense}",
        )
    if on_inefficient not in ("error", "warn", None):
        raise ArgumentValueError(
            'update_layout: on_inefficient must be "error", "warn" or None.',
            got=f"on_inefficient: {on_inefficient!r}",
        )
    if (n_batch, n_dense) == (layout.n_batch, layout.n_dense):
        return mat
    shape = mat.shape
    for name, old, new, sizes in (
        ("n_batch", layout.n_batch, n_batch, shape[layout.n_batch : n_batch]),
        ("n_dense", layout.n_dense, n_dense, shape[mat.ndim - n_dense : mat.ndim - layout.n_dense]),
    ):
        if new > old and math.prod(sizes) > 1:
            message = (
                f"raising {name} from {old} to {new} stores many more elements than {mat!r} has."
            )
            if on_inefficient == "error":
                raise SparseEfficiencyError(f"{message} Give on_inefficient to allow it.")
            if on_inefficient == "warn":
                warnings.warn(message, SparseEfficiencyWarning, stacklevel=2)
    if n_dense < layout.n_dense:
        mat = _dense_to_sparse(mat, layout.n_dense - n_dense)
    if n_batch < layout.n_batch:
        mat = _batch_to_sparse(mat, layout.n_batch - n_batch)
    if n_dense > layout.n_dense:
        mat = _sparse_to_dense(mat, n_dense - layout.n_dense)
    if n_batch > layout.n_batch:
        mat = _sparse_to_batch(mat, n_batch - layout.n_batch)
    return mat


def _over(mat: BCOO, function: Any, n_batch: int) -> BCOO:
    """The BCOO array of the buffers that `function` gives for elements over the first `n_batch` dimensions."""
    buffers = over_batch(function, mat.shape[:n_batch], mat.data, mat.indices)
    return BCOO(tuple(buffers), shape=mat.shape)


def _positions(shape: tuple[int, ...], dtype: Any) -> list[Any]:
    """For each dimension of `shape`, an array of the positions along it."""
    return [
        jnp.broadcast_to(jnp.arange(n, dtype=dtype).reshape(-1, *[1] * (len(shape) - 1 - i)), shape)
        for i, n in enumerate(shape)
    ]


def _dense_to_sparse(mat: BCOO, n: int) -> BCOO:
    """`mat` with its first `n` dense dimensions turned into its last sparse ones."""
    nse, first = mat.nse, mat.n_batch + mat.n_sparse
    sizes = mat.shape[first : first + n]

    def element(data: Any, indices: Any) -> Any:
        full = (nse, *sizes)
        old = [jnp.broadcast_to(c.reshape(-1, *[1] * n), full) for c in columns(indices)]
        new = jnp.stack([*old, *_positions(full, indices.dtype)[1:]], -1)
        new = new.reshape(-1, new.shape[-1])
        return data.reshape(len(new), *data.shape[1 + n :]), new

    return _over(mat, element, mat.n_batch)


def _batch_to_sparse(mat: BCOO, n: int) -> BCOO:
    """`mat` with its last `n` batch dimensions turned into its first sparse ones."""
    n_batch = mat.n_batch - n
    sizes, sparse = mat.shape[n_batch : mat.n_batch], mat.dims().split(mat.shape)[1]
    buffers = [stretch_batch(x, mat.shape[: mat.n_batch]) for x in (mat.data, mat.indices)]

    def element(data: Any, indices: Any) -> Any:
        old = columns(indices)
        new = jnp.stack([*_positions(indices.shape[:-1], indices.dtype)[:n], *old], -1)
        new = pad_rows(new, in_bounds(indices, sparse), (*sizes, *sparse)).reshape(
            -1, new.shape[-1]
        )
        return data.reshape(len(new), *data.shape[n + 1 :]), new

    return BCOO(tuple(over_batch(element, mat.shape[:n_batch], *buffers)), shape=mat.shape)


def _sparse_to_dense(mat: BCOO, n: int) -> BCOO:
    """`mat` with its last `n` sparse dimensions turned into its first dense ones."""
    n_rest = mat.n_sparse - n
    first = mat.n_batch + n_rest
    sizes = mat.shape[first : first + n]

    def element(data: Any, indices: Any) -> Any:
        here = jnp.ones((len(data), *sizes), bool)
        for column, place in zip(
            columns(indices)[n_rest:], _positions(here.shape, indices.dtype)[1:], strict=True
        ):
            here = here & (column.reshape(-1, *[1] * n) == place)
        stretched = data.reshape(len(data), *[1] * n, *data.shape[1:])
        shape = (len(data), *sizes, *data.shape[1:])
        return zero_dropped_elements(jnp.broadcast_to(stretched, shape), here), indices[:, :n_rest]  # fmt: skip

    return _over(mat, element, mat.n_batch)


def _sparse_to_batch(mat: BCOO, n: int) -> BCOO:
    """`mat` with its first `n` sparse dimensions turned into its last batch ones."""
    sizes = mat.shape[mat.n_batch : mat.n_batch + n]
    rest = mat.shape[mat.n_batch + n : mat.n_batch + mat.n_sparse]

    def element(data: Any, indices: Any) -> Any:
        shape = (*sizes, len(data))
        places, here = _positions(shape, indices.dtype)[:n], jnp.ones(shape, bool)
        for column, place in zip(columns(indices), places, strict=False):
            here = here & (column == place)
        new = jnp.broadcast_to(indices[:, n:], (*shape, len(rest)))
        return zero_dropped_elements(jnp.broadcast_to(data, (*sizes, *data.shape)), here), pad_rows(
            new, here, rest
        )

    return _over(mat, element, mat.n_batch)


__all__ = ["bcoo_update_layout"]

public_functions(__all__, globals())
