import { describe, expect, test } from 'vitest';
import type { FunctionShardingRecord, ShardingRecord } from '../generated/introspect';
import { SHARDINGS, sample } from '../testing/samples';
import { RecordError } from './columns';
import { lineText } from './lines';
import { ShardedFunction, isCostly } from './sharded_function';
import {
  NO_FILTER,
  ShardingLines,
  explainSpec,
  explainType,
  type RowFilter,
} from './sharding_lines';
import {
  Mesh,
  bordersOf,
  replicatedAxes,
  tileElements,
  tileText,
  tilesOfRecord,
  tilesOfSpec,
  unevenDims,
} from './tiles';

describe('tiles', () => {
  test.each(SHARDINGS)('of %s follow from the specification', name => {
    const record = sample<ShardingRecord>(name);
    const mesh = new Mesh(record.mesh);
    const known = tilesOfRecord(record, mesh);
    const worked = tilesOfSpec(record.shape, mesh, record.spec);
    expect(worked.starts).toEqual(known.starts);
    expect(worked.stops).toEqual(known.stops);
    expect(worked.tileOfDevice).toEqual(known.tileOfDevice);
  });

  test.each(SHARDINGS)('of %s cover the array once', name => {
    const record = sample<ShardingRecord>(name);
    const tiles = tilesOfRecord(record, new Mesh(record.mesh));
    let total = 0;
    for (let tile = 0; tile < tiles.count; tile++) {
      total += tileElements(tiles, tile);
    }
    expect(total).toBe(record.shape.reduce((product, size) => product * size, 1));
    expect(tiles.devicesOfTile.flat()).toHaveLength(record.device_tiles.length);
  });

  test('tell what is uneven and what is replicated', () => {
    const uneven = sample<ShardingRecord>('sharding_uneven');
    const mesh = new Mesh(uneven.mesh);
    const tiles = tilesOfRecord(uneven, mesh);
    expect(unevenDims(tiles)).toEqual([0, 1]);
    expect(bordersOf(tiles, 0)).toEqual([0, 3, 6, 9, 10]);
    expect(tileText(tiles, 7)).toBe('9:10, 4:7');
    const replicated = sample<ShardingRecord>('sharding_replicated');
    expect(replicatedAxes(new Mesh(replicated.mesh), replicated.spec)).toEqual(['data']);
    const open = sample<ShardingRecord>('sharding_unreduced');
    expect(replicatedAxes(new Mesh(open.mesh), open.spec)).toEqual([]);
  });

  test('of a faulty record are refused', () => {
    const record = sample<ShardingRecord>('sharding_simple');
    const mesh = new Mesh(record.mesh);
    expect(() => tilesOfRecord({ ...record, device_tiles: [99] }, mesh)).toThrow(RecordError);
    expect(() => tilesOfRecord({ ...record, tile_starts: [0.5] }, mesh)).toThrow(RecordError);
    const huge = { ...record.mesh, axis_sizes: [2 ** 20, 2 ** 20] };
    expect(() => new Mesh(huge)).toThrow('more than can be drawn');
    expect(() => new Mesh({ ...record.mesh, device_ids: [1] })).toThrow('names 1 of 8 devices');
  });
});

describe('a sharded function', () => {
  const record = (): FunctionShardingRecord => sample('sharded_function');
  const sharded = (): ShardedFunction => new ShardedFunction(record());

  test('an exchange is said to come from a line, a value, or the compiler', () => {
    const shown = new ShardedFunction(record());
    const lines = new ShardingLines(shown, { exchange: each => each.operation, bytes: String });
    const { program } = shown;
    const known = Array.from(program.spans).findIndex(span => span >= 0);
    expect(lines.origin(known)).toBe(lines.place(known));
    const [value] = program.resultsOf(known);
    program.spans[known] = -1;
    expect(lines.origin(known)).toBe(`${program.valueName(value!)}, which no line of yours makes`);
    expect(lines.origin(-1)).toContain('the compiler added it');
  });

  test('has a line for each value and for each exchange', () => {
    const shown = sharded();
    const lines = new ShardingLines(shown, { exchange: each => each.operation, bytes: String });
    const within = shown.sites.length - 1;
    expect(lines.count).toBe(shown.program.valueCount + shown.collectives.length + within);
    const text = Array.from({ length: lines.count }, (_, line) => lineText(lines, line));
    expect(text[0]).toBe("x  f32[512,1024]  P('data',)  1048576    data: argument `x`");
    expect(text.filter(each => each.trim() === 'all-reduce')).toHaveLength(2);
    expect(shown.collectives.filter(isCostly).map(each => each.operation)).toEqual([
      'all-to-all',
      'all-to-all',
    ]);
    const sent = record().collectives.map(each => each.bytes_per_device);
    expect(shown.bytesSent).toBe(sent.reduce((sum, bytes) => sum + bytes, 0));
  });

  test('leads each value back to what the user wrote', () => {
    const shown = sharded();
    const [output] = shown.program.bodies[0]!.outputs;
    const number = shown.numberAt(0, output!);
    const chain = shown.chainOf(number, 'data');
    expect(
      chain.map(hop => (hop.number < 0 ? '' : shown.program.valueName(shown.valueOf(hop.number)))),
    ).toEqual(['z', 'y₁', '']);
    expect(chain.at(-1)!.origin!.text).toBe('with_sharding_constraint');
    expect(shown.axesOf(number)).toEqual([0]);
  });

  test('cuts along parts of axes', () => {
    const mesh = new Mesh(record().meshes[0]!);
    const spec = { ...record().shardings[0]!, dim_axes: [['model:(2)2', 'data']] };
    const tiles = tilesOfSpec([8], mesh, spec);
    expect(tiles.count).toBe(4);
    expect(Array.from(tiles.tileOfDevice)).toEqual([0, 2, 0, 2, 1, 3, 1, 3]);
  });

  test('with a chain that has no end still ends', () => {
    const plain = record();
    const [output] = new ShardedFunction(plain).program.bodies[0]!.outputs;
    const looped = { ...plain, why: { ...plain.why, value: plain.why.value.map(() => output!) } };
    expect(new ShardedFunction(looped).chainOf(output!, 'data').length).toBeLessThanOrEqual(100);
  });

  test('tells what each call of a program does with layouts of its own', () => {
    const shown = new ShardedFunction(sample('sharded_calls'));
    const { program, sites } = shown;
    const calls = sites.filter(site => program.bodies[site.body]!.name === 'block');
    expect(calls.map(site => site.parent)).toEqual([0, 0, 0]);
    const [input] = program.bodies[calls[0]!.body]!.inputs;
    const specs = calls.map(site => shown.specOf(shown.numberAt(site.index, input!))!.text);
    expect(specs).toEqual(["P('data',)", "P('model', 'data')", "P('model',)"]);
    for (const { index, equation, parent } of sites.slice(1)) {
      expect(shown.siteWithin(parent, equation, 0)).toBe(index);
      for (const value of program.bodies[sites[index]!.body]!.inputs) {
        expect(shown.valueOf(shown.numberAt(index, value))).toBe(value);
        expect(shown.siteOf(shown.numberAt(index, value))).toBe(index);
      }
    }
    const lines = new ShardingLines(shown, { exchange: each => each.operation, bytes: String });
    const text = Array.from({ length: lines.count }, (_, line) => lineText(lines, line));
    const headings = text.map(each => each.trim()).filter(each => each.startsWith('inside '));
    expect(headings.filter(each => each === 'inside block')).toHaveLength(3);
    expect(headings.at(-1)).toBe('inside <lambda>, each device along line for itself');
  });

  test('counts the exchanges of a call to its equation', () => {
    const shown = new ShardedFunction(sample('sharded_calls'));
    const inner = shown.collectives.filter(each => each.site > 0);
    expect(inner.length).toBeGreaterThan(0);
    for (const each of inner) {
      const site = shown.sites[each.site]!;
      expect(shown.collectivesWithin(site.parent, site.equation)).toContain(each);
      expect(shown.collectivesOf(site.parent, site.equation)).not.toContain(each);
    }
  });

  test('names the mesh of a value that lies over another one', () => {
    const shown = new ShardedFunction(sample('sharded_calls'));
    const spec = shown.record.shardings.find(each => each.mesh === 1)!;
    expect(shown.specText(spec)).toBe("P('line',) (mesh line=8)");
    const number = shown.record.layouts.sharding.indexOf(shown.record.shardings.indexOf(spec));
    expect(shown.axesOf(number)).toEqual([2]);
  });

  test('shows the rows that pass a filter', () => {
    const shown = new ShardedFunction(sample('sharded_calls'));
    const lines = new ShardingLines(shown, { exchange: each => each.operation, bytes: String });
    const all = lines.count;
    const count = (filter: Partial<RowFilter>): number => {
      lines.setFilter({ ...NO_FILTER, ...filter });
      return lines.count;
    };
    const exchanges = count({ kind: 'exchanges' });
    expect(exchanges).toBe(shown.collectives.length);
    const axis = count({ kind: 'exchanges', axis: 'data' });
    expect(axis).toBe(shown.collectives.filter(each => each.axes.includes('data')).length);
    const [whole, divided] = [count({ kind: 'whole' }), count({ kind: 'divided' })];
    const headings = shown.sites.length - 1;
    expect(exchanges + whole + divided + headings).toBe(all);
    const large = count({ kind: 'whole', minBytes: 1024 });
    expect(large).toBeLessThan(whole);
    for (let line = 0; line < large; line++) {
      expect(shown.specOf(lines.numberAt(line))!.dim_axes.flat()).toEqual([]);
      expect(shown.deviceBytes(lines.numberAt(line))).toBeGreaterThanOrEqual(1024);
    }
    expect(count({ text: 'no such name' })).toBe(0);
    lines.setFilter(NO_FILTER);
    expect(lines.count).toBe(all);
  });

  test('says what a spec and the marks of a type mean', () => {
    const mesh = new Mesh(record().meshes[0]!);
    const spec = { ...record().shardings[0]!, text: 'P', dim_axes: [['data'], []] };
    expect(explainSpec(spec, mesh)).toBe(
      'P: dimension 0 is divided over data; dimension 1 is whole; devices along model hold copies.',
    );
    expect(explainType('f32[8]{V:ring}')).toContain('a value of its own (varying)');
    expect(explainType('f32[8]')).toBe('');
  });
});
