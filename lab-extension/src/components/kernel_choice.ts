/** One of several kernels, or of their runs, of which a view shows one. */

import { el, type Content } from './dom';
import { counted, oneLine } from './format';

export interface Chosen {
  /** What they are, as in "run 1 of 3". */
  readonly noun: string;
  readonly label: string;
  /** What is said where there is none. */
  readonly none: string;
  /** The number of others, which the record doesn't have. */
  readonly hidden: number;
}

export class KernelChoice {
  /** The list, which hides where there is nothing to choose. */
  readonly select: HTMLSelectElement;

  /** `first` is what is shown at first, such as one with a fault; -1 for the first one. */
  constructor(
    private readonly kernels: readonly { readonly name: string }[],
    private readonly texts: Chosen,
    first: number,
    onChange: (number: number) => void,
  ) {
    const title = (name: string, i: number): string =>
      `${texts.noun} ${i + 1} of ${kernels.length}: ${oneLine(name, 40)}`;
    this.select = el(
      'select',
      { class: 'pl-select', 'aria-label': texts.label, hidden: kernels.length < 2 },
      kernels.map(({ name }, i) => el('option', { value: i }, title(name, i))),
    );
    this.select.value = String(Math.max(0, first));
    this.select.addEventListener('change', () => onChange(this.number));
  }

  get number(): number {
    return Number(this.select.value);
  }

  /** The list with what stands beside it, or that there is none, and how many aren't shown. */
  content(...beside: Content[]): Content[] {
    const { kernels, select, texts } = this;
    const isEmpty = select.hidden && beside.length === 0;
    return [
      kernels.length === 0 ? el('p', { class: 'pl-muted' }, texts.none) : null,
      kernels.length === 0 || isEmpty
        ? null
        : el('div', { class: 'pl-kernel-choice' }, select, ...beside),
      texts.hidden > 0
        ? el('p', { class: 'pl-muted' }, `${counted(texts.hidden, `more ${texts.noun}`)} not shown`)
        : null,
    ];
  }
}

export const NO_KERNEL =
  'No kernel is called here. Derivatives and batches of kernels run as ordinary programs.';

export const kernelChoiceStyle = `
.pl-kernel-choice { display: flex; flex-wrap: wrap; gap: 8px; padding: 8px 12px 0; }
.pl-kernel-choice > [hidden] { display: none; }
`;
