/** Transformation from drawing coordinates to view coordinates. */

import type { Bounds } from './model';

export const MIN_SCALE = 0.002;
export const MAX_SCALE = 3;
/** Minimum distance of the whole graph from the pane's borders, in pixels. */
const MARGIN = 28;

export class Camera {
  scale = 1;
  /** View coordinates of the drawing's origin. */
  x = 0;
  y = 0;

  toDrawing(x: number, y: number): [number, number] {
    return [(x - this.x) / this.scale, (y - this.y) / this.scale];
  }

  pan(dx: number, dy: number): void {
    this.x += dx;
    this.y += dy;
  }

  /** Zooms around the view position (`x`, `y`). */
  zoom(factor: number, x: number, y: number): void {
    const scale = Math.min(MAX_SCALE, Math.max(MIN_SCALE, this.scale * factor));
    const ratio = scale / this.scale;
    this.x = x - (x - this.x) * ratio;
    this.y = y - (y - this.y) * ratio;
    this.scale = scale;
  }

  /** Fits `bounds` into a view of this size, without enlarging beyond scale 1. */
  fit(bounds: Bounds, width: number, height: number, minScale = 0): void {
    const room = Math.min(
      (width - 2 * MARGIN) / Math.max(1, bounds.width),
      (height - 2 * MARGIN) / Math.max(1, bounds.height),
    );
    this.scale = Math.min(1, Math.max(MIN_SCALE, minScale, room));
    this.x = (width - bounds.width * this.scale) / 2 - bounds.left * this.scale;
    const free = height - bounds.height * this.scale;
    // If it doesn't fit, show the top, where a program begins.
    this.y = (free >= 2 * MARGIN ? free / 2 : MARGIN) - bounds.top * this.scale;
  }

  /** Scrolls as little as needed to show `bounds` with a margin. */
  reveal(bounds: Bounds, width: number, height: number): void {
    const shift = (start: number, size: number, view: number): number => {
      const margin = Math.min(60, view / 6, Math.max(0, (view - size) / 2));
      if (size > view - 2 * margin) {
        return start < margin && start + size > view - margin ? 0 : margin - start;
      }
      if (start < margin) {
        return margin - start;
      }
      return Math.min(0, view - margin - size - start);
    };
    this.x += shift(this.x + bounds.left * this.scale, bounds.width * this.scale, width);
    this.y += shift(this.y + bounds.top * this.scale, bounds.height * this.scale, height);
  }
}
