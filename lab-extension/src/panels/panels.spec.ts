// @vitest-environment jsdom
import { afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import type { FunctionEntryRecord, LiveArrayRecord, MissRecord } from '../generated/introspect';
import type { ProgressRecord, DevicesState, ProgramsState, State } from '../generated/kernel';
import { installPage, place } from '../testing/dom';
import { mount } from '../components/view';
import { devices } from './devices';
import { PANELS } from './index';
import { panelIn, type Connection, type Panel, type PanelHost } from './panel';
import { programs } from './programs';

const miss: MissRecord = {
  function: 'layer',
  source: null,
  line: 6,
  cell: 'In[2]',
  entry_count: 2,
  count: 1,
  seconds: 0.1,
  phases: [
    { name: 'trace', seconds: 0.001 },
    { name: 'compile', seconds: 0.099 },
  ],
  causes: [
    {
      part: 'shape',
      path: 'x',
      before: 'f32[3]',
      after: 'f32[4]',
      advice: 'Pad to a fixed shape.',
    },
  ],
  schema_version: 1,
  kind: 'miss',
};

const entry: FunctionEntryRecord = {
  id: 41,
  arguments: ['f32[4]', '<b>bold</b>'],
  equation_count: 2,
  executable_count: 1,
  miss,
};

const array: LiveArrayRecord = {
  id: 7,
  type: 'f32[8,8]',
  sharding: "P('data')",
  device_ids: [0, 1],
  bytes_per_device: 128,
  total_bytes: 256,
  owners: ['weights'],
  holders: ['sys.last_value: w in f'],
  source: 'In[1]',
  line: 3,
  age_s: null,
};

const programsState: ProgramsState = {
  functions: {
    functions: [
      {
        id: 1,
        name: 'layer',
        source: null,
        line: null,
        entries: [entry],
        signature: '(x)',
        schema_version: 1,
        kind: 'function',
      },
    ],
    schema_version: 1,
    kind: 'functions',
  },
  panel: 'programs',
  kind: 'state',
};

function devicesState(arrays: LiveArrayRecord[] = [array]): DevicesState {
  const device = { process_index: 0, platform: 'cpu', device_kind: 'cpu', peak_bytes: null };
  return {
    memory: {
      devices: [0, 1].map(device_id => ({
        ...device,
        device_id,
        in_use_bytes: 128,
        limit_bytes: null,
        basis: 'estimate' as const,
      })),
      arrays,
      schema_version: 1,
      kind: 'memory',
    },
    array_count: arrays.length + 3,
    meshes: [],
    device_note: 'Another number',
    panel: 'devices',
    kind: 'state',
  };
}

function ready(...states: State[]): Connection & { status: 'ready' } {
  const byPanel = new Map(states.map(state => [state.panel as string, state]));
  return { status: 'ready', kernel: 'Pellucid', states: byPanel, busy: null };
}

const silent: PanelHost = {
  ask: () => Promise.resolve(null),
  open: () => Promise.resolve(),
  run: action => void action(),
};

/** A panel that was shown one connection after the other. */
function shown(panel: Panel, host: PanelHost, ...connections: Connection[]): ShadowRoot {
  const at = place();
  const drawing = panelIn(at, panel, host);
  connections.forEach(each => drawing.show(each));
  return at.shadowRoot!;
}

function button(root: ShadowRoot, name: string): HTMLButtonElement {
  return root.querySelector<HTMLButtonElement>(`button[aria-label="${name}"]`)!;
}

beforeAll(installPage);
afterEach(() => document.body.replaceChildren());

test('each panel asks for a state of its own, under a name of its own', () => {
  expect(PANELS.map(panel => panel.name)).toEqual(['programs', 'devices']);
  const draw = PANELS.map(panel => shown(panel, silent, ready(programsState)).textContent);
  expect(draw[0]).toContain('layer');
  expect(draw[1]).toContain('Waiting for the kernel');
});

describe('the panel of programs', () => {
  test('says for each program what it takes, what it cost and why it was made', () => {
    const root = shown(programs, silent, ready(programsState));
    const text = root.querySelector('.pl-entry')!.textContent;
    expect(text).toContain('(f32[4], <b>bold</b>)');
    expect(text).toContain('traced in 1 ms · compiled in 99 ms · called in In[2], line 6');
    expect(text).toContain('x was f32[3], is f32[4]');
  });

  test.each([
    [
      { ...miss, phases: [{ name: 'load', seconds: 0.2 }] },
      'loaded from disk in 200 ms · called in In[2], line 6',
    ],
    [{ ...miss, phases: [{ name: 'find', seconds: 0.002 }] }, 'found compiled before in 2 ms'],
    [null, '2 equations'],
  ])('says where a program was found', (found, text) => {
    const [layer] = programsState.functions.functions;
    const functions = [{ ...layer!, entries: [{ ...entry, miss: found }] }];
    const state = { ...programsState, functions: { ...programsState.functions, functions } };
    const root = shown(programs, silent, ready(state));
    expect(root.querySelector('.pl-entry')!.textContent).toContain(text);
  });

  test('opens a program, and keeps closed what was closed', async () => {
    const record = { name: 'layer' } as never;
    const host = { ...silent, ask: vi.fn(() => Promise.resolve(record)), open: vi.fn() };
    const at = place();
    const drawing = panelIn(at, programs, host);
    drawing.show(ready(programsState));
    const root = at.shadowRoot!;
    button(root, 'Open HLO of layer(f32[4], <b>bold</b>)').click();
    await vi.waitFor(() => expect(host.open).toHaveBeenCalledWith(record, 'HLO · layer'));
    expect(host.ask).toHaveBeenCalledWith({
      kind: 'show_program',
      entry: entry.id,
      view: 'hlo',
    });
    const details = root.querySelector('details')!;
    details.open = false;
    details.dispatchEvent(new Event('toggle'));
    drawing.show(ready({ ...programsState }));
    expect(root.querySelector('details')!.open).toBe(false);
  });

  test('keeps the focus on a control when another state is drawn', () => {
    const at = place();
    const drawing = panelIn(at, programs, silent);
    drawing.show(ready(programsState));
    const root = at.shadowRoot!;
    root.querySelector('summary')!.focus();
    drawing.show(ready({ ...programsState }));
    expect(root.activeElement).toBe(root.querySelector('summary'));
    const name = 'Open HLO of layer(f32[4], <b>bold</b>)';
    button(root, name).focus();
    drawing.show(ready({ ...programsState }));
    expect(root.activeElement).toBe(button(root, name));
    const terms = [...root.querySelectorAll<HTMLElement>('.pl-term')];
    terms.find(each => each.textContent === 'compiled')!.focus();
    drawing.show(ready({ ...programsState }));
    expect(root.activeElement!.isConnected).toBe(true);
    expect(root.activeElement!.firstChild!.textContent).toBe('compiled');
  });
});

describe('the panel of devices', () => {
  test('frees an array only after a second click', () => {
    vi.useFakeTimers();
    const ask = vi.fn(() => Promise.resolve(null));
    const root = shown(devices, { ...silent, ask }, ready(devicesState()));
    button(root, 'Free weights').click();
    vi.advanceTimersByTime(5000);
    button(root, 'Free weights').click();
    expect(ask).not.toHaveBeenCalled();
    button(root, 'Really free weights').click();
    expect(ask).toHaveBeenCalledWith({ kind: 'free_array', array: array.id });
    vi.useRealTimers();
  });

  test('counts arrays that it does not list, and offers to let go only of what is held', () => {
    const root = shown(devices, silent, ready(devicesState()));
    expect(root.textContent).toContain('and 3 smaller arrays');
    expect(root.textContent).toContain('Free what errors');
    const free = devicesState([{ ...array, holders: [] }]);
    expect(shown(devices, silent, ready(free)).textContent).not.toContain('Free what errors');
  });
});

const step: ProgressRecord = {
  function: 'step',
  stage: 'compile',
  devices: '',
  equation_count: 3200,
  elapsed_seconds: 0.3,
  place: { source: 'In[4]', line: 7 },
  loop: { place: { source: 'In[4]', line: 2 }, iterations: 200 },
  cell_id: 'c4',
  is_by_tool: false,
  kind: 'progress',
};

describe('a long compilation', () => {
  test('is said with its time, and can be interrupted', () => {
    vi.useFakeTimers();
    const at = place();
    const interrupt = vi.fn();
    const panel = panelIn(at, programs, silent, interrupt);
    const before = ready(programsState);
    const line = at.shadowRoot!.querySelector<HTMLElement>('[role=status]')!;
    expect(line.hidden).toBe(true);
    panel.show({ ...before, busy: step });
    expect(line.textContent).toContain('Compiling step0.3 s');
    vi.advanceTimersByTime(1700);
    // Another state of the kernel does not begin it anew.
    panel.show({ ...ready({ ...programsState }), busy: step });
    vi.advanceTimersByTime(100);
    expect(line.hidden).toBe(false);
    expect(line.textContent).toContain('Compiling step2.1 s');
    expect(line.textContent).toContain('3,200 equations · called in In[4], line 7');
    expect(line.textContent).toContain('The loop in In[4], line 2 is unrolled: 200 iterations');
    line.querySelector('button')!.click();
    expect(interrupt).toHaveBeenCalledOnce();
    panel.show({ ...before, busy: null });
    expect(line.hidden).toBe(true);
    vi.useRealTimers();
  });
});

describe('a long wait', () => {
  const wait: ProgressRecord = {
    ...step,
    function: 'f32[200,200]',
    stage: 'wait',
    devices: 'cpu 0',
    equation_count: 0,
    loop: null,
  };
  const lineOf = (record: ProgressRecord): HTMLElement => {
    const at = place();
    panelIn(at, programs, silent).show({ ...ready(programsState), busy: record });
    return at.shadowRoot!.querySelector<HTMLElement>('[role=status]')!;
  };

  test('says for what, where and since when', () => {
    const line = lineOf(wait);
    expect(line.textContent).toContain('Waiting for f32[200,200]0.3 s');
    expect(line.textContent).toContain('on cpu 0 · needed in In[4], line 7');
    expect(line.querySelector('button')!.hidden).toBe(false);
  });

  test('of which nobody knows says what devices compute, and which line goes on', () => {
    const line = lineOf({ ...wait, stage: 'busy' });
    expect(line.textContent).toContain('Computing f32[200,200]');
    expect(line.textContent).toContain('on cpu 0 · while In[4], line 7 runs');
    expect(line.querySelector('button')!.hidden).toBe(false);
  });

  test('that was interrupted says what the device does, and what can be done', () => {
    const line = lineOf({ ...wait, stage: 'left' });
    expect(line.textContent).toContain('Still computing f32[200,200]');
    expect(line.textContent).toContain('until the kernel is restarted');
    expect(line.querySelector('button')!.hidden).toBe(true);
  });
});

test.each([
  [{ status: 'none' }, 'Open a notebook'],
  [{ status: 'waiting', kernel: 'K' }, 'run a cell with “import pellucid”'],
  [{ status: 'absent', kernel: 'K' }, '%load_ext pellucid_kernel'],
  [{ status: 'gone', kernel: 'K' }, 'The kernel has ended'],
] as [Connection, string][])('a panel without a state says why: %o', (connection, words) => {
  expect(shown(programs, silent, connection).textContent).toContain(words);
});

test('an error shows its lines, underlines what failed and hides the whole traceback', () => {
  const host = place();
  const source = {
    name: 'In[1]',
    path: 'p',
    cell_id: null,
    execution_count: 1,
    first_line: 1,
    lines: ['def f(a):', '    return a @ b'],
  };
  const frame = { source, line: 2, end_line: 2, column: 11, end_column: 16, function: 'f' };
  const record = {
    name: 'ShapeError',
    what: 'They differ.',
    got: ['argument 0: f32[2,3]'],
    where: null,
    do: 'Transpose one.',
    page: 'docs/errors.md#shapeerror',
    frames: [frame],
    traceback: 'Traceback …',
    schema_version: 1,
    kind: 'error',
  };
  const mounted = mount(host, record);
  const root = host.shadowRoot!;
  expect(root.querySelector('u')!.textContent).toBe('a @ b');
  expect(root.querySelector('details')!.open).toBe(false);
  expect(root.textContent).toContain('In[1], line 2, in f');
  expect(root.textContent).toContain('More: docs/errors.md#shapeerror');
  mounted.dispose();
});

test('an error about trees shows both sides, and marks what only one has', () => {
  const host = place();
  const difference = {
    path: "params['w']",
    left_title: 'got',
    left: 'tuple of 3',
    right_title: 'expected',
    right: 'tuple of <b>2</b>',
  };
  const record = {
    name: 'TreeStructureError',
    what: 'They differ.',
    got: ['as text'],
    differences: [difference],
    where: null,
    do: null,
    frames: [],
    traceback: '',
    schema_version: 1,
    kind: 'error',
  };
  const mounted = mount(host, record);
  const cells = [...host.shadowRoot!.querySelectorAll('td')].map(cell => cell.textContent);
  expect(cells).toEqual(["params['w']", 'tuple of 3', 'tuple of <b>2</b>']);
  const marked = [...host.shadowRoot!.querySelectorAll('mark')].map(each => each.textContent);
  expect(marked).toEqual(['3', '<b>2</b>']);
  mounted.dispose();
});

test('misses are listed with the newest first', () => {
  const host = place();
  const misses = [miss, { ...miss, function: 'newer' }];
  const mounted = mount(host, { misses, schema_version: 1, kind: 'misses' });
  const rows = [...host.shadowRoot!.querySelectorAll('tbody tr')].map(row => row.textContent);
  expect(rows[0]).toContain('newer');
  mounted.dispose();
});
