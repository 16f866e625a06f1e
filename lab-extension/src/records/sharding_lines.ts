/**
 * A function's values with their shardings as rows of a table, and the collectives of its
 * equations.
 */

import type { CollectiveRecord, SpecRecord, UnevenCutRecord } from '../generated/introspect';
import type { LineSource, Token } from './lines';
import { append, sentBytes, type ShardedFunction, type Site } from './sharded_function';
import type { Mesh } from './tiles';

/** Filter of the rows. */
export interface RowFilter {
  readonly kind: 'all' | 'exchanges' | 'whole' | 'divided';
  /** Minimum number of bytes on one device, or sent by it. */
  readonly minBytes: number;
  /** Mesh axis of a sharding or collective; empty for any. */
  readonly axis: string;
  /** Substring of a value's name, type or line; empty for any. */
  readonly text: string;
}

export const NO_FILTER: RowFilter = { kind: 'all', minBytes: 0, axis: '', text: '' };

/** Functions that describe rows in words, supplied by the view. */
export interface RowWords {
  readonly exchange: (collective: CollectiveRecord) => string;
  readonly bytes: (count: number) => string;
}

interface Row {
  readonly site: number;
  /** -1 on rows of exchanges and of uneven cuts, and on those that begin a site. */
  readonly number: number;
  readonly exchange: CollectiveRecord | null;
  /** The uneven cut that a constraint demands; null on other rows. */
  readonly uneven: UnevenCutRecord | null;
  /** The equation that the row belongs to; -1 for inputs. */
  readonly maker: number;
  readonly depth: number;
  /** The row after the last one of a site; 0 for a row that isn't a site's heading. */
  foldEnd: number;
}

/**
 * Maximum number of rows that are initially not folded; larger programs only show their outermost
 * site.
 */
const MAX_UNFOLDED_ROWS = 400;

export class ShardingLines implements LineSource {
  private rows: Row[] = [];
  private linesOfEquation = new Map<number, number[]>();
  private lineOfNumber = new Map<number, number>();
  private filter = NO_FILTER;

  constructor(
    private readonly sharded: ShardedFunction,
    private readonly words: RowWords,
  ) {
    this.setFilter(NO_FILTER);
  }

  get count(): number {
    return this.rows.length;
  }

  /** Applies a filter. Filtered rows of bodies have no headings. */
  setFilter(filter: RowFilter): void {
    this.filter = filter;
    this.rows = [];
    this.linesOfEquation = new Map();
    this.lineOfNumber = new Map();
    this.addSite(this.sharded.sites[0]!, 0);
    this.sharded.collectivesOf(-1, -1).forEach(each => this.add(0, -1, each, -1, 0));
  }

  /** The site of a row's equation. */
  siteAt(line: number): number {
    const { site, foldEnd } = this.rows[line]!;
    return foldEnd > 0 ? this.sharded.sites[site]!.parent : site;
  }

  /** The number of the value in a row; -1 for none. */
  numberAt(line: number): number {
    return this.rows[line]!.number;
  }

  exchangeAt(line: number): CollectiveRecord | null {
    return this.rows[line]!.exchange;
  }

  unevenAt(line: number): UnevenCutRecord | null {
    return this.rows[line]!.uneven;
  }

  lineOf(number: number): number {
    return this.lineOfNumber.get(number) ?? -1;
  }

  /** The row of a collective; -1 if it is filtered out. */
  lineOfExchange(exchange: CollectiveRecord): number {
    return this.rows.findIndex(row => row.exchange === exchange);
  }

  number = (line: number): string => {
    const { maker, number } = this.rows[line]!;
    return maker < 0 || number < 0 ? '' : String(maker);
  };

  depth = (): number => 0;

  foldEnd = (line: number): number => this.rows[line]!.foldEnd;

  startsFolded = (line: number): boolean =>
    this.count > MAX_UNFOLDED_ROWS && this.rows[line]!.foldEnd > 0;

  equations = (line: number): readonly number[] => {
    const { maker } = this.rows[line]!;
    return maker < 0 ? [] : [maker];
  };

  linesOf = (equation: number): readonly number[] => this.linesOfEquation.get(equation) ?? [];

  tokens = (line: number): Token[] => {
    const { site, number, exchange, uneven, maker, depth, foldEnd } = this.rows[line]!;
    const { sharded } = this;
    const { program } = sharded;
    const indent = ' '.repeat(this.isFiltered ? 0 : depth);
    if (exchange !== null) {
      const text = this.words.exchange(exchange);
      return [{ text: indent + text, kind: 'plain', column: 'all', title: text }];
    }
    if (uneven !== null) {
      return [{ text: indent + uneven.note, kind: 'plain', column: 'all', title: uneven.note }];
    }
    if (foldEnd > 0) {
      return [{ text: indent + this.siteText(site), kind: 'note', column: 'all' }];
    }
    const value = sharded.valueOf(number);
    const spec = sharded.specOf(number);
    const type = program.typeOf(value).text;
    const by = maker < 0 ? '' : program.primitive(maker);
    const why = sharded.whyText(number);
    return [
      { text: `${indent}${program.valueName(value)}  `, kind: 'name', value, column: 'value' },
      { text: `${type}  `, kind: 'type', column: 'type', title: explainType(type) },
      spec === null
        ? { text: 'not known  ', kind: 'note', column: 'spec' }
        : {
            text: `${sharded.specText(spec)}  `,
            kind: spec.unreduced_axes.length > 0 ? 'literal' : 'keyword',
            column: 'spec',
            title: explainSpec(spec, sharded.meshOf(number)),
          },
      {
        text: `${this.words.bytes(sharded.deviceBytes(number))}  `,
        kind: 'param',
        column: 'bytes',
      },
      { text: `${this.place(maker)}  `, kind: 'note', column: 'line' },
      { text: [by, why].filter(Boolean).join('  '), kind: 'param', column: 'by', title: why },
    ];
  };

  private get isFiltered(): boolean {
    return this.filter !== NO_FILTER;
  }

  /** `line 12`, or `In[3]:12` if there are several sources; empty if unknown. */
  place(equation: number): string {
    const { program } = this.sharded;
    const span = equation < 0 ? null : program.spanOf(equation);
    if (span === null) {
      return '';
    }
    return program.sources.length === 1
      ? `line ${span.line}`
      : `${program.sources[span.source]?.name ?? ''}:${span.line}`;
  }

  /** The source line of an equation or, if unknown, the value that it defines. */
  origin(equation: number): string {
    const { program } = this.sharded;
    const place = this.place(equation);
    if (place !== '' || equation < 0) {
      return place || 'no equation: the compiler added it';
    }
    const [value] = program.resultsOf(equation);
    return value === undefined
      ? `a ${program.primitive(equation)} of no line`
      : `${program.valueName(value)}, which no line of yours makes`;
  }

  /** `inside layer, each device along model for itself`. */
  private siteText(index: number): string {
    const { sharded } = this;
    const site = sharded.sites[index]!;
    const around = sharded.sites[site.parent]?.manualAxes.length ?? 0;
    const own = site.manualAxes.slice(around);
    const alone = own.length > 0 ? `, each device along ${own.join(', ')} for itself` : '';
    return `inside ${sharded.program.bodies[site.body]!.name}${alone}`;
  }

  private addSite(site: Site, depth: number): void {
    const { sharded } = this;
    const { program } = sharded;
    const { inputs, first, end } = program.bodies[site.body]!;
    const addValue = (value: number, maker: number): void => {
      const number = sharded.numberAt(site.index, value);
      this.add(site.index, number, null, maker, depth);
    };
    inputs.forEach(value => addValue(value, -1));
    for (let equation = first; equation < end; equation++) {
      program.resultsOf(equation).forEach(value => addValue(value, equation));
      for (const uneven of sharded.unevenOf(site.index, equation)) {
        this.add(site.index, -1, null, equation, depth + 1, uneven);
      }
      for (const exchange of sharded.collectivesOf(site.index, equation)) {
        this.add(site.index, -1, exchange, equation, depth + 1);
      }
      for (const inner of sharded.sitesOf(site.index, equation)) {
        const heading = this.isFiltered
          ? null
          : this.add(inner.index, -1, null, equation, depth + 1);
        this.addSite(inner, depth + 2);
        if (heading !== null) {
          heading.foldEnd = this.count;
        }
      }
    }
  }

  private add(
    site: number,
    number: number,
    exchange: CollectiveRecord | null,
    maker: number,
    depth: number,
    uneven: UnevenCutRecord | null = null,
  ): Row {
    const row = { site, number, exchange, uneven, maker, depth, foldEnd: 0 };
    if (this.isFiltered && !this.passes(row)) {
      return row;
    }
    if (maker >= 0) {
      append(this.linesOfEquation, maker, this.count);
    }
    if (number >= 0) {
      this.lineOfNumber.set(number, this.count);
    }
    this.rows.push(row);
    return row;
  }

  private passes({ number, exchange, uneven, maker }: Row): boolean {
    const { kind, minBytes, axis, text } = this.filter;
    if (uneven !== null) {
      // An uneven cut has no axes and moves nothing, so only filters by text keep it.
      const words = `${this.place(maker)} ${uneven.note}`.toLowerCase();
      return (
        kind === 'all' &&
        axis === '' &&
        uneven.whole_bytes >= minBytes &&
        words.includes(text.toLowerCase())
      );
    }
    const { sharded } = this;
    const { program } = sharded;
    const axes = exchange?.axes ?? sharded.specOf(number)?.dim_axes.flat() ?? [];
    const bytes = exchange === null ? sharded.deviceBytes(number) : sentBytes(exchange);
    if (bytes < minBytes || (axis !== '' && !axes.some(each => each.split(':')[0] === axis))) {
      return false;
    }
    if (kind !== 'all') {
      const own = exchange !== null ? 'exchanges' : axes.length === 0 ? 'whole' : 'divided';
      if (own !== kind) {
        return false;
      }
    }
    const value = exchange === null ? sharded.valueOf(number) : -1;
    const words = [
      this.place(maker),
      value < 0 ? this.words.exchange(exchange!) : program.valueName(value),
      value < 0 ? '' : program.typeOf(value).text,
      maker < 0 ? '' : program.primitive(maker),
    ];
    return words.some(each => each.toLowerCase().includes(text.toLowerCase()));
  }
}

/** A sharding in words: axes that shard each dimension, and axes along which data is replicated. */
export function explainSpec(spec: SpecRecord, mesh: Mesh): string {
  const dims = spec.dim_axes.map((axes, dim) =>
    axes.length === 0
      ? `dimension ${dim} is whole`
      : `dimension ${dim} is divided over ${axes.join(' and ')}`,
  );
  const used = new Set(
    [...spec.dim_axes.flat(), ...spec.unreduced_axes].map(axis => axis.split(':')[0]),
  );
  const copies = mesh.axisNames.filter(axis => !used.has(axis));
  const along = copies.length > 0 ? [`devices along ${copies.join(', ')} hold copies`] : [];
  const sums =
    spec.unreduced_axes.length > 0
      ? [`devices along ${spec.unreduced_axes.join(', ')} hold summands that are not added up yet`]
      : [];
  return `${spec.text}: ${[...dims, ...along, ...sums].join('; ')}.`;
}

const SIGNS: Readonly<Record<string, string>> = {
  V: 'each position along it has a value of its own (varying)',
  U: 'positions along it hold summands that are not added up yet (unreduced)',
  R: 'its derivative is added up along it (reduced)',
};

/** Explains the marks in braces of a type, such as `{V:x}`; empty if there are none. */
export function explainType(text: string): string {
  return [...text.matchAll(/([VUR]):([^{}\s]+)/g)]
    .map(([mark, sign, axes]) => `${mark}: the axis ${axes}; ${SIGNS[sign!]}.`)
    .join(' ');
}
