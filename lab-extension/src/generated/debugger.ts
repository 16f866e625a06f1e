// Generated from pellucid_kernel.debug.schema by tools/generate_types.py. Do not edit.

import type { ArrayValuesRecord, SourceRecord } from "./introspect";

export const SCHEMA_VERSION = 1;

/** Frames of recorded stacks; each distinct frame is listed once. */
export interface RecordedFrameColumns {
  readonly function: readonly string[];
  /** Index into `RecordingRecord.sources`. */
  readonly source: readonly number[];
  /** Line number, counted from 1. */
  readonly line: readonly number[];
  /** Text with the loop iteration; empty if there is none. */
  readonly run: readonly string[];
}

/** Names and values of variables; each distinct pair is listed once. */
export interface RecordedValueColumns {
  readonly name: readonly string[];
  /** Type of the value, with its elements or their range. */
  readonly text: readonly string[];
}

/** A run of a function recorded line by line: the stack and the variables at each stop. */
export interface RecordingRecord {
  readonly function: string;
  readonly sources: readonly SourceRecord[];
  readonly frames: RecordedFrameColumns;
  readonly values: RecordedValueColumns;
  /** For each stop, the indices into `frames` of its stack, outermost first. */
  readonly stacks: readonly (readonly number[])[];
  /** For each stop and each of its frames, indices into `values`. */
  readonly variables: readonly (readonly (readonly number[])[])[];
  /** Types of the results, with their elements or ranges. */
  readonly results: readonly string[];
  /** Whether the run continued after the last recorded stop. */
  readonly is_cut: boolean;
  readonly schema_version: number;
  readonly kind: "recording";
}

/** User lines, one row for each row of other columns. */
export interface UserLineColumns {
  readonly sources: readonly SourceRecord[];
  /** Index into `sources`; -1 for no user line. */
  readonly source: readonly number[];
  /** Line number, counted from 1. */
  readonly line: readonly number[];
}

/** Equations that two runs have in common, in execution order. */
export interface ComparedEquationColumns {
  readonly primitive: readonly string[];
  /** Source line of the equation, with the iterations of the loops around it. */
  readonly line: readonly string[];
  /**
   * Largest difference of two elements, relative to the largest element; None if it isn't finite.
   */
  readonly error: readonly (number | null)[];
  /** Largest error among its operands. */
  readonly operand_error: readonly (number | null)[];
}

/** Comparison of two ways of running a call, equation by equation. */
export interface DivergenceRecord {
  readonly a: string;
  /** Names of the two ways. */
  readonly b: string;
  readonly equations: ComparedEquationColumns;
  /** Source line of each equation. */
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
  /** Euclidean norm; None if it isn't finite. */
  readonly norm: readonly (number | null)[];
  /** `NaN`, `infinite` or `zero`; empty if there is none. */
  readonly fault: readonly string[];
}

/** Derivatives by leaves of the arguments. */
export interface GradientColumns {
  readonly name: readonly string[];
  readonly norm: readonly (number | null)[];
  readonly fault: readonly string[];
  /** Operations along which a fault spread, its origin first, each with its line. */
  readonly path: readonly (readonly string[])[];
}

/** A gradient with the cotangents of its backward pass. */
export interface GradientRecord {
  readonly cotangents: CotangentColumns;
  /** Source line of each cotangent. */
  readonly places: UserLineColumns;
  readonly gradients: GradientColumns;
  /** For each gradient, the ranges of the operands of its path's first operation. */
  readonly operands: readonly (readonly string[])[];
  /**
   * Text that tells what removes the fault, which decompositions have values that are equal up to rounding, and which
   * elements are at fault where it begins in a loop or branch; may be empty.
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
  /** A text that says what is compared. */
  readonly runs: string;
  /** The first operation whose results differ. */
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
 * The first operation of a call whose result meets a condition, its operands, and how it was reached.
 */
export interface FindingRecord {
  readonly function: string;
  readonly primitive: string;
  /** Whether it belongs to the backward pass of a derivative. */
  readonly is_backward: boolean;
  /** Number of elements of its result that meet the condition. */
  readonly n_elements: number;
  /** Number of all elements of the result. */
  readonly size: number;
  /** Index of the first such element; empty for a scalar. */
  readonly index: readonly number[];
  /** Text for each batch lane of the first element, outermost first. */
  readonly lanes: readonly string[];
  /** Iteration of each enclosing loop, outermost first, counted from 0. */
  readonly iterations: readonly number[];
  /** User lines that lead to the operation, outermost first. */
  readonly way: UserLineColumns;
  /** For each of these lines, its function, with the loop iteration as text. */
  readonly functions: readonly string[];
  readonly operands: readonly ArrayValuesRecord[];
  readonly result: ArrayValuesRecord;
  readonly schema_version: number;
  readonly kind: "finding";
}
