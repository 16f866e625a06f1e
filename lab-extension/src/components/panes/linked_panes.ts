/** Texts side by side, with curves between corresponding lines. */

import { lineText, type LineSource } from '../../records/lines';
import type { Links, LinkedSets } from '../../records/links';
import { Disposables, el } from '../dom';
import { counted, oneLine } from '../format';
import type { Program } from '../../records/program';
import { SourceLink, type ProgramEvents } from '../source_link';
import { LinesView, type LineMark } from '../text/lines_view';
import { readTheme } from '../theme';
import { CanvasPane } from '../canvas_pane';

export interface Pane {
  readonly title: string;
  readonly note: string;
  /** Index of its program in the links. */
  readonly program: number;
  readonly lines: LineSource;
  /** The line at the top of the pane at first; 0 by default. */
  readonly start?: number;
}

const MAX_CURVES = 600;
/** Minimum width of a pane, in pixels. */
const MIN_WIDTH = 140;
/** Width of the view in pixels below which panes are stacked vertically. */
const NARROW_WIDTH = 640;

/** Two or more panes with a selectable stage each, and curves between neighbours. */
export class LinkedPanes {
  readonly element: HTMLElement;
  private readonly views: LinesView[];
  private readonly columns: HTMLElement[];
  private readonly gaps: readonly CanvasPane[];
  private readonly pickers: readonly HTMLSelectElement[];
  private readonly stagesPlace = el('div', { class: 'pl-columns' });
  private readonly disposables = new Disposables();
  private readonly searchCount = el('span', { class: 'pl-search-count', 'aria-live': 'polite' });
  /** Link to the source of the selected line. */
  readonly place: SourceLink;
  private pinned: LinkedSets | null = null;
  private shown: LinkedSets | null = null;
  /** The stages shown, from left to right. */
  private stages: number[];
  private found: { readonly pane: number; readonly line: number }[] = [];
  private foundAt = -1;

  constructor(
    private readonly root: HTMLElement,
    private readonly panes: readonly Pane[],
    private readonly links: Links,
    marks: (pane: Pane, line: number) => LineMark | null,
    private readonly programs: readonly Program[],
    private readonly events: ProgramEvents,
    first: readonly number[],
    /**
     * The stage that another one was made from; it is shown to the left when the latter is chosen.
     */
    private readonly sourceOf: (stage: number) => number = () => -1,
  ) {
    this.place = new SourceLink(events.notebook);
    this.stages = [...first];
    this.views = panes.map(pane => {
      const view = new LinesView(pane.title, pane.lines, {
        onHover: equations => this.hover(pane, equations),
        onClick: equations => this.pin(pane, panes.indexOf(pane), equations),
        onGo: equations => this.place.go(programs[pane.program]!, equations),
        onScroll: () => this.drawGaps(),
      });
      view.setMarks(line => marks(pane, line));
      view.startAt(pane.start ?? 0);
      return view;
    });
    this.gaps = panes.slice(1).map((_, index) => {
      const gap = new CanvasPane('pl-gap', '', (context, width, height) =>
        this.paintGap(context, index, width, height),
      );
      // The curves show nothing that pointing at a line doesn't.
      gap.canvas.setAttribute('tabindex', '-1');
      gap.canvas.setAttribute('aria-hidden', 'true');
      return gap;
    });
    this.gaps.forEach((gap, index) => this.letDivide(gap.element, index));
    this.pickers = panes.map((pane, slot) => this.buildPicker(slot, pane.title));
    this.columns = panes.map((pane, index) =>
      el('section', { class: 'pl-column', 'aria-label': pane.title }, this.views[index]!.element),
    );
    this.element = el('div', { class: 'pl-linked-panes' }, this.buildToolbar(), this.stagesPlace);
    const observer = new ResizeObserver(([entry]) => {
      const width = entry?.contentRect.width ?? 0;
      this.element.classList.toggle('pl-stacked', width > 0 && width < NARROW_WIDTH);
    });
    observer.observe(this.element);
    this.disposables.add(() => observer.disconnect());
    this.arrange();
  }

  dispose(): void {
    this.views.forEach(view => view.dispose());
    this.gaps.forEach(gap => gap.dispose());
    this.disposables.dispose();
  }

  themeChanged(): void {
    this.views.forEach(view => view.refresh());
    this.gaps.forEach(gap => gap.draw());
  }

  /** Arranges the selected stages side by side. */
  private arrange(): void {
    const parts = this.stages.flatMap((stage, slot) => {
      const column = this.columns[stage]!;
      const heading = el(
        'h3',
        {},
        this.pickers[slot]!,
        el('span', { class: 'pl-muted' }, this.panes[stage]!.note),
      );
      column.querySelector('h3')?.remove();
      column.prepend(heading);
      this.pickers[slot]!.value = String(stage);
      return slot === 0 ? [column] : [this.gaps[slot - 1]!.element, column];
    });
    this.stagesPlace.replaceChildren(...parts);
    this.show(this.shown, -1);
  }

  /** Selector of a pane's stage. Choosing a stage shown in another pane swaps the two. */
  private buildPicker(slot: number, title: string): HTMLSelectElement {
    const picker = el(
      'select',
      { class: 'pl-select', 'aria-label': `Stage of pane ${slot + 1}`, title },
      this.panes.map((pane, index) => el('option', { value: index }, oneLine(pane.title, 60))),
    );
    this.disposables.listen(picker, 'change', () => {
      const stage = Number(picker.value);
      const other = this.stages.indexOf(stage);
      if (other >= 0) {
        this.stages[other] = this.stages[slot]!;
      }
      this.stages[slot] = stage;
      const source = this.sourceOf(stage);
      if (slot > 0 && source >= 0 && !this.stages.includes(source)) {
        this.stages[slot - 1] = source;
      }
      this.columns.forEach(column => (column.style.flex = ''));
      this.arrange();
    });
    return picker;
  }

  private buildToolbar(): HTMLElement {
    const count = el(
      'select',
      { class: 'pl-select', 'aria-label': 'Number of panes' },
      this.panes
        .slice(1)
        .map((_, index) =>
          el(
            'option',
            { value: index + 2, selected: index + 2 === this.stages.length },
            counted(index + 2, 'pane'),
          ),
        ),
    );
    this.disposables.listen(count, 'change', () => this.setCount(Number(count.value)));
    const search = el('input', {
      class: 'pl-filter',
      type: 'search',
      placeholder: 'Search all stages',
      'aria-label': 'Search the lines of all stages',
      spellcheck: 'false',
    });
    this.disposables.listen(search, 'input', () => this.search(search.value));
    this.disposables.listen(search, 'keydown', event => {
      if (event.key === 'Enter') {
        this.step(event.shiftKey ? -1 : 1);
        event.preventDefault();
      }
      event.stopPropagation();
    });
    return el('div', { class: 'pl-pane-tools' }, search, this.searchCount, count);
  }

  /** Changes the number of panes: appends stages that aren't shown, or removes the last panes. */
  private setCount(count: number): void {
    const others = this.panes.map((_, index) => index).filter(each => !this.stages.includes(each));
    this.stages = [...this.stages, ...others].slice(0, count);
    if (count === this.panes.length) {
      this.stages.sort((a, b) => a - b);
    }
    this.columns.forEach(column => (column.style.flex = ''));
    this.arrange();
  }

  private search(text: string): void {
    const wanted = text.trim().toLowerCase();
    this.foundAt = -1;
    this.found = [];
    this.panes.forEach(({ lines }, pane) => {
      const matches: number[] = [];
      for (let line = 0; wanted !== '' && line < lines.count; line++) {
        if (lineText(lines, line).toLowerCase().includes(wanted)) {
          matches.push(line);
          this.found.push({ pane, line });
        }
      }
      this.views[pane]!.setMatchedLines(matches);
    });
    this.sayFound(wanted !== '');
  }

  /**
   * Goes to the next search match in the visible panes, and scrolls the others to the corresponding
   * lines.
   */
  private step(by: number): void {
    const found = this.found.filter(each => this.stages.includes(each.pane));
    if (found.length === 0) {
      return;
    }
    this.foundAt = (this.foundAt + by + found.length) % found.length;
    const { pane, line } = found[this.foundAt]!;
    this.pin(this.panes[pane]!, pane, this.panes[pane]!.lines.equations(line));
    this.views[pane]!.showLine(line);
    this.sayFound(true);
  }

  private sayFound(isSearching: boolean): void {
    const shown = this.found.filter(each => this.stages.includes(each.pane)).length;
    const elsewhere = this.found.length - shown;
    const more = elsewhere > 0 ? `, ${elsewhere} in other stages` : '';
    const at = this.foundAt >= 0 ? `${this.foundAt + 1} of ` : '';
    this.searchCount.textContent = isSearching ? `${at}${counted(shown, 'line')}${more}` : '';
  }

  /** Makes the strip between two panes draggable. */
  private letDivide(strip: HTMLElement, index: number): void {
    strip.title = 'Drag, or press the arrow keys, to change the widths';
    strip.tabIndex = 0;
    strip.setAttribute('role', 'separator');
    strip.setAttribute('aria-orientation', 'vertical');
    strip.setAttribute('aria-label', `Width of pane ${index + 1}`);
    const setWidth = (widthOf: (start: number, width: number) => number): void => {
      const [left, right] = [this.stages[index]!, this.stages[index + 1]!].map(
        stage => this.columns[stage]!,
      ) as [HTMLElement, HTMLElement];
      const { left: start, width: before } = left.getBoundingClientRect();
      const both = right.getBoundingClientRect().right - start - strip.offsetWidth;
      const width = Math.max(MIN_WIDTH, Math.min(both - MIN_WIDTH, widthOf(start, before)));
      left.style.flex = `${width} 1 0`;
      right.style.flex = `${both - width} 1 0`;
      this.drawGaps();
    };
    this.disposables.listen(strip, 'keydown', event => {
      const step = event.key === 'ArrowLeft' ? -24 : event.key === 'ArrowRight' ? 24 : 0;
      if (step !== 0) {
        setWidth((_, width) => width + step);
        event.preventDefault();
      }
    });
    this.disposables.listen(strip, 'pointerdown', event => {
      strip.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    this.disposables.listen(strip, 'pointermove', event => {
      if (strip.hasPointerCapture(event.pointerId)) {
        setWidth(start => event.clientX - start);
      }
    });
  }

  private hover(pane: Pane, equations: ArrayLike<number>): void {
    const sets =
      equations.length > 0 ? this.links.from(pane.program, Array.from(equations)) : this.pinned;
    this.show(sets, -1);
    this.events.onHover?.(this.programs[pane.program]!, equations);
  }

  /** Highlights equations of the first program that has any, and corresponding ones elsewhere. */
  highlight(equations: readonly (readonly number[])[]): void {
    const program = equations.findIndex(each => each.length > 0);
    this.show(program < 0 ? this.pinned : this.links.from(program, equations[program]!), -1);
  }

  private pin(pane: Pane, index: number, equations: ArrayLike<number>): void {
    this.pinned =
      equations.length > 0 ? this.links.from(pane.program, Array.from(equations)) : null;
    this.show(this.pinned, index);
    const program = this.programs[pane.program]!;
    this.place.show(program, equations);
    this.events.onSelect?.(program, equations);
  }

  /** Highlights sets of equations. The panes other than `from` scroll to them, none if it is -1. */
  private show(sets: LinkedSets | null, from: number): void {
    this.shown = sets;
    this.views.forEach((view, index) => {
      const set = sets?.[this.panes[index]!.program];
      view.setLinked(set === undefined ? [] : [...set], from >= 0 && index !== from);
    });
    this.drawGaps();
  }

  private drawGaps(): void {
    this.gaps.slice(0, this.stages.length - 1).forEach(gap => gap.draw());
  }

  /** Paints curves from lines of the previous pane to lines of this one. */
  private paintGap(
    context: CanvasRenderingContext2D,
    index: number,
    width: number,
    height: number,
  ): void {
    const theme = readTheme(this.root);
    const [from, to] = [this.stages[index], this.stages[index + 1]];
    if (from === undefined || to === undefined) {
      return;
    }
    const [left, right] = [this.views[from]!, this.views[to]!];
    const [leftPane, rightPane] = [this.panes[from]!, this.panes[to]!];
    // Headings differ in height, so each pane's lines have a distance of their own from the top of the gap.
    const topOf = (element: HTMLElement): number => element.getBoundingClientRect().top;
    const top = topOf(this.gaps[index]!.element);
    const [leftTop, rightTop] = [topOf(left.element) - top, topOf(right.element) - top];
    const lit = this.shown?.[leftPane.program];
    let count = 0;
    const curves: [number, number, boolean][] = [];
    for (const line of left.sight) {
      for (const equation of Array.from(leftPane.lines.equations(line))) {
        // Skip lines that only call the function: the equation doesn't come from them.
        if (leftPane.lines.linesOf(equation)[0] !== line) {
          continue;
        }
        const ends =
          leftPane.program === rightPane.program
            ? [equation]
            : this.links.between(leftPane.program, equation, rightPane.program);
        for (const end of ends) {
          const [target] = rightPane.lines.linesOf(end);
          const isLit = lit?.has(equation) === true;
          const middle = target === undefined ? NaN : rightTop + right.rowMiddle(target);
          // Curves to lines scrolled out of view are only drawn for highlighted equations.
          const isInSight = middle >= rightTop && middle <= height;
          if ((isLit || isInSight) && !Number.isNaN(middle) && count++ < MAX_CURVES) {
            curves.push([leftTop + left.rowMiddle(line), middle, isLit]);
          }
        }
      }
    }
    const draw = (color: string, thickness: number, alpha: number, isLit: boolean): void => {
      context.strokeStyle = color;
      context.lineWidth = thickness;
      context.globalAlpha = alpha;
      context.beginPath();
      for (const [from, to, each] of curves) {
        if (each === isLit) {
          const end = Math.max(-40, Math.min(height + 40, to));
          context.moveTo(0, from);
          context.bezierCurveTo(width / 2, from, width / 2, end, width, end);
        }
      }
      context.stroke();
    };
    draw(theme.color('edge'), 1, 0.45, false);
    draw(theme.color('mark-line'), 2, 1, true);
    context.globalAlpha = 1;
  }
}

export const linkedPanesStyle = `
.pl-linked-panes { display: flex; flex-direction: column; flex: 1; min-height: 0; min-width: 0; }
.pl-pane-tools { display: flex; flex-wrap: wrap; align-items: center; gap: 6px; padding: 4px 12px; border-bottom: 1px solid var(--pl-line); }
.pl-pane-tools .pl-filter { flex: 0 1 240px; }
.pl-pane-tools > .pl-select { margin-left: auto; }
.pl-columns { display: flex; flex: 1; min-height: 0; overflow-x: auto; }
.pl-column { flex: 1 1 0; min-width: 220px; display: flex; flex-direction: column; min-height: 0; }
.pl-column > h3 { margin: 0; padding: 3px 8px; font-size: 12px; border-bottom: 1px solid var(--pl-line); white-space: nowrap; overflow: hidden; text-overflow: ellipsis; flex: none; }
.pl-column > h3 > span { font-weight: 400; }
.pl-column > h3:has(.pl-select) { display: flex; flex-wrap: wrap; align-items: center; gap: 2px 6px; }
.pl-column > h3 > .pl-select { min-width: 60px; flex: 0 1 auto; }
.pl-column > h3 > .pl-select + span { flex: 0 1 auto; white-space: normal; }
.pl-column > .pl-lines { flex: 1; height: auto; }
.pl-column + .pl-column { border-left: 1px solid var(--pl-line); }
.pl-gap { flex: none; width: 36px; margin-top: 30px; cursor: col-resize; touch-action: none; }
.pl-stacked > .pl-columns { flex-direction: column; overflow: hidden; }
.pl-stacked > .pl-columns > .pl-gap { display: none; }
.pl-stacked .pl-column { min-width: 0; }
.pl-stacked .pl-column + .pl-column, .pl-stacked .pl-gap + .pl-column { border-left: 0; border-top: 1px solid var(--pl-line); }
`;
