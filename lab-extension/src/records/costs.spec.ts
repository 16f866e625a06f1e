import { expect, test } from 'vitest';
import type { ProgramRecord } from '../generated/introspect';
import { sample, sampleProgram } from '../testing/samples';
import { criticalPath, overlaysOf, totalOf } from './costs';
import { Program } from './program';

test('sums flops, and divides them by bytes for the intensity', () => {
  const program = sampleProgram('mlp');
  const [flops, bytes, intensity] = overlaysOf(program);
  const all = Array.from({ length: program.equationCount }, (_, i) => i);
  const expected = 2 * 32 * 784 * 128 + 2 * 32 * 128 * 10;
  expect(totalOf(flops!, all)).toBeGreaterThan(expected);
  expect(totalOf(flops!, all)).toBeLessThan(expected * 1.01);
  expect(totalOf(intensity!, all)).toBeCloseTo(totalOf(flops!, all) / totalOf(bytes!, all));
  expect(totalOf(flops!, [])).toBeNaN();
});

test('works out an unknown call from what it runs', () => {
  const record = sample<ProgramRecord>('control_flow');
  const flops = record.costs[0]!.values as (number | null)[];
  const program = new Program(record);
  const scan = program.ids.findIndex((_, equation) => program.primitive(equation) === 'scan');
  const inner = program.bodies[program.bodiesOf(scan)[0]!.body]!;
  flops[scan] = null;
  const [overlay] = overlaysOf(new Program(record));
  let sum = 0;
  for (let equation = inner.first; equation < inner.end; equation++) {
    const value = overlay!.values[equation]!;
    sum += Number.isNaN(value) ? 0 : value;
  }
  expect(overlay!.values[scan]).toBe(100 * sum);
});

test('finds the longest chain', () => {
  const program = sampleProgram('mlp');
  const { equations, steps } = criticalPath(program);
  const names = [...equations].sort((a, b) => a - b).map(each => program.primitive(each));
  expect(names.slice(0, 3)).toEqual(['dot_general', 'add', 'tanh']);
  expect(names.at(-1)).toBe('neg');
  for (const [value, user] of steps) {
    expect(program.operandsOf(user)).toContain(value);
    expect(equations.has(program.definers[value]!)).toBe(true);
  }
});

test('finds a chain in a program without costs', () => {
  const record = { ...sample<ProgramRecord>('wide'), costs: [] };
  const program = new Program(record);
  expect(overlaysOf(program)).toEqual([]);
  expect(criticalPath(program).equations.size).toBeGreaterThan(100);
});
