/** The first operation whose result meets a condition: the way there, and what it was given. */

import type { FindingRecord } from '../../generated/debugger';
import { el } from '../dom';
import { counted, oneLine, whole } from '../format';
import { FactsView } from '../facts/facts_view';
import type { ProgramEvents } from '../source_link';
import { tableOf } from '../table';
import { ArrayValuesView } from '../values/array_values_view';
import { lineOf } from './line_links';

export class FindingView extends FactsView {
  constructor(
    root: HTMLElement,
    record: FindingRecord,
    { notebook }: ProgramEvents = {},
    private readonly values = [
      ...record.operands.map((each, i) => ({ name: `operand ${i}`, record: each })),
      { name: 'result', record: record.result },
    ].map(({ name, record: each }) => ({ name, view: new ArrayValuesView(root, each) })),
  ) {
    const { way, functions } = record;
    super(
      `${oneLine(record.primitive, 40)} of ${oneLine(record.function, 40)}`,
      chipsOf(record),
      functions.length === 0
        ? null
        : tableOf(
            'The way there',
            [{ name: 'Line' }, { name: 'Function' }],
            functions.map((text, i) => [
              lineOf(way, i, lineText(record, i), notebook),
              el('code', {}, oneLine(text, 80)),
            ]),
          ),
      values.map(({ name, view }) =>
        el(
          'section',
          { class: 'pl-finding-value', 'aria-label': name },
          el('h4', {}, name),
          view.element,
        ),
      ),
    );
  }

  override themeChanged(): void {
    this.values.forEach(({ view }) => view.themeChanged());
  }
}

function chipsOf(record: FindingRecord): string[] {
  const { n_elements: n, size, index, iterations, lanes } = record;
  return [
    `${whole(n)} of ${counted(size, 'element')}`,
    ...(index.length > 0 ? [`first at [${index.join(', ')}]`] : []),
    ...iterations.map(each => `iteration ${whole(each)}`),
    ...lanes.map(each => oneLine(each, 60)),
    ...(record.is_backward ? ['backward pass'] : []),
  ];
}

/** `In[2], line 9: y = x * w`, as far as it is known. */
function lineText({ way }: FindingRecord, row: number): string {
  const source = way.sources[way.source[row] ?? -1];
  const line = way.line[row]!;
  if (source === undefined) {
    return '';
  }
  const text = source.lines?.[line - source.first_line]?.trim() ?? '';
  return `${source.name}, line ${line}${text === '' ? '' : `: ${text}`}`;
}

export const findingStyle = `
.pl-finding-value { border-top: 1px solid var(--pl-line); }
.pl-finding-value > h4 { margin: 8px 12px 0; font-size: 12px; font-weight: 600; color: var(--pl-muted); }
`;
