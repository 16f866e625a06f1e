import { StateEffect, StateField, type Text } from '@codemirror/state';
import { Decoration, EditorView, type DecorationSet } from '@codemirror/view';
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { Cell, CodeCell } from '@jupyterlab/cells';
import { CodeMirrorEditor } from '@jupyterlab/codemirror';
import { INotebookTracker } from '@jupyterlab/notebook';

import type { CellPlace } from '../records/cell_places';
import { POINT_COMMAND, pointAtEquations } from './shown_records';

const setPlaces = StateEffect.define<readonly CellPlace[]>();
const mark = Decoration.line({ class: 'pellucid-pointed-line' });

/** Lines that are pointed at, until the text changes or others are. */
const pointedLines = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update: (marks, transaction) => {
    let next = transaction.docChanged ? Decoration.none : marks;
    for (const effect of transaction.effects) {
      if (effect.is(setPlaces)) {
        const { doc } = transaction.state;
        const numbers = new Set<number>();
        for (const place of effect.value) {
          if (isEdited(place, doc)) {
            continue;
          }
          for (let { line } = place; line <= Math.min(place.endLine, doc.lines); line++) {
            numbers.add(line);
          }
        }
        const sorted = [...numbers].sort((a, b) => a - b);
        next = Decoration.set(sorted.map(line => mark.range(doc.line(line).from)));
      }
    }
    return next;
  },
  provide: field => EditorView.decorations.from(field),
});

/** Whether the cell no longer has the line that a program was made from. */
export function isEdited(place: CellPlace, doc: Text): boolean {
  return (
    place.line > doc.lines || (place.text !== null && doc.line(place.line).text !== place.text)
  );
}

function point(cell: Cell, places: readonly CellPlace[]): void {
  const { editor } = cell;
  if (!(editor instanceof CodeMirrorEditor)) {
    return;
  }
  const view = editor.editor;
  const effects: StateEffect<unknown>[] = [setPlaces.of(places)];
  if (view.state.field(pointedLines, false) === undefined) {
    if (places.length === 0) {
      return;
    }
    effects.unshift(StateEffect.appendConfig.of(pointedLines));
  }
  view.dispatch({ effects });
}

/** Whether `cell` is the one that a place is in: by its id, else by its number. */
export function holds(cell: Cell, place: CellPlace): boolean {
  if (place.cellId !== null) {
    return cell.model.id === place.cellId;
  }
  return (
    cell.model.type === 'code' && (cell as CodeCell).model.executionCount === place.executionCount
  );
}

/** The line with the cursor, as programs know it; null in a cell that never ran. */
function cursorPlace(cell: Cell): CellPlace | null {
  const position = cell.editor?.getCursorPosition();
  if (position === undefined || cell.model.type !== 'code') {
    return null;
  }
  const line = position.line + 1;
  const { executionCount } = (cell as CodeCell).model;
  const text = cell.editor?.getLine(position.line) ?? null;
  return executionCount === null
    ? null
    : { cellId: cell.model.id, executionCount, line, endLine: line, text };
}

/** Lights up the lines of cells that equations come from, while a view points at them. */
export const cellLines: JupyterFrontEndPlugin<void> = {
  id: '@pellucid/lab:cell-lines',
  description: 'Lights up the source lines of equations in notebook cells.',
  autoStart: true,
  requires: [INotebookTracker],
  activate: (app: JupyterFrontEnd, tracker: INotebookTracker) => {
    app.commands.addCommand(POINT_COMMAND, {
      label: 'Light up Source Lines',
      describedBy: { args: { type: 'object' } },
      execute: args => {
        const places = (args['places'] ?? []) as unknown as readonly CellPlace[];
        tracker.forEach(notebook => {
          for (const cell of notebook.content.widgets) {
            const own = places.filter(place => holds(cell, place));
            point(cell, own);
            if (args['isShown'] === true && own.some(place => place === places[0])) {
              cell.node.scrollIntoView({ block: 'nearest' });
            }
          }
        });
      },
    });
    // The other way round: programs light up what comes from the line with the cursor.
    let followed: Cell | null = null;
    const cursorMoved = (): void =>
      pointAtEquations(followed === null ? null : cursorPlace(followed));
    tracker.activeCellChanged.connect((_, cell) => {
      followed?.model.selections.changed.disconnect(cursorMoved);
      followed = cell;
      cell?.model.selections.changed.connect(cursorMoved);
    });
  },
};
