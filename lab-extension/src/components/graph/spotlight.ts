/** Emphasis in a graph, stored as equations and mapped to boxes after each layout. */

import type { CriticalPath, Overlay } from '../../records/costs';
import { isPort, type Box } from './box';
import type { Badge, Emphasis, Heat } from './frame';
import { heatOf } from './heat';
import { includes, type GraphModel } from './model';
import type { Scene, SceneEdge } from './scene';

export class Spotlight {
  private linkedEquations: readonly number[] = [];
  private linked: ReadonlySet<Box> = new Set();
  private matchEquations: readonly number[] = [];
  private matches: ReadonlySet<Box> = new Set();
  private focusEquations: ReadonlySet<number> | null = null;
  private focus: ReadonlySet<Box> | null = null;
  private path: CriticalPath | null = null;
  private pathBoxes: ReadonlySet<Box> = new Set();
  private overlay: Overlay | null = null;
  private heat: ReadonlyMap<Box, Heat> | null = null;

  private badges: ReadonlyMap<Box, Badge> = new Map();

  constructor(
    private readonly model: GraphModel,
    private scene: Scene,
    private readonly badgeOf: (box: Box) => Badge | null = () => null,
    private readonly edgeColors: Emphasis['edgeColors'] = null,
  ) {
    this.updateBadges();
  }

  /** Maps all equations to the boxes of a new layout. */
  update(scene: Scene): void {
    this.scene = scene;
    this.setLinked(this.linkedEquations);
    this.setMatches(this.matchEquations);
    this.setFocus(this.focusEquations);
    this.setPath(this.path);
    this.setOverlay(this.overlay);
    this.updateBadges();
  }

  private updateBadges(): void {
    const found = this.scene.closed.map(box => [box, this.badgeOf(box)] as const);
    this.badges = new Map(found.filter((each): each is [Box, Badge] => each[1] !== null));
  }

  /** Sets the equations that another view points at; returns their boxes. */
  setLinked(equations: readonly number[]): ReadonlySet<Box> {
    this.linkedEquations = equations;
    this.linked = this.boxesOf(equations);
    return this.linked;
  }

  setMatches(equations: readonly number[]): void {
    this.matchEquations = equations;
    this.matches = this.boxesOf(equations);
  }

  /** Sets the equations that stay clear while all others are faint; null ends it. */
  setFocus(equations: ReadonlySet<number> | null): void {
    this.focusEquations = equations;
    this.focus = equations === null ? null : this.withNeighbours(equations);
  }

  setPath(path: CriticalPath | null): void {
    this.path = path;
    this.pathBoxes = path === null ? new Set() : this.boxesOf(path.equations);
  }

  setOverlay(overlay: Overlay | null): void {
    this.overlay = overlay;
    this.heat = overlay === null ? null : heatOf(this.scene.boxes, overlay, this.model.program);
  }

  /** Text of the overlay's figure for a box; empty without overlay. */
  figure(box: Box): string {
    return this.heat?.get(box)?.texts[0] ?? '';
  }

  emphasis(hovered: Box | null, hoveredEdge: SceneEdge | null, selected: Box | null): Emphasis {
    return {
      hovered,
      hoveredEdge,
      selected,
      linked: this.linked,
      matches: this.matches,
      focus: this.focus,
      isOnPath: this.path === null ? null : edge => this.isOnPath(edge),
      path: this.pathBoxes,
      heat: this.heat,
      badges: this.badges,
      edgeColors: this.edgeColors,
    };
  }

  private boxesOf(equations: Iterable<number>): Set<Box> {
    const boxes = new Set<Box>();
    for (const equation of equations) {
      this.model.boxesOf(equation).forEach(box => boxes.add(box));
    }
    return boxes;
  }

  /** Boxes of equations, with the inputs and outputs connected to them. */
  private withNeighbours(equations: ReadonlySet<number>): Set<Box> {
    const boxes = this.boxesOf(equations);
    for (const { edge } of this.scene.edges) {
      if (boxes.has(edge.to) && edge.from.kind === 'input') {
        boxes.add(edge.from);
      }
      if (boxes.has(edge.from) && edge.to.kind === 'output') {
        boxes.add(edge.to);
      }
    }
    for (const box of this.scene.boxes) {
      if (isPort(box) || box.isOpen) {
        boxes.add(box);
      }
    }
    return boxes;
  }

  private isOnPath({ edge }: SceneEdge): boolean {
    const { path, model } = this;
    return (
      path !== null &&
      edge.values.some(value => {
        const user = path.steps.get(value);
        return (
          user !== undefined &&
          (isPort(edge.to) || includes(edge.to.equations, user)) &&
          (isPort(edge.from) || includes(edge.from.equations, model.program.definers[value]!))
        );
      })
    );
  }
}
