"""Attention of one query over keys that are kept, in arrays and in pages, against plain forms."""

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid.errors import ArgumentValueError, ShapeError
from pellucid.experimental.pallas.ops.gpu import decode_attention, paged_attention
from pellucid.introspect.triton_text import triton_texts
from tests.core.kernels.ops.closeness import assert_close

SMALL = {"block_h": 16, "block_k": 16, "k_splits": 3}


def array(shape, dtype="float32", seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), dtype)


def kept(keys, heads=4, kv_heads=2, head_size=8, batch=2):
    return [
        array((batch, heads, head_size)),
        *[array((batch, keys, kv_heads, head_size), seed=i) for i in (1, 2)],
    ]


@pytest.mark.parametrize("keys", [1, 32, 61, 100])
@pytest.mark.parametrize(
    ("first", "end"), [(None, None), (3, 40), (np.array([3, 5]), np.array([17, 5]))]
)
def test_one_query_over_the_keys_of_its_sequence(keys, first, end):
    args, options = kept(keys), {"return_residuals": True}
    found = decode_attention.gqa(*args, first, end, **SMALL, **options)
    assert_close(found, decode_attention.gqa_reference(*args, first, end, **options))


def test_one_head_of_keys_other_scales_and_sums():
    q, k, v = kept(40, 3, 1, 5)
    args, options = (q, k[:, :, 0], v[:, :, 0]), {"sm_scale": 2.0, "normalize_output": False}
    assert_close(
        decode_attention.mqa(*args, **SMALL, **options),
        decode_attention.mqa_reference(*args, **options),
    )
    assert_close(decode_attention.mqa(*args), decode_attention.mqa_reference(*args))
    own = [jnp.repeat(x, 3, 2) for x in (k, v)]
    assert_close(decode_attention.mha_reference(q, *own), decode_attention.mqa_reference(*args))


def test_a_query_without_keys_gives_0():
    assert not decode_attention.gqa(*kept(32), 8, 8).any()


def test_derivatives_and_batches_of_decoding():
    args = kept(40)
    ours = lambda *x: (decode_attention.gqa(*x, 3, 33, **SMALL) ** 2).sum()
    plain = lambda *x: (decode_attention.gqa_reference(*x, 3, 33) ** 2).sum()
    assert_close(pl.jit(pl.grad(ours, (0, 1, 2)))(*args), pl.grad(plain, (0, 1, 2))(*args))
    batch = [jnp.stack([x, -x]) for x in args]
    assert_close(
        pl.vmap(lambda *x: decode_attention.gqa(*x, **SMALL))(*batch),
        pl.vmap(decode_attention.gqa_reference)(*batch),
    )


def test_what_decoding_can_not_take():
    q, k, v = kept(16)
    with pytest.raises(ShapeError, match="gqa needs one query"):
        decode_attention.gqa(q[:, :3], k, v)
    with pytest.raises(ArgumentValueError, match="k_splits"):
        decode_attention.gqa(q, k, v, k_splits=0)
    with pytest.raises(ArgumentValueError, match="the grid follows"):
        decode_attention.gqa(q, k, v, grid=(1,))


def pages(kv_heads=2, page_size=4, head_size=8, dtype="float32", n=9):
    return [array((kv_heads, n, page_size, head_size), dtype, seed) for seed in (1, 2)]


def gathered(pages, table):
    """[batch, keys, heads, head size], from the pages of each sequence."""
    found = jnp.moveaxis(pages[:, table], 0, 3)  # [batch, pages, page size, heads, head size]
    return found.reshape((table.shape[0], -1, *found.shape[3:]))


@pytest.mark.parametrize("sizes", [(1, 1), (2, 2), (3, 16), (8, 1)])
def test_keys_in_pages(sizes):
    q, (k, v) = array((2, 4, 8)), pages()
    table, lengths = np.array([[4, 0, 7, 2, 1], [3, 8, 3, 5, 6]]), np.array([19, 6])
    options = {"pages_per_compute_block": sizes[0], "k_splits": sizes[1]}
    expected = paged_attention.paged_attention_reference(
        q, gathered(k, table), gathered(v, table), lengths
    )
    # Pages behind the length may be any.
    unused = np.where(np.arange(5) * 4 < lengths[:, None], table, -7)
    assert_close(paged_attention.paged_attention(q, k, v, unused, lengths, **options), expected)


def test_soft_caps_scales_and_all_keys():
    q, (k, v), table = array((2, 4, 8)), pages(), np.array([[4, 0, 7], [3, 8, 3]])
    whole = [jnp.round(20 * x).astype("int8") for x in (k, v)]
    factors = [jnp.abs(array(k.shape[:3], seed=i)) / 20 for i in (3, 4)]
    found = paged_attention.paged_attention(
        q, *whole, table, None, *factors, attn_logits_soft_cap=2.0
    )
    scaled = [gathered(x * f[..., None], table) for x, f in zip(whole, factors, strict=True)]
    expected = paged_attention.paged_attention_reference(q, *scaled, None, attn_logits_soft_cap=2.0)
    assert_close(found, expected)


def test_what_pages_can_not_take():
    q, (k, v) = array((1, 4, 8)), pages()
    for page in (9, -1):
        found = paged_attention.paged_attention(q, k, v, np.array([[page]]), np.array([4]))
        assert jnp.isnan(found).all()
    with pytest.raises(ShapeError, match="row of pages"):
        paged_attention.paged_attention(q, k, v, np.array([[1], [2]]), np.array([4]))
    with pytest.raises(ShapeError, match="factor for each key"):
        paged_attention.paged_attention(q, k, v, np.array([[1]]), np.array([4]), np.ones(3))


def test_they_become_programs_of_triton():
    [found] = triton_texts(lambda *x: decode_attention.gqa(*x, **SMALL), *kept(61))
    assert "tt.dot" in found.text
    q, (k, v) = array((2, 4, 16)), pages(page_size=16, head_size=16)
    [found] = triton_texts(
        lambda *x: paged_attention.paged_attention(*x, pages_per_compute_block=2), q, k, v, np.array([[4, 0], [7, 2]]), np.array([19, 6])
    )  # fmt: skip
    assert "tt.dot" in found.text
