/** Paints a scene. Invisible boxes are skipped, and text too small to read is omitted. */

import type { Theme } from '../theme';
import type { Box } from './box';
import type { Camera } from './camera';
import { isVisible, type Emphasis, type Frame, type Motion, type View } from './frame';
import { paintClosed } from './paint_closed';
import { paintEdges } from './paint_edges';
import { RADIUS, isPill, paintBadge } from './paint_marks';
import { paintOpen, paintTitles } from './paint_open';
import type { Scene } from './scene';

/**
 * Minimum scale at which text of the drawing is readable; below it, titles are painted at the
 * view's scale.
 */
const MIN_READABLE_SCALE = 0.7;

/**
 * Paints a frame of the graph: the part of `scene` that `camera` shows in `view`, whose size is
 * in CSS pixels.
 */
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
    isReadable: scale >= MIN_READABLE_SCALE,
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
    paintBadges(frame, closed);
    paintTitles(frame, open, closed, view);
  });
}

/** Runs `draw` with every box at its animated position. */
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

/** Paints a faint grid of dots, which makes panning visible in empty areas. */
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

/** Paints labels on boxes; as dots if they would be too small. */
function paintBadges(frame: Frame, closed: readonly Box[]): void {
  const { context, theme, emphasis, isReadable } = frame;
  for (const box of emphasis.badges.size === 0 ? [] : closed) {
    const badge = emphasis.badges.get(box);
    if (badge !== undefined && isReadable) {
      paintBadge(frame, box, badge);
    } else if (badge !== undefined) {
      context.beginPath();
      context.arc(box.left + box.width, box.top, 7, 0, 2 * Math.PI);
      context.fillStyle = theme.color(badge.isWarning ? 'amber' : 'collective');
      context.fill();
    }
  }
}

/** Paints rings around emphasized boxes. */
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
