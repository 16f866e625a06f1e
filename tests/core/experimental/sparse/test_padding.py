"""Padding never counts, whatever its data is; rows that occur twice add up."""

from __future__ import annotations

import numpy as np
import pytest

import pellucid as pl
from pellucid import lax, numpy as jnp
from pellucid.experimental import sparse
from pellucid.experimental.sparse import BCOO

SHAPE = (3, 4)
ROWS = [[0, 1], [2, 3], [0, 1], [3, 0], [1, 4], [-1, 2], [2, 0]]
"""Two equal rows, and padding by either index, one of them negative."""
DATA = np.array([1, 2, 4, 8, 16, 32, 64], np.float32)
MATRIX = np.array([[0, 5, 0, 0], [0, 0, 0, 0], [64, 0, 0, 2]], np.float32)


def test_operations_leave_padding_out() -> None:
    mat = BCOO((DATA, jnp.array(ROWS)), shape=SHAPE)
    x = np.arange(1, 5, dtype=np.float32)
    pairs = {
        "todense": (mat.todense(), MATRIX),
        "sum 0": (mat.sum(0).todense(), MATRIX.sum(0)),
        "sum 1": (mat.sum(1).todense(), MATRIX.sum(1)),
        "sum": (mat.sum(), MATRIX.sum()),
        "transpose": (mat.T.todense(), MATRIX.T),
        "reshape": (mat.reshape(12).todense(), MATRIX.reshape(12)),
        "slice": (mat[1:, :2].todense(), MATRIX[1:, :2]),
        "strides": (mat[::2, ::-1].todense(), MATRIX[::2, ::-1]),
        "row": (mat[0].todense(), MATRIX[0]),
        "column": (mat[:, 0].todense(), MATRIX[:, 0]),
        "new axis": (mat[:, None].todense(), MATRIX[:, None]),
        "gather": (mat[jnp.array([2, 0])].todense(), MATRIX[[2, 0]]),
        "concatenate 0": (sparse.bcoo_concatenate([mat, mat], dimension=0).todense(), np.concatenate([MATRIX] * 2)),
        "concatenate 1": (sparse.bcoo_concatenate([mat, mat], dimension=1).todense(), np.concatenate([MATRIX] * 2, 1)),
        "add": ((mat + mat).todense(), 2 * MATRIX),
        "unequal to zero": ((mat != 0).todense(), MATRIX != 0),
        "bools": (mat.astype(bool).todense(), MATRIX != 0),
        "multiply": ((mat * mat).todense(), MATRIX * MATRIX),
        "multiply dense": ((mat * x).todense(), MATRIX * x),
        "divide": ((mat / x).todense(), MATRIX / x),
        "square": ((mat**2).todense(), MATRIX**2),
        "abs": (abs(-mat).todense(), MATRIX),
        "product": (mat @ x, MATRIX @ x),
        "left product": (x[:3] @ mat, x[:3] @ MATRIX),
        "sparse product": ((mat @ mat.T).todense(), MATRIX @ MATRIX.T),
        "sort": (mat.sort_indices().todense(), MATRIX),
        "sum of duplicates": (mat.sum_duplicates().todense(), MATRIX),
        "batches": (mat.update_layout(n_batch=1, on_inefficient=None).todense(), MATRIX),
        "dense": (mat.update_layout(n_dense=1, on_inefficient=None).todense(), MATRIX),
        "rows": (sparse.BCSR.from_bcoo(mat.sum_duplicates()).todense(), MATRIX),
    }  # fmt: skip
    for name, (ours, expected) in pairs.items():
        np.testing.assert_allclose(ours, expected, rtol=1e-6, err_msg=name)
    assert mat.sum_duplicates().nse == 3


def test_derivatives_by_padding_are_zero() -> None:
    x = np.arange(1, 5, dtype=np.float32)

    def total(data: object) -> object:
        mat = BCOO((data, jnp.array(ROWS)), shape=SHAPE)
        return (mat @ x).sum() + (mat.sum(1).todense() ** 2).sum() + (mat.todense() ** 2).sum()

    slopes = pl.grad(total)(DATA)
    dense = pl.grad(lambda m: (m @ x).sum() + (m.sum(1) ** 2).sum() + (m**2).sum())(MATRIX)
    expected = [dense[tuple(row)] if i in (0, 1, 2, 6) else 0 for i, row in enumerate(ROWS)]
    np.testing.assert_allclose(slopes, expected)


def test_a_derivative_has_no_dense_intermediate() -> None:
    indices = jnp.array([[0, 1], [999, 5]])

    def total(data: object, x: object) -> object:
        return (BCOO((data, indices), shape=(1000, 1000)) @ x).sum()

    program = pl.make_jaxpr(pl.grad(total, (0, 1)))(DATA[:2], jnp.ones(1000))
    sizes = [a.size for e in equations(program.jaxpr) for a in map(pl.typeof, e.results)]
    assert max(sizes) <= 2000


def equations(jaxpr: object) -> list:
    """All equations of a program and of the programs within it."""
    inner = [p.jaxpr for e in jaxpr.equations for p in e.params if hasattr(p, "jaxpr")]
    return [*jaxpr.equations, *(e for program in inner for e in equations(program))]


def test_loops_keep_what_they_state_of_rows() -> None:
    mat = BCOO.fromdense(jnp.eye(3))

    def loop(x: object) -> object:
        return lax.fori_loop(0, 2, lambda i, y: y.T, x)

    result = pl.jit(sparse.sparsify(loop))(mat)
    assert (result.indices_sorted, result.unique_indices) == (False, True)
    np.testing.assert_array_equal(result.todense(), np.eye(3))


@pytest.mark.parametrize("n_dense", [0, 1])
def test_arrays_of_unlike_nse_are_padded_along_batches(n_dense):
    full = np.arange(1, 25, dtype=np.float32).reshape(2, 3, 4)
    few = np.zeros((1, 3, 4), np.float32)
    few[0, 1, 2] = 5
    mats = [sparse.BCOO.fromdense(x, n_batch=1, n_dense=n_dense) for x in (full, few)]
    joined = sparse.bcoo_concatenate(mats, dimension=0)
    assert joined.nse == mats[0].nse
    np.testing.assert_array_equal(joined.todense(), np.concatenate([full, few]))
    np.testing.assert_array_equal(
        (joined * 2).sum(1).todense(), np.concatenate([full, few]).sum(1) * 2
    )


def test_compressed_arrays_of_unlike_nse_are_padded_along_batches():
    dense = np.array([[[1, 0, 2], [3, 0, 0]], [[1, 0, 0], [0, 0, 4]]], np.float32)
    mats = [sparse.BCSR.fromdense(dense[i : i + 1], n_batch=1) for i in (0, 1)]
    joined = sparse.bcsr_concatenate(mats, dimension=0)
    assert (joined.nse, mats[1].nse) == (3, 2)
    np.testing.assert_array_equal(joined.todense(), dense)


def test_products_with_integers_have_the_dtype_of_dense_ones():
    dense = np.array([[1, 0, 2], [3, 0, 0]], np.float32)
    mat = sparse.BCOO.fromdense(dense)
    product = sparse.sparsify(lax.dot)(mat, jnp.ones((3, 2), np.int32))
    assert product.dtype == np.float32
    np.testing.assert_array_equal(product, dense @ np.ones((3, 2)))


def test_a_bessel_function_that_is_0_at_0_keeps_what_isnt_stored():
    dense = np.array([[1, 0, 2]], np.float32)
    result = sparse.sparsify(lax.bessel_i1e)(sparse.BCOO.fromdense(dense)).todense()
    np.testing.assert_allclose(result, lax.bessel_i1e(dense), rtol=1e-6)
