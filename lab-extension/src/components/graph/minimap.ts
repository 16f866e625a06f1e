/** Strip beside the graph that shows the whole drawing and the visible part. */

import { el, type Disposables } from '../dom';
import type { Theme } from '../theme';
import type { Camera } from './camera';
import type { Bounds } from './model';
import type { Scene } from './scene';

const WIDTH = 72;
const HEIGHT = 320;
/** Minimum size of a view with a strip; the width is that of graph and strip together. */
const MIN_WIDTH = 480;
const MIN_HEIGHT = 200;

export class Minimap {
  readonly element = el('canvas', { class: 'pl-minimap', 'aria-hidden': 'true' });
  private readonly picture = document.createElement('canvas');
  private scale = 1;
  private bounds: Bounds = { left: 0, top: 0, width: 1, height: 1 };

  constructor(onDispose: Disposables, moveTo: (x: number, y: number) => void) {
    const jump = (event: PointerEvent): void => {
      const place = this.element.getBoundingClientRect();
      moveTo(
        this.bounds.left + (event.clientX - place.left) / this.scale,
        this.bounds.top + (event.clientY - place.top) / this.scale,
      );
    };
    onDispose.listen(this.element, 'pointerdown', event => {
      this.element.setPointerCapture(event.pointerId);
      jump(event);
      event.preventDefault();
    });
    onDispose.listen(this.element, 'pointermove', event => {
      if (event.buttons === 1) {
        jump(event);
      }
    });
  }

  /** Repaints the drawing; called after each layout. */
  update(scene: Scene, bounds: Bounds, theme: Theme, pixelRatio: number): void {
    this.bounds = bounds;
    this.scale = Math.min(
      WIDTH / Math.max(1, bounds.width),
      HEIGHT / Math.max(1, bounds.height),
      0.25,
    );
    const width = Math.max(24, bounds.width * this.scale);
    const height = Math.max(24, bounds.height * this.scale);
    for (const canvas of [this.element, this.picture]) {
      canvas.width = Math.ceil(width * pixelRatio);
      canvas.height = Math.ceil(height * pixelRatio);
    }
    this.element.style.width = `${width}px`;
    this.element.style.height = `${height}px`;
    const context = this.picture.getContext('2d');
    if (context === null) {
      return;
    }
    const scale = this.scale * pixelRatio;
    context.setTransform(scale, 0, 0, scale, -bounds.left * scale, -bounds.top * scale);
    context.fillStyle = theme.color('bg');
    context.fillRect(bounds.left, bounds.top, bounds.width + 99, bounds.height + 99);
    for (const box of scene.open) {
      if (box.parent !== null) {
        context.fillStyle = theme.color(box.depth % 2 === 1 ? 'group-2' : 'line');
        context.fillRect(box.left, box.top, box.width, box.height);
      }
    }
    const least = 1.2 / this.scale;
    for (const box of scene.closed) {
      const isValue = box.kind === 'input' || box.kind === 'output';
      context.fillStyle = isValue ? theme.color('line-strong') : theme.family[box.family];
      context.fillRect(box.left, box.top, Math.max(least, box.width), Math.max(least, box.height));
    }
  }

  /** Marks the visible part; hides the strip if everything is visible. */
  show(camera: Camera, width: number, height: number, theme: Theme, pixelRatio: number): void {
    const { bounds } = this;
    const isAll =
      camera.x + bounds.left * camera.scale >= -1 &&
      camera.y + bounds.top * camera.scale >= -1 &&
      camera.x + (bounds.left + bounds.width) * camera.scale <= width + 1 &&
      camera.y + (bounds.top + bounds.height) * camera.scale <= height + 1;
    // The strip reduces the graph's width. Measured without it, a view would show and hide it
    // alternately.
    const room = this.element.parentElement?.clientWidth ?? width;
    this.element.hidden = isAll || room < MIN_WIDTH || height < MIN_HEIGHT;
    const context = this.element.getContext('2d');
    if (this.element.hidden || context === null) {
      return;
    }
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.drawImage(this.picture, 0, 0);
    const [left, top] = camera.toDrawing(0, 0);
    const scale = this.scale * pixelRatio;
    const x = (left - bounds.left) * scale;
    const y = (top - bounds.top) * scale;
    const viewWidth = (width / camera.scale) * scale;
    const viewHeight = (height / camera.scale) * scale;
    context.strokeStyle = theme.color('accent');
    context.fillStyle = theme.color('accent');
    context.lineWidth = 1.5 * pixelRatio;
    context.globalAlpha = 0.12;
    context.fillRect(x, y, viewWidth, viewHeight);
    context.globalAlpha = 1;
    context.strokeRect(x, y, viewWidth, viewHeight);
  }
}
