"""Generators of one's own, and what has no samples yet."""

import numpy as np
import pytest
from message_checks import check_message

import pellucid as pl
from pellucid import random
from pellucid._machine.base.errors import ArgumentTypeError, ArgumentValueError, ShapeError
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


DRAWN = {
    "gamma(rbg, 2.0, (3,))": [2.093, 1.007, 1.132],
    "gamma(unsafe, 2.0, (3,))": [1.537, 1.674, 0.9694],
    "loggamma(rbg, 2.0, (3,))": [0.7386, 0.006992, 0.1243],
    "beta(rbg, 2.0, 3.0, (3,))": [0.009538, 0.1494, 0.8633],
    "dirichlet(rbg, np.ones(3, np.float32))": [0.597, 0.181, 0.222],
    "t(unsafe, 3.0, (3,))": [-0.3434, -0.1043, -0.9458],
    "split(rbg, 3)": [[0.07879, 1.088], [1.521, 4.677], [0.6874, 0.8211]],
    "split(unsafe, 3)": [[0.1978, 2.711], [1.368, 0.6693], [2.168, 4.261]],
}
"""What the reference draws on CPUs with keys whose bits depend on the batch; of several keys, two gamma numbers each."""


@pytest.mark.parametrize("row", DRAWN)
def test_each_element_is_drawn_by_itself_where_bits_depend_on_the_batch(row) -> None:
    names = {
        f: getattr(random, f) for f in ("gamma", "loggamma", "beta", "dirichlet", "t", "split")
    }
    names |= {
        "rbg": random.key(0, impl="rbg"),
        "unsafe": random.key(0, impl="unsafe_rbg"),
        "np": np,
    }
    drawn = eval(row, names)
    if row.startswith("split"):
        drawn = pl.vmap(lambda key: random.gamma(key, 2.0, (2,)))(drawn)
    np.testing.assert_allclose(drawn, DRAWN[row], 1e-3)


def test_one_number_is_folded_into_each_key_alike() -> None:
    keys = random.split(random.key(0, impl="unsafe_rbg"), 3)
    together = random.key_data(pl.vmap(lambda key: random.fold_in(key, 7))(keys))
    each = np.stack([random.key_data(random.fold_in(key, 7)) for key in keys])
    np.testing.assert_array_equal(together, each)


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "unsafe_rbg", "philox4x32"])
def test_samples_of_no_elements(impl) -> None:
    key = random.key(0, impl=impl)
    assert random.gamma(key, 2.0, (0,)).shape == random.beta(key, 2.0, 3.0, (0,)).shape == (0,)
    assert random.dirichlet(key, np.ones(3, np.float32), (0,)).shape == (0, 3)
    assert random.ball(key, 3, shape=(0,)).shape == (0, 3)
