import type { INotebookTracker } from '@jupyterlab/notebook';

import { Disposables, el } from '../components/dom';
import { ProgressBlock, progressStyle } from '../components/progress';
import { baseStyle, followTheme } from '../components/theme';
import type { ProgressRecord } from '../generated/kernel';
import type { Connection } from '../panels/panel';

/** Shows a running compilation or wait in its cell, above the outputs. */
export class CellProgress {
  private readonly place = el('div', { class: 'pellucid-busy' });
  private readonly block: ProgressBlock;
  private readonly disposables = new Disposables();
  private shown: ProgressRecord | null = null;

  constructor(
    private readonly tracker: INotebookTracker,
    onInterrupt: () => void,
  ) {
    this.block = new ProgressBlock(onInterrupt);
    const style = document.createElement('style');
    style.textContent = `${baseStyle}${progressStyle}`;
    const root = el('div', { class: 'pl-root' }, this.block.element);
    this.place.attachShadow({ mode: 'open' }).replaceChildren(style, root);
    followTheme(root, this.disposables, () => undefined);
  }

  show(connection: Connection): void {
    const next = connection.status === 'ready' ? connection.busy : null;
    if (next === this.shown) {
      return;
    }
    this.shown = next;
    const cell = next === null || next.cell_id === null ? null : this.cellOf(next.cell_id);
    this.block.show(cell === null ? null : next);
    if (cell === null) {
      this.place.remove();
    } else if (this.place.parentElement !== cell) {
      cell.querySelector(':scope > .jp-Cell-outputWrapper')?.before(this.place);
    }
  }

  dispose(): void {
    this.block.dispose();
    this.place.remove();
    this.disposables.dispose();
  }

  private cellOf(id: string): HTMLElement | null {
    let node: HTMLElement | null = null;
    this.tracker.forEach(({ content }) => {
      node ??= content.widgets.find(cell => cell.model.id === id)?.node ?? null;
    });
    return node;
  }
}
