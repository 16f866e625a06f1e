"""Memory of a program over a run: XLA's buffers, each live from the instruction that fills it to its last use.

XLA allocates arguments, constants and results for the whole run. Temporaries share the remaining memory; each is live
from its definition to the last use of a value stored in it. Uses are found by following values through tuples, loops,
branches and calls (`_Values`): XLA's own list of aliases contains only newly defined ones.

Fields (openxla/xla, hlo.proto): HloModuleProto computations 3, entry_computation_id 6, schedule 7; HloScheduleProto sequences 1, of
entries key 1, value 2; InstructionSequence instruction_ids 1; HloComputationProto instructions
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

from pellucid.introspect.protobuf import LENGTH_DELIMITED, VARINT, fields
from pellucid_profiler.sources import OptimizedModule, ProgramReader
from pellucid_profiler.wire import pack

_RUNS_PROGRAMS = frozenset({"while", "conditional", "call", "async-start"})
_FORWARDS = frozenset({"bitcast", "optimization-barrier", "async-update", "async-done"})
"""Instructions whose result is stored in the operand's buffer, or in a part of it."""

Kind = Literal["argument", "constant", "result", "temporary"]
Path = tuple[int, ...]
"""Index path of an array in a nested tuple."""


class LiveBuffer(NamedTuple):
    """A buffer that is live when the program uses most memory."""

    instruction: str
    """Instruction that fills the buffer."""
    kind: Kind
    n_bytes: int


class ProgramMemory(NamedTuple):
    """Bytes that a program uses on one device during a run."""

    instructions: list[str]
    """Names in execution order; instructions of loop bodies and branches once."""
    live_bytes: list[int]
    """Bytes in use while each of `instructions` runs."""
    peak: int
    """Index in `instructions` of the one with most bytes in use."""
    at_peak: list[LiveBuffer]
    """Buffers in use at the peak, largest first."""
    allocated_bytes: int
    """Bytes that XLA allocates for a run, with constants. Gaps between temporaries make it larger than the peak."""

    @property
    def peak_bytes(self) -> int:
        """Maximum of `live_bytes`."""
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
    """Storage of an instruction's result or of a part of it: its own buffers, and those of values that it forwards."""

    origin: tuple[int, Path]
    """(instruction id, index path within its result)."""
    elements: Sequence[_Value] = ()
    """Values of the elements, if the value is a tuple made by a `tuple` instruction."""
    forwarded: Sequence[_Value] = ()

    def element(self, index: int) -> _Value:
        """The value of the element at `index`, for a value that is a tuple."""
        instruction, path = self.origin
        origin = (instruction, (*path, index))
        merged = [each.element(index) for each in self.forwarded]
        return _Value(origin, (), [*self.elements[index : index + 1], *merged])

    def buffers(self) -> Iterator[tuple[int, Path]]:
        """Yields the (instruction, path) of each buffer in which the value may be stored."""
        yield self.origin
        for each in (*self.elements, *self.forwarded):
            yield from each.buffers()


class _Values:
    """Symbolic execution of a program, which finds the order of instructions and the last use of each buffer."""

    def __init__(self, computations: dict[int, list[_Instruction]], roots: dict[int, int]) -> None:
        self.computations, self.roots = computations, roots
        self.order: list[_Instruction] = []
        self.begins: dict[int, int] = {}
        self.last_use: dict[tuple[int, Path], int] = defaultdict(int)
        self.sorted: dict[int, list[_Value]] = {}
        """The operands of each sort, by its id."""

    def run(self, computation: int, arguments: Sequence[_Value]) -> _Value:
        """Executes a computation and returns its result."""
        values: dict[int, _Value] = {}
        for each in self.computations[computation]:
            self.begins.setdefault(each.id, len(self.order))
            operands = [values[operand] for operand in each.operands]
            values[each.id] = self.result(each, operands, arguments)
            if each.opcode == "sort":
                self.sorted[each.id] = operands
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
        """Executes one instruction, with the computations that it calls, and returns its result."""
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
        """Extends the lifetime of a value's buffers to the current time, or to `time`."""
        now = len(self.order) if time is None else time
        for buffer in value.buffers():
            self.last_use[buffer] = max(self.last_use[buffer], now)

    def end(self, instruction: int, path: Path) -> int:
        """Time of the last use of a buffer, or of any tuple that contains it."""
        return max(self.last_use.get((instruction, path[:n]), 0) for n in range(len(path) + 1))


class _Buffer(NamedTuple):
    allocation: int
    offset: int
    kind: Kind
    n_bytes: int
    defined: tuple[int, Path]
    """(id of the instruction that fills it, index path within its result)."""


class _Assignment:
    """XLA's buffer assignment of a loaded program, beside the values that its instructions pass on."""

    def __init__(self, loaded: OptimizedModule, assignment: bytes) -> None:
        entry, programs, roots = _programs(loaded.proto())
        self.values = _Values(programs, roots)
        self.values.run(entry, ())
        self.names = {each.id: each.name for each in self.values.order}
        self.sizes, self.buffers = _buffers(assignment)

    def memory(self) -> ProgramMemory:
        """The memory use of the program."""
        values, names = self.values, self.names
        last = len(values.order) - 1
        pieces: list[tuple[int, int, LiveBuffer]] = []
        temporaries: dict[tuple[int, int], list[tuple[int, int, LiveBuffer]]] = defaultdict(list)
        whole: dict[int, _Buffer] = {}
        for each in self.buffers:
            instruction, path = each.defined
            if instruction not in values.begins:
                continue  # defined by an instruction inside a kernel
            if each.kind != "temporary":
                begin, latest = values.begins[instruction], whole.get(each.allocation)
                if latest is None or begin >= values.begins[latest.defined[0]]:
                    whole[each.allocation] = each
                continue
            live = LiveBuffer(names[instruction], each.kind, each.n_bytes)
            begin, end = values.begins[instruction], values.end(instruction, path)
            temporaries[each.allocation, each.offset].append((begin, end, live))
        for allocation, each in whole.items():
            live = LiveBuffer(names[each.defined[0]], each.kind, self.sizes[allocation])
            pieces.append((0, last, live))
        for lives in temporaries.values():
            pieces += _merge(lives)
        names_in_order = [each.name for each in values.order]
        return _timeline(names_in_order, pieces, sum(self.sizes.values()))

    def copies(self) -> dict[str, int]:
        """For each sort that copies operands first, as it sorts in the buffers of its results, their number."""
        address = {each.defined: (each.allocation, each.offset) for each in self.buffers}
        counts = {
            self.names[number]: sum(
                address.get((number, (i,) if len(operands) > 1 else ()))
                not in {address.get(buffer) for buffer in operand.buffers()}
                for i, operand in enumerate(operands)
            )
            for number, operands in self.values.sorted.items()
        }
        return {name: count for name, count in counts.items() if count}


class ProgramMemoryReader(ProgramReader):
    """Reads a program's instructions and memory use, and keeps what it has read."""

    def read(self, meshes: Iterable[Mapping[str, int]]) -> None:
        """Reads everything in advance, before it is known which instructions are needed."""
        if self.allocated_bytes and self.memory is not None:
            self.info(self.memory.instructions, meshes)

    @cached_property
    def allocated_bytes(self) -> int:
        """Bytes allocated on each device for one run."""
        return self.loaded.allocated_bytes()

    @cached_property
    def memory(self) -> ProgramMemory | None:
        """Memory use over a run; None if XLA keeps no buffer assignment."""
        return None if self._assignment is None else self._assignment.memory()

    @cached_property
    def copies(self) -> dict[str, int]:
        """Number of operands that XLA copies for each sort, in kernels of the sort's name."""
        return {} if self._assignment is None else self._assignment.copies()

    @cached_property
    def _assignment(self) -> _Assignment | None:
        assignment = self.loaded.buffer_assignment()
        return _Assignment(self.loaded, assignment) if assignment else None


def _merge(lives: list[tuple[int, int, LiveBuffer]]) -> list[tuple[int, int, LiveBuffer]]:
    """Joins the lifetimes of buffers at one address that overlap in time: they are one buffer, reused in place."""
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
    """(id of the entry computation, instructions of each computation in execution order, root instruction of each).

    Computations that are only reducers or kernels are left out; they are most of a module.
    """
    entry, parts, schedule = 0, dict[int, tuple[int, int]](), dict[int, list[int]]()
    for number, _, at, stop in fields(proto, 0, len(proto)):
        if number == 6:
            entry = at
        elif number == 7:
            schedule = _schedule(proto, at, stop)
        elif number == 3:
            parts[next((key for n, _, key, _ in fields(proto, at, stop) if n == 5), 0)] = (at, stop)
    programs, roots, missing = dict[int, list[_Instruction]](), dict[int, int](), [entry]
    while missing:
        key = missing.pop()
        if key in programs:
            continue
        inner = [*fields(proto, *parts[key])]
        read = [_instruction(proto, begin, end) for n, _, begin, end in inner if n == 2]
        # The computation lists operands before users, which is one of many orders of execution.
        place = {number: i for i, number in enumerate(schedule.get(key, ()))}
        programs[key] = sorted(read, key=lambda each: place[each.id]) if place else read
        roots[key] = next((root for n, _, root, _ in inner if n == 6), 0)
        for each in programs[key]:
            if each.opcode in _RUNS_PROGRAMS:
                missing += each.called
    return entry, programs, roots


def _schedule(proto: bytes, start: int, stop: int) -> dict[int, list[int]]:
    """The ids of the instructions of each computation, in execution order."""
    schedule: dict[int, list[int]] = {}
    for _, _, at, end in fields(proto, start, stop):
        computation, sequence = 0, list[int]()
        for number, _, first, last in fields(proto, at, end):
            if number == 1:
                computation = first
            elif number == 2:
                for _, kind, begin, after in fields(proto, first, last):
                    sequence += [begin] if kind == VARINT else pack(proto, begin, after)
        schedule[computation] = sequence
    return schedule


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
            target += [at] if kind == VARINT else pack(proto, at, end)
    return instruction


def _buffers(message: bytes) -> tuple[dict[int, int], list[_Buffer]]:
    """(bytes of each allocation, the buffers in them); allocations local to a kernel are left out."""
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
            if each.get(3):  # local to a kernel
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
    """Total bytes of the allocations in a serialized BufferAssignmentProto."""
    return sum(_buffers(assignment)[0].values())


def _kind(allocation: dict[int, Any]) -> Kind:
    if allocation.get(5):
        return "argument"
    if allocation.get(12):
        return "constant"
    return "result" if allocation.get(7) else "temporary"


def _location(message: bytes, start: int, stop: int) -> tuple[int, Path]:
    """Parses a Location: (instruction id, index path in its result)."""
    instruction, path = 0, list[int]()
    for number, kind, at, end in fields(message, start, stop):
        if number == 4:
            instruction = at
        elif number == 3:
            path += [at] if kind == VARINT else pack(message, at, end)
    return instruction, tuple(path)


def _message(message: bytes, start: int, stop: int) -> dict[int, Any]:
    """Fields of a message by number, the last value of repeated ones: an integer, or (start, end) of a submessage."""
    return {
        number: (at, end) if kind == LENGTH_DELIMITED else at
        for number, kind, at, end in fields(message, start, stop)
    }
