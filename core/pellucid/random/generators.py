"""Generators of random bits, which interpret the words of keys, and their registry by name."""

from __future__ import annotations

import difflib
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    UnsupportedError,
    config,
    dtypes,
    fits,
)
from pellucid._machine.primitives.arithmetic import mul
from pellucid._machine.primitives.assembly import concatenate, slice as static_slice, stack
from pellucid._machine.primitives.conversion import convert_element_type
from pellucid._machine.primitives.creation import broadcasted_iota, iota
from pellucid._machine.primitives.families import constant_like
from pellucid._machine.primitives.logical import (
    bitwise_or,
    bitwise_xor,
    shift_left,
    shift_right_logical,
)
from pellucid._machine.primitives.movement import broadcast_in_dim, reshape
from pellucid._machine.primitives.random_bits import rng_bit_generator
from pellucid._machine.primitives.slicing import index_in_dim
from pellucid._machine.tracing import bind, type_of
from pellucid._machine.transforms.vmap import vmap
from pellucid._machine.xla.arrays import Array

from .philox import philox2x32_p, philox4x32_p
from .threefry import CounterHash, iota_2x32_shape, threefry2x32, threefry4x32_p

Shape = tuple[int, ...]
_WORD = np.dtype(np.uint32)


@dataclass(frozen=True, repr=False)
class PRNGImpl:
    """A generator: functions on the words of one key, an array of dtype uint32 and shape `key_shape`.

    `seed`: (integer scalar) -> words. `split`: (words, shape) -> words of shape `(*shape, *key_shape)`.
    `random_bits`: (words, bit width, shape) -> unsigned integers. `fold_in`: (words, uint32 scalar) -> words.
    `name` is what users call it, `tag` what types show: `key<tag>`.
    """

    key_shape: Shape
    seed: Callable[[Any], Any]
    split: Callable[[Any, Shape], Any]
    random_bits: Callable[[Any, int, Shape], Any]
    fold_in: Callable[[Any, Any], Any]
    name: str = "<unnamed>"
    tag: str = "?"
    dtype: Any = field(init=False, compare=False)
    """The dtype of the generator's keys."""

    def __new__(cls, *fields: Any, **_: Any) -> Self:
        generator = super().__new__(cls)
        if fields:  # pickles of the reference call `__new__` with the fields, and no `__init__`
            cls.__init__(generator, *fields)
        return generator

    def __post_init__(self) -> None:
        dtype = dtypes.KeyDType(f"key<{self.tag}>", dtypes.prng_key, _WORD, self.key_shape, self)
        object.__setattr__(self, "dtype", dtype)

    def __repr__(self) -> str:
        return self.tag

    def __reduce__(self) -> Any:
        if _registry.get(self.name) is self:
            return generator_of, (self.name,)
        return super().__reduce__()


_registry: dict[str, PRNGImpl] = {}


def register(generator: PRNGImpl) -> PRNGImpl:
    """Registers `generator` under its name, and returns it."""
    _registry[generator.name] = generator
    return generator


def generator_of(spec: Any) -> PRNGImpl:
    """The generator that `spec` names: a name, a generator, a dtype of keys.

    Raises: ArgumentValueError for a name that nobody registered, ArgumentTypeError for anything else.
    """
    if type(spec) is PRNGImpl:
        return spec
    if isinstance(spec, dtypes.KeyDType) and type(spec.implementation) is PRNGImpl:
        return spec.implementation
    if isinstance(spec, str):
        generator = _registry.get(spec)
        if generator is not None:
            return generator
        near = difflib.get_close_matches(spec, _registry, n=1)
        raise ArgumentValueError(
            f"there is no random generator {spec!r}.",
            got=f"impl: {spec!r}",
            do=f"Did you mean {near[0]!r}?" if near else f"Use one of {', '.join(_registry)}.",
        )
    raise ArgumentTypeError(
        "a random generator must be chosen by its name, by a dtype of keys, or by itself.",
        got=f"impl: {type(spec).__name__}",
        do=f"Use one of {', '.join(_registry)}.",
    )


def define_prng_impl(
    *,
    key_shape: Shape,
    seed: Callable[[Any], Any],
    split: Callable[[Any, Shape], Any],
    random_bits: Callable[[Any, int, Shape], Any],
    fold_in: Callable[[Any, Any], Any],
    name: str = "<unnamed>",
    tag: str = "?",
) -> PRNGImpl:
    """A user-defined generator, to be passed as `impl`; the arguments are those of `PRNGImpl`.

    >>> words = define_prng_impl(
    ...     key_shape=(2,), seed=threefry_seed, split=threefry_split, random_bits=threefry_bits,
    ...     fold_in=threefry_fold_in, name="words", tag="words")
    >>> words.dtype
    key<words>
    """
    return PRNGImpl(tuple(key_shape), seed, split, random_bits, fold_in, name, tag)


# threefry2x32 ---------------------------------------------------------------------------------------


def _halves(words: Array) -> tuple[Array, Array]:
    return index_in_dim(words, 0, keepdims=False), index_in_dim(words, 1, keepdims=False)


def threefry_seed(seed: Array) -> Array:
    """A key of two words: the upper and the lower half of a 64-bit integer; for a narrower one the upper half is 0."""
    aval = type_of(seed)
    if aval.dtype.itemsize == 8:
        upper = convert_element_type(shift_right_logical(seed, aval.dtype.type(32)), _WORD)
    else:
        upper = np.uint32(0)
    return stack([upper, convert_element_type(seed, _WORD)], 0)


def _threefry_of_positions(words: Array, shape: Shape) -> list[Array]:
    """Two words of bits for each position in an array of `shape`: Threefry of the 64-bit position."""
    first, second = _halves(words)
    return threefry2x32(first, second, *iota_2x32_shape(shape))


def _hash_consecutive_counts(words: Array, count: int) -> Array:
    """Threefry of the numbers below `count`: a counter pairs number i with i + ⌈count / 2⌉, so every word depends on
    `count`.

    Raises: UnsupportedError for 2³² words and more.
    """
    if not fits(count, 2**32 - 1):
        raise UnsupportedError(
            "random bits of 2^32 words and more need counters of 64 bits.",
            got=f"{count} words under threefry_partitionable=False",
            do="Set the option threefry_partitionable to True.",
        )
    return threefry_2x32(words, iota(_WORD, count))


def threefry_split(words: Array, shape: Shape) -> Array:
    """A key for each position in an array of `shape`."""
    if not config.threefry_partitionable.value:
        return reshape(_hash_consecutive_counts(words, 2 * math.prod(shape)), (*shape, 2))
    return stack(_threefry_of_positions(words, shape), len(shape))


def threefry_fold_in(words: Array, data: Array) -> Array:
    """The key derived from `words` with the 32-bit number `data`."""
    first, second = _halves(words)
    return stack(threefry2x32(first, second, np.uint32(0), data), 0)


def threefry_bits(words: Array, bit_width: int, shape: Shape) -> Array:
    """Random bits; under `threefry_partitionable` each element depends on the key and its own position only.

    So parts of an array need nothing of each other, and positions are counted with 64 bits. Without the option
    `threefry_partitionable`, bits depend on the size of the array, too.
    """
    if not config.threefry_partitionable.value:
        return reshape(_bits_of_counts(words, bit_width, math.prod(shape)), shape)
    upper, lower = _threefry_of_positions(words, shape)
    if bit_width == 64:
        return _from_words(upper, lower)
    bits = bitwise_xor(upper, lower)
    return bits if bit_width == 32 else convert_element_type(bits, unsigned_dtype(bit_width))


def _bits_of_counts(words: Array, bit_width: int, count: int) -> Array:
    """`count` numbers from as few words as possible: narrow numbers share a word, the lowest bits first."""
    drawn = _hash_consecutive_counts(words, -(-bit_width * count // 32))
    if bit_width == 64:
        return _from_words(
            static_slice(drawn, (0,), (count,)), static_slice(drawn, (count,), (2 * count,))
        )
    if bit_width == 32:
        return drawn
    n_words, per_word = type_of(drawn).size, 32 // bit_width
    parts = broadcast_in_dim(drawn, (n_words, per_word), (0,))
    distances = mul(
        broadcasted_iota(_WORD, (n_words, per_word), 1), constant_like(parts, bit_width)
    )
    narrow = convert_element_type(shift_right_logical(parts, distances), unsigned_dtype(bit_width))
    return static_slice(reshape(narrow, (n_words * per_word,)), (0,), (count,))


def _from_words(upper: Array, lower: Array) -> Array:
    """64-bit numbers from their upper and lower words."""
    wide = np.dtype(np.uint64)
    upper, lower = convert_element_type(upper, wide), convert_element_type(lower, wide)
    return bitwise_or(shift_left(upper, _wide_scalar(32)), lower)


def _wide_scalar(value: int) -> Array:
    return convert_element_type(np.uint32(value), np.dtype(np.uint64))


def unsigned_dtype(bit_width: int) -> np.dtype[Any]:
    """The dtype of unsigned integers of `bit_width` bits."""
    return np.dtype(f"uint{bit_width}")


def threefry_2x32(keypair: Array, count: Array) -> Array:
    """Threefry of the words `count`, an array of uint32, whose first half are the upper and second half the lower ones.

    >>> threefry_2x32(np.zeros(2, np.uint32), np.zeros(2, np.uint32))
    Array([1797259609, 2579123966], dtype=uint32)
    """
    aval = type_of(count)
    if aval.dtype != _WORD:
        raise ArgumentTypeError("threefry_2x32 needs words of dtype uint32.", got=aval.text())
    flat = reshape(count, (aval.size,))
    odd = aval.size % 2
    if odd:
        flat = concatenate([flat, np.zeros(1, _WORD)], 0)
    half = (aval.size + odd) // 2
    upper, lower = static_slice(flat, (0,), (half,)), static_slice(flat, (half,), (2 * half,))
    words = concatenate(threefry2x32(*_halves(keypair), upper, lower), 0)
    return reshape(static_slice(words, (0,), (aval.size,)), aval.shape)


threefry_prng_impl = register(
    PRNGImpl(
        (2,),
        threefry_seed,
        threefry_split,
        threefry_bits,
        threefry_fold_in,
        "threefry2x32",
        "fry",
    )
)


# philox2x32, philox4x32, threefry4x32 ---------------------------------------------------------------


def _hashing(
    word_hash: CounterHash,
    tag: str,
    seed: Callable[[Array, Array], list[Any]],
    halves: Callable[[list[Array]], tuple[Array, Array]],
) -> PRNGImpl:
    """A generator from the hash `word_hash`: its bits depend on the key and an element's position only.

    `seed`: (upper, lower word of a seed) -> the operands of the hash of which the first words are the key's.
    `halves`: words of random bits -> (upper, lower word) of a number of 64 bits.
    """
    n = word_hash.n_key_words
    zeros = [np.uint32(0)] * (word_hash.n_counter_words - 2)
    """The other words of a counter: they follow the position when bits are drawn, and precede it when keys are
    derived.
    """

    def hash_counter(words: Array, *counter: Any) -> list[Array]:
        key = [index_in_dim(words, i, keepdims=False) for i in range(n)]
        return bind(word_hash, *key, *counter)

    def seed_words(value: Array) -> Array:
        return stack(bind(word_hash, *seed(*_halves(threefry_seed(value))))[:n], 0)

    def split(words: Array, shape: Shape) -> Array:
        return stack(hash_counter(words, *zeros, *iota_2x32_shape(shape))[:n], len(shape))

    def fold_in(words: Array, data: Array) -> Array:
        return stack(hash_counter(words, *zeros, np.uint32(0), data)[:n], 0)

    def bits(words: Array, bit_width: int, shape: Shape) -> Array:
        drawn = hash_counter(words, *iota_2x32_shape(shape), *zeros)
        if bit_width == 64:
            return _from_words(*halves(drawn))
        mixed = functools.reduce(bitwise_xor, drawn)
        return mixed if bit_width == 32 else convert_element_type(mixed, unsigned_dtype(bit_width))

    return register(PRNGImpl((n,), seed_words, split, bits, fold_in, word_hash.name, tag))


_0 = np.uint32(0)
philox2x32_prng_impl = _hashing(
    philox2x32_p,
    "phx2",
    lambda upper, lower: [_0, upper, lower],
    lambda drawn: (drawn[0], drawn[1]),
)
philox4x32_prng_impl = _hashing(
    philox4x32_p,
    "phx4",
    lambda upper, lower: [_0, _0, upper, lower, _0, _0],
    lambda drawn: (drawn[0], drawn[1]),
)
threefry4x32_prng_impl = _hashing(
    threefry4x32_p,
    "fry4",
    lambda upper, lower: [upper, lower, *[_0] * 6],
    lambda drawn: (bitwise_xor(drawn[0], drawn[2]), bitwise_xor(drawn[1], drawn[3])),
)


# rbg ------------------------------------------------------------------------------------------------


def _rbg_seed(seed: Array) -> Array:
    words = threefry_seed(seed)
    return concatenate([words, words], 0)


def _apply_to_halves(function: Callable[..., Any]) -> Callable[..., Any]:
    """Applies a function of two words to both halves of four words; their results are halves of the last axis."""

    def apply_to_four(words: Any, *arguments: Any) -> Any:
        pairs = reshape(words, (2, 2))
        mapped = vmap(lambda pair: function(pair, *arguments), in_axes=0, out_axes=-2)(pairs)
        return reshape(mapped, (*type_of(mapped).shape[:-2], 4))

    return apply_to_four


def _rbg_bits(words: Array, bit_width: int, shape: Shape) -> Array:
    return rng_bit_generator(words, shape, unsigned_dtype(bit_width))[1]


rbg_prng_impl = register(
    PRNGImpl(
        (4,),
        _rbg_seed,
        _apply_to_halves(threefry_split),
        _rbg_bits,
        _apply_to_halves(threefry_fold_in),
        "rbg",
        "rbg",
    )
)


def _unsafe_split(words: Array, shape: Shape) -> Array:
    count = int(np.prod(shape, dtype=np.int64))
    bits = rng_bit_generator(words, (10 * count, 4), _WORD)[1]
    return reshape(static_slice(bits, (0, 0), (10 * count, 4), (10, 1)), (*shape, 4))


def _unsafe_fold_in(words: Array, data: Array) -> Array:
    bits = rng_bit_generator(_rbg_seed(data), (10, 4), _WORD)[1]
    return bitwise_xor(words, index_in_dim(bits, 9, keepdims=False))


unsafe_rbg_prng_impl = register(
    PRNGImpl((4,), _rbg_seed, _unsafe_split, _rbg_bits, _unsafe_fold_in, "unsafe_rbg", "urbg")
)
