import { StateEffect, StateField } from '@codemirror/state';
import { Decoration, EditorView, type DecorationSet } from '@codemirror/view';
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { Cell, CodeCell } from '@jupyterlab/cells';
import { CodeMirrorEditor } from '@jupyterlab/codemirror';
import { INotebookTracker } from '@jupyterlab/notebook';

import { POINT_COMMAND, pointAtEquations, type CellLine } from './record_output';

const setLines = StateEffect.define<readonly (readonly [number, number])[]>();
const mark = Decoration.line({ class: 'pellucid-pointed-line' });

/** Lines that are pointed at, until the text changes or others are. */
const pointedLines = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update: (marks, transaction) => {
    let next = transaction.docChanged ? Decoration.none : marks;
    for (const effect of transaction.effects) {
      if (effect.is(setLines)) {
        const { doc } = transaction.state;
        const numbers = new Set<number>();
        for (const [first, last] of effect.value) {
          for (let line = first; line <= Math.min(last, doc.lines); line++) {
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

function point(cell: Cell, lines: readonly (readonly [number, number])[]): void {
  const { editor } = cell;
  if (!(editor instanceof CodeMirrorEditor)) {
    return;
  }
  const view = editor.editor;
  const effects: StateEffect<unknown>[] = [setLines.of(lines)];
  if (view.state.field(pointedLines, false) === undefined) {
    if (lines.length === 0) {
      return;
    }
    effects.unshift(StateEffect.appendConfig.of(pointedLines));
  }
  view.dispatch({ effects });
}

/** Whether `cell` is the one that a line stands in: by its id, else by its number. */
function holds(cell: Cell, line: CellLine): boolean {
  if (line.cellId !== null) {
    return cell.model.id === line.cellId;
  }
  return (
    cell.model.type === 'code' && (cell as CodeCell).model.executionCount === line.executionCount
  );
}

/** The line with the cursor, as programs know it; null in a cell that never ran. */
function cursorLine(cell: Cell): CellLine | null {
  const position = cell.editor?.getCursorPosition();
  if (position === undefined || cell.model.type !== 'code') {
    return null;
  }
  const line = position.line + 1;
  const { executionCount } = (cell as CodeCell).model;
  return executionCount === null
    ? null
    : { cellId: cell.model.id, executionCount, line, endLine: line };
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
        const lines = (args['lines'] ?? []) as unknown as readonly CellLine[];
        tracker.forEach(notebook => {
          for (const cell of notebook.content.widgets) {
            const own = lines.filter(line => holds(cell, line));
            point(
              cell,
              own.map(line => [line.line, line.endLine] as const),
            );
            if (args['isShown'] === true && own.some(line => line === lines[0])) {
              cell.node.scrollIntoView({ block: 'nearest' });
            }
          }
        });
      },
    });
    // The other way round: programs light up what comes from the line with the cursor.
    let followed: Cell | null = null;
    const cursorMoved = (): void =>
      pointAtEquations(followed === null ? null : cursorLine(followed));
    tracker.activeCellChanged.connect((_, cell) => {
      followed?.model.selections.changed.disconnect(cursorMoved);
      followed = cell;
      cell?.model.selections.changed.connect(cursorMoved);
    });
  },
};
