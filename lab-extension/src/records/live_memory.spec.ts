import { expect, test } from 'vitest';
import type { CompiledRecord } from '../generated/introspect';
import { sample } from '../testing/samples';
import { LiveMemory } from './live_memory';
import { Program } from './program';

test('memory at an operation is that of the values in use and of what it runs', () => {
  const record = sample<CompiledRecord>('compiled');
  const program = new Program(record.program!);
  const live = new LiveMemory(program);
  const { first, end, inputs } = program.bodies[0]!;
  expect(live.bytes.length).toBe(end - first);
  const argumentBytes = inputs.reduce((sum, value) => sum + program.bytesOf(value), 0);
  expect(argumentBytes).toBe(record.memory.argument_bytes);
  live.bytes.forEach((bytes, step) => {
    const values = live.at(step);
    expect(values.reduce((sum, each) => sum + each.bytes, 0) + live.inside[step]!).toBe(bytes);
    expect(bytes).toBeGreaterThanOrEqual(argumentBytes);
    // Operands of an operation are in use while it runs.
    const shown = new Set(values.map(each => each.value));
    for (const operand of program.operandsOf(first + step)) {
      const maker = program.definers[operand] ?? -1;
      const isPlain = maker < 0 || /fusion|dot|reduce|broadcast/.test(program.primitive(maker));
      expect(operand < 0 || program.bytesOf(operand) === 0 || !isPlain || shown.has(operand)).toBe(
        true,
      );
    }
  });
  expect(live.inside.some(bytes => bytes > 0)).toBe(true);
  expect(live.bytes[live.peak]).toBe(Math.max(...live.bytes));
  expect(live.bytes[live.peak]! / record.memory.peak_bytes).toBeGreaterThan(0.7);
  expect(live.bytes[live.peak]! / record.memory.peak_bytes).toBeLessThan(1.5);
});
