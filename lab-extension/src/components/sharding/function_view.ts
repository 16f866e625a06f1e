/** The layout of every intermediate of a function, why it is so, and what has to be moved. */

import type {
  CollectiveRecord,
  FunctionShardingRecord,
  WhyRecord,
} from '../../generated/introspect';
import type { LayoutClient } from '../../layout/client';
import { ShardedFunction, ShardingLines, isCostly } from '../../records/sharded_function';
import { tilesOfSpec } from '../../records/tiles';
import { CanvasPane } from '../canvas_pane';
import { Disposables, el, type Content } from '../dom';
import { counted, oneLine, quantity } from '../format';
import { equationText } from '../graph/describe';
import { GraphView } from '../graph/graph_view';
import { GraphModel } from '../graph/model';
import { LinesView } from '../text/lines_view';
import { readTheme } from '../theme';
import { ArrayView, meshText, paintBars } from './array_view';
import { deviceColors } from './colors';

const REASONS: Readonly<Record<CollectiveRecord['reason'], string>> = {
  written: 'as written',
  contraction: 'a sum over a divided dimension',
  reshard: 'resharding',
  full_replication: 'full replication',
  unknown: 'reason not known',
};

export class FunctionShardingView {
  readonly element: HTMLElement;
  readonly ready: Promise<void>;
  private readonly disposables = new Disposables();
  private readonly sharded: ShardedFunction;
  private readonly lines: ShardingLines;
  private readonly table: LinesView;
  private readonly graph: GraphView;
  private readonly model: GraphModel;
  private readonly detail = el('div', { class: 'pl-value-detail' });
  private readonly whyList = el('ol', { class: 'pl-why' });
  private readonly peakPane: CanvasPane | null;
  private arrayView: ArrayView | null = null;
  private value = -1;

  constructor(
    private readonly root: HTMLElement,
    record: FunctionShardingRecord,
    layouts: LayoutClient,
  ) {
    const sharded = new ShardedFunction(record);
    this.sharded = sharded;
    this.lines = new ShardingLines(sharded, collectiveText);
    this.table = new LinesView('Sharding of every value', this.lines, {
      onHover: equations => this.graph.setLinked(Array.from(equations)),
      onClick: (_, line) => this.pickLine(line),
    });
    this.table.setMarks(line => {
      const exchange = this.lines.exchangeAt(line);
      if (exchange === null) {
        return null;
      }
      return { className: isCostly(exchange) ? 'pl-line-amber' : 'pl-line-exchange', note: '⇄' };
    });
    this.model = new GraphModel(sharded.program, layouts);
    this.graph = new GraphView(root, this.model, {
      onHover: equations => this.table.setLinked(equations),
      onSelect: box => {
        const [value] =
          box === null
            ? []
            : [
                ...box.operands,
                ...(box.equation >= 0 ? sharded.program.resultsOf(box.equation) : []),
              ];
        if (value !== undefined && value >= 0) {
          this.select(value);
          this.table.showLine(this.lines.lineOf(value));
        }
      },
      onKey: () => false,
      edgeLabel: value => oneLine(sharded.specOf(value)?.text ?? '?', 40),
    });
    this.peakPane =
      record.device_peak_bytes.length === 0
        ? null
        : new CanvasPane('pl-bytes', 'Peak memory of each device', (context, width, height) => {
            const theme = readTheme(root);
            const colors = deviceColors(sharded.mesh, 'device', theme.isDark);
            paintBars(context, width, height, record.device_peak_bytes, colors, new Set(), theme);
          });
    this.element = this.build();
    this.ready = this.model.openComfortably().then(() => {
      const costly = sharded.collectives.filter(isCostly).map(each => each.equation);
      this.graph.setMatches(costly.filter(equation => equation >= 0));
    });
    const results = sharded.program.bodies[0]!.outputs.filter(operand => operand >= 0);
    this.select(results[0] ?? sharded.program.bodies[0]!.inputs[0] ?? -1);
  }

  dispose(): void {
    this.table.dispose();
    this.graph.dispose();
    this.peakPane?.dispose();
    this.arrayView?.dispose();
    this.disposables.dispose();
  }

  themeChanged(): void {
    this.graph.themeChanged();
    this.arrayView?.themeChanged();
    this.peakPane?.draw();
  }

  private pickLine(line: number): void {
    const value = this.lines.valueAt(line);
    if (value >= 0) {
      this.select(value);
    }
    const [equation] = this.lines.equations(line);
    if (equation !== undefined) {
      void this.graph.goTo(equation);
    }
  }

  /** Shows one value: where its parts are, and why. */
  private select(value: number): void {
    if (value === this.value || value < 0) {
      return;
    }
    this.value = value;
    const { program, mesh } = this.sharded;
    const spec = this.sharded.specOf(value);
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
      });
      this.detail.replaceChildren(this.arrayView.element);
    } else {
      const why = spec === null ? 'its sharding is not known' : 'its shape is not fixed';
      this.detail.replaceChildren(
        el('p', { class: 'pl-muted pl-pad' }, `${oneLine(program.valueName(value), 80)}: ${why}.`),
      );
    }
    this.whyList.replaceChildren(...this.sharded.whyOf(value).map(hop => this.whyItem(hop)));
    if (this.whyList.childElementCount === 0) {
      this.whyList.append(el('li', { class: 'pl-muted' }, 'No reason was recorded.'));
    }
  }

  private whyItem(hop: WhyRecord): HTMLElement {
    const { program } = this.sharded;
    const parts: Content[] = [oneLine(hop.rule, 200)];
    if (hop.is_user_written) {
      parts.push(' ', el('span', { class: 'pl-chip pl-tone-info' }, 'you wrote this'));
    }
    if (program.ids[hop.equation] !== undefined) {
      const link = el(
        'button',
        { type: 'button', class: 'pl-link' },
        oneLine(program.primitive(hop.equation), 40),
      );
      link.title = equationText(program, hop.equation);
      link.addEventListener('click', () => void this.graph.goTo(hop.equation));
      link.addEventListener('pointerenter', () => this.table.setLinked([hop.equation], true));
      parts.push(' ', link);
    }
    const place = this.place(hop.span);
    if (place !== '') {
      parts.push(el('span', { class: 'pl-muted' }, ` ${place}`));
    }
    return el('li', {}, parts);
  }

  private place(span: number): string {
    const { program } = this.sharded;
    if (!(span >= 0 && span < program.spanCount)) {
      return '';
    }
    const { source, line } = program.span(span);
    return `${oneLine(program.sources[source]?.name ?? '', 60)}, line ${line}`;
  }

  private build(): HTMLElement {
    const { record, mesh, collectives } = this.sharded;
    const costly = collectives.filter(isCostly);
    const header = el(
      'header',
      { class: 'pl-array-header' },
      el('strong', {}, oneLine(record.name, 80)),
      el('code', {}, `mesh ${meshText(mesh)}`),
      el('span', { class: 'pl-chip' }, counted(collectives.length, 'collective')),
      el(
        'span',
        { class: 'pl-chip' },
        `${quantity(this.sharded.bytesSent, 'B')} sent by each device`,
      ),
      costly.length > 0
        ? el('span', { class: 'pl-chip pl-tone-amber' }, `${costly.length} of them resharding`)
        : null,
      el('span', { class: 'pl-chip' }, record.basis),
    );
    const tables = el('div', { class: 'pl-sharded-left' }, this.table.element, this.graph.element);
    const right = el(
      'div',
      { class: 'pl-sharded-right' },
      this.detail,
      el('section', { class: 'pl-pad' }, el('h4', {}, 'Why it is so'), this.whyList),
      el('section', { class: 'pl-pad' }, el('h4', {}, 'Collectives'), this.collectiveList()),
      this.peakPane === null
        ? null
        : el('section', { class: 'pl-pad' }, el('h4', {}, this.peakTitle()), this.peakPane.element),
    );
    return el(
      'div',
      { class: 'pl-array' },
      header,
      el('div', { class: 'pl-sharded-main' }, tables, right),
    );
  }

  private peakTitle(): string {
    const most = this.sharded.record.device_peak_bytes.reduce((a, b) => Math.max(a, b), 0);
    return `Peak memory of each device, at most ${quantity(most, 'B')}`;
  }

  private collectiveList(): HTMLElement {
    const { collectives } = this.sharded;
    if (collectives.length === 0) {
      return el('p', { class: 'pl-muted' }, 'Devices exchange nothing.');
    }
    const cost = (each: CollectiveRecord): number => each.bytes_per_device * (each.runs ?? 1);
    const items = [...collectives]
      .sort((a, b) => cost(b) - cost(a))
      .slice(0, 200)
      .map(each => {
        const item = el(
          'li',
          { class: isCostly(each) ? 'pl-amber-text' : '' },
          collectiveText(each),
          el('span', { class: 'pl-muted' }, ` ${this.place(each.span)}`),
          each.note === '' ? null : el('div', { class: 'pl-note' }, oneLine(each.note, 300)),
        );
        if (this.sharded.program.ids[each.equation] !== undefined) {
          item.addEventListener('pointerenter', () => {
            this.table.setLinked([each.equation], true);
            this.graph.setLinked([each.equation]);
          });
        }
        return item;
      });
    return el('ul', { class: 'pl-collectives' }, items);
  }
}

function collectiveText(each: CollectiveRecord): string {
  const axes = each.axes.map(axis => oneLine(axis, 30)).join(', ');
  const runs =
    each.runs === null ? ', unknown number of runs' : each.runs === 1 ? '' : ` × ${each.runs}`;
  const groups = `${each.group_count} × ${each.group_size} devices`;
  return `${oneLine(each.operation, 40)} over ${axes} (${groups}): ${quantity(each.bytes_per_device, 'B')}${runs}, ${REASONS[each.reason] ?? 'reason not known'}`;
}

export const functionShardingStyle = `
.pl-sharded-main { display: flex; flex: 1; min-height: 0; min-width: 0; flex-wrap: wrap; }
.pl-sharded-left { flex: 3 1 420px; display: flex; flex-direction: column; min-width: 0; min-height: 320px; border-right: 1px solid var(--pl-line); }
.pl-sharded-left > * { flex: 1 1 50%; height: auto; }
.pl-sharded-left > .pl-graph { border-top: 1px solid var(--pl-line); }
.pl-sharded-right { flex: 2 1 360px; min-width: 0; overflow: auto; height: 100%; }
.pl-value-detail { height: 340px; border-bottom: 1px solid var(--pl-line); }
.pl-pad { padding: 8px 14px; margin: 0; }
.pl-pad h4 { margin: 0 0 4px; font-size: 12px; color: var(--pl-muted); font-weight: 600; }
.pl-why, .pl-collectives { margin: 0; padding-left: 20px; }
.pl-why li, .pl-collectives li { padding: 1px 0; overflow-wrap: anywhere; }
.pl-collectives { list-style: none; padding-left: 0; }
.pl-collectives li { padding: 3px 0 3px 10px; border-left: 3px solid var(--pl-line); margin-bottom: 4px; }
.pl-collectives .pl-amber-text { border-left-color: var(--pl-amber); }
.pl-amber-text { color: var(--pl-amber); }
.pl-note { color: var(--pl-text); }
.pl-line-amber { background: var(--pl-amber-soft); color: var(--pl-amber); }
.pl-line-amber .pl-gutter { background: var(--pl-amber-soft) !important; color: var(--pl-amber); }
.pl-line-exchange { color: var(--pl-collective); }
`;
