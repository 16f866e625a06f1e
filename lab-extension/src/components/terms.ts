/** Glossary of field terms, explained in tooltips and by a page of the documentation. */

import { el, type Content } from './dom';

interface Term {
  /** Explanation in one sentence. */
  readonly sentence: string;
  /** Additional text on the page `docs/terms.md`. */
  readonly more: string;
}

/** The same texts are on the page `docs/terms.md`; a test compares them. */
export const TERMS: Readonly<Record<string, Term>> = {
  jaxpr: {
    sentence: 'The program that tracing a Python function gives: a list of typed equations.',
    more: 'Every transformation takes such a program and gives another one. Python runs only while it is traced.',
  },
  StableHLO: {
    sentence: 'The portable form of a program that is handed to the compiler.',
    more: 'It has the same values as the jaxpr, in operations that XLA knows, with shardings as annotations.',
  },
  HLO: {
    sentence: 'The program as XLA optimized it, with fusions and collectives: what devices run.',
    more: 'Several operations of the jaxpr become one fusion here, and others appear that XLA added.',
  },
  fusion: {
    sentence:
      'Several operations that XLA computes in one kernel, without storing what lies between.',
    more: 'Values inside of a fusion take no memory of their own and cost no traffic.',
  },
  kernel: {
    sentence: 'One piece of compiled code that a device starts as a whole.',
    more: 'A fusion, a library call such as a matrix product, and a copy are kernels.',
  },
  collective: {
    sentence: 'An exchange in which all devices along a mesh axis take part.',
    more: 'all-reduce, all-gather, reduce-scatter, all-to-all and collective-permute are those that the partitioner inserts.',
  },
  spec: {
    sentence: 'For each dimension of an array the mesh axes that split it; None where it is whole.',
    more: "P('data', None) splits dimension 0 over the axis data and leaves dimension 1 whole; all other axes hold copies.",
  },
  replicated: {
    sentence: 'Held as an equal copy by several devices.',
    more: 'Copies cost memory on each device and save exchanges.',
  },
  resharding: {
    sentence: 'An exchange that only changes which device holds which part of a value.',
    more: 'It computes nothing, so that another sharding of the operands often avoids it.',
  },
  'partial results are combined': {
    sentence:
      'A sum or product runs over a dimension that is split, so that each device has a part of each result.',
    more: 'The parts are added by an all-reduce, or by a reduce-scatter where the result is split, too.',
  },
  'donated arguments': {
    sentence: 'Arguments whose memory the results may take, because the caller gave them away.',
    more: 'pl.jit(f, donate_argnums=0) donates; the array can’t be read afterwards.',
  },
  'of a Python number': {
    sentence:
      'The type came from a Python number and gives way to the dtypes of arrays that it meets.',
    more: 'Such types are called weak. A call with jnp.asarray(x, dtype) in its place is compiled once for all.',
  },
  traced: {
    sentence: 'The Python function ran once with abstract values, to write down its program.',
    more: 'A call with the same shapes and dtypes skips this.',
  },
  lowered: {
    sentence: 'The program was written in the input language of the compiler, StableHLO.',
    more: 'It happens once for each program and placement, before compiling.',
  },
  compiled: {
    sentence: 'XLA made machine code of the program for one placement of its arguments.',
    more: 'A call with the same types and placements skips this.',
  },
  'discharge references': {
    sentence: 'Reads and writes of mutable references become ordinary values.',
    more: 'The compiler knows values alone. A program without references passes through unchanged.',
  },
  'inline small calls': {
    sentence: 'The equations of small inner functions take the place of their calls.',
    more: 'It saves the compiler work that would come to the same program.',
  },
  'remove dead equations': {
    sentence: 'Equations whose results nobody uses are left out.',
    more: 'Effects such as callbacks are kept.',
  },
  'pass constants as arguments': {
    sentence: 'Arrays that the function closed over are handed to the executable with each call.',
    more: 'They would otherwise be copied into the executable.',
  },
  'lower to StableHLO': {
    sentence: 'Each equation is written in operations of the compiler’s input language.',
    more: 'Shardings, scopes and source lines go along as annotations.',
  },
  'compile with XLA': {
    sentence: 'XLA optimizes the program and makes machine code of it.',
    more: 'It takes most of the time of a first call.',
  },
  'measured time': {
    sentence: 'Time of operations that belong to one line alone, as the device recorded it.',
    more: 'Nothing of it is split or guessed.',
  },
  'estimated time': {
    sentence:
      'Time of fused operations of several lines, split among the lines by the estimated cost of each equation.',
    more: 'The time of the whole operation is measured; only its parts are estimates.',
  },
  'time of no line': {
    sentence: 'Time of operations that XLA added, and of eager ones without profile(lines=True).',
    more: 'It is in the times of operations and programs, and in that of no line.',
  },
  busy: {
    sentence: 'The share of the session in which at least one operation ran on a device.',
    more: 'In the rest devices waited for Python, for transfers or for a compilation.',
  },
  'backward pass': {
    sentence: 'The operations that compute a gradient, after those of the function itself.',
    more: 'They belong to the line of the forward pass that they differentiate.',
  },
  'flops per byte': {
    sentence: 'Arithmetic operations for each byte that an operation reads or writes.',
    more: 'It is also called arithmetic intensity. Where it is low, memory bounds the speed.',
  },
  roofline: {
    sentence: 'The fastest rate that the machine allows an operation with so many flops per byte.',
    more: 'It rises as long as memory traffic bounds the rate, and is level where arithmetic does.',
  },
  waiting: {
    sentence: 'From the arrival of a device at an exchange until the last device has arrived.',
    more: 'Less of it needs devices that are equally loaded, not a faster network.',
  },
  working: {
    sentence: 'From the arrival of the last device at an exchange until the exchange is complete.',
    more: 'It falls with the bytes that are sent, or with a faster network.',
  },
  scope: {
    sentence: 'A name for the operations that are traced inside of it, such as a layer.',
    more: 'pl.named_scope("layer") sets one; the functions that are called form the others.',
  },
  callback: {
    sentence: 'A Python function that compiled code calls while it runs.',
    more: 'Devices wait for its result.',
  },
  transfer: {
    sentence: 'A copy of an array between the host and a device, or between devices.',
    more: 'Arguments that stay on their devices from call to call need none.',
  },
  buffer: {
    sentence: 'A piece of a device’s memory that holds a value while the program runs.',
    more: 'Several values share one if they are never needed at once.',
  },
  cotangent: {
    sentence: 'The derivative of the result with respect to a value, in the shape of that value.',
    more: 'The backward pass computes those of all values on the way from the result to the arguments.',
  },
  norm: {
    sentence: 'The square root of the sum of the squares of all elements.',
    more: 'Bars of norms are on a logarithmic scale.',
  },
  growth: {
    sentence: 'The error of an operation as a multiple of the largest error of its operands.',
    more: 'It is new where all operands are equal in both runs and the result differs.',
  },
  position: {
    sentence: 'One place in the mesh of a shard_map, where the function runs on its own parts.',
    more: 'A value has one part for each position.',
  },
};

const NAMES = Object.keys(TERMS).sort((a, b) => b.length - a.length);
const PATTERN = new RegExp(`(?<![\\w-])(${NAMES.join('|')})s?(?![\\w-])`, 'gi');
const BY_LOWER_CASE = new Map(NAMES.map(name => [name.toLowerCase(), name]));

/** A word with a tooltip that explains it on hover or focus; Enter opens the page of all terms. */
export function termed(name: string, text = name): HTMLElement {
  const term = TERMS[name];
  if (term === undefined) {
    return el('span', {}, text);
  }
  const word = el(
    'span',
    {
      class: 'pl-term',
      tabindex: 0,
      'aria-description': term.sentence,
      'aria-haspopup': 'dialog',
    },
    text,
  );
  // The note is only in the page while visible, so that the surrounding text doesn't change.
  let note: HTMLElement | null = null;
  const show = (): void => {
    if (note !== null || !word.isConnected) {
      return;
    }
    const link = el('button', { type: 'button', tabindex: -1 }, 'All terms (docs/terms.md)');
    // Keeps the focus on the word: otherwise the note would disappear before the click.
    link.addEventListener('pointerdown', event => event.preventDefault());
    link.addEventListener('click', open);
    note = el(
      'span',
      { class: 'pl-term-note', role: 'tooltip', popover: 'manual' },
      term.sentence,
      el('span', { class: 'pl-muted' }, term.more),
      link,
    );
    word.append(note);
    note.showPopover?.();
    const { left, bottom, top } = word.getBoundingClientRect();
    const { width, height } = note.getBoundingClientRect();
    const isBelow = bottom + height + 60 < innerHeight;
    note.style.left = `${Math.max(4, Math.min(left, innerWidth - width - 4))}px`;
    note.style.top = `${isBelow ? bottom : Math.max(4, top - height)}px`;
  };
  const hide = (): void => {
    note?.remove();
    note = null;
  };
  const open = (event: Event): void => {
    event.preventDefault();
    event.stopPropagation();
    hide();
    openTerms(word, name);
  };
  word.addEventListener('pointerenter', show);
  word.addEventListener('pointerleave', hide);
  word.addEventListener('focus', show);
  word.addEventListener('blur', hide);
  word.addEventListener('keydown', event => {
    if (event.key === 'Escape') {
      hide();
    } else if (event.key === 'Enter') {
      open(event);
    }
  });
  return word;
}

/**
 * Opens the list of all terms at one of them, as an overlay within the view, which needs no server.
 */
function openTerms(word: HTMLElement, name: string): void {
  const page = el(
    'dialog',
    { class: 'pl-terms', 'aria-label': 'Terms' },
    el(
      'form',
      { method: 'dialog' },
      el('strong', {}, 'Terms'),
      el('button', { autofocus: true }, 'Close'),
    ),
    el(
      'dl',
      {},
      Object.entries(TERMS).map(([each, { sentence, more }]) => [
        el('dt', { 'aria-current': each === name ? 'true' : null }, each),
        el('dd', {}, sentence, ' ', el('span', { class: 'pl-muted' }, more)),
      ]),
    ),
  );
  page.addEventListener('close', () => page.remove());
  page.addEventListener('click', event => event.target === page && page.close());
  page.addEventListener('keydown', event => event.stopPropagation());
  (word.closest<HTMLElement>('.pl-root') ?? document.body).append(page);
  page.showModal();
  page.querySelector('[aria-current]')!.scrollIntoView({ block: 'center' });
}

/** A text in which the first use of each term has a tooltip. */
export function withTerms(text: string): Content[] {
  const parts: Content[] = [];
  const explained = new Set<string>();
  let end = 0;
  for (const match of text.matchAll(PATTERN)) {
    const [used, word] = match as unknown as [string, string];
    const name = BY_LOWER_CASE.get(word.toLowerCase())!;
    if (!explained.has(name)) {
      explained.add(name);
      parts.push(text.slice(end, match.index), termed(name, used));
      end = match.index + used.length;
    }
  }
  return [...parts, text.slice(end)];
}

/** The explanation of a control's label; undefined if it isn't a term. */
export function sentenceOf(label: string): string | undefined {
  const lower = label.toLowerCase();
  const name = BY_LOWER_CASE.get(lower) ?? BY_LOWER_CASE.get(lower.replace(/s$/, ''));
  return name === undefined ? undefined : TERMS[name]!.sentence;
}

export const termsStyle = `
.pl-term { cursor: help; text-decoration: underline dotted var(--pl-faint, gray) 1px; text-underline-offset: 3px; }
.pl-term-note, .pl-terms {
  border: 1px solid var(--pl-line-strong, var(--jp-border-color1)); border-radius: 6px;
  background: var(--pl-surface, var(--jp-layout-color1)); color: var(--pl-text, var(--jp-ui-font-color1));
  font: 12px/1.45 var(--pl-font, var(--jp-ui-font-family)); text-align: left; white-space: normal; cursor: auto;
}
.pl-term-note { position: fixed; inset: auto; margin: 0; max-width: min(320px, 90vw); padding: 8px 10px; box-shadow: 0 2px 10px var(--pl-shadow, #0003); }
.pl-term-note > span { display: block; margin-top: 4px; }
.pl-term-note > button { margin-top: 6px; }
.pl-term-note > button, .pl-terms > form > button {
  border: 1px solid var(--pl-line, var(--jp-border-color2)); border-radius: 5px; background: none; cursor: pointer; padding: 0 7px;
  color: var(--pl-accent, var(--jp-brand-color1)); font: 12px/20px var(--pl-font, var(--jp-ui-font-family));
}
.pl-terms { box-sizing: border-box; width: min(560px, 94vw); max-height: 80vh; padding: 0; overflow: auto; }
.pl-terms::backdrop { background: rgba(0, 0, 0, 0.35); }
.pl-terms > form { position: sticky; top: 0; display: flex; align-items: center; justify-content: space-between; padding: 8px 14px; border-bottom: 1px solid var(--pl-line, var(--jp-border-color2)); background: inherit; font-size: 13px; }
.pl-terms > dl { margin: 6px 0 10px; }
.pl-terms dt { margin-top: 6px; padding: 4px 14px 0; font-weight: 600; }
.pl-terms dd { margin: 0; padding: 0 14px 4px; }
.pl-terms [aria-current], .pl-terms [aria-current] + dd { background: var(--pl-accent-soft, var(--jp-layout-color3)); }
`;
