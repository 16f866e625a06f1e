"""Serialized executables of CPUs, and the part of their optimized program that only readers need.

Loading an executable builds its whole optimized program, of which it looks at buffers alone. The bodies of fusions,
which are machine code already, take more than half of that time. So they are taken out, and the whole program
is contents beside, for tools.

Sources: `xla/service/hlo.proto` for programs; the messages around them by their numbers in jaxlib 0.10 to 0.12.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5
"""Wire types of protocol buffers."""
_TO_MODULE = (1, 1, 1)
"""From the executable with its options to the program: fields, each within the one before."""
_COMPUTATIONS = 3
_COMPUTATION_INSTRUCTIONS, _COMPUTATION_ID, _COMPUTATION_ROOT = 2, 5, 6
_NAME, _OPCODE, _SHAPE, _FUSION_KIND, _TARGET, _ID, _CALLED = 1, 2, 3, 11, 28, 35, 38


class UnknownFormatError(ValueError):
    """Bytes that aren't what this jaxlib was expected to write."""


class Field(NamedTuple):
    """A field of a message: its number, its value (an integer, or bytes), and all its bytes."""

    number: int
    value: int | bytes
    encoded: bytes


def without_fusion_bodies(payload: bytes) -> tuple[bytes, bytes]:
    """A serialized executable whose program lacks the bodies of fusions, and its whole program.

    Raises: UnknownFormatError for bytes of another format.
    """
    head, module, rests = _taken_apart(payload)
    return _put_together(head, _slim(module), rests), module


def with_program(payload: bytes, module: bytes) -> bytes:
    """A serialized executable with `module` as its program.

    Raises: UnknownFormatError for bytes of another format.
    """
    head, _, rests = _taken_apart(payload)
    return _put_together(head, module, rests)


def _taken_apart(payload: bytes) -> tuple[bytes, bytes, list[bytes]]:
    """The description in front, the program, and what comes after it in each message, outermost first."""
    size, start = _varint(payload, 0)
    content, rests = payload[start + size :], []
    for number in _TO_MODULE:
        fields = list(_fields(content))
        if not fields or fields[0].number != number or not isinstance(fields[0].value, bytes):
            raise UnknownFormatError("an executable has no program at its place")
        content = fields[0].value
        rests.append(b"".join(field.encoded for field in fields[1:]))
    return payload[: start + size], content, rests


def _put_together(head: bytes, module: bytes, rests: list[bytes]) -> bytes:
    content = module
    for number, rest in zip(reversed(_TO_MODULE), reversed(rests), strict=True):
        content = _encoded(number, content) + rest
    return head + content


def _slim(module: bytes) -> bytes:
    """A program in which each compiled fusion computes its result by an opaque call.

    Custom fusions stay whole: the libraries that run them are given their bodies when the executable is loaded.
    """
    fields = [
        (f, [*_fields(f.value)] if f.number == _COMPUTATIONS else []) for f in _fields(module)
    ]
    fused = {
        called
        for _, computation in fields
        for part in computation
        if part.number == _COMPUTATION_INSTRUCTIONS and _is_compiled_fusion(part)
        for called in _called(part)
    }
    return b"".join(
        _encoded(_COMPUTATIONS, _opaque(computation))
        if computation and _integer(computation, _COMPUTATION_ID) in fused
        else field.encoded
        for field, computation in fields
    )


def _opaque(computation: list[Field]) -> bytes:
    """A fusion's computation with nothing but its parameters and its result."""
    root_id = _integer(computation, _COMPUTATION_ROOT)
    instructions = [part for part in computation if part.number == _COMPUTATION_INSTRUCTIONS]
    contents = [each.encoded for each in instructions if _opcode(each) == b"parameter"]
    mark = bytes(_tag(_ID, _VARINT)) + _encoded_varint(root_id)
    [root] = [
        fields
        for each in instructions
        if mark in each.encoded
        for fields in [list(_fields(each.value))]
        if _integer(fields, _ID) == root_id
    ]
    if len(contents) + 1 < len(instructions):
        result = [field.encoded for field in root if field.number in (_NAME, _SHAPE, _ID)]
        opaque = [_encoded(_OPCODE, b"custom-call"), _encoded(_TARGET, b"fused")]
        contents.append(_encoded(_COMPUTATION_INSTRUCTIONS, b"".join([*result, *opaque])))
    else:
        contents = [each.encoded for each in instructions]
    others = [part.encoded for part in computation if part.number != _COMPUTATION_INSTRUCTIONS]
    return b"".join([*others, *contents])


def _opcode(instruction: Field) -> bytes:
    return next((f.value for f in _fields(instruction.value) if f.number == _OPCODE), b"")  # type: ignore[return-value]


def _is_compiled_fusion(instruction: Field) -> bool:
    values = {field.number: field.value for field in _fields(instruction.value)}
    return values.get(_OPCODE) == b"fusion" and values.get(_FUSION_KIND) != b"kCustom"


def _called(instruction: Field) -> Iterator[int]:
    for field in _fields(instruction.value):
        if field.number == _CALLED:
            if isinstance(field.value, int):
                yield field.value
            else:
                at = 0
                while at < len(field.value):
                    number, at = _varint(field.value, at)
                    yield number


def _integer(fields: Iterable[Field], number: int) -> int:
    value = next((field.value for field in fields if field.number == number), None)
    if not isinstance(value, int):
        raise UnknownFormatError(f"a message has no integer in field {number}")
    return value


def _fields(message: int | bytes) -> Iterator[Field]:
    """The fields of a serialized message, in order."""
    if isinstance(message, int):
        raise UnknownFormatError("an integer is no message")
    at = 0
    while at < len(message):
        start = at
        tag, at = _varint(message, at)
        number, kind = tag >> 3, tag & 7
        value: int | bytes
        if kind == _VARINT:
            value, at = _varint(message, at)
        else:
            size = 8 if kind == _EIGHT_BYTES else 4
            if kind == _BYTES:
                size, at = _varint(message, at)
            elif kind not in (_EIGHT_BYTES, _FOUR_BYTES):
                raise UnknownFormatError(f"a field has wire type {kind}")
            value, at = message[at : at + size], at + size
        if at > len(message):
            raise UnknownFormatError("a message ends within a field")
        yield Field(number, value, message[start:at])


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """An integer of variable length, and where it ends."""
    value = shift = 0
    while True:
        if at >= len(data):
            raise UnknownFormatError("a message ends within an integer")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def _encoded_varint(value: int) -> bytes:
    content = bytearray()
    while value > 127:
        content.append(value & 127 | 128)
        value >>= 7
    content.append(value)
    return bytes(content)


def _tag(number: int, kind: int) -> bytes:
    return _encoded_varint(number << 3 | kind)


def _encoded(number: int, content: bytes) -> bytes:
    return _tag(number, _BYTES) + _encoded_varint(len(content)) + content
