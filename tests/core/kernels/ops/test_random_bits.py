"""Random bits of kernels: those of the generators' definitions, of `random.bits`, and of the reference."""

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import random
from pellucid.errors import ArgumentValueError
from pellucid.experimental.pallas.ops.tpu.random import philox, prng_utils, threefry

KEY = jnp.array([5, 6], np.uint32)


def philox_plain(counter, key):
    words, key = list(counter), list(key)
    for _ in range(10):
        a, b = philox.MUL_A * words[2], philox.MUL_B * words[0]
        words = [(a >> 32) ^ words[1] ^ key[0], a % 2**32, (b >> 32) ^ words[3] ^ key[1], b % 2**32]
        key = [(key[0] + philox.K_HI_32) % 2**32, (key[1] + philox.K_LO_32) % 2**32]
    return words


def test_philox_is_that_of_its_definition():
    counter, key = [0xFFFFFFFF, 0x243F6A88, 7, 0x85A308D3], [0xA4093822, 0x299F31D0]
    found = philox.philox_4x32(*[jnp.uint32(x) for x in (*counter, *key)])
    assert [int(x) for x in found] == philox_plain(counter, key)
    x, y = np.random.default_rng(0).integers(0, 2**32, (2, 100), np.uint64)
    high, low = philox.mul32_hi_lo(x.astype(np.uint32), y.astype(np.uint32))
    np.testing.assert_array_equal(high, x * y >> np.uint64(32))
    np.testing.assert_array_equal(low, x * y % 2**32)


@pytest.mark.parametrize("shape", [(), (3,), (3, 5), (2, 3, 4), (300, 2), (0, 3)])
def test_bits_are_those_of_places(shape):
    found = philox.philox_random_bits(KEY, 32, shape)
    expected = [philox_plain((0, i, 0, 0), (5, 6)) for i in range(found.size)]
    np.testing.assert_array_equal(
        found.ravel(), np.array([w[0] ^ w[1] for w in expected], np.uint32)
    )
    keys = philox.philox_split(KEY, shape)
    np.testing.assert_array_equal(
        keys.reshape(-1, 2), np.array([w[:2] for w in expected], np.uint32).reshape(-1, 2)
    )
    bits = random.bits(random.wrap_key_data(KEY), shape)
    np.testing.assert_array_equal(threefry.plthreefry_random_bits(KEY, 32, shape), bits)


def test_offsets_are_places():
    whole = philox.philox_4x32_count(KEY, (20,))
    np.testing.assert_array_equal(philox.philox_4x32_count(KEY, (4, 3), 8).ravel(), whole[8:])
    # Recorded from jax 0.10.2.
    assert philox.philox_fold_in(KEY, jnp.uint32(7)).tolist() == [1506932821, 3320321746]
    assert philox.philox_4x32_count(KEY, (8, 16))[1, :2].tolist() == [8632948, 1636821749]


def test_as_generators_of_keys():
    # Recorded from jax 0.10.2.
    for impl, bits in (
        (philox.plphilox_prng_impl, [341098458, 932611304, 941558174]),
        (threefry.plthreefry_prng_impl, [318053758, 4029299397, 2787249374]),
    ):
        key = random.key(3, impl=impl)
        assert random.bits(key, (3,)).tolist() == bits
        assert random.key(3, impl=impl.name).dtype == key.dtype
        assert random.uniform(random.split(key)[1], (3,)).shape == (3,)
    batch = pl.vmap(lambda k: philox.philox_random_bits(k, 32, (3,)))(jnp.stack([KEY, KEY]))
    np.testing.assert_array_equal(batch[1], philox.philox_random_bits(KEY, 32, (3,)))


def test_what_is_refused():
    for function in (philox.philox_random_bits, threefry.plthreefry_random_bits):
        with pytest.raises(ArgumentValueError, match="32 bits"):
            function(KEY, 16, (3,))
    with pytest.raises(ArgumentValueError, match="that blocks divide"):
        threefry.threefry_2x32_count(KEY, (3, 4), (3, 4), (2, 2))
    with pytest.raises(ArgumentValueError, match=r"2\^32"):
        philox.philox_4x32_count(KEY, (1 << 16, 1 << 16))
    assert prng_utils.round_up(5, 4) == 8
