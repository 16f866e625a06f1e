import { test } from 'vitest';
import { Hierarchy, type Group } from '../records/hierarchy';
import { LevelReader } from '../records/level';
import { layLevel } from '../layout/layered';
import { sampleProgram } from './samples';
function show(h: Hierarchy, g: Group, d = 0): string {
  let s = '  '.repeat(d) + `${g.kind} ${g.label} (${g.equations.length} eq, ${g.children.length} ch${g.copies.length ? ' x' + g.copies.length : ''})\n`;
  if (d < 4) for (const c of g.children) { s += typeof c === 'number' ? '' : show(h, c, d + 1); }
  return s;
}
for (const n of ['mlp', 'transformer', 'transformer_calls', 'transformer_unscoped', 'equations_10k', 'equations_10k_unscoped', 'equations_100k', 'wide'])
  test(n, () => {
    let t = performance.now();
    const p = sampleProgram(n);
    const t1 = performance.now();
    const h = new Hierarchy(p);
    const b = h.body(0);
    const t2 = performance.now();
    const l = new LevelReader(p).level(b);
    const t3 = performance.now();
    console.log(n, p.equationCount, h.grouping, 'program', (t1 - t).toFixed(0), 'groups', (t2 - t1).toFixed(0), 'level', (t3 - t2).toFixed(0), l.members.length, l.edges.length, l.inputs.length);
    if (p.equationCount < 20000) console.log(show(h, b));
  });
test('layout', () => {
  for (const g of ['none'] as const) for (const n of ['transformer', 'wide', 'equations_10k']) {
    const p = sampleProgram(n); const h = new Hierarchy(p, g, false);
    const l = new LevelReader(p).level(h.body(0));
    const N = l.members.length;
    const graph = { widths: new Float32Array(N).fill(100), heights: new Float32Array(N).fill(30), from: Int32Array.from(l.edges, e => e.from), to: Int32Array.from(l.edges, e => e.to), pins: new Int8Array(N), fromPorts: new Float32Array(l.edges.length).fill(NaN), toPorts: new Float32Array(l.edges.length).fill(NaN) };
    for (let k = 0; k < 2; k++) { const t = performance.now(); const r = layLevel(graph); console.log(n, N, l.edges.length, (performance.now() - t).toFixed(0), 'ms', r.width, r.height, r.points.length); }
  }
});
