/**
 * Comparison of two ways of running a call: error of each equation, where it begins and where it
 * grows.
 */

import type { DivergenceRecord } from '../../generated/debugger';
import { drawn, el, type Content } from '../dom';
import { counted, oneLine, whole } from '../format';
import { FactsView } from '../facts/facts_view';
import { tableOf } from '../table';
import type { NotebookLines, ProgramEvents } from '../source_link';
import { lineOf } from './line_links';

const WIDTH = 640;
const HEIGHT = 160;
/**
 * Minimum width of the chart in CSS pixels. In narrower views it scrolls, to keep its numbers
 * readable.
 */
const MIN_WIDTH = 460;
const PADDING = { left: 46, right: 8, top: 14, bottom: 18 };
/**
 * Maximum number of points. If there are more equations, each point has the largest error of
 * several.
 */
const MAX_POINTS = 200;
const MAX_ROWS = 12;
const RADIUS = 2.5;

interface Point {
  readonly first: number;
  /** The equation with the largest error at this point. */
  readonly worst: number;
  /** Null for an error that isn't finite. */
  readonly error: number | null;
}

/**
 * View of the operations whose results differ between two runs: the first, the one with the
 * largest error, and how errors grow.
 */
export function divergenceView(
  record: DivergenceRecord,
  { notebook }: ProgramEvents = {},
): FactsView {
  const { error, primitive, line } = record.equations;
  const differing = error.flatMap((each, i) => (each === 0 ? [] : [i]));
  const chips = [
    differing.length === 0
      ? 'equal to the bit'
      : `${whole(differing.length)} of ${counted(error.length, 'operation')} differ`,
    ...(record.unmatched > 0
      ? [`${counted(record.unmatched, 'operation')} without counterpart`]
      : []),
  ];
  const title = `${oneLine(record.a, 60)} and ${oneLine(record.b, 60)}`;
  if (differing.length === 0) {
    return new FactsView(title, chips);
  }
  const named = (i: number): Content => [
    el('code', {}, oneLine(primitive[i]!, 60)),
    ` ${numberText(error[i]!)} `,
    el('span', { class: 'pl-muted' }, lineOf(record.places, i, line[i]!, notebook)),
  ];
  const largest = differing.reduce((a, b) => (sizeOf(error[b]!) > sizeOf(error[a]!) ? b : a));
  return new FactsView(
    title,
    chips,
    el('p', {}, 'First differ at ', named(differing[0]!)),
    el('p', {}, 'Largest error at ', named(largest)),
    chartOf(record),
    growthTable(record, differing, notebook),
  );
}

function sizeOf(error: number | null): number {
  return error ?? Infinity;
}

function numberText(error: number | null): string {
  return error === null ? 'not finite' : String(Number(error.toPrecision(3)));
}

/** Error of an equation's results divided by that of its operands. */
function growthOf(record: DivergenceRecord, i: number): number {
  const { error, operand_error: operands } = record.equations;
  const before = operands[i]!;
  if (before === null) {
    return 1;
  }
  return before === 0 ? Infinity : sizeOf(error[i]!) / before;
}

/** The equations whose error grows most, in execution order. */
function growthTable(
  record: DivergenceRecord,
  differing: readonly number[],
  notebook: NotebookLines | undefined,
): HTMLElement {
  const { primitive, line, error } = record.equations;
  const byGrowth = differing
    .map(i => ({ i, growth: growthOf(record, i) }))
    .sort((a, b) => (a.growth === b.growth ? a.i - b.i : b.growth - a.growth))
    .slice(0, MAX_ROWS)
    .sort((a, b) => a.i - b.i);
  return tableOf(
    'Operations whose error grows most',
    [{ name: 'Operation' }, { name: 'Error', isNumber: true }, { name: 'Growth', isNumber: true }],
    byGrowth.map(({ i, growth }) => [
      [
        el('code', {}, oneLine(primitive[i]!, 60)),
        el('div', { class: 'pl-muted' }, lineOf(record.places, i, line[i]!, notebook)),
      ],
      numberText(error[i]!),
      growth === Infinity
        ? record.equations.operand_error[i] === 0
          ? 'new'
          : '∞'
        : `${numberText(growth)} ×`,
    ]),
  );
}

function pointsOf(errors: readonly (number | null)[]): Point[] {
  const step = Math.max(1, Math.ceil(errors.length / MAX_POINTS));
  const points: Point[] = [];
  for (let first = 0; first < errors.length; first += step) {
    let worst = first;
    for (let i = first; i < Math.min(first + step, errors.length); i += 1) {
      worst = sizeOf(errors[i]!) > sizeOf(errors[worst]!) ? i : worst;
    }
    points.push({ first, worst, error: errors[worst]! });
  }
  return points;
}

function chartOf(record: DivergenceRecord): HTMLElement {
  const { error, primitive, line } = record.equations;
  const points = pointsOf(error);
  const sizes = points.flatMap(({ error: e }) => (e === null || e === 0 ? [] : [Math.log10(e)]));
  const low = Math.floor(Math.min(...sizes, 0) - 0.5);
  const high = Math.max(Math.ceil(Math.max(...sizes, low + 1)), low + 1);
  const bottom = HEIGHT - PADDING.bottom;
  const x = (i: number): number =>
    PADDING.left + ((WIDTH - PADDING.left - PADDING.right) * i) / Math.max(error.length - 1, 1);
  const y = (value: number | null): number => {
    if (value === null) {
      return PADDING.top - 6;
    }
    const share = value === 0 ? 0 : (Math.log10(value) - low) / (high - low);
    return bottom - share * (bottom - PADDING.top);
  };
  const svg = drawn('svg', {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    role: 'img',
    'aria-label': 'Error of each operation',
    class: 'pl-errors',
  });
  const step = Math.max(1, Math.ceil((high - low) / 4));
  for (let power = low; power <= high; power += step) {
    const at = y(10 ** power);
    svg.append(
      drawn('line', { x1: PADDING.left, x2: WIDTH - PADDING.right, y1: at, y2: at }),
      textAt(PADDING.left - 4, at + 4, `1e${power}`, 'end'),
    );
  }
  svg.append(
    textAt(PADDING.left, HEIGHT - 4, 'first operation', 'start'),
    textAt(WIDTH - PADDING.right, HEIGHT - 4, 'last', 'end'),
    drawn('polyline', {
      points: points.map(({ worst, error: e }) => `${x(worst)},${y(e)}`).join(' '),
    }),
  );
  const readout = el('output', { class: 'pl-muted' });
  const describe = ({ worst, error: e }: Point): void => {
    readout.textContent = `${worst + 1} of ${whole(error.length)}: ${oneLine(primitive[worst]!, 60)} ${numberText(e)} ${oneLine(line[worst]!, 100)}`;
  };
  for (const point of points) {
    svg.append(
      drawn('circle', {
        cx: x(point.worst),
        cy: y(point.error),
        r: RADIUS,
        class: point.error === null ? 'pl-errors-infinite' : '',
      }),
    );
  }
  svg.addEventListener('pointermove', event => {
    const box = svg.getBoundingClientRect();
    const at = ((event.clientX - box.left) / Math.max(box.width, 1)) * WIDTH;
    const distance = (point: Point): number => Math.abs(x(point.worst) - at);
    describe(points.reduce((a, b) => (distance(b) < distance(a) ? b : a)));
  });
  svg.addEventListener('pointerleave', () => {
    readout.textContent = '';
  });
  return el(
    'figure',
    {},
    svg,
    el(
      'figcaption',
      { class: 'pl-muted' },
      'Largest difference of two elements, relative to the largest element of the second run',
    ),
    readout,
  );
}

function textAt(x: number, y: number, text: string, anchor: string): SVGTextElement {
  const element = drawn('text', { x, y, 'text-anchor': anchor });
  element.textContent = text;
  return element;
}

export const divergenceStyle = `
.pl-report > figure { margin: 8px 12px; overflow-x: auto; }
.pl-errors { display: block; width: 100%; min-width: ${MIN_WIDTH}px; max-width: ${WIDTH}px; height: auto; }
.pl-errors line { stroke: var(--pl-line); }
.pl-errors text { fill: var(--pl-muted); font-size: 11px; }
.pl-errors polyline { fill: none; stroke: var(--pl-accent); stroke-width: 1.2; opacity: 0.6; }
.pl-errors circle { fill: var(--pl-accent); }
.pl-errors .pl-errors-infinite { fill: var(--pl-removed); }
.pl-report > figure > output { display: block; min-height: 1.4em; overflow-wrap: anywhere; }
`;
