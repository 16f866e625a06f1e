"""Several narrow elements in one wide one, and rounding to narrow ones by random bits."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentValueError,
    DtypeError,
    DTypeLike,
    ShapeError,
    UnsupportedError,
    dtypes,
)
from pellucid._machine.ir import ShapedArray
from pellucid._machine.primitives import bitcast_convert_type
from pellucid._machine.tracing import type_of
from pellucid.numpy import bitwise_or, where

from .named import PACK, UNPACK, named

_BF16 = dtypes.as_dtype("bfloat16")


def _unsigned(bits: int) -> np.dtype:
    return np.dtype(f"uint{bits}")


def _parts_of_a_word(caller: str, aval: ShapedArray, packed: Any) -> int:
    """How many elements of the dtype `packed` are in one of `aval`."""
    wide, narrow = (dtypes.itemsize_bits(dtype) for dtype in (aval.dtype, packed))
    if narrow not in (8, 16) or wide % narrow or wide == narrow or wide > 32:
        raise DtypeError(
            f"{caller}: elements of 16 or 32 bits hold several of 8 or 16.",
            got=f"{aval.text()}, packed_dtype={dtypes.short_name(packed)}",
        )
    return wide // narrow


def pack_elementwise(xs: Sequence[Any], *, packed_dtype: DTypeLike) -> Any:
    """Elements of several arrays of one shape and dtype, each as `packed_dtype`, side by side in integers of the arrays' width.

    Those of the first array are the lowest bits. Floating numbers are rounded to a floating `packed_dtype`; of integers the lowest bits are kept.
    Raises: ArgumentValueError unless as many arrays are given as narrow elements fit; DtypeError, ShapeError for arrays that differ.

    >>> x = np.arange(2, dtype=np.int32)
    >>> pack_elementwise([x, x + 2], packed_dtype="int16")
    Array([131072, 196609], dtype=int32)
    """
    packed = dtypes.check_user_dtype(packed_dtype, "pack_elementwise")
    avals = [type_of(x) for x in xs]
    got = [aval.text() for aval in avals]
    if not avals or len({aval.dtype for aval in avals}) > 1:
        raise DtypeError("pack_elementwise takes arrays of one dtype.", got=got or "none")
    if len({aval.shape for aval in avals}) > 1:
        raise ShapeError("pack_elementwise takes arrays of one shape.", got=got)
    count = _parts_of_a_word("pack_elementwise", avals[0], packed)
    if len(avals) != count:
        raise ArgumentValueError(
            f"pack_elementwise takes {count} arrays of {dtypes.short_name(avals[0].dtype)} as {dtypes.short_name(packed)}.",
            got=f"got {len(avals)}",
        )
    if dtypes.is_inexact(avals[0].dtype) != dtypes.is_inexact(packed):
        raise DtypeError(
            "pack_elementwise: floating numbers are packed as such, and integers as integers.",
            got=f"{got[0]}, packed_dtype={dtypes.short_name(packed)}",
        )
    definition = functools.partial(_packed, packed)
    return named(PACK, lambda *xs: definition(xs), *xs, packed_dtype=packed.name)


def _packed(packed: Any, xs: Sequence[Any]) -> Any:
    bits = dtypes.itemsize_bits(packed)
    wide = dtypes.itemsize_bits(xs[0].dtype)
    words = [
        bitcast_convert_type(x.astype(packed), _unsigned(bits)).astype(_unsigned(wide))
        << np.asarray(i * bits, _unsigned(wide))
        for i, x in enumerate(xs)
    ]
    return bitcast_convert_type(functools.reduce(bitwise_or, words), np.dtype(f"int{wide}"))


def unpack_elementwise(
    x: Any, *, index: int, packed_dtype: DTypeLike, unpacked_dtype: DTypeLike
) -> Any:
    """What `pack_elementwise` has made of its array number `index`, as elements of `unpacked_dtype`.

    Raises: DtypeError unless `x` has integers and `unpacked_dtype` their width, and for floating numbers as integers or the other way round;
    ArgumentValueError for an index that isn't there.

    >>> unpack_elementwise(np.int32([131072, 196609]), index=1, packed_dtype="int16", unpacked_dtype="int32")
    Array([2, 3], dtype=int32)
    """
    packed, unpacked = (
        dtypes.check_user_dtype(d, "unpack_elementwise") for d in (packed_dtype, unpacked_dtype)
    )
    aval = type_of(x)
    count = _parts_of_a_word("unpack_elementwise", aval, packed)
    same_width = dtypes.itemsize_bits(unpacked) == dtypes.itemsize_bits(aval.dtype)
    same_kind = dtypes.is_inexact(packed) == dtypes.is_inexact(unpacked)
    if aval.dtype.kind not in "iu" or not same_width or not same_kind:
        raise DtypeError(
            "unpack_elementwise takes integers, and gives numbers of their width and of the kind of `packed_dtype`.",
            got=f"{aval.text()}, packed_dtype={packed.name}, unpacked_dtype={unpacked.name}",
        )
    if not 0 <= index < count:
        raise ArgumentValueError(
            f"unpack_elementwise: each element holds {count}.", got=f"index={index}"
        )
    definition = functools.partial(_unpacked, int(index), packed, unpacked)
    return named(UNPACK, definition, x, index=int(index), packed_dtype=packed.name)


def _unpacked(index: int, packed: Any, unpacked: Any, x: Any) -> Any:
    bits, wide = dtypes.itemsize_bits(packed), dtypes.itemsize_bits(x.dtype)
    word = bitcast_convert_type(x, _unsigned(wide)) >> np.asarray(index * bits, _unsigned(wide))
    return bitcast_convert_type(word.astype(_unsigned(bits)), packed).astype(unpacked)


_DROPPED = 0xFFFF


def stochastic_round(x: Any, random_bits: Any, *, target_dtype: DTypeLike) -> Any:
    """The float32 numbers `x` as bfloat16, rounded up or down by chance: up more often, the nearer that is.

    The lowest 16 of the 32 `random_bits` for each element are added to the bits that bfloat16 lacks, which are dropped then; the mean over
    random bits is `x`. Infinities and NaN stay. Raises: ShapeError, DtypeError for other operands; UnsupportedError for another `target_dtype`.

    >>> stochastic_round(np.float32([1.003, 1.003]), np.uint32([0, 0xFFFF]), target_dtype="bfloat16")
    Array([1, 1.00781], dtype=bfloat16)
    """
    target = dtypes.check_user_dtype(target_dtype, "stochastic_round")
    aval, bits = type_of(x), type_of(random_bits)
    got = f"x: {aval.text()}, random_bits: {bits.text()}"
    if aval.dtype != np.float32 or bits.dtype.kind not in "iu" or bits.dtype.itemsize != 4:
        raise DtypeError("stochastic_round takes float32 and 32 random bits.", got=got)
    if aval.shape != bits.shape:
        raise ShapeError("stochastic_round takes random bits for each element.", got=got)
    if target != _BF16:
        raise UnsupportedError(
            "stochastic_round rounds to bfloat16.", got=f"target_dtype={target.name}"
        )
    word = bitcast_convert_type(x, np.uint32)
    added = word + (bitcast_convert_type(random_bits, np.uint32) & np.uint32(_DROPPED))
    # What isn't finite has all bits of the exponent; a NaN may have its only other bits where they are dropped.
    exponent = np.uint32(0x7F800000)
    is_finite = (word & exponent) != exponent
    kept = where(is_finite, added, word) & np.uint32(_DROPPED << 16)
    rounded = bitcast_convert_type(kept, np.float32)
    return where(is_finite, rounded, x).astype(_BF16)
