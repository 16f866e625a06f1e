/** Text of a program, generated from its columns or taken from its own printer. */

import type { LineSource, Token, TokenKind } from './lines';
import type { Program } from './program';

/**
 * The lines of a program's text. A jaxpr is always generated here, with the user's names. Other
 * dialects use the text of
 * their own printer if the record has it.
 */
export function listingOf(program: Program): LineSource {
  const printed = program.record.listing ?? null;
  return program.dialect === 'jaxpr' || printed === null
    ? new WrittenListing(program)
    : new PrintedListing(program);
}

const enum Kind {
  Open, // `{ lambda` or `role = {`
  Inputs, // number of inputs, before a long list of them
  Input,
  Let,
  Equation,
  Close, // `in (…) }`
  Shared, // a body whose text was already written
}

/** Maximum number of inputs that are initially not folded. */
const MAX_UNFOLDED_INPUTS = 12;

/** Generated text. Bodies are written below their equations; a shared one only once. */
class WrittenListing implements LineSource {
  private readonly kinds: number[] = [];
  /** Equation, body or value, depending on the kind of line. */
  private readonly subjects: number[] = [];
  private readonly roles: string[] = [];
  private readonly depths: number[] = [];
  private readonly ends: number[] = [];
  private readonly lineOfEquation: Int32Array;
  private readonly lineOfBody = new Map<number, number>();

  constructor(private readonly program: Program) {
    this.lineOfEquation = new Int32Array(program.equationCount).fill(-1);
    this.writeBody(0, '', 0);
  }

  get count(): number {
    return this.kinds.length;
  }

  number = (line: number): string => {
    const subject = this.subjects[line]!;
    return this.kinds[line] === Kind.Equation ? String(subject) : '';
  };

  depth = (line: number): number => this.depths[line]!;

  foldEnd = (line: number): number => this.ends[line]!;

  startsFolded = (line: number): boolean => this.kinds[line] === Kind.Inputs;

  equations = (line: number): readonly number[] =>
    this.kinds[line] === Kind.Equation ? [this.subjects[line]!] : [];

  linesOf = (equation: number): readonly number[] => {
    const line = this.lineOfEquation[equation] ?? -1;
    return line < 0 ? [] : [line];
  };

  tokens = (line: number): Token[] => {
    const subject = this.subjects[line]!;
    const { program } = this;
    switch (this.kinds[line] as Kind) {
      case Kind.Open:
        return [
          ...this.role(line),
          token('{ ', 'plain'),
          token('lambda', 'keyword'),
          token(' ;', 'plain'),
        ];
      case Kind.Inputs:
        return [token(`${this.ends[line]! - line - 1} inputs`, 'note')];
      case Kind.Input:
        return typed(program, subject);
      case Kind.Let:
        return [token('let', 'keyword')];
      case Kind.Equation:
        return equationTokens(program, subject);
      case Kind.Close: {
        const outputs = Array.from(program.bodies[subject]!.outputs);
        return [
          token('in', 'keyword'),
          token(' (', 'plain'),
          ...separated(
            outputs.map(operand => operandToken(program, operand)),
            ', ',
          ),
          token(outputs.length === 1 ? ',) }' : ') }', 'plain'),
        ];
      }
      case Kind.Shared: {
        const at = this.lineOfBody.get(subject) ?? 0;
        const name = program.bodies[subject]!.name;
        return [...this.role(line), token(`${name || 'program'} as in line ${at + 1}`, 'note')];
      }
    }
  };

  private role(line: number): Token[] {
    const role = this.roles[line]!;
    return role === '' ? [] : [token(role, 'param'), token(' = ', 'plain')];
  }

  private add(kind: Kind, subject: number, depth: number, role = ''): number {
    this.kinds.push(kind);
    this.subjects.push(subject);
    this.roles.push(role);
    this.depths.push(depth);
    this.ends.push(0);
    return this.kinds.length - 1;
  }

  private writeBody(body: number, role: string, depth: number): void {
    const { first, end, inputs, constants } = this.program.bodies[body]!;
    const open = this.add(Kind.Open, body, depth, role);
    this.lineOfBody.set(body, open);
    const values = [...constants, ...inputs];
    const isLong = values.length > MAX_UNFOLDED_INPUTS;
    const list = isLong ? this.add(Kind.Inputs, body, depth + 2) : -1;
    values.forEach(value => this.add(Kind.Input, value, depth + (isLong ? 4 : 2)));
    if (isLong) {
      this.ends[list] = this.count;
    }
    this.add(Kind.Let, body, depth + 1);
    for (let equation = first; equation < end; equation++) {
      const line = this.add(Kind.Equation, equation, depth + 2);
      this.lineOfEquation[equation] = line;
      for (const use of this.program.bodiesOf(equation)) {
        if (this.lineOfBody.has(use.body)) {
          this.add(Kind.Shared, use.body, depth + 4, use.role);
        } else {
          this.writeBody(use.body, use.role, depth + 4);
        }
      }
      this.ends[line] = this.count > line + 1 ? this.count : 0;
    }
    this.add(Kind.Close, body, depth + 1);
    // The line that closes the body stays visible.
    this.ends[open] = depth === 0 ? 0 : this.count - 1;
  }
}

/** Tokens of an equation in jaxpr syntax, with the user's names. */
export function equationTokens(program: Program, equation: number): Token[] {
  const tokens: Token[] = [];
  const results = program.resultsOf(equation);
  results.forEach((value, index) => {
    tokens.push(...(index > 0 ? [token(' ', 'plain')] : []), ...typed(program, value));
  });
  if (results.length > 0) {
    tokens.push(token(' = ', 'plain'));
  }
  tokens.push(token(program.primitive(equation), 'primitive'));
  const params = program.params(equation);
  if (params.length > 0) {
    tokens.push(token('[', 'plain'));
    params.forEach(([name, text], index) => {
      tokens.push(token(`${index > 0 ? ' ' : ''}${name}`, 'param'), token('=', 'plain'));
      tokens.push(token(text, 'literal'));
    });
    tokens.push(token(']', 'plain'));
  }
  for (const operand of program.operandsOf(equation)) {
    tokens.push(token(' ', 'plain'), operandToken(program, operand));
  }
  return tokens;
}

function token(text: string, kind: TokenKind, value = -1): Token {
  return { text, kind, value };
}

function typed(program: Program, value: number): Token[] {
  return [
    token(program.valueName(value), 'name', value),
    token(':', 'plain'),
    token(program.typeOf(value).text, 'type'),
  ];
}

function operandToken(program: Program, operand: number): Token {
  return operand >= 0
    ? token(program.valueName(operand), 'name', operand)
    : token(program.operandName(operand), 'literal');
}

function separated(tokens: readonly Token[], between: string): Token[] {
  return tokens.flatMap((each, index) => (index > 0 ? [token(between, 'plain'), each] : [each]));
}

/** Text of the program's own printer, coloured by simple patterns. */
class PrintedListing implements LineSource {
  private readonly lines: readonly string[];
  private readonly equationOfLine: readonly number[];
  private readonly linesOfEquation = new Map<number, number[]>();

  constructor(program: Program) {
    const listing = program.record.listing!;
    this.lines = String(listing.text).split('\n');
    this.equationOfLine = this.lines.map((_, line) => {
      const equation = listing.line_equations[line];
      return typeof equation === 'number' && program.ids[equation] !== undefined ? equation : -1;
    });
    this.equationOfLine.forEach((equation, line) => {
      if (equation >= 0) {
        this.linesOfEquation.set(equation, [...(this.linesOfEquation.get(equation) ?? []), line]);
      }
    });
  }

  get count(): number {
    return this.lines.length;
  }

  number = (line: number): string => String(line + 1);

  depth = (): number => 0;

  foldEnd = (): number => 0;

  startsFolded = (): boolean => false;

  equations = (line: number): readonly number[] => {
    const equation = this.equationOfLine[line]!;
    return equation < 0 ? [] : [equation];
  };

  linesOf = (equation: number): readonly number[] => this.linesOfEquation.get(equation) ?? [];

  tokens = (line: number): Token[] => splitLine(this.lines[line]!);
}

const PATTERNS: readonly [TokenKind, RegExp][] = [
  ['note', /\/\/.*|loc\(.*\)|metadata=\{.*\}/y],
  ['literal', /"(?:[^"\\]|\\.)*"|dense<[^>]*>/y],
  ['type', /tensor<[^>]*>|(?:pred|[subf]\d+|bf16|c64|c128|token)\[[^\]]*\](?:\{[^}]*\})?/y],
  ['name', /%[\w.#:-]+|@[\w.$-]+/y],
  ['keyword', /\b(?:func\.func|module|return|ROOT|ENTRY|HloModule)\b/y],
  ['primitive', /\b(?:stablehlo|chlo|sdy|func|mhlo)\.[\w]+|\b[a-z][a-z0-9-]*(?=\()/y],
  ['param', /\b[a-z_]+(?==)/y],
  ['literal', /-?\b\d[\d.e+-]*\b/y],
];
const MAX_COLOURED_LENGTH = 4000;

function splitLine(text: string): Token[] {
  const tokens: Token[] = [];
  let plain = 0;
  let at = 0;
  const end = Math.min(text.length, MAX_COLOURED_LENGTH);
  const flush = (to: number): void => {
    if (to > plain) {
      tokens.push(token(text.slice(plain, to), 'plain'));
    }
  };
  while (at < end) {
    const found = match(text, at);
    if (found === null) {
      at++;
      continue;
    }
    flush(at);
    tokens.push(found);
    at += found.text.length;
    plain = at;
  }
  flush(text.length);
  return tokens;
}

function match(text: string, at: number): Token | null {
  for (const [kind, pattern] of PATTERNS) {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found !== null && found[0] !== '') {
      return token(found[0], kind);
    }
  }
  return null;
}
