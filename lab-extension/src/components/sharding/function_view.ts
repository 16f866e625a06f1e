/** The layout of every intermediate of a function, why it is so, and what has to be moved. */

import type { CollectiveRecord, FunctionShardingRecord } from '../../generated/introspect';
import type { LayoutClient } from '../../layout/client';
import type { Program } from '../../records/program';
import {
  ShardedFunction,
  ShardingLines,
  isCostly,
  sentBytes,
  type Hop,
} from '../../records/sharded_function';
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
import { REASONS } from './reasons';

const MOST_LISTED = 200;
const MOST_HOPS = 12;

export class FunctionShardingView {
  readonly element: HTMLElement;
  readonly ready: Promise<void>;
  private readonly sharded: ShardedFunction;
  private readonly lines: ShardingLines;
  private readonly table: LinesView;
  private readonly graph: GraphView;
  private readonly model: GraphModel;
  private readonly detail = el('div', { class: 'pl-value-detail' });
  private readonly whyList = el('div', { class: 'pl-why' });
  private readonly legend = el('span', { class: 'pl-axes' });
  private readonly status = el('div', { class: 'pl-array-status pl-muted', 'aria-live': 'polite' });
  private readonly sourceLink: SourceLink;
  private readonly peakPane: CanvasPane | null;
  private arrayView: ArrayView | null = null;
  private readonly siteOfFrame = new WeakMap<Box, number>();
  /** The one that is shown. */
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
    this.lines = new ShardingLines(sharded, each => this.collectiveText(each));
    this.table = new LinesView('Sharding of every value', this.lines, {
      onHover: (equations, line) => this.hoverLine(equations, line),
      onClick: (_, line) => this.pickLine(line),
      onGo: equations => this.sourceLink.go(sharded.program, equations),
    });
    this.table.element.classList.add('pl-has-hulls');
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
    const { outputs, inputs } = sharded.program.bodies[0]!;
    const numbers = [...outputs, ...inputs]
      .filter(operand => operand >= 0)
      .map(value => sharded.numberAt(0, value));
    // One that is divided shows more.
    this.select(numbers.find(each => sharded.axesOf(each).length > 0) ?? numbers[0] ?? -1);
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

  /** Colours of the axes: in the legend, beside lines; on edges the graph asks for them. */
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
          : HINT;
  }

  /** The site of what an open box shows. */
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

  /** Numbers of values inside of an open box, and of the results of a box there. */
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

  /** What is moved on behalf of the equations of a box. */
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

  /** What a tooltip says of layouts and exchanges. */
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

  /** Lights up equations that somebody points at elsewhere. */
  highlight([equations = []]: readonly (readonly number[])[]): void {
    this.graph.setLinked(equations);
    this.table.setLinked(equations, true);
  }

  private pickLine(line: number): void {
    this.select(this.lines.numberAt(line));
    const [equation] = this.lines.equations(line);
    if (equation !== undefined) {
      this.goTo(equation, this.lines.siteAt(line));
    }
  }

  private goTo(equation: number, site: number): void {
    void this.graph.goTo(equation, site < 0 ? undefined : this.sharded.callsTo(site));
  }

  /** Shows one value: where its parts are, and why. */
  private select(number: number): void {
    if (number === this.number || number < 0) {
      return;
    }
    this.number = number;
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

  /** The way by which an axis came to a value, back to what the user wrote. */
  private whyOfAxis(number: number, axis: string): HTMLElement {
    const chain = this.sharded.chainOf(number, axis);
    const items = chain.slice(0, MOST_HOPS).map(hop => this.whyItem(hop));
    const last = chain[chain.length - 1];
    if (chain.length > MOST_HOPS && last !== undefined) {
      const between = counted(chain.length - MOST_HOPS - 1, 'more step');
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

  /** The site at which an equation carries an axis on, to a value of its own or one that a call gives; -1 if unclear. */
  private siteOfHop(hop: Hop, equation: number): number {
    const { sharded } = this;
    const body = sharded.program.bodyOf[equation];
    const near = [hop.number, hop.origin?.value ?? -1, this.number].map(each =>
      sharded.siteOf(each),
    );
    return near.find(site => site >= 0 && sharded.sites[site]!.body === body) ?? -1;
  }

  /** `follows dimension 1 of w through dot_general`. */
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
            el('span', { class: 'pl-chip' }, counted(collectives.length, 'collective')),
            el(
              'span',
              { class: 'pl-chip' },
              `${quantity(this.sharded.bytesSent, 'B')} sent by each device`,
            ),
          ]),
      costly.length > 0
        ? el('span', { class: 'pl-chip pl-tone-amber' }, `${costly.length} of them resharding`)
        : null,
      this.peakPane === null
        ? null
        : el('span', { class: 'pl-chip' }, `peak ${this.peakText()} on each device`),
      el(
        'span',
        { class: 'pl-chip', title: record.not_compiled },
        record.basis === 'compiler' ? 'of the compiled program' : 'estimate, not compiled',
      ),
      this.sourceLink.element,
    );
    this.status.textContent = HINT;
    const tables = el(
      'div',
      { class: 'pl-sharded-left' },
      this.table.element,
      this.graph.element,
      this.status,
    );
    const right = el(
      'div',
      { class: 'pl-sharded-right' },
      this.detail,
      el('section', { class: 'pl-pad' }, el('h4', {}, 'Why it is so'), this.whyList),
      el(
        'section',
        { class: 'pl-pad' },
        el('h4', {}, 'Collectives'),
        record.basis === 'compiler'
          ? null
          : el('p', { class: 'pl-muted' }, `Estimated: ${oneLine(record.not_compiled, 300)}`),
        this.collectiveList(),
      ),
      this.differences(),
      this.peakPane === null
        ? null
        : el('section', { class: 'pl-pad' }, el('h4', {}, this.peakTitle()), this.peakPane.element),
    );
    return el(
      'div',
      { class: 'pl-array pl-sharded' },
      header,
      el('div', { class: 'pl-sharded-main' }, tables, right),
    );
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

  private collectiveList(): HTMLElement {
    const { collectives } = this.sharded;
    if (collectives.length === 0) {
      return el('p', { class: 'pl-muted' }, 'Devices exchange nothing.');
    }
    const { totals } = this.sharded;
    const items = [...collectives]
      .sort((a, b) => sentBytes(b) - sentBytes(a))
      .slice(0, MOST_LISTED)
      .map(each => {
        const item = el(
          'li',
          { class: isCostly(each) ? 'pl-amber-text' : '' },
          this.collectiveText(each),
          el('span', { class: 'pl-muted' }, ` ${this.place(each.equation)}`),
          each.note === '' ? null : el('div', { class: 'pl-note' }, oneLine(each.note, 300)),
        );
        if (this.sharded.program.ids[each.equation] !== undefined) {
          item.addEventListener('click', () => this.goTo(each.equation, each.site));
          item.addEventListener('pointerenter', () => {
            this.table.setLinked([each.equation], true);
            this.graph.setLinked([each.equation]);
          });
        }
        return item;
      });
    const more = collectives.length - items.length;
    if (more > 0) {
      items.push(el('li', { class: 'pl-muted' }, `and ${more} more, which move less`));
    }
    const list = el('ul', { class: 'pl-collectives' }, items);
    if (totals.length === collectives.length) {
      return list;
    }
    const rows = totals.map(each => [
      `${oneLine(each.operation, 40)} over ${this.axesText(each)}`,
      String(each.count),
      quantity(each.bytes, 'B'),
      meter(each.bytes / this.sharded.bytesSent),
    ]);
    return el('div', {}, tableOf('Collectives by kind', TOTALS, rows), list);
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

  /** The line of an equation; empty where that is not known. */
  private place(equation: number): string {
    const { program } = this.sharded;
    return program.ids[equation] === undefined ? '' : placeText(program, equation);
  }

  /** Where what runs isn't what Shardy planned. */
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
  { name: 'each device sends', isNumber: true },
  { name: '' },
];

const HINT = 'Point at a value to see where it lies, and who said so.';

export const functionShardingStyle = `
.pl-sharded { container-type: inline-size; }
.pl-sharded-main { display: flex; flex: 1; min-height: 0; min-width: 0; }
.pl-sharded-left { flex: 3 1 420px; display: flex; flex-direction: column; min-width: 0; min-height: 320px; border-right: 1px solid var(--pl-line); }
.pl-sharded-left > * { flex: 1 1 50%; height: auto; min-height: 0; }
.pl-sharded-left > .pl-array-status { flex: none; max-height: 4.6em; overflow: auto; }
.pl-sharded-left > .pl-graph { border-top: 1px solid var(--pl-line); }
.pl-sharded-right { flex: 2 1 360px; min-width: 0; overflow: auto; height: 100%; }
.pl-value-detail { border-bottom: 1px solid var(--pl-line); }
.pl-value-detail > .pl-array { height: auto; }
.pl-value-detail .pl-array-left, .pl-value-detail .pl-array-right { min-height: 230px; }
.pl-value-detail .pl-array-left { flex-basis: 260px; }
.pl-value-detail .pl-array-right { flex-basis: 200px; }
.pl-pad { padding: 8px 14px; margin: 0; }
.pl-pad h4 { margin: 0 0 4px; font-size: 12px; color: var(--pl-muted); font-weight: 600; }
.pl-why ol, .pl-collectives { margin: 0; padding-left: 20px; }
.pl-why code { font: 600 12px var(--pl-code); }
.pl-why p { margin: 0; }
.pl-axes { display: inline-flex; flex-wrap: wrap; gap: 4px 10px; font-size: 12px; }
.pl-axes > span { display: inline-flex; align-items: center; gap: 5px; }
.pl-axes i { width: 11px; height: 11px; border-radius: 3px; }
.pl-why li, .pl-collectives li { padding: 1px 0; overflow-wrap: anywhere; }
.pl-collectives { list-style: none; padding-left: 0; }
.pl-pad > p { margin: 0 0 6px; }
.pl-pad .pl-table { margin-bottom: 8px; }
.pl-collectives li { padding: 3px 0 3px 10px; border-left: 3px solid var(--pl-line); margin-bottom: 4px; }
.pl-collectives .pl-amber-text { border-left-color: var(--pl-amber); }
.pl-amber-text { color: var(--pl-amber); }
.pl-note { color: var(--pl-text); }
.pl-line-amber { background: var(--pl-amber-soft); color: var(--pl-amber); }
.pl-line-amber .pl-gutter { background: var(--pl-amber-soft) !important; color: var(--pl-amber); }
.pl-line-exchange { color: var(--pl-collective); }
@container (max-width: 800px) {
  .pl-sharded-main { display: block; overflow: auto; }
  .pl-sharded-left { height: 560px; border-right: 0; border-bottom: 1px solid var(--pl-line); }
  .pl-sharded-right { height: auto; overflow: visible; }
}
`;
