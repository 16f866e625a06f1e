/** Assignment of nodes to layers. */

/** A graph with edges from lower to higher nodes, as adjacency lists. */
export interface Adjacency {
  readonly starts: Uint32Array;
  /** The other end of each edge. */
  readonly nodes: Int32Array;
  /** The edge number of each entry. */
  readonly edges: Int32Array;
}

/** Adjacency lists of the edges `from -> to`, in order of the edges. */
export function adjacency(nodeCount: number, from: Int32Array, to: Int32Array): Adjacency {
  const starts = new Uint32Array(nodeCount + 1);
  for (const node of from) {
    starts[node + 1]!++;
  }
  for (let node = 0; node < nodeCount; node++) {
    starts[node + 1]! += starts[node]!;
  }
  const next = starts.slice();
  const nodes = new Int32Array(from.length);
  const edges = new Int32Array(from.length);
  for (let edge = 0; edge < from.length; edge++) {
    const place = next[from[edge]!]!++;
    nodes[place] = to[edge]!;
    edges[place] = edge;
  }
  return { starts, nodes, edges };
}

/**
 * Layer of each node: one more than the highest layer of its predecessors. Nodes that only depend
 * on sources, or have
 * more users than operands, are moved down to their uses. `pins` is -1 for nodes of the first
 * layer, 1 for the last.
 */
export function ranks(before: Adjacency, after: Adjacency, pins: Int8Array): Int32Array {
  const count = pins.length;
  // A row of ports contains nothing else.
  const firstFree = pins.includes(-1) ? 1 : 0;
  const rank = new Int32Array(count);
  let last = 0;
  for (let node = 0; node < count; node++) {
    rank[node] = pins[node] === -1 ? 0 : firstFree;
    for (let i = before.starts[node]!; i < before.starts[node + 1]!; i++) {
      rank[node] = Math.max(rank[node]!, rank[before.nodes[i]!]! + 1);
    }
    if (pins[node] !== 1) {
      last = Math.max(last, rank[node]!);
    }
  }
  if (pins.includes(1)) {
    last++;
    for (let node = 0; node < count; node++) {
      rank[node] = pins[node] === 1 ? last : rank[node]!;
    }
  }
  const isLoose = new Uint8Array(count).fill(1);
  for (let node = 0; node < count; node++) {
    isLoose[node] = pins[node] === 0 ? 1 : 0;
    for (let i = before.starts[node]!; i < before.starts[node + 1]!; i++) {
      isLoose[node]! &= isLoose[before.nodes[i]!]!;
    }
  }
  for (let node = count - 1; node >= 0; node--) {
    const fanOut = after.starts[node + 1]! - after.starts[node]!;
    const fanIn = before.starts[node + 1]! - before.starts[node]!;
    if (pins[node] !== 0 || fanOut === 0 || (fanIn >= fanOut && isLoose[node] === 0)) {
      continue;
    }
    let lowest = last + 1;
    for (let i = after.starts[node]!; i < after.starts[node + 1]!; i++) {
      lowest = Math.min(lowest, rank[after.nodes[i]!]!);
    }
    rank[node] = Math.max(rank[node]!, lowest - 1);
  }
  return closeGaps(rank, last);
}

/** Renumbers layers so that none is empty. */
function closeGaps(rank: Int32Array, last: number): Int32Array {
  const used = new Int32Array(last + 2);
  rank.forEach(layer => (used[layer + 1] = 1));
  for (let layer = 0; layer <= last; layer++) {
    used[layer + 1]! += used[layer]!;
  }
  return rank.map(layer => used[layer]!);
}
