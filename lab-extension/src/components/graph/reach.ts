/** All equations that an equation depends on, or that depend on it. */

import type { Program } from '../../records/program';

export type Direction = 'upstream' | 'downstream';

/** Equations of the same body that are reachable from `starts`, including these. */
export function reachOf(
  program: Program,
  starts: Iterable<number>,
  direction: Direction,
): Set<number> {
  const reached = new Set<number>(starts);
  const waiting = [...reached];
  while (waiting.length > 0) {
    const equation = waiting.pop()!;
    const next =
      direction === 'upstream'
        ? Array.from(program.operandsOf(equation), operand =>
            operand >= 0 ? program.definers[operand]! : -1,
          )
        : Array.from(program.resultsOf(equation)).flatMap(value =>
            Array.from(program.usesOf(value)),
          );
    for (const other of next) {
      if (other >= 0 && !reached.has(other)) {
        reached.add(other);
        waiting.push(other);
      }
    }
  }
  return reached;
}
