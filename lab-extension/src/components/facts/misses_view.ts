/** Cache misses: why functions were traced and compiled. */

import type { MissCauseRecord, MissRecord } from '../../generated/introspect';
import { el, type Content } from '../dom';
import { counted, oneLine, quantity } from '../format';
import { tableOf } from '../table';
import { withTerms } from '../terms';
import { FactsView } from './facts_view';

/** View of cache misses, newest first; `records` is sorted oldest first. */
export function missesView(records: readonly MissRecord[]): FactsView {
  const seconds = records.reduce((sum, miss) => sum + miss.seconds, 0);
  const rows = [...records]
    .reverse()
    .map(miss => [
      [el('code', {}, oneLine(miss.function, 60)), calledIn(miss)],
      duration(miss.seconds),
      causes(miss),
    ]);
  return new FactsView(
    'Why it compiled',
    [counted(records.length, 'program'), duration(seconds)],
    rows.length === 0
      ? el('p', { class: 'pl-muted' }, 'No jitted function was traced or compiled yet.')
      : tableOf(
          'Misses',
          [{ name: 'Function' }, { name: 'Took', isNumber: true }, { name: 'Because' }],
          rows,
        ),
  );
}

/** Note about the functions that a cell recompiled, one line each with the reason. */
export function recompilationNote(records: readonly MissRecord[]): FactsView {
  const lines = records.map(miss => {
    const times = miss.count > 1 ? ` ${miss.count} times, the last time because` : ':';
    return el(
      'div',
      { class: 'pl-recompiled' },
      el('code', {}, oneLine(miss.function, 60)),
      ` compiled again${times} `,
      miss.causes.map(cause => el('span', { class: 'pl-recompiled-cause' }, causeText(cause))),
      el('span', { class: 'pl-muted' }, duration(miss.seconds)),
    );
  });
  return new FactsView(null, [], lines);
}

/** A duration as text, in seconds from one second on, else in smaller units. */
export function duration(seconds: number): string {
  return seconds >= 1 ? `${seconds.toPrecision(3)} s` : quantity(seconds * 1e6, 'us');
}

function calledIn(miss: MissRecord): Content {
  const place = miss.cell ?? miss.source?.name ?? null;
  return place === null
    ? null
    : el('div', { class: 'pl-muted' }, `in ${oneLine(place, 60)}, line ${miss.line}`);
}

/** The differences from earlier calls that caused a miss, one line each. */
export function causes(miss: MissRecord): Content {
  return miss.causes.map(cause => el('div', {}, causeText(cause)));
}

function causeText(cause: MissCauseRecord): Content {
  if (cause.part === 'first_call') {
    return 'first call';
  }
  if (cause.part === 'function') {
    return oneLine(cause.after, 200);
  }
  return [
    el('code', {}, oneLine(cause.path, 60)),
    ' was ',
    el('code', {}, withTerms(oneLine(cause.before, 80))),
    ', is ',
    el('code', {}, withTerms(oneLine(cause.after, 80))),
    cause.advice === '' ? null : el('div', { class: 'pl-muted' }, oneLine(cause.advice, 200)),
  ];
}

export const recompilationStyle = `
.pl-recompiled { padding: 6px 12px; border-left: 3px solid var(--pl-amber); }
.pl-recompiled-cause { margin-right: 8px; }
.pl-recompiled-cause > div { display: inline; margin-left: 6px; }
.pl-recompiled code { font: 12px var(--pl-code); overflow-wrap: anywhere; }
`;
