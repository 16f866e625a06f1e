/** State of a program graph: open boxes and their layout. No DOM. */

import type { LayoutClient } from '../../layout/client';
import type { NestedLayout, NestedLevel } from '../../layout/nested';
import { Hierarchy, type Grouping } from '../../records/hierarchy';
import { LevelReader } from '../../records/level';
import type { Program } from '../../records/program';
import { MAX_MEMBERS } from '../../records/stretches';
import {
  HEADER_HEIGHT,
  SUBTITLE_SIZE,
  TITLE_SIZE,
  frameOf,
  isPort,
  portsOf,
  textWidth,
  type Box,
} from './box';
import { LevelOpener } from './open';

/** Width and height of a graph that the view of a cell can show at a readable scale. */
const COMFORTABLE_WIDTH = 860;
const COMFORTABLE_HEIGHT = 940;
/** Maximum numbers of members per level, tried one after another until the first view fits. */
const MEMBER_LIMITS = [MAX_MEMBERS, 10, 7, 5, 3];
/** Minimum share of the work for a box to be opened automatically. */
const MIN_OPENED_SHARE = 0.02;
/** Minimum reduction of the largest hidden share of work that justifies shorter levels. */
const MIN_SHARE_GAINED = 0.08;
/** Number of equations above which the first view that fits is taken. */
const LONG_PROGRAM_EQUATIONS = 20_000;
/** Maximum number of boxes when everything is opened: more can't be drawn smoothly. */
const MAX_BOXES = 20_000;

export interface Bounds {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

/** Kinds of changes of a model: its layout, or whether one is being computed. */
export type GraphEvent = 'layout' | 'busy';

export class GraphModel {
  root: Box;
  /** All visible boxes, parents before their children. */
  boxes: readonly Box[] = [];
  isBusy = false;
  private hierarchy: Hierarchy;
  private opener: LevelOpener;
  private readonly asked = new Map<string, boolean>();
  private readonly copies = new Map<string, number>();
  private readonly unfolded = new Set<string>();
  private readonly byKey = new Map<string, Box>();
  private readonly byEquation = new Map<number, Box[]>();
  private readonly listeners = new Set<(event: GraphEvent) => void>();
  private holders: Map<number, Box[]> | null = null;
  private callers: Map<number, number[]> | null = null;
  private run = 0;

  constructor(
    readonly program: Program,
    private readonly layouts: LayoutClient,
    grouping: Grouping | 'auto' = 'auto',
    folding = true,
  ) {
    this.hierarchy = new Hierarchy(program, grouping, folding);
    this.opener = this.makeOpener();
    this.root = this.opener.root();
  }

  get grouping(): Grouping {
    return this.hierarchy.grouping;
  }

  get folding(): boolean {
    return this.hierarchy.folding;
  }

  onChange(listener: (event: GraphEvent) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /**
   * Opens the most expensive boxes as long as the drawing stays readable. Shortens levels by
   * grouping neighbours if that
   * leaves room to open more expensive boxes, or if the outermost level doesn't fit.
   */
  async openComfortably(fits = isComfortable): Promise<void> {
    let [best, hidden] = [MAX_MEMBERS, Infinity];
    for (const most of MEMBER_LIMITS) {
      if (!(await this.openAtMost(most, fits))) {
        return;
      }
      const still = fits(this.bounds) ? this.largestClosed() : Infinity;
      if (still < hidden - MIN_SHARE_GAINED || hidden === Infinity) {
        [best, hidden] = [most, still];
      }
      const isLong = this.program.equationCount > LONG_PROGRAM_EQUATIONS && hidden < Infinity;
      if (hidden < MIN_SHARE_GAINED || isLong || this.grouping === 'none') {
        break;
      }
    }
    if (best !== this.hierarchy.most) {
      await this.openAtMost(best, fits);
    }
  }

  /** Returns whether the attempt was completed: nothing else was opened or closed meanwhile. */
  private async openAtMost(most: number, fits: (bounds: Bounds) => boolean): Promise<boolean> {
    if (most !== this.hierarchy.most) {
      this.setHierarchy(this.grouping, this.folding, most);
    }
    this.asked.clear();
    this.openWithin(MAX_MEMBERS);
    return (await this.lay()) && this.closeUntil(fits);
  }

  /** The largest share of the work hidden in one closed box. */
  private largestClosed(): number {
    const closed = this.boxes.filter(box => isMember(box) && box.isExpandable);
    return Math.max(0, ...closed.map(box => (Number.isNaN(box.share) ? 0 : box.share)));
  }

  /** Closes innermost open boxes, cheapest first, until the drawing fits. */
  private async closeUntil(fits: (bounds: Bounds) => boolean): Promise<boolean> {
    while (!fits(this.bounds)) {
      const [least] = this.innermost().sort((a, b) => costOf(a) - costOf(b) || b.height - a.height);
      if (least === undefined) {
        break;
      }
      this.asked.set(least.key, false);
      if (!(await this.lay())) {
        return false;
      }
    }
    return true;
  }

  /** Changes the grouping, and closes all boxes. */
  regroup(grouping: Grouping, folding: boolean): Promise<void> {
    this.setHierarchy(grouping, folding, MAX_MEMBERS);
    return grouping === 'none' && !folding ? this.closeAll() : this.openComfortably();
  }

  private setHierarchy(grouping: Grouping, folding: boolean, most: number): void {
    this.hierarchy = new Hierarchy(this.program, grouping, folding, most);
    this.opener = this.makeOpener();
    this.copies.clear();
    this.unfolded.clear();
  }

  toggle(box: Box): Promise<void> {
    return this.setOpen(box, !box.isOpen);
  }

  setOpen(box: Box, isOpen: boolean): Promise<void> {
    if (!box.isExpandable || box.isOpen === isOpen) {
      return Promise.resolve();
    }
    this.asked.set(box.key, isOpen);
    return this.layout();
  }

  /** Opens one more level everywhere. */
  openLevel(): Promise<void> {
    let count = this.boxes.length;
    for (const box of this.boxes) {
      if (box.isExpandable && !box.isOpen && count < MAX_BOXES) {
        count += this.opener.size(box);
        this.asked.set(box.key, true);
      }
    }
    return this.layout();
  }

  /** Closes the innermost open boxes. */
  closeLevel(): Promise<void> {
    this.innermost().forEach(box => this.asked.set(box.key, false));
    return this.layout();
  }

  private innermost(): Box[] {
    return this.boxes.filter(
      box => box.isOpen && box !== this.root && !box.children.some(child => child.isOpen),
    );
  }

  /** Opens all boxes, up to `MAX_BOXES`. */
  async openAll(): Promise<void> {
    for (;;) {
      const members = collect(this.opener.root()).filter(isMember);
      let room = MAX_BOXES - members.length;
      const opened = members.filter(box => {
        const added = this.opener.size(box) - 1;
        const fits = box.isExpandable && added <= room;
        room -= fits ? added : 0;
        return fits;
      });
      if (opened.length === 0) {
        break;
      }
      opened.forEach(box => this.asked.set(box.key, true));
    }
    await this.layout();
  }

  closeAll(): Promise<void> {
    this.asked.clear();
    this.unfolded.clear();
    return this.layout();
  }

  /** Selects another copy of a fold. */
  showCopy(box: Box, copy: number): Promise<void> {
    this.copies.set(box.key, ((copy % box.copies) + box.copies) % box.copies);
    return this.layout();
  }

  /** Shows all copies of a fold. */
  unfold(key: string): Promise<void> {
    this.unfolded.add(key);
    return this.layout();
  }

  /** Shows one copy of every fold. */
  foldAgain(): Promise<void> {
    this.unfolded.clear();
    return this.layout();
  }

  box(key: string): Box | undefined {
    return this.byKey.get(key);
  }

  /**
   * The innermost visible boxes that contain an equation; several if its body is called repeatedly.
   */
  boxesOf(equation: number): Box[] {
    const exact = this.byEquation.get(equation);
    if (exact !== undefined) {
      return exact;
    }
    const holders = this.holdersOf(equation);
    if (holders.length > 0) {
      return holders;
    }
    const callers = this.callersOf(this.program.bodyOf[equation] ?? -1);
    return [...new Set(callers.flatMap(caller => this.boxesOf(caller)))];
  }

  /**
   * Opens the boxes that hide an equation within `calls`, outermost first; resolves to its box
   * there.
   */
  async revealAt(equation: number, calls: readonly number[]): Promise<Box | null> {
    let frame = this.root.key;
    for (const call of calls) {
      const box = await this.revealIn(frame, call);
      if (box === null) {
        return this.reveal(equation);
      }
      frame = box.key;
      await this.setOpen(box, true);
      for (const region of this.box(frame)?.children ?? []) {
        if (region.kind === 'region') {
          await this.setOpen(region, true);
        }
      }
    }
    return (await this.revealIn(frame, equation)) ?? this.reveal(equation);
  }

  /** Like `reveal`, within an open call or the whole program; null if the equation isn't there. */
  private revealIn(call: string, equation: number): Promise<Box | null> {
    return this.reveal(equation, () =>
      [...(this.byEquation.get(equation) ?? []), ...this.holdersOf(equation)].find(box => {
        const frame = frameOf(box);
        return (frame.kind === 'region' ? frame.parent! : frame).key === call;
      }),
    );
  }

  /** Opens the boxes that hide an equation; resolves to its box. */
  async reveal(
    equation: number,
    find: () => Box | undefined = () => this.boxesOf(equation)[0],
  ): Promise<Box | null> {
    for (let step = 0; step < 64; step++) {
      const box = find();
      if (box === undefined || box.equation === equation) {
        return box ?? null;
      }
      if (box.kind === 'fold') {
        const copy = this.copyWith(box, equation);
        if (box.isOpen && copy === box.copy) {
          return box;
        }
        this.copies.set(box.key, Math.max(0, copy));
      }
      for (const hiding of [box, ...box.children.filter(child => child.kind === 'region')]) {
        this.asked.set(hiding.key, true);
      }
      await this.layout();
    }
    return null;
  }

  /** Equations that use a box's results, or define its operands, in program order. */
  ends(box: Box, direction: 'uses' | 'definitions'): number[] {
    const { program } = this;
    const inside = new Set<number>(Array.from(box.equations));
    const found = new Set<number>();
    const add = (equation: number): void => {
      if (equation >= 0 && !inside.has(equation)) {
        found.add(equation);
      }
    };
    const follow = (operand: number): void => {
      if (operand < 0) {
        return;
      }
      if (direction === 'uses') {
        program.usesOf(operand).forEach(add);
      } else {
        add(program.definers[operand]!);
      }
    };
    box.operands.forEach(follow);
    for (const equation of inside) {
      const ends =
        direction === 'uses' ? program.resultsOf(equation) : program.operandsOf(equation);
      ends.forEach(follow);
    }
    return [...found].sort((a, b) => a - b);
  }

  /** Bounds of the whole drawing. */
  get bounds(): Bounds {
    return boundsOf(this.root);
  }

  /** Boxes of groups that hide an equation; for a fold, it may be in a copy that isn't selected. */
  private holdersOf(equation: number): Box[] {
    if (this.holders === null) {
      this.holders = new Map();
      for (const box of this.boxes) {
        if (box.kind === 'fold' || (box.kind === 'group' && !box.isOpen)) {
          for (let i = 0; i < box.equations.length; i++) {
            const known = this.holders.get(box.equations[i]!);
            if (known === undefined) {
              this.holders.set(box.equations[i]!, [box]);
            } else if (isInside(box, known[known.length - 1]!)) {
              known[known.length - 1] = box;
            } else {
              known.push(box);
            }
          }
        }
      }
    }
    return this.holders.get(equation) ?? [];
  }

  private copyWith(box: Box, equation: number): number {
    const size = box.equations.length / box.copies;
    const place = Array.from(box.equations).indexOf(equation);
    const owner = place >= 0 ? equation : this.callerWithin(box, equation);
    return Math.floor(Array.from(box.equations).indexOf(owner) / size);
  }

  /** The equation of `box` through whose call an equation of an inner body is reached. */
  private callerWithin(box: Box, equation: number): number {
    let level = [equation];
    for (let step = 0; step < 64 && level.length > 0; step++) {
      level = level.flatMap(inner => this.callersOf(this.program.bodyOf[inner]!));
      const found = level.find(caller => includes(box.equations, caller));
      if (found !== undefined) {
        return found;
      }
    }
    return -1;
  }

  private callersOf(body: number): number[] {
    if (this.callers === null) {
      this.callers = new Map();
      for (let equation = 0; equation < this.program.equationCount; equation++) {
        for (const use of this.program.bodiesOf(equation)) {
          const known = this.callers.get(use.body);
          if (known === undefined) {
            this.callers.set(use.body, [equation]);
          } else {
            known.push(equation);
          }
        }
      }
    }
    return this.callers.get(body) ?? [];
  }

  private makeOpener(): LevelOpener {
    return new LevelOpener(this.program, this.hierarchy, new LevelReader(this.program), {
      isOpen: box => this.asked.get(box.key) ?? isOnlyMember(box),
      copyOf: key => this.copies.get(key) ?? 0,
      isUnfolded: key => this.unfolded.has(key),
    });
  }

  /** Marks boxes as open, most expensive first, while at most `limit` members are visible. */
  private openWithin(limit: number): void {
    for (;;) {
      const members = collect(this.opener.root()).filter(isMember);
      const room = limit - members.length;
      const [first] = members
        .filter(box => box.isExpandable && costOf(box) >= MIN_OPENED_SHARE)
        .filter(box => this.opener.size(box) - 1 <= room)
        .sort((a, b) => costOf(b) - costOf(a) || a.depth - b.depth);
      if (first === undefined) {
        return;
      }
      this.asked.set(first.key, true);
    }
  }

  private async layout(): Promise<void> {
    await this.lay();
  }

  /** Computes the layout. Resolves to whether it is the one now shown. */
  private async lay(): Promise<boolean> {
    const run = ++this.run;
    const root = this.opener.root();
    const open: Box[] = [];
    const levels: NestedLevel[] = [];
    const order = new Map<Box, number>();
    const visit = (box: Box): void => {
      box.children.filter(child => child.isOpen).forEach(visit);
      order.set(box, levels.length);
      open.push(box);
      levels.push(nestedLevel(box, order));
    };
    visit(root);
    const answer = this.layouts.lay(levels);
    if (answer instanceof Promise) {
      this.isBusy = true;
      this.emit('busy');
    }
    const layouts = answer instanceof Promise ? await answer : answer;
    if (run !== this.run) {
      // Something was opened or closed meanwhile, which starts its own layout.
      return false;
    }
    this.isBusy = false;
    open.forEach((box, index) => place(box, layouts[index]!));
    this.show(root);
    return true;
  }

  private show(root: Box): void {
    this.root = root;
    this.byKey.clear();
    this.byEquation.clear();
    this.holders = null;
    root.left = 0;
    root.top = 0;
    this.boxes = collect(root);
    for (const box of this.boxes) {
      this.byKey.set(box.key, box);
      if (box.equation >= 0) {
        const known = this.byEquation.get(box.equation);
        if (known === undefined) {
          this.byEquation.set(box.equation, [box]);
        } else {
          known.push(box);
        }
      }
      if (box.parent !== null) {
        box.left = box.parent.left + box.parent.contentX + box.x;
        box.top = box.parent.top + box.parent.contentY + box.y;
      }
    }
    this.emit('layout');
  }

  private emit(event: GraphEvent): void {
    this.listeners.forEach(listener => listener(event));
  }
}

/** `root` and all visible boxes in it, parents before their children. */
function collect(root: Box): Box[] {
  const boxes: Box[] = [];
  const stack = [root];
  while (stack.length > 0) {
    const box = stack.pop()!;
    boxes.push(box);
    for (let i = box.children.length - 1; i >= 0; i--) {
      stack.push(box.children[i]!);
    }
  }
  return boxes;
}

/** A box's share of the work; 1 for all boxes if unknown. */
function costOf(box: Box): number {
  return Number.isNaN(box.share) ? 1 : box.share;
}

function isComfortable({ width, height }: Bounds): boolean {
  return width <= COMFORTABLE_WIDTH && height <= COMFORTABLE_HEIGHT;
}

/** Whether a box is a closed equation or group, rather than a value or port. */
function isMember(box: Box): boolean {
  return !box.isOpen && !isPort(box) && box.kind !== 'input' && box.kind !== 'output';
}

/** Whether a group is the only member of its parent group; it is then opened with it. */
function isOnlyMember(box: Box): boolean {
  const group = box.parent?.content;
  return (
    group !== null &&
    group !== undefined &&
    box.parent?.parent !== null &&
    group.children.length === 1
  );
}

function isInside(box: Box, outer: Box): boolean {
  for (let each: Box | null = box; each !== null; each = each.parent) {
    if (each === outer) {
      return true;
    }
  }
  return false;
}

/** Binary search: whether the sorted numbers contain `wanted`. */
export function includes(sorted: ArrayLike<number>, wanted: number): boolean {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]! < wanted) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return sorted[low] === wanted;
}

function nestedLevel(box: Box, order: ReadonlyMap<Box, number>): NestedLevel {
  const { children, edges } = box;
  const index = new Map(children.map((child, place) => [child, place]));
  const isRoot = box.parent === null;
  return {
    widths: Float32Array.from(children, child => child.width),
    heights: Float32Array.from(children, child => child.height),
    from: Int32Array.from(edges, edge => index.get(edge.from)!),
    to: Int32Array.from(edges, edge => index.get(edge.to)!),
    pins: Int8Array.from(children, pinOf),
    fromInner: Int32Array.from(edges, edge => onlyPort(edge.from, 'departure', edge.values)),
    toInner: Int32Array.from(edges, edge => onlyPort(edge.to, 'arrival', edge.values)),
    inner: Int32Array.from(children, child => order.get(child) ?? -1),
    padding: isRoot
      ? { top: 0, side: 0, bottom: 0 }
      : { top: HEADER_HEIGHT + 8, side: 14, bottom: 14 },
    minWidth: isRoot ? 0 : headerWidth(box),
  };
}

/** Index among the children of the only port that these values use; -1 if there are several. */
function onlyPort(box: Box, kind: 'arrival' | 'departure', values: readonly number[]): number {
  const ports = portsOf(box, kind, values);
  return ports.length === 1 ? box.children.indexOf(ports[0]!) : -1;
}

function pinOf(box: Box): number {
  return box.kind === 'arrival' ? -1 : box.kind === 'departure' ? 1 : 0;
}

function headerWidth(box: Box): number {
  const tag = box.tag === '' ? 0 : textWidth(box.tag, SUBTITLE_SIZE) + 16;
  const copies = box.copies > 1 ? 96 : 0;
  return textWidth(box.title, TITLE_SIZE) + tag + copies + 48;
}

function place(box: Box, layout: NestedLayout): void {
  if (box.parent !== null) {
    box.width = layout.boxWidth;
    box.height = layout.boxHeight;
  } else {
    box.width = layout.width;
    box.height = layout.height;
  }
  box.contentX = layout.contentX;
  box.contentY = layout.contentY;
  box.children.forEach((child, index) => {
    child.x = layout.x[index]!;
    child.y = layout.y[index]!;
  });
  box.edges.forEach((edge, index) => {
    edge.points = layout.points.subarray(layout.pointStarts[index], layout.pointStarts[index + 1]);
  });
}

/** The rectangle that a box covers, in drawing coordinates. */
export function boundsOf(box: Box): Bounds {
  return { left: box.left, top: box.top, width: box.width, height: box.height };
}
