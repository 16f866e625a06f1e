/** A cost as colour: the heat of each box. */

import { totalOf, type Overlay } from '../../records/costs';
import type { Program } from '../../records/program';
import { quantity } from '../format';
import type { Box } from './box';
import type { Heat } from './frame';

/** Heat of every box, relative to the hottest closed one. */
export function heatOf(boxes: readonly Box[], overlay: Overlay, program: Program): Map<Box, Heat> {
  const totals = new Map<Box, number>();
  let hottest = 0;
  for (const box of boxes) {
    if (box.equations.length === 0) {
      continue;
    }
    // The cost of a call already includes the `runs` of its body.
    const runs = box.kind === 'call' ? (box.parent?.runs ?? 1) : box.runs;
    const total = totalOf(overlay, box.equations) * (overlay.ratio === null ? runs : 1);
    totals.set(box, total);
    if (!box.isOpen && total > hottest) {
      hottest = total;
    }
  }
  const { first, end } = program.bodies[0]!;
  const all = totalOf(
    overlay,
    Array.from({ length: end - first }, (_, i) => first + i),
  );
  const heats = new Map<Box, Heat>();
  totals.forEach((total, box) => {
    if (Number.isNaN(total)) {
      heats.set(box, { part: NaN, texts: [] });
      return;
    }
    const text = quantity(total, overlay.unit);
    const share = overlay.ratio === null && all > 0 ? percent(total / all) : '';
    heats.set(box, {
      part: hottest > 0 ? Math.sqrt(Math.min(1, total / hottest)) : 0,
      texts: share === '' ? [text] : [`${text}  ${share}`, text, share],
    });
  });
  return heats;
}

function percent(part: number): string {
  const value = part * 100;
  return value >= 10 ? `${value.toFixed(0)} %` : value >= 0.1 ? `${value.toFixed(1)} %` : '< 0.1 %';
}
