"""Products of BCOO arrays: contractions with dense and sparse arrays, and element by element."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid import lax, numpy as jnp
from pellucid._machine.base import public_functions
from pellucid._machine.base.errors import (
    ArgumentTypeError,
    ShapeError,
    UnsupportedError,
)
from pellucid._machine.higher_order.shape_dtype_struct import ShapeDtypeStruct
from pellucid._machine.higher_order.stages import eval_shape
from pellucid._machine.transforms.vmap import vmap
from pellucid.experimental.sparse.coordinates import (
    BCOO,
    SparseInfo,
    checked_layout,
    layout_of,
)
from pellucid.experimental.sparse.indices import (
    columns,
    gather_rows,
    in_bounds,
    pad_rows,
    rows,
    scatter_rows,
    zero_dropped_elements,
)
from pellucid.experimental.sparse.layouts import bcoo_update_layout
from pellucid.experimental.sparse.movement import bcoo_sum_duplicates_to
from pellucid.experimental.sparse.operation import (
    SparseOperation,
    map_over_leading,
    over_batch,
    stretch_batch,
)

Numbers = tuple[tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]]


def numbers_of(dimension_numbers: Any) -> Numbers:
    """Dimension numbers as tuples of ints: ((lhs contracting, rhs contracting), (lhs batch, rhs batch))."""
    (a, b), (c, d) = dimension_numbers
    as_ints = lambda dims: tuple([int(i) for i in dims])
    return (as_ints(a), as_ints(b)), (as_ints(c), as_ints(d))


def product_type(lhs: Any, rhs: Any, numbers: Numbers, preferred: Any) -> Any:
    """Shape and dtype of the product of dense arrays of the shapes and dtypes of `lhs` and `rhs`.

    Raises: what `lax.dot_general` raises for operands that don't fit.
    """
    dot = functools.partial(
        lax.dot_general, dimension_numbers=numbers, preferred_element_type=preferred
    )
    return eval_shape(dot, *(ShapeDtypeStruct(x.shape, x.dtype) for x in (lhs, rhs)))


def free_dims(ndim: int, *used: Sequence[int]) -> list[int]:
    """The dimensions that aren't `used`."""
    gone = {d for dims in used for d in dims}
    return [d for d in range(ndim) if d not in gone]


# Sparse and dense -------------------------------------------------------------------------------------------


def _dot_general(
    lhs_data: Any,
    lhs_indices: Any,
    rhs: Any,
    *,
    dimension_numbers: Numbers,
    lhs_spinfo: SparseInfo,
    preferred_element_type: Any,
    precision: Any = None,
) -> Any:
    """Gathers slices of `rhs` at the contracted indices, multiplies, and adds up at the others.

    Batch dimensions of the left array are mapped over, those that are contracted too, and summed at the end.
    """
    layout = layout_of(lhs_data, lhs_indices, lhs_spinfo.shape)
    batch, sparse, _ = layout.split(lhs_spinfo.shape)
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    n = layout.n_batch
    # For each contracted or batch dimension of the left array, that of the right one.
    partner = {**dict(zip(lhs_contract, rhs_contract, strict=True)), **dict(zip(lhs_batch, rhs_batch, strict=True))}  # fmt: skip
    # Columns of the indices by what becomes of them; `rhs` gets partners of batch dimensions first, then of contracted columns.
    contracted = [i for i in range(layout.n_sparse) if n + i in lhs_contract]
    free = [i for i in range(layout.n_sparse) if n + i not in lhs_contract]
    front = [partner[d] for d in range(n) if d in partner] + [partner[n + i] for i in contracted]
    rhs = rhs.transpose(*front, *free_dims(rhs.ndim, front))
    dtype = preferred_element_type or jnp.result_type(lhs_data.dtype, rhs.dtype)

    def element(data: Any, indices: Any, rhs: Any) -> Any:
        factors = gather_rows(rhs, indices[:, np.array(contracted, int)])
        if not free:
            data = zero_dropped_elements(data, in_bounds(indices, sparse))
            dims = (((0,), (0,)), ((), ()))
            return lax.dot_general(data, factors, dims, precision, preferred_element_type)
        # Both as [rows, dense dimensions of the left array, other dimensions of the right one].
        data = data.reshape(*data.shape, *[1] * (factors.ndim - 1)).astype(dtype)
        factors = factors.reshape(len(factors), *[1] * layout.n_dense, *factors.shape[1:])
        sizes = [sparse[i] for i in free]
        places = pad_rows(indices, in_bounds(indices, sparse), sparse)[:, np.array(free, int)]
        return scatter_rows(data * factors.astype(dtype), places, sizes)

    full = [stretch_batch(x, batch) for x in (lhs_data, lhs_indices)]
    result = map_over_leading(element, [(True, True, d in partner) for d in range(n)], *full, rhs)
    # Before: the left array's batch dimensions in their order, then `element`'s. After: shared ones, free ones, `element`'s, summed ones.
    summed = [d for d in range(n) if d in lhs_contract]
    free_batch = [d for d in range(n) if d not in partner]
    result = result.transpose(*lhs_batch, *free_batch, *range(n, result.ndim), *summed)
    return result.sum(tuple(range(result.ndim - len(summed), result.ndim)), dtype=result.dtype)


bcoo_dot_general_p = SparseOperation("bcoo_dot_general", _dot_general)


def check_kinds(name: str, mat: Any, contract: Sequence[int], batch: Sequence[int]) -> None:
    """Raise UnsupportedError for dimensions of a product that the layout of `mat` doesn't allow."""
    if any(d >= mat.n_batch for d in batch):
        raise UnsupportedError(
            f"{name}: batch dimensions of the product must be batch dimensions of the sparse array.",
            got=f"{mat!r}, batch dimensions {tuple(batch)}",
        )
    if any(d >= mat.n_batch + mat.n_sparse for d in contract):
        raise UnsupportedError(
            f"{name}: contracting over dense dimensions.",
            got=f"{mat!r}, contracted dimensions {tuple(contract)}",
            do="Use `update_layout` to make them sparse.",
        )


def bcoo_dot_general(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The contraction of two arrays of which one is or both are BCOO, with the numbers of `lax.dot_general`.

    The product with a dense array is dense; that of two sparse ones is a BCOO array.

    Raises: UnsupportedError for batch dimensions of the product that aren't batch dimensions of the sparse array, for
    contractions over its dense dimensions, and for `out_sharding`.

    >>> from pellucid.experimental import sparse
    >>> bcoo_dot_general(sparse.eye(2), jnp.ones((2, 3)), dimension_numbers=(((1,), (0,)), ((), ())))
    Array([[1., 1., 1.],
           [1., 1., 1.]], dtype=float32)
    """
    if out_sharding is not None:
        raise UnsupportedError("bcoo_dot_general takes no out_sharding.", got=f"{out_sharding}")
    numbers = numbers_of(dimension_numbers)
    preferred = None if preferred_element_type is None else np.dtype(preferred_element_type)
    if isinstance(lhs, BCOO) and isinstance(rhs, BCOO):
        return _sparse_product(lhs, rhs, numbers, preferred)
    if isinstance(rhs, BCOO):
        (a, b), (c, d) = numbers
        swapped = ((b, a), (d, c))
        result = bcoo_dot_general(
            rhs,
            lhs,
            dimension_numbers=swapped,
            precision=precision,
            preferred_element_type=preferred,
        )
        n, n_free = len(c), len(free_dims(rhs.ndim, b, d))
        first, middle = range(n), range(n, n + n_free)
        return result.transpose(*first, *range(n + n_free, result.ndim), *middle)
    checked_layout(lhs, "bcoo_dot_general", "lhs")
    rhs = jnp.asarray(rhs)
    product_type(lhs, rhs, numbers, preferred)
    (contract, _), (batch, _) = numbers
    check_kinds("bcoo_dot_general", lhs, contract, batch)
    more = {} if precision is None else {"precision": precision}
    return bcoo_dot_general_p.bind(
        lhs.data, lhs.indices, rhs, dimension_numbers=numbers, lhs_spinfo=lhs.info,
        preferred_element_type=preferred, **more,
    )  # fmt: skip


# A dense product at some places -----------------------------------------------------------------------------


def _sample(A: Any, B: Any, indices: Any, *, dimension_numbers: Numbers) -> Any:
    """Gathers the slices of both arrays that a row of indices selects, and contracts them."""
    (a_contract, b_contract), (a_batch, b_batch) = dimension_numbers
    n, n_sparse = indices.ndim - 2, indices.shape[-1]
    a_free, b_free = (
        free_dims(A.ndim, a_contract, a_batch),
        free_dims(B.ndim, b_contract, b_batch),
    )
    # For each dimension of the product (batch, those of A, those of B) the dimension of A and of B that it is, None if of the other.
    a_dims: list[int | None] = [*a_batch, *a_free, *[None] * len(b_free)]
    b_dims: list[int | None] = [*b_batch, *[None] * len(a_free), *b_free]
    sizes = [
        A.shape[a] if a is not None else B.shape[b] for a, b in zip(a_dims, b_dims, strict=True)
    ]
    m = n + n_sparse

    def front(x: Any, dims: Sequence[int | None]) -> tuple[Any, list[int], list[int]]:
        """(`x` with its first `m` dimensions of the product in front, the columns of indices that select in it, its other dimensions)."""
        leading = [d for d in dims[:m] if d is not None]
        rest = free_dims(x.ndim, leading)
        picked = [i for i, d in enumerate(dims[n:m]) if d is not None]
        return x.transpose(*leading, *rest), picked, rest

    A, a_columns, a_rest = front(A, a_dims)
    B, b_columns, b_rest = front(B, b_dims)
    # What `element` multiplies are the rest of A and of B: shared dense dimensions, and contracted ones, are counted there.
    dense = [
        (a_rest.index(a), b_rest.index(b))
        for a, b in zip(a_dims[m:], b_dims[m:], strict=True)
        if a is not None and b is not None
    ]
    contract = ([a_rest.index(d) for d in a_contract], [b_rest.index(d) for d in b_contract])
    batch = ([a for a, _ in dense], [b for _, b in dense])

    def element(A: Any, B: Any, indices: Any) -> Any:
        def sample(index: Any) -> Any:
            keep = in_bounds(index[None], sizes[n:m])
            x, y = (
                gather_rows(z, index[None, np.array(picked, int)])[0]
                for z, picked in ((A, a_columns), (B, b_columns))
            )
            product = lax.dot_general(x, y, (contract, batch))
            return zero_dropped_elements(product[None], keep)[0]

        return vmap(sample)(indices)

    indices = stretch_batch(indices, tuple(sizes[:n]))
    flags = [(a is not None, b is not None, True) for a, b in zip(a_dims[:n], b_dims, strict=False)]
    return map_over_leading(element, flags, A, B, indices)


bcoo_dot_general_sampled_p = SparseOperation("bcoo_dot_general_sampled", _sample)


def bcoo_dot_general_sampled(A: Any, B: Any, indices: Any, *, dimension_numbers: Any) -> Any:
    """Elements [*batch, nse, *dense] of the contraction of two dense arrays at the rows of `indices` alone.

    `indices` [*batch, nse, n_sparse] are those of a BCOO array of the shape of the product; padding has zeros.

    Raises: ShapeError for indices with more dimensions than the product.

    >>> x = jnp.arange(4.0).reshape(2, 2)
    >>> bcoo_dot_general_sampled(x, x, jnp.array([[1, 1]]), dimension_numbers=(((1,), (0,)), ((), ())))
    Array([11.], dtype=float32)
    """
    A, B, indices = jnp.asarray(A), jnp.asarray(B), jnp.asarray(indices)
    numbers = numbers_of(dimension_numbers)
    shape = product_type(A, B, numbers, None).shape
    n = indices.ndim - 2
    if (
        n < 0
        or n + indices.shape[-1] > len(shape)
        or any(a not in (1, b) for a, b in zip(indices.shape[:n], shape, strict=False))
    ):
        raise ShapeError(
            "bcoo_dot_general_sampled: the indices don't fit the product.",
            got=f"indices: {indices.shape}, product: {shape}",
        )
    return bcoo_dot_general_sampled_p.bind(A, B, indices, dimension_numbers=numbers)


# Sparse and sparse ------------------------------------------------------------------------------------------


def _pairs(
    lhs: tuple[Any, Any], rhs: tuple[Any, Any], dims: Any, lhs_sizes: Any, rhs_sizes: Any
) -> Any:
    """Mask [n, m] of the pairs of rows of `lhs` and `rhs` that aren't padding and agree in the columns `dims`."""
    agree = in_bounds(lhs[1], lhs_sizes)[:, None] & in_bounds(rhs[1], rhs_sizes)[None]
    for i, j in dims:
        agree = agree & (lhs[1][:, i, None] == rhs[1][None, :, j])
    return agree


def _pair_column(column: Any, n_rows: tuple[int, int], side: int) -> Any:
    """A column of the left (0) or right (1) indices for all pairs of rows."""
    return jnp.broadcast_to(jnp.expand_dims(column, 1 - side), n_rows).reshape(-1)


def _spdot_general(
    lhs_data: Any,
    lhs_indices: Any,
    rhs_data: Any,
    rhs_indices: Any,
    *,
    dimension_numbers: Numbers,
    lhs_spinfo: SparseInfo,
    rhs_spinfo: SparseInfo,
    preferred_element_type: Any,
) -> Any:
    """Products of all pairs of rows with equal contracted indices, at the other indices of both."""
    left = layout_of(lhs_data, lhs_indices, lhs_spinfo.shape)
    right = layout_of(rhs_data, rhs_indices, rhs_spinfo.shape)
    lhs_sparse, rhs_sparse = left.split(lhs_spinfo.shape)[1], right.split(rhs_spinfo.shape)[1]
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    # Pairs of columns, of the left and of the right indices, that must agree; other columns are those of the result.
    dims = [
        (i - left.n_batch, j - right.n_batch)
        for i, j in zip(lhs_contract, rhs_contract, strict=True)
    ]
    lhs_columns_free = free_dims(left.n_sparse, [i for i, _ in dims])
    rhs_columns_free = free_dims(right.n_sparse, [j for _, j in dims])
    sizes = [*(lhs_sparse[i] for i in lhs_columns_free), *(rhs_sparse[j] for j in rhs_columns_free)]
    dtype = preferred_element_type or jnp.result_type(lhs_data.dtype, rhs_data.dtype)

    def element(lhs_data: Any, lhs_indices: Any, rhs_data: Any, rhs_indices: Any) -> Any:
        n_rows = (len(lhs_data), len(rhs_data))
        agree = _pairs((lhs_data, lhs_indices), (rhs_data, rhs_indices), dims, lhs_sparse, rhs_sparse)  # fmt: skip
        data = lhs_data.astype(dtype)[:, None] * rhs_data.astype(dtype)[None]
        keep = agree.reshape(-1)
        lhs_columns, rhs_columns = columns(lhs_indices), columns(rhs_indices)
        free = [_pair_column(lhs_columns[i], n_rows, 0) for i in lhs_columns_free]
        free += [_pair_column(rhs_columns[j], n_rows, 1) for j in rhs_columns_free]
        like = jnp.zeros((len(keep), 0), jnp.promote_types(lhs_indices.dtype, rhs_indices.dtype))
        return zero_dropped_elements(data.reshape(-1), keep), pad_rows(
            rows(free, like), keep, sizes
        )

    lhs_free = free_dims(left.n_batch, lhs_batch)
    rhs_free = free_dims(right.n_batch, rhs_batch)
    arrays = []
    for x, layout, info, order in (
        (lhs_data, left, lhs_spinfo, (*lhs_batch, *lhs_free)),
        (lhs_indices, left, lhs_spinfo, (*lhs_batch, *lhs_free)),
        (rhs_data, right, rhs_spinfo, (*rhs_batch, *rhs_free)),
        (rhs_indices, right, rhs_spinfo, (*rhs_batch, *rhs_free)),
    ):
        n = layout.n_batch
        full = stretch_batch(x, info.shape[:n])
        arrays.append(full.transpose(*order, *range(n, full.ndim)))
    # Dimensions in front: shared ones, of which each array has a part, then those of the left array alone, and of the right one.
    flags = [(True, True, True, True)] * len(lhs_batch)
    flags += [(True, True, False, False)] * len(lhs_free)
    flags += [(False, False, True, True)] * len(rhs_free)
    return map_over_leading(element, flags, *arrays)


bcoo_spdot_general_p = SparseOperation("bcoo_spdot_general", _spdot_general, returns_list=True)


def _sparse_product(lhs: BCOO, rhs: BCOO, numbers: Numbers, preferred: Any) -> BCOO:
    name = "bcoo_dot_general of sparse arrays"
    left, right = checked_layout(lhs, name, "lhs"), checked_layout(rhs, name, "rhs")
    shape = product_type(lhs, rhs, numbers, preferred).shape
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = numbers
    if left.n_dense or right.n_dense:
        raise UnsupportedError(f"{name} with dense dimensions.", got=f"{lhs!r}, {rhs!r}")
    for mat, contract, batch in ((lhs, lhs_contract, lhs_batch), (rhs, rhs_contract, rhs_batch)):
        check_kinds(name, mat, contract, batch)
        if any(d < mat.n_batch for d in contract):
            raise UnsupportedError(f"{name}: contracting over batch dimensions.", got=repr(mat))
    if right.n_batch > len(rhs_batch) and left.n_sparse > len(lhs_contract):
        raise ShapeError(
            f"{name}: batch dimensions of the second would stand behind sparse ones of the first.",
            got=f"{lhs!r}, {rhs!r}",
        )
    data, indices = bcoo_spdot_general_p.bind(
        lhs.data, lhs.indices, rhs.data, rhs.indices, dimension_numbers=numbers,
        lhs_spinfo=lhs.info, rhs_spinfo=rhs.info, preferred_element_type=preferred,
    )  # fmt: skip
    result = BCOO((data, indices), shape=shape)
    places = math.prod(shape[result.n_batch :])
    return bcoo_sum_duplicates_to(result, places) if result.nse > places else result


# Element by element -----------------------------------------------------------------------------------------


def bcoo_multiply_sparse(lhs: BCOO, rhs: BCOO) -> BCOO:
    """The product of two BCOO arrays element by element; dimensions of size 1 are stretched.

    The result has a row for each pair of rows, of which those with different indices are padding.

    Raises: ArgumentTypeError for arrays with different numbers of dimensions, UnsupportedError for different numbers of
    dense ones.

    >>> from pellucid.experimental import sparse
    >>> bcoo_multiply_sparse(sparse.eye(2), sparse.eye(2)).todense()
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    name = "bcoo_multiply_sparse"
    left, right = checked_layout(lhs, name, "lhs"), checked_layout(rhs, name, "rhs")
    got = f"{lhs!r}, {rhs!r}"
    if lhs.ndim != rhs.ndim:
        raise ArgumentTypeError(f"{name}: the arrays have different numbers of dimensions.", got=got)  # fmt: skip
    if left.n_dense != right.n_dense:
        raise UnsupportedError(f"{name}: the arrays have different numbers of dense dimensions.", got=got)  # fmt: skip
    n_batch = min(left.n_batch, right.n_batch)
    lhs, rhs = bcoo_update_layout(lhs, n_batch=n_batch), bcoo_update_layout(rhs, n_batch=n_batch)
    shape = jnp.broadcast_shapes(lhs.shape, rhs.shape)
    layout = lhs.dims()
    batch, sparse, _ = layout.split(shape)
    lhs_sizes, rhs_sizes = layout.split(lhs.shape)[1], layout.split(rhs.shape)[1]
    dims = [
        (i, i)
        for i, (a, b) in enumerate(zip(lhs_sizes, rhs_sizes, strict=True))
        if a == b
    ]  # fmt: skip

    def element(lhs_data: Any, lhs_indices: Any, rhs_data: Any, rhs_indices: Any) -> Any:
        n_rows = (len(lhs_data), len(rhs_data))
        keep = _pairs((lhs_data, lhs_indices), (rhs_data, rhs_indices), dims, lhs_sizes, rhs_sizes).reshape(-1)  # fmt: skip
        data = lhs_data[:, None] * rhs_data[None]
        free = [
            _pair_column(b if n == 1 else a, n_rows, int(n == 1))
            for a, b, n in zip(columns(lhs_indices), columns(rhs_indices), lhs_sizes, strict=True)
        ]
        like = jnp.zeros((len(keep), 0), jnp.promote_types(lhs_indices.dtype, rhs_indices.dtype))
        data = zero_dropped_elements(data.reshape(len(keep), *data.shape[2:]), keep)
        return data, pad_rows(rows(free, like), keep, sparse)

    return BCOO(over_batch(element, batch, lhs.data, lhs.indices, rhs.data, rhs.indices), shape=shape)  # fmt: skip


def multiply_rows(
    mat: BCOO, v: Any, operation: Callable[[Any, Any], Any], fill: float
) -> Any:  # fmt: skip
    """`operation` of the data of `mat` and the elements of the dense array `v` at its rows; `fill` for padding.

    Dimensions of `v` are stretched; UnsupportedError where the result has another shape than `mat`.
    """
    v = jnp.asarray(v)
    if jnp.broadcast_shapes(mat.shape, v.shape) != mat.shape:
        raise UnsupportedError(
            "the product of a sparse and a dense array must have the shape of the sparse one.",
            got=f"{mat!r}, dense: {v.shape}",
        )
    layout = mat.dims()
    n = layout.n_batch
    v = v.reshape(*[1] * (mat.ndim - v.ndim), *v.shape)
    batch, sparse, _ = layout.split(mat.shape)
    used = [i for i in range(layout.n_sparse) if v.shape[n + i] != 1]
    squeezed = [n + i for i in range(layout.n_sparse) if i not in used]
    mapped = [v.shape[d] != 1 for d in range(n)]
    v = lax.squeeze(v, [*(d for d, flag in enumerate(mapped) if not flag), *squeezed])

    def element(data: Any, indices: Any, v: Any) -> Any:
        keep = in_bounds(indices, sparse)
        factors = gather_rows(v, pad_rows(indices, keep, sparse)[:, np.array(used, int)])
        if fill:
            keep = keep.reshape(-1, *[1] * (factors.ndim - 1))
            factors = jnp.where(keep, factors, jnp.asarray(fill, factors.dtype))
        return operation(data, jnp.broadcast_to(factors, data.shape))

    full = [stretch_batch(x, batch) for x in (mat.data, mat.indices)]
    return map_over_leading(element, [(True, True, flag) for flag in mapped], *full, v)


def bcoo_multiply_dense(sp_mat: BCOO, v: Any) -> Any:
    """The data of the product of a BCOO and a dense array element by element; dimensions of `v` are stretched.

    Raises: UnsupportedError where the product has another shape than `sp_mat`.

    >>> from pellucid.experimental import sparse
    >>> bcoo_multiply_dense(sparse.eye(2), jnp.array([2.0, 3.0]))
    Array([2., 3.], dtype=float32)
    """
    checked_layout(sp_mat, "bcoo_multiply_dense", "sp_mat")
    return multiply_rows(sp_mat, v, jnp.multiply, 0)


__all__ = [
    "bcoo_dot_general",
    "bcoo_dot_general_p",
    "bcoo_dot_general_sampled",
    "bcoo_dot_general_sampled_p",
    "bcoo_multiply_dense",
    "bcoo_multiply_sparse",
    "bcoo_spdot_general_p",
]

public_functions(__all__, globals())
