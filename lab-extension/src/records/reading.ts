/** Parses JSON to a record of a known kind and version. */

import { SCHEMA_VERSION } from '../generated/introspect';
import type { AnyRecord } from '../generated/views';
import { RecordError } from './columns';

export type { AnyRecord };

const OLDEST_VERSION = Math.max(1, SCHEMA_VERSION - 1);

/** The record in `data`, JSON text or parsed; throws `data` if it is an error from unpacking. */
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
