import { StateEffect, StateField } from '@codemirror/state';
import { EditorView, gutter, GutterMarker } from '@codemirror/view';
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { Cell } from '@jupyterlab/cells';
import { CodeMirrorEditor } from '@jupyterlab/codemirror';
import { INotebookTracker } from '@jupyterlab/notebook';

import { el } from '../components/dom';
import { duration } from '../components/facts/misses_view';
import type { LineTime } from '../records/profile';
import { holds, isEdited } from './cell_lines';
import { TIMES_COMMAND } from './shown_records';

const setTimes = StateEffect.define<ReadonlyMap<number, LineTime>>();
const NONE: ReadonlyMap<number, LineTime> = new Map();

/** Times by line number; cleared when the text changes. */
const lineTimes = StateField.define<ReadonlyMap<number, LineTime>>({
  create: () => NONE,
  update: (times, transaction) => {
    let next = transaction.docChanged ? NONE : times;
    for (const effect of transaction.effects) {
      if (effect.is(setTimes)) {
        const { doc } = transaction.state;
        next = new Map([...effect.value].filter(([, time]) => !isEdited(time, doc)));
      }
    }
    return next;
  },
});

class TimeMarker extends GutterMarker {
  constructor(private readonly time: LineTime) {
    super();
  }

  override eq(other: TimeMarker): boolean {
    return other.time === this.time;
  }

  override toDOM(): HTMLElement {
    const { forwardSeconds, backwardSeconds, share } = this.time;
    const bar = (seconds: number, name: string): HTMLElement => {
      const part = el('span', { class: `pellucid-time-${name}` });
      const total = forwardSeconds + backwardSeconds;
      part.style.width = `${(100 * share * seconds) / (total || 1)}%`;
      return part;
    };
    const parts = [`forward ${duration(forwardSeconds)}`];
    if (backwardSeconds > 0) {
      parts.push(`backward ${duration(backwardSeconds)}`);
    }
    return el(
      'div',
      {
        class: 'pellucid-time',
        title: `${parts.join(', ')}: ${(100 * share).toFixed(1)} % of the operations’ time`,
      },
      el('span', { class: 'pellucid-time-text' }, duration(forwardSeconds + backwardSeconds)),
      el(
        'span',
        { class: 'pellucid-time-bar' },
        bar(forwardSeconds, 'forward'),
        bar(backwardSeconds, 'backward'),
      ),
    );
  }
}

const timeGutter = gutter({
  class: 'pellucid-times',
  lineMarker: (view, line) => {
    const time = view.state.field(lineTimes).get(view.state.doc.lineAt(line.from).number);
    return time === undefined ? null : new TimeMarker(time);
  },
  lineMarkerChange: update => update.startState.field(lineTimes) !== update.state.field(lineTimes),
});

function show(cell: Cell, times: ReadonlyMap<number, LineTime>): void {
  const { editor } = cell;
  if (!(editor instanceof CodeMirrorEditor)) {
    return;
  }
  const view: EditorView = editor.editor;
  const effects: StateEffect<unknown>[] = [setTimes.of(times)];
  if (view.state.field(lineTimes, false) === undefined) {
    if (times.size === 0) {
      return;
    }
    effects.unshift(StateEffect.appendConfig.of([lineTimes, timeGutter]));
  }
  view.dispatch({ effects });
}

/** Shows the time of each line in the margin of its cell, until the cell is edited. */
export const lineTimesPlugin: JupyterFrontEndPlugin<void> = {
  id: '@pellucid/lab:line-times',
  description: 'Shows the time of source lines in the margin of notebook cells.',
  autoStart: true,
  requires: [INotebookTracker],
  activate: (app: JupyterFrontEnd, tracker: INotebookTracker) => {
    app.commands.addCommand(TIMES_COMMAND, {
      label: 'Show Times of Source Lines',
      describedBy: { args: { type: 'object' } },
      execute: args => {
        const times = (args['times'] ?? []) as unknown as readonly LineTime[];
        tracker.currentWidget?.content.widgets.forEach(cell => {
          const own = new Map(
            times.filter(time => holds(cell, time)).map(time => [time.line, time]),
          );
          // Cells outside the viewport have no editor yet.
          void cell.ready.then(() => show(cell, own));
        });
      },
    });
  },
};
