"""Memory of a program over its run: the buffers that XLA assigned, from the operation that fills each to its last use.

Fields (openxla/xla, hlo.proto): HloModuleProto computations 3, entry_computation_id 6; HloComputationProto instructions
2, id 5, root_id 6; HloInstructionProto name 1, opcode 2, id 35, operand_ids 36, called_computation_ids 38.
BufferAssignmentProto logical_buffers 1, buffer_aliases 2, buffer_allocations 3; LogicalBufferProto id 1, size 2,
defined_at 3; Location instruction_id 4; BufferAlias source_buffer_id 1, location 2; BufferAllocationProto index 1,
size 2, is_thread_local 3, is_entry_computation_parameter 5, maybe_live_out 7, is_constant 12, assigned 9; Assigned
logical_buffer_id 1, offset 2, size 3.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from pellucid.introspect.recording import LoadedModule
from pellucid_profiler.wire import LENGTH_DELIMITED, VARINT, fields, varint

_RUNS_PROGRAMS = frozenset({"while", "conditional", "call", "async-start"})

Kind = Literal["argument", "constant", "result", "temporary"]


class LiveBuffer(NamedTuple):
    """A buffer at the moment when a program holds most memory."""

    instruction: str
    """That fills it."""
    kind: Kind
    n_bytes: int


class ProgramMemory(NamedTuple):
    """Bytes that a program holds on one device during a run."""

    instructions: list[str]
    """In the order in which they run, those of loops and branches once."""
    live_bytes: list[int]
    """While each of them runs."""
    peak: int
    """Which of them runs when most is held."""
    at_peak: list[LiveBuffer]
    """Buffers held then, the largest first."""

    @property
    def peak_bytes(self) -> int:
        """Most bytes at once."""
        return self.live_bytes[self.peak] if self.live_bytes else 0


@dataclass(slots=True)
class _Instruction:
    name: str = ""
    opcode: str = ""
    id: int = 0
    operands: list[int] = field(default_factory=list)
    called: list[int] = field(default_factory=list)


class _Slot(NamedTuple):
    """Where a buffer lies; buffers of one slot that live at once are one."""

    allocation: int
    offset: int


def program_memory(loaded: LoadedModule) -> ProgramMemory | None:
    """The memory of a loaded program; None where XLA keeps no buffer assignment."""
    assignment = loaded.buffer_assignment()
    if not assignment:
        return None
    entry, computations, roots = _computations(loaded.proto())
    order: list[_Instruction] = []
    begins: dict[int, int] = {}
    ends: dict[int, int] = {}

    def run(computation: int) -> None:
        for instruction in computations[computation]:
            begins.setdefault(instruction.id, len(order))
            if instruction.opcode in _RUNS_PROGRAMS:
                for each in instruction.called:
                    run(each)
            ends[instruction.id] = len(order)
            order.append(instruction)

    run(entry)
    last_use = dict(ends)
    for instructions in computations.values():
        for instruction in instructions:
            for operand in instruction.operands:
                if instruction.id in ends:
                    last_use[operand] = max(last_use.get(operand, 0), ends[instruction.id])
    last_use[roots[entry]] = len(order) - 1
    names = {each.id: each.name for each in order}
    live: dict[_Slot, list[tuple[int, int, LiveBuffer]]] = defaultdict(list)
    for slot, kind, n_bytes, defined, locations in _buffers(assignment):
        if defined not in begins:
            continue  # within a kernel
        begin, end = begins[defined], max(last_use.get(each, 0) for each in (defined, *locations))
        if kind in ("argument", "constant"):
            begin, end = 0, len(order) - 1
        live[slot].append((begin, end, LiveBuffer(names[defined], kind, n_bytes)))
    return _timeline([each.name for each in order], live)


def _timeline(
    instructions: list[str], live: dict[_Slot, list[tuple[int, int, LiveBuffer]]]
) -> ProgramMemory:
    changes = np.zeros(len(instructions) + 1, np.int64)
    pieces: list[tuple[int, int, LiveBuffer]] = []
    for buffers in live.values():
        merged: list[tuple[int, int, LiveBuffer]] = []
        for begin, end, buffer in sorted(buffers, key=lambda each: each[:2]):
            if merged and begin <= merged[-1][1]:
                first, reached, before = merged[-1]
                larger = before if before.n_bytes >= buffer.n_bytes else buffer
                merged[-1] = (first, max(reached, end), larger)
            else:
                merged.append((begin, end, buffer))
        pieces += merged
    for begin, end, buffer in pieces:
        changes[begin] += buffer.n_bytes
        changes[end + 1] -= buffer.n_bytes
    bytes_live = np.cumsum(changes[:-1])
    peak = int(np.argmax(bytes_live)) if len(bytes_live) else 0
    at_peak = [buffer for begin, end, buffer in pieces if begin <= peak <= end and buffer.n_bytes]
    at_peak.sort(key=lambda buffer: -buffer.n_bytes)
    return ProgramMemory(instructions, bytes_live.tolist(), peak, at_peak)


def _computations(proto: bytes) -> tuple[int, dict[int, list[_Instruction]], dict[int, int]]:
    """(the entry's id, instructions of each computation in the order in which they run, root of each)."""
    entry, computations, roots = 0, dict[int, list[_Instruction]](), dict[int, int]()
    for number, _, at, stop in fields(proto, 0, len(proto)):
        if number == 6:
            entry = at
        elif number == 3:
            key = 0
            instructions: list[_Instruction] = []
            root = 0
            for inner, _, begin, end in fields(proto, at, stop):
                if inner == 2:
                    instructions.append(_instruction(proto, begin, end))
                elif inner == 5:
                    key = begin
                elif inner == 6:
                    root = begin
            computations[key], roots[key] = instructions, root
    return entry, computations, roots


def _instruction(proto: bytes, start: int, stop: int) -> _Instruction:
    instruction = _Instruction()
    for number, kind, at, end in fields(proto, start, stop):
        if number == 1:
            instruction.name = proto[at:end].decode()
        elif number == 2:
            instruction.opcode = proto[at:end].decode()
        elif number == 35:
            instruction.id = at
        elif number in (36, 38):
            target = instruction.operands if number == 36 else instruction.called
            target += [at] if kind == VARINT else _packed(proto, at, end)
    return instruction


def _packed(message: bytes, at: int, end: int) -> list[int]:
    values: list[int] = []
    while at < end:
        value, at = varint(message, at, end)
        values.append(value)
    return values


def _buffers(message: bytes) -> list[tuple[_Slot, Kind, int, int, list[int]]]:
    """(slot, kind, bytes, id of the instruction that fills it, of those whose results lie in it), for each buffer."""
    size, defined = dict[int, int](), dict[int, int]()
    locations: dict[int, list[int]] = defaultdict(list)
    slots: dict[int, tuple[_Slot, Kind]] = {}
    for number, _, at, stop in fields(message, 0, len(message)):
        if number == 1:
            each = _message(message, at, stop)
            size[each.get(1, 0)] = each.get(2, 0)
            defined[each.get(1, 0)] = _message(message, *each[3]).get(4, 0) if 3 in each else 0
        elif number == 2:
            each = _message(message, at, stop)
            if 2 in each:
                locations[each.get(1, 0)].append(_message(message, *each[2]).get(4, 0))
        elif number == 3:
            _allocation(message, at, stop, slots)
    return [
        (slot, kind, size[key], defined[key], locations[key])
        for key, (slot, kind) in slots.items()
    ]  # fmt: skip


def _allocation(
    message: bytes, start: int, stop: int, slots: dict[int, tuple[_Slot, Kind]]
) -> None:
    each = _message(message, start, stop)
    if each.get(3):  # a kernel's own
        return
    kind: Kind = "temporary"
    if each.get(5):
        kind = "argument"
    elif each.get(12):
        kind = "constant"
    elif each.get(7):
        kind = "result"
    for number, _, at, end in fields(message, start, stop):
        if number == 9:
            assigned = _message(message, at, end)
            slot = _Slot(each.get(1, 0), assigned.get(2, 0))
            slots[assigned.get(1, 0)] = slot, kind


def _message(message: bytes, start: int, stop: int) -> dict[int, Any]:
    """The fields of a message by number, of repeated ones the last: numbers, and bounds of messages in it."""
    return {
        number: (at, end) if kind == LENGTH_DELIMITED else at
        for number, kind, at, end in fields(message, start, stop)
    }
