/** Memory of each device, and the owners of arrays. */

import type { LiveArrayRecord, ShardingRecord } from '../../generated/introspect';
import type { DevicesState } from '../../generated/kernel';
import { el, type Content } from '../../components/dom';
import { arraysTable, devicesTable } from '../../components/facts/memory_view';
import { counted, oneLine } from '../../components/format';
import { meshCard, topology } from './topology';

export interface DevicesEvents {
  readonly onFree: (array: LiveArrayRecord) => void;
  readonly onLetGo: () => void;
  readonly onOpenMesh: (mesh: ShardingRecord) => void;
}

/** Time within which a second click confirms the first, in milliseconds. */
const CONFIRM_MILLISECONDS = 4000;

/** Content of the devices panel: devices, their memory in bytes, meshes and live arrays. */
export function devicesContent(state: DevicesState, events: DevicesEvents): Content {
  const { devices, arrays } = state.memory;
  if (devices.length === 0) {
    return el('p', { class: 'pl-panel-note' }, 'No device was used yet.');
  }
  const isHeld = arrays.some(array => array.holders.length > 0);
  const kinds = [...new Set(devices.map(device => oneLine(device.device_kind, 40)))].join(', ');
  const isSum = devices.some(device => device.basis !== 'measured');
  const hidden = state.array_count - arrays.length;
  return [
    el('h3', {}, `${counted(devices.length, 'device')}: ${kinds}`),
    topology(devices),
    devicesTable(devices),
    isSum
      ? el('p', { class: 'pl-panel-note' }, 'Sums over live arrays: this platform reports no more.')
      : null,
    state.device_note === '' ? null : el('p', { class: 'pl-panel-note' }, state.device_note),
    state.meshes.length === 0 ? null : el('h3', {}, 'Meshes'),
    state.meshes.map(mesh => meshCard(mesh, () => events.onOpenMesh(mesh))),
    el('h3', {}, counted(state.array_count, 'live array')),
    isHeld ? dropButton(events) : null,
    arraysTable(arrays, array => freeButton(array, events)),
    hidden > 0
      ? el('p', { class: 'pl-panel-note' }, `and ${counted(hidden, 'smaller array')}`)
      : null,
  ];
}

function dropButton(events: DevicesEvents): HTMLElement {
  const button = el(
    'button',
    {
      type: 'button',
      class: 'pl-link',
      title:
        'Drops the frames of the last error and the outputs of cells (Out), which keep arrays in memory',
    },
    'Free what errors and outputs hold',
  );
  button.addEventListener('click', events.onLetGo);
  return el('p', { class: 'pl-panel-note' }, button);
}

/** Button that needs two clicks, because freeing can't be undone. */
function freeButton(array: LiveArrayRecord, events: DevicesEvents): HTMLElement {
  const name = oneLine(array.owners[0] ?? array.type, 40);
  const button = el(
    'button',
    { type: 'button', class: 'pl-link', 'aria-label': `Free ${name}` },
    'Free',
  );
  let isAsked = false;
  button.addEventListener('click', () => {
    if (isAsked) {
      events.onFree(array);
      return;
    }
    isAsked = true;
    button.textContent = 'Sure?';
    button.setAttribute('aria-label', `Really free ${name}`);
    setTimeout(() => {
      isAsked = false;
      button.textContent = 'Free';
      button.setAttribute('aria-label', `Free ${name}`);
    }, CONFIRM_MILLISECONDS);
  });
  return button;
}
