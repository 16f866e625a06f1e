// Generated from pellucid_kernel.schema by tools/generate_types.py. Do not edit.

import type { ArrayValuesRecord, CompiledRecord, FunctionShardingRecord, FunctionsRecord, MemoryRecord, ProgramRecord, ShardingRecord, WhatIfRecord } from "./introspect";
import type { PerfettoRecord, TimelineRecord } from "./profiler";

/**
 * Asks for the states of these panels, now and after each cell, and of no others: those that are in sight.
 */
export interface FollowRequest {
  readonly panels: readonly string[];
  readonly kind: "follow";
}

/** Asks for one view of the program of a cache entry. */
export interface ProgramRequest {
  /** Number that the answer repeats. */
  readonly request: number;
  readonly entry: number;
  readonly view: "jaxpr" | "stablehlo" | "hlo" | "sharding" | "memory";
  readonly kind: "show_program";
}

/** Asks to free the memory of a live array. */
export interface FreeArrayRequest {
  readonly request: number;
  readonly array: number;
  readonly kind: "free_array";
}

/** Asks to forget what the last error and the outputs of cells keep alive. */
export interface LetGoRequest {
  readonly request: number;
  readonly kind: "let_go";
}

/** Asks for a part of the time of a profiled session. */
export interface TimelineRequest {
  readonly request: number;
  /** `ProfileRecord.session`. */
  readonly session: number;
  readonly begin_ns: number;
  readonly end_ns: number;
  /** Number of equal parts of that time in which shorter operations are merged. */
  readonly columns: number;
  readonly kind: "show_timeline";
}

/**
 * Asks for a profiled session as a Perfetto trace, and for the page of Perfetto's user interface.
 */
export interface PerfettoRequest {
  readonly request: number;
  /** `ProfileRecord.session`. */
  readonly session: number;
  readonly kind: "show_perfetto";
}

/** Asks for the values of an array, or of the part of it that a device holds. */
export interface ArrayRequest {
  readonly request: number;
  /** `ArrayValuesRecord.array`. */
  readonly array: string;
  readonly device: number | null;
  readonly kind: "show_array";
}

/** Asks for a slice of an array. */
export interface ArraySliceRequest {
  readonly request: number;
  /** `ArrayValuesRecord.array`. */
  readonly array: string;
  /** One for each dimension; those along `dims` say nothing. */
  readonly index: readonly number[];
  /** The dimension drawn down, and the one drawn across. */
  readonly dims: readonly number[];
  readonly kind: "show_array_slice";
}

/** Asks for another placement of a function, or for the fastest ones. */
export interface WhatIfRequest {
  readonly request: number;
  /** `WhatIfRecord.figure`. */
  readonly figure: string;
  readonly axis_names: readonly string[];
  readonly axis_sizes: readonly number[];
  /** Mesh axes for each of the record's arguments and each dimension. */
  readonly dim_axes: readonly (readonly (readonly string[])[])[];
  /** Bytes of memory under which the fastest placements are searched; None without a search. */
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
  /** Without the smallest arrays where there are very many. */
  readonly memory: MemoryRecord;
  readonly array_count: number;
  /** The user's meshes, each by the name of its variable. */
  readonly meshes: readonly ShardingRecord[];
  /** How to get another number of devices; empty where that has no sense. */
  readonly device_note: string;
  readonly panel: "devices";
  readonly kind: "state";
}

/** State of a panel: sent when it comes into sight and after each cell. */
export type State = ProgramsState | DevicesState;

/** A slice of an array, as a heat map draws it. */
export interface ArraySliceRecord {
  /** One for each dimension; those along `dims` say nothing. */
  readonly index: readonly number[];
  /** The dimension drawn down, and the one drawn across. */
  readonly dims: readonly number[];
  /** Along `dims` every so many elements are read. */
  readonly steps: readonly number[];
  /** Means of the finite elements of blocks, by rows; None where a block has none. */
  readonly cells: readonly (readonly (number | null)[])[];
  readonly kind: "array_slice";
}

/** Views that a request can ask for. */
export type Shown =
  | ProgramRecord
  | FunctionShardingRecord
  | CompiledRecord
  | TimelineRecord
  | PerfettoRecord
  | ArrayValuesRecord
  | ArraySliceRecord
  | WhatIfRecord;

/** The answer to a request with a number. */
export interface AnswerRecord {
  readonly request: number;
  /** The requested value; None for a command. */
  readonly shown: ProgramRecord | FunctionShardingRecord | CompiledRecord | TimelineRecord | PerfettoRecord | ArrayValuesRecord | ArraySliceRecord | WhatIfRecord | null;
  /** Message of the error; None if there was none. */
  readonly error: string | null;
  readonly kind: "answer";
}

/** A line of the user. */
export interface UserLineRecord {
  /** Name of the cell or file. */
  readonly source: string;
  readonly line: number;
}

/** A Python loop that a program has once for each of its iterations. */
export interface UnrolledLoopRecord {
  /** Of its `for` or `while`. */
  readonly place: UserLineRecord;
  /** How often it was traced so far. */
  readonly iterations: number;
}

/**
 * What has taken a third of a second so far: a compilation, or a wait for devices. Sent at its stages, and when nothing is left.
 */
export interface ProgressRecord {
  /**
   * The function that is compiled, or the types of the arrays that are waited for; None for nothing.
   */
  readonly function: string | null;
  /** `left` where a wait was interrupted and the devices go on. */
  readonly stage: "trace" | "lower" | "compile" | "wait" | "left" | null;
  /** On which it runs; empty for a compilation. */
  readonly devices: string;
  /**
   * Of the function and the programs in it; while it is traced, of the function so far; 0 of a wait.
   */
  readonly equation_count: number;
  /** Since its tracing or the wait began. */
  readonly elapsed_seconds: number;
  /** Where it was called, or waited for. */
  readonly place: UserLineRecord | null;
  readonly loop: UnrolledLoopRecord | null;
  /** The cell that runs; None where a panel asked, or where the front end names no cells. */
  readonly cell_id: string | null;
  /** Whether a view needs it, not the user's program. */
  readonly is_by_tool: boolean;
  readonly kind: "progress";
}

/** Messages from a kernel. */
export type Message = ProgramsState | DevicesState | AnswerRecord | ProgressRecord;
