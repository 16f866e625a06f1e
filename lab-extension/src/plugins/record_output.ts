import type { IRenderMime } from '@jupyterlab/rendermime';
import type { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';

import { FunctionShardingView, mount, ProgramExplorer, type Mounted } from '../components';
import type { ProgramRecord } from '../generated/introspect';
import { makeLayoutWorker } from './layout_worker';
import { programText } from './program_text';
import type { ProgramListing } from './program_text';

/** Height of a view in a cell output, in CSS pixels, unless it is as high as its content. */
const HEIGHT = 520;

/** Commands with which a view tells the rest of the page what is pointed at, and opens in a tab. */
export const OPEN_COMMAND = 'pellucid:open-record';
export const POINT_COMMAND = 'pellucid:point-at-lines';

/** A cell output that shows a record: the interactive view, and its text where the view fails. */
export class RecordOutput extends Widget implements IRenderMime.IRenderer {
  private mounted: Mounted | null = null;
  private record: unknown = null;
  private text = '';

  constructor(
    private readonly mimeType: string,
    private readonly commands: CommandRegistry,
  ) {
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
    this.node.replaceChildren(place, this.openButton());
    this.mounted = mountRecord(place, this.record, this.text, this.commands);
  }

  private openButton(): HTMLElement {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'pellucid-open';
    button.textContent = 'Open in a tab';
    button.addEventListener('click', () => {
      void this.commands.execute(OPEN_COMMAND, {
        record: this.record as never,
        text: this.text,
      });
    });
    return button;
  }
}

/** Shows `record` in `place`, and tells the page which lines of the user are pointed at. */
export function mountRecord(
  place: HTMLElement,
  record: unknown,
  text: string,
  commands: CommandRegistry,
): Mounted {
  const point = (program: ProgramRecord, equations: ArrayLike<number>, isShown: boolean): void => {
    if (commands.hasCommand(POINT_COMMAND)) {
      const lines = linesOf(program, equations) as never;
      void commands.execute(POINT_COMMAND, { lines, isShown });
    }
  };
  const mounted = mount(place, record, {
    makeWorker: makeLayoutWorker,
    text,
    onHover: (program, equations) => point(program, equations, false),
    onSelect: (program, equations) => point(program, equations, true),
  });
  const shown = { show: mounted.show, view: mounted.view, dispose: end };
  function end(): void {
    shownRecords.delete(shown);
    mounted.dispose();
  }
  shownRecords.add(shown);
  return shown;
}

const shownRecords = new Set<Mounted>();

/** Lights up the equations that come from a line of a cell, in every program on the page; none without a line. */
export function pointAtEquations(place: CellLine | null): void {
  for (const each of shownRecords) {
    const view = each.view();
    if (view instanceof ProgramExplorer || view instanceof FunctionShardingView) {
      view.highlight(place === null ? [] : equationsAt(view.program.record, place));
    }
  }
}

function equationsAt(program: ProgramRecord, place: CellLine): number[] {
  return program.equations.id
    .map((_, equation) => equation)
    .filter(equation =>
      linesOf(program, [equation]).some(
        each =>
          (place.cellId === null || each.cellId === null
            ? each.executionCount === place.executionCount
            : each.cellId === place.cellId) &&
          each.line <= place.line &&
          place.line <= each.endLine,
      ),
    );
}

/** The places in notebook cells that equations come from: each with its callers, innermost first. */
export interface CellLine {
  readonly cellId: string | null;
  readonly executionCount: number | null;
  readonly line: number;
  readonly endLine: number;
}

const MOST_EQUATIONS = 200;

function linesOf(program: ProgramRecord, equations: ArrayLike<number>): CellLine[] {
  const found = new Map<number, CellLine>();
  for (let i = 0; i < Math.min(equations.length, MOST_EQUATIONS); i++) {
    for (
      let span = program.equations.span[equations[i]!] ?? -1;
      span >= 0;
      span = program.spans.caller[span] ?? -1
    ) {
      const source = program.sources[program.spans.source[span]!];
      if (source !== undefined && !found.has(span)) {
        found.set(span, {
          cellId: source.cell_id,
          executionCount: source.execution_count,
          line: program.spans.line[span]!,
          endLine: program.spans.end_line[span]!,
        });
      }
    }
  }
  return [...found.values()].filter(each => each.executionCount !== null);
}
