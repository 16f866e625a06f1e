import type { IRenderMime } from '@jupyterlab/rendermime';
import type { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';

import { growing, type Mounted } from '../components';
import { storedRecord } from '../records/packing';
import { programText } from './program_text';
import type { ProgramListing } from './program_text';
import { mountRecord, OPEN_COMMAND, STOP_COMMAND } from './shown_records';
import { viewSettings } from './view_settings';

/** Metadata of an output, from the kernel. */
interface Standing {
  readonly stands_for_error?: boolean;
  /** Number of the error or figure, if a debugger can stop at its place. */
  readonly failure?: number;
}

/** Cell output that displays a record: the interactive view, or text if the view fails. */
export class RecordOutput extends Widget implements IRenderMime.IRenderer {
  private mounted: Mounted | null = null;
  private reading: Promise<unknown> | null = null;
  private record: unknown = null;
  private text = '';
  private standsForError = false;
  private failure: number | undefined;

  constructor(
    private readonly mimeType: string,
    private readonly commands: CommandRegistry,
  ) {
    super();
    this.addClass('pellucid-program');
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const reading = storedRecord(model.data[this.mimeType], model.data['text/html']);
    this.reading = reading;
    // An error is displayed in place of the view.
    const record = await reading.catch((error: unknown) => error);
    if (this.isDisposed || this.reading !== reading) {
      return;
    }
    this.record = record;
    const listing = this.record as ProgramListing | null | undefined;
    this.text = programText(listing, model.data['text/plain']);
    const standing = model.metadata['pellucid'] as Standing | undefined;
    this.standsForError = standing?.stands_for_error === true;
    this.failure = standing?.failure;
    if (this.isAttached) {
      this.draw();
    }
  }

  override dispose(): void {
    this.mounted?.dispose();
    this.mounted = null;
    super.dispose();
  }

  /** Colours come from the page's style, which applies only once the element is attached. */
  protected override onAfterAttach(): void {
    if (this.record !== null) {
      this.draw();
    }
  }

  private draw(): void {
    const place = document.createElement('div');
    const most = viewSettings().outputHeight;
    place.style.height = `${most}px`;
    this.mounted?.dispose();
    this.node.replaceChildren(place);
    const grow = growing(place, most);
    this.mounted = mountRecord(place, this.record, this.text, this.commands, grow);
    const { failure } = this;
    const canStop = failure !== undefined && this.commands.hasCommand(STOP_COMMAND);
    if (!this.standsForError) {
      if (canStop) {
        this.node.append(this.button('Stop here', STOP_COMMAND, { failure }));
      }
      if ((this.record as { is_note?: boolean } | null)?.is_note !== true) {
        const open = { record: this.record, text: this.text };
        this.node.append(this.button('Open in a tab', OPEN_COMMAND, open));
      }
      return;
    }
    if (canStop) {
      this.node.append(this.button('Stop here', STOP_COMMAND, { failure }));
    }
    if (this.mounted.view() !== null) {
      // The style hides the plain message that follows. If the error can't be drawn, the message
      // stays visible.
      this.node.closest('.jp-OutputArea-child')?.classList.add('pellucid-drawn-error');
    }
  }

  private button(label: string, command: string, parameters: object): HTMLElement {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'pellucid-open';
    button.textContent = label;
    button.addEventListener('click', () => {
      void this.commands.execute(command, parameters as never);
    });
    return button;
  }
}
