/** Runs of kernels in the simulator: what each core and each copy did when, and which lines waited longest. */

import type {
  KernelTimelinesRecord,
  SimulatedKernelRecord,
  SimulatedWaitRecord,
} from '../../generated/introspect';
import { coreName, SimulatedRun, type SimulatedEvent } from '../../records/simulated_run';
import { CanvasPane } from '../canvas_pane';
import { Disposables, el, type Content } from '../dom';
import { counted, oneLine, quantity } from '../format';
import { KernelChoice } from '../kernel_choice';
import { lineLink, type NotebookLines } from '../source_link';
import { tableOf } from '../table';
import { readTheme } from '../theme';
import { placeTooltip, TimeRange } from '../time_range';
import { COLORS, KIND_TEXTS, LABELS, LaneLayout, paintRun } from './paint_run';

/** Share of the run that is still visible at the largest zoom. */
const MAX_ZOOM = 5000;
const MAX_PICTURE = 480;

export class TimelinesView {
  readonly element: HTMLElement;
  readonly ready = Promise.resolve();
  readonly isFlowing = true;
  private readonly place = el('div', {});
  private shown: RunView | null = null;

  constructor(
    private readonly root: HTMLElement,
    private readonly record: KernelTimelinesRecord,
    private readonly notebook: NotebookLines | undefined,
  ) {
    const { kernels, hidden_count: hidden } = record;
    const choice = new KernelChoice(
      kernels,
      { noun: 'run', label: 'Run', none: 'No kernel ran in the simulator.', hidden },
      // A run that failed is shown first.
      kernels.findIndex(each => each.fault !== ''),
      number => this.show(number),
    );
    this.element = el('div', { class: 'pl-report pl-runs' }, choice.content(), this.place);
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
    if (kernel !== undefined) {
      this.shown?.dispose();
      this.shown = new RunView(this.root, kernel, this.notebook);
      this.place.replaceChildren(this.shown.element);
    }
  }
}

/** One run. */
class RunView {
  readonly element: HTMLElement;
  private readonly run: SimulatedRun;
  private readonly layout: LaneLayout;
  private readonly pane: CanvasPane;
  private readonly visible: TimeRange;
  private readonly disposables = new Disposables();
  private readonly tooltip = el('div', { class: 'pl-tooltip', role: 'tooltip', hidden: true });
  private readonly note = el('span', { class: 'pl-muted', role: 'status' });
  private readonly says = el('p', { class: 'pl-run-event', 'aria-live': 'polite' });
  private chosen: SimulatedEvent | null = null;
  /** The line whose events are lit; -1 for all. */
  private line = -1;
  private chosenLine = -1;

  constructor(
    private readonly root: HTMLElement,
    private readonly record: SimulatedKernelRecord,
    private readonly notebook: NotebookLines | undefined,
  ) {
    this.run = new SimulatedRun(record);
    this.layout = new LaneLayout(record);
    this.pane = new CanvasPane(
      'pl-run-canvas',
      `Timeline of ${record.name}: ${chipsOf(record).join(', ')}`,
      (context, width) =>
        paintRun(
          context,
          {
            run: this.run,
            layout: this.layout,
            visible: this.visible,
            line: this.line,
            chosen: this.chosen,
          },
          width,
          readTheme(this.root),
        ),
    );
    this.pane.element.style.height = `${this.layout.height}px`;
    this.visible = new TimeRange(
      0,
      this.run.end,
      this.run.end / MAX_ZOOM,
      LABELS,
      () => this.pane.width,
      () => this.moved(),
    );
    this.visible.listen(this.pane, this.disposables, {
      hover: event => this.hover(event),
      pick: event => this.pick(this.eventAt(event)),
      leave: () => (this.tooltip.hidden = true),
      escape: () => this.pick(null),
    });
    const isDrawn = record.events.lane.length > 0;
    const picture = el('div', { class: 'pl-run-scroll' }, this.pane.element);
    picture.style.maxHeight = `${MAX_PICTURE}px`;
    this.element = el(
      'div',
      {},
      el(
        'header',
        { class: 'pl-array-header' },
        el('strong', {}, oneLine(record.name, 80)),
        chipsOf(record).map(text => el('span', { class: 'pl-chip' }, text)),
      ),
      record.fault === '' ? null : el('p', { class: 'pl-run-fault', role: 'note' }, record.fault),
      isDrawn
        ? el(
            'div',
            { class: 'pl-run' },
            el(
              'div',
              { class: 'pl-profile-tools' },
              this.visible.buttons(),
              this.legend(),
              this.note,
            ),
            picture,
            this.tooltip,
          )
        : el('p', { class: 'pl-muted' }, 'Nothing took time.'),
      isDrawn ? this.says : null,
      record.waits.length > 0 ? this.waitsTable() : null,
    );
    this.moved();
    this.pick(null);
  }

  dispose(): void {
    this.pane.dispose();
    this.disposables.dispose();
    this.element.remove();
  }

  draw(): void {
    this.pane.draw();
  }

  private moved(): void {
    this.tooltip.hidden = true;
    const { isWhole, begin, span } = this.visible;
    this.note.textContent = isWhole
      ? 'Ctrl and the wheel zoom; dragging moves.'
      : `${stepsText(span)} from ${stepsText(begin)} on`;
    this.pane.draw();
  }

  private eventAt(event: MouseEvent): SimulatedEvent | null {
    const { top } = this.pane.canvas.getBoundingClientRect();
    const lane = this.layout.laneAt(event.clientY - top);
    const { visible } = this;
    const time = visible.begin + visible.partAt(event, this.pane.canvas) * visible.span;
    return this.run.eventAt(lane, time, 3 / visible.scale);
  }

  private hover(event: PointerEvent): void {
    const found = this.eventAt(event);
    this.tooltip.hidden = found === null;
    this.pane.canvas.style.cursor = found === null ? 'grab' : 'pointer';
    if (found !== null) {
      this.tooltip.replaceChildren(...this.about(found).map(text => el('div', {}, text)));
      placeTooltip(this.tooltip, event, this.element.querySelector('.pl-run')!);
    }
  }

  /** Shows an event below the picture, with a link to its line. */
  private pick(event: SimulatedEvent | null): void {
    this.chosen = event;
    this.light(event === null ? this.chosenLine : -1);
    if (event === null) {
      this.says.replaceChildren(
        el(
          'span',
          { class: 'pl-muted' },
          'Point at a mark to see its line and bytes; click to keep it here.',
        ),
      );
      return;
    }
    const texts = this.about(event);
    const { source, line } = this.record.lines[event.line]!;
    this.says.replaceChildren(
      el('strong', {}, texts[0]!),
      ` ${texts.slice(1, -1).join(' · ')} `,
      source === null ? texts.at(-1)! : lineLink(source, line, this.notebook),
      source === null ? '' : el('code', {}, codeOf(this.record, event.line)),
    );
  }

  private light(line: number): void {
    this.line = line;
    this.pane.draw();
  }

  private about(event: SimulatedEvent): string[] {
    const { strings, lines, cores } = this.record;
    const core = cores[this.run.coreOf(event.lane)]!;
    const verb = KIND_TEXTS[event.kind] ?? event.kind;
    const label = strings[event.label] ?? '';
    const program = strings[event.program] ?? '';
    const what = event.kind === 'stuck' ? label : `${verb}${label === '' ? '' : ` ${label}`}`;
    const duration = event.end - event.begin;
    const time =
      event.kind === 'stuck'
        ? `forever, from ${stepsText(event.begin)} on`
        : event.kind === 'signal' || event.kind === 'fault'
          ? `at ${stepsText(event.begin)}`
          : event.count > 1
            ? `and ${counted(event.count - 1, 'more')}, together ${stepsText(event.busy)}, from ${stepsText(event.begin)} on`
            : `${stepsText(duration)}, from ${stepsText(event.begin)} on`;
    return [
      `${coreName(this.record, core)} ${oneLine(what, 160)}`,
      event.bytes > 0 ? `${quantity(event.bytes, 'B')}, ${time}` : time,
      program,
      oneLine(lines[event.line]!.text, 160),
    ].filter(text => text !== '');
  }

  private legend(): HTMLElement {
    const kinds = this.run.kinds;
    return el(
      'span',
      { class: 'pl-run-legend' },
      Object.entries(COLORS)
        .filter(([kind]) => kinds.has(kind))
        .map(([kind, { token, name }]) => {
          const item = el('span', { 'data-kind': kind }, name);
          item.style.setProperty('--swatch', `var(--pl-${token})`);
          return item;
        }),
    );
  }

  private waitsTable(): HTMLElement {
    const table = tableOf(
      'Waits',
      [
        { name: 'Waits at' },
        { name: 'For' },
        { name: 'Steps', isNumber: true },
        { name: 'Share', isNumber: true },
        { name: 'Times', isNumber: true },
      ],
      this.record.waits.map(wait => this.waitRow(wait)),
    );
    const rows = [...table.querySelectorAll<HTMLElement>('tbody tr')];
    rows.forEach((row, i) => {
      const { line } = this.record.waits[i]!;
      row.tabIndex = 0;
      row.title = 'Shows only the marks of this line';
      const choose = (): void => {
        this.chosenLine = this.chosenLine === line ? -1 : line;
        rows.forEach((each, k) =>
          each.toggleAttribute('data-chosen', this.record.waits[k]!.line === this.chosenLine),
        );
        this.light(this.chosenLine);
      };
      row.addEventListener('pointerenter', () => this.light(line));
      row.addEventListener('pointerleave', () => this.light(this.chosenLine));
      row.addEventListener('click', choose);
      row.addEventListener('keydown', event => {
        if (event.key === 'Enter' && event.target === row) {
          choose();
        }
      });
    });
    return table;
  }

  private waitRow(wait: SimulatedWaitRecord): Content[] {
    const { source, line } = this.record.lines[wait.line]!;
    return [
      [
        source === null ? null : lineLink(source, line, this.notebook),
        el('code', { class: 'pl-run-code' }, codeOf(this.record, wait.line)),
      ],
      oneLine(wait.what, 60),
      numberText(wait.steps),
      `${Number((100 * wait.share).toPrecision(3))} %`,
      this.record.cores.length > 1
        ? `${counted(wait.count, 'time')}, ${counted(wait.core_count, 'core')}`
        : String(wait.count),
    ];
  }
}

/** The code of a line, without its place. */
function codeOf(record: SimulatedKernelRecord, line: number): string {
  const { text } = record.lines[line]!;
  const code = /: `(.*)`$/s.exec(text);
  return oneLine(code?.[1] ?? text, 90);
}

/** Simulated time. */
export function stepsText(steps: number): string {
  const text = numberText(steps);
  return `${text} step${text === '1' ? '' : 's'}`;
}

function numberText(steps: number): string {
  return Number(steps.toPrecision(4)).toLocaleString('en-US');
}

/** The length of a run, and how its cores spent it. */
function chipsOf(record: SimulatedKernelRecord): string[] {
  const { cores, steps } = record;
  const sum = (of: 'compute_steps' | 'wait_steps' | 'copy_steps' | 'hidden_steps'): number =>
    cores.reduce((total, core) => total + core[of], 0);
  const percent = (part: number, whole: number): string =>
    `${Number(((100 * part) / whole).toPrecision(3))} %`;
  const whole = cores.length * steps;
  const copying = sum('copy_steps');
  return [
    counted(record.device_count, 'device'),
    cores.length > record.device_count ? counted(cores.length, 'core') : '',
    `${stepsText(steps)}${record.fault === '' ? '' : ' up to the error'}`,
    whole > 0 ? `${percent(sum('compute_steps'), whole)} computing` : '',
    whole > 0 ? `${percent(sum('wait_steps'), whole)} waiting` : '',
    record.copied_bytes > 0 ? `${quantity(record.copied_bytes, 'B')} copied` : '',
    record.sent_bytes > 0 ? `${quantity(record.sent_bytes, 'B')} sent` : '',
    record.copied_bytes > 0 && copying > 0
      ? `${percent(sum('hidden_steps'), copying)} of copies hidden`
      : '',
  ].filter(text => text !== '');
}

export const timelinesStyle = `
.pl-runs { max-height: none; }
.pl-runs .pl-array-header { flex-wrap: wrap; }
.pl-runs p { margin: 6px 12px; font-size: 12px; overflow-wrap: anywhere; }
.pl-run-fault { color: var(--pl-removed); white-space: pre-line; }
.pl-run { position: relative; }
.pl-run-scroll { overflow-y: auto; border-block: 1px solid var(--pl-line); }
.pl-run-canvas > canvas { touch-action: pan-y; }
.pl-run-event { min-height: 1.5em; }
.pl-run-event > code { margin-left: 8px; }
.pl-runs code { font: 11px var(--pl-code); }
.pl-run-code { display: block; color: var(--pl-text); }
.pl-run-legend { display: flex; flex-wrap: wrap; gap: 2px 10px; font-size: 11px; color: var(--pl-muted); }
.pl-run-legend > span::before { content: ''; display: inline-block; width: 9px; height: 9px; margin-right: 4px; border-radius: 2px; background: var(--swatch); }
.pl-run-legend > [data-kind='wait']::before { border: 1px solid var(--pl-line-strong); }
.pl-runs tbody tr { cursor: pointer; }
.pl-runs tbody tr:is(:hover, [data-chosen]) { background: var(--pl-accent-soft); }
@container pl-root (max-width: 480px) { .pl-runs .pl-table :is(th, td):nth-child(2) { display: none; } }
`;
