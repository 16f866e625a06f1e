import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { MainAreaWidget } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';

import type { Mounted } from '../components';
import { mountRecord, OPEN_COMMAND } from './shown_records';
import { viewSettings } from './view_settings';

/** A view in a tab of the main area. */
class RecordTab extends Widget {
  private mounted: Mounted | null = null;

  constructor(private readonly draw: (place: HTMLElement) => Mounted) {
    super();
    this.addClass('pellucid-tab');
  }

  override dispose(): void {
    this.mounted?.dispose();
    this.mounted = null;
    super.dispose();
  }

  protected override onAfterAttach(): void {
    const place = document.createElement('div');
    place.style.height = '100%';
    this.mounted?.dispose();
    this.node.replaceChildren(place);
    this.mounted = this.draw(place);
  }
}

let lastTab = 0;

/** Opens any view in a tab of its own. */
export const explorer: JupyterFrontEndPlugin<void> = {
  id: '@pellucid/lab:explorer',
  description: 'Opens programs and other views in tabs of the main area.',
  autoStart: true,
  activate: (app: JupyterFrontEnd) => {
    app.commands.addCommand(OPEN_COMMAND, {
      label: 'Open View in a Tab',
      describedBy: { args: { type: 'object' } },
      execute: args => {
        const record = args['record'] as { name?: unknown; kind?: unknown } | null;
        const text = String(args['text'] ?? '');
        const content = new RecordTab(place => mountRecord(place, record, text, app.commands));
        const tab = new MainAreaWidget({ content });
        const name = record?.name ?? record?.kind ?? 'view';
        tab.id = `pellucid-tab-${++lastTab}`;
        tab.title.label = String(name).slice(0, 40);
        tab.title.closable = true;
        app.shell.add(tab, 'main', { mode: viewSettings().openIn });
        if (!tab.isAttached) {
          // Notebook 7 has one main widget.
          app.shell.add(tab, 'right');
        }
        app.shell.activateById(tab.id);
      },
    });
  },
};
