"""Attention as kernels of GPUs, against its plain form, and in Triton's dialect."""

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid.errors import ArgumentValueError, ShapeError
from pellucid.experimental.pallas.ops.gpu import attention
from pellucid.experimental.pallas.ops.gpu.attention import BlockSizes, mha, mha_reference
from pellucid.experimental.pallas.ops.online_softmax import Logits
from pellucid.introspect.triton_text import triton_texts
from tests.core.kernels.ops.closeness import assert_close
from tests.core.kernels.test_triton import assert_same

SMALL = BlockSizes(16, 16)
# Numbers of queries and keys, whether causal, whether segmented, head size.
CASES = {
    "whole blocks": (32, 32, False, False),
    "causal": (32, 32, True, False),
    "odd lengths": (21, 37, False, False, 5),
    "odd, causal, more keys": (19, 40, True, False),
    "odd, causal, more queries": (40, 19, True, False),
    "segments": (35, 35, False, True),
    "segments, causal": (35, 35, True, True),
}


def operands(queries, keys, heads=2, head_size=8, batch=2, dtype="float32"):
    rng = np.random.default_rng(0)
    shapes = (queries, keys, keys, queries)
    return [jnp.asarray(rng.normal(size=(batch, n, heads, head_size)), dtype) for n in shapes]


def of_case(queries, keys, causal, segments, head_size=8):
    q, k, v, g = operands(queries, keys, head_size=head_size)
    ids = np.sort(np.random.default_rng(1).integers(0, 3, (2, queries)), 1) if segments else None
    return (q, k, v, ids), g, {"causal": causal, "sm_scale": 0.5}


def gradients(function, args, g, **options):
    q, k, v, ids = args
    loss = lambda q, k, v: (function(q, k, v, ids, **options) * g).sum()
    return pl.jit(pl.grad(loss, (0, 1, 2)))(q, k, v)


@pytest.mark.parametrize("name", CASES)
def test_results_and_derivatives_are_those_of_the_plain_form(name):
    args, g, options = of_case(*CASES[name])
    assert_close(mha(*args, block_sizes=SMALL, **options), mha_reference(*args, **options))
    expected = gradients(mha_reference, args, g, **options)
    assert_close(gradients(mha, args, g, block_sizes=SMALL, **options), expected)


def test_the_derivative_by_the_formula():
    args, g, options = of_case(*CASES["segments, causal"])
    found = gradients(mha, args, g, block_sizes=SMALL, backward_pass_impl="xla", **options)
    assert_close(found, gradients(mha_reference, args, g, **options))


def test_blocks_of_other_sizes_on_the_way_back():
    args, g, options = of_case(*CASES["odd, causal, more keys"])
    sizes = BlockSizes(32, 16, 16, 32, 32, 16)
    assert sizes.has_backward_blocks
    assert BlockSizes.get_default().has_backward_blocks
    assert_close(
        gradients(mha, args, g, block_sizes=sizes, **options),
        gradients(mha_reference, args, g, **options),
    )


@pytest.mark.parametrize(("dtype", "tolerance"), [("bfloat16", 0.05), ("float16", 0.01)])
def test_narrow_numbers(dtype, tolerance):
    q, k, v, _g = operands(20, 20, dtype=dtype)
    exact = mha_reference(*[x.astype("f4") for x in (q, k, v)], None, causal=True)
    assert_close(mha(q, k, v, None, causal=True, block_sizes=SMALL), exact.astype(dtype), tolerance)


def test_the_logarithm_of_the_sum():
    q, k, v, _ = operands(20, 24)
    result, lse = mha(q, k, v, None, block_sizes=SMALL, return_residuals=True)
    logits = np.einsum("btnh,bsnh->bnts", q, k)
    np.testing.assert_allclose(lse, np.log(np.exp(logits).sum(-1)), 1e-5)
    assert_close(result, mha_reference(q, k, v, None))


def test_large_logits_do_not_overflow():
    q, k, v, _ = operands(20, 20)
    assert_close(
        mha(300 * q, k, v, None, block_sizes=SMALL), mha_reference(300 * q, k, v, None), 1e-4
    )


def test_batches_and_second_derivatives():
    q, k, v, _ = operands(17, 17, batch=1)
    batch = [jnp.stack([x, 2 * x]) for x in (q, k, v)]
    ours = lambda q, k, v: mha(q, k, v, None, causal=True, block_sizes=SMALL)
    plain = lambda q, k, v: mha_reference(q, k, v, None, causal=True)
    assert_close(pl.vmap(ours)(*batch), pl.vmap(plain)(*batch))
    second = lambda f: pl.jit(
        pl.grad(lambda q: (pl.grad(lambda q: (f(q, k, v) ** 2).sum())(q) ** 2).sum())
    )(q)
    assert_close(second(ours), second(plain), 1e-3)


def test_what_does_not_fit_is_named():
    q, k, v, _ = operands(16, 16)
    with pytest.raises(ShapeError, match="mha needs"):
        mha(q, k[:, :, :1], v[:, :, :1], None)
    with pytest.raises(ShapeError, match="segment id"):
        mha(q, k, v, np.zeros((2, 3), np.int32))
    with pytest.raises(ArgumentValueError, match="block_k"):
        mha(q, k, v, None, block_sizes=BlockSizes(16, 0))
    with pytest.raises(ArgumentValueError, match="grid"):
        mha(q, k, v, None, grid=(3, 3, 3))


def test_the_matrix_of_logits_is_nowhere_in_the_program():
    q, k, v, g = operands(64, 64, heads=1, batch=1)
    text = (
        pl.jit(pl.grad(lambda q: (mha(q, k, v, None, block_sizes=SMALL) * g).sum()))
        .lower(q)
        .as_text()
    )
    assert "64x64x" not in text
    assert "64x1x64xf32" not in text


def test_it_becomes_programs_of_triton():
    args, g, options = of_case(*CASES["segments, causal"])
    q, k, v, ids = args
    loss = lambda q, k, v, ids: (mha(q, k, v, ids, block_sizes=SMALL, **options) * g).sum()
    texts = triton_texts(pl.grad(loss, (0, 1, 2)), q, k, v, ids)
    assert [found.grid for found in texts] == [(2, 2, 3)] * 3  # the last axis first
    assert all("tt.dot" in found.text for found in texts)


def test_kernels_in_the_dialect_of_triton_compute_the_same():
    q, k, v, g = operands(32, 32, heads=1, head_size=16, batch=1)
    ids = np.repeat([[0, 1]], 16, 1).astype(np.int32)
    setting = attention._Setting(Logits(0.5), True, 32, 32, True, None, 2)
    _, lse = attention._forward(setting, SMALL, q, k, v, ids)
    # The kernel gets the ids twice, for blocks of queries and for all keys.
    assert_same(
        lambda *args: attention._forward(setting, SMALL, *args[:4]), q, k, v, ids, ids, atol=2e-6
    )
    for back in (attention._queries_back, attention._keys_back):
        call = lambda *args, back=back: back(setting, SMALL, args[-1:], *args[:-2])
        assert_same(call, q, k, v, g, lse, g.sum(-1).swapaxes(1, 2), ids, ids, atol=2e-5)


def test_a_mask_of_segments():
    assert attention.segment_mask(np.array([[0, 1]]), np.array([[1]])).tolist() == [
        [[False], [True]]
    ]
