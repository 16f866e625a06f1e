// @vitest-environment jsdom
import { beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { listingOf } from '../../records/listing';
import { installPage, place, settled } from '../../testing/dom';
import { sampleProgram } from '../../testing/samples';
import { LinesView, ROW_HEIGHT } from './lines_view';

const HEIGHT = 400;
const onHover = vi.fn();
const onClick = vi.fn();

async function view(name: string): Promise<LinesView> {
  const lines = new LinesView(name, listingOf(sampleProgram(name)), { onHover, onClick });
  Object.defineProperty(lines.element, 'clientHeight', { value: HEIGHT });
  place().append(lines.element);
  lines.refresh();
  await settled();
  return lines;
}

function rows(lines: LinesView): HTMLElement[] {
  return [...lines.element.querySelectorAll<HTMLElement>('.pl-line')];
}

function row(lines: LinesView, text: string): HTMLElement {
  const found = rows(lines).find(each => each.textContent!.includes(text));
  expect(found, text).toBeDefined();
  return found!;
}

beforeAll(installPage);
beforeEach(() => {
  onHover.mockClear();
  onClick.mockClear();
});

describe('lines', () => {
  test('exist as elements only where they are seen', async () => {
    const lines = await view('equations_10k');
    const most = HEIGHT / ROW_HEIGHT + 14;
    expect(rows(lines).length).toBeLessThan(most);
    expect(rows(lines).length).toBeGreaterThan(HEIGHT / ROW_HEIGHT);
    lines.element.scrollTop = 5000 * ROW_HEIGHT;
    lines.element.dispatchEvent(new Event('scroll'));
    await settled();
    expect(rows(lines).length).toBeLessThan(most);
    expect(Number(rows(lines)[0]!.dataset['line'])).toBeGreaterThan(5000);
    lines.dispose();
  });

  test('stay drawn while a notebook takes their cell out of the page', async () => {
    const sizes: ResizeObserverCallback[] = [];
    vi.spyOn(globalThis, 'ResizeObserver').mockImplementation(function (changed) {
      sizes.push(changed);
      return { observe: () => undefined, unobserve: () => undefined, disconnect: () => undefined };
    });
    const lines = new LinesView('lines', listingOf(sampleProgram('equations_10k')), {
      onHover,
      onClick,
    });
    let height = HEIGHT;
    Object.defineProperty(lines.element, 'clientHeight', { get: () => height });
    place().append(lines.element);
    sizes.forEach(changed => changed([], {} as ResizeObserver));
    height = 0;
    await settled();
    expect(rows(lines).length).toBeGreaterThan(HEIGHT / ROW_HEIGHT);
    lines.dispose();
    vi.restoreAllMocks();
  });

  test('keep their elements while they stay in sight', async () => {
    const lines = await view('mlp');
    const before = rows(lines);
    lines.setLinked([3]);
    await settled();
    expect(rows(lines)).toEqual(before);
    expect(row(lines, 'tanh').className).toContain('pl-linked');
    lines.element.scrollTop = 4 * ROW_HEIGHT;
    lines.element.dispatchEvent(new Event('scroll'));
    await settled();
    expect(rows(lines).filter(each => before.includes(each)).length).toBeGreaterThan(20);
  });

  test('tell what is pointed at and what is clicked', async () => {
    const lines = await view('mlp');
    const line = row(lines, 'tanh');
    line.dispatchEvent(new Event('pointermove', { bubbles: true }));
    expect(Array.from(onHover.mock.lastCall![0] as number[])).toEqual([3]);
    line.dispatchEvent(new Event('click', { bubbles: true }));
    expect(onClick.mock.lastCall![0]).toEqual([3]);
    lines.element.dispatchEvent(new Event('pointerleave'));
    expect(onHover.mock.lastCall![0]).toEqual([]);
  });

  test('light up a value wherever it is named', async () => {
    const lines = await view('mlp');
    const name = [...row(lines, 'hidden:f32').querySelectorAll('.pl-t-name')].find(
      each => each.textContent === 'hidden',
    )!;
    name.dispatchEvent(new Event('pointermove', { bubbles: true }));
    await settled();
    const same = [...lines.element.querySelectorAll('.pl-same-value')];
    expect(same.map(each => each.textContent)).toEqual(['hidden', 'hidden']);
  });

  test('fold a long list of inputs until it is opened', async () => {
    const lines = await view('transformer');
    expect(rows(lines).some(each => each.textContent!.includes('params.head'))).toBe(false);
    row(lines, '147 inputs').querySelector<HTMLElement>('.pl-folded')!.click();
    await settled();
    expect(row(lines, 'params.head')).toBeDefined();
    expect(onClick).not.toHaveBeenCalled();
  });

  test('come into sight when asked, out of a fold too', async () => {
    const lines = await view('transformer');
    lines.showLine(20);
    await settled();
    expect(rows(lines).some(each => Number(each.dataset['line']) === 20)).toBe(true);
    lines.setLinked([800], true);
    await settled();
    expect(lines.element.scrollTop).toBeGreaterThan(700 * ROW_HEIGHT);
    expect(lines.element.querySelector('.pl-linked')).not.toBeNull();
  });

  test('are walked through by keyboard', async () => {
    const lines = await view('mlp');
    const press = (key: string): boolean =>
      lines.element.dispatchEvent(new KeyboardEvent('keydown', { key, cancelable: true }));
    for (let i = 0; i < 12; i++) {
      press('ArrowDown');
    }
    await settled();
    const current = lines.element.getAttribute('aria-activedescendant')!;
    expect(lines.element.querySelector(`#${current}`)!.textContent).toContain('tanh');
    press('Enter');
    expect(onClick.mock.lastCall![0]).toEqual([3]);
  });
});
