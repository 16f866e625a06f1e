import { describe, expect, test } from 'vitest';
import { LayoutClient } from '../../layout/client';
import { criticalPath, overlaysOf } from '../../records/costs';
import { ShardedFunction } from '../../records/sharded_function';
import { PROGRAMS, REAL_PROGRAMS, sample, sampleProgram } from '../../testing/samples';
import { frameOf, isPort, stepAt, textWidth, type Box } from './box';
import { Camera } from './camera';
import { boxLabel } from './describe';
import { heatOf } from './heat';
import { GraphModel } from './model';
import { firstBox, nextBox } from './moves';
import { reachOf } from './reach';
import { boundsWithLabels, boxAt, edgeAt, labelsApart, makeScene, type Scene } from './scene';
import { Spotlight } from './spotlight';

async function model(name: string): Promise<GraphModel> {
  const result = new GraphModel(sampleProgram(name), new LayoutClient());
  await result.openComfortably();
  return result;
}

function find(graph: GraphModel, title: string): Box {
  const box = graph.boxes.find(each => each.title === title);
  expect(box, title).toBeDefined();
  return box!;
}

describe('a program graph', () => {
  test.each(PROGRAMS)(
    'of %s opens to a comfortable size, with every box in its parent',
    async name => {
      const graph = await model(name);
      expect(graph.boxes.length).toBeLessThan(160);
      for (const box of graph.boxes.filter(each => each.parent !== null)) {
        const parent = box.parent!;
        expect(parent.isOpen).toBe(true);
        if (parent.parent !== null) {
          expect(box.left).toBeGreaterThanOrEqual(parent.left - 0.1);
          expect(box.top).toBeGreaterThanOrEqual(parent.top - 0.1);
          expect(box.left + box.width).toBeLessThanOrEqual(parent.left + parent.width + 0.1);
          expect(box.top + box.height).toBeLessThanOrEqual(parent.top + parent.height + 0.1);
        }
      }
      expect(new Set(graph.boxes.map(box => box.key)).size).toBe(graph.boxes.length);
    },
  );

  test.each(
    REAL_PROGRAMS.flatMap(name => [
      [name, 380, 420],
      [name, 540, 500],
      [name, 860, 940],
    ]) as [string, number, number][],
  )('of %s begins whole in %d × %d, what costs most the largest', async (name, width, height) => {
    const graph = new GraphModel(sampleProgram(name), new LayoutClient());
    // A view shows a program down to this scale.
    const [most, deepest] = [width / 0.7, height / 0.7];
    await graph.openComfortably(bounds => bounds.width <= most && bounds.height <= deepest);
    expect(graph.bounds.width).toBeLessThanOrEqual(most);
    expect(graph.bounds.height).toBeLessThanOrEqual(deepest);
    const closed = graph.boxes.filter(box => !box.isOpen && !Number.isNaN(box.share));
    const [first] = [...closed].sort((a, b) => b.share - a.share);
    expect(first!.share).toBeGreaterThan(0.05);
    expect(first!.height).toBe(Math.max(...closed.map(box => box.height)));
    // Neighbours that one line makes of several values are one box.
    const titles = closed.map(box => `${box.parent!.key} ${box.title} ${box.subtitle}`);
    for (const title of new Set(titles)) {
      expect(titles.filter(each => each === title).length).toBeLessThanOrEqual(3);
    }
  });

  test.each(['mlp', 'transformer', 'transformer_calls', 'control_flow', 'hostile'])(
    'of %s opens and closes completely',
    async name => {
      const graph = await model(name);
      await graph.openAll();
      expect(graph.boxes.filter(box => box.isExpandable && !box.isOpen)).toEqual([]);
      await graph.closeAll();
      expect(graph.boxes.filter(box => box.isOpen).length).toBeLessThanOrEqual(2);
    },
  );

  test('joins the condition and the body of a loop', async () => {
    const graph = await model('generation');
    const loop = graph.boxes.find(box => box.tag === 'while')!;
    if (!loop.isOpen) {
      await graph.toggle(loop);
    }
    const { children, edges } = graph.box(loop.key)!;
    expect(children.map(box => box.title)).toEqual(['cond', 'body']);
    expect(edges.map(({ from, to }) => [from.title, to.title])).toEqual([
      ['cond', 'body'],
      ['body', 'cond'],
    ]);
    expect(edges.every(({ points }) => points.length > 2)).toBe(true);
    const scene = makeScene(graph.boxes, graph.program, value => graph.program.typeOf(value).text);
    const labels = scene.edges.filter(({ edge }) => edges.includes(edge)).map(each => each.label);
    expect(labels[0]).toBe('bool[]');
    expect(children[1]!.height).toBeGreaterThanOrEqual(children[0]!.height);
  });

  test('draws the same edges whether a group is open or closed', async () => {
    const graph = await model('transformer');
    const attention = find(graph, 'attention');
    const count = (): number => graph.boxes.flatMap(box => (box.isOpen ? box.edges : [])).length;
    const closed = count();
    await graph.toggle(attention);
    expect(find(graph, 'softmax').parent!.title).toBe('attention');
    expect(count()).toBeGreaterThan(closed);
    await graph.toggle(find(graph, 'attention'));
    expect(count()).toBe(closed);
  });

  test('shows another copy of folded layers', async () => {
    const graph = await model('transformer');
    const fold = graph.boxes.find(box => box.kind === 'fold')!;
    expect([fold.copies, fold.copy]).toEqual([12, 0]);
    await graph.showCopy(fold, 11);
    expect(graph.box(fold.key)!.copy).toBe(11);
    await graph.showCopy(fold, 12);
    expect(graph.box(fold.key)!.copy).toBe(0);
    await graph.unfold(fold.key);
    expect(graph.boxes.filter(box => /^layer_\d+$/.test(box.title))).toHaveLength(12);
    await graph.foldAgain();
    expect(graph.box(fold.key)).toBeDefined();
  });

  test('reveals an equation inside of the call that is meant', async () => {
    const { program } = new ShardedFunction(sample('sharded_calls'));
    const graph = new GraphModel(program, new LayoutClient());
    const calls = Array.from(program.ids.keys()).filter(
      equation => program.bodies[program.bodiesOf(equation)[0]?.body ?? 0]!.name === 'block',
    );
    expect(calls).toHaveLength(3);
    await graph.closeAll();
    for (const call of [...calls].reverse()) {
      const { first } = program.bodies[program.bodiesOf(call)[0]!.body]!;
      const box = await graph.revealAt(first, [call]);
      expect(box!.equation).toBe(first);
      expect(frameOf(box!).equation).toBe(call);
    }
  });

  test('reveals an equation wherever it is hidden', async () => {
    for (const name of ['transformer', 'transformer_calls', 'control_flow', 'equations_10k']) {
      const graph = await model(name);
      const { program } = graph;
      for (const part of [0, 0.31, 0.77, 0.999]) {
        const equation = Math.floor(part * program.equationCount);
        const box = await graph.reveal(equation);
        expect(box?.equation, `${name} ${equation}`).toBe(equation);
        expect(graph.boxesOf(equation)).toContain(box);
      }
    }
  });

  test('finds the closed group that holds an equation', async () => {
    const graph = await model('transformer');
    const { program } = graph;
    const softmax = program.ids.findIndex((_, equation) =>
      program.scopePath(equation).some(scope => program.scopeName(scope) === 'softmax'),
    );
    expect(graph.boxesOf(softmax).map(box => box.title)).toEqual(['attention']);
    // Other layers are behind the one that is shown.
    expect(graph.boxesOf(program.equationCount - 20).map(box => box.kind)).toEqual(['fold']);
  });

  test('follows uses and definitions out of a group', async () => {
    const graph = await model('mlp');
    const names = (equations: readonly number[]): string[] =>
      equations.map(equation => graph.program.primitive(equation));
    expect(names(graph.ends(find(graph, 'tanh'), 'uses'))).toEqual(['dot_general']);
    expect(names(graph.ends(find(graph, 'tanh'), 'definitions'))).toEqual(['add']);
    const loss = graph.boxes.find(box => box.title === 'loss' && box.parent !== null)!;
    expect(names(graph.ends(loss, 'definitions'))).toEqual(['add']);
    const input = graph.boxes.find(box => box.kind === 'input' && box.title === 'x')!;
    expect(names(graph.ends(input, 'uses'))).toEqual(['dot_general']);
  });

  test('groups anew when asked', async () => {
    const graph = await model('transformer');
    await graph.regroup('none', false);
    expect(graph.boxes.filter(box => box.kind === 'equation')).toHaveLength(843);
    await graph.regroup('functions', true);
    expect(graph.boxes.some(box => box.title === 'attention')).toBe(true);
  });

  test('drops a layout that came too late', async () => {
    const layouts = new LayoutClient();
    const waiting: (() => void)[] = [];
    const graph = new GraphModel(sampleProgram('transformer'), {
      lay: (levels: Parameters<LayoutClient['lay']>[0]) =>
        new Promise(resolve => waiting.push(() => resolve(layouts.lay(levels) as never))),
    } as unknown as LayoutClient);
    const first = graph.openComfortably();
    const second = graph.closeAll();
    waiting[1]!();
    await second;
    const shown = graph.boxes.length;
    waiting[0]!();
    await first;
    expect(graph.boxes.length).toBe(shown);
    expect(graph.isBusy).toBe(false);
  });

  test('says what each box is', async () => {
    const graph = await model('mlp');
    const labels = graph.boxes.map(box => boxLabel(graph.program, box));
    expect(labels).toContain('hidden:f32[32,128] = tanh i; In[3], line 5, in model');
    expect(labels).toContain('input x:f32[32,784]');
    expect(labels).toContain('loss, 13 equations');
    expect(labels.every(label => label !== '')).toBe(true);
  });
});

describe('the scene', () => {
  test('finds the box and the edge under the pointer', async () => {
    const graph = await model('mlp');
    const scene = makeScene(graph.boxes, graph.program, value => graph.program.typeOf(value).text);
    for (const box of scene.closed) {
      expect(boxAt(graph.root, box.left + box.width / 2, box.top + box.height / 2)).toBe(box);
    }
    expect(boxAt(graph.root, -500, -500)).toBeNull();
    const edge = scene.edges.find(each => each.end - each.start === 4)!;
    const [x0, y0, x1, y1] = scene.points.subarray(edge.start, edge.end);
    expect(edgeAt(scene, (x0! + x1!) / 2, (y0! + y1!) / 2, 4)).toBe(edge);
    expect(edgeAt(scene, -500, -500, 4)).toBeNull();
  });

  test('shows no two labels that overlap, wherever their edges lie', () => {
    // Vertical edges whose labels are up to a few units apart, across all stripes.
    const points: number[] = [];
    const edges = Array.from({ length: 40 }, (_, i) => {
      const [x, y] = [(i % 4) * 30, i * 5];
      points.push(x, y, x, y + 100);
      return { start: 4 * i, end: 4 * i + 4, label: 'f32[8,16]' };
    });
    const scene = { points: Float32Array.from(points), edges } as unknown as Scene;
    const shown = labelsApart(scene, scene.edges).map(each => each.bounds);
    expect(shown.length).toBeGreaterThan(10);
    shown.forEach((a, i) =>
      shown.slice(i + 1).forEach(b => {
        const isApart = Math.abs(a.top - b.top) >= a.height || Math.abs(a.left - b.left) >= a.width;
        expect(isApart).toBe(true);
      }),
    );
  });

  test('labels each value once, and joins edges to ports', async () => {
    const graph = await model('mlp');
    const scene = makeScene(graph.boxes, graph.program, value => String(value));
    const labels = scene.edges.map(edge => edge.label).filter(Boolean);
    expect(new Set(labels).size).toBe(labels.length);
    for (const { edge, end } of scene.edges.filter(each => each.edge.to.isOpen && !each.hasArrow)) {
      const port = edge.to.children.find(isPort)!;
      expect(scene.points[end - 1]).toBeCloseTo(port.top);
    }
  });

  test('a box is as wide as what stands on its edges', async () => {
    const graph = await model('mlp');
    const text = (length: number): Scene =>
      makeScene(graph.boxes, graph.program, () => 'x'.repeat(length));
    const { edge } = text(1).edges.find(each => each.label !== '' && each.end - each.start >= 4)!;
    const [short, long] = [text(1), text(200)].map(scene => boundsWithLabels(scene, edge.to));
    expect(short!.width).toBeGreaterThanOrEqual(edge.to.width);
    expect(long!.width).toBeGreaterThan(short!.width + 199 * 5 - edge.to.width);
    expect([long!.top, long!.height]).toEqual([edge.to.top, edge.to.height]);
  });

  test('shows how much of the cost each box has', async () => {
    const graph = await model('transformer');
    const [flops] = overlaysOf(graph.program);
    const heats = heatOf(graph.boxes, flops!, graph.program);
    const part = (title: string): number => heats.get(find(graph, title))!.part;
    expect(part('dot_general')).toBe(1);
    expect(part('feed_forward')).toBeGreaterThan(part('attention'));
    expect(part('attention')).toBeGreaterThan(part('norm_1'));
    expect(heats.get(graph.boxes.find(box => box.kind === 'fold')!)!.texts[0]).toMatch(
      /GFLOP {2}7\d %$/,
    );
  });

  test('multiplies a loop body by its trips', async () => {
    const graph = await model('control_flow');
    const [flops] = overlaysOf(graph.program);
    const heats = heatOf(graph.boxes, flops!, graph.program);
    const product = graph.boxes.find(box => box.title === 'dot_general')!;
    expect(product.runs).toBe(100);
    expect(heats.get(product)!.texts[0]).toMatch(/^819 KFLOP/);
  });

  test('keeps the critical path in one piece', async () => {
    const graph = await model('transformer');
    await graph.openAll();
    const scene = makeScene(graph.boxes, graph.program, () => '');
    const spotlight = new Spotlight(graph, scene);
    spotlight.setPath(criticalPath(graph.program));
    const emphasis = spotlight.emphasis(null, null, null);
    const on = scene.edges.filter(edge => emphasis.isOnPath!(edge));
    expect(on.length).toBeGreaterThan(40);
    const ends = on.map(edge => edge.edge);
    const loose = ends.filter(
      edge =>
        edge.from.kind !== 'arrival' && edge.from.equation >= 0 && !emphasis.path.has(edge.from),
    );
    expect(loose).toEqual([]);
  });
});

test('reach is everything that depends, and everything depended on', () => {
  const program = sampleProgram('mlp');
  const tanh = program.ids.findIndex((_, equation) => program.primitive(equation) === 'tanh');
  expect([...reachOf(program, [tanh], 'upstream')].sort((a, b) => a - b)).toEqual([0, 1, 2, 3]);
  expect(reachOf(program, [tanh], 'downstream').size).toBe(program.equationCount - 4);
});

describe('keys', () => {
  test('lead along edges and to neighbours', async () => {
    const graph = await model('mlp');
    const product = graph.boxes.find(box => box.title === 'dot_general')!;
    expect(nextBox(product, 'down')!.title).toBe('add');
    expect(nextBox(product, 'right')!.title).toBe('broadcast_in_dim');
    expect(nextBox(nextBox(product, 'right')!, 'left')).toBe(product);
    expect(nextBox(product, 'up')!.kind).toBe('input');
    expect(firstBox(graph.root)!.title).toBe('model');
    expect(nextBox(graph.root, 'down')!.title).toBe('model');
  });

  test('reach every box of a level from the first one', async () => {
    const graph = await model('control_flow');
    for (const level of graph.boxes.filter(box => box.isOpen)) {
      const inside = level.children.filter(box => !isPort(box));
      const reached = new Set<Box>([firstBox(level)!]);
      for (const box of reached) {
        for (const move of ['up', 'down', 'left', 'right'] as const) {
          const next = nextBox(box, move);
          if (next !== null && next.parent === level) {
            reached.add(next);
          }
        }
      }
      expect(inside.filter(box => !reached.has(box)).map(box => box.title)).toEqual([]);
    }
  });
});

describe('the camera', () => {
  const bounds = { left: 0, top: 0, width: 400, height: 4000 };

  test('fits by shrinking, but not below what can be read', () => {
    const camera = new Camera();
    camera.fit(bounds, 800, 600);
    expect(camera.scale).toBeCloseTo((600 - 56) / 4000);
    camera.fit(bounds, 800, 600, 0.7);
    expect(camera.scale).toBe(0.7);
    expect(camera.y).toBe(28);
  });

  test('zooms around the pointer', () => {
    const camera = new Camera();
    camera.fit(bounds, 800, 600);
    const before = camera.toDrawing(120, 300);
    camera.zoom(2.5, 120, 300);
    const after = camera.toDrawing(120, 300);
    expect(after[0]).toBeCloseTo(before[0]);
    expect(after[1]).toBeCloseTo(before[1]);
  });

  test('moves only as far as needed', () => {
    const camera = new Camera();
    camera.reveal({ left: 100, top: 100, width: 50, height: 20 }, 800, 600);
    expect([camera.x, camera.y]).toEqual([0, 0]);
    camera.reveal({ left: 100, top: 900, width: 50, height: 20 }, 800, 600);
    expect(camera.y).toBe(600 - 60 - 920);
    // A target with little room beside it is centred.
    camera.reveal({ left: 0, top: 900, width: 780, height: 20 }, 800, 600);
    expect(camera.x).toBe(10);
  });
});

test('a step in a fold’s header is beside its number', async () => {
  const graph = await model('transformer');
  const fold = graph.boxes.find(box => box.kind === 'fold')!;
  const left = fold.left + 12 + 14 + textWidth(fold.title, 12) + 8;
  expect(stepAt(fold, left + 4, fold.top + 10)).toBe(-1);
  expect(stepAt(fold, left + 80, fold.top + 10)).toBe(1);
  expect(stepAt(fold, left - 6, fold.top + 10)).toBe(0);
  expect(stepAt(fold, left + 4, fold.top + 90)).toBe(0);
});
