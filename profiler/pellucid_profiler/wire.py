"""The protobuf wire format, vectorized: decodes many messages at once, from arrays of positions to arrays of numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int64]

VARINT, FIXED64, LENGTH_DELIMITED, FIXED32 = 0, 1, 2, 5
"""Wire types of protobuf."""


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


def fields(message: bytes, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yields (field number, wire type, value or content start, end) for each field of the message `message[start:end]`.

    For a length-delimited field the last two are the bounds of its content; for others the value and the end position.

    Raises: ValueError for malformed bytes.

    >>> list(fields(bytes([0x08, 0x96, 0x01, 0x12, 0x01, 0x41]), 0, 6))
    [(1, 0, 150, 3), (2, 2, 5, 6)]
    """
    i = start
    while i < end:
        tag, i = varint(message, i, end)
        kind = tag & 7
        if kind == VARINT:
            value, i = varint(message, i, end)
            yield tag >> 3, kind, value, i
            continue
        if kind == LENGTH_DELIMITED:
            size, i = varint(message, i, end)
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
        else:
            raise ValueError(f"wire type {kind} at byte {i}")
        if i + size > end:
            raise ValueError(f"a field ends at byte {i + size} of {end}")
        if kind == LENGTH_DELIMITED:
            yield tag >> 3, kind, i, i + size
        else:
            yield tag >> 3, kind, int.from_bytes(message[i : i + size], "little"), i + size
        i += size


def varint(message: bytes, i: int, end: int) -> tuple[int, int]:
    """Decodes the varint at `i`: (value, position after it).

    Raises: ValueError if it doesn't end before `end`.
    """
    value = shift = 0
    while i < end:
        byte = message[i]
        i += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, i
        shift += 7
    raise ValueError(f"a number isn't over at byte {end}")


def packed(message: bytes, start: int, end: int) -> list[int]:
    """Decodes the varints of a packed repeated field.

    >>> packed(bytes([0x01, 0x96, 0x01]), 0, 3)
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


def message_field(number: int, content: bytes) -> bytes:
    """Encodes a field whose value is a message, string or bytes.

    >>> message_field(1, b"a").hex()
    '0a0161'
    """
    return _varint(number << 3 | LENGTH_DELIMITED) + _varint(len(content)) + content


def number_field(number: int, value: int) -> bytes:
    """Encodes a field whose value is a non-negative integer.

    >>> number_field(1, 150).hex()
    '089601'
    """
    return _varint(number << 3 | VARINT) + _varint(value)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 128:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes([*encoded, value])
