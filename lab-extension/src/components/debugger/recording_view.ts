/** A recorded run: source, stack and variables at one stop, with controls to go to other stops. */

import type { RecordingRecord, RecordedFrameColumns } from '../../generated/debugger';
import { el, iconButton } from '../dom';
import { counted, oneLine } from '../format';

/** Height in CSS pixels above which the source scrolls. */
const SOURCE_HEIGHT = 300;
const BACK = 'M10 3 5 8l5 5';
const NEXT = 'M6 3l5 5-5 5';

export class RecordingView {
  readonly element: HTMLElement;
  readonly ready = Promise.resolve();
  readonly isFlowing = true;
  private stop = 0;
  /** Index in the stack of the selected frame; the last one is the innermost. */
  private depth = 0;
  private readonly position = el('output', { class: 'pl-muted' });
  private readonly slider: HTMLInputElement;
  private readonly stack = el('ol', { class: 'pl-recorded-stack', 'aria-label': 'Stack' });
  private readonly source = el('div', { class: 'pl-recorded-source pl-code', tabindex: 0 });
  private readonly variables = el('div', { class: 'pl-recorded-variables' });

  constructor(private readonly record: RecordingRecord) {
    const count = record.stacks.length;
    this.slider = el('input', {
      type: 'range',
      min: 0,
      max: Math.max(count - 1, 0),
      'aria-label': 'Stop of the run',
    });
    this.slider.addEventListener('input', () => this.go(Number(this.slider.value)));
    const chips = [counted(count, 'stop'), ...(record.is_cut ? ['cut: the run went on'] : [])];
    this.element = el(
      'div',
      { class: 'pl-report pl-recording' },
      el(
        'header',
        { class: 'pl-array-header' },
        el('strong', {}, `Run of ${oneLine(record.function, 60)}`),
        chips.map(chip => el('span', { class: 'pl-chip' }, chip)),
      ),
      count === 0
        ? el('p', { class: 'pl-muted' }, 'No line of yours computes anything in it.')
        : [
            el(
              'div',
              { class: 'pl-recorded-ways' },
              iconButton('Stop before', BACK, () => this.go(this.stop - 1)),
              iconButton('Next stop', NEXT, () => this.go(this.stop + 1)),
              this.slider,
              this.position,
            ),
            this.stack,
            el('div', { class: 'pl-recorded-panes' }, this.source, this.variables),
          ],
      el(
        'section',
        { 'aria-label': 'Results' },
        record.results.map((text, i) =>
          el('div', {}, el('span', { class: 'pl-muted' }, `result ${i} `), el('code', {}, text)),
        ),
      ),
    );
    if (count > 0) {
      this.go(0);
      // The view has no size yet when the first stop is drawn.
      requestAnimationFrame(() => this.showCurrent());
    }
  }

  /** Shows stop number `stop`, or the nearest one, with its innermost frame selected. */
  go(stop: number): void {
    this.stop = Math.min(Math.max(stop, 0), this.record.stacks.length - 1);
    this.depth = this.record.stacks[this.stop]!.length - 1;
    this.draw();
  }

  themeChanged(): void {
    // The style only contains colours of the theme.
  }

  dispose(): void {
    this.element.remove();
  }

  private draw(): void {
    const { record, stop } = this;
    const frames = record.stacks[stop]!;
    this.slider.value = String(stop);
    this.position.textContent = `${stop + 1} of ${record.stacks.length}`;
    this.stack.replaceChildren(
      ...frames.map((frame, depth) => this.frameButton(frame, depth, depth === this.depth)),
    );
    this.drawSource(frames[this.depth]!);
    this.variables.replaceChildren(this.variablesTable());
  }

  private frameButton(frame: number, depth: number, isShown: boolean): HTMLElement {
    const button = el(
      'button',
      { type: 'button', class: 'pl-link', 'aria-current': isShown ? 'true' : null },
      frameText(this.record, this.record.frames, frame),
    );
    button.addEventListener('click', () => {
      this.depth = depth;
      this.draw();
    });
    return el('li', {}, button);
  }

  private drawSource(frame: number): void {
    const source = this.record.sources[this.record.frames.source[frame]!]!;
    const current = this.record.frames.line[frame]!;
    const rows = (source.lines ?? []).map((text, offset) => {
      const number = source.first_line + offset;
      return el(
        'div',
        {
          class: number === current ? 'pl-recorded-line pl-recorded-current' : 'pl-recorded-line',
          'aria-current': number === current ? 'step' : null,
        },
        el('span', { class: 'pl-recorded-number' }, String(number)),
        text,
      );
    });
    this.source.setAttribute('aria-label', `Source of ${source.name}`);
    this.source.replaceChildren(
      ...(rows.length > 0 ? rows : [el('p', {}, 'The text of this file was not there.')]),
    );
    this.showCurrent();
  }

  private showCurrent(): void {
    const row = this.source.querySelector<HTMLElement>('.pl-recorded-current');
    if (row !== null) {
      // Not scrollIntoView, which would scroll the page, too.
      this.source.scrollTop = row.offsetTop - this.source.clientHeight / 2;
    }
  }

  private variablesTable(): HTMLElement {
    const { name, text } = this.record.values;
    const shown = this.record.variables[this.stop]![this.depth]!;
    const before = this.stop === 0 ? [] : this.record.variables[this.stop - 1]!.flat();
    if (shown.length === 0) {
      return el('p', { class: 'pl-muted' }, 'No variable has a value here.');
    }
    return el(
      'table',
      { class: 'pl-table', 'aria-label': 'Variables' },
      el(
        'tbody',
        {},
        shown.map(value =>
          el(
            'tr',
            { class: before.includes(value) ? null : 'pl-recorded-new' },
            el('th', { scope: 'row' }, el('code', {}, oneLine(name[value]!, 60))),
            el('td', {}, el('code', {}, oneLine(text[value]!))),
          ),
        ),
      ),
    );
  }
}

function frameText(record: RecordingRecord, frames: RecordedFrameColumns, frame: number): string {
  const place = `${record.sources[frames.source[frame]!]!.name}:${frames.line[frame]!}`;
  const run = frames.run[frame]!;
  return `${oneLine(frames.function[frame]!, 60)}  ${place}${run === '' ? '' : `  ${run}`}`;
}

export const recordingStyle = `
.pl-recording > :not(header) { margin: 4px 12px; }
.pl-recorded-ways { display: flex; gap: 4px; align-items: center; }
.pl-recorded-ways input { flex: 1; min-width: 60px; accent-color: var(--pl-accent); }
.pl-recorded-stack { padding: 0; list-style: none; display: flex; flex-wrap: wrap; gap: 2px 14px; }
.pl-recorded-stack button[aria-current] { background: var(--pl-accent-soft); }
.pl-recorded-panes { display: flex; flex-wrap: wrap; gap: 12px; align-items: flex-start; }
.pl-recorded-source { flex: 3 1 340px; min-width: 0; max-height: ${SOURCE_HEIGHT}px; overflow: auto; position: relative; border: 1px solid var(--pl-line); border-radius: 6px; font-size: 12px; line-height: 1.5; }
.pl-recorded-line { white-space: pre; min-width: max-content; padding-right: 12px; }
.pl-recorded-number { display: inline-block; width: 5ch; margin-right: 1ch; text-align: right; color: var(--pl-faint); user-select: none; }
.pl-recorded-current { background: var(--pl-mark); box-shadow: inset 3px 0 var(--pl-mark-line); }
.pl-recorded-variables { flex: 2 1 260px; min-width: 0; overflow-wrap: anywhere; }
.pl-recorded-variables th { text-align: left; vertical-align: top; }
.pl-recorded-new code { font-weight: 600; }
`;
