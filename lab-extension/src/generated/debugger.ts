// Generated from pellucid_kernel.debug.schema by tools/generate_types.py. Do not edit.

import type { SourceRecord } from "./introspect";

export const SCHEMA_VERSION = 1;

/** Frames of stacks, each listed once. */
export interface RecordedFrameColumns {
  readonly function: readonly string[];
  /** Index into `RecordingRecord.sources`. */
  readonly source: readonly number[];
  /** Counted from 1. */
  readonly line: readonly number[];
  /** Which run of a loop it is, in words; empty for none. */
  readonly run: readonly string[];
}

/** Variables with their values, each listed once. */
export interface RecordedValueColumns {
  readonly name: readonly string[];
  /** Type, and range or elements of the value. */
  readonly text: readonly string[];
}

/** A run of a function by the user's lines: where it stood, and what the variables were. */
export interface RecordingRecord {
  readonly function: string;
  readonly sources: readonly SourceRecord[];
  readonly frames: RecordedFrameColumns;
  readonly values: RecordedValueColumns;
  /** For each stop its frames, outermost first, as indices into `frames`. */
  readonly stacks: readonly (readonly number[])[];
  /** For each stop, and each frame of it, indices into `values`. */
  readonly variables: readonly (readonly (readonly number[])[])[];
  /** Types, and ranges or elements, of the results. */
  readonly results: readonly string[];
  /** Whether the run went on after the last stop that was recorded. */
  readonly is_cut: boolean;
  readonly schema_version: number;
  readonly kind: "recording";
}
