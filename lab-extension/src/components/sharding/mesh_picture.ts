/** Devices of a mesh in rows and columns, with one sheet per position along the outer axes. */

import type { Mesh } from '../../records/tiles';
import type { Theme } from '../theme';
import { inkOn } from './tiles_picture';

export interface DeviceBox {
  /** Index of the device in the mesh. */
  readonly device: number;
  readonly left: number;
  readonly top: number;
  readonly size: number;
}

export interface MeshLayout {
  readonly boxes: readonly DeviceBox[];
  readonly sheets: readonly { left: number; top: number; title: string }[];
  readonly rowAxis: number;
  readonly columnAxis: number;
  readonly cell: number;
}

/** Room for labels to the left and above, and between sheets, in pixels. */
const LEFT = 26;
const TOP = 34;
const GAP = 14;
const MAX_CELL_PIXELS = 54;

/** Lays out a mesh: the last two axes form a sheet, one for each position along the others. */
export function layMesh(mesh: Mesh, width: number, height: number): MeshLayout {
  const ndim = mesh.axisSizes.length;
  const columnAxis = ndim - 1;
  const rowAxis = ndim - 2;
  const columns = mesh.axisSizes[columnAxis] ?? 1;
  const rows = rowAxis >= 0 ? mesh.axisSizes[rowAxis]! : 1;
  const sheetCount = mesh.deviceCount / (columns * rows);
  const titleRoom = sheetCount > 1 ? 16 : 0;
  let cell = 0;
  let across = 1;
  for (let tried = 1; tried <= sheetCount; tried++) {
    const down = Math.ceil(sheetCount / tried);
    const fit = Math.min(
      (width - LEFT - GAP - (tried - 1) * GAP) / (tried * columns),
      (height - TOP - GAP - (down - 1) * GAP - down * titleRoom) / (down * rows),
      MAX_CELL_PIXELS,
    );
    if (fit > cell) {
      cell = fit;
      across = tried;
    }
  }
  cell = Math.max(1.5, cell);
  const drawn = Math.min(across, sheetCount) * (columns * cell + GAP) - GAP;
  const first = LEFT + Math.max(0, (width - 2 * LEFT - drawn) / 2);
  const sheets = Array.from({ length: sheetCount }, (_, sheet) => ({
    left: first + (sheet % across) * (columns * cell + GAP),
    top: TOP + titleRoom + Math.floor(sheet / across) * (rows * cell + GAP + titleRoom),
    title: sheetTitle(mesh, sheet, columns * rows, rowAxis),
  }));
  const boxes = Array.from({ length: mesh.deviceCount }, (_, device) => {
    const sheet = sheets[Math.floor(device / (columns * rows))]!;
    const within = device % (columns * rows);
    return {
      device,
      left: sheet.left + (within % columns) * cell,
      top: sheet.top + Math.floor(within / columns) * cell,
      size: cell,
    };
  });
  return { boxes, sheets, rowAxis, columnAxis, cell };
}

function sheetTitle(mesh: Mesh, sheet: number, size: number, rowAxis: number): string {
  return mesh.axisNames
    .slice(0, Math.max(0, rowAxis))
    .map((name, axis) => `${name}=${mesh.coordinate(sheet * size, axis)}`)
    .join(' ');
}

/** The device drawn at a point; -1 if there is none. */
export function deviceAt(layout: MeshLayout, x: number, y: number): number {
  return (
    layout.boxes.find(
      box => x >= box.left && x < box.left + box.size && y >= box.top && y < box.top + box.size,
    )?.device ?? -1
  );
}

/**
 * Paints the devices of a mesh as squares in their colours, with ids where there is room, borders
 * between processes, and axis names.
 */
export function paintMesh(
  context: CanvasRenderingContext2D,
  mesh: Mesh,
  layout: MeshLayout,
  colors: readonly string[],
  highlighted: ReadonlySet<number>,
  theme: Theme,
): void {
  const { boxes, cell } = layout;
  const gap = cell > 8 ? 2 : cell > 4 ? 1 : 0;
  const radius = Math.min(5, cell / 5);
  for (const box of boxes) {
    context.fillStyle = colors[box.device]!;
    context.globalAlpha = highlighted.size > 0 && !highlighted.has(box.device) ? 0.3 : 1;
    context.beginPath();
    context.roundRect(box.left + gap / 2, box.top + gap / 2, cell - gap, cell - gap, radius);
    context.fill();
  }
  context.globalAlpha = 1;
  if (cell >= 17) {
    context.font = `600 ${Math.min(13, cell * 0.42)}px ${theme.code}`;
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    context.fillStyle = inkOn(theme);
    for (const box of boxes) {
      const id = String(mesh.deviceId(box.device));
      const hasProcess = mesh.processCount > 1 && cell >= 30;
      const middle = box.top + cell / 2 + (hasProcess ? -5 : 0.5);
      context.fillText(id, box.left + cell / 2, middle, cell - 3);
      if (hasProcess) {
        context.save();
        context.font = `10px ${theme.code}`;
        context.fillText(
          `p${mesh.process(box.device)}`,
          box.left + cell / 2,
          middle + 14,
          cell - 3,
        );
        context.restore();
      }
    }
  }
  context.strokeStyle = theme.color('accent');
  context.lineWidth = Math.min(2.5, Math.max(1, cell / 6));
  for (const box of boxes) {
    if (highlighted.has(box.device)) {
      context.beginPath();
      context.roundRect(box.left + gap / 2, box.top + gap / 2, cell - gap, cell - gap, radius);
      context.stroke();
    }
  }
  paintProcesses(context, mesh, layout, theme);
  paintNames(context, mesh, layout, theme);
}

/** Paints lines between neighbours that belong to different processes. */
function paintProcesses(
  context: CanvasRenderingContext2D,
  mesh: Mesh,
  { boxes, cell, columnAxis, rowAxis }: MeshLayout,
  theme: Theme,
): void {
  if (mesh.processCount < 2) {
    return;
  }
  const columns = mesh.axisSizes[columnAxis] ?? 1;
  const rows = rowAxis >= 0 ? mesh.axisSizes[rowAxis]! : 1;
  // A dark line would hide small cells, so a gap separates their processes.
  context.strokeStyle = theme.color(cell < 10 ? 'bg' : 'text');
  context.lineWidth = Math.max(1, Math.min(2.5, cell / 8));
  context.beginPath();
  for (const { device, left, top } of boxes) {
    const within = device % (columns * rows);
    const own = mesh.process(device);
    if (within % columns < columns - 1 && mesh.process(device + 1) !== own) {
      context.moveTo(left + cell, top);
      context.lineTo(left + cell, top + cell);
    }
    if (within < columns * (rows - 1) && mesh.process(device + columns) !== own) {
      context.moveTo(left, top + cell);
      context.lineTo(left + cell, top + cell);
    }
  }
  context.stroke();
}

function paintNames(
  context: CanvasRenderingContext2D,
  mesh: Mesh,
  layout: MeshLayout,
  theme: Theme,
): void {
  const { sheets, cell, rowAxis, columnAxis } = layout;
  const first = sheets[0];
  if (first === undefined || columnAxis < 0) {
    return;
  }
  const name = (axis: number): string =>
    `${mesh.axisNames[axis]!.slice(0, 24)} ${mesh.axisSizes[axis]}`;
  context.font = `11px ${theme.code}`;
  context.fillStyle = theme.color('muted');
  context.textBaseline = 'middle';
  context.textAlign = 'left';
  context.fillText(`${name(columnAxis)} →`, first.left, 12);
  if (rowAxis >= 0) {
    context.save();
    context.translate(first.left - 14, first.top);
    context.rotate(-Math.PI / 2);
    context.textAlign = 'right';
    context.fillText(`← ${name(rowAxis)}`, 0, 0);
    context.restore();
  }
  context.textAlign = 'left';
  const room = (mesh.axisSizes[columnAxis] ?? 1) * cell;
  for (const sheet of sheets) {
    if (sheet.title !== '' && room > 20) {
      context.fillText(sheet.title, sheet.left, sheet.top - 9, room + GAP - 2);
    }
  }
}
