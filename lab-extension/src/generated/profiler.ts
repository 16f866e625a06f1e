// Generated from pellucid_profiler.schema by tools/generate_types.py. Do not edit.

import type { SourceRecord } from "./introspect";

export const SCHEMA_VERSION = 1;

/** The whole session. */
export interface TotalsRecord {
  readonly wall_seconds: number;
  readonly operation_seconds: number;
  /** Of `operation_seconds`: of operations that are one line's alone. */
  readonly measured_seconds: number;
  /** Of operations of several lines, and of those whose line is inferred. */
  readonly estimated_seconds: number;
  readonly unattributed_seconds: number;
  /** During which some operation ran, averaged over devices. */
  readonly busy_seconds: number;
  /** Whether programs were compiled without fusions: others than those that run otherwise. */
  readonly is_detail: boolean;
  readonly call_count: number;
  readonly operation_count: number;
  readonly device_count: number;
}

/** Something that takes time, with what shows it and what to do. */
export interface FindingRecord {
  readonly text: string;
  readonly evidence: string;
  readonly remedy: string;
  readonly saved_seconds: number;
}

/** The user's lines that took time, the one with most first. */
export interface ProfiledLineColumns {
  /** Index into `ProfileRecord.sources`. */
  readonly source: readonly number[];
  /** Counted from 1. */
  readonly line: readonly number[];
  readonly forward_seconds: readonly number[];
  /** Of the derivative's operations that the line caused. */
  readonly backward_seconds: readonly number[];
  /** Of operations that are this line's alone. */
  readonly measured_seconds: readonly number[];
  readonly flops: readonly number[];
}

/** Instructions of programs that ran, the one with most time first. */
export interface OperationColumns {
  /** Text. */
  readonly program: readonly number[];
  /** Text: the instruction's name, and the native function that it calls. */
  readonly name: readonly number[];
  /** Text. */
  readonly category: readonly number[];
  /** Text: `own`, `inferred` or `none`. */
  readonly attribution: readonly number[];
  readonly count: readonly number[];
  readonly seconds: readonly number[];
  /** Estimated, of all executions together. */
  readonly flops: readonly (number | null)[];
  readonly bytes: readonly (number | null)[];
  /** Entries of `ProfileRecord.shares` that belong to each operation, in order. */
  readonly share_counts: readonly number[];
}

/** Parts of operations' time by their origin; the shares of an operation add up to 1. */
export interface ShareColumns {
  /** Index into `ProfileRecord.lines`; -1 for none. */
  readonly line: readonly number[];
  /** Text: transformations, calls and scopes around it, divided by `/`. */
  readonly scope: readonly number[];
  /** Text: the primitive. */
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

/** A row of a timeline. */
export interface LaneRecord {
  /** Equal for rows that belong together. */
  readonly name: string;
  readonly kind: "device" | "host";
}

/** Pieces of a timeline: one operation, or several short ones together. */
export interface TileColumns {
  readonly lane: readonly number[];
  readonly start_ns: readonly number[];
  readonly end_ns: readonly number[];
  /**
   * The longest one in the tile, as an index into `ProfileRecord.operations`; -1 on the host, and for shorter ones than listed.
   */
  readonly operation: readonly number[];
  /** Index into `TimelineRecord.names`. */
  readonly name: readonly number[];
  readonly count: readonly number[];
  /** Time of all operations in the tile, together. */
  readonly busy_ns: readonly number[];
}

/** A part of a session's time, in as much detail as fits. */
export interface TimelineRecord {
  readonly begin_ns: number;
  readonly end_ns: number;
  readonly lanes: readonly LaneRecord[];
  readonly names: readonly string[];
  readonly tiles: TileColumns;
  /** Whether every tile is one operation: a closer look would show no more. */
  readonly is_whole: boolean;
  readonly schema_version: number;
  readonly kind: "timeline";
}

/** A function that was traced or compiled during the session. */
export interface ProfiledCompilationRecord {
  readonly function: string;
  /** Of the call, for the user; empty where it isn't the user's. */
  readonly place: string;
  readonly trace_seconds: number;
  readonly lower_seconds: number;
  readonly compile_seconds: number;
  /** Programs of the function, this one included. */
  readonly entry_count: number;
  readonly causes: readonly string[];
}

/**
 * Exchanges between devices, the one with most time first; seconds are those of all devices together.
 */
export interface CollectiveColumns {
  /** Index into `ProfileRecord.operations`; -1 for one that isn't listed. */
  readonly operation: readonly number[];
  /** Text: the line that it is of; empty for none. */
  readonly place: readonly number[];
  /** Text. */
  readonly name: readonly number[];
  /** Text: the axes of the mesh along which it goes; empty where they aren't known. */
  readonly axes: readonly number[];
  /** Devices that exchange with each other. */
  readonly group_size: readonly number[];
  readonly count: readonly number[];
  /** That all devices sent in all executions, by the estimate for rings. */
  readonly sent_bytes: readonly number[];
  /** Before the last device of a group arrived. */
  readonly wait_seconds: readonly number[];
  readonly work_seconds: readonly number[];
  /** The device that was waited for longest; -1 for none. */
  readonly straggler: readonly number[];
}

/** Steps of all compilations: passes, kernels, machine code. */
export interface CompileStepColumns {
  /** Text. */
  readonly program: readonly number[];
  /** Text: `passes`, `kernels`, `machine code`, or `rest` for what has no name. */
  readonly phase: readonly number[];
  /** Text. */
  readonly name: readonly number[];
  /** Text: the line that a kernel is of; empty for none. */
  readonly place: readonly number[];
  readonly count: readonly number[];
  /** Of the thread that compiles; they add up to the compilations. */
  readonly seconds: readonly number[];
  /** Seconds of XLA's worker threads, summed over them. */
  readonly thread_seconds: readonly number[];
}

/**
 * Activities of the threads that called jitted functions; those of a thread add up to the session.
 */
export interface HostColumns {
  /** Text. */
  readonly thread: readonly number[];
  /** Text. */
  readonly activity: readonly number[];
  readonly seconds: readonly number[];
  readonly count: readonly number[];
}

/** Transfers between host and devices by line, those with most bytes first. */
export interface TransferColumns {
  /** Text; empty for none. */
  readonly place: readonly number[];
  /** Text. */
  readonly direction: readonly number[];
  readonly count: readonly number[];
  readonly bytes: readonly number[];
}

/** Python functions that programs called, the one with most time first. */
export interface CallbackColumns {
  /** Text. */
  readonly function: readonly number[];
  /** Text: where it is defined; empty for none. */
  readonly place: readonly number[];
  readonly count: readonly number[];
  readonly seconds: readonly number[];
  /** Threads that ran it. */
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

/** Samples of the arrays that are alive, on all devices together. */
export interface LiveArrayColumns {
  readonly time_ns: readonly number[];
  readonly bytes: readonly number[];
  readonly count: readonly number[];
}

/** Bytes of arrays by the line that made them, those with most at the peak first. */
export interface HeapColumns {
  /** Text; empty for none of the user's. */
  readonly place: readonly number[];
  readonly begin_bytes: readonly number[];
  readonly peak_bytes: readonly number[];
  readonly end_bytes: readonly number[];
  /** Buffers at the end. */
  readonly end_count: readonly number[];
}

/** Bytes that a program holds on one device over its run, by XLA's assignment of buffers. */
export interface ProgramMemoryRecord {
  readonly program: string;
  readonly instruction_count: number;
  /** Instructions, in the order in which they run, at which the bytes change. */
  readonly positions: readonly number[];
  /** From each of `positions` on. */
  readonly live_bytes: readonly number[];
  /** The instruction at which most is held. */
  readonly peak: number;
  readonly peak_instruction: string;
  readonly peak_bytes: number;
  /** That XLA allocates for a run: more than the peak by gaps between temporaries. */
  readonly allocated_bytes: number;
  /** Instructions that fill the largest buffers held then. */
  readonly buffer_names: readonly string[];
  readonly buffer_places: readonly string[];
  readonly buffer_kinds: readonly ("argument" | "constant" | "result" | "temporary")[];
  readonly buffer_bytes: readonly number[];
}

/** Speeds that the device reached in a benchmark. */
export interface PeaksRecord {
  readonly device_kind: string;
  readonly flops_per_second: number;
  readonly bytes_per_second: number;
}

/** A session of the profiler: its totals are those of every table. */
export interface ProfileRecord {
  /** Number under which the process that recorded it knows it; 0 for none. */
  readonly session: number;
  readonly totals: TotalsRecord;
  /** Losses of the recording, in sentences. */
  readonly remarks: readonly string[];
  readonly findings: readonly FindingRecord[];
  readonly sources: readonly SourceRecord[];
  readonly strings: readonly string[];
  readonly lines: ProfiledLineColumns;
  readonly operations: OperationColumns;
  readonly shares: ShareColumns;
  readonly device_shares: DeviceShareColumns;
  /** Instructions with least time that are not listed. */
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
  /** Of the programs that need most, the largest first. */
  readonly memory: readonly ProgramMemoryRecord[];
  /** Of the machine that recorded it; None where nobody measured them. */
  readonly peaks: PeaksRecord | null;
  readonly schema_version: number;
  readonly kind: "profile";
}

/** A session for Perfetto's user interface. */
export interface PerfettoRecord {
  /** Address of its page, below JupyterLab's `lab/extensions/`. */
  readonly page: string;
  /** The Perfetto trace in base 64. */
  readonly trace: string;
  readonly schema_version: number;
  readonly kind: "perfetto";
}

/** Time of lines in two sessions; the lines add up to the operations' time of each. */
export interface ProfileComparisonRecord {
  readonly before_seconds: number;
  readonly after_seconds: number;
  /**
   * Of each line in the later session, or the earlier one that alone has it; empty for operations of no line.
   */
  readonly places: readonly string[];
  readonly codes: readonly string[];
  readonly before: readonly number[];
  readonly after: readonly number[];
  readonly schema_version: number;
  readonly kind: "profile_comparison";
}
