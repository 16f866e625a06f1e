/** Layout of nested levels, innermost first. Levels with equal structure are laid out once. */

import { layLevel, type LevelGraph, type LevelLayout } from './layered';

/** The content of one open box. */
export interface NestedLevel {
  readonly widths: Float32Array;
  readonly heights: Float32Array;
  readonly from: Int32Array;
  readonly to: Int32Array;
  readonly pins: Int8Array;
  /** For each edge, the node inside the start (or end) node at which it continues, or -1. */
  readonly fromInner: Int32Array;
  readonly toInner: Int32Array;
  /** For each node, the index of its inner level, earlier in the list; -1 for a closed box. */
  readonly inner: Int32Array;
  /** Space around the content. */
  readonly padding: { readonly top: number; readonly side: number; readonly bottom: number };
  /** Minimum width of the box, for its title. */
  readonly minWidth: number;
}

/** A laid-out level and the size of its box. Positions are relative to the content. */
export interface NestedLayout extends LevelLayout {
  readonly boxWidth: number;
  readonly boxHeight: number;
  /** Offset of the content within the box. */
  readonly contentX: number;
  readonly contentY: number;
  readonly nodeWidths: Float32Array;
}

/** Caches layouts by the structure of the level. */
export class LayoutMemory {
  private readonly known = new Map<string, LevelLayout>();
  hits = 0;
  misses = 0;

  constructor(private readonly capacity = 4000) {}

  get(key: string, make: () => LevelLayout): LevelLayout {
    let layout = this.known.get(key);
    if (layout !== undefined) {
      this.hits++;
      return layout;
    }
    this.misses++;
    layout = make();
    if (this.known.size >= this.capacity) {
      this.known.delete(this.known.keys().next().value!);
    }
    this.known.set(key, layout);
    return layout;
  }
}

/** Lays out all levels; inner levels come before those that contain them. */
export function layNested(levels: readonly NestedLevel[], memory: LayoutMemory): NestedLayout[] {
  const done: NestedLayout[] = [];
  for (const level of levels) {
    const widths = level.widths.slice();
    const heights = level.heights.slice();
    level.inner.forEach((inner, node) => {
      if (inner >= 0) {
        widths[node] = done[inner]!.boxWidth;
        heights[node] = done[inner]!.boxHeight;
      }
    });
    const graph = {
      widths,
      heights,
      from: level.from,
      to: level.to,
      pins: level.pins,
      fromPorts: ports(done, level, level.from, level.fromInner),
      toPorts: ports(done, level, level.to, level.toInner),
    };
    const layout = memory.get(structureKey(graph), () => layLevel(graph));
    const { top, side, bottom } = level.padding;
    const boxWidth = Math.max(layout.width + 2 * side, level.minWidth);
    done.push({
      ...layout,
      boxWidth,
      boxHeight: layout.height + top + bottom,
      contentX: (boxWidth - layout.width) / 2,
      contentY: top,
      nodeWidths: widths,
    });
  }
  return done;
}

/** Centre of the inner node at which each edge continues, from the left side of its box. */
function ports(
  done: readonly NestedLayout[],
  level: NestedLevel,
  ends: Int32Array,
  inner: Int32Array,
): Float32Array {
  return Float32Array.from(ends, (end, edge) => {
    const layout = done[level.inner[end]!];
    const node = inner[edge]!;
    return layout === undefined || node < 0
      ? NaN
      : layout.contentX + layout.x[node]! + layout.nodeWidths[node]! / 2;
  });
}

function structureKey(graph: LevelGraph): string {
  const { widths, heights, from, to, pins, fromPorts, toPorts } = graph;
  const parts = [widths, heights, from, to, pins, fromPorts, toPorts];
  return parts.map(part => `${part.length}:${hashOf(part)}`).join(' ');
}

/** Two independent 32-bit hashes of the numbers, as a string. */
function hashOf(numbers: Float32Array | Int32Array | Int8Array): string {
  let first = 0x811c9dc5;
  let second = 0x1b873593;
  for (const number of numbers) {
    const whole = Math.round(number * 8) || 0;
    first = Math.imul(first ^ whole, 0x01000193);
    second = Math.imul(second + whole, 0x9e3779b1);
    second ^= second >>> 15;
  }
  return `${first >>> 0}.${second >>> 0}`;
}
