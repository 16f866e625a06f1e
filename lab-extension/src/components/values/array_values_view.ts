/** Summary of an array's values: counts, range, histogram, heat map, shards. */

import type { ArrayValuesRecord } from '../../generated/introspect';
import type { ArraySliceRecord } from '../../generated/kernel';
import { el, type Content } from '../dom';
import { oneLine, whole } from '../format';
import { tableOf } from '../table';
import { readTheme } from '../theme';

const DIGITS = 6;
/** Longer side of a heat map, in CSS pixels. */
const MAP_SIZE = 220;
const MIN_SIDE = 12;

/** Requests to the kernel that has the array. */
export interface ArrayEvents {
  /** Loads the slice over two dimensions at an index along the others. */
  readonly loadSlice: (
    array: string,
    index: readonly number[],
    dims: readonly number[],
  ) => Promise<ArraySliceRecord>;
  /** Loads the values of the whole array, or of its shard on a device. */
  readonly loadValues: (array: string, device: number | null) => Promise<ArrayValuesRecord>;
}

/** Up to this size, values are shown instead of a picture. */
const FEW_VALUES = 4;

/** The displayed slice. */
type Slice = Omit<ArraySliceRecord, 'kind'>;

export class ArrayValuesView {
  readonly element: HTMLElement;
  readonly ready = Promise.resolve();
  readonly isFlowing = true;
  private readonly map: HTMLCanvasElement | null;
  private readonly caption = el('figcaption', { class: 'pl-muted' });
  private readonly controls = el('div', { class: 'pl-sliders' });
  private readonly status = el('div', { class: 'pl-values-status', role: 'status' });
  private readonly part = el('div', { class: 'pl-values-part' });
  private slice: Slice;
  /** The slice to request next; null for none. */
  private wanted: Slice | null = null;
  private isLoading = false;
  private partView: ArrayValuesView | null = null;

  constructor(
    private readonly root: HTMLElement,
    private readonly record: ArrayValuesRecord,
    private readonly events: ArrayEvents | null = null,
  ) {
    const { shape, index, steps, cells } = record;
    const dims = shape.length > 1 ? [shape.length - 2, shape.length - 1] : shape.map((_, d) => d);
    this.slice = { index: shape.map((_, d) => index[d] ?? 0), dims, steps, cells };
    const isFew = record.sample_count <= FEW_VALUES;
    this.map = record.cells.length > 0 && !isFew ? this.heatMap() : null;
    this.element = el(
      'div',
      { class: 'pl-report pl-values' },
      el(
        'header',
        { class: 'pl-array-header' },
        el('strong', {}, oneLine(record.type, 80)),
        factsOf(record).map(text => el('span', { class: 'pl-chip' }, text)),
      ),
      record.note !== ''
        ? el('p', { class: 'pl-muted' }, record.note)
        : isFew
          ? null
          : el(
              'div',
              { class: 'pl-values-figures' },
              histogram(record),
              this.map && this.mapFigure(),
            ),
      this.status,
      record.parts.device.length > 1 ? partsTable(record, this.partLoader()) : null,
      this.part,
      record.numbers === '' ? null : el('pre', { class: 'pl-code' }, record.numbers),
    );
    this.fillControls();
    this.draw();
  }

  themeChanged(): void {
    this.draw();
    this.partView?.themeChanged();
  }

  dispose(): void {
    this.element.remove();
  }

  private heatMap(): HTMLCanvasElement {
    return el('canvas', { role: 'img', 'aria-label': 'Heat map' });
  }

  /** Number of rows and columns of the displayed slice. */
  private planeSizes(): [number, number] {
    const [first = 0, second] = this.slice.dims.map(dim => this.record.shape[dim]!);
    return second === undefined ? [1, first] : [first, second];
  }

  /** Index of an element of the slice: `[3, 0, 17]`. */
  private place(...drawn: readonly (number | string)[]): string {
    const { index, dims } = this.slice;
    const places: (number | string)[] = [...index];
    dims.forEach((dim, i) => (places[dim] = drawn[drawn.length - dims.length + i]!));
    return `[${places.join(', ')}]`;
  }

  private captionText(): string {
    const { cells, steps } = this.slice;
    const [rows, columns] = this.planeSizes();
    const isWhole = cells.length === rows && cells[0]!.length === columns;
    const where = this.record.shape.length > 2 ? `at ${this.place(':', ':')}` : '';
    const means = isWhole ? '' : 'means of blocks';
    const sampled = steps.some(step => step > 1)
      ? `of one in ${steps.map(whole).join(' × ')} elements`
      : '';
    return [where, [means, sampled].join(' ').trim()].filter(text => text !== '').join(', ');
  }

  /**
   * Adds sliders for dimensions that aren't drawn, and selectors for those that are; nothing
   * without a kernel.
   */
  private fillControls(): void {
    const { record, slice } = this;
    if (this.events === null || record.array === '' || record.shape.length <= 2 || !this.map) {
      return;
    }
    const others = record.shape.map((_, dim) => dim).filter(dim => !slice.dims.includes(dim));
    this.controls.replaceChildren(
      this.dimChoice('down', 0),
      this.dimChoice('across', 1),
      ...others.map(dim => this.slider(dim)),
    );
  }

  private dimChoice(label: string, at: 0 | 1): HTMLElement {
    const select = el(
      'select',
      { class: 'pl-select', 'aria-label': `Dimension drawn ${label}` },
      this.record.shape.map((size, dim) =>
        el(
          'option',
          { value: dim, selected: dim === this.slice.dims[at] },
          `${label}: dimension ${dim} (${whole(size)})`,
        ),
      ),
    );
    select.addEventListener('change', () => {
      const dims = [...this.slice.dims];
      const chosen = Number(select.value);
      if (dims[1 - at] === chosen) {
        dims[1 - at] = dims[at]!;
      }
      dims[at] = chosen;
      this.load({ ...this.slice, dims });
    });
    return select;
  }

  private slider(dim: number): HTMLElement {
    const size = this.record.shape[dim]!;
    const value = el('span', { class: 'pl-code' }, String(this.slice.index[dim]));
    const input = el('input', {
      type: 'range',
      min: 0,
      max: size - 1,
      value: this.slice.index[dim],
      'aria-label': `Index along dimension ${dim}`,
      disabled: size < 2,
    });
    input.addEventListener('input', () => {
      value.textContent = input.value;
      const index = [...(this.wanted ?? this.slice).index];
      index[dim] = Number(input.value);
      this.load({ ...(this.wanted ?? this.slice), index });
    });
    return el('label', { class: 'pl-slider' }, `dimension ${dim} (${whole(size)})`, input, value);
  }

  /** Loads a slice. While one is loading, only the latest request is kept. */
  private load(slice: Slice): void {
    this.wanted = slice;
    if (!this.isLoading) {
      this.isLoading = true;
      void this.loadWanted().finally(() => (this.isLoading = false));
    }
  }

  private async loadWanted(): Promise<void> {
    while (this.wanted !== null) {
      const { index, dims } = this.wanted;
      const asked = this.wanted;
      try {
        const slice = await this.events!.loadSlice(this.record.array, index, dims);
        const hasOtherDims = slice.dims.join() !== this.slice.dims.join();
        this.slice = slice;
        this.status.textContent = '';
        if (this.wanted === asked) {
          this.wanted = null;
        }
        if (hasOtherDims) {
          this.fillControls();
        }
        this.draw();
      } catch (error) {
        this.wanted = null;
        this.say(error);
      }
    }
  }

  private say(error: unknown): void {
    this.status.textContent = error instanceof Error ? error.message : String(error);
  }

  /** Function that shows one device's values below the table of shards; null without a kernel. */
  private partLoader(): ((device: number, index: string) => void) | null {
    const { events, record } = this;
    if (events === null || record.array === '') {
      return null;
    }
    return (device, index) => {
      events
        .loadValues(record.array, device)
        .then(part => {
          const title = `device ${device}: [${oneLine(index, 60)}]`;
          this.partView = new ArrayValuesView(this.root, { ...part, type: title });
          this.part.replaceChildren(this.partView.element);
          this.status.textContent = '';
        })
        .catch((error: unknown) => this.say(error));
    };
  }

  private mapFigure(): HTMLElement {
    const readout = el('output', { class: 'pl-muted' });
    this.map!.addEventListener('pointermove', event => {
      const { cells } = this.slice;
      const [rows, columns] = this.planeSizes();
      const box = this.map!.getBoundingClientRect();
      const at = (offset: number, length: number, count: number): number =>
        Math.min(Math.max(Math.floor((offset / length) * count), 0), count - 1);
      const row = at(event.clientY - box.top, box.height, cells.length);
      const column = at(event.clientX - box.left, box.width, cells[0]!.length);
      const value = cells[row]![column]!;
      const [i, j] = [firstOf(row, rows, cells.length), firstOf(column, columns, cells[0]!.length)];
      readout.textContent = `${this.place(i, j)} ${value === null ? 'not finite' : shortNumber(value)}`;
    });
    this.map!.addEventListener('pointerleave', () => {
      readout.textContent = '';
    });
    return el('figure', {}, this.controls, this.map, this.caption, readout);
  }

  private draw(): void {
    if (this.map === null) {
      return;
    }
    const values = this.slice.cells;
    const [rows, columns] = this.planeSizes();
    const scale = MAP_SIZE / Math.max(rows, columns);
    const side = (count: number): number => Math.max(Math.round(count * scale), MIN_SIDE);
    this.map.width = values[0]!.length;
    this.map.height = values.length;
    this.map.style.cssText = `width: ${side(columns)}px; height: ${side(rows)}px`;
    this.caption.textContent = this.captionText();
    const context = this.map.getContext('2d');
    if (!context) {
      return;
    }
    const largest = Math.max(0, ...values.flat().map(value => Math.abs(value ?? 0)));
    const theme = readTheme(this.root);
    const [positive, negative, absent] = ['heat-high', 'contraction', 'faint'].map(theme.color);
    context.clearRect(0, 0, this.map!.width, this.map!.height);
    values.forEach((row, i) => {
      row.forEach((value, j) => {
        context.globalAlpha = value === null ? 1 : largest === 0 ? 0 : Math.abs(value) / largest;
        context.fillStyle = (value === null ? absent : value < 0 ? negative : positive)!;
        context.fillRect(j, i, 1, 1);
      });
    });
  }
}

function firstOf(cell: number, size: number, cells: number): number {
  return Math.floor((cell * size) / cells);
}

function shortNumber(value: number): string {
  return String(Number(value.toPrecision(DIGITS)));
}

function factsOf(record: ArrayValuesRecord): string[] {
  const facts: string[] = [];
  if (record.low !== null && record.high !== null) {
    const what = record.is_absolute ? 'absolute values' : 'values';
    facts.push(`${what} ${shortNumber(record.low)} to ${shortNumber(record.high)}`);
  }
  if (record.mean !== null) {
    facts.push(`mean ${shortNumber(record.mean)}`);
  }
  const counts: [number, string][] = [
    [record.nan_count, 'NaN'],
    [record.infinite_count, 'infinite'],
    [record.zero_count, 'zero'],
  ];
  return [...facts, ...counts.filter(([n]) => n > 0).map(([n, name]) => `${whole(n)} ${name}`)];
}

function histogram(record: ArrayValuesRecord): Content {
  const highest = Math.max(0, ...record.bins);
  if (highest === 0) {
    return null;
  }
  const { low, high } = record as { low: number; high: number };
  const wholes = record.bin_width ?? null;
  const width = wholes ?? (high - low) / record.bins.length;
  const bars = record.bins.map((count, i) => {
    const from = low + i * width;
    const to = wholes === null ? from + width : Math.min(high, from + width - 1);
    const range = from === to ? shortNumber(from) : `${shortNumber(from)} to ${shortNumber(to)}`;
    return el(
      'span',
      { class: 'pl-values-slot', title: `${range}: ${whole(count)}` },
      el('span', { class: 'pl-values-bar', style: `height: ${(100 * count) / highest}%` }),
    );
  });
  const size = record.shape.reduce((product, n) => product * n, 1);
  const sampled =
    record.sample_count < size ? `${whole(record.sample_count)} of ${whole(size)} elements` : '';
  return el(
    'figure',
    {},
    el('div', { class: 'pl-values-histogram', role: 'img', 'aria-label': 'Histogram' }, bars),
    el(
      'div',
      { class: 'pl-values-axis pl-muted' },
      el('span', {}, shortNumber(low)),
      el('span', {}, sampled),
      el('span', {}, shortNumber(high)),
    ),
  );
}

function partsTable(
  record: ArrayValuesRecord,
  show: ((device: number, index: string) => void) | null,
): HTMLElement {
  const { parts } = record;
  const number = (value: number | null): string => (value === null ? '' : shortNumber(value));
  return tableOf(
    'Parts',
    [
      { name: 'Device', isNumber: true },
      { name: 'Elements' },
      { name: 'From', isNumber: true },
      { name: 'To', isNumber: true },
      { name: 'NaN', isNumber: true },
      ...(show === null ? [] : [{ name: '' }]),
    ],
    parts.device.map((device, i) => [
      String(device),
      el('code', {}, `[${oneLine(parts.index[i]!, 80)}]`),
      number(parts.low[i]!),
      number(parts.high[i]!),
      whole(parts.nan_count[i]!),
      ...(show === null ? [] : [showButton(device, () => show(device, parts.index[i]!))]),
    ]),
  );
}

function showButton(device: number, onClick: () => void): HTMLElement {
  const label = `Show the values on device ${device}`;
  const button = el('button', { type: 'button', class: 'pl-link', 'aria-label': label }, 'Show');
  button.addEventListener('click', onClick);
  return button;
}

export const arrayValuesStyle = `
.pl-values-figures { display: flex; flex-wrap: wrap; gap: 8px 24px; padding: 8px 12px 12px; align-items: flex-start; }
.pl-values figure { margin: 0; max-width: 100%; display: flex; flex-direction: column; gap: 4px; font-size: 12px; }
.pl-values canvas { image-rendering: pixelated; border: 1px solid var(--pl-line); border-radius: 2px; }
.pl-values pre { margin: 0; padding: 8px 12px; overflow: auto; font-size: 12px; border-top: 1px solid var(--pl-line); }
.pl-values-status { padding: 0 12px 6px; color: var(--pl-amber); }
.pl-values-status:empty { display: none; }
.pl-values-part > * { margin: 8px 12px 12px; border: 1px solid var(--pl-line); border-radius: 6px; }
.pl-values figure > .pl-sliders { padding: 0 0 4px; }
.pl-values output { min-height: 1.4em; }
.pl-values-histogram { display: flex; width: 320px; max-width: 100%; height: 90px; border-bottom: 1px solid var(--pl-line-strong); }
.pl-values-slot { flex: 1; display: flex; align-items: flex-end; }
.pl-values-bar { flex: 1; background: var(--pl-contraction); }
.pl-values-slot:hover .pl-values-bar { background: var(--pl-accent); }
.pl-values-axis { display: flex; justify-content: space-between; gap: 8px; }
`;
