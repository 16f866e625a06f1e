// Generated from pellucid_kernel.schema by tools/generate_types.py. Do not edit.

import type { ArrayValuesRecord, CompiledRecord, FunctionShardingRecord, FunctionsRecord, MemoryRecord, ProgramRecord, ShardingRecord, WhatIfRecord } from "./introspect";
import type { PerfettoRecord, TimelineRecord } from "./profiler";

/**
 * Requests the states of these panels, now and after each cell, and no others: the panels that are visible.
 */
export interface FollowRequest {
  readonly panels: readonly string[];
  readonly kind: "follow";
}

/** Requests one view of the program of a cache entry. */
export interface ProgramRequest {
  /** Number that the answer repeats. */
  readonly request: number;
  readonly entry: number;
  readonly view: "jaxpr" | "stablehlo" | "hlo" | "sharding" | "memory";
  readonly kind: "show_program";
}

/** Requests to free the memory of a live array. */
export interface FreeArrayRequest {
  readonly request: number;
  readonly array: number;
  readonly kind: "free_array";
}

/** Requests to drop references to arrays held by the last error and by cell outputs. */
export interface LetGoRequest {
  readonly request: number;
  readonly kind: "let_go";
}

/** Requests a section of a profiled session's timeline. */
export interface TimelineRequest {
  readonly request: number;
  /** `ProfileRecord.session`. */
  readonly session: number;
  readonly begin_ns: number;
  readonly end_ns: number;
  /** Number of equal parts of that time; operations that are shorter than a part are merged. */
  readonly columns: number;
  readonly kind: "show_timeline";
}

/** Requests a profiled session as a Perfetto trace, and the page of the Perfetto UI. */
export interface PerfettoRequest {
  readonly request: number;
  /** `ProfileRecord.session`. */
  readonly session: number;
  readonly kind: "show_perfetto";
}

/** Requests the values of an array, or of its shard on one device. */
export interface ArrayRequest {
  readonly request: number;
  /** `ArrayValuesRecord.array`. */
  readonly array: string;
  readonly device: number | null;
  readonly kind: "show_array";
}

/** Requests a slice of an array. */
export interface ArraySliceRequest {
  readonly request: number;
  /** `ArrayValuesRecord.array`. */
  readonly array: string;
  /** One index per dimension; those along `dims` are ignored. */
  readonly index: readonly number[];
  /** The dimension drawn vertically, and the one drawn horizontally. */
  readonly dims: readonly number[];
  readonly kind: "show_array_slice";
}

/** Requests another placement of a function's arguments, or the fastest placements. */
export interface WhatIfRequest {
  readonly request: number;
  /** `WhatIfRecord.figure`. */
  readonly figure: string;
  readonly axis_names: readonly string[];
  readonly axis_sizes: readonly number[];
  /** Mesh axes of each dimension of each of the record's arguments. */
  readonly dim_axes: readonly (readonly (readonly string[])[])[];
  /** Memory limit in bytes for the search of the fastest placements; None for no search. */
  readonly search_under: number | null;
  readonly kind: "show_placement";
}

/** Messages from a panel. */
export type Request =
  | FollowRequest
  | WhatIfRequest
  | ArrayRequest
  | ArraySliceRequest
  | ProgramRequest
  | FreeArrayRequest
  | LetGoRequest
  | TimelineRequest
  | PerfettoRequest;

/** State of the panel "Programs". */
export interface ProgramsState {
  readonly functions: FunctionsRecord;
  readonly panel: "programs";
  readonly kind: "state";
}

/** State of the panel "Devices and mesh". */
export interface DevicesState {
  /** Memory of the devices. If there are very many arrays, the smallest are omitted. */
  readonly memory: MemoryRecord;
  readonly array_count: number;
  /** The meshes among the user's variables, each under its variable's name. */
  readonly meshes: readonly ShardingRecord[];
  /** Hint for setting the number of devices; empty if it doesn't apply. */
  readonly device_note: string;
  readonly panel: "devices";
  readonly kind: "state";
}

/** State of a panel, sent when it becomes visible and after each cell. */
export type State = ProgramsState | DevicesState;

/** A slice of an array, downsampled for a heat map. */
export interface ArraySliceRecord {
  /** One index per dimension; those along `dims` are ignored. */
  readonly index: readonly number[];
  /** The dimension drawn vertically, and the one drawn horizontally. */
  readonly dims: readonly number[];
  /** Stride along each of `dims` at which elements are read. */
  readonly steps: readonly number[];
  /** Mean of the finite elements of each block, row by row; None for a block without any. */
  readonly cells: readonly (readonly (number | null)[])[];
  readonly kind: "array_slice";
}

/** Views that can be requested. */
export type Shown =
  | ProgramRecord
  | FunctionShardingRecord
  | CompiledRecord
  | TimelineRecord
  | PerfettoRecord
  | ArrayValuesRecord
  | ArraySliceRecord
  | WhatIfRecord;

/** Answer to a request that has a number. */
export interface AnswerRecord {
  readonly request: number;
  /** The requested view; None for a command. */
  readonly shown: ProgramRecord | FunctionShardingRecord | CompiledRecord | TimelineRecord | PerfettoRecord | ArrayValuesRecord | ArraySliceRecord | WhatIfRecord | null;
  /** Error message; None if there was none. */
  readonly error: string | null;
  readonly kind: "answer";
}

/** A line of user code. */
export interface UserLineRecord {
  /** Name of the cell or file. */
  readonly source: string;
  readonly line: number;
}

/**
 * A Python loop that was traced iteration by iteration, so that the program contains each of them.
 */
export interface UnrolledLoopRecord {
  /** Line of the `for` or `while` statement. */
  readonly place: UserLineRecord;
  /** Number of iterations traced so far. */
  readonly iterations: number;
}

/**
 * Progress of a compilation or of a wait for devices that takes longer than a third of a second. Sent at each stage
 * and at the end.
 */
export interface ProgressRecord {
  /**
   * Name of the compiled function, or the types of the awaited arrays; None if nothing is running.
   */
  readonly function: string | null;
  /**
   * Stage of the compilation; `wait`; `busy` for devices that compute while one line goes on without a wait that
   * pellucid knows of, such as NumPy's; or `left` for work that devices continue after an interrupted wait.
   */
  readonly stage: "trace" | "lower" | "compile" | "wait" | "busy" | "left" | null;
  /** Devices that are awaited; empty for a compilation. */
  readonly devices: string;
  /**
   * Equations of the function and of the programs in it, so far if it is still traced; 0 for a wait.
   */
  readonly equation_count: number;
  /** Time since the compilation or the wait began. */
  readonly elapsed_seconds: number;
  /** Line of the call or of the wait. */
  readonly place: UserLineRecord | null;
  readonly loop: UnrolledLoopRecord | null;
  /**
   * Id of the running cell; None for work requested by a panel, or if the front end sends no ids.
   */
  readonly cell_id: string | null;
  /** Whether a view requested it, rather than the user's program. */
  readonly is_by_tool: boolean;
  readonly kind: "progress";
}

/** Messages from a kernel. */
export type Message = ProgramsState | DevicesState | AnswerRecord | ProgressRecord;
