/** What a page has and jsdom lacks. Canvases stay without a context there: nothing is painted. */

class SilentObserver {
  observe(): void {}
  unobserve(): void {}
  disconnect(): void {}
}

/** Installs the missing parts; call once per test file. */
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

/** Waits until frames and promises that are due have run. */
export function settled(): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, 60));
}
