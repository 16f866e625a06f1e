/** An array on its mesh: shards, devices, bytes. */

import type { ShardingRecord, SpecRecord } from '../../generated/introspect';
import {
  Mesh,
  bordersOf,
  replicatedAxes,
  tileElements,
  tileText,
  tilesOfRecord,
  unevenDims,
  type Tiles,
} from '../../records/tiles';
import { CanvasPane } from '../canvas_pane';
import { Disposables, el } from '../dom';
import { counted, oneLine, quantity, whole } from '../format';
import type { ProgramEvents } from '../source_link';
import { readTheme, type Theme } from '../theme';
import { withTerms } from '../terms';
import { ArrayValuesView, type ArrayEvents } from '../values/array_values_view';
import { deviceColors, type ColorBy } from './colors';
import { deviceAt, layMesh, paintMesh, type MeshLayout } from './mesh_picture';
import { layTiles, paintTiles, tileAt, type TileBox, type TilesView } from './tiles_picture';

/** An array to display, from a record or from a spec. */
export interface PlacedArray {
  readonly name: string;
  readonly type: string;
  readonly itemBytes: number;
  readonly mesh: Mesh;
  readonly spec: SpecRecord;
  readonly tiles: Tiles;
  /** Whether it is a mesh, whose devices are shown as shards. */
  readonly isMesh?: boolean;
  /** Key by which a kernel finds the array; empty if it can't. */
  readonly key?: string;
  /** Manual axes, along which each device has an array of its own. */
  readonly manualAxes?: readonly string[];
}

/** The array to display for a sharding record. */
export function placedArrayOf(record: ShardingRecord): PlacedArray {
  const mesh = new Mesh(record.mesh);
  return {
    name: String(record.name),
    type: String(record.type),
    itemBytes: Number(record.item_bytes) || 0,
    mesh,
    spec: record.spec,
    tiles: tilesOfRecord(record, mesh),
    isMesh: record.type === 'mesh',
    key: record.array,
  };
}

/** Heights in pixels: of a row of devices, and of the space around the mesh. */
const ROW = 54;
const AROUND_MESH = 150;
const MAX_MESH_ROWS = 6;
/** Height in pixels of the values shown instead of shards. */
const VALUES_HEIGHT = 520;

/** Maximum number of devices listed one by one for screen readers. */
const MAX_LISTED_DEVICES = 128;

export class ArrayView {
  readonly element: HTMLElement;
  readonly ready = Promise.resolve();
  private readonly disposables = new Disposables();
  private readonly tilesPane: CanvasPane;
  private readonly meshPane: CanvasPane;
  private readonly bytesPane: CanvasPane | null;
  private readonly status = el('div', { class: 'pl-array-status', 'aria-live': 'polite' });
  private readonly sliders = el('div', { class: 'pl-sliders' });
  private theme: Theme;
  private colorBy: ColorBy = 'device';
  private colors: readonly string[] = [];
  private view: TilesView;
  private boxes: readonly TileBox[] = [];
  private meshLayout: MeshLayout | null = null;
  private highlightedTile = -1;
  private highlightedDevices: ReadonlySet<number> = new Set();
  private readonly deviceBytes: readonly number[];
  private values: ArrayValuesView | null = null;
  private readonly onHeight: ProgramEvents['onHeight'];

  constructor(
    private readonly root: HTMLElement,
    private readonly array: PlacedArray,
    events: ProgramEvents = {},
    private readonly arrays?: ArrayEvents,
  ) {
    this.theme = readTheme(root);
    this.onHeight = events.onHeight;
    this.view = firstView(array);
    this.deviceBytes = Array.from(array.tiles.tileOfDevice, tile =>
      tile < 0 ? 0 : tileElements(array.tiles, tile) * array.itemBytes,
    );
    this.tilesPane = new CanvasPane('pl-tiles', this.summary(), (context, width, height) => {
      this.boxes = layTiles(array.tiles, this.view, width, height);
      paintTiles(context, {
        tiles: array.tiles,
        mesh: array.mesh,
        view: this.view,
        boxes: this.boxes,
        colors: this.colors,
        theme: this.theme,
        isUnreduced: array.spec.unreduced_axes.length > 0,
        dimLabels: array.tiles.shape.map((_, dim) => this.dimLabel(dim)),
        highlighted: new Set([this.highlightedTile]),
      });
    });
    this.meshPane = new CanvasPane(
      'pl-mesh',
      `Mesh ${meshText(array.mesh)}`,
      (context, width, height) => {
        this.meshLayout = layMesh(array.mesh, width, height);
        paintMesh(
          context,
          array.mesh,
          this.meshLayout,
          this.colors,
          this.highlightedDevices,
          this.theme,
        );
      },
    );
    const isEven = this.deviceBytes.every(bytes => bytes === this.deviceBytes[0]);
    this.bytesPane = isEven
      ? null
      : new CanvasPane('pl-bytes', 'Bytes on each device', (context, width, height) =>
          this.paintBytes(context, width, height),
        );
    this.element = this.build();
    this.listen();
    this.recolor();
    this.say(null);
    const rows = array.mesh.axisSizes.at(-2) ?? 1;
    if (array.isMesh === true && array.mesh.axisSizes.length <= 2 && rows <= MAX_MESH_ROWS) {
      events.onHeight?.(AROUND_MESH + rows * ROW);
    }
  }

  dispose(): void {
    this.tilesPane.dispose();
    this.meshPane.dispose();
    this.bytesPane?.dispose();
    this.disposables.dispose();
  }

  themeChanged(): void {
    this.theme = readTheme(this.root);
    this.values?.themeChanged();
    this.recolor();
  }

  // Parts

  private build(): HTMLElement {
    const { array } = this;
    this.fillSliders();
    const header = el(
      'header',
      { class: 'pl-array-header' },
      el(
        'strong',
        { class: 'pl-code' },
        [oneLine(array.name, 80), oneLine(array.type, 80)].filter(Boolean).join(': '),
      ),
      el('code', {}, array.isMesh === true ? meshText(array.mesh) : oneLine(array.spec.text, 120)),
      this.facts().map(([text, tone]) => el('span', { class: `pl-chip ${tone}` }, withTerms(text))),
      this.buildColorBy(),
      this.valuesButton(),
    );
    const bytes =
      this.bytesPane === null
        ? null
        : el(
            'div',
            { class: 'pl-bytes-box' },
            el('p', { class: 'pl-muted' }, 'Bytes on each device'),
            this.bytesPane.element,
          );
    return el(
      'div',
      { class: 'pl-array' },
      header,
      el(
        'div',
        { class: 'pl-array-main' },
        array.isMesh === true
          ? null
          : el('div', { class: 'pl-array-left' }, this.sliders, this.tilesPane.element),
        el('div', { class: 'pl-array-right' }, this.meshPane.element, bytes),
      ),
      this.status,
      this.list(),
    );
  }

  private facts(): [string, string][] {
    const { mesh, spec, tiles } = this.array;
    const kind = mesh.isAbstract
      ? 'abstract device'
      : `${oneLine(mesh.record.platform, 20)} device`.trim();
    const facts: [string, string][] = [
      [counted(mesh.deviceCount, kind), ''],
      ...(mesh.processCount > 1
        ? [[`${mesh.processCount} processes: p0, p1, …`, ''] as [string, string]]
        : []),
      ...(this.array.itemBytes > 0 ? [[this.bytesText(), ''] as [string, string]] : []),
    ];
    const { manualAxes = [] } = this.array;
    if (manualAxes.length > 0) {
      facts.push([`each device along ${oneLine(manualAxes.join(', '), 40)} has its own`, '']);
    }
    const holders = Math.max(...tiles.devicesOfTile.map(devices => devices.length));
    const copies = holders / mesh.sizeOf(manualAxes);
    if (copies > 1 && spec.unreduced_axes.length === 0) {
      const alike = replicatedAxes(mesh, spec).filter(axis => !manualAxes.includes(axis));
      const axes = alike.join(', ');
      facts.push([
        `replicated ×${copies}${axes === '' ? '' : ` over ${oneLine(axes, 40)}`}`,
        'pl-tone-info',
      ]);
    }
    for (const dim of unevenDims(tiles)) {
      facts.push([`uneven along dimension ${dim}`, 'pl-tone-amber']);
    }
    if (spec.unreduced_axes.length > 0) {
      facts.push([
        `unreduced: sums over ${oneLine(spec.unreduced_axes.join(', '), 40)} are still open`,
        'pl-tone-amber',
      ]);
    }
    if (spec.memory_kind !== null && spec.memory_kind !== 'device') {
      facts.push([`in ${oneLine(spec.memory_kind, 30)}`, 'pl-tone-info']);
    }
    return facts;
  }

  private bytesText(): string {
    const most = this.deviceBytes.reduce((a, b) => Math.max(a, b), 0);
    const least = this.deviceBytes.reduce((a, b) => Math.min(a, b), Infinity);
    return least === most
      ? `${quantity(most, 'B')} on each`
      : `${quantity(least, 'B')} to ${quantity(most, 'B')} on one`;
  }

  private buildColorBy(): HTMLElement {
    const { mesh } = this.array;
    const options: [string, string][] = [
      ['device', 'colour by device'],
      ...(mesh.processCount > 1 ? [['process', 'colour by process'] as [string, string]] : []),
      ...mesh.axisNames.map((name, axis): [string, string] => [
        String(axis),
        `colour by axis ${oneLine(name, 20)}`,
      ]),
    ];
    const select = el(
      'select',
      { class: 'pl-select', 'aria-label': 'Colour' },
      options.map(([value, name]) => el('option', { value }, name)),
    );
    this.disposables.listen(select, 'change', () => {
      const { value } = select;
      this.colorBy = value === 'device' || value === 'process' ? value : { axis: Number(value) };
      this.recolor();
    });
    return select;
  }

  /** Button that switches between values and shards; null without a kernel. */
  private valuesButton(): HTMLElement | null {
    const { arrays } = this;
    const { key = '' } = this.array;
    if (arrays === undefined || key === '') {
      return null;
    }
    const button = el(
      'button',
      { type: 'button', class: 'pl-action', 'aria-pressed': 'false' },
      'Values',
    );
    this.disposables.listen(button, 'click', () => {
      if (this.values !== null) {
        this.showValues(button, null);
        return;
      }
      arrays
        .loadValues(key, null)
        .then(record => this.showValues(button, new ArrayValuesView(this.root, record, arrays)))
        .catch((error: unknown) => {
          this.status.textContent = error instanceof Error ? error.message : String(error);
        });
    });
    return button;
  }

  private showValues(button: HTMLElement, values: ArrayValuesView | null): void {
    this.values?.dispose();
    this.values = values;
    button.setAttribute('aria-pressed', String(values !== null));
    this.element.classList.toggle('pl-shows-values', values !== null);
    if (values !== null) {
      this.element.querySelector('.pl-array-main')!.after(values.element);
      this.onHeight?.(VALUES_HEIGHT);
    }
  }

  /** Adds a slider for each dimension that isn't drawn, and selectors for those that are. */
  private fillSliders(): void {
    const { tiles } = this.array;
    const ndim = tiles.shape.length;
    this.sliders.replaceChildren();
    if (ndim <= 2) {
      return;
    }
    this.sliders.append(
      this.dimSelect('down', this.view.rows, dim => ({ ...this.view, rows: dim })),
      this.dimSelect('across', this.view.columns, dim => ({ ...this.view, columns: dim })),
    );
    for (let dim = 0; dim < ndim; dim++) {
      if (dim !== this.view.rows && dim !== this.view.columns) {
        this.sliders.append(this.slider(dim));
      }
    }
  }

  private dimSelect(
    label: string,
    chosen: number,
    change: (dim: number) => TilesView,
  ): HTMLElement {
    const select = el(
      'select',
      { class: 'pl-select', 'aria-label': `Dimension drawn ${label}` },
      this.array.tiles.shape.map((_, dim) =>
        el('option', { value: dim, selected: dim === chosen }, `${label}: dimension ${dim}`),
      ),
    );
    this.disposables.listen(select, 'change', () => {
      const next = change(Number(select.value));
      // Choosing the same dimension twice swaps the two.
      const swapped = next.rows === next.columns;
      this.view = swapped ? { ...next, rows: this.view.columns, columns: this.view.rows } : next;
      this.fillSliders();
      this.draw();
    });
    return select;
  }

  private slider(dim: number): HTMLElement {
    const borders = bordersOf(this.array.tiles, dim);
    const part = el('span', { class: 'pl-code' });
    const input = el('input', {
      type: 'range',
      min: 0,
      max: Math.max(0, borders.length - 2),
      value: borders.filter(border => border <= (this.view.cut[dim] ?? 0)).length - 1,
      'aria-label': `Part along dimension ${dim}`,
      disabled: borders.length <= 2,
    });
    const show = (): void => {
      const index = Number(input.value);
      part.textContent = `${borders[index] ?? 0}:${borders[index + 1] ?? 0}`;
      const cut = this.view.cut.slice();
      cut[dim] = borders[index] ?? 0;
      this.view = { ...this.view, cut };
    };
    show();
    this.disposables.listen(input, 'input', () => {
      show();
      this.draw();
    });
    return el('label', { class: 'pl-slider' }, this.dimLabel(dim), input, part);
  }

  private dimLabel(dim: number): string {
    const { tiles, spec, mesh } = this.array;
    const axes = spec.dim_axes[dim] ?? [];
    const divided =
      axes.length > 0
        ? ` ÷ ${axes.map(axis => oneLine(axis, 20)).join('·')} (${mesh.sizeOf(axes)})`
        : '';
    return `dimension ${dim}: ${whole(tiles.shape[dim]!)}${divided}`;
  }

  // Pointer, keyboard and words

  private listen(): void {
    this.tilesPane.onPointer(place =>
      this.pointTile(place === null ? -1 : tileAt(this.boxes, ...place)),
    );
    this.meshPane.onPointer(place =>
      this.pointDevice(
        place === null || this.meshLayout === null ? -1 : deviceAt(this.meshLayout, ...place),
      ),
    );
    const step = (now: number, count: number, key: string): number => {
      const by =
        key === 'ArrowRight' || key === 'ArrowDown'
          ? 1
          : key === 'ArrowLeft' || key === 'ArrowUp'
            ? -1
            : 0;
      return by === 0 || count === 0 ? -2 : (now + by + count) % count;
    };
    this.tilesPane.onKey(key => {
      const index = this.boxes.findIndex(box => box.tile === this.highlightedTile);
      const next = step(index, this.boxes.length, key);
      if (next >= 0) {
        this.pointTile(this.boxes[next]!.tile);
      }
      return next >= 0;
    });
    this.meshPane.onKey(key => {
      const [first = -1] = this.highlightedDevices;
      const next = step(first, this.array.mesh.deviceCount, key);
      if (next >= 0) {
        this.pointDevice(next);
      }
      return next >= 0;
    });
  }

  private pointTile(tile: number): void {
    if (tile === this.highlightedTile) {
      return;
    }
    this.highlightedTile = tile;
    this.highlightedDevices = new Set(this.array.tiles.devicesOfTile[tile] ?? []);
    this.say(tile < 0 ? null : this.tileSentence(tile));
    this.draw();
  }

  private pointDevice(device: number): void {
    const { tiles } = this.array;
    this.highlightedDevices = device < 0 ? new Set() : new Set([device]);
    this.highlightedTile = device < 0 ? -1 : tiles.tileOfDevice[device]!;
    this.say(device < 0 ? null : this.deviceSentence(device));
    this.draw();
  }

  private tileSentence(tile: number): string {
    const { tiles, mesh, itemBytes } = this.array;
    const devices = tiles.devicesOfTile[tile]!.map(device => mesh.deviceId(device));
    const shown =
      devices.slice(0, 16).join(', ') + (devices.length > 16 ? `, … (${devices.length})` : '');
    const bytes = quantity(tileElements(tiles, tile) * itemBytes, 'B');
    return `[${tileText(tiles, tile)}]: ${bytes}, on device${devices.length === 1 ? '' : 's'} ${shown}`;
  }

  private deviceSentence(device: number): string {
    const { tiles, mesh } = this.array;
    const place = mesh.axisNames
      .map((name, axis) => `${oneLine(name, 20)}=${mesh.coordinate(device, axis)}`)
      .join(' ');
    const process = mesh.isAbstract ? '' : `, process ${mesh.process(device)}`;
    if (this.array.isMesh === true) {
      return `device ${mesh.deviceId(device)} (${place}${process})`;
    }
    const tile = tiles.tileOfDevice[device]!;
    const holds =
      tile < 0
        ? 'nothing'
        : `[${tileText(tiles, tile)}], ${quantity(this.deviceBytes[device]!, 'B')}`;
    return `device ${mesh.deviceId(device)} (${place}${process}) holds ${holds}`;
  }

  private summary(): string {
    const { array } = this;
    const facts = this.facts().map(([text]) => text);
    const what = array.isMesh === true ? meshText(array.mesh) : array.spec.text;
    return [`${array.type} as ${what}`, ...facts].map(text => oneLine(text, 120)).join('; ');
  }

  private say(sentence: string | null): void {
    const hint =
      this.array.isMesh === true
        ? 'Point at a device to see where it is.'
        : 'Point at a tile or a device to see what it holds.';
    this.status.textContent = sentence ?? hint;
    this.status.classList.toggle('pl-muted', sentence === null);
  }

  private list(): HTMLElement {
    const { mesh } = this.array;
    const items = Array.from(
      { length: Math.min(mesh.deviceCount, MAX_LISTED_DEVICES) },
      (_, device) => el('li', {}, this.deviceSentence(device)),
    );
    return el('ul', { class: 'pl-offscreen', 'aria-label': 'Devices' }, items);
  }

  // Drawing

  private recolor(): void {
    this.colors = deviceColors(this.array.mesh, this.colorBy, this.theme.isDark);
    this.draw();
  }

  private draw(): void {
    this.tilesPane.draw();
    this.meshPane.draw();
    this.bytesPane?.draw();
  }

  private paintBytes(context: CanvasRenderingContext2D, width: number, height: number): void {
    paintBars(
      context,
      width,
      height,
      this.deviceBytes,
      this.colors,
      this.highlightedDevices,
      this.theme,
    );
  }
}

/** Bars, one per device, with a common baseline. */
export function paintBars(
  context: CanvasRenderingContext2D,
  width: number,
  height: number,
  values: readonly number[],
  colors: readonly string[],
  highlighted: ReadonlySet<number>,
  theme: Theme,
): void {
  const most = values.reduce((a, b) => Math.max(a, b), 0) || 1;
  const step = width / values.length;
  const gap = step > 4 ? 1 : 0;
  values.forEach((value, index) => {
    const bar = Math.max(value > 0 ? 1 : 0, (value / most) * (height - 2));
    context.fillStyle = highlighted.has(index)
      ? theme.color('accent')
      : (colors[index] ?? theme.color('line-strong'));
    context.fillRect(index * step, height - bar, Math.max(0.5, step - gap), bar);
  });
  context.fillStyle = theme.color('line-strong');
  context.fillRect(0, height - 1, width, 1);
}

/** Axis names and sizes of a mesh, for example `data=4, model=2`. */
export function meshText(mesh: Mesh): string {
  return mesh.axisNames
    .map((name, axis) => `${oneLine(name, 24)}=${mesh.axisSizes[axis]}`)
    .join(', ');
}

/** Shows the last two dimensions at first, unless only others are sharded. */
function firstView({ tiles, spec }: PlacedArray): TilesView {
  const ndim = tiles.shape.length;
  const divided = tiles.shape
    .map((_, dim) => dim)
    .filter(dim => (spec.dim_axes[dim] ?? []).length > 0);
  const others = tiles.shape
    .map((_, dim) => dim)
    .reverse()
    .filter(dim => !divided.includes(dim));
  const [first, second] = [...divided.slice(0, 2), ...others].slice(0, 2).sort((a, b) => a - b);
  const cut = tiles.shape.map(() => 0);
  if (ndim === 0) {
    return { rows: -1, columns: -1, cut };
  }
  return second === undefined
    ? { rows: -1, columns: first!, cut }
    : { rows: first!, columns: second, cut };
}

export const arrayStyle = `
.pl-array { display: flex; flex-direction: column; height: 100%; min-height: 0; min-width: 0; }
.pl-array-header { display: flex; flex-wrap: wrap; align-items: center; gap: 6px 10px; padding: 8px 12px; border-bottom: 1px solid var(--pl-line); }
.pl-array-header > strong { font-size: 14px; overflow-wrap: anywhere; }
.pl-array-header > code { font: 12px var(--pl-code); color: var(--pl-indexing); overflow-wrap: anywhere; }
.pl-array-header > .pl-select { margin-left: auto; }
.pl-tone-info { background: var(--pl-accent-soft); color: var(--pl-accent); }
.pl-tone-amber { background: var(--pl-amber-soft); color: var(--pl-amber); }
.pl-array-main { display: flex; flex: 1; min-height: 0; min-width: 0; flex-wrap: wrap; }
.pl-array-left { flex: 3 1 320px; display: flex; flex-direction: column; min-width: 0; min-height: 200px; padding: 10px 4px 6px 10px; }
.pl-array-right { flex: 2 1 240px; display: flex; flex-direction: column; min-width: 0; min-height: 160px; padding: 10px 10px 6px 4px; }
.pl-tiles, .pl-mesh { flex: 1; }
.pl-bytes-box p { margin: 4px 0; font-size: 12px; }
.pl-bytes { height: 48px; }
.pl-sliders { display: flex; flex-wrap: wrap; gap: 6px 14px; align-items: center; padding: 0 0 8px 4px; font-size: 12px; }
.pl-shows-values > .pl-array-main { display: none; }
.pl-shows-values > .pl-values { flex: 1; overflow: auto; min-height: 0; }
.pl-shows-values > .pl-values > header { display: none; }
.pl-sliders:empty { display: none; }
.pl-slider { display: inline-flex; align-items: center; gap: 8px; color: var(--pl-muted); }
.pl-slider input { width: 110px; accent-color: var(--pl-accent); }
.pl-array-status { padding: 5px 12px 7px; border-top: 1px solid var(--pl-line); font: 12px/1.5 var(--pl-code); overflow-wrap: anywhere; min-height: 32px; }
`;
