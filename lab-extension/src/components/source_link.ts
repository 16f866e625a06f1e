/** Link to a source line. Only activating it leaves the view; other clicks don't. */

import type { SourceRecord } from '../generated/introspect';
import {
  placeIn,
  placeName,
  placesOf,
  type CellPlace,
  type PlaceState,
} from '../records/cell_places';
import type { Program } from '../records/program';
import { el } from './dom';
import { oneLine } from './format';
import { placeText } from './graph/describe';

/** Access to the lines of the notebooks around a view. */
export interface NotebookLines {
  readonly go: (place: CellPlace) => void;
  readonly stateOf: (place: CellPlace) => PlaceState;
}

/** Callbacks from views of programs to the page. */
export interface ProgramEvents {
  /**
   * Equations under the pointer, to be highlighted elsewhere: in notebook cells or other programs.
   */
  readonly onHover?: (program: Program, equations: ArrayLike<number>) => void;
  /** Equations that stay highlighted until others are selected; empty to end it. */
  readonly onSelect?: (program: Program, equations: ArrayLike<number>) => void;
  readonly notebook?: NotebookLines | undefined;
  /** Height in pixels at which the view shows its initial content completely. */
  readonly onHeight?: ((height: number) => void) | undefined;
}

const NOTES: Readonly<Record<PlaceState, string>> = {
  here: '',
  edited: 'edited since',
  absent: 'in no open notebook',
};

export class SourceLink {
  readonly element = el('span', { class: 'pl-source-link', hidden: true });

  /** `showText` shows the line within the view, if it is not in a cell of an open notebook. */
  constructor(
    private readonly notebook: NotebookLines | undefined,
    private readonly showText?: (equation: number) => void,
  ) {}

  /** Shows the line of the first of these equations that has one. */
  show(program: Program, equations: ArrayLike<number>): void {
    const equation = firstPlaced(program, equations);
    const place = this.placeOf(program, equation);
    const name =
      place !== null ? placeName(place) : equation < 0 ? '' : placeText(program, equation);
    this.fill(name, place, () => this.go(program, equations));
  }

  /** Shows a line. */
  showPlace(place: CellPlace | null): void {
    const isKnown = place !== null && place.executionCount !== null;
    this.fill(isKnown ? placeName(place) : '', place, () => this.goToPlace(place));
  }

  go(program: Program, equations: ArrayLike<number>): void {
    const equation = firstPlaced(program, equations);
    if (!this.goToPlace(this.placeOf(program, equation)) && equation >= 0) {
      this.showText?.(equation);
    }
  }

  goToPlace(place: CellPlace | null): boolean {
    if (
      place === null ||
      this.notebook === undefined ||
      this.notebook.stateOf(place) === 'absent'
    ) {
      return false;
    }
    this.notebook.go(place);
    return true;
  }

  private placeOf(program: Program, equation: number): CellPlace | null {
    return equation < 0 ? null : (placesOf(program.record, [equation])[0] ?? null);
  }

  private fill(name: string, place: CellPlace | null, go: () => void): void {
    const state = place === null ? undefined : this.notebook?.stateOf(place);
    const leads = this.showText !== undefined || (state !== undefined && state !== 'absent');
    this.element.hidden = name === '';
    if (name === '') {
      this.element.replaceChildren();
      return;
    }
    const title = 'Go to this line (Enter, or Ctrl and click)';
    const label = leads
      ? el('button', { type: 'button', class: 'pl-place-link', title }, name)
      : el('span', { class: 'pl-muted' }, name);
    label.addEventListener('click', () => leads && go());
    const note = state === undefined ? '' : NOTES[state];
    this.element.replaceChildren(
      label,
      ...(note === '' ? [] : [el('span', { class: 'pl-source-note' }, note)]),
    );
  }
}

/** A source line's name: a link if it is in a cell of an open notebook, else muted text. */
export function lineLink(
  source: SourceRecord,
  line: number,
  notebook: NotebookLines | undefined,
  endLine = line,
): HTMLElement {
  if (source.execution_count === null) {
    return el('span', { class: 'pl-muted' }, `${oneLine(source.name, 60)}, line ${line}`);
  }
  const link = new SourceLink(notebook);
  link.showPlace(placeIn(source, line, endLine));
  return link.element;
}

function firstPlaced(program: Program, equations: ArrayLike<number>): number {
  return Array.from(equations).find(equation => program.spanOf(equation) !== null) ?? -1;
}

export const sourceLinkStyle = `
.pl-source-link { display: inline-flex; align-items: center; gap: 6px; flex: none; white-space: nowrap; }
.pl-source-link[hidden] { display: none; }
button.pl-place-link { border: 0; background: none; cursor: pointer; padding: 0; color: var(--pl-accent) !important; font: 11px/18px var(--pl-code); }
button.pl-place-link:hover { text-decoration: underline; }
.pl-source-note { color: var(--pl-amber); font-size: 11px; }
`;
