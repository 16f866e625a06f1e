/**
 * Arrays of a stopped frame. One of them is drawn, at a slice, with a field to assign a new value.
 */

import { el } from '../dom';
import { oneLine, whole } from '../format';
import { termed } from '../terms';
import { mount, type Mounted } from '../view';

/** An array in the frame, under the user's variable name. */
export interface ListedVariable {
  readonly name: string;
  readonly type: string;
  /** Whether it belongs to the innermost program, so that it can be assigned. */
  readonly canSet: boolean;
}

/** Values of an array at a slice (response to `pellucid/figure`). */
export interface VariableFigure {
  readonly record: unknown;
  /** Sizes of the leading dimensions, before the last two. */
  readonly leading: readonly number[];
  /** Record of the array's sharding; null for an array on one device. */
  readonly placement?: unknown;
}

export interface VariablesEvents {
  /** Requests the figure of a variable. Rejects with an error message. */
  readonly onFigure: (name: string, index: readonly number[]) => Promise<VariableFigure>;
  /** Assigns the value of an expression to a variable. Rejects with an error message. */
  readonly onSet: (name: string, expression: string) => Promise<void>;
  /** Shows the values at one position of a `shard_map`, or at all positions if null. */
  readonly onPosition: (index: number | null) => void;
  /** Shows the values in one lane of each batch, outermost first; null for all lanes. */
  readonly onLane: (lane: readonly (number | null)[]) => void;
}

/** Positions of a `shard_map` and batch lanes, of which one can be selected for display. */
export interface Choices {
  readonly positions: readonly string[];
  /** Index of the selected position; null for all. */
  readonly chosen: number | null;
  /** Batch sizes around the current place, outermost first; empty outside of `vmap`. */
  readonly batches: readonly number[];
  /** Selected lane of each batch; null or missing for all lanes. */
  readonly lane: readonly (number | null)[];
}

const NO_CHOICES: Choices = { positions: [], chosen: null, batches: [], lane: [] };

export class VariablesPane {
  readonly element = el('div', { class: 'pellucid-variables' });
  private readonly positions = el('select', { 'aria-label': 'Position whose values are shown' });
  private readonly position = el(
    'span',
    { hidden: true },
    'Values at ',
    termed('position', 'position'),
    ' ',
    this.positions,
  );
  private readonly lanes = el('div', { class: 'pellucid-variables-index', hidden: true });
  private readonly list = el('div', {
    class: 'pellucid-variables-list',
    role: 'listbox',
    'aria-label': 'Arrays of the frame',
  });
  private readonly indices = el('div', { class: 'pellucid-variables-index', hidden: true });
  private readonly figure = el('div', { class: 'pellucid-variables-figure' });
  private readonly placement = el('details', { class: 'pellucid-variables-placement' });
  private readonly value = el('input', { type: 'text', title: 'An expression, as x * 0' });
  private readonly setter = el('label', { hidden: true }, 'Set to ', this.value);
  private readonly failure = el('div', { class: 'pellucid-variables-failure', role: 'alert' });
  private variables: readonly ListedVariable[] = [];
  private selected: string | null = null;
  private index: readonly number[] = [];
  private mounted: Mounted | null = null;
  private mountedPlacement: Mounted | null = null;
  /** Number of the latest request for a figure. */
  private latest = 0;

  constructor(private readonly events: VariablesEvents) {
    this.positions.addEventListener('change', () => {
      const { value } = this.positions;
      events.onPosition(value === '' ? null : Number(value));
    });
    this.value.addEventListener('change', () => void this.set());
    this.element.append(
      this.position,
      this.lanes,
      this.list,
      this.indices,
      this.setter,
      this.failure,
      this.figure,
      this.placement,
    );
    this.clear();
  }

  /**
   * Lists the arrays of a frame. The drawn variable stays selected if the frame has one of that
   * name.
   */
  show(variables: readonly ListedVariable[], choices: Choices = NO_CHOICES): void {
    const { positions, chosen } = choices;
    this.variables = variables;
    this.position.hidden = positions.length === 0;
    this.positions.replaceChildren(
      el('option', { value: '' }, 'all positions'),
      ...positions.map((text, i) => el('option', { value: i }, text)),
    );
    this.positions.value = chosen === null ? '' : String(chosen);
    this.drawLanes(choices);
    this.drawList();
    void this.draw();
  }

  private drawLanes({ batches, lane }: Choices): void {
    this.lanes.hidden = batches.length === 0;
    const drawn = [...this.lanes.querySelectorAll('input')];
    if (drawn.map(({ max }) => max).join() !== batches.map(size => size - 1).join()) {
      this.lanes.replaceChildren('Lane ', ...batches.map((size, i) => this.laneField(size, i)));
    }
    [...this.lanes.querySelectorAll('input')].forEach((field, i) => {
      field.value = String(lane[i] ?? '');
    });
  }

  private laneField(size: number, batch: number): HTMLElement {
    const field = el('input', {
      type: 'number',
      min: 0,
      max: size - 1,
      placeholder: 'all',
      'aria-label': `Lane of batch ${batch}`,
      title: 'The lane whose values are shown; empty for all',
    });
    field.addEventListener('change', () => {
      const fields = [...this.lanes.querySelectorAll('input')];
      this.events.onLane(
        fields.map(({ value }) => (value.trim() === '' ? null : Math.trunc(Number(value)))),
      );
    });
    return el('label', {}, field, ` of ${whole(size)}`);
  }

  dispose(): void {
    this.latest += 1;
    this.clear();
  }

  private clear(): void {
    this.mounted?.dispose();
    this.mounted = null;
    this.figure.replaceChildren();
    this.drawPlacement(null);
  }

  private drawPlacement(record: unknown): void {
    this.placement.hidden = record === null;
    if (record === null) {
      this.mountedPlacement?.dispose();
      this.mountedPlacement = null;
      this.placement.replaceChildren(el('summary', {}, 'Where it lies'));
    } else if (this.mountedPlacement === null) {
      this.mountedPlacement = mount(this.placement.appendChild(el('div')), record);
    } else {
      this.mountedPlacement.show(record);
    }
  }

  private get current(): ListedVariable | undefined {
    return this.variables.find(variable => variable.name === this.selected);
  }

  private drawList(): void {
    this.list.hidden = this.variables.length === 0;
    this.list.replaceChildren(
      ...this.variables.map(({ name, type }) => {
        const option = el(
          'button',
          {
            type: 'button',
            role: 'option',
            title: `Draw the values of ${oneLine(name, 60)}`,
            'aria-selected': String(name === this.selected),
          },
          el('code', {}, oneLine(name, 60)),
          ` ${oneLine(type, 80)}`,
        );
        option.addEventListener('click', () => {
          this.selected = name === this.selected ? null : name;
          this.index = [];
          this.drawList();
          void this.draw();
        });
        return option;
      }),
    );
  }

  private async draw(): Promise<void> {
    const asked = ++this.latest;
    const { current } = this;
    this.setter.hidden = current?.canSet !== true;
    this.failure.textContent = '';
    if (current === undefined) {
      this.indices.hidden = true;
      this.clear();
      return;
    }
    this.value.setAttribute('aria-label', `Value of ${current.name} from here on`);
    try {
      const { record, leading, placement } = await this.events.onFigure(current.name, this.index);
      if (asked !== this.latest) {
        return;
      }
      this.drawIndices(leading);
      if (this.mounted === null) {
        this.mounted = mount(this.figure.appendChild(el('div')), record);
      } else {
        this.mounted.show(record);
      }
      this.drawPlacement(placement ?? null);
    } catch (error) {
      if (asked === this.latest) {
        this.failure.textContent = messageOf(error);
      }
    }
  }

  private drawIndices(leading: readonly number[]): void {
    this.indices.hidden = leading.length === 0;
    if (this.indices.childElementCount === leading.length) {
      return; // keep a field while it is being edited
    }
    this.indices.replaceChildren(
      ...leading.map((size, dimension) => {
        const input = el('input', {
          type: 'number',
          min: 0,
          max: size - 1,
          value: 0,
          'aria-label': `Index along dimension ${dimension}`,
        });
        input.addEventListener('change', () => {
          const inputs = [...this.indices.querySelectorAll('input')];
          this.index = inputs.map(each => Math.max(Math.trunc(Number(each.value)) || 0, 0));
          void this.draw();
        });
        return el('label', {}, input, ` of ${whole(size)}`);
      }),
    );
  }

  private async set(): Promise<void> {
    const { current } = this;
    const expression = this.value.value.trim();
    if (current === undefined || expression === '') {
      return;
    }
    try {
      await this.events.onSet(current.name, expression);
      this.value.value = '';
    } catch (error) {
      this.failure.textContent = messageOf(error);
    }
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
