"""Reads optimized HLO modules: computations, instructions, where they come from, how often they run.

The text is what all releases of XLA give; the binary form has the same facts and changes its numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pellucid._machine.base import SourceFrame, strict_zip, user_frame
from pellucid._machine.runtime.executable import optimized_modules, precompiled
from pellucid._machine.xla import hlo as xla_hlo
from pellucid.introspect.lineage import equation_id

from .shapes import Shape, hlo_shapes


class Instruction(NamedTuple):
    """One line of a computation."""

    name: str
    is_root: bool
    type: str
    """As printed, `f32[3,4]{1,0}` or a tuple of such."""
    opcode: str
    operands: list[str]
    """Names of instructions."""
    payload: str
    """The text in the parentheses of a parameter or a constant."""
    attributes: dict[str, str]
    """All but the called computations and the metadata."""
    called: list[tuple[str, str]]
    """(attribute, name of a computation): `to_apply`, `calls`, `body`, …"""
    path: str
    """The name that the operation had in StableHLO, without the equation's id; empty where XLA made it."""
    equation: int | None = None
    """Id of the equation that it was lowered from; None where XLA made it."""
    frame: int = 0
    """Number of the place that it comes from in `Module.frames`; 0 for none."""

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The arrays of its result."""
        return hlo_shapes(self.type)

    @property
    def trips(self) -> int | None:
        """How often a run of it runs the computations that it calls; None where that is not known."""
        if self.opcode == "while":
            count = _TRIP_COUNT.search(self.attributes.get("backend_config", ""))
            return int(count.group(1)) if count else None
        return 1 if self.opcode in ("fusion", "call", "async-start") else None

    @property
    def runs_programs(self) -> bool:
        """Whether it runs computations whose instructions are kernels themselves.

        XLA's backend for CPUs compiles loops of little work, with all that they call, into one kernel: a marked call.
        """
        is_small_call = _SMALL_CALL in self.attributes.get("frontend_attributes", "")
        return self.opcode in RUNS_PROGRAMS and not is_small_call


class Computation(NamedTuple):
    """A program of instructions."""

    name: str
    is_entry: bool
    instructions: list[Instruction]


class Run(NamedTuple):
    """A computation at a place where it runs as a program, rather than within one instruction."""

    computation: Computation
    count: int | None  # pyright: ignore[reportIncompatibleMethodOverride]  # hides tuple.count
    """How often it runs there in one run of the module; None where that is not known, as in branches."""
    around: tuple[int, ...]
    """Ids of the equations of the calls, loops and branches around it."""


class Module:
    """An optimized HLO module, read from its text.

    `origins` are those of a program that was compiled before (`runtime.executable.Precompiled`), by another process or for
    an equal program: in place of the equations and lines of that one its instructions have those of the newest.

    >>> compiled = pl.jit(lambda x: x + 1).lower(1.0).compile()
    >>> module = pl.analysis.HloModule(compiled.as_text())
    >>> module.computations[0].instructions[0].opcode
    'parameter'
    """

    def __init__(self, text: str, origins: Mapping[int, Any] | None = None) -> None:
        self.computations = parse(text)
        """The entry first."""
        self.frames = source_frames(text)
        """The places that instructions come from, by number."""
        if origins is not None:
            self._take_origins(origins)
        self.by_name = {each.name: each for each in self.computations}

    def _take_origins(self, origins: Mapping[int, Any]) -> None:
        frames = [user_frame(origin.source) for origin in origins.values()]
        self.frames = dict(enumerate(filter(None, dict.fromkeys(frames)), 1))
        numbers = {frame: number for number, frame in self.frames.items()}
        places = {
            number: (origin.id, numbers.get(frame, 0) if frame else 0)
            for (number, origin), frame in strict_zip(origins.items(), frames)
        }
        for computation in self.computations:
            for i, each in enumerate(computation.instructions):
                equation, frame = places.get(each.equation or -1, (None, 0))
                computation.instructions[i] = each._replace(equation=equation, frame=frame)

    def called(self, instruction: Instruction) -> list[Computation]:
        """The computations that an instruction calls."""
        return [self.by_name[name] for _, name in instruction.called]

    def runs(self) -> Iterator[Run]:
        """The entry and all that it runs; a computation comes once for each place."""
        yield from self._runs(Run(self.computations[0], 1, ()))

    def _runs(self, run: Run) -> Iterator[Run]:
        yield run
        for instruction in run.computation.instructions:
            if not instruction.runs_programs:
                continue
            trips, around = instruction.trips, run.around
            count = None if run.count is None or trips is None else run.count * trips
            if instruction.equation is not None:
                around = (*around, instruction.equation)
            for computation in self.called(instruction):
                yield from self._runs(Run(computation, count, around))


def module_of(executable: Any) -> tuple[Module, Any]:
    """The first module of XLA's executable, read, and as XLA has it."""
    [module, *_] = optimized_modules(executable)
    facts = precompiled(executable)
    return Module(xla_hlo.full_text(module), facts and facts.origins), module


_HEADER = re.compile(r"^(ENTRY )?%?([\w.$-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"^\s+(ROOT )?%?([\w.$-]+) = ")
_OPCODE = re.compile(r"\s*([\w-]+)\(")
_NAME = re.compile(r"%([\w.$-]+)")
_PATH = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')
_TYPE = re.compile(r'op_type="([^"]*)"')
_FRAME = re.compile(r"stack_frame_id=(\d+)")
_TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")
"""Sections in front of the computations: numbered texts, then numbered rows of numbers."""
_ID_IN_PATH = re.compile(r"#(e\d+)$")
"""In programs over several devices, which lose types of operations, ids of equations stand behind names."""
_CALLING = frozenset({
    "to_apply", "calls", "condition", "body", "branch_computations", "called_computations", "true_computation",
    "false_computation", "select", "scatter", "async_execution_thread_computation",
})  # fmt: skip
RUNS_PROGRAMS = frozenset({"async-start", "call", "conditional", "while"})
"""Opcodes whose computations are programs; those of others combine elements, or are one kernel."""
_SMALL_CALL = 'xla_cpu_small_call="true"'
_TRIP_COUNT = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
_ASSIGNED = re.compile(r"=(\d+)")
_COMMA_OR_OPENING = re.compile(r'[,(\[{"]')
_BRACKET_OR_QUOTED = re.compile(r'[][(){}]|"(?:[^"\\]|\\.)*"?')


def parse(text: str) -> list[Computation]:
    """The computations of a module, the entry first, callees after their callers where the text allows."""
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


def parse_instruction(line: str) -> Instruction | None:
    """The instruction on a line; None where there is none.

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
            kind = _TYPE.search(value) or _ID_IN_PATH.search(path)
            equation = None if kind is None else equation_id(kind.group(1))
            path = _ID_IN_PATH.sub("", path)
            place = _FRAME.search(value)
            frame = 0 if place is None else int(place.group(1))
        else:
            attributes.append((name, value))
    return attributes, called, path, equation, frame


def source_frames(text: str) -> dict[int, SourceFrame]:
    """The places that a module's instructions come from, by number, read from the tables of its text."""
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
    result: dict[int, SourceFrame] = {}
    for number, row in frames.items():
        location, _ = _numbers(row)
        file, function, *extent = _numbers(locations[location])
        result[number] = SourceFrame(
            files[file].strip('"'), functions[function].strip('"'), *extent
        )
    return result


def _numbers(row: str) -> list[int]:
    return [int(number) for number in _ASSIGNED.findall(row)]


def _items(text: str) -> Iterator[str]:
    """`, a=b, c={d, e}` cut at its outer commas."""
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
    """The place behind the bracket or quote that closes the one at `start`."""
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
