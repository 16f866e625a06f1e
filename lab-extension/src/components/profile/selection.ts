/** What is selected in a profile: operations, for one reason; all parts of the view follow it. */

export interface Selected {
  readonly operations: ReadonlySet<number>;
  /** What they have in common, for the user. */
  readonly title: string;
  /** The line of the user that they come from, if it is for that. */
  readonly line?: number;
}

export class Selection {
  private current: Selected | null = null;
  private readonly listeners: (() => void)[] = [];

  get selected(): Selected | null {
    return this.current;
  }

  has(operation: number): boolean {
    return this.current?.operations.has(operation) ?? true;
  }

  select(selected: Selected | null): void {
    // The same again takes it back.
    this.current = selected?.title === this.current?.title ? null : selected;
    this.listeners.forEach(listener => listener());
  }

  onChange(listener: () => void): void {
    this.listeners.push(listener);
  }
}
