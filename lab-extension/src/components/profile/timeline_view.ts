/** Timeline of operations, with rows by device and thread; zoom and pan by pointer and keys. */

import type { TimelineRecord } from '../../generated/profiler';
import type { Profile } from '../../records/profile';
import { CanvasPane } from '../canvas_pane';
import { Disposables, el, iconButton } from '../dom';
import { duration } from '../facts/misses_view';
import { oneLine } from '../format';
import { readTheme, type Theme } from '../theme';
import type { Selection } from './selection';

/** Loads a section of the session at higher resolution; rejects if no kernel has the session. */
export type LoadTimeline = (
  session: number,
  beginNs: number,
  endNs: number,
  columns: number,
) => Promise<TimelineRecord>;

const ROW = 17;
const AXIS = 20;
const LABELS = 78;
const MIN_SPAN_NS = 200;
const LOAD_DELAY_MILLISECONDS = 180;
const LOADED_COLUMNS = 2000;
/** Minimum width in pixels of a tile that shows its name. */
const MIN_NAMED_WIDTH = 34;

const COLORS: Readonly<Record<string, string>> = {
  fusion: 'reduction',
  library: 'contraction',
  copy: 'movement',
  collective: 'collective',
  custom: 'host',
  other: 'creation',
};

interface Tile {
  readonly lane: number;
  readonly start: number;
  readonly end: number;
  readonly operation: number;
  readonly name: string;
  readonly count: number;
  readonly busy: number;
}

export class TimelineView {
  readonly element: HTMLElement;
  private readonly pane: CanvasPane;
  private readonly disposables = new Disposables();
  private readonly tooltip = el('div', { class: 'pl-tooltip', role: 'tooltip', hidden: true });
  private readonly note = el('span', { class: 'pl-muted', role: 'status' });
  private readonly overview: readonly Tile[][];
  private shown: { readonly record: TimelineRecord; readonly lanes: readonly Tile[][] };
  private begin: number;
  private end: number;
  private timer: ReturnType<typeof setTimeout> | null = null;
  private requests = 0;
  private theme: Theme | null = null;

  constructor(
    private readonly root: HTMLElement,
    private readonly profile: Profile,
    private readonly selection: Selection,
    private readonly load: LoadTimeline | null,
    openPerfetto: (() => void) | null = null,
  ) {
    const { timeline } = profile;
    this.overview = tilesOf(timeline);
    this.shown = { record: timeline, lanes: this.overview };
    this.begin = timeline.begin_ns;
    this.end = Math.max(timeline.end_ns, timeline.begin_ns + MIN_SPAN_NS);
    this.pane = new CanvasPane('pl-timeline-canvas', 'Timeline of operations', (context, width) =>
      this.paint(context, width),
    );
    this.pane.element.style.height = `${AXIS + ROW * Math.max(1, timeline.lanes.length) + 6}px`;
    const button = (name: string, path: string, change: () => void): HTMLElement =>
      iconButton(name, path, change);
    this.element = el(
      'div',
      { class: 'pl-timeline' },
      el(
        'div',
        { class: 'pl-profile-tools' },
        button('Zoom in', 'M8 3v10M3 8h10', () => this.zoom(2)),
        button('Zoom out', 'M3 8h10', () => this.zoom(0.5)),
        button('Show all', 'M2 6V2h4M10 2h4v4M14 10v4h-4M6 14H2v-4', () => this.showAll()),
        this.legend(),
        openPerfetto === null ? null : perfettoButton(openPerfetto),
        this.note,
      ),
      el('div', { class: 'pl-timeline-scroll' }, this.pane.element),
      this.tooltip,
    );
    this.listen();
    selection.onChange(() => this.pane.draw());
    this.say();
  }

  themeChanged(): void {
    this.theme = null;
    this.pane.draw();
  }

  dispose(): void {
    if (this.timer !== null) {
      clearTimeout(this.timer);
    }
    this.pane.dispose();
    this.disposables.dispose();
  }

  /** Visible time range in nanoseconds, for tests. */
  get range(): readonly [number, number] {
    return [this.begin, this.end];
  }

  // Moving

  private zoom(factor: number, at = 0.5): void {
    const { begin_ns: first, end_ns: last } = this.profile.timeline;
    const whole = Math.max(last - first, MIN_SPAN_NS);
    const span = Math.min(whole, Math.max(MIN_SPAN_NS, (this.end - this.begin) / factor));
    const fixed = this.begin + at * (this.end - this.begin);
    this.moveTo(fixed - at * span, span);
  }

  private moveTo(begin: number, span: number): void {
    const { begin_ns: first, end_ns: last } = this.profile.timeline;
    this.begin = Math.min(Math.max(first, begin), Math.max(first, last - span));
    this.end = this.begin + span;
    this.tooltip.hidden = true;
    this.pane.draw();
    this.loadLater();
    this.say();
  }

  private showAll(): void {
    const { begin_ns: first, end_ns: last } = this.profile.timeline;
    this.moveTo(first, Math.max(last - first, MIN_SPAN_NS));
  }

  private move(part: number): void {
    const span = this.end - this.begin;
    this.moveTo(this.begin + part * span, span);
  }

  /** Loads a higher resolution once the view rests, if there is one. */
  private loadLater(): void {
    if (this.timer !== null) {
      clearTimeout(this.timer);
      this.timer = null;
    }
    const { record } = this.shown;
    const span = this.end - this.begin;
    const isInside = record.begin_ns <= this.begin && record.end_ns >= this.end;
    const isFine = record.is_whole || span > (record.end_ns - record.begin_ns) / 2;
    if (isInside && isFine) {
      return;
    }
    if (this.load === null || this.profile.timeline.is_whole) {
      this.shown = { record: this.profile.timeline, lanes: this.overview };
      return;
    }
    this.timer = setTimeout(() => void this.loadNow(), LOAD_DELAY_MILLISECONDS);
  }

  private async loadNow(): Promise<void> {
    const span = this.end - this.begin;
    const number = ++this.requests;
    try {
      const record = await this.load!(
        this.profile.record.session,
        Math.round(Math.max(this.profile.timeline.begin_ns, this.begin - span / 2)),
        Math.round(Math.min(this.profile.timeline.end_ns, this.end + span / 2)),
        LOADED_COLUMNS,
      );
      if (number === this.requests) {
        this.shown = { record, lanes: tilesOf(record) };
        this.say();
      }
    } catch {
      // Without the kernel, only the tiles of the whole session are available.
      this.note.textContent = 'A closer look needs the kernel that recorded the session.';
    }
    this.pane.draw();
  }

  private say(): void {
    const { begin_ns: first, end_ns: last } = this.profile.timeline;
    const span = this.end - this.begin;
    this.note.textContent =
      span >= last - first
        ? 'Ctrl and the wheel zoom; dragging moves.'
        : `${duration(span / 1e9)} from ${duration((this.begin - first) / 1e9)} on`;
  }

  private legend(): HTMLElement {
    const names = new Set(
      this.profile.record.operations.category.map(each => this.profile.text(each)),
    );
    return el(
      'span',
      { class: 'pl-timeline-legend' },
      Object.entries(COLORS)
        .filter(([name]) => names.has(name))
        .map(([name, token]) => {
          const item = el('span', {}, name);
          item.style.setProperty('--swatch', `var(--pl-${token})`);
          return item;
        }),
    );
  }

  private listen(): void {
    const { canvas } = this.pane;
    let dragged: { x: number; begin: number; hasMoved: boolean } | null = null;
    this.disposables.listen(canvas, 'pointerdown', event => {
      dragged = { x: event.clientX, begin: this.begin, hasMoved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    this.disposables.listen(canvas, 'pointermove', event => {
      if (dragged !== null) {
        const moved = event.clientX - dragged.x;
        dragged.hasMoved ||= Math.abs(moved) > 3;
        if (dragged.hasMoved) {
          this.moveTo(dragged.begin - moved / this.scale(), this.end - this.begin);
        }
      } else {
        this.hover(event);
      }
    });
    this.disposables.listen(canvas, 'pointerup', event => {
      const isClick = dragged !== null && !dragged.hasMoved;
      dragged = null;
      if (isClick) {
        this.pick(this.tileAt(event));
      }
    });
    this.disposables.listen(canvas, 'pointercancel', () => (dragged = null));
    this.disposables.listen(canvas, 'pointerleave', () => (this.tooltip.hidden = true));
    this.disposables.listen(canvas, 'dblclick', event => this.zoom(4, this.partAt(event)));
    this.disposables.listen(
      canvas,
      'wheel',
      event => {
        const isAcross = Math.abs(event.deltaX) > Math.abs(event.deltaY);
        if (event.ctrlKey || event.metaKey) {
          event.preventDefault();
          const delta = Math.max(-240, Math.min(240, event.deltaY));
          this.zoom(Math.exp(-delta * 0.006), this.partAt(event));
        } else if (isAcross || event.shiftKey) {
          event.preventDefault();
          this.move((isAcross ? event.deltaX : event.deltaY) / Math.max(1, this.plotWidth()));
        }
      },
      { passive: false },
    );
    this.pane.onKey(key => {
      const action = {
        '+': () => this.zoom(2),
        '=': () => this.zoom(2),
        '-': () => this.zoom(0.5),
        '0': () => this.showAll(),
        ArrowLeft: () => this.move(-0.2),
        ArrowRight: () => this.move(0.2),
        Home: () => this.move(-Infinity),
        End: () => this.move(Infinity),
        Escape: () => this.selection.select(null),
      }[key];
      action?.();
      return action !== undefined;
    });
  }

  private pick(tile: Tile | null): void {
    if (tile === null || tile.operation < 0) {
      if (this.selection.selected !== null) {
        this.selection.select(null);
      }
      return;
    }
    const { operation } = tile;
    this.selection.select({
      operations: new Set([operation]),
      title: this.profile.name(operation),
    });
  }

  // Places

  private plotWidth(): number {
    return Math.max(1, this.pane.width - LABELS);
  }

  /** Pixels per nanosecond. */
  private scale(): number {
    return this.plotWidth() / (this.end - this.begin);
  }

  private partAt(event: MouseEvent): number {
    const { left } = this.pane.canvas.getBoundingClientRect();
    return Math.max(0, Math.min(1, (event.clientX - left - LABELS) / this.plotWidth()));
  }

  private tileAt(event: MouseEvent): Tile | null {
    const { top } = this.pane.canvas.getBoundingClientRect();
    const lane = this.shown.lanes[Math.floor((event.clientY - top - AXIS) / ROW)];
    const time = this.begin + this.partAt(event) * (this.end - this.begin);
    const reach = 2 / this.scale();
    let nearest: Tile | null = null;
    for (const tile of lane ?? []) {
      if (tile.start - reach <= time && time <= tile.end + reach) {
        nearest = tile;
      } else if (tile.start > time + reach) {
        break;
      }
    }
    return nearest;
  }

  private hover(event: MouseEvent): void {
    const tile = this.tileAt(event);
    this.tooltip.hidden = tile === null;
    this.pane.canvas.style.cursor = tile === null ? 'grab' : 'pointer';
    if (tile === null) {
      return;
    }
    this.tooltip.replaceChildren(...this.about(tile).map(line => el('div', {}, line)));
    const bounds = this.element.getBoundingClientRect();
    const { offsetWidth, style } = this.tooltip;
    const x = event.clientX - bounds.left;
    style.left = `${Math.max(4, Math.min(x + 14, bounds.width - offsetWidth - 6))}px`;
    style.top = `${event.clientY - bounds.top + 16}px`;
  }

  private about(tile: Tile): string[] {
    const lines = [oneLine(tile.name, 120)];
    const start = duration((tile.start - this.profile.timeline.begin_ns) / 1e9);
    lines.push(
      tile.count === 1
        ? `${duration((tile.end - tile.start) / 1e9)}, from ${start} on`
        : `and ${tile.count - 1} more, together ${duration(tile.busy / 1e9)}, from ${start} on`,
    );
    if (tile.operation >= 0) {
      const [line = -1] = this.profile.linesOf(tile.operation);
      lines.push(`${this.profile.category(tile.operation)} · ${this.profile.lineName(line)}`);
      lines.push(oneLine(line < 0 ? '' : this.profile.lineSource(line).trim(), 100));
    }
    return lines.filter(Boolean);
  }

  // Painting

  private paint(context: CanvasRenderingContext2D, width: number): void {
    this.theme ??= readTheme(this.root);
    const theme = this.theme;
    const { lanes } = this.profile.timeline;
    const scale = this.scale();
    this.paintAxis(context, width, theme);
    context.save();
    context.beginPath();
    context.rect(LABELS, AXIS, width - LABELS, this.pane.height - AXIS);
    context.clip();
    context.font = `11px ${theme.code}`;
    context.textBaseline = 'middle';
    this.shown.lanes.forEach((tiles, lane) => {
      const top = AXIS + lane * ROW;
      for (const tile of tiles) {
        if (tile.end < this.begin) {
          continue;
        }
        if (tile.start > this.end) {
          break;
        }
        this.paintTile(context, tile, top, scale, theme);
      }
    });
    context.restore();
    context.font = `11px ${theme.font}`;
    context.textBaseline = 'middle';
    lanes.forEach((lane, i) => {
      const top = AXIS + i * ROW;
      if (lanes[i - 1]?.name !== lane.name || lanes[i - 1]?.kind !== lane.kind) {
        context.fillStyle = theme.color('line');
        context.fillRect(0, top - 1, width, 1);
        context.fillStyle = theme.color('muted');
        context.fillText(laneName(lane.name), 8, top + ROW / 2, LABELS - 12);
      }
    });
    if (lanes.length === 0) {
      context.fillStyle = theme.color('muted');
      context.fillText('Nothing ran.', LABELS, AXIS + ROW / 2);
    }
  }

  private paintTile(
    context: CanvasRenderingContext2D,
    tile: Tile,
    top: number,
    scale: number,
    theme: Theme,
  ): void {
    const left = LABELS + (tile.start - this.begin) * scale;
    const right = Math.max(left + 1, LABELS + (tile.end - this.begin) * scale);
    const isHost = tile.operation < 0;
    const category = isHost ? '' : this.profile.category(tile.operation);
    const isFaded =
      this.selection.selected !== null && (isHost || !this.selection.has(tile.operation));
    const filled =
      tile.count === 1 ? 1 : Math.min(1, tile.busy / Math.max(1, tile.end - tile.start));
    context.globalAlpha = (isFaded ? 0.18 : 1) * (0.4 + 0.6 * filled);
    context.fillStyle = theme.color(isHost ? 'line-strong' : (COLORS[category] ?? 'creation'));
    const gap = right - left > 3 ? 0.5 : 0;
    context.fillRect(left, top + 1, right - left - gap, ROW - 3);
    const from = Math.max(left, LABELS);
    const room = Math.min(right, this.pane.width) - from - 6;
    if (room > MIN_NAMED_WIDTH && !isFaded) {
      context.globalAlpha = 1;
      context.fillStyle = isHost ? theme.color('text') : theme.isDark ? '#10151c' : '#ffffff';
      const text = tile.count > 1 ? `${tile.name} +${tile.count - 1}` : tile.name;
      context.fillText(clipped(context, text, room), from + 3, top + ROW / 2);
    }
    context.globalAlpha = 1;
  }

  private paintAxis(context: CanvasRenderingContext2D, width: number, theme: Theme): void {
    const span = this.end - this.begin;
    const step = niceStep((span * 90) / this.plotWidth());
    const origin = this.profile.timeline.begin_ns;
    context.font = `10.5px ${theme.font}`;
    context.textBaseline = 'middle';
    for (
      let time = Math.ceil((this.begin - origin) / step) * step;
      time + origin <= this.end;
      time += step
    ) {
      const x = LABELS + (time + origin - this.begin) * this.scale();
      context.fillStyle = theme.color('line');
      context.fillRect(x, AXIS - 5, 1, this.pane.height - AXIS + 5);
      if (x < width - 30) {
        context.fillStyle = theme.color('muted');
        context.fillText(tick(time, step), x + 3, AXIS / 2);
      }
    }
  }
}

/** The tiles of each lane, sorted by start. */
function tilesOf({ tiles, lanes, names }: TimelineRecord): Tile[][] {
  const rows: Tile[][] = lanes.map(() => []);
  tiles.lane.forEach((lane, i) =>
    rows[lane]?.push({
      lane,
      start: tiles.start_ns[i]!,
      end: tiles.end_ns[i]!,
      operation: tiles.operation[i]!,
      name: names[tiles.name[i]!] ?? '',
      count: tiles.count[i]!,
      busy: tiles.busy_ns[i]!,
    }),
  );
  return rows;
}

function laneName(name: string): string {
  return name === 'python' ? 'Python' : oneLine(name, 20);
}

/** The smallest number of the form 1, 2 or 5 times a power of ten that is at least `least`. */
function niceStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1e-9)));
  return power * ([1, 2, 5].find(factor => factor * power >= least) ?? 10);
}

function tick(ns: number, step: number): string {
  const [factor, unit] =
    step >= 1e9 ? [1e9, 's'] : step >= 1e6 ? [1e6, 'ms'] : step >= 1e3 ? [1e3, 'µs'] : [1, 'ns'];
  return `${Number((ns / factor).toFixed(3))} ${unit}`;
}

function clipped(context: CanvasRenderingContext2D, text: string, room: number): string {
  const width = context.measureText(text).width;
  if (width <= room) {
    return text;
  }
  const length = Math.floor((text.length * room) / width) - 1;
  return length > 1 ? `${text.slice(0, length)}…` : '';
}

function perfettoButton(open: () => void): HTMLElement {
  const button = el('button', { type: 'button', class: 'pl-action' }, 'Open in Perfetto');
  button.addEventListener('click', open);
  return button;
}

export const timelineStyle = `
.pl-timeline { position: relative; }
.pl-timeline-scroll { max-height: 400px; overflow-y: auto; border-top: 1px solid var(--pl-line); }
.pl-timeline-canvas > canvas { touch-action: pan-y; }
.pl-timeline-legend { display: flex; flex-wrap: wrap; gap: 10px; font-size: 11px; color: var(--pl-muted); }
.pl-timeline-legend > span::before { content: ''; display: inline-block; width: 9px; height: 9px; margin-right: 4px; border-radius: 2px; background: var(--swatch); }
`;
