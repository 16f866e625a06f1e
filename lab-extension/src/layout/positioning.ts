/**
 * Horizontal places of the nodes of ordered layers: long edges straight, neighbours apart.
 *
 * Source: U. Brandes, B. Köpf, "Fast and simple horizontal coordinate assignment", Graph Drawing
 * 2001. Blocks are compacted by longest paths over the graph of blocks, which avoids the faults
 * that the paper's own compaction has with nodes of different widths.
 */

import type { Adjacency } from './ranking';

export interface OrderedLayers {
  readonly layers: readonly Int32Array[];
  readonly up: Adjacency;
  readonly down: Adjacency;
  /** Space that each node takes, with half of the gap on either side. */
  readonly widths: Float32Array;
  /** 1 for a bend of a long edge. */
  readonly isBend: Uint8Array;
}

/** Horizontal centre of each node. */
export function horizontalPlaces(graph: OrderedLayers): Float64Array {
  const count = graph.widths.length;
  const position = new Int32Array(count);
  graph.layers.forEach(layer => layer.forEach((node, index) => (position[node] = index)));
  const crossed = crossedSegments(graph, position);
  const candidates: Float64Array[] = [];
  for (const downwards of [true, false]) {
    for (const fromLeft of [true, false]) {
      const root = align(graph, position, crossed, downwards, fromLeft);
      candidates.push(compact(graph, root, fromLeft));
    }
  }
  return balance(graph, candidates);
}

/** Mask of the segments that cross the inner segment of a long edge, and are not aligned. */
function crossedSegments(graph: OrderedLayers, position: Int32Array): Uint8Array {
  const { layers, up, isBend } = graph;
  const crossed = new Uint8Array(up.edges.length);
  for (let row = 1; row < layers.length; row++) {
    const layer = layers[row]!;
    let low = 0;
    let scanned = 0;
    for (let i = 0; i < layer.length; i++) {
      const inner = innerNeighbour(layer[i]!, up, isBend);
      if (inner < 0 && i < layer.length - 1) {
        continue;
      }
      const high = inner < 0 ? layers[row - 1]!.length - 1 : position[inner]!;
      for (; scanned <= i; scanned++) {
        const node = layer[scanned]!;
        for (let j = up.starts[node]!; j < up.starts[node + 1]!; j++) {
          const other = up.nodes[j]!;
          const isInner = isBend[node] === 1 && isBend[other] === 1;
          if (!isInner && (position[other]! < low || position[other]! > high)) {
            crossed[up.edges[j]!] = 1;
          }
        }
      }
      low = high;
    }
  }
  return crossed;
}

function innerNeighbour(node: number, up: Adjacency, isBend: Uint8Array): number {
  if (isBend[node] === 0 || up.starts[node] === up.starts[node + 1]) {
    return -1;
  }
  const other = up.nodes[up.starts[node]!]!;
  return isBend[other] === 1 ? other : -1;
}

/** Aligns each node with the median of its neighbours; returns the root of each node's block. */
function align(
  graph: OrderedLayers,
  position: Int32Array,
  crossed: Uint8Array,
  downwards: boolean,
  fromLeft: boolean,
): Int32Array {
  const towards = downwards ? graph.up : graph.down;
  const root = Int32Array.from(graph.widths.keys());
  const isTaken = new Uint8Array(graph.widths.length);
  const rows = graph.layers.length;
  for (let step = 1; step < rows; step++) {
    const layer = graph.layers[downwards ? step : rows - 1 - step]!;
    let border = fromLeft ? -1 : Infinity;
    for (let i = 0; i < layer.length; i++) {
      const node = layer[fromLeft ? i : layer.length - 1 - i]!;
      const first = towards.starts[node]!;
      const degree = towards.starts[node + 1]! - first;
      if (degree === 0) {
        continue;
      }
      const order = Array.from({ length: degree }, (_, j) => first + j).sort(
        (a, b) => position[towards.nodes[a]!]! - position[towards.nodes[b]!]!,
      );
      const middles = [order[(degree - 1) >> 1]!, order[degree >> 1]!];
      for (const j of fromLeft ? middles : middles.reverse()) {
        const other = towards.nodes[j]!;
        const at = position[other]!;
        const isFree = fromLeft ? at > border : at < border;
        if (isFree && isTaken[other] === 0 && crossed[towards.edges[j]!] === 0) {
          root[node] = root[other]!;
          isTaken[other] = 1;
          border = at;
          break;
        }
      }
    }
  }
  return root;
}

/** Places blocks as far to one side as possible, then moves them back towards their neighbours. */
function compact(graph: OrderedLayers, root: Int32Array, fromLeft: boolean): Float64Array {
  const { layers, widths } = graph;
  const count = widths.length;
  const from: number[] = [];
  const to: number[] = [];
  const apart: number[] = [];
  for (const layer of layers) {
    for (let i = 1; i < layer.length; i++) {
      const left = layer[i - 1]!;
      const right = layer[i]!;
      from.push(root[fromLeft ? left : right]!);
      to.push(root[fromLeft ? right : left]!);
      apart.push((widths[left]! + widths[right]!) / 2);
    }
  }
  const order = topological(count, from, to);
  const place = new Float64Array(count);
  for (const edge of order) {
    const end = to[edge]!;
    place[end] = Math.max(place[end]!, place[from[edge]!]! + apart[edge]!);
  }
  const room = new Float64Array(count).fill(Infinity);
  for (let i = order.length - 1; i >= 0;) {
    // All edges out of one block are consecutive in the order.
    const block = from[order[i]!]!;
    for (; i >= 0 && from[order[i]!] === block; i--) {
      const edge = order[i]!;
      room[block] = Math.min(room[block]!, place[to[edge]!]! - apart[edge]!);
    }
    place[block] = Math.max(place[block]!, room[block]!);
  }
  const sign = fromLeft ? 1 : -1;
  return Float64Array.from(root, block => sign * place[block]!);
}

/** Edges in topological order: each after all edges into its start. */
function topological(count: number, from: readonly number[], to: readonly number[]): Int32Array {
  const starts = new Uint32Array(count + 1);
  const waiting = new Int32Array(count);
  from.forEach(node => starts[node + 1]!++);
  to.forEach(node => waiting[node]!++);
  for (let node = 0; node < count; node++) {
    starts[node + 1]! += starts[node]!;
  }
  const next = starts.slice();
  const out = new Int32Array(from.length);
  from.forEach((node, edge) => (out[next[node]!++] = edge));
  const order = new Int32Array(from.length);
  const ready: number[] = [];
  waiting.forEach((edges, node) => {
    if (edges === 0) {
      ready.push(node);
    }
  });
  let filled = 0;
  while (ready.length > 0) {
    const node = ready.pop()!;
    for (let i = starts[node]!; i < starts[node + 1]!; i++) {
      order[filled++] = out[i]!;
      if (--waiting[to[out[i]!]!]! === 0) {
        ready.push(to[out[i]!]!);
      }
    }
  }
  return order;
}

/** Aligns the four candidates with the narrowest one, and returns the mean of the middle two. */
function balance(graph: OrderedLayers, candidates: readonly Float64Array[]): Float64Array {
  const bounds = candidates.map(places => {
    let low = Infinity;
    let high = -Infinity;
    places.forEach((place, node) => {
      low = Math.min(low, place - graph.widths[node]! / 2);
      high = Math.max(high, place + graph.widths[node]! / 2);
    });
    return { low, high };
  });
  const narrowest = bounds.reduce((a, b) => (b.high - b.low < a.high - a.low ? b : a));
  candidates.forEach((places, index) => {
    // Candidates alternate between left-aligned and right-aligned.
    const { low, high } = bounds[index]!;
    const shift = index % 2 === 0 ? narrowest.low - low : narrowest.high - high;
    places.forEach((place, node) => (places[node] = place + shift));
  });
  return graph.widths.reduce((result, _, node) => {
    const [, second, third] = candidates.map(places => places[node]!).sort((a, b) => a - b);
    result[node] = (second! + third!) / 2;
    return result;
  }, new Float64Array(graph.widths.length));
}
