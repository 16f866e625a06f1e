/** One function after each of several transformations, with lines from equations to their origins. */

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
    const panes = programs.map((program, index): Pane => ({
      title: oneLine(record.transformations[index] ?? '', 40) || 'as written',
      note: counted(program.equationCount, 'equation'),
      program: index,
      lines: new FoldedDetails(listingOf(program)),
    }));
    const mark = (pane: Pane, line: number): LineMark | null => {
      // An equation without an origin is the transformation's own.
      const [equation] = Array.from(pane.lines.equations(line));
      const isNew =
        pane.program > 0 &&
        equation !== undefined &&
        links.direct(pane.program, equation, pane.program - 1).length === 0;
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
      stage => {
        const link = record.links.find(each => each.target === programs[stage]!.key);
        return programs.findIndex(program => program.key === link?.source);
      },
    );
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
          record.transformations
            .filter(Boolean)
            .map(each => oneLine(each, 30))
            .join(' → '),
        ),
        el('span', { class: 'pl-muted' }, 'Green lines have no origin in the program before.'),
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

export const ladderStyle = `
.pl-line-new, .pl-line-new .pl-gutter { background: var(--pl-added-soft) !important; }
`;
