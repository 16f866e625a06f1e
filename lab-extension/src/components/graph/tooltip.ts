/** Tooltip beside the pointer that describes a box or the values of an edge. */

import type { Program } from '../../records/program';
import { el } from '../dom';
import type { Box } from './box';
import { equationText, operandText, placeText } from './describe';
import type { SceneEdge } from './scene';

const MAX_VALUES = 10;

export class Tooltip {
  readonly element = el('div', { class: 'pl-tooltip', role: 'tooltip', hidden: true });

  constructor(private readonly program: Program) {}

  /** Describes a box or an edge; `figures` are additional lines from overlays. */
  show(box: Box | null, edge: SceneEdge | null, figures: readonly string[]): void {
    const lines =
      edge !== null
        ? [...this.values(edge.edge.values), ...figures]
        : box !== null
          ? [...this.about(box).filter(Boolean), ...figures]
          : [];
    this.element.hidden = lines.length === 0;
    this.element.replaceChildren(...lines.map(line => el('div', {}, line)));
  }

  hide(): void {
    this.element.hidden = true;
  }

  /** Positions the tooltip beside a point, within a view of this size. */
  place(x: number, y: number, width: number, height: number): void {
    const { style, offsetWidth, offsetHeight } = this.element;
    style.left = `${Math.max(4, Math.min(x + 14, width - offsetWidth - 6))}px`;
    const fitsBelow = y + 18 + offsetHeight < height;
    style.top = `${fitsBelow ? y + 18 : Math.max(4, y - offsetHeight - 12)}px`;
  }

  private about(box: Box): string[] {
    if (box.operands.length > 0) {
      return this.values(box.operands);
    }
    return box.equation >= 0
      ? [equationText(this.program, box.equation), placeText(this.program, box.equation)]
      : [[box.tag, box.title].filter(Boolean).join(' '), box.subtitle];
  }

  private values(operands: readonly number[]): string[] {
    const lines = operands.slice(0, MAX_VALUES).map(operand => operandText(this.program, operand));
    const more = operands.length - MAX_VALUES;
    return more > 0 ? [...lines, `and ${more} more`] : lines;
  }
}

export const tooltipStyle = `
.pl-tooltip {
  position: absolute; z-index: 3; max-width: min(520px, 90%); padding: 6px 9px; border: 1px solid var(--pl-line);
  border-radius: 6px; background: var(--pl-bg); box-shadow: 0 3px 14px var(--pl-shadow); pointer-events: none;
  font: 11.5px/1.5 var(--pl-code); overflow-wrap: anywhere;
}
.pl-tooltip > div + div { color: var(--pl-muted); }
.pl-tooltip[hidden] { display: none; }
`;
