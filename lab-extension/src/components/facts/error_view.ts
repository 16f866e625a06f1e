/** An error raised by pellucid: message, user lines, full traceback in a collapsed section. */

import type { DifferenceRecord, ErrorFrameRecord, ErrorRecord } from '../../generated/introspect';
import { el, withCode, type Content } from '../dom';
import { oneLine } from '../format';
import { lineLink, type NotebookLines, type ProgramEvents } from '../source_link';
import { tableOf } from '../table';
import { FactsView } from './facts_view';

const LINES_AROUND = 2;

/** View of an error: what failed, what was given or how it differs, and what to do. */
export function errorView(record: ErrorRecord, { notebook }: ProgramEvents = {}): FactsView {
  return new FactsView(
    [el('span', { class: 'pl-error-name' }, oneLine(record.name, 60)), ' ', withCode(record.what)],
    [],
    // Records written by the first versions have no differences.
    (record.differences ?? []).length > 0
      ? record.differences.map(differenceTable)
      : record.got.length > 0
        ? el(
            'ul',
            { class: 'pl-error-got' },
            record.got.map(each => el('li', {}, el('code', {}, oneLine(each, 300)))),
          )
        : null,
    record.do === null ? null : el('p', { class: 'pl-error-do' }, withCode(record.do)),
    // Records written by the first versions have no page.
    (record.page ?? null) === null
      ? null
      : el('p', {}, 'More: ', addressOf(oneLine(record.page!, 200))),
    record.frames.map(frame => frameOf(frame, notebook)),
    el(
      'details',
      { class: 'pl-error-details' },
      el('summary', {}, 'The whole traceback'),
      el('pre', { class: 'pl-code' }, record.traceback),
    ),
  );
}

/** A link for a web page; the path of a file as text. */
function addressOf(page: string): HTMLElement {
  return page.startsWith('https:')
    ? el('a', { href: page, target: '_blank', rel: 'noopener' }, page)
    : el('code', {}, page);
}

/** Both sides of one path of a tree, with the words that only one side has marked. */
function differenceTable(difference: DifferenceRecord): HTMLElement {
  const { path, left, right } = difference;
  return tableOf(
    `Difference at ${oneLine(path, 60)}`,
    [{ name: 'at' }, { name: difference.left_title }, { name: difference.right_title }],
    [
      [
        el('code', {}, oneLine(path, 200)),
        el('code', {}, wordsBeside(left, right)),
        el('code', {}, wordsBeside(right, left)),
      ],
    ],
  );
}

function wordsBeside(text: string, other: string): Content[] {
  const known = new Set(other.split(/[\s,]+/));
  return oneLine(text, 300)
    .split(/([\s,]+)/)
    .map((word, index) =>
      index % 2 === 1 || known.has(word) ? word : el('mark', { class: 'pl-error-word' }, word),
    );
}

function frameOf(frame: ErrorFrameRecord, notebook: NotebookLines | undefined): Content {
  const where = frame.function === '<module>' ? '' : `, in ${oneLine(frame.function, 60)}`;
  const first = frame.source.first_line;
  const lines = (frame.source.lines ?? [])
    .map((text, index) => ({ text, number: first + index }))
    .filter(
      ({ number }) =>
        number >= frame.line - LINES_AROUND && number <= frame.end_line + LINES_AROUND,
    );
  const link = lineLink(frame.source, frame.line, notebook, frame.end_line);
  return [
    el('p', { class: 'pl-muted' }, link, where),
    el(
      'pre',
      { class: 'pl-code pl-error-lines' },
      lines.map(({ text, number }) =>
        el(
          'span',
          { class: number >= frame.line && number <= frame.end_line ? 'pl-error-line' : null },
          el('span', { class: 'pl-muted' }, `${String(number).padStart(4)}  `),
          ...marked(text, number, frame),
        ),
      ),
    ),
  ];
}

/** The text of a line, with the failing part underlined. */
function marked(text: string, number: number, frame: ErrorFrameRecord): Content[] {
  const isWhole = frame.column < 0 || number !== frame.line || frame.end_line !== frame.line;
  // Columns count UTF-8 bytes, so they are only used for ASCII lines.
  if (isWhole || frame.end_column > text.length || !/^[\x20-\x7e\t]*$/.test(text)) {
    return [text];
  }
  return [
    text.slice(0, frame.column),
    el('u', {}, text.slice(frame.column, frame.end_column)),
    text.slice(frame.end_column),
  ];
}

export const errorStyle = `
.pl-error-name { color: var(--pl-removed); }
.pl-error-got { margin: 8px 12px 0; padding-left: 18px; }
.pl-error-lines, .pl-error-details pre { margin: 0 12px 8px; padding: 6px 8px; font-size: 12px; overflow-x: auto; background: var(--pl-sunken); border-radius: 6px; }
.pl-error-lines > span { display: block; }
.pl-error-word { background: var(--pl-removed-soft); color: inherit; border-radius: 3px; padding: 0 2px; }
.pl-error-line { background: var(--pl-removed-soft); }
.pl-error-line u { text-decoration-color: var(--pl-removed); text-decoration-thickness: 2px; text-underline-offset: 3px; }
.pl-error-details { margin: 4px 0 8px; }
.pl-error-details summary { margin: 0 12px 6px; cursor: pointer; color: var(--pl-muted); }
`;
