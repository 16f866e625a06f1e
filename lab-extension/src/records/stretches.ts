/** Groups neighbours on a level: forward and backward pass, source lines, ranges of lines. */

import type { Child } from './hierarchy';
import type { Program } from './program';

/** Members from `start` up to, excluding, `end`, under one label. */
export interface Stretch {
  readonly start: number;
  readonly end: number;
  readonly label: string;
}

/** Maximum number of boxes that can be taken in at a glance. */
export const MAX_MEMBERS = 15;
/**
 * Maximum number of members before lines are grouped into ranges: a few more boxes with the user's
 * text are better than `lines 3–5`.
 */
const MAX_LINES = 24;
/** Maximum share of a level's cost for neighbours that are grouped when there are too many. */
const MIN_COST = 0.02;
/** Maximum number of recomputed forward members within a backward pass. */
const MAX_RECOMPUTED_MEMBERS = 3;

/** Whether an equation was made by transposition. */
export function isBackward(program: Program, equation: number): boolean {
  return program.transformation(equation).startsWith('transpose');
}

/** Stacks of source lines of a program's equations, outermost call first. */
export class LineStacks {
  private readonly stacks = new Map<number, readonly number[]>();
  private readonly ids = new Map<string, number>();
  private readonly places: { source: number; line: number }[] = [];

  constructor(private readonly program: Program) {}

  /** Ids of the lines that lead to an equation; empty if unknown. */
  of(equation: number): readonly number[] {
    const span = this.program.spans[equation]!;
    let stack = this.stacks.get(span);
    if (stack === undefined) {
      stack = this.program.callStack(equation).map(each => this.idOf(each));
      stack = [...stack].reverse();
      this.stacks.set(span, stack);
    }
    return stack;
  }

  /** Source text of a line, or its location if the record has no text. */
  text(id: number): string {
    const { source, line } = this.places[id]!;
    const { lines, first_line: first, name } = this.program.sources[source]!;
    return lines?.[line - first]?.trim() ?? `${name}:${line}`;
  }

  /** `lines 3–9`; null if the two are in different files. */
  range(first: number, last: number): string | null {
    const [start, end] = [this.places[first]!, this.places[last]!];
    if (start.source !== end.source) {
      return null;
    }
    const [low, high] = [Math.min(start.line, end.line), Math.max(start.line, end.line)];
    return low === high ? `line ${low}` : `lines ${low}–${high}`;
  }

  private idOf(span: number): number {
    const { source, line } = this.program.span(span);
    const key = `${source}:${line}`;
    let id = this.ids.get(key);
    if (id === undefined) {
      id = this.places.length;
      this.ids.set(key, id);
      this.places.push({ source, line });
    }
    return id;
  }
}

/**
 * The forward and backward passes among the members of a level, alternating.
 *
 * A backward pass is a stretch of transposed members. Its forward pass starts at the first earlier
 * member that shares a
 * line with it.
 */
export function passesOf(
  program: Program,
  stacks: LineStacks,
  members: readonly (readonly number[])[],
): Stretch[] {
  const isBack = members.map(equations => equations.every(each => isBackward(program, each)));
  const passes: Stretch[] = [];
  let done = 0;
  for (let start = isBack.indexOf(true); start >= 0; start = isBack.indexOf(true, done)) {
    let end = start + 1;
    for (let next = end; next < members.length && next - end <= MAX_RECOMPUTED_MEMBERS; next++) {
      end = isBack[next] ? next + 1 : end;
    }
    const lines = new Set(
      members.slice(start, end).flatMap(equations => equations.map(each => lineOf(stacks, each))),
    );
    const forward = members
      .slice(done, start)
      .findIndex(equations => equations.some(each => lines.has(lineOf(stacks, each))));
    if (forward >= 0) {
      passes.push({ start: done + forward, end: start, label: 'forward' });
      passes.push({ start, end, label: 'backward' });
    }
    done = end;
  }
  return passes;
}

/** Innermost line of an equation; -1 if unknown. */
function lineOf(stacks: LineStacks, equation: number): number {
  return stacks.of(equation).at(-1) ?? -1;
}

/** Neighbours that come from the same line of the level's function. */
export function lineStretches(stacks: LineStacks, members: readonly Child[]): Stretch[] {
  const lines = linesOf(stacks, members);
  const stretches: Stretch[] = [];
  for (let start = 0, end = 1; end <= members.length; end++) {
    if (end === members.length || lines[end] !== lines[start]) {
      const line = lines[start]!;
      // One group with all members would only be a box around the level.
      if (end - start > 1 && end - start < members.length && line >= 0) {
        stretches.push({ start, end, label: stacks.text(line) });
      }
      start = end;
    }
  }
  return stretches;
}

/** Divides a level that is still too long into equal ranges, labelled by their lines. */
export function equalStretches(
  stacks: LineStacks,
  members: readonly Child[],
  most: number,
): Stretch[] {
  if (members.length <= (most === MAX_MEMBERS ? MAX_LINES : most)) {
    return [];
  }
  const lines = linesOf(stacks, members);
  const size = Math.ceil(members.length / most);
  const count = Math.ceil(members.length / size);
  return Array.from({ length: count }, (_, part) => {
    const start = part * size;
    const end = Math.min(members.length, start + size);
    const line = lines[start]!;
    const begins = line >= 0 && line !== lines[start - 1] ? `${stacks.text(line)} …` : null;
    const label = rangeOf(stacks, lines, start, end) ?? begins ?? `part ${part + 1} of ${count}`;
    return { start, end, label };
  });
}

/** Neighbours whose total cost is less than `MIN_COST` of their level, if all costs are known. */
export function smallStretches(
  stacks: LineStacks,
  members: readonly Child[],
  costs: readonly number[],
): Stretch[] {
  const total = costs.reduce((sum, cost) => sum + cost, 0);
  const lines = linesOf(stacks, members);
  const stretches: Stretch[] = [];
  for (let start = 0, end = 0; end < members.length; start = Math.max(end, start + 1)) {
    let sum = 0;
    for (end = start; end < members.length && sum + costs[end]! < MIN_COST * total; end++) {
      sum += costs[end]!;
    }
    if (end - start > 1) {
      const label = rangeOf(stacks, lines, start, end) ?? `${end - start} small steps`;
      stretches.push({ start, end, label });
    }
  }
  return stretches;
}

/**
 * `lines 3–9` for the members of a stretch; null if they share a line with neighbours, or have
 * none.
 */
function rangeOf(
  stacks: LineStacks,
  lines: readonly number[],
  start: number,
  end: number,
): string | null {
  const [first, last] = [lines[start]!, lines[end - 1]!];
  const isShared = first === lines[start - 1] || last === lines[end];
  return first < 0 || last < 0 || isShared ? null : stacks.range(first, last);
}

/** For each member, the line at the first depth at which the members' call stacks differ. */
function linesOf(stacks: LineStacks, members: readonly Child[]): number[] {
  const all = members.map(member => stacks.of(firstOf(member)));
  const known = all.filter(stack => stack.length > 0);
  const [first = []] = known;
  let shared = 0;
  while (shared < first.length - 1 && known.every(stack => stack[shared] === first[shared])) {
    shared++;
  }
  return all.map(stack => stack[Math.min(shared, stack.length - 1)] ?? -1);
}

function firstOf(member: Child): number {
  return typeof member === 'number' ? member : member.equations[0]!;
}
