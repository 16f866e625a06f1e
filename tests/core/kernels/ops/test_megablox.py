"""Grouped products of matrices against loops over groups."""

import importlib

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid.errors import ArgumentValueError, DtypeError, ShapeError
from pellucid.experimental.pallas.ops.tpu import megablox
from tests.core.kernels.ops.closeness import assert_close

kernels = importlib.import_module("pellucid.experimental.pallas.ops.tpu.megablox.gmm")
TILES = (8, 4, 8)
SIZES = {
    "uneven": [10, 0, 12, 10],
    "blocks": [8, 16, 0, 8],
    "rows are left": [3, 5, 0, 4],
    "one": [0, 0, 32, 0],
    "none": [0, 0, 0, 0],
    "ones": [1, 1, 1, 1],
}


def array(shape, dtype="float32", seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), dtype)


def rows_of(sizes):
    ends = np.cumsum(sizes)
    return [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]


def plain_gmm(lhs, rhs, sizes):
    result = np.zeros((lhs.shape[0], rhs.shape[2]), np.float32)
    for group, rows in enumerate(rows_of(sizes)):
        result[rows] = np.asarray(lhs[rows]) @ np.asarray(rhs[group])
    return result


def plain_tgmm(lhs, rhs, sizes):
    return np.stack([np.asarray(lhs[:, rows]) @ np.asarray(rhs[rows]) for rows in rows_of(sizes)])


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize(("m", "k", "n"), [(32, 8, 16), (33, 7, 9)])
def test_products_of_groups(name, m, k, n):
    lhs, rhs, sizes = array((m, k)), array((4, k, n), seed=1), np.array(SIZES[name], np.int32)
    assert_close(kernels.gmm(lhs, rhs, sizes, tiling=TILES), plain_gmm(lhs, rhs, sizes))
    turned = jnp.swapaxes(rhs, 1, 2)
    found = kernels.gmm(lhs, turned, sizes, tiling=TILES, transpose_rhs=True)
    assert_close(found, plain_gmm(lhs, rhs, sizes))
    g = array((m, n), seed=2)
    assert_close(kernels.tgmm(lhs.T, g, sizes, tiling=TILES), plain_tgmm(lhs.T, g, sizes), 1e-4)


@pytest.mark.parametrize("start", [0, 1, 3])
def test_some_of_the_groups(start):
    sizes = np.array(SIZES["uneven"], np.int32)
    lhs, rhs, before = array((33, 7)), array((4, 7, 9), seed=1), array((33, 9), seed=2)
    local = rhs[start : start + 2]
    expected = np.array(before)
    for group, rows in enumerate(rows_of(sizes)):
        if start <= group < start + 2:
            expected[rows] = plain_gmm(lhs, rhs, sizes)[rows]
    assert_close(kernels.gmm(lhs, local, sizes, np.float32, TILES, start, before), expected)
    existing = array((2, 7, 9), seed=3)
    found = kernels.tgmm(lhs.T, before, sizes, np.float32, TILES, start, 2, existing)
    products = plain_tgmm(lhs.T, before, sizes)[start : start + 2]
    products = np.concatenate([products, np.zeros((2 - len(products), 7, 9), np.float32)])
    assert_close(found, existing + products, 1e-4)


def test_rows_of_other_groups_do_not_spoil_a_product():
    lhs, g = array((16, 4)).at[3].set(jnp.inf), array((16, 4), seed=1)
    found = kernels.tgmm(lhs.T, g, np.array([3, 13]), tiling=TILES)
    assert_close(found[0], plain_tgmm(lhs.T[:, :3], g[:3], [3])[0])


def test_narrow_numbers_and_integers():
    lhs, rhs, sizes = array((20, 8)), array((3, 8, 8), seed=1), np.array([4, 9, 7])
    found = kernels.gmm(*[x.astype("bfloat16") for x in (lhs, rhs)], sizes, jnp.bfloat16, TILES)
    assert found.dtype == jnp.bfloat16
    np.testing.assert_allclose(found.astype("f4"), plain_gmm(lhs, rhs, sizes), 0.05, 0.05)
    whole = [(4 * x).astype("int8") for x in (lhs, rhs)]
    found = kernels.gmm(*whole, sizes, np.int32, TILES)
    np.testing.assert_array_equal(found, plain_gmm(*[x.astype("f4") for x in whole], sizes))


@pytest.mark.parametrize("transpose", [False, True])
def test_derivatives(transpose):
    sizes = jnp.array([5, 0, 9, 4])
    lhs, rhs, before = array((20, 7)), array((4, 7, 9), seed=1), array((20, 9), seed=2)
    rhs = jnp.swapaxes(rhs, 1, 2) if transpose else rhs

    def plain(lhs, rhs, before):
        groups = np.repeat([0, 2, 3, 4], [5, 9, 4, 2])
        matrices = (jnp.swapaxes(rhs, 1, 2) if transpose else rhs)[np.minimum(groups, 3)]
        return jnp.where((groups < 4)[:, None], jnp.einsum("mk,mkn->mn", lhs, matrices), before)

    def ours(lhs, rhs, before):
        return megablox.gmm(lhs, rhs, sizes, np.float32, TILES, None, before, transpose)

    found, expected = [
        pl.jit(pl.grad(lambda *x, f=f: (f(*x) ** 2).sum(), (0, 1, 2)))(lhs, rhs, before)
        for f in (ours, plain)
    ]
    assert_close(found, expected, 1e-4)


def test_batches_with_groups_of_their_own():
    lhs, rhs, sizes = (
        array((2, 20, 7)),
        array((2, 3, 7, 9), seed=1),
        np.array([[3, 4, 5], [0, 20, 0]]),
    )
    found = pl.vmap(lambda *x: kernels.gmm(*x, tiling=TILES))(lhs, rhs, sizes)
    assert_close(found, np.stack([plain_gmm(*x) for x in zip(lhs, rhs, sizes, strict=True)]))


def test_visits_are_those_of_the_reference():
    # Recorded from jax 0.10.2.
    given = {
        "group_sizes": np.array([10, 0, 12, 10]),
        "m": 32,
        "tm": 8,
        "start_group": 0,
        "num_nonzero_groups": 4,
    }
    data, total = kernels.make_group_metadata(**given)
    assert data.group_offsets.tolist() == [0, 10, 10, 22, 32]
    assert data.group_ids.tolist() == [0, 0, 1, 2, 2, 3, 3]
    assert data.m_tile_ids.tolist() == [0, 1, 1, 1, 2, 2, 3]
    assert total == 7
    data, total = kernels.make_group_metadata(**given, visit_empty_groups=False)
    assert data.group_ids.tolist() == [0, 0, 2, 2, 3, 3, 3]
    assert data.m_tile_ids.tolist() == [0, 1, 1, 2, 2, 3, 3]
    assert total == 6


def test_sizes_of_blocks_and_what_does_not_fit():
    lhs, rhs, sizes = array((20, 7)), array((3, 7, 9)), np.array([4, 9, 7])
    expected = plain_gmm(lhs, rhs, sizes)
    assert_close(kernels.gmm(lhs, rhs, sizes, tiling=lambda m, k, n: (8, k, n)), expected)
    assert_close(kernels.gmm(lhs, rhs, sizes, tiling=None), expected)
    with pytest.raises(ArgumentValueError, match="no sizes"):
        kernels.gmm(lhs, rhs, sizes, tiling=lambda m, k, n: None)
    with pytest.raises(ArgumentValueError, match=r"tiling\[1\]"):
        kernels.gmm(lhs, rhs, sizes, tiling=(8, 0, 8))
    with pytest.raises(ShapeError, match="gmm needs rows"):
        kernels.gmm(lhs, rhs[:, :5], sizes)
    with pytest.raises(ShapeError, match="gmm needs rows"):
        kernels.gmm(lhs, rhs, sizes[:2])
    with pytest.raises(DtypeError, match="one dtype"):
        kernels.gmm(lhs, rhs.astype("bfloat16"), sizes)
    with pytest.raises(ShapeError, match="existing_out"):
        kernels.gmm(lhs, rhs, sizes, existing_out=lhs)
    with pytest.raises(ShapeError, match="group_offset"):
        kernels.gmm(lhs, rhs, sizes, group_offset=np.array([1]))
