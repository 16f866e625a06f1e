/** The visible part of a time axis, moved by pointer, wheel and keys. */

import type { CanvasPane } from './canvas_pane';
import { iconButton, type Disposables } from './dom';

/** Reactions to the pointer that doesn't move the range. */
export interface TimePointer {
  readonly hover: (event: PointerEvent) => void;
  readonly pick: (event: PointerEvent) => void;
  readonly leave: () => void;
  readonly escape: () => void;
}

export class TimeRange {
  begin: number;
  end: number;

  /**
   * A range within `first` and `last`, at least `minSpan` long. The plot of `pane` begins `left`
   * pixels from its edge.
   */
  constructor(
    private readonly first: number,
    last: number,
    private readonly minSpan: number,
    private readonly left: number,
    private readonly width: () => number,
    private readonly changed: () => void,
  ) {
    this.begin = first;
    this.last = Math.max(last, first + minSpan);
    this.end = this.last;
  }

  private readonly last: number;

  get span(): number {
    return this.end - this.begin;
  }

  get isWhole(): boolean {
    return this.span >= this.last - this.first;
  }

  /** Width of the plot in pixels. */
  get plotWidth(): number {
    return Math.max(1, this.width() - this.left);
  }

  /** Pixels per unit of time. */
  get scale(): number {
    return this.plotWidth / this.span;
  }

  /** Horizontal position of a time in the pane. */
  x(time: number): number {
    return this.left + (time - this.begin) * this.scale;
  }

  /** The part of the plot, from 0 to 1, at which an event happened. */
  partAt(event: MouseEvent, canvas: HTMLElement): number {
    const { left } = canvas.getBoundingClientRect();
    return Math.max(0, Math.min(1, (event.clientX - left - this.left) / this.plotWidth));
  }

  zoom(factor: number, at = 0.5): void {
    const whole = this.last - this.first;
    const span = Math.min(whole, Math.max(this.minSpan, this.span / factor));
    const fixed = this.begin + at * this.span;
    this.moveTo(fixed - at * span, span);
  }

  moveTo(begin: number, span: number): void {
    this.begin = Math.min(Math.max(this.first, begin), Math.max(this.first, this.last - span));
    this.end = this.begin + span;
    this.changed();
  }

  showAll(): void {
    this.moveTo(this.first, this.last - this.first);
  }

  /** Moves by a part of the visible span. */
  move(part: number): void {
    this.moveTo(this.begin + part * this.span, this.span);
  }

  /** Buttons that zoom and show all. */
  buttons(): HTMLElement[] {
    return [
      iconButton('Zoom in', 'M8 3v10M3 8h10', () => this.zoom(2)),
      iconButton('Zoom out', 'M3 8h10', () => this.zoom(0.5)),
      iconButton('Show all', 'M2 6V2h4M10 2h4v4M14 10v4h-4M6 14H2v-4', () => this.showAll()),
    ];
  }

  /** Lets pointer, wheel and keys in `pane` move the range. */
  listen(pane: CanvasPane, disposables: Disposables, pointer: TimePointer): void {
    const { canvas } = pane;
    let dragged: { x: number; begin: number; hasMoved: boolean } | null = null;
    disposables.listen(canvas, 'pointerdown', event => {
      dragged = { x: event.clientX, begin: this.begin, hasMoved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    disposables.listen(canvas, 'pointermove', event => {
      if (dragged !== null) {
        const moved = event.clientX - dragged.x;
        dragged.hasMoved ||= Math.abs(moved) > 3;
        if (dragged.hasMoved) {
          this.moveTo(dragged.begin - moved / this.scale, this.span);
        }
      } else {
        pointer.hover(event);
      }
    });
    disposables.listen(canvas, 'pointerup', event => {
      const isClick = dragged !== null && !dragged.hasMoved;
      dragged = null;
      if (isClick) {
        pointer.pick(event);
      }
    });
    disposables.listen(canvas, 'pointercancel', () => (dragged = null));
    disposables.listen(canvas, 'pointerleave', () => pointer.leave());
    disposables.listen(canvas, 'dblclick', event => this.zoom(4, this.partAt(event, canvas)));
    disposables.listen(
      canvas,
      'wheel',
      event => {
        const isAcross = Math.abs(event.deltaX) > Math.abs(event.deltaY);
        if (event.ctrlKey || event.metaKey) {
          event.preventDefault();
          const delta = Math.max(-240, Math.min(240, event.deltaY));
          this.zoom(Math.exp(-delta * 0.006), this.partAt(event, canvas));
        } else if (isAcross || event.shiftKey) {
          event.preventDefault();
          this.move((isAcross ? event.deltaX : event.deltaY) / this.plotWidth);
        }
      },
      { passive: false },
    );
    pane.onKey(key => {
      const action = {
        '+': () => this.zoom(2),
        '=': () => this.zoom(2),
        '-': () => this.zoom(0.5),
        '0': () => this.showAll(),
        ArrowLeft: () => this.move(-0.2),
        ArrowRight: () => this.move(0.2),
        Home: () => this.move(-Infinity),
        End: () => this.move(Infinity),
        Escape: () => pointer.escape(),
      }[key];
      action?.();
      return action !== undefined;
    });
  }
}

/** The smallest number of the form 1, 2 or 5 times a power of ten that is at least `least`. */
export function niceStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1e-9)));
  return power * ([1, 2, 5].find(factor => factor * power >= least) ?? 10);
}

/** A text cut to a width in pixels; empty if nothing of it fits. */
export function clipped(context: CanvasRenderingContext2D, text: string, room: number): string {
  const width = context.measureText(text).width;
  if (width <= room) {
    return text;
  }
  const length = Math.floor((text.length * room) / width) - 1;
  return length > 1 ? `${text.slice(0, length)}…` : '';
}

/** Places a tooltip at the pointer, within `element`. */
export function placeTooltip(tooltip: HTMLElement, event: MouseEvent, element: HTMLElement): void {
  const bounds = element.getBoundingClientRect();
  const x = event.clientX - bounds.left;
  tooltip.style.left = `${Math.max(4, Math.min(x + 14, bounds.width - tooltip.offsetWidth - 6))}px`;
  tooltip.style.top = `${event.clientY - bounds.top + 16}px`;
}
