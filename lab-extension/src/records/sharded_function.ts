/** A function's intermediates with their shardings, and the exchanges between devices. */

import type {
  CollectiveRecord,
  FunctionShardingRecord,
  SpecRecord,
  WhyRecord,
} from '../generated/introspect';
import { integers, starts } from './columns';
import type { LineSource, Token } from './lines';
import { Program } from './program';
import { Mesh } from './tiles';

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
    this.whyStarts = starts('why_counts', record.why_counts, count, record.why.length);
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

  whyOf(value: number): readonly WhyRecord[] {
    return this.record.why.slice(this.whyStarts[value], this.whyStarts[value + 1]);
  }

  collectivesOf(equation: number): readonly CollectiveRecord[] {
    return this.byEquation.get(equation) ?? [];
  }

  /** Bytes that one device sends in one run of the program, as far as that is known. */
  get bytesSent(): number {
    return this.collectives.reduce(
      (sum, each) => sum + each.bytes_per_device * (each.runs ?? 1),
      0,
    );
  }
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
    program.bodies[0]!.inputs.forEach(value => this.add(value, null, -1));
    for (let equation = 0; equation < program.equationCount; equation++) {
      program.resultsOf(equation).forEach(value => this.add(value, null, equation));
      sharded.collectivesOf(equation).forEach(each => this.add(-1, each, equation));
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
    const [why] = this.sharded.whyOf(value);
    return [
      { text: program.valueName(value), kind: 'name', value },
      { text: ':', kind: 'plain' },
      { text: program.typeOf(value).text, kind: 'type' },
      { text: '  ', kind: 'plain' },
      spec === null
        ? { text: 'not known', kind: 'note' }
        : { text: spec.text, kind: spec.unreduced_axes.length > 0 ? 'literal' : 'keyword' },
      { text: maker < 0 ? '' : `  ${program.primitive(maker)}`, kind: 'param' },
      { text: why === undefined ? '' : `  ${why.rule}`, kind: 'note' },
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
