/** Computes layouts: small ones directly, large ones in a worker if available. */

import { LayoutMemory, layNested, type NestedLayout, type NestedLevel } from './nested';

/** Creates the worker; each wrapper of the viewer finds its script differently. */
export type WorkerFactory = () => Worker;

/** Maximum number of nodes of a layout that is faster to compute directly than in the worker. */
const MAX_DIRECT_NODES = 400;

interface Answer {
  readonly id: number;
  readonly layouts?: NestedLayout[];
  readonly error?: string;
}

/** A request to the worker that has no answer yet. */
interface Waiting {
  readonly levels: readonly NestedLevel[];
  readonly resolve: (layouts: NestedLayout[]) => void;
}

/** A worker and a layout cache, shared by all views of a page. */
export class LayoutClient {
  readonly memory = new LayoutMemory();
  private worker: Worker | null = null;
  private readonly waiting = new Map<number, Waiting>();
  private nextId = 0;

  constructor(private factory: WorkerFactory | null = null) {}

  /** Computes the layouts of `levels`: directly if they are small, else asynchronously. */
  lay(levels: readonly NestedLevel[]): NestedLayout[] | Promise<NestedLayout[]> {
    const size = levels.reduce((sum, level) => sum + level.widths.length, 0);
    const worker = size < MAX_DIRECT_NODES ? null : this.start();
    if (worker === null) {
      return layNested(levels, this.memory);
    }
    const id = this.nextId++;
    return new Promise(resolve => {
      this.waiting.set(id, { levels, resolve });
      worker.postMessage({ id, levels });
    });
  }

  dispose(): void {
    this.worker?.terminate();
    this.worker = null;
    this.factory = null;
  }

  private start(): Worker | null {
    if (this.worker === null && this.factory !== null) {
      try {
        this.worker = this.factory();
        this.worker.onmessage = (event: MessageEvent<Answer>): void => this.finish(event.data);
        this.worker.onerror = (): void => this.giveUp();
      } catch {
        // A page may forbid workers; layouts then run on the main thread.
        this.factory = null;
      }
    }
    return this.worker;
  }

  private finish(answer: Answer): void {
    const waiting = this.waiting.get(answer.id);
    this.waiting.delete(answer.id);
    waiting?.resolve(answer.layouts ?? layNested(waiting.levels, this.memory));
  }

  private giveUp(): void {
    this.dispose();
    for (const { levels, resolve } of this.waiting.values()) {
      resolve(layNested(levels, this.memory));
    }
    this.waiting.clear();
  }
}
