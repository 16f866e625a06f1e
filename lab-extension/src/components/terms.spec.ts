// @vitest-environment jsdom
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, test } from 'vitest';

import { el } from './dom';
import { TERMS, sentenceOf, termed, withTerms } from './terms';

const page = readFileSync(resolve('../docs/terms.md'), 'utf-8');

test.each(Object.entries(TERMS))('the documentation explains "%s" as views do', (name, term) => {
  expect(page).toContain(`**${name}**: ${term.sentence} ${term.more}`);
  expect(term.sentence).toMatch(/^[A-Z].*\.$/);
});

test('the first use of a term in a text explains itself, also in the plural', () => {
  const line = el(
    'p',
    {},
    withTerms('2 fusions, 3 kernels, again 4 fusions, and a jaxpr-like text'),
  );
  const words = [...line.querySelectorAll('.pl-term')];
  expect(words.map(each => each.firstChild!.textContent)).toEqual(['fusions', 'kernels']);
  expect(words[0]!.getAttribute('aria-description')).toBe(TERMS['fusion']!.sentence);
  expect(line.textContent).toContain('again 4 fusions');
});

test('a text without terms stays a text', () => {
  expect(withTerms('x: f32[4]').filter(Boolean)).toEqual(['x: f32[4]']);
  expect(sentenceOf('nothing of the kind')).toBeUndefined();
});

test('a term shows its sentence while it is pointed at', () => {
  const word = termed('fusion', 'fusions');
  document.body.append(word);
  word.dispatchEvent(new Event('pointerenter'));
  const note = word.querySelector('[role=tooltip]')!;
  expect(note.textContent).toContain(TERMS['fusion']!.sentence);
  expect(note.textContent).toContain(TERMS['fusion']!.more);
  word.dispatchEvent(new Event('pointerleave'));
  expect(word.textContent).toBe('fusions');
});
