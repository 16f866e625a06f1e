import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';

import { RecordOutput } from './record_output';

const KINDS = [
  'array-values',
  'compiled',
  'diff',
  'divergence',
  'error',
  'finding',
  'function',
  'function-sharding',
  'gradient',
  'ladder',
  'lens',
  'memory',
  'miss',
  'misses',
  'profile',
  'profile-comparison',
  'program',
  'recording',
  'sharding',
  'what-if',
];

/** Shows records in cell outputs, with or without a kernel. */
export const records: JupyterFrontEndPlugin<void> = {
  id: '@pellucid/lab:records',
  description: 'Shows programs, executables, shardings, memory and errors in cell outputs.',
  autoStart: true,
  requires: [IRenderMimeRegistry],
  activate: (app: JupyterFrontEnd, rendermime: IRenderMimeRegistry) => {
    rendermime.addFactory(
      {
        safe: true,
        mimeTypes: KINDS.map(kind => `application/vnd.pellucid.${kind}.v1+json`),
        createRenderer: options => new RecordOutput(options.mimeType, app.commands),
      },
      0,
    );
  },
};
