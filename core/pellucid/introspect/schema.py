"""Records that tools receive from core: plain data with a version, JSON all the way down.

A record holds the types of JSON and other records. Ids are integers below 2**53; NaN and infinity are absent. Sizes
carry their unit in the name. TypeScript types are generated from this file.

A program can have 100,000 equations, so its tables are stored by column: entry `i` of every list of `EquationColumns`
describes equation `i`. Texts are indices into `ProgramRecord.strings`, whose entry 0 is the empty text and means
"none". A column of lists is stored flat: `operand_counts[i]` entries of `operands` belong to equation `i`, in order.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal

from pellucid._machine.base.narrowing import is_dict, is_list

SCHEMA_VERSION = 1
"""Rises when a field is renamed or removed; readers accept the last two versions."""


class Record:
    """Base of all records."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """This record as dictionaries and lists, ready for `json.dumps`.

        Lists of plain data are shared with the record, not copied: columns can be long.

        >>> PhaseRecord(name="trace", seconds=0.25).to_dict()
        {'name': 'trace', 'seconds': 0.25}
        """
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]


class ViewRecord(Record):
    """Base of the records that are shown by themselves, each kind by a view of its own. The front end's list of them is generated."""

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
    """Position of each device in the machine's own network; empty where it is not known."""
    platform: str
    device_kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecRecord(Record):
    """How one type is laid over a mesh."""

    text: str
    """As the user would write it, for example `P('data', None)`."""
    mesh: int
    """Index into the list of meshes beside it; -1 where there is no mesh (one device)."""
    dim_axes: list[list[str]]
    """For each dimension the mesh axes that divide it, the major one first."""
    unreduced_axes: list[str]
    """Axes along which devices hold summands that are not added up yet."""
    memory_kind: str | None


# Programs


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeRecord(Record):
    """Type of values; many values share one."""

    text: str
    """As programs print it, for example `f32[8,128]`."""
    dtype: str
    """Empty for what is no array, such as a token."""
    shape: list[int | str] | None
    """A symbolic dimension is its text; None for what is no array."""
    weak_type: bool
    bytes: int | None
    """Bytes of the whole array; None with symbolic dimensions or without a fixed width."""
    sharding: int
    """Index into `ProgramRecord.shardings`; -1 where none is known."""
    memory_space: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRecord(Record):
    """A file or a notebook cell that equations come from."""

    name: str
    """Name for the user: `In[4]`, or the shortest path."""
    path: str
    cell_id: str | None
    """Id of the notebook cell, where the front end sent one."""
    execution_count: int | None
    """How many cells had run with this one, when the cell last ran."""
    first_line: int
    """Number of the first entry of `lines`, counted from 1."""
    lines: list[str] | None
    """Text of the lines; None where the record was asked to leave it out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanColumns(Record):
    """Places in the user's source. Lines count from 1, columns from 0."""

    source: list[int]
    """Index into `ProgramRecord.sources`."""
    line: list[int]
    end_line: list[int]
    column: list[int]
    end_column: list[int]
    function: list[int]
    """Text: the Python function that holds the span."""
    variable: list[int]
    """Text: the variable that the statement assigns; 0 where there is none."""
    caller: list[int]
    """Span of the call that led here; -1 at the outermost frame of the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeColumns(Record):
    """Tree of named scopes. A parent comes before its children."""

    name: list[int]
    parent: list[int]
    """-1 for an outermost scope."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueColumns(Record):
    """Variables of a program: inputs, constants and results of equations."""

    name: list[int]
    """Text: the name in the printed program."""
    user_name: list[int]
    """Text: the user's name for it; 0 where none is known."""
    type: list[int]
    """Index into `ProgramRecord.types`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteralColumns(Record):
    """Constants written into the program text."""

    text: list[int]
    type: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class EquationColumns(Record):
    """Equations, body after body: those of one body are neighbours, in program order."""

    id: list[int]
    """Stable id, the same in every record of the same program, unique in this one."""
    primitive: list[int]
    """Text: name of the primitive or of the operation."""
    scope: list[int]
    """Index into `ProgramRecord.scopes`; -1 outside every scope."""
    span: list[int]
    """Index into `ProgramRecord.spans`; -1 where the source is not known."""
    effects: list[int]
    """Text: effects of the equation; 0 without any."""
    operand_counts: list[int]
    operands: list[int]
    """A value's index, or -1 - i for literal i. Values that a body captures from outside are among them."""
    result_counts: list[int]
    results: list[int]
    """Indices of values."""
    param_counts: list[int]
    param_names: list[int]
    """Text. Params that hold programs are in `bodies` and are absent here."""
    param_texts: list[int]
    """Text of the param's value, short."""
    body_counts: list[int]
    bodies: list[int]
    """Indices into `ProgramRecord.bodies`. Several equations may run one body."""
    body_roles: list[int]
    """Text: the param that holds the body, for example `cond_jaxpr` or `branches[1]`."""
    body_trips: list[int | None]
    """How often one run of the equation runs the body: 0 if it serves transformations alone; None where nobody can know."""
    transformation: list[int]
    """Text: the transformation that made this equation from others; 0 for the user's own."""
    origin_counts: list[int]
    origins: list[int]
    """Stable ids of the equations it was made from, which may lie in another program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyRecord(Record):
    """A program or a program within a program: inputs, equations, outputs."""

    name: str
    first_equation: int
    equation_count: int
    constants: list[int]
    """Values bound outside the body's inputs."""
    inputs: list[int]
    outputs: list[int]
    """A value's index, or -1 - i for literal i."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostColumn(Record):
    """One quantity for each equation, for one run of it with everything inside."""

    name: str
    """`flops`, `transcendentals` and `bytes` are known to all views; others are shown as named."""
    unit: str
    """`flop`, `op`, `B`, `us`, or empty for a plain number."""
    basis: Literal["estimate", "compiler", "measured"]
    values: list[float | None]
    """None where nobody knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingRecord(Record):
    """Text of a program as its own printer writes it."""

    text: str
    line_equations: list[int]
    """For each line of `text` the index of its equation; -1 for a line without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRecord(ViewRecord):
    """A jaxpr, a StableHLO module or an optimized HLO module."""

    key: str
    """Names this program in links and in other records."""
    name: str
    dialect: Literal["jaxpr", "stablehlo", "hlo"]
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
    """Kind of work of each primitive or operation that occurs: `contraction`, `movement`, `control`, …"""
    bodies: list[BodyRecord]
    """The first is the program itself."""
    costs: list[CostColumn]
    listing: ListingRecord | None
    """None where views should write the text themselves, from the columns."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["program"] = "program"


# Several programs


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRecord(Record):
    """Which equations of two programs belong together, as pairs of stable ids."""

    source: str
    """Key of a program."""
    target: str
    relation: str
    """The step from source to target: `lower`, `compile`, `jvp`, `transpose`, `same`, …"""
    source_ids: list[int]
    target_ids: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LensRecord(ViewRecord):
    """One function at its stages, from the user's lines to the optimized program."""

    name: str
    programs: list[ProgramRecord]
    links: list[LinkRecord]
    schema_version: int = SCHEMA_VERSION
    kind: Literal["lens"] = "lens"


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderRecord(ViewRecord):
    """One function after each of several transformations, or after each of the compiler's passes."""

    name: str
    transformations: list[str]
    """For each program what made it; empty for the first."""
    sources: list[int]
    """For each program the one that it was made from; -1 for the first."""
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
    """Equations known to correspond; None leaves the matching to the view."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["diff"] = "diff"


# What was compiled


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledCostRecord(Record):
    """Estimated cost of one run of an executable on one device: loops count as often as they run, of branches the dearest."""

    flops: float | None
    transcendentals: float | None
    bytes_accessed: float | None
    is_least: bool = False
    """Whether the cost may be more: loops of unknown length count once, and native code nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledMemoryRecord(Record):
    """Memory of an executable on one device."""

    argument_bytes: int
    output_bytes: int
    alias_bytes: int
    """Part of the outputs that reuses donated arguments."""
    temporary_bytes: int
    code_bytes: int
    peak_bytes: int
    """Arguments, results and temporaries together, aliased bytes once."""
    basis: Literal["estimate", "compiler", "measured"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LineShareRecord(Record):
    """A part of a kernel, which belongs to one line."""

    equation: int
    """Stable id in the optimized program of an equation that has the line; -1 for what is no line's."""
    share: float
    """Estimated share of the kernel's work; the shares of a kernel add up to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRecord(Record):
    """One kernel or library call of an executable."""

    name: str
    category: Literal["fusion", "library", "custom", "copy", "collective", "other"]
    hlo_equation: int
    """Stable id in the optimized program; -1 where it is not known."""
    equations: list[int]
    """Stable ids of the user's equations that it computes."""
    flops: float | None
    """In one run of the executable, all executions together."""
    bytes_accessed: float | None
    """In one run of the executable, all executions together."""
    executions: int | None = 1
    """In one run; None where it isn't known, in branches and loops of unknown length: these count once."""
    lines: list[LineShareRecord] = field(default_factory=list[LineShareRecord])
    """The lines that it computes, if it is not on one itself; empty where no line is known."""
    is_line_inferred: bool = False
    """Whether the line is that of kernels beside it."""
    seconds: float | None = None
    """In one run of the executable on one device, all of its executions together; None where nobody measured it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRecord(Record):
    """Time of one step between a Python call and an executable."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledRecord(ViewRecord):
    """One executable: what it costs, what it holds, which kernels it runs."""

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
    """One part of a cache key that no earlier call had."""

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
    """Path of the argument, for example `batch['x']`; empty where the cause is no argument."""
    before: str
    """Empty for a first call."""
    after: str
    advice: str
    """One concrete change that avoids it; empty where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MissRecord(ViewRecord):
    """Why a function was traced or compiled again."""

    function: str
    source: SourceRecord | None
    line: int | None
    cell: str | None
    """The cell that made the call."""
    entry_count: int
    """Entries of the function's cache, this one included."""
    seconds: float
    phases: list[PhaseRecord]
    causes: list[MissCauseRecord]
    count: int = 1
    """Number of misses whose seconds are added up here; the rest of the record is of the last one."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["miss"] = "miss"


@dataclass(frozen=True, slots=True, kw_only=True)
class MissesRecord(ViewRecord):
    """The latest misses, oldest first."""

    misses: list[MissRecord]
    is_note: bool = False
    """Whether this is a kernel's note on the functions that a cell compiled again, one record for each."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["misses"] = "misses"


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionEntryRecord(Record):
    """One program in the cache of a jitted function."""

    id: int
    """Names the program as long as it is in the cache."""
    arguments: list[str]
    """Path and type of each argument, in order, for example `params['w']: f32[8]`; of a static argument its value."""
    equation_count: int
    executable_count: int
    """For how many placements it is compiled; 0 while it is only traced."""
    miss: MissRecord | None
    """Why it was made, and what it cost; None for one taken over from another function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionRecord(ViewRecord):
    """One jitted function that is alive, with its cache."""

    id: int
    name: str
    source: SourceRecord | None
    """Where it is defined, without its lines."""
    line: int | None
    entries: list[FunctionEntryRecord]
    """The oldest first."""
    signature: str = ""
    """Its parameters with their defaults, and which are static or donated: `(x, n=2), static n, donated x`."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["function"] = "function"


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionsRecord(Record):
    """The user's jitted functions, the one that was compiled last first."""

    functions: list[FunctionRecord]
    schema_version: int = SCHEMA_VERSION
    kind: Literal["functions"] = "functions"


# What went wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorFrameRecord(Record):
    """One frame of the user's on the way to an error."""

    source: SourceRecord
    """With some lines around the frame's."""
    line: int
    end_line: int
    column: int
    end_column: int
    """Columns count from 0; both are -1 where they aren't known."""
    function: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceRecord(Record):
    """Where two trees, or the types of their leaves, differ."""

    path: str
    left_title: str
    """Label of the left side, for example `got`."""
    left: str
    right_title: str
    right: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRecord(ViewRecord):
    """An error of core in its four parts, with the user's frames only."""

    name: str
    what: str
    got: list[str]
    """One line for each argument: its path, then its type."""
    differences: list[DifferenceRecord]
    """Those lines of `got` that say of one path what stands on either side."""
    where: str | None
    do: str | None
    page: str | None
    """Address of the class's entry in the documentation; None for errors that aren't pellucid's."""
    frames: list[ErrorFrameRecord]
    """Outermost first, as Python shows them."""
    traceback: str
    """The whole traceback as Python prints it."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["error"] = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRecord(Record):
    """Something that core did, as it happened."""

    event: Literal["trace", "pass", "lookup", "compilation", "transfer", "callback", "leak"]
    name: str
    """The function, the pass, or the direction of a transfer."""
    time_us: int
    """When it ended, by a clock of its process that never goes back."""
    thread: int
    seconds: float | None
    bytes: int | None
    """Bytes that a transfer moved."""
    cache: Literal["hit", "miss", "disk"] | None
    """For a look-up or a compilation, where the program was found."""
    miss: MissRecord | None
    """For a look-up that missed, why."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["event"] = "event"


# What lives on devices


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMemoryRecord(Record):
    """Memory of one device at one moment."""

    device_id: int
    process_index: int
    platform: str
    device_kind: str
    in_use_bytes: int
    """From the allocator where it reports, else the sum over live arrays."""
    peak_bytes: int | None
    limit_bytes: int | None
    basis: Literal["estimate", "compiler", "measured"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveArrayRecord(Record):
    """One array that holds device memory."""

    id: int
    type: str
    sharding: str
    device_ids: list[int]
    bytes_per_device: int
    """Of its largest shard."""
    total_bytes: int
    owners: list[str]
    """Variables that hold it, with their path, for example `params['layer3'].w`."""
    holders: list[str]
    """Other owners, for example `sys.last_traceback`."""
    source: str | None
    """Cell or file that made it."""
    line: int | None
    age_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayPartColumns(Record):
    """Distinct parts of an array."""

    device: list[int]
    """Id of a device that holds it."""
    index: list[str]
    """Where it lies in the array: `0:2, 0:8`."""
    low: list[float | None]
    """Of its finite elements."""
    high: list[float | None]
    nan_count: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayValuesRecord(ViewRecord):
    """Values of an array at a glance."""

    type: str
    dtype: str
    shape: list[int]
    is_absolute: bool
    """Whether the figures are those of absolute values, as of complex numbers."""
    nan_count: int
    infinite_count: int
    zero_count: int
    low: float | None
    """The smallest finite element."""
    high: float | None
    mean: float | None
    """Of the finite elements."""
    bins: list[int]
    """Numbers of sampled elements in equal parts of the range."""
    sample_count: int
    """Elements that `bins` counts; all where that is the size."""
    index: list[int]
    """Indices along the dimensions before the last two at which `cells` are."""
    steps: list[int]
    """Along the last two dimensions, `cells` are of every so many elements."""
    cells: list[list[float | None]]
    """Means of the finite elements of blocks of the last two dimensions, by rows; None where a block has none."""
    parts: ArrayPartColumns
    numbers: str
    """The array as Python prints it; the middle of a large one is left out."""
    note: str
    """Why there are no values; empty where there are."""
    array: str = ""
    """Name under which its kernel finds the array while it lives; empty where it can't be asked for."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["array_values"] = "array_values"
    bin_width: int | None = None
    """Whole numbers that each of `bins` counts, from `low` on; None where they are equal parts of the range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRecord(ViewRecord):
    """Devices and the arrays that live on them."""

    devices: list[DeviceMemoryRecord]
    arrays: list[LiveArrayRecord]
    schema_version: int = SCHEMA_VERSION
    kind: Literal["memory"] = "memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardingRecord(ViewRecord):
    """Which device holds which part of one array."""

    name: str
    """The user's name for the array; empty where there is none."""
    type: str
    """`mesh` for a mesh itself, whose devices are the parts; empty for a sharding without a shape."""
    dtype: str
    shape: list[int]
    item_bytes: float
    """Bytes of one element; below 1 for types that share a byte."""
    mesh: MeshRecord
    spec: SpecRecord
    """`spec.mesh` is 0."""
    tile_starts: list[int]
    """First index along each dimension for each distinct part, one part after the other."""
    tile_stops: list[int]
    device_tiles: list[int]
    """For each device in mesh order the part that it holds; -1 for none."""
    array: str = ""
    """`ArrayValuesRecord.array`."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["sharding"] = "sharding"


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginRecord(Record):
    """Where a program says how something is laid out."""

    text: str
    """`argument x`, `in_shardings of x`, `with_sharding_constraint`, `out_shardings of result 0`, …"""
    value: int
    """Number of the value that it lays out; -1 where it is no value of the program."""
    equation: int
    """Index of the equation that says it; -1 for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteColumns(Record):
    """Where programs run: the whole program first, then each body at each equation that runs it, wherever that is.

    The values of a program are numbered anew at each site, site after site: its constants, its inputs, then the results
    of its equations, which is their order among the values of the program's record too.
    """

    body: list[int]
    """Index of the body that runs there."""
    parent: list[int]
    """Index of the site that its equation is at, which comes before it; -1 for the whole program."""
    equation: list[int]
    """Index of the equation that runs it; -1 for the whole program."""
    manual_axes: list[list[str]]
    """Mesh axes along which each device computes with a part of its own, as types there say."""
    mesh: list[int]
    """Index of the mesh that has these axes; that of the program's own where there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutColumns(Record):
    """Where values at sites lie, by their numbers."""

    sharding: list[int]
    """Index into `FunctionShardingRecord.shardings`; -1 where it is not known."""
    device_bytes: list[int]
    """Bytes of the value that one device holds."""
    count: list[int]
    """How many layouts the value has: more than 1 for a constant that is made anew for each use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyColumns(Record):
    """How mesh axes came to values. The chain continues at `value`, with the same axis, and ends at an origin."""

    counts: list[int]
    """For each value at a site, by its number, how many of the entries are its: one for each axis."""
    axis: list[int]
    """Index into `FunctionShardingRecord.axes`."""
    value: list[int]
    """Number of the value that it came from; -1 where the chain ends."""
    dimension: list[int]
    """The dimension of that value which it divides; -1 for none."""
    equation: list[int]
    """Index of the equation that carried it; -1 for none."""
    origin: list[int]
    """Index into `FunctionShardingRecord.origins`: where the chain ends; -1 where it isn't known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveRecord(Record):
    """One exchange between devices."""

    operation: str
    """`all-gather`, `all-reduce`, `reduce-scatter`, `all-to-all`, `collective-permute`, …

    `reshard` is a change to another mesh, of which only the partitioner knows by which exchanges it is done.
    """
    axes: list[str]
    """Mesh axes along which devices exchange; `x:(2)4` is a part of the axis `x`. Empty where they are not known."""
    mesh: int
    """Index of the mesh that has the axes."""
    group_count: int
    group_size: int
    bytes_per_device: int
    """Bytes that one device sends in one run of the equation, with algorithms on a ring."""
    runs: int | None
    """How often the program runs it; None where nobody can know."""
    equation: int
    """Index of the equation that caused it; -1 where it is not known."""
    site: int
    """Index of the site of that equation; of several that can't be told apart the first. -1 where it is not known."""
    reason: Literal["written", "contraction", "reshard", "full_replication", "unknown"]
    note: str
    """One clause on what it is for; empty where that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnevenCutRecord(Record):
    """A constraint that asks for more parts along a dimension than it can be cut into evenly."""

    equation: int
    """Index of the constraint."""
    site: int
    device_bytes: int
    """Bytes of a part on each device if the dimension were padded to `padded`."""
    whole_bytes: int
    """Bytes that each device holds where the value is a result, which isn't cut then."""
    padded: int
    """The next size that can be cut evenly."""
    note: str
    """In words, with what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionShardingRecord(ViewRecord):
    """Layout of every intermediate of a function, why it is so, and what it costs to move."""

    name: str
    program: ProgramRecord
    meshes: list[MeshRecord]
    """The program's own first; then others of the same devices over which some of its values lie."""
    sites: SiteColumns
    shardings: list[SpecRecord]
    """`mesh` of each is an index into `meshes`."""
    layouts: LayoutColumns
    axes: list[str]
    """Axes of the meshes, and parts of them, that divide some value."""
    why: WhyColumns
    origins: list[OriginRecord]
    planned: list[CollectiveRecord]
    """Exchanges that Shardy inserts, with their reasons."""
    collectives: list[CollectiveRecord]
    """Exchanges of the optimized program; the planned ones where it can't be compiled."""
    differences: list[str]
    """In which kinds of exchange the two differ."""
    device_peak_bytes: list[int]
    """For each device in mesh order; empty where it is not known."""
    basis: Literal["estimate", "compiler", "measured"]
    """Source of `collectives` and `device_peak_bytes`: the compiled program, or an estimate."""
    not_compiled: str
    """Why there is only an estimate; empty where the program was compiled."""
    uneven: list[UnevenCutRecord]
    """Constraints that can't be met evenly."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["function_sharding"] = "function_sharding"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRecord(Record):
    """One way to place a function's arguments over a mesh, with estimates of what a run then costs."""

    axis_names: list[str]
    axis_sizes: list[int]
    dim_axes: list[list[list[str]]]
    """For each of `WhatIfRecord.arguments` and each dimension the mesh axes that divide it, major first."""
    argument_bytes: int
    """Bytes of the arguments on one device; exact."""
    peak_bytes: int
    """Most bytes alive at once on one device, by lifetimes of values: fusion makes it smaller."""
    sent_bytes: int
    """Bytes that one device sends in a run, with algorithms on a ring."""
    exchange_count: int
    """Collectives in a run; loops count each time."""
    compute_seconds: float
    """Time of arithmetic and memory traffic on one device, by the roofline of its kind."""
    exchange_seconds: float
    """Time of the exchanges, by the bandwidth of the links that their axes span."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedArgumentRecord(Record):
    """Arguments whose paths differ in indices alone, with one type and one placement."""

    name: str
    """Path with `*` for the indices in which they differ, for example `params['layers'][*]['up']`."""
    count: int
    type: str
    dim_sizes: list[int]
    device_bytes: int
    """Bytes of all of them on one device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeCostRecord(Record):
    """Exchanges of one kind along the same axes for one line of the user."""

    operation: str
    axes: list[str]
    reason: Literal["written", "contraction", "reshard", "full_replication", "unknown"]
    count: int
    """In a run; loops count each time."""
    sent_bytes: int
    """Bytes that one device sends for them in a run."""
    seconds: float
    source: SourceRecord | None
    """File or cell of the line; None where it is not known."""
    line: int
    primitive: str
    """Operation of the first of the equations that they are for; empty where it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfRecord(ViewRecord):
    """A function over a mesh that need not exist, beside how its arguments lie today. Estimates, but for bytes."""

    name: str
    device_kind: str
    """Kind of device that times are estimated for."""
    memory_limit_bytes: int
    """Memory of one device that placements are searched under."""
    arguments: list[PlacedArgumentRecord]
    """As placed by `placement`."""
    today: PlacementRecord
    placement: PlacementRecord
    exchanges: list[ExchangeCostRecord]
    """Of `placement`, those that take longest first."""
    best: list[PlacementRecord]
    """The fastest that a search found, the best first; empty where none was made."""
    examined_count: int
    """Placements that the search estimated."""
    excluded_count: int
    """Placements whose arguments alone exceed the limit, or that don't divide dimensions evenly."""
    remaining_count: int
    """Placements that there was no time for."""
    remarks: list[str]
    """Sentences on what the estimates leave out."""
    refusal: str
    """Why the placement that was asked for last can't be; empty where it is the one shown."""
    figure: str = ""
    """Name under which its kernel finds the figure, to estimate other placements; empty where none does."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["what_if"] = "what_if"


# Grids of kernels


@dataclass(frozen=True, slots=True, kw_only=True)
class GridNumberRecord(Record):
    """A whole number for each program of a grid, in the shortest form that is exact where `step` is 1.

    Without `values` it is `offset` plus the sum of `coefficients` times the position. With them it is the value at the
    position along `axes`, row by row; without `axes` too, that of every `step`-th program.
    """

    offset: int
    coefficients: list[int]
    axes: list[int]
    values: list[int]
    step: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GridDimensionRecord(Record):
    """A dimension of an operand, and where the programs' blocks lie along it."""

    size: int
    """Elements of the array."""
    block: int
    """Elements of a block."""
    rule: Literal["blocked", "squeezed", "element", "bounded", "accessed"]
    """What the block spec says; `accessed` where it gives the whole array, and the body reads or writes a part."""
    start: GridNumberRecord
    """First element, which may lie before the array."""
    length: GridNumberRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class GridRasterRecord(Record):
    """Counts over the parts of an operand, as a matrix: dimensions before the last one are rows, one below the other."""

    row_edges: list[int]
    """First row of each cell, then the number of rows."""
    column_edges: list[int]
    visits: list[int]
    """By cell, row by row, the largest number of programs that see one of its elements."""
    moves: list[int]
    """Likewise how often it is moved."""
    marks: list[int]
    """Sums of 1 for elements that no program sees, and 2 for elements that parallel programs write."""
    is_exact: bool
    """Whether cells are not cut by any boundary of blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GridOperandRecord(Record):
    """An input or result of a kernel, and what its programs see of it."""

    name: str
    spec: str
    """Which of the block specs it has, for example `in_specs[0]`."""
    role: Literal["input", "result"]
    type: str
    dims: list[GridDimensionRecord]
    activity: GridNumberRecord
    """For each program: 1 if it reads the operand, 2 if it writes it, 3 for both, 0 for neither."""
    is_read: bool
    is_written: bool
    aliased: str
    """Name of the input that a result begins as; empty where it begins without values."""
    block_bytes: int
    block_count: int
    """Number of distinct blocks that programs see."""
    fetch_count: int
    """How often a block is fetched, as it stays while it doesn't change."""
    write_count: int
    moved_bytes: int
    least_bytes: int | None
    """Each element that some program sees, moved once; None where that isn't known."""
    beyond_share: float
    """Share of the elements of all programs' blocks that lie outside of the array."""
    masked_share: float | None
    """Share of the elements of loads and stores that masks leave out; None without loads and stores."""
    is_masked_exactly: bool
    """Whether all branches and masks follow from the position; otherwise what data choose counts as used."""
    unseen_elements: int | None
    """Of a result: elements that no program sees and that have no value; None where it isn't known."""
    shared_elements: int | None
    """Of a result: elements that parallel programs write."""
    outside_count: int
    """Programs whose block lies outside of the array."""
    raster: GridRasterRecord | None
    source: SourceRecord | None
    line: int
    """Of the block spec."""
    note: str
    """Why nothing is known of its blocks; empty where it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GridCellColumns(Record):
    """Programs as a matrix of cells: the program of number `p` is at (`p` // `width` // `row_step`, `p` % `width` // `column_step`)."""

    rows: int
    columns: int
    width: int
    row_step: int
    column_step: int
    programs: list[int]
    """By cell, row by row, the number of its programs."""
    moved_bytes: list[int]
    """Bytes that they move together."""
    idle: list[int]
    """Number of its idle programs."""
    marks: list[int]
    """Sums of 2 for programs that write what others write at the same time, and 4 for blocks outside of arrays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GridKernelRecord(Record):
    """A kernel over a grid: which program sees which block, and what that costs."""

    name: str
    grid: list[int]
    """Empty where sizes are known only when it runs, too; `note` says so."""
    parallel_axes: list[int]
    program_count: int
    operands: list[GridOperandRecord]
    cells: GridCellColumns | None
    """None where nothing is known of any block."""
    flops: float | None
    """Estimated, of all programs; idle ones count as others."""
    transcendentals: float | None
    is_least: bool
    """Whether loops of unknown length counted once."""
    stated_flops: float | None
    """What the user's `cost_estimate` says; None without one."""
    stated_bytes: float | None
    moved_bytes: int
    least_bytes: int | None
    idle_count: int
    """Programs that write nothing."""
    sharing_count: int
    """Programs that write what a parallel one writes."""
    outside_count: int
    refusal: str
    """Why the kernel was refused; empty where it wasn't."""
    note: str
    """What should be known of the figures."""
    source: SourceRecord | None
    line: int
    """Of the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelGridsRecord(ViewRecord):
    """The kernels that a function calls, in the order of its program."""

    name: str
    kernels: list[GridKernelRecord]
    hidden_count: int
    """Kernels that are left out."""
    program: int = -1
    """Number of the program of the first kernel that is shown at first; -1 for the first one."""
    schema_version: int = SCHEMA_VERSION
    kind: Literal["kernel_grids"] = "kernel_grids"
