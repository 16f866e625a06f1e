// Generated from pellucid_kernel.debug.schema by tools/generate_types.py. Do not edit.

import type { ArrayValuesRecord, SourceRecord } from "./introspect";

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

/** Lines of the user, a row for each row of other columns. */
export interface UserLineColumns {
  readonly sources: readonly SourceRecord[];
  /** Index into `sources`; -1 where no line is the user's. */
  readonly source: readonly number[];
  /** Counted from 1. */
  readonly line: readonly number[];
}

/** Equations that two runs have in common, in the order in which they run. */
export interface ComparedEquationColumns {
  readonly primitive: readonly string[];
  /** The user's line. */
  readonly line: readonly string[];
  /**
   * Largest difference of two elements, relative to the largest element; None where one isn't finite.
   */
  readonly error: readonly (number | null)[];
  /** The largest error among its operands. */
  readonly operand_error: readonly (number | null)[];
}

/** How two ways of running a call differ, equation by equation. */
export interface DivergenceRecord {
  readonly a: string;
  /** Names of the two ways. */
  readonly b: string;
  readonly equations: ComparedEquationColumns;
  /** For each equation its line. */
  readonly places: UserLineColumns;
  /** Number of equations that only one of the runs has. */
  readonly unmatched: number;
  readonly schema_version: number;
  readonly kind: "divergence";
}

/** Cotangents by lines of the forward pass, in the order of the backward pass. */
export interface CotangentColumns {
  readonly line: readonly string[];
  readonly primitive: readonly string[];
  /** Euclidean norm; None where it isn't finite. */
  readonly norm: readonly (number | null)[];
  /** `NaN`, `infinite` or `zero`; empty for none. */
  readonly fault: readonly string[];
}

/** Derivatives by leaves of the arguments. */
export interface GradientColumns {
  readonly name: readonly string[];
  readonly norm: readonly (number | null)[];
  readonly fault: readonly string[];
  /** Operations along which a fault came, the first one first, each with its line. */
  readonly path: readonly (readonly string[])[];
}

/** A gradient with the cotangents of its backward pass. */
export interface GradientRecord {
  readonly cotangents: CotangentColumns;
  /** For each cotangent its line. */
  readonly places: UserLineColumns;
  readonly gradients: GradientColumns;
  /** For each gradient the ranges of the operands of the first operation of its path. */
  readonly operands: readonly (readonly string[])[];
  /**
   * What removes the fault, and where in a loop or a branch it begins; empty where it begins outside and nothing does.
   */
  readonly within: string;
  readonly schema_version: number;
  readonly kind: "gradient";
}

/** Operations whose results are not equal in all runs, in the order in which they run. */
export interface UnequalOperationColumns {
  readonly primitive: readonly string[];
  /** The user's line. */
  readonly line: readonly string[];
  /** Number of runs whose results are not those of the first. */
  readonly runs: readonly number[];
  /**
   * The largest distance of two elements, in units of the last place; None where it isn't finite.
   */
  readonly ulps: readonly (number | null)[];
  /** Whether its operands are equal in all runs, so that the difference begins here. */
  readonly begins: readonly boolean[];
}

/** A value that is drawn under a name. */
export interface NamedValueRecord {
  readonly name: string;
  readonly values: ArrayValuesRecord;
}

/** Runs of one call that are not equal to the bit, at the first operation where they aren't. */
export interface UnequalRunsRecord {
  readonly function: string;
  /** What is compared, in words. */
  readonly runs: string;
  /** The first operation whose results differ; empty where none does. */
  readonly primitive: string;
  /** How they differ, and what cures it, in words. */
  readonly says: string;
  /** The lines that lead to the operation, outermost first. */
  readonly way: UserLineColumns;
  /** For each line of the way its function. */
  readonly functions: readonly string[];
  readonly operations: UnequalOperationColumns;
  /** For each operation its line. */
  readonly places: UserLineColumns;
  /** The operands of the first operation, its results in two runs, and how far these are apart. */
  readonly values: readonly NamedValueRecord[];
  readonly schema_version: number;
  readonly kind: "unequal_runs";
}

/**
 * The first operation of a call whose result meets a condition: how it was come to, and what it was given.
 */
export interface FindingRecord {
  readonly function: string;
  readonly primitive: string;
  /** Whether it belongs to the backward pass of a derivative. */
  readonly is_backward: boolean;
  /** Elements of its result that meet the condition. */
  readonly n_elements: number;
  /** All elements of the result. */
  readonly size: number;
  /** Of the first element; empty for a scalar. */
  readonly index: readonly number[];
  /** The lanes of batches of the first element, outermost first, in words. */
  readonly lanes: readonly string[];
  /** Of each loop around it, outermost first, counted from 0. */
  readonly iterations: readonly number[];
  /** The lines that lead there, outermost first. */
  readonly way: UserLineColumns;
  /** For each line of the way its function, and the run of a loop in words. */
  readonly functions: readonly string[];
  readonly operands: readonly ArrayValuesRecord[];
  readonly result: ArrayValuesRecord;
  readonly schema_version: number;
  readonly kind: "finding";
}
