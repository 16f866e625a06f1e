"""Schema of the records of sessions for front ends: plain data, column by column where there are many rows.

Columns of texts contain indices into `ProfileRecord.strings`, whose entry 0 is the empty string. Seconds of operations
are summed over devices; times are nanoseconds since the session began.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pellucid.introspect.schema import SCHEMA_VERSION, Record, SourceRecord, ViewRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalsRecord(Record):
    """Totals of a session, in seconds."""

    wall_seconds: float
    operation_seconds: float
    measured_seconds: float
    """The part of `operation_seconds` in operations that belong to one line only."""
    estimated_seconds: float
    """The part of `operation_seconds` in operations shared by several lines, or whose line is inferred."""
    unattributed_seconds: float
    busy_seconds: float
    """Time in which at least one operation ran, averaged over devices."""
    is_detail: bool
    """Whether programs were compiled without fusions for this session, so that they differ from those that normally
    run.
    """
    call_count: int
    operation_count: int
    device_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingRecord(Record):
    """A problem that costs time or memory, with its evidence and remedy."""

    text: str
    evidence: str
    remedy: str
    saved_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledLineColumns(Record):
    """The user's lines that took time, longest first."""

    source: list[int]
    """Index into `ProfileRecord.sources`."""
    line: list[int]
    """Line number, counted from 1."""
    forward_seconds: list[float]
    backward_seconds: list[float]
    """Time of backward-pass operations that the line caused."""
    measured_seconds: list[float]
    """Time of operations that belong to this line only."""
    flops: list[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationColumns(Record):
    """Instructions of programs that ran, longest total time first."""

    program: list[int]
    """Name of the HLO module (text index)."""
    name: list[int]
    """Name of the instruction, with the native function that it calls (text index)."""
    category: list[int]
    """Category, such as `fusion` or `copy` (text index)."""
    attribution: list[int]
    """How lines are known: `own`, `inferred` or `none` (text index)."""
    count: list[int]
    seconds: list[float]
    flops: list[float | None]
    """Estimated arithmetic operations of all executions."""
    bytes: list[float | None]
    share_counts: list[int]
    """Number of rows in `ProfileRecord.shares` that belong to each operation, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareColumns(Record):
    """Division of operations' time among equations and lines; the shares of an operation add up to 1."""

    line: list[int]
    """Index into `ProfileRecord.lines`; -1 for none."""
    scope: list[int]
    """Enclosing transformations, calls and named scopes, separated by `/` (text index)."""
    operation: list[int]
    """Name of the primitive (text index)."""
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
    """One row of a timeline."""

    name: str
    """Display name; rows with the same name belong together."""
    kind: Literal["device", "host"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TileColumns(Record):
    """Tiles of a timeline: one operation each, or several short ones merged."""

    lane: list[int]
    start_ns: list[int]
    end_ns: list[int]
    operation: list[int]
    """Row in `ProfileRecord.operations` of the tile's longest operation; -1 on the host, and for omitted operations."""
    name: list[int]
    """Index into `TimelineRecord.names`."""
    count: list[int]
    busy_ns: list[int]
    """Total time of the operations in the tile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineRecord(Record):
    """A section of a session's time, at limited resolution."""

    begin_ns: int
    end_ns: int
    lanes: list[LaneRecord]
    names: list[str]
    tiles: TileColumns
    is_whole: bool
    """Whether every tile is a single operation, so that zooming in would show no more."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["timeline"] = "timeline"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledCompilationRecord(Record):
    """A function that was traced or compiled during the session."""

    function: str
    place: str
    """File or cell and line of the call; empty if it isn't in the user's code."""
    trace_seconds: float
    lower_seconds: float
    compile_seconds: float
    entry_count: int
    """Number of programs compiled so far for the function, this one included."""
    causes: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveColumns(Record):
    """Collectives, longest total time first. Seconds are summed over devices."""

    operation: list[int]
    """Row in `ProfileRecord.operations`; -1 if it is omitted."""
    place: list[int]
    """Source line, empty for none (text index)."""
    name: list[int]
    """Name of the instruction (text index)."""
    axes: list[int]
    """Mesh axes along which it communicates, empty if unknown (text index)."""
    group_size: list[int]
    """Number of devices in each group."""
    count: list[int]
    sent_bytes: list[float]
    """Bytes sent by all devices in all executions, estimated for ring algorithms."""
    wait_seconds: list[float]
    """Time that devices waited for the last one of their group to arrive."""
    work_seconds: list[float]
    straggler: list[int]
    """Device that the others waited for longest; -1 for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileStepColumns(Record):
    """Steps of all compilations: passes, kernels, machine code."""

    program: list[int]
    """Name of the HLO module (text index)."""
    phase: list[int]
    """`passes`, `kernels`, `machine code`, or `rest` for time between named steps (text index)."""
    name: list[int]
    """Name of the pass, or of the instruction whose kernel is generated (text index)."""
    place: list[int]
    """Source line of the kernel, empty for none (text index)."""
    count: list[int]
    seconds: list[float]
    """Self time on the compiling thread; the sum is the time of all compilations."""
    thread_seconds: list[float]
    """Time on XLA's worker threads, summed over threads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostColumns(Record):
    """Time of the threads that called jitted functions, by activity. The rows of a thread add up to the session's time."""

    thread: list[int]
    """Name of the thread (text index)."""
    activity: list[int]
    """Name of the activity (text index)."""
    seconds: list[float]
    count: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferColumns(Record):
    """Transfers between host and devices, grouped by line, most bytes first."""

    place: list[int]
    """Source line, empty for none (text index)."""
    direction: list[int]
    """`host to device`, `device to host` or `device to device` (text index)."""
    count: list[int]
    bytes: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackColumns(Record):
    """Python functions called by programs, longest total time first."""

    function: list[int]
    """Name of the function (text index)."""
    place: list[int]
    """Where it is defined, empty if unknown (text index)."""
    count: list[int]
    seconds: list[float]
    thread_count: list[int]
    """Number of threads that ran it."""


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
    """Samples of the live arrays, summed over devices."""

    time_ns: list[int]
    bytes: list[int]
    count: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeapColumns(Record):
    """Bytes of live arrays grouped by the line that created them, most at the peak first."""

    place: list[int]
    """Source line, empty if none is the user's (text index)."""
    begin_bytes: list[int]
    peak_bytes: list[int]
    end_bytes: list[int]
    end_count: list[int]
    """Number of live buffers at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramMemoryRecord(Record):
    """Memory of a program on one device during a run, from XLA's buffer assignment."""

    program: str
    instruction_count: int
    positions: list[int]
    """Positions in execution order of the instructions at which `live_bytes` changes."""
    live_bytes: list[int]
    """Bytes in use from each of `positions` on."""
    peak: int
    """Position of the instruction with most bytes in use."""
    peak_instruction: str
    peak_bytes: int
    allocated_bytes: int
    """Bytes that XLA allocates for a run. Gaps between temporaries make it larger than the peak."""
    buffer_names: list[str]
    """Instructions that fill the largest buffers in use at the peak."""
    buffer_places: list[str]
    buffer_kinds: list[Literal["argument", "constant", "result", "temporary"]]
    buffer_bytes: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PeaksRecord(Record):
    """Peak rates of a device."""

    device_kind: str
    flops_per_second: float
    bytes_per_second: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRecord(ViewRecord):
    """A session of the profiler. All its tables have the same totals."""

    session: int
    """Number by which the recording process finds the session again; 0 for none."""
    totals: TotalsRecord
    remarks: list[str]
    """Sentences about data that the recording lacks."""
    findings: list[FindingRecord]
    sources: list[SourceRecord]
    strings: list[str]
    lines: ProfiledLineColumns
    operations: OperationColumns
    shares: ShareColumns
    device_shares: DeviceShareColumns
    omitted_count: int
    """Number of instructions omitted from `operations`, those with least time."""
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
    """Memory of the programs that use most, largest first."""
    peaks: PeaksRecord | None
    """Peak rates of the machine that recorded the session; None if unknown."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["profile"] = "profile"


@dataclass(frozen=True, slots=True, kw_only=True)
class PerfettoRecord(Record):
    """A session for the Perfetto UI."""

    page: str
    """Address of the UI's page below JupyterLab's `lab/extensions/`."""
    trace: str
    """The Perfetto trace, base64-encoded."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["perfetto"] = "perfetto"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileComparisonRecord(ViewRecord):
    """Comparison of two sessions by line. The lines of each session add up to its total time of operations."""

    before_seconds: float
    after_seconds: float
    places: list[str]
    """File or cell and line in the later session, or in the earlier one if it is gone; empty for time without a line."""
    codes: list[str]
    before: list[float]
    after: list[float]
    schema_version: int = SCHEMA_VERSION
    kind: Literal["profile_comparison"] = "profile_comparison"
