/** What is traced or compiled now: how long for, how large it is, and a way to end it. */

import type { CompilationRecord } from '../generated/kernel';
import { el } from './dom';
import { counted, oneLine } from './format';

const TICK_MILLISECONDS = 100;
const STAGES = { trace: 'Tracing', lower: 'Lowering', compile: 'Compiling' } as const;

/** A block that is in sight while something is compiled. Its clock began when tracing did. */
export class ProgressBlock {
  readonly element: HTMLElement;
  private readonly seconds = el('span', { class: 'pl-progress-time' });
  private readonly head = el('span', {});
  private readonly facts = el('div', { class: 'pl-muted' });
  private readonly hint = el('div', { class: 'pl-progress-hint' });
  private timer: ReturnType<typeof setInterval> | null = null;
  private begun = 0;

  constructor(onInterrupt: () => void) {
    const stop = el('button', { type: 'button', class: 'pl-link' }, 'Interrupt');
    stop.addEventListener('click', onInterrupt);
    this.element = el(
      'div',
      { class: 'pl-progress', role: 'status', hidden: true },
      el('div', { class: 'pl-progress-head' }, this.head, this.seconds, stop),
      this.facts,
      this.hint,
    );
  }

  show(record: CompilationRecord | null): void {
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
    const name = oneLine(record.function ?? '', 40);
    const stage = STAGES[record.stage ?? 'compile'];
    this.head.replaceChildren(`${stage} `, el('strong', {}, name));
    this.facts.textContent = factsOf(record);
    this.hint.textContent = hintOf(record);
    this.hint.hidden = record.loop === null;
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

function factsOf(record: CompilationRecord): string {
  const soFar = record.stage === 'trace' ? ' so far' : '';
  const parts = [counted(record.equation_count, 'equation') + soFar];
  if (record.place !== null) {
    parts.push(`called in ${oneLine(record.place.source, 40)}, line ${record.place.line}`);
  }
  if (record.is_by_tool) {
    parts.push('for a view');
  }
  return parts.join(' · ');
}

function hintOf({ loop, stage }: CompilationRecord): string {
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
