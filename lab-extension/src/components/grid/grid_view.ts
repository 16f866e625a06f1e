/** Kernels over their grids: which program sees which block of which operand, in the order in which they run. */

import type {
  GridKernelRecord,
  GridOperandRecord,
  KernelGridsRecord,
} from '../../generated/introspect';
import {
  boxesOf,
  elementAt,
  KernelGrid,
  OUTSIDE,
  positionOf,
  programAt,
  SHARED,
  sliceText,
  UNSEEN,
} from '../../records/kernel_grid';
import { CanvasPane } from '../canvas_pane';
import { el, iconButton, type Content } from '../dom';
import { counted, oneLine, quantity, whole } from '../format';
import { KernelChoice, NO_KERNEL } from '../kernel_choice';
import { lineLink, type NotebookLines } from '../source_link';
import { tableOf } from '../table';
import { withTerms } from '../terms';
import { readTheme } from '../theme';
import {
  cellAt,
  cellsHeight,
  elementUnder,
  layCells,
  layOperand,
  paintCells,
  paintOperand,
} from './paint_grid';

/** Width and height of the picture of the grid, and of an operand, in CSS pixels, at most. */
const GRID_SIZE = 320;
const OPERAND_WIDTH = 200;
const OPERAND_HEIGHT = 180;
/** Room for the words above the picture of an operand. */
const MIN_FIGURE = 160;
/** Room for the words above the picture of the grid. */
const CAPTION_WIDTH = 190;
/** Maximum number of programs of a grid that are searched for those that access an element. */
const MAX_SEARCHED_PROGRAMS = 1 << 17;

export class GridView {
  readonly element: HTMLElement;
  readonly ready = Promise.resolve();
  readonly isFlowing = true;
  private readonly place = el('div', {});
  private shown: KernelView | null = null;

  constructor(
    private readonly root: HTMLElement,
    private readonly record: KernelGridsRecord,
    private readonly notebook: NotebookLines | undefined,
  ) {
    const { kernels, hidden_count: hidden } = record;
    const choice = new KernelChoice(
      kernels,
      { noun: 'kernel', label: 'Kernel', none: NO_KERNEL, hidden },
      // A kernel with faults is shown first.
      kernels.findIndex(each => faultsOf(each).length > 0),
      number => this.show(number),
    );
    this.element = el('div', { class: 'pl-report pl-grid-view' }, choice.content(), this.place);
    this.show(choice.number);
  }

  themeChanged(): void {
    this.shown?.draw();
  }

  dispose(): void {
    this.shown?.dispose();
    this.element.remove();
  }

  private show(number: number): void {
    const kernel = this.record.kernels[number];
    if (kernel === undefined) {
      return;
    }
    this.shown?.dispose();
    const first = number === 0 ? Math.max(0, this.record.program ?? -1) : 0;
    this.shown = new KernelView(this.root, kernel, first, this.notebook);
    this.place.replaceChildren(this.shown.element);
  }
}

/** One kernel. */
class KernelView {
  readonly element: HTMLElement;
  private readonly grid: KernelGrid;
  private readonly pictures: OperandPicture[];
  private readonly cells: CanvasPane | null;
  private readonly slider: HTMLInputElement;
  private readonly axes: HTMLInputElement[];
  private readonly says = el('p', { class: 'pl-grid-program', 'aria-live': 'polite' });
  private readonly readout = el('output', { class: 'pl-muted' });
  /** The program that was chosen, and the one under the pointer; -1 for none. */
  private program: number;
  private hovered = -1;
  private lit: ReadonlySet<number> = new Set();

  constructor(
    private readonly root: HTMLElement,
    private readonly record: GridKernelRecord,
    first: number,
    notebook: NotebookLines | undefined,
  ) {
    this.grid = new KernelGrid(record);
    this.program = this.grid.known(first);
    this.slider = el('input', {
      type: 'range',
      min: 0,
      max: Math.max(0, record.program_count - 1),
      step: this.grid.step,
      value: this.program,
      'aria-label': 'Program, in the order in which they run',
    });
    this.slider.addEventListener('input', () => this.go(Number(this.slider.value)));
    this.axes = record.grid.map((size, axis) => {
      const input = el('input', {
        type: 'number',
        min: 0,
        max: Math.max(0, size - 1),
        'aria-label': `Position along axis ${axis}, of ${size}`,
      });
      input.addEventListener('change', () => this.goToPosition());
      return input;
    });
    this.cells = record.cells === null ? null : this.cellsPane();
    this.pictures = record.operands
      .filter(each => each.note === '')
      .map(each => new OperandPicture(root, this.grid, each, place => this.point(each, place)));
    this.element = el(
      'div',
      {},
      header(record, notebook),
      faultsOf(record).map(text => el('p', { class: 'pl-grid-fault', role: 'note' }, text)),
      record.note === '' ? null : el('p', { class: 'pl-muted' }, record.note),
      this.cells === null
        ? null
        : el(
            'div',
            { class: 'pl-grid-controls' },
            this.stepButtons(),
            this.slider,
            this.axisFields(),
          ),
      this.cells === null ? null : this.says,
      el(
        'div',
        { class: 'pl-grid-pictures' },
        this.cells === null ? null : this.gridFigure(this.cells),
        el('div', { class: 'pl-grid-operands' }, this.filter(), this.figures()),
      ),
      operandsTable(record, notebook),
    );
    this.go(this.program);
  }

  dispose(): void {
    this.cells?.dispose();
    this.pictures.forEach(each => each.pane.dispose());
    this.element.remove();
  }

  draw(): void {
    this.cells?.draw();
    this.pictures.forEach(each => each.pane.draw());
  }

  // Programs ---------------------------------------------------------------------------------------

  private go(program: number): void {
    this.program = this.grid.known(program);
    this.slider.value = String(this.program);
    const position = positionOf(this.program, this.record.grid);
    this.axes.forEach((input, axis) => (input.value = String(position[axis])));
    this.say();
  }

  private goToPosition(): void {
    const position = this.axes.map((input, axis) =>
      Math.max(0, Math.min(this.record.grid[axis]! - 1, Math.round(Number(input.value)) || 0)),
    );
    this.go(programAt(position, this.record.grid));
  }

  /** Shows the program under the pointer, or the chosen one. */
  private say(): void {
    if (this.record.program_count === 0) {
      return;
    }
    const program = this.hovered >= 0 ? this.hovered : this.program;
    const { grid } = this;
    const position = positionOf(program, this.record.grid).join(', ');
    const reads: string[] = [];
    const writes: string[] = [];
    const untouched: string[] = [];
    for (const operand of this.record.operands) {
      const block = grid.block(operand, program);
      const activity = grid.activity(operand, program);
      const slice = block === null ? '' : sliceText(block);
      const kept = operand.role === 'input' && block !== null && !grid.isMoved(operand, program);
      const cut = block?.isCut === true ? ' (cut at the edge)' : '';
      const text = `${operand.name}${slice}${kept ? ' (there already)' : ''}${cut}`;
      ((activity & 1) !== 0 ? reads : (activity & 2) !== 0 ? writes : untouched).push(text);
      if (activity === 3) {
        writes.push(operand.name);
      }
    }
    const clauses = [
      reads.length > 0 ? `reads ${reads.join(' and ')}` : '',
      writes.length > 0 ? `writes ${writes.join(' and ')}` : '',
      grid.isIdle(program) ? 'is idle: it writes nothing' : '',
      untouched.length > 0 ? `has, and doesn’t use, ${untouched.join(' and ')}` : '',
    ].filter(text => text !== '');
    const name = `Program ${whole(program)} of ${whole(this.record.program_count)}`;
    this.says.replaceChildren(
      el('strong', {}, this.record.grid.length > 0 ? `${name}, (${position})` : name),
      ` ${clauses.join('; ')}.`,
    );
    this.pictures.forEach(each => each.show(program));
    this.cells?.draw();
  }

  private stepButtons(): Content {
    const step = (by: number): void => this.go(this.program + by * this.grid.step);
    return [
      iconButton('Program before', 'M10 3 5 8l5 5', () => step(-1)),
      iconButton('Next program', 'M6 3l5 5-5 5', () => step(1)),
    ];
  }

  private axisFields(): Content {
    return this.axes.map((input, axis) =>
      el('label', { class: 'pl-grid-axis' }, `axis ${axis}`, input),
    );
  }

  // The grid ---------------------------------------------------------------------------------------

  private cellsPane(): CanvasPane {
    const { record } = this;
    const cells = record.cells!;
    const pane = new CanvasPane(
      'pl-grid-cells',
      `Programs of the grid: ${[...chipsOf(record), ...faultsOf(record)].join(', ')}`,
      (context, width, height) => {
        const program = this.hovered >= 0 ? this.hovered : this.program;
        const layout = layCells(cells, width - 2, height);
        const current = this.grid.cellOf(program);
        paintCells(context, cells, layout, this.lit, current, readTheme(this.root));
      },
    );
    pane.element.style.height = `${cellsHeight(cells, GRID_SIZE - 2, GRID_SIZE)}px`;
    pane.onPointer((place, isClick) => {
      const layout = layCells(cells, pane.width - 2, pane.height);
      const cell = place === null ? -1 : cellAt(cells, layout, ...place);
      const program = cell < 0 ? -1 : this.grid.firstOf(cell);
      this.hovered = program < 0 || isClick ? -1 : this.grid.known(program);
      this.readout.textContent = program < 0 ? '' : this.cellText(cell);
      if (isClick && program >= 0) {
        this.go(program);
      }
      this.say();
    });
    pane.onKey(key => {
      const rows = cells.width * cells.row_step;
      const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: rows, ArrowUp: -rows }[key];
      if (by !== undefined) {
        this.go(this.program + by * (Math.abs(by) === 1 ? this.grid.step : 1));
      }
      return by !== undefined;
    });
    return pane;
  }

  private cellText(cell: number): string {
    const cells = this.record.cells!;
    const count = cells.programs[cell]!;
    const bytes = quantity(cells.moved_bytes[cell]!, 'B');
    const idle = cells.idle[cell]!;
    const mark = cells.marks[cell]!;
    return [
      count === 1
        ? `moves ${bytes}`
        : `${counted(count, 'program')} from this one on move ${bytes}`,
      idle > 0 ? (count === 1 ? 'idle' : `${whole(idle)} idle`) : '',
      (mark & SHARED) !== 0 ? 'race' : '',
      (mark & OUTSIDE) !== 0 ? 'block outside of its array' : '',
    ]
      .filter(text => text !== '')
      .join(', ');
  }

  private gridFigure(pane: CanvasPane): HTMLElement {
    const cells = this.record.cells!;
    const isBinned = cells.row_step * cells.column_step > 1;
    const each = isBinned
      ? `${whole(cells.row_step * cells.column_step)} programs each, by bytes moved`
      : 'by bytes moved';
    const legend = [
      this.record.idle_count > 0 ? 'hatched: idle' : '',
      this.record.sharing_count + this.record.outside_count > 0 ? 'red: wrong' : '',
    ].filter(text => text !== '');
    const width = Math.max(CAPTION_WIDTH, layCells(cells, GRID_SIZE - 2, GRID_SIZE).width + 2);
    return el(
      'figure',
      { class: 'pl-grid-programs', style: `width: ${Math.ceil(width)}px` },
      el('figcaption', {}, el('strong', {}, 'Programs'), ` ${[each, ...legend].join('; ')}`),
      pane.element,
      this.readout,
    );
  }

  // Operands ---------------------------------------------------------------------------------------

  private filter(): Content {
    if (this.pictures.length < 2) {
      return null;
    }
    const select = el(
      'select',
      { class: 'pl-select', 'aria-label': 'Operands that are shown' },
      el('option', { value: -1 }, 'all operands'),
      this.pictures.map(({ operand }, i) => el('option', { value: i }, oneLine(operand.name, 40))),
    );
    select.addEventListener('change', () => {
      const chosen = Number(select.value);
      this.pictures.forEach(({ element }, i) => (element.hidden = chosen >= 0 && chosen !== i));
    });
    return el(
      'div',
      { class: 'pl-grid-filter' },
      select,
      el('span', { class: 'pl-muted' }, 'shade: how often a part is moved'),
    );
  }

  private figures(): Content {
    return el(
      'div',
      { class: 'pl-grid-figures' },
      this.pictures.map(each => each.element),
    );
  }

  /** Lights up the programs that see the element under the pointer. */
  private point(operand: GridOperandRecord, place: readonly [number, number] | null): void {
    const found =
      place === null ? null : this.grid.seeing(operand, ...place, MAX_SEARCHED_PROGRAMS);
    this.lit = new Set(found?.programs.map(each => this.grid.cellOf(each)) ?? []);
    this.cells?.draw();
  }
}

/** Picture of an operand, with the block that a program accesses. */
class OperandPicture {
  readonly element: HTMLElement;
  readonly pane: CanvasPane;
  private program = 0;
  private readonly readout = el('output', { class: 'pl-muted' });
  private readonly slice = el('code', {});

  constructor(
    root: HTMLElement,
    private readonly grid: KernelGrid,
    readonly operand: GridOperandRecord,
    onPoint: (place: readonly [number, number] | null) => void,
  ) {
    const size = layOperand(operand, OPERAND_WIDTH, OPERAND_HEIGHT);
    this.pane = new CanvasPane('pl-grid-operand', labelOf(operand), (context, width, height) => {
      const block = grid.block(operand, this.program);
      const boxes = block === null ? [] : boxesOf(operand, block);
      const activity = grid.activity(operand, this.program);
      const layout = layOperand(operand, width, height);
      paintOperand(context, operand, layout, boxes, activity, readTheme(root));
    });
    this.pane.canvas.removeAttribute('tabindex');
    this.pane.element.style.cssText = `width: ${size.width + 2}px; height: ${size.height + 2}px`;
    this.pane.onPointer(place => {
      const layout = layOperand(operand, this.pane.width, this.pane.height);
      const element = place === null ? null : elementUnder(operand, layout, ...place);
      this.readout.textContent = element === null ? '' : readoutOf(operand, ...element);
      onPoint(element);
    });
    this.element = el(
      'figure',
      { style: `width: ${Math.max(MIN_FIGURE, size.width + 2)}px` },
      el(
        'figcaption',
        {},
        el('strong', {}, oneLine(operand.name, 40)),
        ` ${oneLine(operand.type, 40)} `,
        this.slice,
      ),
      this.pane.element,
      this.readout,
    );
  }

  show(program: number): void {
    this.program = program;
    const block = this.grid.block(this.operand, program);
    this.slice.textContent = block === null ? '' : sliceText(block);
    this.pane.draw();
  }
}

function labelOf(operand: GridOperandRecord): string {
  const { unseen_elements: unseen, shared_elements: shared } = operand;
  return [
    `${operand.role} ${operand.name}, ${operand.type}: ${counted(operand.block_count, 'block')}`,
    unseen ? `${counted(unseen, 'element')} never written` : '',
    shared ? `${counted(shared, 'element')} written by several programs at once` : '',
  ]
    .filter(text => text !== '')
    .join(', ');
}

/** Describes the element at a row and column. */
function readoutOf(operand: GridOperandRecord, row: number, column: number): string {
  const place = `[${elementAt(operand, row, column).join(', ')}]`;
  const { raster } = operand;
  if (raster === null) {
    return place;
  }
  const at = (edges: readonly number[], n: number): number => edges.findIndex(edge => edge > n) - 1;
  const columns = raster.column_edges.length - 1;
  const cell = at(raster.row_edges, row) * columns + at(raster.column_edges, column);
  const [visits, moves, mark] = [raster.visits[cell]!, raster.moves[cell]!, raster.marks[cell]!];
  const most = raster.is_exact ? '' : 'at most ';
  const facts =
    visits === 0
      ? ['no program sees it']
      : [`${most}${counted(visits, 'program')}`, `moved ${most}${moves} ×`];
  return [
    `${place}: ${facts.join(', ')}`,
    (mark & SHARED) !== 0 ? 'race' : '',
    (mark & UNSEEN) !== 0 && visits > 0 ? 'some elements here are never written' : '',
  ]
    .filter(text => text !== '')
    .join(', ');
}

function header(record: GridKernelRecord, notebook: NotebookLines | undefined): HTMLElement {
  return el(
    'header',
    { class: 'pl-array-header' },
    el('strong', {}, oneLine(record.name, 60)),
    record.source === null ? null : lineLink(record.source, record.line, notebook),
    chipsOf(record).map(text => el('span', { class: 'pl-chip' }, withTerms(text))),
  );
}

function chipsOf(record: GridKernelRecord): string[] {
  const { flops, moved_bytes: moved, least_bytes: least } = record;
  const ratio = least ? moved / least : null;
  return [
    record.grid.length > 0 ? `grid ${record.grid.map(whole).join(' × ')}` : '',
    record.grid.length > 0 || record.program_count > 0
      ? counted(record.program_count, 'program')
      : '',
    moved > 0 ? `${quantity(moved, 'B')} moved` : '',
    ratio === null
      ? ''
      : ratio === 1
        ? 'the least possible'
        : `${Number(ratio.toPrecision(3))} × the least possible`,
    flops !== null && moved > 0
      ? `${record.is_least ? 'at least ' : ''}${Number((flops / moved).toPrecision(3))} flops per byte`
      : '',
    record.stated_flops !== null
      ? `cost_estimate: ${quantity(record.stated_flops ?? 0, 'flop')}, ${quantity(record.stated_bytes ?? 0, 'B')}`
      : '',
    record.idle_count > 0 ? `${whole(record.idle_count)} idle` : '',
    record.parallel_axes.length > 0 ? `parallel: axis ${record.parallel_axes.join(', ')}` : '',
  ].filter(text => text !== '');
}

/** Faults of a grid, one sentence each. */
function faultsOf(record: GridKernelRecord): string[] {
  const { sharing_count: sharing, outside_count: outside } = record;
  return [
    record.refusal,
    sharing > 0
      ? `Race: ${counted(sharing, 'program')} along parallel axes write elements that others write, too.`
      : '',
    outside > 0 ? `Blocks outside of their arrays, in ${counted(outside, 'program')}.` : '',
    ...record.operands.map(({ name, unseen_elements: unseen }) =>
      unseen ? `No program writes ${counted(unseen, 'element')} of ${name}.` : '',
    ),
  ].filter(text => text !== '');
}

function operandsTable(record: GridKernelRecord, notebook: NotebookLines | undefined): HTMLElement {
  return tableOf(
    'Operands',
    [
      { name: 'Operand' },
      { name: 'Block' },
      { name: 'Moved', isNumber: true },
      { name: 'Bytes', isNumber: true },
      { name: 'Least', isNumber: true },
      { name: 'Not used' },
    ],
    record.operands.map((operand): Content[] => [
      [
        el('code', {}, oneLine(operand.name, 40)),
        el('div', { class: 'pl-muted' }, oneLine(operand.type, 40)),
      ],
      [
        operand.note === '' ? blockText(operand) : operand.note,
        el(
          'div',
          { class: 'pl-grid-line' },
          operand.source === null ? null : lineLink(operand.source, operand.line, notebook),
        ),
      ],
      [
        operand.fetch_count > 0 ? el('div', {}, `${whole(operand.fetch_count)} fetched`) : null,
        operand.write_count > 0 ? el('div', {}, `${whole(operand.write_count)} written`) : null,
      ],
      operand.note === '' ? quantity(operand.moved_bytes, 'B') : '',
      operand.least_bytes === null ? '' : quantity(operand.least_bytes, 'B'),
      unusedOf(operand).map(text => el('div', {}, text)),
    ]),
  );
}

function blockText(operand: GridOperandRecord): string {
  const { dims, block_count: count } = operand;
  if (dims.some(({ rule }) => rule === 'accessed')) {
    return 'parts that the body uses';
  }
  const sizes = dims.map(({ block }) => whole(block)).join(' × ');
  return `${counted(count, 'block')} of ${sizes === '' ? 'one element' : sizes}`;
}

function unusedOf(operand: GridOperandRecord): string[] {
  const percent = (share: number): string => `${Number((100 * share).toPrecision(3))} %`;
  const { beyond_share: beyond, masked_share: masked } = operand;
  return [
    beyond > 0 ? `${percent(beyond)} beyond the edge` : '',
    masked !== null && masked > 0 ? `${percent(masked)} masked` : '',
    operand.note === '' && !operand.is_masked_exactly ? 'masks that data choose' : '',
  ].filter(text => text !== '');
}

export const gridStyle = `
.pl-grid-view { max-height: none; }
.pl-grid-view .pl-array-header { flex-wrap: wrap; }
.pl-grid-view p { margin: 6px 12px; }
.pl-grid-fault { color: var(--pl-removed); white-space: pre-line; overflow-wrap: anywhere; font-size: 12px; }
.pl-grid-controls { display: flex; flex-wrap: wrap; align-items: center; gap: 4px 8px; padding: 4px 12px; }
.pl-grid-controls > input[type='range'] { flex: 1 1 160px; min-width: 100px; accent-color: var(--pl-accent); }
.pl-grid-axis { display: inline-flex; align-items: center; gap: 4px; font-size: 11px; color: var(--pl-muted); }
.pl-grid-axis input { width: 62px; height: 24px; padding: 0 4px; border: 1px solid var(--pl-line); border-radius: 5px; background: var(--pl-bg); }
.pl-grid-view .pl-grid-program { min-height: 1.5em; font-size: 12px; overflow-wrap: anywhere; }
@container pl-root (max-width: 620px) { .pl-grid-view .pl-grid-program { min-height: 4.5em; } }
.pl-grid-pictures { display: flex; flex-wrap: wrap; gap: 12px 28px; padding: 4px 12px 12px; align-items: flex-start; }
.pl-grid-view figure { margin: 0; min-width: 0; max-width: 100%; font-size: 12px; }
.pl-grid-view figure[hidden] { display: none; }
.pl-grid-view figcaption { margin-bottom: 4px; }
.pl-grid-view output { display: block; min-height: 1.5em; }
.pl-grid-programs { flex: none; }
.pl-grid-cells { width: 100%; max-width: ${GRID_SIZE}px; cursor: crosshair; }
.pl-grid-operands { flex: 1 1 280px; min-width: 0; }
.pl-grid-filter { display: flex; flex-wrap: wrap; gap: 4px 12px; align-items: center; margin-bottom: 8px; font-size: 12px; }
.pl-grid-figures { display: flex; flex-wrap: wrap; gap: 12px 24px; align-items: flex-start; }
@container pl-root (max-width: 480px) { .pl-grid-line { display: none; } .pl-grid-view .pl-table :is(th, td):last-child { display: none; } }
.pl-grid-operand { max-width: 100%; cursor: crosshair; }
.pl-grid-view figcaption code { display: block; font: 11px var(--pl-code); color: var(--pl-accent); }
`;
