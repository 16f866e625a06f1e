import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { IRenderMime } from '@jupyterlab/rendermime';

import { ProgramOutput } from './program_output';

export const PROGRAM_MIME_TYPE = 'application/vnd.pellucid.program.v1+json';

/** Shows programs in cell outputs, with or without a kernel. */
export const programs: JupyterFrontEndPlugin<void> = {
  id: '@pellucid/lab:programs',
  description: 'Shows programs in cell outputs.',
  autoStart: true,
  requires: [IRenderMimeRegistry],
  activate: (_app: JupyterFrontEnd, rendermime: IRenderMimeRegistry) => {
    const factory: IRenderMime.IRendererFactory = {
      safe: true,
      mimeTypes: [PROGRAM_MIME_TYPE],
      createRenderer: options => new ProgramOutput(options.mimeType),
    };
    rendermime.addFactory(factory, 0);
  },
};
