/** Texts reduced to fewer or shorter lines, for the linked panes. */

import type { LineSource, Token } from './lines';

/** The lines of a source that have equations, with a placeholder for each stretch of others. */
export class PartneredLines implements LineSource {
  /** Line numbers of the source; -1 for a placeholder. */
  private readonly lines: number[] = [];
  private readonly lineOf = new Map<number, number>();

  constructor(
    private readonly source: LineSource,
    isHeading: (line: number) => boolean,
  ) {
    for (let line = 0; line < source.count; line++) {
      if (source.equations(line).length > 0 || isHeading(line)) {
        this.lineOf.set(line, this.lines.length);
        this.lines.push(line);
      } else if (this.lines.length > 0 && this.lines.at(-1) !== -1) {
        this.lines.push(-1);
      }
    }
    if (this.lines.at(-1) === -1) {
      this.lines.pop();
    }
  }

  get count(): number {
    return this.lines.length;
  }

  /** The source's line shown at a line; -1 for a placeholder. */
  original(line: number): number {
    return this.lines[line]!;
  }

  number = (line: number): string => this.at(line, each => this.source.number(each), '');

  depth = (line: number): number => this.at(line, each => this.source.depth(each), 0);

  foldEnd = (): number => 0;

  startsFolded = (): boolean => false;

  equations = (line: number): ArrayLike<number> =>
    this.at<ArrayLike<number>>(line, each => this.source.equations(each), []);

  linesOf = (equation: number): readonly number[] =>
    this.source.linesOf(equation).flatMap(line => this.lineOf.get(line) ?? []);

  tokens = (line: number): readonly Token[] =>
    this.at<readonly Token[]>(line, each => this.source.tokens(each), [
      { text: '⋯', kind: 'note', title: 'lines without equations' },
    ]);

  private at<T>(line: number, read: (line: number) => T, otherwise: T): T {
    const original = this.lines[line]!;
    return original < 0 ? otherwise : read(original);
  }
}

/** A source whose lines show `[…]` instead of params and other details. */
export class FoldedDetails implements LineSource {
  constructor(private readonly source: LineSource) {}

  get count(): number {
    return this.source.count;
  }

  number = (line: number): string => this.source.number(line);

  depth = (line: number): number => this.source.depth(line);

  foldEnd = (line: number): number => this.source.foldEnd(line);

  startsFolded = (line: number): boolean => this.source.startsFolded(line);

  equations = (line: number): ArrayLike<number> => this.source.equations(line);

  linesOf = (equation: number): readonly number[] => this.source.linesOf(equation);

  tokens = (line: number): readonly Token[] => this.tokensOf(line);

  protected tokensOf(line: number): readonly Token[] {
    return foldedDetails(this.source.tokens(line));
  }
}

/** A source whose lines begin with the operation, followed by an arrow and the results. */
export class OperationFirst extends FoldedDetails {
  override tokens = (line: number): readonly Token[] => operationFirst(this.tokensOf(line));
}

/** Tokens of `x:f32[3] = sin y` as `sin y → x:f32[3]`; other lines are unchanged. */
export function operationFirst(tokens: readonly Token[]): readonly Token[] {
  const at = tokens.findIndex(token => token.kind === 'primitive');
  const head = tokens.slice(0, Math.max(at, 0));
  const assigns = head.findIndex(token => token.text.includes('='));
  if (assigns < 0) {
    return tokens;
  }
  const results = head.slice(0, assigns);
  const indent = /^\s*/.exec(results[0]?.text ?? '')![0];
  if (indent !== '') {
    results[0] = { ...results[0]!, text: results[0]!.text.slice(indent.length) };
  }
  // In HLO, the type is between the sign and the operation.
  const type = head.slice(assigns).filter(token => token.text.trim() !== '=');
  const typed = type.some(token => token.text.trim() !== '')
    ? [{ text: ': ', kind: 'plain' as const }, ...type]
    : [];
  return [
    ...(indent === '' ? [] : [{ text: indent, kind: 'plain' as const }]),
    ...tokens.slice(at),
    { text: ' → ', kind: 'plain' },
    ...results.filter(token => token.text !== ''),
    ...typed,
  ];
}

/** Minimum number of characters of details that are folded. */
const MIN_FOLDED_CHARACTERS = 12;
/**
 * Params in a jaxpr; in StableHLO and HLO, the text between operands and type, or after the
 * operands.
 */
const DETAILS = [
  /\[\w+=.*\](?= |$)/,
  /, (?:[a-z_]+ ?= ?|dims = )[^:]*(?= : )/,
  /(?<=\)), (?!calls=|body=|condition=|to_apply=|branch)[a-z_]+=.*$/,
  /, (?:metadata|backend_config|is_scheduled)=.*$/,
  /(?<= : )\(.*\)(?= -> )/,
];

/** Tokens with details replaced by a placeholder that has them as its tooltip. */
export function foldedDetails(tokens: readonly Token[]): readonly Token[] {
  const text = tokens.map(token => token.text).join('');
  const found = DETAILS.map(pattern => pattern.exec(text)).find(each => each !== null);
  if (found === undefined || found === null || found[0].length < MIN_FOLDED_CHARACTERS) {
    return tokens;
  }
  const [start, end] = [found.index, found.index + found[0].length];
  const result: Token[] = [];
  let at = 0;
  for (const token of tokens) {
    const next = at + token.text.length;
    if (next <= start || at >= end) {
      result.push(token);
    } else {
      if (at < start) {
        result.push({ ...token, text: token.text.slice(0, start - at) });
      }
      if (at <= start) {
        result.push({ text: '[…]', kind: 'note', title: found[0] });
      }
      if (next > end) {
        result.push({ ...token, text: token.text.slice(end - at) });
      }
    }
    at = next;
  }
  return result;
}
