"""Records of sessions that front ends draw: plain data, by column where there are many rows.

Texts are indices into `ProfileRecord.strings`, whose entry 0 is the empty text. Seconds of operations are those of all
devices, added up; times are nanoseconds since the session's begin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pellucid.introspect.schema import SCHEMA_VERSION, Record, SourceRecord, ViewRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalsRecord(Record):
    """The whole session."""

    wall_seconds: float
    operation_seconds: float
    measured_seconds: float
    """Of `operation_seconds`: of operations that are one line's alone."""
    estimated_seconds: float
    """Of operations of several lines, and of those whose line is inferred."""
    unattributed_seconds: float
    busy_seconds: float
    """During which some operation ran, averaged over devices."""
    is_detail: bool
    """Whether programs were compiled without fusions: others than those that run otherwise."""
    call_count: int
    operation_count: int
    device_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingRecord(Record):
    """Something that takes time, with what shows it and what to do."""

    text: str
    evidence: str
    remedy: str
    saved_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledLineColumns(Record):
    """The user's lines that took time, the one with most first."""

    source: list[int]
    """Index into `ProfileRecord.sources`."""
    line: list[int]
    """Counted from 1."""
    forward_seconds: list[float]
    backward_seconds: list[float]
    """Of the derivative's operations that the line caused."""
    measured_seconds: list[float]
    """Of operations that are this line's alone."""
    flops: list[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationColumns(Record):
    """Instructions of programs that ran, the one with most time first."""

    program: list[int]
    """Text."""
    name: list[int]
    """Text: the instruction's name, and the native function that it calls."""
    category: list[int]
    """Text."""
    attribution: list[int]
    """Text: `own`, `inferred` or `none`."""
    count: list[int]
    seconds: list[float]
    flops: list[float | None]
    """Estimated, of all executions together."""
    bytes: list[float | None]
    share_counts: list[int]
    """Entries of `ProfileRecord.shares` that belong to each operation, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareColumns(Record):
    """Parts of operations' time by their origin; the shares of an operation add up to 1."""

    line: list[int]
    """Index into `ProfileRecord.lines`; -1 for none."""
    scope: list[int]
    """Text: transformations, calls and scopes around it, divided by `/`."""
    operation: list[int]
    """Text: the primitive."""
    equation: list[int]
    """Stable id of the equation; -1 for none."""
    is_backward: list[bool]
    share: list[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceShareColumns(Record):
    """Time of operations on each device."""

    operation: list[int]
    device: list[int]
    count: list[int]
    seconds: list[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRecord(Record):
    """A row of a timeline."""

    name: str
    """Equal for rows that belong together."""
    kind: Literal["device", "host"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TileColumns(Record):
    """Pieces of a timeline: one operation, or several short ones together."""

    lane: list[int]
    start_ns: list[int]
    end_ns: list[int]
    operation: list[int]
    """The longest one in the tile, as an index into `ProfileRecord.operations`; -1 on the host, and for shorter ones than listed."""
    name: list[int]
    """Index into `TimelineRecord.names`."""
    count: list[int]
    busy_ns: list[int]
    """Time of all operations in the tile, together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineRecord(Record):
    """A part of a session's time, in as much detail as fits."""

    begin_ns: int
    end_ns: int
    lanes: list[LaneRecord]
    names: list[str]
    tiles: TileColumns
    is_whole: bool
    """Whether every tile is one operation: a closer look would show no more."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["timeline"] = "timeline"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledCompilationRecord(Record):
    """A function that was traced or compiled during the session."""

    function: str
    place: str
    """Of the call, for the user; empty where it isn't the user's."""
    trace_seconds: float
    lower_seconds: float
    compile_seconds: float
    entry_count: int
    """Programs of the function, this one included."""
    causes: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveColumns(Record):
    """Exchanges between devices, the one with most time first; seconds are those of all devices together."""

    operation: list[int]
    """Index into `ProfileRecord.operations`; -1 for one that isn't listed."""
    place: list[int]
    """Text: the line that it is of; empty for none."""
    name: list[int]
    """Text."""
    axes: list[int]
    """Text: the axes of the mesh along which it goes; empty where they aren't known."""
    group_size: list[int]
    """Devices that exchange with each other."""
    count: list[int]
    sent_bytes: list[float]
    """That all devices sent in all executions, by the estimate for rings."""
    wait_seconds: list[float]
    """Before the last device of a group arrived."""
    work_seconds: list[float]
    straggler: list[int]
    """The device that was waited for longest; -1 for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileStepColumns(Record):
    """Steps of all compilations: passes, kernels, machine code."""

    program: list[int]
    """Text."""
    phase: list[int]
    """Text: `passes`, `kernels`, `machine code`, or `rest` for what has no name."""
    name: list[int]
    """Text."""
    place: list[int]
    """Text: the line that a kernel is of; empty for none."""
    count: list[int]
    seconds: list[float]
    """Of the thread that compiles; they add up to the compilations."""
    thread_seconds: list[float]
    """Seconds of XLA's worker threads, summed over them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostColumns(Record):
    """Activities of the threads that called jitted functions; those of a thread add up to the session."""

    thread: list[int]
    """Text."""
    activity: list[int]
    """Text."""
    seconds: list[float]
    count: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferColumns(Record):
    """Transfers between host and devices by line, those with most bytes first."""

    place: list[int]
    """Text; empty for none."""
    direction: list[int]
    """Text."""
    count: list[int]
    bytes: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackColumns(Record):
    """Python functions that programs called, the one with most time first."""

    function: list[int]
    """Text."""
    place: list[int]
    """Text: where it is defined; empty for none."""
    count: list[int]
    seconds: list[float]
    thread_count: list[int]
    """Threads that ran it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterRecord(Record):
    """Samples of one counter of a GPU, such as its power."""

    name: str
    device: int
    is_bytes: bool
    time_ns: list[int]
    value: list[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveArrayColumns(Record):
    """Samples of the arrays that are alive, on all devices together."""

    time_ns: list[int]
    bytes: list[int]
    count: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeapColumns(Record):
    """Bytes of arrays by the line that made them, those with most at the peak first."""

    place: list[int]
    """Text; empty for none of the user's."""
    begin_bytes: list[int]
    peak_bytes: list[int]
    end_bytes: list[int]
    end_count: list[int]
    """Buffers at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramMemoryRecord(Record):
    """Bytes that a program holds on one device over its run, by XLA's assignment of buffers."""

    program: str
    instruction_count: int
    positions: list[int]
    """Instructions, in the order in which they run, at which the bytes change."""
    live_bytes: list[int]
    """From each of `positions` on."""
    peak: int
    """The instruction at which most is held."""
    peak_instruction: str
    peak_bytes: int
    allocated_bytes: int
    """That XLA allocates for a run: more than the peak by gaps between temporaries."""
    buffer_names: list[str]
    """Instructions that fill the largest buffers held then."""
    buffer_places: list[str]
    buffer_kinds: list[Literal["argument", "constant", "result", "temporary"]]
    buffer_bytes: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PeaksRecord(Record):
    """Speeds that the device reached in a benchmark."""

    device_kind: str
    flops_per_second: float
    bytes_per_second: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRecord(ViewRecord):
    """A session of the profiler: its totals are those of every table."""

    session: int
    """Number under which the process that recorded it knows it; 0 for none."""
    totals: TotalsRecord
    remarks: list[str]
    """Losses of the recording, in sentences."""
    findings: list[FindingRecord]
    sources: list[SourceRecord]
    strings: list[str]
    lines: ProfiledLineColumns
    operations: OperationColumns
    shares: ShareColumns
    device_shares: DeviceShareColumns
    omitted_count: int
    """Instructions with least time that are not listed."""
    omitted_seconds: float
    timeline: TimelineRecord
    compilations: list[ProfiledCompilationRecord]
    compile_steps: CompileStepColumns
    collectives: CollectiveColumns
    host: HostColumns
    transfers: TransferColumns
    callbacks: CallbackColumns
    live_arrays: LiveArrayColumns
    heap: HeapColumns
    counters: list[CounterRecord]
    memory: list[ProgramMemoryRecord]
    """Of the programs that need most, the largest first."""
    peaks: PeaksRecord | None
    """Of the machine that recorded it; None where nobody measured them."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["profile"] = "profile"


@dataclass(frozen=True, slots=True, kw_only=True)
class PerfettoRecord(Record):
    """A session for Perfetto's user interface."""

    page: str
    """Address of its page, below JupyterLab's `lab/extensions/`."""
    trace: str
    """The Perfetto trace in base 64."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["perfetto"] = "perfetto"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileComparisonRecord(ViewRecord):
    """Time of lines in two sessions; the lines add up to the operations' time of each."""

    before_seconds: float
    after_seconds: float
    places: list[str]
    """Of each line in the later session, or the earlier one that alone has it; empty for operations of no line."""
    codes: list[str]
    before: list[float]
    after: list[float]
    schema_version: int = SCHEMA_VERSION
    kind: Literal["profile_comparison"] = "profile_comparison"
