/** A function's intermediates with their shardings, and the exchanges between devices. */

import type {
  CollectiveRecord,
  FunctionShardingRecord,
  OriginRecord,
  SpecRecord,
} from '../generated/introspect';
import { integers, starts } from './columns';
import type { LineSource, Token } from './lines';
import { Program } from './program';
import { Mesh } from './tiles';

const LONGEST_CHAIN = 100;

/** How one mesh axis came to a value: from another value, or, at the end of the chain, from what the user wrote. */
export interface Hop {
  readonly axis: string;
  readonly value: number;
  readonly dimension: number;
  readonly equation: number;
  readonly origin: OriginRecord | null;
}

export class ShardedFunction {
  readonly program: Program;
  readonly mesh: Mesh;
  readonly collectives: readonly CollectiveRecord[];
  private readonly specs: Int32Array;
  private readonly whyStarts: Uint32Array;
  private readonly byEquation = new Map<number, CollectiveRecord[]>();

  constructor(readonly record: FunctionShardingRecord) {
    this.program = new Program(record.program);
    this.mesh = new Mesh(record.mesh);
    this.collectives = record.collectives;
    const count = this.program.valueCount;
    this.specs = integers(
      'value_shardings',
      record.value_shardings,
      -1,
      record.shardings.length,
      count,
    );
    const { counts, axis } = record.why;
    this.whyStarts = starts('why.counts', counts, count, axis.length);
    for (const collective of record.collectives) {
      const known = this.byEquation.get(collective.equation);
      if (known === undefined) {
        this.byEquation.set(collective.equation, [collective]);
      } else {
        known.push(collective);
      }
    }
  }

  specOf(value: number): SpecRecord | null {
    return this.record.shardings[this.specs[value]!] ?? null;
  }

  /** For each mesh axis of a value, how it came there. */
  whyOf(value: number): readonly Hop[] {
    const hops: Hop[] = [];
    for (let i = this.whyStarts[value]!; i < this.whyStarts[value + 1]!; i++) {
      const { axis, value: from, dimension, equation, origin } = this.record.why;
      hops.push({
        axis: String(this.record.axes[axis[i]!]),
        value: from[i] ?? -1,
        dimension: dimension[i] ?? -1,
        equation: equation[i] ?? -1,
        origin: this.record.origins[origin[i] ?? -1] ?? null,
      });
    }
    return hops;
  }

  /** The way back by which an axis came to a value, nearest first. */
  chainOf(value: number, axis: string): readonly Hop[] {
    const chain: Hop[] = [];
    for (let at = value; at >= 0 && chain.length < LONGEST_CHAIN;) {
      const hop = this.whyOf(at).find(each => each.axis === axis);
      if (hop === undefined) {
        break;
      }
      chain.push(hop);
      at = hop.value;
    }
    return chain;
  }

  /** Who gave a value its axes, in one line; empty for one that is whole everywhere. */
  whyText(value: number): string {
    return this.whyOf(value)
      .map(hop => `${hop.axis}: ${hop.origin?.text ?? 'the partitioner'}`)
      .join('; ');
  }

  /** Positions among the mesh axes of those that divide a value, the major one first. */
  axesOf(value: number): number[] {
    const names = this.specOf(value)?.dim_axes.flat() ?? [];
    const axes = names.map(name => this.mesh.axisPart(name).axis).filter(axis => axis >= 0);
    return [...new Set(axes)];
  }

  /** Bytes of a value that one device holds; null where that is not known. */
  deviceBytes(value: number): number | null {
    return this.record.value_device_bytes[value] ?? null;
  }

  collectivesOf(equation: number): readonly CollectiveRecord[] {
    return this.byEquation.get(equation) ?? [];
  }

  /** Bytes that one device sends in one run of the program, as far as that is known. */
  get bytesSent(): number {
    return this.collectives.reduce((sum, each) => sum + sentBytes(each), 0);
  }
}

/** Bytes that one device sends in all runs; a number of runs that nobody knows counts as one. */
export function sentBytes(collective: CollectiveRecord): number {
  return collective.bytes_per_device * (collective.runs ?? 1);
}

/** Whether an exchange is one that the user did not ask for and may want to avoid. */
export function isCostly(collective: CollectiveRecord): boolean {
  return collective.reason === 'reshard' || collective.reason === 'full_replication';
}

/** One line for each value, one more for each exchange that its equation causes. */
export class ShardingLines implements LineSource {
  private readonly values: number[] = [];
  private readonly exchanges: (CollectiveRecord | null)[] = [];
  private readonly makers: number[] = [];
  private readonly linesOfEquation = new Map<number, number[]>();
  private readonly lineOfValue = new Map<number, number>();

  constructor(
    private readonly sharded: ShardedFunction,
    private readonly describe: (collective: CollectiveRecord) => string,
  ) {
    const { program } = sharded;
    for (const { inputs, first, end } of program.bodies) {
      inputs.forEach(value => this.add(value, null, -1));
      for (let equation = first; equation < end; equation++) {
        program.resultsOf(equation).forEach(value => this.add(value, null, equation));
        sharded.collectivesOf(equation).forEach(each => this.add(-1, each, equation));
      }
    }
    sharded.collectivesOf(-1).forEach(each => this.add(-1, each, -1));
  }

  get count(): number {
    return this.values.length;
  }

  valueAt(line: number): number {
    return this.values[line]!;
  }

  exchangeAt(line: number): CollectiveRecord | null {
    return this.exchanges[line]!;
  }

  lineOf(value: number): number {
    return this.lineOfValue.get(value) ?? -1;
  }

  number = (line: number): string => {
    const maker = this.makers[line]!;
    return maker < 0 || this.exchanges[line] !== null ? '' : String(maker);
  };

  depth = (line: number): number => (this.exchanges[line] === null ? 0 : 2);

  foldEnd = (): number => 0;

  startsFolded = (): boolean => false;

  equations = (line: number): readonly number[] => {
    const maker = this.makers[line]!;
    return maker < 0 ? [] : [maker];
  };

  linesOf = (equation: number): readonly number[] => this.linesOfEquation.get(equation) ?? [];

  tokens = (line: number): Token[] => {
    const exchange = this.exchanges[line]!;
    if (exchange !== null) {
      return [{ text: this.describe(exchange), kind: 'plain' }];
    }
    const { program } = this.sharded;
    const value = this.values[line]!;
    const maker = this.makers[line]!;
    const spec = this.sharded.specOf(value);
    const why = this.sharded.whyText(value);
    return [
      { text: program.valueName(value), kind: 'name', value },
      { text: ':', kind: 'plain' },
      { text: program.typeOf(value).text, kind: 'type' },
      { text: '  ', kind: 'plain' },
      spec === null
        ? { text: 'not known', kind: 'note' }
        : { text: spec.text, kind: spec.unreduced_axes.length > 0 ? 'literal' : 'keyword' },
      { text: maker < 0 ? '' : `  ${program.primitive(maker)}`, kind: 'param' },
      { text: why === '' ? '' : `  ${why}`, kind: 'note' },
    ];
  };

  private add(value: number, exchange: CollectiveRecord | null, maker: number): void {
    const line = this.count;
    this.values.push(value);
    this.exchanges.push(exchange);
    this.makers.push(maker);
    if (value >= 0) {
      this.lineOfValue.set(value, line);
    }
    if (maker >= 0) {
      this.linesOfEquation.set(maker, [...(this.linesOfEquation.get(maker) ?? []), line]);
    }
  }
}
