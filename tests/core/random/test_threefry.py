"""Threefry: known answers, and counters of many elements."""

import numpy as np
import pytest

import pellucid as pl
from pellucid import random
from pellucid._machine.base.errors import UnsupportedError
from pellucid._machine.tracing.staging import stage
from pellucid._machine.tracing.trace import bind
from pellucid.random.philox import philox2x32_p, philox4x32_p
from pellucid.random.threefry import (
    Iota2x32ShapeParams,
    iota_2x32_shape_p,
    threefry2x32,
    threefry4x32_p,
)


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


PI = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0, 0x082EFA98, 0xEC4E6C89)  # fmt: skip


@pytest.mark.parametrize(
    ("word_hash", "of_zeros", "of_ones", "of_pi"),
    [
        (philox2x32_p, "ff1dae59 6cd10df2", "2c3f628b ab4fd7ad", "dd7ce038 f62a4c12"),
        (
            philox4x32_p,
            "6627e8d5 e169c58d bc57ac4c 9b00dbd8",
            "408f276d 41c83b0e a20bc7c6 6d5451fd",
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
        (
            threefry4x32_p,
            "9c6ca96a e17eae66 fc10ecd4 5256a7d8",
            "2a881696 57012287 f6c7446e a16a6732",
            "59cd1dbb b8879579 86b5d00c ac8b6d84",
        ),
    ],
    ids=str,
)
def test_hashes_give_the_known_answers_of_random123(word_hash, of_zeros, of_ones, of_pi) -> None:
    n_key, n_counter = word_hash.n_key_words, word_hash.n_counter_words
    counter_first = PI[n_counter : n_counter + n_key] + PI[:n_counter]
    n = n_key + n_counter
    for words, expected in (
        ([0] * n, of_zeros), ([0xFFFFFFFF] * n, of_ones), (counter_first, of_pi),
    ):  # fmt: skip
        drawn = bind(word_hash, *map(np.uint32, words))
        assert " ".join(f"{int(word):08x}" for word in drawn) == expected


def test_counters_of_a_huge_array_have_an_upper_word() -> None:
    shape = (2**20, 2**20)
    jaxpr, _ = stage(lambda: bind(iota_2x32_shape_p, params=Iota2x32ShapeParams(shape)), [])
    assert [a.shape for a in jaxpr.out_avals] == [shape, shape]


def test_bits_without_the_option_partitionable_are_those_of_consecutive_counters() -> None:
    """Expected numbers are the reference's; 32 random bits hold several narrow numbers."""
    key = random.key(7)
    with pl.enable_x64(True), pl.threefry_partitionable(False):
        for dtype, shape, expected in (
            ("uint8", (5,), [191, 40, 160, 11, 191]),
            ("uint16", (3,), [10431, 2976, 22207]),
            ("uint32", (5,), [276534068, 861967409, 2793701230, 1641862660, 2900896126]),
            ("uint64", (3,), [1187704779931702788, 3702121834773752190, 8185182656453653932]),
        ):
            bits = random.bits(key, shape, dtype)
            assert bits.dtype == dtype
            assert bits.tolist() == expected
        by_rows = random.bits(key, (2, 3), "uint32")
        assert np.ravel(by_rows).tolist() == [
            276534068, 861967409, 1905761346, 1641862660, 2900896126, 1402713516,
        ]  # fmt: skip
        keys = random.split(key, 3)
        assert np.ravel(random.key_data(keys)).tolist() == np.ravel(by_rows).tolist()
        each = [random.bits(k, (5,)) for k in keys]
        np.testing.assert_array_equal(pl.vmap(lambda k: random.bits(k, (5,)))(keys), each)
        with pytest.raises(UnsupportedError, match="4294967296 words"):
            pl.jit(lambda: random.bits(key, (2**32,), "uint32")).lower()
    assert random.bits(key, (), "uint32") != by_rows[0, 0]
