import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { MainAreaWidget, showErrorMessage } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';

import type { PerfettoRecord } from '../generated/profiler';
import { ASK_COMMAND, PERFETTO_COMMAND } from './shown_records';

/** Interval between checks whether Perfetto's page is ready for a trace. */
const PING_INTERVAL_MILLISECONDS = 200;
/** Time limit for Perfetto's page, a few megabytes, to load. */
const READY_TIMEOUT_MILLISECONDS = 60_000;

/** Perfetto's page in a frame. The trace is passed by a message, so nothing leaves the browser. */
class PerfettoTab extends Widget {
  private timer = 0;
  private readonly frame = document.createElement('iframe');
  private readonly onMessage = (event: MessageEvent): void => this.answered(event);

  constructor(
    private readonly record: PerfettoRecord,
    baseUrl: string,
  ) {
    super();
    this.addClass('pellucid-perfetto');
    this.frame.title = 'Perfetto';
    this.frame.style.cssText = 'width: 100%; height: 100%; border: 0;';
    const page = new URL(`lab/extensions/${record.page}`, baseUrl).href;
    this.frame.src = `${page}#!/viewer?mode=embedded`;
    this.node.append(this.frame);
    window.addEventListener('message', this.onMessage);
    const end = Date.now() + READY_TIMEOUT_MILLISECONDS;
    this.timer = window.setInterval(() => {
      if (Date.now() > end) {
        this.stop();
        void showErrorMessage('Perfetto', `Its page doesn't answer: ${page}`);
        return;
      }
      this.frame.contentWindow?.postMessage('PING', window.location.origin);
    }, PING_INTERVAL_MILLISECONDS);
  }

  override dispose(): void {
    this.stop();
    super.dispose();
  }

  private stop(): void {
    window.clearInterval(this.timer);
    window.removeEventListener('message', this.onMessage);
  }

  private answered(event: MessageEvent): void {
    if (event.data !== 'PONG' || event.source !== this.frame.contentWindow) {
      return;
    }
    this.stop();
    const bytes = Uint8Array.from(atob(this.record.trace), letter => letter.charCodeAt(0));
    const perfetto = { buffer: bytes.buffer, title: 'pellucid session', keepApiOpen: true };
    this.frame.contentWindow!.postMessage({ perfetto }, window.location.origin, [bytes.buffer]);
  }
}

let tabCount = 0;

/** Opens profiled sessions in the Perfetto UI, served from the Jupyter server's machine. */
export const perfetto: JupyterFrontEndPlugin<void> = {
  id: '@pellucid/lab:perfetto',
  description: 'Opens profiled sessions in the user interface of Perfetto.',
  autoStart: true,
  activate: (app: JupyterFrontEnd) => {
    app.commands.addCommand(PERFETTO_COMMAND, {
      label: 'Open Session in Perfetto',
      describedBy: { args: { type: 'object' } },
      execute: async args => {
        const request = { kind: 'show_perfetto', session: Number(args['session']) };
        let record: PerfettoRecord;
        try {
          record = (await app.commands.execute(ASK_COMMAND, { request })) as PerfettoRecord;
        } catch (error) {
          await showErrorMessage(
            'Perfetto',
            error instanceof Error ? error.message : String(error),
          );
          return;
        }
        const tab = new MainAreaWidget({
          content: new PerfettoTab(record, app.serviceManager.serverSettings.baseUrl),
        });
        tab.id = `pellucid-perfetto-${++tabCount}`;
        tab.title.label = 'Perfetto';
        tab.title.closable = true;
        app.shell.add(tab, 'main', { mode: 'split-right' });
      },
    });
  },
};
