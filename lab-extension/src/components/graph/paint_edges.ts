/** Paints edges, thicker for more bytes, with the types of their values. */

import { isFaint, type Frame } from './frame';
import { LABEL_SIZE, WEIGHTS, labelsApart, type Scene, type SceneEdge } from './scene';

const MIN_EDGE_PIXELS = 1.5;
/** Length of a dash in pixels of the screen. */
const DASH = 6;

/** Paints the edges in view that are long enough to be seen, highlighted ones last. */
export function paintEdges(frame: Frame, scene: Scene): void {
  const { context, theme, emphasis, camera } = frame;
  const plain: SceneEdge[][] = Array.from({ length: WEIGHTS }, () => []);
  const colored = new Map<string, SceneEdge[]>();
  const path: SceneEdge[] = [];
  const faint: SceneEdge[] = [];
  const upstream: SceneEdge[] = [];
  const downstream: SceneEdge[] = [];
  // A shorter edge is hidden between the boxes that it connects.
  const smallest = MIN_EDGE_PIXELS / camera.scale;
  const subject = emphasis.hovered ?? emphasis.selected;
  for (const edge of scene.edges) {
    if (
      edge.left > frame.right ||
      edge.right < frame.left ||
      edge.top > frame.bottom ||
      edge.bottom < frame.top ||
      edge.right - edge.left + edge.bottom - edge.top < smallest
    ) {
      continue;
    }
    const { from, to } = edge.edge;
    if (edge === emphasis.hoveredEdge || from === subject) {
      downstream.push(edge);
    } else if (to === subject) {
      upstream.push(edge);
    } else if (isFaint(frame, from) || isFaint(frame, to)) {
      faint.push(edge);
    } else if (emphasis.isOnPath?.(edge) === true) {
      path.push(edge);
    } else {
      const colors = emphasis.edgeColors?.(edge) ?? [];
      colors.forEach((color, index) => {
        const kind = `${index} ${colors.length} ${color}`;
        const known = colored.get(kind);
        if (known === undefined) {
          colored.set(kind, [edge]);
        } else {
          known.push(edge);
        }
      });
      if (colors.length === 0) {
        plain[edge.weight]!.push(edge);
      }
    }
  }
  const thin = Math.max(1, 0.7 / camera.scale);
  const before = context.globalAlpha;
  context.globalAlpha = before * 0.25;
  strokeEdges(frame, scene, faint, theme.color('edge'), thin);
  context.globalAlpha = before;
  plain.forEach((edges, weight) =>
    strokeEdges(frame, scene, edges, theme.color('edge'), thin * (1 + 0.45 * weight)),
  );
  // Edges with several colours are painted once per colour: later ones as dashes over the first.
  for (const [kind, edges] of [...colored].sort(([a], [b]) => parseInt(a) - parseInt(b))) {
    const [index, count, ...color] = kind.split(' ');
    const dash = DASH / camera.scale;
    context.setLineDash(index === '0' ? [] : [dash, dash * (Number(count) - 1)]);
    context.lineDashOffset = -dash * Number(index);
    strokeEdges(frame, scene, edges, color.join(' '), thin * 1.9);
  }
  context.setLineDash([]);
  strokeEdges(frame, scene, path, theme.color('amber'), thin * 2.4);
  strokeEdges(frame, scene, upstream, theme.color('upstream'), thin * 2, true);
  strokeEdges(frame, scene, downstream, theme.color('downstream'), thin * 2, true);
  if (frame.isReadable) {
    paintLabels(frame, scene, [
      ...upstream,
      ...downstream,
      ...plain.flat(),
      ...new Set([...colored.values()].flat()),
      ...path,
    ]);
  }
}

function strokeEdges(
  frame: Frame,
  scene: Scene,
  edges: readonly SceneEdge[],
  color: string,
  width: number,
  isWhole = false,
): void {
  if (edges.length === 0) {
    return;
  }
  const { context } = frame;
  const curved = frame.camera.scale > 0.2;
  context.strokeStyle = color;
  context.lineWidth = width;
  context.beginPath();
  for (const edge of edges) {
    if (edge.start === edge.end) {
      tracePortal(context, edge, isWhole);
    } else {
      traceEdge(context, scene.points, edge.start, edge.end, curved);
    }
  }
  context.stroke();
  if (frame.isReadable) {
    context.fillStyle = color;
    context.beginPath();
    for (const { start, end, hasArrow } of edges) {
      if (end > start && hasArrow) {
        const x = scene.points[end - 2]!;
        const y = scene.points[end - 1]!;
        // A loop's edge back to its condition goes upwards.
        const tail = scene.points[end - 3]! > y ? y + 6 : y - 6;
        context.moveTo(x, y);
        context.lineTo(x - 3.5, tail);
        context.lineTo(x + 3.5, tail);
      }
    }
    context.fill();
  }
}

function traceEdge(
  context: CanvasRenderingContext2D,
  points: Float32Array,
  start: number,
  end: number,
  curved: boolean,
): void {
  context.moveTo(points[start]!, points[start + 1]!);
  for (let i = start + 2; i < end; i += 2) {
    const x0 = points[i - 2]!;
    const y0 = points[i - 1]!;
    const x1 = points[i]!;
    const y1 = points[i + 1]!;
    if (!curved || Math.abs(x1 - x0) < 0.5) {
      context.lineTo(x1, y1);
    } else {
      const bend = (y1 - y0) / 2;
      context.bezierCurveTo(x0, y0 + bend, x1, y1 - bend, x1, y1);
    }
  }
}

/**
 * Paints only stubs at both ends of an edge that is too long; the whole edge if it is emphasized.
 */
function tracePortal(
  context: CanvasRenderingContext2D,
  { edge }: SceneEdge,
  isWhole: boolean,
): void {
  const x0 = edge.from.left + edge.from.width / 2;
  const y0 = edge.from.top + edge.from.height;
  const x1 = edge.to.left + edge.to.width / 2;
  const y1 = edge.to.top;
  if (isWhole) {
    context.moveTo(x0, y0);
    context.bezierCurveTo(x0, y0 + 80, x1, y1 - 80, x1, y1);
    return;
  }
  context.moveTo(x0 + 10, y0);
  context.lineTo(x0 + 13, y0 + 9);
  context.moveTo(x1 - 13, y1 - 9);
  context.lineTo(x1 - 10, y1);
}

/** Paints types on edges, skipping those that would overlap. */
function paintLabels(frame: Frame, scene: Scene, edges: readonly SceneEdge[]): void {
  const { context, theme } = frame;
  context.font = `${LABEL_SIZE}px ${theme.code}`;
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  for (const { edge, bounds } of labelsApart(scene, edges)) {
    context.fillStyle = theme.color('bg');
    context.globalAlpha = 0.85;
    context.fillRect(bounds.left, bounds.top, bounds.width, bounds.height);
    context.globalAlpha = 1;
    context.fillStyle = theme.color('muted');
    context.fillText(
      edge.label,
      bounds.left + bounds.width / 2,
      bounds.top + bounds.height / 2 + 0.5,
    );
  }
}
