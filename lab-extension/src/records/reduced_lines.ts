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

  tokens = (line: number): readonly Token[] => foldedDetails(this.source.tokens(line));
}

/** Minimum number of characters of details that are folded. */
const MIN_FOLDED_CHARACTERS = 12;
/** In StableHLO and HLO, the text between operands and type, or after the operands. */
const DETAILS = [
  /, (?:[a-z_]+ ?= ?|dims = )[^:]*(?= : )/,
  /(?<=\)), (?!calls=|body=|condition=|to_apply=|branch)[a-z_]+=.*$/,
  /, (?:metadata|backend_config|is_scheduled)=.*$/,
  /(?<= : )\(.*\)(?= -> )/,
];

/** Where the params of an equation in a jaxpr are, `[axis=0]`: its start and end; null without params. */
function paramsIn(text: string): [number, number] | null {
  const opening = /\[\w+=/.exec(text);
  if (opening === null) {
    return null;
  }
  // Names of operands behind them may have brackets, too: `params['w']`.
  let depth = 0;
  for (let at = opening.index; at < text.length; at++) {
    depth += '[({'.includes(text[at]!) ? 1 : '])}'.includes(text[at]!) ? -1 : 0;
    if (depth === 0) {
      return [opening.index, at + 1];
    }
  }
  return [opening.index, text.length];
}

/** Start and end of the details in a line; null without any. */
function detailsIn(text: string): [number, number] | null {
  const found = DETAILS.map(pattern => pattern.exec(text)).find(each => each !== null);
  return paramsIn(text) ?? (found ? [found.index, found.index + found[0].length] : null);
}

/** Tokens with details replaced by a placeholder that has them as its tooltip. */
export function foldedDetails(tokens: readonly Token[]): readonly Token[] {
  const text = tokens.map(token => token.text).join('');
  const [start, end] = detailsIn(text) ?? [0, 0];
  if (end - start < MIN_FOLDED_CHARACTERS) {
    return tokens;
  }
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
        result.push({ text: '[…]', kind: 'note', title: text.slice(start, end) });
      }
      if (next > end) {
        result.push({ ...token, text: token.text.slice(end - at) });
      }
    }
    at = next;
  }
  return result;
}
