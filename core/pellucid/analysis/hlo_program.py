"""Records of optimized HLO programs."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from pellucid._machine.ir import Equation
from pellucid._machine.xla import hlo as xla_hlo
from pellucid._machine.xla.hlo_text import Computation, Instruction
from pellucid.introspect import schema
from pellucid.introspect.columns import ProgramColumns
from pellucid.introspect.lineage import equations_by_id
from pellucid.introspect.spans import SourceSpans

from .hlo import Module, module_of
from .hlo_costs import costs_of
from .opcodes import operation_of
from .shapes import bits_of, hlo_shapes

_ARRAY = re.compile(r"^(\w+)\[([\d,]*)\]")


def hlo_program(
    compiled: Any, *, key: str | None = None, listing: bool = True, source_lines: bool = True
) -> schema.ProgramRecord:
    """The record of a `Compiled` stage; of its first module if there are several."""
    return read_hlo(compiled, key=key, listing=listing, source_lines=source_lines).record


class HloReading(NamedTuple):
    """An optimized program and its record."""

    record: schema.ProgramRecord
    module: Module
    rows: dict[str, int]
    """Maps each instruction that is an equation of the record to its row."""


def read_hlo(
    compiled: Any, *, key: str | None = None, listing: bool = True, source_lines: bool = True
) -> HloReading:
    """The optimized program of a `Compiled` stage, as a parsed module and as a record."""
    name = compiled.fun_name
    columns = ProgramColumns(key or f"{name}:hlo", name, "hlo")
    writer = _HloWriter(columns, equations_by_id(compiled._program.values.closed.jaxpr))
    module, loaded = module_of(compiled.runtime_executable())
    text = xla_hlo.program_text(loaded) if listing else None
    record = writer.write(module, text, source_lines=source_lines)
    return HloReading(record, module, writer.rows)


def hlo_state(
    module: Any, equations: dict[int, Equation], *, name: str, key: str, text: str
) -> schema.ProgramRecord:
    """The record of a module between two passes, printed as `text`; `equations` by id are those from which it was
    lowered.
    """
    writer = _HloWriter(ProgramColumns(key, name, "hlo"), equations)
    return writer.write(Module(xla_hlo.full_text(module)), text, source_lines=False)


class _HloWriter:
    """Writes one module into columns."""

    def __init__(self, columns: ProgramColumns, equations: dict[int, Equation]) -> None:
        self.columns = columns
        self.equations = equations
        self.spans = SourceSpans(columns.string)
        self.bodies: dict[str, int] = {}
        self.rows: dict[str, int] = {}
        self.types: dict[str, int] = {}

    def write(
        self, module: Module, text: str | None, *, source_lines: bool
    ) -> schema.ProgramRecord:
        self.bodies = {computation.name: i for i, computation in enumerate(module.computations)}
        for computation in module.computations:
            self.computation(computation)
        costs = costs_of(module)
        return self.columns.record(
            self.spans.sources(with_lines=source_lines),
            self.spans.columns(),
            costs.table.columns(costs.rows[name] for name in self.rows),
            None if text is None else self.listing(text),
        )

    def computation(self, computation: Computation) -> None:
        columns = self.columns
        first = columns.equation_count
        values: dict[str, int] = {}
        parameters: dict[int, int] = {}
        outputs: list[int] = []
        for instruction in computation.instructions:
            name = instruction.name
            type_index = self.type(instruction.type)
            if instruction.opcode == "constant":
                values[name] = columns.literal(instruction.payload, type_index)
            else:
                values[name] = columns.value(f"%{name}", type_index)
            if instruction.opcode == "parameter":
                parameters[int(instruction.payload)] = values[name]
            elif instruction.opcode != "constant":
                self.instruction(instruction, values)
            if instruction.is_root:
                outputs = [values[name]]
        inputs = [parameters[i] for i in sorted(parameters)]
        columns.end_body(computation.name, first, [], inputs, outputs)

    def instruction(self, instruction: Instruction, values: dict[str, int]) -> None:
        columns = self.columns
        origin = instruction.equation
        equation = None if origin is None else self.equations.get(origin)
        row = operation_of(instruction.opcode)
        self.rows[instruction.name] = columns.equation_count
        columns.equation(
            columns.equation_count + 1,
            instruction.opcode,
            row.kind,
            [values[name] for name in instruction.operands],
            [values[instruction.name]],
            list(instruction.attributes.items()),
            [(self.bodies[name], role, instruction.trips) for role, name in instruction.called],
            -1 if equation is None else columns.scope_of(equation.scope),
            self.spans.span(equation.source) if equation is not None else -1,
            origins=() if origin is None else [origin],
        )

    def type(self, text: str) -> int:
        index = self.types.get(text)
        if index is None:
            array = _ARRAY.match(text)
            if array is None:
                index = self.columns.array_type(text, "", None, None)
            else:
                [shape] = hlo_shapes(text)
                index = self.columns.array_type(
                    text, array.group(1), shape.dims, bits_of(array.group(1))
                )
            self.types[text] = index
        return index

    def listing(self, text: str) -> schema.ListingRecord:
        lines: list[int] = []
        for line in text.split("\n"):
            match = re.match(r"^\s+(?:ROOT )?%?([\w.$-]+) = ", line)
            lines.append(self.rows.get(match.group(1), -1) if match else -1)
        return schema.ListingRecord(text=text, line_equations=lines)
