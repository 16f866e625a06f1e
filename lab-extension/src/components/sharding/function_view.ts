/** Shardings of a function's intermediates with the reason for each, and its collectives. */

import type { CollectiveRecord, FunctionShardingRecord } from '../../generated/introspect';
import type { LayoutClient } from '../../layout/client';
import type { Program } from '../../records/program';
import { ShardedFunction, isCostly, sentBytes, type Hop } from '../../records/sharded_function';
import { NO_FILTER, ShardingLines, type RowFilter } from '../../records/sharding_lines';
import { tilesOfSpec } from '../../records/tiles';
import { CanvasPane } from '../canvas_pane';
import { el, type Content } from '../dom';
import { counted, oneLine, quantity } from '../format';
import { frameOf, type Box } from '../graph/box';
import { equationText, operandText, placeText } from '../graph/describe';
import type { Badge } from '../graph/frame';
import { GraphView } from '../graph/graph_view';
import { GraphModel } from '../graph/model';
import { meter, tableOf, type Column } from '../table';
import { SourceLink, type ProgramEvents } from '../source_link';
import { LinesView } from '../text/lines_view';
import { readTheme } from '../theme';
import { ArrayView, paintBars } from './array_view';
import { axisColor, deviceColors } from './colors';
import { sentenceOf, withTerms } from '../terms';
import { REASONS } from './reasons';

const MAX_LISTED_HOPS = 12;
const MAX_KINDS = 3;

type Pane = 'table' | 'graph' | 'value';

export class FunctionShardingView {
  readonly element: HTMLElement;
  readonly ready: Promise<void>;
  private readonly sharded: ShardedFunction;
  private readonly lines: ShardingLines;
  private readonly table: LinesView;
  private readonly graph: GraphView;
  private readonly model: GraphModel;
  private readonly detail = el('div', { class: 'pl-value-detail' });
  /** Description of the selected collective. */
  private readonly chosen = el('div', { class: 'pl-exchange' });
  private readonly tabs = new Map<Pane, HTMLButtonElement>();
  private filter: RowFilter = NO_FILTER;
  private readonly whyList = el('div', { class: 'pl-why' });
  private readonly legend = el('span', { class: 'pl-axes' });
  private readonly status = el('div', { class: 'pl-array-status pl-muted', 'aria-live': 'polite' });
  private readonly sourceLink: SourceLink;
  private readonly peakPane: CanvasPane | null;
  private arrayView: ArrayView | null = null;
  private readonly siteOfFrame = new WeakMap<Box, number>();
  /** Number of the selected value. */
  private number = -1;

  constructor(
    private readonly root: HTMLElement,
    record: FunctionShardingRecord,
    layouts: LayoutClient,
    private readonly events: ProgramEvents = {},
  ) {
    const sharded = new ShardedFunction(record);
    this.sharded = sharded;
    this.sourceLink = new SourceLink(events.notebook);
    this.lines = new ShardingLines(sharded, {
      exchange: each => `⇄ ${this.collectiveText(each)}`,
      bytes: count => quantity(count, 'B'),
    });
    this.table = new LinesView('Sharding of every value', this.lines, {
      onHover: (equations, line) => this.hoverLine(equations, line),
      onClick: (_, line) => this.pickLine(line),
      onGo: equations => this.sourceLink.go(sharded.program, equations),
    });
    this.table.element.classList.add('pl-has-hulls', 'pl-sharding-rows');
    this.model = new GraphModel(sharded.program, layouts);
    this.graph = new GraphView(root, this.model, {
      onHover: equations => {
        this.table.setLinked(equations);
        this.events.onHover?.(sharded.program, equations);
      },
      onSelect: box => {
        this.events.onSelect?.(sharded.program, box?.equations ?? []);
        this.sourceLink.show(sharded.program, box?.equations ?? []);
        const [number] = box === null ? [] : this.numbersOf(box, frameOf(box), box.operands);
        if (number !== undefined) {
          this.select(number);
          this.table.showLine(this.lines.lineOf(number));
        }
      },
      onGo: box => this.sourceLink.go(sharded.program, box.equations),
      onKey: () => false,
      edgeLabel: (value, frame) => {
        const spec = sharded.specOf(sharded.numberAt(this.siteOf(frame), value));
        return oneLine(spec === null ? '?' : sharded.specText(spec), 40);
      },
      edgeColors: (value, frame, isDark) =>
        sharded
          .axesOf(sharded.numberAt(this.siteOf(frame), value))
          .map(axis => axisColor(axis, isDark)),
      badgeOf: box => this.badgeOf(box),
      about: (box, values, frame) => this.about(box, values, frame),
    });
    this.peakPane =
      record.device_peak_bytes.length === 0
        ? null
        : new CanvasPane('pl-bytes', 'Peak memory of each device', (context, width, height) => {
            const theme = readTheme(root);
            const colors = deviceColors(sharded.meshes[0]!, 'device', theme.isDark);
            paintBars(context, width, height, record.device_peak_bytes, colors, new Set(), theme);
          });
    this.element = this.build();
    this.showColors();
    this.ready = this.model.openComfortably();
    this.showFirst();
  }

  /** Selects the collective that moves most bytes; without any, a sharded value. */
  private showFirst(): void {
    const { sharded } = this;
    const [largest] = [...sharded.collectives].sort((a, b) => sentBytes(b) - sentBytes(a));
    const { outputs, inputs } = sharded.program.bodies[0]!;
    const numbers = [...outputs, ...inputs]
      .filter(operand => operand >= 0)
      .map(value => sharded.numberAt(0, value));
    this.select(numbers.find(each => sharded.axesOf(each).length > 0) ?? numbers[0] ?? -1);
    if (largest !== undefined) {
      this.selectExchange(largest);
      requestAnimationFrame(() => this.table.showLine(this.lines.lineOfExchange(largest)));
    }
  }

  /** Selects the value of a collective, and describes the collective. */
  private selectExchange(exchange: CollectiveRecord): void {
    const { program } = this.sharded;
    if (program.ids[exchange.equation] === undefined) {
      return;
    }
    const [result] = program.resultsOf(exchange.equation);
    if (result !== undefined && exchange.site >= 0) {
      this.select(this.sharded.numberAt(exchange.site, result));
    }
    this.chosen.replaceChildren(...this.exchangeParts(exchange));
    this.sourceLink.show(program, [exchange.equation]);
    this.table.setLinked([exchange.equation]);
    this.graph.setLinked([exchange.equation]);
  }

  dispose(): void {
    this.table.dispose();
    this.graph.dispose();
    this.peakPane?.dispose();
    this.arrayView?.dispose();
  }

  themeChanged(): void {
    this.showColors();
    this.graph.themeChanged();
    this.arrayView?.themeChanged();
    this.peakPane?.draw();
  }

  /** Updates axis colours in the legend and beside lines; the graph requests those of edges. */
  private showColors(): void {
    const { isDark } = readTheme(this.root);
    const chips = this.sharded.meshes.map(mesh => {
      const before = this.sharded.axesBefore(mesh);
      return mesh.axisNames.map((name, axis) => {
        const swatch = el('i', { 'aria-hidden': 'true' });
        swatch.style.background = axisColor(before + axis, isDark);
        return el('span', {}, swatch, `${oneLine(name, 24)} ${mesh.axisSizes[axis]}`);
      });
    });
    const [own = [], ...others] = chips;
    this.legend.replaceChildren(
      ...own,
      ...others.flatMap(mesh => [el('span', { class: 'pl-muted' }, 'and mesh'), ...mesh]),
    );
    this.table.setMarks(line => {
      const exchange = this.lines.exchangeAt(line);
      if (exchange !== null) {
        return { className: isCostly(exchange) ? 'pl-line-amber' : 'pl-line-exchange', note: '⇄' };
      }
      if (this.lines.unevenAt(line) !== null) {
        return { className: 'pl-line-amber', note: '!' };
      }
      const number = this.lines.numberAt(line);
      const axes = number < 0 ? [] : this.sharded.axesOf(number);
      return { hulls: axes.map(axis => axisColor(axis, isDark)) };
    });
  }

  private hoverLine(equations: ArrayLike<number>, line: number): void {
    this.graph.setLinked(Array.from(equations));
    this.events.onHover?.(this.sharded.program, equations);
    const exchange = line < 0 ? null : this.lines.exchangeAt(line);
    const number = line < 0 ? -1 : this.lines.numberAt(line);
    this.status.textContent =
      exchange !== null
        ? [this.collectiveText(exchange), exchange.note].filter(Boolean).join(': ')
        : number >= 0
          ? this.valueSentence(number)
          : ((line < 0 ? null : this.lines.unevenAt(line))?.note ?? HINT);
  }

  /** The site of an open box's program. */
  private siteOf(frame: Box): number {
    let site = this.siteOfFrame.get(frame);
    if (site === undefined) {
      site = this.findSite(frame);
      this.siteOfFrame.set(frame, site);
    }
    return site;
  }

  private findSite(frame: Box): number {
    const call = frame.kind === 'region' ? frame.parent : frame;
    if (call === null || call.parent === null) {
      return 0;
    }
    const use = frame.kind === 'region' ? call.children.indexOf(frame) : 0;
    return this.sharded.siteWithin(this.siteOf(frameOf(call)), call.equation, use);
  }

  /** Value numbers inside an open box, and those of the results of `box` in it. */
  private numbersOf(box: Box | null, frame: Box, values: readonly number[]): number[] {
    const { program } = this.sharded;
    const results = box !== null && box.equation >= 0 ? [...program.resultsOf(box.equation)] : [];
    const site = this.siteOf(frame);
    return [...values, ...results]
      .filter(value => value >= 0)
      .map(value => this.sharded.numberAt(site, value));
  }

  private exchangesOf(box: Box): CollectiveRecord[] {
    const site = this.siteOf(frameOf(box));
    return Array.from(box.equations, each => this.sharded.collectivesWithin(site, each)).flat();
  }

  /** Badge of a box: the collectives of its equations. */
  private badgeOf(box: Box): Badge | null {
    const exchanges = this.exchangesOf(box);
    const [first] = exchanges;
    if (first === undefined) {
      return null;
    }
    const bytes = quantity(
      exchanges.reduce((sum, each) => sum + sentBytes(each), 0),
      'B',
    );
    const text =
      exchanges.length === 1
        ? `${oneLine(first.operation, 24)} ${first.axes.map(axis => oneLine(axis, 16)).join('·')} ${bytes}`
        : `${exchanges.length} exchanges ${bytes}`;
    return { text: `⇄ ${text}`, isWarning: exchanges.some(isCostly) };
  }

  /** Tooltip lines about shardings and collectives. */
  private about(box: Box | null, values: readonly number[], frame: Box): string[] {
    const shown = this.numbersOf(box, frame, values).slice(0, 6);
    const exchanges = box === null ? [] : this.exchangesOf(box).slice(0, 4);
    return [
      ...shown.map(number => this.valueSentence(number)),
      ...exchanges.map(each => `⇄ ${this.collectiveText(each)}`),
    ];
  }

  /** `h:f32[512,4096] lies as P('data'), 2 MiB on each device; data: argument x`. */
  private valueSentence(number: number): string {
    const { sharded } = this;
    const spec = sharded.specOf(number);
    const where = spec === null ? 'nobody knows' : sharded.specText(spec);
    const parts = [
      `${operandText(sharded.program, sharded.valueOf(number))} lies as ${oneLine(where, 80)}`,
      `${quantity(sharded.deviceBytes(number), 'B')} on each device`,
    ];
    const others = sharded.otherLayouts(number);
    parts.push(others > 0 ? `and otherwise in ${others} other places` : '');
    const why = sharded.whyText(number);
    return [parts.filter(Boolean).join(', '), oneLine(why, 200)].filter(Boolean).join('; ');
  }

  get programs(): readonly [Program] {
    return [this.sharded.program];
  }

  /** Highlights equations that are pointed at elsewhere. */
  highlight([equations = []]: readonly (readonly number[])[]): void {
    this.graph.setLinked(equations);
    this.table.setLinked(equations, true);
  }

  private pickLine(line: number): void {
    const exchange = this.lines.exchangeAt(line);
    const [equation] = this.lines.equations(line);
    if (equation !== undefined) {
      this.goTo(equation, this.lines.siteAt(line));
    }
    if (exchange !== null) {
      this.selectExchange(exchange);
    } else {
      this.select(this.lines.numberAt(line));
    }
  }

  private goTo(equation: number, site: number): void {
    void this.graph.goTo(equation, site < 0 ? undefined : this.sharded.callsTo(site));
  }

  /** Selects a value: shows its shards and the reason for its sharding. */
  private select(number: number): void {
    if (number === this.number || number < 0) {
      return;
    }
    this.number = number;
    this.chosen.replaceChildren();
    const { program } = this.sharded;
    const spec = this.sharded.specOf(number);
    const mesh = this.sharded.meshOf(number);
    const value = this.sharded.valueOf(number);
    const type = program.typeOf(value);
    const shape = type.shape;
    this.arrayView?.dispose();
    this.arrayView = null;
    const isDrawable =
      spec !== null && shape !== null && shape.every(dim => typeof dim === 'number');
    if (isDrawable) {
      const elements = shape.reduce((product, dim) => product * dim, 1);
      this.arrayView = new ArrayView(this.root, {
        name: program.valueName(value),
        type: type.text,
        itemBytes: elements > 0 ? (type.bytes ?? 0) / elements : 0,
        mesh,
        spec,
        tiles: tilesOfSpec(shape, mesh, spec),
        manualAxes: this.sharded.sites[this.sharded.siteOf(number)]!.manualAxes,
      });
      this.detail.replaceChildren(this.arrayView.element);
    } else {
      const why = spec === null ? 'its sharding is not known' : 'its shape is not fixed';
      this.detail.replaceChildren(
        el('p', { class: 'pl-muted pl-pad' }, `${oneLine(program.valueName(value), 80)}: ${why}.`),
      );
    }
    const axes = this.sharded.whyOf(number).map(hop => this.whyOfAxis(number, hop.axis));
    this.whyList.replaceChildren(
      ...(axes.length > 0 ? axes : [el('p', { class: 'pl-muted' }, this.wholeText(number))]),
    );
  }

  private wholeText(number: number): string {
    const { manualAxes } = this.sharded.sites[this.sharded.siteOf(number)]!;
    return manualAxes.length > 0
      ? `It is what one device along ${manualAxes.join(', ')} computes with; no other axis divides it.`
      : 'No axis divides it: every device holds it whole.';
  }

  /**
   * List of steps by which an axis was propagated to a value, back to its origin in the user's
   * code.
   */
  private whyOfAxis(number: number, axis: string): HTMLElement {
    const chain = this.sharded.chainOf(number, axis);
    const items = chain.slice(0, MAX_LISTED_HOPS).map(hop => this.whyItem(hop));
    const last = chain[chain.length - 1];
    if (chain.length > MAX_LISTED_HOPS && last !== undefined) {
      const between = counted(chain.length - MAX_LISTED_HOPS - 1, 'more step');
      items.push(el('li', { class: 'pl-muted' }, `${between}, then`), this.whyItem(last));
    }
    return el('section', {}, el('code', {}, oneLine(axis, 40)), el('ol', {}, items));
  }

  private whyItem(hop: Hop): HTMLElement {
    const { program } = this.sharded;
    const isEnd = hop.number < 0;
    const equation = isEnd ? (hop.origin?.equation ?? -1) : hop.equation;
    const parts: Content[] = [
      oneLine(isEnd ? (hop.origin?.text ?? 'the partitioner chose it') : this.ruleText(hop), 200),
    ];
    if (isEnd && hop.origin !== null) {
      parts.push(' ', el('span', { class: 'pl-chip pl-tone-info' }, 'you wrote this'));
    }
    if (program.ids[equation] !== undefined) {
      const link = el(
        'button',
        { type: 'button', class: 'pl-link' },
        placeText(program, equation) || oneLine(program.primitive(equation), 40),
      );
      link.title = equationText(program, equation);
      link.addEventListener('click', () => this.goTo(equation, this.siteOfHop(hop, equation)));
      link.addEventListener('pointerenter', () => this.table.setLinked([equation], true));
      parts.push(' ', link);
    }
    return el('li', {}, parts);
  }

  /**
   * The site where an equation propagates an axis, to its own result or to that of a call; -1 if
   * unknown.
   */
  private siteOfHop(hop: Hop, equation: number): number {
    const { sharded } = this;
    const body = sharded.program.bodyOf[equation];
    const near = [hop.number, hop.origin?.value ?? -1, this.number].map(each =>
      sharded.siteOf(each),
    );
    return near.find(site => site >= 0 && sharded.sites[site]!.body === body) ?? -1;
  }

  /** Text of a propagation step: `follows dimension 1 of w through dot_general`. */
  private ruleText({ number, dimension, equation }: Hop): string {
    const { program } = this.sharded;
    const value = this.sharded.valueOf(number);
    const part = dimension < 0 ? '' : `dimension ${dimension} of `;
    const carrier = program.ids[equation] === undefined ? '' : program.primitive(equation);
    return `follows ${part}${program.valueName(value)}${carrier === '' ? '' : ` through ${carrier}`}`;
  }

  private build(): HTMLElement {
    const { record, collectives } = this.sharded;
    const costly = collectives.filter(isCostly);
    const header = el(
      'header',
      { class: 'pl-array-header' },
      el('strong', {}, oneLine(record.name, 80)),
      this.legend,
      ...(this.sharded.meshes[0]!.deviceCount === 1
        ? [el('span', { class: 'pl-chip' }, 'on one device: nothing is divided or exchanged')]
        : [
            el('span', { class: 'pl-chip' }, withTerms(counted(collectives.length, 'collective'))),
            el(
              'span',
              { class: 'pl-chip' },
              `${quantity(this.sharded.bytesSent, 'B')} sent by each device`,
            ),
          ]),
      costly.length > 0
        ? el(
            'span',
            { class: 'pl-chip pl-tone-amber' },
            withTerms(`${costly.length} of them resharding`),
          )
        : null,
      this.sharded.uneven.length > 0
        ? el(
            'span',
            {
              class: 'pl-chip pl-tone-amber',
              title: this.sharded.uneven.map(each => each.note).join('\n'),
            },
            counted(this.sharded.uneven.length, 'uneven constraint'),
          )
        : null,
      this.peakPane === null
        ? null
        : el('span', { class: 'pl-chip' }, `peak ${this.peakText()} on each device`),
      el(
        'span',
        { class: 'pl-chip', title: record.not_compiled },
        record.basis === 'compiler' ? 'of the compiled program' : 'estimate, not compiled',
      ),
    );
    this.status.textContent = HINT;
    const why = el('section', { class: 'pl-pad' }, el('h4', {}, 'Why it lies so'), this.whyList);
    const right = el(
      'div',
      { class: 'pl-sharded-right', 'data-pane': 'value' },
      el('div', { class: 'pl-chosen' }, this.chosen, this.sourceLink.element),
      this.detail,
      why,
      this.differences(),
    );
    const left = el(
      'div',
      { class: 'pl-sharded-left' },
      el(
        'div',
        { class: 'pl-sharding-table', 'data-pane': 'table' },
        columnNames(),
        this.table.element,
      ),
      this.graph.element,
      this.status,
    );
    this.graph.element.dataset['pane'] = 'graph';
    const main = el(
      'div',
      { class: 'pl-array pl-sharded' },
      header,
      this.overview(),
      el('div', { class: 'pl-bar' }, this.paneTabs(), this.filterBar()),
      el('div', { class: 'pl-sharded-main' }, left, right),
    );
    main.dataset['shown'] = 'table';
    return main;
  }

  private paneTabs(): HTMLElement {
    const names: [Pane, string][] = [
      ['table', 'Values'],
      ['graph', 'Graph'],
      ['value', 'Selected'],
    ];
    return el(
      'div',
      { class: 'pl-tabs', role: 'tablist' },
      names.map(([pane, name]) => {
        const tab = el(
          'button',
          { type: 'button', role: 'tab', class: `pl-tab pl-pane-tab-${pane}` },
          name,
        );
        tab.setAttribute('aria-selected', String(pane === 'table'));
        tab.addEventListener('click', () => this.showPane(pane));
        this.tabs.set(pane, tab);
        return tab;
      }),
    );
  }

  private showPane(pane: Pane): void {
    this.element.dataset['shown'] = pane;
    this.tabs.forEach((tab, name) => tab.setAttribute('aria-selected', String(name === pane)));
  }

  /** Totals of collectives by kind, and the memory of each device. */
  private overview(): HTMLElement | null {
    const { record, collectives } = this.sharded;
    const estimate =
      record.basis === 'compiler'
        ? null
        : el('p', { class: 'pl-muted' }, `Estimated: ${oneLine(record.not_compiled, 300)}`);
    const peak =
      this.peakPane === null
        ? null
        : el(
            'section',
            { class: 'pl-peak' },
            el('h4', {}, this.peakTitle()),
            this.peakPane.element,
          );
    const exchanges =
      collectives.length === 0
        ? el('p', { class: 'pl-muted' }, 'Devices exchange nothing.')
        : this.totalsTable();
    return el('div', { class: 'pl-overview' }, el('section', {}, estimate, exchanges), peak);
  }

  /** Table of totals of the `most` largest kinds; the others are shown on request. */
  private totalsTable(most = MAX_KINDS): HTMLElement {
    const { totals, bytesSent } = this.sharded;
    const rows = totals
      .slice(0, most)
      .map((each): Content[] => [
        `${oneLine(each.operation, 40)} over ${this.axesText(each)}`,
        String(each.count),
        quantity(each.bytes, 'B'),
        meter(each.bytes / bytesSent),
        this.exchangeLink(each.largest),
      ]);
    const table = tableOf('Collectives by kind', TOTALS, rows);
    const more = totals.length - rows.length;
    if (more <= 0) {
      return table;
    }
    const text = `${counted(more, 'kind')} more`;
    const button = el('button', { type: 'button', class: 'pl-link' }, text);
    const place = el('div', { class: 'pl-totals' }, table, button);
    button.addEventListener('click', () => place.replaceWith(this.totalsTable(Infinity)));
    return place;
  }

  /** A link that selects a collective, named by its line. */
  private exchangeLink(exchange: CollectiveRecord): HTMLElement {
    const place = this.lines.origin(exchange.equation);
    const text = `${quantity(sentBytes(exchange), 'B')} at ${place}`;
    const title = this.place(exchange.equation);
    const link = el('button', { type: 'button', class: 'pl-link', title }, oneLine(text, 60));
    link.addEventListener('click', () => {
      this.selectExchange(exchange);
      this.goTo(exchange.equation, exchange.site);
      this.table.showLine(this.lines.lineOfExchange(exchange));
      this.showPane('table');
    });
    return link;
  }

  /** Description of a collective: operation, bytes, reason, source line. */
  private exchangeParts(exchange: CollectiveRecord): Content[] & Node[] {
    return [
      el('h4', {}, withTerms(`⇄ ${this.collectiveText(exchange)}`)),
      ...(exchange.note === '' ? [] : [el('p', {}, oneLine(exchange.note, 300))]),
    ];
  }

  private filterBar(): HTMLElement {
    const kinds: [RowFilter['kind'], string][] = [
      ['all', 'all rows'],
      ['exchanges', 'exchanges only'],
      ['whole', 'whole on every device'],
      ['divided', 'divided values'],
    ];
    const sizes: [number, string][] = [
      [0, 'any size'],
      [1024, 'from 1 KiB'],
      [1 << 20, 'from 1 MiB'],
      [1 << 30, 'from 1 GiB'],
    ];
    const axes = [...new Set(this.sharded.meshes.flatMap(mesh => mesh.axisNames))];
    const kind = choice('Kind of row', kinds);
    const size = choice('Bytes on each device', sizes);
    const axis = choice('Mesh axis', [
      ['', 'any axis'],
      ...axes.map(name => [name, name] as const),
    ]);
    const text = el('input', {
      class: 'pl-filter',
      type: 'search',
      placeholder: 'Name, type or line',
      'aria-label': 'Show rows whose name, type or line has this text',
    });
    const count = el('span', { class: 'pl-muted', 'aria-live': 'polite' });
    const apply = (): void => {
      const filter = {
        kind: kind.value as RowFilter['kind'],
        minBytes: Number(size.value),
        axis: axis.value,
        text: text.value.trim(),
      };
      const isOn = filter.kind !== 'all' || filter.minBytes > 0 || filter.axis + filter.text !== '';
      this.filter = isOn ? filter : NO_FILTER;
      this.lines.setFilter(this.filter);
      this.table.reload();
      count.textContent = isOn ? counted(this.lines.count, 'row') : '';
    };
    for (const control of [kind, size, axis, text]) {
      control.addEventListener('input', apply);
    }
    text.addEventListener('keydown', event => event.stopPropagation());
    return el('div', { class: 'pl-filters' }, kind, size, axis, text, count);
  }

  private peakTitle(): string {
    return `Peak memory of each device, at most ${this.peakText()}`;
  }

  private peakText(): string {
    return quantity(
      this.sharded.record.device_peak_bytes.reduce((a, b) => Math.max(a, b), 0),
      'B',
    );
  }

  private axesText({ axes, mesh }: { axes: readonly string[]; mesh: number }): string {
    const names = axes.map(axis => oneLine(axis, 30)).join(', ') || 'unknown axes';
    return mesh > 0 ? `${names} (mesh ${this.sharded.meshes[mesh]?.text ?? '?'})` : names;
  }

  private collectiveText(each: CollectiveRecord): string {
    const runs =
      each.runs === null ? ', unknown number of runs' : each.runs === 1 ? '' : ` × ${each.runs}`;
    const groups = `${each.group_count} × ${each.group_size} devices`;
    return `${oneLine(each.operation, 40)} over ${this.axesText(each)} (${groups}): ${quantity(each.bytes_per_device, 'B')}${runs}, ${REASONS[each.reason] ?? 'reason not known'}`;
  }

  /** Source line of an equation; empty if unknown. */
  private place(equation: number): string {
    const { program } = this.sharded;
    return program.ids[equation] === undefined ? '' : placeText(program, equation);
  }

  /** Differences between the compiled program and Shardy's plan. */
  private differences(): HTMLElement | null {
    const { differences } = this.sharded.record;
    if (differences.length === 0) {
      return null;
    }
    const items = differences.map(each => el('li', {}, oneLine(each, 200)));
    const title = "What runs differs from Shardy's plan";
    return el('section', { class: 'pl-pad' }, el('h4', {}, title), el('ul', {}, items));
  }
}

const TOTALS: readonly Column[] = [
  { name: 'kind' },
  { name: 'times', isNumber: true },
  { name: 'sent per device', isNumber: true },
  { name: '' },
  { name: 'the largest' },
];

/** Column titles of the table. */
function columnNames(): HTMLElement {
  const names: [string, string][] = [
    ['value', 'value'],
    ['type', 'type'],
    ['spec', 'spec'],
    ['bytes', 'per device'],
    ['line', 'line'],
    ['by', 'laid out by'],
  ];
  return el(
    'div',
    { class: 'pl-column-names', 'aria-hidden': 'true' },
    el('span', { class: 'pl-gutter' }),
    el(
      'span',
      { class: 'pl-line-text' },
      names.map(([key, name]) =>
        el('span', { class: `pl-cell-${key}`, title: sentenceOf(name) }, name),
      ),
    ),
  );
}

function choice(
  label: string,
  options: readonly (readonly [string | number, string])[],
): HTMLSelectElement {
  return el(
    'select',
    { class: 'pl-select', 'aria-label': label, title: label },
    options.map(([value, name]) => el('option', { value }, name)),
  );
}

const HINT = 'Point at a value to see where it lies, and who said so.';

export const functionShardingStyle = `
.pl-sharded { container-type: inline-size; }
.pl-overview { display: flex; flex-wrap: wrap; gap: 4px 20px; padding: 4px 0; border-bottom: 1px solid var(--pl-line); flex: none; }
.pl-overview > section { flex: 3 1 380px; min-width: 0; }
.pl-overview > .pl-peak { flex: 1 1 160px; padding: 4px 12px; }
.pl-overview p { margin: 4px 12px; font-size: 12px; }
.pl-overview h4, .pl-exchange h4 { margin: 0 0 4px; font-size: 12px; font-weight: 600; }
.pl-overview .pl-bytes { height: 36px; }
.pl-overview .pl-table td, .pl-overview .pl-table th { padding: 2px 12px; border-bottom: 0; }
.pl-overview .pl-table td { white-space: nowrap; overflow-wrap: normal; }
.pl-overview .pl-table .pl-link { white-space: normal; text-align: left; overflow-wrap: anywhere; }
.pl-overview .pl-table td:last-child { min-width: 190px; }
.pl-totals > .pl-link { margin: 0 12px; }
.pl-overview > section { max-height: 190px; overflow: auto; }
.pl-overview .pl-meter { min-width: 40px; }
.pl-chosen > .pl-source-link { display: block; padding: 2px 14px 6px; }
.pl-sharded-main { display: flex; flex: 1; min-height: 0; min-width: 0; }
.pl-sharded-left { flex: 3 1 420px; display: flex; flex-direction: column; min-width: 0; min-height: 0; border-right: 1px solid var(--pl-line); }
.pl-sharded-left > * { flex: 1 1 50%; height: auto; min-height: 0; }
.pl-sharded-left > .pl-array-status { flex: none; height: 25px; min-height: 0; padding: 3px 12px; overflow: hidden; white-space: nowrap; text-overflow: ellipsis; }
.pl-sharding-table { display: flex; flex-direction: column; min-height: 0; container: pl-sharding-table / inline-size; }
.pl-sharding-table > .pl-lines { flex: 1; height: auto; }
.pl-bar { display: flex; flex-wrap: wrap; align-items: center; border-bottom: 1px solid var(--pl-line); flex: none; }
.pl-bar > .pl-tabs { border-bottom: 0; }
.pl-filters { display: flex; flex: 1 1 300px; flex-wrap: wrap; align-items: center; gap: 4px 8px; padding: 3px 10px; font-size: 12px; }
.pl-sharded:not([data-shown='table']) .pl-filters { visibility: hidden; }
.pl-filters .pl-select { min-width: 0; flex: 0 1 auto; }
.pl-filter { flex: 1 1 110px; min-width: 90px; height: 26px; border: 1px solid var(--pl-line); border-radius: 6px; padding: 0 8px; background: var(--pl-bg); }
.pl-column-names { display: flex; flex: none; border-bottom: 1px solid var(--pl-line); color: var(--pl-muted); font: 600 11px/20px var(--pl-code); border-left: 2px solid transparent; }
.pl-column-names > .pl-gutter, .pl-sharding-rows.pl-has-hulls .pl-gutter { min-width: 60px; }
.pl-sharding-rows .pl-rows { width: 100%; }
.pl-column-names > .pl-line-text, .pl-sharding-rows .pl-line-text {
  display: grid; flex: 1; min-width: 0; padding-right: 8px; column-gap: 10px;
  grid-template-columns: minmax(0, 16fr) minmax(0, 20fr) minmax(0, 25fr) 72px minmax(0, 14fr) minmax(0, 25fr);
}
.pl-column-names > .pl-line-text > span, .pl-sharding-rows .pl-cell { overflow: hidden; text-overflow: ellipsis; white-space: pre; min-width: 0; }
.pl-cell-bytes { text-align: right; }
.pl-sharding-rows .pl-cell-all { grid-column: 1 / -1; }
@container pl-sharding-table (max-width: 700px) {
  .pl-column-names > .pl-line-text, .pl-sharding-rows .pl-line-text { grid-template-columns: minmax(0, 24fr) minmax(0, 24fr) 72px minmax(0, 18fr); }
  .pl-cell-type, .pl-cell-by { display: none; }
}
@container pl-sharding-table (max-width: 480px) {
  .pl-column-names > .pl-line-text, .pl-sharding-rows .pl-line-text { grid-template-columns: minmax(0, 1fr) minmax(0, 1fr) 72px; }
  .pl-cell-line { display: none; }
  .pl-column-names > .pl-gutter, .pl-sharding-rows.pl-has-hulls .pl-gutter { min-width: 48px; }
}
@container pl-root (max-width: 480px) {
  .pl-root .pl-sharded > header .pl-chip:not(.pl-tone-amber) { padding: 0; background: none; }
  .pl-root .pl-sharded > header { gap: 0 10px; padding-bottom: 4px; }
  .pl-sharded { overflow-y: auto; }
  .pl-sharded > .pl-sharded-main { flex: 1 0 200px; }
  .pl-sharded > .pl-overview .pl-table td:last-child { width: 38%; min-width: 0; }
  .pl-sharded > .pl-overview .pl-table .pl-link { border: 0; padding: 0; }
  .pl-sharded-left > .pl-array-status { height: auto; min-height: 43px; white-space: normal; }
}
.pl-sharded-right { flex: 2 1 300px; min-width: 0; overflow: auto; }
.pl-sharded[data-shown='table'] .pl-sharded-left > [data-pane='graph'], .pl-sharded[data-shown='graph'] .pl-sharded-left > [data-pane='table'] { display: none; }
.pl-exchange:not(:empty) { padding: 8px 14px; border-bottom: 1px solid var(--pl-line); border-left: 3px solid var(--pl-collective); }
.pl-exchange p { margin: 2px 0; font-size: 12px; }
.pl-value-detail { border-bottom: 1px solid var(--pl-line); }
.pl-value-detail > .pl-array { height: auto; }
.pl-value-detail .pl-array-left, .pl-value-detail .pl-array-right { min-height: 230px; }
.pl-value-detail .pl-array-left { flex-basis: 260px; }
.pl-value-detail .pl-array-right { flex-basis: 200px; }
.pl-pad { padding: 8px 14px; margin: 0; }
.pl-pad h4 { margin: 0 0 4px; font-size: 12px; color: var(--pl-muted); font-weight: 600; }
.pl-why ol { margin: 0; padding-left: 20px; }
.pl-why code { font: 600 12px var(--pl-code); }
.pl-why p { margin: 0; }
.pl-axes { display: inline-flex; flex-wrap: wrap; gap: 4px 10px; font-size: 12px; }
.pl-axes > span { display: inline-flex; align-items: center; gap: 5px; }
.pl-axes i { width: 11px; height: 11px; border-radius: 3px; }
.pl-why li { padding: 1px 0; overflow-wrap: anywhere; }
.pl-pad > p { margin: 0 0 6px; }
.pl-pad .pl-table { margin-bottom: 8px; }
.pl-amber-text { color: var(--pl-amber); }
.pl-note { color: var(--pl-text); }
.pl-line-amber { background: var(--pl-amber-soft); color: var(--pl-amber); }
.pl-line-amber .pl-gutter { background: var(--pl-amber-soft) !important; color: var(--pl-amber); }
.pl-line-exchange { color: var(--pl-collective); }
@container (min-width: 801px) {
  .pl-bar > .pl-tabs > .pl-pane-tab-value { display: none; }
  .pl-sharded[data-shown='value'] .pl-sharded-left > [data-pane='graph'] { display: none; }
}
@container (max-width: 800px) {
  .pl-overview .pl-table :is(th, td):is(:nth-child(2), :nth-child(4)) { display: none; }
  .pl-overview .pl-table td { white-space: normal; }
  .pl-overview .pl-table :is(th, td) { padding: 2px 6px 2px 12px; }
  .pl-overview > .pl-peak { display: none; }
  .pl-sharded:not([data-shown='value']) .pl-sharded-right, .pl-sharded[data-shown='value'] .pl-sharded-left { display: none; }
  .pl-sharded-left { border-right: 0; }
}
`;
