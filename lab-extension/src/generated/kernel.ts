// Generated from pellucid_kernel.schema by tools/generate_types.py. Do not edit.

import type { FunctionsRecord, MemoryRecord, ProgramRecord, ShardingRecord } from "./introspect";

/** Asks for the state now. */
export interface LookRequest {
  readonly kind: "look";
}

/** Asks for the program of a cache entry. */
export interface ProgramRequest {
  /** Number that the answer repeats. */
  readonly request: number;
  readonly entry: number;
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

/** What a panel sends. */
export type Request = LookRequest | ProgramRequest | FreeArrayRequest | LetGoRequest;

/** What lives in a kernel: sent after each cell and when a panel asks. */
export interface StateRecord {
  readonly functions: FunctionsRecord;
  /** Without the smallest arrays where there are very many. */
  readonly memory: MemoryRecord;
  readonly array_count: number;
  /** The user's meshes, each by the name of its variable. */
  readonly meshes: readonly ShardingRecord[];
  /** How to get another number of devices; empty where that has no sense. */
  readonly device_note: string;
  /** Name of the function that XLA compiles now. */
  readonly compiling: string | null;
  readonly kind: "state";
}

/** The answer to a request with a number. */
export interface AnswerRecord {
  readonly request: number;
  readonly program: ProgramRecord | null;
  /** What went wrong; None if nothing did. */
  readonly error: string | null;
  readonly kind: "answer";
}

/** What XLA compiles now: sent when it starts, and when it has ended. */
export interface CompilationRecord {
  /** As `StateRecord.compiling`. */
  readonly function: string | null;
  readonly kind: "compilation";
}

/** What a kernel sends. */
export type Message = StateRecord | AnswerRecord | CompilationRecord;
