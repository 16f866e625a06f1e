import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { MainAreaWidget } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';

import type { Mounted } from '../components';
import { mountRecord, OPEN_COMMAND } from './shown_records';
import { viewSettings } from './view_settings';

/** A tab of the main area with one view. */
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

  /**
   * Colours come from the page's style, so drawing waits until the tab is attached; moving a tab
   * keeps its view.
   */
  protected override onAfterAttach(): void {
    if (this.mounted === null) {
      const place = document.createElement('div');
      place.style.height = '100%';
      this.node.replaceChildren(place);
      this.mounted = this.draw(place);
    }
  }
}

/** Titles of views, by kind of record. */
const TITLES: Readonly<Record<string, string>> = {
  program: 'Program',
  function_sharding: 'Sharding',
  sharding: 'Sharding',
  compiled: 'Memory',
  lens: 'Lens',
  ladder: 'Ladder',
  diff: 'Diff',
};

/** Title of a tab: `Sharding · train_step`. */
function titleOf(record: { name?: unknown; kind?: unknown } | null): string {
  const kind = String(record?.kind ?? 'view');
  const view = TITLES[kind] ?? kind.replace(/_/g, ' ');
  return record?.name ? `${view} · ${String(record.name)}` : view;
}

let tabCount = 0;

/** Opens views in tabs of their own. */
export const explorer: JupyterFrontEndPlugin<void> = {
  id: '@pellucid/lab:explorer',
  description: 'Opens programs and other views in tabs of the main area.',
  autoStart: true,
  activate: (app: JupyterFrontEnd) => {
    let latest: Widget | null = null;
    app.commands.addCommand(OPEN_COMMAND, {
      label: 'Open View in a Tab',
      describedBy: { args: { type: 'object' } },
      execute: args => {
        const record = args['record'] as { name?: unknown; kind?: unknown } | null;
        const text = String(args['text'] ?? '');
        const content = new RecordTab(place => mountRecord(place, record, text, app.commands));
        const tab = new MainAreaWidget({ content });
        const title = args['title'] ?? titleOf(record);
        tab.id = `pellucid-tab-${++tabCount}`;
        tab.title.label = String(title).slice(0, 40);
        tab.title.caption = String(title);
        tab.title.closable = true;
        // Further tabs are added to the existing group.
        const isOpen = latest !== null && latest.isAttached;
        app.shell.add(
          tab,
          'main',
          isOpen && latest !== null
            ? { mode: 'tab-after', ref: latest.id }
            : { mode: viewSettings().openIn },
        );
        latest = tab;
        if (!tab.isAttached) {
          // Notebook 7 has only one main widget.
          app.shell.add(tab, 'right');
        }
        app.shell.activateById(tab.id);
      },
    });
  },
};
