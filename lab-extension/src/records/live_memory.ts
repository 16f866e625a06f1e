/** Memory over the run of an optimized program, from the lifetimes of its values in the order in which they are computed. */

import type { Program } from './program';

/** Operations whose results lie in the memory of their operands. */
const ALIASES = new Set([
  'bitcast',
  'tuple',
  'get-tuple-element',
  'while',
  'optimization-barrier',
  'opt-barrier',
  'copy-done',
]);

/** A value with the bytes that it holds. */
export interface LiveValue {
  readonly value: number;
  readonly bytes: number;
}

export class LiveMemory {
  /** Bytes in use at each operation of the entry computation, arguments among them. */
  readonly bytes: Float64Array;
  /** The operation at which most is in use; -1 for a program without any. */
  readonly peak: number;
  /** Bytes for each operation that what it runs needs besides. */
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

  /** What is in use at an operation, the largest first. */
  at(step: number): LiveValue[] {
    const equation = this.program.bodies[0]!.first + step;
    return this.lifetimes
      .filter(each => each.from <= equation && equation <= each.to && each.bytes > 0)
      .sort((a, b) => b.bytes - a.bytes);
  }
}

/** Bytes of values that are computed within a body, at each of its operations. */
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

/** The most bytes that what an operation runs needs besides its operands and results; a fusion needs none. */
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
    // What a jaxpr's body gives that runs once is what its equation gives.
    const results = isJaxpr && trips === 1 ? resultBytes(program, equation) : 0;
    return Math.max(0, peak - results);
  });
  return Math.max(0, ...most);
}

function resultBytes(program: Program, equation: number): number {
  return program.resultsOf(equation).reduce((sum, value) => sum + program.bytesOf(value), 0);
}

/** The most bytes in use at once in a run of a program, its arguments among them; without fusion, which needs less. */
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
