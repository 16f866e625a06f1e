/** Notice shown in place of a view that can't be drawn. */

import { el } from './dom';
import { oneLine } from './format';

/** A notice with the error message, shown in place of the failed view. */
export function failureNotice(what: string, error: unknown): HTMLElement {
  const message = error instanceof Error ? error.message : String(error);
  const details = error instanceof Error && error.stack !== undefined ? error.stack : message;
  return el(
    'div',
    { class: 'pl-failure', role: 'alert' },
    el('strong', {}, `${what} can’t be shown: ${oneLine(message, 300)}.`),
    el('details', {}, el('summary', {}, 'Details'), el('pre', {}, details.slice(0, 4000))),
  );
}

export const failureStyle = `
.pl-failure { margin: 0; padding: 10px 14px; border-left: 3px solid var(--pl-removed, #c2303b); background: var(--pl-removed-soft, #fde5e6); color: var(--pl-text, #1c2733); font: 13px/1.5 var(--pl-font, system-ui, sans-serif); overflow-wrap: anywhere; }
.pl-failure pre { white-space: pre-wrap; font-size: 11px; margin: 6px 0 0; }
.pl-failure summary { cursor: pointer; }
`;
