// @vitest-environment jsdom
import { beforeAll, expect, test } from 'vitest';
import type { KernelTimelinesRecord } from '../../generated/introspect';
import { SimulatedRun } from '../../records/simulated_run';
import { installPage, place } from '../../testing/dom';
import { sample } from '../../testing/samples';
import { LaneLayout } from './paint_run';
import { stepsText, TimelinesView } from './timelines_view';

beforeAll(installPage);

function viewOf(...names: string[]): HTMLElement {
  const records = names.map(name => sample<KernelTimelinesRecord>(name));
  const record = { ...records[0]!, kernels: records.flatMap(each => each.kernels) };
  return new TimelinesView(place(), record, undefined).element;
}

function texts(view: HTMLElement, selector: string): string[] {
  return [...view.querySelectorAll(selector)].map(each => each.textContent);
}

test('says how cores spent the time, and which lines waited for what', () => {
  const view = viewOf('runs_gather');
  expect(texts(view, '.pl-chip').slice(0, 2)).toEqual(['8 devices', '16.03 steps']);
  expect(texts(view, '.pl-chip')).toContain('56 KiB sent');
  const rows = texts(view, 'tbody tr');
  expect(rows).toHaveLength(2);
  expect(rows[0]).toContain('copy.wait()');
  expect(rows[0]).toContain('copy of o_ref in hbm to o_ref in hbm');
  expect(rows[0]).toContain('56 times, 8 cores');
  expect(texts(view, '.pl-run-legend > span')).toEqual([
    'computes',
    'waits',
    'signals',
    'copy within a memory',
    'copy to another device',
  ]);
});

test('says what ended a run, and shows that run first', () => {
  const view = viewOf('runs_blocks', 'runs_deadlock');
  expect(texts(view, '.pl-run-fault')[0]).toContain('a deadlock in the kernel `waits_first`');
  expect(texts(view, 'option')).toEqual(['run 1 of 2: double', 'run 2 of 2: waits_first']);
  expect(texts(view, '.pl-chip')[1]).toBe('4 steps up to the error');
  const choice = view.querySelector('select')!;
  choice.value = '0';
  choice.dispatchEvent(new Event('change'));
  expect(texts(view, '.pl-run-fault')).toEqual([]);
  expect(texts(view, 'tbody tr')[0]).toContain('block o_ref');
});

test('stands without any run', () => {
  expect(viewOf('runs_empty').textContent).toBe('No kernel ran in the simulator.');
});

test('finds the event at a time, and the shortest of several', () => {
  const [kernel] = sample<KernelTimelinesRecord>('runs_gather').kernels;
  const run = new SimulatedRun(kernel!);
  const layout = new LaneLayout(kernel!);
  expect(run.lanes).toHaveLength(16);
  expect(layout.laneAt(layout.coreTops[3]! + 1)).toBe(kernel!.cores[3]!.first_lane);
  expect(layout.laneAt(0)).toBe(-1);
  const [sent] = run.lanes[1]!.filter(each => each.kind === 'send');
  expect(run.eventAt(1, (sent!.begin + sent!.end) / 2, 0.1)).toBe(sent);
  expect(sent!.bytes).toBe(1024);
  const signal = run.lanes[0]!.find(each => each.kind === 'signal')!;
  expect(run.eventAt(0, signal.begin, 0.001)).toBe(signal);
  expect(run.eventAt(0, 1e9, 0.1)).toBeNull();
  const wait = run.lanes[0]!.find(each => each.kind === 'wait')!;
  expect(run.shortText(wait)).toBe('x_ref → o_ref');
});

test('writes steps', () => {
  expect([1, 0.25, 1234.56].map(stepsText)).toEqual(['1 step', '0.25 steps', '1,235 steps']);
});
