// @vitest-environment jsdom
import { afterEach, beforeAll, expect, test, vi } from 'vitest';
import type { ProfileRecord } from '../../generated/profiler';
import { installPage, place, settled } from '../../testing/dom';
import { sample } from '../../testing/samples';
import { mount, type Mounted } from '../view';

let mounted: Mounted | null = null;
const onPoint = vi.fn();

function show(name: string, change: Partial<ProfileRecord> = {}): ShadowRoot {
  const host = place();
  const record = { ...sample<ProfileRecord>(name), ...change };
  mounted = mount(host, record, { profile: { onPoint } });
  return host.shadowRoot!;
}

function open(root: ShadowRoot, tab: string): HTMLElement {
  const tabs = [...root.querySelectorAll<HTMLButtonElement>('[role=tab]')];
  tabs.find(each => each.textContent === tab)!.click();
  return root.querySelector<HTMLElement>('[role=tabpanel] > :not([hidden])')!;
}

const rowsOf = (panel: HTMLElement): HTMLElement[] => [
  ...panel.querySelectorAll<HTMLElement>('tbody tr'),
];

beforeAll(installPage);

afterEach(() => {
  mounted?.dispose();
  mounted = null;
  document.body.replaceChildren();
  onPoint.mockReset();
});

test('a profile says what is measured, estimated and without a line', () => {
  const root = show('profile');
  const shares = root.querySelector('.pl-shares-key')!.textContent!;
  expect(shares).toMatch(/\d+ % measured.*\d+ % estimated.*\d+ % no line/);
  expect(root.querySelectorAll('.pl-findings li').length).toBeGreaterThan(0);
});

test('a session without fusions says that it is of another program', () => {
  const { totals } = sample<ProfileRecord>('profile');
  const root = show('profile', { totals: { ...totals, is_detail: true } });
  expect(root.querySelector('header')!.textContent).toContain('another program');
});

test('a line selects its operations everywhere', async () => {
  const root = show('profile');
  const lines = [...root.querySelectorAll<HTMLElement>('.pl-profile-timed')];
  expect(lines.map(line => line.querySelector('code')!.textContent)).toEqual([
    '    y = jnp.tanh(x @ w)  # <b>no markup</b>',
    '    return y + x',
    '    return layer(layer(x, w), w).mean()',
  ]);
  lines[1]!.click();
  expect(onPoint.mock.lastCall![0][0]).toMatchObject({ line: 4, executionCount: 3 });
  const chosen = root.querySelector<HTMLElement>('.pl-profile-chosen')!;
  expect(chosen.hidden).toBe(false);
  expect(chosen.textContent).toContain('In[3], line 4');
  const rows = rowsOf(open(root, 'Operations'));
  expect(rows.length).toBeGreaterThan(0);
  expect(rows.length).toBeLessThan(12);
  chosen.querySelector('button')!.click();
  await settled();
  expect(rowsOf(open(root, 'Operations')).length).toBe(12);
});

test('operations are grouped, sorted and filtered', () => {
  const root = show('profile_10k');
  const panel = open(root, 'Operations');
  expect(rowsOf(panel)).toHaveLength(100);
  panel.querySelector<HTMLButtonElement>('.pl-profile-scroll > .pl-action')!.click();
  expect(rowsOf(panel)).toHaveLength(200);
  const filter = panel.querySelector<HTMLInputElement>('input')!;
  filter.value = 'op.123 library';
  filter.dispatchEvent(new Event('input'));
  expect(rowsOf(panel).length).toBeGreaterThan(0);
  expect(rowsOf(panel).every(row => /op\.123\d/.test(row.textContent!))).toBe(true);
  filter.value = '';
  filter.dispatchEvent(new Event('input'));
  const select = panel.querySelector('select')!;
  select.value = 'category';
  select.dispatchEvent(new Event('change'));
  const names = (): string[] => rowsOf(panel).map(row => row.querySelector('code')!.textContent!);
  expect(names()).toHaveLength(5);
  panel.querySelector<HTMLButtonElement>('th button')!.click();
  expect(names()).toEqual(['collective', 'copy', 'fusion', 'library', 'other']);
  expect(panel.querySelector('th')!.getAttribute('aria-sort')).toBe('ascending');
});

test('scopes widen and select', () => {
  const root = show('profile');
  const panel = open(root, 'Scopes');
  const frame = (text: string): HTMLElement =>
    [...panel.querySelectorAll<HTMLElement>('.pl-flame-frame')].find(each =>
      each.textContent!.startsWith(text),
    )!;
  frame('transpose(jvp(loss))').click();
  expect(frame('transpose(jvp(loss))').style.width).toContain('100%');
  expect(root.querySelector('.pl-profile-chosen')!.textContent).toContain('transpose(jvp(loss))');
  frame('all operations').click();
  expect(root.querySelector<HTMLElement>('.pl-profile-chosen')!.hidden).toBe(true);
});

test('collectives show what devices wait for', () => {
  const panel = open(show('profile'), 'Collectives');
  const rows = rowsOf(panel);
  expect(rows.length).toBe(2);
  const text = rows[0]!.textContent!;
  expect(text).toContain('op.3');
  expect(text).toContain('2 devices');
  expect(text).toContain('device 1');
  expect(text).toContain('5 µs');
});

test('steps of compilation add up to it, by pass and kernel', () => {
  const panel = open(show('profile'), 'Compilation');
  expect(panel.querySelector('.pl-part-title')!.textContent).toMatch(/200 ms, \d+ % of it named/);
  const steps = panel.querySelector('table[aria-label="Steps of compilation"]')!;
  const kernel = [...steps.querySelectorAll('tr')].find(row => row.textContent!.includes('op.1'))!;
  expect(kernel.textContent).toContain('In[3], line 3');
  expect(kernel.textContent).toContain('kernels');
});

test('the host’s activities and transfers have times and bytes', () => {
  const panel = open(show('profile'), 'Host');
  const text = panel.textContent!;
  expect(text).toContain('Python');
  expect(text).toContain('host to device');
  expect(text).toContain('38.1 MiB');
});

test('memory shows arrays over time and what lives at the peak of a program', () => {
  const panel = open(show('profile'), 'Memory');
  const [arrays, program] = panel.querySelectorAll('.pl-memory-plot');
  expect(arrays!.querySelectorAll('rect')).toHaveLength(6);
  expect(arrays!.querySelectorAll('title')[3]!.textContent).toMatch(/^11.4 MiB in 12 arrays at /);
  expect(program!.querySelectorAll('rect')).toHaveLength(4);
  const titles = [...panel.querySelectorAll('.pl-part-title')].map(each => each.textContent);
  expect(titles[0]).toContain('11.4 MiB at most, 8.58 MiB at the end');
  expect(titles[1]).toContain('7.63 MiB, of 8.11 MiB allocated');
  expect(rowsOf(panel).map(row => row.querySelector('td')!.textContent)).toEqual([
    'In[3], line 9',
    'In[3], line 10',
    'no line',
    'op.0',
    'op.3',
    'op.1',
  ]);
});

test('what the recording lacks is said, and callbacks are listed', () => {
  const root = show('profile');
  expect(root.querySelector('.pl-profile-remark')!.textContent).toContain('not recorded');
  expect(open(root, 'Host').textContent).toContain('log_loss');
});

test('a point of the roofline selects its operation', () => {
  const root = show('profile');
  const panel = open(root, 'Roofline');
  expect(panel.textContent).toContain('Measured on cpu, 2 cores');
  const dots = panel.querySelectorAll('circle');
  expect(dots.length).toBe(rowsOf(panel).length);
  dots[0]!.dispatchEvent(new Event('click'));
  expect(root.querySelector<HTMLElement>('.pl-profile-chosen')!.hidden).toBe(false);
  const unmeasured = open(show('profile', { peaks: null }), 'Roofline');
  expect(unmeasured.textContent).toContain('measure_peaks()');
  expect(unmeasured.querySelector('svg')).toBeNull();
});

test('a session without operations has no empty tables', () => {
  const root = show('profile_empty');
  expect(root.querySelector('.pl-profile-empty')!.textContent).toContain('No operation ran');
  expect(root.querySelectorAll('[role=tab]')).toHaveLength(0);
  const compiled = show('profile_empty', {
    compilations: sample<ProfileRecord>('profile').compilations,
  });
  expect([...compiled.querySelectorAll('[role=tab]')].map(tab => tab.textContent)).toEqual([
    'Compilation',
  ]);
  expect(compiled.querySelector('table')!.textContent).toContain('x: f32[8,4] -> f32[9,4]');
});

test('a comparison shows the lines that changed, slower ones with a plus', () => {
  const root = show('profile_comparison');
  const rows = [...root.querySelectorAll('tbody tr')];
  expect(rows.length).toBeGreaterThan(0);
  expect(rows[0]!.textContent).toContain('return y + x');
  expect(rows[0]!.textContent).toContain('+120 µs');
  expect(rows[0]!.querySelector('.pl-slower')).not.toBeNull();
});
