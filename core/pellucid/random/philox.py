"""Philox: random bits as a hash of a key and a counter, by products of words.

Source: Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011 (Philox-2x32-10 and Philox-4x32-10).
"""

from __future__ import annotations

from collections.abc import Sequence

from pellucid._machine.primitives.arithmetic import add, mul, mulhi
from pellucid._machine.primitives.families import constant_like
from pellucid._machine.primitives.logical import bitwise_xor
from pellucid._machine.xla.arrays import Array

from .threefry import CounterHash

_ROUNDS = 10
_WEYL = (0x9E3779B9, 0xBB67AE85)
"""Constants added to the words of the key after each round: the golden ratio and the square root of 3, less 1, as
fractions of 2³².
"""


def _product_words(x: Array, factor: int) -> tuple[Array, Array]:
    """Upper and lower word of the product of a word and a constant."""
    constant = constant_like(x, factor)
    return mulhi(x, constant), mul(x, constant)


def _advance_key(key: Sequence[Array]) -> list[Array]:
    return [add(k, constant_like(k, step)) for k, step in zip(key, _WEYL, strict=False)]


class Philox2x32(CounterHash):
    """Hashes a word of key and two words of counter to two words of random bits, element by element."""

    name = "philox2x32"
    n_key_words, n_counter_words = 1, 2

    def rounds(self, key, counter):
        x0, x1 = counter
        for _ in range(_ROUNDS):
            upper, lower = _product_words(x0, 0xD256D193)
            x0, x1 = bitwise_xor(bitwise_xor(upper, key[0]), x1), lower
            key = _advance_key(key)
        return [x0, x1]


philox2x32_p = Philox2x32()


class Philox4x32(CounterHash):
    """Hashes two words of key and four words of counter to four words of random bits, element by element."""

    name = "philox4x32"
    n_key_words, n_counter_words = 2, 4

    def rounds(self, key, counter):
        x0, x1, x2, x3 = counter
        for _ in range(_ROUNDS):
            upper0, lower0 = _product_words(x0, 0xD2511F53)
            upper2, lower2 = _product_words(x2, 0xCD9E8D57)
            x0, x1 = bitwise_xor(bitwise_xor(upper2, x1), key[0]), lower2
            x2, x3 = bitwise_xor(bitwise_xor(upper0, x3), key[1]), lower0
            key = _advance_key(key)
        return [x0, x1, x2, x3]


philox4x32_p = Philox4x32()
