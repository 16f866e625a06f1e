"""Serialized CPU executables, split into the part needed to run and the part only needed by readers.

Loading an executable parses its whole optimized program, of which only buffers are used. Fusions are already machine
code, and metadata is for readers; they take two thirds of the time. So they are removed, and the whole program is
stored separately, for tools.

Sources: `xla/service/hlo.proto` for programs and buffers; the messages around them by their numbers in jaxlib 0.10 to 0.12.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5
"""Wire types of protocol buffers."""
_MODULE, _ASSIGNMENT = 1, 2
"""Fields of an executable: its program, and its buffer assignment."""
_TO_MODULE = (1, 1, _MODULE)
"""Path of nested fields from the executable with its options to the program."""
_COMPUTATIONS, _ENTRY_ID = 3, 6
_COMPUTATION_INSTRUCTIONS, _COMPUTATION_ID = 2, 5
_OPCODE, _METADATA, _FUSION_KIND, _TARGET, _ID, _CALLED, _CONFIG = 2, 7, 11, 28, 35, 38, 43
_LOGICAL_BUFFERS, _ALIASES, _ALLOCATIONS, _PEAKS = 1, 2, 3, 5
_BUFFER_IDS = {_LOGICAL_BUFFERS: 1, _ALIASES: 1, _PEAKS: 2}
"""Fields in which parts of a buffer assignment have the ids of their logical buffers."""
_BUFFER_ID, _PLACE, _PLACE_INSTRUCTION, _ASSIGNED = 1, 3, 4, 9


class UnknownFormatError(ValueError):
    """Bytes in another format than this jaxlib is expected to write."""


class Field(NamedTuple):
    """A field of a message: its number, its value (an integer or bytes), and its raw bytes."""

    number: int
    value: int | bytes
    encoded: bytes


def without_fusions(payload: bytes) -> tuple[bytes, bytes]:
    """(serialized executable without fusions and metadata, bytes from which `with_program` restores them).

    Raises: UnknownFormatError for bytes of another format.
    """
    head, module, rests = _taken_apart(payload)
    assignment, *others = _fields(rests[1])
    if assignment.number != _ASSIGNMENT:
        raise UnknownFormatError("an executable has no buffer assignment at its place")
    slim, ids = _slim(module)
    rests[1] = _encoded(_ASSIGNMENT, _buffers_of(ids, assignment.value)) + _joined(others)
    return _put_together(head, slim, rests), _encoded(_MODULE, module) + assignment.encoded


def with_program(payload: bytes, program: bytes) -> bytes:
    """Restores the serialized executable that `without_fusions` split.

    Raises: UnknownFormatError for bytes of another format.
    """
    head, _, rests = _taken_apart(payload)
    _, assignment = _fields(program)
    rests[1] = assignment.encoded + _joined([*_fields(rests[1])][1:])
    return _put_together(head, module_of(program), rests)


def module_of(program: bytes) -> bytes:
    """The serialized HLO module in the second part returned by `without_fusions`."""
    return next(_fields(program)).value  # type: ignore[return-value]


def _taken_apart(payload: bytes) -> tuple[bytes, bytes, list[bytes]]:
    """(description before the program, the program, what follows it in each enclosing message, outermost first)."""
    size, start = _varint(payload, 0)
    content, rests = payload[start + size :], []
    for number in _TO_MODULE:
        fields = list(_fields(content))
        if not fields or fields[0].number != number or not isinstance(fields[0].value, bytes):
            raise UnknownFormatError(
                f"a serialized executable lacks field {number}, which holds its program"
            )
        content = fields[0].value
        rests.append(_joined(fields[1:]))
    return payload[: start + size], content, rests


def _joined(fields: Iterable[Field]) -> bytes:
    return b"".join([field.encoded for field in fields])


def _put_together(head: bytes, module: bytes, rests: list[bytes]) -> bytes:
    content = module
    for number, rest in zip(reversed(_TO_MODULE), reversed(rests), strict=True):
        content = _encoded(number, content) + rest
    return head + content


def _slim(module: bytes) -> tuple[bytes, set[int]]:
    """(program in which each compiled fusion is an opaque call, ids of its instructions).

    Custom fusions are kept: the libraries that run them need their bodies when the executable is loaded.
    """
    fields = list(_fields(module))
    computations = [list(_fields(f.value)) for f in fields if f.number == _COMPUTATIONS]
    parts_by_id = {_integer(parts, _COMPUTATION_ID): parts for parts in computations}
    contents: dict[int, bytes] = {}
    ids: set[int] = set()
    pending = [_integer(fields, _ENTRY_ID)]
    while pending:
        computation_id = pending.pop()
        if computation_id in contents:
            continue
        slim = []
        for part in parts_by_id[computation_id]:
            if part.number != _COMPUTATION_INSTRUCTIONS:
                slim.append(part.encoded)
                continue
            instruction = _without_fusion(part)
            ids.add(_integer(instruction, _ID))
            pending += _integers(instruction, _CALLED)
            slim.append(_encoded(part.number, _joined(instruction)))
        contents[computation_id] = _encoded(_COMPUTATIONS, b"".join(slim))
    others = _joined(field for field in fields if field.number != _COMPUTATIONS)
    return others + b"".join([contents[i] for i in parts_by_id if i in contents]), ids


def _without_fusion(instruction: Field) -> list[Field]:
    """The fields of an instruction without metadata; for a compiled fusion, those of an opaque call."""
    fields = [field for field in _fields(instruction.value) if field.number != _METADATA]
    values = {field.number: field.value for field in fields}
    if values.get(_OPCODE) != b"fusion" or values.get(_FUSION_KIND) == b"kCustom":
        return fields
    call = _encoded(_OPCODE, b"custom-call") + _encoded(_TARGET, b"fused")
    dropped = (_OPCODE, _FUSION_KIND, _CALLED, _CONFIG)
    return [*(field for field in fields if field.number not in dropped), *_fields(call)]


def _buffers_of(ids: set[int], assignment: int | bytes) -> bytes:
    """A buffer assignment without the values of instructions whose ids aren't in `ids`.

    The allocations of such values are kept: machine code refers to allocations by index.
    """
    dropped: set[int] = set()
    contents = []
    for field in _fields(assignment):  # logical buffers come first
        parts = list(_fields(field.value))
        if field.number == _LOGICAL_BUFFERS and _instruction_of(parts) not in ids:
            dropped.add(_integer(parts, _BUFFER_ID, 0))
        elif field.number == _ALLOCATIONS:
            values = [
                part
                for part in parts
                if part.number != _ASSIGNED
                or _integer(_fields(part.value), _BUFFER_ID, 0) not in dropped
            ]
            contents.append(_encoded(field.number, _joined(values)))
        elif dropped.isdisjoint(_integers(parts, _BUFFER_IDS.get(field.number, 0))):
            contents.append(field.encoded)
    return b"".join(contents)


def _instruction_of(buffer: Iterable[Field]) -> int:
    """The id of the instruction that defines a logical buffer."""
    place = next((field.value for field in buffer if field.number == _PLACE), b"")
    return _integer(_fields(place), _PLACE_INSTRUCTION)


def _integers(fields: Iterable[Field], number: int) -> Iterator[int]:
    """The integers of a repeated field, packed or unpacked."""
    for field in fields:
        if field.number != number:
            continue
        if isinstance(field.value, int):
            yield field.value
            continue
        at = 0
        while at < len(field.value):
            value, at = _varint(field.value, at)
            yield value


def _integer(fields: Iterable[Field], number: int, default: int | None = None) -> int:
    value = next((field.value for field in fields if field.number == number), default)
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
    """Decodes a varint: (value, end position)."""
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
