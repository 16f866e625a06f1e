import { describe, expect, test } from 'vitest';
import type { ProgramRecord } from '../generated/introspect';
import { PROGRAMS, sample, sampleProgram } from '../testing/samples';
import { RecordError } from './columns';
import { Program } from './program';

describe('a program', () => {
  test('ties uses to definitions', () => {
    for (const name of PROGRAMS) {
      const program = sampleProgram(name);
      for (let equation = 0; equation < program.equationCount; equation++) {
        for (const operand of program.operandsOf(equation)) {
          if (operand >= 0) {
            expect(program.usesOf(operand)).toContain(equation);
          }
        }
        for (const value of program.resultsOf(equation)) {
          expect(program.definers[value]).toBe(equation);
        }
      }
    }
  }, 30_000);

  test('calls no two values of a body by one name', () => {
    for (const name of PROGRAMS) {
      const program = sampleProgram(name);
      for (const body of program.bodies) {
        const values = [...body.constants, ...body.inputs];
        for (let equation = body.first; equation < body.end; equation++) {
          values.push(...program.resultsOf(equation));
        }
        // Unused values are `_`, as in the printed program.
        const names = values.map(value => program.valueName(value)).filter(name => name !== '_');
        expect(new Set(names).size).toBe(names.length);
      }
    }
  });

  test('shows the user’s names, numbered when they come again', () => {
    const program = sampleProgram('transformer');
    const names = Array.from({ length: program.valueCount }, (_, value) =>
      program.valueName(value),
    );
    expect(names).toContain('x');
    expect(names).toContain('x₁');
    expect(names).toContain('x₁₁');
  });

  test('says the kind of work of each equation, as far as the record does', () => {
    const record = sample<ProgramRecord>('mlp');
    const first = (program: Program, name: string) =>
      program.family(program.ids.findIndex((_, each) => program.primitive(each) === name));
    expect(first(new Program(record), 'dot_general')).toBe('contraction');
    expect(first(new Program(record), 'tanh')).toBe('elementwise');
    const users = { ...record, kinds: { ...record.kinds, tanh: 'custom' } };
    expect(first(new Program(users), 'tanh')).toBe('custom');
    const older = { ...record, kinds: undefined } as unknown as ProgramRecord;
    expect(first(new Program(older), 'dot_general')).toBe('elementwise');
    const hostile = { ...record, kinds: { dot_general: '__proto__', tanh: 'of the future' } };
    expect(first(new Program(hostile), 'dot_general')).toBe('elementwise');
  });

  test('knows params, spans, scopes and bodies', () => {
    const program = sampleProgram('control_flow');
    const scan = program.ids.findIndex((_, equation) => program.primitive(equation) === 'scan');
    expect(program.param(scan, 'length')).toBe('100');
    expect(program.param(scan, 'absent')).toBeUndefined();
    expect(program.bodiesOf(scan)).toEqual([
      { body: expect.any(Number), role: 'jaxpr', trips: 100 },
    ]);
    expect(program.spanOf(scan)).toMatchObject({
      function: 'rollout',
      variable: '(h, count), sums',
    });
    const mlp = sampleProgram('mlp');
    const path = mlp.scopePath(0).map(scope => mlp.scopeName(scope));
    expect(path).toEqual(['model', 'dense_0']);
    expect(mlp.callStack(0).map(span => mlp.span(span).function)).toEqual([
      'dense',
      'model',
      'loss',
      '<module>',
    ]);
  });
});

type Change = (record: Record<string, unknown>) => void;

/** Ways in which a record can be wrong, none of which may do harm. */
const FAULTS: readonly [string, Change][] = [
  ['no equations table', record => delete record['equations']],
  ['no bodies', record => (record['bodies'] = [])],
  ['strings that are none', record => (record['strings'] = [1, 2])],
  ['an operand out of range', record => (column(record, 'operands')[0] = 10 ** 6)],
  ['an operand that is a text', record => (column(record, 'operands')[0] = '3')],
  ['an operand that is a fraction', record => (column(record, 'operands')[0] = 0.5)],
  ['counts that do not add up', record => column(record, 'operand_counts').push(1)],
  ['a negative count', record => (column(record, 'result_counts')[0] = -1)],
  ['a column cut short', record => column(record, 'span').pop()],
  ['a scope before its parent', record => (column(record, 'parent', 'scopes')[0] = 1)],
  ['a span that calls one that is missing', record => (column(record, 'caller', 'spans')[0] = 999)],
  [
    'bodies that overlap',
    record => ((record['bodies'] as { first_equation: number }[])[1]!.first_equation = 0),
  ],
  [
    'a body that contains itself',
    record => {
      const bodies = column(record, 'bodies');
      bodies.fill(0);
    },
  ],
];

function column(
  record: Record<string, unknown>,
  name: string,
  table = 'equations',
): (number | string)[] {
  return (record[table] as Record<string, (number | string)[]>)[name]!;
}

describe('a faulty record', () => {
  test.each(FAULTS)('with %s is refused', (_, change) => {
    const record = sample<Record<string, unknown>>('control_flow');
    if (record['scopes'] && column(record, 'parent', 'scopes').length === 0) {
      Object.assign(record['scopes'] as object, { name: [0, 0], parent: [-1, 0] });
    }
    expect(() => new Program(record as unknown as ProgramRecord)).not.toThrow();
    change(record);
    expect(() => new Program(record as unknown as ProgramRecord)).toThrow(RecordError);
  });

  test('with callers in a circle ends its stacks', () => {
    const record = sample<Record<string, unknown>>('mlp');
    column(record, 'caller', 'spans').fill(0);
    const program = new Program(record as unknown as ProgramRecord);
    expect(program.callStack(0).length).toBeLessThanOrEqual(64);
  });
});

test('a kernel opens into its body, and not into the program that it stands for', () => {
  const program = sampleProgram('kernel_program');
  const roles = program.bodiesOf(0).map(({ role }) => role);
  expect(roles).toEqual(['kernel', 'definition']);
  expect(program.openedBodiesOf(0)).toEqual([program.bodiesOf(0)[0]]);
  expect(program.openedBodiesOf(0)[0]!.trips).toBe(64);
});
