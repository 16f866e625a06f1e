/** User lines in tables of debugger results, as links to their cells. */

import type { UserLineColumns } from '../../generated/debugger';
import type { CellPlace } from '../../records/cell_places';
import { placeIn, placeName } from '../../records/cell_places';
import { withCode, type Content } from '../dom';
import { oneLine } from '../format';
import { SourceLink, type NotebookLines } from '../source_link';

/** Text of a row's line, as a link if the line is in a notebook cell. */
export function lineOf(
  places: UserLineColumns | undefined,
  row: number,
  text: string,
  notebook: NotebookLines | undefined,
): Content {
  const place = placeOf(places, row);
  if (place === null) {
    return withCode(oneLine(text, 100));
  }
  const link = new SourceLink(notebook);
  link.showPlace(place);
  const prefix = placeName(place);
  const rest = text.startsWith(prefix) ? text.slice(prefix.length) : `: ${text}`;
  return [link.element, withCode(oneLine(rest, 100))];
}

function placeOf(places: UserLineColumns | undefined, row: number): CellPlace | null {
  // Records written by the first versions have no places.
  const source = places?.sources[places.source[row] ?? -1];
  if (places === undefined || source === undefined || source.execution_count === null) {
    return null;
  }
  return placeIn(source, places.line[row]!);
}
