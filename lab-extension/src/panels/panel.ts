/** What a panel is, and what all of them share: a place in the page, and words for when there is nothing to list. */

import { Disposables, el, type Content } from '../components/dom';
import { ProgressBlock, progressStyle } from '../components/progress';
import { tableStyle } from '../components/table';
import { termsStyle } from '../components/terms';
import { baseStyle, followTheme } from '../components/theme';
import type { ShardingRecord } from '../generated/introspect';
import type { ProgressRecord, Request, Shown, State } from '../generated/kernel';

/** The kernel's name of a panel, under which it asks for its state. */
export type PanelName = State['panel'];
type StateOf<Name extends PanelName> = Extract<State, { readonly panel: Name }>;
type WithoutNumber<R> = R extends { readonly request: number } ? Omit<R, 'request'> : never;
/** A request that is answered, as its sender writes it; the line to the kernel adds the number. */
export type Asked = WithoutNumber<Request>;

/** What a panel can do beyond drawing. */
export interface PanelHost {
  /** Asks the kernel; what it answers to show, if anything. */
  readonly ask: (request: Asked) => Promise<Shown | null>;
  /** Opens a record in a tab of its own. */
  readonly open: (record: Shown | ShardingRecord | null, title: string) => Promise<unknown>;
  /** Runs an action of the user; tells when it fails. */
  readonly run: (action: () => Promise<unknown>) => void;
}

/** One panel of the side bar. */
export interface Panel<Name extends PanelName = PanelName> {
  readonly name: Name;
  readonly label: string;
  /** A path within 16 by 16 units. */
  readonly icon: string;
  readonly style: string;
  /** What draws states of the kernel, from now on. */
  readonly create: (host: PanelHost) => (state: State) => Content;
}

/** A panel from what draws its own kind of state. */
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

/** How a panel stands with the kernel of the notebook in front. */
export type Connection =
  | { readonly status: 'none' }
  | { readonly status: 'waiting' | 'absent' | 'gone'; readonly kernel: string }
  | {
      readonly status: 'ready';
      readonly kernel: string;
      /** The latest state of each panel that asked. */
      readonly states: ReadonlyMap<string, State>;
      /** What has been compiled for a while. */
      readonly busy: ProgressRecord | null;
    };

/** Draws `connection` into `place` again and again; gives what to call for that, and the end. */
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

/** Where a control is that another drawing of the same content has too; null for what is none of them. */
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

/** What a control is called in every drawing: its label, or the name that its text begins with. */
function nameOfControl(control: Element): string {
  // A term that is explained holds its explanation behind its word.
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
