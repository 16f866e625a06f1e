import { expect, test, vi } from 'vitest';

import { inTurn } from './in_turn';

test('calls run one after another, after failures too', async () => {
  const log: string[] = [];
  const run = inTurn(async (name: string) => {
    log.push(`${name} begins`);
    await Promise.resolve();
    log.push(`${name} ends`);
    if (name === 'a') {
      throw new Error('a failed');
    }
    return name;
  }, 1000);
  const [first, second] = [run('a'), run('b')];
  await expect(first).rejects.toThrow('a failed');
  await expect(second).resolves.toBe('b');
  expect(log).toEqual(['a begins', 'a ends', 'b begins', 'b ends']);
});

test('a call without an end keeps the next one waiting for a limited time', async () => {
  vi.useFakeTimers();
  const never = new Promise<string>(() => undefined);
  const run = inTurn((name: string) => (name === 'hanging' ? never : Promise.resolve(name)), 1000);
  void run('hanging');
  const next = vi.fn();
  void run('next').then(next);
  await vi.advanceTimersByTimeAsync(999);
  expect(next).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(1);
  expect(next).toHaveBeenCalledWith('next');
  vi.useRealTimers();
});
