/**
 * A canvas that fills its container, repainted on request and when the container's size changes.
 */

import { Disposables, el } from './dom';

export class CanvasPane {
  readonly element: HTMLElement;
  readonly canvas: HTMLCanvasElement;
  width = 0;
  height = 0;
  private readonly disposables = new Disposables();
  private frame = 0;

  constructor(
    className: string,
    label: string,
    private readonly paint: (
      context: CanvasRenderingContext2D,
      width: number,
      height: number,
    ) => void,
  ) {
    this.canvas = el('canvas', { role: 'img', 'aria-label': label, tabindex: 0 });
    this.element = el('div', { class: `pl-canvas-pane ${className}` }, this.canvas);
    const observer = new ResizeObserver(() => this.resize());
    observer.observe(this.element);
    this.disposables.add(() => observer.disconnect());
  }

  /** Calls `move` with positions of the pointer in the canvas, or null when it leaves. */
  onPointer(move: (place: readonly [number, number] | null, isClick: boolean) => void): void {
    const place = (event: MouseEvent): [number, number] => {
      const bounds = this.canvas.getBoundingClientRect();
      return [event.clientX - bounds.left, event.clientY - bounds.top];
    };
    this.disposables.listen(this.canvas, 'pointermove', event => move(place(event), false));
    this.disposables.listen(this.canvas, 'click', event => move(place(event), true));
    this.disposables.listen(this.canvas, 'pointerleave', () => move(null, false));
  }

  onKey(handle: (key: string) => boolean): void {
    this.disposables.listen(this.canvas, 'keydown', event => {
      if (handle(event.key)) {
        event.preventDefault();
        event.stopPropagation();
      }
    });
  }

  draw(): void {
    if (this.frame === 0) {
      this.frame = requestAnimationFrame(() => this.drawNow());
    }
  }

  dispose(): void {
    cancelAnimationFrame(this.frame);
    this.disposables.dispose();
  }

  private drawNow(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const context = this.canvas.getContext('2d');
    if (context === null || this.width === 0 || this.height === 0) {
      return;
    }
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    this.paint(context, this.width, this.height);
  }

  private resize(): void {
    this.width = this.element.clientWidth;
    this.height = this.element.clientHeight;
    this.canvas.width = Math.max(1, Math.round(this.width * devicePixelRatio));
    this.canvas.height = Math.max(1, Math.round(this.height * devicePixelRatio));
    this.drawNow();
  }
}

export const canvasPaneStyle = `
.pl-canvas-pane { position: relative; min-width: 0; min-height: 0; overflow: hidden; }
.pl-canvas-pane > canvas { position: absolute; inset: 0; width: 100%; height: 100%; display: block; }
`;
