/**
 * One level of a group: its members, the values passed between them, and values that enter or
 * leave.
 */

import type { Child, Group } from './hierarchy';
import type { Program } from './program';

/** Values passed from one member to another. */
export interface LevelEdge {
  readonly from: number;
  readonly to: number;
  readonly values: readonly number[];
}

/** A value from outside the group, and the members that use it. */
export interface LevelUse {
  readonly value: number;
  readonly members: readonly number[];
}

/** A value defined by a member and used outside the group. */
export interface LevelResult {
  /** A value, or -1 - i for literal i. */
  readonly operand: number;
  /** -1 if no member defines it. */
  readonly member: number;
}

export interface Level {
  readonly members: readonly Child[];
  readonly edges: readonly LevelEdge[];
  /** Inputs and constants of the body. */
  readonly inputs: readonly LevelUse[];
  /** Results of other groups in the same body. */
  readonly arrivals: readonly LevelUse[];
  readonly departures: readonly LevelResult[];
  /** Results of the body; empty for a group inside a body. */
  readonly returns: readonly LevelResult[];
}

/** Computes levels of one program, reusing its buffers. */
export class LevelReader {
  private readonly owner: Int32Array;
  private readonly isReturned: Uint8Array;
  private readonly levels = new Map<Group, Level>();

  constructor(private readonly program: Program) {
    this.owner = new Int32Array(program.equationCount).fill(-1);
    this.isReturned = new Uint8Array(program.valueCount);
    for (const body of program.bodies) {
      body.outputs.forEach(operand => {
        if (operand >= 0) {
          this.isReturned[operand] = 1;
        }
      });
    }
  }

  /** The level inside `group`; for a fold, pass one of its copies. */
  level(group: Group): Level {
    let level = this.levels.get(group);
    if (level === undefined) {
      level = this.read(group);
      this.levels.set(group, level);
    }
    return level;
  }

  private read(group: Group): Level {
    const { program, owner } = this;
    group.children.forEach((child, member) => {
      if (typeof child === 'number') {
        owner[child] = member;
      } else {
        for (const equation of child.equations) {
          owner[equation] = member;
        }
      }
    });
    const edges = new Map<number, { from: number; to: number; values: number[] }>();
    const inputs = new Uses();
    const arrivals = new Uses();
    const departures: LevelResult[] = [];
    for (const equation of group.equations) {
      const to = owner[equation]!;
      for (const operand of program.operandsOf(equation)) {
        if (operand < 0) {
          continue;
        }
        const maker = program.definers[operand]!;
        if (maker < 0 || program.bodyOf[maker] !== group.body) {
          inputs.add(operand, to);
        } else if (owner[maker]! < 0) {
          arrivals.add(operand, to);
        } else if (owner[maker] !== to) {
          addEdge(edges, owner[maker]!, to, operand, group.children.length);
        }
      }
      for (const value of program.resultsOf(equation)) {
        const leaves =
          this.isReturned[value] === 1 || program.usesOf(value).some(use => owner[use]! < 0);
        if (leaves) {
          departures.push({ operand: value, member: to });
        }
      }
    }
    const returns =
      group.kind === 'body'
        ? Array.from(program.bodies[group.body]!.outputs, operand => {
            const maker = operand >= 0 ? program.definers[operand]! : -1;
            return { operand, member: maker >= 0 ? owner[maker]! : -1 };
          })
        : [];
    group.equations.forEach(equation => (owner[equation] = -1));
    return {
      members: group.children,
      edges: [...edges.values()],
      inputs: inputs.list(),
      arrivals: arrivals.list(),
      departures,
      returns,
    };
  }
}

function addEdge(
  edges: Map<number, { from: number; to: number; values: number[] }>,
  from: number,
  to: number,
  value: number,
  memberCount: number,
): void {
  const key = from * memberCount + to;
  const edge = edges.get(key);
  if (edge === undefined) {
    edges.set(key, { from, to, values: [value] });
  } else if (!edge.values.includes(value)) {
    edge.values.push(value);
  }
}

class Uses {
  private readonly members = new Map<number, Set<number>>();

  add(value: number, member: number): void {
    const known = this.members.get(value);
    if (known === undefined) {
      this.members.set(value, new Set([member]));
    } else {
      known.add(member);
    }
  }

  list(): LevelUse[] {
    return [...this.members].map(([value, members]) => ({ value, members: [...members] }));
  }
}
