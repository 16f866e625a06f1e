/** From places in the drawing to places in the view. */

import type { Bounds } from './model';

export const LEAST_SCALE = 0.002;
export const MOST_SCALE = 3;
const MARGIN = 28;

export class Camera {
  scale = 1;
  /** Place of the drawing's origin in the view. */
  x = 0;
  y = 0;

  toDrawing(x: number, y: number): [number, number] {
    return [(x - this.x) / this.scale, (y - this.y) / this.scale];
  }

  pan(dx: number, dy: number): void {
    this.x += dx;
    this.y += dy;
  }

  /** Zooms so that the place under (`x`, `y`) stays there. */
  zoom(factor: number, x: number, y: number): void {
    const scale = Math.min(MOST_SCALE, Math.max(LEAST_SCALE, this.scale * factor));
    const ratio = scale / this.scale;
    this.x = x - (x - this.x) * ratio;
    this.y = y - (y - this.y) * ratio;
    this.scale = scale;
  }

  /** Shows `bounds` in a view of this size; never larger than life. */
  fit(bounds: Bounds, width: number, height: number, leastScale = 0): void {
    const room = Math.min(
      (width - 2 * MARGIN) / Math.max(1, bounds.width),
      (height - 2 * MARGIN) / Math.max(1, bounds.height),
    );
    this.scale = Math.min(1, Math.max(LEAST_SCALE, leastScale, room));
    this.x = (width - bounds.width * this.scale) / 2 - bounds.left * this.scale;
    const free = height - bounds.height * this.scale;
    // What does not fit is shown from its top, where a program begins.
    this.y = (free >= 2 * MARGIN ? free / 2 : MARGIN) - bounds.top * this.scale;
  }

  /** Moves as little as it takes to see `bounds` with room around it. */
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
