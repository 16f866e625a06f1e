/** Time by scope: each scope is as wide as its share of the time, with nested scopes below. */

import type { Profile, ScopeNode } from '../../records/profile';
import { el } from '../dom';
import { duration } from '../facts/misses_view';
import { oneLine } from '../format';
import type { Selection } from './selection';

/** Minimum width of a drawn scope, as a fraction of the chart's width. */
const MIN_WIDTH_SHARE = 0.002;
const MAX_DEPTH = 40;

export class FlameChart {
  readonly element: HTMLElement;
  private readonly rows = el('div', { class: 'pl-flame-rows' });
  private readonly whole: ScopeNode;
  /** Path from the whole session to the scope that fills the chart's width. */
  private path: readonly ScopeNode[];

  constructor(
    private readonly profile: Profile,
    private readonly selection: Selection,
  ) {
    this.whole = profile.scopes();
    this.path = [this.whole];
    this.element = el(
      'div',
      { class: 'pl-flame' },
      el(
        'div',
        { class: 'pl-profile-key' },
        el('span', { class: 'pl-forward' }, 'forward'),
        el('span', { class: 'pl-backward' }, 'backward'),
        el(
          'span',
          { class: 'pl-profile-hint' },
          'A click widens a scope and selects its operations.',
        ),
      ),
      this.rows,
    );
    selection.onChange(() => this.mark());
    this.draw();
  }

  private draw(): void {
    const root = this.path.at(-1)!;
    const around = this.path.map(node => [{ node, start: 0, width: 1 }]);
    const levels = [...around];
    let level = around.at(-1)!;
    while (level.length > 0 && levels.length < MAX_DEPTH) {
      level = level.flatMap(({ node, start }) => {
        let at = start;
        return node.children.flatMap(child => {
          const width = root.seconds > 0 ? child.seconds / root.seconds : 0;
          const place = { node: child, start: at, width };
          at += width;
          return width >= MIN_WIDTH_SHARE ? [place] : [];
        });
      });
      if (level.length > 0) {
        levels.push(level);
      }
    }
    this.rows.replaceChildren(
      ...levels.map((places, depth) =>
        el(
          'div',
          { class: 'pl-flame-row' },
          places.map(({ node, start, width }) => this.frame(node, depth, start, width)),
        ),
      ),
    );
    this.mark();
  }

  private frame(node: ScopeNode, depth: number, start: number, width: number): HTMLElement {
    const share = `${((100 * node.seconds) / this.profile.total).toFixed(1)} %`;
    const backward = node.backwardSeconds / (node.seconds || 1);
    const name = oneLine(node.name, 120);
    const frame = el(
      'button',
      {
        type: 'button',
        class: `pl-flame-frame ${backward > 0.5 ? 'pl-backward' : 'pl-forward'}`,
        title: `${name}\n${duration(node.seconds)}, ${share}${backward > 0 ? `, ${(100 * backward).toFixed(0)} % of it backward` : ''}`,
        'data-path': node.path,
      },
      name,
      el('small', {}, ` ${share}`),
    );
    frame.style.left = `${100 * start}%`;
    frame.style.width = `calc(${100 * width}% - 1px)`;
    frame.addEventListener('click', () => {
      const at = this.path.indexOf(node);
      this.path = at >= 0 ? this.path.slice(0, at + 1) : [...this.path, ...this.between(node)];
      this.draw();
      const isWhole = node === this.whole;
      if (isWhole ? this.selection.selected !== null : this.selection.selected?.title !== name) {
        this.selection.select(isWhole ? null : { operations: node.operations, title: name });
      }
    });
    frame.dataset['depth'] = String(depth);
    return frame;
  }

  /** Path from below the scope that fills the chart down to `node`. */
  private between(node: ScopeNode): ScopeNode[] {
    const steps: ScopeNode[] = [];
    let at = this.path.at(-1)!;
    while (at !== node) {
      const next = at.children.find(
        child => child === node || node.path.startsWith(`${child.path}/`),
      );
      if (next === undefined) {
        break;
      }
      steps.push(next);
      at = next;
    }
    return steps;
  }

  private mark(): void {
    const { selected } = this.selection;
    for (const frame of this.rows.querySelectorAll<HTMLElement>('.pl-flame-frame')) {
      frame.classList.toggle('pl-flame-faded', selected !== null && !this.touches(frame, selected));
    }
  }

  private touches(frame: HTMLElement, selected: { operations: ReadonlySet<number> }): boolean {
    let node: ScopeNode | undefined = this.whole;
    const path = frame.dataset['path'] ?? '';
    while (node !== undefined && node.path !== path) {
      node = node.children.find(child => child.path === path || path.startsWith(`${child.path}/`));
    }
    return node !== undefined && [...selected.operations].some(each => node.operations.has(each));
  }
}

export const flameStyle = `
.pl-flame-rows { padding: 8px 12px 12px; max-height: 420px; overflow-y: auto; }
.pl-flame-row { position: relative; height: 21px; }
.pl-flame-frame {
  position: absolute; top: 0; height: 20px; padding: 0; text-indent: 4px; border: 0; border-radius: 3px; overflow: hidden; text-align: left;
  white-space: nowrap; text-overflow: ellipsis; cursor: pointer; font: 11px/20px var(--pl-code) !important; color: var(--pl-text) !important;
}
.pl-flame-frame.pl-forward { background: color-mix(in srgb, var(--pl-accent) 32%, var(--pl-bg)); }
.pl-flame-frame.pl-backward { background: color-mix(in srgb, var(--pl-upstream) 34%, var(--pl-bg)); }
.pl-flame-frame:hover { filter: brightness(1.08); outline: 1px solid var(--pl-line-strong); }
.pl-flame-frame small { color: var(--pl-muted); }
.pl-flame-faded { opacity: 0.35; }
.pl-profile-hint { color: var(--pl-faint); }
.pl-profile-key > .pl-profile-hint::before { content: none; }
`;
