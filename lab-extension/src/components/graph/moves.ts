/** Keyboard navigation between boxes. */

import { isPort, type Box, type BoxEdge } from './box';

export type Move = 'up' | 'down' | 'left' | 'right';

/** The box that an arrow key leads to; null if there is none. */
export function nextBox(from: Box, move: Move): Box | null {
  const level = from.parent;
  if (level === null) {
    return firstBox(from);
  }
  if (move === 'up' || move === 'down') {
    const along = neighbours(from, level.edges, move).filter(isStop);
    return (
      nearest(from, along) ?? nearest(from, siblings(level, from).filter(isBeyond(from, move)))
    );
  }
  const sign = move === 'left' ? -1 : 1;
  const beside = siblings(level, from).filter(
    box => sign * (centre(box) - centre(from)) > 1 && overlaps(box, from),
  );
  return nearest(from, beside);
}

/** Boxes connected to a box by its incoming (up) or outgoing (down) edges. */
function neighbours(box: Box, edges: readonly BoxEdge[], move: 'up' | 'down'): Box[] {
  return move === 'up'
    ? edges.filter(edge => edge.to === box).map(edge => edge.from)
    : edges.filter(edge => edge.from === box).map(edge => edge.to);
}

/** The first box inside an open one; null if it is empty. */
export function firstBox(box: Box): Box | null {
  const inside = box.children.filter(isStop);
  return inside.reduce<Box | null>(
    (best, each) =>
      best === null || each.top < best.top || (each.top === best.top && each.left < best.left)
        ? each
        : best,
    null,
  );
}

function isStop(box: Box): boolean {
  return !isPort(box);
}

function siblings(level: Box, box: Box): Box[] {
  return level.children.filter(each => each !== box && isStop(each));
}

function isBeyond(from: Box, move: 'up' | 'down'): (box: Box) => boolean {
  return box =>
    move === 'up' ? box.top + box.height <= from.top : box.top >= from.top + from.height;
}

function overlaps(a: Box, b: Box): boolean {
  return a.top < b.top + b.height && b.top < a.top + a.height;
}

function centre(box: Box): number {
  return box.left + box.width / 2;
}

function nearest(from: Box, boxes: readonly Box[]): Box | null {
  const distance = (box: Box): number =>
    Math.abs(centre(box) - centre(from)) + 2 * Math.abs(box.top - from.top);
  return boxes.reduce<Box | null>(
    (best, box) => (best === null || distance(box) < distance(best) ? box : best),
    null,
  );
}
