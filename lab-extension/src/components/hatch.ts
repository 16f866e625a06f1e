/** Hatching of areas of a canvas: what is idle, never written, unreduced, or padding. */

export interface Hatching {
  readonly alpha: number;
  /** Pixels from line to line, along an edge. */
  readonly step: number;
  readonly lineWidth: number;
}

/** Hatches an area. Lines of all areas of a picture are aligned. */
export function hatch(
  context: CanvasRenderingContext2D,
  { left, top, width, height }: { left: number; top: number; width: number; height: number },
  color: string,
  { alpha, step, lineWidth }: Hatching,
): void {
  context.save();
  context.beginPath();
  context.rect(left, top, width, height);
  context.clip();
  context.strokeStyle = color;
  context.globalAlpha = alpha;
  context.lineWidth = lineWidth;
  context.beginPath();
  const first = Math.floor((left + top) / step) * step;
  for (let sum = first; sum < left + top + width + height; sum += step) {
    context.moveTo(sum - top, top);
    context.lineTo(sum - top - height, top + height);
  }
  context.stroke();
  context.restore();
}
