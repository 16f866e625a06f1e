import type { IRenderMime } from '@jupyterlab/rendermime';
import { Widget } from '@lumino/widgets';

import { programText } from './program_text';
import type { ProgramListing } from './program_text';

/** A cell output that shows a program. */
export class ProgramOutput extends Widget implements IRenderMime.IRenderer {
  constructor(private readonly mimeType: string) {
    super();
    this.addClass('pellucid-program');
  }

  renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const text = document.createElement('pre');
    const record = model.data[this.mimeType] as ProgramListing | null | undefined;
    text.textContent = programText(record, model.data['text/plain']);
    this.node.replaceChildren(text);
    return Promise.resolve();
  }
}
