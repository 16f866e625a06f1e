/** Explorer of a program: linked panes with its graph, its text and its source lines. */

import { type LayoutClient } from '../../layout/client';
import { criticalPath, overlaysOf, type Overlay } from '../../records/costs';
import { FAMILIES, type Family } from '../../records/families';
import type { Grouping } from '../../records/hierarchy';
import { listingOf } from '../../records/listing';
import type { Program } from '../../records/program';
import { SourceLines } from '../../records/source_lines';
import { Disposables, el, icon, iconButton } from '../dom';
import { termed } from '../terms';
import { counted, oneLine, whole } from '../format';
import type { Box } from '../graph/box';
import { GraphView, graphStyle } from '../graph/graph_view';
import { GraphModel } from '../graph/model';
import { reachOf, type Direction } from '../graph/reach';
import { SourceLink, type ProgramEvents } from '../source_link';
import { LinesView, linesStyle, type LineMark } from '../text/lines_view';
import { Inspector, inspectorStyle } from './inspector';
import { SearchIndex } from './search';

export interface ExplorerEvents extends ProgramEvents {
  /** Label of a value's edge, instead of its type. */
  readonly edgeLabel?: ((value: number) => string | undefined) | undefined;
}

type Pane = 'graph' | 'text' | 'source' | 'details';

/** Maximum height in pixels to which a text enlarges the view; longer texts scroll. */
const MAX_TEXT_HEIGHT = 400;

const PATHS = {
  search: 'M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10ZM11 11l3 3',
  fit: 'M2 6V2h4M10 2h4v4M14 10v4h-4M6 14H2v-4',
  more: 'M4 3l4 4 4-4M4 9l4 4 4-4',
  less: 'M4 7l4-4 4 4M4 13l4-4 4 4',
  path: 'M3 2v3c0 3 10 3 10 6v3M1.5 2h3M11.5 14h3',
  fold: 'M3 5h10v8H3zM5 5V3h8v8',
  close: 'M4 4l8 8M12 4l-8 8',
  previous: 'M4 10l4-4 4 4',
  next: 'M4 6l4 4 4-4',
};

export class ProgramExplorer {
  readonly element: HTMLElement;
  readonly programs: readonly [Program];
  readonly graph: GraphView;
  readonly model: GraphModel;
  /** Resolves when the graph has its first layout. */
  readonly ready: Promise<void>;
  private readonly disposables = new Disposables();
  private readonly overlays: readonly Overlay[];
  private readonly search: SearchIndex;
  private readonly inspector: Inspector;
  private readonly place: SourceLink;
  private readonly text: LinesView;
  private readonly source: LinesView | null;
  private readonly sourceLines: SourceLines | null;
  private readonly status = el('span', { class: 'pl-status', role: 'status' });
  private readonly trail = el('nav', { class: 'pl-trail', 'aria-label': 'Selected group' });
  private readonly focusBar = el('div', { class: 'pl-focus-bar', hidden: true });
  private readonly tabs = new Map<Pane, HTMLButtonElement>();
  private readonly searchBox: HTMLInputElement;
  private readonly searchCount = el('span', { class: 'pl-search-count', 'aria-live': 'polite' });
  private readonly panes = new Map<Pane, HTMLElement>();
  /** Cost of each source line, by overlay. */
  private readonly lineTotals = new Map<string, Float64Array>();
  private undoAnnounced: (() => void) | null = null;
  private found: readonly number[] = [];
  private foundAt = -1;
  private overlay: Overlay | null = null;
  private overlaySelect: HTMLSelectElement | null = null;
  private side: Pane = 'text';
  /** The pane whose tab was clicked last. */
  private chosen: Pane | null = null;

  constructor(
    root: HTMLElement,
    readonly program: Program,
    layouts: LayoutClient,
    private readonly events: ExplorerEvents = {},
  ) {
    this.programs = [program];
    this.model = new GraphModel(program, layouts);
    this.overlays = overlaysOf(program);
    this.search = new SearchIndex(program);
    this.place = new SourceLink(
      events.notebook,
      program.sources.length > 0 ? equation => this.showInSource(equation) : undefined,
    );
    this.inspector = new Inspector(program, {
      goTo: equation => void this.goTo(equation),
      hover: equations => this.link(equations, 'details'),
      trace: (equation, direction) => this.trace(equation, direction),
      showCopy: (box, copy) => this.graph.showCopy(box, copy),
      unfold: box => this.unfold(box),
      toggle: box => this.graph.toggle(box),
      showInSource: program.sources.length > 0 ? each => this.showInSource(each) : undefined,
      notebook: events.notebook,
    });
    this.graph = new GraphView(root, this.model, {
      onHover: equations => this.link(equations, 'graph'),
      onSelect: box => this.selected(box),
      onGo: box => this.place.go(program, box.equations),
      onKey: event => this.key(event),
      edgeLabel: value => this.events.edgeLabel?.(value),
    });
    this.text = new LinesView(`Text of ${program.name}`, listingOf(program), {
      onHover: equations => this.link(equations, 'text'),
      onClick: equations => this.pick(equations[0], equations, 'text'),
      onGo: equations => this.place.go(program, equations),
    });
    this.sourceLines = program.sources.length > 0 ? new SourceLines(program) : null;
    this.source =
      this.sourceLines === null
        ? null
        : new LinesView('Source', this.sourceLines, {
            onHover: equations => this.link(equations, 'source'),
            // For a line that also calls functions, select its own equations first.
            onClick: (equations, line) =>
              this.pick(this.sourceLines?.own(line)[0] ?? equations[0], equations, 'source'),
            onGo: equations => this.place.go(program, equations),
          });
    this.searchBox = el('input', {
      class: 'pl-search',
      type: 'search',
      placeholder: 'Search',
      'aria-label': 'Search equations by name, primitive, type, scope or line',
      spellcheck: 'false',
    });
    this.element = this.build();
    this.showPane('text');
    this.disposables.add(
      this.model.onChange(() => {
        this.updateStatus();
        this.reselect();
        this.sayHeight();
      }),
    );
    const observer = new ResizeObserver(([entry]) => {
      this.setWidth(entry?.contentRect.width ?? 0);
      this.sayHeight();
    });
    observer.observe(this.element);
    this.disposables.add(() => observer.disconnect());
    this.ready = this.model.openComfortably();
  }

  dispose(): void {
    this.graph.dispose();
    this.text.dispose();
    this.source?.dispose();
    this.disposables.dispose();
  }

  themeChanged(): void {
    this.graph.themeChanged();
  }

  /** Selects an equation in every pane. */
  async goTo(equation: number): Promise<void> {
    await this.graph.goTo(equation);
    this.lightTexts([equation], null, this.side);
  }

  /** Highlights equations in every pane, as if the pointer were over them elsewhere. */
  highlight([equations = []]: readonly (readonly number[])[]): void {
    this.link(equations, null);
  }

  /** Colours the graph by a cost; without colours if the program lacks that cost. */
  colorBy(cost: string): void {
    this.overlay = this.overlays.find(overlay => overlay.name === cost) ?? null;
    if (this.overlaySelect !== null) {
      this.overlaySelect.value = this.overlay?.name ?? '';
    }
    this.graph.setOverlay(this.overlay);
    this.source?.setMarks(this.overlay === null ? null : line => this.heatOfLine(line));
    this.element.classList.toggle('pl-has-overlay', this.overlay !== null);
  }

  // Links between the panes

  /**
   * Highlights the equations under the pointer in one pane; the selected ones if there are none.
   */
  private link(equations: ArrayLike<number>, from: Pane | null): void {
    const list = Array.from({ length: Math.min(equations.length, 5000) }, (_, i) => equations[i]!);
    if (from !== 'graph') {
      this.graph.setLinked(list, from !== null && list.length === 1);
    }
    if (list.length === 0) {
      this.lightTexts(this.graph.selected?.equations ?? [], null, null);
    } else {
      this.lightTexts(list, from, from === null ? null : this.side);
    }
    if (from !== null) {
      this.events.onHover?.(this.program, list);
    }
  }

  /** Highlights equations in all texts except one, and scrolls one of the texts to them. */
  private lightTexts(equations: ArrayLike<number>, except: Pane | null, moved: Pane | null): void {
    if (except !== 'text') {
      this.text.setLinked(equations, moved === 'text');
    }
    if (this.source !== null && this.sourceLines !== null && except !== 'source') {
      this.sourceLines.mark(equations.length === 1 ? equations[0]! : -1);
      this.source.setLinked(equations, moved === 'source');
    }
  }

  /** Selects one equation, and highlights all equations of its line. */
  private pick(chosen: number | undefined, equations: ArrayLike<number>, from: Pane): void {
    if (chosen !== undefined) {
      void this.graph.goTo(chosen).then(() => this.link(equations, from));
    }
  }

  private selected(box: Box | null): void {
    this.inspector.show(box, this.overlays);
    this.showTrail(box);
    const equations = box?.equations ?? [];
    this.lightTexts(equations, null, box === null ? null : this.side);
    this.events.onSelect?.(this.program, equations);
  }

  /** Shows an equation's source line within this view. */
  private showInSource(equation: number): void {
    this.showPane('source');
    this.lightTexts([equation], null, 'source');
  }

  private reselect(): void {
    const { selected } = this.graph;
    this.inspector.show(selected, this.overlays);
    this.showTrail(selected);
  }

  private trace(equation: number, direction: Direction): void {
    const reached = reachOf(this.program, [equation], direction);
    const what = direction === 'upstream' ? 'depends on' : 'reaches';
    const name = oneLine(this.program.primitive(equation), 30);
    const others = counted(reached.size - 1, 'other equation');
    this.announce(`${name} ${what} ${others}`, 'Show everything again', () =>
      this.graph.setFocus(null),
    );
    this.graph.setFocus(reached);
  }

  private unfold(box: Box): void {
    void this.model.unfold(box.key);
    this.announce(`All copies of ${box.title} are shown`, 'Fold them again', () => {
      void this.model.foldAgain();
    });
  }

  /** Shows a message about hidden or additional boxes, with a button to end that state. */
  private announce(text: string, endName: string, end: () => void): void {
    this.endAnnounced();
    this.undoAnnounced = end;
    this.focusBar.replaceChildren(
      text,
      iconButton(endName, PATHS.close, () => this.endAnnounced()),
    );
    this.focusBar.hidden = false;
  }

  private endAnnounced(): void {
    const undo = this.undoAnnounced;
    this.undoAnnounced = null;
    this.focusBar.hidden = true;
    undo?.();
  }

  private showTrail(box: Box | null): void {
    const path: Box[] = [];
    for (let each = box; each !== null && each.parent !== null; each = each.parent) {
      path.unshift(each);
    }
    const steps = path.flatMap((each, index) => {
      const step = el(
        'button',
        { type: 'button' },
        [each.tag, each.title].filter(Boolean).join(' ') || 'call',
      );
      step.addEventListener('click', () => this.graph.select(each, true));
      return index > 0 ? ['›', step] : [step];
    });
    this.place.show(this.program, box?.equations ?? []);
    this.trail.hidden = steps.length === 0 && this.place.element.hidden;
    this.trail.replaceChildren(...steps, this.place.element);
  }

  // Search

  private runSearch(): void {
    this.found = this.search.find(this.searchBox.value);
    this.foundAt = -1;
    this.graph.setMatches(this.found);
    this.text.setMatches(this.found);
    this.showFound();
  }

  private step(by: number): void {
    if (this.found.length > 0) {
      this.foundAt = (this.foundAt + by + this.found.length) % this.found.length;
      void this.goTo(this.found[this.foundAt]!);
      this.showFound();
    }
  }

  private showFound(): void {
    const at = this.foundAt >= 0 ? `${whole(this.foundAt + 1)} of ` : '';
    this.searchCount.textContent =
      this.searchBox.value.trim() === '' ? '' : `${at}${whole(this.found.length)}`;
  }

  // Parts

  private build(): HTMLElement {
    const side = el('div', { class: 'pl-side' }, this.buildTabs(), this.buildPanes());
    const divider = el('div', {
      class: 'pl-divider',
      role: 'separator',
      'aria-orientation': 'vertical',
      'aria-label': 'Width of the text',
      tabindex: 0,
    });
    const main = el(
      'div',
      { class: 'pl-main' },
      el(
        'div',
        { class: 'pl-stage' },
        this.graph.element,
        this.focusBar,
        el('div', { class: 'pl-foot' }, this.trail, this.buildLegend()),
      ),
      divider,
      side,
    );
    this.letDivide(divider, main, side);
    return el('div', { class: 'pl-explorer' }, this.buildToolbar(), main);
  }

  private buildToolbar(): HTMLElement {
    const { program, model, graph } = this;
    const title = el(
      'div',
      { class: 'pl-title' },
      el('strong', {}, oneLine(program.name, 60) || 'program'),
      el(
        'span',
        { class: 'pl-chip' },
        termed(
          {
            jaxpr: 'jaxpr',
            hlo: 'HLO',
            stablehlo: 'StableHLO',
            triton: 'Triton',
            ptx: 'PTX',
            mosaic: 'Mosaic',
            mosaic_gpu: 'Mosaic GPU',
          }[program.dialect],
        ),
      ),
      this.status,
    );
    this.updateStatus();
    this.disposables.listen(this.searchBox, 'input', () => this.runSearch());
    this.disposables.listen(this.searchBox, 'keydown', event => {
      if (event.key === 'Enter') {
        this.step(event.shiftKey ? -1 : 1);
        event.preventDefault();
      } else if (event.key === 'Escape') {
        this.searchBox.value = '';
        this.runSearch();
        graph.focusCanvas();
      }
      event.stopPropagation();
    });
    const searchIcon = el('span', { class: 'pl-search-icon', 'aria-hidden': 'true' });
    searchIcon.append(icon(PATHS.search));
    const search = el(
      'div',
      { class: 'pl-search-field' },
      searchIcon,
      this.searchBox,
      this.searchCount,
    );
    return el(
      'div',
      { class: 'pl-toolbar', role: 'toolbar', 'aria-label': 'Program' },
      title,
      search,
      el(
        'div',
        { class: 'pl-tools' },
        this.buildGrouping(),
        this.buildOverlay(),
        this.toggleButton('Critical path', PATHS.path, isOn =>
          graph.setCriticalPath(isOn ? criticalPath(program) : null),
        ),
        this.toggleButton(
          'Fold repeated layers',
          PATHS.fold,
          isOn => void model.regroup(model.grouping, isOn).then(() => graph.fit()),
          true,
        ),
        iconButton(
          'Close the innermost level',
          PATHS.less,
          () => void model.closeLevel().then(() => graph.fit()),
        ),
        iconButton(
          'Open one more level',
          PATHS.more,
          () => void model.openLevel().then(() => graph.fit()),
        ),
        iconButton('Show the whole program', PATHS.fit, () => graph.fitWhole()),
      ),
    );
  }

  private toggleButton(
    name: string,
    path: string,
    run: (isOn: boolean) => void,
    isOn = false,
  ): HTMLButtonElement {
    const button = iconButton(name, path, () => {
      const next = button.getAttribute('aria-pressed') !== 'true';
      button.setAttribute('aria-pressed', String(next));
      run(next);
    });
    button.setAttribute('aria-pressed', String(isOn));
    return button;
  }

  private buildGrouping(): HTMLElement {
    const { model, graph } = this;
    const names: readonly [Grouping, string][] = [
      ['scopes', 'by scope'],
      ['functions', 'by function'],
      ['none', 'flat'],
    ];
    const select = this.select('Group equations', names, model.grouping, value => {
      void model
        .regroup(value as Grouping, value !== 'none' && model.folding)
        .then(() => graph.fit());
    });
    return select;
  }

  private buildOverlay(): HTMLElement | null {
    const known = this.overlays.filter(overlay =>
      overlay.values.some(value => !Number.isNaN(value)),
    );
    if (known.length === 0) {
      return null;
    }
    const names: [string, string][] = [
      ['', 'no overlay'],
      ...known.map((overlay): [string, string] => [overlay.name, oneLine(overlay.label, 30)]),
    ];
    this.overlaySelect = this.select('Colour by cost', names, '', value => this.colorBy(value));
    return this.overlaySelect;
  }

  private select(
    label: string,
    options: readonly (readonly [string, string])[],
    value: string,
    onChange: (value: string) => void,
  ): HTMLSelectElement {
    const select = el(
      'select',
      { class: 'pl-select', 'aria-label': label, title: label },
      options.map(([key, name]) => el('option', { value: key, selected: key === value }, name)),
    );
    this.disposables.listen(select, 'change', () => onChange(select.value));
    return select;
  }

  /** Share of a source line in the total cost. */
  private heatOfLine(line: number): LineMark | null {
    const { overlay, sourceLines } = this;
    if (overlay === null || overlay.ratio !== null || sourceLines === null) {
      return null;
    }
    let totals = this.lineTotals.get(overlay.name);
    if (totals === undefined) {
      totals = Float64Array.from({ length: sourceLines.count }, (_, each) =>
        sourceLines.own(each).reduce((sum, equation) => {
          const value = overlay.values[equation]!;
          return Number.isNaN(value) ? sum : sum + value;
        }, 0),
      );
      this.lineTotals.set(overlay.name, totals);
    }
    const most = totals.reduce((a, b) => Math.max(a, b), 0);
    return most > 0 ? { heat: totals[line]! / most } : null;
  }

  /** Legend of the colours that occur. */
  private buildLegend(): HTMLElement {
    const { program } = this;
    const primitives = new Set(program.primitives);
    const families = new Set<Family>(program.bodies.length > 1 ? ['control'] : []);
    for (const equation of program.primitives.keys()) {
      if (primitives.delete(program.primitives[equation]!)) {
        families.add(program.family(equation));
      }
    }
    return el(
      'div',
      { class: 'pl-legend', 'aria-hidden': 'true', hidden: families.size === 0 },
      FAMILIES.filter(family => families.has(family)).map(family => {
        const dot = el('i', {});
        dot.style.background = `var(--pl-${family})`;
        return el('span', {}, dot, family === 'control' ? 'call' : family);
      }),
    );
  }

  private buildTabs(): HTMLElement {
    const names: [Pane, string][] = [
      ['graph', 'Graph'],
      ['text', 'Text'],
      ...(this.source === null ? [] : [['source', 'Source'] as [Pane, string]]),
      ['details', 'Details'],
    ];
    return el(
      'div',
      { class: 'pl-tabs', role: 'tablist' },
      names.map(([pane, name]) => {
        const tab = el(
          'button',
          { type: 'button', role: 'tab', class: `pl-tab pl-tab-${pane}` },
          name,
        );
        this.disposables.listen(tab, 'click', () => {
          this.chosen = pane;
          this.showPane(pane);
        });
        this.tabs.set(pane, tab);
        return tab;
      }),
    );
  }

  private buildPanes(): HTMLElement {
    this.panes.set('text', this.text.element);
    this.panes.set('details', this.inspector.element);
    if (this.source !== null) {
      this.panes.set('source', this.source.element);
    }
    return el('div', { class: 'pl-panes' }, [...this.panes.values()]);
  }

  private showPane(pane: Pane): void {
    this.side = pane;
    this.element.dataset['pane'] = pane;
    this.tabs.forEach((tab, name) => tab.setAttribute('aria-selected', String(name === pane)));
    this.panes.forEach((element, name) => (element.hidden = name !== pane));
    this.lightTexts(this.graph.selected?.equations ?? [], null, pane);
  }

  /** Narrow views show one pane at a time: the graph unless the user chose another. */
  private setWidth(width: number): void {
    const isNarrow = width < 720;
    const wasNarrow = this.element.classList.contains('pl-narrow');
    this.element.classList.toggle('pl-narrow', isNarrow);
    this.element.classList.toggle('pl-tight', width < 480);
    if (isNarrow !== wasNarrow) {
      const shown = this.chosen ?? 'graph';
      this.showPane(isNarrow || shown !== 'graph' ? shown : 'text');
    }
  }

  /**
   * Reports the height that the view needs for the whole graph, or for the beginning of the text.
   */
  private sayHeight(): void {
    const graph = this.graph.wantedHeight;
    if (graph !== null && this.element.clientHeight > 0) {
      const around = this.element.clientHeight - this.graph.element.clientHeight;
      const beside = this.element.clientHeight - this.text.element.clientHeight;
      const isNarrow = this.element.classList.contains('pl-narrow');
      const text = isNarrow ? 0 : Math.min(MAX_TEXT_HEIGHT, this.text.wantedHeight) + beside;
      this.events.onHeight?.(Math.max(graph + around, text));
    }
  }

  private letDivide(divider: HTMLElement, main: HTMLElement, side: HTMLElement): void {
    const setWidth = (width: number): void => {
      const most = main.clientWidth - 200;
      side.style.flexBasis = `${Math.max(160, Math.min(most, width))}px`;
    };
    this.disposables.listen(divider, 'pointerdown', event => {
      divider.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    this.disposables.listen(divider, 'pointermove', event => {
      if (divider.hasPointerCapture(event.pointerId)) {
        setWidth(main.getBoundingClientRect().right - event.clientX);
      }
    });
    this.disposables.listen(divider, 'keydown', event => {
      const step = event.key === 'ArrowLeft' ? 24 : event.key === 'ArrowRight' ? -24 : 0;
      if (step !== 0) {
        setWidth(side.clientWidth + step);
        event.preventDefault();
      }
    });
  }

  private updateStatus(): void {
    const { program } = this;
    const size = counted(program.equationCount, 'equation');
    this.status.textContent = program.equationCount === 0 ? 'no equations' : size;
  }

  private key(event: KeyboardEvent): boolean {
    switch (event.key) {
      case '/':
        this.searchBox.focus();
        return true;
      case 'n':
        this.step(1);
        return true;
      case 'N':
        this.step(-1);
        return true;
      case 'f':
        this.graph.fit();
        return true;
      case 'Escape':
        this.endAnnounced();
        return true;
      default:
        return false;
    }
  }
}

export const explorerStyle = `
${graphStyle}
${linesStyle}
${inspectorStyle}
.pl-explorer { display: flex; flex-direction: column; height: 100%; min-height: 0; }
.pl-toolbar {
  display: flex; flex-wrap: wrap; align-items: center; gap: 8px 12px; padding: 6px 10px; border-bottom: 1px solid var(--pl-line); min-width: 0;
}
.pl-title { display: flex; align-items: center; gap: 8px; min-width: 0; flex: 1 1 auto; white-space: nowrap; overflow: hidden; }
.pl-title strong { overflow: hidden; text-overflow: ellipsis; font-size: 14px; }
.pl-status { color: var(--pl-muted); font-size: 12px; }
.pl-tools { display: flex; align-items: center; gap: 4px; flex: none; }
.pl-search-field {
  position: relative; display: flex; align-items: center; flex: 1 1 96px; max-width: 220px; min-width: 96px; border: 1px solid var(--pl-line);
  border-radius: 6px; height: 28px; padding: 0 8px; background: var(--pl-bg);
}
.pl-search-field:focus-within { border-color: var(--pl-accent); }
.pl-search-icon { display: inline-flex; color: var(--pl-faint); }
.pl-search { flex: 1; min-width: 0; border: 0; outline: none !important; background: none; padding: 0 6px; }
.pl-search::-webkit-search-cancel-button { display: none; }
.pl-search-count { color: var(--pl-muted); font-size: 11px; white-space: nowrap; }
.pl-main { display: flex; flex: 1; min-height: 0; min-width: 0; }
.pl-stage { position: relative; flex: 1 1 60%; min-width: 0; display: flex; flex-direction: column; }
.pl-stage > .pl-graph { flex: 1; }
.pl-divider { flex: none; width: 5px; margin: 0 -2px; z-index: 2; cursor: col-resize; border-left: 1px solid var(--pl-line); margin-left: 0; }
.pl-divider:hover, .pl-divider:focus-visible { border-left-color: var(--pl-accent); outline: none; }
.pl-side { flex: 0 0 40%; display: flex; flex-direction: column; min-width: 0; }
.pl-tabs { display: flex; gap: 2px; padding: 0 8px; border-bottom: 1px solid var(--pl-line); flex: none; }
.pl-tab {
  border: 0; background: none; padding: 5px 10px 4px; cursor: pointer; color: var(--pl-muted) !important; border-bottom: 2px solid transparent; font-size: 12px !important;
}
.pl-tab[aria-selected='true'] { color: var(--pl-text) !important; border-bottom-color: var(--pl-accent); }
.pl-tab-graph { display: none; }
.pl-panes { flex: 1; min-height: 0; position: relative; }
.pl-panes > * { position: absolute; inset: 0; }
.pl-panes > [hidden] { display: none; }
.pl-foot { flex: none; height: 25px; border-top: 1px solid var(--pl-line); overflow: hidden; }
.pl-legend { display: flex; gap: 2px 10px; padding: 3px 10px; font-size: 10.5px; color: var(--pl-muted); white-space: nowrap; }
.pl-trail:not([hidden]) + .pl-legend { display: none; }
.pl-legend[hidden] { display: none; }
.pl-legend i { display: inline-block; width: 8px; height: 8px; border-radius: 2px; margin-right: 4px; }
.pl-has-overlay .pl-legend { display: none; }
.pl-trail { display: flex; align-items: center; gap: 2px; height: 24px; padding: 0 8px; overflow-x: auto; scrollbar-width: none; white-space: nowrap; color: var(--pl-faint); font-size: 11px; }
.pl-trail[hidden], .pl-focus-bar[hidden] { display: none; }
.pl-trail button { border: 0; background: none; padding: 0 3px; cursor: pointer; color: var(--pl-muted); font: 11px/20px var(--pl-code); max-width: 220px; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.pl-trail button:hover { color: var(--pl-accent); }
.pl-focus-bar {
  position: absolute; left: 50%; bottom: 30px; transform: translateX(-50%); display: flex; align-items: center; gap: 4px; padding: 0 4px 0 12px;
  border-radius: 16px; background: var(--pl-bg); border: 1px solid var(--pl-line-strong); box-shadow: 0 2px 10px var(--pl-shadow); font-size: 12px; white-space: nowrap;
}
.pl-tight .pl-foot { height: auto; min-height: 25px; }
.pl-tight .pl-legend { flex-wrap: wrap; }
.pl-narrow .pl-main { flex-direction: column-reverse; }
.pl-narrow .pl-divider { display: none; }
.pl-narrow .pl-side { flex: 1 1 auto; min-height: 0; }
.pl-narrow .pl-stage { flex: 1 1 100%; }
.pl-narrow .pl-tab-graph { display: block; }
.pl-narrow[data-pane='graph'] .pl-side { flex: none; }
.pl-narrow[data-pane='graph'] .pl-panes { display: none; }
.pl-narrow:not([data-pane='graph']) .pl-stage { display: none; }
.pl-narrow .pl-main { flex-direction: column; }
.pl-narrow .pl-side { order: -1; }
.pl-tight .pl-title { flex-basis: 100%; }
.pl-tight .pl-toolbar { gap: 6px 4px; }
.pl-tight .pl-tools { display: contents; }
.pl-tight .pl-search-field { max-width: none; }
.pl-tight .pl-tools > .pl-select { order: 1; flex: 1 1 45%; }
`;
