"""Typed keys: made from seeds and words, split, read."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    ArrayLike,
    DtypeError,
    DTypeLike,
    IntegerRangeError,
    Ints,
    ShapeError,
    canonical_size,
    config,
    dtypes,
    public_functions,
)
from pellucid._machine.ir import NO_PARAMS
from pellucid._machine.primitives.arithmetic import add
from pellucid._machine.primitives.conversion import convert_element_type
from pellucid._machine.primitives.creation import checked_shape
from pellucid._machine.primitives.families import UNSIGNED, constant_like, kind_of
from pellucid._machine.runtime.extended import of_words
from pellucid._machine.sharding import PartitionSpec, Sharding
from pellucid._machine.tracing import as_operand, bind1, is_array_like, type_of
from pellucid._machine.xla.arrays import Array
from pellucid.numpy.promotion import convert

from .generators import PRNGImpl, generator_of
from .key_primitives import (
    RandomBitsParams,
    RandomSeedParams,
    RandomSplitParams,
    is_keys,
    random_bits_p,
    random_clone_p,
    random_fold_in_p,
    random_seed_p,
    random_split_p,
    random_unwrap_p,
)
from .sampling import (
    checked_dtype,
    default_generator,
    laid_out,
    shape_of_result,
    single_key,
    typed_keys,
    wrap_words,
)

_WORD = np.dtype(np.uint32)


def _generator_of(impl: Any, dtype: Any = None) -> PRNGImpl:
    if impl is not None and dtype is not None:
        raise ArgumentValueError("a generator is chosen by `impl` or by `dtype`, not by both.")
    if dtype is not None:
        impl = dtype
    return default_generator() if impl is None else generator_of(impl)


def random_seed(seeds: Any, impl: Any) -> Array:
    """Typed keys for the integers `seeds`, an array or a number, of the generator `impl`.

    The option `random_seed_offset` is added to the seeds.

    >>> random_seed(np.arange(2), "threefry2x32")
    Array((2,), dtype=key<fry>) overlaying:
    [[0 0]
     [0 1]]
    """
    generator = generator_of(impl)
    seeds = as_operand(seeds)
    if not is_array_like(seeds):
        raise ArgumentTypeError("a seed must be an integer.", got=f"seed: {type(seeds).__name__}")
    if isinstance(seeds, (bool, int)):
        seeds = _number(int(seeds))
    aval = type_of(seeds)
    if kind_of(aval.dtype) == "bool":
        seeds = convert_element_type(seeds, np.dtype(np.int32))
    elif kind_of(aval.dtype) not in ("signed", "unsigned"):
        raise DtypeError("a seed must be an integer.", got=f"seed: {aval.text()}")
    offset = config.random_seed_offset.value
    if offset:
        seeds = add(seeds, constant_like(seeds, offset))
    return bind1(random_seed_p, seeds, params=RandomSeedParams(generator))


def seed_with_impl(impl: PRNGImpl, seed: ArrayLike) -> Array:
    """The typed key of the generator `impl` for the integer `seed`.

    >>> seed_with_impl(generator_of("rbg"), 1)
    Array((), dtype=key<rbg>) overlaying:
    [0 1 0 1]
    """
    return random_seed(seed, impl)


def _number(seed: int) -> np.generic:
    """A Python integer as a seed: its 64 bits, or with 64-bit dtypes off its lower 32 ones."""
    if not -(2**63) <= seed < 2**63:
        raise IntegerRangeError("a seed can't have more than 64 bits.", got=f"seed: {seed}")
    return np.int64(seed).astype(dtypes.default_int_dtype())


def _seed_key(caller: str, seed: Any, generator: PRNGImpl) -> Array:
    seed = as_operand(seed)
    if is_array_like(seed):
        aval = type_of(seed)
        if kind_of(aval.dtype) == "key":
            raise ArgumentTypeError(
                f"{caller} needs an integer as a seed, got a key.", got=aval.text()
            )
        if aval.shape != ():
            raise ShapeError(
                f"{caller} needs a single seed.",
                got=f"seed: {aval.text()}",
                do="Use `vmap` for an array of seeds.",
            )
    return random_seed(seed, generator)


def key(seed: ArrayLike, *, impl: Any = None, dtype: DTypeLike | None = None) -> Array:
    """A typed random key, of shape () and a dtype such as `key<fry>`, made of the integer `seed`.

    `impl` names the generator: "threefry2x32", "threefry4x32", "philox2x32", "philox4x32", "rbg" or "unsafe_rbg"; so
    does `dtype`, a dtype of keys. By default the option `default_prng_impl` does. Equal seeds make equal keys.

    Raises: DtypeError for seeds that aren't integers, ShapeError for arrays of them.

    >>> key(42)
    Array((), dtype=key<fry>) overlaying:
    [ 0 42]
    """
    return _seed_key("key", seed, _generator_of(impl, dtype))


def PRNGKey(seed: ArrayLike, *, impl: Any = None) -> Array:
    """The words of `key(seed)`, an array of uint32; a typed key under the option `enable_custom_prng`.

    The result has shape [2] for threefry2x32, [4] for rbg.
    Raises: ArgumentTypeError for lists and strings, ShapeError for a seed that isn't a scalar, DtypeError for one that is
    no integer, IntegerRangeError for one of more than 64 bits, ArgumentValueError for an unknown `impl`.

    >>> PRNGKey(42)
    Array([ 0, 42], dtype=uint32)
    """
    typed = _seed_key("PRNGKey", seed, _generator_of(impl))
    return typed if config.enable_custom_prng.value else _words(typed)


def _words(typed: Any) -> Array:
    return bind1(random_unwrap_p, typed, params=NO_PARAMS)


def _in_user_form(keys: Array, typed: Any) -> Array:
    """`typed` in the form in which the user passed `keys`: typed, or as words."""
    return typed if is_keys(keys) else _words(typed)


def key_data(keys: Array) -> Array:
    """The words of typed keys: an array of uint32 whose last axes are those of a key.

    The result has the shape of `keys` with that of a key after it, [2] for threefry2x32.
    Raises: ArgumentTypeError for anything that isn't a key.

    >>> key_data(key(42))
    Array([ 0, 42], dtype=uint32)
    """
    return _words(typed_keys("key_data", keys))


def wrap_key_data(
    key_bits_array: ArrayLike, *, impl: Any = None, dtype: DTypeLike | None = None
) -> Array:
    """Typed keys over their words, an array of uint32 whose last axes are those of a key of the generator.

    Raises: DtypeError for another dtype or shape.

    >>> wrap_key_data(np.array([0, 42], np.uint32)) == key(42)
    Array(True, dtype=bool)
    """
    words = as_operand(key_bits_array)
    if not is_array_like(words):
        raise ArgumentTypeError(
            "wrap_key_data needs an array of words.", got=type(key_bits_array).__name__
        )
    return wrap_words(words, _generator_of(impl, dtype))


def reduce_keys(keys: Array) -> Any:
    """The pickled form of keys: a call of `wrap_key_data`, which the reference reads, or of `of_words` if the
    generator has no name.
    """
    impl = key_impl(keys)
    if isinstance(impl, str):
        return functools.partial(wrap_key_data, impl=impl), (keys.words,)
    return of_words, (keys.dtype, keys.words)


def reduced_dtype(dtype: dtypes.KeyDType) -> Any:
    """The pickled form of a dtype of keys: a call of `key_dtype`, or of its class if the generator has no name."""
    name = _name_of(dtype.implementation)
    if isinstance(name, str):
        return key_dtype, (name,)
    fields = dtype.name, dtype.type, dtype.base_dtype, dtype.element_shape, dtype.implementation
    return dtypes.KeyDType, fields


def key_impl(keys: Array) -> Any:
    """The name of the generator of `keys`; the generator itself if it has none.

    Keys may have any shape.
    Raises: ArgumentTypeError for anything that isn't a key.

    >>> key_impl(key(0))
    'threefry2x32'
    """
    return _name_of(typed_keys("key_impl", keys).dtype.implementation)


def _name_of(generator: Any) -> Any:
    try:
        return generator.name if generator_of(generator.name) is generator else generator
    except (ArgumentValueError, AttributeError):
        return generator


def key_dtype(impl_spec: Any = None) -> Any:
    """The dtype of keys of a generator, by default of the default one.

    Raises: ArgumentValueError for an unknown generator, ArgumentTypeError for what names none.

    >>> key_dtype("rbg")
    key<rbg>
    """
    return _generator_of(impl_spec).dtype


def split(key: Array, num: int | Sequence[int] = 2) -> Array:
    """An array of `num` new keys, or of shape `num`, in the form of `key`: typed, or words.

    Raises: ShapeError for an array of keys, and for a negative number.

    >>> split(PRNGKey(0))
    Array([[1797259609, 2579123966],
           [ 928981903, 3453687069]], dtype=uint32)
    """
    typed = single_key("split", key)
    shape = (canonical_size(num),) if not isinstance(num, Sequence) else num
    params = RandomSplitParams(checked_shape(shape, "split"))
    return _in_user_form(key, bind1(random_split_p, typed, params=params))


def fold_in(key: Array, data: ArrayLike) -> Array:
    """A new key of `key` and the number `data`, of which 32 bits count; in the form of `key`.

    Raises: IntegerRangeError for Python integers that uint32 can't hold, ShapeError for arrays.

    The result has the shape and dtype of `key`.

    >>> fold_in(PRNGKey(0), 1)
    Array([ 928981903, 3453687069], dtype=uint32)
    """
    typed = single_key("fold_in", key)
    data = as_operand(data)
    if not is_array_like(data):
        raise ArgumentTypeError("fold_in needs a number.", got=f"data: {type(data).__name__}")
    aval = type_of(data)
    if aval.shape != ():
        raise ShapeError(
            "fold_in needs a single number.",
            got=f"data: {aval.text()}",
            do="Use `vmap` for an array of numbers.",
        )
    if isinstance(data, int):
        if not 0 <= data < 2**32:
            raise IntegerRangeError(
                "fold_in needs numbers of 32 bits without sign.", got=f"data: {data}"
            )
        number: Any = np.uint32(data)
    elif isinstance(data, np.generic) and data.dtype.kind in "iu":
        number = data.astype(_WORD)
    else:
        number = convert(data, aval, _WORD)
    return _in_user_form(key, bind1(random_fold_in_p, typed, number, params=NO_PARAMS))


def clone(key: Array) -> Array:
    """The same key, which the check for key reuse counts as a new one.

    Shape and dtype stay.
    Raises: ArgumentTypeError for anything that isn't a key.

    >>> clone(key(1)) == key(1)
    Array(True, dtype=bool)
    """
    return _in_user_form(key, bind1(random_clone_p, typed_keys("clone", key), params=NO_PARAMS))


def random_bits(key: Array, bit_width: int, shape: tuple[int, ...]) -> Array:
    """Bits of a typed key, for samplers."""
    return bind1(random_bits_p, key, params=RandomBitsParams(bit_width, shape))


def split_keys(key: Array, number: int = 2) -> list[Array]:
    """`number` new typed keys, for samplers."""
    keys = bind1(random_split_p, key, params=RandomSplitParams((number,)))
    return [keys[i] for i in range(number)]


def bits(
    key: Array,
    shape: int | Ints = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:
    """Random bits of `shape` as unsigned integers of `dtype`, by default of 32 bits (64 with `enable_x64`).

    Raises: ArgumentValueError for other dtypes.

    >>> bits(PRNGKey(0), (2,))
    Array([4070199207, 4202968722], dtype=uint32)
    """
    typed = single_key("bits", key)
    chosen = checked_dtype("bits", dtype, UNSIGNED, dtypes.default_uint_dtype())
    sizes = shape_of_result("bits", shape)
    return laid_out(out_sharding, random_bits, typed, max(dtypes.itemsize_bits(chosen), 8), sizes)


__all__ = [
    "PRNGKey", "bits", "clone", "fold_in", "key", "key_data", "key_dtype", "key_impl", "split", "wrap_key_data",
]  # fmt: skip

public_functions(__all__, globals())
