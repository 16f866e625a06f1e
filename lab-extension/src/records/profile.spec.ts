import { describe, expect, test } from 'vitest';
import type { ProfileRecord } from '../generated/profiler';
import { sample } from '../testing/samples';
import { GROUPINGS, Profile, type ScopeNode } from './profile';

const profile = new Profile(sample<ProfileRecord>('profile'));

describe('groups of operations', () => {
  test.each(GROUPINGS)('by %s add up to the whole', by => {
    for (const name of ['profile', 'profile_empty', 'profile_8_devices']) {
      const each = new Profile(sample<ProfileRecord>(name));
      const groups = each.groups(by);
      const seconds = groups.reduce((sum, group) => sum + group.seconds, 0);
      expect(seconds).toBeCloseTo(each.record.totals.operation_seconds, 12);
      expect(groups.every((group, i) => i === 0 || groups[i - 1]!.seconds >= group.seconds)).toBe(
        true,
      );
    }
  });

  test('hold only what is selected', () => {
    const all = profile.groups('operation');
    const some = profile.groups('operation', new Set([0, 1]));
    expect(some.map(group => group.title)).toEqual(all.slice(0, 2).map(group => group.title));
    const devices = profile.groups('device', new Set([0]));
    expect(devices.map(group => group.title).sort()).toEqual(['device 0', 'device 1']);
    expect(devices[0]!.count + devices[1]!.count).toBe(profile.record.operations.count[0]);
  });

  test('by line have the line’s text, and what has none', () => {
    const titles = new Map(profile.groups('line').map(group => [group.title, group.subtitle]));
    expect(titles.get('In[3], line 4')).toBe('return y + x');
    expect(titles.has('no line')).toBe(true);
  });
});

test('scopes are as long as what is in them', () => {
  const check = (node: ScopeNode): void => {
    const inside = node.children.reduce((sum, child) => sum + child.seconds, 0);
    expect(inside).toBeLessThanOrEqual(node.seconds + 1e-12);
    expect(node.backwardSeconds).toBeLessThanOrEqual(node.seconds + 1e-12);
    node.children.forEach(check);
  };
  const root = profile.scopes();
  check(root);
  expect(root.seconds).toBeCloseTo(profile.record.totals.operation_seconds, 12);
  const names = root.children.flatMap(child => child.children.map(each => each.name));
  expect(names).toContain('transpose(jvp(loss))');
});

test('times of lines are those of cells', () => {
  const times = profile.lineTimes();
  expect(times.map(time => time.line).sort((a, b) => a - b)).toEqual([3, 4, 7]);
  const [first] = times;
  expect(first!.executionCount).toBe(3);
  expect(first!.text).toBe(profile.record.sources[0]!.lines![first!.line - 1]);
  const { lines } = profile.record;
  expect(first!.forwardSeconds).toBe(lines.forward_seconds[0]);
  expect(new Profile(sample<ProfileRecord>('profile_empty')).lineTimes()).toEqual([]);
});
