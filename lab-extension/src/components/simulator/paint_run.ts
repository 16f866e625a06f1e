/** Picture of a simulated run: a row for each core, and below it rows for the copies that it has started. */

import type { SimulatedKernelRecord } from '../../generated/introspect';
import { coreName, type SimulatedEvent, type SimulatedRun } from '../../records/simulated_run';
import { hatch } from '../hatch';
import type { Theme } from '../theme';
import { clipped, niceStep, type TimeRange } from '../time_range';

/** Width of the names of cores. */
export const LABELS = 104;
const AXIS = 20;
const CORE_ROW = 17;
const COPY_ROW = 9;
const GAP = 7;
/** Minimum width of a mark that shows its line. */
const MIN_NAMED_WIDTH = 40;
const FADED = 0.13;

/** Colour and name of each kind of event. */
export const COLORS: Readonly<Record<string, { token: string; name: string }>> = {
  compute: { token: 'contraction', name: 'computes' },
  wait: { token: 'group-2', name: 'waits' },
  stuck: { token: 'host', name: 'waits forever' },
  signal: { token: 'text', name: 'signals' },
  fault: { token: 'host', name: 'fails' },
  in: { token: 'control', name: 'copy into fast memory' },
  out: { token: 'indexing', name: 'copy out of it' },
  within: { token: 'random', name: 'copy within a memory' },
  send: { token: 'collective', name: 'copy to another device' },
  'in flight': { token: 'reduction', name: 'copy that hasn’t ended' },
};

/** Words for each kind of event before what it is about. */
export const KIND_TEXTS: Readonly<Record<string, string>> = {
  compute: 'computes',
  wait: 'waits for',
  signal: 'signals',
  fault: 'fails:',
  in: 'copies',
  out: 'copies',
  within: 'copies',
  send: 'sends',
  'in flight': 'has begun to copy',
};

/** Position and height of each lane in the picture. */
export class LaneLayout {
  readonly height: number;
  readonly tops: readonly number[];
  readonly heights: readonly number[];
  /** Positions at which cores begin. */
  readonly coreTops: readonly number[];

  constructor({ cores }: SimulatedKernelRecord) {
    const [tops, heights, coreTops]: number[][] = [[], [], []];
    let top = AXIS + 2;
    for (const core of cores) {
      coreTops!.push(top);
      for (let lane = 0; lane < core.lane_count; lane++) {
        const height = lane === 0 ? CORE_ROW : COPY_ROW;
        tops!.push(top);
        heights!.push(height);
        top += height;
      }
      top += GAP;
    }
    [this.tops, this.heights, this.coreTops, this.height] = [tops!, heights!, coreTops!, top];
  }

  /** The lane at a vertical position; -1 for none. */
  laneAt(y: number): number {
    return this.tops.findIndex((top, lane) => top <= y && y < top + this.heights[lane]!);
  }
}

/** What is painted. */
export interface RunPicture {
  readonly run: SimulatedRun;
  readonly layout: LaneLayout;
  readonly visible: TimeRange;
  /** The line whose events are lit; -1 for all. */
  readonly line: number;
  readonly chosen: SimulatedEvent | null;
}

export function paintRun(
  context: CanvasRenderingContext2D,
  picture: RunPicture,
  width: number,
  theme: Theme,
): void {
  const { run, layout, visible, chosen } = picture;
  paintAxis(context, picture, width, theme);
  context.save();
  context.beginPath();
  context.rect(LABELS, AXIS, width - LABELS, layout.height - AXIS);
  context.clip();
  context.font = `10.5px ${theme.code}`;
  context.textBaseline = 'middle';
  run.lanes.forEach((events, lane) => {
    for (const event of events) {
      if (event.begin > visible.end) {
        break;
      }
      if (event.end >= visible.begin) {
        paintEvent(context, picture, event, lane, width, theme);
      }
    }
  });
  if (chosen !== null) {
    const [left, right] = [visible.x(chosen.begin), visible.x(chosen.end)];
    context.lineWidth = 2;
    context.strokeStyle = theme.color('text');
    context.strokeRect(
      left - 1,
      layout.tops[chosen.lane]!,
      Math.max(3, right - left + 2),
      layout.heights[chosen.lane]! - 1,
    );
  }
  context.restore();
  paintNames(context, picture, width, theme);
}

function paintEvent(
  context: CanvasRenderingContext2D,
  { run, layout, visible, line }: RunPicture,
  event: SimulatedEvent,
  lane: number,
  width: number,
  theme: Theme,
): void {
  const isFaded = line >= 0 && event.line !== line;
  const top = layout.tops[lane]!;
  const height = layout.heights[lane]! - 2;
  const left = visible.x(event.begin);
  const right = Math.max(left + 1, visible.x(event.end));
  const from = Math.max(left, LABELS);
  const to = Math.min(right, width);
  const color = theme.color(COLORS[event.kind]?.token ?? 'creation');
  context.globalAlpha = isFaded ? FADED : 1;
  if (event.kind === 'signal') {
    context.fillStyle = color;
    context.fillRect(left - 0.5, top, 1.5, height);
    context.globalAlpha = 1;
    return;
  }
  if (event.kind === 'fault') {
    context.fillStyle = color;
    context.fillRect(left - 1.5, top - 2, 4, height + 4);
    context.globalAlpha = 1;
    return;
  }
  const span = event.end - event.begin;
  // Marks of several events are the paler, the more gaps lie between them.
  const filled = event.count === 1 ? 1 : Math.min(1, event.busy / Math.max(span, 1e-9));
  context.globalAlpha = (isFaded ? FADED : 1) * (0.4 + 0.6 * filled);
  const gap = right - left > 3 ? 0.5 : 0;
  const place = { left: from, top, width: Math.max(0.5, to - from - gap), height };
  context.fillStyle = color;
  context.fillRect(place.left, place.top, place.width, place.height);
  if (event.kind === 'wait' && !isFaded) {
    hatch(context, place, theme.color('line-strong'), { alpha: 0.7, step: 5, lineWidth: 1 });
  } else if (event.kind === 'in flight' || event.kind === 'stuck') {
    hatch(context, place, theme.color('bg'), { alpha: 0.45, step: 6, lineWidth: 1.5 });
  }
  const room = to - from - 6;
  if (lane === run.laneOfCore(lane) && room > MIN_NAMED_WIDTH && !isFaded) {
    const text = clipped(context, run.shortText(event), room);
    if (event.kind !== 'compute' && text !== '') {
      // A ground for the text, which hatching would make hard to read.
      context.globalAlpha = 1;
      context.fillStyle = color;
      context.fillRect(from + 1, top + 1, context.measureText(text).width + 5, height - 2);
    }
    context.globalAlpha = 1;
    context.fillStyle =
      event.kind === 'wait' ? theme.color('text') : theme.isDark ? '#10151c' : '#ffffff';
    context.fillText(text, from + 3, top + height / 2 + 0.5);
  }
  context.globalAlpha = 1;
}

function paintNames(
  context: CanvasRenderingContext2D,
  { run, layout }: RunPicture,
  width: number,
  theme: Theme,
): void {
  context.textBaseline = 'middle';
  run.record.cores.forEach((core, i) => {
    const top = layout.coreTops[i]!;
    context.fillStyle = theme.color('line');
    context.fillRect(0, top - GAP / 2, width, 1);
    context.font = `11px ${theme.font}`;
    context.fillStyle = theme.color(core.stuck === '' ? 'text' : 'removed');
    context.fillText(coreName(run.record, core), 8, top + CORE_ROW / 2, LABELS - 12);
    if (core.lane_count > 1) {
      context.font = `10px ${theme.font}`;
      context.fillStyle = theme.color('muted');
      context.fillText('copies', 16, top + CORE_ROW + COPY_ROW / 2, LABELS - 20);
    }
  });
}

function paintAxis(
  context: CanvasRenderingContext2D,
  { layout, visible }: RunPicture,
  width: number,
  theme: Theme,
): void {
  const step = niceStep((visible.span * 80) / visible.plotWidth);
  context.font = `10.5px ${theme.font}`;
  context.textBaseline = 'middle';
  const first = Math.ceil(visible.begin / step);
  for (let k = first; k * step <= visible.end; k++) {
    const x = visible.x(k * step);
    context.fillStyle = theme.color('line');
    context.fillRect(x, AXIS - 5, 1, layout.height - AXIS + 5);
    const text = Number((k * step).toPrecision(6)).toLocaleString('en-US');
    if (x < width - 30) {
      context.fillStyle = theme.color('muted');
      context.fillText(k === first ? `${text} steps` : text, x + 3, AXIS / 2);
    }
  }
}
