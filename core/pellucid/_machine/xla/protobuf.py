"""The wire format of protocol buffers: fields of serialized messages, decoded and encoded one by one."""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED64, LENGTH_DELIMITED, FIXED32 = 0, 1, 2, 5
"""Wire types."""


class UnknownFormatError(ValueError):
    """Bytes in another format than their writer is expected to use."""


def fields(message: bytes, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yields (field number, wire type, value or content start, end) for each field of the message `message[start:end]`.

    For a length-delimited field the last two are the bounds of its content; for others the value and the end position.

    Raises: UnknownFormatError for malformed bytes.

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
            raise UnknownFormatError(f"a field has wire type {kind} at byte {i}")
        if i + size > end:
            raise UnknownFormatError(f"a field ends at byte {i + size} of {end}")
        if kind == LENGTH_DELIMITED:
            yield tag >> 3, kind, i, i + size
        else:
            yield tag >> 3, kind, int.from_bytes(message[i : i + size], "little"), i + size
        i += size


def varint(message: bytes, i: int, end: int) -> tuple[int, int]:
    """Decodes the varint at `i`: (value, position after it).

    Raises: UnknownFormatError if it doesn't end before `end`.
    """
    value = shift = 0
    while i < end:
        byte = message[i]
        i += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, i
        shift += 7
    raise UnknownFormatError(f"a number isn't over at byte {end}")


def message_field(number: int, content: bytes) -> bytes:
    """Encodes a field whose value is a message, string or bytes.

    >>> message_field(1, b"a").hex()
    '0a0161'
    """
    return _encode_varint(number << 3 | LENGTH_DELIMITED) + _encode_varint(len(content)) + content


def number_field(number: int, value: int) -> bytes:
    """Encodes a field whose value is a non-negative integer.

    >>> number_field(1, 150).hex()
    '089601'
    """
    return _encode_varint(number << 3 | VARINT) + _encode_varint(value)


def _encode_varint(value: int) -> bytes:
    content = bytearray()
    while value >= 128:
        content.append(value & 127 | 128)
        value >>= 7
    return bytes([*content, value])
