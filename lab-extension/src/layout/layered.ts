/** Layered layout of one level: boxes in rows, edges downwards. */

import { orderLayers } from './ordering';
import { horizontalPlaces } from './positioning';
import { adjacency, ranks } from './ranking';

/**
 * A graph whose nodes are numbered in the preferred direction of edges; other edges are drawn
 * upwards.
 */
export interface LevelGraph {
  readonly widths: Float32Array;
  readonly heights: Float32Array;
  readonly from: Int32Array;
  readonly to: Int32Array;
  /** Row constraint of each node: -1 first row, 1 last row, 0 any. */
  readonly pins: Int8Array;
  /** Offsets from the left of an edge's ends on its nodes; NaN lets the layout choose. */
  readonly fromPorts: Float32Array;
  readonly toPorts: Float32Array;
}

export interface LevelLayout {
  readonly width: number;
  readonly height: number;
  /** Upper left corners of the nodes. */
  readonly x: Float32Array;
  readonly y: Float32Array;
  /**
   * Start of each edge's points, as coordinate pairs; an edge without points is too long to draw.
   */
  readonly pointStarts: Uint32Array;
  readonly points: Float32Array;
}

const NODE_GAP = 22;
const BEND_WIDTH = 14;
const ROW_GAP = 30;
/** Space below a row of ports at the top, and above one at the bottom. */
const TOP_PORTS_GAP = 20;
const BOTTOM_PORTS_GAP = 12;
/**
 * Maximum number of rows that a routed edge may cross; a longer one would be a line through
 * everything.
 */
const MAX_EDGE_ROWS = 30;
const PORT_GAP = 16;

/** Lays out connected components side by side, in rows if there are many. */
export function layLevel(graph: LevelGraph): LevelLayout {
  const parts = components(graph);
  if (parts.length === 1) {
    return layPart(graph);
  }
  return pack(graph, parts);
}

function layPart(graph: LevelGraph): LevelLayout {
  const count = graph.widths.length;
  const edgeCount = graph.from.length;
  // Edges against the preferred direction are reversed for the layout, and reversed back at the
  // end.
  const low = graph.from.map((from, edge) => Math.min(from, graph.to[edge]!));
  const high = graph.from.map((from, edge) => Math.max(from, graph.to[edge]!));
  // Row of each box: edges go from `low` down to `high`.
  const rank = ranks(adjacency(count, high, low), adjacency(count, low, high), graph.pins);
  const chains = splitEdges(rank, low, high, count);

  // Nodes from here on: the `count` boxes, then a bend for each row that a routed edge crosses.
  const total = chains.rank.length;
  const widths = new Float32Array(total).fill(BEND_WIDTH);
  const isBend = new Uint8Array(total).fill(1, count);
  graph.widths.forEach((width, node) => (widths[node] = width + NODE_GAP));
  // Neighbours of each node in the row above and in the row below.
  const up = adjacency(total, chains.to, chains.from);
  const down = adjacency(total, chains.from, chains.to);
  const rowCount = chains.rank.reduce((most, row) => Math.max(most, row + 1), 0);
  const layers = orderLayers(chains.rank, up, down, rowCount);
  const centre = horizontalPlaces({ layers, up, down, widths, isBend });

  // Left side of the leftmost node, at which the drawing begins.
  const left = centre.reduce((least, x, node) => Math.min(least, x - widths[node]! / 2), Infinity);
  // Top of each row, and of a row after the last; `gaps` has the space below each row.
  const top = new Float32Array(rowCount + 1);
  const rowHeight = new Float32Array(rowCount);
  graph.heights.forEach((height, node) => {
    const row = chains.rank[node]!;
    rowHeight[row] = Math.max(rowHeight[row]!, height);
  });
  const hasPins = (pin: number): boolean => graph.pins.some(each => each === pin);
  const gaps = new Float32Array(rowCount).fill(ROW_GAP);
  if (rowCount > 2) {
    gaps[0] = hasPins(-1) && rowHeight[0] === 0 ? TOP_PORTS_GAP : ROW_GAP;
    gaps[rowCount - 2] = hasPins(1) && rowHeight[rowCount - 1] === 0 ? BOTTOM_PORTS_GAP : ROW_GAP;
  }
  for (let row = 0; row < rowCount; row++) {
    top[row + 1] = top[row]! + rowHeight[row]! + gaps[row]!;
  }
  // 1 for boxes with an incoming edge.
  const hasOperands = new Uint8Array(count);
  high.forEach(node => (hasOperands[node] = 1));
  const x = new Float32Array(count);
  const y = new Float32Array(count);
  let width = 0;
  for (let node = 0; node < count; node++) {
    const row = chains.rank[node]!;
    x[node] = centre[node]! - left - graph.widths[node]! / 2 - NODE_GAP / 2;
    y[node] = top[row]!;
    if (hasOperands[node] === 0 && graph.pins[node] === 0) {
      // A box without operands is placed at the bottom of its row, near its users.
      y[node]! += rowHeight[row]! - graph.heights[node]!;
    }
    width = Math.max(width, x[node]! + graph.widths[node]!);
  }
  // Edges may extend further to the right than any box.
  for (let bend = count; bend < total; bend++) {
    width = Math.max(width, centre[bend]! - left - NODE_GAP / 2 + BEND_WIDTH / 2);
  }

  const ports = attach(graph, low, high, chains, centre);
  // Paths of all edges, one after another; that of `edge` spans pointStarts[edge] to
  // pointStarts[edge + 1].
  const pointStarts = new Uint32Array(edgeCount + 1);
  const points: number[] = [];
  for (let edge = 0; edge < edgeCount; edge++) {
    if (chains.isRouted[edge] === 1) {
      const path = route(edge);
      // Paths go from the upper to the lower box; that of a reversed edge must start at the lower
      // one.
      if (graph.from[edge]! > graph.to[edge]!) {
        reversePairs(path);
      }
      points.push(...path);
    }
    pointStarts[edge + 1] = points.length;
  }
  return {
    width,
    height: Math.max(0, top[rowCount]! - ROW_GAP),
    x,
    y,
    pointStarts,
    points: Float32Array.from(points),
  };

  function route(edge: number): number[] {
    const start = low[edge]!;
    const end = high[edge]!;
    const shift = left + NODE_GAP / 2;
    const startRow = chains.rank[start]!;
    // Pairs x, y: from the bottom of the first box through the bends to the top of the last box.
    const path = [ports.out[edge]! - shift, y[start]! + graph.heights[start]!];
    const rowEnd = top[startRow]! + rowHeight[startRow]!;
    if (path[1]! < rowEnd - 1) {
      path.push(path[0]!, rowEnd);
    }
    for (let bend = chains.bendStarts[edge]!; bend < chains.bendStarts[edge + 1]!; bend++) {
      const node = count + bend;
      const row = chains.rank[node]!;
      const at = centre[node]! - shift;
      path.push(at, top[row]!);
      // Straight through the row, beside its boxes.
      if (rowHeight[row]! > 0) {
        path.push(at, top[row]! + rowHeight[row]!);
      }
    }
    path.push(ports.in[edge]! - shift, y[end]!);
    return path;
  }
}

interface Chains {
  readonly rank: Int32Array;
  readonly from: Int32Array;
  readonly to: Int32Array;
  readonly bendStarts: Uint32Array;
  readonly isRouted: Uint8Array;
}

/** Splits edges that cross several rows into segments between adjacent rows. */
function splitEdges(rank: Int32Array, low: Int32Array, high: Int32Array, count: number): Chains {
  // Before: a row per box. After: a row per box, then one per bend, edge by edge.
  const ranksOut = Array.from(rank);
  const from: number[] = [];
  const to: number[] = [];
  const bendStarts = new Uint32Array(low.length + 1);
  const isRouted = new Uint8Array(low.length);
  for (let edge = 0; edge < low.length; edge++) {
    const start = low[edge]!;
    const end = high[edge]!;
    const span = rank[end]! - rank[start]!;
    // Segments from box to bend to … to box, each one row long.
    if (span > 0 && span <= MAX_EDGE_ROWS) {
      isRouted[edge] = 1;
      let last = start;
      for (let row = rank[start]! + 1; row < rank[end]!; row++) {
        from.push(last);
        last = ranksOut.length;
        to.push(last);
        ranksOut.push(row);
      }
      from.push(last);
      to.push(end);
    }
    // Number of bends so far: those of `edge` are nodes count + bendStarts[edge] to count +
    // bendStarts[edge + 1].
    bendStarts[edge + 1] = ranksOut.length - count;
  }
  return {
    rank: Int32Array.from(ranksOut),
    from: Int32Array.from(from),
    to: Int32Array.from(to),
    bendStarts,
    isRouted,
  };
}

/** Positions at which edges leave and enter their nodes, sorted so that they don't cross. */
function attach(
  graph: LevelGraph,
  low: Int32Array,
  high: Int32Array,
  chains: Chains,
  centre: Float64Array,
): { out: Float64Array; in: Float64Array } {
  const count = graph.widths.length;
  // The node next to an edge's end: its first (or last) bend, or the other box.
  const neighbour = (edge: number, atStart: boolean): number => {
    const first = chains.bendStarts[edge]!;
    const end = chains.bendStarts[edge + 1]!;
    if (first === end) {
      return centre[atStart ? high[edge]! : low[edge]!]!;
    }
    return centre[count + (atStart ? first : end - 1)]!;
  };
  const fixed = (edge: number, atStart: boolean): number => {
    // The upper end of a reversed edge is the end at which it enters a box.
    const isTurned = graph.from[edge] !== low[edge];
    return (atStart === isTurned ? graph.toPorts : graph.fromPorts)[edge]!;
  };
  const spread = (ends: Int32Array, atStart: boolean): Float64Array => {
    const result = new Float64Array(low.length);
    // Edges by the box at this end.
    const byNode = adjacency(count, ends, ends);
    for (let node = 0; node < count; node++) {
      // Sorted from left to right by their next node, so that they don't cross at the box.
      const edges = Array.from(byNode.edges.subarray(byNode.starts[node], byNode.starts[node + 1]))
        .filter(edge => chains.isRouted[edge] === 1)
        .sort((a, b) => neighbour(a, atStart) - neighbour(b, atStart));
      const room = Math.max(0, graph.widths[node]! - 20);
      const gap = Math.min(PORT_GAP, edges.length > 1 ? room / (edges.length - 1) : 0);
      edges.forEach((edge, index) => {
        const port = fixed(edge, atStart);
        result[edge] = Number.isNaN(port)
          ? centre[node]! + gap * (index - (edges.length - 1) / 2)
          : centre[node]! - graph.widths[node]! / 2 + port;
      });
    }
    return result;
  };
  return { out: spread(low, true), in: spread(high, false) };
}

function reversePairs(path: number[]): void {
  // Reversing all numbers also swaps x and y of each pair: swap them back.
  path.reverse();
  for (let i = 0; i < path.length; i += 2) {
    [path[i], path[i + 1]] = [path[i + 1]!, path[i]!];
  }
}

/** Nodes of each connected component, in order of their first node. */
function components(graph: LevelGraph): number[][] {
  // Union-find forest with one tree per component; the root is its first node.
  const parent = Int32Array.from(graph.widths.keys());
  const find = (node: number): number => {
    while (parent[node] !== node) {
      parent[node] = parent[parent[node]!]!;
      node = parent[node]!;
    }
    return node;
  };
  graph.from.forEach((from, edge) => {
    const a = find(from);
    const b = find(graph.to[edge]!);
    parent[Math.max(a, b)] = Math.min(a, b);
  });
  const parts = new Map<number, number[]>();
  parent.forEach((_, node) => {
    const root = find(node);
    const part = parts.get(root);
    if (part === undefined) {
      parts.set(root, [node]);
    } else {
      part.push(node);
    }
  });
  return [...parts.values()];
}

function pack(graph: LevelGraph, parts: readonly number[][]): LevelLayout {
  const count = graph.widths.length;
  // Component of each node, and the node's index within it.
  const partOf = new Int32Array(count);
  const placeIn = new Int32Array(count);
  parts.forEach((part, index) =>
    part.forEach((node, place) => {
      partOf[node] = index;
      placeIn[node] = place;
    }),
  );
  // Edges of each component in order; nodes and edges are renumbered within it.
  const edgesOf: number[][] = parts.map(() => []);
  graph.from.forEach((from, edge) => edgesOf[partOf[from]!]!.push(edge));
  const layouts = parts.map((part, index) =>
    layPart({
      widths: Float32Array.from(part, node => graph.widths[node]!),
      heights: Float32Array.from(part, node => graph.heights[node]!),
      from: Int32Array.from(edgesOf[index]!, edge => placeIn[graph.from[edge]!]!),
      to: Int32Array.from(edgesOf[index]!, edge => placeIn[graph.to[edge]!]!),
      pins: Int8Array.from(part, node => graph.pins[node]!),
      fromPorts: Float32Array.from(edgesOf[index]!, edge => graph.fromPorts[edge]!),
      toPorts: Float32Array.from(edgesOf[index]!, edge => graph.toPorts[edge]!),
    }),
  );
  const hasPins = graph.pins.some(pin => pin !== 0);
  const { left, top, width, height } = shelve(layouts, hasPins);

  const x = new Float32Array(count);
  const y = new Float32Array(count);
  const pathOf: (Float32Array | undefined)[] = [];
  layouts.forEach((layout, index) => {
    // Maps indices within a component back to nodes and edges of the whole graph.
    parts[index]!.forEach((node, place) => {
      x[node] = layout.x[place]! + left[index]!;
      y[node] = layout.y[place]! + top[index]!;
      // Components differ in height; last rows are aligned at the bottom of the whole.
      if (graph.pins[node] === 1) {
        y[node] = height - graph.heights[node]!;
      }
    });
    edgesOf[index]!.forEach((edge, place) => {
      const path = layout.points.slice(layout.pointStarts[place], layout.pointStarts[place + 1]);
      for (let i = 0; i < path.length; i += 2) {
        path[i]! += left[index]!;
        path[i + 1]! += top[index]!;
      }
      // The last y coordinate: the edge follows its box to the bottom.
      if (path.length > 0 && graph.pins[graph.to[edge]!] === 1) {
        path[path.length - 1] = height;
      }
      pathOf[edge] = path;
    });
  });
  const pointStarts = new Uint32Array(graph.from.length + 1);
  for (let edge = 0; edge < graph.from.length; edge++) {
    pointStarts[edge + 1] = pointStarts[edge]! + (pathOf[edge]?.length ?? 0);
  }
  const points = new Float32Array(pointStarts[graph.from.length]!);
  pathOf.forEach((path, edge) => path && points.set(path, pointStarts[edge]));
  return { width, height, x, y, pointStarts, points };
}

/** Arranges boxes side by side, in rows such that the whole has a ratio of about 3:2. */
function shelve(
  boxes: readonly { width: number; height: number }[],
  inOneRow: boolean,
): { left: number[]; top: number[]; width: number; height: number } {
  const area = boxes.reduce((sum, box) => sum + (box.width + NODE_GAP) * (box.height + ROW_GAP), 0);
  const widest = boxes.reduce((most, box) => Math.max(most, box.width), 0);
  const limit = inOneRow ? Infinity : Math.max(widest, Math.sqrt(area * 1.5));
  const left: number[] = [];
  const top: number[] = [];
  let x = 0;
  let y = 0;
  let rowHeight = 0;
  let width = 0;
  for (const box of boxes) {
    // The box doesn't fit into this row: start the next one.
    if (x > 0 && x + box.width > limit) {
      x = 0;
      y += rowHeight + ROW_GAP;
      rowHeight = 0;
    }
    left.push(x);
    top.push(y);
    width = Math.max(width, x + box.width);
    x += box.width + NODE_GAP;
    rowHeight = Math.max(rowHeight, box.height);
  }
  return { left, top, width, height: y + rowHeight };
}
