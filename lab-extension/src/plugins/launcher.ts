import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { InputDialog } from '@jupyterlab/apputils';
import { ILauncher } from '@jupyterlab/launcher';
import { NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';

import { programsIcon } from './icons';

const COMMAND = 'pellucid:new-notebook';

/** Launcher item: a notebook whose kernel has another number of virtual devices. */
export const launcher: JupyterFrontEndPlugin<void> = {
  id: '@pellucid/lab:launcher',
  description: 'Starts notebooks with a chosen number of virtual devices.',
  autoStart: true,
  optional: [ILauncher],
  activate: (app: JupyterFrontEnd, place: ILauncher | null) => {
    app.commands.addCommand(COMMAND, {
      label: 'Pellucid, N devices…',
      caption: 'A notebook with a number of virtual devices that you choose',
      icon: programsIcon,
      describedBy: {
        args: {
          type: 'object',
          properties: { cwd: { type: 'string' }, devices: { type: 'integer', minimum: 1 } },
        },
      },
      execute: async args => {
        const devices = Number(args['devices'] ?? (await askForDevices()));
        if (!(devices >= 1)) {
          return;
        }
        const notebook = (await app.commands.execute('notebook:create-new', {
          cwd: args['cwd'],
          kernelName: 'pellucid',
        })) as NotebookPanel;
        await notebook.context.ready;
        await notebook.sessionContext.ready;
        // Set by a cell, so that it is visible and applies wherever the notebook runs.
        const { content } = notebook;
        content.model?.sharedModel.insertCell(0, {
          cell_type: 'code',
          source: `%pellucid devices ${Math.floor(devices)}`,
        });
        content.activeCellIndex = 0;
        await NotebookActions.runAndAdvance(content, notebook.sessionContext);
      },
    });
    place?.add({ command: COMMAND, category: 'Notebook', rank: 100 });
  },
};

/** Asks for the number of devices; NaN if the user cancels. */
async function askForDevices(): Promise<number> {
  const answer = await InputDialog.getNumber({
    title: 'New notebook',
    label: 'Number of virtual devices',
    value: 16,
    okLabel: 'Create',
  });
  return answer.value ?? NaN;
}
