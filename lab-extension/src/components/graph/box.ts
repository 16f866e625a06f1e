/** Boxes of a program graph: equations, groups, inputs and outputs as displayed. */

import { callName, type Child, type Group } from '../../records/hierarchy';
import type { Family } from '../../records/families';
import type { Program } from '../../records/program';
import { counted, oneLine, whole } from '../format';

export type BoxKind =
  | 'equation'
  | 'call' // an equation that calls programs (bodies)
  | 'group'
  | 'fold'
  | 'region' // one of several bodies of a call
  | 'input'
  | 'output'
  | 'arrival' // port where a value enters an open group
  | 'departure'; // port where a value leaves an open group

export interface Box {
  /** Identifier, the same in every layout of a view. */
  readonly key: string;
  readonly kind: BoxKind;
  readonly parent: Box | null;
  readonly depth: number;
  readonly title: string;
  readonly subtitle: string;
  /** Short label before the title: `jit`, `scan ×100`. */
  readonly tag: string;
  readonly family: Family;
  /** The equation, for an equation or call; -1 for other kinds. */
  readonly equation: number;
  /** The group that the box shows when open; for a fold, the selected copy. */
  readonly content: Group | null;
  /** All equations that the box contains. */
  readonly equations: ArrayLike<number>;
  /** Operands represented by an input, output or port. */
  readonly operands: readonly number[];
  /** Number of copies of a fold; 1 for other kinds. */
  readonly copies: number;
  readonly copy: number;
  /** Number of runs of the box in one run of the program, if known. */
  readonly runs: number;
  /** Share of the program's estimated work done in the box, over all its runs; NaN if unknown. */
  readonly share: number;
  readonly isExpandable: boolean;
  isOpen: boolean;
  /** Boxes inside an open box. */
  children: Box[];
  edges: BoxEdge[];
  /** Size, and position relative to the parent's content. */
  width: number;
  height: number;
  x: number;
  y: number;
  /** Offset of the content within the box. */
  contentX: number;
  contentY: number;
  /** Position in the whole drawing. */
  left: number;
  top: number;
}

/** An edge between two boxes of a level, with the values passed along it. */
export interface BoxEdge {
  readonly from: Box;
  readonly to: Box;
  readonly values: readonly number[];
  /** Coordinate pairs relative to the level's content; empty for an edge too long to draw. */
  points: Float32Array;
}

export const TITLE_SIZE = 12;
export const SUBTITLE_SIZE = 10.5;
/** Width of a character of a monospaced font, relative to the font size. */
export const ADVANCE = 0.602;
export const HEADER_HEIGHT = 28;
export const HEADER_LEFT = 12;
const MAX_TITLE_LENGTH = 30;
/** Shares of the program's work from which a box is drawn one step larger. */
const ENLARGING_SHARES = [0.1, 0.3, 0.6];
/** Maximum number of ports that an edge is connected to; with more it ends at the border. */
const MAX_JOINED_PORTS = 4;

/** Width of a text in a monospaced font; wide characters count twice. */
export function textWidth(text: string, size: number): number {
  let cells = 0;
  for (const character of text) {
    cells += character.codePointAt(0)! >= 0x1100 ? 2 : 1;
  }
  return cells * size * ADVANCE;
}

type Parts = Partial<Omit<Box, 'key' | 'kind' | 'parent'>>;

/**
 * A box of a level, with `parts` in place of defaults; its width and height, in pixels of the
 * drawing, fit its texts.
 */
export function makeBox(kind: BoxKind, key: string, parent: Box | null, parts: Parts): Box {
  const box: Box = {
    key,
    kind,
    parent,
    depth: parent === null ? 0 : parent.depth + 1,
    title: '',
    subtitle: '',
    tag: '',
    family: 'elementwise',
    equation: -1,
    content: null,
    equations: [],
    operands: [],
    copies: 1,
    copy: 0,
    runs: parent === null ? 1 : parent.runs,
    share: NaN,
    isExpandable: false,
    isOpen: false,
    children: [],
    edges: [],
    width: 0,
    height: 0,
    x: 0,
    y: 0,
    contentX: 0,
    contentY: 0,
    left: 0,
    top: 0,
    ...parts,
  };
  measure(box);
  return box;
}

/** Sets the size of a closed box. */
function measure(box: Box): void {
  if (isPort(box)) {
    box.width = 6;
    box.height = 0;
    return;
  }
  const tag = box.tag === '' ? 0 : textWidth(box.tag, SUBTITLE_SIZE) + 14;
  const badge = box.copies > 1 ? textWidth(`×${whole(box.copies)}`, TITLE_SIZE) + 16 : 0;
  const chevron = box.isExpandable ? 14 : 0;
  const title = textWidth(box.title, TITLE_SIZE) + tag + badge + chevron;
  const isPill = box.kind === 'input' || box.kind === 'output';
  const width = isPill ? title + 22 : Math.max(title, textWidth(box.subtitle, SUBTITLE_SIZE)) + 26;
  // Widths are rounded, so that layers with names of similar length have equal layouts, which are
  // cached.
  box.width = Math.max(isPill ? 36 : 64, Math.ceil(width / 12) * 12) + extra(box.share, 24);
  box.height = (isPill ? 22 : box.subtitle === '' ? 28 : 42) + extra(box.share, 12);
}

/** Additional size of a box for its share of the work, in whole steps. */
function extra(share: number, step: number): number {
  return step * ENLARGING_SHARES.filter(least => share >= least).length;
}

/** Creates the box of an equation, call, group or fold. */
export function memberBox(
  program: Program,
  child: Child,
  parent: Box,
  copy: number,
  share: number,
): Box {
  const key = `${parent.key}/${typeof child === 'number' ? `e${child}` : `g${child.id}`}`;
  if (typeof child === 'number') {
    return program.hasBodies(child)
      ? callBox(program, child, key, parent, share)
      : equationBox(program, child, key, parent, share);
  }
  const isFold = child.kind === 'fold';
  const shown = isFold ? child.copies[Math.min(copy, child.copies.length - 1)]! : child;
  return makeBox(isFold ? 'fold' : 'group', key, parent, {
    title: oneLine(child.label, MAX_TITLE_LENGTH),
    subtitle: counted(child.equations.length, 'equation'),
    tag: oneLine(child.transformation, 16),
    family: 'control',
    content: shown,
    equations: child.equations,
    copies: isFold ? child.copies.length : 1,
    copy,
    share,
    isExpandable: true,
  });
}

function equationBox(
  program: Program,
  equation: number,
  key: string,
  parent: Box,
  share: number,
): Box {
  const primitive = oneLine(program.primitive(equation), MAX_TITLE_LENGTH);
  const literals = Array.from(program.operandsOf(equation))
    .filter(operand => operand < 0)
    .map(operand => oneLine(program.operandName(operand), 10));
  const names = Array.from(program.resultsOf(equation), value => program.userName(value));
  const subtitle = [oneLine(names.filter(Boolean).join(', '), 22), hint(program, equation)];
  return makeBox('equation', key, parent, {
    title: [shortPrimitive(primitive), ...literals].join(' '),
    subtitle: subtitle.filter(Boolean).join('  '),
    family: program.family(equation),
    equation,
    equations: [equation],
    share,
  });
}

function callBox(program: Program, equation: number, key: string, parent: Box, share: number): Box {
  const primitive = shortPrimitive(program.primitive(equation));
  const uses = program.openedBodiesOf(equation);
  const trips = uses.length === 1 ? uses[0]!.trips : null;
  const size = uses.reduce((sum, use) => {
    const { first, end } = program.bodies[use.body]!;
    return sum + end - first;
  }, 0);
  const names = Array.from(program.resultsOf(equation), value => program.userName(value));
  const name = callName(program, equation) || names.filter(Boolean).join(', ');
  const tag = trips !== null && trips !== 1 ? `${primitive} ×${trips}` : primitive;
  return makeBox('call', key, parent, {
    title: oneLine(name, MAX_TITLE_LENGTH),
    subtitle: counted(size, 'equation'),
    tag: oneLine(tag, 24),
    family: 'control',
    equation,
    equations: [equation],
    runs: parent.runs * (trips ?? 1),
    share,
    isExpandable: true,
  });
}

/** Primitive name without its dialect prefix. */
export function shortPrimitive(primitive: string): string {
  return primitive.replace(/^[a-z]+\.(?=\w+$)/, '');
}

const HINTS: Readonly<Record<string, string>> = {
  axes: 'axes ',
  axis: 'axis ',
  dimension: 'axis ',
  permutation: '',
  new_dtype: '→ ',
  y: 'power ',
};

/** Text of the most informative param; empty if there is none. */
function hint(program: Program, equation: number): string {
  for (const [name, text] of program.params(equation)) {
    const before = Object.hasOwn(HINTS, name) ? HINTS[name] : undefined;
    if (before !== undefined) {
      return before + oneLine(text, 18);
    }
  }
  return '';
}

/** Creates the box of a value, or of several values used by the same members. */
export function pillBox(
  program: Program,
  kind: 'input' | 'output',
  operands: readonly number[],
  key: string,
  parent: Box,
): Box {
  const names = operands.map(operand => oneLine(shortName(program.operandName(operand)), 24));
  const limit = 26;
  let title = names[0] ?? '';
  let shown = 1;
  while (shown < names.length && title.length + names[shown]!.length + 2 <= limit) {
    title += `, ${names[shown++]!}`;
  }
  if (shown < names.length) {
    title += ` +${names.length - shown}`;
  }
  return makeBox(kind, key, parent, { title, operands, family: 'creation' });
}

/** The last two components of a long tree path; the others are usually the same for neighbours. */
function shortName(name: string): string {
  if (name.length <= 18) {
    return name;
  }
  const steps = name.split(/(?=[.[])/);
  return steps.length > 2 ? `…${steps.slice(-2).join('')}` : name;
}

/** The port where `operands` enter (arrival) or leave (departure) the open box `parent`. */
export function portBox(
  kind: 'arrival' | 'departure',
  operands: readonly number[],
  key: string,
  parent: Box,
): Box {
  return makeBox(kind, key, parent, { operands });
}

/** Header text of an open fold: the selected copy, between arrows to its neighbours. */
export function stepperText(box: Box): string {
  return `‹ ${box.copy + 1} of ${whole(box.copies)} ›`;
}

/** The step for a click in the header of an open fold: 1 or -1 on an arrow, else 0. */
export function stepAt(box: Box, x: number, y: number): number {
  if (!box.isOpen || box.copies === 1 || y > box.top + HEADER_HEIGHT + 4) {
    return 0;
  }
  const tag = box.tag === '' ? 0 : textWidth(box.tag, SUBTITLE_SIZE) + 16;
  const left = box.left + HEADER_LEFT + 14 + tag + textWidth(box.title, TITLE_SIZE) + 8;
  const width = textWidth(stepperText(box), SUBTITLE_SIZE) + 10;
  if (x < left || x > left + width) {
    return 0;
  }
  return x < left + width / 2 ? -1 : 1;
}

/** The open box whose body contains `box`: a call, one of its bodies, or the whole program. */
export function frameOf(box: Box): Box {
  let frame = box.parent ?? box;
  while (frame.kind !== 'call' && frame.kind !== 'region' && frame.parent !== null) {
    frame = frame.parent;
  }
  return frame;
}

/** Whether a box is a port, where a value enters or leaves an open box. */
export function isPort(box: Box): boolean {
  return box.kind === 'arrival' || box.kind === 'departure';
}

/** Ports of an open box through which these values pass, at most `MAX_JOINED_PORTS`; else none. */
export function portsOf(
  box: Box,
  kind: 'arrival' | 'departure',
  values: readonly number[],
): readonly Box[] {
  if (!box.isOpen) {
    return [];
  }
  const ports = box.children.filter(child => child.kind === kind);
  // Other copies of a fold define other values than the selected one, but use the same port.
  if (box.kind === 'fold' && ports.length === 1) {
    return ports;
  }
  const wanted = new Set(values);
  const found = ports.filter(port => port.operands.some(operand => wanted.has(operand)));
  return found.length <= MAX_JOINED_PORTS ? found : [];
}
