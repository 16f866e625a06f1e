/** A profiled session: findings, and time by line, operation and scope. */

import type { FindingRecord, ProfileRecord, TotalsRecord } from '../../generated/profiler';
import type { CellPlace } from '../../records/cell_places';
import { Profile, type LineTime } from '../../records/profile';
import { el, iconButton, withCode, type Content } from '../dom';
import { duration } from '../facts/misses_view';
import { counted, oneLine } from '../format';
import { FlameChart, flameStyle } from './flame_chart';
import { LineList, lineListStyle } from './line_list';
import { OperationTable, operationTableStyle } from './operation_table';
import {
  collectivesView,
  countersView,
  compilationView,
  hostView,
  memoryView,
  partViewStyle,
} from './part_views';
import { pointsOf, rooflineStyle, rooflineView } from './roofline_view';
import { SourceLink, type NotebookLines } from '../source_link';
import { sentenceOf, termed, withTerms } from '../terms';
import { Selection } from './selection';
import { TimelineView, timelineStyle, type LoadTimeline } from './timeline_view';

export interface ProfileEvents {
  /**
   * Reports lines of cells that are pointed at, or selected (these stay highlighted until others
   * are).
   */
  readonly onPoint?: (places: readonly CellPlace[], isSelected: boolean) => void;
  readonly notebook?: NotebookLines | undefined;
  readonly loadTimeline?: LoadTimeline;
  /** Opens a session in the Perfetto UI. */
  readonly openPerfetto?: (session: number) => void;
}

const MAX_UNFOLDED_FINDINGS = 4;
const NARROW_WIDTH = 620;

interface Tab {
  readonly name: string;
  readonly make: () => HTMLElement;
}

export class ProfileView {
  readonly element: HTMLElement;
  readonly ready = Promise.resolve();
  readonly isFlowing = true;
  private readonly profile: Profile;
  private readonly selection = new Selection();
  private readonly chosen = el('div', { class: 'pl-profile-chosen', hidden: true });
  private readonly body = el('div', { class: 'pl-profile-body', role: 'tabpanel' });
  private readonly made = new Map<string, HTMLElement>();
  private readonly buttons = new Map<string, HTMLButtonElement>();
  private readonly observer: ResizeObserver;
  private readonly place: SourceLink;
  private timeline: TimelineView | null = null;

  constructor(
    private readonly root: HTMLElement,
    record: ProfileRecord,
    private readonly events: ProfileEvents = {},
  ) {
    this.profile = new Profile(record);
    this.place = new SourceLink(events.notebook);
    const tabs = this.tabs();
    const findings = record.findings.map(findingItem);
    const isEmpty = record.totals.operation_count === 0;
    this.element = el(
      'div',
      { class: 'pl-profile' },
      header(record.totals),
      record.remarks.map(remark => el('p', { class: 'pl-profile-remark' }, oneLine(remark, 300))),
      isEmpty ? emptyNote(record) : sharesOf(record.totals),
      findingsList(findings),
      tabs.length === 0 ? null : this.tabBar(tabs),
      this.chosen,
      this.body,
    );
    this.selection.onChange(() => this.showChosen());
    this.observer = new ResizeObserver(([entry]) => {
      const width = entry?.contentRect.width ?? 0;
      const isNarrow = width > 0 && width < NARROW_WIDTH;
      if (this.element.classList.contains('pl-profile-narrow') !== isNarrow) {
        this.element.classList.toggle('pl-profile-narrow', isNarrow);
        findings.forEach(finding => (finding.open = !isNarrow));
      }
    });
    this.observer.observe(this.element);
    if (tabs[0] !== undefined) {
      this.show(tabs[0]);
    }
  }

  /** Times of lines in notebook cells, for their margins. */
  get lineTimes(): readonly LineTime[] {
    return this.profile.lineTimes();
  }

  themeChanged(): void {
    this.timeline?.themeChanged();
  }

  dispose(): void {
    this.observer.disconnect();
    this.timeline?.dispose();
    this.element.remove();
  }

  private tabs(): Tab[] {
    const { profile, selection } = this;
    const { record } = profile;
    const tabs: Tab[] = [];
    if (record.totals.operation_count > 0) {
      tabs.push(
        { name: 'Lines', make: () => this.lineList().element },
        { name: 'Operations', make: () => new OperationTable(profile, selection).element },
        { name: 'Timeline', make: () => this.makeTimeline() },
        { name: 'Scopes', make: () => new FlameChart(profile, selection).element },
      );
    }
    if (record.collectives.name.length > 0) {
      tabs.push({ name: 'Collectives', make: () => collectivesView(record) });
    }
    if (pointsOf(profile).length > 0) {
      tabs.push({ name: 'Roofline', make: () => rooflineView(profile, selection) });
    }
    if (record.memory.length + record.live_arrays.time_ns.length > 0) {
      tabs.push({ name: 'Memory', make: () => memoryView(record) });
    }
    if (record.counters.length > 0) {
      tabs.push({ name: 'Counters', make: () => countersView(record) });
    }
    if (record.host.activity.length > 0) {
      tabs.push({ name: 'Host', make: () => hostView(record) });
    }
    if (record.compilations.length + record.compile_steps.name.length > 0) {
      tabs.push({ name: 'Compilation', make: () => compilationView(record) });
    }
    return tabs;
  }

  private lineList(): LineList {
    const { profile, selection, events } = this;
    const select = (line: number): void => {
      const operations = profile.operationsOf(line);
      selection.select({ operations, title: profile.lineName(line), line });
    };
    return new LineList(profile, selection, {
      onHover: line => events.onPoint?.(line < 0 ? [] : [profile.place(line)], false),
      onSelect: select,
      onGo: line => {
        if (!this.place.goToPlace(profile.place(line))) {
          select(line);
        }
      },
    });
  }

  private makeTimeline(): HTMLElement {
    const load = this.events.loadTimeline ?? null;
    const { openPerfetto } = this.events;
    const { session } = this.profile.record;
    const open =
      openPerfetto === undefined || session === 0 ? null : (): void => openPerfetto(session);
    this.timeline = new TimelineView(this.root, this.profile, this.selection, load, open);
    return this.timeline.element;
  }

  private tabBar(tabs: readonly Tab[]): HTMLElement {
    const bar = el('div', { class: 'pl-tabs', role: 'tablist' });
    for (const tab of tabs) {
      const button = el(
        'button',
        { type: 'button', role: 'tab', class: 'pl-tab', title: sentenceOf(tab.name) },
        tab.name,
      );
      button.addEventListener('click', () => this.show(tab));
      this.buttons.set(tab.name, button);
      bar.append(button);
    }
    bar.addEventListener('keydown', event => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      const at = tabs.findIndex(
        tab => this.buttons.get(tab.name)!.getAttribute('aria-selected') === 'true',
      );
      if (step !== undefined) {
        const next = tabs[(at + step + tabs.length) % tabs.length]!;
        this.show(next);
        this.buttons.get(next.name)!.focus();
      }
    });
    return bar;
  }

  private show(tab: Tab): void {
    let content = this.made.get(tab.name);
    if (content === undefined) {
      content = tab.make();
      this.made.set(tab.name, content);
      this.body.append(content);
    }
    this.made.forEach((each, name) => (each.hidden = name !== tab.name));
    this.buttons.forEach((button, name) => {
      button.setAttribute('aria-selected', String(name === tab.name));
      button.tabIndex = name === tab.name ? 0 : -1;
    });
    this.body.setAttribute('aria-label', tab.name);
  }

  private showChosen(): void {
    const { selected } = this.selection;
    this.chosen.hidden = selected === null;
    if (selected === null) {
      this.chosen.replaceChildren();
      this.events.onPoint?.([], true);
      return;
    }
    const { seconds } = this.profile.record.operations;
    const total = [...selected.operations].reduce((sum, each) => sum + seconds[each]!, 0);
    this.chosen.replaceChildren(
      el('code', {}, oneLine(selected.title, 80)),
      el(
        'span',
        { class: 'pl-muted' },
        `${counted(selected.operations.size, 'operation')}, ${duration(total)}`,
      ),
      this.place.element,
      iconButton('Show all operations', 'M4 4l8 8M12 4l-8 8', () => this.selection.select(null)),
    );
    const [operation = 0] = selected.operations;
    const lines =
      selected.line !== undefined
        ? [selected.line]
        : selected.operations.size === 1
          ? this.profile.linesOf(operation).filter(line => line >= 0)
          : [];
    const places = lines.map(line => this.profile.place(line));
    this.place.showPlace(places[0] ?? null);
    this.events.onPoint?.(places, true);
  }
}

function header(totals: TotalsRecord): HTMLElement {
  const busy = (100 * totals.busy_seconds) / (totals.wall_seconds || 1);
  const chips = [
    duration(totals.wall_seconds),
    counted(totals.call_count, 'call'),
    counted(totals.operation_count, 'operation'),
    counted(totals.device_count, 'device'),
    `busy ${busy.toFixed(0)} %`,
    ...(totals.is_detail ? ['another program: compiled without fusions'] : []),
  ];
  return el(
    'header',
    { class: 'pl-array-header' },
    el('strong', {}, 'Profile'),
    (totals.operation_count === 0 ? chips.slice(0, 1) : chips).map(chip =>
      el('span', { class: 'pl-chip' }, withTerms(chip)),
    ),
  );
}

/** Shares of the operations' time that are measured, estimated and not attributed. */
function sharesOf(totals: TotalsRecord): HTMLElement {
  const parts = [
    ['measured', totals.measured_seconds, 'measured time'],
    ['estimated', totals.estimated_seconds, 'estimated time'],
    ['no line', totals.unattributed_seconds, 'time of no line'],
  ] as const;
  const total = totals.operation_seconds || 1;
  const bar = el('div', { class: 'pl-shares-bar', 'aria-hidden': 'true' });
  const texts = parts.map(([name, seconds, term], i) => {
    const piece = el('span', { class: `pl-share-${i}` });
    piece.style.width = `${(100 * seconds) / total}%`;
    bar.append(piece);
    const share = (100 * seconds) / total;
    const text = seconds > 0 && share < 1 ? '< 1 %' : `${share.toFixed(0)} %`;
    return el('span', { class: `pl-share-${i}` }, `${text} `, termed(term, name));
  });
  return el(
    'div',
    { class: 'pl-shares' },
    bar,
    el(
      'div',
      { class: 'pl-shares-key' },
      texts,
      el('span', { class: 'pl-muted' }, `of ${duration(totals.operation_seconds)} of operations`),
    ),
  );
}

function emptyNote(record: ProfileRecord): HTMLElement {
  return el(
    'p',
    { class: 'pl-profile-empty' },
    record.compilations.length > 0
      ? 'No operation ran on a device; functions were traced or compiled.'
      : 'No operation ran on a device. Call a jitted function, or an operation of pellucid.numpy, inside of the session.',
  );
}

/** A finding and the time it would save; evidence and remedy are collapsed in narrow views. */
function findingItem(finding: FindingRecord): HTMLDetailsElement {
  return el(
    'details',
    { open: true },
    el(
      'summary',
      {},
      el('strong', {}, withCode(oneLine(finding.text, 300))),
      finding.saved_seconds > 0
        ? el('span', { class: 'pl-chip' }, `up to ${duration(finding.saved_seconds)}`)
        : null,
    ),
    el('div', { class: 'pl-muted' }, withCode(oneLine(finding.evidence, 300))),
    el('div', {}, withCode(oneLine(finding.remedy, 300))),
  );
}

function findingsList(findings: readonly HTMLDetailsElement[]): Content {
  if (findings.length === 0) {
    return null;
  }
  const items = findings.map(finding => el('li', {}, finding));
  const list = el(
    'ul',
    { class: 'pl-findings', 'aria-label': 'Findings' },
    items.slice(0, MAX_UNFOLDED_FINDINGS),
  );
  if (items.length <= MAX_UNFOLDED_FINDINGS) {
    return list;
  }
  const more = el(
    'button',
    { type: 'button', class: 'pl-action' },
    `Show ${counted(items.length - MAX_UNFOLDED_FINDINGS, 'more finding')}`,
  );
  more.addEventListener('click', () => {
    list.append(...items.slice(MAX_UNFOLDED_FINDINGS));
    more.remove();
  });
  return [list, el('div', { class: 'pl-profile-tools' }, more)];
}

export const profileStyle = `
.pl-profile { min-width: 0; }
.pl-profile [hidden] { display: none; }
.pl-profile > .pl-array-header { flex-wrap: wrap; }
.pl-shares { padding: 8px 12px; }
.pl-shares-bar { display: flex; height: 8px; border-radius: 4px; overflow: hidden; background: var(--pl-sunken); }
.pl-shares-bar > .pl-share-0, .pl-shares-key > .pl-share-0::before { background: var(--pl-accent); }
.pl-shares-bar > .pl-share-1, .pl-shares-key > .pl-share-1::before { background: repeating-linear-gradient(135deg, var(--pl-accent) 0 2px, var(--pl-accent-soft) 2px 5px); }
.pl-shares-bar > .pl-share-2, .pl-shares-key > .pl-share-2::before { background: var(--pl-edge); }
.pl-shares-key { display: flex; flex-wrap: wrap; gap: 2px 14px; margin-top: 5px; font-size: 12px; }
.pl-shares-key > [class]:not(.pl-muted)::before { content: ''; display: inline-block; width: 9px; height: 9px; margin-right: 5px; border-radius: 2px; }
.pl-findings { margin: 4px 12px 10px; padding: 0; list-style: none; font-size: 12.5px; }
.pl-findings > li { margin-top: 6px; padding: 5px 10px; border-left: 3px solid var(--pl-amber); background: var(--pl-sunken); border-radius: 0 5px 5px 0; overflow-wrap: anywhere; }
.pl-findings .pl-chip { margin-left: 8px; }
.pl-findings summary { cursor: pointer; list-style-position: outside; margin-left: 14px; }
.pl-findings details > div { margin-left: 14px; }
.pl-profile-remark { margin: 6px 12px 0; padding: 3px 9px; border-left: 3px solid var(--pl-edge); font-size: 12px; color: var(--pl-muted); overflow-wrap: anywhere; }
.pl-profile-empty { margin: 10px 12px; color: var(--pl-muted); }
.pl-profile-chosen { display: flex; align-items: center; gap: 10px; padding: 2px 12px; font-size: 12px; background: var(--pl-accent-soft); }
.pl-profile-chosen code { font: 12px var(--pl-code); overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.pl-profile-chosen .pl-icon-button { margin-left: auto; flex: none; }
.pl-profile-lines { max-height: 420px; overflow-y: auto; }
${lineListStyle}
${operationTableStyle}
${timelineStyle}
${flameStyle}
${partViewStyle}
${rooflineStyle}
`;
