import type { IRenderMime } from '@jupyterlab/rendermime';
import { Widget } from '@lumino/widgets';

import { mount } from '../components';
import type { Mounted } from '../components';
import { programText } from './program_text';
import type { ProgramListing } from './program_text';

/** Height of a program in a cell output, in CSS pixels. */
const HEIGHT = 520;

/** A cell output that shows a record: the interactive view, and its text where the view fails. */
export class ProgramOutput extends Widget implements IRenderMime.IRenderer {
  private mounted: Mounted | null = null;
  private record: unknown = null;
  private text = '';

  constructor(private readonly mimeType: string) {
    super();
    this.addClass('pellucid-program');
  }

  renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    this.record = model.data[this.mimeType];
    const listing = this.record as ProgramListing | null | undefined;
    this.text = programText(listing, model.data['text/plain']);
    if (this.isAttached) {
      this.draw();
    }
    return Promise.resolve();
  }

  override dispose(): void {
    this.mounted?.dispose();
    this.mounted = null;
    super.dispose();
  }

  /** Colours come from the page's style, which an element has only once it is in the page. */
  protected override onAfterAttach(): void {
    this.draw();
  }

  private draw(): void {
    const place = document.createElement('div');
    place.style.height = `${HEIGHT}px`;
    this.mounted?.dispose();
    this.node.replaceChildren(place);
    this.mounted = mount(place, this.record, { makeWorker: makeLayoutWorker, text: this.text });
  }
}

function makeLayoutWorker(): Worker {
  return new Worker(new URL('../layout/worker.js', import.meta.url), { type: 'module' });
}
