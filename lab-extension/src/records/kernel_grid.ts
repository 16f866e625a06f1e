/** Grids of kernels: which program sees which block of an operand, and where the blocks lie in the operand, drawn as a matrix. */

import type {
  GridKernelRecord,
  GridNumberRecord,
  GridOperandRecord,
} from '../generated/introspect';

/** Maximum number of rectangles drawn for one block. */
const MAX_BOXES = 256;

/** Marks of an element, added up: no program writes it; parallel programs share it; it is in a block outside of the array. */
export const UNSEEN = 1;
export const SHARED = 2;
export const OUTSIDE = 4;

/** A rectangle of a matrix of elements: ends are behind the last row and column. */
export interface Box {
  readonly top: number;
  readonly bottom: number;
  readonly left: number;
  readonly right: number;
}

/** The part of an operand that a program accesses. */
export interface Block {
  /** For each dimension the first element, and the one behind the last, within the array. */
  readonly bounds: readonly (readonly [number, number])[];
  /** Whether a part of the block lies outside of the array. */
  readonly isCut: boolean;
  readonly isEmpty: boolean;
}

/** The position in the grid of the program of a number. */
export function positionOf(program: number, grid: readonly number[]): number[] {
  const position = grid.map(() => 0);
  let rest = program;
  for (let axis = grid.length - 1; axis >= 0; axis--) {
    position[axis] = rest % grid[axis]!;
    rest = Math.floor(rest / grid[axis]!);
  }
  return position;
}

/** The number of the program at a position. */
export function programAt(position: readonly number[], grid: readonly number[]): number {
  return grid.reduce((number, size, axis) => number * size + position[axis]!, 0);
}

/** The number that a record has for a program, which is at `position`. */
export function numberFor(
  record: GridNumberRecord,
  program: number,
  position: readonly number[],
  grid: readonly number[],
): number {
  if (record.values.length === 0) {
    return record.coefficients.reduce((sum, c, axis) => sum + c * position[axis]!, record.offset);
  }
  if (record.axes.length === 0) {
    return record.values[Math.floor(program / (record.step ?? 1))]!;
  }
  return record.values[record.axes.reduce((at, axis) => at * grid[axis]! + position[axis]!, 0)]!;
}

export class KernelGrid {
  readonly grid: readonly number[];
  readonly count: number;
  /** Distance between the programs that are known for all operands. */
  readonly step: number;

  constructor(readonly record: GridKernelRecord) {
    this.grid = record.grid;
    this.count = record.program_count;
    const numbers = record.operands.flatMap(({ dims, activity }) => [
      activity,
      ...dims.flatMap(({ start, length }) => [start, length]),
    ]);
    this.step = Math.max(1, ...numbers.map(each => each.step ?? 1));
  }

  /** The nearest known program at or before this one, within the grid. */
  known(program: number): number {
    const within = Math.max(0, Math.min(this.count - 1, program));
    return within - (within % this.step);
  }

  /** Activity of a program: 1 if it reads the operand, 2 if it writes it, 3 for both. */
  activity(operand: GridOperandRecord, program: number): number {
    return numberFor(operand.activity, program, positionOf(program, this.grid), this.grid);
  }

  /** Whether the program writes none of the results. */
  isIdle(program: number): boolean {
    const { cells } = this.record;
    const cell = this.cellOf(program);
    return cells !== null && cells.idle[cell]! > 0 && cells.idle[cell] === cells.programs[cell];
  }

  /** The block of an operand that a program accesses; null if it isn't known. */
  block(operand: GridOperandRecord, program: number): Block | null {
    if (operand.note !== '') {
      return null;
    }
    const position = positionOf(program, this.grid);
    let isCut = false;
    const bounds = operand.dims.map(({ start, length, size }): [number, number] => {
      const first = numberFor(start, program, position, this.grid);
      const end = first + numberFor(length, program, position, this.grid);
      isCut ||= first < 0 || end > size;
      const low = Math.max(0, Math.min(first, size));
      return [low, Math.max(low, Math.min(end, size))];
    });
    return { bounds, isCut, isEmpty: bounds.some(([low, high]) => low === high) };
  }

  /** Whether a program's block is moved: unless it is known to be the previous program's. */
  isMoved(operand: GridOperandRecord, program: number): boolean {
    const isPart = operand.dims.some(({ rule }) => rule === 'accessed');
    if (program === 0 || isPart || this.step > 1) {
      return true;
    }
    const [now, before] = [program, program - 1].map(each => this.block(operand, each)?.bounds);
    return String(now) !== String(before);
  }

  /**
   * Programs that access an element; none, and `isAll` false, if the grid has more than `most`, or
   * not all are known.
   */
  seeing(
    operand: GridOperandRecord,
    row: number,
    column: number,
    most: number,
  ): { programs: number[]; isAll: boolean } {
    const programs: number[] = [];
    const isAll = this.count <= most && this.step === 1;
    if (isAll) {
      const place = elementAt(operand, row, column);
      for (let program = 0; program < this.count; program++) {
        const bounds = this.block(operand, program)?.bounds ?? [];
        if (bounds.every(([low, high], dim) => place[dim]! >= low && place[dim]! < high)) {
          programs.push(program);
        }
      }
    }
    return { programs, isAll };
  }

  /** The cell of the matrix of programs that a program is in. */
  cellOf(program: number): number {
    const cells = this.record.cells;
    if (cells === null) {
      return -1;
    }
    const row = Math.floor(Math.floor(program / cells.width) / cells.row_step);
    return row * cells.columns + Math.floor((program % cells.width) / cells.column_step);
  }

  /** The first program of a cell; -1 for a cell without one. */
  firstOf(cell: number): number {
    const cells = this.record.cells;
    if (cells === null || !(cells.programs[cell]! > 0)) {
      return -1;
    }
    const row = Math.floor(cell / cells.columns);
    return row * cells.row_step * cells.width + (cell % cells.columns) * cells.column_step;
  }
}

/** Rows and columns of an operand as a matrix: dimensions before the last one are rows, one below the other. */
export function matrixOf(operand: GridOperandRecord): readonly [number, number] {
  const sizes = operand.dims.map(({ size }) => size);
  const columns = sizes.pop() ?? 1;
  return [sizes.reduce((product, size) => product * size, 1), columns];
}

/** The index of an element at a row and column of the matrix. */
export function elementAt(operand: GridOperandRecord, row: number, column: number): number[] {
  const sizes = operand.dims.map(({ size }) => size);
  return sizes.length === 0 ? [] : [...positionOf(row, sizes.slice(0, -1)), column];
}

/** The rectangles that a block is in the matrix of its operand. */
export function boxesOf(operand: GridOperandRecord, block: Block): Box[] {
  if (block.isEmpty) {
    return [];
  }
  const [left, right] = block.bounds.at(-1) ?? [0, 1];
  let ranges: [number, number][] = [[0, 1]];
  block.bounds.slice(0, -1).forEach(([low, high], dim) => {
    const { size } = operand.dims[dim]!;
    const next: [number, number][] = [];
    for (const [first, end] of ranges) {
      if (low === 0 && high === size) {
        next.push([first * size, end * size]); // rows that follow each other stay one range
        continue;
      }
      for (let row = first; row < end && next.length < MAX_BOXES; row++) {
        next.push([row * size + low, row * size + high]);
      }
    }
    ranges = next;
  });
  return ranges.map(([top, bottom]) => ({ top, bottom, left, right }));
}

/** A block as Python writes it: `[16:32, 0:8]`. */
export function sliceText(block: Block): string {
  const slices = block.bounds.map(([low, high]) =>
    high - low === 1 ? String(low) : `${low}:${high}`,
  );
  return `[${slices.join(', ')}]`;
}
