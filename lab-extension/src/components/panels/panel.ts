/** What panels share: a place of their own in the page, and words for when there is nothing to list. */

import type { StateRecord } from '../../generated/kernel';
import { Disposables, el, type Content } from '../dom';
import { arrayStyle } from '../sharding/array_view';
import { tableStyle } from '../table';
import { baseStyle, followTheme } from '../theme';

/** How a panel stands with the kernel of the notebook in front. */
export type Connection =
  | { readonly status: 'none' }
  | { readonly status: 'waiting' | 'absent' | 'gone'; readonly kernel: string }
  | { readonly status: 'ready'; readonly kernel: string; readonly state: StateRecord };

/** Draws `connection` into `host` again and again; gives what to call for that, and the end. */
export function panelIn(
  host: HTMLElement,
  label: string,
  content: (state: StateRecord) => Content,
): { show: (connection: Connection) => void; dispose: () => void } {
  const shadow = host.shadowRoot ?? host.attachShadow({ mode: 'open' });
  const style = document.createElement('style');
  style.textContent = [baseStyle, arrayStyle, tableStyle, panelStyle].join('\n');
  const root = el('div', { class: 'pl-root pl-panel', role: 'region', 'aria-label': label });
  shadow.replaceChildren(style, root);
  const disposables = new Disposables();
  followTheme(root, disposables, () => undefined);
  return {
    show: connection => {
      const scrolled = root.scrollTop;
      root.replaceChildren(
        ...(connection.status === 'ready'
          ? [el('div', {}, content(connection.state))]
          : [el('p', { class: 'pl-panel-note' }, noteOf(connection))]),
      );
      root.scrollTop = scrolled;
    },
    dispose: () => disposables.dispose(),
  };
}

function noteOf(connection: Exclude<Connection, { status: 'ready' }>): string {
  switch (connection.status) {
    case 'none':
      return 'Open a notebook to see what its kernel has compiled and holds.';
    case 'waiting':
      return `${connection.kernel} has not used pellucid yet. A cell with “import pellucid” starts it.`;
    case 'absent':
      return `${connection.kernel} does not know pellucid. Run “%load_ext pellucid_kernel” in it, or choose the kernel “Pellucid”.`;
    case 'gone':
      return `${connection.kernel} has ended. Start it again to go on.`;
  }
}

const panelStyle = `
:host { height: 100%; }
.pl-panel { height: 100%; overflow: auto; }
.pl-panel-note { margin: 14px 12px; color: var(--pl-muted); }
.pl-panel h3 { margin: 0; padding: 10px 12px 4px; font-size: 12px; font-weight: 600; color: var(--pl-muted); }
.pl-panel .pl-table th, .pl-panel .pl-table td { padding: 4px 8px 4px 12px; }
.pl-function { border-bottom: 1px solid var(--pl-line); }
.pl-function > summary { padding: 6px 12px; cursor: pointer; display: flex; flex-wrap: wrap; gap: 2px 8px; align-items: baseline; }
.pl-function > summary > strong { font: 600 12px var(--pl-code); overflow-wrap: anywhere; }
.pl-entry { margin: 0 12px 8px 20px; padding: 6px 8px; border: 1px solid var(--pl-line); border-radius: 6px; font-size: 12px; }
.pl-entry code { font: 12px var(--pl-code); overflow-wrap: anywhere; }
.pl-entry-actions { display: flex; gap: 8px; align-items: baseline; justify-content: space-between; margin-top: 4px; }
.pl-panel-error { margin: 8px 12px; color: var(--pl-removed); }
`;
