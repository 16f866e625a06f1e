"""Random bits by Threefry-2x32: twenty rounds of additions, rotations and exclusive ors (Salmon et al., 2011), the bits of `random.bits`."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

import pellucid.numpy as jnp
from pellucid._machine.base import ArgumentValueError, Shape, public_functions
from pellucid._machine.higher_order.jitted import jit
from pellucid.random.generators import (
    define_prng_impl,
    register,
    threefry_fold_in,
    threefry_seed,
    threefry_split,
)

from .prng_utils import as_matrix, bits_of_places

BLOCK_SIZE = (256, 256)
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


def _threefry_2x32(k0: Any, k1: Any, x0: Any, x1: Any) -> tuple[Any, Any]:
    keys = (k0, k1, k0 ^ k1 ^ np.uint32(_PARITY))
    x0, x1 = x0 + keys[0], x1 + keys[1]
    for i in range(5):
        for rotation in _ROTATIONS[i % 2]:
            x0 = x0 + x1
            x1 = x0 ^ (x1 << np.uint32(rotation) | x1 >> np.uint32(32 - rotation))
        x0, x1 = x0 + keys[(i + 1) % 3], x1 + keys[(i + 2) % 3] + np.uint32(i + 1)
    return x0, x1


@functools.partial(jit, static_argnames=("shape", "unpadded_shape", "block_size"))
def threefry_2x32_count(
    key: Any, shape: Shape, unpadded_shape: Shape, block_size: tuple[int, int]
) -> Any:
    """Bits for each element of a matrix, whose counter is its place in `unpadded_shape`: the exclusive or of both words.

    Raises: ArgumentValueError for a `shape` that `block_size` doesn't divide.

    >>> threefry_2x32_count(jnp.array([5, 6], np.uint32), (2, 4), (2, 4), (2, 2))[0, :2]
    Array([2350269368, 2163939742], dtype=uint32)
    """

    def words(k0: Any, k1: Any, places: Any) -> Any:
        first, second = _threefry_2x32(k0, k1, jnp.zeros_like(places), places)
        return [first ^ second]

    return bits_of_places(
        "threefry_2x32_count", key, shape, unpadded_shape, block_size, 0, words, 1
    )[0]


def plthreefry_random_bits(key: Any, bit_width: int, shape: Shape) -> Any:
    """Bits of 32 for each element, those of `random.bits`. Raises: ArgumentValueError for another width, and 2^32 elements.

    >>> plthreefry_random_bits(jnp.array([5, 6], np.uint32), 32, (2,))
    Array([2350269368, 2163939742], dtype=uint32)
    """
    shape = tuple(shape)
    if bit_width != 32 or math.prod(shape) >= 1 << 32:
        raise ArgumentValueError(
            "plthreefry_random_bits gives 32 bits, of fewer than 2^32 elements.",
            got=f"bit_width {bit_width}, shape {shape}",
        )
    matrix, padded = as_matrix(shape, BLOCK_SIZE)
    if 0 in matrix:
        return jnp.zeros(shape, np.uint32)
    found = threefry_2x32_count(key, padded, matrix, BLOCK_SIZE)
    return found[: matrix[0], : matrix[1]].reshape(shape)


plthreefry_prng_impl = register(
    define_prng_impl(
        key_shape=(2,),
        seed=threefry_seed,
        split=threefry_split,
        random_bits=plthreefry_random_bits,
        fold_in=threefry_fold_in,
        name="pallas_threefry2x32",
        tag="plfry",
    )
)

__all__ = [
    "BLOCK_SIZE",
    "Shape",
    "plthreefry_prng_impl",
    "plthreefry_random_bits",
    "threefry_2x32_count",
]

public_functions(__all__, globals())
