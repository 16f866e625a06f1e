// @vitest-environment jsdom
import { beforeAll, expect, test } from 'vitest';
import type { ArrayValuesRecord } from '../../generated/introspect';
import { installPage, place } from '../../testing/dom';
import { sample } from '../../testing/samples';
import { ArrayValuesView } from './array_values_view';

beforeAll(installPage);

function viewOf(name: string): HTMLElement {
  return new ArrayValuesView(place(), sample<ArrayValuesRecord>(name)).element;
}

function texts(view: HTMLElement, selector: string): string[] {
  return [...view.querySelectorAll(selector)].map(each => each.textContent);
}

test('says range and counts, and draws a bar for each part of the range', () => {
  const view = viewOf('array_values');
  expect(texts(view, '.pl-chip')).toEqual([
    'values -1 to 2.5',
    'mean 0.5',
    '1 NaN',
    '1 infinite',
    '1 zero',
  ]);
  const slots = [...view.querySelectorAll<HTMLElement>('.pl-values-slot')];
  expect(slots.map(each => each.title)[3]).toBe('1.625 to 2.5: 2');
  const bars = [...view.querySelectorAll<HTMLElement>('.pl-values-bar')];
  expect(bars.map(each => each.style.height)).toEqual(['50%', '0%', '50%', '100%']);
  expect(view.querySelector('canvas')!.width).toBe(3);
});

test('has a bar for each whole number, or for as many as fit', () => {
  const record = sample<ArrayValuesRecord>('array_values');
  const titles = (more: Partial<ArrayValuesRecord>): string[] =>
    [
      ...new ArrayValuesView(place(), { ...record, ...more }).element.querySelectorAll<HTMLElement>(
        '.pl-values-slot',
      ),
    ].map(each => each.title);
  expect(titles({ low: 3, high: 5, bins: [1, 0, 5], bin_width: 1 })).toEqual([
    '3: 1',
    '4: 0',
    '5: 5',
  ]);
  expect(titles({ low: 0, high: 4, bins: [5, 1], bin_width: 3 })).toEqual([
    '0 to 2: 5',
    '3 to 4: 1',
  ]);
});

test('draws no pictures of a few values', () => {
  const record = { ...sample<ArrayValuesRecord>('array_values'), sample_count: 4 };
  const view = new ArrayValuesView(place(), record).element;
  expect(view.querySelector('canvas, .pl-values-slot')).toBeNull();
  expect(texts(view, 'pre')).toEqual([record.numbers]);
});

test('reads a cell out, by the index of its first element', () => {
  const view = viewOf('array_values_parts');
  const canvas = view.querySelector('canvas')!;
  canvas.getBoundingClientRect = () => new DOMRect(0, 0, 64, 50);
  canvas.dispatchEvent(new MouseEvent('pointermove', { clientX: 32.5, clientY: 25.5 }));
  expect(texts(view, 'output')).toEqual(['[3, 50, 100] 1']);
  expect(texts(view, 'figcaption')).toEqual([
    'at [3, :, :], means of blocks of one in 1 × 2 elements',
  ]);
  expect(texts(view, '.pl-values-axis')).toEqual(['0.59 of 80,000 elements2']);
});

test('lists the parts of an array over several devices', () => {
  expect(texts(viewOf('array_values_parts'), 'tbody tr')).toEqual([
    '0[0:2, 0:100, 0:200]0.520',
    '1[2:4, 0:100, 0:200]0.751.50',
  ]);
  expect(texts(viewOf('array_values'), 'tbody tr')).toEqual([]);
});

test('says why there are no values', () => {
  const view = viewOf('array_values_deleted');
  expect(view.textContent).toContain('deleted or donated');
  expect(view.querySelector('canvas')).toBeNull();
});
