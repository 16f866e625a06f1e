/** What kind of work an equation does, as its record says; views colour by it. */

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
  'custom', // what a library defines: primitives of users, native calls
] as const;

export type Family = (typeof FAMILIES)[number];

const KNOWN: ReadonlySet<string> = new Set(FAMILIES);

/** The kinds of a record by the name of the primitive; those that this version doesn't know are left out. */
export function familiesOf(kinds: Readonly<Record<string, string>>): ReadonlyMap<string, Family> {
  return new Map(
    Object.entries(kinds).filter((entry): entry is [string, Family] => KNOWN.has(entry[1])),
  );
}
