/**
 * A program stopped in the debugger: current place, graph with known values, controls to go
 * elsewhere.
 */

import { el } from '../dom';
import { whole } from '../format';
import { ProgramExplorer } from '../explorer/program_explorer';
import { termsStyle } from '../terms';
import { CoresTable, type StandingCore } from './cores_table';
import { mount, type Mounted, type ViewOptions } from '../view';
import {
  VariablesPane,
  type Choices,
  type ListedVariable,
  type VariablesEvents,
} from './variables_pane';

/** Response of the kernel to `pellucid/program`: a frame's program and the current place in it. */
export interface Standing extends Choices {
  readonly version: string;
  /** Key of the program record. */
  readonly program: string;
  /** The program record, or null if the page already has it. */
  readonly record: unknown;
  /** Id of the next equation; null at the end of the program. */
  readonly equation: number | null;
  readonly position: number;
  readonly count: number;
  /** Whether this is the innermost program, the only one that can be moved. */
  readonly isInnermost: boolean;
  readonly iteration: { readonly run: number; readonly runs: number | null } | null;
  /** Position of the kernel's program in its grid; null outside of kernels. */
  readonly grid?: {
    readonly position: readonly number[];
    readonly sizes: readonly number[];
  } | null;
  /** What each device, core or thread of a simulated kernel does; empty outside of one. */
  readonly cores?: readonly StandingCore[];
  /** Names of the programs around it, outermost first. */
  readonly path: readonly string[];
  /** Arrays of the frame. */
  readonly variables: readonly ListedVariable[];
  /** Short texts of the known values, by value number. */
  readonly values: Readonly<Record<string, string>>;
}

/** Parts that the view already shows, which the kernel need not send again. */
export interface Shown {
  readonly program: string;
  /** Undefined if the program may have moved since. */
  readonly version: string | undefined;
}

/** A breakpoint's options in the protocol's syntax, and whether its line was resolved. */
export interface ListedBreakpoint {
  readonly path: string;
  readonly line: number;
  readonly condition: string;
  readonly hitCondition: string;
  readonly logMessage: string;
  readonly verified: boolean;
  readonly actualLine: number | null;
  readonly message: string;
}

/** Settings for all stops (`pellucid/settings`). */
export interface StopSettings {
  /** Maximum number of bytes of values that a stopped program keeps. */
  readonly budget: number;
  /** Whether breakpoints also stop in Python while a function is traced. */
  readonly stopsInTrace: boolean;
}

const MEBIBYTE = 1 << 20;

export interface StoppedEvents extends VariablesEvents {
  readonly onEquation: (position: number) => void;
  readonly onIteration: (run: number) => void;
  /** Goes to a program of the kernel. */
  readonly onProgram: (position: readonly number[]) => void;
  /** Shows another device, core or thread of a simulated kernel, by its row. */
  readonly onCore: (core: number) => void;
  /** The record of the kernel's grid, at the program that has stopped; null outside of kernels. */
  readonly onGrid: () => Promise<unknown>;
  readonly onOptions: (breakpoint: ListedBreakpoint) => void;
  readonly onWatch: (condition: string) => void;
  readonly onSettings: (settings: StopSettings) => void;
}

const OPTIONS = [
  ['condition', 'only if', 'A Python expression of the variables at the line'],
  ['hitCondition', 'hits', 'Which hits count: 5, >= 5 or % 3'],
  ['logMessage', 'print', 'Printed in place of a stop; expressions stand in braces'],
] as const;

export class StoppedProgram {
  readonly element = el('div', { class: 'pellucid-stopped' });
  private readonly place = el('div', { class: 'pellucid-stopped-place', role: 'status' });
  private readonly slider = el('input', {
    type: 'range',
    min: 0,
    'aria-label': 'Equation of the program',
  });
  private readonly iteration = el('input', {
    type: 'number',
    min: 0,
    'aria-label': 'Iteration of the loop',
  });
  private readonly iterations = el('label', { class: 'pellucid-stopped-iteration' });
  private readonly graph = el('div', { class: 'pellucid-stopped-graph' });
  private readonly program = el('div', {
    class: 'pellucid-stopped-program',
    role: 'group',
    'aria-label': 'Program of the grid',
    hidden: true,
  });
  private readonly gridPlace = el('div', { class: 'pellucid-stopped-grid' });
  private readonly blocks = el(
    'details',
    { class: 'pellucid-stopped-blocks', hidden: true },
    el('summary', {}, 'Blocks of this program, in its grid'),
    this.gridPlace,
  );
  private readonly cores = new CoresTable(core => this.events.onCore(core));
  private grid: Mounted | null = null;
  private readonly conditions = el('div', { class: 'pellucid-stopped-breakpoints' });
  private readonly watch = el('input', {
    type: 'text',
    placeholder: 'isnan',
    'aria-label': 'Stop before the first value for which',
    title: 'isnan, isinf, or an expression of a result x, as abs(x) > 1e4',
  });
  private readonly budget = el('input', {
    type: 'number',
    min: 1,
    'aria-label': 'MiB of values that a stopped program keeps',
    title: 'Values beyond are computed again when you look at them; holds from the next stop on',
  });
  private readonly stopsInTrace = el('input', { type: 'checkbox' });
  private readonly settings = el(
    'div',
    { class: 'pellucid-stopped-settings', hidden: true },
    el('label', {}, 'Keep up to ', this.budget, ' MiB of values'),
    el(
      'label',
      { title: 'In Python, on abstract values' },
      this.stopsInTrace,
      ' Stop while functions are traced',
    ),
  );
  private readonly stops = el('details', { class: 'pellucid-stopped-options', open: true });
  private readonly variables: VariablesPane;
  private mounted: Mounted | null = null;
  /** Key of the program in the mounted view. */
  private drawn = '';
  private standing: Standing | null = null;
  private isMoving = false;

  constructor(
    private readonly events: StoppedEvents,
    private readonly options: ViewOptions = {},
  ) {
    this.slider.addEventListener('change', () => events.onEquation(Number(this.slider.value)));
    this.iteration.addEventListener('change', () =>
      events.onIteration(Number(this.iteration.value)),
    );
    this.watch.addEventListener('change', () => events.onWatch(this.watch.value));
    this.settings.addEventListener('change', () =>
      events.onSettings({
        budget: Math.max(1, Math.round(Number(this.budget.value) * MEBIBYTE)),
        stopsInTrace: this.stopsInTrace.checked,
      }),
    );
    this.variables = new VariablesPane(events);
    this.blocks.addEventListener('toggle', () => void this.showGrid());
    this.stops.append(
      el('summary', {}, 'When to stop'),
      el('label', { class: 'pellucid-stopped-watch' }, 'Stop at a value with ', this.watch),
      this.conditions,
      this.settings,
    );
    this.element.append(
      el('style', {}, termsStyle),
      this.place,
      this.cores.element,
      this.slider,
      this.iterations,
      this.program,
      this.stops,
      this.blocks,
      this.variables.element,
      this.graph,
    );
    this.end();
  }

  /** The content of the view; null for nothing. */
  get shown(): Shown | null {
    const { standing, mounted, drawn, isMoving } = this;
    return mounted === null
      ? null
      : { program: drawn, version: isMoving ? undefined : standing?.version };
  }

  show(standing: Standing): void {
    if (this.standing === null) {
      this.stops.open = false; // an open section would leave little room for the program
    }
    this.standing = standing;
    this.isMoving = false;
    this.element.classList.add('pellucid-is-stopped');
    this.element.classList.remove('pellucid-is-moving');
    if (standing.record !== null || this.mounted === null) {
      this.mounted?.dispose();
      this.graph.replaceChildren();
      const place = this.graph.appendChild(el('div', { class: 'pellucid-stopped-view' }));
      this.mounted = mount(place, standing.record, {
        ...this.options,
        edgeLabel: value => this.standing?.values[String(value)],
      });
      this.drawn = standing.program;
    }
    this.place.textContent = this.describe(standing);
    this.setMoves(standing);
    this.setGrid(standing);
    this.cores.show(standing.cores ?? []);
    this.variables.show(standing.variables, standing);
    const { explorer } = this;
    explorer?.graph.relabel();
    const row = this.nextRow(standing);
    if (row !== undefined) {
      void explorer!.ready.then(() => explorer!.goTo(row));
    }
  }

  private get explorer(): ProgramExplorer | null {
    const view = this.mounted?.view();
    return view instanceof ProgramExplorer ? view : null;
  }

  private nextRow({ equation }: Standing): number | undefined {
    return equation === null ? undefined : this.explorer?.program.equationOfId(equation);
  }

  private describe(standing: Standing): string {
    const { path, position, count } = standing;
    const program = this.explorer?.program;
    const row = this.nextRow(standing);
    const next = row === undefined ? 'at its end' : `before ${program!.primitive(row)}`;
    const names = [...path, program?.name ?? ''].filter(Boolean).join(' › ');
    return `${names}: ${whole(position)} of ${whole(count)}, ${next}`;
  }

  private setMoves({ position, count, iteration, isInnermost }: Standing): void {
    for (const input of [this.slider, this.iteration]) {
      input.disabled = !isInnermost;
      input.title = isInnermost ? '' : 'Select the first frame of the call stack to move';
    }
    // The position may be one behind the last equation, the end, which only steps can reach.
    this.slider.max = String(Math.max(position, count - 1));
    this.slider.value = String(position);
    this.iterations.hidden = iteration === null;
    if (iteration !== null) {
      this.iteration.value = String(iteration.run);
      this.iteration.max = iteration.runs === null ? '' : String(iteration.runs - 1);
      const of = iteration.runs === null ? '' : ` of ${whole(iteration.runs)}`;
      this.iterations.replaceChildren('Iteration ', this.iteration, of);
    }
  }

  /** Fields for the position of a kernel's program, and its blocks where these are shown. */
  private setGrid({ grid, isInnermost }: Standing): void {
    this.program.hidden = this.blocks.hidden = grid === null || grid === undefined;
    if (grid === null || grid === undefined) {
      this.endGrid();
      return;
    }
    const inputs = grid.position.map((place, axis) => {
      const input = el('input', {
        type: 'number',
        min: 0,
        max: Math.max(0, grid.sizes[axis]! - 1),
        value: place,
        disabled: !isInnermost,
        'aria-label': `Position of the program along axis ${axis}, of ${grid.sizes[axis]}`,
      });
      input.addEventListener('change', () =>
        this.events.onProgram(inputs.map(each => Math.round(Number(each.value)))),
      );
      return input;
    });
    const sizes = grid.sizes.map(whole).join(' × ');
    this.program.replaceChildren('Program ', ...inputs, sizes === '' ? '' : ` of ${sizes}`);
    void this.showGrid();
  }

  private async showGrid(): Promise<void> {
    const { standing } = this;
    if (!this.blocks.open || this.blocks.hidden || standing === null) {
      return;
    }
    try {
      const record = await this.events.onGrid();
      if (this.standing !== standing || record === null) {
        return;
      }
      if (this.grid === null) {
        // A view stays in the shadow of its host, so each has a host of its own.
        const host = el('div', {});
        this.gridPlace.replaceChildren(host);
        this.grid = mount(host, record, this.options);
      } else {
        this.grid.show(record);
      }
    } catch (error) {
      if (this.standing === standing) {
        this.endGrid();
        this.gridPlace.textContent = error instanceof Error ? error.message : String(error);
      }
    }
  }

  private endGrid(): void {
    this.grid?.dispose();
    this.grid = null;
  }

  /** Marks the program as moving; usually it stops again at once, so its graph stays as it is. */
  move(): void {
    this.isMoving = this.standing !== null;
    this.element.classList.toggle('pellucid-is-moving', this.isMoving);
    // The next stop sets these fields, and would overwrite input made until then.
    for (const input of [this.slider, this.iteration]) {
      input.disabled = true;
    }
  }

  /** No program is stopped, and the kernel may have changed: the next program is drawn anew. */
  end(): void {
    this.hide();
    this.endGrid();
    this.mounted?.dispose();
    this.mounted = null;
    this.graph.replaceChildren();
  }

  /**
   * Hides the view while no program is stopped. The graph is kept for the next stop in the same
   * program.
   */
  hide(): void {
    this.standing = null;
    this.stops.open = true;
    this.isMoving = false;
    this.program.hidden = this.blocks.hidden = true;
    this.cores.show([]);
    this.variables.show([]);
    this.element.classList.remove('pellucid-is-stopped', 'pellucid-is-moving');
    this.place.textContent =
      'No program is stopped. Set a breakpoint at a line of a jitted function, and run its cell.';
  }

  /** Shows the error of a failed request. */
  fail(text: string): void {
    if (this.standing === null) {
      this.place.textContent = text;
    } else {
      this.place.textContent = `${this.describe(this.standing)}. ${text}`;
      this.setMoves(this.standing);
    }
  }

  showBreakpoints(
    breakpoints: readonly ListedBreakpoint[],
    watched: string | null,
    settings: StopSettings | null,
  ): void {
    this.watch.value = watched ?? '';
    this.settings.hidden = settings === null;
    if (settings !== null && !this.settings.contains(focusIn(this.settings))) {
      this.budget.value = String(settings.budget / MEBIBYTE);
      this.stopsInTrace.checked = settings.stopsInTrace;
    }
    const fieldsets = [...this.conditions.querySelectorAll('fieldset')];
    const placeOf = ({ path, line }: ListedBreakpoint): string => `${path}:${line}`;
    const isSame =
      fieldsets.length === breakpoints.length &&
      breakpoints.every((each, i) => fieldsets[i]!.dataset['place'] === placeOf(each));
    if (isSame) {
      // Keeps what the user is typing.
      fieldsets.forEach((fieldset, i) => fillFieldset(fieldset, breakpoints[i]!));
      return;
    }
    this.conditions.replaceChildren(
      ...breakpoints.map(breakpoint => {
        const fieldset = el(
          'fieldset',
          { 'data-place': placeOf(breakpoint) },
          el('legend', {}, `line ${breakpoint.line}`),
          el('p'),
          OPTIONS.map(([name, label, title]) =>
            el('label', {}, `${label} `, el('input', { type: 'text', name, title })),
          ),
        );
        fillFieldset(fieldset, breakpoint);
        // Sends all fields, because another one may have changed since the kernel listed them.
        fieldset.addEventListener('change', () => {
          const inputs = [...fieldset.querySelectorAll('input')];
          const options = Object.fromEntries(inputs.map(({ name, value }) => [name, value]));
          this.events.onOptions({ ...breakpoint, ...options });
        });
        return fieldset;
      }),
    );
  }

  dispose(): void {
    this.variables.dispose();
    this.endGrid();
    this.mounted?.dispose();
    this.mounted = null;
  }
}

function focusIn(element: HTMLElement): Element | null {
  return (element.getRootNode() as Document | ShadowRoot).activeElement;
}

function fillFieldset(fieldset: HTMLElement, breakpoint: ListedBreakpoint): void {
  const note = fieldset.querySelector('p')!;
  note.textContent = breakpoint.message;
  note.hidden = breakpoint.message === '';
  const focused = focusIn(fieldset);
  for (const [name] of OPTIONS) {
    const input = fieldset.querySelector<HTMLInputElement>(`input[name="${name}"]`)!;
    if (input !== focused) {
      input.value = breakpoint[name];
    }
  }
}
