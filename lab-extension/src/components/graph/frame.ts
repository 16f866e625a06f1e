/** Inputs of one painted frame: view, colours, emphasized boxes. */

import type { Theme } from '../theme';
import type { Box } from './box';
import type { Camera } from './camera';
import type { SceneEdge } from './scene';

/** Emphasized boxes and edges, and the heat of each box. */
export interface Emphasis {
  readonly hovered: Box | null;
  readonly hoveredEdge: SceneEdge | null;
  readonly selected: Box | null;
  /** Boxes highlighted by another view. */
  readonly linked: ReadonlySet<Box>;
  readonly matches: ReadonlySet<Box>;
  /** If not null, all other boxes are faint. */
  readonly focus: ReadonlySet<Box> | null;
  readonly isOnPath: ((edge: SceneEdge) => boolean) | null;
  readonly path: ReadonlySet<Box>;
  readonly heat: ReadonlyMap<Box, Heat> | null;
  /** Small labels on closed boxes. */
  readonly badges: ReadonlyMap<Box, Badge>;
  /** Colours of an edge, painted as alternating dashes; empty for the default colour. */
  readonly edgeColors: ((edge: SceneEdge) => readonly string[]) | null;
}

/** A small label on a box. */
export interface Badge {
  readonly text: string;
  readonly isWarning: boolean;
}

export interface Heat {
  /** Square root of the share of the hottest closed box's cost, 0 to 1; NaN if unknown. */
  readonly part: number;
  /** Texts of the figure, longest first. */
  readonly texts: readonly string[];
}

/** Animation of a changed layout: previous box positions by key, and its progress. */
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

/** Whether a part of a box lies in the visible rectangle. */
export function isVisible(frame: Frame, box: Box): boolean {
  return (
    box.left < frame.right &&
    box.left + box.width > frame.left &&
    box.top < frame.bottom &&
    box.top + box.height > frame.top
  );
}

/** Whether a box is drawn faintly, because others are in focus. */
export function isFaint(frame: Frame, box: Box): boolean {
  const { focus } = frame.emphasis;
  return focus !== null && !focus.has(box);
}
