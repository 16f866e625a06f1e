/** Worker for large layouts, loaded from the extension's own folder. */
export function makeLayoutWorker(): Worker {
  return new Worker(new URL('../layout/worker.js', import.meta.url), { type: 'module' });
}
