"""Random bits by Philox-4x32: ten rounds of products that mix a counter with a key (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011)."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

import pellucid.numpy as jnp
from pellucid._machine.base import ArgumentValueError, Shape, public_functions
from pellucid._machine.higher_order.jitted import jit
from pellucid.random.generators import define_prng_impl, register, threefry_seed

from .prng_utils import as_matrix, bits_of_places

BLOCK_SIZE = (256, 256)
K_HI_32, K_LO_32 = 0x9E3779B9, 0xBB67AE85
"""What is added to the halves of a key after each round."""
MUL_A, MUL_B = 0xCD9E8D57, 0xD2511F53
"""The factors of a round."""


def mul32_hi_lo(x: Any, y: Any) -> tuple[Any, Any]:
    """The upper and the lower 32 bits of a product of unsigned integers, by products of their halves.

    >>> mul32_hi_lo(jnp.uint32(1 << 31), jnp.uint32(6))
    (Array(3, dtype=uint32), Array(0, dtype=uint32))
    """
    x, y = jnp.asarray(x, np.uint32), jnp.asarray(y, np.uint32)
    low, half = np.uint32(0xFFFF), np.uint32(16)
    x1, x0, y1, y0 = x >> half, x & low, y >> half, y & low
    # The products of unlike halves, and what the product of the low ones carries into them.
    middle = x1 * y0 + (x0 * y0 >> half)
    carry = x0 * y1 + (middle & low)
    return x1 * y1 + (middle >> half) + (carry >> half), x * y


def philox_4x32(
    hi0: Any, lo0: Any, hi1: Any, lo1: Any, k_hi: Any, k_lo: Any, rounds: int = 10
) -> tuple[Any, Any, Any, Any]:
    """Four words of random bits from a counter of four words and a key of two; arrays broadcast.

    >>> [hex(int(x)) for x in philox_4x32(*[jnp.uint32(0)] * 6)]
    ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
    """
    words, keys = (
        [jnp.asarray(x, np.uint32) for x in (hi0, lo0, hi1, lo1)],
        [jnp.asarray(x, np.uint32) for x in (k_hi, k_lo)],
    )
    for _ in range(rounds):
        (hi_a, lo_a), (hi_b, lo_b) = (
            mul32_hi_lo(words[2], np.uint32(MUL_A)), mul32_hi_lo(words[0], np.uint32(MUL_B))
        )  # fmt: skip
        words = [hi_a ^ words[1] ^ keys[0], lo_a, hi_b ^ words[3] ^ keys[1], lo_b]
        keys = [keys[0] + np.uint32(K_HI_32), keys[1] + np.uint32(K_LO_32)]
    return words[0], words[1], words[2], words[3]


@functools.partial(jit, static_argnames=("shape", "unpadded_shape", "block_size", "fuse_output"))
def philox_4x32_kernel(
    key: Any,
    shape: Shape,
    unpadded_shape: Shape,
    block_size: tuple[int, int],
    offset: Any = 0,
    fuse_output: bool = True,
) -> Any:
    """Bits for each element of a matrix, whose counter is its place in `unpadded_shape` plus `offset`.

    With `fuse_output` one word, the exclusive or of the first two; without, these two, [2, *shape]. Raises: ArgumentValueError for a
    `shape` that `block_size` doesn't divide.

    >>> philox_4x32_kernel(jnp.array([5, 6], np.uint32), (2, 4), (2, 4), (2, 2))[0, :2]
    Array([1554302659,  807257443], dtype=uint32)
    """

    def words(k_hi: Any, k_lo: Any, places: Any) -> Any:
        zero = jnp.zeros_like(places)
        first, second, _, _ = philox_4x32(zero, places, zero, zero, k_hi, k_lo)
        return [first ^ second] if fuse_output else [first, second]

    found = bits_of_places(
        "philox_4x32_kernel",
        key,
        shape,
        unpadded_shape,
        block_size,
        offset,
        words,
        1 if fuse_output else 2,
    )
    return found[0] if fuse_output else found


def philox_4x32_count(key: Any, shape: Shape, offset: Any = 0, fuse_output: bool = True) -> Any:
    """`philox_4x32_kernel` for an array of any shape, of fewer than 2^32 elements.

    Raises: ArgumentValueError for more.

    >>> philox_4x32_count(jnp.array([5, 6], np.uint32), (3,))
    Array([1554302659,  807257443, 4019268039], dtype=uint32)
    """
    shape = tuple(shape)
    if math.prod(shape) >= 1 << 32:
        raise ArgumentValueError("philox_4x32_count counts to 2^32.", got=f"shape {shape}")
    matrix, padded = as_matrix(shape, BLOCK_SIZE)
    if 0 in matrix:
        return jnp.zeros(shape if fuse_output else (2, *shape), np.uint32)
    found = philox_4x32_kernel(key, padded, matrix, BLOCK_SIZE, offset, fuse_output)
    found = found[..., : matrix[0], : matrix[1]]
    return found.reshape(shape if fuse_output else (2, *shape))


def philox_random_bits(key: Any, bit_width: int, shape: Shape) -> Any:
    """Bits of 32 for each element. Raises: ArgumentValueError for another width.

    >>> philox_random_bits(jnp.array([5, 6], np.uint32), 32, (2,))
    Array([1554302659,  807257443], dtype=uint32)
    """
    if bit_width != 32:
        raise ArgumentValueError("philox_random_bits gives 32 bits.", got=f"bit_width {bit_width}")
    return philox_4x32_count(key, shape)


def philox_split(key: Any, shape: Shape) -> Any:
    """[*shape, 2]: new keys, the first two words of each place.

    >>> philox_split(jnp.array([5, 6], np.uint32), (1,))
    Array([[2821369144, 4102974459]], dtype=uint32)
    """
    return jnp.moveaxis(philox_4x32_count(key, shape, fuse_output=False), 0, -1)


def philox_fold_in(key: Any, data: Any) -> Any:
    """A new key, of the words at the place `data`.

    >>> philox_fold_in(jnp.array([5, 6], np.uint32), 7)
    Array([1506932821, 3320321746], dtype=uint32)
    """
    return philox_4x32_count(key, (), offset=data, fuse_output=False)


plphilox_prng_impl = register(
    define_prng_impl(
        key_shape=(2,),
        seed=threefry_seed,
        split=philox_split,
        random_bits=philox_random_bits,
        fold_in=philox_fold_in,
        name="pallas_philox4x32",
        tag="pllox",
    )
)

__all__ = [
    "BLOCK_SIZE", "K_HI_32", "K_LO_32", "MUL_A", "MUL_B", "Shape", "mul32_hi_lo", "philox_4x32", "philox_4x32_count", "philox_4x32_kernel",
    "philox_fold_in", "philox_random_bits", "philox_split", "plphilox_prng_impl",
]  # fmt: skip

public_functions(__all__, globals())
