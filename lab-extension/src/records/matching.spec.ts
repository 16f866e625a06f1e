import { describe, expect, test } from 'vitest';
import type { DiffRecord, LadderRecord, LensRecord } from '../generated/introspect';
import { sample, sampleProgram } from '../testing/samples';
import { Links, hullsOf } from './links';
import { commonSequence, compare, type Change } from './matching';
import { Program } from './program';

function programs(name: string): [Program, Program] {
  const record = sample<DiffRecord>(name);
  return [new Program(record.before), new Program(record.after)];
}

function counts(rows: readonly { change: Change }[]): Partial<Record<Change, number>> {
  const result: Partial<Record<Change, number>> = {};
  rows.forEach(({ change }) => (result[change] = (result[change] ?? 0) + 1));
  return result;
}

describe('a comparison', () => {
  test('of a program with itself finds nothing', () => {
    for (const name of ['mlp', 'control_flow', 'transformer_calls', 'hostile', 'empty']) {
      const program = sampleProgram(name);
      const rows = compare(program, sampleProgram(name), null);
      expect(rows.every(row => row.change === 'same' && row.before === row.after)).toBe(true);
      expect(rows).toHaveLength(program.equationCount);
    }
  });

  test('shows each equation once', () => {
    for (const name of ['diff', 'diff_large', 'diff_nested']) {
      const [before, after] = programs(name);
      const rows = compare(before, after, null);
      const left = rows.map(row => row.before).filter(each => each >= 0);
      const right = rows.map(row => row.after).filter(each => each >= 0);
      expect(new Set(left).size).toBe(before.equationCount);
      expect(left).toHaveLength(before.equationCount);
      expect(right).toHaveLength(after.equationCount);
    }
  });

  test('tells what was added and what changed', () => {
    const [before, after] = programs('diff');
    const rows = compare(before, after, null);
    expect(counts(rows)).toEqual({ same: 15, changed: 5, added: 5 });
    const added = rows.filter(row => row.change === 'added').map(row => after.primitive(row.after));
    expect(added).toEqual(['random_bits', 'lt', 'mul', 'broadcast_in_dim', 'select_n']);
    expect(rows[0]!.notes).toEqual(['f32[32,128] → f32[32,256]']);
    expect(rows[1]!.notes).toEqual(['f32[32,128] → f32[32,256]', 'shape: (32, 128) → (32, 256)']);
  });

  test('finds the layer that was added', () => {
    const [before, after] = programs('diff_large');
    expect(counts(compare(before, after, null))).toEqual({ same: 842, changed: 1, added: 70 });
  });

  test('matches equations through calls that one side has around them', () => {
    const [before, after] = programs('diff_wrapped');
    const rows = compare(before, after, null);
    expect(counts(rows)).toEqual({ same: 11, wrapped: 3 });
    expect(counts(compare(after, before, null))).toEqual({ same: 11, unwrapped: 3 });
    const wrapped = rows.find(row => row.change === 'wrapped')!;
    expect(after.primitive(wrapped.after)).toBe('remat2');
    const inner = rows.find(row => row.before === 0)!;
    expect(inner.depths).toEqual([0, 1]);
    // Calls of one kind on both sides are partners.
    expect(counts(compare(after, programs('diff_wrapped')[1], null))).toEqual({ same: 8 });
  });

  test('believes the pairs that it is given', () => {
    const [before, after] = programs('diff');
    const matches = {
      source: before.key,
      target: after.key,
      relation: 'same',
      source_ids: [before.ids[3]!],
      target_ids: [after.ids[6]!],
    };
    const rows = compare(before, after, matches);
    const pair = rows.find(row => row.before === 3);
    expect(pair).toMatchObject({ after: 6, change: 'changed' });
    expect(pair!.notes).toContain('tanh → mul');
  });
});

test('a common sequence rises on both sides', () => {
  expect(commonSequence([...'abcde'], [...'xbxdx'])).toEqual([
    [1, 1],
    [3, 3],
  ]);
  expect(commonSequence([], ['a'])).toEqual([]);
  const long = Array.from({ length: 5000 }, (_, i) => `k${i}`);
  const changed = ['new', ...long.slice(0, 2500), 'other', ...long.slice(2501), 'end'];
  expect(commonSequence(long, changed)).toHaveLength(4999);
});

describe('links', () => {
  test('lead over several programs', () => {
    const record = sample<LensRecord>('lens');
    const links = new Links(
      record.programs.map(each => new Program(each)),
      record.links,
    );
    const sets = links.from(0, [3]);
    expect(sets.map(set => [...set].map((each, i) => [each, i].length))).toHaveLength(3);
    const [, lowered, compiled] = sets;
    expect([...lowered!].map(each => links.programs[1]!.primitive(each))).toEqual([
      'stablehlo.tanh',
    ]);
    expect([...compiled!].map(each => links.programs[2]!.primitive(each))).toEqual(['tanh']);
    expect([...links.from(2, compiled!)[0]!]).toEqual([3]);
  });

  test('skip programs and equations that are missing', () => {
    const record = sample<LensRecord>('lens');
    const programs = record.programs.map(each => new Program(each));
    const links = new Links(programs, [
      {
        source: 'nobody',
        target: programs[0]!.key,
        relation: '',
        source_ids: [1],
        target_ids: [1],
      },
      {
        source: programs[0]!.key,
        target: programs[1]!.key,
        relation: '',
        source_ids: [77],
        target_ids: [5],
      },
    ]);
    expect(links.from(0, [0]).map(set => set.size)).toEqual([1, 0, 0]);
  });

  test('give a fusion all it came from', () => {
    const record = sample<LensRecord>('lens');
    const links = new Links(
      record.programs.map(each => new Program(each)),
      record.links,
    );
    const hulls = hullsOf(links, 2);
    expect(hulls).toHaveLength(2);
    const names = [...hulls[0]!.members[0]!].map(each => links.programs[0]!.primitive(each));
    expect(names).toEqual(['broadcast_in_dim', 'add', 'tanh']);
  });

  test('of a ladder name the origin of each equation', () => {
    const record = sample<LadderRecord>('ladder');
    const links = new Links(
      record.programs.map(each => new Program(each)),
      record.links,
    );
    expect(links.direct(3, 0, 2)).toEqual([2]);
    expect(links.direct(3, 3, 2)).toEqual([]);
    expect([...links.from(3, [2])[0]!]).toEqual([0]);
  });
});
