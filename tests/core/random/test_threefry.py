"""Threefry: known answers, and counters of many elements."""

import numpy as np
import pytest

from pellucid.random.threefry import Iota2x32ShapeParams, iota_2x32_shape_p, threefry2x32
from pellucid.tracing.staging import stage
from pellucid.tracing.trace import bind


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


def test_counters_of_a_huge_array_have_an_upper_word() -> None:
    shape = (2**20, 2**20)
    jaxpr, _ = stage(lambda: bind(iota_2x32_shape_p, params=Iota2x32ShapeParams(shape)), [])
    assert [a.shape for a in jaxpr.out_avals] == [shape, shape]
