/** The first operation whose result meets a condition: its operands and how it was reached. */

import type { FindingRecord } from '../../generated/debugger';
import { counted, oneLine, whole } from '../format';
import type { ProgramEvents } from '../source_link';
import { FactsAndValuesView, wayTable } from './way_and_values';

/** View of a found operation: the calls that lead to it, its operands and its result. */
export function findingView(
  root: HTMLElement,
  record: FindingRecord,
  { notebook }: ProgramEvents = {},
): FactsAndValuesView {
  return FactsAndValuesView.of(
    root,
    `${oneLine(record.primitive, 40)} of ${oneLine(record.function, 40)}`,
    chipsOf(record),
    [wayTable(record.way, record.functions, notebook)],
    [
      ...record.operands.map((each, i) => ({ name: `operand ${i}`, record: each })),
      { name: 'result', record: record.result },
    ],
  );
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
