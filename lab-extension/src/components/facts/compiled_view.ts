/** One executable: what it costs, what it holds, which kernels it runs. */

import type { CompiledRecord, KernelRecord } from '../../generated/introspect';
import { el } from '../dom';
import { counted, oneLine, quantity } from '../format';
import { meter, tableOf } from '../table';
import { FactsView } from './facts_view';
import { duration } from './misses_view';

const MOST_KERNELS = 500;

export function compiledView(record: CompiledRecord): FactsView {
  const { memory, cost } = record;
  const parts: [string, number][] = [
    ['arguments', memory.argument_bytes],
    ['results', memory.output_bytes],
    ['in donated arguments', memory.alias_bytes],
    ['temporary', memory.temporary_bytes],
    ['code', memory.code_bytes],
  ];
  const most = Math.max(1, ...parts.map(([, bytes]) => bytes));
  const chips = [
    counted(record.device_count, `${oneLine(record.platform, 20)} device`),
    cost.flops === null ? '' : `${quantity(cost.flops, 'flop')} (estimate)`,
    cost.bytes_accessed === null ? '' : `${quantity(cost.bytes_accessed, 'B')} moved (estimate)`,
    `peak ${quantity(memory.peak_bytes, 'B')}`,
  ].filter(Boolean);
  const phases = record.phases.map(
    phase => `${oneLine(phase.name, 40)} ${duration(phase.seconds)}`,
  );
  return new FactsView(
    oneLine(record.name, 80),
    chips,
    phases.length === 0 ? null : el('p', { class: 'pl-muted' }, phases.join(' · ')),
    tableOf(
      'Memory on one device',
      [{ name: 'Memory' }, { name: 'Bytes', isNumber: true }, { name: '' }],
      parts
        .filter(([, bytes]) => bytes > 0)
        .map(([name, bytes]) => [name, quantity(bytes, 'B'), meter(bytes / most)]),
    ),
    tableOf(
      'Kernels',
      [
        { name: counted(record.kernels.length, 'kernel') },
        { name: 'Kind' },
        { name: 'Work', isNumber: true },
        { name: 'Traffic', isNumber: true },
      ],
      [...record.kernels]
        .sort((a, b) => weight(b) - weight(a))
        .slice(0, MOST_KERNELS)
        .map(kernel => [
          el('code', {}, oneLine(kernel.name, 80)),
          kernel.category,
          kernel.flops === null ? '' : quantity(kernel.flops, 'flop'),
          kernel.bytes_accessed === null ? '' : quantity(kernel.bytes_accessed, 'B'),
        ]),
    ),
  );
}

/** Kernels that work or move most come first; one operation takes about as long as moving a byte. */
function weight(kernel: KernelRecord): number {
  return (kernel.flops ?? 0) + (kernel.bytes_accessed ?? 0);
}
