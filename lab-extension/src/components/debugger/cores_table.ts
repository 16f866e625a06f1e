/** The devices, cores or threads of a simulated kernel: where each is, what it waits for; one is chosen to be shown and stepped. */

import { el } from '../dom';
import { whole } from '../format';

export interface StandingCore {
  readonly name: string;
  /** The line at which it is; null before its first. */
  readonly line: number | null;
  /** What it does: `its turn`, `can go on`, `waits for …`. */
  readonly state: string;
  /** Its copies in flight. */
  readonly inFlight: readonly string[];
  readonly isChosen: boolean;
}

export class CoresTable {
  readonly element = el('div', {
    class: 'pellucid-cores',
    role: 'radiogroup',
    'aria-label': 'Devices, cores and threads of the simulated kernel',
    hidden: true,
  });

  constructor(private readonly onCore: (core: number) => void) {
    this.element.addEventListener('keydown', event => this.move(event));
  }

  show(cores: readonly StandingCore[]): void {
    const hadFocus = this.element.contains(
      (this.element.getRootNode() as Document | ShadowRoot).activeElement,
    );
    this.element.hidden = cores.length === 0;
    this.element.replaceChildren(...cores.map((core, i) => this.row(core, i)));
    if (hadFocus) {
      this.rows.find(row => row.ariaChecked === 'true')?.focus();
    }
  }

  private get rows(): HTMLElement[] {
    return [...this.element.querySelectorAll<HTMLElement>('[role=radio]')];
  }

  private row({ name, line, state, inFlight, isChosen }: StandingCore, i: number): HTMLElement {
    const row = el(
      'button',
      {
        type: 'button',
        role: 'radio',
        class: 'pellucid-core',
        'aria-checked': String(isChosen),
        tabindex: isChosen ? 0 : -1,
        'data-state': state.split(' ', 1)[0]!,
      },
      el('b', {}, name),
      el('span', {}, line === null ? '' : `line ${whole(line)}`),
      el(
        'span',
        { class: 'pellucid-core-state' },
        [state, ...inFlight.map(text => `in flight: ${text}`)].join('; '),
      ),
    );
    row.addEventListener('click', () => this.onCore(i));
    return row;
  }

  /** Arrow keys choose the row above or below. */
  private move(event: KeyboardEvent): void {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const at = this.rows.indexOf(event.target as HTMLElement);
    if (step === undefined || at < 0) {
      return;
    }
    event.preventDefault();
    const next = Math.min(Math.max(at + step, 0), this.rows.length - 1);
    if (next !== at) {
      this.rows[next]!.focus();
      this.onCore(next);
    }
  }
}
