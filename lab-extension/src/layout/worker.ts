/** Entry point of the worker that computes layouts off the main thread. */

import { LayoutMemory, layNested, type NestedLevel } from './nested';

const memory = new LayoutMemory();

self.onmessage = (event: MessageEvent<{ id: number; levels: NestedLevel[] }>): void => {
  const { id, levels } = event.data;
  try {
    self.postMessage({ id, layouts: layNested(levels, memory) });
  } catch (error) {
    self.postMessage({ id, error: String(error) });
  }
};
