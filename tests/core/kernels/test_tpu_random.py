"""Random numbers in kernels: what is made of the bits of a TPU's generator, and blocks of one array."""

import numpy as np
import pytest
from corpus import tpu_chips as corpus

import pellucid as pl
from pellucid._machine.base.errors import ArgumentValueError, DtypeError, UnsupportedError
from pellucid.experimental import pallas
from pellucid.experimental.pallas import BlockSpec, pallas_call, tpu
from pellucid.kernels import tpu_random


@pytest.fixture
def bits(monkeypatch):
    """Bits of NumPy in place of those of a TPU's core, a list of what was drawn."""
    rng, drawn = np.random.default_rng(0), []

    def draw(shape):
        drawn.append(rng.integers(-(1 << 31), 1 << 31, shape, np.int32))
        return pl.numpy.asarray(drawn[-1])

    monkeypatch.setattr(tpu_random, "prng_random_bits", draw)
    return drawn


def test_numbers_made_of_bits(bits):
    whole = tpu.stateful_bits((4, 8))
    np.testing.assert_array_equal(whole, bits[-1].view(np.uint32), strict=True)
    assert tpu.stateful_bits((4, 8), "uint8").dtype == np.uint8
    even = np.asarray(tpu.stateful_uniform((200, 100), minval=-2.0, maxval=3.0))
    assert even.min() >= -2
    assert even.max() < 3
    np.testing.assert_allclose([even.mean(), even.var()], [0.5, 25 / 12], rtol=0.02)
    assert tpu.stateful_uniform((4,), "bfloat16").dtype == "bfloat16"
    normal = np.asarray(tpu.stateful_normal((200, 100)))
    assert np.isfinite(normal).all()
    np.testing.assert_allclose([normal.mean(), normal.std()], [0, 1], atol=0.02)
    np.testing.assert_allclose(np.mean(normal > 1.645), 0.05, atol=0.005)
    drawn = np.asarray(tpu.stateful_bernoulli(np.full((200, 100), 0.3, np.float32)))
    assert drawn.dtype == np.bool_
    np.testing.assert_allclose(drawn.mean(), 0.3, atol=0.01)
    assert tpu.stateful_bernoulli(shape=(3, 2)).shape == (3, 2)


def test_the_ends_of_the_bits(monkeypatch):
    ends = np.int32([0, -1])
    monkeypatch.setattr(tpu_random, "prng_random_bits", lambda shape: pl.numpy.asarray(ends))
    np.testing.assert_array_equal(tpu.stateful_uniform((2,)), [0, 1 - 2.0**-23])
    assert np.isfinite(tpu.stateful_normal((2,))).all()


def test_the_generator_is_that_of_a_tpu():
    def kernel(o_ref):
        tpu.prng_seed(3)
        o_ref[...] = tpu.stateful_normal((8, 128))

    with pytest.raises(UnsupportedError, match="runs on TPUs only"):
        pallas_call(kernel, pl.ShapeDtypeStruct((8, 128), np.float32))()
    for call in (
        lambda: tpu.stateful_bits((2,), "int32"),
        lambda: tpu.stateful_uniform((2,), "float16"),
        lambda: tpu.stateful_normal((2,), "int32"),
    ):
        with pytest.raises(DtypeError, match="gives"):
            call()


def test_blocks_are_those_of_the_reference(oracle):
    for ours, expected in zip(
        corpus.sampled_blocks(pl), oracle.call(corpus.sampled_blocks), strict=True
    ):
        np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("block", [(8, 16), (4, 32), (16, 8)])
def test_blocks_of_a_kernel_are_parts_of_one_array(block):
    key, whole = pl.random.key(1), (16, 32)

    def kernel(key_ref, o_ref):
        within = pl.random.wrap_key_data(key_ref[...])
        o_ref[...] = tpu.sample_block(pl.random.normal, within, block, (4, 8), whole)

    grid = tuple(n // m for n, m in zip(whole, block, strict=True))
    spec = BlockSpec(block, lambda i, j: (i, j))
    call = pallas_call(kernel, pl.ShapeDtypeStruct(whole, np.float32), grid=grid, out_specs=spec)
    expected = tpu.sample_block(pl.random.normal, key, whole, (4, 8), whole, (0, 0))
    np.testing.assert_array_equal(call(pl.random.key_data(key)), expected)


def test_sizes_that_do_not_fit():
    key = pl.random.key(0)
    for sizes, index, message in (
        (((8,), (4, 8), (16, 32)), (0, 0), "same number of dimensions"),
        (((8, 16), (3, 8), (16, 32)), (0, 0), "tiles divide"),
        (((8, 16), (4, 8), (18, 32)), (0, 0), "tiles divide"),
        (((8, 16), (4, 8), (16, 32)), (0,), "a number for each dimension"),
    ):
        with pytest.raises(ArgumentValueError, match=message):
            tpu.sample_block(pl.random.uniform, key, *sizes, index)


def test_references_and_memories_that_are_named():
    with pytest.raises(TypeError, match="touch takes a reference"):
        tpu.touch(np.zeros(2))
    ref = pl.new_ref(np.zeros(2))
    tpu.touch(ref)
    tpu.touch(ref.at[0])
    with pytest.raises(TypeError, match="takes a memory space"):
        tpu.with_memory_space_constraint(1.0, "vmem")
    assert tpu.with_memory_space_constraint(ref, pallas.ANY) is ref
    assert issubclass(UnsupportedError, tpu.LoweringException)
