/** A view that only lists facts: a title, notes, tables. */

import { el, type Content } from '../dom';
import { withTerms } from '../terms';

export class FactsView {
  readonly element: HTMLElement;
  readonly ready = Promise.resolve();
  /** The view is as high as its content; other views fill their container. */
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
    // The style only contains colours of the theme.
  }

  dispose(): void {
    this.element.remove();
  }
}
