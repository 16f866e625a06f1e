/**
 * Estimated costs of a function on a hypothetical mesh, with sliders for axes, which can be dropped
 * on dimensions.
 */

import type { ExchangeCostRecord, PlacementRecord, WhatIfRecord } from '../../generated/introspect';
import { el, type Content } from '../dom';
import { counted, oneLine, quantity, whole } from '../format';
import { lineLink, type NotebookLines } from '../source_link';
import { meter, tableOf } from '../table';
import { withTerms } from '../terms';
import { readTheme } from '../theme';
import { axisColor } from './colors';
import { REASONS } from './reasons';

/** Placement requested by the user, or a search. */
export interface PlacementRequest {
  readonly axes: readonly (readonly [string, number])[];
  /** Mesh axes of each dimension of each of the record's arguments. */
  readonly dims: readonly (readonly (readonly string[])[])[];
  /** Memory limit in bytes for a search of the fastest placements; null for no search. */
  readonly searchUnder: number | null;
}

/** Note shown when no kernel can compute other placements. */
const HOW =
  'No kernel answers here. In a notebook whose kernel made this figure it has controls for other placements; ' +
  'in code figure.change(mesh, specs) shows one, and figure.search() the fastest.';
/** Binary logarithm of the largest size of a mesh axis that can be chosen. */
const MAX_AXIS_BITS = 12;
const GIB = 1024 ** 3;

export class WhatIfView {
  readonly element = el('div', { class: 'pl-report pl-what-if' });
  readonly ready = Promise.resolve();
  readonly isFlowing = true;
  /** The axis picked up by a click, to be put on a dimension by the next one. */
  private picked: string | null = null;

  constructor(
    private readonly root: HTMLElement,
    private record: WhatIfRecord,
    private request?: (request: PlacementRequest) => void,
    private readonly notebook?: NotebookLines,
  ) {
    const host = (root.getRootNode() as ShadowRoot).host;
    if (request !== undefined && host instanceof HTMLElement) {
      // Controls use arrow keys and Enter, with which JupyterLab would collapse and edit cells.
      host.dataset['lmSuppressShortcuts'] = 'true';
    }
    this.draw();
  }

  /** Replaces the record; a focused control keeps the focus. */
  update(record: WhatIfRecord): void {
    const active = (this.element.getRootNode() as ShadowRoot).activeElement;
    const key = active?.getAttribute('data-key');
    this.record = record;
    this.answered();
    this.draw();
    if (key !== null && key !== undefined) {
      this.keyed(key)?.focus();
    }
  }

  private keyed(key: string): HTMLElement | undefined {
    const all = Array.from(this.element.querySelectorAll<HTMLElement>('[data-key]'));
    return all.find(each => each.dataset['key'] === key);
  }

  /** Removes the controls and shows why the kernel no longer answers. */
  unanswered(reason: string): void {
    this.request = undefined;
    this.update({ ...this.record, refusal: reason });
  }

  /** Shows that the kernel has answered the last request. */
  answered(): void {
    this.element.classList.remove('pl-waiting');
  }

  themeChanged(): void {
    this.draw();
  }

  dispose(): void {
    this.element.remove();
  }

  private draw(): void {
    const { record } = this;
    const body = el(
      'div',
      {},
      el(
        'header',
        { class: 'pl-array-header' },
        el('strong', {}, oneLine(record.name)),
        el('span', { class: 'pl-chip' }, `estimated for ${oneLine(record.device_kind)}`),
        el('span', { class: 'pl-chip pl-estimating', role: 'status' }, 'estimating …'),
      ),
      ...(record.refusal === ''
        ? []
        : [el('p', { class: 'pl-refusal', role: 'alert' }, record.refusal)]),
      comparison(record),
      this.request === undefined ? el('p', { class: 'pl-what-if-how' }, HOW) : null,
      el('h3', {}, 'Mesh'),
      this.mesh(),
      el('h3', {}, 'Arguments'),
      this.arguments(),
      el('h3', {}, 'Collectives, those that take longest first'),
      exchanges(record.exchanges, this.notebook),
      ...this.best(),
      el(
        'ul',
        { class: 'pl-muted' },
        record.remarks.map(remark => el('li', {}, remark)),
      ),
    );
    this.element.replaceChildren(body);
  }

  private ask(change: Partial<PlacementRequest>): void {
    const { axis_names, axis_sizes, dim_axes } = this.record.placement;
    this.element.classList.add('pl-waiting');
    this.request?.({
      axes: axis_names.map((name, i) => [name, axis_sizes[i]!]),
      dims: dim_axes,
      searchUnder: null,
      ...change,
    });
  }

  private mesh(): HTMLElement {
    const { axis_names, axis_sizes } = this.record.placement;
    return el(
      'div',
      { class: 'pl-mesh-axes' },
      axis_names.map((name, i) => this.axis(name, axis_sizes[i]!)),
      this.request === undefined ? null : this.addButton(),
      el('span', { class: 'pl-muted' }, counted(deviceCount(this.record.placement), 'device')),
    );
  }

  private addButton(): HTMLElement {
    const button = el(
      'button',
      { type: 'button', class: 'pl-action', 'data-key': 'add' },
      'Add an axis',
    );
    button.addEventListener('click', () => this.startNaming(null));
    return button;
  }

  private axis(name: string, size: number): HTMLElement {
    if (this.request === undefined) {
      return el('div', { class: 'pl-mesh-axis' }, this.chip(name), ` = ${whole(size)}`);
    }
    const number = el('input', {
      type: 'number',
      min: 1,
      max: 2 ** MAX_AXIS_BITS,
      value: size,
      'aria-label': `number of parts along ${name}`,
      'data-key': `number ${name}`,
    });
    const slider = el('input', {
      type: 'range',
      min: 0,
      max: MAX_AXIS_BITS,
      step: 1,
      value: Math.round(Math.log2(size)),
      'aria-label': `size of ${name}`,
      'aria-valuetext': whole(size),
      'data-key': `size ${name}`,
    });
    slider.addEventListener('input', () => {
      number.value = String(2 ** slider.valueAsNumber);
    });
    slider.addEventListener('change', () => this.resize(name, 2 ** slider.valueAsNumber));
    number.addEventListener('keydown', event => event.key === 'Enter' && number.blur());
    number.addEventListener('change', () => this.resize(name, Math.round(number.valueAsNumber)));
    return el(
      'div',
      { class: 'pl-mesh-axis' },
      this.movableChip(name),
      number,
      slider,
      this.axisButton(`Rename ${name}`, '✎', name, () => this.startNaming(name)),
      this.axisButton(`Remove ${name}`, '×', name, () => this.replaceAxis(name, null)),
    );
  }

  private axisButton(label: string, sign: string, name: string, act: () => void): HTMLElement {
    const button = el(
      'button',
      {
        type: 'button',
        class: 'pl-axis-button',
        'aria-label': label,
        title: label,
        'data-key': `${sign} ${name}`,
      },
      sign,
    );
    button.addEventListener('click', act);
    return button;
  }

  private resize(name: string, size: number): void {
    const { axis_names, axis_sizes } = this.record.placement;
    if (size >= 1) {
      this.ask({
        axes: axis_names.map((each, i) => [each, each === name ? size : axis_sizes[i]!]),
      });
    }
  }

  /** Replaces an axis name, or the button that adds an axis, by a text field. */
  private startNaming(name: string | null): void {
    const field = el('input', {
      type: 'text',
      class: 'pl-axis-name',
      value: name ?? '',
      placeholder: 'name',
      'aria-label': name === null ? 'name of the new axis' : `new name of ${name}`,
    });
    const key = name === null ? 'add' : `axis ${name}`;
    const place = this.keyed(key);
    const end = (): void => {
      const text = field.value.trim();
      const { axis_names } = this.record.placement;
      if (text === '' || text === name || axis_names.includes(text)) {
        this.draw();
      } else if (name === null) {
        this.addAxis(text);
      } else {
        this.replaceAxis(name, text);
      }
    };
    field.addEventListener('keydown', event => {
      if (event.key === 'Escape') {
        field.value = '';
      }
      if (event.key === 'Enter' || event.key === 'Escape') {
        field.blur();
      }
    });
    field.addEventListener('blur', end, { once: true });
    place?.replaceWith(field);
    field.focus();
  }

  private addAxis(name: string): void {
    const { axis_names, axis_sizes } = this.record.placement;
    const axes = axis_names.map((each, i) => [each, axis_sizes[i]!] as const);
    this.ask({ axes: [...axes, [name, 1]] });
  }

  /** Renames an axis in all specs; removes it if `by` is null. */
  private replaceAxis(name: string, by: string | null): void {
    const { axis_names, axis_sizes, dim_axes } = this.record.placement;
    const renamed = (each: string): string[] => (each !== name ? [each] : by === null ? [] : [by]);
    this.ask({
      axes: axis_names.flatMap((each, i) =>
        renamed(each).map(axis => [axis, axis_sizes[i]!] as const),
      ),
      dims: dim_axes.map(dims => dims.map(axes => axes.flatMap(renamed))),
    });
  }

  private movableChip(name: string): HTMLElement {
    const chip = this.chip(name);
    chip.draggable = true;
    chip.setAttribute('role', 'button');
    chip.setAttribute('tabindex', '0');
    chip.setAttribute('aria-pressed', String(this.picked === name));
    chip.setAttribute('data-key', `axis ${name}`);
    chip.title = `Drag it onto a dimension, or press it and then the dimension`;
    chip.addEventListener('dragstart', event => event.dataTransfer?.setData('text/plain', name));
    const pick = (): void => {
      this.picked = this.picked === name ? null : name;
      this.element
        .querySelectorAll('[aria-pressed]')
        .forEach(each =>
          each.setAttribute('aria-pressed', String(each.textContent === this.picked)),
        );
    };
    chip.addEventListener('click', pick);
    chip.addEventListener('keydown', event => {
      if (event.key === 'Enter' || event.key === ' ') {
        event.preventDefault();
        pick();
      }
    });
    return chip;
  }

  private chip(name: string): HTMLElement {
    const chip = el('span', { class: 'pl-axis-chip' }, oneLine(name, 24));
    const place = this.record.placement.axis_names.indexOf(name);
    chip.style.setProperty('--axis', axisColor(place, readTheme(this.root).isDark));
    return chip;
  }

  private arguments(): HTMLElement {
    const { arguments: all, placement, today } = this.record;
    return tableOf(
      'Arguments',
      [{ name: 'Argument' }, { name: 'Dimensions' }, { name: 'Each device', isNumber: true }],
      all.map((each, i) => [
        [
          el('code', {}, oneLine(each.name, 60)),
          each.count > 1 ? el('span', { class: 'pl-muted' }, ` × ${each.count}`) : null,
          sameDims(placement.dim_axes[i]!, today.dim_axes[i]!)
            ? null
            : el('div', { class: 'pl-muted' }, `today ${specText(today.dim_axes[i]!)}`),
        ],
        el(
          'div',
          { class: 'pl-dims' },
          each.dim_sizes.map((size, dim) => this.dimension(i, dim, size)),
        ),
        quantity(each.device_bytes, 'B'),
      ]),
    );
  }

  /** Button for a dimension of an argument: its size and mesh axes. */
  private dimension(argument: number, dim: number, size: number): HTMLElement {
    const axes = this.record.placement.dim_axes[argument]![dim]!;
    const content = [whole(size), axes.map(axis => this.chip(axis))];
    if (this.request === undefined) {
      return el('span', { class: 'pl-dim' }, content);
    }
    const name = oneLine(this.record.arguments[argument]!.name, 60);
    const cell = el(
      'button',
      {
        type: 'button',
        class: 'pl-dim',
        'data-key': `dim ${argument} ${dim}`,
        'aria-label': `dimension ${dim} of ${name}, ${axes.length > 0 ? `divided by ${axes.join(', ')}` : 'whole'}`,
        title: axes.length > 0 ? 'Press to take the last axis off' : 'Drop an axis here',
      },
      content,
    );
    cell.addEventListener('dragover', event => event.preventDefault());
    cell.addEventListener('drop', event => {
      event.preventDefault();
      this.put(argument, dim, event.dataTransfer?.getData('text/plain') ?? '');
    });
    cell.addEventListener('click', () => {
      const axis = this.picked;
      this.picked = null;
      if (axis !== null) {
        this.put(argument, dim, axis);
      } else if (axes.length > 0) {
        this.change(argument, dims =>
          dims.map((each, d) => (d === dim ? each.slice(0, -1) : each)),
        );
      }
    });
    return cell;
  }

  /** Shards a dimension over an axis, which is removed from the argument's other dimensions. */
  private put(argument: number, dim: number, axis: string): void {
    if (this.record.placement.axis_names.includes(axis)) {
      this.change(argument, dims =>
        dims.map((each, d) => {
          const others = each.filter(name => name !== axis);
          return d === dim ? [...others, axis] : others;
        }),
      );
    }
  }

  private change(
    argument: number,
    changed: (dims: readonly (readonly string[])[]) => readonly (readonly string[])[],
  ): void {
    const dims = this.record.placement.dim_axes;
    this.ask({ dims: dims.map((each, i) => (i === argument ? changed(each) : each)) });
  }

  private best(): Content[] {
    const { record } = this;
    if (this.request === undefined && record.best.length === 0) {
      return [];
    }
    const title = el('h3', {}, 'Fastest placements');
    const controls = this.request === undefined ? null : this.searchControls();
    const counts = el(
      'p',
      { class: 'pl-muted' },
      `${counted(record.examined_count, 'placement')} estimated under ` +
        `${quantity(record.memory_limit_bytes, 'B')}, ${record.excluded_count} don't fit` +
        (record.remaining_count > 0 ? `, no time for ${record.remaining_count}` : ''),
    );
    const rows = record.best.map(each => [
      [meshText(each), this.differing(each)],
      `≈ ${time(total(each))}`,
      `≈ ${quantity(each.peak_bytes, 'B')}`,
      this.request === undefined ? null : this.useButton(each),
    ]);
    const table = tableOf(
      'Fastest placements',
      [
        { name: 'Mesh' },
        { name: 'Time', isNumber: true },
        { name: 'Peak', isNumber: true },
        { name: '' },
      ],
      rows,
    );
    return [title, controls, ...(rows.length > 0 ? [table, counts] : [])];
  }

  /** Specs of a placement that differ from the displayed ones. */
  private differing(placement: PlacementRecord): Content {
    const texts = this.record.arguments.flatMap((each, i) =>
      sameDims(placement.dim_axes[i]!, this.record.placement.dim_axes[i]!)
        ? []
        : [`${oneLine(each.name, 40)}: ${specText(placement.dim_axes[i]!)}`],
    );
    return texts.map(text => el('div', { class: 'pl-muted' }, text));
  }

  private useButton(placement: PlacementRecord): HTMLElement {
    const button = el('button', { type: 'button', class: 'pl-action' }, 'Show');
    button.addEventListener('click', () =>
      this.ask({
        axes: placement.axis_names.map((name, i) => [name, placement.axis_sizes[i]!]),
        dims: placement.dim_axes,
      }),
    );
    return button;
  }

  private searchControls(): HTMLElement {
    const limit = el('input', {
      type: 'number',
      min: 0.01,
      step: 'any',
      value: (this.record.memory_limit_bytes / GIB).toPrecision(3),
      'aria-label': 'memory of a device in GiB',
      'data-key': 'limit',
    });
    const button = el(
      'button',
      { type: 'button', class: 'pl-action', 'data-key': 'search' },
      'Search',
    );
    button.addEventListener('click', () =>
      this.ask({ searchUnder: Math.round(Number(limit.value) * GIB) }),
    );
    return el('div', { class: 'pl-mesh-axes' }, button, 'under', limit, 'GiB on each device');
  }
}

/** Table of the costs of the current and of the displayed placement. */
function comparison(record: WhatIfRecord): HTMLElement {
  const { today, placement } = record;
  const most = Math.max(total(today), total(placement), Number.MIN_VALUE);
  // The current placement needs only one column.
  const shown = isSame(today, placement) ? [today] : [today, placement];
  const row = (name: string, text: (each: PlacementRecord) => Content): Content[] => [
    name,
    ...shown.map(text),
  ];
  return tableOf(
    'Costs',
    [{ name: '' }, { name: 'Today' }, { name: 'What if' }].slice(0, 1 + shown.length),
    [
      row('Mesh', meshText),
      row('Arguments on each device', each => quantity(each.argument_bytes, 'B')),
      row('Peak memory of each device', each => `≈ ${quantity(each.peak_bytes, 'B')}`),
      row('Collectives', each => [
        `≈ ${whole(each.exchange_count)}`,
        el('div', { class: 'pl-muted' }, `${quantity(each.sent_bytes, 'B')} sent by each device`),
      ]),
      row('Time of a run', each => [
        `≈ ${time(total(each))}`,
        meter(total(each) / most),
        el(
          'div',
          { class: 'pl-muted' },
          `${time(each.compute_seconds)} computing, ${time(each.exchange_seconds)} exchanging`,
        ),
      ]),
    ],
  );
}

function isSame(a: PlacementRecord, b: PlacementRecord): boolean {
  const text = ({ axis_names, axis_sizes, dim_axes }: PlacementRecord): string =>
    JSON.stringify([axis_names, axis_sizes, dim_axes]);
  return text(a) === text(b);
}

function exchanges(
  all: readonly ExchangeCostRecord[],
  notebook: NotebookLines | undefined,
): HTMLElement {
  const most = Math.max(Number.MIN_VALUE, ...all.map(each => each.seconds));
  return tableOf(
    'Collectives',
    [{ name: 'Collective' }, { name: 'Line' }, { name: 'Sent', isNumber: true }, { name: 'Time' }],
    all.map(each => [
      [
        `${each.operation} over ${each.axes.map(axis => oneLine(axis, 24)).join(', ')}`,
        each.count > 1 ? el('span', { class: 'pl-muted' }, ` × ${whole(each.count)}`) : null,
        el('div', { class: 'pl-muted' }, withTerms(REASONS[each.reason])),
      ],
      each.source === null
        ? el('span', { class: 'pl-muted' }, 'not known')
        : [
            lineLink(each.source, each.line, notebook),
            el('div', { class: 'pl-muted' }, oneLine(each.primitive, 40)),
          ],
      `≈ ${quantity(each.sent_bytes, 'B')}`,
      [`≈ ${time(each.seconds)}`, meter(each.seconds / most)],
    ]),
  );
}

function total(placement: PlacementRecord): number {
  return placement.compute_seconds + placement.exchange_seconds;
}

function time(seconds: number): string {
  return quantity(seconds * 1e6, 'us');
}

function deviceCount(placement: PlacementRecord): number {
  return placement.axis_sizes.reduce((product, size) => product * size, 1);
}

function meshText(placement: PlacementRecord): string {
  const axes = placement.axis_names.map(
    (name, i) => `${oneLine(name, 24)}=${placement.axis_sizes[i]}`,
  );
  return `${axes.join(', ')} · ${counted(deviceCount(placement), 'device')}`;
}

type Dims = readonly (readonly string[])[];

function specText(dims: Dims): string {
  const entries = dims.map(axes =>
    axes.length === 0
      ? 'None'
      : axes.length === 1
        ? `'${axes[0]}'`
        : `(${axes.map(axis => `'${axis}'`).join(', ')})`,
  );
  while (entries.at(-1) === 'None') {
    entries.pop();
  }
  return `P(${entries.join(', ')})`;
}

function sameDims(a: Dims, b: Dims): boolean {
  return specText(a) === specText(b);
}

export const whatIfStyle = `
.pl-report.pl-what-if { max-height: none; }
.pl-what-if h3 { margin: 14px 8px 4px; font-size: 12px; font-weight: 600; }
.pl-what-if > ul { margin: 12px; padding-left: 18px; font-size: 12px; }
.pl-what-if > div { min-width: 260px; }
.pl-what-if .pl-source-link { white-space: normal; }
.pl-what-if .pl-table :is(td, th) { padding: 4px 8px; overflow-wrap: break-word; }
@container pl-root (max-width: 480px) {
  .pl-what-if .pl-table :is(td, th) { padding: 4px; white-space: normal; }
  .pl-what-if .pl-table td { overflow-wrap: anywhere; }
  .pl-what-if .pl-table :is(td, th):first-child { padding-left: 8px; }
  .pl-what-if .pl-table :is(td, th):last-child { padding-right: 8px; }
}
.pl-what-if p { margin: 8px; }
.pl-estimating { visibility: hidden; }
.pl-waiting .pl-estimating { visibility: visible; }
.pl-refusal { padding: 8px 10px; white-space: pre-wrap; border-radius: 6px; background: var(--pl-amber-soft); color: var(--pl-amber); }
.pl-mesh-axes { display: flex; flex-wrap: wrap; align-items: center; gap: 8px 18px; padding: 2px 8px; }
.pl-what-if-how { margin: 6px 12px; }
.pl-mesh-axis { display: flex; align-items: center; gap: 8px; }
.pl-mesh-axis input { flex: 0 1 150px; min-width: 60px; accent-color: var(--pl-accent); }
.pl-axis-button { border: 0; border-radius: 5px; background: none; cursor: pointer; padding: 0 5px; color: var(--pl-muted) !important; line-height: 22px !important; }
.pl-axis-button:hover { background: var(--pl-sunken); color: var(--pl-text) !important; }
.pl-axis-name { width: 90px; padding: 1px 6px; border: 1px solid var(--pl-accent); border-radius: 5px; background: var(--pl-bg); }
.pl-mesh-axes input[type='number'] { flex: none; width: 76px; padding: 2px 6px; border: 1px solid var(--pl-line); border-radius: 5px; background: var(--pl-bg); }
.pl-axis-chip { padding: 0 7px; border: 1px solid var(--axis); border-radius: 9px; color: var(--axis); font: 11px/17px var(--pl-code); white-space: nowrap; }
.pl-axis-chip[draggable='true'] { cursor: grab; }
.pl-axis-chip[aria-pressed='true'] { background: var(--pl-accent-soft); }
.pl-dims { display: flex; flex-wrap: wrap; gap: 4px; }
.pl-dim { display: inline-flex; align-items: center; gap: 5px; min-height: 24px; padding: 1px 8px; border: 1px dashed var(--pl-line-strong); border-radius: 5px; background: none; font-variant-numeric: tabular-nums; }
button.pl-dim { cursor: pointer; }
button.pl-dim:hover { background: var(--pl-accent-soft); }
`;
