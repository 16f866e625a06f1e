import { expect, test } from 'vitest';
import { SCHEMA_VERSION } from '../generated/introspect';
import { sampleText } from '../testing/samples';
import { readRecord } from './reading';

test('reads a text and what it parses to', () => {
  const text = sampleText('mlp');
  expect(readRecord(text).kind).toBe('program');
  expect(readRecord(JSON.parse(text)).kind).toBe('program');
});

test.each([
  ['{', 'is no JSON'],
  ['null', 'has no kind'],
  ['[1]', 'has no kind'],
  ['{"kind": "program"}', 'does not say its version'],
  [`{"kind": "program", "schema_version": ${SCHEMA_VERSION + 1}}`, 'a newer pellucid can show it'],
  ['{"kind": "program", "schema_version": 0}', 'run the cell again'],
])('refuses %s', (text, message) => {
  expect(() => readRecord(text)).toThrow(message);
});
