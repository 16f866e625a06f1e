// Generated from pellucid_profiler.schema by tools/generate_types.py. Do not edit.

import type { SourceRecord } from "./introspect";

export const SCHEMA_VERSION = 1;

/** Totals of a session, in seconds. */
export interface TotalsRecord {
  readonly wall_seconds: number;
  readonly operation_seconds: number;
  /** The part of `operation_seconds` in operations that belong to one line only. */
  readonly measured_seconds: number;
  /**
   * The part of `operation_seconds` in operations shared by several lines, or whose line is inferred.
   */
  readonly estimated_seconds: number;
  readonly unattributed_seconds: number;
  /** Time in which at least one operation ran, averaged over devices. */
  readonly busy_seconds: number;
  /**
   * Whether programs were compiled without fusions for this session, so that they differ from those that normally
   * run.
   */
  readonly is_detail: boolean;
  readonly call_count: number;
  readonly operation_count: number;
  readonly device_count: number;
}

/** A problem that costs time or memory, with its evidence and remedy. */
export interface FindingRecord {
  readonly text: string;
  readonly evidence: string;
  readonly remedy: string;
  readonly saved_seconds: number;
}

/** The user's lines that took time, longest first. */
export interface ProfiledLineColumns {
  /** Index into `ProfileRecord.sources`. */
  readonly source: readonly number[];
  /** Line number, counted from 1. */
  readonly line: readonly number[];
  readonly forward_seconds: readonly number[];
  /** Time of backward-pass operations that the line caused. */
  readonly backward_seconds: readonly number[];
  /** Time of operations that belong to this line only. */
  readonly measured_seconds: readonly number[];
  readonly flops: readonly number[];
}

/** Instructions of programs that ran, longest total time first. */
export interface OperationColumns {
  /** Name of the HLO module (text index). */
  readonly program: readonly number[];
  /** Name of the instruction, with the native function that it calls (text index). */
  readonly name: readonly number[];
  /** Category, such as `fusion` or `copy` (text index). */
  readonly category: readonly number[];
  /** How lines are known: `own`, `inferred` or `none` (text index). */
  readonly attribution: readonly number[];
  readonly count: readonly number[];
  readonly seconds: readonly number[];
  /** Estimated arithmetic operations of all executions. */
  readonly flops: readonly (number | null)[];
  readonly bytes: readonly (number | null)[];
  /** Number of rows in `ProfileRecord.shares` that belong to each operation, in order. */
  readonly share_counts: readonly number[];
}

/**
 * Division of operations' time among equations and lines; the shares of an operation add up to 1.
 */
export interface ShareColumns {
  /** Index into `ProfileRecord.lines`; -1 for none. */
  readonly line: readonly number[];
  /** Enclosing transformations, calls and named scopes, separated by `/` (text index). */
  readonly scope: readonly number[];
  /** Name of the primitive (text index). */
  readonly operation: readonly number[];
  /** Stable id of the equation; -1 for none. */
  readonly equation: readonly number[];
  readonly is_backward: readonly boolean[];
  readonly share: readonly number[];
}

/** Time of operations on each device. */
export interface DeviceShareColumns {
  readonly operation: readonly number[];
  readonly device: readonly number[];
  readonly count: readonly number[];
  readonly seconds: readonly number[];
}

/** One row of a timeline. */
export interface LaneRecord {
  /** Display name; rows with the same name belong together. */
  readonly name: string;
  readonly kind: "device" | "host";
}

/** Tiles of a timeline: one operation each, or several short ones merged. */
export interface TileColumns {
  readonly lane: readonly number[];
  readonly start_ns: readonly number[];
  readonly end_ns: readonly number[];
  /**
   * Row in `ProfileRecord.operations` of the tile's longest operation; -1 on the host, and for omitted operations.
   */
  readonly operation: readonly number[];
  /** Index into `TimelineRecord.names`. */
  readonly name: readonly number[];
  readonly count: readonly number[];
  /** Total time of the operations in the tile. */
  readonly busy_ns: readonly number[];
}

/** A section of a session's time, at limited resolution. */
export interface TimelineRecord {
  readonly begin_ns: number;
  readonly end_ns: number;
  readonly lanes: readonly LaneRecord[];
  readonly names: readonly string[];
  readonly tiles: TileColumns;
  /** Whether every tile is a single operation, so that zooming in would show no more. */
  readonly is_whole: boolean;
  readonly schema_version: number;
  readonly kind: "timeline";
}

/** A function that was traced or compiled during the session. */
export interface ProfiledCompilationRecord {
  readonly function: string;
  /** File or cell and line of the call; empty if it isn't in the user's code. */
  readonly place: string;
  readonly trace_seconds: number;
  readonly lower_seconds: number;
  readonly compile_seconds: number;
  /** Number of programs compiled so far for the function, this one included. */
  readonly entry_count: number;
  readonly causes: readonly string[];
}

/** Collectives, longest total time first. Seconds are summed over devices. */
export interface CollectiveColumns {
  /** Row in `ProfileRecord.operations`; -1 if it is omitted. */
  readonly operation: readonly number[];
  /** Source line, empty for none (text index). */
  readonly place: readonly number[];
  /** Name of the instruction (text index). */
  readonly name: readonly number[];
  /** Mesh axes along which it communicates, empty if unknown (text index). */
  readonly axes: readonly number[];
  /** Number of devices in each group. */
  readonly group_size: readonly number[];
  readonly count: readonly number[];
  /** Bytes sent by all devices in all executions, estimated for ring algorithms. */
  readonly sent_bytes: readonly number[];
  /** Time that devices waited for the last one of their group to arrive. */
  readonly wait_seconds: readonly number[];
  readonly work_seconds: readonly number[];
  /** Device that the others waited for longest; -1 for none. */
  readonly straggler: readonly number[];
}

/** Steps of all compilations: passes, kernels, machine code. */
export interface CompileStepColumns {
  /** Name of the HLO module (text index). */
  readonly program: readonly number[];
  /** `passes`, `kernels`, `machine code`, or `rest` for time between named steps (text index). */
  readonly phase: readonly number[];
  /** Name of the pass, or of the instruction whose kernel is generated (text index). */
  readonly name: readonly number[];
  /** Source line of the kernel, empty for none (text index). */
  readonly place: readonly number[];
  readonly count: readonly number[];
  /** Self time on the compiling thread; the sum is the time of all compilations. */
  readonly seconds: readonly number[];
  /** Time on XLA's worker threads, summed over threads. */
  readonly thread_seconds: readonly number[];
}

/**
 * Time of the threads that called jitted functions, by activity. The rows of a thread add up to the session's time.
 */
export interface HostColumns {
  /** Name of the thread (text index). */
  readonly thread: readonly number[];
  /** Name of the activity (text index). */
  readonly activity: readonly number[];
  readonly seconds: readonly number[];
  readonly count: readonly number[];
}

/** Transfers between host and devices, grouped by line, most bytes first. */
export interface TransferColumns {
  /** Source line, empty for none (text index). */
  readonly place: readonly number[];
  /** `host to device`, `device to host` or `device to device` (text index). */
  readonly direction: readonly number[];
  readonly count: readonly number[];
  readonly bytes: readonly number[];
}

/** Python functions called by programs, longest total time first. */
export interface CallbackColumns {
  /** Name of the function (text index). */
  readonly function: readonly number[];
  /** Where it is defined, empty if unknown (text index). */
  readonly place: readonly number[];
  readonly count: readonly number[];
  readonly seconds: readonly number[];
  /** Number of threads that ran it. */
  readonly thread_count: readonly number[];
}

/** Samples of one counter of a GPU, such as its power. */
export interface CounterRecord {
  readonly name: string;
  readonly device: number;
  readonly is_bytes: boolean;
  readonly time_ns: readonly number[];
  readonly value: readonly number[];
}

/** Samples of the live arrays, summed over devices. */
export interface LiveArrayColumns {
  readonly time_ns: readonly number[];
  readonly bytes: readonly number[];
  readonly count: readonly number[];
}

/** Bytes of live arrays grouped by the line that created them, most at the peak first. */
export interface HeapColumns {
  /** Source line, empty if none is the user's (text index). */
  readonly place: readonly number[];
  readonly begin_bytes: readonly number[];
  readonly peak_bytes: readonly number[];
  readonly end_bytes: readonly number[];
  /** Number of live buffers at the end. */
  readonly end_count: readonly number[];
}

/** Memory of a program on one device during a run, from XLA's buffer assignment. */
export interface ProgramMemoryRecord {
  readonly program: string;
  readonly instruction_count: number;
  /** Positions in execution order of the instructions at which `live_bytes` changes. */
  readonly positions: readonly number[];
  /** Bytes in use from each of `positions` on. */
  readonly live_bytes: readonly number[];
  /** Position of the instruction with most bytes in use. */
  readonly peak: number;
  readonly peak_instruction: string;
  readonly peak_bytes: number;
  /** Bytes that XLA allocates for a run. Gaps between temporaries make it larger than the peak. */
  readonly allocated_bytes: number;
  /** Instructions that fill the largest buffers in use at the peak. */
  readonly buffer_names: readonly string[];
  readonly buffer_places: readonly string[];
  readonly buffer_kinds: readonly ("argument" | "constant" | "result" | "temporary")[];
  readonly buffer_bytes: readonly number[];
}

/** Peak rates of a device. */
export interface PeaksRecord {
  readonly device_kind: string;
  readonly flops_per_second: number;
  readonly bytes_per_second: number;
}

/** A session of the profiler. All its tables have the same totals. */
export interface ProfileRecord {
  /** Number by which the recording process finds the session again; 0 for none. */
  readonly session: number;
  readonly totals: TotalsRecord;
  /** Sentences about data that the recording lacks. */
  readonly remarks: readonly string[];
  readonly findings: readonly FindingRecord[];
  readonly sources: readonly SourceRecord[];
  readonly strings: readonly string[];
  readonly lines: ProfiledLineColumns;
  readonly operations: OperationColumns;
  readonly shares: ShareColumns;
  readonly device_shares: DeviceShareColumns;
  /** Number of instructions omitted from `operations`, those with least time. */
  readonly omitted_count: number;
  readonly omitted_seconds: number;
  readonly timeline: TimelineRecord;
  readonly compilations: readonly ProfiledCompilationRecord[];
  readonly compile_steps: CompileStepColumns;
  readonly collectives: CollectiveColumns;
  readonly host: HostColumns;
  readonly transfers: TransferColumns;
  readonly callbacks: CallbackColumns;
  readonly live_arrays: LiveArrayColumns;
  readonly heap: HeapColumns;
  readonly counters: readonly CounterRecord[];
  /** Memory of the programs that use most, largest first. */
  readonly memory: readonly ProgramMemoryRecord[];
  /** Peak rates of the machine that recorded the session; None if unknown. */
  readonly peaks: PeaksRecord | null;
  readonly schema_version: number;
  readonly kind: "profile";
}

/** A session for the Perfetto UI. */
export interface PerfettoRecord {
  /** Address of the UI's page below JupyterLab's `lab/extensions/`. */
  readonly page: string;
  /** The Perfetto trace, base64-encoded. */
  readonly trace: string;
  readonly schema_version: number;
  readonly kind: "perfetto";
}

/**
 * Comparison of two sessions by line. The lines of each session add up to its total time of operations.
 */
export interface ProfileComparisonRecord {
  readonly before_seconds: number;
  readonly after_seconds: number;
  /**
   * File or cell and line in the later session, or in the earlier one if it is gone; empty for time without a line.
   */
  readonly places: readonly string[];
  readonly codes: readonly string[];
  readonly before: readonly number[];
  readonly after: readonly number[];
  readonly schema_version: number;
  readonly kind: "profile_comparison";
}
