/** The stages of a function side by side: source lines and the programs made from them. */

import type { LensRecord } from '../../generated/introspect';
import { Links, hullsOf, type Hull } from '../../records/links';
import { listingOf } from '../../records/listing';
import { lineText, type LineSource } from '../../records/lines';
import { Program } from '../../records/program';
import { FoldedDetails, PartneredLines } from '../../records/reduced_lines';
import { SourceLines } from '../../records/source_lines';
import { el } from '../dom';
import { counted, oneLine } from '../format';
import { stepColor } from '../sharding/colors';
import type { ProgramEvents } from '../source_link';
import type { LineMark } from '../text/lines_view';
import { LinkedPanes, type Pane } from './linked_panes';

const TITLES: Readonly<Record<string, string>> = {
  jaxpr: 'jaxpr',
  stablehlo: 'StableHLO',
  hlo: 'optimized HLO',
  triton: 'Triton',
  ptx: 'PTX',
  mosaic: 'Mosaic',
  mosaic_gpu: 'Mosaic GPU',
};

export class LensView {
  readonly element: HTMLElement;
  readonly ready = Promise.resolve();
  readonly programs: readonly Program[];
  private readonly panes: LinkedPanes;
  private readonly python: SourceLines | null;
  private readonly hulls: readonly Hull[];
  private readonly hullColors: readonly string[];
  /** For each program, the fusions (hulls) that contain each equation. */
  private readonly hullsAt: readonly Map<number, number[]>[];

  constructor(root: HTMLElement, record: LensRecord, events: ProgramEvents) {
    const programs = record.programs.map(each => new Program(each));
    this.programs = programs;
    const links = new Links(programs, record.links);
    const last = programs.findIndex(program => program.dialect === 'hlo');
    this.hulls = last < 0 ? [] : hullsOf(links, last);
    const isDark = root.dataset['theme'] === 'dark';
    this.hullColors = this.hulls.map((_, index) => stepColor(index, this.hulls.length, isDark));
    this.hullsAt = programs.map(() => new Map<number, number[]>());
    this.hulls.forEach((hull, index) =>
      hull.members.forEach((set, program) =>
        set.forEach(equation => {
          const known = this.hullsAt[program]!.get(equation);
          if (known === undefined) {
            this.hullsAt[program]!.set(equation, [index]);
          } else {
            known.push(index);
          }
        }),
      ),
    );
    const sourced = programs.find(program => program.sources.length > 0);
    this.python = sourced === undefined ? null : new SourceLines(sourced);
    const panes = lensPanes(programs, this.python, record.notes ?? []);
    // PTX is tied to no lines of other stages.
    const linked = panes.flatMap((pane, index) =>
      programs[pane.program]!.dialect === 'ptx' ? [] : [index],
    );
    this.panes = new LinkedPanes(
      root,
      panes,
      links,
      (pane, line) => this.mark(pane, line),
      programs,
      events,
      // Shows first and last stage at first: the source and the final program.
      panes.length > 2 ? [0, linked.at(-1) ?? 0] : panes.map((_, index) => index),
    );
    const fusions = this.hulls.length > 0 ? counted(this.hulls.length, 'fusion') : null;
    this.element = el(
      'div',
      { class: this.hulls.length > 0 ? 'pl-array pl-has-hulls' : 'pl-array' },
      el(
        'header',
        { class: 'pl-array-header' },
        el('strong', {}, oneLine(record.name, 80)),
        fusions === null ? null : el('span', { class: 'pl-chip' }, fusions),
        el(
          'span',
          { class: 'pl-muted' },
          'Point at a line to light up what it becomes; click to bring it into view.',
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

  private mark(pane: Pane, line: number): LineMark | null {
    const inside = new Set<number>();
    const equations = pane.lines.equations(line);
    const python = pane.lines instanceof PartneredLines ? pane.lines.original(line) : -1;
    const own = python < 0 ? equations : (this.python?.own(python) ?? []);
    for (const equation of Array.from(own)) {
      this.hullsAt[pane.program]!.get(equation)?.forEach(hull => inside.add(hull));
    }
    return inside.size === 0
      ? null
      : { hulls: [...inside].slice(0, 4).map(hull => this.hullColors[hull]!) };
  }
}

const KERNEL_DIALECTS: ReadonlySet<string> = new Set(['triton', 'ptx', 'mosaic', 'mosaic_gpu']);

/** Title of a program; kernels are distinguished by their names. */
function titleOf({ dialect, name }: Program): string {
  const title = TITLES[dialect] ?? dialect;
  return KERNEL_DIALECTS.has(dialect) ? `${title}: ${oneLine(name, 60)}` : title;
}

/** Pattern of the line where the text of a stage reaches the function itself. */
const STARTS: Readonly<Record<string, RegExp>> = {
  stablehlo: /@main/,
  hlo: /^ENTRY/,
  triton: /tt\.func/,
  mosaic: /func\.func/,
  mosaic_gpu: /gpu\.launch/,
  ptx: /\.entry/,
};

/** The first line that matches; 0 if none does. */
function lineMatching(lines: LineSource, pattern: RegExp): number {
  for (let line = 0; line < lines.count; line++) {
    if (pattern.test(lineText(lines, line))) {
      return line;
    }
  }
  return 0;
}

/** The note beside the title of a program. */
function noteOf(program: Program, lines: LineSource, note: string): string {
  if (program.dialect === 'ptx') {
    return counted(lines.count, 'line');
  }
  const count = counted(
    program.equationCount,
    program.dialect === 'jaxpr' ? 'equation' : 'operation',
  );
  return note === '' ? count : `${count}; ${note}`;
}

function lensPanes(
  programs: readonly Program[],
  python: SourceLines | null,
  notes: readonly string[],
): Pane[] {
  const panes: Pane[] = [];
  if (python !== null) {
    const program = programs.find(each => each.sources.length > 0)!;
    const functions = new Set(
      Array.from({ length: program.spanCount }, (_, span) =>
        program.span(span).function.split('.').at(-1),
      ),
    );
    const isHeading = (line: number): boolean =>
      functions.has(/^\s*def (\w+)/.exec(lineText(python, line))?.[1] ?? '');
    const lines = new PartneredLines(python, isHeading);
    panes.push({
      title: 'Python',
      note: 'lines with equations',
      program: programs.indexOf(program),
      lines,
      start: lineMatching(lines, new RegExp(`^\\s*def ${program.name.replace(/\W/g, '\\$&')}\\b`)),
    });
  }
  programs.forEach((program, index) => {
    const lines = new FoldedDetails(listingOf(program));
    panes.push({
      title: titleOf(program),
      note: noteOf(program, lines, notes[index] ?? ''),
      program: index,
      lines,
      start: lineMatching(lines, STARTS[program.dialect] ?? /(?!)/),
    });
  });
  return panes;
}
