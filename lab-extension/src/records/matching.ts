/** Which equations of two programs correspond, and what differs between them. */

import type { LinkRecord } from '../generated/introspect';
import type { Program } from './program';

export type Change = 'same' | 'changed' | 'added' | 'removed';

/** A pair of equations, or one that has no partner (-1). */
export interface MatchRow {
  readonly before: number;
  readonly after: number;
  readonly change: Change;
  /** What differs, in words; empty unless the change is `changed`. */
  readonly notes: readonly string[];
  /** How deep the equation's body is nested. */
  readonly depth: number;
}

/** Rows for two whole programs, inner bodies under the equations that run them. */
export function compare(before: Program, after: Program, links: LinkRecord | null): MatchRow[] {
  return new Comparison(before, after, links).rows;
}

/** A quadratic comparison of two stretches is tried up to so many pairs. */
const MOST_PAIRS = 4_000_000;

class Comparison {
  readonly rows: MatchRow[] = [];
  private readonly partner = new Map<number, number>();
  private readonly seenBefore = new Set<number>();
  private readonly seenAfter = new Set<number>();
  private readonly valuePartner = new Map<number, number>();

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
    this.pairBodies(0, 0, 0);
  }

  private pairBodies(left: number, right: number, depth: number): void {
    if (this.seenBefore.has(left) || this.seenAfter.has(right)) {
      return;
    }
    this.seenBefore.add(left);
    this.seenAfter.add(right);
    const [a, b] = [this.before.bodies[left]!, this.after.bodies[right]!];
    a.inputs.forEach((value, index) => {
      const other = b.inputs[index];
      if (other !== undefined) {
        this.valuePartner.set(value, other);
      }
    });
    const pairs = this.pairs(range(a.first, a.end), range(b.first, b.end));
    for (const [before, after] of pairs) {
      this.addRow(before, after, depth);
    }
  }

  private addRow(before: number, after: number, depth: number): void {
    if (before < 0 || after < 0) {
      const change = before < 0 ? 'added' : 'removed';
      this.rows.push({ before, after, change, notes: [], depth });
      this.addLoneBodies(before, after, depth);
      return;
    }
    const notes = this.differences(before, after);
    this.before.resultsOf(before).forEach((value, index) => {
      const other = this.after.resultsOf(after)[index];
      if (other !== undefined) {
        this.valuePartner.set(value, other);
      }
    });
    this.rows.push({ before, after, change: notes.length > 0 ? 'changed' : 'same', notes, depth });
    const [left, right] = [this.before.bodiesOf(before), this.after.bodiesOf(after)];
    left.forEach((use, index) => {
      const other = right[index];
      if (other !== undefined) {
        this.pairBodies(use.body, other.body, depth + 1);
      }
    });
  }

  private addLoneBodies(before: number, after: number, depth: number): void {
    const isRemoved = before >= 0;
    const program = isRemoved ? this.before : this.after;
    const seen = isRemoved ? this.seenBefore : this.seenAfter;
    for (const { body } of program.bodiesOf(isRemoved ? before : after)) {
      if (!seen.has(body)) {
        seen.add(body);
        for (const inner of range(program.bodies[body]!.first, program.bodies[body]!.end)) {
          this.addRow(isRemoved ? inner : -1, isRemoved ? -1 : inner, depth + 1);
        }
      }
    }
  }

  /** Partners in order: equal equations first, then those that only do the same operation. */
  private pairs(left: readonly number[], right: readonly number[]): [number, number][] {
    const known = left.flatMap((equation): [number, number][] => {
      const other = this.partner.get(equation);
      return other === undefined ? [] : [[equation, other]];
    });
    const exact = (program: Program) => (equation: number) => signature(program, equation);
    const loose = (program: Program) => (equation: number) =>
      `${program.primitive(equation)} ${program
        .scopePath(equation)
        .map(scope => program.scopeName(scope))
        .join('/')}`;
    const rough = (program: Program) => (equation: number) => program.primitive(equation);
    let anchors = increasing(known);
    for (const key of [exact, loose, rough]) {
      anchors = this.between(left, right, anchors, key(this.before), key(this.after));
    }
    return interleave(left, right, anchors);
  }

  /** Adds partners with equal keys in each stretch between two anchors. */
  private between(
    left: readonly number[],
    right: readonly number[],
    anchors: readonly [number, number][],
    leftKey: (equation: number) => string,
    rightKey: (equation: number) => string,
  ): [number, number][] {
    const result: [number, number][] = [];
    const [leftFirst, rightFirst] = [left[0] ?? 0, right[0] ?? 0];
    let [i, j] = [0, 0];
    for (const anchor of [...anchors, null]) {
      const leftEnd = anchor === null ? left.length : anchor[0] - leftFirst;
      const rightEnd = anchor === null ? right.length : anchor[1] - rightFirst;
      const a = left.slice(i, leftEnd);
      const b = right.slice(j, rightEnd);
      const found = commonSequence(a.map(leftKey), b.map(rightKey));
      result.push(...found.map(([x, y]): [number, number] => [a[x]!, b[y]!]));
      if (anchor !== null) {
        result.push(anchor);
        [i, j] = [leftEnd + 1, rightEnd + 1];
      }
    }
    return result;
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
      left.every((operand, index) => {
        const other = right[index]!;
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

function range(first: number, end: number): number[] {
  return Array.from({ length: end - first }, (_, index) => first + index);
}

/** Pairs in the order of their first members, as many as also rise in their second. */
function increasing(pairs: readonly [number, number][]): [number, number][] {
  const sorted = [...pairs].sort((a, b) => a[0] - b[0]);
  const kept = longestRise(sorted.map(pair => pair[1]));
  return kept.map(index => sorted[index]!);
}

/** Indices of a longest rising subsequence. */
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

/** Pairs of places with equal keys, rising on both sides, as many as can be found quickly. */
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
  const middle = a.length * b.length <= MOST_PAIRS ? longestCommon(a, b) : byUniqueKeys(a, b);
  result.push(...middle.map(([i, j]): [number, number] => [i + start, j + start]));
  return [...result, ...tail.reverse()];
}

/** Long stretches: anchors are keys that occur once on either side; between them, again. */
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

/** All members of both lists in order; partners share a row. */
function interleave(
  left: readonly number[],
  right: readonly number[],
  anchors: readonly [number, number][],
): [number, number][] {
  const rows: [number, number][] = [];
  let [i, j] = [0, 0];
  const upTo = (leftStop: number, rightStop: number): void => {
    while (i < left.length && left[i]! < leftStop) {
      rows.push([left[i++]!, -1]);
    }
    while (j < right.length && right[j]! < rightStop) {
      rows.push([-1, right[j++]!]);
    }
  };
  for (const [a, b] of anchors) {
    upTo(a, b);
    rows.push([a, b]);
    i++;
    j++;
  }
  upTo(Infinity, Infinity);
  return rows;
}
