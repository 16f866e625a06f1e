import { expect, test } from 'vitest';
import type { GridNumberRecord, KernelGridsRecord } from '../generated/introspect';
import { sample } from '../testing/samples';
import {
  boxesOf,
  elementAt,
  KernelGrid,
  matrixOf,
  numberFor,
  positionOf,
  programAt,
  sliceText,
} from './kernel_grid';

function gridOf(name: string, kernel = 0): KernelGrid {
  return new KernelGrid(sample<KernelGridsRecord>(name).kernels[kernel]!);
}

test('programs are numbered row by row', () => {
  expect(positionOf(7, [2, 2, 3])).toEqual([1, 0, 1]);
  expect(programAt([1, 0, 1], [2, 2, 3])).toBe(7);
  expect([positionOf(0, []), programAt([], [])]).toEqual([[], 0]);
});

test('numbers come from coefficients, from a table over some axes, or from samples', () => {
  const number = (more: Partial<GridNumberRecord>, program: number): number => {
    const record = { offset: 0, coefficients: [], axes: [], values: [], step: 1, ...more };
    return numberFor(record, program, positionOf(program, [2, 3]), [2, 3]);
  };
  expect(number({ offset: -1, coefficients: [10, 2] }, 5)).toBe(13);
  expect(number({ axes: [1], values: [4, 5, 6] }, 5)).toBe(6);
  expect(number({ values: [7, 8], step: 3 }, 5)).toBe(8);
});

test('a program of a matrix product sees a block of each operand', () => {
  const grid = gridOf('grid_64');
  const [x, y, out] = grid.record.operands;
  const program = programAt([1, 2, 3], grid.grid);
  const slices = [x!, y!, out!].map(each => sliceText(grid.block(each, program)!));
  expect(slices).toEqual(['[16:32, 48:64]', '[48:64, 32:48]', '[16:32, 32:48]']);
  expect([x!, y!, out!].map(each => grid.activity(each, program))).toEqual([1, 1, 2]);
  // The result's block stays while the sum runs along the last axis.
  expect([x!, out!].map(each => grid.isMoved(each, program))).toEqual([true, false]);
});

test('an element is seen by the programs whose blocks have it', () => {
  const grid = gridOf('grid_64');
  const { programs, isAll } = grid.seeing(grid.record.operands[2]!, 20, 40, 1000);
  expect(isAll).toBe(true);
  expect(programs).toEqual([0, 1, 2, 3].map(k => programAt([1, 2, k], grid.grid)));
  expect(grid.seeing(grid.record.operands[2]!, 20, 40, 10)).toEqual({ programs: [], isAll: false });
});

test('a block of several planes is several rectangles, and one where its rows follow each other', () => {
  const operand = gridOf('grid_64').record.operands[0]!;
  const dim = (size: number): (typeof operand.dims)[0] => ({ ...operand.dims[0]!, size });
  const three = { ...operand, dims: [dim(4), dim(6), dim(5)] };
  const bounds = (...each: [number, number][]): Parameters<typeof boxesOf>[1] => ({
    bounds: each,
    isCut: false,
    isEmpty: false,
  });
  expect(boxesOf(three, bounds([1, 3], [2, 4], [0, 5])).map(box => [box.top, box.bottom])).toEqual([
    [8, 10],
    [14, 16],
  ]);
  expect(boxesOf(three, bounds([1, 3], [0, 6], [0, 5]))).toEqual([
    { top: 6, bottom: 18, left: 0, right: 5 },
  ]);
  expect(matrixOf(three)).toEqual([24, 5]);
  expect(elementAt(three, 14, 3)).toEqual([2, 2, 3]);
  expect(boxesOf({ ...operand, dims: [] }, bounds())).toEqual([
    { top: 0, bottom: 1, left: 0, right: 1 },
  ]);
});

test('programs of a million lie in cells', () => {
  const grid = gridOf('grid_million');
  const { cells } = grid.record;
  expect(grid.count).toBe(1_000_000);
  expect(cells!.programs.reduce((sum, n) => sum + n, 0)).toBe(1_000_000);
  const cell = grid.cellOf(123_456);
  expect(grid.cellOf(grid.firstOf(cell))).toBe(cell);
  expect(grid.known(5_000_000)).toBe(999_999);
});
