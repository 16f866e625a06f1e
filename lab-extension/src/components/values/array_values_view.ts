/** Values of an array at a glance: counts, range, a histogram, a heat map, and its parts. */

import type { ArrayValuesRecord } from '../../generated/introspect';
import { el, type Content } from '../dom';
import { oneLine, whole } from '../format';
import { tableOf } from '../table';
import { readTheme } from '../theme';

const DIGITS = 6;
/** The longer side of a heat map on the page, in CSS pixels. */
const MAP_SIZE = 220;
const MIN_SIDE = 12;

export class ArrayValuesView {
  readonly element: HTMLElement;
  readonly ready = Promise.resolve();
  readonly isFlowing = true;
  private readonly map: HTMLCanvasElement | null;

  constructor(
    private readonly root: HTMLElement,
    private readonly record: ArrayValuesRecord,
  ) {
    this.map = record.cells.length > 0 ? this.heatMap() : null;
    this.element = el(
      'div',
      { class: 'pl-report pl-values' },
      el(
        'header',
        { class: 'pl-array-header' },
        el('strong', {}, oneLine(record.type, 80)),
        factsOf(record).map(text => el('span', { class: 'pl-chip' }, text)),
      ),
      record.note === ''
        ? el('div', { class: 'pl-values-figures' }, histogram(record), this.map && this.mapFigure())
        : el('p', { class: 'pl-muted' }, record.note),
      record.parts.device.length > 1 ? partsTable(record) : null,
      record.numbers === '' ? null : el('pre', { class: 'pl-code' }, record.numbers),
    );
    this.draw();
  }

  themeChanged(): void {
    this.draw();
  }

  dispose(): void {
    this.element.remove();
  }

  private heatMap(): HTMLCanvasElement {
    const { cells } = this.record;
    const [rows, columns] = this.planeSizes();
    const scale = MAP_SIZE / Math.max(rows, columns);
    const side = (count: number): number => Math.max(Math.round(count * scale), MIN_SIDE);
    return el('canvas', {
      width: cells[0]!.length,
      height: cells.length,
      role: 'img',
      'aria-label': 'Heat map',
      style: `width: ${side(columns)}px; height: ${side(rows)}px`,
    });
  }

  /** Numbers of rows and columns of the slice that is drawn. */
  private planeSizes(): [number, number] {
    const { shape } = this.record;
    return shape.length > 1 ? [shape.at(-2)!, shape.at(-1)!] : [1, shape[0]!];
  }

  private mapFigure(): HTMLElement {
    const { cells, index, shape, steps } = this.record;
    const [rows, columns] = this.planeSizes();
    const isWhole = cells.length === rows && cells[0]!.length === columns;
    const where = index.length > 0 ? `at [${index.join(', ')}, :, :]` : '';
    const means = isWhole ? '' : 'means of blocks';
    const sampled = steps.some(step => step > 1)
      ? `of one in ${steps.map(whole).join(' × ')} elements`
      : '';
    const readout = el('output', { class: 'pl-muted' });
    const caption = el(
      'figcaption',
      { class: 'pl-muted' },
      [where, [means, sampled].join(' ').trim()].filter(text => text !== '').join(', '),
    );
    this.map!.addEventListener('pointermove', event => {
      const box = this.map!.getBoundingClientRect();
      const at = (offset: number, length: number, count: number): number =>
        Math.min(Math.max(Math.floor((offset / length) * count), 0), count - 1);
      const row = at(event.clientY - box.top, box.height, cells.length);
      const column = at(event.clientX - box.left, box.width, cells[0]!.length);
      const value = cells[row]![column]!;
      const [i, j] = [firstOf(row, rows, cells.length), firstOf(column, columns, cells[0]!.length)];
      const place = shape.length > 1 ? `${i}, ${j}` : String(j);
      readout.textContent = `[${[...index, place].join(', ')}] ${value === null ? 'not finite' : short(value)}`;
    });
    this.map!.addEventListener('pointerleave', () => {
      readout.textContent = '';
    });
    return el('figure', {}, this.map, caption, readout);
  }

  private draw(): void {
    const context = this.map?.getContext('2d');
    if (!context) {
      return;
    }
    const values = this.record.cells;
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

function short(value: number): string {
  return String(Number(value.toPrecision(DIGITS)));
}

function factsOf(record: ArrayValuesRecord): string[] {
  const facts: string[] = [];
  if (record.low !== null && record.high !== null) {
    const what = record.is_absolute ? 'absolute values' : 'values';
    facts.push(`${what} ${short(record.low)} to ${short(record.high)}`);
  }
  if (record.mean !== null) {
    facts.push(`mean ${short(record.mean)}`);
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
  const width = (high - low) / record.bins.length;
  const bars = record.bins.map((count, i) => {
    const from = low + i * width;
    return el(
      'span',
      {
        class: 'pl-values-slot',
        title: `${short(from)} to ${short(from + width)}: ${whole(count)}`,
      },
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
      el('span', {}, short(low)),
      el('span', {}, sampled),
      el('span', {}, short(high)),
    ),
  );
}

function partsTable(record: ArrayValuesRecord): HTMLElement {
  const { parts } = record;
  const number = (value: number | null): string => (value === null ? '' : short(value));
  return tableOf(
    'Parts',
    [
      { name: 'Device', isNumber: true },
      { name: 'Elements' },
      { name: 'From', isNumber: true },
      { name: 'To', isNumber: true },
      { name: 'NaN', isNumber: true },
    ],
    parts.device.map((device, i) => [
      String(device),
      el('code', {}, `[${oneLine(parts.index[i]!, 80)}]`),
      number(parts.low[i]!),
      number(parts.high[i]!),
      whole(parts.nan_count[i]!),
    ]),
  );
}

export const arrayValuesStyle = `
.pl-values-figures { display: flex; flex-wrap: wrap; gap: 8px 24px; padding: 8px 12px 12px; align-items: flex-start; }
.pl-values figure { margin: 0; display: flex; flex-direction: column; gap: 4px; font-size: 12px; }
.pl-values canvas { image-rendering: pixelated; border: 1px solid var(--pl-line); border-radius: 2px; }
.pl-values pre { margin: 0; padding: 8px 12px; overflow: auto; font-size: 12px; border-top: 1px solid var(--pl-line); }
.pl-values output { min-height: 1.4em; }
.pl-values-histogram { display: flex; width: min(320px, 80vw); height: 90px; border-bottom: 1px solid var(--pl-line-strong); }
.pl-values-slot { flex: 1; display: flex; align-items: flex-end; }
.pl-values-bar { flex: 1; background: var(--pl-contraction); }
.pl-values-slot:hover .pl-values-bar { background: var(--pl-accent); }
.pl-values-axis { display: flex; justify-content: space-between; gap: 8px; }
`;
