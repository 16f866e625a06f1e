import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import { Widget } from '@lumino/widgets';

import { SessionClient } from '../client/session';
import { PANELS } from '../panels';
import { panelIn, type Asked, type Connection, type Panel, type PanelHost } from '../panels/panel';
import { CellProgress } from './cell_progress';
import { lineIcon } from './icons';
import { ASK_COMMAND, OPEN_COMMAND } from './shown_records';

/** Places of the panels in JupyterLab's left sidebar: that of the first, and the distance to the next. */
const FIRST_RANK = 600;
const RANK_STEP = 10;

/** Side bar panel that displays the session of the active notebook while it is visible. */
class SidePanel extends Widget {
  private readonly drawing: ReturnType<typeof panelIn>;
  private connection: Connection = { status: 'none' };

  constructor(
    readonly panel: Panel,
    host: PanelHost,
    onInterrupt: () => void,
    private readonly onSight: () => void,
  ) {
    super();
    this.id = `pellucid-${panel.name}`;
    this.addClass('pellucid-panel');
    this.title.icon = lineIcon(panel.name, panel.icon);
    this.title.caption = panel.label;
    this.node.setAttribute('aria-label', panel.label);
    this.drawing = panelIn(this.node, panel, host, onInterrupt);
  }

  show_(connection: Connection): void {
    this.connection = connection;
    if (this.isVisible) {
      this.drawing.show(connection);
    }
  }

  protected override onAfterShow(): void {
    this.drawing.show(this.connection);
    this.onSight();
  }

  protected override onAfterHide(): void {
    this.onSight();
  }

  protected override onAfterAttach(): void {
    this.drawing.show(this.connection);
    this.onSight();
  }
}

/** Session clients, one per kernel; panels display that of the active notebook. */
class Sessions {
  private readonly clients = new Map<string, SessionClient>();
  private shown: SessionClient | null = null;
  private notebook: NotebookPanel | null = null;
  private followed: readonly string[] = [];

  /**
   * `onClient` is called with each new client, and returns a function to call when its kernel is
   * gone.
   */
  constructor(
    private readonly draw: (connection: Connection) => void,
    private readonly onClient: (client: SessionClient) => () => void,
  ) {}

  /** Sets the visible panels, whose states are requested. */
  show(panels: readonly string[]): void {
    this.followed = panels;
    this.shown?.follow(panels);
  }

  follow(notebook: NotebookPanel | null): void {
    this.notebook?.sessionContext.kernelChanged.disconnect(this.kernelChanged, this);
    this.notebook = notebook;
    notebook?.sessionContext.kernelChanged.connect(this.kernelChanged, this);
    this.kernelChanged();
  }

  get client(): SessionClient | null {
    return this.shown;
  }

  private kernelChanged(): void {
    const context = this.notebook?.sessionContext;
    const kernel = context?.session?.kernel ?? null;
    this.shown?.changed.disconnect(this.changed, this);
    this.shown?.follow([]);
    this.shown = null;
    if (kernel !== null && context !== undefined) {
      let client = this.clients.get(kernel.clientId);
      if (client === undefined) {
        client = new SessionClient(kernel, context.kernelDisplayName);
        this.clients.set(kernel.clientId, client);
        const forget = this.onClient(client);
        kernel.disposed.connect(() => {
          this.clients.delete(kernel.clientId);
          forget();
        });
      }
      this.shown = client;
      client.changed.connect(this.changed, this);
      client.follow(this.followed);
    }
    this.draw(this.shown?.connection ?? { status: 'none' });
  }

  private changed(_: SessionClient, connection: Connection): void {
    this.draw(connection);
  }
}

/** The panels of the side bar. */
export const panels: JupyterFrontEndPlugin<void> = {
  id: '@pellucid/lab:panels',
  description: 'Panels with jitted functions, devices and live arrays.',
  autoStart: true,
  requires: [INotebookTracker],
  activate: (app: JupyterFrontEnd, tracker: INotebookTracker) => {
    const failed = (error: unknown): void => {
      Notification.error(error instanceof Error ? error.message : String(error), {
        autoClose: 5000,
      });
    };
    const sessions = new Sessions(
      connection => widgets.forEach(each => each.show_(connection)),
      client => {
        const progress = new CellProgress(tracker, () => void client.interrupt().catch(failed));
        client.changed.connect((_, connection) => progress.show(connection));
        return () => progress.dispose();
      },
    );
    const host: PanelHost = {
      ask: request =>
        sessions.client?.ask(request) ?? Promise.reject(new Error('no notebook is in front')),
      open: (record, title) =>
        app.commands.execute(OPEN_COMMAND, { record: record as never, title }),
      run: action => {
        action().catch(failed);
      },
    };
    const interrupt = (): void => {
      sessions.client?.interrupt().catch(failed);
    };
    const widgets: readonly SidePanel[] = PANELS.map(
      panel =>
        new SidePanel(panel, host, interrupt, () => {
          sessions.show(widgets.filter(each => each.isVisible).map(each => each.panel.name));
        }),
    );
    widgets.forEach((widget, place) => {
      app.shell.add(widget, 'left', { rank: FIRST_RANK + RANK_STEP * place });
      app.commands.addCommand(`pellucid:show-${widget.panel.name}`, {
        label: `Show ${widget.panel.label}`,
        describedBy: { args: null },
        execute: () => app.shell.activateById(widget.id),
      });
    });
    app.commands.addCommand(ASK_COMMAND, {
      label: 'Ask the Kernel of the Notebook in Front',
      describedBy: { args: { type: 'object' } },
      execute: args => host.ask(args['request'] as unknown as Asked),
    });
    tracker.currentChanged.connect((_, notebook) => sessions.follow(notebook));
    sessions.follow(tracker.currentWidget);
  },
};
