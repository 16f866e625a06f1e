"""Messages between a kernel and the panels of a front end; each travels as the data of one comm message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pellucid.introspect.schema import (
    ArrayValuesRecord,
    CompiledRecord,
    FunctionShardingRecord,
    FunctionsRecord,
    MemoryRecord,
    ProgramRecord,
    Record,
    ShardingRecord,
    WhatIfRecord,
)
from pellucid_profiler.schema import PerfettoRecord, TimelineRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowRequest(Record):
    """Asks for the states of these panels, now and after each cell, and of no others: those that are in sight."""

    panels: list[str]
    kind: Literal["follow"] = "follow"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRequest(Record):
    """Asks for one view of the program of a cache entry."""

    request: int
    """Number that the answer repeats."""
    entry: int
    view: Literal["jaxpr", "stablehlo", "hlo", "sharding", "memory"]
    kind: Literal["show_program"] = "show_program"


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeArrayRequest(Record):
    """Asks to free the memory of a live array."""

    request: int
    array: int
    kind: Literal["free_array"] = "free_array"


@dataclass(frozen=True, slots=True, kw_only=True)
class LetGoRequest(Record):
    """Asks to forget what the last error and the outputs of cells keep alive."""

    request: int
    kind: Literal["let_go"] = "let_go"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineRequest(Record):
    """Asks for a part of the time of a profiled session."""

    request: int
    session: int
    """`ProfileRecord.session`."""
    begin_ns: int
    end_ns: int
    columns: int
    """Number of equal parts of that time in which shorter operations are merged."""
    kind: Literal["show_timeline"] = "show_timeline"


@dataclass(frozen=True, slots=True, kw_only=True)
class PerfettoRequest(Record):
    """Asks for a profiled session as a Perfetto trace, and for the page of Perfetto's user interface."""

    request: int
    session: int
    """`ProfileRecord.session`."""
    kind: Literal["show_perfetto"] = "show_perfetto"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayRequest(Record):
    """Asks for the values of an array, or of the part of it that a device holds."""

    request: int
    array: str
    """`ArrayValuesRecord.array`."""
    device: int | None
    kind: Literal["show_array"] = "show_array"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArraySliceRequest(Record):
    """Asks for a slice of an array."""

    request: int
    array: str
    """`ArrayValuesRecord.array`."""
    index: list[int]
    """One for each dimension; those along `dims` say nothing."""
    dims: list[int]
    """The dimension drawn down, and the one drawn across."""
    kind: Literal["show_array_slice"] = "show_array_slice"


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfRequest(Record):
    """Asks for another placement of a function, or for the fastest ones."""

    request: int
    figure: str
    """`WhatIfRecord.figure`."""
    axis_names: list[str]
    axis_sizes: list[int]
    dim_axes: list[list[list[str]]]
    """Mesh axes for each of the record's arguments and each dimension."""
    search_under: int | None
    """Bytes of memory under which the fastest placements are searched; None without a search."""
    kind: Literal["show_placement"] = "show_placement"


Request = (
    FollowRequest
    | WhatIfRequest
    | ArrayRequest
    | ArraySliceRequest
    | ProgramRequest
    | FreeArrayRequest
    | LetGoRequest
    | TimelineRequest
    | PerfettoRequest
)
"""Messages from a panel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramsState(Record):
    """State of the panel "Programs"."""

    functions: FunctionsRecord
    panel: Literal["programs"] = "programs"
    kind: Literal["state"] = "state"


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicesState(Record):
    """State of the panel "Devices and mesh"."""

    memory: MemoryRecord
    """Without the smallest arrays where there are very many."""
    array_count: int
    meshes: list[ShardingRecord]
    """The user's meshes, each by the name of its variable."""
    device_note: str
    """How to get another number of devices; empty where that has no sense."""
    panel: Literal["devices"] = "devices"
    kind: Literal["state"] = "state"


State = ProgramsState | DevicesState
"""State of a panel: sent when it comes into sight and after each cell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArraySliceRecord(Record):
    """A slice of an array, as a heat map draws it."""

    index: list[int]
    """One for each dimension; those along `dims` say nothing."""
    dims: list[int]
    """The dimension drawn down, and the one drawn across."""
    steps: list[int]
    """Along `dims` every so many elements are read."""
    cells: list[list[float | None]]
    """Means of the finite elements of blocks, by rows; None where a block has none."""
    kind: Literal["array_slice"] = "array_slice"


Shown = (
    ProgramRecord
    | FunctionShardingRecord
    | CompiledRecord
    | TimelineRecord
    | PerfettoRecord
    | ArrayValuesRecord
    | ArraySliceRecord
    | WhatIfRecord
)
"""Views that a request can ask for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRecord(Record):
    """The answer to a request with a number."""

    request: int
    shown: Shown | None
    """The requested value; None for a command."""
    error: str | None
    """Message of the error; None if there was none."""
    kind: Literal["answer"] = "answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserLineRecord(Record):
    """A line of the user."""

    source: str
    """Name of the cell or file."""
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnrolledLoopRecord(Record):
    """A Python loop that a program has once for each of its iterations."""

    place: UserLineRecord
    """Of its `for` or `while`."""
    iterations: int
    """How often it was traced so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressRecord(Record):
    """What has taken a third of a second so far: a compilation, or a wait for devices. Sent at its stages, and when nothing is left."""

    function: str | None
    """The function that is compiled, or the types of the arrays that are waited for; None for nothing."""
    stage: Literal["trace", "lower", "compile", "wait", "left"] | None
    """`left` where a wait was interrupted and the devices go on."""
    devices: str
    """On which it runs; empty for a compilation."""
    equation_count: int
    """Of the function and the programs in it; while it is traced, of the function so far; 0 of a wait."""
    elapsed_seconds: float
    """Since its tracing or the wait began."""
    place: UserLineRecord | None
    """Where it was called, or waited for."""
    loop: UnrolledLoopRecord | None
    cell_id: str | None
    """The cell that runs; None where a panel asked, or where the front end names no cells."""
    is_by_tool: bool
    """Whether a view needs it, not the user's program."""
    kind: Literal["progress"] = "progress"


Message = State | AnswerRecord | ProgressRecord
"""Messages from a kernel."""
