"""Coordinates of stored elements: rows of integers, where one outside of its dimension makes the row padding."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

from pellucid import lax, numpy as jnp
from pellucid._machine.base import public_functions
from pellucid._machine.base.errors import ArgumentValueError


def columns(indices: Any) -> list[Any]:
    """The columns of `indices` [..., nse, n_sparse]: one array [..., nse] for each sparse dimension."""
    return [indices[..., i] for i in range(indices.shape[-1])]


def rows(columns: Sequence[Any], like: Any) -> Any:
    """Indices [..., nse, n_sparse] of columns [..., nse], in the dtype of the indices `like`."""
    if not columns:
        return jnp.zeros((*like.shape[:-1], 0), like.dtype)
    return jnp.stack(columns, -1).astype(like.dtype)


def in_bounds(indices: Any, sizes: Sequence[int]) -> Any:
    """Mask [..., nse] of the rows of `indices` [..., nse, n_sparse] that aren't padding."""
    checks = [(c >= 0) & (c < n) for c, n in zip(columns(indices), sizes, strict=True)]
    return functools.reduce(operator.and_, checks, jnp.ones(indices.shape[:-1], bool))


def pad_rows(indices: Any, keep: Any, sizes: Sequence[int]) -> Any:
    """`indices` with `sizes` in all rows but those that `keep` [..., nse]."""
    masked = [jnp.where(keep, c, n) for c, n in zip(columns(indices), sizes, strict=True)]
    return rows(masked, indices)


def zero_dropped_elements(data: Any, keep: Any) -> Any:
    """`data` [..., nse, *dense] with zeros for the elements that `keep` [..., nse] doesn't keep.

    Batch dimensions of size 1 of either are stretched.
    """
    keep = keep.reshape(*keep.shape, *[1] * (data.ndim - keep.ndim))
    return jnp.where(keep, data, jnp.zeros((), data.dtype))


def gather_rows(mat: Any, indices: Any) -> Any:
    """Elements [nse, *rest] of `mat` [*sizes, *rest] at rows of indices [nse, len(sizes)]; zeros at padding."""
    n, m = indices.shape
    rest = mat.shape[m:]
    if not m:
        return jnp.broadcast_to(mat, (n, *rest))
    numbers = lax.GatherDimensionNumbers(
        offset_dims=tuple(range(1, 1 + len(rest))),
        collapsed_slice_dims=tuple(range(m)),
        start_index_map=tuple(range(m)),
    )
    sizes = (*[min(1, size) for size in mat.shape[:m]], *rest)
    if 0 in sizes[:m]:
        return jnp.zeros((n, *rest), mat.dtype)
    return lax.gather(mat, indices, numbers, sizes, mode="fill", fill_value=0)


def scatter_rows(data: Any, indices: Any, sizes: Sequence[int]) -> Any:
    """Sums [*sizes, *rest] of `data` [nse, *rest] over equal rows of indices [nse, len(sizes)], without padding.

    Sums of bools are true where one is.
    """
    rest, m = data.shape[1:], indices.shape[1]
    is_bool = data.dtype == bool
    if not m:
        return data.any(0) if is_bool else data.sum(0, dtype=data.dtype)
    zeros = jnp.zeros((*sizes, *rest), data.dtype)
    if 0 in sizes:
        return zeros
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=tuple(range(1, 1 + len(rest))),
        inserted_window_dims=tuple(range(m)),
        scatter_dims_to_operand_dims=tuple(range(m)),
    )
    scatter = lax.scatter_max if is_bool else lax.scatter_add
    return scatter(zeros, indices, data, numbers, mode="drop")


def flat_positions(indices: Any, sizes: Sequence[int]) -> Any:
    """Positions [..., nse] in row-major order in an array of shape `sizes`; its size for padding.

    Raises: ArgumentValueError where the dtype of the indices can't hold them.
    """
    size = math.prod(sizes)
    if size > jnp.iinfo(indices.dtype).max:
        raise ArgumentValueError(
            "positions in a sparse array exceed the range of its indices.",
            got=f"{size} elements in the sparse dimensions, indices of dtype {indices.dtype}",
            do="Use indices of a wider dtype.",
        )
    flat = jnp.zeros(indices.shape[:-1], indices.dtype)
    for column, n in zip(columns(indices), sizes, strict=True):
        flat = flat * n + column
    return jnp.where(in_bounds(indices, sizes), flat, size)


def coordinates(flat: Any, sizes: Sequence[int]) -> Any:
    """Rows of indices [..., nse, len(sizes)] of positions in row-major order; `sizes` for those out of bounds."""
    rest, reverse = flat, []
    for n in reversed(sizes):
        reverse.append(rest % max(n, 1))
        rest = rest // max(n, 1)
    indices = rows(reverse[::-1], jnp.zeros((*flat.shape, 0), flat.dtype))
    return pad_rows(indices, flat < math.prod(sizes), sizes)


def sorted_rows(indices: Any) -> tuple[Any, Any]:
    """`indices` [nse, n_sparse] in lexicographic order, and the permutation [nse] that sorts them."""
    nse = indices.shape[0]
    order = jnp.arange(nse, dtype="int32")
    if not indices.shape[1]:
        return indices, order
    *sorted_columns, permutation = lax.sort(
        (*columns(indices), order), dimension=0, num_keys=indices.shape[1]
    )
    return rows(sorted_columns, indices), permutation


def groups(indices: Any, sizes: Sequence[int]) -> tuple[Any, Any, Any]:
    """(sorted rows, permutation, group numbers [nse]) of `indices`: equal rows have one number, padding the highest."""
    keep = in_bounds(indices, sizes)
    sorted_indices, permutation = sorted_rows(pad_rows(indices, keep, sizes))
    changes = [c[1:] != c[:-1] for c in columns(sorted_indices)]
    differs = functools.reduce(operator.or_, changes, jnp.zeros(max(len(keep) - 1, 0), bool))
    first = jnp.zeros(min(len(keep), 1), "int32")
    return sorted_indices, permutation, jnp.concatenate([first, jnp.cumsum(differs, dtype="int32")])


__all__ = [
    "columns",
    "coordinates",
    "flat_positions",
    "gather_rows",
    "groups",
    "in_bounds",
    "pad_rows",
    "rows",
    "scatter_rows",
    "sorted_rows",
    "zero_dropped_elements",
]

public_functions(__all__, globals())
