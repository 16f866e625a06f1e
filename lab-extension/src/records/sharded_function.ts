/** A function's intermediates with their shardings, and its collectives. */

import type {
  CollectiveRecord,
  FunctionShardingRecord,
  OriginRecord,
  SpecRecord,
  UnevenCutRecord,
} from '../generated/introspect';
import { RecordError, integers, starts } from './columns';
import { Program } from './program';
import { Mesh } from './tiles';

const MAX_CHAIN_LENGTH = 100;

/**
 * One step of the propagation of a mesh axis to a value: from another value or, at the end, from
 * the user's code.
 */
export interface Hop {
  readonly axis: string;
  /** Number of the value it came from; -1 at the end of the chain. */
  readonly number: number;
  readonly dimension: number;
  readonly equation: number;
  readonly origin: OriginRecord | null;
}

/** A call site of a body: the whole program, or a body called by an equation of another site. */
export interface Site {
  readonly index: number;
  readonly body: number;
  /** Parent site; -1 for the whole program, like `equation`. */
  readonly parent: number;
  readonly equation: number;
  /** Number of its first value. */
  readonly first: number;
  /** Index in the program of its first value. */
  readonly firstValue: number;
  readonly valueCount: number;
  /** Axes of `mesh` along which each device computes with its own data (manual axes). */
  readonly manualAxes: readonly string[];
  readonly mesh: number;
}

/** Total of the collectives of one kind along the same axes. */
export interface Total {
  readonly operation: string;
  readonly axes: readonly string[];
  readonly mesh: number;
  readonly count: number;
  /** Bytes that one device sends in one run of the program. */
  readonly bytes: number;
  /** The collective that moves most bytes. */
  readonly largest: CollectiveRecord;
}

/** A sharded program, whose values have a separate number for each site of their body. */
export class ShardedFunction {
  readonly program: Program;
  /** The program's own mesh first. */
  readonly meshes: readonly Mesh[];
  readonly sites: readonly Site[];
  readonly collectives: readonly CollectiveRecord[];
  readonly uneven: readonly UnevenCutRecord[];
  private readonly specs: Int32Array;
  private readonly whyStarts: Uint32Array;
  private readonly siteOfNumber: Int32Array;
  private readonly sitesWithin = new Map<string, number[]>();
  private readonly at = new Map<string, CollectiveRecord[]>();
  private readonly within = new Map<string, CollectiveRecord[]>();

  constructor(readonly record: FunctionShardingRecord) {
    this.program = new Program(record.program);
    this.meshes = record.meshes.map(mesh => new Mesh(mesh));
    if (this.meshes.length === 0) {
      throw new RecordError('the record has no mesh');
    }
    this.collectives = record.collectives;
    // Records of the first versions have no uneven cuts.
    this.uneven = record.uneven ?? [];
    this.sites = this.readSites();
    const last = this.sites[this.sites.length - 1];
    const count = last === undefined ? 0 : last.first + last.valueCount;
    this.siteOfNumber = new Int32Array(count);
    this.sites.forEach(({ index, first, valueCount, parent, equation, body }) => {
      this.siteOfNumber.fill(index, first, first + valueCount);
      append(this.sitesWithin, `${parent}:${equation}:${body}`, index);
    });
    const { sharding } = record.layouts;
    this.specs = integers('layouts.sharding', sharding, -1, record.shardings.length, count);
    const { counts, axis } = record.why;
    this.whyStarts = starts('why.counts', counts, count, axis.length);
    for (const collective of record.collectives) {
      append(this.at, `${collective.site}:${collective.equation}`, collective);
      let equation = collective.equation;
      for (
        let site = this.sites[collective.site];
        site !== undefined;
        site = this.sites[site.parent]
      ) {
        append(this.within, `${site.index}:${equation}`, collective);
        equation = site.equation;
      }
    }
  }

  /** Number of a program's value at a site. */
  numberAt(site: number, value: number): number {
    const { first, firstValue } = this.sites[site]!;
    return first + value - firstValue;
  }

  siteOf(number: number): number {
    return this.siteOfNumber[number] ?? -1;
  }

  /** The program's value with this number. */
  valueOf(number: number): number {
    const { first, firstValue } = this.sites[this.siteOf(number)]!;
    return number - first + firstValue;
  }

  /** The site of body number `use` of an equation at a site; without one, another of that body. */
  siteWithin(site: number, equation: number, use: number): number {
    const uses = this.program.bodiesOf(equation);
    const { body } = uses[use]!;
    const found = this.sitesWithin.get(`${site}:${equation}:${body}`) ?? [];
    const before = uses.slice(0, use).filter(each => each.body === body).length;
    return found[before] ?? found[0] ?? this.sites.findIndex(each => each.body === body);
  }

  /** The equations that lead to a site, outermost first. */
  callsTo(site: number): number[] {
    const calls: number[] = [];
    for (
      let at = this.sites[site];
      at !== undefined && at.parent >= 0;
      at = this.sites[at.parent]
    ) {
      calls.unshift(at.equation);
    }
    return calls;
  }

  /** The sites of the bodies of an equation at a site. */
  sitesOf(site: number, equation: number): readonly Site[] {
    const bodies = new Set(this.program.bodiesOf(equation).map(use => use.body));
    return [...bodies].flatMap(body =>
      (this.sitesWithin.get(`${site}:${equation}:${body}`) ?? []).map(each => this.sites[each]!),
    );
  }

  specOf(number: number): SpecRecord | null {
    return this.record.shardings[this.specs[number]!] ?? null;
  }

  /** The mesh of a value's sharding; that of its site if it isn't sharded. */
  meshOf(number: number): Mesh {
    const mesh = this.specOf(number)?.mesh ?? 0;
    return this.meshes[mesh > 0 ? mesh : this.sites[this.siteOf(number)]!.mesh] ?? this.meshes[0]!;
  }

  /** A sharding as text, with its mesh if that isn't the program's own. */
  specText(spec: SpecRecord): string {
    return spec.mesh > 0 ? `${spec.text} (mesh ${this.meshes[spec.mesh]?.text ?? '?'})` : spec.text;
  }

  /** For each mesh axis of a value, where it came from. */
  whyOf(number: number): readonly Hop[] {
    const hops: Hop[] = [];
    for (let i = this.whyStarts[number]!; i < this.whyStarts[number + 1]!; i++) {
      const { axis, value: from, dimension, equation, origin } = this.record.why;
      hops.push({
        axis: String(this.record.axes[axis[i]!]),
        number: from[i] ?? -1,
        dimension: dimension[i] ?? -1,
        equation: equation[i] ?? -1,
        origin: this.record.origins[origin[i] ?? -1] ?? null,
      });
    }
    return hops;
  }

  /** The steps by which an axis was propagated to a value, the last step first. */
  chainOf(number: number, axis: string): readonly Hop[] {
    const chain: Hop[] = [];
    for (let at = number; at >= 0 && chain.length < MAX_CHAIN_LENGTH;) {
      const hop = this.whyOf(at).find(each => each.axis === axis);
      if (hop === undefined) {
        break;
      }
      chain.push(hop);
      at = hop.number;
    }
    return chain;
  }

  /** One line that tells where a value's axes come from; empty if it isn't sharded. */
  whyText(number: number): string {
    return this.whyOf(number)
      .map(hop => `${hop.axis}: ${hop.origin?.text ?? 'the partitioner'}`)
      .join('; ');
  }

  /**
   * Indices, among the axes of all meshes in order, of the axes that shard a value, major first.
   */
  axesOf(number: number): number[] {
    const spec = this.specOf(number);
    const mesh = this.meshOf(number);
    const names = spec?.dim_axes.flat() ?? [];
    const axes = names.map(name => mesh.axisPart(name).axis).filter(axis => axis >= 0);
    const before = this.axesBefore(mesh);
    return [...new Set(axes)].map(axis => before + axis);
  }

  /** Number of axes of the meshes before this one. */
  axesBefore(mesh: Mesh): number {
    const others = this.meshes.slice(0, this.meshes.indexOf(mesh));
    return others.reduce((count, other) => count + other.axisNames.length, 0);
  }

  /** Bytes of a value on one device. */
  deviceBytes(number: number): number {
    return this.record.layouts.device_bytes[number] ?? 0;
  }

  /** Number of other shardings of a value besides the displayed one. */
  otherLayouts(number: number): number {
    return (this.record.layouts.count[number] ?? 1) - 1;
  }

  collectivesOf(site: number, equation: number): readonly CollectiveRecord[] {
    return this.at.get(`${site}:${equation}`) ?? [];
  }

  /** Uneven cuts that a constraint at a site demands. */
  unevenOf(site: number, equation: number): readonly UnevenCutRecord[] {
    return this.uneven.filter(each => each.site === site && each.equation === equation);
  }

  /** The exchanges of an equation with those of all that it runs. */
  collectivesWithin(site: number, equation: number): readonly CollectiveRecord[] {
    return this.within.get(`${site}:${equation}`) ?? [];
  }

  /** Totals of collectives by kind, most bytes first. */
  get totals(): Total[] {
    const totals = new Map<string, Total>();
    for (const each of this.collectives) {
      const { operation, axes, mesh } = each;
      const key = [operation, mesh, ...axes].join();
      const known = totals.get(key) ?? { operation, axes, mesh, count: 0, bytes: 0, largest: each };
      const largest = sentBytes(each) > sentBytes(known.largest) ? each : known.largest;
      const bytes = known.bytes + sentBytes(each);
      totals.set(key, { ...known, count: known.count + 1, bytes, largest });
    }
    return [...totals.values()].sort((a, b) => b.bytes - a.bytes);
  }

  /** Bytes that one device sends in one run of the program, as far as known. */
  get bytesSent(): number {
    return this.collectives.reduce((sum, each) => sum + sentBytes(each), 0);
  }

  private readSites(): Site[] {
    const { program, record } = this;
    const { body, parent, equation, manual_axes: manual } = record.sites;
    const count = body.length;
    const bodies = integers('sites.body', body, 0, program.bodies.length);
    const parents = integers('sites.parent', parent, -1, count, count);
    const equations = integers('sites.equation', equation, -1, program.equationCount, count);
    const meshes = integers('sites.mesh', record.sites.mesh, 0, this.meshes.length, count);
    const valueCounts = program.bodies.map(
      ({ constants, inputs, first, end }) =>
        constants.length +
        inputs.length +
        program.resultStarts[end]! -
        program.resultStarts[first]!,
    );
    const firstValues = sumsBefore(valueCounts);
    const firsts = sumsBefore(Array.from(bodies, each => valueCounts[each]!));
    return Array.from(bodies, (each, index) => {
      if (parents[index]! >= index) {
        throw new RecordError(`sites.parent[${index}] is ${parents[index]}: a parent comes first`);
      }
      return {
        index,
        body: each,
        parent: parents[index]!,
        equation: equations[index]!,
        first: firsts[index]!,
        firstValue: firstValues[each]!,
        valueCount: valueCounts[each]!,
        manualAxes: (manual[index] ?? []).map(String),
        mesh: meshes[index]!,
      };
    });
  }
}

function sumsBefore(counts: readonly number[]): number[] {
  let sum = 0;
  return counts.map(count => (sum += count) - count);
}

/** Appends an item to the list of a key, which is created if there is none. */
export function append<Key, Item>(lists: Map<Key, Item[]>, key: Key, item: Item): void {
  const known = lists.get(key);
  if (known === undefined) {
    lists.set(key, [item]);
  } else {
    known.push(item);
  }
}

/** Bytes that one device sends in all runs; an unknown number of runs counts as one. */
export function sentBytes(collective: CollectiveRecord): number {
  return collective.bytes_per_device * (collective.runs ?? 1);
}

/** Whether a collective was inserted without the user's request, and might be avoided. */
export function isCostly(collective: CollectiveRecord): boolean {
  return collective.reason === 'reshard' || collective.reason === 'full_replication';
}
