/** DOM elements built from text nodes only: no string of a record is ever parsed as markup. */

export type Attributes = Readonly<Record<string, string | number | boolean | null | undefined>>;
export type Content = Node | string | null | undefined | readonly Content[];

/** Creates an element with attributes. Strings in `content` become text nodes. */
export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...content: Content[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? '' : String(value));
    }
  }
  append(element, content);
  return element;
}

function append(parent: Element, content: readonly Content[]): void {
  for (const item of content) {
    if (item === null || item === undefined) {
      continue;
    }
    if (typeof item === 'string' || item instanceof Node) {
      parent.append(item);
    } else {
      append(parent, item);
    }
  }
}

const SVG = 'http://www.w3.org/2000/svg';

/** Creates an SVG element. */
export function drawn<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes,
  ...content: Node[]
): SVGElementTagNameMap[K] {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) {
    element.setAttribute(name, String(value));
  }
  element.append(...content);
  return element;
}

/** Text in which parts in backticks become code elements. */
export function withCode(text: string): Content[] {
  return text
    .split(/`([^`]+)(?:`|$)/)
    .map((part, index) => (index % 2 === 1 ? el('code', {}, part) : part));
}

/** A 16 by 16 line icon in the current text colour. */
export function icon(path: string): SVGSVGElement {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('viewBox', '0 0 16 16');
  svg.setAttribute('width', '16');
  svg.setAttribute('height', '16');
  svg.setAttribute('aria-hidden', 'true');
  const line = document.createElementNS(SVG, 'path');
  line.setAttribute('d', path);
  line.setAttribute('fill', 'none');
  line.setAttribute('stroke', 'currentColor');
  line.setAttribute('stroke-width', '1.5');
  line.setAttribute('stroke-linecap', 'round');
  line.setAttribute('stroke-linejoin', 'round');
  svg.append(line);
  return svg;
}

/** A button with an icon and an accessible name. */
export function iconButton(name: string, path: string, onClick: () => void): HTMLButtonElement {
  const button = el('button', {
    type: 'button',
    class: 'pl-icon-button',
    title: name,
    'aria-label': name,
  });
  button.append(icon(path));
  button.addEventListener('click', onClick);
  return button;
}

/** Collects clean-up functions to call when a view is disposed of. */
export class Disposables {
  private readonly undo: (() => void)[] = [];

  add(undo: () => void): void {
    this.undo.push(undo);
  }

  listen<K extends keyof HTMLElementEventMap>(
    target: HTMLElement,
    type: K,
    listener: (event: HTMLElementEventMap[K]) => void,
    options?: AddEventListenerOptions,
  ): void {
    target.addEventListener(type, listener, options);
    this.add(() => target.removeEventListener(type, listener, options));
  }

  dispose(): void {
    for (const undo of this.undo.splice(0).reverse()) {
      undo();
    }
  }
}
