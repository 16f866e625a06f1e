/** A program record with unpacked columns, definitions and uses. */

import type { CostColumn, ProgramRecord, SourceRecord, TypeRecord } from '../generated/introspect';
import { RecordError, integers, lengthOf, starts, texts } from './columns';
import { familiesOf, type Family } from './families';

/** A program (body) within a program, as called by one equation. */
export interface BodyUse {
  readonly body: number;
  readonly role: string;
  readonly trips: number | null;
}

/** A range of the user's source text. Lines count from 1, columns from 0. */
export interface Span {
  readonly source: number;
  readonly line: number;
  readonly endLine: number;
  readonly column: number;
  readonly endColumn: number;
  readonly function: string;
  readonly variable: string;
  readonly caller: number;
}

export interface Body {
  readonly name: string;
  readonly first: number;
  readonly end: number;
  readonly constants: Int32Array;
  readonly inputs: Int32Array;
  /** A value, or -1 - i for literal i. */
  readonly outputs: Int32Array;
}

/**
 * Equations, values and literals are numbers, as in the record: an operand is a value's index, or
 * -1 - i for
 * literal i. Methods return their texts and neighbours.
 */
export class Program {
  readonly key: string;
  readonly name: string;
  readonly dialect: ProgramRecord['dialect'];
  readonly equationCount: number;
  readonly valueCount: number;
  readonly types: readonly TypeRecord[];
  readonly sources: readonly SourceRecord[];
  readonly bodies: readonly Body[];
  readonly costs: readonly CostColumn[];

  readonly ids: readonly number[];
  readonly primitives: Int32Array;
  readonly scopes: Int32Array;
  readonly spans: Int32Array;
  readonly transformations: Int32Array;
  readonly operandStarts: Uint32Array;
  readonly operands: Int32Array;
  readonly resultStarts: Uint32Array;
  readonly results: Int32Array;
  readonly paramStarts: Uint32Array;
  readonly paramNames: Int32Array;
  readonly paramTexts: Int32Array;
  readonly bodyStarts: Uint32Array;
  readonly bodyUses: Int32Array;
  readonly originStarts: Uint32Array;
  readonly origins: readonly number[];
  readonly scopeParents: Int32Array;
  readonly scopeNames: Int32Array;
  readonly spanCount: number;
  readonly valueTypes: Int32Array;
  readonly literalTexts: Int32Array;
  readonly literalTypes: Int32Array;
  /** The body of each equation. */
  readonly bodyOf: Int32Array;
  /** The equation that defines each value; -1 for inputs and constants. */
  readonly definers: Int32Array;
  readonly useStarts: Uint32Array;
  readonly useEquations: Int32Array;

  private readonly strings: readonly string[];
  private readonly families: ReadonlyMap<string, Family>;
  private readonly valueNames: Int32Array;
  private readonly userNames: Int32Array;
  private readonly effectTexts: Int32Array;
  private readonly bodyRoles: Int32Array;
  private readonly bodyTrips: readonly (number | null)[];
  private readonly spanColumns: readonly Int32Array[];
  private idIndex: Map<number, number> | null = null;
  private shownNames: readonly string[] | null = null;

  constructor(readonly record: ProgramRecord) {
    this.key = String(record.key);
    this.name = String(record.name);
    this.dialect = record.dialect;
    this.strings = texts('strings', record.strings);
    const text = this.strings.length;
    this.types = record.types ?? [];
    this.sources = record.sources ?? [];
    this.costs = record.costs ?? [];
    this.families = familiesOf(record.kinds ?? {});

    const { values, equations, literals, scopes, spans } = record;
    if (!values || !equations || !literals || !scopes || !spans) {
      throw new RecordError('the record lacks one of its tables');
    }
    this.valueCount = lengthOf('values.name', values.name);
    this.valueNames = integers('values.name', values.name, 0, text);
    this.userNames = integers('values.user_name', values.user_name, 0, text, this.valueCount);
    this.valueTypes = integers('values.type', values.type, 0, this.types.length, this.valueCount);
    const literalCount = lengthOf('literals.text', literals.text);
    this.literalTexts = integers('literals.text', literals.text, 0, text);
    this.literalTypes = integers(
      'literals.type',
      literals.type,
      0,
      this.types.length,
      literalCount,
    );
    const scopeCount = lengthOf('scopes.name', scopes.name);
    this.scopeNames = integers('scopes.name', scopes.name, 0, text);
    this.scopeParents = integers('scopes.parent', scopes.parent, -1, scopeCount, scopeCount);
    this.scopeParents.forEach((parent, scope) => {
      if (parent >= scope) {
        throw new RecordError(`scopes.parent[${scope}] is ${parent}: a parent comes first`);
      }
    });
    this.spanCount = lengthOf('spans.source', spans.source);
    const large = 2 ** 31 - 1;
    this.spanColumns = [
      integers('spans.source', spans.source, 0, this.sources.length),
      integers('spans.line', spans.line, 0, large, this.spanCount),
      integers('spans.end_line', spans.end_line, 0, large, this.spanCount),
      integers('spans.column', spans.column, 0, large, this.spanCount),
      integers('spans.end_column', spans.end_column, 0, large, this.spanCount),
      integers('spans.function', spans.function, 0, text, this.spanCount),
      integers('spans.variable', spans.variable, 0, text, this.spanCount),
      integers('spans.caller', spans.caller, -1, this.spanCount, this.spanCount),
    ];

    const count = lengthOf('equations.id', equations.id);
    this.equationCount = count;
    this.ids = equations.id;
    this.primitives = integers('equations.primitive', equations.primitive, 0, text, count);
    this.scopes = integers('equations.scope', equations.scope, -1, scopeCount, count);
    this.spans = integers('equations.span', equations.span, -1, this.spanCount, count);
    this.effectTexts = integers('equations.effects', equations.effects, 0, text, count);
    this.transformations = integers(
      'equations.transformation',
      equations.transformation,
      0,
      text,
      count,
    );
    this.operands = integers(
      'equations.operands',
      equations.operands,
      -literalCount,
      this.valueCount,
    );
    this.operandStarts = starts(
      'operand_counts',
      equations.operand_counts,
      count,
      this.operands.length,
    );
    this.results = integers('equations.results', equations.results, 0, this.valueCount);
    this.resultStarts = starts(
      'result_counts',
      equations.result_counts,
      count,
      this.results.length,
    );
    this.paramNames = integers('equations.param_names', equations.param_names, 0, text);
    this.paramTexts = integers(
      'equations.param_texts',
      equations.param_texts,
      0,
      text,
      this.paramNames.length,
    );
    this.paramStarts = starts(
      'param_counts',
      equations.param_counts,
      count,
      this.paramNames.length,
    );
    this.origins = equations.origins ?? [];
    this.originStarts = starts(
      'origin_counts',
      equations.origin_counts,
      count,
      this.origins.length,
    );

    const bodyCount = lengthOf('bodies', record.bodies);
    if (bodyCount === 0) {
      throw new RecordError('the record has no body');
    }
    this.bodyUses = integers('equations.bodies', equations.bodies, 0, bodyCount);
    this.bodyRoles = integers(
      'equations.body_roles',
      equations.body_roles,
      0,
      text,
      this.bodyUses.length,
    );
    this.bodyTrips = equations.body_trips ?? [];
    this.bodyStarts = starts('body_counts', equations.body_counts, count, this.bodyUses.length);

    this.bodyOf = new Int32Array(count);
    let next = 0;
    this.bodies = record.bodies.map((body, index) => {
      const end = next + body.equation_count;
      if (body.first_equation !== next || !(end <= count)) {
        throw new RecordError(`bodies[${index}] does not follow the body before it`);
      }
      const first = next;
      this.bodyOf.fill(index, first, end);
      next = end;
      const limit = this.valueCount;
      return {
        name: String(body.name),
        first,
        end,
        constants: integers(`bodies[${index}].constants`, body.constants, 0, limit),
        inputs: integers(`bodies[${index}].inputs`, body.inputs, 0, limit),
        outputs: integers(`bodies[${index}].outputs`, body.outputs, -literalCount, limit),
      };
    });
    if (next !== count) {
      throw new RecordError(`the bodies hold ${next} of ${count} equations`);
    }
    this.refuseRecursion();

    this.definers = new Int32Array(this.valueCount).fill(-1);
    for (let equation = 0; equation < count; equation++) {
      for (let i = this.resultStarts[equation]!; i < this.resultStarts[equation + 1]!; i++) {
        this.definers[this.results[i]!] = equation;
      }
    }
    [this.useStarts, this.useEquations] = this.collectUses();
  }

  primitive(equation: number): string {
    return this.strings[this.primitives[equation]!]!;
  }

  /** Family (kind of work) of an equation; `elementwise` if the record doesn't say it. */
  family(equation: number): Family {
    return this.families.get(this.primitive(equation)) ?? 'elementwise';
  }

  effects(equation: number): string {
    return this.strings[this.effectTexts[equation]!]!;
  }

  transformation(equation: number): string {
    return this.strings[this.transformations[equation]!]!;
  }

  /** Name and text of each param that isn't a program. */
  params(equation: number): [string, string][] {
    const result: [string, string][] = [];
    for (let i = this.paramStarts[equation]!; i < this.paramStarts[equation + 1]!; i++) {
      result.push([this.strings[this.paramNames[i]!]!, this.strings[this.paramTexts[i]!]!]);
    }
    return result;
  }

  param(equation: number, name: string): string | undefined {
    return this.params(equation).find(([other]) => other === name)?.[1];
  }

  operandsOf(equation: number): Int32Array {
    return this.operands.subarray(this.operandStarts[equation], this.operandStarts[equation + 1]);
  }

  resultsOf(equation: number): Int32Array {
    return this.results.subarray(this.resultStarts[equation], this.resultStarts[equation + 1]);
  }

  /** Equations that use `value`, in program order, without duplicates. */
  usesOf(value: number): Int32Array {
    return this.useEquations.subarray(this.useStarts[value], this.useStarts[value + 1]);
  }

  bodiesOf(equation: number): BodyUse[] {
    const result: BodyUse[] = [];
    for (let i = this.bodyStarts[equation]!; i < this.bodyStarts[equation + 1]!; i++) {
      const trips = this.bodyTrips[i];
      result.push({
        body: this.bodyUses[i]!,
        role: this.strings[this.bodyRoles[i]!]!,
        trips: typeof trips === 'number' ? trips : null,
      });
    }
    return result;
  }

  /** The bodies that an equation opens into: a kernel into its own, and not into the program that it stands for. */
  openedBodiesOf(equation: number): BodyUse[] {
    const uses = this.bodiesOf(equation);
    const own = uses.filter(({ role }) => role === 'kernel');
    return own.length > 0 ? own : uses;
  }

  hasBodies(equation: number): boolean {
    return this.bodyStarts[equation + 1]! > this.bodyStarts[equation]!;
  }

  /** Name in the printed program. */
  programName(value: number): string {
    return this.strings[this.valueNames[value]!]!;
  }

  /** The user's name of the value; empty if unknown. */
  userName(value: number): string {
    return this.strings[this.userNames[value]!]!;
  }

  /**
   * The user's name, or else the name in the printed program, made unique within a body: the second
   * value that the
   * user calls `x` is `x₁`.
   */
  valueName(value: number): string {
    this.shownNames ??= this.nameValues();
    return this.shownNames[value]!;
  }

  operandName(operand: number): string {
    return operand >= 0
      ? this.valueName(operand)
      : literalName(this.strings[this.literalTexts[-1 - operand]!]!, this.typeOf(operand).dtype);
  }

  typeOf(operand: number): TypeRecord {
    const index = operand >= 0 ? this.valueTypes[operand]! : this.literalTypes[-1 - operand]!;
    return this.types[index]!;
  }

  bytesOf(operand: number): number {
    return this.typeOf(operand).bytes ?? 0;
  }

  span(index: number): Span {
    const [source, line, endLine, column, endColumn, func, variable, caller] = this.spanColumns.map(
      entries => entries[index]!,
    );
    return {
      source: source!,
      line: line!,
      endLine: endLine!,
      column: column!,
      endColumn: endColumn!,
      function: this.strings[func!]!,
      variable: this.strings[variable!]!,
      caller: caller!,
    };
  }

  spanOf(equation: number): Span | null {
    const index = this.spans[equation]!;
    return index < 0 ? null : this.span(index);
  }

  /** Span indices from the equation's own place to the outermost call; stops at a cycle. */
  callStack(equation: number): number[] {
    const stack: number[] = [];
    let index = this.spans[equation]!;
    while (index >= 0 && stack.length < 64) {
      stack.push(index);
      index = this.spanColumns[7]![index]!;
    }
    return stack;
  }

  scopeName(scope: number): string {
    return this.strings[this.scopeNames[scope]!]!;
  }

  /** Scope indices from the outermost scope to the equation's own. */
  scopePath(equation: number): number[] {
    const path: number[] = [];
    for (let scope = this.scopes[equation]!; scope >= 0; scope = this.scopeParents[scope]!) {
      path.push(scope);
    }
    return path.reverse();
  }

  equationOfId(id: number): number | undefined {
    if (this.idIndex === null) {
      this.idIndex = new Map(this.ids.map((each, index) => [each, index]));
    }
    return this.idIndex.get(id);
  }

  originsOf(equation: number): readonly number[] {
    return this.origins.slice(this.originStarts[equation], this.originStarts[equation + 1]);
  }

  cost(name: string): CostColumn | undefined {
    return this.costs.find(column => column.name === name);
  }

  private nameValues(): string[] {
    const names: string[] = new Array<string>(this.valueCount).fill('');
    const taken = new Map<number, number>();
    const nameByUser = (value: number): void => {
      const user = this.userNames[value]!;
      if (user > 0) {
        const before = taken.get(user) ?? 0;
        taken.set(user, before + 1);
        names[value] = this.strings[user]! + (before > 0 ? subscript(before) : '');
      }
    };
    this.eachBody(nameByUser, () => taken.clear());
    const userNames = new Set(names);
    const nameByProgram = (value: number): void => {
      if (names[value] === '') {
        const name = this.programName(value);
        names[value] = userNames.has(name) ? `%${name}` : name;
      }
    };
    this.eachBody(nameByProgram, () => undefined);
    return names;
  }

  /** Visits the values of each body: constants, inputs, results. */
  private eachBody(visit: (value: number) => void, start: () => void): void {
    for (const { constants, inputs, first, end } of this.bodies) {
      start();
      constants.forEach(visit);
      inputs.forEach(visit);
      this.results.subarray(this.resultStarts[first], this.resultStarts[end]).forEach(visit);
    }
  }

  private collectUses(): [Uint32Array, Int32Array] {
    const counts = new Uint32Array(this.valueCount + 1);
    const last = new Int32Array(this.valueCount).fill(-1);
    const each = (visit: (value: number, equation: number) => void): void => {
      last.fill(-1);
      for (let equation = 0; equation < this.equationCount; equation++) {
        for (let i = this.operandStarts[equation]!; i < this.operandStarts[equation + 1]!; i++) {
          const value = this.operands[i]!;
          if (value >= 0 && last[value] !== equation) {
            last[value] = equation;
            visit(value, equation);
          }
        }
      }
    };
    each(value => counts[value + 1]!++);
    for (let value = 0; value < this.valueCount; value++) {
      counts[value + 1]! += counts[value]!;
    }
    const equations = new Int32Array(counts[this.valueCount]!);
    const filled = counts.slice();
    each((value, equation) => (equations[filled[value]!++] = equation));
    return [counts, equations];
  }

  private refuseRecursion(): void {
    const state = new Uint8Array(this.bodies.length);
    const visit = (body: number, depth: number): void => {
      if (state[body] === 1 || depth > 200) {
        throw new RecordError(`bodies[${body}] contains itself or is nested too deeply`);
      }
      if (state[body] === 2) {
        return;
      }
      state[body] = 1;
      const { first, end } = this.bodies[body]!;
      for (let i = this.bodyStarts[first]!; i < this.bodyStarts[end]!; i++) {
        visit(this.bodyUses[i]!, depth + 1);
      }
      state[body] = 2;
    };
    this.bodies.forEach((_, body) => visit(body, 0));
  }
}

const SHORT_FLOAT = /^(f32|float32|f16|float16|bf16|bfloat16)$/;

/** A literal of a narrow type without excess digits: 0.1, not 0.10000000149. */
function literalName(text: string, dtype: string): string {
  const digits = text.length > 8 && SHORT_FLOAT.test(dtype) ? Number(text) : NaN;
  return Number.isFinite(digits) ? String(Number(digits.toPrecision(7))) : text;
}

function subscript(number: number): string {
  return Array.from(String(number), digit => String.fromCharCode(0x2080 + Number(digit))).join('');
}
