import { expect, test } from 'vitest';
import { counted, oneLine, quantity, whole } from './format';

test.each([
  [0, 'flop', '0 FLOP'],
  [999, 'flop', '999 FLOP'],
  [1000, 'flop', '1 KFLOP'],
  [6_400_000_000, 'flop', '6.40 GFLOP'],
  [1536, 'B', '1.50 KiB'],
  [1048575, 'B', '1.00 MiB'],
  [12.34, 'us', '12.3 µs'],
  [4200, 'us', '4.20 ms'],
  [-5, '', '−5'],
  [NaN, 'B', '–'],
])('%d %s is %s', (value, unit, text) => {
  expect(quantity(value, unit)).toBe(text);
});

test('numbers are grouped and nouns agree', () => {
  expect(whole(1234567)).toBe('1,234,567');
  expect(counted(1, 'equation')).toBe('1 equation');
  expect(counted(11203, 'equation')).toBe('11,203 equations');
});

test('a name can neither break the line nor turn it around', () => {
  expect(oneLine('a\nb\u0000\u2028c')).toBe('a␣b␣␣c');
  expect(oneLine('\u202egnirts\u202c')).toBe('gnirts');
  expect(oneLine('a'.repeat(500), 10)).toBe(`${'a'.repeat(9)}…`);
  expect(oneLine('👩‍👩‍👧'.repeat(99), 10).length).toBeLessThan(30);
});
