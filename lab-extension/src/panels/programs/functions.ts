/** Jitted functions, what is in their caches, and why. */

import type { FunctionEntryRecord, FunctionRecord } from '../../generated/introspect';
import type { ProgramRequest, ProgramsState } from '../../generated/kernel';
import { el, type Content } from '../../components/dom';
import { causes, duration } from '../../components/facts/misses_view';
import { counted, oneLine } from '../../components/format';

export interface FunctionsEvents {
  readonly onOpen: (name: string, entry: FunctionEntryRecord, view: View) => void;
}

type View = ProgramRequest['view'];

/** What is shown of a program, by what readers call it. */
export const VIEWS: Readonly<Record<View, string>> = {
  jaxpr: 'Jaxpr',
  stablehlo: 'StableHLO',
  hlo: 'HLO',
  sharding: 'Sharding',
  memory: 'Memory',
};

/** A list of functions; those that a reader closed stay closed when it is drawn again. */
export class FunctionsList {
  private readonly closed = new Set<number>();

  constructor(private readonly events: FunctionsEvents) {}

  content(state: ProgramsState): Content {
    const { functions } = state.functions;
    if (functions.length === 0) {
      return el('p', { class: 'pl-panel-note' }, 'No jitted function was called yet.');
    }
    return functions.map(each => this.functionOf(each));
  }

  private functionOf(record: FunctionRecord): Content {
    const name = oneLine(record.name, 60);
    const place = record.source === null ? '' : `${oneLine(record.source.name, 40)}:${record.line}`;
    const details = el(
      'details',
      { class: 'pl-function', open: !this.closed.has(record.id) },
      el(
        'summary',
        {},
        el('strong', {}, name),
        el('span', { class: 'pl-muted' }, place),
        el('span', { class: 'pl-chip' }, counted(record.entries.length, 'program')),
      ),
      [...record.entries].reverse().map(entry => this.entryOf(name, entry)),
    );
    details.addEventListener('toggle', () => {
      if (details.open) {
        this.closed.delete(record.id);
      } else {
        this.closed.add(record.id);
      }
    });
    return details;
  }

  private entryOf(name: string, entry: FunctionEntryRecord): Content {
    const types = entry.arguments.map(each => oneLine(each, 60)).join(', ');
    const buttons = (Object.keys(VIEWS) as View[]).map(view => {
      const label = `Open ${VIEWS[view]} of ${name}(${types})`;
      const open = el(
        'button',
        { type: 'button', class: 'pl-link', 'aria-label': label },
        VIEWS[view],
      );
      open.addEventListener('click', () => this.events.onOpen(name, entry, view));
      return open;
    });
    return el(
      'div',
      { class: 'pl-entry' },
      el('code', {}, `(${types})`),
      el('div', { class: 'pl-muted' }, factsOf(entry)),
      entry.miss === null ? null : causes(entry.miss),
      el('div', { class: 'pl-entry-actions pl-views' }, buttons),
    );
  }
}

function factsOf(entry: FunctionEntryRecord): string {
  const { miss } = entry;
  const steps = { trace: 'traced', compile: 'compiled' } as Readonly<Record<string, string>>;
  return [
    counted(entry.equation_count, 'equation'),
    ...(miss?.phases ?? []).map(
      phase => `${steps[phase.name] ?? phase.name} in ${duration(phase.seconds)}`,
    ),
    entry.executable_count === 0 ? 'not compiled' : '',
    miss?.cell ? `called in ${oneLine(miss.cell, 30)}, line ${miss.line}` : '',
  ]
    .filter(Boolean)
    .join(' · ');
}

export const functionsStyle = `
.pl-entry-actions.pl-views { justify-content: flex-start; flex-wrap: wrap; gap: 4px; }
.pl-function { border-bottom: 1px solid var(--pl-line); }
.pl-function > summary { padding: 6px 12px; cursor: pointer; display: flex; flex-wrap: wrap; gap: 2px 8px; align-items: baseline; }
.pl-function > summary > strong { font: 600 12px var(--pl-code); overflow-wrap: anywhere; }
`;
