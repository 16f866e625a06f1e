/** Roofline: arithmetic intensity and rate of operations, compared with the machine's peaks. */

import type { Profile } from '../../records/profile';
import { drawn, el, type Content } from '../dom';
import { oneLine, quantity } from '../format';
import { meter, tableOf } from '../table';
import { duration } from '../facts/misses_view';
import type { Selection } from './selection';

const MAX_POINTS = 60;

interface Point {
  readonly operation: number;
  readonly seconds: number;
  /** Arithmetic operations per byte. */
  readonly intensity: number;
  readonly rate: number;
  /** Fraction of the roofline, 0 to 1; larger if data comes from caches. */
  readonly share: number;
}

/** The operations with arithmetic and without communication, longest first. */
export function pointsOf(profile: Profile): Point[] {
  const { operations, peaks } = profile.record;
  const points: Point[] = [];
  operations.seconds.forEach((seconds, operation) => {
    const flops = operations.flops[operation] ?? 0;
    const bytes = operations.bytes[operation] ?? 0;
    const isOwn = profile.category(operation) !== 'collective';
    if (isOwn && seconds > 0 && flops > 0 && bytes > 0) {
      const least = peaks
        ? Math.max(flops / peaks.flops_per_second, bytes / peaks.bytes_per_second)
        : 0;
      points.push({
        operation,
        seconds,
        intensity: flops / bytes,
        rate: flops / seconds,
        share: least / seconds,
      });
    }
  });
  return points;
}

/** The roofline of the machine with its operations as points; a click selects one. */
export function rooflineView(profile: Profile, selection: Selection): HTMLElement {
  const points = pointsOf(profile).slice(0, MAX_POINTS);
  const { peaks } = profile.record;
  const select = ({ operation }: Point): void =>
    selection.select({ operations: new Set([operation]), title: profile.name(operation) });
  const rows = points.map((point): Content[] => {
    const { operation, seconds, intensity, rate, share } = point;
    const name = el(
      'button',
      { type: 'button', class: 'pl-link' },
      oneLine(profile.name(operation), 60),
    );
    name.addEventListener('click', () => select(point));
    return [
      [
        name,
        el('div', { class: 'pl-muted' }, profile.lineName(profile.linesOf(operation)[0] ?? -1)),
      ],
      duration(seconds),
      intensity.toPrecision(3),
      quantity(rate, 'flop/s'),
      peaks ? [`${(100 * share).toPrecision(2)} %`, meter(share)] : '',
    ];
  });
  return el(
    'div',
    { class: 'pl-profile-scroll' },
    el(
      'p',
      { class: 'pl-roofline-note' },
      peaks
        ? `Measured on ${peaks.device_kind}: ${quantity(peaks.flops_per_second, 'flop/s')}, ${quantity(peaks.bytes_per_second, 'B/s')}. Times are measured; flops and bytes are estimated from shapes.`
        : 'The peaks of this machine aren’t measured: call pl.profiler.measure_peaks() once, and record again.',
    ),
    peaks ? plot(profile, points, select) : null,
    tableOf(
      'Roofline',
      [
        { name: 'Operation' },
        { name: 'Time', isNumber: true },
        { name: 'Flops per byte', isNumber: true },
        { name: 'Rate', isNumber: true },
        { name: 'Of the roofline', isNumber: true },
      ],
      rows,
    ),
  );
}

function plot(profile: Profile, points: readonly Point[], select: (point: Point) => void): Content {
  const peaks = profile.record.peaks!;
  const ridge = peaks.flops_per_second / peaks.bytes_per_second;
  const intensities = [ridge, ...points.map(point => point.intensity)];
  const rates = [peaks.flops_per_second, ...points.map(point => point.rate)];
  const [left, right] = decades(intensities);
  const [bottom, top] = decades(rates);
  const x = (value: number): string => `${(100 * (Math.log10(value) - left)) / (right - left)}%`;
  const y = (value: number): string =>
    `${100 - (100 * (Math.log10(value) - bottom)) / (top - bottom)}%`;
  const roof = (from: number, to: number): SVGLineElement => {
    const at = (value: number): number =>
      Math.min(peaks.flops_per_second, value * peaks.bytes_per_second);
    return drawn('line', {
      class: 'pl-roof',
      x1: x(from),
      y1: y(at(from)),
      x2: x(to),
      y2: y(at(to)),
    });
  };
  const rateLabels = between(bottom, top).map(exponent => {
    const at = y(10 ** exponent);
    const label = drawn(
      'text',
      { x: 4, y: at, dy: -3 },
      new Text(quantity(10 ** exponent, 'flop/s')),
    );
    return [drawn('line', { x1: 0, y1: at, x2: '100%', y2: at }), label];
  });
  const intensityLabels = between(left, right).map(exponent => {
    const at = x(10 ** exponent);
    const label = drawn(
      'text',
      { x: at, y: '100%', dx: 3, dy: -4 },
      new Text(String(10 ** exponent)),
    );
    return [drawn('line', { x1: at, y1: 0, x2: at, y2: '100%' }), label];
  });
  const longest = Math.max(...points.map(point => point.seconds), 1e-12);
  const dots = [...points].reverse().map(point => {
    const title = drawn('title', {});
    title.textContent = `${profile.name(point.operation)}: ${quantity(point.rate, 'flop/s')}`;
    const dot = drawn(
      'circle',
      { cx: x(point.intensity), cy: y(point.rate), r: 3 + 7 * Math.sqrt(point.seconds / longest) },
      title,
    );
    dot.addEventListener('click', () => select(point));
    return dot;
  });
  return el(
    'div',
    { class: 'pl-roofline' },
    el('span', { class: 'pl-muted' }, 'Rate'),
    drawn(
      'svg',
      { role: 'img', 'aria-label': 'Roofline' },
      ...[...rateLabels, ...intensityLabels].flat(),
      roof(10 ** left, ridge),
      roof(ridge, 10 ** right),
      ...dots,
    ),
    el('span', { class: 'pl-muted' }, 'Flops per byte'),
  );
}

/** The powers of ten that enclose all values, as exponents. */
function decades(values: readonly number[]): [number, number] {
  const logs = values.map(Math.log10);
  const low = Math.floor(Math.min(...logs));
  return [low, Math.max(low + 1, Math.ceil(Math.max(...logs) + 0.1))];
}

/** Integers between two numbers, at most about eight. */
function between(low: number, high: number): number[] {
  const step = Math.ceil((high - low) / 8);
  return Array.from({ length: Math.ceil((high - low) / step) - 1 }, (_, i) => low + (i + 1) * step);
}

export const rooflineStyle = `
.pl-roofline { margin: 4px 12px 10px; font-size: 11px; }
.pl-roofline > span { display: block; }
.pl-roofline > span:last-child { text-align: right; }
.pl-roofline svg { display: block; width: 100%; height: 190px; background: var(--pl-sunken); border-radius: 4px; }
.pl-roofline line { stroke: var(--pl-line); }
.pl-roofline .pl-roof { stroke: var(--pl-amber); stroke-width: 2; }
.pl-roofline text { fill: var(--pl-muted); font-size: 10px; }
.pl-roofline circle { fill: var(--pl-accent); fill-opacity: 0.6; stroke: var(--pl-accent); cursor: pointer; }
.pl-roofline-note { margin: 8px 12px; font-size: 12px; }
`;
