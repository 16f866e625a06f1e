/** A view that only lists facts: a title, remarks, tables. */

import { el, type Content } from '../dom';
import { withTerms } from '../terms';

export class FactsView {
  readonly element: HTMLElement;
  readonly ready = Promise.resolve();
  /** As high as its content, where other views fill their place. */
  readonly isFlowing = true;

  constructor(title: Content, chips: readonly string[], ...content: Content[]) {
    this.element = el(
      'div',
      { class: 'pl-report' },
      title === null
        ? null
        : el(
            'header',
            { class: 'pl-array-header' },
            el('strong', {}, title),
            chips.map(chip => el('span', { class: 'pl-chip' }, withTerms(chip))),
          ),
      content,
    );
  }

  themeChanged(): void {
    // Colours come from the style alone.
  }

  dispose(): void {
    this.element.remove();
  }
}
