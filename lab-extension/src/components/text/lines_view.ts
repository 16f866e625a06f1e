/** Lines of text, of which only the visible ones exist as elements. */

import { lineText, type LineSource, type Token } from '../../records/lines';
import { Disposables, el } from '../dom';
import { oneLine } from '../format';

export const ROW_HEIGHT = 19;
/** Number of rows drawn above and below the visible ones. */
const OVERSCAN_ROWS = 6;
/** Maximum lengths, in characters, of a coloured token and of a stretch of plain text; the rest is cut. */
const MAX_TOKEN_LENGTH = 400;
const MAX_LINE_LENGTH = 100_000;

/** Element of a visible line, and the data it was made from. */
interface Row {
  readonly element: HTMLElement;
  content: string | null;
}

/** Decoration beside a line. */
export interface LineMark {
  readonly className?: string;
  /** Length of the bar in the margin, 0 to 1. */
  readonly heat?: number;
  readonly note?: string;
  /** Colours of the fusions (hulls), or of the mesh axes, that the line belongs to. */
  readonly hulls?: readonly string[];
}

export interface LinesEvents {
  readonly onHover: (equations: ArrayLike<number>, line: number) => void;
  readonly onClick: (equations: ArrayLike<number>, line: number) => void;
  /** The user requests to see a line's source, by Enter or Ctrl+click. */
  readonly onGo?: (equations: ArrayLike<number>) => void;
  readonly onScroll?: () => void;
}

export class LinesView {
  readonly element: HTMLElement;
  private readonly rows = el('div', { class: 'pl-rows' });
  private readonly spacer = el('div', { class: 'pl-rows-space' });
  private readonly disposables = new Disposables();
  private readonly folded = new Set<number>();
  private readonly prefix = `pl-line-${Math.random().toString(36).slice(2, 8)}-`;
  /** Line number of each visible row; null while nothing is folded. */
  private visible: Int32Array | null = null;
  private linked: ReadonlySet<number> = new Set();
  private strong: ReadonlySet<number> = new Set();
  private matched: ReadonlySet<number> = new Set();
  private mark: ((line: number) => LineMark | null) | null = null;
  private hovered = -1;
  private hoveredValue = -1;
  private current = -1;
  private shown = new Map<number, Row>();
  private frame = 0;
  /** The line at the top until the user scrolls; -1 afterwards. */
  private start = -1;
  /**
   * Last height while visible. Notebooks detach and reattach cells without reporting a change of
   * size.
   */
  private height = 0;

  constructor(
    label: string,
    private source: LineSource,
    private readonly events: LinesEvents,
  ) {
    this.element = el(
      'div',
      { class: 'pl-lines', tabindex: 0, role: 'listbox', 'aria-label': label },
      this.spacer,
      this.rows,
    );
    this.foldAtFirst();
    this.listen();
    const observer = new ResizeObserver(() => {
      this.height = this.element.clientHeight || this.height;
      if (this.start >= 0) {
        this.element.scrollTop = this.rowOf(this.start) * ROW_HEIGHT;
      }
      this.draw();
    });
    observer.observe(this.element);
    this.disposables.add(() => observer.disconnect());
    this.refresh();
  }

  /** Height in pixels of all lines that are not folded. */
  get wantedHeight(): number {
    return this.rowCount * ROW_HEIGHT + 8;
  }

  dispose(): void {
    cancelAnimationFrame(this.frame);
    this.disposables.dispose();
  }

  /** Sets the decorations beside lines. */
  setMarks(mark: ((line: number) => LineMark | null) | null): void {
    this.mark = mark;
    this.draw();
  }

  /** Highlights the lines of equations, and scrolls to the first if `isShown`. */
  setLinked(equations: ArrayLike<number>, isShown = false): void {
    const lines = new Set<number>();
    const strong = new Set<number>();
    for (let i = 0; i < Math.min(equations.length, 5000); i++) {
      this.source.linesOf(equations[i]!).forEach((line, index) => {
        lines.add(line);
        if (index === 0) {
          strong.add(line);
        }
      });
    }
    this.linked = lines;
    this.strong = strong;
    if (isShown && strong.size > 0) {
      this.showLine(Math.min(...strong));
    }
    this.draw();
  }

  setMatches(equations: readonly number[]): void {
    this.matched = new Set(
      equations.flatMap(equation => this.source.linesOf(equation).slice(0, 1)),
    );
    this.draw();
  }

  /** Keeps a line at the top, also after changes of size, until the user scrolls. */
  startAt(line: number): void {
    this.start = line;
  }

  /** Marks search matches by line number. */
  setMatchedLines(lines: readonly number[]): void {
    this.matched = new Set(lines);
    this.draw();
  }

  /** Scrolls as little as needed to show a line, after unfolding it. */
  showLine(line: number): void {
    this.start = -1;
    let changed = false;
    for (const fold of this.folded) {
      if (line > fold && line < this.source.foldEnd(fold)) {
        this.folded.delete(fold);
        changed = true;
      }
    }
    if (changed) {
      this.refresh();
    }
    const top = this.rowOf(line) * ROW_HEIGHT;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop + ROW_HEIGHT || top > scrollTop + clientHeight - 3 * ROW_HEIGHT) {
      this.element.scrollTop = Math.max(0, top - clientHeight * 0.35);
    }
  }

  /** Vertical centre of a line's row in view coordinates; of its fold if it is folded. */
  rowMiddle(line: number): number {
    return (this.rowOf(line) + 0.5) * ROW_HEIGHT - this.element.scrollTop;
  }

  /** Redraws after the source has got other lines. */
  reload(): void {
    this.folded.clear();
    this.foldAtFirst();
    this.current = -1;
    this.element.scrollTop = 0;
    this.refresh();
  }

  /** Redraws all rows after the source has changed. */
  refresh(): void {
    this.shown.clear();
    this.rows.replaceChildren();
    this.visible = this.visibleLines();
    this.spacer.style.height = `${this.wantedHeight}px`;
    this.draw();
  }

  /** The visible lines. */
  get sight(): readonly number[] {
    const first = Math.max(0, Math.floor(this.element.scrollTop / ROW_HEIGHT));
    const count = Math.ceil(this.element.clientHeight / ROW_HEIGHT) + 1;
    return Array.from({ length: Math.max(0, Math.min(count, this.rowCount - first)) }, (_, row) =>
      this.lineOf(first + row),
    );
  }

  private get rowCount(): number {
    return this.visible?.length ?? this.source.count;
  }

  private lineOf(row: number): number {
    return this.visible?.[row] ?? row;
  }

  private rowOf(line: number): number {
    if (this.visible === null) {
      return line;
    }
    let low = 0;
    let high = this.visible.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.visible[middle]! <= line) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return Math.max(0, low - 1);
  }

  private visibleLines(): Int32Array | null {
    if (this.folded.size === 0) {
      return null;
    }
    const lines: number[] = [];
    for (let line = 0; line < this.source.count;) {
      lines.push(line);
      line = this.folded.has(line) ? Math.max(line + 1, this.source.foldEnd(line)) : line + 1;
    }
    return Int32Array.from(lines);
  }

  private foldAtFirst(): void {
    for (let line = 0; line < this.source.count; line++) {
      if (this.source.startsFolded(line)) {
        this.folded.add(line);
      }
    }
  }

  private toggleFold(line: number): void {
    if (!this.folded.delete(line)) {
      this.folded.add(line);
    }
    this.refresh();
  }

  private draw(): void {
    if (this.frame === 0) {
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.drawRows();
      });
    }
  }

  private drawRows(): void {
    const first = Math.max(0, Math.floor(this.element.scrollTop / ROW_HEIGHT) - OVERSCAN_ROWS);
    const height = this.element.clientHeight || this.height;
    const count = Math.ceil(height / ROW_HEIGHT) + 2 * OVERSCAN_ROWS;
    const last = Math.min(this.rowCount, first + count);
    const before = this.shown;
    this.shown = new Map();
    for (let row = first; row < last; row++) {
      const line = this.lineOf(row);
      this.shown.set(line, before.get(line) ?? this.newRow(line));
    }
    // Unchanged rows stay in place: the user may be clicking or selecting text in them.
    before.forEach((row, line) => this.shown.has(line) || row.element.remove());
    let next = this.rows.firstChild;
    this.shown.forEach((row, line) => {
      if (row.element === next) {
        next = next.nextSibling;
      } else {
        this.rows.insertBefore(row.element, next);
      }
      this.updateRow(row, line);
    });
    this.rows.style.transform = `translateY(${first * ROW_HEIGHT}px)`;
    this.events.onScroll?.();
  }

  private newRow(line: number): Row {
    const element = el('div', { role: 'option', id: this.prefix + line, 'data-line': line });
    return { element, content: null };
  }

  private updateRow(row: Row, line: number): void {
    const mark = this.mark?.(line) ?? null;
    const classes = ['pl-line'];
    if (this.linked.has(line)) {
      classes.push(this.strong.has(line) ? 'pl-linked' : 'pl-linked-weakly');
    }
    if (this.matched.has(line)) {
      classes.push('pl-matched');
    }
    if (line === this.hovered) {
      classes.push('pl-hovered');
    }
    if (mark?.className !== undefined) {
      classes.push(mark.className);
    }
    row.element.className = classes.join(' ');
    row.element.setAttribute('aria-selected', String(line === this.current));
    const tokens = this.source.tokens(line);
    const isFolded = this.folded.has(line);
    const content = JSON.stringify([isFolded, mark, tokens]);
    if (content !== row.content) {
      row.content = content;
      row.element.replaceChildren(this.gutter(line, mark), this.text(line, tokens, isFolded));
    }
    for (const token of row.element.querySelectorAll<HTMLElement>('[data-value]')) {
      const isSame = Number(token.dataset['value']) === this.hoveredValue;
      token.classList.toggle('pl-same-value', isSame);
    }
  }

  private text(line: number, tokens: readonly Token[], isFolded: boolean): HTMLElement {
    const text = el('span', { class: 'pl-line-text' });
    text.style.paddingLeft = `${this.source.depth(line)}ch`;
    for (const { text: content, kind, value, column, title } of tokens) {
      if (kind === 'plain' && column === undefined) {
        text.append(oneLine(content, MAX_LINE_LENGTH));
        continue;
      }
      const isValue = value !== undefined && value >= 0;
      const cell = column === undefined ? '' : ` pl-cell pl-cell-${column}`;
      const attributes = {
        class: `pl-t-${kind}${cell}`,
        'data-value': isValue ? value : null,
        title: title === undefined || title === '' ? null : title,
      };
      text.append(el('span', attributes, oneLine(content, MAX_TOKEN_LENGTH)));
    }
    if (isFolded) {
      const hidden = this.source.foldEnd(line) - line - 1;
      text.append(el('span', { class: 'pl-folded' }, `… ${hidden} lines`));
    }
    return text;
  }

  private gutter(line: number, mark: LineMark | null): HTMLElement {
    const gutter = el('span', { class: 'pl-gutter' });
    if (mark?.heat !== undefined && mark.heat > 0) {
      const bar = el('span', { class: 'pl-heat-bar' });
      bar.style.width = `${Math.max(2, mark.heat * 100)}%`;
      gutter.append(bar);
    }
    mark?.hulls?.forEach((color, index) => {
      const hull = el('span', { class: 'pl-hull' });
      hull.style.background = color;
      hull.style.left = `${3 + 5 * index}px`;
      gutter.append(hull);
    });
    const folds = this.source.foldEnd(line) > line + 1;
    const sign = folds ? (this.folded.has(line) ? '▸' : '▾') : '';
    gutter.append(
      el('span', { class: 'pl-line-number' }, mark?.note ?? this.source.number(line)),
      el('span', { class: 'pl-fold-sign' }, sign),
    );
    return gutter;
  }

  private listen(): void {
    const { element, disposables } = this;
    disposables.listen(element, 'scroll', () => this.draw());
    for (const move of ['wheel', 'pointerdown', 'keydown'] as const) {
      disposables.listen(element, move, () => (this.start = -1), { passive: true });
    }
    disposables.listen(element, 'pointermove', event => {
      const target = event.target as HTMLElement;
      const value = Number(target.dataset?.['value'] ?? -1);
      this.hover(this.lineAt(target), value);
    });
    disposables.listen(element, 'pointerleave', () => this.hover(-1, -1));
    disposables.listen(element, 'click', event => {
      const target = event.target as HTMLElement;
      const line = this.lineAt(target);
      if (line < 0) {
        return;
      }
      if (target.closest('.pl-fold-sign, .pl-folded') !== null && this.source.foldEnd(line) > 0) {
        this.toggleFold(line);
        return;
      }
      this.current = line;
      this.pick(event.ctrlKey || event.metaKey);
    });
    disposables.listen(element, 'keydown', event => this.key(event));
  }

  private pick(isGoing: boolean): void {
    const equations = this.source.equations(this.current);
    this.events.onClick(equations, this.current);
    if (isGoing) {
      this.events.onGo?.(equations);
    }
    this.draw();
  }

  private lineAt(target: HTMLElement): number {
    const row = target.closest<HTMLElement>('.pl-line');
    return row === null ? -1 : Number(row.dataset['line']);
  }

  private hover(line: number, value: number): void {
    if (line === this.hovered && value === this.hoveredValue) {
      return;
    }
    const changed = line !== this.hovered;
    this.hovered = line;
    this.hoveredValue = value;
    if (changed) {
      this.events.onHover(line < 0 ? [] : this.source.equations(line), line);
    }
    this.draw();
  }

  private key(event: KeyboardEvent): void {
    const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
    if (step !== 0) {
      const row = this.current < 0 ? 0 : this.rowOf(this.current) + step;
      this.current = this.lineOf(Math.max(0, Math.min(this.rowCount - 1, row)));
      this.element.setAttribute('aria-activedescendant', this.prefix + this.current);
      this.showLine(this.current);
      this.hover(this.current, -1);
      event.preventDefault();
    } else if ((event.key === 'Enter' || event.key === ' ') && this.current >= 0) {
      this.pick(event.key === 'Enter');
      event.preventDefault();
    } else if (
      (event.key === 'ArrowLeft' || event.key === 'ArrowRight') &&
      this.source.foldEnd(this.current) > 0
    ) {
      if (this.folded.has(this.current) === (event.key === 'ArrowRight')) {
        this.toggleFold(this.current);
      }
      event.preventDefault();
    } else if (event.key === 'c' && (event.ctrlKey || event.metaKey) && this.current >= 0) {
      // Keyboard navigation selects no text, so copy the current line instead.
      if (getSelection()?.isCollapsed !== false) {
        void navigator.clipboard?.writeText(lineText(this.source, this.current));
      }
    }
  }
}

export const linesStyle = `
.pl-lines {
  position: relative; overflow: auto; min-width: 0; min-height: 0; height: 100%; font: 12px/${ROW_HEIGHT}px var(--pl-code);
  background: var(--pl-bg); contain: strict;
}
.pl-rows-space { position: absolute; left: 0; top: 0; width: 1px; pointer-events: none; }
.pl-rows { position: absolute; left: 0; top: 0; min-width: 100%; width: max-content; }
.pl-line { display: flex; height: ${ROW_HEIGHT}px; white-space: pre; cursor: default; border-left: 2px solid transparent; }
.pl-line:hover, .pl-hovered { background: var(--pl-sunken); }
.pl-linked-weakly { background: color-mix(in srgb, var(--pl-mark) 45%, transparent); }
.pl-linked { background: var(--pl-mark); border-left-color: var(--pl-mark-line); }
.pl-matched { border-left-color: var(--pl-mark-line); }
.pl-line[aria-selected='true'] { border-left-color: var(--pl-accent); }
.pl-gutter {
  position: sticky; left: 0; flex: none; display: flex; justify-content: flex-end; align-items: stretch; min-width: 52px;
  padding-left: 4px; background: inherit; color: var(--pl-faint); user-select: none;
}
.pl-line:not(:hover):not(.pl-hovered):not(.pl-linked):not(.pl-linked-weakly) .pl-gutter { background: var(--pl-bg); }
.pl-line-number { position: relative; min-width: 28px; text-align: right; font-size: 10.5px; }
.pl-fold-sign { position: relative; width: 16px; text-align: center; cursor: pointer; color: var(--pl-muted); }
.pl-heat-bar { position: absolute; left: 0; top: 3px; bottom: 3px; background: var(--pl-heat-high); opacity: 0.45; border-radius: 2px; }
.pl-has-hulls .pl-gutter { min-width: 74px; }
.pl-hull { position: absolute; top: 0; bottom: 0; width: 4px; }
.pl-line-text { padding-right: 16px; }
.pl-t-name { color: var(--pl-text); }
.pl-t-type { color: var(--pl-downstream); }
.pl-t-primitive { color: var(--pl-accent); font-weight: 600; }
.pl-t-param { color: var(--pl-muted); }
.pl-t-literal { color: var(--pl-amber); }
.pl-t-keyword { color: var(--pl-indexing); }
.pl-t-note { color: var(--pl-faint); font-style: italic; }
.pl-t-marked { color: var(--pl-text); background: var(--pl-mark); box-shadow: inset 0 -2px 0 var(--pl-mark-line); border-radius: 2px; }
.pl-same-value { background: var(--pl-accent-soft); border-radius: 3px; }
.pl-folded { margin-left: 1ch; padding: 0 6px; border-radius: 4px; background: var(--pl-sunken); color: var(--pl-muted); cursor: pointer; }
`;
