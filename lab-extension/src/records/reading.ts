/** From JSON to a record of a known kind and version. */

import {
  SCHEMA_VERSION,
  type ArrayValuesRecord,
  type CompiledRecord,
  type DiffRecord,
  type ErrorRecord,
  type FunctionRecord,
  type FunctionShardingRecord,
  type LadderRecord,
  type LensRecord,
  type MemoryRecord,
  type MissRecord,
  type MissesRecord,
  type ProgramRecord,
  type ShardingRecord,
  type WhatIfRecord,
} from '../generated/introspect';
import type {
  DivergenceRecord,
  FindingRecord,
  GradientRecord,
  RecordingRecord,
} from '../generated/debugger';
import type { ProfileComparisonRecord, ProfileRecord } from '../generated/profiler';
import { RecordError } from './columns';

/** Every record that can be shown by itself. */
export type AnyRecord =
  | ArrayValuesRecord
  | CompiledRecord
  | DiffRecord
  | DivergenceRecord
  | ErrorRecord
  | FindingRecord
  | FunctionRecord
  | FunctionShardingRecord
  | GradientRecord
  | LadderRecord
  | LensRecord
  | MemoryRecord
  | MissRecord
  | MissesRecord
  | ProfileComparisonRecord
  | ProfileRecord
  | ProgramRecord
  | RecordingRecord
  | ShardingRecord
  | WhatIfRecord;

const OLDEST_VERSION = Math.max(1, SCHEMA_VERSION - 1);

/** The record in `data`, a JSON text or what one parses to; throws it if it is the error of unpacking one. */
export function readRecord(data: unknown): AnyRecord {
  if (data instanceof Error) {
    throw data;
  }
  const value: unknown = typeof data === 'string' ? parse(data) : data;
  if (typeof value !== 'object' || value === null || !('kind' in value)) {
    throw new RecordError('this is no record: it has no kind');
  }
  const version = 'schema_version' in value ? value.schema_version : undefined;
  if (typeof version !== 'number') {
    throw new RecordError('the record does not say its version');
  }
  if (version > SCHEMA_VERSION) {
    throw new RecordError(
      `the record has version ${version}, this viewer reads up to ${SCHEMA_VERSION}: ` +
        'a newer pellucid can show it',
    );
  }
  if (version < OLDEST_VERSION) {
    throw new RecordError(
      `the record has version ${version}, this viewer reads from ${OLDEST_VERSION}: ` +
        'run the cell again to make a new one',
    );
  }
  return value as AnyRecord;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new RecordError(`the record is no JSON: ${(error as Error).message}`);
  }
}
