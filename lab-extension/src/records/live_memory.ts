/** Memory in use over the run of an optimized program, from the lifetimes of its values. */

import type { Program } from './program';

/** Operations whose results are stored in the memory of their operands. */
const ALIASES = new Set([
  'bitcast',
  'tuple',
  'get-tuple-element',
  'while',
  'optimization-barrier',
  'opt-barrier',
  'copy-done',
]);

/** A value and its size in bytes. */
export interface LiveValue {
  readonly value: number;
  readonly bytes: number;
}

export class LiveMemory {
  /** Bytes in use at each operation of the entry computation, including arguments. */
  readonly bytes: Float64Array;
  /** The operation with most bytes in use; -1 for a program without operations. */
  readonly peak: number;
  /** Additional bytes that the bodies of each operation need. */
  readonly inside: Float64Array;
  private readonly lifetimes: readonly (LiveValue & {
    readonly from: number;
    readonly to: number;
  })[];

  constructor(readonly program: Program) {
    const { first, end, inputs, constants } = program.bodies[0]!;
    const known = new Map<number, number>();
    this.bytes = liveBytes(program, 0, known);
    this.inside = Float64Array.from(this.bytes, (_, step) =>
      bytesInside(program, first + step, known),
    );
    const base = [...constants, ...inputs].reduce((sum, value) => sum + program.bytesOf(value), 0);
    this.bytes.forEach((bytes, step) => (this.bytes[step] = bytes + base));
    this.peak = this.bytes.reduce(
      (best, bytes, step) => (best < 0 || bytes > this.bytes[best]! ? step : best),
      -1,
    );
    this.lifetimes = [
      ...[...constants, ...inputs].map(value => ({
        value,
        bytes: program.bytesOf(value),
        from: first,
        to: end,
      })),
      ...lifetimesIn(program, 0),
    ];
  }

  /** Live values at an operation, largest first. */
  at(step: number): LiveValue[] {
    const equation = this.program.bodies[0]!.first + step;
    return this.lifetimes
      .filter(each => each.from <= equation && equation <= each.to && each.bytes > 0)
      .sort((a, b) => b.bytes - a.bytes);
  }
}

/** Bytes of the values computed within a body, at each of its operations. */
function liveBytes(program: Program, body: number, known: Map<number, number>): Float64Array {
  const { first, end } = program.bodies[body]!;
  const changes = new Float64Array(end - first + 1);
  for (const { bytes, from, to } of lifetimesIn(program, body)) {
    changes[from - first]! += bytes;
    changes[Math.min(end, to + 1) - first]! -= bytes;
  }
  let alive = 0;
  return Float64Array.from({ length: end - first }, (_, step) => {
    alive += changes[step]!;
    return alive + bytesInside(program, first + step, known);
  });
}

/** Peak memory of the bodies of an operation, beyond its operands and results; 0 for a fusion. */
function bytesInside(program: Program, equation: number, known: Map<number, number>): number {
  const isJaxpr = program.dialect === 'jaxpr';
  if (!isJaxpr && !/^(?:while|call|conditional)$/.test(program.primitive(equation))) {
    return 0;
  }
  const most = program.bodiesOf(equation).map(({ body, trips }) => {
    let peak = known.get(body);
    if (peak === undefined) {
      peak = liveBytes(program, body, known).reduce((a, b) => Math.max(a, b), 0);
      known.set(body, peak);
    }
    // The results of a jaxpr body that runs once are those of its equation.
    const results = isJaxpr && trips === 1 ? resultBytes(program, equation) : 0;
    return Math.max(0, peak - results);
  });
  return Math.max(0, ...most);
}

function resultBytes(program: Program, equation: number): number {
  return program.resultsOf(equation).reduce((sum, value) => sum + program.bytesOf(value), 0);
}

/**
 * Peak memory of a run of a program, including arguments, without fusion, which would reduce it.
 */
export function peakBytes(program: Program): number {
  const { bytes } = new LiveMemory(program);
  return bytes.reduce((a, b) => Math.max(a, b), 0);
}

function lifetimesIn(program: Program, body: number): (LiveValue & { from: number; to: number })[] {
  const { first, end, outputs } = program.bodies[body]!;
  const owners = new Map<number, readonly number[]>();
  const last = new Map<number, number>();
  const owned: number[] = [];
  const use = (operand: number, at: number): void => {
    owners.get(operand)?.forEach(owner => last.set(owner, at));
  };
  for (let equation = first; equation < end; equation++) {
    const operands = Array.from(program.operandsOf(equation)).filter(operand => operand >= 0);
    operands.forEach(operand => use(operand, equation));
    const isAlias = ALIASES.has(program.primitive(equation));
    const shared = isAlias ? [...new Set(operands.flatMap(each => owners.get(each) ?? []))] : [];
    for (const value of program.resultsOf(equation)) {
      owners.set(value, isAlias ? shared : [value]);
      if (!isAlias) {
        owned.push(value);
        last.set(value, equation);
      }
    }
  }
  outputs.forEach(output => use(output, end));
  return owned.map(value => ({
    value,
    bytes: program.bytesOf(value),
    from: program.definers[value]!,
    to: last.get(value)!,
  }));
}
