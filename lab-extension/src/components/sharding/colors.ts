/** Colours of devices. */

import type { Mesh } from '../../records/tiles';

/** Property that colours distinguish: devices, processes, or positions along one mesh axis. */
export type ColorBy = 'device' | 'process' | { readonly axis: number };

const HUES = [215, 28, 150, 340, 262, 48, 188, 5, 95, 300, 240, 170];

/** Colours of the devices of a mesh, in mesh order. */
export function deviceColors(mesh: Mesh, by: ColorBy, isDark: boolean): string[] {
  return Array.from({ length: mesh.deviceCount }, (_, place) => {
    if (by === 'device') {
      return meshColor(mesh, place, isDark);
    }
    if (by === 'process') {
      return stepColor(mesh.process(place), mesh.processCount, isDark);
    }
    return stepColor(mesh.coordinate(place, by.axis), mesh.axisSizes[by.axis]!, isDark);
  });
}

/** Colour number `step` of `count` distinguishable ones. */
export function stepColor(step: number, count: number, isDark: boolean): string {
  const hue = count <= HUES.length ? HUES[step % HUES.length]! : (360 * step) / count;
  return hsl(hue, isDark ? 48 : 58, isDark ? 44 : 72);
}

/** Colour of a mesh axis, with enough contrast for lines and text. */
export function axisColor(axis: number, isDark: boolean): string {
  return hsl(HUES[axis % HUES.length]!, isDark ? 62 : 68, isDark ? 64 : 42);
}

/**
 * In small meshes each device has a hue; in large ones the hue follows the first axis, the
 * lightness the others.
 */
function meshColor(mesh: Mesh, place: number, isDark: boolean): string {
  if (mesh.deviceCount <= HUES.length) {
    return stepColor(place, mesh.deviceCount, isDark);
  }
  const outer = mesh.axisSizes[0] ?? 1;
  const inner = mesh.deviceCount / outer;
  const rank = Math.floor(place / inner);
  const within = inner > 1 ? (place % inner) / (inner - 1) : 0.5;
  const hue = outer <= HUES.length ? HUES[rank]! : (360 * rank) / outer;
  return hsl(hue, isDark ? 46 : 58, isDark ? 30 + 28 * within : 58 + 26 * within);
}

function hsl(hue: number, saturation: number, lightness: number): string {
  return `hsl(${hue.toFixed(0)} ${saturation}% ${lightness.toFixed(1)}%)`;
}
