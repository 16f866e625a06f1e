/** Tables with column titles. */

import { el, type Content } from './dom';
import { withTerms } from './terms';

export interface Column {
  readonly name: string;
  readonly isNumber?: boolean;
}

/** Creates a table; cells may contain elements. */
export function tableOf(label: string, columns: readonly Column[], rows: Content[][]): HTMLElement {
  const kind = (index: number): string | null => (columns[index]?.isNumber ? 'pl-number' : null);
  return el(
    'table',
    { class: 'pl-table', 'aria-label': label },
    el(
      'thead',
      {},
      el(
        'tr',
        {},
        columns.map((column, index) =>
          el('th', { scope: 'col', class: kind(index) }, withTerms(column.name)),
        ),
      ),
    ),
    el(
      'tbody',
      {},
      rows.map(row =>
        el(
          'tr',
          {},
          row.map((cell, index) => el('td', { class: kind(index) }, cell)),
        ),
      ),
    ),
  );
}

export const tableStyle = `
.pl-table { border-collapse: collapse; width: 100%; font-size: 12px; }
.pl-table th, .pl-table td { padding: 4px 12px; text-align: left; vertical-align: top; border-bottom: 1px solid var(--pl-line); overflow-wrap: anywhere; }
.pl-table th { color: var(--pl-muted); font-weight: 600; white-space: nowrap; background: var(--pl-bg); }
.pl-table tbody tr:last-child td { border-bottom: 0; }
.pl-table .pl-number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
.pl-table code, .pl-report code { font: 12px var(--pl-code); }
.pl-report { display: flex; flex-direction: column; min-width: 0; overflow: auto; max-height: 520px; }
.pl-report > * { flex: none; }
.pl-report > p { margin: 8px 12px; }
.pl-table .pl-link { white-space: nowrap; }
.pl-meter { display: block; height: 6px; min-width: 60px; margin-top: 5px; border-radius: 3px; background: var(--pl-sunken); overflow: hidden; }
.pl-meter > span { display: block; height: 100%; border-radius: 3px; background: var(--pl-accent); }
@container pl-root (max-width: 480px) {
  .pl-table th, .pl-table td { padding: 4px 6px; }
  .pl-table :is(th, td):first-child { padding-left: 12px; min-width: 64px; }
  .pl-table :is(th, td):last-child { padding-right: 12px; }
  .pl-table th, .pl-table th.pl-number { white-space: normal; overflow-wrap: normal; }
}
.pl-entry { margin: 0 12px 8px 20px; padding: 6px 8px; border: 1px solid var(--pl-line); border-radius: 6px; font-size: 12px; }
.pl-entry code { font: 12px var(--pl-code); overflow-wrap: anywhere; }
.pl-entry-actions { display: flex; gap: 8px; align-items: baseline; justify-content: space-between; margin-top: 4px; }
`;

/** A bar filled to the fraction `part`. */
export function meter(part: number): HTMLElement {
  const bar = el('span', {});
  bar.style.width = `${Math.min(100, Math.max(0, 100 * part)).toFixed(1)}%`;
  return el('span', { class: 'pl-meter', 'aria-hidden': 'true' }, bar);
}
