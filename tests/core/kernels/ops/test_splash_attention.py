"""Attention with masks that are known beforehand, against its plain form."""

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid.errors import ArgumentTypeError, ArgumentValueError, ShapeError
from pellucid.experimental.pallas.ops.tpu import splash_attention as splash
from pellucid.experimental.pallas.ops.tpu.splash_attention import (
    splash_attention_kernel as kernels,
    splash_attention_mask as masks,
    splash_attention_mask_info as infos,
)
from pellucid.sharding import Mesh, NamedSharding, PartitionSpec as P
from tests.core.kernels.ops.closeness import assert_close

SIZES = splash.BlockSizes(16, 16)


def array(shape, dtype="float32", seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), dtype)


def heads_of(t, s):
    return {
        "causal": [masks.CausalMask((t, s), s - t)] * 2,
        "local": [masks.LocalMask((t, s), (5, 3), s - t)] * 2,
        "chunks": [masks.ChunkedCausalMask((t, s), 12)] * 2,
        "full": [masks.FullMask((t, s))] * 2,
        "of several kinds": [masks.CausalMask((t, s)), masks.LocalMask((t, s), (4, None), 0)],
        "combined": [masks.CausalMask((t, s)) & masks.LocalMask((t, s), (20, 20), 0) | masks.NumpyMask(np.eye(t, s, dtype=bool))] * 2,
        "random": [masks.NumpyMask(masks.make_random_mask((t, s), 0.9, i)) for i in range(2)],
        "nothing": [masks.NumpyMask(np.zeros((t, s), bool)), masks.FullMask((t, s))],
    }  # fmt: skip


def operands(t, s, heads=2, kv_heads=2, head_size=8):
    return [
        array((n, m, head_size), seed=i)
        for i, (n, m) in enumerate([(heads, t), (kv_heads, s), (kv_heads, s)])
    ]


def gradients(function, args, which=(0, 1, 2)):
    g = array(args[0].shape, seed=5)
    return pl.jit(pl.grad(lambda *x: (function(*x) * g).sum(), which))(*args)


@pytest.mark.parametrize("name", heads_of(1, 1))
@pytest.mark.parametrize(("t", "s"), [(32, 48), (37, 41)])
def test_results_and_derivatives_are_those_of_the_plain_form(name, t, s):
    mask, args = splash.MultiHeadMask(heads_of(t, s)[name]), operands(t, s)
    ours, plain = (
        splash.make_splash_mha_single_device(mask, block_sizes=SIZES),
        splash.make_masked_mha_reference(mask),
    )
    assert_close(pl.jit(ours)(*args), plain(*args))
    assert_close(gradients(ours, args), gradients(plain, args))


def test_segments_soft_cap_sinks_and_groups_of_heads():
    mask, args = splash.MultiHeadMask([masks.CausalMask((37, 37))] * 4), operands(37, 37, 4, 2)
    ids = np.sort(np.random.default_rng(1).integers(0, 3, 37))
    ids, sinks = splash.SegmentIds(ids, ids), array((4,), seed=7)
    sizes = splash.BlockSizes(16, 32, 16, 32, 16, 16, 16, 32)
    assert sizes.has_backward_blocks
    ours = splash.make_splash_mha_single_device(mask, block_sizes=sizes, attn_logits_soft_cap=3.0)
    plain = splash.make_masked_mha_reference(mask, attn_logits_soft_cap=3.0)
    functions = [lambda q, k, v, sinks, f=f: f(q, k, v, ids, sinks) for f in (ours, plain)]
    assert_close(*[f(*args, sinks) for f in functions])
    assert_close(*[gradients(f, (*args, sinks), (0, 1, 2, 3)) for f in functions])


def test_one_head_of_keys_and_batches():
    mask, (q, k, v) = splash.MultiHeadMask([masks.CausalMask((20, 20))] * 3), operands(20, 20, 3, 1)
    ours, plain = (
        splash.make_splash_mqa_single_device(mask, block_sizes=SIZES),
        splash.make_masked_mqa_reference(mask),
    )
    assert_close(gradients(ours, (q, k[0], v[0])), gradients(plain, (q, k[0], v[0])))
    batch = [jnp.stack([x, 2 * x]) for x in (q, k[0], v[0])]
    expected = jnp.stack([plain(*[x[i] for x in batch]) for i in range(2)])
    assert_close(pl.vmap(ours)(*batch), expected)


def test_residuals_and_narrow_numbers():
    mask, args = splash.MultiHeadMask(heads_of(20, 20)["local"]), operands(20, 20)
    result, (lse,) = splash.make_splash_mha_single_device(
        mask, block_sizes=SIZES, save_residuals=True
    )(*args)
    expected = splash.make_masked_mha_reference(mask, save_residuals=True)(*args)
    assert_close((result, (lse,)), expected)
    narrow = [x.astype("bfloat16") for x in args]
    found = splash.make_splash_mha_single_device(mask, block_sizes=SIZES)(*narrow)
    assert_close(found, expected[0].astype("bfloat16"), 0.05)


def test_a_mask_that_is_computed():
    args, mask = (
        operands(37, 41),
        np.stack([masks.make_random_mask((37, 41), 0.7, i) for i in range(2)]),
    )

    def ours(mask, *args):
        return splash.make_splash_mha_single_device(mask, block_sizes=SIZES)(*args)

    plain = splash.make_masked_mha_reference(mask)
    assert_close(pl.jit(ours)(jnp.asarray(mask), *args), plain(*args))
    assert_close(gradients(lambda *x: ours(jnp.asarray(mask), *x), args), gradients(plain, args))


@pytest.mark.parametrize("kind", ["causal", "random"])
def test_heads_and_queries_over_devices(kind):
    mask, args = splash.MultiHeadMask(heads_of(64, 48)[kind]), operands(64, 48)
    mesh = Mesh(np.array(pl.devices()[:4]).reshape(2, 2), ("heads", "queries"))
    kernel = splash.make_splash_mha(mask, block_sizes=SIZES, head_shards=2, q_seq_shards=2)
    specs = kernel.manual_sharding_spec(NamedSharding(mesh, P("heads", "queries")))

    def attend(q, k, v):
        run = pl.shard_map(
            lambda kernel, q, k, v: kernel(q, k, v), mesh=mesh, check_vma=False,
            in_specs=(specs, P("heads", "queries"), P("heads"), P("heads")), out_specs=P("heads", "queries"),
        )  # fmt: skip
        return run(kernel, q, k, v)

    plain = splash.make_masked_mha_reference(mask)
    assert_close(np.asarray(pl.jit(attend)(*args)), np.asarray(plain(*args)))
    found, expected = gradients(attend, args), gradients(plain, args)
    assert_close([np.asarray(x) for x in found], [np.asarray(x) for x in expected])


def test_blocks_without_a_visible_key_are_not_visited():
    info, formula = infos.process_mask(masks.LocalMask((64, 64), (8, 0), 0), (16, 16))
    assert formula == masks.LocalMask((64, 64), (8, 0), 0)
    assert info.block_mask.shape == (1, 4, 2)  # two of four blocks of keys
    assert info.data_next.tolist() == [[[0, 0], [0, 1], [1, 2], [2, 3]]]
    assert info.partial_mask_blocks is None


def test_what_is_known_of_a_mask_is_that_of_the_reference():
    # Recorded from jax 0.10.2.
    mask = masks.MultiHeadMask([masks.CausalMask((8, 8)), masks.LocalMask((8, 8), (2, 0), 0)])
    info, _ = infos.process_mask(mask, (2, 2))
    assert info.block_mask.tolist() == [
        [[1, 0, 0, 0], [2, 1, 0, 0], [2, 2, 1, 0], [2, 2, 2, 1]], [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0]],
    ]  # fmt: skip
    assert info.data_next[0].tolist() == [[0, 0, 0, 0], [0, 1, 0, 0], [0, 1, 2, 0], [0, 1, 2, 3]]
    assert info.mask_next[0].tolist() == [[0, 0, 0, 0]] * 4
    assert info.partial_mask_blocks.shape == (2, 2, 2)
    assert info.block_mask.dtype == np.int8
    back, _ = infos.process_mask_dkv(mask, (2, 2), shrink_grid=False)
    assert back.data_next[0].tolist() == [[0, 1, 2, 3], [1, 1, 2, 3], [2, 2, 2, 3], [3, 3, 3, 3]]
    assert masks.make_random_mask((2, 4), 0.5, 0).astype(int).tolist() == [
        [1, 1, 1, 1],
        [0, 1, 0, 1],
    ]


def test_parts_of_masks():
    mask = masks.MultiHeadMask([masks.CausalMask((4, 4)), masks.NumpyMask(np.eye(4, dtype=bool))])
    assert mask.shape == (2, 4, 4)
    assert mask[:, 1:3, :].shape == (2, 2, 4)
    assert mask[1, :, :].tolist() == np.eye(4).tolist()
    with pytest.raises(ArgumentTypeError, match="truth value"):
        bool(masks.FullMask((2, 2)))
    with pytest.raises(ShapeError, match="same shape"):
        masks.FullMask((2, 2)) & masks.FullMask((2, 3))
    with pytest.raises(ShapeError, match="one shape"):
        masks.MultiHeadMask([masks.FullMask((2, 2)), masks.FullMask((2, 3))])
    with pytest.raises(ArgumentValueError, match="chunk_size"):
        masks.ChunkedCausalMask((2, 2), 0)
    with pytest.raises(ArgumentTypeError, match="booleans"):
        masks.NumpyMask(np.eye(2))


def test_what_does_not_fit_is_named():
    kernel = splash.make_splash_mha_single_device(
        masks.MultiHeadMask([masks.FullMask((32, 32))] * 2), block_sizes=SIZES
    )
    q, k, v = operands(32, 32)
    with pytest.raises(ShapeError, match="needs a mask of the heads"):
        kernel(*operands(16, 32))
    with pytest.raises(ShapeError, match="splash attention needs q"):
        kernel(q, k[0], v[0])
    with pytest.raises(ShapeError, match="segment id"):
        kernel(q, k, v, splash.SegmentIds(np.zeros(3), np.zeros(32)))
    with pytest.raises(ShapeError, match="sink"):
        kernel(q, k, v, None, np.zeros(3))
    with pytest.raises(ArgumentValueError, match="block_kv_compute"):
        splash.BlockSizes(16, 16, 5)
    with pytest.raises(ArgumentValueError, match="head_shards"):
        infos.process_mask(masks.FullMask((8, 8)), (4, 4), head_shards=3)
    assert kernels.get_kernel_name(False, True, False, "fwd") == "splash_mha_fwd_residuals"
