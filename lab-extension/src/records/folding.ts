/** Finds consecutive repetitions in a sequence. */

/** `count` copies of `period` entries each, from index `start`. */
export interface Repeat {
  readonly start: number;
  readonly period: number;
  readonly count: number;
}

const MAX_CANDIDATES = 48;

/**
 * Stretches of `signatures` that repeat at least `minCount` times, disjoint and in order.
 *
 * Candidate periods are frequent distances between equal entries. Among overlapping stretches the
 * longest wins, and
 * among equally long ones that with the shortest period.
 */
export function findRepeats(signatures: Int32Array, minCount: number): Repeat[] {
  const found = candidatePeriods(signatures, minCount).flatMap(period =>
    repeatsWithPeriod(signatures, period, minCount),
  );
  found.sort((a, b) => b.count * b.period - a.count * a.period || a.period - b.period);
  const taken = new Uint8Array(signatures.length);
  const chosen: Repeat[] = [];
  for (const repeat of found) {
    const end = repeat.start + repeat.period * repeat.count;
    if (taken.subarray(repeat.start, end).every(mark => mark === 0)) {
      taken.fill(1, repeat.start, end);
      chosen.push(repeat);
    }
  }
  return chosen.sort((a, b) => a.start - b.start);
}

function candidatePeriods(signatures: Int32Array, minCount: number): number[] {
  const last = new Map<number, number>();
  const seen = new Map<number, number>();
  signatures.forEach((signature, index) => {
    const before = last.get(signature);
    if (before !== undefined) {
      seen.set(index - before, (seen.get(index - before) ?? 0) + 1);
    }
    last.set(signature, index);
  });
  return [...seen]
    .filter(([period, times]) => times >= minCount - 1 && period * minCount <= signatures.length)
    .sort((a, b) => b[0] * b[1] - a[0] * a[1])
    .slice(0, MAX_CANDIDATES)
    .map(([period]) => period);
}

/** Longest stretches with this period. */
function repeatsWithPeriod(signatures: Int32Array, period: number, minCount: number): Repeat[] {
  const result: Repeat[] = [];
  let run = 0;
  for (let i = 0; i + period <= signatures.length; i++) {
    if (i + period < signatures.length && signatures[i] === signatures[i + period]) {
      run++;
      continue;
    }
    const count = Math.floor(run / period) + 1;
    if (count >= minCount) {
      result.push({ start: i - run, period, count });
    }
    run = 0;
  }
  return result;
}
