// @vitest-environment jsdom
import { beforeAll, expect, test } from 'vitest';
import type {
  DivergenceRecord,
  FindingRecord,
  GradientRecord,
  UnequalRunsRecord,
} from '../../generated/debugger';
import type { CellPlace } from '../../records/cell_places';
import { installPage, place } from '../../testing/dom';
import { sample } from '../../testing/samples';
import { divergenceView } from './divergence_view';
import { findingView } from './finding_view';
import { gradientView } from './gradient_view';
import { unequalRunsView } from './unequal_runs_view';

beforeAll(installPage);

const texts = (element: Element, selector: string): string[] =>
  [...element.querySelectorAll(selector)].map(each => each.textContent);
const divergence = (name: string): HTMLElement =>
  divergenceView(sample<DivergenceRecord>(name)).element;

test('names the first and the largest error', () => {
  const element = divergence('divergence');
  expect(texts(element, '.pl-chip')).toEqual([
    '35 of 40 operations differ',
    '2 operations without counterpart',
  ]);
  expect(texts(element, 'p')).toEqual([
    'First differ at <b>add</b> 1e-7 In[3], line 6: layer',
    'Largest error at dot_general not finite In[3], line 5: layer',
  ]);
});

test('draws an error for each operation, and marks one that is not finite', () => {
  const element = divergence('divergence');
  const points = [...element.querySelectorAll('circle')];
  expect(points).toHaveLength(40);
  const heights = points.map(point => Number(point.getAttribute('cy')));
  expect(heights[4]).toBeGreaterThan(heights[5]!);
  expect(heights[20]).toBeLessThan(heights[10]!);
  expect(points.at(-1)!.getAttribute('class')).toBe('pl-errors-infinite');
  expect(Math.min(...heights)).toBe(heights.at(-1));
});

test('lists the operations whose error grows most in their order', () => {
  const rows = texts(divergence('divergence'), 'tbody tr');
  expect(rows).toHaveLength(12);
  expect(rows[0]).toBe('<b>add</b>In[3], line 6: layer1e-7new');
  expect(rows.at(-1)).toBe('dot_generalIn[3], line 5: layernot finite∞');
});

test('draws many operations in some points', () => {
  expect(divergence('divergence_10k').querySelectorAll('circle')).toHaveLength(200);
});

test('says that runs are equal', () => {
  const element = divergence('divergence_equal');
  expect(texts(element, '.pl-chip')).toEqual(['equal to the bit']);
  expect(element.querySelector('svg')).toBeNull();
});

test('shows the norms of a gradient and where a fault begins', () => {
  const { element } = gradientView(sample<GradientRecord>('gradient'));
  expect(texts(element, '.pl-chip')).toEqual([
    '2 arguments',
    '2 NaN, infinite or zero',
    'NaN',
    'NaN',
    'zero',
  ]);
  const rows = texts(element, 'tbody tr');
  expect(rows[1]).toBe('In[2], line 4: <i>layer</i>dot_general250 ');
  expect(rows[3]).toContain('operand 1: f32[3] in [0, 0], 1 infinite1 operation on the way');
  expect(rows[4]).toContain('doesn’t depend on it');
  const bars = [...element.querySelectorAll<HTMLElement>('.pl-meter > span')];
  expect(bars.map(bar => Math.round(parseFloat(bar.style.width)))).toEqual([80, 100, 78, 75, 0]);
});

test('shows a gradient of nothing', () => {
  const { element } = gradientView(sample<GradientRecord>('gradient_empty'));
  expect(element.textContent).toContain('comes to no line');
});

test('shows the way to what was found, and what the operation was given', () => {
  const { element } = findingView(place(), sample<FindingRecord>('finding'));
  expect(element.querySelector('strong')!.textContent).toBe('log of <b>loss</b>');
  expect(texts(element, 'header:first-child > .pl-chip').slice(0, 4)).toEqual([
    '1 of 6 elements',
    'first at [0, 2]',
    'iteration 2',
    'lane 3 of 8',
  ]);
  expect(texts(element, 'tbody tr')).toEqual([
    'In[2], line 9<b>loss</b>',
    'In[2], line 4body  iteration 2 of 4',
  ]);
  expect(texts(element, '.pl-named-value > h4')).toEqual(['operand 0', 'result']);
  expect(element.querySelectorAll('.pl-named-value canvas')).toHaveLength(2);
});

test('shows the first operation whose results differ in several runs, and those that follow', () => {
  const { element } = unequalRunsView(place(), sample<UnequalRunsRecord>('unequal_runs'));
  expect(element.querySelector('strong')!.textContent).toBe('scatter-add of <b>loss</b>');
  expect(texts(element, 'header:first-child > .pl-chip').slice(0, 3)).toEqual([
    '5 runs',
    '2 unequal operations',
    'by 3 ulps',
  ]);
  expect(element.querySelector('p')!.textContent).toContain("don't repeat from scatter-add on");
  expect(texts(element, 'tbody tr')).toEqual([
    'In[2], line 9<b>loss</b>',
    'In[2], line 4body',
    'scatter-addIn[2], line 4: <i>sums</i>43here',
    'reduce_sumIn[2], line 9: <i>sums</i>2∞before',
  ]);
  expect(texts(element, '.pl-named-value > h4')).toEqual(['operand 0', 'result in the first run']);
});

test('leads from a line to its cell', () => {
  const gone: CellPlace[] = [];
  const notebook = { go: (each: CellPlace) => gone.push(each), stateOf: () => 'here' as const };
  const views = [
    divergenceView(sample<DivergenceRecord>('divergence'), { notebook }),
    gradientView(sample<GradientRecord>('gradient'), { notebook }),
  ];
  views.forEach(({ element }) => element.querySelector<HTMLElement>('.pl-place-link')!.click());
  expect(gone.map(({ executionCount, line }) => [executionCount, line])).toEqual([
    [3, 6],
    [2, 9],
  ]);
});
