/** Lines of text with equations behind them: what a text pane shows. */

export type TokenKind =
  'plain' | 'name' | 'type' | 'primitive' | 'param' | 'literal' | 'keyword' | 'note' | 'marked';

export interface Token {
  readonly text: string;
  readonly kind: TokenKind;
  /** The value that the text names; -1 or absent for none. */
  readonly value?: number;
  /** The column of a table that the text stands in. */
  readonly column?: string;
  /** What the text means, for somebody who points at it. */
  readonly title?: string;
}

/** Texts are made when a line is looked at: a program may have 100,000 of them. */
export interface LineSource {
  readonly count: number;
  /** What stands in the margin. */
  readonly number: (line: number) => string;
  readonly tokens: (line: number) => readonly Token[];
  /** Equations that the line stands for. */
  readonly equations: (line: number) => ArrayLike<number>;
  /** Lines that stand for an equation, the most telling first. */
  readonly linesOf: (equation: number) => readonly number[];
  /** The line after the last one that folds under this one; 0 if it does not fold. */
  readonly foldEnd: (line: number) => number;
  /** Whether the line is folded until somebody opens it. */
  readonly startsFolded: (line: number) => boolean;
  readonly depth: (line: number) => number;
}

export function lineText(source: LineSource, line: number): string {
  return source
    .tokens(line)
    .map(token => token.text)
    .join('');
}
