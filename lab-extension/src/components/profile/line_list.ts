/** Source text with the forward and backward time of each line. */

import type { Profile } from '../../records/profile';
import { el } from '../dom';
import { duration } from '../facts/misses_view';
import { oneLine } from '../format';
import { termed } from '../terms';
import type { Selection } from './selection';

/** Number of lines of a source above which those far from lines with time are collapsed. */
const MIN_FOLDED_LINES = 12;
const LINES_AROUND = 3;

export interface LineListEvents {
  /** The line under the pointer; -1 for none. */
  readonly onHover: (line: number) => void;
  readonly onSelect: (line: number) => void;
  /** The user requests to see the line in its notebook or file. */
  readonly onGo: (line: number) => void;
}

export class LineList {
  readonly element: HTMLElement;
  private readonly rows = new Map<number, HTMLElement>();

  constructor(
    private readonly profile: Profile,
    private readonly selection: Selection,
    private readonly events: LineListEvents,
  ) {
    const { sources } = profile.record;
    const seconds = sources.map(() => 0);
    const longest = Math.max(...this.all().map(line => profile.lineSeconds(line)), 1e-12);
    this.all().forEach(
      line => (seconds[profile.record.lines.source[line]!]! += profile.lineSeconds(line)),
    );
    // Other sources only contain lines of transfers, callbacks and arrays.
    const timed = new Set(profile.record.lines.source);
    const order = [...timed].sort((a, b) => seconds[b]! - seconds[a]!);
    this.element = el(
      'div',
      { class: 'pl-profile-lines' },
      el(
        'div',
        { class: 'pl-profile-key' },
        el('span', { class: 'pl-forward' }, 'forward'),
        el(
          'span',
          { class: 'pl-backward' },
          termed('backward pass', 'backward'),
          ', by the line that caused it',
        ),
      ),
      order.map(source => this.source(source, seconds[source]!, longest)),
      this.rest(),
    );
    selection.onChange(() => this.mark());
  }

  private all(): number[] {
    return Array.from({ length: this.profile.lineCount }, (_, i) => i);
  }

  private source(source: number, seconds: number, longest: number): HTMLElement {
    const record = this.profile.record.sources[source]!;
    const numbers = new Map(
      this.all()
        .filter(line => this.profile.record.lines.source[line] === source)
        .map(line => [this.profile.record.lines.line[line]!, line]),
    );
    const texts = new Map((record.lines ?? []).map((text, i) => [record.first_line + i, text]));
    const shown = record.lines === null ? [...numbers.keys()].sort((a, b) => a - b) : null;
    const table = el('div', { class: 'pl-profile-source', role: 'list' });
    let skipped = 0;
    for (const number of shown ?? texts.keys()) {
      if (!isNear(number, numbers) && texts.size > MIN_FOLDED_LINES) {
        skipped++;
        continue;
      }
      if (skipped > 0) {
        table.append(el('div', { class: 'pl-profile-skipped' }, `… ${skipped} lines`));
        skipped = 0;
      }
      table.append(this.row(number, texts.get(number) ?? '', numbers.get(number), longest));
    }
    const share = `${((100 * seconds) / this.profile.total).toFixed(0)} %`;
    return el(
      'section',
      {},
      el(
        'h4',
        {},
        record.name,
        el('span', { class: 'pl-muted' }, ` ${duration(seconds)}, ${share}`),
      ),
      table,
    );
  }

  private row(
    number: number,
    text: string,
    line: number | undefined,
    longest: number,
  ): HTMLElement {
    const code = el('code', { class: 'pl-code' }, oneLine(text, 400));
    const label = el('span', { class: 'pl-profile-number' }, String(number));
    if (line === undefined) {
      return el(
        'div',
        { class: 'pl-profile-line', role: 'listitem' },
        label,
        el('span'),
        el('span'),
        code,
      );
    }
    const { forward_seconds, backward_seconds } = this.profile.record.lines;
    const forward = forward_seconds[line]!;
    const backward = backward_seconds[line]!;
    const bars = el('span', { class: 'pl-profile-bars', 'aria-hidden': 'true' });
    for (const [seconds, className] of [
      [forward, 'pl-forward'],
      [backward, 'pl-backward'],
    ] as const) {
      if (seconds > 0) {
        const bar = el('span', { class: className });
        bar.style.width = `${((100 * seconds) / longest).toFixed(1)}%`;
        bars.append(bar);
      }
    }
    const parts = [
      forward > 0 ? `forward ${duration(forward)}` : '',
      backward > 0 ? `backward ${duration(backward)}` : '',
    ].filter(Boolean);
    const share = `${((100 * (forward + backward)) / this.profile.total).toFixed(0)} %`;
    const row = el(
      'div',
      {
        class: 'pl-profile-line pl-profile-timed',
        role: 'listitem',
        tabindex: 0,
        title: `${parts.join(', ')}; ${share} of the operations’ time`,
      },
      label,
      el(
        'span',
        { class: 'pl-profile-time' },
        duration(forward + backward),
        el('small', {}, ` ${share}`),
      ),
      bars,
      code,
    );
    row.addEventListener('pointerenter', () => this.events.onHover(line));
    row.addEventListener('pointerleave', () => this.events.onHover(-1));
    row.addEventListener('click', event =>
      event.ctrlKey || event.metaKey ? this.events.onGo(line) : this.events.onSelect(line),
    );
    row.addEventListener('keydown', event => {
      if (event.key === 'Enter') {
        this.events.onGo(line);
      } else if (event.key === ' ') {
        event.preventDefault();
        this.events.onSelect(line);
      }
    });
    this.rows.set(line, row);
    return row;
  }

  /** Row for time that belongs to no line. */
  private rest(): HTMLElement | null {
    const lost = this.profile.record.totals.unattributed_seconds;
    return lost <= 0
      ? null
      : el(
          'p',
          { class: 'pl-muted' },
          `${duration(lost)} belong to no line: operations that XLA added, and eager ones without profile(lines=True).`,
        );
  }

  private mark(): void {
    const { selected } = this.selection;
    const lines = new Set<number>();
    if (selected !== null && selected.operations.size <= 1000) {
      selected.operations.forEach(each =>
        this.profile.linesOf(each).forEach(line => lines.add(line)),
      );
    }
    this.rows.forEach((row, line) => row.classList.toggle('pl-profile-marked', lines.has(line)));
  }
}

function isNear(number: number, timed: ReadonlyMap<number, number>): boolean {
  for (let i = number - LINES_AROUND; i <= number + LINES_AROUND; i++) {
    if (timed.has(i)) {
      return true;
    }
  }
  return false;
}

export const lineListStyle = `
.pl-profile-lines section { margin-bottom: 10px; }
.pl-profile-lines h4 { margin: 8px 12px 4px; font-size: 12px; }
.pl-profile-lines > p { margin: 4px 12px 10px; }
.pl-profile-key { display: flex; flex-wrap: wrap; gap: 2px 14px; padding: 8px 12px 0; font-size: 11px; color: var(--pl-muted); }
.pl-profile-key > span::before { content: ''; display: inline-block; width: 9px; height: 9px; margin-right: 5px; border-radius: 2px; }
.pl-profile-key > .pl-forward::before, .pl-profile-bars > .pl-forward { background: var(--pl-accent); }
.pl-profile-key > .pl-backward::before, .pl-profile-bars > .pl-backward { background: var(--pl-upstream); }
.pl-profile-source { overflow-x: auto; }
.pl-profile-line { display: grid; grid-template-columns: 34px 104px 120px max-content; align-items: center; column-gap: 8px; line-height: 19px; min-width: max-content; }
.pl-profile-line code { font: 12px/19px var(--pl-code); white-space: pre; padding-right: 12px; }
.pl-profile-number { text-align: right; color: var(--pl-faint); font: 11px var(--pl-code); }
.pl-profile-time { text-align: right; font-size: 12px; font-variant-numeric: tabular-nums; white-space: nowrap; }
.pl-profile-time small { display: inline-block; width: 34px; color: var(--pl-muted); }
.pl-profile-bars { display: flex; gap: 1px; height: 10px; }
.pl-profile-bars > span { border-radius: 2px; min-width: 1px; }
.pl-profile-timed { cursor: pointer; }
.pl-profile-timed:hover { background: var(--pl-sunken); }
.pl-profile-timed.pl-profile-marked { background: var(--pl-accent-soft); }
.pl-profile-skipped { padding-left: 42px; color: var(--pl-faint); font-size: 11px; }
.pl-profile-narrow .pl-profile-line { grid-template-columns: 22px 54px 36px max-content; column-gap: 5px; }
.pl-profile-narrow .pl-profile-time small { display: none; }
`;
