/** Timeline of operations, with rows by device and thread; zoom and pan by pointer and keys. */

import type { TimelineRecord } from '../../generated/profiler';
import type { Profile } from '../../records/profile';
import { CanvasPane } from '../canvas_pane';
import { Disposables, el } from '../dom';
import { duration } from '../facts/misses_view';
import { oneLine } from '../format';
import { readTheme, type Theme } from '../theme';
import { clipped, niceStep, placeTooltip, TimeRange } from '../time_range';
import type { Selection } from './selection';

/** Loads a section of the session at higher resolution; rejects if no kernel has the session. */
export type LoadTimeline = (
  session: number,
  beginNs: number,
  endNs: number,
  columns: number,
) => Promise<TimelineRecord>;

/** Heights, in pixels, of a lane and of the time axis; width of the lanes' labels. */
const ROW = 17;
const AXIS = 20;
const LABELS = 78;
const MIN_SPAN_NS = 200;
const LOAD_DELAY_MILLISECONDS = 180;
/** Number of columns of pixels for which a section of the timeline is requested. */
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
  private readonly visible: TimeRange;
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
    this.pane = new CanvasPane('pl-timeline-canvas', 'Timeline of operations', (context, width) =>
      this.paint(context, width),
    );
    this.pane.element.style.height = `${AXIS + ROW * Math.max(1, timeline.lanes.length) + 6}px`;
    this.visible = new TimeRange(
      timeline.begin_ns,
      timeline.end_ns,
      MIN_SPAN_NS,
      LABELS,
      () => this.pane.width,
      () => this.rangeChanged(),
    );
    this.element = el(
      'div',
      { class: 'pl-timeline' },
      el(
        'div',
        { class: 'pl-profile-tools' },
        this.visible.buttons(),
        this.legend(),
        openPerfetto === null ? null : perfettoButton(openPerfetto),
        this.note,
      ),
      el('div', { class: 'pl-timeline-scroll' }, this.pane.element),
      this.tooltip,
    );
    this.visible.listen(this.pane, this.disposables, {
      hover: event => this.hover(event),
      pick: event => this.pick(this.tileAt(event)),
      leave: () => (this.tooltip.hidden = true),
      escape: () => this.selection.select(null),
    });
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
    return [this.visible.begin, this.visible.end];
  }

  // Moving

  private rangeChanged(): void {
    this.tooltip.hidden = true;
    this.pane.draw();
    this.loadLater();
    this.say();
  }

  /** Loads a higher resolution once the view rests, if there is one. */
  private loadLater(): void {
    if (this.timer !== null) {
      clearTimeout(this.timer);
      this.timer = null;
    }
    const { record } = this.shown;
    const { begin, end, span } = this.visible;
    const isInside = record.begin_ns <= begin && record.end_ns >= end;
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
    const { begin, end, span } = this.visible;
    const number = ++this.requests;
    try {
      const record = await this.load!(
        this.profile.record.session,
        Math.round(Math.max(this.profile.timeline.begin_ns, begin - span / 2)),
        Math.round(Math.min(this.profile.timeline.end_ns, end + span / 2)),
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
    const { begin, span, isWhole } = this.visible;
    this.note.textContent = isWhole
      ? 'Ctrl and the wheel zoom; dragging moves.'
      : `${duration(span / 1e9)} from ${duration((begin - this.profile.timeline.begin_ns) / 1e9)} on`;
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

  private tileAt(event: MouseEvent): Tile | null {
    const { top } = this.pane.canvas.getBoundingClientRect();
    const lane = this.shown.lanes[Math.floor((event.clientY - top - AXIS) / ROW)];
    const { visible } = this;
    const time = visible.begin + visible.partAt(event, this.pane.canvas) * visible.span;
    const reach = 2 / visible.scale;
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
    placeTooltip(this.tooltip, event, this.element);
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
    const { visible } = this;
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
        if (tile.end < visible.begin) {
          continue;
        }
        if (tile.start > visible.end) {
          break;
        }
        this.paintTile(context, tile, top, theme);
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
    theme: Theme,
  ): void {
    const left = this.visible.x(tile.start);
    const right = Math.max(left + 1, this.visible.x(tile.end));
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
    const { begin, end, span, plotWidth } = this.visible;
    const step = niceStep((span * 90) / plotWidth);
    const origin = this.profile.timeline.begin_ns;
    context.font = `10.5px ${theme.font}`;
    context.textBaseline = 'middle';
    for (let time = Math.ceil((begin - origin) / step) * step; time + origin <= end; time += step) {
      const x = this.visible.x(time + origin);
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

function tick(ns: number, step: number): string {
  const [factor, unit] =
    step >= 1e9 ? [1e9, 's'] : step >= 1e6 ? [1e6, 'ms'] : step >= 1e3 ? [1e3, 'µs'] : [1, 'ns'];
  return `${Number((ns / factor).toFixed(3))} ${unit}`;
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
