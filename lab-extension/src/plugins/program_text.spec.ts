import { describe, expect, it } from 'vitest';

import { programText } from './program_text';

describe('the text of a stored program', () => {
  it('is its own listing', () => {
    expect(programText({ listing: { text: 'let b = sin a' } }, 'plain')).toBe('let b = sin a');
  });

  it('is the plain text beside it where it has no listing', () => {
    expect(programText({ listing: null }, 'plain')).toBe('plain');
    expect(programText(null, 'plain')).toBe('plain');
    expect(programText({ listing: { text: 3 } }, 'plain')).toBe('plain');
  });

  it('is a plain sentence where nothing was stored', () => {
    expect(programText(undefined, undefined)).toContain('without its text');
  });
});
