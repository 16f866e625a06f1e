/** Runs of one call that are not equal to the bit: the first operation that differs, the way there, and those that follow. */

import type { UnequalRunsRecord } from '../../generated/debugger';
import { el, withCode } from '../dom';
import { counted, oneLine } from '../format';
import type { NotebookLines, ProgramEvents } from '../source_link';
import { tableOf } from '../table';
import { lineOf } from './line_links';
import { FactsAndValuesView, wayTable } from './way_and_values';

const MAX_ROWS = 12;

/**
 * View of the operations whose results differ between repeated runs, with the values of the first
 * one.
 */
export function unequalRunsView(
  root: HTMLElement,
  record: UnequalRunsRecord,
  { notebook }: ProgramEvents = {},
): FactsAndValuesView {
  const { operations, values } = record;
  const ulps = operations.ulps[0];
  return FactsAndValuesView.of(
    root,
    `${oneLine(record.primitive, 40)} of ${oneLine(record.function, 40)}`,
    [
      oneLine(record.runs, 40),
      counted(operations.primitive.length, 'unequal operation'),
      ulps === 0 ? 'other bits' : `by ${ulpsText(ulps ?? null)}`,
    ],
    [
      el('p', {}, withCode(oneLine(record.says, 300))),
      wayTable(record.way, record.functions, notebook),
      operations.primitive.length > 1 ? operationTable(record, notebook) : null,
    ],
    values.map(({ name, values: each }) => ({ name, record: each })),
  );
}

function ulpsText(ulps: number | null): string {
  return ulps === null
    ? 'more than any number of ulps'
    : `${Number(ulps.toPrecision(3)).toLocaleString('en')} ${ulps === 1 ? 'ulp' : 'ulps'}`;
}

/** The operations whose results differ, in their order. */
function operationTable(
  { operations, places }: UnequalRunsRecord,
  notebook: NotebookLines | undefined,
): HTMLElement {
  const { primitive, line, runs, ulps, begins } = operations;
  const shown = primitive.slice(0, MAX_ROWS);
  const more = primitive.length - shown.length;
  const table = tableOf(
    'Operations that differ',
    [
      { name: 'Operation' },
      { name: 'Runs', isNumber: true },
      { name: 'Ulps', isNumber: true },
      { name: 'Begins' },
    ],
    shown.map((name, i) => [
      [
        el('code', {}, oneLine(name, 60)),
        el('div', { class: 'pl-muted' }, lineOf(places, i, line[i]!, notebook)),
      ],
      String(runs[i]!),
      ulps[i] === null ? '∞' : Number(ulps[i]!.toPrecision(3)).toLocaleString('en'),
      begins[i]! ? 'here' : 'before',
    ]),
  );
  return more === 0
    ? table
    : el('div', {}, table, el('p', { class: 'pl-muted' }, `and ${counted(more, 'other')}`));
}
