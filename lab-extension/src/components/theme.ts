/** Colours and sizes, taken from the page's theme if it has one. */

import { FAMILIES, type Family } from '../records/families';
import type { Disposables } from './dom';

const LIGHT: Readonly<Record<string, string>> = {
  bg: 'var(--jp-layout-color1, var(--vscode-editor-background, #ffffff))',
  sunken: 'var(--jp-layout-color2, #f4f6f8)',
  surface: '#ffffff',
  'group-1': '#f5f7fa',
  'group-2': '#edf1f5',
  line: '#d5dce4',
  'line-strong': '#aab5c1',
  edge: '#a3afbd',
  text: 'var(--jp-ui-font-color1, var(--vscode-editor-foreground, #1c2733))',
  muted: 'var(--jp-ui-font-color2, #5c6b7a)',
  faint: '#8b98a6',
  accent: '#2563eb',
  'accent-soft': '#dbe7ff',
  'on-accent': '#ffffff',
  upstream: '#7c3aed',
  downstream: '#0d9488',
  mark: '#fff3c4',
  'mark-line': '#e0a500',
  amber: '#b45309',
  'amber-soft': '#fef0d8',
  'heat-low': '#fdf3e1',
  'heat-high': '#ef7d45',
  added: '#15803d',
  'added-soft': '#e0f5e6',
  removed: '#c2303b',
  'removed-soft': '#fde5e6',
  changed: '#8a5a00',
  'changed-soft': '#fdf1d6',
  shadow: 'rgba(20, 35, 55, 0.10)',
  contraction: '#3566d6',
  elementwise: '#5f7286',
  reduction: '#cf6a16',
  movement: '#a3adb8',
  indexing: '#8250df',
  control: '#168a67',
  collective: '#d1316b',
  random: '#b58900',
  creation: '#5b9bb5',
  host: '#b3261e',
  custom: '#6b8e14',
};

const DARK: Readonly<Record<string, string>> = {
  bg: 'var(--jp-layout-color1, var(--vscode-editor-background, #14171b))',
  sunken: 'var(--jp-layout-color2, #1c2025)',
  surface: '#2a2f36',
  'group-1': '#1d2126',
  'group-2': '#242930',
  line: '#3b434d',
  'line-strong': '#56616e',
  edge: '#5f6b79',
  text: 'var(--jp-ui-font-color1, var(--vscode-editor-foreground, #e3e8ee))',
  muted: 'var(--jp-ui-font-color2, #9aa6b4)',
  faint: '#76828f',
  accent: '#6ea0ff',
  'accent-soft': '#22365c',
  'on-accent': '#0c1524',
  upstream: '#b491ff',
  downstream: '#3fd0bd',
  mark: '#4a3f16',
  'mark-line': '#d9ab2b',
  amber: '#f2b04d',
  'amber-soft': '#43311a',
  'heat-low': '#3a3127',
  'heat-high': '#d8632b',
  added: '#63c584',
  'added-soft': '#1b3626',
  removed: '#f2888d',
  'removed-soft': '#432326',
  changed: '#e5b95c',
  'changed-soft': '#3d3319',
  shadow: 'rgba(0, 0, 0, 0.45)',
  contraction: '#7ba4ff',
  elementwise: '#95a5b8',
  reduction: '#f0985a',
  movement: '#727d89',
  indexing: '#b794ff',
  control: '#4cc79d',
  collective: '#ff7fa8',
  random: '#e0bb48',
  creation: '#83bcd3',
  host: '#ff8a80',
  custom: '#b2d05c',
};

function declarations(tokens: Readonly<Record<string, string>>): string {
  return Object.entries(tokens)
    .map(([name, value]) => `--pl-${name}: ${value};`)
    .join(' ');
}

/** Style of every view: colour variables and rules common to all components. */
export const baseStyle = `
:host { display: block; }
.pl-root[data-theme='light'] { ${declarations(LIGHT)} color-scheme: light; }
.pl-root[data-theme='dark'] { ${declarations(DARK)} color-scheme: dark; }
.pl-root {
  --pl-code: var(--jp-code-font-family, ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace);
  --pl-font: var(--jp-ui-font-family, system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif);
  position: relative; box-sizing: border-box; color: var(--pl-text); background: var(--pl-bg);
  font: 13px/1.45 var(--pl-font); text-align: left; -webkit-font-smoothing: antialiased;
}
.pl-root *, .pl-root *::before, .pl-root *::after { box-sizing: inherit; }
.pl-root button, .pl-root input, .pl-root select { font: inherit; color: inherit; }
.pl-root :focus-visible { outline: 2px solid var(--pl-accent); outline-offset: -1px; }
.pl-code { font-family: var(--pl-code); }
.pl-muted { color: var(--pl-muted); }
.pl-link, .pl-action {
  border: 1px solid var(--pl-line); border-radius: 5px; background: none; cursor: pointer; padding: 0 7px;
  font: 11px/18px var(--pl-code) !important; color: var(--pl-accent) !important;
}
.pl-action { font: 12px/24px var(--pl-font) !important; }
.pl-link:hover, .pl-action:hover, .pl-action[aria-pressed='true'] { background: var(--pl-accent-soft); }
.pl-icon-button {
  display: inline-flex; align-items: center; justify-content: center; width: 28px; height: 28px; padding: 0;
  border: 1px solid transparent; border-radius: 6px; background: none; cursor: pointer; color: var(--pl-muted);
}
.pl-icon-button:hover { background: var(--pl-sunken); color: var(--pl-text); }
.pl-icon-button[aria-pressed='true'] { background: var(--pl-accent-soft); color: var(--pl-accent); }
.pl-icon-button:disabled { opacity: 0.4; cursor: default; }
.pl-select {
  height: 28px; padding: 0 6px; border: 1px solid var(--pl-line); border-radius: 6px; background: var(--pl-bg);
}
.pl-chip {
  display: inline-block; padding: 0 7px; border-radius: 9px; background: var(--pl-sunken); color: var(--pl-muted);
  font-size: 11px; line-height: 18px; white-space: nowrap;
}
@container pl-root (max-width: 480px) { .pl-chip { white-space: normal; } }
.pl-offscreen {
  position: absolute; width: 1px; height: 1px; margin: -1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap;
}
`;

export interface Theme {
  readonly isDark: boolean;
  readonly code: string;
  readonly font: string;
  readonly family: Readonly<Record<Family, string>>;
  /** Colour of a token, such as `surface`. */
  readonly color: (token: string) => string;
}

/** Current colours of `root`, for use on a canvas. */
export function readTheme(root: HTMLElement): Theme {
  const style = getComputedStyle(root);
  const known = new Map<string, string>();
  const isDark = root.dataset['theme'] === 'dark';
  const fallback = isDark ? DARK : LIGHT;
  const color = (token: string): string => {
    let value = known.get(token);
    if (value === undefined) {
      value = style.getPropertyValue(`--pl-${token}`).trim() || fallback[token] || '#888888';
      known.set(token, value);
    }
    return value;
  };
  const family = Object.fromEntries(FAMILIES.map(name => [name, color(name)]));
  return {
    isDark,
    code: style.getPropertyValue('--pl-code').trim() || 'monospace',
    font: style.getPropertyValue('--pl-font').trim() || 'sans-serif',
    family: family as Record<Family, string>,
    color,
  };
}

/** Keeps `root` in the page's theme; calls `onChange` after each change. */
export function followTheme(root: HTMLElement, onDispose: Disposables, onChange: () => void): void {
  const apply = (): void => {
    const theme = isPageDark(root) ? 'dark' : 'light';
    if (root.dataset['theme'] !== theme) {
      root.dataset['theme'] = theme;
    }
    onChange();
  };
  const later = (): void => void setTimeout(apply, 30);
  const observer = new MutationObserver(later);
  for (const target of [document.documentElement, document.body]) {
    observer.observe(target, {
      attributes: true,
      attributeFilter: [
        'class',
        'style',
        'theme',
        'data-theme',
        'data-jp-theme-light',
        'data-jp-theme-name',
      ],
    });
  }
  onDispose.add(() => observer.disconnect());
  const dark = matchMedia('(prefers-color-scheme: dark)');
  dark.addEventListener('change', later);
  onDispose.add(() => dark.removeEventListener('change', later));
  apply();
}

function isPageDark(root: HTMLElement): boolean {
  const flag = document.body.dataset['jpThemeLight'];
  if (flag !== undefined) {
    return flag === 'false';
  }
  const host =
    root.getRootNode() instanceof ShadowRoot ? (root.getRootNode() as ShadowRoot).host : root;
  for (let element: Element | null = host; element !== null; element = element.parentElement) {
    const light = luminance(getComputedStyle(element).backgroundColor);
    if (light !== null) {
      return light < 0.4;
    }
  }
  const scheme = getComputedStyle(document.documentElement).colorScheme ?? '';
  return (
    scheme.includes('dark') &&
    (!scheme.includes('light') || matchMedia('(prefers-color-scheme: dark)').matches)
  );
}

/** Lightness of a computed colour, 0 to 1; null for a transparent one. */
function luminance(color: string): number | null {
  const numbers = color.match(/[\d.]+/g)?.map(Number) ?? [];
  const [red, green, blue, alpha = 1] = numbers;
  if (
    !color.startsWith('rgb') ||
    red === undefined ||
    green === undefined ||
    blue === undefined ||
    alpha < 0.5
  ) {
    return null;
  }
  return (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255;
}

/** Mixes two hexadecimal colours; `part` from 0 to 1. */
export function blend(low: string, high: string, part: number): string {
  const a = channels(low);
  const b = channels(high);
  const mixed = a.map((value, i) => Math.round(value + (b[i]! - value) * part));
  return `rgb(${mixed.join(', ')})`;
}

function channels(color: string): number[] {
  if (color.startsWith('#')) {
    const digits =
      color.length === 4 ? [...color.slice(1)].map(d => d + d).join('') : color.slice(1);
    return [0, 2, 4].map(i => parseInt(digits.slice(i, i + 2), 16));
  }
  return (color.match(/[\d.]+/g) ?? ['128', '128', '128']).slice(0, 3).map(Number);
}
