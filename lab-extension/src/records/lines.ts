/** Lines of text with their equations, as displayed by text panes. */

export type TokenKind =
  'plain' | 'name' | 'type' | 'primitive' | 'param' | 'literal' | 'keyword' | 'note' | 'marked';

export interface Token {
  readonly text: string;
  readonly kind: TokenKind;
  /** The value named by the text; -1 or absent for none. */
  readonly value?: number;
  /** Column of a table that contains the text. */
  readonly column?: string;
  /** Tooltip of the text. */
  readonly title?: string;
}

/** Lines of a text, generated on demand, since a program may have 100,000 of them. */
export interface LineSource {
  readonly count: number;
  /** Text in the margin. */
  readonly number: (line: number) => string;
  readonly tokens: (line: number) => readonly Token[];
  /** Equations of the line. */
  readonly equations: (line: number) => ArrayLike<number>;
  /** Lines of an equation, the most informative first. */
  readonly linesOf: (equation: number) => readonly number[];
  /** The line after the last one that folds under this line; 0 if it doesn't fold. */
  readonly foldEnd: (line: number) => number;
  /** Whether the line is folded initially. */
  readonly startsFolded: (line: number) => boolean;
  readonly depth: (line: number) => number;
}

/** The text of a line, without colours. */
export function lineText(source: LineSource, line: number): string {
  return source
    .tokens(line)
    .map(token => token.text)
    .join('');
}
