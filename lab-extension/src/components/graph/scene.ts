/** Geometry of a laid-out graph in drawing coordinates, ready to paint. */

import type { Program } from '../../records/program';
import { ADVANCE, frameOf, isPort, portsOf, type Box, type BoxEdge } from './box';
import { boundsOf, type Bounds } from './model';

/** Number of line widths of edges, by bytes of their values. */
export const WEIGHTS = 3;

export interface SceneEdge {
  readonly edge: BoxEdge;
  readonly start: number;
  readonly end: number;
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
  readonly weight: number;
  /** False for an edge that continues through a port. */
  readonly hasArrow: boolean;
  /** Shown on the first edge that carries the values; empty on the others. */
  readonly label: string;
}

export interface Scene {
  readonly boxes: readonly Box[];
  readonly open: readonly Box[];
  readonly closed: readonly Box[];
  readonly edges: readonly SceneEdge[];
  /** Coordinate pairs of all edges, one after another. */
  readonly points: Float32Array;
}

const HEAVY_BYTES = [1 << 16, 1 << 24];

/**
 * The boxes and edges of a layout, in coordinates of the drawing; `label` gives the text of a
 * value at an edge.
 */
export function makeScene(
  boxes: readonly Box[],
  program: Program,
  label: (value: number, frame: Box) => string,
): Scene {
  const open = boxes.filter(box => box.isOpen);
  const closed = boxes.filter(box => !box.isOpen && !isPort(box));
  const paths: number[] = [];
  const edges: SceneEdge[] = [];
  const labelled = new Set<string>();
  for (const box of open) {
    const x = box.left + box.contentX;
    const y = box.top + box.contentY;
    for (const edge of box.edges) {
      const start = paths.length;
      for (let i = 0; i < edge.points.length; i += 2) {
        paths.push(edge.points[i]! + x, edge.points[i + 1]! + y);
      }
      const goesOn = joinPorts(edge, paths, start) || edge.to.kind === 'departure';
      const end = paths.length;
      edges.push(sceneEdge(edge, paths, start, !goesOn, program, label, labelled));
      for (const curve of fanPorts(edge, paths, start, end)) {
        const from = paths.length;
        paths.push(...curve);
        edges.push(sceneEdge(edge, paths, from, false, program, () => '', labelled));
      }
    }
  }
  return { boxes, open, closed, edges, points: Float32Array.from(paths) };
}

/** Extends an edge into or out of an open group to its port, if there is only one. */
function joinPorts(edge: BoxEdge, paths: number[], start: number): boolean {
  if (paths.length === start) {
    return false;
  }
  const [arrival, ...others] = portsOf(edge.to, 'arrival', edge.values);
  const enters = arrival !== undefined && others.length === 0;
  if (enters) {
    paths.push(arrival.left + arrival.width / 2, arrival.top);
  }
  const [departure, ...rest] = portsOf(edge.from, 'departure', edge.values);
  if (departure !== undefined && rest.length === 0) {
    paths.splice(start, 0, departure.left + departure.width / 2, departure.top);
  }
  return enters;
}

/**
 * Short curves between the border of an open group and the ports of an edge, if there are several.
 */
function fanPorts(edge: BoxEdge, paths: number[], start: number, end: number): number[][] {
  if (start === end) {
    return [];
  }
  const curves: number[][] = [];
  const arrivals = portsOf(edge.to, 'arrival', edge.values);
  const departures = portsOf(edge.from, 'departure', edge.values);
  if (arrivals.length > 1) {
    const [x, y] = [paths[end - 2]!, paths[end - 1]!];
    curves.push(...arrivals.map(port => [x, y, port.left + port.width / 2, port.top]));
  }
  if (departures.length > 1) {
    const [x, y] = [paths[start]!, paths[start + 1]!];
    curves.push(...departures.map(port => [port.left + port.width / 2, port.top, x, y]));
  }
  return curves;
}

function sceneEdge(
  edge: BoxEdge,
  paths: readonly number[],
  start: number,
  hasArrow: boolean,
  program: Program,
  labelOf: (value: number, frame: Box) => string,
  labelled: Set<string>,
): SceneEdge {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  const reach = (x: number, y: number): void => {
    left = Math.min(left, x);
    right = Math.max(right, x);
    top = Math.min(top, y);
    bottom = Math.max(bottom, y);
  };
  for (let i = start; i < paths.length; i += 2) {
    reach(paths[i]!, paths[i + 1]!);
  }
  if (paths.length === start) {
    reach(edge.from.left + edge.from.width / 2, edge.from.top + edge.from.height);
    reach(edge.to.left + edge.to.width / 2, edge.to.top);
  }
  const bytes = edge.values.reduce((sum, value) => sum + program.bytesOf(value), 0);
  const [value] = edge.values;
  const frame = frameOf(edge.from);
  const name = `${frame.key}:${value}`;
  const isFirst = value !== undefined && !labelled.has(name) && edge.from.kind !== 'arrival';
  labelled.add(name);
  const more = edge.values.length > 1 ? ` +${edge.values.length - 1}` : '';
  return {
    edge,
    start,
    end: paths.length,
    left,
    top,
    right,
    bottom,
    hasArrow,
    weight: HEAVY_BYTES.filter(limit => bytes >= limit).length,
    label: isFirst ? labelOf(value, frame) + more : '',
  };
}

/** The innermost box at a point of the drawing; null outside of all boxes. */
export function boxAt(root: Box, x: number, y: number): Box | null {
  let found: Box | null = null;
  let level: readonly Box[] = root.children;
  for (;;) {
    const hit = level.find(
      box =>
        box.height > 0 &&
        x >= box.left &&
        x <= box.left + box.width &&
        y >= box.top &&
        y <= box.top + box.height,
    );
    if (hit === undefined) {
      return found;
    }
    found = hit;
    if (!hit.isOpen) {
      return hit;
    }
    level = hit.children;
  }
}

/** The nearest edge within `reach` of a point of the drawing; null if there is none. */
export function edgeAt(scene: Scene, x: number, y: number, reach: number): SceneEdge | null {
  let nearest: SceneEdge | null = null;
  let least = reach;
  for (const edge of scene.edges) {
    if (
      x < edge.left - reach ||
      x > edge.right + reach ||
      y < edge.top - reach ||
      y > edge.bottom + reach
    ) {
      continue;
    }
    for (let i = edge.start; i + 3 < edge.end; i += 2) {
      const [x0, y0, x1, y1] = scene.points.subarray(i, i + 4) as unknown as number[];
      const distance = curveDistance(x0!, y0!, x1!, y1!, x, y);
      if (distance < least) {
        least = distance;
        nearest = edge;
      }
    }
  }
  return nearest;
}

/** Distance to a curve with vertical ends, measured at the point's height. */
function curveDistance(
  x0: number,
  y0: number,
  x1: number,
  y1: number,
  x: number,
  y: number,
): number {
  const height = y1 - y0;
  if (height === 0) {
    return y === y0 ? Math.abs(x - x0) : Infinity;
  }
  const t = (y - y0) / height;
  if (t < 0 || t > 1) {
    return Infinity;
  }
  const ease = t * t * (3 - 2 * t);
  return Math.abs(x0 + (x1 - x0) * ease - x);
}

/** Font size of labels, in units of the drawing. */
export const LABEL_SIZE = 9.5;
const LABEL_HEIGHT = 12;

/** Bounds of an edge's label; null for none, and for an edge too short for one. */
export function labelBounds(scene: Scene, { label, start, end }: SceneEdge): Bounds | null {
  if (label === '' || end - start < 4) {
    return null;
  }
  const [x, y] = labelPlace(scene.points, start, end);
  const width = label.length * LABEL_SIZE * ADVANCE + 6;
  return { left: x - width / 2, top: y - LABEL_HEIGHT / 2, width, height: LABEL_HEIGHT };
}

/** The labels of edges, without those that overlap one of an edge before. */
export function labelsApart(
  scene: Scene,
  edges: readonly SceneEdge[],
): { edge: SceneEdge; bounds: Bounds }[] {
  const shown: { edge: SceneEdge; bounds: Bounds }[] = [];
  // Those that reach into each stripe of the height of a label; a label reaches into two.
  const stripes = new Map<number, Bounds[]>();
  for (const edge of edges) {
    const bounds = labelBounds(scene, edge);
    if (bounds === null) {
      continue;
    }
    const first = Math.floor(bounds.top / LABEL_HEIGHT);
    const touched = [first, first + 1];
    const isFree = touched.every(stripe =>
      (stripes.get(stripe) ?? []).every(
        other =>
          Math.abs(other.top - bounds.top) >= LABEL_HEIGHT ||
          other.left + other.width <= bounds.left ||
          bounds.left + bounds.width <= other.left,
      ),
    );
    if (!isFree) {
      continue;
    }
    for (const stripe of touched) {
      stripes.set(stripe, [...(stripes.get(stripe) ?? []), bounds]);
    }
    shown.push({ edge, bounds });
  }
  return shown;
}

/** Bounds of a box, widened by the labels of its edges. */
export function boundsWithLabels(scene: Scene, box: Box): Bounds {
  const labels = scene.edges
    .filter(({ edge }) => edge.from === box || edge.to === box)
    .map(edge => labelBounds(scene, edge))
    .filter(bounds => bounds !== null);
  const all = [boundsOf(box), ...labels];
  const left = Math.min(...all.map(each => each.left));
  const right = Math.max(...all.map(each => each.left + each.width));
  return { ...boundsOf(box), left, width: right - left };
}

/** Position of the label on an edge: near its source, or in the middle of a short edge. */
function labelPlace(points: Float32Array, start: number, end: number): [number, number] {
  const top = points[start + 1]!;
  const y = top + Math.min(22, (points[end - 1]! - top) / 2);
  let i = start;
  while (i + 4 < end && points[i + 3]! < y) {
    i += 2;
  }
  const [x0, y0, x1, y1] = points.subarray(i, i + 4);
  const part = y1! > y0! ? (y - y0!) / (y1! - y0!) : 0.5;
  return [x0! + (x1! - x0!) * part * part * (3 - 2 * part), y];
}
