/** Paints a scene: what can't be seen is left out, what is too small to read loses its text. */

import type { Family } from '../../records/families';
import { FAMILIES } from '../../records/families';
import { blend, type Theme } from '../theme';
import {
  ADVANCE,
  HEADER_HEIGHT,
  HEADER_LEFT,
  SUBTITLE_SIZE,
  TITLE_SIZE,
  stepperText,
  textWidth,
  type Box,
} from './box';
import type { Camera } from './camera';
import { WEIGHTS, type Scene, type SceneEdge } from './scene';

/** What stands out, and what a quantity says about each box. */
export interface Emphasis {
  readonly hovered: Box | null;
  readonly hoveredEdge: SceneEdge | null;
  readonly selected: Box | null;
  /** Boxes that another view points at. */
  readonly linked: ReadonlySet<Box>;
  readonly matches: ReadonlySet<Box>;
  /** If set, everything else is faint. */
  readonly focus: ReadonlySet<Box> | null;
  readonly isOnPath: ((edge: SceneEdge) => boolean) | null;
  readonly path: ReadonlySet<Box>;
  readonly heat: ReadonlyMap<Box, Heat> | null;
}

export interface Heat {
  /** From 0 to 1. */
  readonly part: number;
  /** The figure in words, the longest form first. */
  readonly texts: readonly string[];
}

/** Where boxes come from when a layout changes, and how far they are on their way. */
export interface Motion {
  readonly from: ReadonlyMap<string, readonly [number, number, number, number]>;
  readonly part: number;
}

export interface View {
  readonly width: number;
  readonly height: number;
  readonly pixelRatio: number;
}

const READABLE = 0.5;
const RADIUS = 6;
const SMALL_TEXT = 11;

interface Frame {
  readonly context: CanvasRenderingContext2D;
  readonly camera: Camera;
  readonly theme: Theme;
  readonly emphasis: Emphasis;
  readonly isReadable: boolean;
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

export function paint(
  context: CanvasRenderingContext2D,
  scene: Scene,
  camera: Camera,
  view: View,
  theme: Theme,
  emphasis: Emphasis,
  motion: Motion | null,
): void {
  const { width, height, pixelRatio } = view;
  const { scale } = camera;
  context.setTransform(pixelRatio, 0, 0, pixelRatio, 0, 0);
  context.fillStyle = theme.color('bg');
  context.fillRect(0, 0, width, height);
  const [left, top] = camera.toDrawing(0, 0);
  const [right, bottom] = camera.toDrawing(width, height);
  const frame: Frame = {
    context,
    camera,
    theme,
    emphasis,
    isReadable: scale >= READABLE,
    left,
    top,
    right,
    bottom,
  };
  if (scale > 0.45) {
    paintGrid(frame);
  }
  context.setTransform(
    scale * pixelRatio,
    0,
    0,
    scale * pixelRatio,
    camera.x * pixelRatio,
    camera.y * pixelRatio,
  );
  withMotion(scene.boxes, motion, () => {
    const open = scene.open.filter(box => box.parent !== null && isVisible(frame, box));
    paintOpen(frame, open);
    context.globalAlpha = motion === null ? 1 : motion.part ** 2;
    paintEdges(frame, scene);
    context.globalAlpha = 1;
    const closed = scene.closed.filter(box => isVisible(frame, box));
    paintClosed(frame, closed);
    paintRings(frame, scene);
    paintTitles(frame, open, view);
  });
}

/** Runs `draw` with every box on its way from where it was. */
function withMotion(boxes: readonly Box[], motion: Motion | null, draw: () => void): void {
  if (motion === null) {
    draw();
    return;
  }
  const ends = boxes.map(box => [box.left, box.top, box.width, box.height] as const);
  boxes.forEach(box => {
    const start = motion.from.get(box.key);
    if (start !== undefined) {
      const part = motion.part;
      box.left = start[0] + (box.left - start[0]) * part;
      box.top = start[1] + (box.top - start[1]) * part;
      box.width = start[2] + (box.width - start[2]) * part;
      box.height = start[3] + (box.height - start[3]) * part;
    }
  });
  draw();
  boxes.forEach((box, index) => {
    [box.left, box.top, box.width, box.height] = ends[index]!;
  });
}

function isVisible(frame: Frame, box: Box): boolean {
  return (
    box.left < frame.right &&
    box.left + box.width > frame.left &&
    box.top < frame.bottom &&
    box.top + box.height > frame.top
  );
}

function isFaint(frame: Frame, box: Box): boolean {
  const { focus } = frame.emphasis;
  return focus !== null && !focus.has(box);
}

/** A quiet grid of dots, so that panning an empty part can be felt. */
function paintGrid({ context, theme, left, top, right, bottom, camera }: Frame): void {
  const step = 32;
  context.fillStyle = theme.color('line');
  context.globalAlpha = 0.55;
  context.beginPath();
  for (let x = Math.ceil(left / step) * step; x < right; x += step) {
    for (let y = Math.ceil(top / step) * step; y < bottom; y += step) {
      context.rect(camera.x + x * camera.scale - 0.5, camera.y + y * camera.scale - 0.5, 1, 1);
    }
  }
  context.fill();
  context.globalAlpha = 1;
}

function paintOpen(frame: Frame, boxes: readonly Box[]): void {
  const { context, theme } = frame;
  paintStacks(
    frame,
    boxes.filter(box => box.copies > 1),
    10,
  );
  for (const box of boxes) {
    context.fillStyle = theme.color(box.depth % 2 === 1 ? 'group-1' : 'group-2');
    context.strokeStyle = theme.color('line');
    context.lineWidth = box.kind === 'region' ? 1 : 1.2;
    context.setLineDash(box.kind === 'region' ? [5, 4] : []);
    context.beginPath();
    context.roundRect(box.left, box.top, box.width, box.height, 10);
    context.fill();
    context.stroke();
  }
  context.setLineDash([]);
}

// Edges

function paintEdges(frame: Frame, scene: Scene): void {
  const { context, theme, emphasis, camera } = frame;
  const plain: SceneEdge[][] = Array.from({ length: WEIGHTS }, () => []);
  const path: SceneEdge[] = [];
  const faint: SceneEdge[] = [];
  const upstream: SceneEdge[] = [];
  const downstream: SceneEdge[] = [];
  const subject = emphasis.hovered ?? emphasis.selected;
  for (const edge of scene.edges) {
    if (
      edge.left > frame.right ||
      edge.right < frame.left ||
      edge.top > frame.bottom ||
      edge.bottom < frame.top
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
      plain[edge.weight]!.push(edge);
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
  strokeEdges(frame, scene, path, theme.color('amber'), thin * 2.4);
  strokeEdges(frame, scene, upstream, theme.color('upstream'), thin * 2, true);
  strokeEdges(frame, scene, downstream, theme.color('downstream'), thin * 2, true);
  if (frame.isReadable) {
    paintLabels(frame, scene, [...upstream, ...downstream, ...plain.flat(), ...path]);
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
        context.moveTo(x, y);
        context.lineTo(x - 3.5, y - 6);
        context.lineTo(x + 3.5, y - 6);
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

/** A stub at either end of an edge that is too long to be drawn; the whole of it when asked. */
function tracePortal(context: CanvasRenderingContext2D, { edge }: SceneEdge, isWhole: boolean): void {
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

/** Types on edges, where two of them don't meet. */
function paintLabels(frame: Frame, scene: Scene, edges: readonly SceneEdge[]): void {
  const { context, theme } = frame;
  const size = 9.5;
  context.font = `${size}px ${theme.code}`;
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  const taken = new Set<number>();
  for (const { label, start, end } of edges) {
    if (label === '' || end - start < 4) {
      continue;
    }
    const [x, y] = labelPlace(scene.points, start, end);
    const half = (label.length * size * ADVANCE) / 2 + 3;
    const row = Math.round(y / 13) * 100_003;
    const cells: number[] = [];
    for (let cell = Math.floor((x - half) / 8); cell <= Math.floor((x + half) / 8); cell++) {
      cells.push(row + cell);
    }
    if (cells.some(cell => taken.has(cell))) {
      continue;
    }
    cells.forEach(cell => taken.add(cell));
    context.fillStyle = theme.color('bg');
    context.globalAlpha = 0.85;
    context.fillRect(x - half, y - 6, 2 * half, 12);
    context.globalAlpha = 1;
    context.fillStyle = theme.color('muted');
    context.fillText(label, x, y + 0.5);
  }
}

/** A place on an edge near its source, half-way on a short one. */
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

// Closed boxes

function paintClosed(frame: Frame, boxes: readonly Box[]): void {
  const clear = boxes.filter(box => !isFaint(frame, box));
  if (clear.length < boxes.length) {
    frame.context.globalAlpha = 0.22;
    paintBoxes(
      frame,
      boxes.filter(box => isFaint(frame, box)),
    );
    frame.context.globalAlpha = 1;
  }
  paintBoxes(frame, clear);
}

function paintBoxes(frame: Frame, boxes: readonly Box[]): void {
  if (frame.camera.scale < 0.22) {
    paintBlocks(frame, boxes);
    return;
  }
  const { context, theme } = frame;
  const pills = boxes.filter(isPill);
  const cards = boxes.filter(box => !isPill(box));
  context.lineWidth = Math.min(2, Math.max(1, 0.8 / frame.camera.scale));
  paintStacks(
    frame,
    cards.filter(box => box.copies > 1),
    RADIUS,
  );
  context.fillStyle = theme.color('surface');
  context.strokeStyle = theme.color('line-strong');
  traceAll(context, cards, RADIUS);
  context.fill();
  paintHeat(frame, cards);
  traceAll(context, cards, RADIUS);
  context.stroke();
  context.strokeStyle = theme.color('line');
  context.fillStyle = theme.color('bg');
  traceAll(context, pills, 11);
  context.fill();
  context.stroke();
  for (const family of FAMILIES) {
    paintBars(frame, cards, family);
  }
  if (frame.isReadable) {
    cards.forEach(box => paintCardText(frame, box));
    pills.forEach(box => paintPillText(frame, box));
  }
}

function isPill(box: Box): boolean {
  return box.kind === 'input' || box.kind === 'output';
}

function traceAll(context: CanvasRenderingContext2D, boxes: readonly Box[], radius: number): void {
  context.beginPath();
  for (const box of boxes) {
    context.roundRect(box.left, box.top, box.width, box.height, radius);
  }
}

/** Boxes too small for outlines: plain blocks in the colour of their family. */
function paintBlocks(frame: Frame, boxes: readonly Box[]): void {
  const { context, theme, emphasis } = frame;
  const byColor = new Map<string, Box[]>();
  for (const box of boxes) {
    const heat = emphasis.heat?.get(box);
    const color =
      emphasis.heat !== null
        ? heatColor(theme, heat?.part ?? 0)
        : isPill(box)
          ? theme.color('line-strong')
          : theme.family[box.family];
    const known = byColor.get(color);
    if (known === undefined) {
      byColor.set(color, [box]);
    } else {
      known.push(box);
    }
  }
  for (const [color, group] of byColor) {
    context.fillStyle = color;
    context.beginPath();
    for (const box of group) {
      context.rect(box.left, box.top, box.width, box.height);
    }
    context.fill();
  }
}

/** Two more cards behind a box that stands for several. */
function paintStacks({ context, theme }: Frame, boxes: readonly Box[], radius: number): void {
  context.fillStyle = theme.color('group-2');
  context.strokeStyle = theme.color('line-strong');
  for (const shift of [8, 4]) {
    context.beginPath();
    for (const box of boxes) {
      context.roundRect(box.left + shift, box.top + shift, box.width, box.height, radius);
    }
    context.fill();
    context.stroke();
  }
}

function heatColor(theme: Theme, part: number): string {
  // Sixteen steps, so that boxes of about the same heat are painted together.
  return blend(theme.color('heat-low'), theme.color('heat-high'), Math.round(part * 16) / 16);
}

function paintHeat({ context, theme, emphasis }: Frame, boxes: readonly Box[]): void {
  if (emphasis.heat === null) {
    return;
  }
  for (const box of boxes) {
    const heat = emphasis.heat.get(box);
    if (heat !== undefined && !Number.isNaN(heat.part)) {
      context.fillStyle = heatColor(theme, heat.part);
      context.beginPath();
      context.roundRect(box.left, box.top, box.width, box.height, RADIUS);
      context.fill();
    }
  }
}

/** The stripe at the left that tells the family. */
function paintBars({ context, theme }: Frame, boxes: readonly Box[], family: Family): void {
  context.fillStyle = theme.family[family];
  context.beginPath();
  let any = false;
  for (const box of boxes) {
    if (box.family === family) {
      any = true;
      context.roundRect(box.left + 4, box.top + 5, 4, box.height - 10, 2);
    }
  }
  if (any) {
    context.fill();
  }
}

function paintCardText(frame: Frame, box: Box): void {
  const { context, theme, emphasis } = frame;
  const heat = emphasis.heat?.get(box);
  const room = box.width - 22;
  const figure = heat?.texts.find(text => textWidth(text, SUBTITLE_SIZE) <= room);
  const subtitle = figure ?? (heat === undefined ? box.subtitle : '');
  const middle = box.top + box.height / 2;
  const hasSubtitle = subtitle !== '' && box.height > 32;
  const titleY = hasSubtitle ? middle - 8 : middle;
  let x = box.left + 15;
  context.textBaseline = 'middle';
  context.textAlign = 'left';
  if (box.isExpandable) {
    paintChevron(context, x + 3, titleY, false, theme.color('muted'));
    x += 14;
  }
  if (box.tag !== '') {
    x += paintTag(frame, box.tag, x, titleY, theme.family.control) + 6;
  }
  context.font = `600 ${TITLE_SIZE}px ${theme.code}`;
  context.fillStyle = theme.color('text');
  const badge = box.copies > 1 ? textWidth(`×${box.copies}`, TITLE_SIZE) + 12 : 0;
  context.fillText(box.title, x, titleY + 0.5, Math.max(8, box.left + box.width - 8 - badge - x));
  if (box.copies > 1) {
    const at = box.left + box.width - badge - 6;
    paintTag(frame, `×${box.copies}`, at, titleY, theme.color('accent'));
  }
  if (hasSubtitle) {
    context.font = `${SUBTITLE_SIZE}px ${theme.code}`;
    context.fillStyle = theme.color(heat === undefined ? 'muted' : 'text');
    context.fillText(subtitle, box.left + 15, middle + 9, room);
  }
}

function paintPillText({ context, theme }: Frame, box: Box): void {
  context.font = `${SUBTITLE_SIZE + 0.5}px ${theme.code}`;
  context.textBaseline = 'middle';
  context.textAlign = 'center';
  context.fillStyle = theme.color(box.kind === 'input' ? 'creation' : 'control');
  context.fillText(box.title, box.left + box.width / 2, box.top + box.height / 2 + 0.5, box.width - 12);
}

/** A small label on a tinted ground; gives its width. */
function paintTag({ context, theme }: Frame, text: string, x: number, y: number, color: string): number {
  const width = textWidth(text, SUBTITLE_SIZE) + 10;
  const before = context.globalAlpha;
  context.fillStyle = color;
  context.globalAlpha = before * (theme.isDark ? 0.25 : 0.14);
  context.beginPath();
  context.roundRect(x, y - 8, width, 16, 5);
  context.fill();
  context.globalAlpha = before;
  context.font = `600 ${SUBTITLE_SIZE}px ${theme.code}`;
  context.fillStyle = color;
  context.fillText(text, x + 5, y + 0.5, width - 8);
  return width;
}

function paintChevron(
  context: CanvasRenderingContext2D,
  x: number,
  y: number,
  isOpen: boolean,
  color: string,
): void {
  context.strokeStyle = color;
  context.lineWidth = 1.6;
  context.beginPath();
  if (isOpen) {
    context.moveTo(x - 3.5, y - 2);
    context.lineTo(x, y + 2);
    context.lineTo(x + 3.5, y - 2);
  } else {
    context.moveTo(x - 2, y - 3.5);
    context.lineTo(x + 2, y);
    context.lineTo(x - 2, y + 3.5);
  }
  context.stroke();
}

// Titles of open boxes, in the size of the view where the drawing is too small

function paintTitles(frame: Frame, boxes: readonly Box[], view: View): void {
  if (frame.isReadable) {
    boxes.forEach(box => paintHeader(frame, box));
    return;
  }
  const { context, camera, theme } = frame;
  context.setTransform(view.pixelRatio, 0, 0, view.pixelRatio, 0, 0);
  context.font = `600 ${SMALL_TEXT}px ${theme.code}`;
  context.textAlign = 'left';
  context.textBaseline = 'middle';
  for (const box of boxes) {
    const width = box.width * camera.scale;
    const height = box.height * camera.scale;
    if (width < 56 || height < 22) {
      continue;
    }
    const title = box.copies > 1 ? `${box.title} ×${box.copies}` : box.title || box.tag;
    const x = camera.x + box.left * camera.scale + 6;
    const y = camera.y + box.top * camera.scale + 10;
    const ground = Math.min(width - 8, textWidth(title, SMALL_TEXT) + 8);
    context.fillStyle = theme.color(box.depth % 2 === 1 ? 'group-1' : 'group-2');
    context.globalAlpha = 0.85;
    context.fillRect(x - 3, y - 7, ground, 14);
    context.globalAlpha = 1;
    context.fillStyle = theme.color('text');
    const room = Math.floor((width - 16) / (SMALL_TEXT * ADVANCE));
    context.fillText(title.length > room ? `${title.slice(0, Math.max(1, room - 1))}…` : title, x, y);
  }
}

function paintHeader(frame: Frame, box: Box): void {
  const { context, theme, emphasis } = frame;
  const y = box.top + HEADER_HEIGHT / 2 + 2;
  let x = box.left + HEADER_LEFT;
  context.textAlign = 'left';
  context.textBaseline = 'middle';
  paintChevron(context, x + 3, y, true, theme.color('muted'));
  x += 14;
  if (box.tag !== '') {
    x += paintTag(frame, box.tag, x, y, theme.family.control) + 6;
  }
  context.font = `600 ${TITLE_SIZE}px ${theme.code}`;
  context.fillStyle = theme.color('text');
  context.fillText(box.title, x, y + 0.5);
  x += textWidth(box.title, TITLE_SIZE) + 8;
  if (box.copies > 1) {
    x += paintTag(frame, stepperText(box), x, y, theme.color('accent')) + 6;
  }
  const heat = emphasis.heat?.get(box);
  const note = heat?.texts[0] ?? '';
  if (note !== '' && box.left + box.width - x > textWidth(note, SUBTITLE_SIZE) + 12) {
    context.font = `${SUBTITLE_SIZE}px ${theme.code}`;
    context.fillStyle = theme.color('muted');
    context.fillText(note, x, y + 0.5);
  }
}

// Rings around what stands out

function paintRings(frame: Frame, scene: Scene): void {
  const { context, theme, emphasis, camera } = frame;
  const ring = (boxes: Iterable<Box>, color: string, width: number, wash: number): void => {
    for (const box of boxes) {
      if (!isVisible(frame, box) || box.parent === null) {
        continue;
      }
      const grow = 1.5 / Math.min(1, camera.scale);
      context.beginPath();
      context.roundRect(
        box.left - grow,
        box.top - grow,
        box.width + 2 * grow,
        box.height + 2 * grow,
        (isPill(box) ? 11 : box.isOpen ? 10 : RADIUS) + grow,
      );
      context.strokeStyle = color;
      context.lineWidth = width / Math.min(1, camera.scale);
      context.stroke();
      if (wash > 0 && !box.isOpen) {
        context.globalAlpha = wash;
        context.fillStyle = color;
        context.fill();
        context.globalAlpha = 1;
      }
    }
  };
  if (emphasis.path.size > 0) {
    ring(
      scene.closed.filter(box => emphasis.path.has(box)),
      theme.color('amber'),
      1.6,
      0,
    );
  }
  ring(emphasis.matches, theme.color('mark-line'), 2, 0.12);
  ring(emphasis.linked, theme.color('mark-line'), 2.4, 0.16);
  if (emphasis.hovered !== null) {
    ring([emphasis.hovered], theme.color('accent'), 1.5, 0);
  }
  if (emphasis.selected !== null) {
    ring([emphasis.selected], theme.color('accent'), 2.6, 0.06);
  }
}
