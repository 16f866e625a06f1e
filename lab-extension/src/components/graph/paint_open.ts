/** Paints open boxes: background and title. */

import { whole } from '../format';
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
import { isPill, paintChevron, paintStacks, paintTag } from './paint_marks';

const MAX_TITLE_SIZE = 11;
const MIN_TITLE_SIZE = 9;

/** Paints the backgrounds and borders of open boxes. */
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

/** Paints titles of boxes, in view coordinates if the drawing's own text is too small. */
export function paintTitles(
  frame: Frame,
  open: readonly Box[],
  closed: readonly Box[],
  view: View,
): void {
  if (frame.isReadable) {
    open.forEach(box => paintHeader(frame, box));
    return;
  }
  const { context, camera, theme } = frame;
  context.setTransform(view.pixelRatio, 0, 0, view.pixelRatio, 0, 0);
  context.textAlign = 'left';
  context.textBaseline = 'middle';
  for (const box of closed) {
    const width = box.width * camera.scale;
    const height = box.height * camera.scale;
    const title = fullTitle(box);
    const size = Math.min(
      MAX_TITLE_SIZE,
      Math.max(MIN_TITLE_SIZE, (width - 10) / textWidth(title, 1)),
    );
    const text = cut(title, width - 10, size);
    if (height >= size + 2 && text !== '') {
      context.font = `600 ${size}px ${theme.code}`;
      context.fillStyle = theme.color(isPill(box) ? 'muted' : 'text');
      const left = camera.x + box.left * camera.scale;
      const x = isPill(box) ? left + (width - textWidth(text, size)) / 2 : left + 7;
      context.fillText(text, x, camera.y + (box.top + box.height / 2) * camera.scale);
    }
  }
  context.font = `600 ${MAX_TITLE_SIZE}px ${theme.code}`;
  for (const box of open) {
    const width = box.width * camera.scale;
    const height = box.height * camera.scale;
    if (width < 56 || height < 22) {
      continue;
    }
    const title = fullTitle(box);
    const text = cut(title, width - 16, MAX_TITLE_SIZE);
    const x = camera.x + box.left * camera.scale + 6;
    const y = camera.y + box.top * camera.scale + 10;
    context.fillStyle = theme.color(groundOf(box));
    context.globalAlpha = 0.85;
    context.fillRect(x - 3, y - 7, textWidth(text, MAX_TITLE_SIZE) + 8, 14);
    context.globalAlpha = 1;
    context.fillStyle = theme.color('text');
    context.fillText(text, x, y);
  }
}

function fullTitle(box: Box): string {
  const title = [box.tag, box.title].filter(Boolean).join(' ');
  return box.copies > 1 ? `${title} ×${whole(box.copies)}` : title;
}

/** `text` cut to the available width; empty if fewer than three characters would fit. */
function cut(text: string, room: number, size: number): string {
  const count = Math.floor(room / (size * ADVANCE));
  if (text.length <= count) {
    return text;
  }
  return count < 4 ? '' : `${text.slice(0, count - 1)}…`;
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

/** Paints the header's background, to hide edges behind its text. */
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
