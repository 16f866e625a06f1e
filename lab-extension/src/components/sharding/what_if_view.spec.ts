// @vitest-environment jsdom
import { beforeAll, describe, expect, it, vi } from 'vitest';

import type { WhatIfRecord } from '../../generated/introspect';
import { installPage, place } from '../../testing/dom';
import { sample } from '../../testing/samples';
import type { NotebookLines } from '../source_link';
import { mount, type Mounted } from '../view';
import type { PlacementRequest, WhatIfView } from './what_if_view';

beforeAll(installPage);

const record = sample<WhatIfRecord>('what_if');

function mounted(
  onPlacement?: (request: PlacementRequest) => void,
  notebook?: NotebookLines,
): { readonly root: ShadowRoot; readonly view: Mounted } {
  const host = place();
  const view = mount(host, record, {
    ...(onPlacement === undefined ? {} : { onPlacement }),
    ...(notebook === undefined ? {} : { notebook }),
  });
  return { root: host.shadowRoot!, view };
}

function control<T extends HTMLElement>(root: ShadowRoot, label: string): T {
  return root.querySelector<T>(`[aria-label="${label}"]`)!;
}

describe('a function over another mesh', () => {
  it('has costs, exchanges and the fastest placements without controls where nobody answers', () => {
    const { root } = mounted();
    expect(root.textContent).toContain('data=16, model=4 · 64 devices');
    expect(root.textContent).toContain('data=8, model=8 · 64 devices');
    expect(root.textContent).toContain('Fastest placements');
    expect(root.querySelectorAll('input, button')).toHaveLength(0);
    expect(root.textContent).toContain('figure.change(mesh, specs)');
  });

  it('has one column for how arguments lie today', () => {
    const { root, view } = mounted(vi.fn());
    const heads = (): string[] =>
      Array.from(root.querySelectorAll('[aria-label="Costs"] th'), each => each.textContent ?? '');
    expect(heads()).toEqual(['', 'Today', 'What if']);
    view.show({ ...record, placement: record.today });
    expect(heads()).toEqual(['', 'Today']);
    expect(root.textContent).not.toContain('figure.change');
  });

  it('says why nobody answers, and has no controls from then on', () => {
    const { root, view } = mounted(vi.fn());
    (view.view() as WhatIfView).unanswered('this figure is gone');
    expect(root.querySelector('[role="alert"]')!.textContent).toBe('this figure is gone');
    expect(root.querySelectorAll('input, button')).toHaveLength(0);
    expect(root.textContent).toContain('figure.change(mesh, specs)');
  });

  it('asks for sizes that are no powers of two', () => {
    const ask = vi.fn();
    const { root } = mounted(ask);
    const field = control<HTMLInputElement>(root, 'number of parts along model');
    field.valueAsNumber = 6;
    field.dispatchEvent(new Event('change'));
    expect(ask.mock.calls[0]![0].axes).toEqual([
      ['data', 8],
      ['model', 6],
    ]);
  });

  it('renames an axis wherever it divides something', () => {
    const ask = vi.fn();
    const { root } = mounted(ask);
    control(root, 'Rename data').click();
    const field = control<HTMLInputElement>(root, 'new name of data');
    field.value = 'batch';
    field.dispatchEvent(new Event('blur'));
    const request = ask.mock.calls[0]![0] as PlacementRequest;
    expect(request.axes[0]).toEqual(['batch', 8]);
    expect(JSON.stringify(request.dims)).toBe(
      JSON.stringify(record.placement.dim_axes).replaceAll('data', 'batch'),
    );
  });

  it('adds an axis of one part, and takes one away with all that it divides', () => {
    const ask = vi.fn();
    const { root } = mounted(ask);
    root.querySelector<HTMLElement>('[data-key="add"]')!.click();
    const field = control<HTMLInputElement>(root, 'name of the new axis');
    field.value = 'pipe';
    field.dispatchEvent(new Event('blur'));
    expect(ask.mock.calls[0]![0].axes[2]).toEqual(['pipe', 1]);
    control(root, 'Remove model').click();
    const request = ask.mock.calls[1]![0] as PlacementRequest;
    expect(request.axes).toEqual([['data', 8]]);
    expect(JSON.stringify(request.dims)).not.toContain('model');
  });

  it('asks for nothing where a name is taken or given up', () => {
    const ask = vi.fn();
    const { root } = mounted(ask);
    control(root, 'Rename data').click();
    const field = control<HTMLInputElement>(root, 'new name of data');
    field.value = 'model';
    field.dispatchEvent(new Event('blur'));
    expect(ask).not.toHaveBeenCalled();
    expect(root.querySelectorAll('.pl-mesh-axis')).toHaveLength(2);
  });

  it('links the lines of exchanges that stand in cells', () => {
    const go = vi.fn();
    const [first] = record.exchanges;
    const cell = { ...first!.source!, cell_id: 'a', execution_count: 3, name: 'In[3]' };
    const host = place();
    mount(
      host,
      { ...record, exchanges: [{ ...first!, source: cell }] },
      { notebook: { go, stateOf: () => 'here' } },
    );
    host.shadowRoot!.querySelector<HTMLElement>('.pl-place-link')!.click();
    expect(go.mock.calls[0]![0]).toMatchObject({ cellId: 'a', line: first!.line });
  });
});
