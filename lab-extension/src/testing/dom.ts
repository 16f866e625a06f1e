/** Page features that jsdom lacks. Canvases have no context there, so nothing is painted. */

class SilentObserver {
  observe(): void {}
  unobserve(): void {}
  disconnect(): void {}
}

/** Installs the missing features; call it once per test file. */
export function installPage(): void {
  globalThis.ResizeObserver ??= SilentObserver as unknown as typeof ResizeObserver;
  HTMLCanvasElement.prototype.getContext = () => null;
  HTMLCanvasElement.prototype.setPointerCapture = () => undefined;
  globalThis.matchMedia ??= ((query: string) => ({
    matches: false,
    media: query,
    addEventListener: () => undefined,
    removeEventListener: () => undefined,
  })) as unknown as typeof matchMedia;
}

/** An element in the page. */
export function place(): HTMLElement {
  const host = document.createElement('div');
  document.body.append(host);
  return host;
}

/** Waits until pending frames and promises have run. */
export function settled(): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, 60));
}
