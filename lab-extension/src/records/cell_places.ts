/** Maps between equations and the lines of notebook cells that they come from. */

import type { ProgramRecord, SourceRecord } from '../generated/introspect';

/** A line of a cell, or several lines with one expression. */
export interface CellPlace {
  readonly cellId: string | null;
  readonly executionCount: number | null;
  readonly line: number;
  readonly endLine: number;
  /** Text of the first line, to detect edits of the cell; null if unknown. */
  readonly text: string | null;
  /** Whether the line only calls the function that the equations come from. */
  readonly isCaller?: boolean;
}

/** State of a place: present in an open notebook, edited since, or in none of them. */
export type PlaceState = 'here' | 'edited' | 'absent';

/**
 * Document events by which a view in a widget, which doesn't know the extension, reaches the
 * notebook's lines.
 */
export const GO_EVENT = 'pellucid-go';
export const STATE_EVENT = 'pellucid-state-of';

export interface PlaceQuestion {
  readonly place: CellPlace;
  /** Set by the listener that answers. */
  state: PlaceState;
}

/** Maximum number of equations whose places are highlighted. */
const MAX_EQUATIONS = 200;

/** Places of equations in cells, each followed by its callers, innermost first. */
export function placesOf(program: ProgramRecord, equations: ArrayLike<number>): CellPlace[] {
  const found = new Map<number, CellPlace>();
  const { span: spans } = program.equations;
  const own = new Set(Array.from({ length: count(equations) }, (_, i) => spans[equations[i]!]));
  for (let i = 0; i < count(equations); i++) {
    for (
      let span = spans[equations[i]!] ?? -1;
      span >= 0 && !found.has(span);
      span = program.spans.caller[span] ?? -1
    ) {
      const place = placeOf(program, span);
      if (place !== null) {
        found.set(span, { ...place, isCaller: !own.has(span) });
      }
    }
  }
  return [...found.values()].filter(each => each.executionCount !== null);
}

function count(equations: ArrayLike<number>): number {
  return Math.min(equations.length, MAX_EQUATIONS);
}

/** The place of lines of a source; its `executionCount` is null if the source isn't a cell. */
export function placeIn(source: SourceRecord, line: number, endLine = line): CellPlace {
  return {
    cellId: source.cell_id,
    executionCount: source.execution_count,
    line,
    endLine,
    text: source.lines?.[line - source.first_line] ?? null,
  };
}

/** `In[3], line 4`. */
export function placeName({ executionCount, line }: CellPlace): string {
  return `In[${executionCount}], line ${line}`;
}

/** The equations that come from a place, or from functions called there. */
export function equationsAt(program: ProgramRecord, at: CellPlace): number[] {
  const { caller } = program.spans;
  // A span may come before or after the span that calls it, so results are cached.
  const known = new Map<number, boolean>([[-1, false]]);
  const isAt = (span: number): boolean => {
    let answer = known.get(span);
    if (answer === undefined) {
      known.set(span, false);
      const place = placeOf(program, span);
      answer = (place !== null && covers(place, at)) || isAt(caller[span] ?? -1);
      known.set(span, answer);
    }
    return answer;
  };
  const found: number[] = [];
  program.equations.span.forEach((span, equation) => {
    if (isAt(span)) {
      found.push(equation);
    }
  });
  return found;
}

function placeOf(program: ProgramRecord, span: number): CellPlace | null {
  const source = program.sources[program.spans.source[span]!];
  if (source === undefined) {
    return null;
  }
  return placeIn(source, program.spans.line[span]!, program.spans.end_line[span]!);
}

/** Whether two places overlap; cells are compared by id, or else by number. */
function covers(place: CellPlace, at: CellPlace): boolean {
  const isSameCell =
    place.cellId === null || at.cellId === null
      ? place.executionCount !== null && place.executionCount === at.executionCount
      : place.cellId === at.cellId;
  const isEdited =
    place.line === at.line && place.text !== null && at.text !== null && place.text !== at.text;
  return isSameCell && !isEdited && place.line <= at.line && at.line <= place.endLine;
}
