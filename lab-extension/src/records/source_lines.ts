/** The user's source lines with the equations that come from them. */

import type { LineSource, Token } from './lines';
import type { Program } from './program';

/** All sources of a program, one after another, each with a heading. */
export class SourceLines implements LineSource {
  private readonly texts: string[] = [];
  private readonly numbers: string[] = [];
  private readonly isTitle: boolean[] = [];
  private readonly equationsAt: number[][] = [];
  /** Equations whose own line it is, without those of functions called there. */
  private readonly ownAt: number[][] = [];
  private readonly lineOf = new Map<string, number>();
  private marked: { line: number; from: number; to: number } | null = null;

  constructor(private readonly program: Program) {
    const used = this.usedLines();
    program.sources.forEach((source, index) => {
      if (program.sources.length > 1 || source.lines === null) {
        this.add(String(source.name), '', true);
      }
      if (Array.isArray(source.lines)) {
        source.lines.forEach((text, offset) => {
          this.lineOf.set(`${index}:${source.first_line + offset}`, this.count);
          this.add(String(text), String(source.first_line + offset), false);
        });
        return;
      }
      for (const line of [...(used.get(index) ?? [])].sort((a, b) => a - b)) {
        this.lineOf.set(`${index}:${line}`, this.count);
        this.add('(text of the line was not kept)', String(line), false);
      }
    });
    for (let equation = 0; equation < program.equationCount; equation++) {
      this.enter(equation);
    }
  }

  get count(): number {
    return this.texts.length;
  }

  number = (line: number): string => this.numbers[line]!;

  depth = (): number => 0;

  foldEnd = (): number => 0;

  startsFolded = (): boolean => false;

  equations = (line: number): readonly number[] => this.equationsAt[line]!;

  own(line: number): readonly number[] {
    return this.ownAt[line]!;
  }

  linesOf = (equation: number): readonly number[] =>
    this.program
      .callStack(equation)
      .flatMap(span => this.linesOfSpan(span))
      .filter((line, index, all) => all.indexOf(line) === index);

  tokens = (line: number): Token[] => {
    const text = this.texts[line]!;
    if (this.isTitle[line]) {
      return [{ text, kind: 'note' }];
    }
    if (this.marked?.line !== line) {
      return pythonTokens(text);
    }
    const { from, to } = this.marked;
    return [
      ...pythonTokens(text.slice(0, from)),
      { text: text.slice(from, to), kind: 'marked' },
      ...pythonTokens(text.slice(to)),
    ];
  };

  /** Marks the columns that an equation comes from; nothing for -1. */
  mark(equation: number): void {
    const span = equation < 0 ? null : this.program.spanOf(equation);
    const line = span === null ? undefined : this.lineOf.get(`${span.source}:${span.line}`);
    if (span === null || line === undefined || span.endColumn === span.column) {
      this.marked = null;
      return;
    }
    const to = span.endLine > span.line ? this.texts[line]!.length : span.endColumn;
    this.marked = { line, from: span.column, to };
  }

  private add(text: string, number: string, isTitle: boolean): void {
    this.texts.push(text);
    this.numbers.push(number);
    this.isTitle.push(isTitle);
    this.equationsAt.push([]);
    this.ownAt.push([]);
  }

  private enter(equation: number): void {
    this.program.callStack(equation).forEach((span, depth) => {
      for (const line of this.linesOfSpan(span)) {
        const known = this.equationsAt[line]!;
        if (known[known.length - 1] !== equation) {
          known.push(equation);
        }
        if (depth === 0) {
          this.ownAt[line]!.push(equation);
        }
      }
    });
  }

  private linesOfSpan(index: number): number[] {
    const span = this.program.span(index);
    const lines: number[] = [];
    for (let line = span.line; line <= Math.min(span.endLine, span.line + 40); line++) {
      const known = this.lineOf.get(`${span.source}:${line}`);
      if (known !== undefined) {
        lines.push(known);
      }
    }
    return lines;
  }

  private usedLines(): Map<number, Set<number>> {
    const used = new Map<number, Set<number>>();
    for (let index = 0; index < this.program.spanCount; index++) {
      const span = this.program.span(index);
      const lines = used.get(span.source);
      if (lines === undefined) {
        used.set(span.source, new Set([span.line]));
      } else {
        lines.add(span.line);
      }
    }
    return used;
  }
}

const PYTHON =
  /(#.*)|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|\b(def|return|for|in|if|else|elif|while|lambda|with|as|import|from|not|and|or|is|None|True|False|class|yield|raise|try|except|finally|global|nonlocal|pass|assert|del|async|await)\b|\b(\d[\w.]*)\b|\b(\w+)(?=\()/g;

function pythonTokens(text: string): Token[] {
  const tokens: Token[] = [];
  let last = 0;
  for (const found of text.matchAll(PYTHON)) {
    if (found.index > last) {
      tokens.push({ text: text.slice(last, found.index), kind: 'plain' });
    }
    const [whole, comment, string, keyword, number] = found;
    const kind =
      comment !== undefined
        ? 'note'
        : string !== undefined || number !== undefined
          ? 'literal'
          : keyword !== undefined
            ? 'keyword'
            : 'primitive';
    tokens.push({ text: whole, kind });
    last = found.index + whole.length;
  }
  if (last < text.length) {
    tokens.push({ text: text.slice(last), kind: 'plain' });
  }
  return tokens;
}
