/** Marks used on both open and closed boxes. */

import { SUBTITLE_SIZE, textWidth, type Box } from './box';
import type { Badge, Frame } from './frame';

export const RADIUS = 6;

/** Whether a box is drawn as a pill: an input or an output of the program. */
export function isPill(box: Box): boolean {
  return box.kind === 'input' || box.kind === 'output';
}

/** Paints two more cards behind a box that represents several copies. */
export function paintStacks(
  { context, theme }: Frame,
  boxes: readonly Box[],
  radius: number,
): void {
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

/** Paints a small label on a tinted background; returns its width. */
export function paintTag(
  { context, theme }: Frame,
  text: string,
  x: number,
  y: number,
  color: string,
): number {
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

/**
 * Paints the arrow of a box that can be opened, centred at (x, y): down if `isOpen`, else to the
 * right.
 */
export function paintChevron(
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

/** Paints a label on the upper right corner of a box. */
export function paintBadge({ context, theme }: Frame, box: Box, badge: Badge): void {
  const width = textWidth(badge.text, SUBTITLE_SIZE) + 12;
  const left = box.left + Math.max(box.width - width + 10, box.width / 2);
  const color = theme.color(badge.isWarning ? 'amber' : 'collective');
  context.beginPath();
  context.roundRect(left, box.top - 15, width, 17, 8);
  context.fillStyle = theme.color(badge.isWarning ? 'amber-soft' : 'bg');
  context.fill();
  context.strokeStyle = color;
  context.lineWidth = 1.4;
  context.stroke();
  context.font = `600 ${SUBTITLE_SIZE}px ${theme.code}`;
  context.textBaseline = 'middle';
  context.textAlign = 'left';
  context.fillStyle = color;
  context.fillText(badge.text, left + 6, box.top - 6, width - 10);
}
