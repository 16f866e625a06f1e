/** Pictures of a kernel's grid: its programs as cells, and an operand with the block of one program. */

import type { GridCellColumns, GridOperandRecord } from '../../generated/introspect';
import { matrixOf, OUTSIDE, SHARED, UNSEEN, type Box } from '../../records/kernel_grid';
import { hatch } from '../hatch';
import { blend, type Theme } from '../theme';

/** A rectangle on the page, in CSS pixels. */
interface Place {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

const MAX_CELL = 22;
/** Colour of faults: the red of texts is too light for areas in dark themes. */
const WRONG = { light: '#d3303c', dark: '#e5484d' };
/** Parts that are moved 2 to this power times, or more often, have the darkest shade. */
const MAX_DOUBLINGS = 7;
/** Minimum size of cells that are drawn with a gap between them. */
const MIN_GAPPED_CELL = 5;
const IDLE_HATCHING = { alpha: 0.5, step: 5, lineWidth: 1 };
const FAULT_HATCHING = { ...IDLE_HATCHING, alpha: 1 };
/** Minimum size at which blocks are drawn; smaller ones would be invisible. */
const MIN_BLOCK = 5;

/** Position and size of the cells in which programs are drawn. */
export interface CellLayout extends Place {
  readonly cellWidth: number;
  readonly cellHeight: number;
}

/**
 * Layout of the cells of programs within `width` by `height` pixels; cells are at most 22 pixels
 * wide and high.
 */
export function layCells(cells: GridCellColumns, width: number, height: number): CellLayout {
  const cellWidth = Math.min(MAX_CELL, width / cells.columns);
  const cellHeight = Math.min(MAX_CELL, height / cells.rows);
  // Cells are square unless that would make them too small to see.
  const side = Math.max(Math.min(cellWidth, cellHeight), Math.min(3, cellWidth, cellHeight));
  const [across, down] = [
    Math.min(cellWidth, Math.max(side, 4)),
    Math.min(cellHeight, Math.max(side, 4)),
  ];
  return {
    left: 0,
    top: 0,
    width: across * cells.columns,
    height: down * cells.rows,
    cellWidth: across,
    cellHeight: down,
  };
}

/** Height in which the cells of programs fit at a width. */
export function cellsHeight(cells: GridCellColumns, width: number, most: number): number {
  return Math.ceil(layCells(cells, width, most).height) + 1;
}

/** The cell at a place of the picture; -1 for none. */
export function cellAt(cells: GridCellColumns, layout: CellLayout, x: number, y: number): number {
  const column = Math.floor((x - layout.left) / layout.cellWidth);
  const row = Math.floor((y - layout.top) / layout.cellHeight);
  const isInside = column >= 0 && row >= 0 && column < cells.columns && row < cells.rows;
  return isInside ? row * cells.columns + column : -1;
}

/** Programs by the bytes that they move; hatched where they are idle, red where they are wrong. */
export function paintCells(
  context: CanvasRenderingContext2D,
  cells: GridCellColumns,
  layout: CellLayout,
  lit: ReadonlySet<number>,
  current: number,
  theme: Theme,
): void {
  const { cellWidth, cellHeight } = layout;
  const gap = Math.min(cellWidth, cellHeight) > MIN_GAPPED_CELL ? 1 : 0;
  const perProgram = cells.moved_bytes.map((bytes, i) => bytes / Math.max(1, cells.programs[i]!));
  const most = Math.max(1, ...perProgram);
  const place = (cell: number): Place => ({
    left: layout.left + (cell % cells.columns) * cellWidth,
    top: layout.top + Math.floor(cell / cells.columns) * cellHeight,
    width: cellWidth - gap,
    height: cellHeight - gap,
  });
  cells.programs.forEach((count, cell) => {
    if (count === 0) {
      return;
    }
    const { left, top, width, height } = place(cell);
    const isWrong = (cells.marks[cell]! & (SHARED | OUTSIDE)) !== 0;
    context.fillStyle = isWrong ? wrong(theme) : heat(theme, (0.6 * perProgram[cell]!) / most);
    context.fillRect(left, top, width, height);
    if (cells.idle[cell]! > 0) {
      const share = cells.idle[cell]! / count;
      // In cells of many programs, the hatched share is that of idle programs.
      hatch(
        context,
        { left, top, width: width * share, height },
        theme.color('text'),
        IDLE_HATCHING,
      );
    }
  });
  context.lineWidth = 1.5;
  context.strokeStyle = theme.color('accent');
  for (const cell of lit) {
    const { left, top, width, height } = place(cell);
    context.strokeRect(
      left + 0.75,
      top + 0.75,
      Math.max(1, width - 1.5),
      Math.max(1, height - 1.5),
    );
  }
  if (current >= 0) {
    const { left, top, width, height } = place(current);
    const side = Math.max(width, height, 6);
    context.lineWidth = 2.5;
    context.strokeStyle = theme.color('text');
    const [middle, center] = [left + width / 2, top + height / 2];
    context.strokeRect(
      Math.max(1.25, middle - side / 2),
      Math.max(1.25, center - side / 2),
      side,
      side,
    );
  }
}

/** Place of an operand's picture, a matrix of its elements. */
export function layOperand(operand: GridOperandRecord, width: number, height: number): Place {
  const [rows, columns] = matrixOf(operand);
  const scale = Math.min(width / Math.max(columns, 1), height / Math.max(rows, 1));
  const least = 30;
  return {
    left: 1,
    top: 1,
    width: Math.min(width, Math.max(least, columns * scale)) - 2,
    height: Math.min(height, Math.max(least, rows * scale)) - 2,
  };
}

/** The row and column of the matrix at a place of the picture; null outside. */
export function elementUnder(
  operand: GridOperandRecord,
  layout: Place,
  x: number,
  y: number,
): readonly [number, number] | null {
  const [rows, columns] = matrixOf(operand);
  const row = Math.floor(((y - layout.top) / layout.height) * rows);
  const column = Math.floor(((x - layout.left) / layout.width) * columns);
  const isInside = row >= 0 && column >= 0 && row < rows && column < columns;
  return isInside ? [row, column] : null;
}

/**
 * Paints an operand: shaded by how often its parts are moved, faults in red, and the block of a
 * program on top.
 */
export function paintOperand(
  context: CanvasRenderingContext2D,
  operand: GridOperandRecord,
  layout: Place,
  boxes: readonly Box[],
  activity: number,
  theme: Theme,
): void {
  const [rows, columns] = matrixOf(operand);
  const x = (column: number): number =>
    layout.left + (column / Math.max(columns, 1)) * layout.width;
  const y = (row: number): number => layout.top + (row / Math.max(rows, 1)) * layout.height;
  const between = (top: number, bottom: number, left: number, right: number): Place => ({
    left: x(left),
    top: y(top),
    width: x(right) - x(left),
    height: y(bottom) - y(top),
  });
  context.fillStyle = theme.color('sunken');
  context.fillRect(layout.left, layout.top, layout.width, layout.height);
  const { raster } = operand;
  if (raster !== null) {
    const { row_edges: tops, column_edges: lefts } = raster;
    const across = lefts.length - 1;
    const isGridded =
      raster.is_exact && layout.width / across > 6 && layout.height / (tops.length - 1) > 6;
    raster.moves.forEach((moves, cell) => {
      const [row, column] = [Math.floor(cell / across), cell % across];
      const place = between(tops[row]!, tops[row + 1]!, lefts[column]!, lefts[column + 1]!);
      const mark = raster.marks[cell]!;
      if (moves > 0) {
        context.fillStyle = heat(theme, (1 + Math.log2(moves)) / (1 + MAX_DOUBLINGS));
        fill(context, place);
      }
      if ((mark & SHARED) !== 0) {
        context.fillStyle = wrong(theme);
        fill(context, place);
      } else if ((mark & UNSEEN) !== 0) {
        context.fillStyle = theme.color('removed-soft');
        fill(context, place);
        hatch(context, place, wrong(theme), FAULT_HATCHING);
      }
      if (isGridded) {
        context.lineWidth = 1;
        context.strokeStyle = theme.color('bg');
        context.strokeRect(place.left, place.top, place.width, place.height);
      }
    });
  }
  context.lineWidth = 1;
  context.strokeStyle = theme.color('line-strong');
  context.strokeRect(layout.left, layout.top, layout.width, layout.height);
  for (const box of boxes) {
    const place = between(box.top, box.bottom, box.left, box.right);
    const width = Math.max(place.width, MIN_BLOCK);
    const height = Math.max(place.height, MIN_BLOCK);
    const left = Math.min(place.left, layout.left + layout.width - width);
    const top = Math.min(place.top, layout.top + layout.height - height);
    context.globalAlpha = activity === 0 ? 0.15 : 0.45;
    context.fillStyle = theme.color('accent');
    context.fillRect(left, top, width, height);
    context.globalAlpha = 1;
    context.lineWidth = 2;
    context.strokeStyle = theme.color('accent');
    context.setLineDash(activity === 0 ? [3, 3] : []);
    context.strokeRect(left, top, width, height);
    context.setLineDash([]);
  }
}

/** Whole pixels, so that no seams are seen between places next to each other. */
function fill(context: CanvasRenderingContext2D, { left, top, width, height }: Place): void {
  const [x, y] = [Math.floor(left), Math.floor(top)];
  context.fillRect(x, y, Math.ceil(left + width) - x, Math.ceil(top + height) - y);
}

function wrong(theme: Theme): string {
  return theme.isDark ? WRONG.dark : WRONG.light;
}

function heat(theme: Theme, part: number): string {
  return blend(theme.color('heat-low'), theme.color('heat-high'), Math.min(1, part));
}
