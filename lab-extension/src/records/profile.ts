/** A profiled session, grouped by line, operation, scope, category, program or device. */

import type { ProfileRecord, TimelineRecord } from '../generated/profiler';
import type { CellPlace } from './cell_places';

export const GROUPINGS = [
  'operation',
  'line',
  'equation',
  'scope',
  'category',
  'program',
  'device',
] as const;
export type Grouping = (typeof GROUPINGS)[number];

/** Operations with a common property, and their total time. */
export interface Group {
  readonly title: string;
  readonly subtitle: string;
  readonly seconds: number;
  readonly count: number;
  readonly flops: number;
  readonly bytes: number;
  readonly operations: readonly number[];
}

/** A scope with its nested scopes. */
export interface ScopeNode {
  readonly name: string;
  readonly path: string;
  readonly children: readonly ScopeNode[];
  /** Total time, including nested scopes. */
  readonly seconds: number;
  readonly backwardSeconds: number;
  readonly operations: ReadonlySet<number>;
}

/** Time of one line of a cell, for the margin of its editor. */
export interface LineTime extends CellPlace {
  readonly forwardSeconds: number;
  readonly backwardSeconds: number;
  /** Share of the operations' time, 0 to 1. */
  readonly share: number;
}

interface Total {
  title: string;
  subtitle: string;
  seconds: number;
  count: number;
  flops: number;
  bytes: number;
  operations: Set<number>;
}

interface MutableScope {
  name: string;
  path: string;
  seconds: number;
  backwardSeconds: number;
  operations: Set<number>;
  children: Map<string, MutableScope>;
}

export class Profile {
  /**
   * Index in `record.shares` of each operation's first entry; has one more element than operations.
   */
  private readonly firstShare: Int32Array;

  constructor(readonly record: ProfileRecord) {
    const counts = record.operations.share_counts;
    this.firstShare = new Int32Array(counts.length + 1);
    counts.forEach((count, i) => (this.firstShare[i + 1] = this.firstShare[i]! + count));
  }

  get operationCount(): number {
    return this.record.operations.name.length;
  }

  get lineCount(): number {
    return this.record.lines.line.length;
  }

  /** Seconds of all operations, never 0. */
  get total(): number {
    return this.record.totals.operation_seconds || 1;
  }

  get timeline(): TimelineRecord {
    return this.record.timeline;
  }

  text(index: number): string {
    return this.record.strings[index] ?? '';
  }

  name(operation: number): string {
    return this.text(this.record.operations.name[operation]!);
  }

  category(operation: number): string {
    return this.text(this.record.operations.category[operation]!);
  }

  program(operation: number): string {
    return this.text(this.record.operations.program[operation]!);
  }

  /** `In[3], line 4`. */
  lineName(line: number): string {
    const { lines, sources } = this.record;
    return line < 0
      ? 'no line'
      : `${sources[lines.source[line]!]?.name ?? '?'}, line ${lines.line[line]}`;
  }

  lineSource(line: number): string {
    const { lines, sources } = this.record;
    const source = sources[lines.source[line] ?? -1];
    return source?.lines?.[(lines.line[line] ?? 0) - source.first_line] ?? '';
  }

  lineSeconds(line: number): number {
    const { forward_seconds, backward_seconds } = this.record.lines;
    return forward_seconds[line]! + backward_seconds[line]!;
  }

  /** Source lines of an operation, largest share first; -1 for none. */
  linesOf(operation: number): number[] {
    const { line, share } = this.record.shares;
    const parts = new Map<number, number>();
    for (const i of this.sharesOf(operation)) {
      parts.set(line[i]!, (parts.get(line[i]!) ?? 0) + share[i]!);
    }
    return [...parts].sort((a, b) => b[1] - a[1]).map(([each]) => each);
  }

  /** Operations with time from a source line. */
  operationsOf(line: number): Set<number> {
    const operations = new Set<number>();
    for (let i = 0; i < this.operationCount; i++) {
      if (this.linesOf(i).includes(line)) {
        operations.add(i);
      }
    }
    return operations;
  }

  /** Groups operations by a property, sorted by time, longest first. */
  groups(by: Grouping, chosen: ReadonlySet<number> | null = null): Group[] {
    const totals = new Map<string, Total>();
    const { record } = this;
    const add = (
      key: string,
      title: string,
      subtitle: string,
      operation: number,
      part: number,
      count: number,
    ): void => {
      let total = totals.get(key);
      if (total === undefined) {
        total = {
          title,
          subtitle,
          seconds: 0,
          count: 0,
          flops: 0,
          bytes: 0,
          operations: new Set(),
        };
        totals.set(key, total);
      }
      const { seconds, flops, bytes } = record.operations;
      total.seconds += seconds[operation]! * part;
      total.flops += (flops[operation] ?? 0) * part;
      total.bytes += (bytes[operation] ?? 0) * part;
      total.count += total.operations.has(operation) && by !== 'device' ? 0 : count;
      total.operations.add(operation);
    };
    if (by === 'device') {
      const { operation, device, seconds, count } = record.device_shares;
      operation.forEach((each, i) => {
        if (chosen?.has(each) ?? true) {
          const name = `device ${device[i]}`;
          const whole = record.operations.seconds[each]!;
          add(name, name, '', each, whole > 0 ? seconds[i]! / whole : 0, count[i]!);
        }
      });
    } else {
      for (let i = 0; i < this.operationCount; i++) {
        if (chosen?.has(i) ?? true) {
          this.addParts(by, i, add);
        }
      }
    }
    return [...totals.values()]
      .map(total => ({ ...total, operations: [...total.operations] }))
      .sort((a, b) => b.seconds - a.seconds);
  }

  /** Tree of the scopes around operations; the root is the whole session. */
  scopes(): ScopeNode {
    const root = newScope('all operations', '');
    const { shares, operations } = this.record;
    for (let i = 0; i < this.operationCount; i++) {
      const parts = [...this.sharesOf(i)];
      if (parts.length === 0) {
        enter(root, ['(no scope)'], operations.seconds[i]!, false, i);
      }
      for (const part of parts) {
        const scope = mainPath(this.text(shares.scope[part]!));
        const path = [...scope.split('/'), this.text(shares.operation[part]!)].filter(Boolean);
        const seconds = operations.seconds[i]! * shares.share[part]!;
        enter(root, path, seconds, shares.is_backward[part]!, i);
      }
    }
    return frozen(root);
  }

  /** Times of lines in notebook cells. */
  lineTimes(): LineTime[] {
    const { lines, sources } = this.record;
    return lines.line.flatMap((line, i) => {
      const source = sources[lines.source[i]!];
      if (source === undefined || source.execution_count === null) {
        return [];
      }
      return [
        {
          ...this.place(i),
          line,
          forwardSeconds: lines.forward_seconds[i]!,
          backwardSeconds: lines.backward_seconds[i]!,
          share: this.lineSeconds(i) / this.total,
        },
      ];
    });
  }

  /** Place of a line in a notebook. */
  place(line: number): CellPlace {
    const { lines, sources } = this.record;
    const source = sources[lines.source[line]!];
    const number = lines.line[line]!;
    return {
      cellId: source?.cell_id ?? null,
      executionCount: source?.execution_count ?? null,
      line: number,
      endLine: number,
      text: source?.lines?.[number - source.first_line] ?? null,
    };
  }

  private *sharesOf(operation: number): Generator<number> {
    for (let i = this.firstShare[operation]!; i < this.firstShare[operation + 1]!; i++) {
      yield i;
    }
  }

  private addParts(
    by: Exclude<Grouping, 'device'>,
    i: number,
    add: (
      key: string,
      title: string,
      subtitle: string,
      operation: number,
      part: number,
      count: number,
    ) => void,
  ): void {
    const { shares, operations } = this.record;
    const count = operations.count[i]!;
    if (by === 'operation') {
      const [line = -1] = this.linesOf(i);
      const where = line < 0 ? '' : ` · ${this.lineName(line)}`;
      add(String(i), this.name(i), `${this.category(i)} · ${this.program(i)}${where}`, i, 1, count);
    } else if (by === 'category' || by === 'program') {
      const name = by === 'category' ? this.category(i) : this.program(i);
      add(name, name || '(program is gone)', '', i, 1, count);
    } else {
      let rest = 1;
      for (const part of this.sharesOf(i)) {
        const share = shares.share[part]!;
        rest -= share;
        const scope = mainPath(this.text(shares.scope[part]!));
        const primitive = this.text(shares.operation[part]!);
        const line = shares.line[part]!;
        if (by === 'line') {
          add(String(line), this.lineName(line), this.lineSource(line).trim(), i, share, count);
        } else if (by === 'scope') {
          add(scope, scope || '(no scope)', '', i, share, count);
        } else {
          const equation = shares.equation[part]!;
          const where = line < 0 ? scope : this.lineName(line);
          add(`${equation} ${equation < 0 ? primitive : ''}`, primitive, where, i, share, count);
        }
      }
      if (rest > 1e-6) {
        const none = { line: 'no line', scope: '(no scope)', equation: '(no equation)' }[by];
        add('-1', none, '', i, rest, count);
      }
    }
  }
}

/** First of the operation names that XLA joined with `;`. */
function mainPath(path: string): string {
  return path.split(';')[0]!;
}

function newScope(name: string, path: string): MutableScope {
  return {
    name,
    path,
    seconds: 0,
    backwardSeconds: 0,
    operations: new Set(),
    children: new Map(),
  };
}

function enter(
  root: MutableScope,
  path: readonly string[],
  seconds: number,
  isBackward: boolean,
  operation: number,
): void {
  let node = root;
  const visit = (): void => {
    node.seconds += seconds;
    node.backwardSeconds += isBackward ? seconds : 0;
    node.operations.add(operation);
  };
  visit();
  for (const name of path) {
    let child = node.children.get(name);
    if (child === undefined) {
      child = newScope(name, `${node.path}/${name}`);
      node.children.set(name, child);
    }
    node = child;
    visit();
  }
}

function frozen(node: MutableScope): ScopeNode {
  const children = [...node.children.values()].sort((a, b) => b.seconds - a.seconds).map(frozen);
  return { ...node, children };
}
