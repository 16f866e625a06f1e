/** Table of operations with grouping, sorting and a filter. */

import { GROUPINGS, type Group, type Grouping, type Profile } from '../../records/profile';
import { el } from '../dom';
import { duration } from '../facts/misses_view';
import { oneLine, quantity, whole } from '../format';
import { meter } from '../table';
import type { Selection } from './selection';

const ROWS_AT_ONCE = 100;

const NAMES: Readonly<Record<Grouping, string>> = {
  operation: 'Operation',
  line: 'Line',
  equation: 'Equation',
  scope: 'Scope',
  category: 'Category',
  program: 'Program',
  device: 'Device',
};

type Order = 'title' | 'seconds' | 'count' | 'flops' | 'bytes';

const COLUMNS: readonly { order: Order; name: string; hint: string }[] = [
  { order: 'seconds', name: 'Time', hint: 'of all devices, until operations were complete' },
  { order: 'count', name: 'Count', hint: 'executions, on all devices' },
  { order: 'flops', name: 'FLOP/s', hint: 'estimated operations by measured time' },
  { order: 'bytes', name: 'B/s', hint: 'estimated memory traffic by measured time' },
];

export class OperationTable {
  readonly element: HTMLElement;
  private readonly body = el('tbody', {});
  private readonly head = el('tr', {});
  private readonly more = el('button', { type: 'button', class: 'pl-action' });
  private readonly status = el('span', { class: 'pl-muted', role: 'status' });
  private by: Grouping = 'operation';
  private order: Order = 'seconds';
  private isAscending = false;
  private words: readonly string[] = [];
  private limit = ROWS_AT_ONCE;

  constructor(
    private readonly profile: Profile,
    private readonly selection: Selection,
  ) {
    const select = el(
      'select',
      { class: 'pl-select', 'aria-label': 'Group operations by' },
      GROUPINGS.map(each => el('option', { value: each }, `By ${NAMES[each].toLowerCase()}`)),
    );
    select.addEventListener('change', () => {
      this.by = select.value as Grouping;
      this.restart();
    });
    const filter = el('input', {
      class: 'pl-profile-filter',
      type: 'search',
      placeholder: 'Filter',
      'aria-label': 'Filter operations by name',
      spellcheck: 'false',
    });
    filter.addEventListener('input', () => {
      this.words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      this.restart();
    });
    this.more.addEventListener('click', () => {
      this.limit += ROWS_AT_ONCE;
      this.draw();
    });
    this.element = el(
      'div',
      { class: 'pl-profile-operations' },
      el('div', { class: 'pl-profile-tools' }, select, filter, this.status),
      el(
        'div',
        { class: 'pl-profile-scroll' },
        el(
          'table',
          { class: 'pl-table', 'aria-label': 'Operations' },
          el('thead', {}, this.head),
          this.body,
        ),
        this.more,
      ),
    );
    selection.onChange(() => this.restart());
    this.draw();
  }

  private restart(): void {
    this.limit = ROWS_AT_ONCE;
    this.draw();
  }

  private draw(): void {
    const { profile } = this;
    const groups = profile
      .groups(this.by, this.selection.selected?.operations ?? null)
      .filter(group => {
        const text = `${group.title} ${group.subtitle}`.toLowerCase();
        return this.words.every(word => text.includes(word));
      });
    const total = groups.reduce((sum, group) => sum + group.seconds, 0);
    const longest = Math.max(...groups.slice(0, 1).map(group => group.seconds), 1e-12);
    const sorted = groups.sort((a, b) => this.compared(a, b) * (this.isAscending ? 1 : -1));
    this.drawHead();
    this.body.replaceChildren(
      ...sorted.slice(0, this.limit).map(group => this.row(group, group.seconds / longest)),
    );
    const rest = sorted.length - this.limit;
    this.more.hidden = rest <= 0;
    this.more.textContent = `Show more of ${whole(Math.max(0, rest))}`;
    const { omitted_count, omitted_seconds } = profile.record;
    const omitted =
      omitted_count > 0
        ? `; ${whole(omitted_count)} shorter ones with ${duration(omitted_seconds)} are not listed`
        : '';
    const share = ((100 * total) / profile.total).toFixed(0);
    this.status.textContent = `${whole(sorted.length)} rows, ${duration(total)} (${share} %)${omitted}`;
  }

  private drawHead(): void {
    const title = { order: 'title' as const, name: NAMES[this.by], hint: '' };
    this.head.replaceChildren(
      ...[title, ...COLUMNS].map(({ order, name, hint }) => {
        const isSorted = order === this.order;
        const button = el(
          'button',
          { type: 'button', class: 'pl-profile-sort', title: hint },
          isSorted ? `${name} ${this.isAscending ? '↑' : '↓'}` : name,
        );
        button.addEventListener('click', () => {
          this.isAscending = isSorted ? !this.isAscending : order === 'title';
          this.order = order;
          this.restart();
        });
        const sort = isSorted ? (this.isAscending ? 'ascending' : 'descending') : 'none';
        const className = order === 'title' ? null : `pl-number pl-profile-${order}`;
        return el('th', { scope: 'col', class: className, 'aria-sort': sort }, button);
      }),
    );
  }

  private row(group: Group, part: number): HTMLElement {
    const rate = (amount: number, unit: string): string =>
      amount > 0 && group.seconds > 0 ? `${quantity(amount / group.seconds, unit)}/s` : '';
    const share = `${((100 * group.seconds) / this.profile.total).toFixed(1)} %`;
    const row = el(
      'tr',
      { tabindex: 0, class: 'pl-profile-row' },
      el(
        'td',
        {},
        el('code', {}, oneLine(group.title, 120)),
        group.subtitle === ''
          ? null
          : el('div', { class: 'pl-muted' }, oneLine(group.subtitle, 160)),
      ),
      el(
        'td',
        { class: 'pl-number' },
        duration(group.seconds),
        el('small', { class: 'pl-muted' }, ` ${share}`),
        meter(part),
      ),
      el('td', { class: 'pl-number pl-profile-count' }, whole(group.count)),
      el('td', { class: 'pl-number pl-profile-flops' }, rate(group.flops, 'flop')),
      el('td', { class: 'pl-number pl-profile-bytes' }, rate(group.bytes, 'B')),
    );
    const select = (): void =>
      this.selection.select({ operations: new Set(group.operations), title: group.title });
    row.addEventListener('click', select);
    row.addEventListener('keydown', event => {
      if (event.key === 'Enter') {
        select();
      }
    });
    return row;
  }

  private compared(a: Group, b: Group): number {
    switch (this.order) {
      case 'title':
        return a.title.localeCompare(b.title, undefined, { numeric: true });
      case 'flops':
      case 'bytes':
        return a[this.order] / (a.seconds || 1) - b[this.order] / (b.seconds || 1);
      default:
        return a[this.order] - b[this.order];
    }
  }
}

export const operationTableStyle = `
.pl-profile-tools { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; padding: 8px 12px; font-size: 12px; }
.pl-profile-filter { height: 28px; min-width: 80px; flex: 0 1 200px; padding: 0 8px; border: 1px solid var(--pl-line); border-radius: 6px; background: var(--pl-bg); }
.pl-profile-scroll { max-height: 380px; overflow: auto; }
.pl-profile-scroll thead th { position: sticky; top: 0; z-index: 1; }
.pl-profile-scroll > .pl-action { display: block; margin: 8px auto; }
.pl-profile-scroll > .pl-action[hidden] { display: none; }
.pl-profile-sort { border: 0; padding: 0; background: none; cursor: pointer; font-weight: 600 !important; color: var(--pl-muted) !important; }
.pl-profile-row { cursor: pointer; }
.pl-profile-row:hover td { background: var(--pl-sunken); }
.pl-profile-row td:nth-child(2) { min-width: 120px; }
.pl-profile-narrow .pl-profile-flops, .pl-profile-narrow .pl-profile-bytes { display: none; }
`;
