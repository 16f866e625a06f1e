/** Texts side by side, with lines between what belongs together. */

import type { LineSource } from '../../records/lines';
import type { Links, LinkedSets } from '../../records/links';
import { Disposables, el } from '../dom';
import { oneLine } from '../format';
import type { Program } from '../../records/program';
import { SourceLink, type ProgramEvents } from '../source_link';
import { LinesView, type LineMark } from '../text/lines_view';
import { readTheme } from '../theme';
import { CanvasPane } from '../canvas_pane';

export interface Pane {
  readonly title: string;
  readonly note: string;
  /** Place of its program in the links. */
  readonly program: number;
  readonly lines: LineSource;
  /** Whether lines are drawn between this pane and the one before it. */
  readonly isJoined: boolean;
}

const MOST_CURVES = 600;

export class LinkedPanes {
  readonly element: HTMLElement;
  private readonly views: LinesView[];
  private readonly gaps: (CanvasPane | null)[];
  private readonly columns: HTMLElement[];
  private readonly disposables = new Disposables();
  /** Where the selected line comes from. */
  readonly place: SourceLink;
  private pinned: LinkedSets | null = null;
  private shown: LinkedSets | null = null;

  constructor(
    private readonly root: HTMLElement,
    private readonly panes: readonly Pane[],
    private readonly links: Links,
    marks: (pane: Pane, line: number) => LineMark | null,
    private readonly programs: readonly Program[],
    private readonly events: ProgramEvents,
  ) {
    this.place = new SourceLink(events.notebook);
    this.views = panes.map((pane, index) => {
      const view = new LinesView(pane.title, pane.lines, {
        onHover: equations => this.hover(pane, equations),
        onClick: equations => this.pin(pane, index, equations),
        onGo: equations => this.place.go(programs[pane.program]!, equations),
        onScroll: () => this.drawGaps(index),
      });
      view.setMarks(line => marks(pane, line));
      return view;
    });
    this.gaps = panes.map((pane, index) =>
      index === 0 || !pane.isJoined
        ? null
        : new CanvasPane('pl-gap', '', (context, width, height) =>
            this.paintGap(context, index, width, height),
          ),
    );
    this.gaps.forEach(gap => gap?.canvas.setAttribute('tabindex', '-1'));
    this.columns = panes.map((pane, index) =>
      el(
        'section',
        { class: 'pl-column', 'aria-label': pane.title },
        el('h3', {}, oneLine(pane.title, 60), el('span', { class: 'pl-muted' }, ` ${pane.note}`)),
        this.views[index]!.element,
      ),
    );
    const toggles = panes.length > 2 ? this.buildToggles() : null;
    const columns = el(
      'div',
      { class: 'pl-columns' },
      this.columns.map((column, index) => [this.gaps[index]?.element ?? null, column]),
    );
    this.element = el('div', { class: 'pl-linked-panes' }, toggles, columns);
  }

  dispose(): void {
    this.views.forEach(view => view.dispose());
    this.gaps.forEach(gap => gap?.dispose());
    this.disposables.dispose();
  }

  themeChanged(): void {
    this.views.forEach(view => view.refresh());
    this.gaps.forEach(gap => gap?.draw());
  }

  private buildToggles(): HTMLElement {
    return el(
      'div',
      { class: 'pl-pane-toggles', role: 'toolbar', 'aria-label': 'Panes' },
      this.panes.map((pane, index) => {
        const button = el(
          'button',
          { type: 'button', class: 'pl-action', 'aria-pressed': 'true' },
          oneLine(pane.title, 40),
        );
        this.disposables.listen(button, 'click', () => {
          const column = this.columns[index]!;
          column.hidden = !column.hidden;
          button.setAttribute('aria-pressed', String(!column.hidden));
          this.hideGaps();
        });
        return button;
      }),
    );
  }

  /** A gap between two columns of which one is hidden would join what is not linked. */
  private hideGaps(): void {
    this.gaps.forEach((gap, index) => {
      if (gap !== null) {
        gap.element.hidden = this.columns[index]!.hidden || this.columns[index - 1]!.hidden;
      }
    });
  }

  private hover(pane: Pane, equations: ArrayLike<number>): void {
    const sets =
      equations.length > 0 ? this.links.from(pane.program, Array.from(equations)) : this.pinned;
    this.show(sets, -1);
    this.events.onHover?.(this.programs[pane.program]!, equations);
  }

  /** Lights up equations of the first program that has any, and what belongs to them elsewhere. */
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

  /** Lights up sets of equations; with `from` the other panes move there. */
  private show(sets: LinkedSets | null, from: number): void {
    this.shown = sets;
    this.views.forEach((view, index) => {
      const set = sets?.[this.panes[index]!.program];
      view.setLinked(set === undefined ? [] : [...set], from >= 0 && index !== from);
    });
    this.gaps.forEach(gap => gap?.draw());
  }

  private drawGaps(index: number): void {
    this.gaps[index]?.draw();
    this.gaps[index + 1]?.draw();
  }

  /** Curves from lines of the pane before to lines of this one. */
  private paintGap(
    context: CanvasRenderingContext2D,
    index: number,
    width: number,
    height: number,
  ): void {
    const theme = readTheme(this.root);
    const [left, right] = [this.views[index - 1]!, this.views[index]!];
    const [leftPane, rightPane] = [this.panes[index - 1]!, this.panes[index]!];
    const lit = this.shown?.[leftPane.program];
    let count = 0;
    const curves: [number, number, boolean][] = [];
    for (const line of left.sight) {
      for (const equation of Array.from(leftPane.lines.equations(line))) {
        // A line that only calls the function is not where the equation comes from.
        if (leftPane.lines.linesOf(equation)[0] !== line) {
          continue;
        }
        const ends =
          leftPane.program === rightPane.program
            ? [equation]
            : this.links.direct(leftPane.program, equation, rightPane.program);
        for (const end of ends) {
          const [target] = rightPane.lines.linesOf(end);
          if (target !== undefined && count++ < MOST_CURVES) {
            curves.push([
              left.rowMiddle(line),
              right.rowMiddle(target),
              lit?.has(equation) === true,
            ]);
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
.pl-pane-toggles { display: flex; flex-wrap: wrap; gap: 6px; padding: 6px 12px; border-bottom: 1px solid var(--pl-line); }
.pl-pane-toggles .pl-action[aria-pressed='false'] { color: var(--pl-faint) !important; text-decoration: line-through; }
.pl-columns { display: flex; flex: 1; min-height: 0; overflow-x: auto; }
.pl-column { flex: 1 1 0; min-width: 220px; display: flex; flex-direction: column; min-height: 0; }
.pl-column[hidden], .pl-gap[hidden] { display: none; }
.pl-column > h3 { margin: 0; padding: 5px 12px; font-size: 12px; border-bottom: 1px solid var(--pl-line); white-space: nowrap; overflow: hidden; text-overflow: ellipsis; flex: none; }
.pl-column > h3 > span { font-weight: 400; }
.pl-column > .pl-lines { flex: 1; height: auto; }
.pl-column + .pl-column { border-left: 1px solid var(--pl-line); }
.pl-gap { flex: none; width: 36px; margin-top: 30px; }
`;
