/** Two dimensions of an array as tiles, one per shard, in the colours of their devices. */

import type { Mesh, Tiles } from '../../records/tiles';
import { tileSize } from '../../records/tiles';
import { hatch } from '../hatch';
import type { Theme } from '../theme';

/** The displayed plane of an array. */
export interface TilesView {
  /** Dimensions drawn vertically and horizontally; -1 for none. */
  readonly rows: number;
  readonly columns: number;
  /** Index along each of the other dimensions. */
  readonly cut: readonly number[];
}

export interface TileBox {
  readonly tile: number;
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
  /** Size of the largest tile at this position; the difference is padding. */
  readonly fullWidth: number;
  readonly fullHeight: number;
}

/** Room for labels to the left and above, and around the rest, in pixels. */
const LEFT = 64;
const TOP = 40;
const MARGIN = 18;

/** Positions of the tiles in the displayed plane, in a picture of this size. */
export function layTiles(tiles: Tiles, view: TilesView, width: number, height: number): TileBox[] {
  const ndim = tiles.shape.length;
  const extent = (dim: number): number => (dim < 0 ? 1 : Math.max(1, tiles.shape[dim]!));
  const largest = (dim: number): number => {
    let most = dim < 0 ? 1 : 0;
    for (let tile = 0; dim >= 0 && tile < tiles.count; tile++) {
      most = Math.max(most, tileSize(tiles, tile, dim));
    }
    return most;
  };
  const roomX = width - LEFT - MARGIN;
  const roomY = height - TOP - MARGIN;
  // The aspect ratio is limited, because a very tall array would be too thin to see.
  const ratio = Math.min(1.6, Math.max(0.35, extent(view.rows) / extent(view.columns)));
  const scalar = 160;
  const drawnX = view.columns < 0 ? scalar : Math.min(roomX, roomY / ratio);
  const drawnY = view.rows < 0 ? Math.min(roomY, 72) : Math.min(roomY, drawnX * ratio);
  const stepX = drawnX / extent(view.columns);
  const stepY = drawnY / extent(view.rows);
  const left = LEFT + Math.max(0, (roomX - drawnX) / 2);
  const [fullX, fullY] = [largest(view.columns), largest(view.rows)];
  const boxes: TileBox[] = [];
  for (let tile = 0; tile < tiles.count; tile++) {
    if (!isCut(tiles, tile, view)) {
      continue;
    }
    const start = (dim: number): number => (dim < 0 ? 0 : tiles.starts[tile * ndim + dim]!);
    const size = (dim: number): number => (dim < 0 ? 1 : tileSize(tiles, tile, dim));
    boxes.push({
      tile,
      left: left + start(view.columns) * stepX,
      top: TOP + start(view.rows) * stepY,
      width: size(view.columns) * stepX,
      height: size(view.rows) * stepY,
      fullWidth: view.columns < 0 ? 0 : fullX * stepX,
      fullHeight: view.rows < 0 ? 0 : fullY * stepY,
    });
  }
  return boxes;
}

function isCut(tiles: Tiles, tile: number, view: TilesView): boolean {
  const ndim = tiles.shape.length;
  return tiles.shape.every((size, dim) => {
    if (dim === view.rows || dim === view.columns || size === 0) {
      return true;
    }
    const at = view.cut[dim] ?? 0;
    return at >= tiles.starts[tile * ndim + dim]! && at < tiles.stops[tile * ndim + dim]!;
  });
}

/** Number of the tile drawn at a point, in pixels of the picture; -1 if there is none. */
export function tileAt(boxes: readonly TileBox[], x: number, y: number): number {
  return (
    boxes.find(
      box => x >= box.left && x < box.left + box.width && y >= box.top && y < box.top + box.height,
    )?.tile ?? -1
  );
}

export interface TilesPaint {
  readonly tiles: Tiles;
  readonly mesh: Mesh;
  readonly view: TilesView;
  readonly boxes: readonly TileBox[];
  readonly colors: readonly string[];
  readonly theme: Theme;
  readonly isUnreduced: boolean;
  /** Label of each dimension: its name and the mesh axes that shard it. */
  readonly dimLabels: readonly string[];
  readonly highlighted: ReadonlySet<number>;
}

/** Paints the tiles of an array with their axes, and borders around the highlighted ones. */
export function paintTiles(context: CanvasRenderingContext2D, paint: TilesPaint): void {
  const { boxes, theme, highlighted } = paint;
  const gap = boxes.length > 600 ? 0 : 1;
  for (const box of boxes) {
    paintPadding(context, box, theme);
    paintTile(context, box, paint, gap);
  }
  context.lineWidth = 2.5;
  context.strokeStyle = theme.color('accent');
  for (const box of boxes.filter(each => highlighted.has(each.tile))) {
    context.strokeRect(
      box.left + 1,
      box.top + 1,
      Math.max(2, box.width - 2),
      Math.max(2, box.height - 2),
    );
  }
  paintAxes(context, paint);
}

/**
 * Paints a tile of one device in its colour; a tile of several devices as a card with a chip for
 * each.
 */
function paintTile(
  context: CanvasRenderingContext2D,
  box: TileBox,
  { tiles, mesh, colors, theme, isUnreduced }: TilesPaint,
  gap: number,
): void {
  const devices = tiles.devicesOfTile[box.tile]!;
  const width = Math.max(0.5, box.width - gap);
  const height = Math.max(0.5, box.height - gap);
  const [first] = devices;
  const isOneColor = devices.every(device => colors[device] === colors[first!]);
  const chips = devices.length > 1 ? layChips(devices, mesh, width, height, isUnreduced) : null;
  context.fillStyle =
    first === undefined
      ? theme.color('sunken')
      : isOneColor || chips === null
        ? colors[first]!
        : theme.color('group-2');
  context.fillRect(box.left, box.top, width, height);
  if (isUnreduced) {
    hatch(context, box, theme.color('text'), { alpha: 0.14, step: 9, lineWidth: 1.4 });
  }
  if (gap > 0) {
    context.strokeStyle = theme.color('text');
    context.globalAlpha = 0.5;
    context.lineWidth = 1;
    context.strokeRect(box.left + 0.5, box.top + 0.5, width, height);
    context.globalAlpha = 1;
  }
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  const middleX = box.left + box.width / 2;
  const middleY = box.top + box.height / 2;
  if (chips !== null) {
    paintChips(context, chips, devices, middleX, middleY, mesh, colors, theme);
  } else if (first !== undefined && box.width > 15 && box.height > 13) {
    const text = devices.length > 1 ? `×${devices.length}` : String(mesh.deviceId(first));
    const size = Math.min(16, Math.max(9, Math.min(box.height * 0.5, box.width * 0.3)));
    context.font = `600 ${size}px ${theme.code}`;
    context.fillStyle = inkOn(theme);
    context.fillText(text, middleX, middleY + 0.5, box.width - 3);
  }
}

/** Text colour on a device's colour. */
export function inkOn(theme: Theme): string {
  return theme.isDark ? '#f4f7fa' : '#14202d';
}

interface Chips {
  readonly columns: number;
  readonly rows: number;
  readonly width: number;
  readonly height: number;
  readonly gap: number;
  /** Sign between chips: a plus if the devices hold summands. */
  readonly sign: string;
}

/** Arranges chips in a tile; null if they don't all fit. */
function layChips(
  devices: readonly number[],
  mesh: Mesh,
  width: number,
  height: number,
  isSum: boolean,
): Chips | null {
  const digits = String(mesh.deviceId(devices[devices.length - 1]!)).length;
  const isRoomy = width * height > devices.length * 5000;
  const chipHeight = isRoomy ? 26 : 20;
  const chipWidth = Math.max(chipHeight + 4, digits * 8 + 12);
  const gap = isSum ? 14 : isRoomy ? 6 : 4;
  const across = Math.floor((width - 8) / (chipWidth + gap));
  const down = Math.floor((height - 6) / (chipHeight + gap));
  if (across * down < devices.length) {
    return null;
  }
  // As square as possible: four rows of four are easier to count than a row of sixteen.
  const columns = Math.min(
    across,
    Math.max(Math.ceil(devices.length / down), Math.ceil(Math.sqrt(devices.length * 2))),
  );
  const rows = Math.ceil(devices.length / columns);
  return {
    columns: Math.ceil(devices.length / rows),
    rows,
    width: chipWidth,
    height: chipHeight,
    gap,
    sign: isSum ? '+' : '',
  };
}

function paintChips(
  context: CanvasRenderingContext2D,
  chips: Chips,
  devices: readonly number[],
  middleX: number,
  middleY: number,
  mesh: Mesh,
  colors: readonly string[],
  theme: Theme,
): void {
  const stepX = chips.width + chips.gap;
  const stepY = chips.height + chips.gap;
  const left = middleX - (chips.columns * stepX - chips.gap) / 2;
  const top = middleY - (chips.rows * stepY - chips.gap) / 2;
  context.font = `600 12px ${theme.code}`;
  devices.forEach((device, index) => {
    const x = left + (index % chips.columns) * stepX;
    const y = top + Math.floor(index / chips.columns) * stepY;
    context.fillStyle = colors[device]!;
    context.strokeStyle = theme.color('text');
    context.lineWidth = 0.7;
    context.beginPath();
    context.roundRect(x, y, chips.width, chips.height, 6);
    context.fill();
    context.stroke();
    context.fillStyle = inkOn(theme);
    const line = y + chips.height / 2 + 0.5;
    context.fillText(String(mesh.deviceId(device)), x + chips.width / 2, line);
    if (chips.sign !== '' && index + 1 < devices.length) {
      context.fillStyle = theme.color('text');
      context.fillText(chips.sign, x + chips.width + chips.gap / 2, line);
    }
  });
}

/** Paints the padding of a tile that is smaller than the others. */
function paintPadding(context: CanvasRenderingContext2D, box: TileBox, theme: Theme): void {
  const width = Math.max(box.width, box.fullWidth);
  const height = Math.max(box.height, box.fullHeight);
  if (width - box.width < 1 && height - box.height < 1) {
    return;
  }
  const padding: TileBox = { ...box, width, height };
  hatch(context, padding, theme.color('amber'), { alpha: 0.5, step: 6, lineWidth: 1.4 });
  context.strokeStyle = theme.color('amber');
  context.setLineDash([4, 3]);
  context.lineWidth = 1;
  context.strokeRect(box.left + 0.5, box.top + 0.5, width - 1, height - 1);
  context.setLineDash([]);
}

function paintAxes(context: CanvasRenderingContext2D, paint: TilesPaint): void {
  const { theme, boxes, view, tiles, dimLabels } = paint;
  if (boxes.length === 0) {
    return;
  }
  context.fillStyle = theme.color('muted');
  context.font = `11px ${theme.code}`;
  context.textBaseline = 'middle';
  const left = Math.min(...boxes.map(box => box.left));
  const right = Math.max(...boxes.map(box => box.left + box.width));
  const bottom = Math.max(...boxes.map(box => box.top + box.height));
  if (view.columns >= 0) {
    context.textAlign = 'center';
    context.fillStyle = theme.color('text');
    context.fillText(dimLabels[view.columns]!, (left + right) / 2, 10, right - left + 100);
    context.fillStyle = theme.color('muted');
    ticks(
      bordersIn(boxes, tiles, view.columns, box => box.left),
      right,
      tiles.shape[view.columns]!,
      30,
    ).forEach(([value, place]) => context.fillText(String(value), place, TOP - 10));
  }
  if (view.rows >= 0) {
    context.textAlign = 'right';
    ticks(
      bordersIn(boxes, tiles, view.rows, box => box.top),
      bottom,
      tiles.shape[view.rows]!,
      16,
    ).forEach(([value, place]) => context.fillText(String(value), left - 6, place));
    context.save();
    context.translate(left - 52, (TOP + bottom) / 2);
    context.rotate(-Math.PI / 2);
    context.textAlign = 'center';
    context.fillStyle = theme.color('text');
    // Starts beside the lowest tile, because there are other labels above and below.
    const room = bottom - TOP + MARGIN;
    const label = dimLabels[view.rows]!;
    const isLong = context.measureText(label).width > room;
    context.fillText(isLong ? label.replace('dimension ', '') : label, 0, 0, room);
    context.restore();
  }
}

function bordersIn(
  boxes: readonly TileBox[],
  tiles: Tiles,
  dim: number,
  place: (box: TileBox) => number,
): Map<number, number> {
  return new Map(
    boxes.map(box => [tiles.starts[box.tile * tiles.shape.length + dim]!, place(box)]),
  );
}

/** Indices of tile borders with their places, without those that would overlap. */
function ticks(
  borders: ReadonlyMap<number, number>,
  end: number,
  last: number,
  apart: number,
): [number, number][] {
  const all: [number, number][] = [...borders, [last, end] as [number, number]];
  all.sort((a, b) => a[1] - b[1]);
  const shown: [number, number][] = [];
  for (const tick of all) {
    if (shown.length === 0 || tick[1] - shown[shown.length - 1]![1] >= apart) {
      shown.push(tick);
    }
  }
  return shown;
}
