/** Paints closed boxes: cards for operations and groups, pills for inputs and outputs. */

import { FAMILIES, type Family } from '../../records/families';
import { whole } from '../format';
import { blend, type Theme } from '../theme';
import { SUBTITLE_SIZE, TITLE_SIZE, textWidth, type Box } from './box';
import { isFaint, type Frame } from './frame';
import { RADIUS, isPill, paintChevron, paintStacks, paintTag } from './paint_marks';

/** Paints closed boxes: first the faint ones, then the others. */
export function paintClosed(frame: Frame, boxes: readonly Box[]): void {
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

function traceAll(context: CanvasRenderingContext2D, boxes: readonly Box[], radius: number): void {
  context.beginPath();
  for (const box of boxes) {
    context.roundRect(box.left, box.top, box.width, box.height, radius);
  }
}

/** Paints boxes too small for outlines as plain blocks in their family's colour. */
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

function heatColor(theme: Theme, part: number): string {
  // Quantized to sixteen steps, so that boxes of similar heat are painted together.
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

/** Paints the stripe at the left of a box in its family's colour. */
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
  const badge = box.copies > 1 ? textWidth(`×${whole(box.copies)}`, TITLE_SIZE) + 12 : 0;
  context.fillText(box.title, x, titleY + 0.5, Math.max(8, box.left + box.width - 8 - badge - x));
  if (box.copies > 1) {
    const at = box.left + box.width - badge - 6;
    paintTag(frame, `×${whole(box.copies)}`, at, titleY, theme.color('accent'));
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
  context.fillText(
    box.title,
    box.left + box.width / 2,
    box.top + box.height / 2 + 0.5,
    box.width - 12,
  );
}
