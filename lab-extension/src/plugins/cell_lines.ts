import { StateEffect, StateField, type Text } from '@codemirror/state';
import { Decoration, EditorView, WidgetType, type DecorationSet } from '@codemirror/view';
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { Cell, CodeCell } from '@jupyterlab/cells';
import { CodeMirrorEditor } from '@jupyterlab/codemirror';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';

import type { CellPlace, PlaceState } from '../records/cell_places';
import { pointAtEquations, setCellLines, type CellLines, type Origin } from './shown_records';

/** Highlighted lines of one cell. */
interface Lit {
  /** Highlighted while something is pointed at. */
  readonly pointed: readonly CellPlace[];
  /** Highlighted until something else is selected. */
  readonly selected: readonly CellPlace[];
  readonly visit: Visit | null;
}

/** A line to which the user came by a link from a view. */
interface Visit {
  readonly place: CellPlace;
  readonly title: string;
  readonly goBack: () => void;
}

const NOTHING: Lit = { pointed: [], selected: [], visit: null };
const setLit = StateEffect.define<Partial<Lit>>();

/** Highlighted lines, as long as they still have the text from which a program was made. */
const litLines = StateField.define<{ readonly lit: Lit; readonly marks: DecorationSet }>({
  create: () => ({ lit: NOTHING, marks: Decoration.none }),
  update: (value, transaction) => {
    const changes = transaction.effects.filter(effect => effect.is(setLit));
    if (changes.length === 0 && !transaction.docChanged) {
      return value;
    }
    const lit = changes.reduce<Lit>((known, { value: next }) => ({ ...known, ...next }), value.lit);
    return { lit, marks: marksOf(lit, transaction.state.doc) };
  },
  provide: field => EditorView.decorations.from(field, ({ marks }) => marks),
});

function marksOf(lit: Lit, doc: Text): DecorationSet {
  const classes = new Map<number, Set<string>>();
  const add = (places: readonly CellPlace[], name: string): void => {
    for (const place of places.filter(each => !isEdited(each, doc))) {
      const kind = place.isCaller === true ? 'pellucid-caller-line' : 'pellucid-innermost-line';
      for (let { line } = place; line <= Math.min(place.endLine, doc.lines); line++) {
        classes.set(line, (classes.get(line) ?? new Set<string>()).add(name).add(kind));
      }
    }
  };
  add(lit.pointed, 'pellucid-pointed-line');
  add(lit.selected, 'pellucid-selected-line');
  const marks = [...classes].map(([line, names]) =>
    Decoration.line({ class: [...names].join(' ') }).range(doc.line(line).from),
  );
  if (lit.visit !== null) {
    const line = doc.line(Math.min(lit.visit.place.line, doc.lines));
    const widget = new WayBack(lit.visit, isEdited(lit.visit.place, doc));
    marks.push(Decoration.widget({ widget, side: 1 }).range(line.to));
  }
  return Decoration.set(marks, true);
}

/** Link back to the view from which the user came, shown after the line. */
class WayBack extends WidgetType {
  constructor(
    private readonly visit: Visit,
    private readonly isEdited: boolean,
  ) {
    super();
  }

  override eq(other: WayBack): boolean {
    return other.visit === this.visit && other.isEdited === this.isEdited;
  }

  toDOM(): HTMLElement {
    const way = document.createElement('span');
    way.className = 'pellucid-way-back';
    if (this.isEdited) {
      const { text } = this.visit.place;
      const note = document.createElement('span');
      note.className = 'pellucid-edited-note';
      note.textContent =
        text === null ? 'edited since' : `edited since; it was: ${text.trim().slice(0, 80)}`;
      way.append(note);
    }
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = `Back to ${this.visit.title}`;
    button.addEventListener('click', this.visit.goBack);
    way.append(button);
    return way;
  }

  override ignoreEvent(): boolean {
    return true;
  }
}

/** Whether a line was edited since the program was made from it. */
export function isEdited(place: CellPlace, doc: Text): boolean {
  return (
    place.line > doc.lines || (place.text !== null && doc.line(place.line).text !== place.text)
  );
}

function light(cell: Cell, lit: Partial<Lit>): void {
  const { editor } = cell;
  if (!(editor instanceof CodeMirrorEditor)) {
    return;
  }
  const view = editor.editor;
  const effects: StateEffect<unknown>[] = [setLit.of(lit)];
  if (view.state.field(litLines, false) === undefined) {
    if ([lit.pointed, lit.selected].every(each => (each?.length ?? 0) === 0) && !lit.visit) {
      return;
    }
    effects.unshift(StateEffect.appendConfig.of(litLines));
  }
  view.dispatch({ effects });
}

/** Whether `cell` contains a place, by the cell's id, or else by its number. */
export function holds(cell: Cell, place: CellPlace): boolean {
  if (place.cellId !== null) {
    return cell.model.id === place.cellId;
  }
  return (
    place.executionCount !== null &&
    cell.model.type === 'code' &&
    (cell as CodeCell).model.executionCount === place.executionCount
  );
}

/** The cursor's line as a place; null in a cell that never ran. */
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

/** The lines of all cells in open notebooks. */
class NotebookCells implements CellLines {
  private visited: Cell | null = null;

  constructor(
    private readonly shell: JupyterFrontEnd.IShell,
    private readonly tracker: INotebookTracker,
  ) {}

  point(places: readonly CellPlace[], isSelected: boolean): void {
    this.tracker.forEach(notebook => {
      for (const cell of notebook.content.widgets) {
        const own = places.filter(place => holds(cell, place));
        light(cell, isSelected ? { selected: own, pointed: [] } : { pointed: own });
      }
    });
  }

  stateOf(place: CellPlace): PlaceState {
    const cell = this.find(each => holds(each, place))?.cell;
    if (cell === undefined) {
      return 'absent';
    }
    const line = cell.model.sharedModel.getSource().split('\n')[place.line - 1];
    return line === undefined || (place.text !== null && line !== place.text) ? 'edited' : 'here';
  }

  go(place: CellPlace, origin: Origin): void {
    const found = this.find(each => holds(each, place));
    if (found === null) {
      return;
    }
    const focused = origin.element.shadowRoot?.activeElement as HTMLElement | null | undefined;
    const goBack = (): void => {
      light(found.cell, { visit: null });
      void this.goTo(origin.element).then(() => focused?.focus({ preventScroll: true }));
    };
    if (this.visited !== null) {
      light(this.visited, { visit: null });
    }
    this.visited = found.cell;
    void this.show(found).then(() => {
      light(found.cell, { visit: { place, title: origin.title, goBack } });
      const { editor } = found.cell;
      if (editor instanceof CodeMirrorEditor) {
        const { doc } = editor.editor.state;
        const { from } = doc.line(Math.min(place.line, doc.lines));
        const effects = EditorView.scrollIntoView(from, { y: 'center' });
        editor.editor.dispatch({ selection: { anchor: from }, effects });
      }
    });
  }

  /** Scrolls to a view in a cell's output, or activates its tab. */
  private async goTo(element: HTMLElement): Promise<void> {
    const found = this.find(cell => cell.node.contains(element));
    if (found !== null) {
      await this.show(found);
    } else {
      const tab = [...this.shell.widgets('main')].find(each => each.node.contains(element));
      if (tab !== undefined) {
        this.shell.activateById(tab.id);
      }
    }
    element.scrollIntoView({ block: 'nearest' });
  }

  /** Makes a cell active and scrolls to it. */
  private async show({ notebook, cell }: Place): Promise<void> {
    this.shell.activateById(notebook.id);
    const index = notebook.content.widgets.indexOf(cell);
    notebook.content.activeCellIndex = index;
    notebook.content.deselectAll();
    await notebook.content.scrollToItem(index, 'smart');
  }

  private find(isIt: (cell: Cell) => boolean): Place | null {
    let found: Place | null = null;
    this.tracker.forEach(notebook => {
      const cell = notebook.content.widgets.find(isIt);
      if (cell !== undefined) {
        found ??= { notebook, cell };
      }
    });
    return found;
  }
}

interface Place {
  readonly notebook: NotebookPanel;
  readonly cell: Cell;
}

/** Highlights the lines of cells that equations come from, with links there and back. */
export const cellLines: JupyterFrontEndPlugin<void> = {
  id: '@pellucid/lab:cell-lines',
  description:
    'Lights up the source lines of equations in notebook cells, and goes there and back.',
  autoStart: true,
  requires: [INotebookTracker],
  activate: (app: JupyterFrontEnd, tracker: INotebookTracker) => {
    setCellLines(new NotebookCells(app.shell, tracker));
    // Conversely, views highlight the equations of the line with the cursor.
    // A cell of a closed notebook has no model any more, so its clean-up function is kept here.
    let leave: () => void = () => undefined;
    tracker.activeCellChanged.connect((_, cell) => {
      leave();
      leave = () => undefined;
      if (cell !== null) {
        const { selections } = cell.model;
        const cursorMoved = (): void => pointAtEquations(cursorPlace(cell));
        selections.changed.connect(cursorMoved);
        leave = () => selections.changed.disconnect(cursorMoved);
      }
    });
  },
};
