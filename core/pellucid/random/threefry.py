"""Random bits as a hash of a key and a counter, Threefry among them, and the counters of an array's elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import DtypeError, Ints, Shape, ShapeError
from pellucid._machine.ir import Primitive, Traits, pointwise, shaped_array
from pellucid._machine.primitives.arithmetic import add
from pellucid._machine.primitives.counts import THREEFRY_FLOPS
from pellucid._machine.primitives.creation import checked_shape
from pellucid._machine.primitives.families import constant_like, texts
from pellucid._machine.primitives.logical import (
    bitwise_or,
    bitwise_xor,
    shift_left,
    shift_right_logical,
)
from pellucid._machine.primitives.movement import aligned_for_batch, broadcast_shapes
from pellucid._machine.tracing import bind
from pellucid._machine.xla.arrays import Array

_WORD = np.dtype(np.uint32)

# Hashes of counters -------------------------------------------------------------------------------


class CounterHash(Primitive[Any]):
    """Hashes words of key and counter to as many words of random bits as the counter has, element by element."""

    traits = Traits(kind="random", flops=THREEFRY_FLOPS, returns_list=True)
    n_key_words: int
    n_counter_words: int

    def rounds(self, key: Sequence[Any], counter: Sequence[Any]) -> list[Any]:
        """The words of random bits for the words of key and counter."""
        raise NotImplementedError(type(self))

    def abstract_eval(self, avals, params):
        if len(avals) != self.n_key_words + self.n_counter_words or any(
            a.dtype != _WORD for a in avals
        ):
            raise DtypeError(
                f"{self.name} needs {self.n_key_words} words of key and {self.n_counter_words} of counter, all uint32.",
                got=texts("operand", avals),
            )
        shape = broadcast_shapes(*(a.shape for a in avals))
        if any(a.ndim not in (0, len(shape)) for a in avals):
            raise ShapeError(
                f"{self.name} needs operands of one rank, or scalars.", got=texts("operand", avals)
            )
        return [shaped_array(shape, _WORD)] * self.n_counter_words

    def factors(self, avals, results, params):
        return pointwise(avals, results)

    def batch(self, axis, operands, dims, params):
        aligned, dim = aligned_for_batch(axis, operands, dims)
        return bind(self, *aligned), [dim] * self.n_counter_words

    def definition(self, *operands: Any) -> list[Any]:
        """The words of random bits, by operations on words."""
        return self.rounds(operands[: self.n_key_words], operands[self.n_key_words :])

    def lower(self, ctx, operands, params):
        return ctx.from_python(self.definition, operands)


# threefry2x32, threefry4x32 -----------------------------------------------------------------------


class Threefry2x32(CounterHash):
    """Hashes two words of key and two words of counter to two words of random bits, element by element."""

    name = "threefry2x32"
    n_key_words = n_counter_words = 2

    def rounds(self, key, counter):
        return _threefry2x32(*key, *counter)


threefry2x32_p = Threefry2x32()


class Threefry4x32(CounterHash):
    """Hashes four words of key and four words of counter to four words of random bits, element by element."""

    name = "threefry4x32"
    n_key_words = n_counter_words = 4

    def rounds(self, key, counter):
        # Salmon et al., SC 2011: Threefry-4x32-20.
        parity: Any = constant_like(key[0], _KEY_PARITY)
        for word in key:
            parity = bitwise_xor(parity, word)
        keys = [*key, parity]
        x = [add(word, k) for word, k in zip(counter, key, strict=True)]
        for i in range(20):
            # Pairs of words are mixed, in even rounds (0, 1) and (2, 3), in odd ones (0, 3) and (2, 1).
            for left, distance in zip((0, 2), _ROTATIONS_OF_PAIRS[i % 8], strict=True):
                right = (left + (3 if i % 2 else 1)) % 4
                x[left] = add(x[left], x[right])
                x[right] = bitwise_xor(_rotate_left(x[right], distance), x[left])
            if i % 4 == 3:
                turn = i // 4 + 1
                x = [add(word, keys[(turn + j) % 5]) for j, word in enumerate(x)]
                x[3] = add(x[3], constant_like(x[3], turn))
        return x


threefry4x32_p = Threefry4x32()

_ROTATIONS_OF_PAIRS = (
    (10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20),
)  # fmt: skip
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_KEY_PARITY = 0x1BD11BDA


def _rotate_left(x: Array, distance: int) -> Array:
    return bitwise_or(
        shift_left(x, constant_like(x, distance)),
        shift_right_logical(x, constant_like(x, 32 - distance)),
    )


def _threefry2x32(k0: Array, k1: Array, x0: Array, x1: Array) -> list[Array]:
    # Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011: Threefry-2x32-20.
    keys = [k0, k1, bitwise_xor(bitwise_xor(k0, k1), constant_like(k0, _KEY_PARITY))]
    x0, x1 = add(x0, k0), add(x1, k1)
    for i in range(5):
        for distance in _ROTATIONS[i % 2]:
            x0 = add(x0, x1)
            x1 = bitwise_xor(x0, _rotate_left(x1, distance))
        x0 = add(x0, keys[(i + 1) % 3])
        x1 = add(x1, add(keys[(i + 2) % 3], constant_like(k1, i + 1)))
    return [x0, x1]


def threefry2x32(key_high: Array, key_low: Array, count_high: Any, count_low: Array) -> list[Array]:
    """Two uint32 arrays of random bits from a key of two words and counters of two words.

    A bijection of the counters for each key: equal counters give equal bits, different ones unrelated bits.
    Source: Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011 (Threefry-2x32-20).

    >>> threefry2x32(*[np.uint32(0)] * 4)
    [Array(1797259609, dtype=uint32), Array(2579123966, dtype=uint32)]
    """
    return bind(threefry2x32_p, key_high, key_low, count_high, count_low)


# iota_2x32_shape ----------------------------------------------------------------------------------


class Iota2x32ShapeParams(NamedTuple):
    shape: Shape


class Iota2x32Shape(Primitive[Iota2x32ShapeParams]):
    """Row-major positions as 64-bit numbers in two words, also while 64-bit types are off."""

    name = "iota_2x32_shape"
    traits = Traits(kind="creation", flops=0.0, returns_list=True)

    def abstract_eval(self, avals, params):
        return [shaped_array(params.shape, _WORD)] * 2

    def lower(self, ctx, operands, params):
        shape, words = params.shape, ctx.avals_out[0]
        wide = shaped_array(shape, np.dtype(np.uint64))
        # A sum over dimensions rather than a reshaped iota: each device can compute its part alone.
        position = ctx.full(wide, 0)
        for d in range(len(shape)):
            along = ctx.op1("stablehlo.iota", wide, [], {"iota_dimension": d})
            stride = ctx.full(wide, math.prod(shape[d + 1 :]))
            step = ctx.op1("stablehlo.multiply", wide, [along, stride])
            position = ctx.op1("stablehlo.add", wide, [position, step])
        high = ctx.op1("stablehlo.shift_right_logical", wide, [position, ctx.full(wide, 32)])
        return [ctx.convert(high, words), ctx.convert(position, words)]


iota_2x32_shape_p = Iota2x32Shape()


def iota_2x32_shape(shape: Ints) -> list[Any]:
    """Upper and lower words of the positions of the elements of an array of `shape`: counters for Threefry.

    >>> iota_2x32_shape((3,))
    [Array([0, 0, 0], dtype=uint32), Array([0, 1, 2], dtype=uint32)]
    """
    return bind(
        iota_2x32_shape_p, params=Iota2x32ShapeParams(checked_shape(shape, "iota_2x32_shape"))
    )
