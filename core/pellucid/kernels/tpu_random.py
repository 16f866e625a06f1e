"""Random numbers in kernels: by the generator of a TPU's core, which nothing else has, and by keys for any block of an array."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    DtypeError,
    DTypeLike,
    Function,
    UnsupportedError,
    capture,
    dtypes,
)
from pellucid._machine.base.source import describe
from pellucid._machine.ir import Primitive, Shown, Traits, io_effect, shaped_array
from pellucid._machine.primitives import bitcast_convert_type
from pellucid._machine.primitives.creation import checked_shape
from pellucid._machine.tracing import bind, bind1, type_of
from pellucid.numpy import asarray, concatenate, cos, log, maximum, sqrt
from pellucid.random import fold_in

from .grid import program_id

_INT32, _FLOAT32 = np.dtype(np.int32), np.dtype(np.float32)


class SeedParams(NamedTuple):
    """The user's line."""

    source: Any


class OfGenerator(Shown, Primitive[Any]):
    """Base class of operations of the generator; they run on TPUs alone."""

    own_effects = frozenset({io_effect})
    unshown = ("source",)
    caller = ""

    def lower(self, ctx, operands, params):
        raise UnsupportedError(
            f"{self.caller}: the generator of a TPU runs on TPUs only.",
            where=describe(params.source),
            do="Pass random bits as an input: `random.bits(key, shape)`.",
        )


class PrngSeed(OfGenerator):
    """Sets the state of the generator."""

    name = "prng_seed"
    caller = "prng_seed"
    traits = Traits(kind="random", flops=0.0, returns_list=True)

    def abstract_eval(self, avals, params):
        return []


class BitsParams(NamedTuple):
    """The shape of the bits, and the user's line."""

    shape: tuple[int, ...]
    source: Any


class PrngRandomBits(OfGenerator):
    """The next bits of the generator."""

    name = "prng_random_bits"
    caller = "prng_random_bits"
    traits = Traits(kind="random", flops=0.0)

    def abstract_eval(self, avals, params):
        return [shaped_array(params.shape, _INT32)]


prng_seed_p = PrngSeed()
prng_random_bits_p = PrngRandomBits()


def prng_seed(*seeds: Any) -> None:
    """Set the state of the generator of this core, from one integer or several.

    Raises: ArgumentTypeError for none and for other arguments; UnsupportedError, when the kernel is lowered, for anything but a TPU.
    """
    numbers = [np.int32(x) if isinstance(x, int) else x for x in seeds]
    if not numbers or any(type_of(x).shape or type_of(x).dtype.kind not in "iu" for x in numbers):
        raise ArgumentTypeError(
            "prng_seed takes integers, one or several.", got=f"got {seeds!r:.60}"
        )
    bind(prng_seed_p, *numbers, params=SeedParams(capture()))


def prng_random_bits(shape: Any) -> Any:
    """The next bits of the generator of this core, an int32 array.

    Raises: UnsupportedError, when the kernel is lowered, for anything but a TPU.
    """
    sizes = checked_shape(shape, "prng_random_bits")
    return bind1(prng_random_bits_p, params=BitsParams(sizes, capture()))


# Numbers of the generator --------------------------------------------------------------------------------------

_MANTISSA_BITS = 23
_ONE = 0x3F800000


def stateful_bits(shape: Sequence[int] = (), dtype: DTypeLike = np.uint32) -> Any:
    """The next bits of the generator of this core (`prng_seed`), as unsigned integers of 8, 16 or 32 bits.

    Raises: DtypeError for another dtype; UnsupportedError, when the kernel is lowered, for anything but a TPU.
    """
    wanted = dtypes.check_user_dtype(dtype, "stateful_bits")
    if wanted.kind != "u" or wanted.itemsize > 4:
        raise DtypeError("stateful_bits gives uint8, uint16 or uint32.", got=wanted.name)
    return bitcast_convert_type(prng_random_bits(shape), np.uint32).astype(wanted)


def stateful_uniform(
    shape: Sequence[int] = (), dtype: DTypeLike = np.float32, minval: Any = 0.0, maxval: Any = 1.0
) -> Any:
    """The next numbers of the generator of this core, evenly distributed from `minval` to below `maxval`.

    Raises: DtypeError for another dtype than float32 and bfloat16; UnsupportedError, when the kernel is lowered, for anything but a TPU.
    """
    wanted = _float_dtype("stateful_uniform", dtype)
    unit = _from_one_to_two(prng_random_bits(shape)) - 1
    low, high = (asarray(x, _FLOAT32) for x in (minval, maxval))
    return maximum(low, unit * (high - low) + low).astype(wanted)


def stateful_normal(shape: Sequence[int] = (), dtype: DTypeLike = np.float32) -> Any:
    """The next numbers of the generator of this core, normally distributed with mean 0 and deviation 1.

    Raises: DtypeError for another dtype than float32 and bfloat16; UnsupportedError, when the kernel is lowered, for anything but a TPU.
    Source: Box and Muller, A note on the generation of random normal deviates (1958).
    """
    wanted = _float_dtype("stateful_normal", dtype)
    radius = sqrt(-2 * log(2 - _from_one_to_two(prng_random_bits(shape))))
    angle = 2 * np.float32(math.pi) * _from_one_to_two(prng_random_bits(shape))
    return (radius * cos(angle)).astype(wanted)


def stateful_bernoulli(p: Any = 0.5, shape: Sequence[int] | None = None) -> Any:
    """The next draws of the generator of this core, each True with probability `p`; of the shape of `p` by default.

    Raises: UnsupportedError, when the kernel is lowered, for anything but a TPU.
    """
    return stateful_uniform(type_of(p).shape if shape is None else shape) < p


def _float_dtype(caller: str, dtype: DTypeLike) -> Any:
    wanted = dtypes.check_user_dtype(dtype, caller)
    if wanted.name not in ("float32", "bfloat16"):
        raise DtypeError(f"{caller} gives float32 or bfloat16.", got=f"dtype={wanted.name}")
    return wanted


def _from_one_to_two(bits: Any) -> Any:
    """float32 numbers from 1 to below 2, whose mantissas are the highest bits."""
    bits = bitcast_convert_type(bits, np.uint32) >> np.uint32(32 - _MANTISSA_BITS)
    return bitcast_convert_type(bits | np.uint32(_ONE), _FLOAT32)


# Blocks of an array ---------------------------------------------------------------------------------------------


def sample_block(
    sampler_fn: Function, global_key: Any, block_size: Sequence[int], tile_size: Sequence[int], total_size: Sequence[int],
    block_index: Sequence[Any] | None = None, **kwargs: Any,
) -> Any:  # fmt: skip
    """The block at `block_index` of an array of random numbers of shape `total_size`, the same whatever blocks it is made in.

    Each tile of `tile_size`, of which `block_size` is a multiple, is `sampler_fn(key, tile_size, **kwargs)` with a key of its own: `global_key`
    with the tile's number, row by row. By default the block is that of the program, by its position in the grid.
    Raises: ArgumentValueError for sizes that don't divide each other or differ in number.

    >>> whole, block = (
    ...     sample_block(pl.random.uniform, pl.random.key(0), size, (2, 4), (4, 8), index)
    ...     for size, index in (((4, 8), (0, 0)), ((2, 4), (1, 1)))
    ... )
    >>> (whole[2:, 4:] == block).all()
    Array(True, dtype=bool)
    """
    block, tile, total = (tuple(map(int, size)) for size in (block_size, tile_size, total_size))
    got = f"block_size={block}, tile_size={tile}, total_size={total}"
    if len({len(block), len(tile), len(total)}) > 1:
        raise ArgumentValueError("sample_block: sizes have the same number of dimensions.", got=got)
    if any(t < 1 or n % t or m % t for t, n, m in zip(tile, block, total, strict=True)):
        raise ArgumentValueError("sample_block: tiles divide blocks and the whole.", got=got)
    index = [program_id(i) for i in range(len(block))] if block_index is None else [*block_index]
    if len(index) != len(block):
        raise ArgumentValueError(
            "sample_block: `block_index` has a number for each dimension.",
            got=f"{len(index)}, {got}",
        )
    counts = [n // t for n, t in zip(block, tile, strict=True)]
    tiles_of_whole = [n // t for n, t in zip(total, tile, strict=True)]

    def part(place: tuple[int, ...]) -> Any:
        """What lies behind the first numbers of a tile."""
        axis = len(place)
        if axis < len(block):
            return concatenate([part((*place, i)) for i in range(counts[axis])], axis)
        number: Any = np.int32(0)
        for i, own, count, n in zip(index, place, counts, tiles_of_whole, strict=True):
            number = number * np.int32(n) + (i * np.int32(count) + np.int32(own))
        return sampler_fn(fold_in(global_key, number), tile, **kwargs)

    return part(())
