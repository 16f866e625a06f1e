"""Generators of one's own, and what has no samples yet."""

import numpy as np
import pytest
from message_checks import check_message

import pellucid as pl
from pellucid import random
from pellucid.base.errors import ArgumentTypeError, ArgumentValueError, ShapeError
from pellucid.extend import random as extend


def test_a_generator_of_ones_own() -> None:
    base = extend.threefry_prng_impl
    mine = extend.define_prng_impl(
        key_shape=(2,), seed=base.seed, split=base.split, random_bits=base.random_bits,
        fold_in=base.fold_in, name="mine", tag="my",
    )  # fmt: skip
    key = random.key(3, impl=mine)
    assert str(key.dtype) == "key<my>"
    assert random.key_impl(key) is mine
    assert key.dtype != random.key(3).dtype
    np.testing.assert_array_equal(random.normal(key, (3,)), random.normal(random.key(3), (3,)))
    np.testing.assert_array_equal(
        pl.jit(lambda k: pl.vmap(random.bits)(random.split(k, 2)))(key),
        pl.vmap(random.bits)(random.split(random.key(3), 2)),
    )


def test_threefry_of_odd_sizes() -> None:
    words = np.zeros(2, np.uint32)
    odd = extend.threefry_2x32(words, np.arange(5, dtype=np.uint32))
    even = extend.threefry_2x32(words, np.asarray([0, 1, 2, 3, 4, 0], np.uint32))
    np.testing.assert_array_equal(odd, even[:5])
    with pytest.raises(ArgumentTypeError, match="uint32"):
        extend.threefry_2x32(words, np.arange(4))


def test_bad_parameters_of_matrices() -> None:
    key = random.key(0)
    check_message(
        lambda: random.multivariate_normal(key, np.zeros(2), np.eye(3)), ShapeError, "[..., n, n]"
    )
    check_message(
        lambda: random.multivariate_normal(key, np.zeros((3, 2)), np.eye(2), (2,)),
        ShapeError, "broadcast to",
    )  # fmt: skip
    check_message(
        lambda: random.multivariate_normal(key, np.zeros(2), np.eye(2), method="lu"),
        ArgumentValueError, "lu",
    )  # fmt: skip
