/** Finds equations by name, primitive, scope, type or source line. */

import type { Program } from '../../records/program';

/** Lower-case text of every equation, built on first use. */
export class SearchIndex {
  private texts: string[] | null = null;

  constructor(private readonly program: Program) {}

  /** Equations that contain every word of `query`, in program order. */
  find(query: string): number[] {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length === 0) {
      return [];
    }
    this.texts ??= this.collect();
    const found: number[] = [];
    this.texts.forEach((text, equation) => {
      if (words.every(word => text.includes(word))) {
        found.push(equation);
      }
    });
    return found;
  }

  private collect(): string[] {
    const { program } = this;
    const scopes = new Map<number, string>();
    return Array.from({ length: program.equationCount }, (_, equation) => {
      const scope = program.scopes[equation]!;
      let path = scopes.get(scope);
      if (path === undefined) {
        path = program
          .scopePath(equation)
          .map(each => program.scopeName(each))
          .join('/');
        scopes.set(scope, path);
      }
      const results = Array.from(
        program.resultsOf(equation),
        value =>
          `${program.valueName(value)} ${program.programName(value)} ${program.typeOf(value).text}`,
      );
      const operands = Array.from(program.operandsOf(equation), operand =>
        program.operandName(operand),
      );
      const place = placeOf(program, equation);
      return [program.primitive(equation), path, ...results, ...operands, place]
        .join(' ')
        .toLowerCase();
    });
  }
}

/** Searchable place of an equation: source name, line number and text, enclosing function. */
function placeOf(program: Program, equation: number): string {
  const span = program.spanOf(equation);
  if (span === null) {
    return '';
  }
  const source = program.sources[span.source];
  const line = source?.lines?.[span.line - source.first_line] ?? '';
  return `${source?.name}:${span.line} ${span.function} ${line}`;
}
