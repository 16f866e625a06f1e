/** Parts of a session besides its operations: collectives, compilation, host, memory. */

import type { ProfileRecord, ProgramMemoryRecord, TotalsRecord } from '../../generated/profiler';
import { drawn, el, type Content } from '../dom';
import { duration } from '../facts/misses_view';
import { counted, oneLine, quantity, whole } from '../format';
import { meter, tableOf } from '../table';
import { withTerms } from '../terms';

const MAX_STEPS = 100;

/** Waiting and exchange time of each collective. */
export function collectivesView(record: ProfileRecord): HTMLElement {
  const { collectives, strings } = record;
  const longest = collectives.wait_seconds.reduce(
    (most, wait, i) => Math.max(most, wait + collectives.work_seconds[i]!),
    1e-12,
  );
  const rows = collectives.name.map((name, i): Content[] => {
    const wait = collectives.wait_seconds[i]!;
    const work = collectives.work_seconds[i]!;
    const axes = strings[collectives.axes[i]!]!;
    const straggler = collectives.straggler[i]!;
    return [
      [
        el('code', {}, oneLine(strings[name]!, 60)),
        el('div', { class: 'pl-muted' }, oneLine(strings[collectives.place[i]!]!, 80)),
      ],
      [axes, el('div', { class: 'pl-muted' }, counted(collectives.group_size[i]!, 'device'))],
      whole(collectives.count[i]!),
      quantity(collectives.sent_bytes[i]!, 'B'),
      [duration(wait), parts([wait, work], longest)],
      duration(work),
      straggler < 0 ? '' : `device ${straggler}`,
    ];
  });
  return scroll(
    key(['waiting for the last device', 'working']),
    tableOf(
      'Collectives',
      [
        { name: 'Operation' },
        { name: 'Along' },
        { name: 'Count', isNumber: true },
        { name: 'Sent, estimated', isNumber: true },
        { name: 'Waiting', isNumber: true },
        { name: 'Working', isNumber: true },
        { name: 'Last' },
      ],
      rows,
    ),
  );
}

/** Functions that were traced and compiled, and the steps of XLA's compilations. */
export function compilationView(record: ProfileRecord): HTMLElement {
  const rows = record.compilations.map((each): Content[] => [
    [
      el('code', {}, oneLine(each.function, 60)),
      each.place === ''
        ? null
        : el('div', { class: 'pl-muted' }, `called in ${oneLine(each.place, 60)}`),
    ],
    duration(each.trace_seconds),
    duration(each.lower_seconds),
    duration(each.compile_seconds),
    each.causes.length === 0
      ? 'first call'
      : each.causes.map(cause => el('div', {}, oneLine(cause, 200))),
  ]);
  return scroll(
    tableOf(
      'Compilations',
      [
        { name: 'Function' },
        { name: 'Traced', isNumber: true },
        { name: 'Lowered', isNumber: true },
        { name: 'Compiled', isNumber: true },
        { name: 'Because' },
      ],
      rows,
    ),
    stepsOf(record),
  );
}

const PHASES = ['passes', 'kernels', 'machine code', 'rest'];

function stepsOf({ compile_steps: steps, strings }: ProfileRecord): Content {
  if (steps.name.length === 0) {
    return null;
  }
  const total = steps.seconds.reduce((sum, each) => sum + each, 0) || 1;
  const seconds = PHASES.map(phase =>
    steps.seconds.reduce(
      (sum, each, i) => (strings[steps.phase[i]!] === phase ? sum + each : sum),
      0,
    ),
  );
  const named = 100 * (1 - seconds[3]! / total);
  const rows = steps.name
    .slice(0, MAX_STEPS)
    .map((name, i): Content[] => [
      [
        el('code', {}, oneLine(strings[name]!, 60)),
        el('div', { class: 'pl-muted' }, oneLine(strings[steps.place[i]!]!, 80)),
      ],
      strings[steps.phase[i]!]!,
      oneLine(strings[steps.program[i]!]!, 40),
      whole(steps.count[i]!),
      steps.seconds[i]! > 0 ? [duration(steps.seconds[i]!), meter(steps.seconds[i]! / total)] : '',
      steps.thread_seconds[i]! > 0 ? duration(steps.thread_seconds[i]!) : '',
    ]);
  const left = steps.name.length - rows.length;
  return [
    el(
      'h4',
      { class: 'pl-part-title' },
      `XLA compiled for ${duration(total)}, ${named.toFixed(0)} % of it named`,
    ),
    parts(seconds, total),
    key(PHASES.map((phase, i) => `${phase} ${duration(seconds[i]!)}`)),
    tableOf(
      'Steps of compilation',
      [
        { name: 'Step' },
        { name: 'Phase' },
        { name: 'Program' },
        { name: 'Count', isNumber: true },
        { name: 'Time', isNumber: true },
        { name: 'On other threads', isNumber: true },
      ],
      rows,
    ),
    left > 0 ? el('p', { class: 'pl-muted' }, `${counted(left, 'shorter step')} not listed`) : null,
  ];
}

/** Time of the calling threads by activity, and the transfers by line. */
export function hostView(record: ProfileRecord): HTMLElement {
  const { host, transfers, callbacks, strings } = record;
  const wall = record.totals.wall_seconds || 1;
  const rows = host.activity
    .map((_, i) => i)
    .filter(i => host.seconds[i]! > 0)
    .map((i): Content[] => [
      strings[host.activity[i]!]!,
      strings[host.thread[i]!]!,
      host.count[i] === 0 ? '' : whole(host.count[i]!),
      [duration(host.seconds[i]!), meter(host.seconds[i]! / wall)],
      `${((100 * host.seconds[i]!) / wall).toFixed(0)} %`,
    ]);
  const moved = transfers.place.map((place, i): Content[] => [
    strings[transfers.direction[i]!]!,
    strings[place]! || 'no line',
    whole(transfers.count[i]!),
    quantity(transfers.bytes[i]!, 'B'),
  ]);
  return scroll(
    tableOf(
      'Activities of the calling threads',
      [
        { name: 'Activity' },
        { name: 'Thread' },
        { name: 'Count', isNumber: true },
        { name: 'Time', isNumber: true },
        { name: 'Share', isNumber: true },
      ],
      rows,
    ),
    callbacks.function.length === 0
      ? null
      : [
          el('h4', { class: 'pl-part-title' }, withTerms('Callbacks')),
          tableOf(
            'Callbacks',
            [
              { name: 'Function' },
              { name: 'Count', isNumber: true },
              { name: 'Time', isNumber: true },
              { name: 'Threads', isNumber: true },
            ],
            callbacks.function.map((name, i): Content[] => [
              [
                el('code', {}, oneLine(strings[name]!, 60)),
                el('div', { class: 'pl-muted' }, oneLine(strings[callbacks.place[i]!]!, 80)),
              ],
              whole(callbacks.count[i]!),
              [duration(callbacks.seconds[i]!), meter(callbacks.seconds[i]! / wall)],
              whole(callbacks.thread_count[i]!),
            ]),
          ),
        ],
    moved.length === 0
      ? null
      : [
          el('h4', { class: 'pl-part-title' }, withTerms('Transfers')),
          tableOf(
            'Transfers',
            [
              { name: 'Direction' },
              { name: 'Line' },
              { name: 'Count', isNumber: true },
              { name: 'Bytes', isNumber: true },
            ],
            moved,
          ),
        ],
  );
}

/** Live arrays over the session, arrays by line, and the memory of programs over their runs. */
export function memoryView(record: ProfileRecord): HTMLElement {
  return scroll(
    arraysOf(record),
    record.memory.map(memory => memoryOf(memory)),
  );
}

/** Plot of the bytes of live arrays over the session, and the arrays by line. */
function arraysOf({ live_arrays: live, heap, strings, totals }: ProfileRecord): Content {
  const most = Math.max(...live.bytes, 1);
  const titles = live.bytes.map(
    (bytes, i) => `${quantity(bytes, 'B')} in ${counted(live.count[i]!, 'array')}`,
  );
  const first = live.bytes[0] ?? 0;
  const last = live.bytes[live.bytes.length - 1] ?? 0;
  const text = `${quantity(first, 'B')} at the begin, ${quantity(most, 'B')} at most, ${quantity(last, 'B')} at the end`;
  const peak = Math.max(...heap.peak_bytes, 1);
  return live.time_ns.length === 0
    ? null
    : [
        el(
          'h4',
          { class: 'pl-part-title' },
          'Live arrays',
          el('span', { class: 'pl-muted' }, ` on all devices: ${text}`),
        ),
        steps(text, live.time_ns, live.bytes, titles, totals),
        tableOf(
          'Live arrays by line',
          [
            { name: 'Made in' },
            { name: 'At the begin', isNumber: true },
            { name: 'At the peak', isNumber: true },
            { name: 'At the end', isNumber: true },
            { name: 'Buffers', isNumber: true },
          ],
          heap.place.map((place, i): Content[] => [
            oneLine(strings[place]!, 80) || 'no line',
            quantity(heap.begin_bytes[i]!, 'B'),
            [quantity(heap.peak_bytes[i]!, 'B'), meter(heap.peak_bytes[i]! / peak)],
            quantity(heap.end_bytes[i]!, 'B'),
            whole(heap.end_count[i]!),
          ]),
        ),
      ];
}

/** Plots of each GPU counter over the session. */
export function countersView({ counters, totals }: ProfileRecord): HTMLElement {
  return scroll(
    counters.map(counter => {
      const shown = (value: number): string =>
        counter.is_bytes ? quantity(value, 'B') : Number(value.toPrecision(4)).toString();
      const least = Math.min(...counter.value);
      const most = Math.max(...counter.value);
      const text = `${shown(least)} to ${shown(most)}`;
      return [
        el(
          'h4',
          { class: 'pl-part-title' },
          `${oneLine(counter.name, 80)} of device ${counter.device}`,
          el('span', { class: 'pl-muted' }, ` ${text}`),
        ),
        steps(text, counter.time_ns, counter.value, counter.value.map(shown), totals),
      ];
    }),
  );
}

/** Step plot of samples over the session; each sample lasts until the next one. */
function steps(
  label: string,
  times: readonly number[],
  values: readonly number[],
  titles: readonly string[],
  totals: TotalsRecord,
): SVGElement {
  const end = Math.max(1e9 * totals.wall_seconds, times[times.length - 1] ?? 0, 1);
  const most = Math.max(...values, Number.MIN_VALUE);
  const bars = times.map((time, i) => {
    const next = times[i + 1] ?? end;
    const height = Math.max(0, (100 * values[i]!) / most);
    return drawn(
      'rect',
      {
        x: `${(100 * time) / end}%`,
        width: `${(100 * (next - time)) / end}%`,
        y: `${100 - height}%`,
        height: `${height}%`,
      },
      drawn('title', {}, new Text(`${titles[i]!} at ${duration(time / 1e9)}`)),
    );
  });
  return drawn('svg', { class: 'pl-memory-plot', role: 'img', 'aria-label': label }, ...bars);
}

function memoryOf(memory: ProgramMemoryRecord): Content {
  const count = memory.instruction_count || 1;
  const peak = memory.peak_bytes || 1;
  const bars = memory.positions.map((position, i) => {
    const next = memory.positions[i + 1] ?? count;
    const height = (100 * memory.live_bytes[i]!) / peak;
    return drawn('rect', {
      x: `${(100 * position) / count}%`,
      width: `${(100 * (next - position)) / count}%`,
      y: `${100 - height}%`,
      height: `${height}%`,
    });
  });
  const at = `${(100 * (memory.peak + 0.5)) / count}%`;
  const line = drawn('line', { x1: at, x2: at, y1: '0%', y2: '100%' });
  const gaps = memory.allocated_bytes - memory.peak_bytes;
  const allocated =
    gaps > peak / 100 ? `, of ${quantity(memory.allocated_bytes, 'B')} allocated` : '';
  const text = `${quantity(peak, 'B')}${allocated}, at instruction ${memory.peak + 1} of ${count}, ${oneLine(memory.peak_instruction, 40)}`;
  return [
    el(
      'h4',
      { class: 'pl-part-title' },
      el('code', {}, oneLine(memory.program, 60)),
      el('span', { class: 'pl-muted' }, ` most on one device: ${text}`),
    ),
    drawn('svg', { class: 'pl-memory-plot', role: 'img', 'aria-label': text }, ...bars, line),
    tableOf(
      `Buffers at the peak of ${memory.program}`,
      [{ name: 'Buffer' }, { name: 'Line' }, { name: 'Kind' }, { name: 'Bytes', isNumber: true }],
      memory.buffer_names.map((name, i): Content[] => [
        el('code', {}, oneLine(name, 60)),
        memory.buffer_places[i] || 'no line',
        memory.buffer_kinds[i]!,
        [quantity(memory.buffer_bytes[i]!, 'B'), meter(memory.buffer_bytes[i]! / peak)],
      ]),
    ),
  ];
}

function scroll(...content: Content[]): HTMLElement {
  return el('div', { class: 'pl-profile-scroll' }, ...content);
}

/** A bar divided into parts; its total length is the share of their sum in `whole`. */
function parts(seconds: readonly number[], whole: number): HTMLElement {
  const pieces = seconds.map((each, i) => {
    const piece = el('span', { class: `pl-part-${i}` });
    piece.style.width = `${((100 * each) / whole).toFixed(2)}%`;
    return piece;
  });
  return el('span', { class: 'pl-parts', 'aria-hidden': 'true' }, pieces);
}

function key(names: readonly string[]): HTMLElement {
  return el(
    'div',
    { class: 'pl-parts-key' },
    names.map((name, i) => el('span', { class: `pl-part-${i}` }, withTerms(name))),
  );
}

export const partViewStyle = `
.pl-profile .pl-tabs { flex-wrap: wrap; }
.pl-profile-scroll td:first-child { min-width: 100px; }
.pl-profile-narrow [aria-label='Collectives'] > * > tr > :is(:nth-child(3), :nth-child(4)) { display: none; }
.pl-profile-narrow [aria-label='Steps of compilation'] > * > tr > :is(:nth-child(3), :nth-child(4)) { display: none; }
.pl-profile-narrow .pl-table th, .pl-profile-narrow .pl-table td { padding: 4px 7px; overflow-wrap: break-word; }
.pl-part-title { margin: 12px 12px 4px; font-size: 12px; overflow-wrap: anywhere; }
.pl-part-title .pl-muted { font-weight: 400; }
.pl-parts { display: flex; height: 6px; min-width: 60px; margin-top: 5px; border-radius: 3px; overflow: hidden; background: var(--pl-sunken); }
.pl-profile-scroll > .pl-parts { height: 8px; margin: 6px 12px; }
.pl-parts > .pl-part-0, .pl-parts-key > .pl-part-0::before { background: var(--pl-amber); }
.pl-parts > .pl-part-1, .pl-parts-key > .pl-part-1::before { background: var(--pl-accent); }
.pl-parts > .pl-part-2, .pl-parts-key > .pl-part-2::before { background: var(--pl-upstream); }
.pl-parts > .pl-part-3, .pl-parts-key > .pl-part-3::before { background: var(--pl-edge); }
.pl-parts-key { display: flex; flex-wrap: wrap; gap: 2px 14px; padding: 6px 12px; font-size: 11px; color: var(--pl-muted); }
.pl-parts-key > span::before { content: ''; display: inline-block; width: 9px; height: 9px; margin-right: 5px; border-radius: 2px; }
.pl-memory-plot { display: block; width: calc(100% - 24px); height: 90px; margin: 4px 12px 8px; background: var(--pl-sunken); border-radius: 4px; }
.pl-memory-plot rect { fill: var(--pl-accent); fill-opacity: 0.55; shape-rendering: crispEdges; }
.pl-memory-plot line { stroke: var(--pl-amber); stroke-width: 1.5; }
`;
