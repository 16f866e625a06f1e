// @vitest-environment jsdom
import { afterEach, beforeAll, expect, test, vi } from 'vitest';
import type {
  ArrayValuesRecord,
  KernelGridsRecord,
  ProgramRecord,
} from '../../generated/introspect';
import { installPage, place, settled } from '../../testing/dom';
import { Program } from '../../records/program';
import { sample } from '../../testing/samples';
import { StoppedProgram, type ListedBreakpoint, type Standing } from './stopped_program';

const record = sample<ProgramRecord>('mlp');
const values = sample<ArrayValuesRecord>('array_values');
const grids = sample<KernelGridsRecord>('grid_64');
const placement = sample<unknown>('sharding_simple');
const [first, second] = record.equations.id;
const STANDING: Standing = {
  version: 'v1',
  program: 'p',
  record,
  equation: first!,
  position: 0,
  count: 5,
  isInnermost: true,
  iteration: { run: 3, runs: 20 },
  path: ['outer'],
  variables: [],
  positions: [],
  chosen: null,
  batches: [],
  lane: [],
  values: {},
};
const BREAKPOINT: ListedBreakpoint = {
  path: '/tmp/cell.py',
  line: 7,
  condition: '',
  hitCondition: '% 3',
  logMessage: '',
  verified: true,
  actualLine: 8,
  message: 'nothing is computed in line 7; it stops in line 8',
};

let stopped: StoppedProgram | null = null;

function shown(standing: Standing | null = STANDING) {
  const events = {
    onEquation: vi.fn(),
    onIteration: vi.fn(),
    onProgram: vi.fn(),
    onCore: vi.fn(),
    onGrid: vi.fn(() => Promise.resolve({ ...grids, program: 27 })),
    onOptions: vi.fn(),
    onWatch: vi.fn(),
    onSettings: vi.fn(),
    onFigure: vi.fn((name: string) =>
      Promise.resolve({ record: values, leading: [2], placement: name === 'y' ? placement : null }),
    ),
    onSet: vi.fn(() => Promise.resolve()),
    onPosition: vi.fn(),
    onLane: vi.fn(),
  };
  stopped = new StoppedProgram(events);
  place().append(stopped.element);
  if (standing !== null) {
    stopped.show(standing);
  }
  return { program: stopped, events, element: stopped.element };
}

const input = (element: HTMLElement, label: string): HTMLInputElement =>
  element.querySelector<HTMLInputElement>(`input[aria-label^="${label}"]`)!;

function enter(target: HTMLInputElement, value: string): void {
  target.value = value;
  target.dispatchEvent(new Event('change', { bubbles: true }));
}

const status = (element: HTMLElement): string =>
  element.querySelector('[role="status"]')!.textContent!;
const view = (element: HTMLElement): Element | null =>
  element.querySelector('.pellucid-stopped-view');

beforeAll(installPage);

afterEach(() => {
  stopped?.dispose();
  document.body.replaceChildren();
});

test('says that nothing is stopped', () => {
  const { program, element } = shown(null);
  expect(status(element)).toContain('No program is stopped');
  expect(program.shown).toBeNull();
  program.move();
  expect(element.className).toBe('pellucid-stopped');
});

test('says where the program stands', async () => {
  const { program, element } = shown();
  await settled();
  expect(status(element)).toBe(
    `outer › ${record.name}: 0 of 5, before ${new Program(record).primitive(0)}`,
  );
  expect(input(element, 'Iteration').value).toBe('3');
  program.show({ ...STANDING, record: null, equation: null, position: 5, iteration: null });
  expect(status(element)).toContain('5 of 5, at its end');
  expect(input(element, 'Iteration').parentElement!.hidden).toBe(true);
});

test('keeps its graph from step to step', async () => {
  const { program, element } = shown();
  await settled();
  const before = view(element);
  program.move();
  expect(program.shown).toEqual({ program: 'p', version: undefined });
  program.show({ ...STANDING, version: 'v2', record: null, equation: second!, position: 1 });
  expect(view(element)).toBe(before);
  expect(program.shown).toEqual({ program: 'p', version: 'v2' });
  // A step that takes long.
  program.move();
  program.hide();
  expect(status(element)).toContain('No program is stopped');
  expect(program.shown).toEqual({ program: 'p', version: undefined });
  program.show({ ...STANDING, version: 'v3', record: null, equation: second!, position: 1 });
  expect(view(element)).toBe(before);
  expect(status(element)).toContain('1 of 5');
  program.end();
  expect(program.shown).toBeNull();
  expect(view(element)).toBeNull();
});

test('offers no equation beyond the last', () => {
  const { program, element, events } = shown();
  const slider = input(element, 'Equation');
  expect(slider.max).toBe('4');
  enter(slider, '9');
  expect(events.onEquation).toHaveBeenCalledWith(4);
  program.show({ ...STANDING, record: null, equation: null, position: 5 });
  expect([slider.max, slider.value]).toEqual(['5', '5']);
});

test('goes to a run of the loop, and back where there is none', () => {
  const { program, element, events } = shown();
  enter(input(element, 'Iteration'), '99');
  expect(events.onIteration).toHaveBeenCalledWith(99);
  program.fail('there is no such run');
  expect(status(element)).toMatch(/0 of 5, .*there is no such run$/);
  expect(input(element, 'Iteration').value).toBe('3');
});

test('moves the innermost program alone', () => {
  const { program, element } = shown({ ...STANDING, isInnermost: false });
  expect(input(element, 'Equation').disabled).toBe(true);
  expect(input(element, 'Iteration').disabled).toBe(true);
  program.show({ ...STANDING, record: null });
  expect(input(element, 'Equation').disabled).toBe(false);
});

test('edits the options of a breakpoint', () => {
  const { program, element, events } = shown(null);
  program.showBreakpoints([BREAKPOINT], 'isnan', null);
  expect(element.querySelector('fieldset')!.textContent).toContain(BREAKPOINT.message);
  const [condition, hits] = element.querySelectorAll<HTMLInputElement>('fieldset input');
  expect(hits!.value).toBe('% 3');
  enter(condition!, 'x > 3');
  expect(events.onOptions).toHaveBeenCalledWith({ ...BREAKPOINT, condition: 'x > 3' });
  // A second change counts the first, which the kernel has not listed yet.
  enter(hits!, '5');
  expect(events.onOptions).toHaveBeenLastCalledWith({
    ...BREAKPOINT,
    condition: 'x > 3',
    hitCondition: '5',
  });
  const fieldset = element.querySelector('fieldset');
  program.showBreakpoints([{ ...BREAKPOINT, condition: 'x > 4', message: '' }], 'isnan', null);
  expect(element.querySelector('fieldset')).toBe(fieldset);
  expect([condition!.value, fieldset!.querySelector('p')!.hidden]).toEqual(['x > 4', true]);
  const watch = input(element, 'Stop before');
  expect(watch.value).toBe('isnan');
  enter(watch, '');
  expect(events.onWatch).toHaveBeenCalledWith('');
  program.showBreakpoints([], null, null);
  expect(element.querySelector('fieldset')).toBeNull();
});

const VARIABLES = {
  ...STANDING,
  record: null,
  variables: [
    { name: 'y', type: 'f32[2,3,4]', canSet: true },
    { name: 'w', type: 'f32[3]', canSet: false },
  ],
};
const options = (element: HTMLElement): HTMLElement[] => [
  ...element.querySelectorAll<HTMLElement>('[role="option"]'),
];

test('draws a variable at a slice, and keeps it from step to step', async () => {
  const { program, element, events } = shown();
  program.show(VARIABLES);
  expect(options(element).map(each => each.textContent)).toEqual(['y f32[2,3,4]', 'w f32[3]']);
  options(element)[0]!.click();
  await settled();
  expect(events.onFigure).toHaveBeenCalledWith('y', []);
  const figure = element.querySelector('.pellucid-variables-figure > div')!;
  expect(figure.shadowRoot!.textContent).toContain(values.type);
  const where = element.querySelector<HTMLElement>('.pellucid-variables-placement')!;
  expect(where.hidden).toBe(false);
  expect(where.querySelector('div')!.shadowRoot!.textContent).toContain('devices');
  enter(input(element, 'Index along dimension 0'), '1');
  await settled();
  expect(events.onFigure).toHaveBeenLastCalledWith('y', [1]);
  program.show({ ...VARIABLES, version: 'v2' });
  await settled();
  expect(options(element)[0]!.getAttribute('aria-selected')).toBe('true');
  expect(events.onFigure).toHaveBeenCalledTimes(3);
  options(element)[1]!.click();
  await settled();
  expect(where.hidden).toBe(true);
  options(element)[1]!.click();
  await settled();
  expect(element.querySelector('.pellucid-variables-figure')!.childElementCount).toBe(0);
});

test('sets a variable of the innermost program, and says what failed', async () => {
  const { program, element, events } = shown();
  program.show(VARIABLES);
  options(element)[1]!.click();
  await settled();
  expect(input(element, 'Value of w').parentElement!.hidden).toBe(true);
  options(element)[0]!.click();
  await settled();
  const field = input(element, 'Value of y');
  expect(field.parentElement!.hidden).toBe(false);
  enter(field, 'y * 0');
  await settled();
  expect(events.onSet).toHaveBeenCalledWith('y', 'y * 0');
  expect(field.value).toBe('');
  events.onSet.mockRejectedValueOnce(new Error('an edited value has the type of its variable'));
  enter(field, '1');
  await settled();
  expect(element.querySelector('[role="alert"]')!.textContent).toContain('an edited value');
  expect(field.value).toBe('1');
});

test('chooses a position of a shard_map', () => {
  const { program, element, events } = shown();
  program.show({ ...VARIABLES, positions: ['position x=0', 'position x=1'], chosen: 1 });
  const select = element.querySelector('select')!;
  expect(select.value).toBe('1');
  select.value = '';
  select.dispatchEvent(new Event('change'));
  expect(events.onPosition).toHaveBeenCalledWith(null);
  program.show(VARIABLES);
  expect(select.parentElement!.hidden).toBe(true);
});

test('chooses a lane of each batch', () => {
  const { program, element, events } = shown();
  program.show({ ...VARIABLES, batches: [32, 4], lane: [3, null] });
  const [first, second] = [0, 1].map(i =>
    element.querySelector<HTMLInputElement>(`input[aria-label='Lane of batch ${i}']`)!,
  );
  expect([first!.value, second!.value, first!.max]).toEqual(['3', '', '31']);
  second!.value = '2';
  second!.dispatchEvent(new Event('change'));
  expect(events.onLane).toHaveBeenCalledWith([3, 2]);
  program.show({ ...VARIABLES, batches: [32, 4], lane: [3, 2] });
  expect(second!.isConnected && second!.value).toBe('2'); // it keeps the focus
  program.show(VARIABLES);
  expect(second!.isConnected).toBe(false);
});

test('shows and changes what holds for all stops', () => {
  const { program, element, events } = shown();
  const budget = element.querySelector<HTMLInputElement>("input[aria-label^='MiB']")!;
  const inTrace = element.querySelector<HTMLInputElement>("input[type='checkbox']")!;
  program.showBreakpoints([], null, { budget: 1 << 30, stopsInTrace: false });
  expect([budget.value, inTrace.checked]).toEqual(['1024', false]);
  inTrace.checked = true;
  inTrace.dispatchEvent(new Event('change', { bubbles: true }));
  expect(events.onSettings).toHaveBeenCalledWith({ budget: 1 << 30, stopsInTrace: true });
});

test('a stop in a kernel goes to another program of its grid, and shows the blocks of this one', async () => {
  const grid = { position: [1, 2, 3], sizes: [4, 4, 4] };
  const { events, program, element } = shown({ ...STANDING, iteration: null, grid });
  const fields = [...element.querySelectorAll<HTMLInputElement>('.pellucid-stopped-program input')];
  expect(fields.map(each => each.value)).toEqual(['1', '2', '3']);
  fields[1]!.value = '0';
  fields[1]!.dispatchEvent(new Event('change'));
  expect(events.onProgram).toHaveBeenCalledWith([1, 0, 3]);
  expect(events.onGrid).not.toHaveBeenCalled();
  const blocks = element.querySelector<HTMLDetailsElement>('.pellucid-stopped-blocks')!;
  blocks.open = true;
  blocks.dispatchEvent(new Event('toggle'));
  await settled();
  const drawn = element.querySelector('.pellucid-stopped-grid > div')!.shadowRoot!;
  expect(drawn.querySelector('.pl-grid-program')!.textContent).toContain('Program 27 of 64');
  program.show({ ...STANDING, version: 'v2', grid: null });
  expect(blocks.hidden).toBe(true);
});

test('the cores of a simulated kernel are a choice, by click and by arrow keys', () => {
  const { events } = shown({
    ...STANDING,
    cores: [
      { name: 'device 0', line: 14, state: 'its turn', inFlight: ['copy of `x`'], isChosen: true },
      { name: 'device 1', line: 12, state: 'waits for 2', inFlight: [], isChosen: false },
    ],
  });
  const [first, second] = document.querySelectorAll<HTMLElement>('[role=radio]');
  expect(first!.textContent).toBe('device 0line 14its turn; in flight: copy of `x`');
  expect([first!.ariaChecked, second!.getAttribute('aria-checked')]).toContain('false');
  second!.click();
  expect(events.onCore).toHaveBeenLastCalledWith(1);
  first!.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowDown', bubbles: true }));
  expect(events.onCore).toHaveBeenCalledTimes(2);
  stopped!.show({ ...STANDING, version: 'v2' });
  expect(document.querySelector<HTMLElement>('.pellucid-cores')!.hidden).toBe(true);
});
