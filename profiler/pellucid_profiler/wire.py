"""The protobuf wire format, vectorized: decodes many messages at once, from arrays of positions to arrays of numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pellucid.introspect.protobuf import varint

Bytes = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int64]


def varints(data: Bytes, positions: Positions) -> tuple[npt.NDArray[np.uint64], Positions]:
    """Decodes the varints that begin at `positions`: (values, positions after them)."""
    byte = data[positions]
    numbers = (byte & 127).astype(np.uint64)
    ends = positions + 1
    rest = np.flatnonzero(byte >= 128)
    shift = 7
    while rest.size:
        byte = data[ends[rest]]
        numbers[rest] |= (byte & 127).astype(np.uint64) << np.uint64(shift)
        ends[rest] += 1
        rest = rest[byte >= 128]
        shift += 7
    return numbers, ends


def pack(message: bytes, start: int, end: int) -> list[int]:
    """Decodes the varints of a packed repeated field.

    >>> pack(bytes([0x01, 0x96, 0x01]), 0, 3)
    [1, 150]
    """
    values: list[int] = []
    while start < end:
        value, start = varint(message, start, end)
        values.append(value)
    return values


def put_varints(column: npt.NDArray[np.uint8], numbers: npt.NDArray[np.uint64]) -> None:
    """Writes `numbers` [n] as varints padded to the width of `column` [n, width], which protobuf allows."""
    numbers = numbers.astype(np.uint64)
    width = column.shape[1]
    for k in range(width):
        byte = (numbers & np.uint64(127)).astype(np.uint8)
        if k < width - 1:
            byte |= np.uint8(128)
        column[:, k] = byte
        numbers = numbers >> np.uint64(7)
