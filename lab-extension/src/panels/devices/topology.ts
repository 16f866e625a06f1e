/** Small pictures of devices, grouped by process or arranged along the axes of a mesh. */

import type { DeviceMemoryRecord, MeshRecord, ShardingRecord } from '../../generated/introspect';
import { el, type Content } from '../../components/dom';
import { counted, oneLine, quantity } from '../../components/format';

/** Maximum number of devices in a picture; more would not be informative. */
const MAX_SQUARES = 256;

/** The devices of each process, filled by the fraction of memory in use. */
export function topology(devices: readonly DeviceMemoryRecord[]): Content {
  const most = Math.max(1, ...devices.map(device => device.in_use_bytes));
  const processes = new Map<number, DeviceMemoryRecord[]>();
  for (const device of devices.slice(0, MAX_SQUARES)) {
    const known = processes.get(device.process_index);
    if (known === undefined) {
      processes.set(device.process_index, [device]);
    } else {
      known.push(device);
    }
  }
  return [...processes].map(([process, own]) =>
    el(
      'div',
      { class: 'pl-process', role: 'img', 'aria-label': processLabel(process, own) },
      processes.size > 1 ? el('span', { class: 'pl-muted' }, `process ${process}`) : null,
      el(
        'div',
        { class: 'pl-squares' },
        own.map(device => {
          const part = device.in_use_bytes / (device.limit_bytes ?? most);
          const title = `${device.platform} ${device.device_id}: ${quantity(device.in_use_bytes, 'B')}`;
          const square = el('span', { class: 'pl-square', title }, String(device.device_id));
          square.style.setProperty('--pl-fill', `${(100 * Math.min(1, part)).toFixed(0)}%`);
          return square;
        }),
      ),
    ),
  );
}

function processLabel(process: number, devices: readonly DeviceMemoryRecord[]): string {
  const ids = devices.map(device => device.device_id).join(', ');
  return `Process ${process} drives ${counted(devices.length, 'device')}: ${ids}`;
}

/** Button that opens a variable's mesh: its name, axes, and devices in rows and columns. */
export function meshCard(record: ShardingRecord, onOpen: () => void): HTMLElement {
  const { mesh } = record;
  const axes = mesh.axis_names.map((name, axis) => `${oneLine(name, 24)}=${mesh.axis_sizes[axis]}`);
  const name = oneLine(record.name, 40);
  const open = el(
    'button',
    { type: 'button', class: 'pl-link', 'aria-label': `Open mesh ${name}` },
    'Open',
  );
  open.addEventListener('click', onOpen);
  return el(
    'div',
    { class: 'pl-entry' },
    el('div', {}, el('strong', {}, name), ' ', el('code', {}, axes.join(' × '))),
    meshGrid(mesh, `Mesh ${name}: ${axes.join(', ')}`),
    el('div', { class: 'pl-entry-actions' }, open),
  );
}

/** Grid of a mesh: columns along the last axis, rows along all others. */
function meshGrid(mesh: MeshRecord, label: string): HTMLElement {
  const columns = mesh.axis_sizes.at(-1) ?? 1;
  const ids = mesh.device_ids.slice(0, MAX_SQUARES);
  const grid = el(
    'div',
    { class: 'pl-squares pl-mesh-grid', role: 'img', 'aria-label': label },
    ids.map(id => el('span', { class: 'pl-square' }, String(id))),
  );
  grid.style.gridTemplateColumns = `repeat(${columns}, minmax(12px, 26px))`;
  return grid;
}

export const topologyStyle = `
.pl-process { margin: 0 12px 8px; }
.pl-squares { display: flex; flex-wrap: wrap; gap: 3px; }
.pl-mesh-grid { display: grid; margin: 6px 0 2px; overflow: hidden; }
.pl-square { box-sizing: border-box; min-width: 22px; height: 22px; padding: 0 3px; border: 1px solid var(--pl-line); border-radius: 4px; font: 11px/20px var(--pl-code); text-align: center; overflow: hidden; background: linear-gradient(to top, var(--pl-accent-soft) var(--pl-fill, 0%), transparent var(--pl-fill, 0%)); }
.pl-mesh-grid > .pl-square { min-width: 0; padding: 0; }
`;
