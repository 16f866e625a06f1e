/** The graph on a canvas, with pointer and keyboard control. */

import type { CriticalPath, Overlay } from '../../records/costs';
import { Disposables, el } from '../dom';
import { readTheme, type Theme } from '../theme';
import { frameOf, stepAt, type Box } from './box';
import { Camera } from './camera';
import { Minimap } from './minimap';
import { Mirror } from './mirror';
import { boundsOf, type Bounds, type GraphModel } from './model';
import { firstBox, nextBox, type Move } from './moves';
import type { Badge, Motion } from './frame';
import { paint } from './painter';
import { Spotlight } from './spotlight';
import { Tooltip, tooltipStyle } from './tooltip';
import { boundsWithLabels, boxAt, edgeAt, makeScene, type Scene, type SceneEdge } from './scene';

const ANIMATION_MILLISECONDS = 170;
/** Maximum number of boxes for which layout changes are animated. */
const MAX_ANIMATED_BOXES = 1500;
const CLICK_RADIUS_PIXELS = 4;
/**
 * Minimum scale at which a program is shown as a whole; taller ones start at `MIN_READABLE_SCALE`.
 */
const MIN_OVERVIEW_SCALE = 0.7;
const MIN_READABLE_SCALE = 0.8;
/**
 * If fitting the width needs a smaller scale than this, the program is too wide and starts in the
 * middle.
 */
const MIN_FITTED_WIDTH_SCALE = 0.5;

export interface GraphOptions {
  /** The pointer is over these equations; empty if over none. */
  readonly onHover: (equations: ArrayLike<number>) => void;
  readonly onSelect: (box: Box | null) => void;
  /** The user requests to see a box's source line. */
  readonly onGo: (box: Box) => void;
  /** A key that the graph doesn't use. Returns whether it was handled. */
  readonly onKey: (event: KeyboardEvent) => boolean;
  /** Label of a value's edge inside an open box; by default its type. */
  readonly edgeLabel?: (value: number, frame: Box) => string | undefined;
  /** Colours of the edges of a value inside an open box, painted as alternating dashes. */
  readonly edgeColors?: (value: number, frame: Box, isDark: boolean) => readonly string[];
  /** Label on a closed box. */
  readonly badgeOf?: (box: Box) => Badge | null;
  /** Additional tooltip lines of a box, or of the values of an edge inside an open box. */
  readonly about?: (box: Box | null, values: readonly number[], frame: Box) => readonly string[];
}

export class GraphView {
  readonly element: HTMLElement;
  private readonly place: HTMLElement;
  private readonly canvas: HTMLCanvasElement;
  private readonly tooltip: Tooltip;
  private readonly hint = el('div', { class: 'pl-hint', hidden: true });
  private readonly disposables = new Disposables();
  private readonly camera = new Camera();
  private readonly minimap: Minimap;
  private readonly mirror: Mirror;
  private theme: Theme;
  private scene: Scene;
  private width = 0;
  private height = 0;
  private frame = 0;
  private hasFitted = false;
  private isDisposed = false;
  /** Whether the camera is still where `fit` put it, so that it follows the view's size. */
  private isFitted = false;
  private hovered: Box | null = null;
  private hoveredEdge: SceneEdge | null = null;
  private selectedKey: string | null = null;
  private anchor: { key: string; x: number; y: number } | null = null;
  private readonly spotlight: Spotlight;
  private motionStart = 0;
  private motionFrom: ReadonlyMap<string, readonly [number, number, number, number]> | null = null;
  private mirrorTimer: ReturnType<typeof setTimeout> | undefined;
  private hintTimer: ReturnType<typeof setTimeout> | undefined;
  private cycle = { from: '', at: '', direction: '', index: 0 };

  constructor(
    private readonly root: HTMLElement,
    readonly model: GraphModel,
    private readonly options: GraphOptions,
  ) {
    this.tooltip = new Tooltip(model.program);
    const name = `Graph of ${model.program.name}`;
    this.mirror = new Mirror(model.program, name);
    this.canvas = el('canvas', {
      class: 'pl-graph-canvas',
      tabindex: 0,
      role: 'application',
      'aria-roledescription': 'program graph',
      'aria-label': `${name}. Arrow keys move, Enter opens and closes or goes to the line, plus and minus zoom.`,
    });
    this.minimap = new Minimap(this.disposables, (x, y) => this.centreOn(x, y));
    this.place = el(
      'div',
      { class: 'pl-graph-place' },
      this.canvas,
      this.tooltip.element,
      this.hint,
      this.mirror.element,
    );
    this.element = el('div', { class: 'pl-graph' }, this.place, this.minimap.element);
    this.theme = readTheme(root);
    this.scene = this.makeScene();
    const { badgeOf, edgeColors } = options;
    this.spotlight = new Spotlight(
      model,
      this.scene,
      badgeOf,
      edgeColors === undefined
        ? null
        : ({ edge }) =>
            edge.values.length === 1
              ? edgeColors(edge.values[0]!, frameOf(edge.from), this.theme.isDark)
              : [],
    );
    this.disposables.add(model.onChange(event => this.modelChanged(event)));
    this.listen();
    const observer = new ResizeObserver(() => this.resize());
    observer.observe(this.place);
    this.disposables.add(() => observer.disconnect());
  }

  dispose(): void {
    this.isDisposed = true;
    cancelAnimationFrame(this.frame);
    clearTimeout(this.mirrorTimer);
    clearTimeout(this.hintTimer);
    this.disposables.dispose();
  }

  get selected(): Box | null {
    return this.selectedKey === null ? null : (this.model.box(this.selectedKey) ?? null);
  }

  /** Duration of the last paint, in milliseconds. */
  lastPaint = 0;

  themeChanged(): void {
    this.theme = readTheme(this.root);
    this.updateMinimap();
    this.draw();
  }

  select(box: Box | null, isShown = false): void {
    this.selectedKey = box?.key ?? null;
    if (box !== null && isShown) {
      this.camera.reveal(boundsOf(box), this.width, this.height);
    }
    this.mirrorLater();
    this.options.onSelect(box);
    this.draw();
  }

  /** Opens the boxes that hide an equation, scrolls to it and selects it. */
  async goTo(equation: number, calls?: readonly number[]): Promise<void> {
    const box = await (calls === undefined
      ? this.model.reveal(equation)
      : this.model.revealAt(equation, calls));
    if (box !== null) {
      this.bring(box);
      this.select(box);
    }
  }

  /** Scrolls and zooms to a box, so that it can be read. */
  private bring(box: Box): void {
    this.isFitted = false;
    if (this.camera.scale < 0.5) {
      this.camera.zoom(0.9 / this.camera.scale, this.width / 2, this.height / 2);
      this.centreOn(box.left + box.width / 2, box.top + box.height / 2);
    }
    // Includes the labels of its edges, if there is room.
    const bounds = boundsWithLabels(this.scene, box);
    const isWider = bounds.width * this.camera.scale > this.width;
    this.camera.reveal(isWider ? boundsOf(box) : bounds, this.width, this.height);
  }

  /** Highlights the boxes of equations that another view points at. */
  setLinked(equations: readonly number[], isShown = false): void {
    const [first] = this.spotlight.setLinked(equations);
    if (isShown && first !== undefined) {
      this.camera.reveal(boundsOf(first), this.width, this.height);
    }
    this.draw();
  }

  setMatches(equations: readonly number[]): void {
    this.spotlight.setMatches(equations);
    this.draw();
  }

  /** Makes all other equations faint; null ends it. */
  setFocus(equations: ReadonlySet<number> | null): void {
    this.spotlight.setFocus(equations);
    this.draw();
  }

  setOverlay(overlay: Overlay | null): void {
    this.spotlight.setOverlay(overlay);
    this.draw();
  }

  setCriticalPath(path: CriticalPath | null): void {
    this.spotlight.setPath(path);
    this.draw();
  }

  /**
   * Height in which the view shows its whole drawing at its current width; null before the first
   * layout.
   */
  get wantedHeight(): number | null {
    const { bounds } = this.model;
    const scale = Math.min(1, (this.width - 40) / Math.max(1, bounds.width));
    return this.hasFitted
      ? Math.ceil(bounds.height * Math.max(MIN_FITTED_WIDTH_SCALE, scale)) + 60
      : null;
  }

  fit(): void {
    const { bounds } = this.model;
    const byWidth = (this.width - 40) / Math.max(1, bounds.width);
    const whole = this.wholeScale(bounds);
    // A long program is not shrunk until it fits: it couldn't be read.
    const isWide = byWidth < MIN_FITTED_WIDTH_SCALE;
    const least =
      whole >= MIN_OVERVIEW_SCALE
        ? 0
        : isWide
          ? MIN_READABLE_SCALE
          : Math.min(MIN_READABLE_SCALE, byWidth);
    this.camera.fit(bounds, this.width, this.height, least);
    const first = firstBox(this.model.root);
    if (isWide && first !== null) {
      this.camera.x = this.width / 2 - (first.left + first.width / 2) * this.camera.scale;
    }
    this.isFitted = true;
    this.draw();
  }

  fitWhole(): void {
    this.camera.fit(this.model.bounds, this.width, this.height);
    this.isFitted = false;
    this.draw();
  }

  /** Scale at which bounds of this size fit into the view. */
  private wholeScale(bounds: Bounds): number {
    const byHeight = (this.height - 40) / Math.max(1, bounds.height);
    return Math.min((this.width - 40) / Math.max(1, bounds.width), byHeight);
  }

  zoomBy(factor: number): void {
    this.isFitted = false;
    this.camera.zoom(factor, this.width / 2, this.height / 2);
    this.draw();
  }

  /** Opens or closes a box, which stays at its position in the view. */
  toggle(box: Box): void {
    this.anchor = this.screenPlace(box);
    this.isFitted = false;
    void this.model.toggle(box);
  }

  /** Selects another copy of a fold, which stays at its position in the view. */
  showCopy(box: Box, copy: number): void {
    this.anchor = this.screenPlace(box);
    this.isFitted = false;
    void this.model.showCopy(box, copy);
  }

  /** Redraws the labels of edges. */
  relabel(): void {
    this.modelChanged('layout');
  }

  focusCanvas(): void {
    this.canvas.focus({ preventScroll: true });
  }

  private makeScene(): Scene {
    const { program, boxes } = this.model;
    const { edgeLabel } = this.options;
    return makeScene(
      boxes,
      program,
      (value, frame) => edgeLabel?.(value, frame) ?? program.typeOf(value).text.slice(0, 40),
    );
  }

  private screenPlace(box: Box): { key: string; x: number; y: number } {
    const { x, y, scale } = this.camera;
    return { key: box.key, x: x + box.left * scale, y: y + box.top * scale };
  }

  private centreOn(x: number, y: number): void {
    this.isFitted = false;
    this.camera.x = this.width / 2 - x * this.camera.scale;
    this.camera.y = this.height / 2 - y * this.camera.scale;
    this.draw();
  }

  // Changes

  private modelChanged(event: 'layout' | 'busy'): void {
    this.element.classList.toggle('pl-busy', this.model.isBusy);
    if (event === 'busy') {
      return;
    }
    const before = this.scene.boxes;
    this.scene = this.makeScene();
    this.hovered = null;
    this.hoveredEdge = null;
    this.tooltip.hide();
    const calm = matchMedia('(prefers-reduced-motion: reduce)').matches;
    const count = Math.max(before.length, this.scene.boxes.length);
    if (this.hasFitted && !calm && before.length > 1 && count <= MAX_ANIMATED_BOXES) {
      this.motionFrom = new Map(
        before.map(box => [box.key, [box.left, box.top, box.width, box.height]]),
      );
      this.motionStart = performance.now();
    }
    this.keepAnchor();
    this.spotlight.update(this.scene);
    this.updateMinimap();
    this.fitOnce();
    if (this.isFitted) {
      this.fit();
    }
    this.mirrorLater();
    this.draw();
  }

  private keepAnchor(): void {
    const box = this.anchor === null ? undefined : this.model.box(this.anchor.key);
    if (box !== undefined && this.anchor !== null) {
      const place = this.screenPlace(box);
      const dx = this.anchor.x - place.x;
      const dy = this.anchor.y - place.y;
      this.camera.pan(dx, dy);
      // Previous positions move with the camera, so that the toggled box itself doesn't move.
      this.motionFrom = shiftPlaces(
        this.motionFrom,
        -dx / this.camera.scale,
        -dy / this.camera.scale,
      );
      if (box.isOpen && box.width * this.camera.scale < this.width) {
        this.camera.reveal(
          { ...boundsOf(box), height: Math.min(box.height, this.height / this.camera.scale) },
          this.width,
          this.height,
        );
      }
    }
    this.anchor = null;
  }

  private updateMinimap(): void {
    this.minimap.update(this.scene, this.model.bounds, this.theme, devicePixelRatio);
  }

  private mirrorLater(): void {
    clearTimeout(this.mirrorTimer);
    // The view may be disposed of while it waits for a layout.
    if (this.isDisposed) {
      return;
    }
    this.mirrorTimer = setTimeout(() => {
      this.mirror.update(this.scene.boxes, this.selected);
      const selected = this.selected;
      const id = selected === null ? null : this.mirror.idOf(selected);
      if (id === null) {
        this.canvas.removeAttribute('aria-activedescendant');
      } else {
        this.canvas.setAttribute('aria-activedescendant', id);
      }
    }, 60);
  }

  private resize(): void {
    const { clientWidth, clientHeight } = this.place;
    // A hidden tab has size 0; keep the view as it was.
    if (clientWidth === 0 || (clientWidth === this.width && clientHeight === this.height)) {
      return;
    }
    const shown = this.selected !== null && this.isInSight(this.selected) ? this.selected : null;
    this.width = clientWidth;
    this.height = clientHeight;
    if (this.isFitted) {
      this.fit();
    } else if (shown !== null) {
      this.camera.reveal(boundsOf(shown), clientWidth, clientHeight);
    }
    this.canvas.width = Math.max(1, Math.round(clientWidth * devicePixelRatio));
    this.canvas.height = Math.max(1, Math.round(clientHeight * devicePixelRatio));
    this.fitOnce();
    this.drawNow();
  }

  private isInSight(box: Box): boolean {
    const { x, y, scale } = this.camera;
    const [middle, centre] = [box.left + box.width / 2, box.top + box.height / 2];
    const [left, top] = [x + middle * scale, y + centre * scale];
    return left >= 0 && left <= this.width && top >= 0 && top <= this.height;
  }

  private fitOnce(): void {
    if (!this.hasFitted && this.width > 0 && this.scene.boxes.length > 1) {
      this.hasFitted = true;
      this.fit();
      // An equation may have been selected before the view had a size.
      if (this.selected !== null) {
        this.bring(this.selected);
      } else {
        this.fitFirst();
      }
    }
  }

  /** Opens fewer boxes until the whole program is visible. */
  private fitFirst(): void {
    const fits = (bounds: Bounds): boolean =>
      !this.isFitted || this.wholeScale(bounds) >= MIN_OVERVIEW_SCALE;
    if (!fits(this.model.bounds)) {
      void this.model.openComfortably(fits);
    }
  }

  // Drawing

  private draw(): void {
    if (this.frame === 0) {
      this.frame = requestAnimationFrame(() => this.drawNow());
    }
  }

  private drawNow(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const context = this.canvas.getContext('2d', { alpha: false });
    if (context === null || this.width === 0) {
      return;
    }
    const start = performance.now();
    const view = { width: this.width, height: this.height, pixelRatio: devicePixelRatio };
    const emphasis = this.spotlight.emphasis(this.hovered, this.hoveredEdge, this.selected);
    paint(context, this.scene, this.camera, view, this.theme, emphasis, this.motion(start));
    this.minimap.show(this.camera, this.width, this.height, this.theme, devicePixelRatio);
    this.lastPaint = performance.now() - start;
    if (this.motionFrom !== null) {
      this.draw();
    }
  }

  private motion(now: number): Motion | null {
    if (this.motionFrom === null) {
      return null;
    }
    const time = (now - this.motionStart) / ANIMATION_MILLISECONDS;
    if (time >= 1) {
      this.motionFrom = null;
      return null;
    }
    return { from: this.motionFrom, part: 1 - (1 - Math.max(0, time)) ** 3 };
  }

  // Pointer

  private listen(): void {
    const { canvas, disposables } = this;
    const pointers = new Map<number, { x: number; y: number }>();
    let travelled = 0;
    const place = (event: MouseEvent): [number, number] => {
      const bounds = canvas.getBoundingClientRect();
      return [event.clientX - bounds.left, event.clientY - bounds.top];
    };
    disposables.listen(canvas, 'pointerdown', event => {
      const [x, y] = place(event);
      pointers.set(event.pointerId, { x, y });
      travelled = 0;
      canvas.setPointerCapture(event.pointerId);
    });
    disposables.listen(canvas, 'pointermove', event => {
      const [x, y] = place(event);
      const last = pointers.get(event.pointerId);
      if (last === undefined) {
        this.hover(x, y);
        return;
      }
      travelled += Math.abs(x - last.x) + Math.abs(y - last.y);
      this.isFitted &&= travelled <= CLICK_RADIUS_PIXELS;
      const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
      if (other !== undefined) {
        const before = Math.hypot(last.x - other.x, last.y - other.y);
        const after = Math.hypot(x - other.x, y - other.y);
        this.camera.zoom(after / Math.max(1, before), (x + other.x) / 2, (y + other.y) / 2);
      } else if (travelled > CLICK_RADIUS_PIXELS) {
        canvas.classList.add('pl-dragging');
        this.camera.pan(x - last.x, y - last.y);
        this.tooltip.hide();
      }
      pointers.set(event.pointerId, { x, y });
      this.draw();
    });
    const release = (event: PointerEvent): void => {
      const wasDown = pointers.delete(event.pointerId);
      canvas.classList.remove('pl-dragging');
      if (wasDown && event.type === 'pointerup' && travelled <= CLICK_RADIUS_PIXELS) {
        this.click(...place(event), event.ctrlKey || event.metaKey);
      }
    };
    disposables.listen(canvas, 'pointerup', release);
    disposables.listen(canvas, 'pointercancel', release);
    disposables.listen(canvas, 'pointerleave', () => this.setHovered(null, null));
    disposables.listen(canvas, 'dblclick', event => {
      const [x, y] = this.camera.toDrawing(...place(event));
      const box = boxAt(this.model.root, x, y);
      // Each click on a chevron has already toggled the box, so a double click on it is ignored.
      if (box !== null && box.isExpandable && !isChevron(box, x, y)) {
        this.toggle(box);
      }
    });
    disposables.listen(
      canvas,
      'wheel',
      event => {
        const [x, y] = place(event);
        const isActive = (canvas.getRootNode() as Document | ShadowRoot).activeElement === canvas;
        if (!isActive && !event.ctrlKey && !event.metaKey) {
          this.showHint('Click, or hold Ctrl, to zoom');
          return;
        }
        event.preventDefault();
        this.isFitted = false;
        const lines = event.deltaMode === 1 ? 16 : 1;
        const delta = Math.max(-240, Math.min(240, event.deltaY * lines));
        this.camera.zoom(Math.exp(-delta * (event.ctrlKey ? 0.008 : 0.002)), x, y);
        this.tooltip.hide();
        this.draw();
      },
      { passive: false },
    );
    disposables.listen(canvas, 'keydown', event => this.key(event));
  }

  private hover(x: number, y: number): void {
    const [drawingX, drawingY] = this.camera.toDrawing(x, y);
    const box = boxAt(this.model.root, drawingX, drawingY);
    const edge =
      box === null || box.isOpen
        ? edgeAt(this.scene, drawingX, drawingY, 6 / this.camera.scale)
        : null;
    this.setHovered(box, edge);
    this.canvas.style.cursor = box !== null && !box.isOpen ? 'pointer' : 'grab';
    this.tooltip.place(x, y, this.width, this.height);
  }

  private setHovered(box: Box | null, edge: SceneEdge | null): void {
    const shown = box !== null && box.isOpen ? null : box;
    if (shown === this.hovered && edge === this.hoveredEdge) {
      return;
    }
    this.hovered = shown;
    this.hoveredEdge = edge;
    this.options.onHover(shown?.equations ?? []);
    const values = edge?.edge.values ?? shown?.operands ?? [];
    const within = edge?.edge.from ?? shown;
    const about =
      within === null
        ? []
        : (this.options.about?.(edge === null ? shown : null, values, frameOf(within)) ?? []);
    const figure = shown === null ? '' : this.spotlight.figure(shown);
    this.tooltip.show(shown, edge, [figure, ...about].filter(Boolean));
    this.draw();
  }

  private click(x: number, y: number, isGoing: boolean): void {
    const [drawingX, drawingY] = this.camera.toDrawing(x, y);
    const box = boxAt(this.model.root, drawingX, drawingY);
    this.focusCanvas();
    const step = box === null ? 0 : stepAt(box, drawingX, drawingY);
    this.select(box);
    if (box === null) {
      return;
    }
    if (isGoing) {
      this.options.onGo(box);
    } else if (step !== 0) {
      this.showCopy(box, box.copy + step);
    } else if (isChevron(box, drawingX, drawingY)) {
      this.toggle(box);
    }
  }

  // Keyboard

  private key(event: KeyboardEvent): void {
    if (event.key === 'Enter' && this.selected !== null && this.leadsAway(event, this.selected)) {
      this.options.onGo(this.selected);
      event.preventDefault();
      event.stopPropagation();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    if (this.runKey(event.key) || this.options.onKey(event)) {
      event.preventDefault();
      event.stopPropagation();
    }
  }

  /** Whether Enter goes to the source line: on boxes that can't be opened, and with Ctrl. */
  private leadsAway(event: KeyboardEvent, box: Box): boolean {
    return event.ctrlKey || event.metaKey || !box.isExpandable;
  }

  private runKey(key: string): boolean {
    const { selected } = this;
    const moves: Readonly<Record<string, Move>> = {
      ArrowUp: 'up',
      ArrowDown: 'down',
      ArrowLeft: 'left',
      ArrowRight: 'right',
    };
    const move = Object.hasOwn(moves, key) ? moves[key] : undefined;
    if (move !== undefined) {
      const next = selected === null ? firstBox(this.model.root) : nextBox(selected, move);
      if (next !== null) {
        this.select(next, true);
      }
      return true;
    }
    switch (key) {
      case 'Enter':
      case ' ':
        if (selected?.isExpandable === true) {
          this.toggle(selected);
        }
        return true;
      case 'i': {
        const inner = selected === null ? null : firstBox(selected);
        this.select(inner ?? selected, true);
        return true;
      }
      case 'o':
      case 'Backspace':
        if (selected !== null && selected.parent !== null && selected.parent.parent !== null) {
          this.select(selected.parent, true);
        }
        return true;
      case 'u':
        return this.follow('uses');
      case 'd':
        return this.follow('definitions');
      case '+':
      case '=':
        this.zoomBy(1.25);
        return true;
      case '-':
        this.zoomBy(0.8);
        return true;
      case '0':
        this.fitWhole();
        return true;
      case '[':
      case ']': {
        const fold = foldAround(selected);
        if (fold !== null) {
          this.showCopy(fold, fold.copy + (key === ']' ? 1 : -1));
        }
        return true;
      }
      case 'Escape':
        if (selected === null) {
          return false;
        }
        this.select(null);
        return true;
      default:
        return false;
    }
  }

  /** Goes through the uses or definitions of the selected box, one per call. */
  private follow(direction: 'uses' | 'definitions'): boolean {
    const { selected, cycle } = this;
    const goesOn = cycle.direction === direction && selected?.key === cycle.at;
    const start = goesOn ? this.model.box(cycle.from) : selected;
    const ends = start === null || start === undefined ? [] : this.model.ends(start, direction);
    if (start === null || start === undefined || ends.length === 0) {
      return true;
    }
    const index = goesOn ? (cycle.index + 1) % ends.length : 0;
    void this.goTo(ends[index]!).then(() => {
      this.cycle = { from: start.key, at: this.selectedKey ?? '', direction, index };
    });
    return true;
  }

  private showHint(text: string): void {
    this.hint.textContent = text;
    this.hint.hidden = false;
    clearTimeout(this.hintTimer);
    this.hintTimer = setTimeout(() => (this.hint.hidden = true), 1400);
  }
}

function isChevron(box: Box, x: number, y: number): boolean {
  return box.isExpandable && x < box.left + 34 && y < box.top + (box.isOpen ? 30 : box.height);
}

function foldAround(box: Box | null): Box | null {
  let fold = box;
  while (fold !== null && fold.kind !== 'fold') {
    fold = fold.parent;
  }
  return fold;
}

function shiftPlaces(
  places: ReadonlyMap<string, readonly [number, number, number, number]> | null,
  dx: number,
  dy: number,
): Map<string, readonly [number, number, number, number]> | null {
  return places === null
    ? null
    : new Map(
        [...places].map(([key, [left, top, width, height]]) => [
          key,
          [left + dx, top + dy, width, height] as const,
        ]),
      );
}

export const graphStyle = `
${tooltipStyle}
.pl-graph { display: flex; overflow: hidden; min-width: 0; min-height: 0; }
.pl-graph-place { position: relative; flex: 1; overflow: hidden; min-width: 0; }
.pl-graph-canvas { position: absolute; inset: 0; width: 100%; height: 100%; display: block; cursor: grab; touch-action: none; }
.pl-graph-canvas.pl-dragging { cursor: grabbing !important; }
.pl-graph-canvas:focus-visible { outline: 2px solid var(--pl-accent); outline-offset: -2px; }
.pl-minimap {
  flex: none; align-self: flex-start; margin: 8px 6px; border: 1px solid var(--pl-line); border-radius: 4px; background: var(--pl-bg);
  cursor: crosshair; touch-action: none;
}
.pl-minimap[hidden] { display: none; }
.pl-hint[hidden] { display: none; }
.pl-hint {
  position: absolute; left: 50%; top: 12px; transform: translateX(-50%); padding: 4px 12px; border-radius: 14px;
  background: var(--pl-text); color: var(--pl-bg); font-size: 12px; pointer-events: none; opacity: 0.85;
}
.pl-busy::after {
  content: ''; position: absolute; left: 0; right: 0; top: 0; height: 2px; background: var(--pl-accent);
  animation: pl-busy 1s infinite ease-in-out;
}
@keyframes pl-busy { 0% { transform: scaleX(0); transform-origin: left; } 60% { transform: scaleX(1); transform-origin: left; } 100% { transform: scaleX(0); transform-origin: right; } }
`;
