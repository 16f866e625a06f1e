import { describe, expect, test } from 'vitest';
import type { ProgramRecord } from '../generated/introspect';
import { equationsAt, placesOf, type CellPlace } from './cell_places';

/** Two cells; equation 0 comes from a function in the first that is called in the second, 1 from the second. */
function program(
  lines: readonly string[] | null = ['def f(x):', '    return sin(x)'],
): ProgramRecord {
  const source = (cell: string, count: number, text: readonly string[] | null): object => ({
    name: `In[${count}]`,
    path: '',
    cell_id: cell,
    execution_count: count,
    first_line: 1,
    lines: text,
  });
  return {
    sources: [source('one', 1, lines), source('two', 2, ['y = f(x)', 'y + 1'])],
    spans: { source: [0, 1, 1], line: [2, 1, 2], end_line: [2, 1, 2], caller: [1, -1, -1] },
    equations: { id: [10, 11], span: [0, 2] },
  } as unknown as ProgramRecord;
}

const at = (cellId: string | null, line: number, text: string | null = null): CellPlace => ({
  cellId,
  executionCount: cellId === 'one' ? 1 : 2,
  line,
  endLine: line,
  text,
});

describe('places of equations in cells', () => {
  test('are their line and the lines that called it', () => {
    const places = placesOf(program(), [0]).map(each => [each.cellId, each.line, each.text]);
    expect(places).toEqual([
      ['one', 2, '    return sin(x)'],
      ['two', 1, 'y = f(x)'],
    ]);
  });

  test('are found from a line, callers included', () => {
    expect(equationsAt(program(), at('one', 2))).toEqual([0]);
    expect(equationsAt(program(), at('two', 1))).toEqual([0]);
    expect(equationsAt(program(), at('two', 2))).toEqual([1]);
    expect(equationsAt(program(), at('one', 1))).toEqual([]);
  });

  test('are those of a cell with the same number where ids are missing', () => {
    expect(equationsAt(program(), at(null, 2))).toEqual([1]);
  });

  test('are gone when the line was edited, as far as that can be known', () => {
    expect(equationsAt(program(), at('one', 2, 'something else'))).toEqual([]);
    expect(equationsAt(program(null), at('one', 2, 'something else'))).toEqual([0]);
  });
});
