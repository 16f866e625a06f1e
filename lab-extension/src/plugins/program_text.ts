/** What is read here of a program record, which may come from a notebook of any age. */
export interface ProgramListing {
  readonly listing?: { readonly text?: unknown } | null;
}

/** Text of a program: its own listing, or the plain text that was stored beside the record. */
export function programText(record: ProgramListing | null | undefined, plain: unknown): string {
  const listing = record?.listing?.text;
  if (typeof listing === 'string') {
    return listing;
  }
  return typeof plain === 'string' ? plain : 'This program was stored without its text.';
}
