/** The distinct shards (tiles) of an array, and the devices that hold each. */

import type { MeshRecord, ShardingRecord, SpecRecord } from '../generated/introspect';
import { RecordError, integers, lengthOf } from './columns';

/** A mesh record with validated columns. */
export class Mesh {
  readonly axisNames: readonly string[];
  readonly axisSizes: readonly number[];
  readonly deviceCount: number;
  readonly isAbstract: boolean;

  constructor(readonly record: MeshRecord) {
    this.axisNames = record.axis_names.map(String);
    this.axisSizes = Array.from(
      integers('mesh.axis_sizes', record.axis_sizes, 1, 2 ** 24, this.axisNames.length),
    );
    this.deviceCount = this.axisSizes.reduce((product, size) => product * size, 1);
    if (this.deviceCount > 2 ** 20) {
      throw new RecordError(`the mesh has ${this.deviceCount} devices, more than can be drawn`);
    }
    this.isAbstract = record.device_ids.length === 0;
    if (!this.isAbstract && record.device_ids.length !== this.deviceCount) {
      throw new RecordError(
        `the mesh names ${record.device_ids.length} of ${this.deviceCount} devices`,
      );
    }
  }

  /** `data=2, model=4`. */
  get text(): string {
    return this.axisNames.map((name, axis) => `${name}=${this.axisSizes[axis]}`).join(', ');
  }

  deviceId(place: number): number {
    return this.record.device_ids[place] ?? place;
  }

  /** Process of the device at an index of the mesh; 0 if unknown. */
  process(place: number): number {
    return this.record.process_indices[place] ?? 0;
  }

  get processCount(): number {
    return new Set(this.record.process_indices).size || 1;
  }

  /** Position along one axis of the device at an index of the mesh. */
  coordinate(place: number, axis: number): number {
    let inner = 1;
    for (let i = axis + 1; i < this.axisSizes.length; i++) {
      inner *= this.axisSizes[i]!;
    }
    return Math.floor(place / inner) % this.axisSizes[axis]!;
  }

  axis(name: string): number {
    return this.axisNames.indexOf(name);
  }

  /** Product of the sizes of axes and sub-axes; unknown names count as 1. */
  sizeOf(names: readonly string[]): number {
    return names.reduce((product, name) => product * this.axisPart(name).size, 1);
  }

  /** Axis, size and stride of `x`, or of a sub-axis `x:(2)4`. */
  axisPart(name: string): { axis: number; size: number; stride: number } {
    const axis = this.axis(name);
    if (axis >= 0) {
      return { axis, size: this.axisSizes[axis]!, stride: 1 };
    }
    const [, whole, outer, size] = /^(.*):\((\d+)\)(\d+)$/s.exec(name) ?? [];
    const found = this.axis(whole ?? '');
    if (found < 0) {
      return { axis: -1, size: 1, stride: 1 };
    }
    const stride = this.axisSizes[found]! / (Number(outer) * Number(size));
    return { axis: found, size: Number(size), stride };
  }
}

/** The distinct shards of an array, and their devices. */
export interface Tiles {
  readonly shape: readonly number[];
  readonly count: number;
  /** Start and end indices along each dimension, tile after tile. */
  readonly starts: Int32Array;
  readonly stops: Int32Array;
  /** Tile of each device, in mesh order; -1 for none. */
  readonly tileOfDevice: Int32Array;
  readonly devicesOfTile: readonly (readonly number[])[];
}

/** The tiles in the record of an array. */
export function tilesOfRecord(record: ShardingRecord, mesh: Mesh): Tiles {
  const shape = Array.from(integers('shape', record.shape, 0, 2 ** 31 - 1));
  const total = lengthOf('tile_starts', record.tile_starts);
  const count = shape.length === 0 ? 1 : total / shape.length;
  const large = 2 ** 31 - 1;
  const starts = integers('tile_starts', record.tile_starts, 0, large, count * shape.length);
  const stops = integers('tile_stops', record.tile_stops, 0, large, count * shape.length);
  const devices = integers('device_tiles', record.device_tiles, -1, count, mesh.deviceCount);
  return withDevices(shape, count, starts, stops, devices);
}

/** The tiles of a shape under a spec: each dimension in equal parts, the last one smaller. */
export function tilesOfSpec(shape: readonly number[], mesh: Mesh, spec: SpecRecord): Tiles {
  const parts = shape.map((_, dim) => mesh.sizeOf(spec.dim_axes[dim] ?? []));
  const count = parts.reduce((product, size) => product * size, 1);
  const starts = new Int32Array(count * shape.length);
  const stops = new Int32Array(count * shape.length);
  for (let tile = 0; tile < count; tile++) {
    let rest = tile;
    for (let dim = shape.length - 1; dim >= 0; dim--) {
      const part = rest % parts[dim]!;
      rest = Math.floor(rest / parts[dim]!);
      const size = Math.ceil(shape[dim]! / parts[dim]!);
      starts[tile * shape.length + dim] = Math.min(shape[dim]!, part * size);
      stops[tile * shape.length + dim] = Math.min(shape[dim]!, (part + 1) * size);
    }
  }
  const devices = new Int32Array(mesh.deviceCount);
  for (let device = 0; device < mesh.deviceCount; device++) {
    let tile = 0;
    shape.forEach((_, dim) => {
      let part = 0;
      for (const name of spec.dim_axes[dim] ?? []) {
        const { axis, size, stride } = mesh.axisPart(name);
        if (axis >= 0) {
          part = part * size + (Math.floor(mesh.coordinate(device, axis) / stride) % size);
        }
      }
      tile = tile * parts[dim]! + part;
    });
    devices[device] = tile;
  }
  return withDevices(shape, count, starts, stops, devices);
}

function withDevices(
  shape: readonly number[],
  count: number,
  starts: Int32Array,
  stops: Int32Array,
  tileOfDevice: Int32Array,
): Tiles {
  const devicesOfTile: number[][] = Array.from({ length: count }, () => []);
  tileOfDevice.forEach((tile, device) => {
    if (tile >= 0) {
      devicesOfTile[tile]!.push(device);
    }
  });
  return { shape, count, starts, stops, tileOfDevice, devicesOfTile };
}

/** Number of elements of a tile along a dimension. */
export function tileSize(tiles: Tiles, tile: number, dim: number): number {
  const at = tile * tiles.shape.length + dim;
  return tiles.stops[at]! - tiles.starts[at]!;
}

/** Number of elements of a tile. */
export function tileElements(tiles: Tiles, tile: number): number {
  return tiles.shape.reduce((product, _, dim) => product * tileSize(tiles, tile, dim), 1);
}

/** `0:128, 64:128`. */
export function tileText(tiles: Tiles, tile: number): string {
  const ranges = tiles.shape.map((_, dim) => {
    const at = tile * tiles.shape.length + dim;
    return `${tiles.starts[at]}:${tiles.stops[at]}`;
  });
  return ranges.length === 0 ? 'the whole scalar' : ranges.join(', ');
}

/** Dimensions whose parts differ in size. */
export function unevenDims(tiles: Tiles): number[] {
  return tiles.shape
    .map((_, dim) => dim)
    .filter(dim => {
      for (let tile = 1; tile < tiles.count; tile++) {
        if (tileSize(tiles, tile, dim) !== tileSize(tiles, 0, dim)) {
          return true;
        }
      }
      return false;
    });
}

/** Mesh axes along which all devices hold the same data. */
export function replicatedAxes(mesh: Mesh, spec: SpecRecord): string[] {
  const used = new Set([...spec.dim_axes.flat(), ...spec.unreduced_axes]);
  return mesh.axisNames.filter((name, axis) => !used.has(name) && mesh.axisSizes[axis]! > 1);
}

/** Borders of the parts along one dimension, including both ends. */
export function bordersOf(tiles: Tiles, dim: number): number[] {
  const borders = new Set([0, tiles.shape[dim]!]);
  for (let tile = 0; tile < tiles.count; tile++) {
    borders.add(tiles.starts[tile * tiles.shape.length + dim]!);
  }
  return [...borders].sort((a, b) => a - b);
}
