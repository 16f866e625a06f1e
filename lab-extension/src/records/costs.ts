/** Costs of equations: totals of groups, critical path of a program. */

import type { CostColumn } from '../generated/introspect';
import type { Program } from './program';
import { FLOPS_PER_BYTE } from './work';

/** One quantity for each equation, which can be summed and shown as colour. */
export interface Overlay {
  readonly name: string;
  readonly label: string;
  readonly unit: string;
  readonly basis: 'estimate' | 'compiler' | 'measured';
  /** NaN for unknown values. */
  readonly values: Float64Array;
  /** Numerator and denominator of a ratio, which are summed instead of the ratio. */
  readonly ratio: readonly [Float64Array, Float64Array] | null;
}

const LABELS: Readonly<Record<string, string>> = {
  flops: 'FLOPs',
  bytes: 'Bytes moved',
  transcendentals: 'Transcendentals',
  time: 'Time',
};

/** Overlays for the costs that a program has. */
export function overlaysOf(program: Program): Overlay[] {
  const overlays: Overlay[] = program.costs.map(column => ({
    name: String(column.name),
    label: LABELS[column.name] ?? String(column.name),
    unit: String(column.unit),
    basis: column.basis,
    values: withCalls(program, column),
    ratio: null,
  }));
  const flops = overlays.find(overlay => overlay.name === 'flops');
  const bytes = overlays.find(overlay => overlay.name === 'bytes');
  if (flops !== undefined && bytes !== undefined) {
    overlays.push({
      name: 'intensity',
      label: 'Intensity',
      unit: 'flop/B',
      basis: flops.basis,
      values: flops.values.map((value, equation) => value / bytes.values[equation]!),
      ratio: [flops.values, bytes.values],
    });
  }
  return overlays;
}

/** The column with unknown costs of calls computed from their bodies. */
function withCalls(program: Program, column: CostColumn): Float64Array {
  const values = Float64Array.from({ length: program.equationCount }, (_, equation) => {
    const value = column.values[equation];
    return typeof value === 'number' ? value : NaN;
  });
  const bodyTotals = new Map<number, number>();
  const total = (body: number): number => {
    let known = bodyTotals.get(body);
    if (known === undefined) {
      const { first, end } = program.bodies[body]!;
      known = NaN;
      for (let equation = first; equation < end; equation++) {
        fill(equation);
        known = plus(known, values[equation]!);
      }
      bodyTotals.set(body, known);
    }
    return known;
  };
  const fill = (equation: number): void => {
    if (Number.isNaN(values[equation])) {
      for (const { body, trips } of program.bodiesOf(equation)) {
        values[equation] = plus(values[equation]!, total(body) * (trips ?? 1));
      }
    }
  };
  program.bodies.forEach((_, body) => total(body));
  return values;
}

function plus(total: number, value: number): number {
  return Number.isNaN(value) ? total : Number.isNaN(total) ? value : total + value;
}

/** Total cost of several equations; NaN if none of them is known. */
export function totalOf(overlay: Overlay, equations: ArrayLike<number>): number {
  if (overlay.ratio !== null) {
    const [above, below] = overlay.ratio;
    return sum(above, equations) / sum(below, equations);
  }
  return sum(overlay.values, equations);
}

function sum(values: Float64Array, equations: ArrayLike<number>): number {
  let total = NaN;
  for (let i = 0; i < equations.length; i++) {
    total = plus(total, values[equations[i]!]!);
  }
  return total;
}

/** A chain of equations, each of which uses a result of the previous one. */
export interface CriticalPath {
  readonly equations: ReadonlySet<number>;
  /** For each value passed along the path, the equation that uses it. */
  readonly steps: ReadonlyMap<number, number>;
}

/**
 * The chain of dependent equations that takes longest in each body, if all others could run in
 * parallel. Time is
 * estimated from operations or bytes, whichever takes longer; without costs, all equations take
 * equal time.
 */
export function criticalPath(program: Program): CriticalPath {
  const flops = program.cost('flops')?.values;
  const bytes = program.cost('bytes')?.values;
  const weight = (equation: number): number =>
    1 + Math.max((flops?.[equation] ?? 0) / FLOPS_PER_BYTE, bytes?.[equation] ?? 0);
  const equations = new Set<number>();
  const steps = new Map<number, number>();
  const length = new Float64Array(program.equationCount);
  const through = new Int32Array(program.equationCount).fill(-1);
  program.bodies.forEach(({ first, end }, body) => {
    let last = -1;
    for (let equation = first; equation < end; equation++) {
      let longest = 0;
      for (const operand of program.operandsOf(equation)) {
        const maker = operand >= 0 ? program.definers[operand]! : -1;
        if (maker >= 0 && program.bodyOf[maker] === body && length[maker]! > longest) {
          longest = length[maker]!;
          through[equation] = operand;
        }
      }
      length[equation] = longest + weight(equation);
      if (last < 0 || length[equation]! > length[last]!) {
        last = equation;
      }
    }
    while (last >= 0) {
      equations.add(last);
      const value = through[last]!;
      if (value < 0) {
        break;
      }
      steps.set(value, last);
      last = program.definers[value]!;
    }
  });
  return { equations, steps };
}
