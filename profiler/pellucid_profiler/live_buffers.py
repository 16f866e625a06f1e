"""Memory of a program over its run: the buffers that XLA assigned, from the operation that fills each to its last use.

XLA allocates arguments, constants and results for the whole run; temporaries share the rest, and each of them is live
from its definition to the last use of a value that lies in it. Values are followed through tuples, loops, branches and
calls (`_Values`), because XLA's list of aliases has only those that are defined anew.

Fields (openxla/xla, hlo.proto): HloModuleProto computations 3, entry_computation_id 6; HloComputationProto instructions
2, id 5, root_id 6; HloInstructionProto name 1, opcode 2, parameter_number 9, tuple_index 13, id 35, operand_ids 36,
called_computation_ids 38. BufferAssignmentProto logical_buffers 1, buffer_allocations 3; LogicalBufferProto id 1, size
2, defined_at 3; Location shape_index 3, instruction_id 4; BufferAllocationProto index 1, size 2, is_thread_local 3,
is_entry_computation_parameter 5, maybe_live_out 7, is_constant 12, assigned 9; Assigned logical_buffer_id 1, offset 2,
size 3.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from pellucid_profiler.sources import OptimizedModule, ProgramReader
from pellucid_profiler.wire import LENGTH_DELIMITED, VARINT, fields, packed

_RUNS_PROGRAMS = frozenset({"while", "conditional", "call", "async-start"})
_FORWARDS = frozenset({"bitcast", "optimization-barrier", "async-update", "async-done"})
"""Instructions whose result is their operand, or a part of it."""

Kind = Literal["argument", "constant", "result", "temporary"]
Path = tuple[int, ...]
"""Position of an array within a nested tuple."""


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
    allocated_bytes: int
    """That XLA allocates for a run, constants included: more than the peak by gaps between temporaries."""

    @property
    def peak_bytes(self) -> int:
        """Most bytes at once."""
        return self.live_bytes[self.peak] if self.live_bytes else 0


@dataclass(slots=True)
class _Instruction:
    name: str = ""
    opcode: str = ""
    id: int = 0
    parameter: int = 0
    index: int = 0
    operands: list[int] = field(default_factory=list[int])
    called: list[int] = field(default_factory=list[int])


class _Value(NamedTuple):
    """Where the result of an instruction, or a part of it, may lie: its own buffers, and those of values it forwards."""

    origin: tuple[int, Path]
    """(its instruction, its position in the result)."""
    elements: Sequence[_Value] = ()
    """Of a tuple that was put together."""
    forwarded: Sequence[_Value] = ()

    def element(self, index: int) -> _Value:
        """The value at an index of a tuple."""
        instruction, path = self.origin
        origin = (instruction, (*path, index))
        merged = [each.element(index) for each in self.forwarded]
        return _Value(origin, (), [*self.elements[index : index + 1], *merged])

    def buffers(self) -> Iterator[tuple[int, Path]]:
        """Instructions and positions whose buffers, with those at positions within, hold the value."""
        yield self.origin
        for each in (*self.elements, *self.forwarded):
            yield from each.buffers()


class _Values:
    """Symbolic run of a program: the order of its instructions, and the last use of each buffer."""

    def __init__(self, computations: dict[int, list[_Instruction]], roots: dict[int, int]) -> None:
        self.computations, self.roots = computations, roots
        self.order: list[_Instruction] = []
        self.begins: dict[int, int] = {}
        self.last_use: dict[tuple[int, Path], int] = defaultdict(int)

    def run(self, computation: int, arguments: Sequence[_Value]) -> _Value:
        """The result of a computation."""
        values: dict[int, _Value] = {}
        for each in self.computations[computation]:
            self.begins.setdefault(each.id, len(self.order))
            operands = [values[operand] for operand in each.operands]
            values[each.id] = self.result(each, operands, arguments)
            if each.opcode not in ("tuple", "get-tuple-element", "bitcast"):
                for operand in operands:
                    self.use(operand)
            self.use(_Value((each.id, ())))
            self.order.append(each)
        result = values[self.roots[computation]]
        self.use(result, len(self.order) - 1)
        return result

    def result(
        self, each: _Instruction, operands: Sequence[_Value], arguments: Sequence[_Value]
    ) -> _Value:
        """The result of an instruction, whose computations run."""
        origin = (each.id, ())
        if each.opcode == "parameter":
            return _Value(origin, (), arguments[each.parameter : each.parameter + 1])
        if each.opcode == "tuple":
            return _Value(origin, operands)
        if each.opcode == "get-tuple-element":
            return operands[0].element(each.index)
        if each.opcode == "conditional":
            branches = zip(each.called, operands[1:], strict=True)
            return _Value(origin, (), [self.run(called, [operand]) for called, operand in branches])
        if each.opcode in _RUNS_PROGRAMS:
            results = [self.run(called, operands) for called in each.called]
            return _Value(origin, (), [*operands, *results] if each.opcode == "while" else results)
        return _Value(origin, (), operands if each.opcode in _FORWARDS else ())

    def use(self, value: _Value, time: int | None = None) -> None:
        """Extend the life of a value's buffers to the present, or to `time`."""
        now = len(self.order) if time is None else time
        for buffer in value.buffers():
            self.last_use[buffer] = max(self.last_use[buffer], now)

    def end(self, instruction: int, path: Path) -> int:
        """The last use of a buffer: its own, or of a tuple that it is a part of."""
        return max(self.last_use.get((instruction, path[:n]), 0) for n in range(len(path) + 1))


class _Buffer(NamedTuple):
    allocation: int
    offset: int
    kind: Kind
    n_bytes: int
    defined: tuple[int, Path]
    """(the instruction that fills it, its position in the result)."""


def program_memory(loaded: OptimizedModule) -> ProgramMemory | None:
    """The memory of a loaded program; None where XLA keeps no buffer assignment."""
    assignment = loaded.buffer_assignment()
    if not assignment:
        return None
    entry, programs, roots = _programs(loaded.proto())
    values = _Values(programs, roots)
    values.run(entry, ())
    names = {each.id: each.name for each in values.order}
    last = len(values.order) - 1
    sizes, buffers = _buffers(assignment)
    pieces: list[tuple[int, int, LiveBuffer]] = []
    temporaries: dict[tuple[int, int], list[tuple[int, int, LiveBuffer]]] = defaultdict(list)
    whole: dict[int, _Buffer] = {}
    for each in buffers:
        instruction, path = each.defined
        if instruction not in values.begins:
            continue  # within a kernel
        if each.kind != "temporary":
            begin, latest = values.begins[instruction], whole.get(each.allocation)
            if latest is None or begin >= values.begins[latest.defined[0]]:
                whole[each.allocation] = each
            continue
        live = LiveBuffer(names[instruction], each.kind, each.n_bytes)
        begin, end = values.begins[instruction], values.end(instruction, path)
        temporaries[each.allocation, each.offset].append((begin, end, live))
    for allocation, each in whole.items():
        live = LiveBuffer(names[each.defined[0]], each.kind, sizes[allocation])
        pieces.append((0, last, live))
    for lives in temporaries.values():
        pieces += _merged(lives)
    return _timeline([each.name for each in values.order], pieces, sum(sizes.values()))


class ProgramMemoryReader(ProgramReader):
    """Reader of a program's instructions and of its memory."""

    def read(self, meshes: Iterable[Mapping[str, int]]) -> None:
        """Read everything, before it is known what of it is needed."""
        if self.allocated_bytes and self.memory is not None:
            self.info(self.memory.instructions, meshes)

    @cached_property
    def allocated_bytes(self) -> int:
        """Bytes that one run holds on each device."""
        return self.loaded.allocated_bytes()

    @cached_property
    def memory(self) -> ProgramMemory | None:
        """Bytes over a run; None where XLA keeps no buffer assignment."""
        return program_memory(self.loaded)


def _merged(lives: list[tuple[int, int, LiveBuffer]]) -> list[tuple[int, int, LiveBuffer]]:
    """Lives of buffers that begin at one address: those that overlap in time are one buffer, passed on in place."""
    merged: list[tuple[int, int, LiveBuffer]] = []
    for begin, end, buffer in sorted(lives, key=lambda each: each[:2]):
        if merged and begin <= merged[-1][1]:
            first, reached, before = merged[-1]
            larger = before if before.n_bytes >= buffer.n_bytes else buffer
            merged[-1] = (first, max(reached, end), larger)
        else:
            merged.append((begin, end, buffer))
    return merged


def _timeline(
    instructions: list[str], pieces: list[tuple[int, int, LiveBuffer]], allocated_bytes: int
) -> ProgramMemory:
    changes = np.zeros(len(instructions) + 1, np.int64)
    for begin, end, buffer in pieces:
        changes[begin] += buffer.n_bytes
        changes[end + 1] -= buffer.n_bytes
    bytes_live = np.cumsum(changes[:-1])
    peak = int(np.argmax(bytes_live)) if len(bytes_live) else 0
    at_peak = [buffer for begin, end, buffer in pieces if begin <= peak <= end and buffer.n_bytes]
    at_peak.sort(key=lambda buffer: -buffer.n_bytes)
    return ProgramMemory(instructions, bytes_live.tolist(), peak, at_peak, allocated_bytes)


def _programs(proto: bytes) -> tuple[int, dict[int, list[_Instruction]], dict[int, int]]:
    """(the entry's id, instructions of each program in the order in which they run, root of each).

    Computations that combine elements, or are one kernel, are most of a module, and are left out.
    """
    entry, parts = 0, dict[int, tuple[int, int]]()
    for number, _, at, stop in fields(proto, 0, len(proto)):
        if number == 6:
            entry = at
        elif number == 3:
            parts[next((key for n, _, key, _ in fields(proto, at, stop) if n == 5), 0)] = (at, stop)
    programs, roots, missing = dict[int, list[_Instruction]](), dict[int, int](), [entry]
    while missing:
        key = missing.pop()
        if key in programs:
            continue
        inner = [*fields(proto, *parts[key])]
        programs[key] = [_instruction(proto, begin, end) for n, _, begin, end in inner if n == 2]
        roots[key] = next((root for n, _, root, _ in inner if n == 6), 0)
        for each in programs[key]:
            if each.opcode in _RUNS_PROGRAMS:
                missing += each.called
    return entry, programs, roots


def _instruction(proto: bytes, start: int, stop: int) -> _Instruction:
    instruction = _Instruction()
    for number, kind, at, end in fields(proto, start, stop):
        if number == 1:
            instruction.name = proto[at:end].decode()
        elif number == 2:
            instruction.opcode = proto[at:end].decode()
        elif number == 9:
            instruction.parameter = at
        elif number == 13:
            instruction.index = at
        elif number == 35:
            instruction.id = at
        elif number in (36, 38):
            target = instruction.operands if number == 36 else instruction.called
            target += [at] if kind == VARINT else packed(proto, at, end)
    return instruction


def _buffers(message: bytes) -> tuple[dict[int, int], list[_Buffer]]:
    """(bytes of each allocation but those of kernels, the buffers in them)."""
    size, defined = dict[int, int](), dict[int, tuple[int, Path]]()
    sizes: dict[int, int] = {}
    assigned: list[tuple[int, Kind, dict[int, Any]]] = []
    for number, _, at, stop in fields(message, 0, len(message)):
        if number == 1:
            each = _message(message, at, stop)
            size[each.get(1, 0)] = each.get(2, 0)
            defined[each.get(1, 0)] = _location(message, *each[3])
        elif number == 3:
            each = _message(message, at, stop)
            if each.get(3):  # a kernel's own
                continue
            index = each.get(1, 0)
            sizes[index] = each.get(2, 0)
            for inner, _, begin, end in fields(message, at, stop):
                if inner == 9:
                    assigned.append((index, _kind(each), _message(message, begin, end)))
    return sizes, [
        _Buffer(index, each.get(2, 0), kind, size[each.get(1, 0)], defined[each.get(1, 0)])
        for index, kind, each in assigned
    ]


def assigned_bytes(assignment: bytes) -> int:
    """Bytes of all allocations of a serialized BufferAssignmentProto."""
    return sum(_buffers(assignment)[0].values())


def _kind(allocation: dict[int, Any]) -> Kind:
    if allocation.get(5):
        return "argument"
    if allocation.get(12):
        return "constant"
    return "result" if allocation.get(7) else "temporary"


def _location(message: bytes, start: int, stop: int) -> tuple[int, Path]:
    """(instruction, position in its result) of a Location."""
    instruction, path = 0, list[int]()
    for number, kind, at, end in fields(message, start, stop):
        if number == 4:
            instruction = at
        elif number == 3:
            path += [at] if kind == VARINT else packed(message, at, end)
    return instruction, tuple(path)


def _message(message: bytes, start: int, stop: int) -> dict[int, Any]:
    """The fields of a message by number, of repeated ones the last: numbers, and bounds of messages in it."""
    return {
        number: (at, end) if kind == LENGTH_DELIMITED else at
        for number, kind, at, end in fields(message, start, stop)
    }
