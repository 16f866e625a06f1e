/**
 * Definition of panels, with their common parts: container, connection state, notes for empty
 * lists.
 */

import { Disposables, el, type Content } from '../components/dom';
import { ProgressBlock, progressStyle } from '../components/progress';
import { tableStyle } from '../components/table';
import { termsStyle } from '../components/terms';
import { baseStyle, followTheme } from '../components/theme';
import type { ShardingRecord } from '../generated/introspect';
import type { ProgressRecord, Request, Shown, State } from '../generated/kernel';

/** Name by which the kernel identifies a panel. */
export type PanelName = State['panel'];
type StateOf<Name extends PanelName> = Extract<State, { readonly panel: Name }>;
type WithoutNumber<R> = R extends { readonly request: number } ? Omit<R, 'request'> : never;
/** A request that expects an answer, without its number, which the session client adds. */
export type Asked = WithoutNumber<Request>;

/** Services of the page for panels. */
export interface PanelHost {
  /** Sends a request to the kernel; resolves to the record to show, if the answer contains one. */
  readonly ask: (request: Asked) => Promise<Shown | null>;
  /** Opens a record in a new tab. */
  readonly open: (record: Shown | ShardingRecord | null, title: string) => Promise<unknown>;
  /** Runs a user action, and reports its failure. */
  readonly run: (action: () => Promise<unknown>) => void;
}

/** One panel of the side bar. */
export interface Panel<Name extends PanelName = PanelName> {
  readonly name: Name;
  readonly label: string;
  /** SVG path within 16 by 16 units. */
  readonly icon: string;
  readonly style: string;
  /** Creates the function that draws states of the kernel. */
  readonly create: (host: PanelHost) => (state: State) => Content;
}

/** Defines a panel by a function that draws its own type of state. */
export function definePanel<Name extends PanelName>(
  panel: Omit<Panel<Name>, 'create'> & {
    readonly create: (host: PanelHost) => (state: StateOf<Name>) => Content;
  },
): Panel<Name> {
  return {
    ...panel,
    create: host => {
      const draw = panel.create(host);
      return state => draw(state as StateOf<Name>);
    },
  };
}

/** State of the connection to the kernel of the active notebook. */
export type Connection =
  | { readonly status: 'none' }
  | { readonly status: 'waiting' | 'absent' | 'gone'; readonly kernel: string }
  | {
      readonly status: 'ready';
      readonly kernel: string;
      /** The latest state of each panel that requested it. */
      readonly states: ReadonlyMap<string, State>;
      /** The compilation or wait that is running for a while, if any. */
      readonly busy: ProgressRecord | null;
    };

/**
 * Draws a panel into `place`. Returns functions to redraw it for a connection, and to dispose of
 * it.
 */
export function panelIn(
  place: HTMLElement,
  panel: Panel,
  host: PanelHost,
  onInterrupt: () => void = () => undefined,
): { show: (connection: Connection) => void; dispose: () => void } {
  const shadow = place.shadowRoot ?? place.attachShadow({ mode: 'open' });
  const style = document.createElement('style');
  style.textContent = [
    baseStyle,
    tableStyle,
    termsStyle,
    progressStyle,
    panelStyle,
    panel.style,
  ].join('\n');
  const root = el('div', { class: 'pl-root pl-panel', role: 'region', 'aria-label': panel.label });
  const body = el('div', {});
  const draw = panel.create(host);
  const progress = new ProgressBlock(onInterrupt);
  root.append(progress.element, body);
  shadow.replaceChildren(style, root);
  const disposables = new Disposables();
  disposables.add(() => progress.dispose());
  let shown: unknown = null;
  let busy: ProgressRecord | null = null;
  followTheme(root, disposables, () => undefined);
  return {
    show: connection => {
      const isReady = connection.status === 'ready';
      const now = isReady ? connection.busy : null;
      if (now !== busy) {
        busy = now;
        progress.show(busy);
      }
      const state = isReady ? connection.states.get(panel.name) : undefined;
      const next = state ?? noteOf(connection);
      if (next !== shown) {
        shown = next;
        const scrolled = root.scrollTop;
        const content = typeof next === 'string' ? noteLine(next) : el('div', {}, draw(next));
        const focused = shadow.activeElement && placeAmongControls(body, shadow.activeElement);
        body.replaceChildren(content);
        root.scrollTop = scrolled;
        if (focused) {
          controlsNamed(body, focused.name)[focused.index]?.focus({ preventScroll: true });
        }
      }
    },
    dispose: () => disposables.dispose(),
  };
}

function noteLine(text: string): HTMLElement {
  return el('p', { class: 'pl-panel-note' }, text);
}

/** Identifies a control across redraws; null for an element that isn't a control. */
function placeAmongControls(
  body: HTMLElement,
  control: Element,
): { readonly name: string; readonly index: number } | null {
  const name = nameOfControl(control);
  const index = controlsNamed(body, name).findIndex(each => each === control);
  return index < 0 ? null : { name, index };
}

function controlsNamed(body: HTMLElement, name: string): HTMLElement[] {
  const controls = body.querySelectorAll<HTMLElement>(
    'button, summary, input, select, a, .pl-term',
  );
  return [...controls].filter(each => nameOfControl(each) === name);
}

/** Name of a control that is the same in every drawing: its label, or the beginning of its text. */
function nameOfControl(control: Element): string {
  // An explained term contains its explanation after the word.
  const named = control.matches('.pl-term') ? control.firstChild : control.firstElementChild;
  return control.getAttribute('aria-label') ?? (named ?? control).textContent ?? '';
}

function noteOf(connection: Connection): string {
  switch (connection.status) {
    case 'none':
      return 'Open a notebook to see what its kernel has compiled and holds.';
    case 'waiting':
      return 'Nothing to show yet: run a cell with “import pellucid”.';
    case 'absent':
      return `This kernel (${connection.kernel}) does not know pellucid. Run “%load_ext pellucid_kernel” in it, or choose the kernel “Pellucid”.`;
    case 'ready':
      return 'Waiting for the kernel, which runs a cell.';
    case 'gone':
      return 'The kernel has ended. Start it again to go on.';
  }
}

const panelStyle = `
:host { height: 100%; }
.pl-panel { height: 100%; overflow: auto; }
.pl-panel > .pl-progress { position: sticky; top: 0; border-radius: 0; }
.pl-panel-note { margin: 14px 12px; color: var(--pl-muted); }
.pl-panel h3 { margin: 0; padding: 10px 12px 4px; font-size: 12px; font-weight: 600; color: var(--pl-muted); }
.pl-panel .pl-table th, .pl-panel .pl-table td { padding: 4px 8px 4px 12px; }
`;
