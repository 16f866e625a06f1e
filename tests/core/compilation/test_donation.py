"""Donated arguments: each gives its memory to a result of its own."""

import numpy as np
import pytest

import pellucid as pl
from pellucid._machine.compilation.pipeline import UnusedDonationWarning


def test_each_donated_argument_becomes_another_result():
    x, y = pl.device_put(np.float32([1, 2])), pl.device_put(np.float32([3, 4]))
    memory = {x.unsafe_buffer_pointer(), y.unsafe_buffer_pointer()}
    results = pl.jit(lambda x, y: (x + y, x - y), donate_argnums=(0, 1))(x, y)
    assert [r.tolist() for r in results] == [[4, 6], [-2, -2]]
    assert {r.unsafe_buffer_pointer() for r in results} == memory
    assert x.is_deleted()
    assert y.is_deleted()


def test_one_result_takes_one_argument():
    x, y = pl.device_put(np.float32([1, 2])), pl.device_put(np.float32([3, 4]))
    with pytest.warns(UnusedDonationWarning, match=r"f32\[2\]"):
        total = pl.jit(lambda x, y: x + y, donate_argnums=(0, 1))(x, y)
    assert total.tolist() == [4, 6]
