"""Random bits: known answers, ranges, batches."""

import numpy as np
import pytest

from pellucid.ir.rules import BatchAxis
from pellucid.primitives.random_bits import (
    Iota2x32ShapeParams,
    iota_2x32_shape_p,
    rng_bit_generator,
    rng_uniform,
    threefry2x32,
)
from pellucid.tracing.staging import stage
from pellucid.transforms.vmap import batch_flat


@pytest.mark.parametrize(
    ("key", "counter", "expected"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_threefry_gives_the_known_answers_of_random123(key, counter, expected) -> None:
    words = threefry2x32(*(np.uint32(word) for word in (*key, *counter)))
    assert tuple(int(word) for word in words) == expected


def test_uniform_numbers_lie_between_their_bounds() -> None:
    numbers = np.asarray(rng_uniform(np.int32(-3), np.int32(2), (1000,)))
    assert set(numbers) == set(range(-3, 2))


def test_a_batch_of_keys_takes_the_generator_of_the_first() -> None:
    keys = np.arange(8, dtype=np.uint32).reshape(2, 4)
    (following, bits), dims = batch_flat(
        lambda k: rng_bit_generator(k, (3,)), BatchAxis(2), [keys], [0]
    )
    alone_following, alone_bits = rng_bit_generator(keys[0], (2, 3))
    assert dims == [0, 0]
    np.testing.assert_array_equal(bits, alone_bits)
    np.testing.assert_array_equal(following, [alone_following, keys[1]])


def test_counters_of_a_huge_array_have_an_upper_word() -> None:
    from pellucid.tracing.trace import bind

    shape = (2**20, 2**20)
    jaxpr, _ = stage(lambda: bind(iota_2x32_shape_p, params=Iota2x32ShapeParams(shape)), [])
    assert [a.shape for a in jaxpr.out_avals] == [shape, shape]
