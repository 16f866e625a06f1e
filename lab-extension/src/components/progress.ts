/** Running compilation or wait: its duration, its source line, and a button to interrupt it. */

import type { ProgressRecord } from '../generated/kernel';
import { el } from './dom';
import { counted, oneLine } from './format';

const TICK_MILLISECONDS = 100;
const STAGES = {
  trace: 'Tracing',
  lower: 'Lowering',
  compile: 'Compiling',
  wait: 'Waiting for',
  busy: 'Computing',
  left: 'Still computing',
} as const;
const OF_DEVICES =
  'A device can’t be interrupted: it goes on until it is done, or until the kernel is restarted. What it is asked for ' +
  'meanwhile waits.';

/**
 * Block that is visible during a compilation or a wait. Its clock shows the time since that began.
 */
export class ProgressBlock {
  readonly element: HTMLElement;
  private readonly seconds = el('span', { class: 'pl-progress-time' });
  private readonly head = el('span', {});
  private readonly facts = el('div', { class: 'pl-muted' });
  private readonly stop = el('button', { type: 'button', class: 'pl-link' }, 'Interrupt');
  private readonly hint = el('div', { class: 'pl-progress-hint' });
  private timer: ReturnType<typeof setInterval> | null = null;
  private begun = 0;

  constructor(onInterrupt: () => void) {
    this.stop.addEventListener('click', onInterrupt);
    this.element = el(
      'div',
      { class: 'pl-progress', role: 'status', hidden: true },
      el('div', { class: 'pl-progress-head' }, this.head, this.seconds, this.stop),
      this.facts,
      this.hint,
    );
  }

  show(record: ProgressRecord | null): void {
    this.element.hidden = record === null;
    if (this.timer !== null) {
      clearInterval(this.timer);
      this.timer = null;
    }
    if (record === null) {
      return;
    }
    this.begun = performance.now() - 1000 * record.elapsed_seconds;
    this.timer = setInterval(() => this.tick(), TICK_MILLISECONDS);
    const name = oneLine(record.function ?? '', 60);
    const stage = STAGES[record.stage ?? 'compile'];
    // An interrupted wait can't be interrupted again.
    this.stop.hidden = record.stage === 'left';
    this.head.replaceChildren(`${stage} `, el('strong', {}, name));
    this.facts.textContent = factsOf(record);
    this.hint.textContent = hintOf(record);
    this.hint.hidden = this.hint.textContent === '';
    this.tick();
  }

  dispose(): void {
    this.show(null);
    this.element.remove();
  }

  private tick(): void {
    const passed = (performance.now() - this.begun) / 1000;
    this.seconds.textContent = `${passed.toFixed(1)} s`;
  }
}

function factsOf(record: ProgressRecord): string {
  const isWait = record.devices !== '';
  const soFar = record.stage === 'trace' ? ' so far' : '';
  const parts = [
    isWait
      ? `on ${oneLine(record.devices, 60)}`
      : counted(record.equation_count, 'equation') + soFar,
  ];
  if (record.place !== null) {
    const place = `${oneLine(record.place.source, 40)}, line ${record.place.line}`;
    const relation = isWait ? 'needed in' : 'called in';
    parts.push(record.stage === 'busy' ? `while ${place} runs` : `${relation} ${place}`);
  }
  if (record.is_by_tool) {
    parts.push('for a view');
  }
  return parts.join(' · ');
}

function hintOf({ loop, stage }: ProgressRecord): string {
  if (stage === 'left') {
    return OF_DEVICES;
  }
  if (loop === null) {
    return '';
  }
  const { source, line } = loop.place;
  const iterations = `${counted(loop.iterations, 'iteration')}${stage === 'trace' ? ' so far' : ''}`;
  return (
    `The loop in ${oneLine(source, 40)}, line ${line} is unrolled: ${iterations} are in the program. ` +
    'lax.scan or lax.fori_loop would compile its body once.'
  );
}

export const progressStyle = `
.pl-progress { padding: 8px 12px; background: var(--pl-accent-soft); border-radius: 6px; }
.pl-progress[hidden], .pl-progress-hint[hidden] { display: none; }
.pl-progress-head { display: flex; flex-wrap: wrap; gap: 2px 8px; align-items: baseline; }
.pl-progress-head > :first-child { overflow-wrap: anywhere; }
.pl-progress-time { font-variant-numeric: tabular-nums; color: var(--pl-muted); }
.pl-progress-head > button { margin-left: auto; }
.pl-progress-hint { margin-top: 2px; }
`;
