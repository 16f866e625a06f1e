// @vitest-environment jsdom
import { afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import type { ProgramRecord } from '../generated/introspect';
import { installPage, place, settled } from '../testing/dom';
import { PROGRAMS, SHARDINGS, sample, sampleText } from '../testing/samples';
import type { ProgramExplorer } from './explorer/program_explorer';
import { GraphModel } from './graph/model';
import { mount, type Mounted } from './view';

const OTHERS = [
  'sharded_function',
  'sharded_function_4096',
  'sharded_function_10k',
  'lens',
  'ladder',
  'diff',
  'diff_large',
  'diff_nested',
  'profile',
  'profile_empty',
  'profile_10k',
  'profile_8_devices',
  'array_values',
  'array_values_parts',
  'array_values_deleted',
  'divergence',
  'divergence_equal',
  'divergence_10k',
  'gradient',
  'gradient_empty',
  'finding',
  'unequal_runs',
  'recording',
  'recording_empty',
];

let mounted: Mounted | null = null;

async function show(record: unknown, text = ''): Promise<ShadowRoot> {
  const host = place();
  mounted = mount(host, record, { text });
  await mounted.view()?.ready;
  await settled();
  return host.shadowRoot!;
}

beforeAll(installPage);

afterEach(() => {
  mounted?.dispose();
  mounted = null;
  document.body.replaceChildren();
});

describe('every record', () => {
  test.each([...PROGRAMS, ...SHARDINGS, ...OTHERS])('%s has a view', async name => {
    const errors = vi.spyOn(console, 'error').mockImplementation(() => undefined);
    const root = await show(sampleText(name));
    expect(mounted!.view()).not.toBeNull();
    expect(root.querySelector('.pl-failure')).toBeNull();
    expect(root.querySelectorAll('script, img, iframe, object, embed, link')).toHaveLength(0);
    expect(errors).not.toHaveBeenCalled();
    errors.mockRestore();
  });

  test.each(['light', 'dark'])('follows the page’s %s theme', async theme => {
    document.body.dataset['jpThemeLight'] = String(theme === 'light');
    const root = await show(sampleText('mlp'));
    expect(root.querySelector<HTMLElement>('.pl-root')!.dataset['theme']).toBe(theme);
    document.body.dataset['jpThemeLight'] = String(theme !== 'light');
    await settled();
    expect(root.querySelector<HTMLElement>('.pl-root')!.dataset['theme']).not.toBe(theme);
    delete document.body.dataset['jpThemeLight'];
  });

  test('makes place for another', async () => {
    const root = await show(sampleText('mlp'));
    mounted!.show(sampleText('sharding_simple'));
    expect(root.querySelector('.pl-array')).not.toBeNull();
    mounted!.show(sampleText('empty'));
    expect(root.querySelector('.pl-status')!.textContent).toBe('no equations');
  });
});

describe('a view that fails', () => {
  test.each([
    ['is no JSON', '{', 'is no JSON'],
    ['is newer', '{"kind": "program", "schema_version": 99}', 'a newer pellucid can show it'],
    ['is of an unknown kind', '{"kind": "poem", "schema_version": 1}', 'have no view'],
    ['lacks its tables', '{"kind": "program", "schema_version": 1}', 'is not a list of texts'],
  ])('because the record %s leaves the text and says why', async (_, record, message) => {
    const root = await show(record, '{ lambda <b>x</b> }');
    expect(root.querySelector('[role=alert]')!.textContent).toContain(message);
    expect(root.querySelector('.pl-fallback')!.textContent).toBe('{ lambda <b>x</b> }');
    expect(root.querySelector('b')).toBeNull();
  });

  test('because its layout fails later leaves the text, too', async () => {
    const layout = vi.spyOn(GraphModel.prototype, 'openComfortably');
    layout.mockRejectedValueOnce(new Error('no room'));
    const host = place();
    mounted = mount(host, sampleText('mlp'), { text: 'as text' });
    await settled();
    const root = host.shadowRoot!;
    expect(root.querySelector('[role=alert]')!.textContent).toContain('no room');
    expect(root.querySelector('.pl-fallback')!.textContent).toBe('as text');
    layout.mockRestore();
  });

  test('comes back with the next good record', async () => {
    const root = await show('{');
    mounted!.show(sampleText('mlp'));
    expect(root.querySelector('.pl-failure')).toBeNull();
    expect(root.querySelector('.pl-explorer')).not.toBeNull();
  });
});

describe('the explorer', () => {
  const explorer = (): ProgramExplorer => mounted!.view() as unknown as ProgramExplorer;

  test('lists its boxes for screen readers', async () => {
    const root = await show(sampleText('mlp'));
    await settled();
    const items = [...root.querySelectorAll('[role=treeitem]')];
    expect(items.length).toBeGreaterThan(15);
    expect(items.some(item => item.textContent!.includes('hidden:f32[32,128] = tanh'))).toBe(true);
    const open = (title: string): string | null =>
      items.find(item => item.textContent!.startsWith(title))!.getAttribute('aria-expanded');
    expect([open('model'), open('loss')]).toEqual(['true', 'false']);
    for (const control of root.querySelectorAll('button, input, select, canvas[tabindex]')) {
      const name = control.getAttribute('aria-label') ?? control.textContent;
      expect(name?.trim(), control.className).not.toBe('');
    }
  });

  test('keeps the pane that was chosen before its width is known', async () => {
    const resizes = new Map<Element, () => void>();
    vi.stubGlobal(
      'ResizeObserver',
      class {
        constructor(private readonly callback: (entries: unknown[]) => void) {}
        observe(target: Element): void {
          resizes.set(target, () => this.callback([{ contentRect: { width: 420 } }]));
        }
        disconnect(): void {}
      },
    );
    const root = await show(sampleText('mlp'));
    vi.unstubAllGlobals();
    root.querySelector<HTMLElement>('.pl-tab-text')!.click();
    resizes.get(root.querySelector('.pl-explorer')!)!();
    expect(root.querySelector('.pl-narrow')).not.toBeNull();
    expect(root.querySelector('[role=tab][aria-selected=true]')!.textContent).toBe('Text');
  });

  test('finds, steps through and counts', async () => {
    const root = await show(sampleText('transformer'));
    const box = root.querySelector<HTMLInputElement>('.pl-search')!;
    box.value = 'dot_general attention';
    box.dispatchEvent(new Event('input'));
    expect(root.querySelector('.pl-search-count')!.textContent).toBe('72');
    box.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter' }));
    await settled();
    expect(root.querySelector('.pl-search-count')!.textContent).toBe('1 of 72');
    expect(explorer().graph.selected!.title).toBe('dot_general');
    box.value = 'nothing of the kind';
    box.dispatchEvent(new Event('input'));
    expect(root.querySelector('.pl-search-count')!.textContent).toBe('0');
  });

  test('is moved through by keyboard', async () => {
    const root = await show(sampleText('transformer'));
    const canvas = root.querySelector<HTMLCanvasElement>('.pl-graph-canvas')!;
    const press = (key: string): boolean =>
      canvas.dispatchEvent(new KeyboardEvent('keydown', { key, cancelable: true }));
    const title = (): string | undefined => explorer().graph.selected?.title;
    for (let step = 0; step < 4 && title() !== 'layer_0 … layer_11'; step++) {
      press('ArrowDown');
    }
    expect(title()).toBe('layer_0 … layer_11');
    const wasOpen = explorer().graph.selected!.isOpen;
    press('Enter');
    await settled();
    expect(explorer().graph.selected!.isOpen).toBe(!wasOpen);
    if (wasOpen) {
      press('Enter');
      await settled();
    }
    press('i');
    expect(explorer().graph.selected!.parent!.title).toBe('layer_0 … layer_11');
    press(']');
    await settled();
    expect(explorer().model.boxes.find(box => box.kind === 'fold')!.copy).toBe(1);
    press('o');
    press('Escape');
    expect(title()).toBeUndefined();
    expect(press('x')).toBe(true);
    expect(press('/')).toBe(false);
    expect(root.activeElement).toBe(root.querySelector('.pl-search'));
  });

  test('follows uses one after the other', async () => {
    const root = await show(sampleText('mlp'));
    const canvas = root.querySelector<HTMLCanvasElement>('.pl-graph-canvas')!;
    await explorer().model.openAll();
    const sub = explorer().model.boxes.find(box => box.subtitle.startsWith('shifted'))!;
    explorer().graph.select(sub);
    const visited: (string | undefined)[] = [];
    for (let i = 0; i < 3; i++) {
      canvas.dispatchEvent(new KeyboardEvent('keydown', { key: 'u' }));
      await settled();
      visited.push(explorer().graph.selected?.title);
    }
    expect(visited).toEqual(['exp', 'sub', 'exp']);
  });

  test('shows what is known of an equation, with links', async () => {
    const root = await show(sampleText('mlp'));
    await explorer().goTo(3);
    const details = root.querySelector('.pl-inspector')!;
    expect(details.querySelector('h3')!.textContent).toBe('tanh');
    expect(details.textContent).toContain('hidden:f32[32,128] = tanh i');
    expect(details.textContent).toContain('In[3], line 5, in model');
    expect(details.textContent).toContain('4.10 KFLOP (estimate)');
    const links = [...details.querySelectorAll<HTMLButtonElement>('.pl-link')];
    expect(links.map(link => link.textContent)).toEqual(['add', 'dot_general']);
    links[1]!.click();
    await settled();
    expect(explorer().graph.selected!.title).toBe('dot_general');
  });

  test('keeps what an equation depends on and lets the rest fade', async () => {
    const root = await show(sampleText('mlp'));
    await explorer().goTo(3);
    const [upstream] = [...root.querySelectorAll<HTMLButtonElement>('.pl-action')];
    upstream!.click();
    const bar = root.querySelector<HTMLElement>('.pl-focus-bar')!;
    expect(bar.hidden).toBe(false);
    expect(bar.textContent).toContain('tanh depends on 3 other equations');
    bar.querySelector('button')!.click();
    expect(bar.hidden).toBe(true);
  });

  test('tells the page what is pointed at', async () => {
    const host = place();
    const onHover = vi.fn();
    mounted = mount(host, sampleText('mlp'), { onHover });
    await mounted.view()!.ready;
    explorer().highlight([[3]]);
    expect(onHover).not.toHaveBeenCalled();
    await explorer().goTo(3);
    const link = host.shadowRoot!.querySelector<HTMLButtonElement>('.pl-link')!;
    link.dispatchEvent(new Event('pointerenter'));
    expect(onHover.mock.lastCall![1]).toEqual([2]);
    expect((onHover.mock.lastCall![0] as ProgramRecord).key).toBe('mlp');
  });

  test('shows hostile texts as they are', async () => {
    const root = await show(sampleText('hostile'));
    const record = sample<ProgramRecord>('hostile');
    expect(root.querySelector('.pl-title strong')!.textContent).toBe(record.name);
    for (let equation = 0; equation < record.equations.id.length; equation++) {
      await explorer().goTo(equation);
    }
    expect(root.querySelectorAll('script, img, svg[onload], b')).toHaveLength(0);
    expect((globalThis as Record<string, unknown>)['__hostile']).toBeUndefined();
  });
});
