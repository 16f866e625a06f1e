/** A function and its transformations side by side, with lines from equations to their origins. */

import type { LadderRecord } from '../../generated/introspect';
import { Links } from '../../records/links';
import { listingOf } from '../../records/listing';
import { FoldedDetails } from '../../records/reduced_lines';
import { Program } from '../../records/program';
import { el } from '../dom';
import { counted, oneLine } from '../format';
import type { ProgramEvents } from '../source_link';
import type { LineMark } from '../text/lines_view';
import { LinkedPanes, type Pane } from './linked_panes';

export class LadderView {
  readonly element: HTMLElement;
  readonly ready = Promise.resolve();
  readonly programs: readonly Program[];
  private readonly panes: LinkedPanes;

  constructor(root: HTMLElement, record: LadderRecord, events: ProgramEvents) {
    const programs = record.programs.map(each => new Program(each));
    this.programs = programs;
    const links = new Links(programs, record.links);
    /** The program that another one was made from; by order in records of older versions. */
    const sourceOf = (stage: number): number => record.sources?.[stage] ?? stage - 1;
    const isNewIn = (stage: number, equation: number): boolean =>
      stage > 0 && links.direct(stage, equation, sourceOf(stage)).length === 0;
    const panes = programs.map((program, index): Pane => {
      const noun = program.dialect === 'jaxpr' ? 'equation' : 'operation';
      return {
        title: oneLine(record.transformations[index] ?? '', 40) || 'as written',
        note: [
          counted(program.equationCount, noun),
          index === 0 ? '' : changesText(links, programs, sourceOf(index), index),
        ]
          .filter(Boolean)
          .join(', '),
        program: index,
        lines: new FoldedDetails(listingOf(program)),
      };
    });
    const mark = (pane: Pane, line: number): LineMark | null => {
      // An equation without an origin was added by the transformation.
      const [equation] = Array.from(pane.lines.equations(line));
      const isNew = equation !== undefined && isNewIn(pane.program, equation);
      return isNew ? { className: 'pl-line-new' } : null;
    };
    this.panes = new LinkedPanes(
      root,
      panes,
      links,
      mark,
      programs,
      events,
      [0, 1].slice(0, panes.length),
      sourceOf,
    );
    const made = record.transformations.filter(Boolean);
    this.element = el(
      'div',
      { class: 'pl-array' },
      el(
        'header',
        { class: 'pl-array-header' },
        el('strong', {}, oneLine(record.name, 80)),
        el(
          'span',
          { class: 'pl-chip' },
          made.length > MAX_NAMED_STEPS
            ? counted(made.length, 'step')
            : made.map(each => oneLine(each, 30)).join(', '),
        ),
        el(
          'span',
          { class: 'pl-muted' },
          'Green lines have no origin in the program that theirs was made from.',
        ),
        this.panes.place.element,
      ),
      this.panes.element,
    );
  }

  highlight(equations: readonly (readonly number[])[]): void {
    this.panes.highlight(equations);
  }

  dispose(): void {
    this.panes.dispose();
  }

  themeChanged(): void {
    this.panes.themeChanged();
  }
}

/** Maximum number of steps named in the header. */
const MAX_NAMED_STEPS = 5;

/** `+3 −5`: equations that a step added, and equations without a successor. */
function changesText(
  links: Links,
  programs: readonly Program[],
  source: number,
  target: number,
): string {
  const alone = (here: number, there: number): number => {
    let count = 0;
    for (let equation = 0; equation < programs[here]!.equationCount; equation++) {
      count += links.direct(here, equation, there).length === 0 ? 1 : 0;
    }
    return count;
  };
  const [added, removed] = [alone(target, source), alone(source, target)];
  return [added > 0 ? `+${added}` : '', removed > 0 ? `−${removed}` : ''].filter(Boolean).join(' ');
}

export const ladderStyle = `
.pl-line-new, .pl-line-new .pl-gutter { background: var(--pl-added-soft) !important; }
`;
