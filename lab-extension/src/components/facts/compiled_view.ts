/** An executable: cost by source line, memory over its run, kernels and compiler passes. */

import type { CompiledRecord, KernelRecord } from '../../generated/introspect';
import { LiveMemory } from '../../records/live_memory';
import { Program } from '../../records/program';
import { drawn, el, type Content } from '../dom';
import { counted, oneLine, quantity } from '../format';
import { placeText } from '../graph/describe';
import { SourceLink, type ProgramEvents } from '../source_link';
import { meter, tableOf } from '../table';
import { withTerms } from '../terms';
import { FactsView } from './facts_view';
import { duration } from './misses_view';

const MAX_KERNELS = 500;
/** Number of lines shown before the list is expanded. */
const INITIAL_LINES = 5;
const MAX_LIVE_VALUES = 8;
const CURVE_WIDTH = 1000;
const CURVE_HEIGHT = 110;

/** The kernels of one source line. */
interface LineWork {
  /** An operation of the line; -1 if no line is known. */
  readonly equation: number;
  readonly text: string;
  readonly kernels: KernelRecord[];
  readonly flops: number;
  readonly bytes: number;
  readonly seconds: number;
}

type Order = 'seconds' | 'bytes' | 'flops' | 'kernels';

/**
 * View of an executable: estimated cost, memory in bytes, steps of compilation, and its lines
 * (its kernels if the record has no program).
 */
export function compiledView(record: CompiledRecord, events: ProgramEvents = {}): FactsView {
  const { memory, cost } = record;
  const program = record.program === null ? null : new Program(record.program);
  const least = cost.is_least ? 'at least ' : '';
  const chips = [
    counted(record.device_count, `${oneLine(record.platform, 20)} device`),
    cost.flops === null ? '' : `${least}${quantity(cost.flops, 'flop')} (estimate)`,
    cost.bytes_accessed === null
      ? ''
      : `${least}${quantity(cost.bytes_accessed, 'B')} moved (estimate)`,
    `peak ${quantity(memory.peak_bytes, 'B')}`,
  ].filter(Boolean);
  return new FactsView(
    oneLine(record.name, 80),
    chips,
    program === null ? null : linesSection(linesOf(program, record.kernels), program, events),
    program === null ? null : memoryCurve(program, memory.peak_bytes, events),
    memoryTable(record),
    passesTable(record),
    program === null ? kernelsTable(record.kernels) : null,
  );
}

function memoryTable({ memory }: CompiledRecord): HTMLElement {
  const parts: [string, number][] = [
    ['arguments', memory.argument_bytes],
    ['results', memory.output_bytes],
    ['in donated arguments', memory.alias_bytes],
    ['temporary', memory.temporary_bytes],
    ['code', memory.code_bytes],
  ];
  const most = Math.max(1, ...parts.map(([, bytes]) => bytes));
  return tableOf(
    'Memory on one device',
    [{ name: 'Memory' }, { name: 'Bytes', isNumber: true }, { name: '' }],
    parts
      .filter(([, bytes]) => bytes > 0)
      .map(([name, bytes]) => [withTerms(name), quantity(bytes, 'B'), meter(bytes / most)]),
  );
}

function passesTable({ phases }: CompiledRecord): HTMLElement | null {
  if (phases.length === 0) {
    return null;
  }
  const total = phases.reduce((sum, phase) => sum + phase.seconds, 0);
  return tableOf(
    'Steps of compiling',
    [{ name: 'Step of compiling' }, { name: duration(total), isNumber: true }, { name: '' }],
    phases.map(phase => [
      withTerms(oneLine(phase.name, 60)),
      duration(phase.seconds),
      meter(phase.seconds / Math.max(total, 1e-9)),
    ]),
  );
}

/** Groups kernels by the source line they come from. */
function linesOf(program: Program, kernels: readonly KernelRecord[]): LineWork[] {
  const lines = new Map<string, LineWork>();
  for (const kernel of kernels) {
    const own = [{ equation: kernel.hlo_equation, share: 1 }];
    const shares = new Map<string, { row: number; text: string; share: number }>();
    for (const { equation, share } of kernel.lines.length > 0 ? kernel.lines : own) {
      const row = program.equationOfId(equation) ?? -1;
      const span = row < 0 ? null : program.spanOf(row);
      const source = span === null ? undefined : program.sources[span.source];
      const text = source?.lines?.[span!.line - source.first_line]?.trim() ?? '';
      const key = span === null ? '' : `${span.source}:${span.line}`;
      const known = shares.get(key)?.share ?? 0;
      shares.set(key, {
        row: span === null ? -1 : row,
        text: text || (span === null ? 'no line known' : placeText(program, row)),
        share: known + share,
      });
    }
    for (const [key, { row, text, share }] of shares) {
      const part = partOf(kernel, share);
      const known = lines.get(key);
      lines.set(key, {
        equation: known?.equation ?? row,
        text,
        kernels: [...(known?.kernels ?? []), part],
        flops: (known?.flops ?? 0) + (part.flops ?? 0),
        bytes: (known?.bytes ?? 0) + (part.bytes_accessed ?? 0),
        seconds: (known?.seconds ?? 0) + (part.seconds ?? 0),
      });
    }
  }
  return [...lines.values()];
}

/** The part of a kernel that belongs to one line; its name then includes the share. */
function partOf(kernel: KernelRecord, share: number): KernelRecord {
  if (share > 0.999) {
    return kernel;
  }
  const times = (value: number | null): number | null => (value === null ? null : share * value);
  return {
    ...kernel,
    name: `${(share * 100).toFixed(0)} % of ${kernel.name}`,
    flops: times(kernel.flops),
    bytes_accessed: times(kernel.bytes_accessed),
    seconds: times(kernel.seconds),
  };
}

/** Source lines with their shares in a selectable order; each expands to its kernels. */
function linesSection(
  lines: readonly LineWork[],
  program: Program,
  events: ProgramEvents,
): HTMLElement {
  const place = el('div', {});
  const isTimed = lines.some(line => isMeasured(line.kernels));
  const order = el(
    'select',
    { class: 'pl-select', 'aria-label': 'Order of lines' },
    isTimed ? el('option', { value: 'seconds' }, 'by time') : null,
    el('option', { value: 'bytes' }, 'by traffic'),
    el('option', { value: 'flops' }, 'by arithmetic'),
    el('option', { value: 'kernels' }, 'by number of kernels'),
  );
  const amount = (line: LineWork, by: Order): number =>
    by === 'kernels' ? line.kernels.length : line[by];
  let isWhole = false;
  const fill = (): void => {
    const by = order.value as Order;
    const total = lines.reduce((sum, line) => sum + amount(line, by), 0);
    const sorted = [...lines].sort((a, b) => amount(b, by) - amount(a, by));
    const rows = sorted.slice(0, isWhole ? undefined : INITIAL_LINES).map((line): Content[] => {
      const share = total > 0 ? amount(line, by) / total : 0;
      const inferred = line.kernels.filter(kernel => kernel.is_line_inferred).length;
      const note = inferred > 0 ? `, of ${inferred} the line is inferred` : '';
      const kernels = counted(line.kernels.length, 'kernel') + note;
      return [
        [
          el('code', {}, oneLine(line.text, 90)),
          linkTo(program, line.equation, events),
          el('details', {}, el('summary', {}, kernels), kernelsTable(line.kernels)),
        ],
        `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`,
        meter(share),
        ...(isTimed ? [duration(line.seconds)] : []),
        quantity(line.bytes, 'B'),
        quantity(line.flops, 'flop'),
      ];
    });
    const columns = [
      { name: `Line (${counted(lines.length, 'line')})` },
      { name: 'Share', isNumber: true },
      { name: '' },
      ...(isTimed ? [{ name: 'Time', isNumber: true }] : []),
      { name: 'Traffic', isNumber: true },
      { name: 'Work', isNumber: true },
    ];
    const more = lines.length - rows.length;
    const button = el('button', { type: 'button', class: 'pl-link' }, `${more} more`);
    button.addEventListener('click', () => {
      isWhole = true;
      fill();
    });
    place.replaceChildren(tableOf('Kernels by line', columns, rows), ...(more > 0 ? [button] : []));
  };
  order.addEventListener('change', fill);
  fill();
  return el('section', { class: 'pl-by-line' }, el('div', { class: 'pl-order' }, order), place);
}

function linkTo(program: Program, equation: number, events: ProgramEvents): HTMLElement | null {
  if (equation < 0) {
    return null;
  }
  const link = new SourceLink(events.notebook);
  link.show(program, [equation]);
  return el('div', {}, link.element);
}

function isMeasured(kernels: readonly KernelRecord[]): boolean {
  return kernels.some(kernel => (kernel.seconds ?? null) !== null);
}

function kernelsTable(kernels: readonly KernelRecord[]): HTMLElement {
  const isTimed = isMeasured(kernels);
  return tableOf(
    'Kernels',
    [
      { name: counted(kernels.length, 'kernel') },
      { name: 'Kind' },
      { name: 'Work', isNumber: true },
      { name: 'Traffic', isNumber: true },
      ...(isTimed ? [{ name: 'Time', isNumber: true }] : []),
    ],
    [...kernels]
      .sort((a, b) => (b.seconds ?? 0) - (a.seconds ?? 0) || weight(b) - weight(a))
      .slice(0, MAX_KERNELS)
      .map(kernel => [
        [el('code', {}, oneLine(kernel.name, 80)), runsText(kernel)],
        kernel.is_line_inferred ? `${kernel.category} (line inferred)` : kernel.category,
        kernel.flops === null ? '' : quantity(kernel.flops, 'flop'),
        kernel.bytes_accessed === null ? '' : quantity(kernel.bytes_accessed, 'B'),
        ...(isTimed ? [duration(kernel.seconds ?? 0)] : []),
      ]),
  );
}

/** Suffix with the number of runs of a kernel in one run of the executable; nothing for one run. */
function runsText({ executions }: KernelRecord): HTMLElement | null {
  if (executions === 1 || executions === undefined) {
    return null;
  }
  const text = executions === null ? 'runs not known' : `× ${executions.toLocaleString('en-US')}`;
  return el('span', { class: 'pl-muted' }, ` ${text}`);
}

/** Sort key of a kernel: a byte moved counts as much as an arithmetic operation. */
function weight(kernel: KernelRecord): number {
  return (kernel.flops ?? 0) + (kernel.bytes_accessed ?? 0);
}

/**
 * Memory in use over the operations of the program, with the live values at a selectable one (at
 * first the peak).
 */
function memoryCurve(
  program: Program,
  compilerPeak: number,
  events: ProgramEvents,
): HTMLElement | null {
  const live = new LiveMemory(program);
  const count = live.bytes.length;
  if (live.peak < 0 || !(live.bytes[live.peak]! > 0)) {
    return null;
  }
  const most = live.bytes[live.peak]!;
  const x = (step: number): number => (step / count) * CURVE_WIDTH;
  const y = (bytes: number): number => CURVE_HEIGHT - (bytes / most) * (CURVE_HEIGHT - 6);
  const steps = Array.from(live.bytes, (bytes, step) => {
    return `L${x(step).toFixed(1)},${y(bytes).toFixed(1)}L${x(step + 1).toFixed(1)},${y(bytes).toFixed(1)}`;
  });
  const curve = drawn('path', {
    d: `M0,${CURVE_HEIGHT}${steps.join('')}L${CURVE_WIDTH},${CURVE_HEIGHT}Z`,
    class: 'pl-curve',
  });
  const cursor = drawn('line', { y1: 0, y2: CURVE_HEIGHT, class: 'pl-curve-cursor' });
  const picture = drawn(
    'svg',
    {
      viewBox: `0 0 ${CURVE_WIDTH} ${CURVE_HEIGHT}`,
      preserveAspectRatio: 'none',
      class: 'pl-memory-curve',
      role: 'slider',
      tabindex: 0,
      'aria-label': 'Operation of the program at which memory is shown',
      'aria-valuemin': 1,
      'aria-valuemax': count,
    },
    curve,
    cursor,
  );
  const title = el('p', { 'aria-live': 'polite' });
  const table = el('div', {});
  let shown = -1;
  const show = (step: number): void => {
    shown = Math.max(0, Math.min(count - 1, step));
    const equation = program.bodies[0]!.first + shown;
    const values = live.at(shown);
    const middle = String(x(shown + 0.5));
    cursor.setAttribute('x1', middle);
    cursor.setAttribute('x2', middle);
    picture.setAttribute('aria-valuenow', String(shown + 1));
    const isPeak = shown === live.peak ? 'the peak: ' : '';
    const where = [`operation ${shown + 1} of ${count}`, placeText(program, equation)];
    title.textContent = `${isPeak}${quantity(live.bytes[shown]!, 'B')} at ${where.filter(Boolean).join(', ')}`;
    const rows = values
      .slice(0, MAX_LIVE_VALUES)
      .map(({ value, bytes }): Content[] => [
        el('code', {}, oneLine(program.valueName(value), 60)),
        el('code', {}, oneLine(program.typeOf(value).text, 40)),
        quantity(bytes, 'B'),
        meter(bytes / live.bytes[shown]!),
        program.definers[value]! < 0
          ? 'argument'
          : linkTo(program, program.definers[value]!, events),
      ]);
    if (live.inside[shown]! > 0) {
      rows.unshift([
        `within ${oneLine(program.primitive(equation), 30)}`,
        '',
        quantity(live.inside[shown]!, 'B'),
        meter(live.inside[shown]! / live.bytes[shown]!),
        linkTo(program, equation, events),
      ]);
    }
    const columns = [
      { name: `${counted(values.length, 'value')} in use` },
      { name: 'type' },
      { name: 'bytes', isNumber: true },
      { name: '' },
      { name: 'made at' },
    ];
    table.replaceChildren(tableOf('Values in use', columns, rows));
  };
  picture.addEventListener('pointermove', event => {
    const { left, width } = picture.getBoundingClientRect();
    show(Math.floor(((event.clientX - left) / width) * count));
  });
  picture.addEventListener('pointerleave', () => show(live.peak));
  picture.addEventListener('keydown', event => {
    const by = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
    if (by !== 0) {
      show(shown + by);
      event.preventDefault();
    }
  });
  show(live.peak);
  return el(
    'section',
    { class: 'pl-memory-over-program' },
    el('h4', {}, 'Memory over the program'),
    el(
      'p',
      { class: 'pl-muted' },
      `Estimated from lifetimes in the order of the program; the compiler shares memory and says ${quantity(compilerPeak, 'B')}.`,
    ),
    picture,
    title,
    table,
  );
}

export const compiledStyle = `
.pl-order { display: flex; justify-content: flex-end; padding: 4px 12px; }
.pl-by-line { container-type: inline-size; padding-bottom: 6px; }
.pl-by-line > div > .pl-link { margin: 4px 12px; }
@container (max-width: 560px) { .pl-by-line > div > .pl-table > * > tr > :nth-child(n + 4) { display: none; } }
.pl-by-line details { font-size: 11px; color: var(--pl-muted); }
.pl-by-line summary { cursor: pointer; }
.pl-by-line .pl-table .pl-table { background: var(--pl-sunken); }
.pl-memory-over-program { container-type: inline-size; padding: 8px 12px; border-top: 1px solid var(--pl-line); border-bottom: 1px solid var(--pl-line); }
@container (max-width: 560px) { .pl-memory-over-program .pl-table > * > tr > :is(:nth-child(2), :nth-child(4)) { display: none; } }
.pl-memory-over-program h4 { margin: 0; font-size: 12px; }
.pl-memory-over-program p { margin: 4px 0; font-size: 12px; }
.pl-memory-curve { width: 100%; height: ${CURVE_HEIGHT}px; display: block; cursor: crosshair; background: var(--pl-sunken); border-radius: 4px; }
.pl-curve { fill: color-mix(in srgb, var(--pl-accent) 30%, transparent); stroke: var(--pl-accent); stroke-width: 1.5; vector-effect: non-scaling-stroke; }
.pl-curve-cursor { stroke: var(--pl-text); stroke-width: 1; vector-effect: non-scaling-stroke; }
`;
