/** Jitted functions with the entries of their caches and the reason for each. */

import type { FunctionEntryRecord, FunctionRecord } from '../../generated/introspect';
import type { ProgramRequest, ProgramsState } from '../../generated/kernel';
import { el, type Content } from '../dom';
import { counted, oneLine } from '../format';
import { sentenceOf, withTerms } from '../terms';
import { FactsView } from './facts_view';
import { causes, duration } from './misses_view';

export interface FunctionsEvents {
  readonly onOpen: (name: string, entry: FunctionEntryRecord, view: View) => void;
}

type View = ProgramRequest['view'];
/** Opens a view of an entry's program in a tab; rejects if the program no longer exists. */
export type OpenProgram = (entry: number, view: View, title: string) => Promise<void>;

/** Names of the views of a program. */
export const VIEWS: Readonly<Record<View, string>> = {
  jaxpr: 'Jaxpr',
  stablehlo: 'StableHLO',
  hlo: 'HLO',
  sharding: 'Sharding',
  memory: 'Memory',
};

/** Maximum number of arguments shown without expanding the list. */
const MAX_ARGUMENTS = 4;

/** List of functions. Functions that the user collapsed stay collapsed when it is redrawn. */
export class FunctionsList {
  private readonly closed = new Set<number>();

  constructor(private readonly events: FunctionsEvents) {}

  content(state: ProgramsState): Content {
    const { functions } = state.functions;
    if (functions.length === 0) {
      return el('p', { class: 'pl-panel-note' }, 'No jitted function was called yet.');
    }
    return [
      el('h3', {}, counted(functions.length, 'jitted function')),
      functions.map(each => this.functionOf(each)),
    ];
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
      [...record.entries].reverse().map(entry => entryOf(name, entry, this.events)),
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
}

function entryOf(
  name: string,
  entry: FunctionEntryRecord,
  events: FunctionsEvents | null,
): Content {
  const all = entry.arguments.map(each => oneLine(each, 60));
  const hidden = all.length - MAX_ARGUMENTS;
  const types = [
    ...all.slice(0, MAX_ARGUMENTS),
    ...(hidden > 0 ? [`and ${hidden} more`] : []),
  ].join(', ');
  const buttons = (events === null ? [] : (Object.keys(VIEWS) as View[])).map(view => {
    const label = `Open ${VIEWS[view]} of ${name}(${types})`;
    const open = el(
      'button',
      {
        type: 'button',
        class: 'pl-link',
        'aria-label': label,
        title: sentenceOf(VIEWS[view]),
      },
      VIEWS[view],
    );
    open.addEventListener('click', () => events!.onOpen(name, entry, view));
    return open;
  });
  return el(
    'div',
    { class: 'pl-entry' },
    argumentsOf(all, types),
    el('div', { class: 'pl-muted' }, withTerms(factsOf(entry))),
    entry.miss === null ? null : causes(entry.miss),
    el('div', { class: 'pl-entry-actions pl-views' }, buttons),
  );
}

/** Arguments with their names; long lists are collapsed. */
function argumentsOf(all: readonly string[], short: string): HTMLElement {
  if (all.length <= MAX_ARGUMENTS) {
    return el('code', {}, `(${short})`);
  }
  return el(
    'details',
    { class: 'pl-arguments' },
    el('summary', {}, el('code', {}, `(${short})`)),
    all.map(each => el('div', {}, el('code', {}, each))),
  );
}

function factsOf(entry: FunctionEntryRecord): string {
  const { miss } = entry;
  const steps: Readonly<Record<string, string>> = {
    trace: 'traced',
    lower: 'lowered',
    compile: 'compiled',
    load: 'loaded from disk',
    find: 'found compiled before',
  };
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

/** A jitted function: its signature, its programs, and links to views if a kernel is available. */
export function functionCard(record: FunctionRecord, open?: OpenProgram): FactsView {
  const name = oneLine(record.name, 60);
  const status = el('div', { class: 'pl-function-status', role: 'status' });
  const events: FunctionsEvents | null =
    open === undefined
      ? null
      : {
          onOpen: (_, entry, view) => {
            status.textContent = '';
            open(entry.id, view, `${VIEWS[view]} · ${name}`).catch((error: unknown) => {
              status.textContent = error instanceof Error ? error.message : String(error);
            });
          },
        };
  const place =
    record.source === null ? [] : [`${oneLine(record.source.name, 40)}, line ${record.line}`];
  return new FactsView(
    el('code', {}, `${name}${oneLine(record.signature, 200)}`),
    ['jitted', counted(record.entries.length, 'program'), ...place],
    status,
    record.entries.length === 0
      ? el(
          'p',
          { class: 'pl-function-status' },
          'Not called yet: it is traced and compiled at its first call.',
        )
      : [...record.entries].reverse().map(entry => entryOf(name, entry, events)),
  );
}

export const functionsStyle = `
.pl-arguments > div { padding-left: 12px; }
.pl-report > .pl-entry { margin: 8px 12px; }
.pl-function-status { margin: 8px 12px; color: var(--pl-muted); }
.pl-function-status:empty { display: none; }
.pl-entry-actions.pl-views { justify-content: flex-start; flex-wrap: wrap; gap: 4px; }
.pl-function { border-bottom: 1px solid var(--pl-line); }
.pl-function > summary { padding: 6px 12px; cursor: pointer; display: flex; flex-wrap: wrap; gap: 2px 8px; align-items: baseline; }
.pl-function > summary > strong { font: 600 12px var(--pl-code); overflow-wrap: anywhere; }
`;
