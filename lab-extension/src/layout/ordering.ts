/** Order of the nodes within each layer, for few crossings. */

import type { Adjacency } from './ranking';

const LARGE_GRAPH_EDGES = 3000;

/** Nodes of each layer from left to right: the best order found by barycentre sweeps. */
export function orderLayers(
  rank: Int32Array,
  up: Adjacency,
  down: Adjacency,
  layerCount: number,
): Int32Array[] {
  let layers: Int32Array[] = initialOrder(rank, down, layerCount);
  const position = new Float64Array(rank.length);
  place(layers, position);
  const isLarge = down.nodes.length > LARGE_GRAPH_EDGES;
  let best: Int32Array[] = layers.map(layer => layer.slice());
  let fewest = isLarge ? Infinity : crossings(layers, down, position);
  const sweeps = isLarge ? 8 : 24;
  for (let sweep = 0, idle = 0; sweep < sweeps && fewest > 0 && idle < 6; sweep++) {
    const downwards = sweep % 2 === 0;
    const towards = downwards ? up : down;
    for (let i = 1; i < layerCount; i++) {
      sortLayer(layers[downwards ? i : layerCount - 1 - i]!, towards, position, sweep % 4 < 2);
    }
    if (!isLarge) {
      const count = crossings(layers, down, position);
      idle = count < fewest ? 0 : idle + 1;
      if (count < fewest) {
        fewest = count;
        best = layers.map(layer => layer.slice());
      }
    }
  }
  if (isLarge) {
    best = layers;
  } else {
    layers = best;
    place(layers, position);
    swapNeighbours(layers, up, down, position);
  }
  return best;
}

/** Depth-first from the sources, so that connected nodes start close together. */
function initialOrder(rank: Int32Array, down: Adjacency, layerCount: number): Int32Array[] {
  const layers: number[][] = Array.from({ length: layerCount }, () => []);
  const seen = new Uint8Array(rank.length);
  const byRank = Int32Array.from(rank.keys()).sort((a, b) => rank[a]! - rank[b]! || a - b);
  const stack: number[] = [];
  for (const source of byRank) {
    stack.push(source);
    while (stack.length > 0) {
      const node = stack.pop()!;
      if (seen[node] === 1) {
        continue;
      }
      seen[node] = 1;
      layers[rank[node]!]!.push(node);
      for (let i = down.starts[node + 1]! - 1; i >= down.starts[node]!; i--) {
        stack.push(down.nodes[i]!);
      }
    }
  }
  return layers.map(layer => Int32Array.from(layer));
}

function place(layers: readonly Int32Array[], position: Float64Array): void {
  for (const layer of layers) {
    layer.forEach((node, index) => (position[node] = index));
  }
}

function sortLayer(
  layer: Int32Array,
  towards: Adjacency,
  position: Float64Array,
  equalsStay: boolean,
): void {
  const weight = new Map<number, number>();
  for (const node of layer) {
    const first = towards.starts[node]!;
    const end = towards.starts[node + 1]!;
    let sum = 0;
    for (let i = first; i < end; i++) {
      sum += position[towards.nodes[i]!]!;
    }
    // A node without neighbours there keeps its position.
    weight.set(node, end > first ? sum / (end - first) : position[node]!);
  }
  const sign = equalsStay ? 1 : -1;
  layer.sort((a, b) => weight.get(a)! - weight.get(b)! || sign * (position[a]! - position[b]!));
  layer.forEach((node, index) => (position[node] = index));
}

/** Number of pairs of edges that cross. */
export function crossings(
  layers: readonly Int32Array[],
  down: Adjacency,
  position: Float64Array,
): number {
  let total = 0;
  for (let layer = 0; layer + 1 < layers.length; layer++) {
    const size = layers[layer + 1]!.length;
    const tree = new Int32Array(size + 1);
    let added = 0;
    for (const node of layers[layer]!) {
      const ends = Array.from(
        down.nodes.subarray(down.starts[node], down.starts[node + 1]),
        other => position[other]!,
      );
      for (const end of ends) {
        let atMost = 0;
        for (let i = end + 1; i > 0; i -= i & -i) {
          atMost += tree[i]!;
        }
        total += added - atMost;
      }
      for (const end of ends) {
        for (let i = end + 1; i <= size; i += i & -i) {
          tree[i]!++;
        }
        added++;
      }
    }
  }
  return total;
}

/** Swaps adjacent nodes of a layer as long as that removes crossings. */
function swapNeighbours(
  layers: readonly Int32Array[],
  up: Adjacency,
  down: Adjacency,
  position: Float64Array,
): void {
  for (let round = 0, changed = true; changed && round < 4; round++) {
    changed = false;
    for (const layer of layers) {
      for (let i = 0; i + 1 < layer.length; i++) {
        const left = layer[i]!;
        const right = layer[i + 1]!;
        const gain =
          pairCrossings(left, right, up, position) +
          pairCrossings(left, right, down, position) -
          pairCrossings(right, left, up, position) -
          pairCrossings(right, left, down, position);
        if (gain > 0) {
          layer[i] = right;
          layer[i + 1] = left;
          position[right] = i;
          position[left] = i + 1;
          changed = true;
        }
      }
    }
  }
}

function pairCrossings(left: number, right: number, to: Adjacency, position: Float64Array): number {
  let count = 0;
  for (let i = to.starts[left]!; i < to.starts[left + 1]!; i++) {
    for (let j = to.starts[right]!; j < to.starts[right + 1]!; j++) {
      count += position[to.nodes[i]!]! > position[to.nodes[j]!]! ? 1 : 0;
    }
  }
  return count;
}
