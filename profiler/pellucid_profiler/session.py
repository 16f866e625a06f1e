"""A recorded session: what ran, when, and whose it is, as tables whose totals add up."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from pellucid.introspect.errors import ArgumentValueError
from pellucid.introspect.files import SEAL_BYTES, check_seal
from pellucid.introspect.schema import SourceRecord
from pellucid_profiler.callbacks import CallbackRow
from pellucid_profiler.calls import HostSpans, LaunchColumns, module_name, nesting
from pellucid_profiler.collectives import (
    CollectiveRow,
    Collectives,
    Straggler,
    collective_rows,
    straggler,
)
from pellucid_profiler.comparison import Comparison, compare
from pellucid_profiler.compilations import Compilation
from pellucid_profiler.compile_steps import CompileStep, compile_steps
from pellucid_profiler.counters import Counters
from pellucid_profiler.exports import columns, data_frame, save_speedscope
from pellucid_profiler.files import seal_file, whole_file
from pellucid_profiler.host import HostRow, Transfer, TransferRow, host_rows, transfer_rows
from pellucid_profiler.live_arrays import HeapRow, LiveArrays
from pellucid_profiler.live_buffers import LiveBuffer, ProgramMemory
from pellucid_profiler.marks import line_of_calls, marked_place
from pellucid_profiler.markup import session_html
from pellucid_profiler.operations import Operations, grouped, matched
from pellucid_profiler.peaks import Peaks
from pellucid_profiler.perfetto import save_perfetto
from pellucid_profiler.queries import query
from pellucid_profiler.record import profile_record
from pellucid_profiler.report import report
from pellucid_profiler.schema import ProfileRecord
from pellucid_profiler.sources import InstructionInfo, ProgramInfo, SourceLine, unknown_instruction
from pellucid_profiler.steps import StepRow, steps_of
from pellucid_profiler.text import line_number_text
from pellucid_profiler.xspace import ABSENT, Column

FORMAT = 5
"""Rises when the file's arrays or texts change their meaning."""

T = TypeVar("T")


class OperationRow(NamedTuple):
    """An instruction of a program, over the whole session."""

    info: int
    """Its number in `Session.infos`."""
    program: str
    instruction: str
    category: str
    attribution: str
    count: int  # pyright: ignore[reportIncompatibleMethodOverride]  # hides tuple.count
    """Executions, on all devices."""
    seconds: float
    """Until they were complete, together; of a container what its parts leave."""
    flops: float | None
    """Estimated, of all executions together."""
    bytes: float | None


class LineRow(NamedTuple):
    """A line of the user's, over the whole session. Seconds are those of devices, added up."""

    place: SourceLine | None
    """None for what belongs to no line."""
    forward_seconds: float
    backward_seconds: float
    """Of the derivative's operations that the line caused."""
    measured_seconds: float
    """Of operations that are this line's alone; the rest is estimated, or inferred from operations beside."""
    flops: float

    @property
    def seconds(self) -> float:
        """Forward and backward."""
        return self.forward_seconds + self.backward_seconds


class Totals(NamedTuple):
    """The whole session, in seconds."""

    wall_seconds: float
    """From the session's begin to its end."""
    operation_seconds: float
    """All operations on all devices, added up."""
    measured_seconds: float
    """Of `operation_seconds`: of operations that are one line's alone."""
    estimated_seconds: float
    """Of operations of several lines, split by estimated cost, and of those whose line is inferred."""
    unattributed_seconds: float
    """Of operations without a line."""
    busy_seconds: float
    """During which some operation ran, averaged over the devices that ran any."""


@dataclass(eq=False)
class Session:
    """A recording, joined to programs. Rows of `operations` name their instruction and program by number.

    `lines`, `by_operation`, `by_category` and `by_scope` are the same seconds, cut in other ways.

    >>> with pl.profiler.profile() as recorded:
    ...     y = jnp.sin(1.0)
    >>> session = recorded.wait()
    >>> isinstance(session, pl.profiler.Session), len(session.calls)
    (True, 1)
    """

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
    """Python functions that programs called, the one with most time first."""
    live_arrays: LiveArrays
    """Bytes and number of arrays over the session."""
    heap: list[HeapRow]
    """Arrays by the line that made them, those with most bytes first."""
    memory: dict[int, ProgramMemory]
    """Of programs that need much, by the program's number."""
    counters: Counters
    """Samples of GPUs' counters, and of the memory that they use."""
    peaks: Peaks | None
    """Speeds of the machine that recorded it: measured, or those that its GPU names."""
    begin_unix_ns: int
    """When it began, nanoseconds since 1970; other times count from then."""
    wall_ns: int
    """Nanoseconds from its begin to its end."""
    sources: dict[str, SourceRecord] = field(default_factory=dict[str, SourceRecord])
    """Files and cells whose lines ran, with their text, by path."""
    remarks: list[str] = field(default_factory=list[str])
    """Losses of the recording, in sentences."""
    number: int = 0
    """Under which this process finds it again, once it was shown; 0 before."""
    is_detail: bool = False
    """Whether its programs were compiled without fusions: others than those that run otherwise."""

    # What there is ---------------------------------------------------------------------------------

    @cached_property
    def infos(self) -> list[InstructionInfo]:
        """The instructions that ran; rows of `info_of_operation` number them."""
        return [self._info(*key) for key in self._keys[0]]

    @property
    def info_of_operation(self) -> Column:
        """For each operation the number of its instruction in `infos`."""
        return self._keys[1]

    @cached_property
    def counts_of_infos(self) -> Column:
        """Executions of each of `infos`, on all devices."""
        return np.bincount(self.info_of_operation, minlength=len(self.infos))

    @cached_property
    def seconds_of_infos(self) -> npt.NDArray[np.float64]:
        """Seconds of each of `infos`, on all devices, until the operations were complete."""
        numbers, seconds = self.info_of_operation, self.seconds_of_operation
        return np.bincount(numbers, seconds, len(self.infos)).astype(np.float64)

    @cached_property
    def seconds_of_equations(self) -> dict[int, float]:
        """Seconds of one execution of each equation, by its id: the mean over executions and devices.

        What several equations share is split by estimated cost.
        """
        totals: dict[int, float] = defaultdict(float)
        for info, count, seconds in self._totals_of_infos():
            for share in info.shares:
                if share.equation is not None:
                    totals[share.equation] += seconds * share.share / count
        return totals

    def seconds_of_run(self, equations: Collection[int]) -> dict[int, float]:
        """Seconds of `equations`, by their ids, in one run of their program on one device: the mean over all of them.

        That is the program most of whose equations they are; empty without one.
        """
        wanted, best, result = {*equations}, 0.5, dict[int, float]()
        for number in self.programs:
            runs, totals = self._run_of(number)
            parts: dict[int, float] = defaultdict(float)
            for i, seconds in totals.items():
                for share in self.infos[i].shares:
                    if share.equation is not None:
                        parts[share.equation] += seconds * share.share / runs
            overlap = len(wanted & parts.keys()) / max(1, len(parts))
            if overlap > best:
                best, result = overlap, parts
        return result

    def _run_of(self, program: int) -> tuple[int, dict[int, float]]:
        """(runs of a program, counted on each device, seconds of each of `infos` in all of them)."""
        ops = self.operations
        rows = np.flatnonzero(ops.program == program)
        used = np.unique(self.info_of_operation[rows]).tolist()
        runs = len(np.unique(grouped(ops.run[rows], ops.device[rows])))
        return max(1, runs), {i: float(self.seconds_of_infos[i]) for i in used}

    def seconds_of_kernels(self, function: str, kernels: Collection[str]) -> dict[str, float]:
        """Seconds of each of `kernels` in one run of a jitted function's program on one device: the mean over all of them.

        Of several programs of the function it is the one that has most of them. Raises: ArgumentValueError if it didn't run
        in this session.
        """
        best, seconds = 0.5, dict[str, float]()
        for number, program in self.programs.items():
            if program.name != module_name(function):
                continue
            runs, totals = self._run_of(number)
            names = {self.infos[i].name for i in totals if not self.infos[i].is_container}
            share = len(names & {*kernels}) / max(1, len(names))
            if share > best:
                parts = {self.infos[i].name: each / runs for i, each in totals.items()}
                best, seconds = share, parts
        if seconds:
            return seconds
        raise ArgumentValueError(
            "this program has no run in the session.",
            got=f"{function}; the session has {', '.join(sorted({each.name for each in self.programs.values()})) or 'none'}",
            do="Record a call of the compiled function with the same types of arguments.",
        )

    def program_name(self, info: int) -> str:
        """The name of the program of `infos[info]`."""
        return self.programs[self._keys[0][info][0]].name

    @cached_property
    def _keys(self) -> tuple[list[tuple[int, int, int]], Column]:
        ops = self.operations
        columns = (ops.program, ops.instruction, self._calling_lines())
        numbers = grouped(*columns)
        _, first = np.unique(numbers, return_index=True)
        unique = zip(*(column[first].tolist() for column in columns), strict=True)
        return [*unique], numbers

    def _calling_lines(self) -> Column:
        """For each operation of a program that has no lines, the name of the marked line that called it, or `ABSENT`."""
        ops = self.operations
        called_by = line_of_calls(self.names, self.spans, self.calls)
        has_run = self.calls.run != ABSENT
        lines = matched(ops.run, self.calls.run[has_run], called_by[has_run])
        eager = [number for number, program in self.programs.items() if not any(program.places())]
        return np.where(np.isin(ops.program, eager), lines, ABSENT)

    def _info(self, program: int, instruction: int, line: int) -> InstructionInfo:
        name = self.names[instruction]
        info = self.programs[program].instructions.get(name) or unknown_instruction(name)
        return info if line == ABSENT else info.of_line(marked_place(self.names[line]))

    @cached_property
    def seconds_of_operation(self) -> npt.NDArray[np.float64]:
        """Seconds of each operation; of a container, such as a loop, what its parts leave."""
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
            rest[here] = np.maximum(end - start - _before(busy, end) + _before(busy, start), 0)
        lane = ops.device[rows] * (len(ops) + 1) + np.unique(ops.run, return_inverse=True)[1][rows]
        parents = nesting(lane, ops.start_ns[rows], ops.end_ns[rows])
        inside = parents != ABSENT
        rest -= np.bincount(parents[inside], rest[inside], len(rows))
        seconds[rows] = np.maximum(rest, 0) / 1e9
        return seconds

    def _busy(self, device: int, chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """Disjoint intervals [n, 2] of nanoseconds during which chosen operations ran on a device."""
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

    # Tables ----------------------------------------------------------------------------------------

    @cached_property
    def by_operation(self) -> list[OperationRow]:
        """The instructions that ran, the one with most time first."""
        rows = [
            OperationRow(
                i, self.program_name(i), info.name, info.category, info.attribution,
                count, seconds, _times(info.flops, count), _times(info.bytes, count),
            )
            for i, (info, count, seconds) in enumerate(self._totals_of_infos())
        ]  # fmt: skip
        return sorted(rows, key=lambda row: -row.seconds)

    @cached_property
    def lines(self) -> list[LineRow]:
        """The user's lines that took time on devices, the one with most first; what is no line's under None."""
        forward: dict[SourceLine | None, float] = defaultdict(float)
        backward: dict[SourceLine | None, float] = defaultdict(float)
        measured: dict[SourceLine | None, float] = defaultdict(float)
        flops: dict[SourceLine | None, float] = defaultdict(float)
        for info, count, seconds in self._totals_of_infos():
            rest = 1.0
            for share in info.shares:
                part = seconds * share.share
                (backward if share.is_backward else forward)[share.place] += part
                measured[share.place] += part if info.is_measured else 0.0
                flops[share.place] += (info.flops or 0.0) * count * share.share
                rest -= share.share
            if not info.shares:
                forward[None] += seconds * rest
        places = [*dict.fromkeys([*forward, *backward])]
        rows = [
            LineRow(place, forward[place], backward[place], measured[place], flops[place])
            for place in places
        ]
        return sorted(rows, key=lambda row: -row.seconds)

    def by_category(self) -> dict[str, float]:
        """Seconds of operations by kind: `fusion`, `library`, `custom`, `copy`, `collective`, `other`."""
        return self._summed(lambda info: [(info.category, 1.0)])

    def by_scope(self) -> dict[str, float]:
        """Seconds of operations by the transformations, calls and `named_scope`s around them."""
        return self._summed(
            lambda info: [(share.scope, share.share) for share in info.shares] or [("", 1.0)]
        )

    def by_collective(self) -> list[CollectiveRow]:
        """Exchanges between devices with their waiting and working time, the one with most first."""
        return collective_rows(self)

    @cached_property
    def straggler(self) -> Straggler | None:
        """The device that the others wait for; None where none do."""
        return straggler(self)

    @cached_property
    def compile_steps(self) -> list[CompileStep]:
        """Passes, kernels and machine code of all compilations, those that took longest first."""
        return compile_steps(self)

    @cached_property
    def host(self) -> list[HostRow]:
        """Activities of the calling threads; the rows of each add up to the session's time."""
        return host_rows(self)

    def by_transfer(self) -> list[TransferRow]:
        """Transfers between host and devices by line, those with most bytes first."""
        return transfer_rows(self.transfers)

    def _summed(
        self, keys: Callable[[InstructionInfo], Iterable[tuple[str, float]]]
    ) -> dict[str, float]:
        totals: dict[str, float] = defaultdict(float)
        for info, _, seconds in self._totals_of_infos():
            for key, share in keys(info):
                totals[key] += seconds * share
        return dict(sorted(totals.items(), key=lambda item: -item[1]))

    def _totals_of_infos(self) -> Iterable[tuple[InstructionInfo, int, float]]:
        counts, seconds = map(int, self.counts_of_infos), map(float, self.seconds_of_infos)
        return zip(self.infos, counts, seconds, strict=True)

    @cached_property
    def place_texts_of_infos(self) -> list[str]:
        """Cell or file, and number of the line that each of `infos` is most of; empty where nobody knows."""
        largest = [
            max(info.shares, key=lambda share: share.share, default=None) for info in self.infos
        ]
        return [
            line_number_text(self.sources, share.place.file, share.place.line)
            if share and share.place
            else ""
            for share in largest
        ]

    @cached_property
    def totals(self) -> Totals:
        """The whole session; measured, estimated and not attributed seconds add up to those of operations."""
        ops = self.operations
        measured = unattributed = total = 0.0
        for info, _, seconds in self._totals_of_infos():
            total += seconds
            measured += seconds if info.is_measured and info.shares[0].place else 0.0
            lost = sum(share.share for share in info.shares if share.place is None)
            unattributed += seconds * (lost if info.shares else 1.0)
        devices = np.unique(ops.device)
        everything = np.ones(len(ops), bool)
        busy = [float(np.diff(self._busy(d, everything), axis=1).sum()) / 1e9 for d in devices]
        return Totals(
            wall_seconds=self.wall_ns / 1e9,
            operation_seconds=total,
            measured_seconds=measured,
            estimated_seconds=max(total - measured - unattributed, 0.0),
            unattributed_seconds=unattributed,
            busy_seconds=sum(busy) / len(busy) if busy else 0.0,
        )

    @cached_property
    def steps(self) -> list[StepRow]:
        """The steps that `profiler.step` or `StepTraceAnnotation` name, in the order in which they begin."""
        return [
            *steps_of(
                self.names, self.spans, self.calls, self.operations, self.seconds_of_operation
            )
        ]

    # Figures ---------------------------------------------------------------------------------------

    def record(self) -> ProfileRecord:
        """The session as front ends draw it."""
        return profile_record(self)

    def report(self) -> str:
        """Where time went, as text."""
        return report(self)

    def to_html(self) -> str:
        """The session as static HTML: no scripts, no kernel, no network."""
        return session_html(self)

    def diff(self, later: Session) -> Comparison:
        """Which lines became slower or faster in a later session."""
        is_session = isinstance(later, Session)  # pyright: ignore[reportUnnecessaryIsInstance]  # a Profile waits
        return compare(self, later if is_session else later.wait())

    # Other tools -----------------------------------------------------------------------------------

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Executed operations as columns [n]: what ran, where, when, and for how long, in nanoseconds."""
        return columns(self)

    def to_pandas(self) -> Any:
        """`columns` as a DataFrame of pandas."""
        return data_frame(self, "pandas", "DataFrame", "pandas")

    def to_polars(self) -> Any:
        """`columns` as a DataFrame of polars."""
        return data_frame(self, "polars", "DataFrame", "polars")

    def to_arrow(self) -> Any:
        """`columns` as a Table of pyarrow."""
        return data_frame(self, "pyarrow", "table", "pyarrow")

    def to_speedscope(self, path: str | os.PathLike[str]) -> None:
        """Write time by scope, operation and line into a file, which https://www.speedscope.app opens."""
        save_speedscope(self, path)

    def sql(self, query_text: str) -> list[dict[str, Any]]:
        """Rows of a query over the session's slices: tables `slice` (ts, dur, name, track_id, parent_id, depth) and `track`.

        Perfetto's program `trace_processor_shell` answers where it is installed, with all its tables; else SQLite does.
        """
        return query(self, query_text)

    def to_perfetto(self, path: str | os.PathLike[str]) -> None:
        """Write a file which the Perfetto UI opens."""
        save_perfetto(self, path)

    def __repr__(self) -> str:
        return self.report()

    _repr_html_ = to_html

    # Files -----------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the session into one file, which `load` reads on any machine.

        A file that can't be written to its end, as on a full disk, leaves the one that was there as it is.
        Raises: OSError.
        """
        texts = {
            "format": FORMAT,
            "names": self.names,
            "threads": self.threads,
            "begin_unix_ns": self.begin_unix_ns,
            "wall_ns": self.wall_ns,
            "compilations": self.compilations,
            "transfers": self.transfers,
            "callbacks": self.callbacks,
            "heap": self.heap,
            "remarks": self.remarks,
            "peaks": self.peaks,
            "is_detail": self.is_detail,
            "memory": [*self.memory.items()],
            "sources": [source.to_dict() for source in self.sources.values()],
            "programs": [[key, program.to_json()] for key, program in self.programs.items()],
        }
        with (
            whole_file(path) as part,
            zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        ):
            archive.comment = bytes(SEAL_BYTES)
            archive.writestr("session.json", json.dumps(texts))
            for table in _TABLES:
                columns = getattr(self, table)
                for name in [each.name for each in fields(columns)]:
                    column: Column = getattr(columns, name)
                    with archive.open(f"{table}.{name}.npy", "w", force_zip64=True) as file:
                        np.lib.format.write_array(file, column, allow_pickle=False)
            archive.close()
            seal_file(part)


_TABLES: dict[str, Any] = {
    "operations": Operations,
    "calls": LaunchColumns,
    "spans": HostSpans,
    "collectives": Collectives,
    "live_arrays": LiveArrays,
    "counters": Counters,
}


def load(path: str | os.PathLike[str]) -> Session:
    """The session that `Session.save` wrote.

    Raises: ArgumentValueError for a file that is no whole session, FileNotFoundError.

    >>> import tempfile
    >>> with pl.profiler.profile() as recorded:
    ...     y = jnp.sin(1.0)
    >>> path = tempfile.mkstemp(suffix=".plprof")[1]
    >>> recorded.save(path)
    >>> len(load(path).calls)
    1
    """
    content = Path(path).read_bytes()
    try:
        check_seal(content)
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            texts = json.loads(archive.read("session.json"))
            tables = {
                table: kind(**{
                    field.name: np.lib.format.read_array(
                        io.BytesIO(archive.read(f"{table}.{field.name}.npy")), allow_pickle=False
                    )
                    for field in fields(kind)
                })
                for table, kind in _TABLES.items()
            }  # fmt: skip
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError) as error:
        raise ArgumentValueError(
            "this file is no whole session of the profiler.",
            got=f"{os.fspath(path)}: {error}",
            do="Save the session again with `session.save(path)`.",
        ) from None
    if texts["format"] != FORMAT:
        raise ArgumentValueError(
            "this session was saved by another version of the profiler.",
            got=f"{os.fspath(path)}: format {texts['format']}, this version reads {FORMAT}",
        )
    programs = {key: ProgramInfo.from_json(value) for key, value in texts["programs"]}
    return Session(
        names=texts["names"], compilations=[Compilation(*row) for row in texts["compilations"]],
        threads=texts["threads"], programs=programs,
        transfers=[Transfer(*_placed(row, 3)) for row in texts["transfers"]],
        callbacks=[CallbackRow(*_placed(row, 1)) for row in texts["callbacks"]],
        heap=[HeapRow(*_placed(row, 0)) for row in texts["heap"]],
        remarks=texts["remarks"],
        is_detail=texts["is_detail"],
        peaks=texts["peaks"] and Peaks(*texts["peaks"]),
        memory={
            key: ProgramMemory(names, live, peak, [LiveBuffer(*each) for each in buffers], allocated)
            for key, (names, live, peak, buffers, allocated) in texts["memory"]
        },
        begin_unix_ns=texts["begin_unix_ns"], wall_ns=texts["wall_ns"],
        sources={each["path"]: SourceRecord(**each) for each in texts["sources"]}, **tables,
    )  # fmt: skip


def _placed(row: list[Any], at: int) -> list[Any]:
    """A row of a file, whose entry `at` is a place or None."""
    return [*row[:at], row[at] and SourceLine(*row[at]), *row[at + 1 :]]


def _before(intervals: npt.NDArray[np.int64], times: Column) -> npt.NDArray[np.float64]:
    """Nanoseconds of disjoint intervals [n, 2], in order, that lie before each of `times`."""
    if not len(intervals):
        return np.zeros(len(times))
    lengths = np.r_[0, np.cumsum(intervals[:, 1] - intervals[:, 0])]
    corners: Column = np.r_[0, intervals.reshape(-1)]
    heights: Column = np.r_[0, np.stack([lengths[:-1], lengths[1:]], axis=1).reshape(-1)]
    return np.interp(times, corners, heights)


def _times(value: float | None, count: int) -> float | None:
    return None if value is None else value * int(count)
