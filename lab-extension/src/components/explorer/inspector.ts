/** Everything known about the selected box. */

import type { Overlay } from '../../records/costs';
import type { Program } from '../../records/program';
import { el, type Content } from '../dom';
import { counted, oneLine, quantity, whole } from '../format';
import type { Box } from '../graph/box';
import { equationText, operandText } from '../graph/describe';
import { SourceLink, type NotebookLines } from '../source_link';

export interface InspectorEvents {
  readonly goTo: (equation: number) => void;
  readonly hover: (equations: readonly number[]) => void;
  readonly trace: (equation: number, direction: 'upstream' | 'downstream') => void;
  readonly showCopy: (box: Box, copy: number) => void;
  readonly unfold: (box: Box) => void;
  readonly toggle: (box: Box) => void;
  /** Shows the line of an equation in the view itself; absent where it has no lines. */
  readonly showInSource?: ((equation: number) => void) | undefined;
  readonly notebook?: NotebookLines | undefined;
}

const MAX_LINKS = 24;

export class Inspector {
  readonly element = el('section', {
    class: 'pl-inspector',
    'aria-label': 'Details',
    'aria-live': 'polite',
  });

  constructor(
    private readonly program: Program,
    private readonly events: InspectorEvents,
  ) {
    this.show(null, []);
  }

  show(box: Box | null, overlays: readonly Overlay[]): void {
    this.element.replaceChildren();
    if (box === null) {
      this.add(el('p', { class: 'pl-muted' }, 'Select a box to see what it is.'));
      return;
    }
    if (box.equation >= 0) {
      this.addEquation(box.equation, overlays);
    } else if (box.operands.length > 0) {
      this.addValues(box);
    } else {
      this.addGroup(box, overlays);
    }
    if (box.isExpandable) {
      this.addActions(box);
    }
  }

  private add(...content: Content[]): void {
    for (const item of content.flat() as (Node | string | null | undefined)[]) {
      if (item !== null && item !== undefined) {
        this.element.append(item);
      }
    }
  }

  private addEquation(equation: number, overlays: readonly Overlay[]): void {
    const { program } = this;
    this.add(
      el('h3', {}, oneLine(program.primitive(equation), 120)),
      el('p', { class: 'pl-code pl-statement' }, equationText(program, equation)),
    );
    const link = new SourceLink(this.events.notebook, this.events.showInSource);
    link.show(program, [equation]);
    const span = program.spanOf(equation);
    const line =
      span === null
        ? undefined
        : program.sources[span.source]?.lines?.[
            span.line - (program.sources[span.source]?.first_line ?? 1)
          ];
    const rows: [string, Content][] = [];
    if (span !== null) {
      rows.push([
        'from',
        [
          link.element,
          span.function === '' ? null : `, in ${oneLine(span.function, 60)}`,
          typeof line === 'string'
            ? el('code', { class: 'pl-source-line' }, oneLine(line.trim(), 160))
            : null,
        ],
      ]);
    }
    rows.push(
      ...this.valueRows('takes', Array.from(program.operandsOf(equation)), operand =>
        this.makerOf(operand),
      ),
    );
    rows.push(
      ...this.valueRows('gives', Array.from(program.resultsOf(equation)), value =>
        Array.from(program.usesOf(value)),
      ),
    );
    const path = program.scopePath(equation).map(scope => program.scopeName(scope));
    if (path.length > 0) {
      rows.push(['scope', oneLine(path.join(' / '), 200)]);
    }
    if (program.effects(equation) !== '') {
      rows.push(['effects', oneLine(program.effects(equation), 120)]);
    }
    const made = program.transformation(equation);
    if (made !== '') {
      const origins = program.originsOf(equation);
      rows.push([
        'made by',
        `${oneLine(made, 60)}${origins.length > 0 ? ` from ${counted(origins.length, 'equation')}` : ''}`,
      ]);
    }
    for (const overlay of overlays) {
      const value = overlay.values[equation]!;
      if (!Number.isNaN(value)) {
        rows.push([overlay.label, `${quantity(value, overlay.unit)} (${overlay.basis})`]);
      }
    }
    this.add(
      table(rows),
      el(
        'div',
        { class: 'pl-actions' },
        this.action('What it depends on', () => this.events.trace(equation, 'upstream')),
        this.action('What depends on it', () => this.events.trace(equation, 'downstream')),
      ),
    );
  }

  private addValues(box: Box): void {
    const { program } = this;
    this.add(
      el(
        'h3',
        {},
        box.kind === 'input'
          ? counted(box.operands.length, 'input')
          : counted(box.operands.length, 'output'),
      ),
    );
    const rows = box.operands.slice(0, 200).map((operand): [string, Content] => {
      const uses = operand >= 0 ? Array.from(program.usesOf(operand)) : [];
      const ends = box.kind === 'input' ? uses : this.makerOf(operand);
      return ['', [el('code', {}, operandText(program, operand)), this.links(ends)]];
    });
    this.add(table(rows));
  }

  private addGroup(box: Box, overlays: readonly Overlay[]): void {
    this.add(el('h3', {}, [box.tag, box.title].filter(Boolean).join(' ') || 'group'));
    const rows: [string, Content][] = [['holds', counted(box.equations.length, 'equation')]];
    if (box.copies > 1) {
      rows.push(['copies', `${whole(box.copies)} of equal structure`]);
    }
    for (const overlay of overlays) {
      const known = Array.from(box.equations, equation => overlay.values[equation]!).filter(
        value => !Number.isNaN(value),
      );
      if (known.length > 0 && overlay.ratio === null) {
        const total = known.reduce((sum, value) => sum + value, 0);
        rows.push([overlay.label, `${quantity(total, overlay.unit)} (${overlay.basis})`]);
      }
    }
    this.add(table(rows));
  }

  private addActions(box: Box): void {
    const actions = [this.action(box.isOpen ? 'Close' : 'Open', () => this.events.toggle(box))];
    if (box.copies > 1) {
      actions.push(
        this.action('Previous copy', () => this.events.showCopy(box, box.copy - 1)),
        this.action('Next copy', () => this.events.showCopy(box, box.copy + 1)),
        this.action(`Show all ${whole(box.copies)}`, () => this.events.unfold(box)),
      );
    }
    this.add(el('div', { class: 'pl-actions' }, actions));
  }

  private action(name: string, run: () => void): HTMLButtonElement {
    const button = el('button', { type: 'button', class: 'pl-action' }, name);
    button.addEventListener('click', run);
    return button;
  }

  private makerOf(operand: number): number[] {
    const maker = operand >= 0 ? this.program.definers[operand]! : -1;
    return maker >= 0 ? [maker] : [];
  }

  private valueRows(
    label: string,
    operands: readonly number[],
    ends: (operand: number) => readonly number[],
  ): [string, Content][] {
    return operands
      .slice(0, 40)
      .map((operand, index): [string, Content] => [
        index === 0 ? label : '',
        [el('code', {}, operandText(this.program, operand)), this.links(ends(operand))],
      ]);
  }

  /** Links to the equations at the other end of a value. */
  private links(equations: readonly number[]): HTMLElement | null {
    if (equations.length === 0) {
      return null;
    }
    const links = equations.slice(0, MAX_LINKS).map(equation => {
      const link = el(
        'button',
        { type: 'button', class: 'pl-link' },
        oneLine(this.program.primitive(equation), 30),
      );
      link.addEventListener('click', () => this.events.goTo(equation));
      link.addEventListener('pointerenter', () => this.events.hover([equation]));
      link.addEventListener('pointerleave', () => this.events.hover([]));
      return link;
    });
    const more = equations.length - MAX_LINKS;
    return el('span', { class: 'pl-links' }, links, more > 0 ? ` and ${more} more` : null);
  }
}

function table(rows: readonly [string, Content][]): HTMLElement {
  return el(
    'dl',
    { class: 'pl-facts' },
    rows.map(([name, content]) => [el('dt', {}, name), el('dd', {}, content)]),
  );
}

export const inspectorStyle = `
.pl-inspector { padding: 10px 14px 16px; overflow: auto; height: 100%; overflow-wrap: anywhere; }
.pl-inspector h3 { margin: 0 0 6px; font: 600 14px/1.3 var(--pl-code); }
.pl-statement { margin: 0 0 10px; padding: 7px 9px; border-radius: 6px; background: var(--pl-sunken); font-size: 11.5px; }
.pl-facts { display: grid; grid-template-columns: max-content 1fr; gap: 4px 12px; margin: 0; }
.pl-facts dt { color: var(--pl-muted); }
.pl-facts dd { margin: 0; min-width: 0; }
.pl-facts code, .pl-source-line { font: 11.5px/1.5 var(--pl-code); background: none; padding: 0; color: inherit; }
.pl-source-line { display: block; color: var(--pl-muted); }
.pl-links { display: inline-flex; flex-wrap: wrap; gap: 4px; margin-left: 8px; }
.pl-actions { display: flex; flex-wrap: wrap; gap: 6px; margin-top: 12px; }
`;
