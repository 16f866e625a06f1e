import { describe, expect, it } from 'vitest';

import type { Token } from './lines';
import { foldedDetails } from './reduced_lines';

const folded = (...texts: string[]): string =>
  foldedDetails(texts.map((text): Token => ({ text, kind: 'plain' })))
    .map(token => token.text)
    .join('');

describe('lines with details folded', () => {
  it('keep the operands behind the params', () => {
    const line = ['h:f32[2]', ' = ', 'scan', '[length=5 num_carry=1]', ' x', " params['ws']"];
    expect(folded(...line)).toBe("h:f32[2] = scan[…] x params['ws']");
  });

  it('end the params at their own bracket', () => {
    expect(folded('y = dot_general[dims=(([1], [0]), ([], []))] h w[0]')).toBe(
      'y = dot_general[…] h w[0]',
    );
  });

  it('have no operation in front of its results', () => {
    expect(folded('x:f32[3] = sin y')).toBe('x:f32[3] = sin y');
  });

  it('keep the operands of HLO', () => {
    const line = '%dot.1 = f32[2,4]{1,0} dot(%x, %w), lhs_contracting_dims={1}';
    expect(folded(line)).toBe('%dot.1 = f32[2,4]{1,0} dot(%x, %w)[…]');
  });
});
