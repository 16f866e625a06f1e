/** Paints open boxes: their ground and their titles. */

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
import type { Frame, View } from './frame';
import { paintChevron, paintStacks, paintTag } from './paint_marks';

const SMALL_TEXT = 11;

export function paintOpen(frame: Frame, boxes: readonly Box[]): void {
  const { context, theme } = frame;
  paintStacks(
    frame,
    boxes.filter(box => box.copies > 1),
    10,
  );
  for (const box of boxes) {
    context.fillStyle = theme.color(groundOf(box));
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

/** In the size of the view where the drawing is too small to be read. */
export function paintTitles(frame: Frame, boxes: readonly Box[], view: View): void {
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
    context.fillStyle = theme.color(groundOf(box));
    context.globalAlpha = 0.85;
    context.fillRect(x - 3, y - 7, ground, 14);
    context.globalAlpha = 1;
    context.fillStyle = theme.color('text');
    const room = Math.floor((width - 16) / (SMALL_TEXT * ADVANCE));
    context.fillText(
      title.length > room ? `${title.slice(0, Math.max(1, room - 1))}…` : title,
      x,
      y,
    );
  }
}

function paintHeader(frame: Frame, box: Box): void {
  const { context, theme, emphasis } = frame;
  const y = box.top + HEADER_HEIGHT / 2 + 2;
  let x = box.left + HEADER_LEFT;
  context.textAlign = 'left';
  context.textBaseline = 'middle';
  paintHeaderGround(frame, box, y);
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

/** Hides edges that cross the header, behind its words. */
function paintHeaderGround({ context, theme }: Frame, box: Box, y: number): void {
  const tag = box.tag === '' ? 0 : textWidth(box.tag, SUBTITLE_SIZE) + 16;
  context.fillStyle = theme.color(groundOf(box));
  context.globalAlpha = 0.9;
  context.fillRect(box.left + 6, y - 9, textWidth(box.title, TITLE_SIZE) + tag + 28, 18);
  context.globalAlpha = 1;
}

function groundOf(box: Box): string {
  return box.depth % 2 === 1 ? 'group-1' : 'group-2';
}
