/** Structural hashes of equations, to find repeated layers. */

import type { Program } from './program';

/** Mixes `value` into the 32-bit hash `seed`. */
export function mix(seed: number, value: number): number {
  let h = Math.imul(seed ^ value, 0x9e3779b1);
  h ^= h >>> 15;
  h = Math.imul(h, 0x85ebca6b);
  return (h ^ (h >>> 13)) | 0;
}

/**
 * Hash of each equation without its data flow: primitive, params, literals, types of operands and
 * results, bodies.
 */
export function equationSignatures(program: Program): Int32Array {
  const signatures = new Int32Array(program.equationCount);
  for (let equation = 0; equation < program.equationCount; equation++) {
    let hash = mix(1, program.primitives[equation]!);
    hash = mix(hash, program.transformations[equation]!);
    for (let i = program.paramStarts[equation]!; i < program.paramStarts[equation + 1]!; i++) {
      hash = mix(mix(hash, program.paramNames[i]!), program.paramTexts[i]!);
    }
    for (let i = program.operandStarts[equation]!; i < program.operandStarts[equation + 1]!; i++) {
      const operand = program.operands[i]!;
      hash =
        operand >= 0
          ? mix(hash, program.valueTypes[operand]!)
          : mix(mix(hash, 7), program.literalTexts[-1 - operand]!);
    }
    for (let i = program.resultStarts[equation]!; i < program.resultStarts[equation + 1]!; i++) {
      hash = mix(mix(hash, 3), program.valueTypes[program.results[i]!]!);
    }
    for (let i = program.bodyStarts[equation]!; i < program.bodyStarts[equation + 1]!; i++) {
      hash = mix(mix(hash, 5), program.bodyUses[i]!);
    }
    signatures[equation] = hash;
  }
  return signatures;
}

/** Hash of each equation's operation and source line, independent of shapes. */
export function kindSignatures(program: Program): Int32Array {
  return Int32Array.from({ length: program.equationCount }, (_, equation) => {
    let hash = mix(17, program.primitives[equation]!);
    hash = mix(hash, program.transformations[equation]!);
    hash = mix(hash, program.spans[equation]!);
    for (let i = program.operandStarts[equation]!; i < program.operandStarts[equation + 1]!; i++) {
      const operand = program.operands[i]!;
      hash = mix(hash, operand >= 0 ? -1 : program.literalTexts[-1 - operand]!);
    }
    for (let i = program.bodyStarts[equation]!; i < program.bodyStarts[equation + 1]!; i++) {
      hash = mix(mix(hash, 5), program.bodyUses[i]!);
    }
    return hash;
  });
}

/** Hashes of the data flow of equations, with reused buffers. */
export class Wiring {
  private readonly position: Int32Array;

  constructor(
    private readonly program: Program,
    private readonly signatures: Int32Array,
  ) {
    this.position = new Int32Array(program.equationCount).fill(-1);
  }

  /**
   * Hash of a list of equations with their data flow: an operand defined in the list counts as the
   * position of its
   * definition, an operand from outside as unknown.
   */
  hash(equations: ArrayLike<number>): number {
    const { program, position } = this;
    for (let i = 0; i < equations.length; i++) {
      position[equations[i]!] = i;
    }
    let hash = mix(11, equations.length);
    for (let i = 0; i < equations.length; i++) {
      const equation = equations[i]!;
      hash = mix(hash, this.signatures[equation]!);
      for (
        let j = program.operandStarts[equation]!;
        j < program.operandStarts[equation + 1]!;
        j++
      ) {
        const operand = program.operands[j]!;
        const maker = operand >= 0 ? program.definers[operand]! : -1;
        hash = mix(hash, maker >= 0 ? position[maker]! : -1);
      }
    }
    for (let i = 0; i < equations.length; i++) {
      position[equations[i]!] = -1;
    }
    return hash;
  }
}
