/** What kernels hold in the fast memories of TPUs and GPUs: a bar for each memory of a chip, with its parts, and their lines. */

import type {
  ChipRecord,
  KernelMemoriesRecord,
  KernelMemoryPartRecord,
  KernelMemoryRecord,
} from '../../generated/introspect';
import { el, type Content } from '../dom';
import { counted, oneLine, quantity } from '../format';
import { stepColor } from '../sharding/colors';
import { KernelChoice, NO_KERNEL } from '../kernel_choice';
import { lineLink, type NotebookLines } from '../source_link';
import { tableOf } from '../table';

/** Memories of TPUs, then of blocks of threads on GPUs. */
const SPACES = {
  vmem: 'VMEM',
  smem: 'SMEM',
  shared: 'Shared memory',
  registers: 'Registers',
} as const;
type Space = keyof typeof SPACES;
const ALL = Object.keys(SPACES) as Space[];
/** Those that are shown first, also if nothing is in them. */
const MAIN: readonly Space[] = ['vmem', 'shared'];

export class MemoriesView {
  readonly element: HTMLElement;
  readonly ready = Promise.resolve();
  readonly isFlowing = true;
  private readonly place = el('div', {});
  private readonly choice: KernelChoice;
  private readonly chips: HTMLSelectElement;

  constructor(
    private readonly root: HTMLElement,
    private readonly record: KernelMemoriesRecord,
    private readonly notebook: NotebookLines | undefined,
  ) {
    const { kernels, chips, hidden_count: hidden } = record;
    this.chips = el(
      'select',
      { class: 'pl-select', 'aria-label': 'Chip' },
      chips.map(chip => el('option', { value: chip.name }, `TPU ${chip.name}`)),
    );
    this.chips.value = record.chip;
    const chip = this.chip();
    this.choice = new KernelChoice(
      kernels,
      { noun: 'kernel', label: 'Kernel', none: NO_KERNEL, hidden },
      // A kernel that doesn't fit is shown first.
      kernels.findIndex(
        each => each.refusal !== '' || ALL.some(s => bytesIn(each, s) > limitOf(each, chip, s)),
      ),
      () => this.show(),
    );
    this.chips.addEventListener('change', () => this.show());
    this.element = el(
      'div',
      { class: 'pl-report pl-memories' },
      this.choice.content(this.chips),
      this.place,
    );
    this.show();
  }

  themeChanged(): void {
    this.show();
  }

  dispose(): void {
    this.element.remove();
  }

  private chip(): ChipRecord {
    const { chips, chip } = this.record;
    return (chips.find(each => each.name === (this.chips.value || chip)) ?? chips[0])!;
  }

  private show(): void {
    const kernel = this.record.kernels[this.choice.number];
    if (kernel === undefined) {
      return;
    }
    const chip = this.chip();
    this.chips.hidden = kernel.gpu !== null;
    const parts = [...kernel.parts].sort(
      (a, b) =>
        Number(!MAIN.includes(a.space)) - Number(!MAIN.includes(b.space)) || b.bytes - a.bytes,
    );
    const isDark = this.root.dataset['theme'] === 'dark';
    const colors = parts.map((_, i) => stepColor(i, Math.max(2, parts.length), isDark));
    const main: Space = kernel.gpu === null ? 'vmem' : 'shared';
    const bars = ALL.filter(s => s === main || bytesIn(kernel, s) > 0).map(space =>
      this.bar(kernel, chip, space, parts, colors),
    );
    this.place.replaceChildren(
      el(
        'header',
        { class: 'pl-array-header' },
        el('strong', {}, oneLine(kernel.name, 80)),
        kernel.source === null ? null : lineLink(kernel.source, kernel.line, this.notebook),
      ),
      ...(kernel.refusal === ''
        ? []
        : [el('p', { class: 'pl-run-fault', role: 'note' }, kernel.refusal)]),
      ...bars,
      kernel.gpu === null || kernel.gpu.compiled === '' ? '' : el('p', {}, kernel.gpu.compiled),
      ...(parts.length === 0 ? [] : [this.table(parts, colors)]),
    );
  }

  private bar(
    kernel: KernelMemoryRecord,
    chip: ChipRecord,
    space: Space,
    parts: readonly KernelMemoryPartRecord[],
    colors: readonly string[],
  ): HTMLElement {
    const total = bytesIn(kernel, space);
    const limit = limitOf(kernel, chip, space);
    const isOver = total > limit;
    const whole = Math.max(total, limit);
    const share = (100 * total) / limit;
    const has =
      space === 'vmem' && limit === kernel.limit_bytes
        ? 'vmem_limit_bytes allows'
        : `${kernel.gpu?.name ?? chip.name} has`;
    const text = `${SPACES[space]}: ${quantity(total, 'B')}, ${has} ${quantity(limit, 'B')}${
      isOver ? ': too much' : `, ${Number(share.toPrecision(3))} %`
    }`;
    const pieces = parts.map((part, i) => {
      if (part.space !== space) {
        return null;
      }
      const piece = el('div', {
        class: 'pl-memory-piece',
        title: `${part.name}: ${quantity(part.bytes, 'B')} for ${counted(part.buffer_count, 'buffer')} of ${part.type}`,
      });
      piece.style.width = `${(100 * part.bytes) / whole}%`;
      piece.style.background = colors[i]!;
      return piece;
    });
    const bar = el('div', { class: 'pl-memory-bar', role: 'img', 'aria-label': text }, pieces);
    if (isOver) {
      const edge = el('div', { class: 'pl-memory-limit' });
      edge.style.left = `${(100 * limit) / whole}%`;
      bar.append(edge);
    }
    return el(
      'div',
      { class: 'pl-memory' },
      el('div', { class: isOver ? 'pl-memory-over' : null }, text),
      bar,
    );
  }

  private table(parts: readonly KernelMemoryPartRecord[], colors: readonly string[]): HTMLElement {
    return tableOf(
      'Parts',
      [
        { name: 'Held for' },
        { name: 'Type' },
        { name: 'Buffers', isNumber: true },
        { name: 'Bytes', isNumber: true },
        { name: 'Unused', isNumber: true },
      ],
      parts.map((part, i): Content[] => {
        const swatch = el('span', { class: 'pl-memory-swatch' });
        swatch.style.background = colors[i]!;
        const unused = part.bytes === 0 ? 0 : 1 - part.needed_bytes / part.bytes;
        const code = /: `(.*)`$/s.exec(part.text)?.[1] ?? '';
        return [
          [
            swatch,
            el('code', {}, oneLine(part.name, 40)),
            el(
              'div',
              {},
              part.source === null ? null : lineLink(part.source, part.line, this.notebook),
              code === '' ? null : el('code', { class: 'pl-run-code' }, oneLine(code, 90)),
            ),
          ],
          `${part.type}, ${SPACES[part.space]}`,
          String(part.buffer_count),
          quantity(part.bytes, 'B'),
          unused === 0 ? '' : `${Number((100 * unused).toPrecision(3))} %`,
        ];
      }),
    );
  }
}

function bytesIn(kernel: KernelMemoryRecord, space: Space): number {
  return kernel.parts.reduce((sum, part) => sum + (part.space === space ? part.bytes : 0), 0);
}

function limitOf(kernel: KernelMemoryRecord, chip: ChipRecord, space: Space): number {
  if (kernel.gpu !== null) {
    return space === 'shared' ? kernel.gpu.shared_bytes : kernel.gpu.register_bytes;
  }
  const size = space === 'vmem' ? chip.vmem_bytes : chip.smem_bytes;
  return space === 'vmem' && kernel.limit_bytes !== null
    ? Math.min(size, kernel.limit_bytes)
    : size;
}

export const memoriesStyle = `
.pl-memories { max-height: none; }
.pl-memories p { margin: 6px 12px; font-size: 12px; overflow-wrap: anywhere; }
.pl-memory { margin: 8px 12px; font-size: 12px; }
.pl-memory-bar { position: relative; display: flex; height: 26px; margin-top: 4px; border: 1px solid var(--pl-line-strong); border-radius: 4px; background: var(--pl-sunken); overflow: hidden; }
.pl-memory-piece { flex: none; min-width: 3px; border-right: 1px solid var(--pl-bg); }
.pl-memory-limit { position: absolute; top: 0; bottom: 0; right: 0; border-left: 3px solid var(--pl-removed); background: repeating-linear-gradient(45deg, transparent 0 5px, var(--pl-removed) 5px 6px); }
.pl-memory-over { color: var(--pl-removed); }
.pl-memory-swatch { display: inline-block; width: 10px; height: 10px; margin-right: 6px; border-radius: 2px; }
.pl-memories code { font: 11px var(--pl-code); }
@container pl-root (min-width: 480px) { .pl-memories .pl-table td:nth-child(2) { overflow-wrap: normal; } }
`;
