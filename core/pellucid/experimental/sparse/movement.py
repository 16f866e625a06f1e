"""BCOO arrays in other shapes: broadcasts, reshapes, slices and sums along dimensions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from pellucid import lax, numpy as jnp
from pellucid._machine.base import public_functions
from pellucid._machine.base.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    AxisError,
    ShapeError,
    UnsupportedError,
)
from pellucid._machine.transforms.vmap import vmap
from pellucid.experimental.sparse.coordinates import (
    BCOO,
    bcoo_sum_duplicates,
    bcoo_transpose,
    checked_layout,
)
from pellucid.experimental.sparse.indices import (
    columns,
    coordinates,
    flat_positions,
    in_bounds,
    pad_rows,
    rows,
    zero_dropped_elements,
)
from pellucid.experimental.sparse.layouts import bcoo_update_layout
from pellucid.experimental.sparse.operation import stretch_batch


def with_batch(mat: BCOO) -> tuple[Any, Any]:
    """The buffers of `mat` with batch dimensions of full size."""
    batch = mat.shape[: mat.n_batch]
    return stretch_batch(mat.data, batch), stretch_batch(mat.indices, batch)


def without_padding(mat: BCOO) -> Any:
    """The data of `mat` with zeros for padding, whose indices may be changed after that."""
    _, sparse, _ = mat.dims().split(mat.shape)
    keep = in_bounds(mat.indices, sparse)
    return zero_dropped_elements(mat.data, keep)


def axes_of(axes: Sequence[int], ndim: int, caller: str) -> tuple[int, ...]:
    """`axes` counted from the front; AxisError for those that aren't there or occur twice."""
    front = tuple([int(a) % ndim if -ndim <= a < ndim else -1 for a in axes])
    if -1 in front or len({*front}) < len(front):
        raise AxisError(
            f"{caller}: these aren't distinct dimensions of the array.",
            got=f"{tuple(axes)}, {ndim} dimensions",
        )
    return front


def bcoo_reduce_sum(mat: BCOO, *, axes: Sequence[int]) -> BCOO:
    """The sums over the dimensions `axes`: the index columns of these are dropped, so that rows can occur twice.

    Raises: AxisError for dimensions that aren't there.

    >>> from pellucid.experimental import sparse
    >>> bcoo_reduce_sum(sparse.eye(3), axes=(0,)).todense()
    Array([1., 1., 1.], dtype=float32)
    """
    layout = checked_layout(mat, "bcoo_reduce_sum")
    axes = axes_of(axes, mat.ndim, "bcoo_reduce_sum")
    n, m = layout.n_batch, layout.n_batch + layout.n_sparse
    data, indices = mat.data, mat.indices
    if any(n <= axis < m for axis in axes):
        data = without_padding(mat)
        indices = rows([c for i, c in enumerate(columns(indices)) if i + n not in axes], indices)
    data = data.sum(
        tuple([axis - m + n + 1 for axis in axes if axis >= m]),
        dtype=None if data.dtype == bool else data.dtype,
    )
    merged = [axis for axis in range(n) if axis in axes]
    if merged:
        remaining = [axis for axis in range(n) if axis not in axes]
        batch = tuple([mat.shape[axis] for axis in remaining])
        nse = math.prod([mat.shape[axis] for axis in merged]) * mat.nse

        def merge_dims(x: Any) -> Any:
            full = stretch_batch(x, mat.shape[:n])
            moved = full.transpose(*remaining, *merged, *range(n, full.ndim))
            return moved.reshape(*batch, nse, *x.shape[n + 1 :])

        data, indices = merge_dims(data), merge_dims(indices)
    shape = [size for axis, size in enumerate(mat.shape) if axis not in axes]
    return BCOO((data, indices), shape=shape)


def bcoo_squeeze(arr: BCOO, *, dimensions: Sequence[int]) -> BCOO:
    """The array without its `dimensions`, which have size 1.

    Raises: ShapeError for dimensions of other sizes, AxisError for those that aren't there.

    >>> bcoo_squeeze(BCOO.fromdense(jnp.ones((1, 2))), dimensions=(0,))
    BCOO(float32[2], nse=2)
    """
    layout = checked_layout(arr, "bcoo_squeeze", "arr")
    dimensions = axes_of(dimensions, arr.ndim, "bcoo_squeeze")
    if any(arr.shape[d] != 1 for d in dimensions):
        raise ShapeError(
            "bcoo_squeeze: only dimensions of size 1 can be left out.",
            got=f"shape: {arr.shape}, dimensions: {dimensions}",
        )
    n, m = layout.n_batch, layout.n_batch + layout.n_sparse
    batch = [d for d in dimensions if d < n]
    is_sparse = any(n <= d < m for d in dimensions)
    data = without_padding(arr) if is_sparse else arr.data
    indices = arr.indices
    remaining = [c for i, c in enumerate(columns(indices)) if i + n not in dimensions]
    indices = rows(remaining, indices) if is_sparse else indices
    dense = [d - m + n + 1 for d in dimensions if d >= m]
    shape = [size for d, size in enumerate(arr.shape) if d not in dimensions]
    return BCOO((lax.squeeze(data, [*batch, *dense]), lax.squeeze(indices, batch)), shape=shape)


def bcoo_rev(operand: BCOO, dimensions: Sequence[int]) -> BCOO:
    """The array with its elements in reverse order along `dimensions`.

    >>> bcoo_rev(BCOO(([5.0], [[0]]), shape=(3,)), (0,)).todense()
    Array([0., 0., 5.], dtype=float32)
    """
    layout = checked_layout(operand, "bcoo_rev", "operand")
    dimensions = axes_of(dimensions, operand.ndim, "bcoo_rev")
    n, m = layout.n_batch, layout.n_batch + layout.n_sparse
    batch = [d for d in dimensions if d < n]
    _, sparse, _ = layout.split(operand.shape)
    keep = in_bounds(operand.indices, sparse)
    reverse = [
        size - 1 - c if i + n in dimensions else c
        for i, (c, size) in enumerate(zip(columns(operand.indices), sparse, strict=True))
    ]
    indices = pad_rows(rows(reverse, operand.indices), keep, sparse)
    data = lax.rev(operand.data, [*batch, *(d - m + n + 1 for d in dimensions if d >= m)])
    return BCOO((data, lax.rev(indices, batch)), shape=operand.shape)


def bcoo_broadcast_in_dim(
    mat: BCOO, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], sharding: Any = None
) -> BCOO:
    """The array in a larger shape, in which its dimensions stand at `broadcast_dimensions`.

    New dimensions before the sparse ones are batch dimensions, those after the sparse ones of an array with dense
    dimensions are dense; new dimensions among the sparse ones must have size 1.

    Raises: ShapeError for dimensions that don't fit, UnsupportedError for new sparse dimensions of other sizes.

    >>> from pellucid.experimental import sparse
    >>> bcoo_broadcast_in_dim(sparse.eye(2), shape=(3, 2, 2), broadcast_dimensions=(1, 2))
    BCOO(float32[3, 2, 2], nse=2, n_batch=1)
    """
    layout = checked_layout(mat, "bcoo_broadcast_in_dim")
    if sharding is not None:
        raise UnsupportedError("bcoo_broadcast_in_dim takes no sharding.", got=f"{sharding}")
    shape, places = tuple(shape), tuple(broadcast_dimensions)
    got = f"{mat!r}, shape: {shape}, broadcast_dimensions: {places}"
    sizes = [shape[p] for p in places if p < len(shape)]
    is_fitting = len(sizes) == mat.ndim and all(
        a in (1, b) for a, b in zip(mat.shape, sizes, strict=True)
    )
    if not is_fitting or sorted({*places}) != [*places]:
        raise ShapeError("bcoo_broadcast_in_dim: the shapes don't fit.", got=got)
    batch, sparse, dense = layout.split(places)
    n_batch = sparse[0] if sparse else len(shape) - layout.n_dense if not dense else dense[0]
    n_dense = (len(shape) - 1 - max(sparse)) if dense and sparse else len(shape) - n_batch
    n_dense = n_dense if dense else 0
    n_sparse = len(shape) - n_batch - n_dense
    old_sizes = {p: mat.shape[i] for i, p in enumerate(places)}
    middle = range(n_batch, n_batch + n_sparse)
    if any(shape[p] != old_sizes.get(p, 1) for p in middle):
        raise UnsupportedError(
            "bcoo_broadcast_in_dim: sparse dimensions can't be stretched.",
            got=got,
            do="Use `update_layout` to make them batch dimensions.",
        )

    def stretch_dims(x: Any, more: Sequence[int], more_places: Sequence[int]) -> Any:
        """`x` with new batch dimensions, and with the sizes `more` of the others."""
        sizes = [1] * n_batch
        for i, place in enumerate(batch):
            sizes[place] = x.shape[i]
        new = [p for p in range(n_batch) if p not in batch]
        for p in new:
            sizes[p] = shape[p]
        return lax.broadcast_in_dim(
            x, (*sizes, *more), (*batch, *(n_batch + p for p in more_places))
        )

    nse = layout.nse
    dense_places = [0, *(p - n_batch - n_sparse + 1 for p in dense)]
    data = stretch_dims(mat.data, (nse, *shape[n_batch + n_sparse :]), dense_places)
    indices = stretch_dims(mat.indices, (nse, layout.n_sparse), (0, 1))
    old = dict(zip(sparse, columns(indices), strict=True))
    keep = in_bounds(indices, layout.split(mat.shape)[1])
    new = [old.get(p, jnp.zeros(indices.shape[:-1], indices.dtype)) for p in middle]
    indices = rows(new, indices)
    if n_sparse > layout.n_sparse:
        indices = pad_rows(indices, keep, shape[n_batch : n_batch + n_sparse])
    return BCOO((data, indices), shape=shape)


def bcoo_concatenate(operands: Sequence[BCOO], *, dimension: int) -> BCOO:
    """BCOO arrays of one layout one after the other along a batch or sparse dimension; along batches, `nse` is the largest one.

    Raises: ArgumentValueError for what isn't a sequence of BCOO arrays, ShapeError for layouts and shapes that don't fit,
    UnsupportedError along dense dimensions.

    >>> from pellucid.experimental import sparse
    >>> bcoo_concatenate([sparse.eye(2), sparse.eye(2)], dimension=0)
    BCOO(float32[4, 2], nse=4)
    """
    operands = [*operands]
    if not operands or not all(isinstance(x, BCOO) for x in operands):
        raise ArgumentValueError(
            "bcoo_concatenate needs a sequence of BCOO arrays.",
            got=", ".join(type(x).__name__ for x in operands) or "no array",
        )
    first = operands[0]
    [dimension] = axes_of([dimension], first.ndim, "bcoo_concatenate")
    got = [repr(x) for x in operands]
    rest = {(*x.shape[:dimension], *x.shape[dimension + 1 :]) for x in operands}
    if len(rest) > 1:
        raise ShapeError(
            f"bcoo_concatenate: shapes differ in other dimensions than {dimension}.", got=got
        )
    layouts = [x.dims() for x in operands]
    if len({(x.n_batch, x.n_dense) for x in layouts}) > 1:
        raise ShapeError("bcoo_concatenate: batch or dense dimensions differ.", got=got)
    n_batch, n_sparse, *_ = layouts[0]
    sizes = [x.shape[dimension] for x in operands]
    shape = [*first.shape]
    shape[dimension] = sum(sizes)
    if dimension >= n_batch + n_sparse:
        raise UnsupportedError("bcoo_concatenate along dense dimensions.", got=got)
    if dimension < n_batch:
        # Batches one after the other need equally many rows: shorter arrays get padding.
        nse = max(x.nse for x in layouts)
        sparse_shape = first.shape[n_batch : n_batch + n_sparse]
        parts = [_with_rows(*with_batch(x), nse, sparse_shape) for x in operands]
        data, indices = map(list, zip(*parts, strict=True))
        axis = dimension
    else:
        # Along a sparse dimension rows come one after the other, and their indices begin where the array before ends.
        axis, data, indices = n_batch, [], []
        offsets = [0, *itertools.accumulate(sizes)]
        for x, offset in zip(operands, offsets, strict=False):
            full_data, full_indices = with_batch(x)
            keep = in_bounds(full_indices, x.shape[n_batch : n_batch + n_sparse])
            moved = columns(full_indices)
            moved[dimension - n_batch] = moved[dimension - n_batch] + offset
            new = pad_rows(rows(moved, full_indices), keep, shape[n_batch : n_batch + n_sparse])
            data.append(full_data)
            indices.append(new)
    return BCOO((jnp.concatenate(data, axis), jnp.concatenate(indices, axis)), shape=shape)


def _with_rows(data: Any, indices: Any, nse: int, shape: Sequence[int]) -> tuple[Any, Any]:
    """`data` and `indices`, which have their batch dimensions, with padding after their rows, so that they are `nse`."""
    axis = indices.ndim - 2
    n_more = nse - indices.shape[axis]
    if not n_more:
        return data, indices
    more = lambda x: [(0, n_more if i == axis else 0) for i in range(x.ndim)]
    outside = jnp.broadcast_to(
        jnp.asarray(shape, indices.dtype), (*indices.shape[:axis], n_more, len(shape))
    )
    return jnp.pad(data, more(data)), jnp.concatenate([indices, outside], axis)


def bcoo_reshape(
    mat: BCOO,
    *,
    new_sizes: Sequence[int],
    dimensions: Sequence[int] | None = None,
    sharding: Any = None,
) -> BCOO:
    """The array with the shape `new_sizes`, in row-major order of its dimensions in the order `dimensions`.

    Batch, sparse and dense dimensions are reshaped apart.

    Raises: ShapeError for sizes that don't fit, or that would mix kinds of dimensions.

    >>> from pellucid.experimental import sparse
    >>> bcoo_reshape(sparse.eye(2), new_sizes=(4,)).todense()
    Array([1., 0., 0., 1.], dtype=float32)
    """
    checked_layout(mat, "bcoo_reshape")
    if sharding is not None:
        raise UnsupportedError("bcoo_reshape takes no sharding.", got=f"{sharding}")
    if dimensions is not None:
        mat = bcoo_transpose(mat, permutation=dimensions)
    layout, shape = mat.dims(), tuple([int(n) for n in new_sizes])
    got = f"{mat!r}, new_sizes: {shape}"
    if math.prod(shape) != mat.size:
        raise ShapeError("bcoo_reshape: the sizes have another product.", got=got)
    batch, sparse, _ = layout.split(mat.shape)
    products = [math.prod(shape[:i]) for i in range(len(shape) + 1)]
    size = math.prod(batch)
    # Numbers of new dimensions that are batch dimensions, and that are batch or sparse ones: their sizes have the same products.
    n_batch, n_kept = (_boundary(products, p) for p in (size, size * math.prod(sparse)))
    if n_batch is None or n_kept is None:
        raise ShapeError(
            "bcoo_reshape: batch, sparse and dense dimensions can't be mixed.",
            got=got,
            do="Use `update_layout` before.",
        )
    data, indices = with_batch(mat)
    new_sparse = shape[n_batch:n_kept]
    new = coordinates(flat_positions(indices, sparse), new_sparse)
    data = data if new_sparse and layout.n_sparse else without_padding(mat)
    data = data.reshape(*shape[:n_batch], layout.nse, *shape[n_kept:])
    return BCOO((data, new.reshape(*shape[:n_batch], *new.shape[-2:])), shape=shape)


def _boundary(products: Sequence[int], product: int) -> int | None:
    """The largest number of dimensions whose sizes have the `product`; None if there is none."""
    places = [i for i, p in enumerate(products) if p == product]
    return places[-1] if places else None


# Slices -----------------------------------------------------------------------------------------------------


def _slice_elements(
    mat: BCOO, starts: Sequence[Any], sizes: Sequence[int], strides: Sequence[int]
) -> BCOO:
    """`sizes` elements from `starts` on, one in `strides`; starts are ints or traced scalars."""
    layout = mat.dims()
    n, m = layout.n_batch, layout.n_batch + layout.n_sparse
    data, indices = mat.data, mat.indices

    def along(x: Any, axis: int, d: int) -> Any:
        if d < n and x.shape[axis] == 1 != mat.shape[d]:
            return x  # stretched, and so is its part
        start, span = starts[d], max(0, (sizes[d] - 1) * strides[d] + 1)
        part = lax.dynamic_slice_in_dim(x, start, span, axis)
        return part if strides[d] == 1 else lax.slice_in_dim(part, 0, span, strides[d], axis)

    for d in [*range(n), *range(m, mat.ndim)]:
        if sizes[d] == mat.shape[d]:
            continue
        data = along(data, d if d < n else d - m + n + 1, d)
        indices = along(indices, d, d) if d < n else indices
    new_sparse, keep, moved = sizes[n:m], in_bounds(indices, mat.shape[n:m]), []
    for i, column in enumerate(columns(indices)):
        start, stride = starts[n + i], strides[n + i]
        offset = column - jnp.asarray(start, column.dtype)
        keep = keep & (offset >= 0) & (offset < new_sparse[i] * stride)
        if stride > 1:
            keep, offset = keep & (offset % stride == 0), offset // stride
        moved.append(offset)
    shape = tuple(sizes)
    result = BCOO((data, pad_rows(rows(moved, indices), keep, new_sparse)), shape=shape)
    result.data = without_padding(result)
    size = math.prod(new_sparse)
    return bcoo_sum_duplicates_to(result, size) if layout.nse > size else result


def bcoo_sum_duplicates_to(mat: BCOO, nse: int) -> BCOO:
    """The array with `nse` rows, which has room for all places; nothing is stated about their order."""
    summed = bcoo_sum_duplicates(mat, nse=nse)
    return BCOO((summed.data, summed.indices), shape=mat.shape)


def bcoo_slice(
    mat: BCOO,
    *,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> BCOO:
    """The elements from `start_indices` up to `limit_indices`, one in `strides` along each dimension.

    Raises: ArgumentTypeError for other arrays, ArgumentValueError for limits outside of the array.

    >>> from pellucid.experimental import sparse
    >>> bcoo_slice(sparse.eye(3), start_indices=(1, 0), limit_indices=(3, 3)).todense()
    Array([[0., 1., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    checked_layout(mat, "bcoo_slice")
    starts, limits = [int(i) for i in start_indices], [int(i) for i in limit_indices]
    steps = [1] * mat.ndim if strides is None else [int(i) for i in strides]
    if not len(starts) == len(limits) == len(steps) == mat.ndim or any(
        not (0 <= a <= b <= n and s > 0)
        for a, b, s, n in zip(starts, limits, steps, mat.shape, strict=True)
    ):
        raise ArgumentValueError(
            "bcoo_slice: the bounds don't fit the array.",
            got=f"shape: {mat.shape}, start_indices: {starts}, limit_indices: {limits}, strides: {steps}",
        )
    sizes = [-((a - b) // s) for a, b, s in zip(starts, limits, steps, strict=True)]
    return _slice_elements(mat, starts, sizes, steps)


def bcoo_dynamic_slice(mat: BCOO, start_indices: Any, slice_sizes: Sequence[int]) -> BCOO:
    """`slice_sizes` elements from `start_indices` on, which may be traced; they are moved so that all fit.

    Raises: ArgumentTypeError for other arrays, ShapeError for sizes that don't fit.

    >>> from pellucid.experimental import sparse
    >>> bcoo_dynamic_slice(sparse.eye(3), (2, 2), (1, 1)).todense()
    Array([[1.]], dtype=float32)
    """
    checked_layout(mat, "bcoo_dynamic_slice")
    starts, sizes = [*start_indices], [int(n) for n in slice_sizes]
    if not len(starts) == len(sizes) == mat.ndim:
        raise ShapeError(
            "bcoo_dynamic_slice needs a start and a size for each dimension.",
            got=f"{mat!r}, {len(starts)} starts, {len(sizes)} sizes",
        )
    if any(not 0 <= size <= n for size, n in zip(sizes, mat.shape, strict=True)):
        raise ShapeError(
            "bcoo_dynamic_slice: a slice is larger than the array.",
            got=f"{mat!r}, slice_sizes: {tuple(sizes)}",
        )

    def clamp_start(start: Any, size: int, n: int) -> Any:
        if isinstance(start, int):
            return max(0, min(start + n if start < 0 else start, n - size))
        start = jnp.asarray(start)
        return jnp.clip(jnp.where(start < 0, start + n, start), 0, n - size)

    bounded = [clamp_start(*x) for x in zip(starts, sizes, mat.shape, strict=True)]
    return _slice_elements(mat, bounded, sizes, [1] * mat.ndim)


def bcoo_gather(
    operand: BCOO,
    start_indices: Any,
    dimension_numbers: Any,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: Any = None,
    fill_value: Any = None,
) -> BCOO:
    """Slices of a BCOO array from `start_indices` on, as `lax.gather` gives them.

    The slices are batch elements; they become sparse ones where `offset_dims` put them behind other dimensions.

    Raises: UnsupportedError for modes in which a slice outside of the array isn't moved into it.

    >>> from pellucid.experimental import sparse
    >>> x = sparse.BCOO((np.array([1, 2, 5]), np.array([[0, 1], [0, 2], [1, 2]])), shape=(2, 3))
    >>> columns = lax.GatherDimensionNumbers(offset_dims=(0, 1), collapsed_slice_dims=(), start_index_map=(1,))
    >>> sparse.bcoo_gather(x, np.array([1]), columns, (2, 2), mode="clip").todense()
    Array([[1, 2],
           [0, 5]], dtype=int32)
    """
    checked_layout(operand, "bcoo_gather", "operand")
    mode = lax.GatherScatterMode.from_any(mode)
    if mode not in (lax.GatherScatterMode.PROMISE_IN_BOUNDS, lax.GatherScatterMode.CLIP):
        raise UnsupportedError(
            "bcoo_gather moves slices into the array.", got=f"mode: {mode}", do='Use mode="clip".'
        )
    start_indices, numbers = jnp.asarray(start_indices), dimension_numbers
    if numbers.operand_batching_dims:
        raise UnsupportedError("bcoo_gather with batching dimensions.", got=f"{numbers}")

    def one(start: Any) -> BCOO:
        starts: list[Any] = [0] * operand.ndim
        for i, d in enumerate(numbers.start_index_map):
            starts[d] = start[i]
        slices = bcoo_dynamic_slice(operand, starts, slice_sizes)
        return bcoo_squeeze(slices, dimensions=numbers.collapsed_slice_dims)

    n_slices = start_indices.ndim - 1
    for _ in range(n_slices):
        one = vmap(one)
    result = one(start_indices)
    ndim = result.ndim
    leading = [d for d in range(ndim) if d not in numbers.offset_dims]
    if leading == [*range(n_slices)]:
        return result
    order = [0] * ndim
    for position, d in enumerate((*leading, *numbers.offset_dims)):
        order[d] = position
    return bcoo_transpose(bcoo_update_layout(result, n_batch=0), permutation=order)


__all__ = [
    "bcoo_broadcast_in_dim",
    "bcoo_concatenate",
    "bcoo_dynamic_slice",
    "bcoo_gather",
    "bcoo_reduce_sum",
    "bcoo_reshape",
    "bcoo_rev",
    "bcoo_slice",
    "bcoo_squeeze",
]

public_functions(__all__, globals())
