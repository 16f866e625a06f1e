/** Words of the field that views use, each explained by a sentence where it stands, and further by the documentation. */

import { el, type Content } from './dom';

interface Term {
  /** One sentence. */
  readonly sentence: string;
  /** What the page `docs/terms.md` says beyond it. */
  readonly more: string;
}

/** The page `docs/terms.md` has the same texts; a test compares them. */
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
};

const NAMES = Object.keys(TERMS).sort((a, b) => b.length - a.length);
const PATTERN = new RegExp(`(?<![\\w-])(${NAMES.join('|')})s?(?![\\w-])`, 'g');

/** A word that explains itself when it is pointed at or has the focus. */
export function termed(name: string, text = name): HTMLElement {
  const term = TERMS[name];
  if (term === undefined) {
    return el('span', {}, text);
  }
  const word = el(
    'span',
    { class: 'pl-term', tabindex: 0, 'aria-description': term.sentence },
    text,
  );
  // The note is in the page only while it is seen, so that texts around it stay what they are.
  let note: HTMLElement | null = null;
  const show = (): void => {
    if (note !== null || !word.isConnected) {
      return;
    }
    note = el(
      'span',
      { class: 'pl-term-note', role: 'tooltip', popover: 'manual' },
      term.sentence,
      el('span', { class: 'pl-muted' }, ` ${term.more} `, el('code', {}, 'docs/terms.md')),
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
  word.addEventListener('pointerenter', show);
  word.addEventListener('pointerleave', hide);
  word.addEventListener('focus', show);
  word.addEventListener('blur', hide);
  word.addEventListener('keydown', event => event.key === 'Escape' && hide());
  return word;
}

/** A text in which the first use of each term explains itself. */
export function withTerms(text: string): Content[] {
  const parts: Content[] = [];
  const explained = new Set<string>();
  let end = 0;
  for (const match of text.matchAll(PATTERN)) {
    const [used, name] = match as unknown as [string, string];
    if (!explained.has(name)) {
      explained.add(name);
      parts.push(text.slice(end, match.index), termed(name, used));
      end = match.index + used.length;
    }
  }
  return [...parts, text.slice(end)];
}

/** The sentence of a term, for controls whose label it is; none for a word that isn't one. */
export function sentenceOf(name: string): string | undefined {
  return TERMS[name]?.sentence;
}

export const termsStyle = `
.pl-term { cursor: help; text-decoration: underline dotted var(--pl-faint) 1px; text-underline-offset: 3px; }
.pl-term-note {
  position: fixed; inset: auto; margin: 0; max-width: min(320px, 90vw); padding: 8px 10px; border: 1px solid var(--pl-line-strong);
  border-radius: 6px; background: var(--pl-surface); color: var(--pl-text); box-shadow: 0 2px 10px var(--pl-shadow);
  font: 12px/1.45 var(--pl-font); white-space: normal; cursor: auto;
}
.pl-term-note > span { display: block; margin-top: 4px; }
.pl-term-note code { font: 11px var(--pl-code); }
`;
