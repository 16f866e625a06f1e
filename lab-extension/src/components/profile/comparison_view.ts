/** Comparison of two sessions: which lines became slower or faster. */

import type { ProfileComparisonRecord } from '../../generated/profiler';
import { el, type Content } from '../dom';
import { FactsView } from '../facts/facts_view';
import { duration } from '../facts/misses_view';
import { oneLine } from '../format';
import { tableOf } from '../table';

/** Minimum change of a listed line, as a fraction of the total time; others are only counted. */
const MIN_SHARE = 0.001;

/** View of the lines whose seconds differ between two profiles by at least 0.1 % of the total. */
export function comparisonView(record: ProfileComparisonRecord): FactsView {
  const { before_seconds, after_seconds, before, after } = record;
  const total = Math.max(before_seconds, after_seconds, 1e-12);
  const change = (i: number): number => after[i]! - before[i]!;
  const changed = record.places
    .map((_, i) => i)
    .filter(i => Math.abs(change(i)) >= MIN_SHARE * total);
  const largest = Math.max(...changed.map(i => Math.abs(change(i))), 1e-12);
  const rows = changed.map((i): Content[] => [
    [
      el('code', {}, oneLine(record.codes[i] || 'operations of no line', 120)),
      el('div', { class: 'pl-muted' }, record.places[i]!),
    ],
    duration(before[i]!),
    duration(after[i]!),
    [signed(change(i)), changeBar(change(i) / largest)],
  ]);
  const same = record.places.length - changed.length;
  return new FactsView(
    'Profiles compared',
    [
      `before ${duration(before_seconds)}`,
      `after ${duration(after_seconds)}`,
      `${signed(after_seconds - before_seconds)} of operations`,
    ],
    el(
      'div',
      {},
      changed.length === 0
        ? el('p', { class: 'pl-muted pl-change-note' }, 'No line became slower or faster.')
        : tableOf(
            'Lines',
            [
              { name: 'Line' },
              { name: 'Before', isNumber: true },
              { name: 'After', isNumber: true },
              { name: 'Change', isNumber: true },
            ],
            rows,
          ),
      changed.length > 0 && same > 0
        ? el('p', { class: 'pl-muted pl-change-note' }, `${same} more took as long as before.`)
        : null,
    ),
  );
}

function signed(seconds: number): string {
  return `${seconds < 0 ? '−' : '+'}${duration(Math.abs(seconds))}`;
}

/** Bar to the right of the middle for slower, to the left for faster. */
function changeBar(part: number): HTMLElement {
  const bar = el('span', { class: part < 0 ? 'pl-faster' : 'pl-slower' });
  bar.style.width = `${(50 * Math.abs(part)).toFixed(1)}%`;
  bar.style.marginLeft = part < 0 ? `${(50 * (1 + part)).toFixed(1)}%` : '50%';
  return el('span', { class: 'pl-change-bar', 'aria-hidden': 'true' }, bar);
}

export const comparisonStyle = `
.pl-change-bar { display: block; height: 6px; min-width: 80px; margin-top: 5px; border-radius: 3px; background: var(--pl-sunken); }
.pl-change-bar > span { display: block; height: 100%; border-radius: 3px; }
.pl-change-note { margin: 8px 12px; }
.pl-slower { background: var(--pl-amber); }
.pl-faster { background: var(--pl-accent); }
`;
