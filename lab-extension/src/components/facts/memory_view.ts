/** Devices and their live arrays. */

import type { DeviceMemoryRecord, LiveArrayRecord, MemoryRecord } from '../../generated/introspect';
import { el, type Content } from '../dom';
import { counted, oneLine, quantity } from '../format';
import { meter, tableOf } from '../table';
import { FactsView } from './facts_view';

/** View of the memory in use on each device, in bytes, and of the live arrays. */
export function memoryView(record: MemoryRecord): FactsView {
  const total = record.devices.reduce((sum, device) => sum + device.in_use_bytes, 0);
  const chips = [counted(record.arrays.length, 'live array'), quantity(total, 'B')];
  return new FactsView('Memory', chips, devicesTable(record.devices), arraysTable(record.arrays));
}

/** Table of devices with memory bars, relative to the limit or to the fullest device. */
export function devicesTable(devices: readonly DeviceMemoryRecord[]): HTMLElement {
  const most = Math.max(1, ...devices.map(device => device.in_use_bytes));
  return tableOf(
    'Devices',
    [{ name: 'Device' }, { name: 'In use', isNumber: true }, { name: '' }],
    devices.map(device => [
      `${oneLine(device.platform, 20)} ${device.device_id}`,
      quantity(device.in_use_bytes, 'B') +
        (device.limit_bytes === null ? '' : ` of ${quantity(device.limit_bytes, 'B')}`),
      meter(device.in_use_bytes / (device.limit_bytes ?? most)),
    ]),
  );
}

/** Table of live arrays with their owners, and an optional `action` cell in each row. */
export function arraysTable(
  arrays: readonly LiveArrayRecord[],
  action?: (array: LiveArrayRecord) => Content,
): HTMLElement {
  // Tables with buttons are in narrow panels, so all facts of an array share a column.
  const isNarrow = action !== undefined;
  return tableOf(
    'Live arrays',
    isNarrow
      ? [{ name: 'Array' }, { name: 'Bytes', isNumber: true }, { name: '' }]
      : [{ name: 'Array' }, { name: 'Bytes', isNumber: true }, { name: 'Held by' }],
    arrays.map(array => {
      const type = el('code', {}, oneLine(array.type, 60));
      const bytes = quantity(array.total_bytes, 'B');
      return isNarrow
        ? [
            [el('div', {}, heldBy(array)), type, placeText(array), madeIn(array)],
            bytes,
            action(array),
          ]
        : [[type, placeText(array)], bytes, [heldBy(array), madeIn(array)]];
    }),
  );
}

function placeText(array: LiveArrayRecord): Content {
  const count = array.device_ids.length;
  return el(
    'div',
    { class: 'pl-muted' },
    count === 1
      ? `on device ${array.device_ids[0]}`
      : `${oneLine(array.sharding, 60)} on ${count} devices`,
  );
}

function heldBy(array: LiveArrayRecord): Content {
  const names = [...array.owners, ...array.holders].slice(0, 4).map(each => oneLine(each, 60));
  return names.length > 0 ? names.join(', ') : el('span', { class: 'pl-muted' }, 'no variable');
}

function madeIn(array: LiveArrayRecord): Content {
  return array.source === null
    ? null
    : el('div', { class: 'pl-muted' }, `made in ${oneLine(array.source, 60)}, line ${array.line}`);
}
