/** Finds corresponding equations of two programs and their differences. */

import type { LinkRecord } from '../generated/introspect';
import type { Program } from './program';

/**
 * `wrapped` and `unwrapped` are calls around equations of both programs, in the later or earlier
 * one only.
 */
export type Change = 'same' | 'changed' | 'added' | 'removed' | 'wrapped' | 'unwrapped';

/** A pair of corresponding equations, or one without a partner (-1). */
export interface MatchRow {
  readonly before: number;
  readonly after: number;
  readonly change: Change;
  /** Descriptions of the differences; empty unless `changed`. */
  readonly notes: readonly string[];
  /** Nesting depth of the equation's body in each of the two programs. */
  readonly depths: readonly [number, number];
}

/** Rows for two whole programs; inner bodies follow the equations that call them. */
export function compare(before: Program, after: Program, links: LinkRecord | null): MatchRow[] {
  return new Comparison(before, after, links).rows;
}

/** Maximum number of pairs for a quadratic comparison of two stretches. */
const MAX_PAIRS = 4_000_000;

/**
 * An equation of a body. If its call is opened, the equations of its body are placed between two
 * items of it.
 */
interface Item {
  readonly equation: number;
  readonly depth: number;
  readonly part: 'whole' | 'begin' | 'end';
}

/** Pairs of indices into two lists, increasing in both. */
type Anchors = readonly [number, number][];

class Comparison {
  readonly rows: MatchRow[] = [];
  private readonly partner = new Map<number, number>();
  private readonly seenBefore = new Set<number>();
  private readonly seenAfter = new Set<number>();
  private readonly valuePartner = new Map<number, number>();
  /** Maps values of the program after to values of the program before. */
  private readonly valueBefore = new Map<number, number>();
  /** Operands for the inputs of opened calls, for each side. */
  private readonly aliases = [new Map<number, number>(), new Map<number, number>()] as const;

  constructor(
    private readonly before: Program,
    private readonly after: Program,
    links: LinkRecord | null,
  ) {
    links?.source_ids.forEach((id, index) => {
      const from = before.equationOfId(id);
      const to = after.equationOfId(links.target_ids[index]!);
      if (from !== undefined && to !== undefined) {
        this.partner.set(from, to);
      }
    });
    this.pairBodies(0, 0, [0, 0]);
  }

  private pairBodies(left: number, right: number, depths: readonly [number, number]): void {
    if (this.seenBefore.has(left) || this.seenAfter.has(right)) {
      return;
    }
    this.seenBefore.add(left);
    this.seenAfter.add(right);
    const [a, b] = [this.before.bodies[left]!, this.after.bodies[right]!];
    a.inputs.forEach((value, index) => {
      const other = b.inputs[index];
      if (other !== undefined) {
        this.pairValues(value, other);
      }
    });
    const [lefts, rights, anchors] = this.pairs(left, right, depths);
    for (const [x, y] of interleave(lefts.length, rights.length, anchors)) {
      this.addItems(lefts[x], rights[y]);
    }
  }

  private addItems(left: Item | undefined, right: Item | undefined): void {
    if (left !== undefined && right !== undefined) {
      this.addPair(left, right);
      return;
    }
    const item = (left ?? right)!;
    const isLeft = left !== undefined;
    if (item.part === 'end') {
      this.leaveCall(item.equation, isLeft);
    } else if (item.part === 'begin') {
      this.addLone(item, isLeft, isLeft ? 'unwrapped' : 'wrapped');
      this.enterCall(item.equation, isLeft);
    } else {
      this.addLone(item, isLeft, isLeft ? 'removed' : 'added');
      this.addLoneBodies(item, isLeft);
    }
  }

  private addLone({ equation, depth }: Item, isLeft: boolean, change: Change): void {
    const [before, after] = isLeft ? [equation, -1] : [-1, equation];
    this.rows.push({ before, after, change, notes: [], depths: [depth, depth] });
  }

  private addPair(left: Item, right: Item): void {
    const [before, after] = [left.equation, right.equation];
    const notes = this.differences(before, after);
    const results = this.after.resultsOf(after);
    this.before.resultsOf(before).forEach((value, index) => {
      const other = results[index];
      if (other !== undefined) {
        this.pairValues(value, other);
      }
    });
    const change = notes.length > 0 ? 'changed' : 'same';
    this.rows.push({ before, after, change, notes, depths: [left.depth, right.depth] });
    const others = this.after.bodiesOf(after);
    this.before.bodiesOf(before).forEach((use, index) => {
      const other = others[index];
      if (other !== undefined) {
        this.pairBodies(use.body, other.body, [left.depth + 1, right.depth + 1]);
      }
    });
  }

  private addLoneBodies({ equation, depth }: Item, isLeft: boolean): void {
    const program = isLeft ? this.before : this.after;
    const seen = isLeft ? this.seenBefore : this.seenAfter;
    for (const { body } of program.bodiesOf(equation)) {
      if (!seen.has(body)) {
        seen.add(body);
        for (const inner of range(program.bodies[body]!.first, program.bodies[body]!.end)) {
          const item: Item = { equation: inner, depth: depth + 1, part: 'whole' };
          this.addItems(isLeft ? item : undefined, isLeft ? undefined : item);
        }
      }
    }
  }

  private pairValues(before: number, after: number): void {
    this.valuePartner.set(before, after);
    this.valueBefore.set(after, before);
  }

  /** Maps the inputs of a call's body to its operands. */
  private enterCall(equation: number, isLeft: boolean): void {
    const program = isLeft ? this.before : this.after;
    const body = program.bodies[program.bodiesOf(equation)[0]!.body]!;
    const operands = program.operandsOf(equation);
    const aliases = this.aliases[isLeft ? 0 : 1];
    body.inputs.forEach((input, index) =>
      aliases.set(input, this.actual(operands[index]!, isLeft)),
    );
  }

  /** Maps the results of a call to the results of its body. */
  private leaveCall(equation: number, isLeft: boolean): void {
    const program = isLeft ? this.before : this.after;
    const { outputs } = program.bodies[program.bodiesOf(equation)[0]!.body]!;
    program.resultsOf(equation).forEach((result, index) => {
      const output = this.actual(outputs[index]!, isLeft);
      const partner = (isLeft ? this.valuePartner : this.valueBefore).get(output);
      if (output >= 0 && partner !== undefined) {
        if (isLeft) {
          this.pairValues(result, partner);
        } else {
          this.pairValues(partner, result);
        }
      }
    });
  }

  private actual(operand: number, isLeft: boolean): number {
    return this.aliases[isLeft ? 0 : 1].get(operand) ?? operand;
  }

  /**
   * Partners among the items of two bodies: equal equations first, then those with the same
   * operation.
   */
  private pairs(
    left: number,
    right: number,
    depths: readonly [number, number],
  ): [readonly Item[], readonly Item[], Anchors] {
    const opened = [new Set<number>(), new Set<number>()] as const;
    for (;;) {
      const lefts = itemsOf(this.before, left, opened[0], depths[0]);
      const rights = itemsOf(this.after, right, opened[1], depths[1]);
      const places = new Map(rights.map((item, place) => [item.equation, place]));
      const known = lefts.flatMap(({ equation, part }, place): [number, number][] => {
        const other = places.get(this.partner.get(equation) ?? -1);
        return part !== 'whole' || other === undefined || rights[other]!.part !== 'whole'
          ? []
          : [[place, other]];
      });
      let anchors = between(
        increasing(known),
        keysOf(this.before, lefts, signature),
        keysOf(this.after, rights, signature),
      );
      if (!this.openCalls(lefts, rights, anchors, opened)) {
        for (const key of [scopedName, plainName]) {
          anchors = between(
            anchors,
            keysOf(this.before, lefts, key),
            keysOf(this.after, rights, key),
          );
        }
        return [lefts, rights, anchors];
      }
    }
  }

  /**
   * Opens calls without a partner whose content occurs on the other side. Returns whether there
   * were any.
   */
  private openCalls(
    lefts: readonly Item[],
    rights: readonly Item[],
    anchors: Anchors,
    opened: readonly [Set<number>, Set<number>],
  ): boolean {
    const sizes = opened[0].size + opened[1].size;
    let [i, j] = [0, 0];
    for (const [leftEnd, rightEnd] of [...anchors, [lefts.length, rights.length] as const]) {
      const [a, b] = [lefts.slice(i, leftEnd), rights.slice(j, rightEnd)];
      [i, j] = [leftEnd + 1, rightEnd + 1];
      const leftWork = new Set(a.flatMap(each => signaturesIn(this.before, each)));
      const rightWork = new Set(b.flatMap(each => signaturesIn(this.after, each)));
      const [leftCalls, rightCalls] = [callsIn(this.before, a), callsIn(this.after, b)];
      const names = (program: Program, calls: readonly number[]): string[] =>
        calls.map(each => plainName(program, each));
      const [leftNames, rightNames] = [
        names(this.before, leftCalls),
        names(this.after, rightCalls),
      ];
      // Calls of the same function are partners, however different.
      const leftFree = without(leftCalls, leftNames, rightNames);
      const rightFree = without(rightCalls, rightNames, leftNames);
      leftFree.forEach(each => open(this.before, each, rightWork, opened[0]));
      rightFree.forEach(each => open(this.after, each, leftWork, opened[1]));
    }
    return opened[0].size + opened[1].size > sizes;
  }

  private differences(before: number, after: number): string[] {
    const { before: a, after: b } = this;
    const notes: string[] = [];
    if (a.primitive(before) !== b.primitive(after)) {
      notes.push(`${a.primitive(before)} → ${b.primitive(after)}`);
    }
    const types = (program: Program, equation: number): string[] =>
      Array.from(program.resultsOf(equation), value => program.typeOf(value).text);
    const [left, right] = [types(a, before), types(b, after)];
    for (let i = 0; i < Math.max(left.length, right.length); i++) {
      if (left[i] !== right[i]) {
        notes.push(`${left[i] ?? 'nothing'} → ${right[i] ?? 'nothing'}`);
      }
    }
    notes.push(...this.shardingNotes(before, after), ...this.paramNotes(before, after));
    if (!this.sameOperands(before, after)) {
      notes.push('other operands');
    }
    return notes;
  }

  private shardingNotes(before: number, after: number): string[] {
    const spec = (program: Program, value: number): string =>
      program.record.shardings[program.typeOf(value).sharding]?.text ?? '';
    const results = this.after.resultsOf(after);
    return Array.from(this.before.resultsOf(before)).flatMap((value, index) => {
      const other = results[index];
      const [left, right] = [
        spec(this.before, value),
        other === undefined ? '' : spec(this.after, other),
      ];
      return left === right ? [] : [`${left || 'no sharding'} → ${right || 'no sharding'}`];
    });
  }

  private paramNotes(before: number, after: number): string[] {
    const left = new Map(this.before.params(before));
    const right = new Map(this.after.params(after));
    return [...new Set([...left.keys(), ...right.keys()])]
      .filter(name => left.get(name) !== right.get(name))
      .map(name => `${name}: ${left.get(name) ?? 'none'} → ${right.get(name) ?? 'none'}`);
  }

  private sameOperands(before: number, after: number): boolean {
    const left = this.before.operandsOf(before);
    const right = this.after.operandsOf(after);
    return (
      left.length === right.length &&
      left.every((each, index) => {
        const [operand, other] = [this.actual(each, true), this.actual(right[index]!, false)];
        return operand >= 0 && other >= 0
          ? this.valuePartner.get(operand) === other
          : operand < 0 &&
              other < 0 &&
              this.before.operandName(operand) === this.after.operandName(other);
      })
    );
  }
}

function signature(program: Program, equation: number): string {
  const results = Array.from(program.resultsOf(equation), value => program.typeOf(value).text);
  const operands = Array.from(program.operandsOf(equation), operand =>
    operand < 0 ? program.operandName(operand) : program.typeOf(operand).text,
  );
  const params = program.params(equation).flat();
  return [program.primitive(equation), ...params, '(', ...operands, ')', ...results].join('\u0001');
}

function scopedName(program: Program, equation: number): string {
  const scopes = program.scopePath(equation).map(scope => program.scopeName(scope));
  return `${program.primitive(equation)} ${scopes.join('/')}`;
}

function plainName(program: Program, equation: number): string {
  return program.primitive(equation);
}

/** Whether an equation runs one program once on its operands, and returns its results. */
function isCall(program: Program, equation: number): boolean {
  const [use, ...others] = program.bodiesOf(equation);
  if (use === undefined || others.length > 0 || use.trips !== 1) {
    return false;
  }
  const { inputs, outputs, constants } = program.bodies[use.body]!;
  return (
    constants.length === 0 &&
    inputs.length === program.operandsOf(equation).length &&
    outputs.length === program.resultsOf(equation).length
  );
}

/** The equations of a body in order, with those of `opened` calls inserted. */
function itemsOf(
  program: Program,
  body: number,
  opened: ReadonlySet<number>,
  depth: number,
): Item[] {
  const { first, end } = program.bodies[body]!;
  return range(first, end).flatMap((equation): Item[] =>
    opened.has(equation)
      ? [
          { equation, depth, part: 'begin' },
          ...itemsOf(program, program.bodiesOf(equation)[0]!.body, opened, depth + 1),
          { equation, depth, part: 'end' },
        ]
      : [{ equation, depth, part: 'whole' }],
  );
}

/** Keys of items; unique for an opened call. */
function keysOf(
  program: Program,
  items: readonly Item[],
  key: (program: Program, equation: number) => string,
): string[] {
  return items.map((item, place) =>
    item.part === 'whole'
      ? key(program, item.equation)
      : `\u0002${program.key} ${item.part} ${place}`,
  );
}

/** Signatures of an equation and, for a call, of its body. */
function signaturesIn(program: Program, { equation, part }: Item): string[] {
  return part === 'whole' ? signaturesWithin(program, equation) : [];
}

function signaturesWithin(program: Program, equation: number): string[] {
  if (!isCall(program, equation)) {
    return [signature(program, equation)];
  }
  const { first, end } = program.bodies[program.bodiesOf(equation)[0]!.body]!;
  return range(first, end).flatMap(each => signaturesWithin(program, each));
}

function callsIn(program: Program, items: readonly Item[]): number[] {
  return items
    .filter(each => each.part === 'whole' && isCall(program, each.equation))
    .map(each => each.equation);
}

/** Elements of `all` whose names are not matched by an element of `others`. */
function without(all: readonly number[], names: readonly string[], others: string[]): number[] {
  const left = [...others];
  return all.filter((_, place) => {
    const at = left.indexOf(names[place]!);
    if (at >= 0) {
      left.splice(at, 1);
    }
    return at < 0;
  });
}

/** Opens a call if at least half of its content is among `work` of the other side. */
function open(
  program: Program,
  call: number,
  work: ReadonlySet<string>,
  opened: Set<number>,
): void {
  const within = signaturesWithin(program, call);
  const common = within.filter(each => work.has(each)).length;
  if (common > 0 && 2 * common >= within.length) {
    opened.add(call);
  }
}

function range(first: number, end: number): number[] {
  return Array.from({ length: end - first }, (_, index) => first + index);
}

/**
 * Sorts pairs by their first elements, and keeps as many as possible with increasing second
 * elements.
 */
function increasing(pairs: readonly [number, number][]): [number, number][] {
  const sorted = [...pairs].sort((a, b) => a[0] - b[0]);
  const kept = longestRise(sorted.map(pair => pair[1]));
  return kept.map(index => sorted[index]!);
}

/** Indices of a longest increasing subsequence. */
function longestRise(numbers: readonly number[]): number[] {
  const ends: number[] = [];
  const before = new Int32Array(numbers.length).fill(-1);
  numbers.forEach((number, index) => {
    let low = 0;
    let high = ends.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (numbers[ends[middle]!]! < number) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    before[index] = low > 0 ? ends[low - 1]! : -1;
    ends[low] = index;
  });
  const result: number[] = [];
  for (let at = ends[ends.length - 1] ?? -1; at >= 0; at = before[at]!) {
    result.push(at);
  }
  return result.reverse();
}

/** Pairs of indices with equal keys, increasing in both, as many as can be found quickly. */
export function commonSequence(
  left: readonly string[],
  right: readonly string[],
): [number, number][] {
  const result: [number, number][] = [];
  let start = 0;
  while (start < left.length && start < right.length && left[start] === right[start]) {
    result.push([start, start]);
    start++;
  }
  const tail: [number, number][] = [];
  let [leftEnd, rightEnd] = [left.length, right.length];
  while (leftEnd > start && rightEnd > start && left[leftEnd - 1] === right[rightEnd - 1]) {
    tail.push([--leftEnd, --rightEnd]);
  }
  const a = left.slice(start, leftEnd);
  const b = right.slice(start, rightEnd);
  const middle = a.length * b.length <= MAX_PAIRS ? longestCommon(a, b) : byUniqueKeys(a, b);
  result.push(...middle.map(([i, j]): [number, number] => [i + start, j + start]));
  return [...result, ...tail.reverse()];
}

/** For long lists: anchors are keys that occur once on both sides; recursive between anchors. */
function byUniqueKeys(left: readonly string[], right: readonly string[]): [number, number][] {
  const once = (keys: readonly string[]): Map<string, number> => {
    const places = new Map<string, number>();
    keys.forEach((key, index) => places.set(key, places.has(key) ? -1 : index));
    return places;
  };
  const inRight = once(right);
  const candidates = [...once(left)].flatMap(([key, index]): [number, number][] => {
    const other = inRight.get(key) ?? -1;
    return index >= 0 && other >= 0 ? [[index, other]] : [];
  });
  const anchors = increasing(candidates);
  if (anchors.length === 0) {
    return [];
  }
  const result: [number, number][] = [];
  let [i, j] = [0, 0];
  for (const [x, y] of [...anchors, [left.length, right.length] as [number, number]]) {
    const found = commonSequence(left.slice(i, x), right.slice(j, y));
    const [fromLeft, fromRight] = [i, j];
    result.push(...found.map(([u, v]): [number, number] => [u + fromLeft, v + fromRight]));
    if (x < left.length) {
      result.push([x, y]);
    }
    [i, j] = [x + 1, y + 1];
  }
  return result;
}

function longestCommon(left: readonly string[], right: readonly string[]): [number, number][] {
  const columns = right.length + 1;
  const lengths = new Uint16Array((left.length + 1) * columns);
  for (let i = left.length - 1; i >= 0; i--) {
    for (let j = right.length - 1; j >= 0; j--) {
      lengths[i * columns + j] =
        left[i] === right[j]
          ? lengths[(i + 1) * columns + j + 1]! + 1
          : Math.max(lengths[(i + 1) * columns + j]!, lengths[i * columns + j + 1]!);
    }
  }
  const result: [number, number][] = [];
  for (let i = 0, j = 0; i < left.length && j < right.length;) {
    if (left[i] === right[j]) {
      result.push([i++, j++]);
    } else if (lengths[(i + 1) * columns + j]! >= lengths[i * columns + j + 1]!) {
      i++;
    } else {
      j++;
    }
  }
  return result;
}

/** Adds partners with equal keys between consecutive anchors. */
function between(
  anchors: Anchors,
  leftKeys: readonly string[],
  rightKeys: readonly string[],
): [number, number][] {
  const result: [number, number][] = [];
  let [i, j] = [0, 0];
  for (const anchor of [...anchors, null]) {
    const [leftEnd, rightEnd] = anchor ?? [leftKeys.length, rightKeys.length];
    const common = commonSequence(leftKeys.slice(i, leftEnd), rightKeys.slice(j, rightEnd));
    for (const [x, y] of common) {
      result.push([i + x, j + y]);
    }
    if (anchor !== null) {
      result.push([leftEnd, rightEnd]);
      [i, j] = [leftEnd + 1, rightEnd + 1];
    }
  }
  return result;
}

/** All indices of two lists in order, -1 for none; partners share a row. */
function interleave(leftCount: number, rightCount: number, anchors: Anchors): [number, number][] {
  const rows: [number, number][] = [];
  let [i, j] = [0, 0];
  for (const [a, b] of [...anchors, [leftCount, rightCount] as const]) {
    while (i < a) {
      rows.push([i++, -1]);
    }
    while (j < b) {
      rows.push([-1, j++]);
    }
    if (a < leftCount && b < rightCount) {
      rows.push([a, b]);
      [i, j] = [a + 1, b + 1];
    }
  }
  return rows;
}
