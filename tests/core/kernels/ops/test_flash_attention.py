"""Attention as kernels of TPUs, and the product of matrices, against their plain forms."""

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid.errors import ArgumentValueError, DtypeError, ShapeError
from pellucid.experimental.pallas.ops.tpu import flash_attention as module
from pellucid.experimental.pallas.ops.tpu.flash_attention import (
    BlockSizes,
    SegmentIds,
    flash_attention,
    mha_reference,
)
from pellucid.experimental.pallas.ops.tpu.matmul import matmul
from tests.core.kernels.ops.closeness import assert_close

SMALL = BlockSizes(16, 32, 16, 1)
# Numbers of queries and keys, whether causal, biased, segmented.
CASES = {
    "whole blocks": (32, 32, False, False, False),
    "odd lengths, biased": (21, 37, False, True, False),
    "causal, biased": (40, 40, True, True, False),
    "causal, more keys": (19, 40, True, False, False),
    "causal, more queries": (40, 19, True, False, False),
    "segments": (35, 50, False, False, True),
    "all": (35, 35, True, True, True),
}


def array(shape, dtype="float32", seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), dtype)


def of_case(queries, keys, causal, biased, segmented, dtype="float32"):
    q, k, v = [array((2, 2, n, 8), dtype, i) for i, n in enumerate((queries, keys, keys))]
    ab = array((2, 2, queries, keys), dtype, 3) if biased else None
    rng = np.random.default_rng(4)
    ids = [np.sort(rng.integers(0, 3, (2, n)), 1) for n in (queries, keys)]
    return (q, k, v, ab, SegmentIds(*ids) if segmented else None), {
        "causal": causal,
        "sm_scale": 0.5,
    }


def gradients(function, args, **options):
    q, k, v, ab, ids = args
    g = array(q.shape, seed=5)
    loss = lambda q, k, v, ab: (function(q, k, v, ab, ids, **options) * g).sum()
    return pl.jit(pl.grad(loss, (0, 1, 2) if ab is None else (0, 1, 2, 3)))(q, k, v, ab)


@pytest.mark.parametrize("name", CASES)
def test_results_and_derivatives_are_those_of_the_plain_form(name):
    args, options = of_case(*CASES[name])
    assert_close(
        flash_attention(*args, block_sizes=SMALL, **options), mha_reference(*args, **options)
    )
    found = gradients(flash_attention, args, block_sizes=SMALL, **options)
    assert_close(found, gradients(mha_reference, args, **options))


def test_blocks_of_other_sizes_on_the_way_back():
    args, options = of_case(*CASES["all"])
    sizes = BlockSizes(16, 32, 16, 2, 32, 32, 16, 16, 16, 16, 32)
    assert sizes.has_backward_blocks
    found = gradients(flash_attention, args, block_sizes=sizes, **options)
    assert_close(found, gradients(mha_reference, args, **options))


def test_blocks_by_default():
    args, options = of_case(*CASES["causal, more keys"])
    assert_close(flash_attention(*args, **options), mha_reference(*args, **options))


@pytest.mark.parametrize(("dtype", "tolerance"), [("bfloat16", 0.05), ("float16", 0.01)])
def test_narrow_numbers(dtype, tolerance):
    (q, k, v, *_), _ = of_case(20, 20, True, False, False, dtype)
    exact = mha_reference(*[x.astype("f4") for x in (q, k, v)], None, causal=True)
    found = flash_attention(q, k, v, causal=True, block_sizes=SMALL)
    assert_close(found, exact.astype(dtype), tolerance)


def test_a_query_that_sees_no_key_gives_0_and_has_no_derivative():
    q, k, v = [array((1, 1, 20, 8), seed=i) for i in range(3)]
    ids = SegmentIds(np.arange(20)[None] // 10, np.zeros((1, 20), np.int32))
    args = (q, k, v, None, ids)
    found = flash_attention(*args, block_sizes=SMALL)
    assert not found[0, 0, 10:].any()
    assert_close(found, mha_reference(*args))
    back = gradients(flash_attention, args, block_sizes=SMALL)
    assert not back[0][0, 0, 10:].any()
    assert_close(back, gradients(mha_reference, args))


def test_a_bias_of_minus_infinity_is_a_mask():
    (q, k, v, _, _), _ = of_case(*CASES["whole blocks"])
    ab = jnp.where(jnp.tri(32, dtype=bool), 0, -jnp.inf) + jnp.zeros((2, 2, 1, 1))
    found = flash_attention(q, k, v, ab, block_sizes=SMALL)
    assert_close(found, mha_reference(q, k, v, None, causal=True))
    back = gradients(
        lambda q, k, v, ab, ids: flash_attention(q, k, v, ab, block_sizes=SMALL),
        (q, k, v, ab, None),
    )
    assert all(jnp.isfinite(x).all() for x in back)


def test_batches():
    (q, k, v, _, _), _ = of_case(*CASES["causal, more keys"])
    batch = [jnp.stack([x, 2 * x]) for x in (q, k, v)]
    ours = lambda q, k, v: flash_attention(q, k, v, causal=True, block_sizes=SMALL)
    assert_close(
        pl.vmap(ours)(*batch), pl.vmap(lambda *x: mha_reference(*x, None, causal=True))(*batch)
    )


def test_residuals_and_the_way_back_of_the_plain_form():
    args, _ = of_case(*CASES["all"])
    result, total, largest = module.mha_reference_no_custom_vjp(*args, save_residuals=True)
    logits = np.einsum("bnth,bnsh->bnts", args[0], args[1]) + args[3]
    mask = args[4].q[:, None, :, None] == args[4].kv[:, None, None, :]
    np.testing.assert_allclose(largest, np.where(mask, logits, -np.inf).max(-1), 1e-5)
    np.testing.assert_allclose(
        total, np.where(mask, np.exp(logits - largest[..., None]), 0).sum(-1), 1e-5
    )
    g = array(args[0].shape, seed=5)
    back = module.mha_reference_bwd(*args, result, total, largest, g)
    assert_close(back, gradients(mha_reference, args))


def test_what_does_not_fit_is_named():
    x = jnp.ones((2, 1, 16, 8))
    with pytest.raises(ShapeError, match="flash_attention needs"):
        flash_attention(x, x[:1], x[:1])
    with pytest.raises(ShapeError, match="`ab`"):
        flash_attention(x, x, x, jnp.ones((2, 1, 16, 1)))
    with pytest.raises(ShapeError, match="segment ids"):
        flash_attention(x, x, x, segment_ids=SegmentIds(np.zeros((2, 16)), np.zeros((2, 3))))
    with pytest.raises(ArgumentValueError, match="block_b"):
        flash_attention(x, x, x, block_sizes=BlockSizes(16, 16, 16, 3))
    with pytest.raises(ArgumentValueError, match="`block_k` must divide `block_k_major`"):
        BlockSizes(16, 32, 24, 1)
    with pytest.raises(ArgumentValueError, match="mask_value"):
        mha_reference(x, x, x, None, mask_value=-5.0)


@pytest.mark.parametrize(("m", "k", "n"), [(8, 8, 8), (5, 7, 3), (17, 1, 9)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_products_of_matrices(m, k, n, dtype):
    rng = np.random.default_rng(0)
    x, y = [jnp.asarray(rng.integers(-3, 4, shape), dtype) for shape in ((m, k), (k, n))]
    found = matmul(x, y, block_shape=(4, 4), block_k=4)
    assert found.dtype == dtype
    expected = np.asarray(x, np.float32) @ np.asarray(y, np.float32)
    np.testing.assert_array_equal(np.asarray(found, np.float32), expected)
    assert matmul(x, y, block_shape=(4, 4), out_dtype="float32").dtype == np.float32


def test_products_of_matrices_differentiate_and_refuse():
    x, y = array((5, 6)), array((6, 7), seed=1)
    ours = lambda x, y: (matmul(x, y, block_shape=(4, 4), block_k=4) ** 2).sum()
    assert_close(
        pl.grad(ours, (0, 1))(x, y), pl.grad(lambda x, y: ((x @ y) ** 2).sum(), (0, 1))(x, y), 1e-4
    )
    assert matmul(x[:0], y, block_shape=(4, 4)).shape == (0, 7)
    with pytest.raises(ShapeError, match="matmul needs"):
        matmul(x, x, block_shape=(4, 4))
    with pytest.raises(DtypeError, match="one dtype"):
        matmul(x, y.astype("bfloat16"), block_shape=(4, 4))
    with pytest.raises(ArgumentValueError, match="block_k"):
        matmul(x, y, block_shape=(4, 4), block_k=0)
