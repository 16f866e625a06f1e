// @vitest-environment jsdom
import { beforeAll, expect, test } from 'vitest';
import type { KernelGridsRecord } from '../../generated/introspect';
import { installPage, place } from '../../testing/dom';
import { sample } from '../../testing/samples';
import { GridView } from './grid_view';

beforeAll(installPage);

function viewOf(name: string, more: Partial<KernelGridsRecord> = {}): HTMLElement {
  const record = { ...sample<KernelGridsRecord>(name), ...more };
  return new GridView(place(), record, undefined).element;
}

function texts(view: HTMLElement, selector: string): string[] {
  return [...view.querySelectorAll(selector)].map(each => each.textContent);
}

function said(view: HTMLElement): string {
  return view.querySelector('.pl-grid-program')!.textContent;
}

function field(view: HTMLElement, name: string): HTMLInputElement {
  return view.querySelector<HTMLInputElement>(`[aria-label^="${name}"]`)!;
}

function scrub(view: HTMLElement, program: number): void {
  const slider = field(view, 'Program, in the order');
  slider.value = String(program);
  slider.dispatchEvent(new Event('input'));
}

test('says what a grid moves beside the least possible', () => {
  const view = viewOf('grid_64');
  expect(texts(view, '.pl-chip')).toEqual([
    'grid 4 × 4 × 4',
    '64 programs',
    '144 KiB moved',
    '3 × the least possible',
    '3.67 flops per byte',
  ]);
  expect(texts(view, '.pl-grid-fault')).toEqual([]);
  expect(texts(view, 'tbody tr')).toHaveLength(3);
});

test('says what each program reads and writes', () => {
  const view = viewOf('grid_64');
  expect(said(view)).toBe(
    'Program 0 of 64, (0, 0, 0) reads x_ref[0:16, 0:16] and y_ref[0:16, 0:16]; has, and doesn’t use, o_ref[0:16, 0:16].',
  );
  scrub(view, 27);
  expect(said(view)).toContain('(1, 2, 3) reads x_ref[16:32, 48:64]');
  expect(said(view)).toContain('writes o_ref[16:32, 32:48]');
  expect(texts(view, 'figcaption code')).toEqual([
    '[16:32, 48:64]',
    '[48:64, 32:48]',
    '[16:32, 32:48]',
  ]);
});

test('goes to a program by its position, and step by step', () => {
  const view = viewOf('grid_64');
  const axis = field(view, 'Position along axis 1');
  axis.value = '9';
  axis.dispatchEvent(new Event('change'));
  expect(said(view)).toContain('Program 12 of 64, (0, 3, 0)');
  view.querySelector<HTMLElement>('[aria-label="Next program"]')!.click();
  expect(said(view)).toContain('(0, 3, 1)');
});

test('says which programs are idle, and which blocks stay or are cut', () => {
  const view = viewOf('grid_causal');
  const kernel = field(view, 'Kernel');
  expect(texts(kernel, 'option')).toEqual(['kernel 1 of 2: norm', 'kernel 2 of 2: scores']);
  kernel.value = '1';
  kernel.dispatchEvent(new Event('change'));
  expect(texts(view, '.pl-chip')).toContain('28 idle');
  scrub(view, 5);
  expect(said(view)).toContain('is idle: it writes nothing');
  expect(said(view)).toContain('q_ref[0:128, 0:64] (there already)');
  scrub(view, 63);
  expect(said(view)).toContain('k_ref[896:1000, 0:64] (cut at the edge)');
});

test('says what is wrong, and shows that kernel first', () => {
  expect(texts(viewOf('grid_race'), '.pl-grid-fault')).toEqual([
    expect.stringContaining('programs along the parallel axis 2 write the same block'),
    'Race: 64 programs along parallel axes write elements that others write, too.',
  ]);
  expect(texts(viewOf('grid_unseen'), '.pl-grid-fault')[1]).toBe(
    'No program writes 4,096 elements of o_ref.',
  );
  const kernels = ['grid_64', 'grid_race'].flatMap(name => sample<KernelGridsRecord>(name).kernels);
  expect(field(viewOf('grid_64', { kernels }), 'Kernel').value).toBe('1');
});

test('shows one operand of choice', () => {
  const view = viewOf('grid_64');
  const choice = field(view, 'Operands that are shown');
  choice.value = '1';
  choice.dispatchEvent(new Event('change'));
  const figures = [...view.querySelectorAll<HTMLElement>('.pl-grid-figures figure')];
  expect(figures.map(each => each.hidden)).toEqual([true, false, true]);
});

test('begins at the program of a stop, and stands without any kernel', () => {
  expect(said(viewOf('grid_64', { program: 27 }))).toContain('Program 27 of 64');
  expect(viewOf('grid_64', { kernels: [] }).textContent).toContain('No kernel is called here');
});

test('a million programs are scrubbed through', () => {
  const view = viewOf('grid_million');
  scrub(view, 123_456);
  expect(said(view)).toContain('Program 123,456 of 1,000,000, (12, 34, 56)');
  expect(texts(view, 'figcaption code')[0]).toBe('[192:208, 896:912]');
});
