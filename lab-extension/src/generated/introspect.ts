// Generated from pellucid.introspect.schema by tools/generate_types.py. Do not edit.

/** Rises when a field is renamed or removed; readers accept the last two versions. */
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
  /** Position of each device in the machine's own network; empty where it is not known. */
  readonly device_coordinates: readonly (readonly number[])[];
  readonly platform: string;
  readonly device_kind: string;
}

/** How one type is laid over a mesh. */
export interface SpecRecord {
  /** As the user would write it, for example `P('data', None)`. */
  readonly text: string;
  /** Index into the list of meshes beside it; -1 where there is no mesh (one device). */
  readonly mesh: number;
  /** For each dimension the mesh axes that divide it, the major one first. */
  readonly dim_axes: readonly (readonly string[])[];
  /** Axes along which devices hold summands that are not added up yet. */
  readonly unreduced_axes: readonly string[];
  readonly memory_kind: string | null;
}

/** Type of values; many values share one. */
export interface TypeRecord {
  /** As programs print it, for example `f32[8,128]`. */
  readonly text: string;
  /** Empty for what is no array, such as a token. */
  readonly dtype: string;
  /** A symbolic dimension is its text; None for what is no array. */
  readonly shape: readonly (number | string)[] | null;
  readonly weak_type: boolean;
  /** Bytes of the whole array; None with symbolic dimensions or without a fixed width. */
  readonly bytes: number | null;
  /** Index into `ProgramRecord.shardings`; -1 where none is known. */
  readonly sharding: number;
  readonly memory_space: string | null;
}

/** A file or a notebook cell that equations come from. */
export interface SourceRecord {
  /** Name for the user: `In[4]`, or the shortest path. */
  readonly name: string;
  readonly path: string;
  /** Id of the notebook cell, where the front end sent one. */
  readonly cell_id: string | null;
  /** How many cells had run with this one, when the cell last ran. */
  readonly execution_count: number | null;
  /** Number of the first entry of `lines`, counted from 1. */
  readonly first_line: number;
  /** Text of the lines; None where the record was asked to leave it out. */
  readonly lines: readonly string[] | null;
}

/** Places in the user's source. Lines count from 1, columns from 0. */
export interface SpanColumns {
  /** Index into `ProgramRecord.sources`. */
  readonly source: readonly number[];
  readonly line: readonly number[];
  readonly end_line: readonly number[];
  readonly column: readonly number[];
  readonly end_column: readonly number[];
  /** Text: the Python function that holds the span. */
  readonly function: readonly number[];
  /** Text: the variable that the statement assigns; 0 where there is none. */
  readonly variable: readonly number[];
  /** Span of the call that led here; -1 at the outermost frame of the user. */
  readonly caller: readonly number[];
}

/** Tree of named scopes. A parent comes before its children. */
export interface ScopeColumns {
  readonly name: readonly number[];
  /** -1 for an outermost scope. */
  readonly parent: readonly number[];
}

/** Variables of a program: inputs, constants and results of equations. */
export interface ValueColumns {
  /** Text: the name in the printed program. */
  readonly name: readonly number[];
  /** Text: the user's name for it; 0 where none is known. */
  readonly user_name: readonly number[];
  /** Index into `ProgramRecord.types`. */
  readonly type: readonly number[];
}

/** Constants written into the program text. */
export interface LiteralColumns {
  readonly text: readonly number[];
  readonly type: readonly number[];
}

/** Equations, body after body: those of one body are neighbours, in program order. */
export interface EquationColumns {
  /** Stable id, the same in every record of the same program, unique in this one. */
  readonly id: readonly number[];
  /** Text: name of the primitive or of the operation. */
  readonly primitive: readonly number[];
  /** Index into `ProgramRecord.scopes`; -1 outside every scope. */
  readonly scope: readonly number[];
  /** Index into `ProgramRecord.spans`; -1 where the source is not known. */
  readonly span: readonly number[];
  /** Text: effects of the equation; 0 without any. */
  readonly effects: readonly number[];
  readonly operand_counts: readonly number[];
  /**
   * A value's index, or -1 - i for literal i. Values that a body captures from outside are among them.
   */
  readonly operands: readonly number[];
  readonly result_counts: readonly number[];
  /** Indices of values. */
  readonly results: readonly number[];
  readonly param_counts: readonly number[];
  /** Text. Params that hold programs are in `bodies` and are absent here. */
  readonly param_names: readonly number[];
  /** Text of the param's value, short. */
  readonly param_texts: readonly number[];
  readonly body_counts: readonly number[];
  /** Indices into `ProgramRecord.bodies`. Several equations may run one body. */
  readonly bodies: readonly number[];
  /** Text: the param that holds the body, for example `cond_jaxpr` or `branches[1]`. */
  readonly body_roles: readonly number[];
  /**
   * How often one run of the equation runs the body: 0 if it serves transformations alone; None where nobody can know.
   */
  readonly body_trips: readonly (number | null)[];
  /** Text: the transformation that made this equation from others; 0 for the user's own. */
  readonly transformation: readonly number[];
  readonly origin_counts: readonly number[];
  /** Stable ids of the equations it was made from, which may lie in another program. */
  readonly origins: readonly number[];
}

/** A program or a program within a program: inputs, equations, outputs. */
export interface BodyRecord {
  readonly name: string;
  readonly first_equation: number;
  readonly equation_count: number;
  /** Values bound outside the body's inputs. */
  readonly constants: readonly number[];
  readonly inputs: readonly number[];
  /** A value's index, or -1 - i for literal i. */
  readonly outputs: readonly number[];
}

/** One quantity for each equation, for one run of it with everything inside. */
export interface CostColumn {
  /** `flops`, `transcendentals` and `bytes` are known to all views; others are shown as named. */
  readonly name: string;
  /** `flop`, `op`, `B`, `us`, or empty for a plain number. */
  readonly unit: string;
  readonly basis: "estimate" | "compiler" | "measured";
  /** None where nobody knows. */
  readonly values: readonly (number | null)[];
}

/** Text of a program as its own printer writes it. */
export interface ListingRecord {
  readonly text: string;
  /** For each line of `text` the index of its equation; -1 for a line without one. */
  readonly line_equations: readonly number[];
}

/** A jaxpr, a StableHLO module or an optimized HLO module. */
export interface ProgramRecord {
  /** Names this program in links and in other records. */
  readonly key: string;
  readonly name: string;
  readonly dialect: "jaxpr" | "stablehlo" | "hlo";
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
   * Kind of work of each primitive or operation that occurs: `contraction`, `movement`, `control`, …
   */
  readonly kinds: Readonly<Record<string, string>>;
  /** The first is the program itself. */
  readonly bodies: readonly BodyRecord[];
  readonly costs: readonly CostColumn[];
  /** None where views should write the text themselves, from the columns. */
  readonly listing: ListingRecord | null;
  readonly schema_version: number;
  readonly kind: "program";
}

/** Which equations of two programs belong together, as pairs of stable ids. */
export interface LinkRecord {
  /** Key of a program. */
  readonly source: string;
  readonly target: string;
  /** The step from source to target: `lower`, `compile`, `jvp`, `transpose`, `same`, … */
  readonly relation: string;
  readonly source_ids: readonly number[];
  readonly target_ids: readonly number[];
}

/** One function at its stages, from the user's lines to the optimized program. */
export interface LensRecord {
  readonly name: string;
  readonly programs: readonly ProgramRecord[];
  readonly links: readonly LinkRecord[];
  readonly schema_version: number;
  readonly kind: "lens";
}

/** One function after each of several transformations, or after each of the compiler's passes. */
export interface LadderRecord {
  readonly name: string;
  /** For each program what made it; empty for the first. */
  readonly transformations: readonly string[];
  /** For each program the one that it was made from; -1 for the first. */
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
  /** Equations known to correspond; None leaves the matching to the view. */
  readonly matches: LinkRecord | null;
  readonly schema_version: number;
  readonly kind: "diff";
}

/**
 * Estimated cost of one run of an executable on one device: loops count as often as they run, of branches the dearest.
 */
export interface CompiledCostRecord {
  readonly flops: number | null;
  readonly transcendentals: number | null;
  readonly bytes_accessed: number | null;
  /** Whether the cost may be more: loops of unknown length count once, and native code nothing. */
  readonly is_least: boolean;
}

/** Memory of an executable on one device. */
export interface CompiledMemoryRecord {
  readonly argument_bytes: number;
  readonly output_bytes: number;
  /** Part of the outputs that reuses donated arguments. */
  readonly alias_bytes: number;
  readonly temporary_bytes: number;
  readonly code_bytes: number;
  /** Arguments, results and temporaries together, aliased bytes once. */
  readonly peak_bytes: number;
  readonly basis: "estimate" | "compiler" | "measured";
}

/** A part of a kernel, which belongs to one line. */
export interface LineShareRecord {
  /**
   * Stable id in the optimized program of an equation that has the line; -1 for what is no line's.
   */
  readonly equation: number;
  /** Estimated share of the kernel's work; the shares of a kernel add up to 1. */
  readonly share: number;
}

/** One kernel or library call of an executable. */
export interface KernelRecord {
  readonly name: string;
  readonly category: "fusion" | "library" | "custom" | "copy" | "collective" | "other";
  /** Stable id in the optimized program; -1 where it is not known. */
  readonly hlo_equation: number;
  /** Stable ids of the user's equations that it computes. */
  readonly equations: readonly number[];
  /** In one run of the executable, all executions together. */
  readonly flops: number | null;
  /** In one run of the executable, all executions together. */
  readonly bytes_accessed: number | null;
  /**
   * In one run; None where it isn't known, in branches and loops of unknown length: these count once.
   */
  readonly executions: number | null;
  /** The lines that it computes, if it is not on one itself; empty where no line is known. */
  readonly lines: readonly LineShareRecord[];
  /** Whether the line is that of kernels beside it. */
  readonly is_line_inferred: boolean;
  /**
   * In one run of the executable on one device, all of its executions together; None where nobody measured it.
   */
  readonly seconds: number | null;
}

/** Time of one step between a Python call and an executable. */
export interface PhaseRecord {
  readonly name: string;
  readonly seconds: number;
}

/** One executable: what it costs, what it holds, which kernels it runs. */
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

/** One part of a cache key that no earlier call had. */
export interface MissCauseRecord {
  readonly part: "shape" | "dtype" | "weak_type" | "sharding" | "tree" | "static_argument" | "function" | "closure" | "configuration" | "donation" | "device" | "first_call";
  /** Path of the argument, for example `batch['x']`; empty where the cause is no argument. */
  readonly path: string;
  /** Empty for a first call. */
  readonly before: string;
  readonly after: string;
  /** One concrete change that avoids it; empty where there is none. */
  readonly advice: string;
}

/** Why a function was traced or compiled again. */
export interface MissRecord {
  readonly function: string;
  readonly source: SourceRecord | null;
  readonly line: number | null;
  /** The cell that made the call. */
  readonly cell: string | null;
  /** Entries of the function's cache, this one included. */
  readonly entry_count: number;
  readonly seconds: number;
  readonly phases: readonly PhaseRecord[];
  readonly causes: readonly MissCauseRecord[];
  /**
   * Number of misses whose seconds are added up here; the rest of the record is of the last one.
   */
  readonly count: number;
  readonly schema_version: number;
  readonly kind: "miss";
}

/** The latest misses, oldest first. */
export interface MissesRecord {
  readonly misses: readonly MissRecord[];
  /**
   * Whether this is a kernel's note on the functions that a cell compiled again, one record for each.
   */
  readonly is_note: boolean;
  readonly schema_version: number;
  readonly kind: "misses";
}

/** One program in the cache of a jitted function. */
export interface FunctionEntryRecord {
  /** Names the program as long as it is in the cache. */
  readonly id: number;
  /**
   * Path and type of each argument, in order, for example `params['w']: f32[8]`; of a static argument its value.
   */
  readonly arguments: readonly string[];
  readonly equation_count: number;
  /** For how many placements it is compiled; 0 while it is only traced. */
  readonly executable_count: number;
  /** Why it was made, and what it cost; None for one taken over from another function. */
  readonly miss: MissRecord | null;
}

/** One jitted function that is alive, with its cache. */
export interface FunctionRecord {
  readonly id: number;
  readonly name: string;
  /** Where it is defined, without its lines. */
  readonly source: SourceRecord | null;
  readonly line: number | null;
  /** The oldest first. */
  readonly entries: readonly FunctionEntryRecord[];
  /**
   * Its parameters with their defaults, and which are static or donated: `(x, n=2), static n, donated x`.
   */
  readonly signature: string;
  readonly schema_version: number;
  readonly kind: "function";
}

/** The user's jitted functions, the one that was compiled last first. */
export interface FunctionsRecord {
  readonly functions: readonly FunctionRecord[];
  readonly schema_version: number;
  readonly kind: "functions";
}

/** One frame of the user's on the way to an error. */
export interface ErrorFrameRecord {
  /** With some lines around the frame's. */
  readonly source: SourceRecord;
  readonly line: number;
  readonly end_line: number;
  readonly column: number;
  /** Columns count from 0; both are -1 where they aren't known. */
  readonly end_column: number;
  readonly function: string;
}

/** Where two trees, or the types of their leaves, differ. */
export interface DifferenceRecord {
  readonly path: string;
  /** Label of the left side, for example `got`. */
  readonly left_title: string;
  readonly left: string;
  readonly right_title: string;
  readonly right: string;
}

/** An error of core in its four parts, with the user's frames only. */
export interface ErrorRecord {
  readonly name: string;
  readonly what: string;
  /** One line for each argument: its path, then its type. */
  readonly got: readonly string[];
  /** Those lines of `got` that say of one path what stands on either side. */
  readonly differences: readonly DifferenceRecord[];
  readonly where: string | null;
  readonly do: string | null;
  /** Address of the class's entry in the documentation; None for errors that aren't pellucid's. */
  readonly page: string | null;
  /** Outermost first, as Python shows them. */
  readonly frames: readonly ErrorFrameRecord[];
  /** The whole traceback as Python prints it. */
  readonly traceback: string;
  readonly schema_version: number;
  readonly kind: "error";
}

/** Something that core did, as it happened. */
export interface EventRecord {
  readonly event: "trace" | "pass" | "lookup" | "compilation" | "transfer" | "callback" | "leak";
  /** The function, the pass, or the direction of a transfer. */
  readonly name: string;
  /** When it ended, by a clock of its process that never goes back. */
  readonly time_us: number;
  readonly thread: number;
  readonly seconds: number | null;
  /** Bytes that a transfer moved. */
  readonly bytes: number | null;
  /** For a look-up or a compilation, where the program was found. */
  readonly cache: "hit" | "miss" | "disk" | null;
  /** For a look-up that missed, why. */
  readonly miss: MissRecord | null;
  readonly schema_version: number;
  readonly kind: "event";
}

/** Memory of one device at one moment. */
export interface DeviceMemoryRecord {
  readonly device_id: number;
  readonly process_index: number;
  readonly platform: string;
  readonly device_kind: string;
  /** From the allocator where it reports, else the sum over live arrays. */
  readonly in_use_bytes: number;
  readonly peak_bytes: number | null;
  readonly limit_bytes: number | null;
  readonly basis: "estimate" | "compiler" | "measured";
}

/** One array that holds device memory. */
export interface LiveArrayRecord {
  readonly id: number;
  readonly type: string;
  readonly sharding: string;
  readonly device_ids: readonly number[];
  /** Of its largest shard. */
  readonly bytes_per_device: number;
  readonly total_bytes: number;
  /** Variables that hold it, with their path, for example `params['layer3'].w`. */
  readonly owners: readonly string[];
  /** Other owners, for example `sys.last_traceback`. */
  readonly holders: readonly string[];
  /** Cell or file that made it. */
  readonly source: string | null;
  readonly line: number | null;
  readonly age_s: number | null;
}

/** Distinct parts of an array. */
export interface ArrayPartColumns {
  /** Id of a device that holds it. */
  readonly device: readonly number[];
  /** Where it lies in the array: `0:2, 0:8`. */
  readonly index: readonly string[];
  /** Of its finite elements. */
  readonly low: readonly (number | null)[];
  readonly high: readonly (number | null)[];
  readonly nan_count: readonly number[];
}

/** Values of an array at a glance. */
export interface ArrayValuesRecord {
  readonly type: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  /** Whether the figures are those of absolute values, as of complex numbers. */
  readonly is_absolute: boolean;
  readonly nan_count: number;
  readonly infinite_count: number;
  readonly zero_count: number;
  /** The smallest finite element. */
  readonly low: number | null;
  readonly high: number | null;
  /** Of the finite elements. */
  readonly mean: number | null;
  /** Numbers of sampled elements in equal parts of the range. */
  readonly bins: readonly number[];
  /** Elements that `bins` counts; all where that is the size. */
  readonly sample_count: number;
  /** Indices along the dimensions before the last two at which `cells` are. */
  readonly index: readonly number[];
  /** Along the last two dimensions, `cells` are of every so many elements. */
  readonly steps: readonly number[];
  /**
   * Means of the finite elements of blocks of the last two dimensions, by rows; None where a block has none.
   */
  readonly cells: readonly (readonly (number | null)[])[];
  readonly parts: ArrayPartColumns;
  /** The array as Python prints it; the middle of a large one is left out. */
  readonly numbers: string;
  /** Why there are no values; empty where there are. */
  readonly note: string;
  /**
   * Name under which its kernel finds the array while it lives; empty where it can't be asked for.
   */
  readonly array: string;
  readonly schema_version: number;
  readonly kind: "array_values";
  /**
   * Whole numbers that each of `bins` counts, from `low` on; None where they are equal parts of the range.
   */
  readonly bin_width: number | null;
}

/** Devices and the arrays that live on them. */
export interface MemoryRecord {
  readonly devices: readonly DeviceMemoryRecord[];
  readonly arrays: readonly LiveArrayRecord[];
  readonly schema_version: number;
  readonly kind: "memory";
}

/** Which device holds which part of one array. */
export interface ShardingRecord {
  /** The user's name for the array; empty where there is none. */
  readonly name: string;
  /**
   * `mesh` for a mesh itself, whose devices are the parts; empty for a sharding without a shape.
   */
  readonly type: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  /** Bytes of one element; below 1 for types that share a byte. */
  readonly item_bytes: number;
  readonly mesh: MeshRecord;
  /** `spec.mesh` is 0. */
  readonly spec: SpecRecord;
  /** First index along each dimension for each distinct part, one part after the other. */
  readonly tile_starts: readonly number[];
  readonly tile_stops: readonly number[];
  /** For each device in mesh order the part that it holds; -1 for none. */
  readonly device_tiles: readonly number[];
  /** `ArrayValuesRecord.array`. */
  readonly array: string;
  readonly schema_version: number;
  readonly kind: "sharding";
}

/** Where a program says how something is laid out. */
export interface OriginRecord {
  /**
   * `argument x`, `in_shardings of x`, `with_sharding_constraint`, `out_shardings of result 0`, …
   */
  readonly text: string;
  /** Number of the value that it lays out; -1 where it is no value of the program. */
  readonly value: number;
  /** Index of the equation that says it; -1 for none. */
  readonly equation: number;
}

/**
 * Where programs run: the whole program first, then each body at each equation that runs it, wherever that is.
 *
 * The values of a program are numbered anew at each site, site after site: its constants, its inputs, then the results
 * of its equations, which is their order among the values of the program's record too.
 */
export interface SiteColumns {
  /** Index of the body that runs there. */
  readonly body: readonly number[];
  /** Index of the site that its equation is at, which comes before it; -1 for the whole program. */
  readonly parent: readonly number[];
  /** Index of the equation that runs it; -1 for the whole program. */
  readonly equation: readonly number[];
  /** Mesh axes along which each device computes with a part of its own, as types there say. */
  readonly manual_axes: readonly (readonly string[])[];
  /** Index of the mesh that has these axes; that of the program's own where there are none. */
  readonly mesh: readonly number[];
}

/** Where values at sites lie, by their numbers. */
export interface LayoutColumns {
  /** Index into `FunctionShardingRecord.shardings`; -1 where it is not known. */
  readonly sharding: readonly number[];
  /** Bytes of the value that one device holds. */
  readonly device_bytes: readonly number[];
  /** How many layouts the value has: more than 1 for a constant that is made anew for each use. */
  readonly count: readonly number[];
}

/**
 * How mesh axes came to values. The chain continues at `value`, with the same axis, and ends at an origin.
 */
export interface WhyColumns {
  /**
   * For each value at a site, by its number, how many of the entries are its: one for each axis.
   */
  readonly counts: readonly number[];
  /** Index into `FunctionShardingRecord.axes`. */
  readonly axis: readonly number[];
  /** Number of the value that it came from; -1 where the chain ends. */
  readonly value: readonly number[];
  /** The dimension of that value which it divides; -1 for none. */
  readonly dimension: readonly number[];
  /** Index of the equation that carried it; -1 for none. */
  readonly equation: readonly number[];
  /** Index into `FunctionShardingRecord.origins`: where the chain ends; -1 where it isn't known. */
  readonly origin: readonly number[];
}

/** One exchange between devices. */
export interface CollectiveRecord {
  /**
   * `all-gather`, `all-reduce`, `reduce-scatter`, `all-to-all`, `collective-permute`, …
   *
   * `reshard` is a change to another mesh, of which only the partitioner knows by which exchanges it is done.
   */
  readonly operation: string;
  /**
   * Mesh axes along which devices exchange; `x:(2)4` is a part of the axis `x`. Empty where they are not known.
   */
  readonly axes: readonly string[];
  /** Index of the mesh that has the axes. */
  readonly mesh: number;
  readonly group_count: number;
  readonly group_size: number;
  /** Bytes that one device sends in one run of the equation, with algorithms on a ring. */
  readonly bytes_per_device: number;
  /** How often the program runs it; None where nobody can know. */
  readonly runs: number | null;
  /** Index of the equation that caused it; -1 where it is not known. */
  readonly equation: number;
  /**
   * Index of the site of that equation; of several that can't be told apart the first. -1 where it is not known.
   */
  readonly site: number;
  readonly reason: "written" | "contraction" | "reshard" | "full_replication" | "unknown";
  /** One clause on what it is for; empty where that is not known. */
  readonly note: string;
}

/** A constraint that asks for more parts along a dimension than it can be cut into evenly. */
export interface UnevenCutRecord {
  /** Index of the constraint. */
  readonly equation: number;
  readonly site: number;
  /** Bytes of a part on each device if the dimension were padded to `padded`. */
  readonly device_bytes: number;
  /** Bytes that each device holds where the value is a result, which isn't cut then. */
  readonly whole_bytes: number;
  /** The next size that can be cut evenly. */
  readonly padded: number;
  /** In words, with what to do. */
  readonly note: string;
}

/** Layout of every intermediate of a function, why it is so, and what it costs to move. */
export interface FunctionShardingRecord {
  readonly name: string;
  readonly program: ProgramRecord;
  /** The program's own first; then others of the same devices over which some of its values lie. */
  readonly meshes: readonly MeshRecord[];
  readonly sites: SiteColumns;
  /** `mesh` of each is an index into `meshes`. */
  readonly shardings: readonly SpecRecord[];
  readonly layouts: LayoutColumns;
  /** Axes of the meshes, and parts of them, that divide some value. */
  readonly axes: readonly string[];
  readonly why: WhyColumns;
  readonly origins: readonly OriginRecord[];
  /** Exchanges that Shardy inserts, with their reasons. */
  readonly planned: readonly CollectiveRecord[];
  /** Exchanges of the optimized program; the planned ones where it can't be compiled. */
  readonly collectives: readonly CollectiveRecord[];
  /** In which kinds of exchange the two differ. */
  readonly differences: readonly string[];
  /** For each device in mesh order; empty where it is not known. */
  readonly device_peak_bytes: readonly number[];
  /** Source of `collectives` and `device_peak_bytes`: the compiled program, or an estimate. */
  readonly basis: "estimate" | "compiler" | "measured";
  /** Why there is only an estimate; empty where the program was compiled. */
  readonly not_compiled: string;
  /** Constraints that can't be met evenly. */
  readonly uneven: readonly UnevenCutRecord[];
  readonly schema_version: number;
  readonly kind: "function_sharding";
}

/** One way to place a function's arguments over a mesh, with estimates of what a run then costs. */
export interface PlacementRecord {
  readonly axis_names: readonly string[];
  readonly axis_sizes: readonly number[];
  /**
   * For each of `WhatIfRecord.arguments` and each dimension the mesh axes that divide it, major first.
   */
  readonly dim_axes: readonly (readonly (readonly string[])[])[];
  /** Bytes of the arguments on one device; exact. */
  readonly argument_bytes: number;
  /** Most bytes alive at once on one device, by lifetimes of values: fusion makes it smaller. */
  readonly peak_bytes: number;
  /** Bytes that one device sends in a run, with algorithms on a ring. */
  readonly sent_bytes: number;
  /** Collectives in a run; loops count each time. */
  readonly exchange_count: number;
  /** Time of arithmetic and memory traffic on one device, by the roofline of its kind. */
  readonly compute_seconds: number;
  /** Time of the exchanges, by the bandwidth of the links that their axes span. */
  readonly exchange_seconds: number;
}

/** Arguments whose paths differ in indices alone, with one type and one placement. */
export interface PlacedArgumentRecord {
  /**
   * Path with `*` for the indices in which they differ, for example `params['layers'][*]['up']`.
   */
  readonly name: string;
  readonly count: number;
  readonly type: string;
  readonly dim_sizes: readonly number[];
  /** Bytes of all of them on one device. */
  readonly device_bytes: number;
}

/** Exchanges of one kind along the same axes for one line of the user. */
export interface ExchangeCostRecord {
  readonly operation: string;
  readonly axes: readonly string[];
  readonly reason: "written" | "contraction" | "reshard" | "full_replication" | "unknown";
  /** In a run; loops count each time. */
  readonly count: number;
  /** Bytes that one device sends for them in a run. */
  readonly sent_bytes: number;
  readonly seconds: number;
  /** File or cell of the line; None where it is not known. */
  readonly source: SourceRecord | null;
  readonly line: number;
  /** Operation of the first of the equations that they are for; empty where it is not known. */
  readonly primitive: string;
}

/**
 * A function over a mesh that need not exist, beside how its arguments lie today. Estimates, but for bytes.
 */
export interface WhatIfRecord {
  readonly name: string;
  /** Kind of device that times are estimated for. */
  readonly device_kind: string;
  /** Memory of one device that placements are searched under. */
  readonly memory_limit_bytes: number;
  /** As placed by `placement`. */
  readonly arguments: readonly PlacedArgumentRecord[];
  readonly today: PlacementRecord;
  readonly placement: PlacementRecord;
  /** Of `placement`, those that take longest first. */
  readonly exchanges: readonly ExchangeCostRecord[];
  /** The fastest that a search found, the best first; empty where none was made. */
  readonly best: readonly PlacementRecord[];
  /** Placements that the search estimated. */
  readonly examined_count: number;
  /** Placements whose arguments alone exceed the limit, or that don't divide dimensions evenly. */
  readonly excluded_count: number;
  /** Placements that there was no time for. */
  readonly remaining_count: number;
  /** Sentences on what the estimates leave out. */
  readonly remarks: readonly string[];
  /** Why the placement that was asked for last can't be; empty where it is the one shown. */
  readonly refusal: string;
  /**
   * Name under which its kernel finds the figure, to estimate other placements; empty where none does.
   */
  readonly figure: string;
  readonly schema_version: number;
  readonly kind: "what_if";
}

/**
 * A whole number for each program of a grid, in the shortest form that is exact where `step` is 1.
 *
 * Without `values` it is `offset` plus the sum of `coefficients` times the position. With them it is the value at the
 * position along `axes`, row by row; without `axes` too, that of every `step`-th program.
 */
export interface GridNumberRecord {
  readonly offset: number;
  readonly coefficients: readonly number[];
  readonly axes: readonly number[];
  readonly values: readonly number[];
  readonly step: number;
}

/** A dimension of an operand, and where the programs' blocks lie along it. */
export interface GridDimensionRecord {
  /** Elements of the array. */
  readonly size: number;
  /** Elements of a block. */
  readonly block: number;
  /**
   * What the block spec says; `accessed` where it gives the whole array, and the body reads or writes a part.
   */
  readonly rule: "blocked" | "squeezed" | "element" | "bounded" | "accessed";
  /** First element, which may lie before the array. */
  readonly start: GridNumberRecord;
  readonly length: GridNumberRecord;
}

/**
 * Counts over the parts of an operand, as a matrix: dimensions before the last one are rows, one below the other.
 */
export interface GridRasterRecord {
  /** First row of each cell, then the number of rows. */
  readonly row_edges: readonly number[];
  readonly column_edges: readonly number[];
  /** By cell, row by row, the largest number of programs that see one of its elements. */
  readonly visits: readonly number[];
  /** Likewise how often it is moved. */
  readonly moves: readonly number[];
  /**
   * Sums of 1 for elements that no program sees, and 2 for elements that parallel programs write.
   */
  readonly marks: readonly number[];
  /** Whether cells are not cut by any boundary of blocks. */
  readonly is_exact: boolean;
}

/** An input or result of a kernel, and what its programs see of it. */
export interface GridOperandRecord {
  readonly name: string;
  /** Which of the block specs it has, for example `in_specs[0]`. */
  readonly spec: string;
  readonly role: "input" | "result";
  readonly type: string;
  readonly dims: readonly GridDimensionRecord[];
  /** For each program: 1 if it reads the operand, 2 if it writes it, 3 for both, 0 for neither. */
  readonly activity: GridNumberRecord;
  readonly is_read: boolean;
  readonly is_written: boolean;
  /** Name of the input that a result begins as; empty where it begins without values. */
  readonly aliased: string;
  readonly block_bytes: number;
  /** Number of distinct blocks that programs see. */
  readonly block_count: number;
  /** How often a block is fetched, as it stays while it doesn't change. */
  readonly fetch_count: number;
  readonly write_count: number;
  readonly moved_bytes: number;
  /** Each element that some program sees, moved once; None where that isn't known. */
  readonly least_bytes: number | null;
  /** Share of the elements of all programs' blocks that lie outside of the array. */
  readonly beyond_share: number;
  /**
   * Share of the elements of loads and stores that masks leave out; None without loads and stores.
   */
  readonly masked_share: number | null;
  /**
   * Whether all branches and masks follow from the position; otherwise what data choose counts as used.
   */
  readonly is_masked_exactly: boolean;
  /**
   * Of a result: elements that no program sees and that have no value; None where it isn't known.
   */
  readonly unseen_elements: number | null;
  /** Of a result: elements that parallel programs write. */
  readonly shared_elements: number | null;
  /** Programs whose block lies outside of the array. */
  readonly outside_count: number;
  readonly raster: GridRasterRecord | null;
  readonly source: SourceRecord | null;
  /** Of the block spec. */
  readonly line: number;
  /** Why nothing is known of its blocks; empty where it is. */
  readonly note: string;
}

/**
 * Programs as a matrix of cells: the program of number `p` is at (`p` // `width` // `row_step`, `p` % `width` // `column_step`).
 */
export interface GridCellColumns {
  readonly rows: number;
  readonly columns: number;
  readonly width: number;
  readonly row_step: number;
  readonly column_step: number;
  /** By cell, row by row, the number of its programs. */
  readonly programs: readonly number[];
  /** Bytes that they move together. */
  readonly moved_bytes: readonly number[];
  /** Number of its idle programs. */
  readonly idle: readonly number[];
  /**
   * Sums of 2 for programs that write what others write at the same time, and 4 for blocks outside of arrays.
   */
  readonly marks: readonly number[];
}

/** A kernel over a grid: which program sees which block, and what that costs. */
export interface GridKernelRecord {
  readonly name: string;
  /** Empty where sizes are known only when it runs, too; `note` says so. */
  readonly grid: readonly number[];
  readonly parallel_axes: readonly number[];
  readonly program_count: number;
  readonly operands: readonly GridOperandRecord[];
  /** None where nothing is known of any block. */
  readonly cells: GridCellColumns | null;
  /** Estimated, of all programs; idle ones count as others. */
  readonly flops: number | null;
  readonly transcendentals: number | null;
  /** Whether loops of unknown length counted once. */
  readonly is_least: boolean;
  /** What the user's `cost_estimate` says; None without one. */
  readonly stated_flops: number | null;
  readonly stated_bytes: number | null;
  readonly moved_bytes: number;
  readonly least_bytes: number | null;
  /** Programs that write nothing. */
  readonly idle_count: number;
  /** Programs that write what a parallel one writes. */
  readonly sharing_count: number;
  readonly outside_count: number;
  /** Why the kernel was refused; empty where it wasn't. */
  readonly refusal: string;
  /** What should be known of the figures. */
  readonly note: string;
  readonly source: SourceRecord | null;
  /** Of the call. */
  readonly line: number;
}

/** The kernels that a function calls, in the order of its program. */
export interface KernelGridsRecord {
  readonly name: string;
  readonly kernels: readonly GridKernelRecord[];
  /** Kernels that are left out. */
  readonly hidden_count: number;
  /** Number of the program of the first kernel that is shown at first; -1 for the first one. */
  readonly program: number;
  readonly schema_version: number;
  readonly kind: "kernel_grids";
}
