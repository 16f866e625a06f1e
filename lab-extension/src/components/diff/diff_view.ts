/** Two programs side by side, with corresponding equations in the same row. */

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

/** Number of equal rows shown before and after a change. */
const CONTEXT = 3;
/** Width in CSS pixels below which both sides are shown in one unified listing. */
const NARROW_WIDTH = 560;

type Side = 0 | 1;

/** One side of a row, or a placeholder for `left` omitted equal rows. */
type Line = { readonly row: MatchRow; readonly side: Side } | { readonly left: number };

/** Encodes (equation, side) as one number. */
const codeOf = (equation: number, side: Side): number => 2 * equation + side;
const sideOfCode = (code: number): Side => (code % 2) as Side;
const equationOf = (row: MatchRow, side: Side): number => (side === 0 ? row.before : row.after);
const codesOf = (row: MatchRow): number[] =>
  ([0, 1] as const)
    .filter(side => equationOf(row, side) >= 0)
    .map(side => codeOf(equationOf(row, side), side));

/** Lines of one side of the comparison, or of both sides. */
class DiffLines implements LineSource {
  lines: readonly Line[] = [];

  constructor(
    private readonly programs: readonly [Program, Program],
    private readonly isUnified: boolean,
  ) {}

  get count(): number {
    return this.lines.length;
  }

  number = (line: number): string => {
    const each = this.lines[line]!;
    const equation = this.equationAt(line);
    if (equation < 0 || 'left' in each) {
      return '';
    }
    const isChange = this.isUnified && each.row.change !== 'same';
    return `${isChange ? ['−', '+'][each.side]! : ''}${equation}`;
  };

  depth = (line: number): number => {
    const each = this.lines[line]!;
    return 'left' in each ? 0 : each.row.depths[each.side] * 2;
  };

  foldEnd = (): number => 0;

  startsFolded = (): boolean => false;

  equations = (line: number): readonly number[] => {
    const each = this.lines[line]!;
    const equation = this.equationAt(line);
    return 'left' in each || equation < 0 ? [] : [codeOf(equation, each.side)];
  };

  linesOf = (code: number): readonly number[] => {
    const side = sideOfCode(code);
    const equation = (code - side) / 2;
    const line = this.lines.findIndex(
      each =>
        !('left' in each) &&
        (each.side === side || (this.isUnified && each.row.change === 'same')) &&
        equationOf(each.row, side) === equation,
    );
    return line < 0 ? [] : [line];
  };

  tokens = (line: number): readonly Token[] => {
    const each = this.lines[line]!;
    if ('left' in each) {
      return [{ text: `… ${counted(each.left, 'equal equation')}`, kind: 'note' }];
    }
    const equation = this.equationAt(line);
    if (equation < 0) {
      return [];
    }
    const tokens = equationTokens(this.programs[each.side], equation);
    return each.row.change === 'changed' ? this.marked(tokens, each.row, each.side) : tokens;
  };

  private equationAt(line: number): number {
    const each = this.lines[line]!;
    return 'left' in each ? -1 : equationOf(each.row, each.side);
  }

  /** Marks types, params and literals that the corresponding equation lacks. */
  private marked(tokens: readonly Token[], row: MatchRow, side: Side): Token[] {
    const partner: Side = side === 0 ? 1 : 0;
    const known = new Set(
      equationTokens(this.programs[partner], equationOf(row, partner)).map(
        ({ kind, text }) => `${kind} ${text}`,
      ),
    );
    return tokens.map(token =>
      token.kind !== 'name' && token.kind !== 'plain' && !known.has(`${token.kind} ${token.text}`)
        ? { ...token, kind: 'marked' }
        : token,
    );
  }
}

/** The lines of a pane, with the view that draws them. */
interface Pane {
  readonly lines: DiffLines;
  readonly view: LinesView;
}

export class DiffView {
  readonly element: HTMLElement;
  readonly ready = Promise.resolve();
  readonly programs: readonly [Program, Program];
  private readonly rows: readonly MatchRow[];
  /** The two sides. */
  private readonly columns: readonly [Pane, Pane];
  /** Both sides in one listing, for narrow views. */
  private readonly unified: Pane;
  private readonly panes: readonly Pane[];
  private readonly notes = el('div', { class: 'pl-array-status pl-muted', 'aria-live': 'polite' });
  private readonly place: SourceLink;
  private readonly disposables = new Disposables();
  private selected: MatchRow | null = null;
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
    const onlyChanges = this.rows.length > 40;
    this.columns = [this.pane(`Before: ${before.name}`), this.pane(`After: ${after.name}`)];
    this.unified = this.pane(`${before.name} → ${after.name}`, true);
    this.panes = [...this.columns, this.unified];
    this.fill(onlyChanges);
    this.panes.forEach(pane => pane.view.setMarks(line => this.mark(pane, line)));
    this.synchronize();
    this.element = this.build(before, after, onlyChanges);
    this.hover(undefined);
    const observer = new ResizeObserver(([entry]) => {
      const width = entry?.contentRect.width ?? 0;
      this.element.classList.toggle('pl-unified', width > 0 && width < NARROW_WIDTH);
      this.sayHeight();
    });
    observer.observe(this.element);
    this.disposables.add(() => observer.disconnect());
  }

  private pane(title: string, isUnified = false): Pane {
    const lines = new DiffLines(this.programs, isUnified);
    const view = new LinesView(title, lines, {
      onHover: (codes, line) => {
        this.hover(lines.lines[line]);
        this.events.onHover?.(...this.decoded(codes));
      },
      onClick: (_, line) => this.select(lines.lines[line]),
      onGo: codes => this.place.go(...this.decoded(codes)),
    });
    return { lines, view };
  }

  private decoded(codes: ArrayLike<number>): [Program, number[]] {
    const side = codes.length > 0 ? sideOfCode(codes[0]!) : 0;
    return [this.programs[side], Array.from(codes, code => (code - side) / 2)];
  }

  /** The visible panes. */
  private get shown(): readonly Pane[] {
    return this.element.classList.contains('pl-unified') ? [this.unified] : this.columns;
  }

  private sayHeight(): void {
    const { view } = this.shown[0]!;
    if (this.element.clientHeight > 0) {
      const around = this.element.clientHeight - view.element.clientHeight;
      this.events.onHeight?.(around + view.wantedHeight);
    }
  }

  highlight(equations: readonly (readonly number[])[]): void {
    const codes = equations.flatMap((each, side) => each.map(e => codeOf(e, side as Side)));
    this.panes.forEach(({ view }) => view.setLinked(codes, false));
  }

  dispose(): void {
    this.panes.forEach(({ view }) => view.dispose());
    this.disposables.dispose();
  }

  themeChanged(): void {
    this.panes.forEach(({ view }) => view.refresh());
  }

  private fill(onlyChanges: boolean): void {
    const shown = onlyChanges ? withContext(this.rows) : this.rows;
    const linesOf = (sides: (row: MatchRow) => readonly Side[]): Line[] =>
      shown.flatMap((row): Line[] =>
        'left' in row ? [row] : sides(row).map(side => ({ row, side })),
      );
    this.columns.forEach(({ lines }, side) => (lines.lines = linesOf(() => [side as Side])));
    this.unified.lines.lines = linesOf(row =>
      row.change === 'same' ? [1] : ([0, 1] as const).filter(side => equationOf(row, side) >= 0),
    );
  }

  private mark({ lines }: Pane, line: number): LineMark | null {
    const each = lines.lines[line];
    if (each === undefined || 'left' in each || each.row.change === 'same') {
      return null;
    }
    const { change } = each.row;
    const isCall = change === 'wrapped' || change === 'unwrapped';
    return { className: `pl-line-${isCall ? 'changed' : change}` };
  }

  /** Keeps both sides of a row highlighted. */
  private select(line: Line | undefined): void {
    const isRow = line !== undefined && 'row' in line;
    this.selected = isRow ? line.row : null;
    this.panes.forEach(({ view }) => view.setLinked(isRow ? codesOf(line.row) : []));
    this.hover(line);
    const side = isRow ? line.side : 0;
    const equation = isRow ? equationOf(line.row, side) : -1;
    const equations = equation < 0 ? [] : [equation];
    this.place.show(this.programs[side], equations);
    this.events.onSelect?.(this.programs[side], equations);
  }

  private hover(line: Line | undefined): void {
    const row = line === undefined ? this.selected : 'row' in line ? line.row : null;
    this.notes.textContent =
      (row === null ? '' : this.words(row)) || 'Point at a row to see what differs.';
  }

  /** Describes a row in words. */
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

  /** Makes both sides scroll together. */
  private synchronize(): void {
    const [left, right] = this.columns.map(({ view }) => view.element) as [
      HTMLElement,
      HTMLElement,
    ];
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
    const { lines } = this.shown[0]!.lines;
    const isChange = (line: Line | undefined): boolean =>
      line !== undefined && 'row' in line && line.row.change !== 'same';
    const places = lines.flatMap((each, line) =>
      isChange(each) && !isChange(lines[line - 1]) ? [line] : [],
    );
    if (places.length > 0) {
      this.at = (this.at + by + places.length) % places.length;
      const line = places[this.at]!;
      this.shown.forEach(({ view }) => view.showLine(line));
      this.hover(lines[line]);
    }
  }

  private build(before: Program, after: Program, onlyChanges: boolean): HTMLElement {
    const count = (change: Change): number => this.rows.filter(row => row.change === change).length;
    const only = el('input', { type: 'checkbox', checked: onlyChanges });
    this.disposables.listen(only, 'change', () => {
      this.fill(only.checked);
      this.at = -1;
      this.selected = null;
      this.panes.forEach(({ view }) => view.refresh());
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
    const heading = (side: Side): HTMLElement =>
      el(
        'h3',
        {},
        el('span', { class: 'pl-muted' }, side === 0 ? 'before: ' : 'after: '),
        titles[side],
        el(
          'span',
          { class: 'pl-muted' },
          ` ${counted(this.programs[side].equationCount, 'equation')}`,
        ),
      );
    const columns = this.panes.map(({ view }) =>
      el('section', { class: 'pl-column' }, view.element),
    );
    return el(
      'div',
      { class: 'pl-array pl-diff' },
      header,
      el('div', { class: 'pl-diff-titles' }, heading(0), heading(1)),
      el('div', { class: 'pl-columns' }, columns),
      this.notes,
    );
  }
}

/** Description of the call around wrapped equations, such as `checkpoint`. */
function wrapping(row: MatchRow, programs: readonly [Program, Program]): string {
  const isBefore = row.before >= 0;
  const program = programs[isBefore ? 0 : 1];
  const equation = isBefore ? row.before : row.after;
  const primitive = program.primitive(equation);
  return `wrapped in ${USER_WORDS.get(primitive) ?? oneLine(primitive, 40)}`;
}

/** User-facing function names of call primitives whose own names differ. */
const USER_WORDS: ReadonlyMap<string, string> = new Map([
  ['remat2', 'checkpoint'],
  ['custom_jvp_call', 'custom_jvp'],
  ['custom_vjp_call', 'custom_vjp'],
]);

/** Chips for each kind of call: `2 wrapped in checkpoint`, `1 no longer wrapped in jit`. */
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

/** Titles of the two sides: the name, and the arguments and place if they differ. */
function titlesOf(before: Program, after: Program): [string, string] {
  const [a, b] = [headingOf(before), headingOf(after)];
  const title = (side: Heading, other: Heading): string => {
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

interface Heading {
  readonly name: string;
  readonly argumentTypes: readonly (readonly [string, string])[];
  readonly place: string;
}

function headingOf(program: Program): Heading {
  return {
    name: oneLine(program.name, 60),
    argumentTypes: Array.from(program.bodies[0]!.inputs, value => [
      program.valueName(value),
      program.typeOf(value).text,
    ]),
    place: placeOf(program),
  };
}

/** Source line where a program begins; empty if unknown. */
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

/** Chip with the peak memory of both programs if it differs, estimated from lifetimes of values. */
function peakChips(before: Program, after: Program): string[] {
  const [a, b] = [before, after].map(peakBytes) as [number, number];
  return a === b ? [] : [`peak memory (estimate) ${changeText(a, b, 'B')}`];
}

/** Chips for cost totals that differ: `FLOPs 1.2 M → 900 K (−25 %)`. */
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

function withContext(rows: readonly MatchRow[]): (MatchRow | { readonly left: number })[] {
  const isNear = new Uint8Array(rows.length);
  rows.forEach((row, index) => {
    if (row.change !== 'same') {
      isNear.fill(1, Math.max(0, index - CONTEXT), index + CONTEXT + 1);
    }
  });
  const shown: (MatchRow | { readonly left: number })[] = [];
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
.pl-diff.pl-unified > .pl-columns > .pl-column:not(:last-child), .pl-diff:not(.pl-unified) > .pl-columns > .pl-column:last-child { display: none; }
.pl-unified > .pl-columns > .pl-column { border-left: 0; }
.pl-diff-titles { display: flex; flex: none; border-bottom: 1px solid var(--pl-line); }
.pl-diff-titles > h3 { flex: 1 1 0; min-width: 0; margin: 0; padding: 3px 8px; font-size: 12px; overflow-wrap: anywhere; }
.pl-diff-titles > h3 > span { font-weight: 400; }
.pl-diff-titles > h3 + h3 { border-left: 1px solid var(--pl-line); }
.pl-unified > .pl-diff-titles { flex-direction: column; }
.pl-unified > .pl-diff-titles > h3 { flex: none; border-left: 0; }
.pl-tone-added { background: var(--pl-added-soft); color: var(--pl-added); }
.pl-tone-removed { background: var(--pl-removed-soft); color: var(--pl-removed); }
.pl-tone-changed { background: var(--pl-changed-soft); color: var(--pl-changed); }
.pl-line-added, .pl-line-added .pl-gutter { background: var(--pl-added-soft) !important; }
.pl-line-removed, .pl-line-removed .pl-gutter { background: var(--pl-removed-soft) !important; }
.pl-line-changed, .pl-line-changed .pl-gutter { background: var(--pl-changed-soft) !important; }
`;
