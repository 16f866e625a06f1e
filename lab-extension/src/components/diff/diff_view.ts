/** Two programs side by side, what belongs together in one row. */

import type { DiffRecord } from '../../generated/introspect';
import { overlaysOf, totalOf } from '../../records/costs';
import type { LineSource, Token } from '../../records/lines';
import { equationTokens } from '../../records/listing';
import { compare, type Change, type MatchRow } from '../../records/matching';
import { peakBytes } from '../../records/live_memory';
import { Program } from '../../records/program';
import { Disposables, el } from '../dom';
import { counted, oneLine, quantity, whole } from '../format';
import { SourceLink, type ProgramEvents } from '../source_link';
import { LinesView, type LineMark } from '../text/lines_view';

/** Rows of equal equations that are shown around a change. */
const CONTEXT = 3;

/** A row, or a stretch of equal rows that is left out. */
type Shown = MatchRow | { readonly left: number };

/** One side of the comparison. */
class SideLines implements LineSource {
  rows: readonly Shown[] = [];

  constructor(
    private readonly program: Program,
    private readonly side: 'before' | 'after',
    private readonly other: Program,
  ) {}

  get count(): number {
    return this.rows.length;
  }

  number = (line: number): string => {
    const equation = this.equationAt(line);
    return equation < 0 ? '' : String(equation);
  };

  depth = (line: number): number => {
    const row = this.rows[line]!;
    return 'left' in row ? 0 : row.depths[this.side === 'before' ? 0 : 1] * 2;
  };

  foldEnd = (): number => 0;

  startsFolded = (): boolean => false;

  equations = (line: number): readonly number[] => {
    const equation = this.equationAt(line);
    return equation < 0 ? [] : [equation];
  };

  linesOf = (equation: number): readonly number[] => {
    const line = this.rows.findIndex(row => !('left' in row) && row[this.side] === equation);
    return line < 0 ? [] : [line];
  };

  tokens = (line: number): readonly Token[] => {
    const row = this.rows[line]!;
    if ('left' in row) {
      return [{ text: `… ${counted(row.left, 'equal equation')}`, kind: 'note' }];
    }
    const equation = row[this.side];
    if (equation < 0) {
      return [];
    }
    const tokens = equationTokens(this.program, equation);
    return row.change === 'changed' ? this.marked(tokens, row) : tokens;
  };

  private equationAt(line: number): number {
    const row = this.rows[line]!;
    return 'left' in row ? -1 : row[this.side];
  }

  /** Marks types, params and literals that the partner does not have. */
  private marked(tokens: readonly Token[], row: MatchRow): Token[] {
    const partner = row[this.side === 'before' ? 'after' : 'before'];
    const known = new Set(
      equationTokens(this.other, partner).map(({ kind, text }) => `${kind} ${text}`),
    );
    return tokens.map(token =>
      token.kind !== 'name' && token.kind !== 'plain' && !known.has(`${token.kind} ${token.text}`)
        ? { ...token, kind: 'marked' }
        : token,
    );
  }
}

export class DiffView {
  readonly element: HTMLElement;
  readonly ready = Promise.resolve();
  readonly programs: readonly [Program, Program];
  private readonly rows: readonly MatchRow[];
  private readonly sides: readonly [SideLines, SideLines];
  private readonly views: readonly [LinesView, LinesView];
  private readonly notes = el('div', { class: 'pl-array-status pl-muted', 'aria-live': 'polite' });
  private readonly place: SourceLink;
  private readonly disposables = new Disposables();
  private selected = -1;
  private at = -1;

  constructor(
    _root: HTMLElement,
    record: DiffRecord,
    private readonly events: ProgramEvents,
  ) {
    this.place = new SourceLink(events.notebook);
    const before = new Program(record.before);
    const after = new Program(record.after);
    this.programs = [before, after];
    this.rows = compare(before, after, record.matches);
    this.sides = [new SideLines(before, 'before', after), new SideLines(after, 'after', before)];
    const onlyChanges = this.rows.length > 40;
    this.fill(onlyChanges);
    const make = (index: 0 | 1, title: string): LinesView =>
      new LinesView(title, this.sides[index], {
        onHover: (equations, line) => {
          this.hover(line);
          events.onHover?.(this.programs[index], equations);
        },
        onClick: (_, line) => this.select(line, index),
        onGo: equations => this.place.go(this.programs[index], equations),
      });
    this.views = [make(0, `Before: ${before.name}`), make(1, `After: ${after.name}`)];
    this.views.forEach(view => view.setMarks(line => this.mark(line)));
    this.synchronize();
    this.element = this.build(before, after, onlyChanges);
    this.hover(-1);
    const observer = new ResizeObserver(() => this.sayHeight());
    observer.observe(this.element);
    this.disposables.add(() => observer.disconnect());
  }

  private sayHeight(): void {
    const [left] = this.views;
    if (this.element.clientHeight > 0) {
      const around = this.element.clientHeight - left.element.clientHeight;
      this.events.onHeight?.(around + left.wantedHeight);
    }
  }

  highlight(equations: readonly (readonly number[])[]): void {
    this.views.forEach((view, side) => view.setLinked(equations[side] ?? [], false));
  }

  dispose(): void {
    this.views.forEach(view => view.dispose());
    this.disposables.dispose();
  }

  themeChanged(): void {
    this.views.forEach(view => view.refresh());
  }

  private fill(onlyChanges: boolean): void {
    const shown = onlyChanges ? withContext(this.rows) : this.rows;
    this.sides.forEach(side => (side.rows = shown));
  }

  private mark(line: number): LineMark | null {
    const row = this.sides[0].rows[line];
    if (row === undefined || 'left' in row || row.change === 'same') {
      return null;
    }
    const isCall = row.change === 'wrapped' || row.change === 'unwrapped';
    return { className: `pl-line-${isCall ? 'changed' : row.change}` };
  }

  /** Keeps both sides of a row lit. */
  private select(line: number, index: 0 | 1): void {
    this.selected = line;
    this.views.forEach((view, side) => view.setLinked(this.sides[side]!.equations(line)));
    this.hover(line);
    const program = this.programs[index];
    const equations = this.sides[index].equations(line);
    this.place.show(program, equations);
    this.events.onSelect?.(program, equations);
  }

  private hover(line: number): void {
    const row = this.sides[0].rows[line < 0 ? this.selected : line];
    const text = row === undefined || 'left' in row ? '' : this.words(row);
    this.notes.textContent = text || 'Point at a row to see what differs.';
  }

  /** What a row says. */
  private words(row: MatchRow): string {
    switch (row.change) {
      case 'changed':
        return row.notes.map(note => oneLine(note, 200)).join('; ');
      case 'wrapped':
      case 'unwrapped':
        return `The equations under it are ${wrapping(row, this.programs)} on this side only.`;
      default:
        return row.change;
    }
  }

  /** Both sides scroll together. */
  private synchronize(): void {
    const [left, right] = this.views.map(view => view.element) as [HTMLElement, HTMLElement];
    const follow = (from: HTMLElement, to: HTMLElement): void => {
      this.disposables.listen(from, 'scroll', () => {
        if (to.scrollTop !== from.scrollTop) {
          to.scrollTop = from.scrollTop;
        }
      });
    };
    follow(left, right);
    follow(right, left);
  }

  private step(by: number): void {
    const { rows } = this.sides[0];
    const places = rows.flatMap((row, line) => {
      const before = rows[line - 1];
      const isChange = !('left' in row) && row.change !== 'same';
      const follows = before !== undefined && !('left' in before) && before.change !== 'same';
      return isChange && !follows ? [line] : [];
    });
    if (places.length > 0) {
      this.at = (this.at + by + places.length) % places.length;
      const line = places[this.at]!;
      this.views.forEach(view => view.showLine(line));
      this.hover(line);
    }
  }

  private build(before: Program, after: Program, onlyChanges: boolean): HTMLElement {
    const count = (change: Change): number => this.rows.filter(row => row.change === change).length;
    const only = el('input', { type: 'checkbox', checked: onlyChanges });
    this.disposables.listen(only, 'change', () => {
      this.fill(only.checked);
      this.at = -1;
      this.selected = -1;
      this.views.forEach(view => view.refresh());
    });
    const button = (name: string, by: number): HTMLElement => {
      const element = el('button', { type: 'button', class: 'pl-action' }, name);
      this.disposables.listen(element, 'click', () => this.step(by));
      return element;
    };
    const header = el(
      'header',
      { class: 'pl-array-header' },
      el('strong', {}, `${oneLine(before.name, 60)} → ${oneLine(after.name, 60)}`),
      (['added', 'removed', 'changed'] as const).map(change =>
        count(change) === 0
          ? null
          : el('span', { class: `pl-chip pl-tone-${change}` }, `${whole(count(change))} ${change}`),
      ),
      wrappings(this.rows, this.programs).map(text =>
        el('span', { class: 'pl-chip pl-tone-changed' }, text),
      ),
      el('span', { class: 'pl-chip' }, `${whole(count('same'))} equal`),
      [...costChips(before, after), ...peakChips(before, after)].map(text =>
        el('span', { class: 'pl-chip' }, text),
      ),
      el('label', { class: 'pl-muted' }, only, ' only changes'),
      button('Previous', -1),
      button('Next', 1),
      this.place.element,
    );
    const titles = titlesOf(before, after);
    const column = (index: 0 | 1, program: Program): HTMLElement =>
      el(
        'section',
        { class: 'pl-column' },
        el(
          'h3',
          {},
          el('span', { class: 'pl-muted' }, index === 0 ? 'before: ' : 'after: '),
          titles[index],
          el('span', { class: 'pl-muted' }, ` ${counted(program.equationCount, 'equation')}`),
        ),
        this.views[index].element,
      );
    return el(
      'div',
      { class: 'pl-array' },
      header,
      el('div', { class: 'pl-columns' }, column(0, before), column(1, after)),
      this.notes,
    );
  }
}

/** What a call wraps equations in, in the user's word for it. */
function wrapping(row: MatchRow, programs: readonly [Program, Program]): string {
  const isBefore = row.before >= 0;
  const program = programs[isBefore ? 0 : 1];
  const equation = isBefore ? row.before : row.after;
  const primitive = program.primitive(equation);
  return `wrapped in ${USER_WORDS.get(primitive) ?? oneLine(primitive, 40)}`;
}

/** Calls whose primitive isn't called as the function that makes them. */
const USER_WORDS: ReadonlyMap<string, string> = new Map([
  ['remat2', 'checkpoint'],
  ['custom_jvp_call', 'custom_jvp'],
  ['custom_vjp_call', 'custom_vjp'],
]);

/** `2 wrapped in checkpoint`, and `1 no longer wrapped in jit`, for each kind of call. */
function wrappings(rows: readonly MatchRow[], programs: readonly [Program, Program]): string[] {
  const counts = new Map<string, number>();
  for (const row of rows) {
    if (row.change === 'wrapped' || row.change === 'unwrapped') {
      const words = `${row.change === 'wrapped' ? '' : 'no longer '}${wrapping(row, programs)}`;
      counts.set(words, (counts.get(words) ?? 0) + 1);
    }
  }
  return [...counts].map(([words, count]) => `${whole(count)} ${words}`);
}

/** A title for each side: its name, and of its arguments and its place what the other has otherwise. */
function titlesOf(before: Program, after: Program): [string, string] {
  const [a, b] = [sideOf(before), sideOf(after)];
  const title = (side: Side, other: Side): string => {
    const differing = side.argumentTypes.filter(
      ([, type], index) => other.argumentTypes[index]?.[1] !== type,
    );
    const shown = differing.slice(0, 3).map(([name, type]) => `${name}: ${type}`);
    const more = differing.length > shown.length ? ', …' : '';
    const args = shown.length === 0 ? '' : `(${shown.join(', ')}${more})`;
    const place = side.place === '' || side.place === other.place ? '' : ` · ${side.place}`;
    return oneLine(`${side.name}${args}${place}`, 120);
  };
  return [title(a, b), title(b, a)];
}

interface Side {
  readonly name: string;
  readonly argumentTypes: readonly (readonly [string, string])[];
  readonly place: string;
}

function sideOf(program: Program): Side {
  return {
    name: oneLine(program.name, 60),
    argumentTypes: Array.from(program.bodies[0]!.inputs, value => [
      program.valueName(value),
      program.typeOf(value).text,
    ]),
    place: placeOf(program),
  };
}

/** The line at which the user's text of a program begins; empty where none is known. */
function placeOf(program: Program): string {
  const { first, end } = program.bodies[0]!;
  for (let equation = first; equation < end; equation++) {
    const span = program.spanOf(equation);
    const source = span === null ? undefined : program.sources[span.source];
    if (span !== null && source !== undefined) {
      return `${source.name}, line ${span.line}`;
    }
  }
  return '';
}

/** The most bytes in use at once, where they differ: an estimate from the lifetimes of values. */
function peakChips(before: Program, after: Program): string[] {
  const [a, b] = [before, after].map(peakBytes) as [number, number];
  return a === b ? [] : [`peak memory (estimate) ${changeText(a, b, 'B')}`];
}

/** Totals that differ: `FLOPs 1.2 M → 900 K (−25 %)`. */
function costChips(before: Program, after: Program): string[] {
  const top = (program: Program): number[] => {
    const { first, end } = program.bodies[0]!;
    return Array.from({ length: end - first }, (_, i) => first + i);
  };
  const others = overlaysOf(after);
  return overlaysOf(before).flatMap(overlay => {
    const other = others.find(each => each.name === overlay.name);
    if (other === undefined || overlay.ratio !== null) {
      return [];
    }
    const [a, b] = [totalOf(overlay, top(before)), totalOf(other, top(after))];
    const [from, to] = [quantity(a, overlay.unit), quantity(b, overlay.unit)];
    const isShown = a > 0 && b >= 0 && from !== to;
    return isShown ? [`${oneLine(overlay.label, 30)} ${changeText(a, b, overlay.unit)}`] : [];
  });
}

function changeText(a: number, b: number, unit: string): string {
  const part = ((b - a) / a) * 100;
  const size = Math.abs(part);
  const percent = Number.isFinite(size)
    ? ` (${part > 0 ? '+' : '−'}${size < 10 ? size.toPrecision(2) : size.toFixed(0)} %)`
    : '';
  return `${quantity(a, unit)} → ${quantity(b, unit)}${percent}`;
}

function withContext(rows: readonly MatchRow[]): Shown[] {
  const isNear = new Uint8Array(rows.length);
  rows.forEach((row, index) => {
    if (row.change !== 'same') {
      isNear.fill(1, Math.max(0, index - CONTEXT), index + CONTEXT + 1);
    }
  });
  const shown: Shown[] = [];
  let left = 0;
  const flush = (): void => {
    if (left > 0) {
      shown.push({ left });
      left = 0;
    }
  };
  rows.forEach((row, index) => {
    if (isNear[index] === 1) {
      flush();
      shown.push(row);
    } else {
      left++;
    }
  });
  flush();
  return shown;
}

export const diffStyle = `
.pl-tone-added { background: var(--pl-added-soft); color: var(--pl-added); }
.pl-tone-removed { background: var(--pl-removed-soft); color: var(--pl-removed); }
.pl-tone-changed { background: var(--pl-changed-soft); color: var(--pl-changed); }
.pl-line-added, .pl-line-added .pl-gutter { background: var(--pl-added-soft) !important; }
.pl-line-removed, .pl-line-removed .pl-gutter { background: var(--pl-removed-soft) !important; }
.pl-line-changed, .pl-line-changed .pl-gutter { background: var(--pl-changed-soft) !important; }
`;
