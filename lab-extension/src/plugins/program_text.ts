/** The part of a program record used here; the record may be of any version. */
export interface ProgramListing {
  readonly listing?: { readonly text?: unknown } | null;
}

/** Text of a program: its own listing, or the plain text stored with the record. */
export function programText(record: ProgramListing | null | undefined, plain: unknown): string {
  const listing = record?.listing?.text;
  if (typeof listing === 'string') {
    return listing;
  }
  return typeof plain === 'string' ? plain : 'This program was stored without its text.';
}
