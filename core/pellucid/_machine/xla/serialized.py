"""Serialized CPU executables, split into the part needed to run and the part only needed by readers.

Loading an executable parses its whole optimized program, of which only buffers are used. Fusions are already machine
code, and metadata is for readers; they take two thirds of the time. So they are removed, and the whole program is
stored separately, for tools.

Sources: `xla/service/hlo.proto` for programs and buffers; the messages around them by their numbers in jaxlib 0.10 to 0.12.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .protobuf import LENGTH_DELIMITED, UnknownFormatError, fields, message_field, varint

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


class Field(NamedTuple):
    """A field of a message: its number, its value (an integer or bytes), and its raw bytes."""

    number: int
    value: int | bytes
    encoded: bytes


def without_fusions(payload: bytes) -> tuple[bytes, bytes]:
    """(serialized executable without fusions and metadata, bytes from which `with_program` restores them).

    Raises: UnknownFormatError for bytes of another format.
    """
    head, module, rests = _split_payload(payload)
    assignment, *others = _fields(rests[1])
    if assignment.number != _ASSIGNMENT:
        raise UnknownFormatError("an executable has no buffer assignment at its place")
    slim, ids = _slim(module)
    rests[1] = message_field(_ASSIGNMENT, _buffers_of(ids, assignment.value)) + _encoded_fields(
        others
    )
    return _put_together(head, slim, rests), message_field(_MODULE, module) + assignment.encoded


def with_program(payload: bytes, program: bytes) -> bytes:
    """Restores the serialized executable that `without_fusions` split.

    Raises: UnknownFormatError for bytes of another format.
    """
    head, _, rests = _split_payload(payload)
    _, assignment = _fields(program)
    rests[1] = assignment.encoded + _encoded_fields([*_fields(rests[1])][1:])
    return _put_together(head, module_of(program), rests)


def module_of(program: bytes) -> bytes:
    """The serialized HLO module in the second part returned by `without_fusions`."""
    return next(_fields(program)).value  # type: ignore[return-value]


def _split_payload(payload: bytes) -> tuple[bytes, bytes, list[bytes]]:
    """(description before the program, the program, what follows it in each enclosing message, outermost first)."""
    size, start = varint(payload, 0, len(payload))
    content, rests = payload[start + size :], []
    for number in _TO_MODULE:
        members = list(_fields(content))
        if not members or members[0].number != number or not isinstance(members[0].value, bytes):
            raise UnknownFormatError(
                f"a serialized executable lacks field {number}, which holds its program"
            )
        content = members[0].value
        rests.append(_encoded_fields(members[1:]))
    return payload[: start + size], content, rests


def _encoded_fields(parts: Iterable[Field]) -> bytes:
    return b"".join([part.encoded for part in parts])


def _put_together(head: bytes, module: bytes, rests: list[bytes]) -> bytes:
    content = module
    for number, rest in zip(reversed(_TO_MODULE), reversed(rests), strict=True):
        content = message_field(number, content) + rest
    return head + content


def _slim(module: bytes) -> tuple[bytes, set[int]]:
    """(program in which each compiled fusion is an opaque call, ids of its instructions).

    Custom fusions are kept: the libraries that run them need their bodies when the executable is loaded.
    """
    members = list(_fields(module))
    computations = [list(_fields(f.value)) for f in members if f.number == _COMPUTATIONS]
    parts_by_id = {_integer(parts, _COMPUTATION_ID): parts for parts in computations}
    contents: dict[int, bytes] = {}
    ids: set[int] = set()
    pending = [_integer(members, _ENTRY_ID)]
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
            slim.append(message_field(part.number, _encoded_fields(instruction)))
        contents[computation_id] = message_field(_COMPUTATIONS, b"".join(slim))
    others = _encoded_fields(field for field in members if field.number != _COMPUTATIONS)
    return others + b"".join([contents[i] for i in parts_by_id if i in contents]), ids


def _without_fusion(instruction: Field) -> list[Field]:
    """The fields of an instruction without metadata; for a compiled fusion, those of an opaque call."""
    members = [field for field in _fields(instruction.value) if field.number != _METADATA]
    values = {field.number: field.value for field in members}
    if values.get(_OPCODE) != b"fusion" or values.get(_FUSION_KIND) == b"kCustom":
        return members
    call = message_field(_OPCODE, b"custom-call") + message_field(_TARGET, b"fused")
    dropped = (_OPCODE, _FUSION_KIND, _CALLED, _CONFIG)
    return [*(field for field in members if field.number not in dropped), *_fields(call)]


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
            contents.append(message_field(field.number, _encoded_fields(values)))
        elif dropped.isdisjoint(_integers(parts, _BUFFER_IDS.get(field.number, 0))):
            contents.append(field.encoded)
    return b"".join(contents)


def _instruction_of(buffer: Iterable[Field]) -> int:
    """The id of the instruction that defines a logical buffer."""
    place = next((field.value for field in buffer if field.number == _PLACE), b"")
    return _integer(_fields(place), _PLACE_INSTRUCTION)


def _integers(message: Iterable[Field], number: int) -> Iterator[int]:
    """The integers of a repeated field, packed or unpacked."""
    for field in message:
        if field.number != number:
            continue
        if isinstance(field.value, int):
            yield field.value
            continue
        at = 0
        while at < len(field.value):
            value, at = varint(field.value, at, len(field.value))
            yield value


def _integer(message: Iterable[Field], number: int, default: int | None = None) -> int:
    value = next((field.value for field in message if field.number == number), default)
    if not isinstance(value, int):
        raise UnknownFormatError(f"a message has no integer in field {number}")
    return value


def _fields(message: int | bytes) -> Iterator[Field]:
    """The fields of a serialized message, in order."""
    if isinstance(message, int):
        raise UnknownFormatError("an integer is no message")
    start = 0
    for number, kind, value, end in fields(message, 0, len(message)):
        content = message[value:end] if kind == LENGTH_DELIMITED else value
        yield Field(number, content, message[start:end])
        start = end
