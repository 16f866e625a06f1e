import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import type { LabIcon } from '@jupyterlab/ui-components';
import { Widget } from '@lumino/widgets';

import { SessionClient } from '../client/session';
import { devicesContent } from '../components/panels/devices_panel';
import { FunctionsPanel } from '../components/panels/functions_panel';
import { panelIn, type Connection } from '../components/panels/panel';
import type { StateRecord } from '../generated/kernel';
import type { Content } from '../components/dom';
import { devicesIcon, programsIcon } from './icons';
import { OPEN_COMMAND } from './shown_records';

/** A side bar panel that draws the session of the notebook in front. */
class SidePanel extends Widget {
  private readonly drawing: ReturnType<typeof panelIn>;
  private connection: Connection = { status: 'none' };

  constructor(
    id: string,
    label: string,
    icon: LabIcon,
    content: (state: StateRecord) => Content,
    onInterrupt: () => void,
  ) {
    super();
    this.id = id;
    this.addClass('pellucid-panel');
    this.title.icon = icon;
    this.title.caption = label;
    this.node.setAttribute('aria-label', label);
    this.drawing = panelIn(this.node, label, content, onInterrupt);
  }

  show_(connection: Connection): void {
    this.connection = connection;
    if (this.isVisible) {
      this.drawing.show(connection);
    }
  }

  /** A panel that is out of sight is drawn when it comes into sight. */
  protected override onAfterShow(): void {
    this.drawing.show(this.connection);
  }

  protected override onAfterAttach(): void {
    this.drawing.show(this.connection);
  }
}

/** Which session the panels show: that of the notebook in front. Each kernel has one client. */
class Sessions {
  private readonly clients = new Map<string, SessionClient>();
  private shown: SessionClient | null = null;
  private notebook: NotebookPanel | null = null;

  constructor(private readonly draw: (connection: Connection) => void) {}

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
    this.shown = null;
    if (kernel !== null && context !== undefined) {
      let client = this.clients.get(kernel.clientId);
      if (client === undefined) {
        client = new SessionClient(kernel, context.kernelDisplayName);
        this.clients.set(kernel.clientId, client);
        kernel.disposed.connect(() => this.clients.delete(kernel.clientId));
      }
      this.shown = client;
      client.changed.connect(this.changed, this);
    }
    this.draw(this.shown?.connection ?? { status: 'none' });
  }

  private changed(_: SessionClient, connection: Connection): void {
    this.draw(connection);
  }
}

/** The side bar's panels "Programs" and "Devices and mesh". */
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
    const open = (record: unknown, text: string): Promise<unknown> =>
      app.commands.execute(OPEN_COMMAND, { record: record as never, text });
    const interrupt = (): void => {
      sessions.client?.interrupt().catch(failed);
    };
    const functions = new FunctionsPanel({
      onOpen: (name, entry) => {
        sessions.client
          ?.ask({ kind: 'show_program', entry: entry.id })
          .then(record => open(record, name))
          .catch(failed);
      },
    });
    const programs = new SidePanel(
      'pellucid-programs',
      'Programs',
      programsIcon,
      state => functions.content(state),
      interrupt,
    );
    const devices = new SidePanel(
      'pellucid-devices',
      'Devices and mesh',
      devicesIcon,
      state =>
        devicesContent(state, {
          onFree: array => {
            sessions.client?.ask({ kind: 'free_array', array: array.id }).catch(failed);
          },
          onLetGo: () => {
            sessions.client?.ask({ kind: 'let_go' }).catch(failed);
          },
          onOpenMesh: mesh => {
            open(mesh, mesh.name).catch(failed);
          },
        }),
      interrupt,
    );
    const sessions: Sessions = new Sessions(connection => {
      programs.show_(connection);
      devices.show_(connection);
    });
    app.shell.add(programs, 'left', { rank: 600 });
    app.shell.add(devices, 'left', { rank: 610 });
    for (const [id, panel] of [
      ['pellucid:show-programs', programs],
      ['pellucid:show-devices', devices],
    ] as const) {
      app.commands.addCommand(id, {
        label: `Show ${panel.title.caption}`,
        describedBy: { args: null },
        execute: () => app.shell.activateById(panel.id),
      });
    }
    tracker.currentChanged.connect((_, notebook) => sessions.follow(notebook));
    sessions.follow(tracker.currentWidget);
  },
};
