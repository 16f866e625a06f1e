import { describe, expect, test, vi } from 'vitest';
import { LayoutClient, type WorkerFactory } from './client';
import { layLevel, type LevelGraph, type LevelLayout } from './layered';
import { LayoutMemory, layNested, type NestedLevel } from './nested';

function graph(
  edges: readonly [number, number][],
  count: number,
  parts: Partial<LevelGraph> = {},
): LevelGraph {
  return {
    widths: new Float32Array(count).fill(80),
    heights: new Float32Array(count).fill(30),
    from: Int32Array.from(edges, ([from]) => from),
    to: Int32Array.from(edges, ([, to]) => to),
    pins: new Int8Array(count),
    fromPorts: new Float32Array(edges.length).fill(NaN),
    toPorts: new Float32Array(edges.length).fill(NaN),
    ...parts,
  };
}

/** A graph with edges from lower to higher nodes, the same for the same seed. */
function random(count: number, edgeCount: number, seed: number): LevelGraph {
  let state = seed;
  const next = (below: number): number => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return (state >> 8) % below;
  };
  const edges = new Map<string, [number, number]>();
  for (let i = 0; i < edgeCount; i++) {
    const from = next(count - 1);
    const to = Math.min(count - 1, from + 1 + next(12));
    edges.set(`${from} ${to}`, [from, to]);
  }
  const result = graph([...edges.values()], count);
  result.widths.forEach((_, node) => (result.widths[node] = 40 + next(120)));
  result.heights.forEach((_, node) => (result.heights[node] = 20 + next(60)));
  return result;
}

function overlaps({ widths, heights }: LevelGraph, { x, y }: LevelLayout): [number, number][] {
  const found: [number, number][] = [];
  for (let a = 0; a < widths.length; a++) {
    for (let b = a + 1; b < widths.length; b++) {
      const apart =
        x[a]! + widths[a]! <= x[b]! + 0.01 ||
        x[b]! + widths[b]! <= x[a]! + 0.01 ||
        y[a]! + heights[a]! <= y[b]! + 0.01 ||
        y[b]! + heights[b]! <= y[a]! + 0.01;
      if (!apart) {
        found.push([a, b]);
      }
    }
  }
  return found;
}

function path(layout: LevelLayout, edge: number): number[] {
  return Array.from(layout.points.subarray(layout.pointStarts[edge], layout.pointStarts[edge + 1]));
}

describe('a layered drawing', () => {
  test.each([1, 2, 3, 4, 5])('keeps boxes apart and edges going down (seed %i)', seed => {
    const level = random(60, 110, seed);
    const layout = layLevel(level);
    expect(overlaps(level, layout)).toEqual([]);
    level.from.forEach((from, edge) => {
      const to = level.to[edge]!;
      expect(layout.y[from]! + level.heights[from]!).toBeLessThan(layout.y[to]!);
      const points = path(layout, edge);
      expect(points.at(1)).toBeCloseTo(layout.y[from]! + level.heights[from]!, 1);
      expect(points.at(-1)).toBeCloseTo(layout.y[to]!, 1);
      const [start, end] = [points[0]!, points.at(-2)!];
      expect(start).toBeGreaterThanOrEqual(layout.x[from]! - 0.01);
      expect(start).toBeLessThanOrEqual(layout.x[from]! + level.widths[from]! + 0.01);
      expect(end).toBeGreaterThanOrEqual(layout.x[to]! - 0.01);
      expect(end).toBeLessThanOrEqual(layout.x[to]! + level.widths[to]! + 0.01);
    });
    layout.x.forEach((x, node) => {
      expect(x).toBeGreaterThanOrEqual(-0.01);
      expect(x + level.widths[node]!).toBeLessThanOrEqual(layout.width + 0.01);
    });
  });

  test('is the same every time', () => {
    expect(layLevel(random(40, 70, 9))).toEqual(layLevel(random(40, 70, 9)));
  });

  test('draws a chain as one straight line', () => {
    const level = graph(
      [
        [0, 1],
        [1, 2],
        [2, 3],
      ],
      4,
    );
    const layout = layLevel(level);
    expect(new Set(layout.x).size).toBe(1);
    expect(
      new Set([0, 1, 2].flatMap(edge => path(layout, edge).filter((_, i) => i % 2 === 0))).size,
    ).toBe(1);
  });

  test('leads a long edge straight past what it skips', () => {
    const level = graph(
      [
        [0, 1],
        [1, 2],
        [2, 3],
        [3, 4],
        [0, 4],
      ],
      5,
    );
    const layout = layLevel(level);
    const bends = path(layout, 4)
      .filter((_, i) => i % 2 === 0)
      .slice(1, -1);
    expect(Math.max(...bends) - Math.min(...bends.slice(1))).toBeLessThan(layout.width);
    const inside = bends.slice(1, -1);
    expect(new Set(inside.map(Math.round)).size).toBe(1);
  });

  test('crosses no edges where it need not', () => {
    const level = graph(
      [
        [0, 5],
        [1, 4],
        [2, 3],
      ],
      6,
    );
    const layout = layLevel(
      graph(
        [
          ...Array.from(level.from, (from, i): [number, number] => [from, level.to[i]!]),
          [0, 6],
          [1, 6],
          [2, 6],
        ],
        7,
      ),
    );
    const order = (nodes: number[]): number[] => nodes.sort((a, b) => layout.x[a]! - layout.x[b]!);
    const uppers = order([0, 1, 2]);
    expect(order([3, 4, 5])).toEqual(uppers.map(node => 5 - node));
  });

  test('puts a source right above what uses it', () => {
    const level = graph(
      [
        [1, 2],
        [2, 3],
        [3, 4],
        [0, 4],
      ],
      5,
    );
    const layout = layLevel(level);
    expect(layout.y[0]).toBe(layout.y[3]);
  });

  test('turns an edge against the order', () => {
    const level = graph(
      [
        [0, 1],
        [1, 2],
        [2, 0],
      ],
      3,
    );
    const layout = layLevel(level);
    const points = path(layout, 2);
    expect(points.at(1)).toBeGreaterThan(points.at(-1)!);
  });

  test('keeps ports at the borders', () => {
    const pins = Int8Array.from([-1, 0, 0, 1]);
    const heights = Float32Array.from([0, 30, 30, 0]);
    const layout = layLevel(
      graph(
        [
          [0, 2],
          [1, 2],
          [1, 3],
        ],
        4,
        { pins, heights },
      ),
    );
    expect(layout.y[0]).toBe(0);
    expect(layout.y[3]).toBeCloseTo(layout.height);
  });

  test('lets an edge enter where it is told to', () => {
    const toPorts = Float32Array.from([12]);
    const layout = layLevel(graph([[0, 1]], 2, { toPorts }));
    expect(path(layout, 0).at(-2)).toBeCloseTo(layout.x[1]! + 12);
  });

  test('packs what does not hang together into rows', () => {
    const layout = layLevel(graph([], 100));
    expect(layout.width / layout.height).toBeGreaterThan(0.4);
    expect(layout.width / layout.height).toBeLessThan(4);
    expect(overlaps(graph([], 100), layout)).toEqual([]);
  });

  test('leaves out edges over very many rows', () => {
    const chain = Array.from({ length: 60 }, (_, i): [number, number] => [i, i + 1]);
    const layout = layLevel(graph([...chain, [0, 60]], 61));
    expect(path(layout, 60)).toEqual([]);
  });

  test('of nothing has no size', () => {
    expect(layLevel(graph([], 0))).toMatchObject({ width: 0, height: 0 });
  });

  test('of 5,000 boxes has a place for each', () => {
    const layout = layLevel(random(5000, 10_000, 3));
    const places = new Set(Array.from(layout.x, (x, box) => `${x} ${layout.y[box]}`));
    expect(places.size).toBe(5000);
  });
});

function nested(
  count: number,
  inner: readonly number[],
  parts: Partial<NestedLevel> = {},
): NestedLevel {
  const edges = Array.from({ length: count - 1 }, (_, i): [number, number] => [i, i + 1]);
  const { widths, heights, from, to, pins } = graph(edges, count);
  return {
    widths,
    heights,
    from,
    to,
    pins,
    fromInner: new Int32Array(edges.length).fill(-1),
    toInner: new Int32Array(edges.length).fill(-1),
    inner: Int32Array.from(inner),
    padding: { top: 30, side: 10, bottom: 10 },
    minWidth: 0,
    ...parts,
  };
}

describe('nested levels', () => {
  test('make room for what is open inside', () => {
    const [inside, outside] = layNested(
      [nested(3, [-1, -1, -1]), nested(2, [0, -1])],
      new LayoutMemory(),
    );
    expect(inside!.boxHeight).toBe(inside!.height + 40);
    expect(outside!.y[1]).toBeGreaterThanOrEqual(inside!.boxHeight);
    expect(outside!.width).toBeGreaterThanOrEqual(inside!.boxWidth);
  });

  test('of equal structure are laid out once', () => {
    const memory = new LayoutMemory();
    const layer = nested(6, [-1, -1, -1, -1, -1, -1]);
    layNested([layer, layer, layer, nested(3, [0, 1, 2])], memory);
    expect([memory.hits, memory.misses]).toEqual([2, 2]);
    layNested([layer], memory);
    expect(memory.hits).toBe(3);
  });

  test('forget the oldest layout when there are too many', () => {
    const memory = new LayoutMemory(2);
    const levels = [2, 3, 4].map(count => nested(count, new Array<number>(count).fill(-1)));
    layNested(levels, memory);
    layNested(levels.slice(2), memory);
    expect([memory.hits, memory.misses]).toEqual([1, 3]);
    layNested(levels.slice(0, 1), memory);
    expect(memory.misses).toBe(4);
  });

  test('are as wide as their titles', () => {
    const [layout] = layNested([nested(1, [-1], { minWidth: 300 })], new LayoutMemory());
    expect(layout!.boxWidth).toBe(300);
    expect(layout!.contentX).toBe(110);
  });
});

describe('the layout client', () => {
  const large = [nested(600, new Array<number>(600).fill(-1))];

  test('answers small questions at once', () => {
    const factory = vi.fn();
    expect(new LayoutClient(factory).lay([nested(3, [-1, -1, -1])])).toHaveLength(1);
    expect(factory).not.toHaveBeenCalled();
  });

  test('asks a worker for large ones', async () => {
    const worker = {
      onmessage: null as ((event: MessageEvent) => void) | null,
      onerror: null,
      terminate: vi.fn(),
      postMessage(message: { id: number; levels: NestedLevel[] }): void {
        const layouts = layNested(message.levels, new LayoutMemory());
        setTimeout(() => this.onmessage?.({ data: { id: message.id, layouts } } as MessageEvent));
      },
    };
    const client = new LayoutClient((() => worker) as unknown as WorkerFactory);
    const answer = client.lay(large);
    expect(answer).toBeInstanceOf(Promise);
    expect((await answer)[0]!.x).toHaveLength(600);
    expect(client.memory.misses).toBe(0);
    client.dispose();
    expect(worker.terminate).toHaveBeenCalled();
  });

  test('does without one where the page forbids workers', async () => {
    const client = new LayoutClient(() => {
      throw new Error('forbidden');
    });
    expect(await client.lay(large)).toHaveLength(1);
  });

  test('does without one that fails', async () => {
    const worker = {
      onmessage: null,
      onerror: null as (() => void) | null,
      terminate: () => undefined,
      postMessage: () => undefined,
    };
    const client = new LayoutClient((() => worker) as unknown as WorkerFactory);
    const answer = client.lay(large);
    worker.onerror?.();
    expect(await answer).toHaveLength(1);
    expect(await client.lay(large)).toHaveLength(1);
  });
});
