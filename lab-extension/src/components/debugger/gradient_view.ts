/** A gradient and its backward pass: norm of each line's cotangent, and paths of faults. */

import type { GradientRecord } from '../../generated/debugger';
import { el, withCode, type Content } from '../dom';
import { counted, oneLine } from '../format';
import { FactsView } from '../facts/facts_view';
import type { ProgramEvents } from '../source_link';
import { tableOf } from '../table';
import { lineOf } from './line_links';

/** Number of powers of ten from the shortest to the longest bar. */
const DECADES = 12;

/**
 * View of a gradient: the norm of the cotangent at each line of the backward pass, and the
 * gradient of each argument.
 */
export function gradientView(record: GradientRecord, { notebook }: ProgramEvents = {}): FactsView {
  const { cotangents, gradients } = record;
  const faults = gradients.fault.filter(fault => fault !== '').length;
  const norms = [...cotangents.norm, ...gradients.norm];
  const largest = Math.max(0, ...norms.map(norm => norm ?? 0));
  return new FactsView(
    'Gradient',
    [
      counted(gradients.name.length, 'argument'),
      faults === 0 ? 'no NaN, infinity or zero' : `${faults} NaN, infinite or zero`,
    ],
    cotangents.line.length === 0
      ? el('p', { class: 'pl-muted' }, 'The backward pass comes to no line.')
      : tableOf(
          'Cotangents, in the order of the backward pass',
          [{ name: 'Line of the forward pass' }, { name: 'Norm of its cotangent' }],
          cotangents.line.map((line, i) => [
            [
              lineOf(record.places, i, line, notebook),
              el('div', { class: 'pl-muted' }, oneLine(cotangents.primitive[i]!, 60)),
            ],
            normCell(cotangents.norm[i]!, cotangents.fault[i]!, largest),
          ]),
        ),
    tableOf(
      'Gradients',
      [{ name: 'Gradient of' }, { name: 'Norm' }, { name: 'Where it begins' }],
      gradients.name.map((name, i) => [
        el('code', {}, oneLine(name, 60)),
        normCell(gradients.norm[i]!, gradients.fault[i]!, largest),
        pathOf(record, i),
      ]),
    ),
    record.within === '' ? null : el('pre', { class: 'pl-code pl-within' }, record.within),
  );
}

/** Table cell with a norm, its bar on a logarithmic scale, and its fault. */
function normCell(norm: number | null, fault: string, largest: number): Content {
  const share =
    norm === null
      ? Number(fault === '')
      : norm === 0
        ? 0
        : 1 + Math.log10(norm / (largest || 1)) / DECADES;
  return [
    norm === null ? (fault === '' ? 'overflows ' : '') : `${Number(norm.toPrecision(3))} `,
    fault === '' ? null : el('span', { class: 'pl-chip pl-fault' }, oneLine(fault)),
    el(
      'span',
      { class: 'pl-meter' },
      el('span', { style: `width: ${100 * Math.min(Math.max(share, 0), 1)}%` }),
    ),
  ];
}

function pathOf({ gradients, operands }: GradientRecord, i: number): Content {
  const path = gradients.path[i]!;
  if (gradients.fault[i] === '') {
    return null;
  }
  if (path.length === 0) {
    return 'The result doesn’t depend on it.';
  }
  const [first, ...rest] = path;
  return [
    el('div', {}, withCode(oneLine(first!, 120))),
    operands[i]!.map((text, k) =>
      el('div', { class: 'pl-muted' }, `operand ${k}: ${oneLine(text, 100)}`),
    ),
    rest.length === 0
      ? null
      : el(
          'details',
          {},
          el('summary', {}, `${counted(rest.length, 'operation')} on the way`),
          el(
            'ol',
            {},
            rest.map(text => el('li', {}, withCode(oneLine(text, 120)))),
          ),
        ),
  ];
}

export const gradientStyle = `
.pl-chip.pl-fault { background: var(--pl-removed-soft); color: var(--pl-removed); }
.pl-within { margin: 8px 12px; white-space: pre-wrap; }
.pl-table details > ol { margin: 2px 0; padding-left: 20px; }
`;
