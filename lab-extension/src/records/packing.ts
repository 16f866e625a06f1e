/** Records stored in outputs: once, compressed, within the HTML. */

import { RecordError } from './columns';

const DATA = /<script type="application\/json"( data-encoding="gzip")?>([^<]*)<\/script>/;

/** JSON text of the record in a script element. */
export async function unpacked(text: string, isPacked: boolean): Promise<string> {
  if (!isPacked) {
    return text;
  }
  const bytes = Uint8Array.from(atob(text), character => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(stream).text();
}

/** The record of an output, from its MIME type or from the HTML stored with it. */
export async function storedRecord(data: unknown, html: unknown): Promise<unknown> {
  const stored = data as { readonly stored_in?: unknown } | null | undefined;
  if (stored?.stored_in === undefined) {
    return data;
  }
  const found = DATA.exec(Array.isArray(html) ? html.join('') : String(html));
  if (found === null) {
    throw new RecordError('the record is not in the HTML of its output: run the cell again');
  }
  return JSON.parse(await unpacked(found[2]!, found[1] !== undefined)) as unknown;
}
