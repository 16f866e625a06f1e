// @vitest-environment jsdom
import { beforeAll, expect, test } from 'vitest';
import type { KernelMemoriesRecord } from '../../generated/introspect';
import { installPage, place } from '../../testing/dom';
import { sample } from '../../testing/samples';
import { MemoriesView } from './memories_view';

beforeAll(installPage);

function viewOf(name: string): HTMLElement {
  return new MemoriesView(place(), sample<KernelMemoriesRecord>(name), undefined).element;
}

function texts(view: HTMLElement, selector: string): string[] {
  return [...view.querySelectorAll(selector)].map(each => each.textContent);
}

function choose(view: HTMLElement, label: string, value: string): void {
  const choice = view.querySelector<HTMLSelectElement>(`[aria-label="${label}"]`)!;
  choice.value = value;
  choice.dispatchEvent(new Event('change'));
}

test('says what is too much for a chip, and fits on another', () => {
  const view = viewOf('memories_product');
  expect(texts(view, '.pl-memory-over')).toEqual(['VMEM: 28 MiB, v4 has 16 MiB: too much']);
  expect(view.querySelectorAll('.pl-memory-limit')).toHaveLength(1);
  expect(texts(view, 'tbody code').filter(text => text.endsWith('_ref'))).toEqual([
    'x_ref',
    'y_ref',
    'o_ref',
    'sum_ref',
  ]);
  choose(view, 'Chip', 'v5e');
  expect(texts(view, '.pl-memory-over')).toEqual([]);
  expect(texts(view, '.pl-memory > div:first-child')).toEqual([
    'VMEM: 28 MiB, v5e has 128 MiB, 21.9 %',
  ]);
});

test('shows both memories, and each kernel', () => {
  const view = viewOf('memories_small');
  expect(texts(view, '.pl-memory > div:first-child').map(text => text.slice(0, 4))).toEqual([
    'VMEM',
    'SMEM',
  ]);
  expect(texts(view, 'tbody tr')[0]).toContain('21.9 %');
  choose(view, 'Kernel', '1');
  expect(texts(view, 'tbody tr')).toHaveLength(1);
  expect(texts(view, 'tbody tr')[0]).toContain('made in the kernel');
});

test('stands without kernels', () => {
  expect(viewOf('memories_none').textContent).toContain('No kernel is called here.');
});
