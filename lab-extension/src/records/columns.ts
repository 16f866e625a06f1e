/** Validation of columns: a record may come from any file, so it is not trusted. */

/** Error for a record that can't be displayed. */
export class RecordError extends Error {
  override readonly name = 'RecordError';
}

/** Copies `list` to integers, checking that each is in `[low, high)`. */
export function integers(
  name: string,
  list: readonly unknown[] | undefined,
  low: number,
  high: number,
  length?: number,
): Int32Array {
  if (!Array.isArray(list)) {
    throw new RecordError(`${name} is missing`);
  }
  if (length !== undefined && list.length !== length) {
    throw new RecordError(`${name} has ${list.length} entries, expected ${length}`);
  }
  const column = new Int32Array(list.length);
  for (let i = 0; i < list.length; i++) {
    const entry: unknown = list[i];
    if (typeof entry !== 'number' || !(entry >= low && entry < high) || entry % 1 !== 0) {
      throw new RecordError(`${name}[${i}] is ${shown(entry)}, expected ${low} to ${high - 1}`);
    }
    column[i] = entry;
  }
  return column;
}

/** Start of each entry in a flat column, from the entries' lengths; has one more element. */
export function starts(
  name: string,
  counts: readonly unknown[] | undefined,
  length: number,
  total: number,
): Uint32Array {
  const column = integers(name, counts, 0, total + 1, length);
  const result = new Uint32Array(length + 1);
  for (let i = 0; i < length; i++) {
    result[i + 1] = result[i]! + column[i]!;
  }
  if (result[length] !== total) {
    throw new RecordError(`${name} add up to ${result[length]}, expected ${total}`);
  }
  return result;
}

/** `list`, after checking that all entries are strings. */
export function texts(name: string, list: readonly unknown[] | undefined): readonly string[] {
  if (!Array.isArray(list) || !list.every(entry => typeof entry === 'string')) {
    throw new RecordError(`${name} is not a list of texts`);
  }
  return list as readonly string[];
}

/** Number of entries of `list`, the column `name` of a record; RecordError if it is no list. */
export function lengthOf(name: string, list: readonly unknown[] | undefined): number {
  if (!Array.isArray(list)) {
    throw new RecordError(`${name} is missing`);
  }
  return list.length;
}

function shown(value: unknown): string {
  return String(JSON.stringify(value)).slice(0, 40);
}
