"""Records of executables: cost, memory and kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pellucid._machine.base import (
    ArgumentTypeError,
    CompilationFinished,
    Observer,
    PassFinished,
    StageEnded,
    StageStarted,
    TraceFinished,
    by_tool,
    observe,
)
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.higher_order.stages import Compiled
from pellucid._machine.xla.compile import peak_bytes
from pellucid._machine.xla.hlo_text import Instruction
from pellucid.introspect import schema

from .costs import CostTable
from .hlo import Module
from .hlo_costs import costs_of
from .hlo_program import HloReading, read_hlo
from .kernels import instructions_within, kernels
from .opcodes import is_free


@by_tool
def compiled(x: Any, *args: Any, with_program: bool = True) -> schema.CompiledRecord:
    """The record of an executable: of a `Compiled` stage, or of a function, which is compiled for `args`.

    Durations of phases are included if the function is compiled by this call. Raises ArgumentTypeError for anything
    else.

    >>> record = compiled(lambda x: x * 2.0, 1.0)
    >>> record.platform, len(record.kernels)
    ('cpu', 1)
    """
    if isinstance(x, Compiled):
        return compiled_record(x, "memory", [], with_program=with_program)
    if not callable(x):
        raise ArgumentTypeError(
            "compiled needs a Compiled stage or a function.", got=f"got {type(x).__name__}"
        )
    with observe(_Phases()) as seen:
        stage = (x if hasattr(x, "trace") else jit(x)).trace(*args).lower().compile()  # pyright: ignore[reportFunctionMemberAccess]  # a jitted function has it
    return compiled_record(stage, seen.cache, seen.phases, with_program=with_program)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]


class _Phases(Observer):
    """Records the phases of one compilation, including the outermost of the traces before it."""

    def __init__(self) -> None:
        self.depth = 0
        self.phases: list[schema.PhaseRecord] = []
        self.cache: Literal["miss", "disk"] = "miss"

    def stage_started(self, event: StageStarted, /) -> None:
        self.depth += 1

    def stage_ended(self, event: StageEnded, /) -> None:
        self.depth -= 1

    def trace_finished(self, event: TraceFinished, /) -> None:
        if self.depth == 0 and not self.phases:  # traces within lowering are part of its phase
            self.phases.append(schema.PhaseRecord(name="trace", seconds=event.seconds))

    def pass_finished(self, event: PassFinished, /) -> None:
        self.phases.append(schema.PhaseRecord(name=event.name, seconds=event.seconds))

    def compilation_finished(self, event: CompilationFinished, /) -> None:
        self.cache = event.cache


def compiled_record(
    stage: Compiled,
    cache: Literal["miss", "memory", "disk"],
    phases: list[schema.PhaseRecord],
    *,
    with_program: bool = True,
) -> schema.CompiledRecord:
    """The record of a `Compiled` stage, given where it was found and the phases of its compilation."""
    executable = stage.runtime_executable()
    reading = read_hlo(stage, listing=with_program, source_lines=with_program)
    devices = executable.local_devices()
    fingerprint = executable.fingerprint
    return schema.CompiledRecord(
        key=reading.record.key,
        name=stage.fun_name,
        fingerprint=fingerprint.decode() if isinstance(fingerprint, bytes) else fingerprint,
        platform=devices[0].platform,
        device_count=len(devices),
        cache=cache,
        phases=phases,
        cost=_cost(costs_of(reading.module).table),
        memory=_memory(stage.memory_analysis()),
        kernels=list(_kernels(reading)),
        program=reading.record if with_program else None,
    )


def _cost(table: CostTable) -> schema.CompiledCostRecord:
    """The cost of one run, or a lower bound of it if parts are unknown."""
    total, least = table.total, table.least_total
    return schema.CompiledCostRecord(
        flops=least.flops,
        transcendentals=least.transcendentals,
        bytes_accessed=least.bytes,
        is_least=None in total,
    )


def _memory(stats: Any) -> schema.CompiledMemoryRecord:
    return schema.CompiledMemoryRecord(
        argument_bytes=stats.argument_size_in_bytes,
        output_bytes=stats.output_size_in_bytes,
        alias_bytes=stats.alias_size_in_bytes,
        temporary_bytes=stats.temp_size_in_bytes,
        code_bytes=stats.generated_code_size_in_bytes,
        peak_bytes=peak_bytes(stats),
        basis="compiler",
    )


def _kernels(reading: HloReading) -> Iterator[schema.KernelRecord]:
    """The kernels in program order, including those of loops and branches."""
    record, module = reading.record, reading.module
    costs = costs_of(module)
    instructions = [
        each
        for computation in dict.fromkeys(run.computation.name for run in module.runs())
        for each in module.by_name[computation].instructions
        if not each.runs_programs and not is_free(each.opcode)
    ]
    row_of_origin, row_of_frame = _rows_with_lines(reading)
    read = kernels(module, {each.name for each in instructions})
    for instruction in instructions:
        row, kernel = reading.rows[instruction.name], read[instruction.name]
        cost = costs.table.least(costs.rows[instruction.name])
        count = costs.table.runs[costs.rows[instruction.name]]
        times = 1 if count is None else count
        shares: dict[int, float] = {}
        # The line in a fusion's metadata is that of its last instruction.
        if kernel.category == "fusion" or record.equations.span[row] < 0:
            for member in kernel.members:
                by_frame = row_of_frame.get(member.frame, -1)
                line_row = row_of_origin.get(member.equation, by_frame)
                shares[line_row] = shares.get(line_row, 0.0) + member.share
        if {*shares} == {-1}:
            shares.clear()
        total = sum(shares.values())
        yield schema.KernelRecord(
            name=instruction.name,
            category=kernel.category,
            hlo_equation=record.equations.id[row],
            equations=_equations(module, instruction),
            flops=times * (cost.flops or 0),
            bytes_accessed=times * (cost.bytes or 0),
            executions=count,
            lines=[
                schema.LineShareRecord(
                    equation=-1 if line_row < 0 else record.equations.id[line_row],
                    share=share / total if total else 1 / len(shares),
                )
                for line_row, share in shares.items()
            ],
            is_line_inferred=bool(shares) and kernel.attribution == "inferred",
        )


def _rows_with_lines(reading: HloReading) -> tuple[dict[int | None, int], dict[int, int]]:
    """Maps each user equation, and each frame, to a row of the optimized program with its line."""
    by_equation: dict[int | None, int] = {}
    by_frame: dict[int, int] = {}
    for computation in reading.module.computations:
        for each in computation.instructions:
            row = reading.rows.get(each.name, -1)
            if row < 0 or reading.record.equations.span[row] < 0:
                continue
            if each.equation is not None:
                by_equation.setdefault(each.equation, row)
            if each.frame:
                by_frame.setdefault(each.frame, row)
    return by_equation, by_frame


def _equations(module: Module, instruction: Instruction) -> list[int]:
    """The user's equations that an instruction computes, itself or within the computations it calls."""
    within = (each for each, _ in instructions_within(module, instruction))
    equations = (each.equation for each in (instruction, *within))
    return list(dict.fromkeys(each for each in equations if each is not None))
