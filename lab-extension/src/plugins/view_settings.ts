import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ISettingRegistry } from '@jupyterlab/settingregistry';

/** Where JupyterLab opens a view from an output or a panel. */
export type OpenIn = 'split-right' | 'split-bottom' | 'tab-after';

/** User settings, described in the schema `views.json`. */
export interface ViewSettings {
  readonly openIn: OpenIn;
  readonly outputHeight: number;
  readonly colorBy: string;
}

let current: ViewSettings = {
  openIn: 'split-right',
  outputHeight: 520,
  colorBy: '',
};

/** The current settings. Existing views keep the settings they were created with. */
export function viewSettings(): ViewSettings {
  return current;
}

const ID = '@pellucid/lab:views';

/** Keeps `viewSettings` in sync with the user's settings. */
export const settings: JupyterFrontEndPlugin<void> = {
  id: ID,
  description: 'How views open and what they show first.',
  autoStart: true,
  optional: [ISettingRegistry],
  activate: async (_: JupyterFrontEnd, registry: ISettingRegistry | null) => {
    if (registry === null) {
      return;
    }
    const loaded = await registry.load(ID);
    const read = (): void => {
      current = { ...current, ...(loaded.composite as Partial<ViewSettings>) };
    };
    loaded.changed.connect(read);
    read();
  },
};
