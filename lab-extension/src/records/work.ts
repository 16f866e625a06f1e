/** Estimated device time of each equation, to show what costs most. */

import type { Program } from './program';

/**
 * Arithmetic operations that a device does in the time of moving one byte; only the order of
 * magnitude matters.
 */
export const FLOPS_PER_BYTE = 10;
/** Assumed number of iterations of a loop with unknown trip count. */
const UNKNOWN_TRIPS = 10;

/**
 * Estimated work of one run of each equation, including its bodies: bytes moved, or arithmetic
 * operations
 * converted to bytes. Null for a program without estimates.
 */
export function workOf(program: Program): Float64Array | null {
  const flops = program.cost('flops')?.values;
  const bytes = program.cost('bytes')?.values;
  if (flops === undefined && bytes === undefined) {
    return null;
  }
  const work = new Float64Array(program.equationCount).fill(NaN);
  const totals = new Map<number, number>();
  const total = (body: number): number => {
    let sum = totals.get(body);
    if (sum === undefined) {
      const { first, end } = program.bodies[body]!;
      sum = 0;
      for (let equation = first; equation < end; equation++) {
        sum += of(equation);
      }
      totals.set(body, sum);
    }
    return sum;
  };
  const of = (equation: number): number => {
    if (Number.isNaN(work[equation])) {
      const [own, moved] = [flops?.[equation] ?? null, bytes?.[equation] ?? null];
      const isLoop = program.primitive(equation).endsWith('while');
      work[equation] =
        own !== null || moved !== null
          ? Math.max((own ?? 0) / FLOPS_PER_BYTE, moved ?? 0)
          : program
              .bodiesOf(equation)
              .reduce(
                (sum, { body, trips }) =>
                  sum + total(body) * (trips ?? (isLoop ? UNKNOWN_TRIPS : 1)),
                0,
              );
    }
    return work[equation]!;
  };
  program.bodies.forEach((_, body) => total(body));
  return work;
}

/** Total work of several equations. */
export function workIn(work: Float64Array, equations: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < equations.length; i++) {
    sum += work[equations[i]!]!;
  }
  return sum;
}
