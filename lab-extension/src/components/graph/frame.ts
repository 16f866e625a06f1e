/** What is painted in one go: the view, the colours, what stands out. */

import type { Theme } from '../theme';
import type { Box } from './box';
import type { Camera } from './camera';
import type { SceneEdge } from './scene';

/** What stands out, and what a quantity says about each box. */
export interface Emphasis {
  readonly hovered: Box | null;
  readonly hoveredEdge: SceneEdge | null;
  readonly selected: Box | null;
  /** Boxes that another view points at. */
  readonly linked: ReadonlySet<Box>;
  readonly matches: ReadonlySet<Box>;
  /** If set, everything else is faint. */
  readonly focus: ReadonlySet<Box> | null;
  readonly isOnPath: ((edge: SceneEdge) => boolean) | null;
  readonly path: ReadonlySet<Box>;
  readonly heat: ReadonlyMap<Box, Heat> | null;
  /** Small labels on closed boxes. */
  readonly badges: ReadonlyMap<Box, Badge>;
  /** Colours of an edge, one within the other; none for the usual one. */
  readonly edgeColors: ((edge: SceneEdge) => readonly string[]) | null;
}

/** What is noted on a box besides what it is. */
export interface Badge {
  readonly text: string;
  readonly isWarning: boolean;
}

export interface Heat {
  /** From 0 to 1. */
  readonly part: number;
  /** The figure in words, the longest form first. */
  readonly texts: readonly string[];
}

/** Where boxes come from when a layout changes, and how far they are on their way. */
export interface Motion {
  readonly from: ReadonlyMap<string, readonly [number, number, number, number]>;
  readonly part: number;
}

export interface View {
  readonly width: number;
  readonly height: number;
  readonly pixelRatio: number;
}

export interface Frame {
  readonly context: CanvasRenderingContext2D;
  readonly camera: Camera;
  readonly theme: Theme;
  readonly emphasis: Emphasis;
  readonly isReadable: boolean;
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

export function isVisible(frame: Frame, box: Box): boolean {
  return (
    box.left < frame.right &&
    box.left + box.width > frame.left &&
    box.top < frame.bottom &&
    box.top + box.height > frame.top
  );
}

export function isFaint(frame: Frame, box: Box): boolean {
  const { focus } = frame.emphasis;
  return focus !== null && !focus.has(box);
}
