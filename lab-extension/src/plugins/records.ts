import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';

import { VIEW_KINDS } from '../generated/views';
import { RecordOutput } from './record_output';

/** Displays records in cell outputs, with or without a kernel. */
export const records: JupyterFrontEndPlugin<void> = {
  id: '@pellucid/lab:records',
  description: 'Shows programs, executables, shardings, memory and errors in cell outputs.',
  autoStart: true,
  requires: [IRenderMimeRegistry],
  activate: (app: JupyterFrontEnd, rendermime: IRenderMimeRegistry) => {
    rendermime.addFactory(
      {
        safe: true,
        mimeTypes: VIEW_KINDS.map(
          kind => `application/vnd.pellucid.${kind.replaceAll('_', '-')}.v1+json`,
        ),
        createRenderer: options => new RecordOutput(options.mimeType, app.commands),
      },
      0,
    );
  },
};
