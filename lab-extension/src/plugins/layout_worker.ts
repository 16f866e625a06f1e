/** The worker for large layouts, from the extension's own folder. */
export function makeLayoutWorker(): Worker {
  return new Worker(new URL('../layout/worker.js', import.meta.url), { type: 'module' });
}
