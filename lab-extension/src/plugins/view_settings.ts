import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ISettingRegistry } from '@jupyterlab/settingregistry';

/** Where JupyterLab puts a view that is opened from an output or a panel. */
export type OpenIn = 'split-right' | 'split-bottom' | 'tab-after';

/** What a user can set; the schema `views.json` says what each means. */
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

/** The settings now; views that are already shown keep those that they were made with. */
export function viewSettings(): ViewSettings {
  return current;
}

const ID = '@pellucid/lab:views';

/** Keeps `viewSettings` as the user's settings are. */
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
