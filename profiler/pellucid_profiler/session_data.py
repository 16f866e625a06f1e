"""Data of a session: the recorded columns, and the instruction and time of each operation."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from pellucid.introspect.schema import SourceRecord
from pellucid_profiler.callbacks import CallbackRow
from pellucid_profiler.calls import HostSpans, LaunchColumns, nesting
from pellucid_profiler.collectives import Collectives
from pellucid_profiler.compilations import Compilation
from pellucid_profiler.counters import Counters
from pellucid_profiler.live_arrays import HeapRow, LiveArrays
from pellucid_profiler.live_buffers import ProgramMemory
from pellucid_profiler.marks import is_backward_mark, line_of_calls, line_within_calls, marked_place
from pellucid_profiler.operations import Operations, group_rows, match_values
from pellucid_profiler.peaks import Peaks
from pellucid_profiler.sources import InstructionInfo, ProgramInfo, unknown_instruction
from pellucid_profiler.transfers import Transfer
from pellucid_profiler.xspace import ABSENT, Column


@dataclass(eq=False)
class SessionData:
    """A recording, joined to programs. Rows of `operations` name their instruction and program by number."""

    names: list[str]
    threads: list[str]
    programs: dict[int, ProgramInfo]
    operations: Operations
    calls: LaunchColumns
    spans: HostSpans
    collectives: Collectives
    compilations: list[Compilation]
    transfers: list[Transfer]
    callbacks: list[CallbackRow]
    """Python functions called by programs, longest total time first."""
    live_arrays: LiveArrays
    """Bytes and number of live arrays over the session."""
    heap: list[HeapRow]
    """Live arrays grouped by the line that created them, most bytes first."""
    memory: dict[int, ProgramMemory]
    """Memory use by program number, of the programs that use most."""
    counters: Counters
    """Samples of GPU counters and of GPU memory in use."""
    peaks: Peaks | None
    """Peak rates of the machine that recorded it, measured or computed from the GPU's data; None if unknown."""
    begin_unix_ns: int
    """Start of the session in nanoseconds since 1970. Other times are relative to it."""
    wall_ns: int
    """Duration of the session in nanoseconds."""
    sources: dict[str, SourceRecord] = field(default_factory=dict[str, SourceRecord])
    """Source text by path of the files and cells whose lines ran."""
    remarks: list[str] = field(default_factory=list[str])
    """Sentences for the user about data that the recording lacks."""
    number: int = 0
    """Number by which this process finds the session again, assigned when it is first displayed; 0 before."""
    is_detail: bool = False
    """Whether programs were compiled without fusions for this session, so that they differ from those that normally
    run.
    """

    @cached_property
    def infos(self) -> list[InstructionInfo]:
        """The instructions that ran. `info_of_operation` contains indices into this list."""
        return [self._info(*key) for key in self._keys[0]]

    @property
    def info_of_operation(self) -> Column:
        """For each operation, the index of its instruction in `infos`."""
        return self._keys[1]

    @cached_property
    def counts_of_infos(self) -> Column:
        """Number of executions of each of `infos`, on all devices."""
        return np.bincount(self.info_of_operation, minlength=len(self.infos))

    @cached_property
    def seconds_of_infos(self) -> npt.NDArray[np.float64]:
        """Total time of each of `infos` until completion, summed over devices."""
        numbers, seconds = self.info_of_operation, self.seconds_of_operation
        return np.bincount(numbers, seconds, len(self.infos)).astype(np.float64)

    def program_name(self, info: int) -> str:
        """Name of the program of `infos[info]`."""
        return self.programs[self._keys[0][info][0]].name

    @cached_property
    def _keys(self) -> tuple[list[tuple[int, int, int]], Column]:
        ops = self.operations
        columns = (ops.program, ops.instruction, self._calling_lines())
        numbers = group_rows(*columns)
        _, first = np.unique(numbers, return_index=True)
        unique = zip(*(column[first].tolist() for column in columns), strict=True)
        return [*unique], numbers

    def _calling_lines(self) -> Column:
        """For each operation, the index of the name of the line mark around its call, or `ABSENT`; of those of programs that have
        lines only for the marks of backward passes.
        """
        ops = self.operations
        called_by = line_of_calls(self.names, self.spans, self.calls)
        has_run = self.calls.run != ABSENT
        lines = match_values(ops.run, self.calls.run[has_run], called_by[has_run])
        modules = [
            self.programs[number].name if number in self.programs else ""
            for number in ops.program.tolist()
        ]
        within = line_within_calls(self.names, self.spans, ops, modules)
        lines = np.where(lines == ABSENT, within, lines)
        eager = [number for number, program in self.programs.items() if not any(program.places())]
        backward = [i for i, name in enumerate(self.names) if is_backward_mark(name)]
        counts = np.isin(ops.program, eager) | np.isin(lines, backward)
        return np.where(counts, lines, ABSENT)

    def _info(self, program: int, instruction: int, line: int) -> InstructionInfo:
        name = self.names[instruction]
        info = self.programs[program].instructions.get(name) or unknown_instruction(name)
        if line == ABSENT:
            return info
        mark = self.names[line]
        has_lines = any(self.programs[program].places())
        place = None if has_lines else marked_place(mark)
        return info.of_call(place, is_backward=is_backward_mark(mark))

    @cached_property
    def seconds_of_operation(self) -> npt.NDArray[np.float64]:
        """Self time of each operation: for loops, branches and calls, without the operations in them."""
        ops = self.operations
        seconds = ops.duration_ns / 1e9
        container = np.array([info.is_container for info in self.infos], bool)
        is_container = container[self.info_of_operation] if len(ops) else np.zeros(0, bool)
        rows = np.flatnonzero(is_container)
        if not rows.size:
            return seconds
        rest = np.zeros(len(rows))
        for device in np.unique(ops.device[rows]):
            busy = self._busy(device, ~is_container)
            here = ops.device[rows] == device
            start, end = ops.start_ns[rows[here]], ops.end_ns[rows[here]]
            rest[here] = np.maximum(
                end - start - _nanoseconds_before(busy, end) + _nanoseconds_before(busy, start), 0
            )
        lane = ops.device[rows] * (len(ops) + 1) + np.unique(ops.run, return_inverse=True)[1][rows]
        parents = nesting(lane, ops.start_ns[rows], ops.end_ns[rows])
        inside = parents != ABSENT
        rest -= np.bincount(parents[inside], rest[inside], len(rows))
        seconds[rows] = np.maximum(rest, 0) / 1e9
        return seconds

    def _busy(self, device: int, chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """Disjoint intervals [n, 2] in nanoseconds in which the operations of the mask `chosen` ran on a device."""
        rows = np.flatnonzero(chosen & (self.operations.device == device))
        start, end = self.operations.start_ns[rows], self.operations.end_ns[rows]
        reached = np.maximum.accumulate(end) if len(end) else end
        is_first = np.r_[True, start[1:] > reached[:-1]] if len(end) else np.zeros(0, bool)
        last = (
            np.r_[np.flatnonzero(is_first)[1:] - 1, len(end) - 1]
            if len(end)
            else np.zeros(0, np.int64)
        )
        return (
            np.stack([start[is_first], reached[last]], axis=1)
            if len(end)
            else np.zeros((0, 2), np.int64)
        )


def _nanoseconds_before(intervals: npt.NDArray[np.int64], times: Column) -> npt.NDArray[np.float64]:
    """Nanoseconds of sorted disjoint `intervals` [n, 2] before each of `times`."""
    if not len(intervals):
        return np.zeros(len(times))
    lengths = np.r_[0, np.cumsum(intervals[:, 1] - intervals[:, 0])]
    corners: Column = np.r_[0, intervals.reshape(-1)]
    heights: Column = np.r_[0, np.stack([lengths[:-1], lengths[1:]], axis=1).reshape(-1)]
    return np.interp(times, corners, heights)
