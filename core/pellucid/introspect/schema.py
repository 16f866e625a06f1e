"""The records that core passes to tools: versioned plain data that converts to JSON.

Fields are JSON types or other records. Ids are integers below 2**53. NaN and infinity don't occur. Names of sizes
contain their unit. TypeScript types are generated from this file.

A program can have 100,000 equations, so its tables are stored by column: entry `i` of every list of `EquationColumns`
describes equation `i`. Texts are indices into `ProgramRecord.strings`, whose entry 0 is the empty text and means
"none". A column of lists is stored flat: `operand_counts[i]` entries of `operands` belong to equation `i`, in order.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal

from pellucid._machine.base.narrowing import is_dict, is_list

SCHEMA_VERSION = 1
"""Incremented when a field is renamed or removed; readers accept the last two versions."""


class Record:
    """Base of all records."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """This record as dictionaries and lists, ready for `json.dumps`.

        Lists of plain data aren't copied but shared with the record, as columns can be long.

        >>> PhaseRecord(name="trace", seconds=0.25).to_dict()
        {'name': 'trace', 'seconds': 0.25}
        """
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]


class ViewRecord(Record):
    """Base of the records that have a view of their own. The front end's list of these records is generated."""

    __slots__ = ()


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_dict()
    if is_list(value) and value and isinstance(value[0], Record):
        return [_plain(item) for item in value]
    if is_dict(value):
        return {key: _plain(item) for key, item in value.items()}
    return value


# Meshes and shardings


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshRecord(Record):
    """Devices arranged along named axes. Lists over devices are in row-major mesh order."""

    axis_names: list[str]
    axis_sizes: list[int]
    axis_types: list[Literal["auto", "explicit", "manual"]]
    device_ids: list[int]
    """Empty for an abstract mesh, whose devices are numbered by position."""
    process_indices: list[int]
    """Process that owns each device; empty for an abstract mesh."""
    device_coordinates: list[list[int]]
    """Coordinates of each device in the hardware's network; empty if unknown."""
    platform: str
    device_kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecRecord(Record):
    """How a value of some type is partitioned over a mesh."""

    text: str
    """The spec in the user's notation, for example `P('data', None)`."""
    mesh: int
    """Index into the list of meshes next to it; -1 if there isn't a mesh (one device)."""
    dim_axes: list[list[str]]
    """The mesh axes that partition each dimension, major axis first."""
    unreduced_axes: list[str]
    """Mesh axes over which the value is unreduced: each device holds a summand of it."""
    memory_kind: str | None


# Programs


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeRecord(Record):
    """A type of values, stored once for all values that have it."""

    text: str
    """The type in the notation of printed programs, for example `f32[8,128]`."""
    dtype: str
    """Empty for types that aren't arrays, such as tokens."""
    shape: list[int | str] | None
    """A symbolic dimension is represented by its text; None for types that aren't arrays."""
    weak_type: bool
    bytes: int | None
    """Number of bytes of the whole array; None with symbolic dimensions or if the width isn't fixed."""
    sharding: int
    """Index into `ProgramRecord.shardings`; -1 if unknown."""
    memory_space: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRecord(Record):
    """A file or notebook cell that contains the user's lines of equations."""

    name: str
    """The displayed name: `In[4]`, or the path from the current folder, or the file name of one outside."""
    path: str
    cell_id: str | None
    """Id of the notebook cell, if the front end sends ids."""
    execution_count: int | None
    """The cell's number in the order of execution, as in `In[4]`, from its last execution."""
    first_line: int
    """Line number of the first entry of `lines`, from 1."""
    lines: list[str] | None
    """The text of the lines; None if it wasn't requested or can't be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanColumns(Record):
    """Spans of the user's source. Lines are counted from 1, columns from 0."""

    source: list[int]
    """Index into `ProgramRecord.sources`."""
    line: list[int]
    end_line: list[int]
    column: list[int]
    end_column: list[int]
    function: list[int]
    """Index into `strings`: the Python function that contains the span."""
    variable: list[int]
    """Index into `strings`: the variable that the statement assigns; 0 if there is none."""
    caller: list[int]
    """Index of the span of the call that led here; -1 for the user's outermost frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeColumns(Record):
    """The tree of named scopes. Parents come before their children."""

    name: list[int]
    parent: list[int]
    """Index of the parent scope; -1 for an outermost scope."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueColumns(Record):
    """The variables of a program: inputs, constants and results of equations."""

    name: list[int]
    """Index into `strings`: the name in the printed program."""
    user_name: list[int]
    """Index into `strings`: the user's name; 0 if unknown."""
    type: list[int]
    """Index into `ProgramRecord.types`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteralColumns(Record):
    """Constants that are written into the text of the program."""

    text: list[int]
    type: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class EquationColumns(Record):
    """Equations, grouped by body, in program order within each body."""

    id: list[int]
    """Stable id: unique in this record, and the same in every record of the program."""
    primitive: list[int]
    """Index into `strings`: name of the primitive or operation."""
    scope: list[int]
    """Index into `ProgramRecord.scopes`; -1 for equations outside of all scopes."""
    span: list[int]
    """Index into `ProgramRecord.spans`; -1 if the source is unknown."""
    effects: list[int]
    """Index into `strings`: the equation's effects; 0 if there are none."""
    operand_counts: list[int]
    operands: list[int]
    """Index of a value, or -1 - i for literal i. Includes values that a body captures from outside."""
    result_counts: list[int]
    results: list[int]
    """Indices of values."""
    param_counts: list[int]
    param_names: list[int]
    """Index into `strings`. Params that contain programs are in `bodies` instead."""
    param_texts: list[int]
    """Index into `strings`: a short text of the param's value."""
    body_counts: list[int]
    bodies: list[int]
    """Indices into `ProgramRecord.bodies`. Several equations may run the same body."""
    body_roles: list[int]
    """Index into `strings`: the param that contains the body, for example `cond_jaxpr` or `branches[1]`."""
    body_trips: list[int | None]
    """Number of runs of the body per run of the equation: 0 if only transformations use it; None if unknown."""
    transformation: list[int]
    """Index into `strings`: the transformation that made this equation from others; 0 for equations of the user's code."""
    origin_counts: list[int]
    origins: list[int]
    """Stable ids of the equations from which it was made, which may be in another program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyRecord(Record):
    """A program, or a program within another: its inputs, equations and outputs."""

    name: str
    first_equation: int
    equation_count: int
    constants: list[int]
    """Values that the body captures from outside."""
    inputs: list[int]
    outputs: list[int]
    """Index of a value, or -1 - i for literal i."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostColumn(Record):
    """One quantity, such as FLOPs, of one run of each equation, including the programs that it runs."""

    name: str
    """All views know `flops`, `transcendentals` and `bytes`; other names are displayed as they are."""
    unit: str
    """`flop`, `op`, `B`, `us`, or empty for a number without unit."""
    basis: Literal["estimate", "compiler", "measured"]
    values: list[float | None]
    """None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingRecord(Record):
    """The text of a program as printed by its own printer."""

    text: str
    line_equations: list[int]
    """For each line of `text`, the index of its equation; -1 for lines without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRecord(ViewRecord):
    """A jaxpr, a StableHLO module, an optimized HLO module, a kernel in the dialect of Triton or of Mosaic for TPUs or GPUs, or its text in PTX, without equations."""

    key: str
    """Identifies this program in links and in other records."""
    name: str
    dialect: Literal["jaxpr", "stablehlo", "hlo", "triton", "ptx", "mosaic", "mosaic_gpu"]
    strings: list[str]
    types: list[TypeRecord]
    meshes: list[MeshRecord]
    shardings: list[SpecRecord]
    sources: list[SourceRecord]
    spans: SpanColumns
    scopes: ScopeColumns
    values: ValueColumns
    literals: LiteralColumns
    equations: EquationColumns
    kinds: dict[str, str]
    """The kind of each primitive or operation of the program: `contraction`, `movement`, `control`, …"""
    bodies: list[BodyRecord]
    """The first body is the program itself."""
    costs: list[CostColumn]
    listing: ListingRecord | None
    """None if views should format the text themselves, from the columns."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["program"] = "program"


# Several programs


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRecord(Record):
    """Corresponding equations of two programs, as pairs of stable ids."""

    source: str
    """Key of a program."""
    target: str
    relation: str
    """The step from source to target: `lower`, `compile`, `jvp`, `transpose`, `same`, …"""
    source_ids: list[int]
    target_ids: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LensRecord(ViewRecord):
    """One function at each stage, from the user's lines to the optimized program."""

    name: str
    programs: list[ProgramRecord]
    links: list[LinkRecord]
    notes: list[str] = field(default_factory=list[str])
    """For each program a sentence to show beside its title, empty for most: what a kernel needs of a device, or at the optimized program, why one isn't shown. May be shorter."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["lens"] = "lens"


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderRecord(ViewRecord):
    """One function after each of several transformations, or after each compiler pass."""

    name: str
    transformations: list[str]
    """For each program, the transformation or pass that made it; empty for the first."""
    sources: list[int]
    """For each program, the index of the one it was made from; -1 for the first."""
    programs: list[ProgramRecord]
    links: list[LinkRecord]
    schema_version: int = SCHEMA_VERSION
    kind: Literal["ladder"] = "ladder"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffRecord(ViewRecord):
    """Two programs to compare."""

    before: ProgramRecord
    after: ProgramRecord
    matches: LinkRecord | None
    """Pairs of equations that are known to correspond; None if the view should match them."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["diff"] = "diff"


# Compiled programs


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledCostRecord(Record):
    """Estimated cost of one run of an executable on one device. Loops count with their iterations, conditionals as
    their most expensive branch.
    """

    flops: float | None
    transcendentals: float | None
    bytes_accessed: float | None
    is_least: bool = False
    """Whether it is a lower bound: loops of unknown length count once, and native code not at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledMemoryRecord(Record):
    """Memory of an executable on one device."""

    argument_bytes: int
    output_bytes: int
    alias_bytes: int
    """The part of the outputs that reuses buffers of donated arguments."""
    temporary_bytes: int
    code_bytes: int
    peak_bytes: int
    """Sum of arguments, results and temporaries; aliased bytes count once."""
    basis: Literal["estimate", "compiler", "measured"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LineShareRecord(Record):
    """The share of a kernel's work that belongs to one source line."""

    equation: int
    """Stable id, in the optimized program, of an equation of that line; -1 for the share that belongs to no line."""
    share: float
    """Estimated share of the kernel's work; the shares of a kernel add up to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRecord(Record):
    """One kernel or library call of an executable."""

    name: str
    category: Literal["fusion", "library", "custom", "copy", "collective", "other"]
    hlo_equation: int
    """Stable id in the optimized program; -1 if unknown."""
    equations: list[int]
    """Stable ids of the user's equations that it computes."""
    flops: float | None
    """Total over all executions in one run of the executable."""
    bytes_accessed: float | None
    """Total over all executions in one run of the executable."""
    executions: int | None = 1
    """Number of executions in one run; None if unknown, in branches and loops of unknown length, which count as one."""
    lines: list[LineShareRecord] = field(default_factory=list[LineShareRecord])
    """The source lines that it computes, for fusions and if `hlo_equation` has none; empty if no line is known."""
    is_line_inferred: bool = False
    """Whether its line is unknown and taken from neighbouring kernels."""
    seconds: float | None = None
    """Total time of all its executions in one run on one device; None if it wasn't measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRecord(Record):
    """Duration of one phase between a Python call and its executable."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledRecord(ViewRecord):
    """One executable: its cost, memory and kernels."""

    key: str
    name: str
    fingerprint: str | None
    platform: str
    device_count: int
    cache: Literal["miss", "memory", "disk"]
    phases: list[PhaseRecord]
    cost: CompiledCostRecord
    memory: CompiledMemoryRecord
    kernels: list[KernelRecord]
    program: ProgramRecord | None
    schema_version: int = SCHEMA_VERSION
    kind: Literal["compiled"] = "compiled"


@dataclass(frozen=True, slots=True, kw_only=True)
class MissCauseRecord(Record):
    """One part of a cache key that differs from all earlier calls."""

    part: Literal[
        "shape",
        "dtype",
        "weak_type",
        "sharding",
        "tree",
        "static_argument",
        "function",
        "closure",
        "configuration",
        "donation",
        "device",
        "first_call",
    ]
    path: str
    """Path of the argument, for example `batch['x']`; empty if the cause isn't an argument."""
    before: str
    """Empty for a first call."""
    after: str
    advice: str
    """One concrete change that avoids the miss; empty if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MissRecord(ViewRecord):
    """Why a function was traced or compiled again."""

    function: str
    source: SourceRecord | None
    line: int | None
    cell: str | None
    """The cell that made the call."""
    entry_count: int
    """Number of entries in the function's cache, including this one."""
    seconds: float
    phases: list[PhaseRecord]
    causes: list[MissCauseRecord]
    count: int = 1
    """Number of misses whose seconds are added up; the other fields describe the last one."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["miss"] = "miss"


@dataclass(frozen=True, slots=True, kw_only=True)
class MissesRecord(ViewRecord):
    """The latest misses, oldest first."""

    misses: list[MissRecord]
    is_note: bool = False
    """Whether the kernel sent it after a cell, to list the functions that the cell compiled again, one record for each."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["misses"] = "misses"


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionEntryRecord(Record):
    """One program in the cache of a jitted function."""

    id: int
    """Identifies the program while it is in the cache."""
    arguments: list[str]
    """Path and type of each argument, in order, for example `params['w']: f32[8]`; for a static argument its value."""
    equation_count: int
    executable_count: int
    """Number of argument placements for which it is compiled; 0 if it is only traced."""
    miss: MissRecord | None
    """Why it was traced, and how long tracing and compiling took; None for a program taken over from another function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionRecord(ViewRecord):
    """One live jitted function, with its cache."""

    id: int
    name: str
    source: SourceRecord | None
    """The file or cell that defines it, without the text of its lines."""
    line: int | None
    entries: list[FunctionEntryRecord]
    """Oldest first."""
    signature: str = ""
    """Its parameters with defaults, and which are static or donated: `(x, n=2), static n, donated x`."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["function"] = "function"


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionsRecord(Record):
    """The user's jitted functions, most recently traced first."""

    functions: list[FunctionRecord]
    schema_version: int = SCHEMA_VERSION
    kind: Literal["functions"] = "functions"


# Errors


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorFrameRecord(Record):
    """One of the user's frames that led to an error."""

    source: SourceRecord
    """Includes some lines around the current one."""
    line: int
    end_line: int
    column: int
    end_column: int
    """Columns are counted from 0; both are -1 if unknown."""
    function: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceRecord(Record):
    """A difference between two trees, or between the types of their leaves."""

    path: str
    left_title: str
    """Label of the left side, for example `got`."""
    left: str
    right_title: str
    right: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRecord(ViewRecord):
    """An error of core in its four parts, with only the user's frames."""

    name: str
    what: str
    got: list[str]
    """One line for each argument: its path, then its type."""
    differences: list[DifferenceRecord]
    """The lines of `got` that compare two sides of a path, in parts."""
    where: str | None
    do: str | None
    page: str | None
    """URL of the documentation of the error class; None for errors that aren't pellucid's."""
    frames: list[ErrorFrameRecord]
    """Outermost first, as in Python's tracebacks."""
    traceback: str
    """The whole traceback as Python prints it."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["error"] = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRecord(Record):
    """An event of core, such as a cache look-up or a compilation."""

    event: Literal["trace", "pass", "lookup", "compilation", "transfer", "callback", "leak"]
    name: str
    """Name of the function or pass, or direction of a transfer."""
    time_us: int
    """Time of its end, on the process's monotonic clock."""
    thread: int
    seconds: float | None
    bytes: int | None
    """Number of transferred bytes."""
    cache: Literal["hit", "miss", "disk"] | None
    """For a cache look-up or a compilation: where the program was found."""
    miss: MissRecord | None
    """For a cache miss: its cause."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["event"] = "event"


# Values on devices


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMemoryRecord(Record):
    """Memory of one device at one time."""

    device_id: int
    process_index: int
    platform: str
    device_kind: str
    in_use_bytes: int
    """From the allocator if it reports usage, else the sum over live arrays."""
    peak_bytes: int | None
    limit_bytes: int | None
    basis: Literal["estimate", "compiler", "measured"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveArrayRecord(Record):
    """An array that occupies device memory."""

    id: int
    type: str
    sharding: str
    device_ids: list[int]
    bytes_per_device: int
    """Bytes of its largest shard."""
    total_bytes: int
    owners: list[str]
    """Variables that hold it, with the path, for example `params['layer3'].w`."""
    holders: list[str]
    """Holders other than variables, for example `sys.last_traceback`."""
    source: str | None
    """Cell or file that created it."""
    line: int | None
    age_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayPartColumns(Record):
    """The distinct parts of a sharded array."""

    device: list[int]
    """Id of one of the devices that hold the part."""
    index: list[str]
    """The part's index range in the array: `0:2, 0:8`."""
    low: list[float | None]
    """Smallest finite element of each part."""
    high: list[float | None]
    nan_count: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayValuesRecord(ViewRecord):
    """A summary of an array's values."""

    type: str
    dtype: str
    shape: list[int]
    is_absolute: bool
    """Whether the figures are those of absolute values, as for complex arrays."""
    nan_count: int
    infinite_count: int
    zero_count: int
    low: float | None
    """The smallest finite element."""
    high: float | None
    mean: float | None
    """Mean of the finite elements."""
    bins: list[int]
    """Histogram: number of sampled elements in each of several equal intervals."""
    sample_count: int
    """Number of sampled elements; the array's size if all are counted."""
    index: list[int]
    """Indices along all but the last two dimensions, at which `cells` are taken."""
    steps: list[int]
    """Strides along the last two dimensions at which `cells` are taken."""
    cells: list[list[float | None]]
    """Means of the finite elements of blocks along the last two dimensions, by row; None for blocks without any."""
    parts: ArrayPartColumns
    numbers: str
    """The array as Python prints it; the middle of a large array is left out."""
    note: str
    """Why there are no values; empty if there are."""
    array: str = ""
    """Key under which the kernel finds the array while it is alive; empty if there is none."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["array_values"] = "array_values"
    bin_width: int | None = None
    """Width, in integers, of each bin, counted from `low`; None if bins divide the range evenly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRecord(ViewRecord):
    """Devices and the arrays in their memory."""

    devices: list[DeviceMemoryRecord]
    arrays: list[LiveArrayRecord]
    schema_version: int = SCHEMA_VERSION
    kind: Literal["memory"] = "memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardingRecord(ViewRecord):
    """The partition of one array over devices."""

    name: str
    """The user's name for the array; empty if unknown."""
    type: str
    """`mesh` for a mesh itself, whose devices are the parts; empty for a sharding without a shape."""
    dtype: str
    shape: list[int]
    item_bytes: float
    """Bytes per element; less than 1 for types smaller than a byte."""
    mesh: MeshRecord
    spec: SpecRecord
    """`spec.mesh` is 0."""
    tile_starts: list[int]
    """Index of the first element along each dimension, for each distinct part in turn."""
    tile_stops: list[int]
    device_tiles: list[int]
    """For each device, in mesh order, the index of its part; -1 for none."""
    array: str = ""
    """Same as `ArrayValuesRecord.array`."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["sharding"] = "sharding"


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginRecord(Record):
    """A place where the program specifies a sharding."""

    text: str
    """`argument x`, `in_shardings of x`, `with_sharding_constraint`, `out_shardings of result 0`, …"""
    value: int
    """Number of the value to which it applies; -1 if it isn't a value of the program."""
    equation: int
    """Index of the equation that specifies it; -1 for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteColumns(Record):
    """Sites at which bodies run: first the whole program, then each body at each equation that runs it, in any nesting.

    Values are numbered anew at each site, in the order constants, inputs, results of equations, which is also their order
    among the values of the program's record. The numbers of one site follow those of the site before.
    """

    body: list[int]
    """Index of the body that runs at the site."""
    parent: list[int]
    """Index of the site that contains its equation, which comes earlier; -1 for the whole program."""
    equation: list[int]
    """Index of the equation that runs the body; -1 for the whole program."""
    manual_axes: list[list[str]]
    """Manual mesh axes, along which each device computes on its own part, according to types."""
    mesh: list[int]
    """Index of the mesh that has these axes; the program's own mesh if there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutColumns(Record):
    """The sharding of each value at each site, by the value's number."""

    sharding: list[int]
    """Index into `FunctionShardingRecord.shardings`; -1 if unknown."""
    device_bytes: list[int]
    """Bytes of the value's part on one device."""
    count: list[int]
    """Number of shardings of the value: more than 1 for a constant that is recreated for each use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyColumns(Record):
    """Where each value's mesh axes came from. A chain continues at `value` with the same axis, and ends at an origin."""

    counts: list[int]
    """For each value at a site, by its number, how many entries belong to it: one per axis."""
    axis: list[int]
    """Index into `FunctionShardingRecord.axes`."""
    value: list[int]
    """Number of the value from which the axis was propagated; -1 at the end of the chain."""
    dimension: list[int]
    """The dimension of that value which the axis partitions; -1 for none."""
    equation: list[int]
    """Index of the equation that propagated it; -1 for none."""
    origin: list[int]
    """Index into `FunctionShardingRecord.origins`, at the end of the chain; -1 if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveRecord(Record):
    """One collective operation between devices."""

    operation: str
    """`all-gather`, `all-reduce`, `reduce-scatter`, `all-to-all`, `collective-permute`, …

    `reshard` is a change to another mesh; only the partitioner knows the collectives that implement it.
    """
    axes: list[str]
    """Mesh axes along which devices communicate; `x:(2)4` is a part of the axis `x`. Empty if unknown."""
    mesh: int
    """Index of the mesh that has the axes."""
    group_count: int
    group_size: int
    bytes_per_device: int
    """Bytes that one device sends per run of the equation, with ring algorithms."""
    runs: int | None
    """Number of runs of the equation per run of the program; None if unknown."""
    equation: int
    """Index of the equation that caused it; -1 if unknown."""
    site: int
    """Index of that equation's site; the first of several that can't be distinguished; -1 if unknown."""
    reason: Literal["written", "contraction", "reshard", "full_replication", "unknown"]
    note: str
    """The purpose of the collective, in one clause; empty if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnevenCutRecord(Record):
    """A constraint that asks for more parts along a dimension than it can be cut into evenly."""

    equation: int
    """Index of the constraint."""
    site: int
    device_bytes: int
    """Bytes of a part on each device if all dimensions that are cut unevenly were padded."""
    whole_bytes: int
    """Bytes that each device holds where the value is a result, which isn't cut then."""
    padded: int
    """The next size that can be cut evenly."""
    note: str
    """In words, with what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionShardingRecord(ViewRecord):
    """The sharding of every intermediate of a function, its cause, and the cost of the communication."""

    name: str
    program: ProgramRecord
    meshes: list[MeshRecord]
    """The program's own mesh first, then other meshes of the same devices that some of its values have."""
    sites: SiteColumns
    shardings: list[SpecRecord]
    """The field `mesh` of each is an index into `meshes`."""
    layouts: LayoutColumns
    axes: list[str]
    """Mesh axes, and parts of them, that partition some value."""
    why: WhyColumns
    origins: list[OriginRecord]
    planned: list[CollectiveRecord]
    """Collectives that Shardy inserts, with their reasons."""
    collectives: list[CollectiveRecord]
    """Collectives of the optimized program; the planned ones if it can't be compiled."""
    differences: list[str]
    """The kinds of collectives in which the two lists differ."""
    device_peak_bytes: list[int]
    """Peak memory of each device, in mesh order; empty if unknown."""
    basis: Literal["estimate", "compiler", "measured"]
    """Source of `collectives` and `device_peak_bytes`: the compiled program, or an estimate."""
    not_compiled: str
    """Why there is only an estimate; empty if the program was compiled."""
    uneven: list[UnevenCutRecord]
    """Constraints that can't be met evenly."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["function_sharding"] = "function_sharding"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRecord(Record):
    """One placement of a function's arguments over a mesh, with estimated costs of a run."""

    axis_names: list[str]
    axis_sizes: list[int]
    dim_axes: list[list[list[str]]]
    """The mesh axes, major first, that partition each dimension of each of `WhatIfRecord.arguments`."""
    argument_bytes: int
    """Bytes of the arguments on one device; exact."""
    peak_bytes: int
    """Peak memory on one device, estimated from lifetimes of values; fusion makes it smaller."""
    sent_bytes: int
    """Bytes that one device sends per run, with ring algorithms."""
    exchange_count: int
    """Number of collectives per run; those in loops count for each iteration."""
    compute_seconds: float
    """Time of arithmetic and memory traffic on one device, by the roofline of its kind."""
    exchange_seconds: float
    """Time of the collectives, by the bandwidth of the links that their axes span."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedArgumentRecord(Record):
    """Arguments of one type and placement, whose paths differ only in indices."""

    name: str
    """Path with `*` for the indices that differ, for example `params['layers'][*]['up']`."""
    count: int
    type: str
    dim_sizes: list[int]
    device_bytes: int
    """Total bytes of these arguments on one device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeCostRecord(Record):
    """The collectives of one kind, along the same axes, that one source line causes."""

    operation: str
    axes: list[str]
    reason: Literal["written", "contraction", "reshard", "full_replication", "unknown"]
    count: int
    """Number of collectives per run; those in loops count for each iteration."""
    sent_bytes: int
    """Bytes that one device sends for them per run."""
    seconds: float
    source: SourceRecord | None
    """File or cell of the line; None if unknown."""
    line: int
    primitive: str
    """Name of the first operation that causes them; empty if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfRecord(ViewRecord):
    """Estimates for a function's arguments placed on a mesh that needn't exist, next to their current placement. Only
    the bytes of arguments are exact.
    """

    name: str
    device_kind: str
    """Kind of device whose speed the times assume."""
    memory_limit_bytes: int
    """Memory per device that the search allows."""
    arguments: list[PlacedArgumentRecord]
    """The arguments, with the placement in `placement`."""
    today: PlacementRecord
    placement: PlacementRecord
    exchanges: list[ExchangeCostRecord]
    """The collectives of `placement`, those that take longest first."""
    best: list[PlacementRecord]
    """The fastest placements that a search found, best first; empty without a search."""
    examined_count: int
    """Number of placements that the search estimated."""
    excluded_count: int
    """Number of placements whose arguments alone exceed the limit, or that don't divide dimensions evenly."""
    remaining_count: int
    """Number of placements that the search had no time for."""
    remarks: list[str]
    """Sentences about what the estimates leave out."""
    refusal: str
    """Why the last requested placement is impossible; empty if it is the one shown."""
    figure: str = ""
    """Key under which the kernel finds the figure, to estimate other placements; empty if there is none."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["what_if"] = "what_if"


# Grids of kernels


@dataclass(frozen=True, slots=True, kw_only=True)
class GridNumberRecord(Record):
    """An integer for each program of a grid, in the shortest form; exact if `step` is 1.

    Without `values`, it is `offset` plus the sum of `coefficients` times the program's position. With `values`, it is
    the entry at the position along `axes`, in row-major order; without `axes`, `values` has an entry for every
    `step`-th program.
    """

    offset: int
    coefficients: list[int]
    axes: list[int]
    values: list[int]
    step: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GridDimensionRecord(Record):
    """A dimension of an operand, with the positions of the programs' blocks along it."""

    size: int
    """Size of the array along the dimension."""
    block: int
    """Size of a block along the dimension."""
    rule: Literal["blocked", "squeezed", "element", "bounded", "accessed"]
    """Kind of block in the block spec; `accessed` if the spec selects the whole array and the body accesses a part of
    it.
    """
    start: GridNumberRecord
    """Index of the first element, which may be negative."""
    length: GridNumberRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class GridRasterRecord(Record):
    """Counts over regions of an operand, as a matrix: all dimensions but the last are flattened into rows."""

    row_edges: list[int]
    """First row of each cell, then the total number of rows."""
    column_edges: list[int]
    visits: list[int]
    """For each cell, in row-major order, the largest number of programs that access one of its elements."""
    moves: list[int]
    """For each cell, in row-major order, the largest number of transfers of one of its elements."""
    marks: list[int]
    """Flags of each cell: 1 if no program accesses some element, plus 2 if parallel programs write the same element."""
    is_exact: bool
    """Whether no block boundary lies within a cell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GridOperandRecord(Record):
    """An input or result of a kernel, and its programs' accesses to it."""

    name: str
    spec: str
    """Its block spec, for example `in_specs[0]`."""
    role: Literal["input", "result"]
    type: str
    dims: list[GridDimensionRecord]
    activity: GridNumberRecord
    """For each program: 1 if it reads the operand, 2 if it writes it, 3 for both, 0 for neither."""
    is_read: bool
    is_written: bool
    aliased: str
    """Name of the input whose buffer a result reuses; empty if it starts uninitialized."""
    block_bytes: int
    block_count: int
    """Number of distinct blocks that programs access."""
    fetch_count: int
    """Number of block transfers; a block isn't transferred again while it stays the same."""
    write_count: int
    moved_bytes: int
    least_bytes: int | None
    """Bytes of all accessed elements, each transferred once in each direction; None if unknown."""
    beyond_share: float
    """Share of the elements of all programs' blocks that lie outside of the array."""
    masked_share: float | None
    """Share of elements of loads and stores that masks disable; None without loads and stores."""
    is_masked_exactly: bool
    """Whether all branches and masks depend only on the position; otherwise data-dependent accesses count as made."""
    unseen_elements: int | None
    """For a result: number of elements that no program accesses and that stay uninitialized; None if unknown."""
    shared_elements: int | None
    """For a result: number of elements that several parallel programs write; None if unknown."""
    outside_count: int
    """Number of programs whose block lies entirely outside of the array."""
    raster: GridRasterRecord | None
    source: SourceRecord | None
    line: int
    """Line of the block spec."""
    note: str
    """Why nothing is known about its blocks; empty if it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GridCellColumns(Record):
    """Programs as a matrix of cells: program `p` is in cell (`p` // `width` // `row_step`, `p` % `width` //
    `column_step`).
    """

    rows: int
    columns: int
    width: int
    row_step: int
    column_step: int
    programs: list[int]
    """For each cell, in row-major order, the number of its programs."""
    moved_bytes: list[int]
    """Total bytes that the cell's programs transfer."""
    idle: list[int]
    """Number of the cell's idle programs."""
    marks: list[int]
    """Flags of each cell: 2 if programs write elements that parallel ones write, plus 4 for blocks outside of arrays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GridKernelRecord(Record):
    """A kernel over a grid: the blocks that each program accesses, and their cost."""

    name: str
    grid: list[int]
    """Empty if sizes are known only at run time, as `note` says."""
    parallel_axes: list[int]
    program_count: int
    operands: list[GridOperandRecord]
    cells: GridCellColumns | None
    """None if nothing is known about any block."""
    flops: float | None
    """Estimated total of all programs, of which idle ones count as much as others; None if the grid's size is unknown."""
    transcendentals: float | None
    is_least: bool
    """Whether it is a lower bound, because loops of unknown length count once."""
    stated_flops: float | None
    """The FLOPs of the user's `cost_estimate`; None without one."""
    stated_bytes: float | None
    moved_bytes: int
    least_bytes: int | None
    idle_count: int
    """Number of programs that write nothing."""
    sharing_count: int
    """Number of programs that write elements that parallel programs write."""
    outside_count: int
    refusal: str
    """Why the kernel was rejected; empty if it wasn't."""
    note: str
    """A remark on the figures."""
    source: SourceRecord | None
    line: int
    """Line of the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelGridsRecord(ViewRecord):
    """The kernels that a function calls, in program order."""

    name: str
    kernels: list[GridKernelRecord]
    hidden_count: int
    """Number of kernels that are left out."""
    program: int = -1
    """Number of the program that is selected first in the first kernel; -1 for the first one."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["kernel_grids"] = "kernel_grids"


# Runs of kernels in the simulator


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedLineRecord(Record):
    """A line of the user's in a simulated kernel."""

    source: SourceRecord | None
    """None for what belongs to no line of the user's."""
    line: int
    text: str
    """File or cell, number and code in one line of text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedCoreRecord(Record):
    """What a core of a simulated device did, in steps of simulated time."""

    device: int
    core: int
    compute_steps: float
    wait_steps: float
    copy_steps: float
    """Time in which at least one copy that it has started is in flight."""
    hidden_steps: float
    """The part of `copy_steps` in which it computes: double buffering makes it large."""
    end: float
    """When its last program ended."""
    first_lane: int
    """Index of its own lane among all lanes."""
    lane_count: int
    """One lane for the core, then lanes for its copies: as many as are in flight at once, up to four."""
    stuck: str
    """What it waits for forever; empty if it came to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedEventColumns(Record):
    """What cores and copies did, in the order of lanes, then of time. Entries of `count` > 1 stand for several that lie close together."""

    lane: list[int]
    kind_index: list[int]
    """Index into `SIMULATED_KINDS`."""
    begin: list[float]
    end: list[float]
    line: list[int]
    """Index into `SimulatedKernelRecord.lines`."""
    label: list[int]
    """Index into `SimulatedKernelRecord.strings`: the semaphore of a wait or signal, the buffers of a copy."""
    program: list[int]
    """Index into `strings`: the position in the grid."""
    n_bytes: list[int]
    """Bytes of copies."""
    count: list[int]
    busy: list[float]
    """Steps of all that the entry stands for; less than its length if there are gaps."""


SIMULATED_KINDS = (
    "compute", "wait", "stuck", "signal", "fault", "in", "out", "within", "send", "in flight",
)  # fmt: skip
"""Kinds of events: a core computes, waits, waits forever, signals, fails; copies into fast memory, out of it, within one kind of memory,
to another device; and copies that hadn't ended when the run failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedWaitRecord(Record):
    """A line at which cores waited."""

    line: int
    """Index into `SimulatedKernelRecord.lines`."""
    what: str
    """What they waited for."""
    steps: float
    """Of all cores together."""
    count: int
    core_count: int
    share: float
    """Share of the time of all cores from the beginning to the end of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedKernelRecord(Record):
    """A run of a kernel in the simulator: what each core and each copy did when."""

    name: str
    device_count: int
    steps: float
    """When the last core or copy ended: 1024 bytes copied, or elements computed, are one step, and a copy takes one more."""
    strings: list[str]
    lines: list[SimulatedLineRecord]
    cores: list[SimulatedCoreRecord]
    events: SimulatedEventColumns
    kinds: list[str]
    """Names of the kinds of events."""
    event_count: int
    """Number of events before those that lie close together were joined."""
    waits: list[SimulatedWaitRecord]
    """The lines with the longest waits, the longest first."""
    copied_bytes: int
    sent_bytes: int
    """Bytes of copies to other devices."""
    fault: str
    """The error that ended the run; empty without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTimelinesRecord(ViewRecord):
    """The kernels that ran in the simulator, in the order of their calls."""

    name: str
    kernels: list[SimulatedKernelRecord]
    hidden_count: int
    """Number of runs that are left out."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["kernel_timelines"] = "kernel_timelines"


# Fast memory of kernels on TPUs


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelMemoryPartRecord(Record):
    """What a kernel holds in a fast memory: the buffers of an array's blocks, scratch, or what threads exchange elements in."""

    name: str
    role: Literal["block", "scratch", "scalars", "exchange"]
    type: str
    """Type of one buffer."""
    space: Literal["vmem", "smem", "shared", "registers"]
    """A memory of a TPU, or of a block of threads on a GPU."""
    buffer_count: int
    bytes: int
    """Bytes of all buffers, in whole tiles, or with what lies unused in front of them."""
    needed_bytes: int
    """Those without what tiles have beyond the edges of a block."""
    source: SourceRecord | None
    line: int
    text: str
    """File or cell, number and code of the line; empty if it is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipRecord(Record):
    """A TPU and the sizes of the fast memories of one of its cores."""

    name: str
    vmem_bytes: int
    smem_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMemoryRecord(Record):
    """A GPU, what a block of threads may have there, and what the compiler says of a kernel."""

    name: str
    shared_bytes: int
    register_bytes: int
    compiled: str
    """Registers, spills and occupancy, or why they aren't known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelMemoryRecord(Record):
    """What a kernel holds in the fast memories of a TPU, or of a block of threads of a GPU."""

    name: str
    gpu: GpuMemoryRecord | None
    """The GPU that a kernel is for; None for TPUs."""
    parts: list[KernelMemoryPartRecord]
    limit_bytes: int | None
    """`vmem_limit_bytes` of its compiler parameters; None without them."""
    refusal: str
    """Why it can't be lowered to TPUs, whatever the chip, or to the GPU; empty if it can."""
    source: SourceRecord | None
    line: int
    """Line of the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelMemoriesRecord(ViewRecord):
    """The kernels that a function calls, with what they hold in the fast memories of TPUs."""

    name: str
    kernels: list[KernelMemoryRecord]
    chips: list[ChipRecord]
    chip: str
    """Name of the chip that is shown first."""
    hidden_count: int
    """Number of kernels that are left out."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["kernel_memories"] = "kernel_memories"
