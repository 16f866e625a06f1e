/** Hidden accessible tree of the visible boxes, for screen readers. */

import type { Program } from '../../records/program';
import { el } from '../dom';
import type { Box } from './box';
import { boxLabel } from './describe';

/** Maximum number of boxes in the tree; others are listed when the user moves there. */
const MAX_ITEMS = 200;

export class Mirror {
  readonly element: HTMLUListElement;
  private readonly items = new Map<string, HTMLLIElement>();
  private readonly prefix = `pl-box-${Math.random().toString(36).slice(2, 8)}-`;

  constructor(
    private readonly program: Program,
    label: string,
  ) {
    this.element = el('ul', { class: 'pl-offscreen', role: 'tree', 'aria-label': label });
  }

  /** Lists the boxes around `selected`. */
  update(boxes: readonly Box[], selected: Box | null): void {
    const shown = boxes.filter(box => box.parent !== null && box.height > 0);
    const middle = Math.max(0, selected === null ? 0 : shown.indexOf(selected));
    const first = Math.max(0, Math.min(middle - MAX_ITEMS / 2, shown.length - MAX_ITEMS));
    this.items.clear();
    const items = shown.slice(first, first + MAX_ITEMS).map((box, index) => {
      const item = el(
        'li',
        {
          id: `${this.prefix}${index}`,
          role: 'treeitem',
          'aria-level': box.depth,
          'aria-expanded': box.isExpandable ? String(box.isOpen) : null,
          'aria-selected': String(box === selected),
        },
        boxLabel(this.program, box),
      );
      this.items.set(box.key, item);
      return item;
    });
    this.element.replaceChildren(...items);
  }

  /** Id of a box's item for `aria-activedescendant`; null if it is not listed. */
  idOf(box: Box): string | null {
    return this.items.get(box.key)?.id ?? null;
  }
}
