"""Tiles: TPUs hold the last two dimensions of an array in pieces of 8 rows and 128 lanes, more rows for 8 bits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import dtypes

LANES, ROWS = 128, 8


def bits_of(dtype: Any) -> int:
    """Bits of an element in memory, where booleans have 32."""
    return 32 if np.dtype(dtype) == np.bool_ else dtypes.itemsize_bits(np.dtype(dtype))


def has_four_bits(dtype: Any) -> bool:
    """Whether elements are int4 or uint4, which are read, written and converted only."""
    return np.dtype(dtype).name in ("int4", "uint4")


def has_dtype(dtype: Any) -> bool:
    """Whether TPUs have elements of this dtype in their kernels."""
    dtype = np.dtype(dtype)
    if dtype.kind in "iub" or has_four_bits(dtype):
        return dtype.itemsize <= 4
    is_float = dtypes.is_inexact(dtype) and dtype.kind != "c"
    return is_float and dtype != np.float16 and 8 <= dtypes.itemsize_bits(dtype) <= 32


def tile_of(shape: Sequence[int], dtype: Any) -> tuple[int, ...]:
    """The tile of an array: of its last dimension, or of the last two.

    >>> tile_of((64, 256), np.float32), tile_of((64, 256), np.int8), tile_of((2, 256), np.float32)
    ((8, 128), (32, 128), (2, 128))
    """
    packed = 32 // bits_of(dtype)
    if len(shape) < 2:
        return (LANES * packed,)[: len(shape)]
    rows = shape[-2]
    if packed >= 4 and rows >= ROWS * packed:
        return ROWS * packed, LANES
    n = packed
    while n < min(rows, ROWS):
        n *= 2
    return n, LANES


def bytes_of(shape: Sequence[int], dtype: Any) -> int:
    """Bytes of an array in whole tiles."""
    tile = tile_of(shape, dtype)
    front = shape[: len(shape) - len(tile)]
    padded = [-(-n // t) * t for n, t in zip(shape[len(front) :], tile, strict=True)]
    return math.prod([*front, *padded]) * bits_of(dtype) // 8


def fitting_block(block: Sequence[int], shape: Sequence[int], dtype: Any) -> tuple[int, ...] | None:
    """The least block of an array of `shape` that is no smaller than `block` and consists of tiles; None if `block` itself does.

    Along a dimension that the block has whole it needs none.
    """
    tile = tile_of(shape, dtype)
    start = len(shape) - len(tile)
    found = [*block]
    for i, t in enumerate(tile, start):
        if block[i] % t and block[i] != shape[i]:
            whole_tiles = -(-block[i] // t) * t
            found[i] = min(whole_tiles, shape[i])
    return None if found == [*block] else tuple(found)
