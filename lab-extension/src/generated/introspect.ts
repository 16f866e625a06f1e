// Generated from pellucid.introspect.schema by tools/generate_types.py. Do not edit.

/** Incremented when a field is renamed or removed; readers accept the last two versions. */
export const SCHEMA_VERSION = 1;

/** Devices arranged along named axes. Lists over devices are in row-major mesh order. */
export interface MeshRecord {
  readonly axis_names: readonly string[];
  readonly axis_sizes: readonly number[];
  readonly axis_types: readonly ("auto" | "explicit" | "manual")[];
  /** Empty for an abstract mesh, whose devices are numbered by position. */
  readonly device_ids: readonly number[];
  /** Process that owns each device; empty for an abstract mesh. */
  readonly process_indices: readonly number[];
  /** Coordinates of each device in the hardware's network; empty if unknown. */
  readonly device_coordinates: readonly (readonly number[])[];
  readonly platform: string;
  readonly device_kind: string;
}

/** How a value of some type is partitioned over a mesh. */
export interface SpecRecord {
  /** The spec in the user's notation, for example `P('data', None)`. */
  readonly text: string;
  /** Index into the list of meshes next to it; -1 if there isn't a mesh (one device). */
  readonly mesh: number;
  /** The mesh axes that partition each dimension, major axis first. */
  readonly dim_axes: readonly (readonly string[])[];
  /** Mesh axes over which the value is unreduced: each device holds a summand of it. */
  readonly unreduced_axes: readonly string[];
  readonly memory_kind: string | null;
}

/** A type of values, stored once for all values that have it. */
export interface TypeRecord {
  /** The type in the notation of printed programs, for example `f32[8,128]`. */
  readonly text: string;
  /** Empty for types that aren't arrays, such as tokens. */
  readonly dtype: string;
  /** A symbolic dimension is represented by its text; None for types that aren't arrays. */
  readonly shape: readonly (number | string)[] | null;
  readonly weak_type: boolean;
  /**
   * Number of bytes of the whole array; None with symbolic dimensions or if the width isn't fixed.
   */
  readonly bytes: number | null;
  /** Index into `ProgramRecord.shardings`; -1 if unknown. */
  readonly sharding: number;
  readonly memory_space: string | null;
}

/** A file or notebook cell that contains the user's lines of equations. */
export interface SourceRecord {
  /**
   * The displayed name: `In[4]`, or the path from the current folder, or the file name of one outside.
   */
  readonly name: string;
  readonly path: string;
  /** Id of the notebook cell, if the front end sends ids. */
  readonly cell_id: string | null;
  /** The cell's number in the order of execution, as in `In[4]`, from its last execution. */
  readonly execution_count: number | null;
  /** Line number of the first entry of `lines`, from 1. */
  readonly first_line: number;
  /** The text of the lines; None if it wasn't requested or can't be read. */
  readonly lines: readonly string[] | null;
}

/** Spans of the user's source. Lines are counted from 1, columns from 0. */
export interface SpanColumns {
  /** Index into `ProgramRecord.sources`. */
  readonly source: readonly number[];
  readonly line: readonly number[];
  readonly end_line: readonly number[];
  readonly column: readonly number[];
  readonly end_column: readonly number[];
  /** Index into `strings`: the Python function that contains the span. */
  readonly function: readonly number[];
  /** Index into `strings`: the variable that the statement assigns; 0 if there is none. */
  readonly variable: readonly number[];
  /** Index of the span of the call that led here; -1 for the user's outermost frame. */
  readonly caller: readonly number[];
}

/** The tree of named scopes. Parents come before their children. */
export interface ScopeColumns {
  readonly name: readonly number[];
  /** Index of the parent scope; -1 for an outermost scope. */
  readonly parent: readonly number[];
}

/** The variables of a program: inputs, constants and results of equations. */
export interface ValueColumns {
  /** Index into `strings`: the name in the printed program. */
  readonly name: readonly number[];
  /** Index into `strings`: the user's name; 0 if unknown. */
  readonly user_name: readonly number[];
  /** Index into `ProgramRecord.types`. */
  readonly type: readonly number[];
}

/** Constants that are written into the text of the program. */
export interface LiteralColumns {
  readonly text: readonly number[];
  readonly type: readonly number[];
}

/** Equations, grouped by body, in program order within each body. */
export interface EquationColumns {
  /** Stable id: unique in this record, and the same in every record of the program. */
  readonly id: readonly number[];
  /** Index into `strings`: name of the primitive or operation. */
  readonly primitive: readonly number[];
  /** Index into `ProgramRecord.scopes`; -1 for equations outside of all scopes. */
  readonly scope: readonly number[];
  /** Index into `ProgramRecord.spans`; -1 if the source is unknown. */
  readonly span: readonly number[];
  /** Index into `strings`: the equation's effects; 0 if there are none. */
  readonly effects: readonly number[];
  readonly operand_counts: readonly number[];
  /**
   * Index of a value, or -1 - i for literal i. Includes values that a body captures from outside.
   */
  readonly operands: readonly number[];
  readonly result_counts: readonly number[];
  /** Indices of values. */
  readonly results: readonly number[];
  readonly param_counts: readonly number[];
  /** Index into `strings`. Params that contain programs are in `bodies` instead. */
  readonly param_names: readonly number[];
  /** Index into `strings`: a short text of the param's value. */
  readonly param_texts: readonly number[];
  readonly body_counts: readonly number[];
  /** Indices into `ProgramRecord.bodies`. Several equations may run the same body. */
  readonly bodies: readonly number[];
  /**
   * Index into `strings`: the param that contains the body, for example `cond_jaxpr` or `branches[1]`.
   */
  readonly body_roles: readonly number[];
  /**
   * Number of runs of the body per run of the equation: 0 if only transformations use it; None if unknown.
   */
  readonly body_trips: readonly (number | null)[];
  /**
   * Index into `strings`: the transformation that made this equation from others; 0 for equations of the user's code.
   */
  readonly transformation: readonly number[];
  readonly origin_counts: readonly number[];
  /** Stable ids of the equations from which it was made, which may be in another program. */
  readonly origins: readonly number[];
}

/** A program, or a program within another: its inputs, equations and outputs. */
export interface BodyRecord {
  readonly name: string;
  readonly first_equation: number;
  readonly equation_count: number;
  /** Values that the body captures from outside. */
  readonly constants: readonly number[];
  readonly inputs: readonly number[];
  /** Index of a value, or -1 - i for literal i. */
  readonly outputs: readonly number[];
}

/**
 * One quantity, such as FLOPs, of one run of each equation, including the programs that it runs.
 */
export interface CostColumn {
  /**
   * All views know `flops`, `transcendentals` and `bytes`; other names are displayed as they are.
   */
  readonly name: string;
  /** `flop`, `op`, `B`, `us`, or empty for a number without unit. */
  readonly unit: string;
  readonly basis: "estimate" | "compiler" | "measured";
  /** None if unknown. */
  readonly values: readonly (number | null)[];
}

/** The text of a program as printed by its own printer. */
export interface ListingRecord {
  readonly text: string;
  /** For each line of `text`, the index of its equation; -1 for lines without one. */
  readonly line_equations: readonly number[];
}

/**
 * A jaxpr, a StableHLO module, an optimized HLO module, a kernel in the dialect of Triton or of Mosaic for TPUs or GPUs, or its text in PTX, without equations.
 */
export interface ProgramRecord {
  /** Identifies this program in links and in other records. */
  readonly key: string;
  readonly name: string;
  readonly dialect: "jaxpr" | "stablehlo" | "hlo" | "triton" | "ptx" | "mosaic" | "mosaic_gpu";
  readonly strings: readonly string[];
  readonly types: readonly TypeRecord[];
  readonly meshes: readonly MeshRecord[];
  readonly shardings: readonly SpecRecord[];
  readonly sources: readonly SourceRecord[];
  readonly spans: SpanColumns;
  readonly scopes: ScopeColumns;
  readonly values: ValueColumns;
  readonly literals: LiteralColumns;
  readonly equations: EquationColumns;
  /**
   * The kind of each primitive or operation of the program: `contraction`, `movement`, `control`, …
   */
  readonly kinds: Readonly<Record<string, string>>;
  /** The first body is the program itself. */
  readonly bodies: readonly BodyRecord[];
  readonly costs: readonly CostColumn[];
  /** None if views should format the text themselves, from the columns. */
  readonly listing: ListingRecord | null;
  readonly schema_version: number;
  readonly kind: "program";
}

/** Corresponding equations of two programs, as pairs of stable ids. */
export interface LinkRecord {
  /** Key of a program. */
  readonly source: string;
  readonly target: string;
  /** The step from source to target: `lower`, `compile`, `jvp`, `transpose`, `same`, … */
  readonly relation: string;
  readonly source_ids: readonly number[];
  readonly target_ids: readonly number[];
}

/** One function at each stage, from the user's lines to the optimized program. */
export interface LensRecord {
  readonly name: string;
  readonly programs: readonly ProgramRecord[];
  readonly links: readonly LinkRecord[];
  /**
   * For each program a sentence to show beside its title, empty for most: what a kernel needs of a device, or at the optimized program, why one isn't shown. May be shorter.
   */
  readonly notes: readonly string[];
  readonly schema_version: number;
  readonly kind: "lens";
}

/** One function after each of several transformations, or after each compiler pass. */
export interface LadderRecord {
  readonly name: string;
  /** For each program, the transformation or pass that made it; empty for the first. */
  readonly transformations: readonly string[];
  /** For each program, the index of the one it was made from; -1 for the first. */
  readonly sources: readonly number[];
  readonly programs: readonly ProgramRecord[];
  readonly links: readonly LinkRecord[];
  readonly schema_version: number;
  readonly kind: "ladder";
}

/** Two programs to compare. */
export interface DiffRecord {
  readonly before: ProgramRecord;
  readonly after: ProgramRecord;
  /** Pairs of equations that are known to correspond; None if the view should match them. */
  readonly matches: LinkRecord | null;
  readonly schema_version: number;
  readonly kind: "diff";
}

/**
 * Estimated cost of one run of an executable on one device. Loops count with their iterations, conditionals as
 * their most expensive branch.
 */
export interface CompiledCostRecord {
  readonly flops: number | null;
  readonly transcendentals: number | null;
  readonly bytes_accessed: number | null;
  /**
   * Whether it is a lower bound: loops of unknown length count once, and native code not at all.
   */
  readonly is_least: boolean;
}

/** Memory of an executable on one device. */
export interface CompiledMemoryRecord {
  readonly argument_bytes: number;
  readonly output_bytes: number;
  /** The part of the outputs that reuses buffers of donated arguments. */
  readonly alias_bytes: number;
  readonly temporary_bytes: number;
  readonly code_bytes: number;
  /** Sum of arguments, results and temporaries; aliased bytes count once. */
  readonly peak_bytes: number;
  readonly basis: "estimate" | "compiler" | "measured";
}

/** The share of a kernel's work that belongs to one source line. */
export interface LineShareRecord {
  /**
   * Stable id, in the optimized program, of an equation of that line; -1 for the share that belongs to no line.
   */
  readonly equation: number;
  /** Estimated share of the kernel's work; the shares of a kernel add up to 1. */
  readonly share: number;
}

/** One kernel or library call of an executable. */
export interface KernelRecord {
  readonly name: string;
  readonly category: "fusion" | "library" | "custom" | "copy" | "collective" | "other";
  /** Stable id in the optimized program; -1 if unknown. */
  readonly hlo_equation: number;
  /** Stable ids of the user's equations that it computes. */
  readonly equations: readonly number[];
  /** Total over all executions in one run of the executable. */
  readonly flops: number | null;
  /** Total over all executions in one run of the executable. */
  readonly bytes_accessed: number | null;
  /**
   * Number of executions in one run; None if unknown, in branches and loops of unknown length, which count as one.
   */
  readonly executions: number | null;
  /**
   * The source lines that it computes, for fusions and if `hlo_equation` has none; empty if no line is known.
   */
  readonly lines: readonly LineShareRecord[];
  /** Whether its line is unknown and taken from neighbouring kernels. */
  readonly is_line_inferred: boolean;
  /** Total time of all its executions in one run on one device; None if it wasn't measured. */
  readonly seconds: number | null;
}

/** Duration of one phase between a Python call and its executable. */
export interface PhaseRecord {
  readonly name: string;
  readonly seconds: number;
}

/** One executable: its cost, memory and kernels. */
export interface CompiledRecord {
  readonly key: string;
  readonly name: string;
  readonly fingerprint: string | null;
  readonly platform: string;
  readonly device_count: number;
  readonly cache: "miss" | "memory" | "disk";
  readonly phases: readonly PhaseRecord[];
  readonly cost: CompiledCostRecord;
  readonly memory: CompiledMemoryRecord;
  readonly kernels: readonly KernelRecord[];
  readonly program: ProgramRecord | null;
  readonly schema_version: number;
  readonly kind: "compiled";
}

/** One part of a cache key that differs from all earlier calls. */
export interface MissCauseRecord {
  readonly part: "shape" | "dtype" | "weak_type" | "sharding" | "tree" | "static_argument" | "function" | "closure" | "configuration" | "donation" | "device" | "first_call";
  /** Path of the argument, for example `batch['x']`; empty if the cause isn't an argument. */
  readonly path: string;
  /** Empty for a first call. */
  readonly before: string;
  readonly after: string;
  /** One concrete change that avoids the miss; empty if there is none. */
  readonly advice: string;
}

/** Why a function was traced or compiled again. */
export interface MissRecord {
  readonly function: string;
  readonly source: SourceRecord | null;
  readonly line: number | null;
  /** The cell that made the call. */
  readonly cell: string | null;
  /** Number of entries in the function's cache, including this one. */
  readonly entry_count: number;
  readonly seconds: number;
  readonly phases: readonly PhaseRecord[];
  readonly causes: readonly MissCauseRecord[];
  /** Number of misses whose seconds are added up; the other fields describe the last one. */
  readonly count: number;
  readonly schema_version: number;
  readonly kind: "miss";
}

/** The latest misses, oldest first. */
export interface MissesRecord {
  readonly misses: readonly MissRecord[];
  /**
   * Whether the kernel sent it after a cell, to list the functions that the cell compiled again, one record for each.
   */
  readonly is_note: boolean;
  readonly schema_version: number;
  readonly kind: "misses";
}

/** One program in the cache of a jitted function. */
export interface FunctionEntryRecord {
  /** Identifies the program while it is in the cache. */
  readonly id: number;
  /**
   * Path and type of each argument, in order, for example `params['w']: f32[8]`; for a static argument its value.
   */
  readonly arguments: readonly string[];
  readonly equation_count: number;
  /** Number of argument placements for which it is compiled; 0 if it is only traced. */
  readonly executable_count: number;
  /**
   * Why it was traced, and how long tracing and compiling took; None for a program taken over from another function.
   */
  readonly miss: MissRecord | null;
}

/** One live jitted function, with its cache. */
export interface FunctionRecord {
  readonly id: number;
  readonly name: string;
  /** The file or cell that defines it, without the text of its lines. */
  readonly source: SourceRecord | null;
  readonly line: number | null;
  /** Oldest first. */
  readonly entries: readonly FunctionEntryRecord[];
  /**
   * Its parameters with defaults, and which are static or donated: `(x, n=2), static n, donated x`.
   */
  readonly signature: string;
  readonly schema_version: number;
  readonly kind: "function";
}

/** The user's jitted functions, most recently traced first. */
export interface FunctionsRecord {
  readonly functions: readonly FunctionRecord[];
  readonly schema_version: number;
  readonly kind: "functions";
}

/** One of the user's frames that led to an error. */
export interface ErrorFrameRecord {
  /** Includes some lines around the current one. */
  readonly source: SourceRecord;
  readonly line: number;
  readonly end_line: number;
  readonly column: number;
  /** Columns are counted from 0; both are -1 if unknown. */
  readonly end_column: number;
  readonly function: string;
}

/** A difference between two trees, or between the types of their leaves. */
export interface DifferenceRecord {
  readonly path: string;
  /** Label of the left side, for example `got`. */
  readonly left_title: string;
  readonly left: string;
  readonly right_title: string;
  readonly right: string;
}

/** An error of core in its four parts, with only the user's frames. */
export interface ErrorRecord {
  readonly name: string;
  readonly what: string;
  /** One line for each argument: its path, then its type. */
  readonly got: readonly string[];
  /** The lines of `got` that compare two sides of a path, in parts. */
  readonly differences: readonly DifferenceRecord[];
  readonly where: string | null;
  readonly do: string | null;
  /** URL of the documentation of the error class; None for errors that aren't pellucid's. */
  readonly page: string | null;
  /** Outermost first, as in Python's tracebacks. */
  readonly frames: readonly ErrorFrameRecord[];
  /** The whole traceback as Python prints it. */
  readonly traceback: string;
  readonly schema_version: number;
  readonly kind: "error";
}

/** An event of core, such as a cache look-up or a compilation. */
export interface EventRecord {
  readonly event: "trace" | "pass" | "lookup" | "compilation" | "transfer" | "callback" | "leak";
  /** Name of the function or pass, or direction of a transfer. */
  readonly name: string;
  /** Time of its end, on the process's monotonic clock. */
  readonly time_us: number;
  readonly thread: number;
  readonly seconds: number | null;
  /** Number of transferred bytes. */
  readonly bytes: number | null;
  /** For a cache look-up or a compilation: where the program was found. */
  readonly cache: "hit" | "miss" | "disk" | null;
  /** For a cache miss: its cause. */
  readonly miss: MissRecord | null;
  readonly schema_version: number;
  readonly kind: "event";
}

/** Memory of one device at one time. */
export interface DeviceMemoryRecord {
  readonly device_id: number;
  readonly process_index: number;
  readonly platform: string;
  readonly device_kind: string;
  /** From the allocator if it reports usage, else the sum over live arrays. */
  readonly in_use_bytes: number;
  readonly peak_bytes: number | null;
  readonly limit_bytes: number | null;
  readonly basis: "estimate" | "compiler" | "measured";
}

/** An array that occupies device memory. */
export interface LiveArrayRecord {
  readonly id: number;
  readonly type: string;
  readonly sharding: string;
  readonly device_ids: readonly number[];
  /** Bytes of its largest shard. */
  readonly bytes_per_device: number;
  readonly total_bytes: number;
  /** Variables that hold it, with the path, for example `params['layer3'].w`. */
  readonly owners: readonly string[];
  /** Holders other than variables, for example `sys.last_traceback`. */
  readonly holders: readonly string[];
  /** Cell or file that created it. */
  readonly source: string | null;
  readonly line: number | null;
  readonly age_s: number | null;
}

/** The distinct parts of a sharded array. */
export interface ArrayPartColumns {
  /** Id of one of the devices that hold the part. */
  readonly device: readonly number[];
  /** The part's index range in the array: `0:2, 0:8`. */
  readonly index: readonly string[];
  /** Smallest finite element of each part. */
  readonly low: readonly (number | null)[];
  readonly high: readonly (number | null)[];
  readonly nan_count: readonly number[];
}

/** A summary of an array's values. */
export interface ArrayValuesRecord {
  readonly type: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  /** Whether the figures are those of absolute values, as for complex arrays. */
  readonly is_absolute: boolean;
  readonly nan_count: number;
  readonly infinite_count: number;
  readonly zero_count: number;
  /** The smallest finite element. */
  readonly low: number | null;
  readonly high: number | null;
  /** Mean of the finite elements. */
  readonly mean: number | null;
  /** Histogram: number of sampled elements in each of several equal intervals. */
  readonly bins: readonly number[];
  /** Number of sampled elements; the array's size if all are counted. */
  readonly sample_count: number;
  /** Indices along all but the last two dimensions, at which `cells` are taken. */
  readonly index: readonly number[];
  /** Strides along the last two dimensions at which `cells` are taken. */
  readonly steps: readonly number[];
  /**
   * Means of the finite elements of blocks along the last two dimensions, by row; None for blocks without any.
   */
  readonly cells: readonly (readonly (number | null)[])[];
  readonly parts: ArrayPartColumns;
  /** The array as Python prints it; the middle of a large array is left out. */
  readonly numbers: string;
  /** Why there are no values; empty if there are. */
  readonly note: string;
  /** Key under which the kernel finds the array while it is alive; empty if there is none. */
  readonly array: string;
  readonly schema_version: number;
  readonly kind: "array_values";
  /** Width, in integers, of each bin, counted from `low`; None if bins divide the range evenly. */
  readonly bin_width: number | null;
}

/** Devices and the arrays in their memory. */
export interface MemoryRecord {
  readonly devices: readonly DeviceMemoryRecord[];
  readonly arrays: readonly LiveArrayRecord[];
  readonly schema_version: number;
  readonly kind: "memory";
}

/** The partition of one array over devices. */
export interface ShardingRecord {
  /** The user's name for the array; empty if unknown. */
  readonly name: string;
  /**
   * `mesh` for a mesh itself, whose devices are the parts; empty for a sharding without a shape.
   */
  readonly type: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  /** Bytes per element; less than 1 for types smaller than a byte. */
  readonly item_bytes: number;
  readonly mesh: MeshRecord;
  /** `spec.mesh` is 0. */
  readonly spec: SpecRecord;
  /** Index of the first element along each dimension, for each distinct part in turn. */
  readonly tile_starts: readonly number[];
  readonly tile_stops: readonly number[];
  /** For each device, in mesh order, the index of its part; -1 for none. */
  readonly device_tiles: readonly number[];
  /** Same as `ArrayValuesRecord.array`. */
  readonly array: string;
  readonly schema_version: number;
  readonly kind: "sharding";
}

/** A place where the program specifies a sharding. */
export interface OriginRecord {
  /**
   * `argument x`, `in_shardings of x`, `with_sharding_constraint`, `out_shardings of result 0`, …
   */
  readonly text: string;
  /** Number of the value to which it applies; -1 if it isn't a value of the program. */
  readonly value: number;
  /** Index of the equation that specifies it; -1 for none. */
  readonly equation: number;
}

/**
 * Sites at which bodies run: first the whole program, then each body at each equation that runs it, in any nesting.
 *
 * Values are numbered anew at each site, in the order constants, inputs, results of equations, which is also their order
 * among the values of the program's record. The numbers of one site follow those of the site before.
 */
export interface SiteColumns {
  /** Index of the body that runs at the site. */
  readonly body: readonly number[];
  /**
   * Index of the site that contains its equation, which comes earlier; -1 for the whole program.
   */
  readonly parent: readonly number[];
  /** Index of the equation that runs the body; -1 for the whole program. */
  readonly equation: readonly number[];
  /** Manual mesh axes, along which each device computes on its own part, according to types. */
  readonly manual_axes: readonly (readonly string[])[];
  /** Index of the mesh that has these axes; the program's own mesh if there are none. */
  readonly mesh: readonly number[];
}

/** The sharding of each value at each site, by the value's number. */
export interface LayoutColumns {
  /** Index into `FunctionShardingRecord.shardings`; -1 if unknown. */
  readonly sharding: readonly number[];
  /** Bytes of the value's part on one device. */
  readonly device_bytes: readonly number[];
  /**
   * Number of shardings of the value: more than 1 for a constant that is recreated for each use.
   */
  readonly count: readonly number[];
}

/**
 * Where each value's mesh axes came from. A chain continues at `value` with the same axis, and ends at an origin.
 */
export interface WhyColumns {
  /** For each value at a site, by its number, how many entries belong to it: one per axis. */
  readonly counts: readonly number[];
  /** Index into `FunctionShardingRecord.axes`. */
  readonly axis: readonly number[];
  /** Number of the value from which the axis was propagated; -1 at the end of the chain. */
  readonly value: readonly number[];
  /** The dimension of that value which the axis partitions; -1 for none. */
  readonly dimension: readonly number[];
  /** Index of the equation that propagated it; -1 for none. */
  readonly equation: readonly number[];
  /** Index into `FunctionShardingRecord.origins`, at the end of the chain; -1 if unknown. */
  readonly origin: readonly number[];
}

/** One collective operation between devices. */
export interface CollectiveRecord {
  /**
   * `all-gather`, `all-reduce`, `reduce-scatter`, `all-to-all`, `collective-permute`, …
   *
   * `reshard` is a change to another mesh; only the partitioner knows the collectives that implement it.
   */
  readonly operation: string;
  /**
   * Mesh axes along which devices communicate; `x:(2)4` is a part of the axis `x`. Empty if unknown.
   */
  readonly axes: readonly string[];
  /** Index of the mesh that has the axes. */
  readonly mesh: number;
  readonly group_count: number;
  readonly group_size: number;
  /** Bytes that one device sends per run of the equation, with ring algorithms. */
  readonly bytes_per_device: number;
  /** Number of runs of the equation per run of the program; None if unknown. */
  readonly runs: number | null;
  /** Index of the equation that caused it; -1 if unknown. */
  readonly equation: number;
  /**
   * Index of that equation's site; the first of several that can't be distinguished; -1 if unknown.
   */
  readonly site: number;
  readonly reason: "written" | "contraction" | "reshard" | "full_replication" | "unknown";
  /** The purpose of the collective, in one clause; empty if unknown. */
  readonly note: string;
}

/** A constraint that asks for more parts along a dimension than it can be cut into evenly. */
export interface UnevenCutRecord {
  /** Index of the constraint. */
  readonly equation: number;
  readonly site: number;
  /** Bytes of a part on each device if all dimensions that are cut unevenly were padded. */
  readonly device_bytes: number;
  /** Bytes that each device holds where the value is a result, which isn't cut then. */
  readonly whole_bytes: number;
  /** The next size that can be cut evenly. */
  readonly padded: number;
  /** In words, with what to do. */
  readonly note: string;
}

/**
 * The sharding of every intermediate of a function, its cause, and the cost of the communication.
 */
export interface FunctionShardingRecord {
  readonly name: string;
  readonly program: ProgramRecord;
  /**
   * The program's own mesh first, then other meshes of the same devices that some of its values have.
   */
  readonly meshes: readonly MeshRecord[];
  readonly sites: SiteColumns;
  /** The field `mesh` of each is an index into `meshes`. */
  readonly shardings: readonly SpecRecord[];
  readonly layouts: LayoutColumns;
  /** Mesh axes, and parts of them, that partition some value. */
  readonly axes: readonly string[];
  readonly why: WhyColumns;
  readonly origins: readonly OriginRecord[];
  /** Collectives that Shardy inserts, with their reasons. */
  readonly planned: readonly CollectiveRecord[];
  /** Collectives of the optimized program; the planned ones if it can't be compiled. */
  readonly collectives: readonly CollectiveRecord[];
  /** The kinds of collectives in which the two lists differ. */
  readonly differences: readonly string[];
  /** Peak memory of each device, in mesh order; empty if unknown. */
  readonly device_peak_bytes: readonly number[];
  /** Source of `collectives` and `device_peak_bytes`: the compiled program, or an estimate. */
  readonly basis: "estimate" | "compiler" | "measured";
  /** Why there is only an estimate; empty if the program was compiled. */
  readonly not_compiled: string;
  /** Constraints that can't be met evenly. */
  readonly uneven: readonly UnevenCutRecord[];
  readonly schema_version: number;
  readonly kind: "function_sharding";
}

/** One placement of a function's arguments over a mesh, with estimated costs of a run. */
export interface PlacementRecord {
  readonly axis_names: readonly string[];
  readonly axis_sizes: readonly number[];
  /**
   * The mesh axes, major first, that partition each dimension of each of `WhatIfRecord.arguments`.
   */
  readonly dim_axes: readonly (readonly (readonly string[])[])[];
  /** Bytes of the arguments on one device; exact. */
  readonly argument_bytes: number;
  /** Peak memory on one device, estimated from lifetimes of values; fusion makes it smaller. */
  readonly peak_bytes: number;
  /** Bytes that one device sends per run, with ring algorithms. */
  readonly sent_bytes: number;
  /** Number of collectives per run; those in loops count for each iteration. */
  readonly exchange_count: number;
  /** Time of arithmetic and memory traffic on one device, by the roofline of its kind. */
  readonly compute_seconds: number;
  /** Time of the collectives, by the bandwidth of the links that their axes span. */
  readonly exchange_seconds: number;
}

/** Arguments of one type and placement, whose paths differ only in indices. */
export interface PlacedArgumentRecord {
  /** Path with `*` for the indices that differ, for example `params['layers'][*]['up']`. */
  readonly name: string;
  readonly count: number;
  readonly type: string;
  readonly dim_sizes: readonly number[];
  /** Total bytes of these arguments on one device. */
  readonly device_bytes: number;
}

/** The collectives of one kind, along the same axes, that one source line causes. */
export interface ExchangeCostRecord {
  readonly operation: string;
  readonly axes: readonly string[];
  readonly reason: "written" | "contraction" | "reshard" | "full_replication" | "unknown";
  /** Number of collectives per run; those in loops count for each iteration. */
  readonly count: number;
  /** Bytes that one device sends for them per run. */
  readonly sent_bytes: number;
  readonly seconds: number;
  /** File or cell of the line; None if unknown. */
  readonly source: SourceRecord | null;
  readonly line: number;
  /** Name of the first operation that causes them; empty if unknown. */
  readonly primitive: string;
}

/**
 * Estimates for a function's arguments placed on a mesh that needn't exist, next to their current placement. Only
 * the bytes of arguments are exact.
 */
export interface WhatIfRecord {
  readonly name: string;
  /** Kind of device whose speed the times assume. */
  readonly device_kind: string;
  /** Memory per device that the search allows. */
  readonly memory_limit_bytes: number;
  /** The arguments, with the placement in `placement`. */
  readonly arguments: readonly PlacedArgumentRecord[];
  readonly today: PlacementRecord;
  readonly placement: PlacementRecord;
  /** The collectives of `placement`, those that take longest first. */
  readonly exchanges: readonly ExchangeCostRecord[];
  /** The fastest placements that a search found, best first; empty without a search. */
  readonly best: readonly PlacementRecord[];
  /** Number of placements that the search estimated. */
  readonly examined_count: number;
  /**
   * Number of placements whose arguments alone exceed the limit, or that don't divide dimensions evenly.
   */
  readonly excluded_count: number;
  /** Number of placements that the search had no time for. */
  readonly remaining_count: number;
  /** Sentences about what the estimates leave out. */
  readonly remarks: readonly string[];
  /** Why the last requested placement is impossible; empty if it is the one shown. */
  readonly refusal: string;
  /**
   * Key under which the kernel finds the figure, to estimate other placements; empty if there is none.
   */
  readonly figure: string;
  readonly schema_version: number;
  readonly kind: "what_if";
}

/**
 * An integer for each program of a grid, in the shortest form; exact if `step` is 1.
 *
 * Without `values`, it is `offset` plus the sum of `coefficients` times the program's position. With `values`, it is
 * the entry at the position along `axes`, in row-major order; without `axes`, `values` has an entry for every
 * `step`-th program.
 */
export interface GridNumberRecord {
  readonly offset: number;
  readonly coefficients: readonly number[];
  readonly axes: readonly number[];
  readonly values: readonly number[];
  readonly step: number;
}

/** A dimension of an operand, with the positions of the programs' blocks along it. */
export interface GridDimensionRecord {
  /** Size of the array along the dimension. */
  readonly size: number;
  /** Size of a block along the dimension. */
  readonly block: number;
  /**
   * Kind of block in the block spec; `accessed` if the spec selects the whole array and the body accesses a part of
   * it.
   */
  readonly rule: "blocked" | "squeezed" | "element" | "bounded" | "accessed";
  /** Index of the first element, which may be negative. */
  readonly start: GridNumberRecord;
  readonly length: GridNumberRecord;
}

/**
 * Counts over regions of an operand, as a matrix: all dimensions but the last are flattened into rows.
 */
export interface GridRasterRecord {
  /** First row of each cell, then the total number of rows. */
  readonly row_edges: readonly number[];
  readonly column_edges: readonly number[];
  /**
   * For each cell, in row-major order, the largest number of programs that access one of its elements.
   */
  readonly visits: readonly number[];
  /** For each cell, in row-major order, the largest number of transfers of one of its elements. */
  readonly moves: readonly number[];
  /**
   * Flags of each cell: 1 if no program accesses some element, plus 2 if parallel programs write the same element.
   */
  readonly marks: readonly number[];
  /** Whether no block boundary lies within a cell. */
  readonly is_exact: boolean;
}

/** An input or result of a kernel, and its programs' accesses to it. */
export interface GridOperandRecord {
  readonly name: string;
  /** Its block spec, for example `in_specs[0]`. */
  readonly spec: string;
  readonly role: "input" | "result";
  readonly type: string;
  readonly dims: readonly GridDimensionRecord[];
  /** For each program: 1 if it reads the operand, 2 if it writes it, 3 for both, 0 for neither. */
  readonly activity: GridNumberRecord;
  readonly is_read: boolean;
  readonly is_written: boolean;
  /** Name of the input whose buffer a result reuses; empty if it starts uninitialized. */
  readonly aliased: string;
  readonly block_bytes: number;
  /** Number of distinct blocks that programs access. */
  readonly block_count: number;
  /** Number of block transfers; a block isn't transferred again while it stays the same. */
  readonly fetch_count: number;
  readonly write_count: number;
  readonly moved_bytes: number;
  /** Bytes of all accessed elements, each transferred once in each direction; None if unknown. */
  readonly least_bytes: number | null;
  /** Share of the elements of all programs' blocks that lie outside of the array. */
  readonly beyond_share: number;
  /** Share of elements of loads and stores that masks disable; None without loads and stores. */
  readonly masked_share: number | null;
  /**
   * Whether all branches and masks depend only on the position; otherwise data-dependent accesses count as made.
   */
  readonly is_masked_exactly: boolean;
  /**
   * For a result: number of elements that no program accesses and that stay uninitialized; None if unknown.
   */
  readonly unseen_elements: number | null;
  /** For a result: number of elements that several parallel programs write; None if unknown. */
  readonly shared_elements: number | null;
  /** Number of programs whose block lies entirely outside of the array. */
  readonly outside_count: number;
  readonly raster: GridRasterRecord | null;
  readonly source: SourceRecord | null;
  /** Line of the block spec. */
  readonly line: number;
  /** Why nothing is known about its blocks; empty if it is. */
  readonly note: string;
}

/**
 * Programs as a matrix of cells: program `p` is in cell (`p` // `width` // `row_step`, `p` % `width` //
 * `column_step`).
 */
export interface GridCellColumns {
  readonly rows: number;
  readonly columns: number;
  readonly width: number;
  readonly row_step: number;
  readonly column_step: number;
  /** For each cell, in row-major order, the number of its programs. */
  readonly programs: readonly number[];
  /** Total bytes that the cell's programs transfer. */
  readonly moved_bytes: readonly number[];
  /** Number of the cell's idle programs. */
  readonly idle: readonly number[];
  /**
   * Flags of each cell: 2 if programs write elements that parallel ones write, plus 4 for blocks outside of arrays.
   */
  readonly marks: readonly number[];
}

/** A kernel over a grid: the blocks that each program accesses, and their cost. */
export interface GridKernelRecord {
  readonly name: string;
  /** Empty if sizes are known only at run time, as `note` says. */
  readonly grid: readonly number[];
  readonly parallel_axes: readonly number[];
  readonly program_count: number;
  readonly operands: readonly GridOperandRecord[];
  /** None if nothing is known about any block. */
  readonly cells: GridCellColumns | null;
  /**
   * Estimated total of all programs, of which idle ones count as much as others; None if the grid's size is unknown.
   */
  readonly flops: number | null;
  readonly transcendentals: number | null;
  /** Whether it is a lower bound, because loops of unknown length count once. */
  readonly is_least: boolean;
  /** The FLOPs of the user's `cost_estimate`; None without one. */
  readonly stated_flops: number | null;
  readonly stated_bytes: number | null;
  readonly moved_bytes: number;
  readonly least_bytes: number | null;
  /** Number of programs that write nothing. */
  readonly idle_count: number;
  /** Number of programs that write elements that parallel programs write. */
  readonly sharing_count: number;
  readonly outside_count: number;
  /** Why the kernel was rejected; empty if it wasn't. */
  readonly refusal: string;
  /** A remark on the figures. */
  readonly note: string;
  readonly source: SourceRecord | null;
  /** Line of the call. */
  readonly line: number;
}

/** The kernels that a function calls, in program order. */
export interface KernelGridsRecord {
  readonly name: string;
  readonly kernels: readonly GridKernelRecord[];
  /** Number of kernels that are left out. */
  readonly hidden_count: number;
  /** Number of the program that is selected first in the first kernel; -1 for the first one. */
  readonly program: number;
  readonly schema_version: number;
  readonly kind: "kernel_grids";
}

/** A line of the user's in a simulated kernel. */
export interface SimulatedLineRecord {
  /** None for what belongs to no line of the user's. */
  readonly source: SourceRecord | null;
  readonly line: number;
  /** File or cell, number and code in one line of text. */
  readonly text: string;
}

/** What a core of a simulated device did, in steps of simulated time. */
export interface SimulatedCoreRecord {
  readonly device: number;
  readonly core: number;
  readonly compute_steps: number;
  readonly wait_steps: number;
  /** Time in which at least one copy that it has started is in flight. */
  readonly copy_steps: number;
  /** The part of `copy_steps` in which it computes: double buffering makes it large. */
  readonly hidden_steps: number;
  /** When its last program ended. */
  readonly end: number;
  /** Index of its own lane among all lanes. */
  readonly first_lane: number;
  /**
   * One lane for the core, then lanes for its copies: as many as are in flight at once, up to four.
   */
  readonly lane_count: number;
  /** What it waits for forever; empty if it came to its end. */
  readonly stuck: string;
}

/**
 * What cores and copies did, in the order of lanes, then of time. Entries of `count` > 1 stand for several that lie close together.
 */
export interface SimulatedEventColumns {
  readonly lane: readonly number[];
  /** Index into `SIMULATED_KINDS`. */
  readonly kind_index: readonly number[];
  readonly begin: readonly number[];
  readonly end: readonly number[];
  /** Index into `SimulatedKernelRecord.lines`. */
  readonly line: readonly number[];
  /**
   * Index into `SimulatedKernelRecord.strings`: the semaphore of a wait or signal, the buffers of a copy.
   */
  readonly label: readonly number[];
  /** Index into `strings`: the position in the grid. */
  readonly program: readonly number[];
  /** Bytes of copies. */
  readonly n_bytes: readonly number[];
  readonly count: readonly number[];
  /** Steps of all that the entry stands for; less than its length if there are gaps. */
  readonly busy: readonly number[];
}

/** A line at which cores waited. */
export interface SimulatedWaitRecord {
  /** Index into `SimulatedKernelRecord.lines`. */
  readonly line: number;
  /** What they waited for. */
  readonly what: string;
  /** Of all cores together. */
  readonly steps: number;
  readonly count: number;
  readonly core_count: number;
  /** Share of the time of all cores from the beginning to the end of the run. */
  readonly share: number;
}

/** A run of a kernel in the simulator: what each core and each copy did when. */
export interface SimulatedKernelRecord {
  readonly name: string;
  readonly device_count: number;
  /**
   * When the last core or copy ended: 1024 bytes copied, or elements computed, are one step, and a copy takes one more.
   */
  readonly steps: number;
  readonly strings: readonly string[];
  readonly lines: readonly SimulatedLineRecord[];
  readonly cores: readonly SimulatedCoreRecord[];
  readonly events: SimulatedEventColumns;
  /** Names of the kinds of events. */
  readonly kinds: readonly string[];
  /** Number of events before those that lie close together were joined. */
  readonly event_count: number;
  /** The lines with the longest waits, the longest first. */
  readonly waits: readonly SimulatedWaitRecord[];
  readonly copied_bytes: number;
  /** Bytes of copies to other devices. */
  readonly sent_bytes: number;
  /** The error that ended the run; empty without one. */
  readonly fault: string;
}

/** The kernels that ran in the simulator, in the order of their calls. */
export interface KernelTimelinesRecord {
  readonly name: string;
  readonly kernels: readonly SimulatedKernelRecord[];
  /** Number of runs that are left out. */
  readonly hidden_count: number;
  readonly schema_version: number;
  readonly kind: "kernel_timelines";
}

/**
 * What a kernel holds in a fast memory: the buffers of an array's blocks, scratch, or what threads exchange elements in.
 */
export interface KernelMemoryPartRecord {
  readonly name: string;
  readonly role: "block" | "scratch" | "scalars" | "exchange";
  /** Type of one buffer. */
  readonly type: string;
  /** A memory of a TPU, or of a block of threads on a GPU. */
  readonly space: "vmem" | "smem" | "shared" | "registers";
  readonly buffer_count: number;
  /** Bytes of all buffers, in whole tiles, or with what lies unused in front of them. */
  readonly bytes: number;
  /** Those without what tiles have beyond the edges of a block. */
  readonly needed_bytes: number;
  readonly source: SourceRecord | null;
  readonly line: number;
  /** File or cell, number and code of the line; empty if it is unknown. */
  readonly text: string;
}

/** A TPU and the sizes of the fast memories of one of its cores. */
export interface ChipRecord {
  readonly name: string;
  readonly vmem_bytes: number;
  readonly smem_bytes: number;
}

/** A GPU, what a block of threads may have there, and what the compiler says of a kernel. */
export interface GpuMemoryRecord {
  readonly name: string;
  readonly shared_bytes: number;
  readonly register_bytes: number;
  /** Registers, spills and occupancy, or why they aren't known. */
  readonly compiled: string;
}

/** What a kernel holds in the fast memories of a TPU, or of a block of threads of a GPU. */
export interface KernelMemoryRecord {
  readonly name: string;
  /** The GPU that a kernel is for; None for TPUs. */
  readonly gpu: GpuMemoryRecord | null;
  readonly parts: readonly KernelMemoryPartRecord[];
  /** `vmem_limit_bytes` of its compiler parameters; None without them. */
  readonly limit_bytes: number | null;
  /** Why it can't be lowered to TPUs, whatever the chip, or to the GPU; empty if it can. */
  readonly refusal: string;
  readonly source: SourceRecord | null;
  /** Line of the call. */
  readonly line: number;
}

/** The kernels that a function calls, with what they hold in the fast memories of TPUs. */
export interface KernelMemoriesRecord {
  readonly name: string;
  readonly kernels: readonly KernelMemoryRecord[];
  readonly chips: readonly ChipRecord[];
  /** Name of the chip that is shown first. */
  readonly chip: string;
  /** Number of kernels that are left out. */
  readonly hidden_count: number;
  readonly schema_version: number;
  readonly kind: "kernel_memories";
}
