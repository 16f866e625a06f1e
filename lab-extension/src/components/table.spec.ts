// @vitest-environment jsdom
import { expect, test } from 'vitest';

import { meter, tableStyle } from './table';

test('a bar is as long as its part of the place', () => {
  const widths = [0.25, 2, -1].map(part => (meter(part).firstChild as HTMLElement).style.width);
  expect(widths).toEqual(['25%', '100%', '0%']);
});

test('programs in lists of functions have a border', () => {
  expect(tableStyle).toMatch(/\.pl-entry \{[^}]*border:/);
});
