/**
 * Common parts of views of one operation of a call: the lines that lead to it, and values with
 * their names.
 */

import type { UserLineColumns } from '../../generated/debugger';
import type { ArrayValuesRecord } from '../../generated/introspect';
import { el } from '../dom';
import { oneLine } from '../format';
import { FactsView } from '../facts/facts_view';
import type { NotebookLines } from '../source_link';
import { tableOf } from '../table';
import { ArrayValuesView } from '../values/array_values_view';
import { lineOf } from './line_links';

export interface NamedValue {
  readonly name: string;
  readonly record: ArrayValuesRecord;
}

/** Facts, then values that are drawn, of which the theme may change. */
export class FactsAndValuesView extends FactsView {
  private constructor(
    title: string,
    chips: readonly string[],
    facts: readonly (HTMLElement | null)[],
    private readonly values: readonly ArrayValuesView[],
    sections: readonly HTMLElement[],
  ) {
    super(title, [...chips], ...facts, ...sections);
  }

  static of(
    root: HTMLElement,
    title: string,
    chips: readonly string[],
    facts: readonly (HTMLElement | null)[],
    values: readonly NamedValue[],
  ): FactsAndValuesView {
    const views = values.map(({ record }) => new ArrayValuesView(root, record));
    const sections = views.map((view, i) => {
      const { name } = values[i]!;
      return el(
        'section',
        { class: 'pl-named-value', 'aria-label': name },
        el('h4', {}, name),
        view.element,
      );
    });
    return new FactsAndValuesView(title, chips, facts, views, sections);
  }

  override themeChanged(): void {
    this.values.forEach(view => view.themeChanged());
  }
}

/** The lines that lead to an operation, outermost first; null where there are none. */
export function wayTable(
  way: UserLineColumns,
  functions: readonly string[],
  notebook: NotebookLines | undefined,
): HTMLElement | null {
  if (functions.length === 0) {
    return null;
  }
  return tableOf(
    'The way there',
    [{ name: 'Line' }, { name: 'Function' }],
    functions.map((text, i) => [
      lineOf(way, i, lineText(way, i), notebook),
      el('code', {}, oneLine(text, 80)),
    ]),
  );
}

/** `In[2], line 9: y = x * w`, as far as it is known. */
function lineText(way: UserLineColumns, row: number): string {
  const source = way.sources[way.source[row] ?? -1];
  const line = way.line[row]!;
  if (source === undefined) {
    return '';
  }
  const text = source.lines?.[line - source.first_line]?.trim() ?? '';
  return `${source.name}, line ${line}${text === '' ? '' : `: ${text}`}`;
}

export const namedValueStyle = `
.pl-named-value { border-top: 1px solid var(--pl-line); }
.pl-named-value > h4 { margin: 8px 12px 0; font-size: 12px; font-weight: 600; color: var(--pl-muted); }
`;
