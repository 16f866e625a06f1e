"""Reads the text of optimized HLO modules: computations, instructions, and the places that they come from.

The text is what all releases of XLA give; the binary form has the same facts and changes its numbers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple


class Instruction(NamedTuple):
    """One instruction of a computation, which is one line of text."""

    name: str
    is_root: bool
    type: str
    """Its printed type: `f32[3,4]{1,0}`, or a tuple of such."""
    opcode: str
    operands: list[str]
    """Names of the operand instructions."""
    payload: str
    """The text in the parentheses, for parameters and constants."""
    attributes: dict[str, str]
    """All attributes except called computations and metadata."""
    called: list[tuple[str, str]]
    """Pairs (attribute, name of the computation): `to_apply`, `calls`, `body`, …"""
    path: str
    """The operation's name in StableHLO, without the equation's id; empty for instructions that XLA created."""
    equation: int | None = None
    """Id of the equation from which it was lowered; None for instructions that XLA created."""
    frame: int = 0
    """Number of its source position in `Module.frames`; 0 for none."""

    @property
    def trips(self) -> int | None:
        """Number of runs of the computations it calls, per run of the instruction; None if unknown."""
        if self.opcode == "while":
            count = _TRIP_COUNT.search(self.attributes.get("backend_config", ""))
            return int(count.group(1)) if count else None
        return 1 if self.opcode in ("fusion", "call", "async-start") else None

    @property
    def runs_programs(self) -> bool:
        """Whether the instructions of the computations that it calls are kernels themselves.

        XLA's backend for CPUs compiles loops of little work, with all that they call, into one kernel: a marked call.
        """
        is_small_call = _SMALL_CALL in self.attributes.get("frontend_attributes", "")
        return self.opcode in RUNS_PROGRAMS and not is_small_call


class Computation(NamedTuple):
    """A named list of instructions."""

    name: str
    is_entry: bool
    instructions: list[Instruction]


_HEADER = re.compile(r"^(ENTRY )?%?([\w.$-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"^\s+(ROOT )?%?([\w.$-]+) = ")
_OPCODE = re.compile(r"\s*([\w-]+)\(")
_NAME = re.compile(r"%([\w.$-]+)")
_PATH = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')
_ID_IN_TYPE = re.compile(r'op_type="e(\d+):?"')
"""Lowering gives each operation the id of its equation as type."""
_FRAME = re.compile(r"stack_frame_id=(\d+)")
_TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")
"""Sections before the computations: numbered texts, then rows of numbers that refer to them."""
_ID_IN_PATH = re.compile(r"#e(\d+)$")
"""Multi-device programs lose the types of operations, so ids of equations are appended to names there."""
_CALLING = frozenset({
    "to_apply", "calls", "condition", "body", "branch_computations", "called_computations", "true_computation",
    "false_computation", "select", "scatter", "async_execution_thread_computation",
})  # fmt: skip
RUNS_PROGRAMS = frozenset({"async-start", "call", "conditional", "while"})
"""Opcodes that run their computations as programs; other computations combine elements or are part of one kernel."""
_SMALL_CALL = 'xla_cpu_small_call="true"'
_TRIP_COUNT = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
_ASSIGNED = re.compile(r"=(\d+)")
_COMMA_OR_OPENING = re.compile(r'[,(\[{"]')
_BRACKET_OR_QUOTED = re.compile(r'[][(){}]|"(?:[^"\\]|\\.)*"?')


def parse(text: str) -> list[Computation]:
    """The computations of a module: the entry first, callers before callees if the text allows."""
    computations: list[Computation] = []
    current: Computation | None = None
    for line in text.split("\n"):
        header = _HEADER.match(line)
        if header:
            current = Computation(header.group(2), bool(header.group(1)), [])
            computations.append(current)
        elif line.startswith("}"):
            current = None
        elif current is not None:
            instruction = parse_instruction(line)
            if instruction is not None:
                current.instructions.append(instruction)
    computations.reverse()
    computations.sort(key=lambda computation: not computation.is_entry)
    return computations


def instructions_of(text: str, opcodes: Collection[str]) -> Iterator[Instruction]:
    r"""The instructions of a module that have one of `opcodes`, or begin one asynchronously; lines of others aren't read.

    >>> text = "  %b = f32[2]{0} all-reduce(%a), to_apply=%sum\n  ROOT %c = f32[2]{0} add(%a, %b)"
    >>> [each.name for each in instructions_of(text, {"all-reduce"})]
    ['b']
    """
    wanted = re.compile(rf" (?:{'|'.join(opcodes)})(?:-start)?\(")
    for line in filter(wanted.search, text.split("\n")):
        instruction = parse_instruction(line)
        if instruction is not None and instruction.opcode.removesuffix("-start") in opcodes:
            yield instruction


def parse_instruction(line: str) -> Instruction | None:
    """The instruction on a line; None if there is none.

    >>> parse_instruction('  ROOT %b = f32[2]{0} add(%a, %a), metadata={op_type="e7" op_name="jit(f)/add"}')[:5]
    ('b', True, 'f32[2]{0}', 'add', ['a', 'a'])
    """
    match = _INSTRUCTION.match(line)
    if match is None:
        return None
    rest = line[match.end() :]
    type_end = _matching(rest, 0) if rest.startswith("(") else rest.index(" ")
    opcode = _OPCODE.match(rest, type_end)
    if opcode is None:
        return None
    end = _matching(rest, opcode.end() - 1)
    inside = rest[opcode.end() : end - 1]
    name_and_root = match.group(2), bool(match.group(1))
    is_leaf = opcode.group(1) in ("parameter", "constant")
    attributes, called, path, equation, frame = _attributes(rest[end:])
    return Instruction(
        *name_and_root,
        rest[:type_end].strip(),
        opcode.group(1),
        [] if is_leaf else _NAME.findall(inside),
        inside if is_leaf or opcode.group(1) == "iota" else "",
        dict(attributes),
        called,
        path,
        equation,
        frame,
    )


def _attributes(
    text: str,
) -> tuple[list[tuple[str, str]], list[tuple[str, str]], str, int | None, int]:
    attributes: list[tuple[str, str]] = []
    called: list[tuple[str, str]] = []
    path, equation, frame = "", None, 0
    for item in _items(text):
        name, equals, value = item.partition("=")
        if not equals:
            continue
        if name in _CALLING and "%" in value:
            names = _NAME.findall(value)
            roles = (
                [name]
                if len(names) == 1 and not value.startswith("{")
                else [f"{name}[{i}]" for i in range(len(names))]
            )
            called += zip(roles, names, strict=True)
        elif name == "metadata":
            match = _PATH.search(value)
            path = match.group(1) if match else ""
            if "\\" in path:
                path = re.sub(r"\\(.)", r"\1", path)
            number = _ID_IN_TYPE.search(value) or _ID_IN_PATH.search(path)
            equation = None if number is None else int(number.group(1))
            path = _ID_IN_PATH.sub("", path)
            place = _FRAME.search(value)
            frame = 0 if place is None else int(place.group(1))
        else:
            attributes.append((name, value))
    return attributes, called, path, equation, frame


def source_places(text: str) -> dict[int, tuple[str, str, list[int]]]:
    """(file, function, numbers of lines and columns) of the places that a module's instructions come from, by number.

    They are read from the tables before the computations.
    """
    tables: dict[str, dict[int, str]] = {}
    rows: dict[int, str] | None = None
    for line in text.split("\n"):
        if line in _TABLES:
            rows = tables[line] = {}
        elif line.endswith("{"):
            break
        elif rows is not None and line:
            number, _, row = line.partition(" ")
            rows[int(number)] = row
    files, functions, locations, frames = (tables.get(name, {}) for name in _TABLES)
    places: dict[int, tuple[str, str, list[int]]] = {}
    for number, row in frames.items():
        location, _ = _numbers(row)
        file, function, *extent = _numbers(locations[location])
        places[number] = files[file].strip('"'), functions[function].strip('"'), extent
    return places


def _numbers(row: str) -> list[int]:
    return [int(number) for number in _ASSIGNED.findall(row)]


def _items(text: str) -> Iterator[str]:
    """Splits `, a=b, c={d, e}` at its top-level commas."""
    start = end = 0
    while match := _COMMA_OR_OPENING.search(text, end):
        if match.group() != ",":
            end = _matching(text, match.start())
            continue
        if item := text[start : match.start()].strip():
            yield item
        start = end = match.end()
    if item := text[start:].strip():
        yield item


def _matching(text: str, start: int) -> int:
    """The index after the bracket or quote that closes the one at `start`."""
    depth = 0
    for match in _BRACKET_OR_QUOTED.finditer(text, start):
        c = match.group()
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        if depth == 0:
            return match.end()
    return len(text)
