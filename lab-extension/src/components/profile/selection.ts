/** The operations selected in a profile, shared by all parts of the view. */

export interface Selected {
  readonly operations: ReadonlySet<number>;
  /** Title for the user: what the operations have in common. */
  readonly title: string;
  /** The source line, if the selection was made by line. */
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
    // Selecting the same again clears the selection.
    this.current = selected?.title === this.current?.title ? null : selected;
    this.listeners.forEach(listener => listener());
  }

  onChange(listener: () => void): void {
    this.listeners.push(listener);
  }
}
