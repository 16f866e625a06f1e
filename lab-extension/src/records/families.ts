/** Families of equations (kinds of work) given by records, used for colours. */

export const FAMILIES = [
  'contraction',
  'elementwise',
  'reduction',
  'movement',
  'indexing',
  'control',
  'collective',
  'random',
  'creation',
  'host',
  'custom', // library-defined: user primitives, native calls
] as const;

export type Family = (typeof FAMILIES)[number];

const KNOWN: ReadonlySet<string> = new Set(FAMILIES);

/** Families by primitive name; those unknown to this version are left out. */
export function familiesOf(kinds: Readonly<Record<string, string>>): ReadonlyMap<string, Family> {
  return new Map(
    Object.entries(kinds).filter((entry): entry is [string, Family] => KNOWN.has(entry[1])),
  );
}
