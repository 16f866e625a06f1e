// Generated from pellucid_kernel.schema by tools/generate_types.py. Do not edit.

import type { CompiledRecord, FunctionShardingRecord, FunctionsRecord, MemoryRecord, ProgramRecord, ShardingRecord } from "./introspect";

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

/** What a panel sends. */
export type Request = FollowRequest | ProgramRequest | FreeArrayRequest | LetGoRequest;

/** What the panel "Programs" shows. */
export interface ProgramsState {
  readonly functions: FunctionsRecord;
  readonly panel: "programs";
  readonly kind: "state";
}

/** What the panel "Devices and mesh" shows. */
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

/** What a panel shows: sent when it comes into sight and after each cell. */
export type State = ProgramsState | DevicesState;

/** What a request can ask to see. */
export type Shown = ProgramRecord | FunctionShardingRecord | CompiledRecord;

/** The answer to a request with a number. */
export interface AnswerRecord {
  readonly request: number;
  /** What was asked for; None where something was to be done. */
  readonly shown: ProgramRecord | FunctionShardingRecord | CompiledRecord | null;
  /** What went wrong; None if nothing did. */
  readonly error: string | null;
  readonly kind: "answer";
}

/** What XLA compiles now: sent when a session begins, and when a compilation begins and ends. */
export interface CompilationRecord {
  /** None for nothing. */
  readonly function: string | null;
  readonly kind: "compilation";
}

/** What a kernel sends. */
export type Message = ProgramsState | DevicesState | AnswerRecord | CompilationRecord;
