/** Correspondence between equations of several programs. */

import type { LinkRecord } from '../generated/introspect';
import type { Program } from './program';

/** Equations of each program, by the program's index. */
export type LinkedSets = readonly ReadonlySet<number>[];

/** Links between programs, in both directions. */
export class Links {
  /** For each pair of linked programs, maps equations of the first to equations of the second. */
  private readonly steps: Map<number, number[]>[][];
  private readonly chains = new Map<string, readonly number[]>();

  constructor(
    readonly programs: readonly Program[],
    records: readonly LinkRecord[],
  ) {
    this.steps = programs.map(() => programs.map(() => new Map<number, number[]>()));
    for (const record of records) {
      const source = programs.findIndex(program => program.key === record.source);
      const target = programs.findIndex(program => program.key === record.target);
      if (source < 0 || target < 0) {
        continue;
      }
      record.source_ids.forEach((id, index) => {
        const from = programs[source]!.equationOfId(id);
        const to = programs[target]!.equationOfId(record.target_ids[index]!);
        if (from !== undefined && to !== undefined) {
          append(this.steps[source]![target]!, from, to);
          append(this.steps[target]![source]!, to, from);
        }
      });
    }
  }

  /** Equations of `to` directly linked with `equation` of `from`. */
  direct(from: number, equation: number, to: number): readonly number[] {
    return this.steps[from]![to]!.get(equation) ?? [];
  }

  /** Equations of `to` linked with an equation of `from` over any number of links; cached. */
  between(from: number, equation: number, to: number): readonly number[] {
    const key = `${from}:${to}:${equation}`;
    let ends = this.chains.get(key);
    if (ends === undefined) {
      ends = [...this.from(from, [equation])[to]!];
      this.chains.set(key, ends);
    }
    return ends;
  }

  /**
   * Equations of every program that are linked with `equations` of one, over any number of links.
   */
  from(program: number, equations: Iterable<number>): LinkedSets {
    const sets: Set<number>[] = this.programs.map(() => new Set<number>());
    sets[program] = new Set(equations);
    const waiting = [program];
    const isReached = this.programs.map((_, index) => index === program);
    while (waiting.length > 0) {
      const at = waiting.shift()!;
      this.programs.forEach((_, next) => {
        if (isReached[next] || this.steps[at]![next]!.size === 0) {
          return;
        }
        isReached[next] = true;
        waiting.push(next);
        for (const equation of sets[at]!) {
          this.direct(at, equation, next).forEach(other => sets[next]!.add(other));
        }
      });
    }
    return sets;
  }
}

function append(map: Map<number, number[]>, key: number, value: number): void {
  const known = map.get(key);
  if (known === undefined) {
    map.set(key, [value]);
  } else {
    known.push(value);
  }
}

/** A fusion of the optimized program, and all equations it was made from. */
export interface Hull {
  /** The fusion in its program. */
  readonly equation: number;
  readonly members: LinkedSets;
}

/** Hulls of the fusions of one program, from their contents. */
export function hullsOf(links: Links, program: number): Hull[] {
  const { bodyStarts, bodyUses, bodies, equationCount } = links.programs[program]!;
  const hulls: Hull[] = [];
  for (let equation = 0; equation < equationCount; equation++) {
    if (!/fusion$/.test(links.programs[program]!.primitive(equation))) {
      continue;
    }
    const members = [equation];
    for (let i = bodyStarts[equation]!; i < bodyStarts[equation + 1]!; i++) {
      const { first, end } = bodies[bodyUses[i]!]!;
      for (let inner = first; inner < end; inner++) {
        members.push(inner);
      }
    }
    hulls.push({ equation, members: links.from(program, members) });
  }
  return hulls;
}
