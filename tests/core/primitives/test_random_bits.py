"""Random bits of XLA's generators: ranges, batches."""

import numpy as np

from pellucid._machine.ir.rules import BatchAxis
from pellucid._machine.primitives.random_bits import rng_bit_generator, rng_uniform
from pellucid._machine.transforms.vmap import batch_flat


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
