"""Messages between a kernel and the panels of a front end; each is the data of one comm message."""

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
    """Requests the states of these panels, now and after each cell, and no others: the panels that are visible."""

    panels: list[str]
    kind: Literal["follow"] = "follow"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRequest(Record):
    """Requests one view of the program of a cache entry."""

    request: int
    """Number that the answer repeats."""
    entry: int
    view: Literal["jaxpr", "stablehlo", "hlo", "sharding", "memory"]
    kind: Literal["show_program"] = "show_program"


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeArrayRequest(Record):
    """Requests to free the memory of a live array."""

    request: int
    array: int
    kind: Literal["free_array"] = "free_array"


@dataclass(frozen=True, slots=True, kw_only=True)
class LetGoRequest(Record):
    """Requests to drop references to arrays held by the last error and by cell outputs."""

    request: int
    kind: Literal["let_go"] = "let_go"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineRequest(Record):
    """Requests a section of a profiled session's timeline."""

    request: int
    session: int
    """`ProfileRecord.session`."""
    begin_ns: int
    end_ns: int
    columns: int
    """Number of equal parts of that time; operations that are shorter than a part are merged."""
    kind: Literal["show_timeline"] = "show_timeline"


@dataclass(frozen=True, slots=True, kw_only=True)
class PerfettoRequest(Record):
    """Requests a profiled session as a Perfetto trace, and the page of the Perfetto UI."""

    request: int
    session: int
    """`ProfileRecord.session`."""
    kind: Literal["show_perfetto"] = "show_perfetto"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayRequest(Record):
    """Requests the values of an array, or of its shard on one device."""

    request: int
    array: str
    """`ArrayValuesRecord.array`."""
    device: int | None
    kind: Literal["show_array"] = "show_array"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArraySliceRequest(Record):
    """Requests a slice of an array."""

    request: int
    array: str
    """`ArrayValuesRecord.array`."""
    index: list[int]
    """One index per dimension; those along `dims` are ignored."""
    dims: list[int]
    """The dimension drawn vertically, and the one drawn horizontally."""
    kind: Literal["show_array_slice"] = "show_array_slice"


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfRequest(Record):
    """Requests another placement of a function's arguments, or the fastest placements."""

    request: int
    figure: str
    """`WhatIfRecord.figure`."""
    axis_names: list[str]
    axis_sizes: list[int]
    dim_axes: list[list[list[str]]]
    """Mesh axes of each dimension of each of the record's arguments."""
    search_under: int | None
    """Memory limit in bytes for the search of the fastest placements; None for no search."""
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
    """Memory of the devices. If there are very many arrays, the smallest are omitted."""
    array_count: int
    meshes: list[ShardingRecord]
    """The meshes among the user's variables, each under its variable's name."""
    device_note: str
    """Hint for setting the number of devices; empty if it doesn't apply."""
    panel: Literal["devices"] = "devices"
    kind: Literal["state"] = "state"


State = ProgramsState | DevicesState
"""State of a panel, sent when it becomes visible and after each cell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArraySliceRecord(Record):
    """A slice of an array, downsampled for a heat map."""

    index: list[int]
    """One index per dimension; those along `dims` are ignored."""
    dims: list[int]
    """The dimension drawn vertically, and the one drawn horizontally."""
    steps: list[int]
    """Stride along each of `dims` at which elements are read."""
    cells: list[list[float | None]]
    """Mean of the finite elements of each block, row by row; None for a block without any."""
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
"""Views that can be requested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRecord(Record):
    """Answer to a request that has a number."""

    request: int
    shown: Shown | None
    """The requested view; None for a command."""
    error: str | None
    """Error message; None if there was none."""
    kind: Literal["answer"] = "answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserLineRecord(Record):
    """A line of user code."""

    source: str
    """Name of the cell or file."""
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnrolledLoopRecord(Record):
    """A Python loop that was traced iteration by iteration, so that the program contains each of them."""

    place: UserLineRecord
    """Line of the `for` or `while` statement."""
    iterations: int
    """Number of iterations traced so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressRecord(Record):
    """Progress of a compilation or of a wait for devices that takes longer than a third of a second. Sent at each stage
    and at the end.
    """

    function: str | None
    """Name of the compiled function, or the types of the awaited arrays; None if nothing is running."""
    stage: Literal["trace", "lower", "compile", "wait", "busy", "left"] | None
    """Stage of the compilation; `wait`; `busy` for devices that compute while one line goes on without a wait that
    pellucid knows of, such as NumPy's; or `left` for work that devices continue after an interrupted wait.
    """
    devices: str
    """Devices that are awaited; empty for a compilation."""
    equation_count: int
    """Equations of the function and of the programs in it, so far if it is still traced; 0 for a wait."""
    elapsed_seconds: float
    """Time since the compilation or the wait began."""
    place: UserLineRecord | None
    """Line of the call or of the wait."""
    loop: UnrolledLoopRecord | None
    cell_id: str | None
    """Id of the running cell; None for work requested by a panel, or if the front end sends no ids."""
    is_by_tool: bool
    """Whether a view requested it, rather than the user's program."""
    kind: Literal["progress"] = "progress"


Message = State | AnswerRecord | ProgressRecord
"""Messages from a kernel."""
