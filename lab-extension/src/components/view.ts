/** Shows a record in an element, whatever its kind, and stands in for it when that fails. */

import { LayoutClient, type WorkerFactory } from '../layout/client';
import type { ProgramRecord } from '../generated/introspect';
import { Program } from '../records/program';
import { readRecord, type AnyRecord } from '../records/reading';
import { Disposables, el } from './dom';
import { DiffView, diffStyle } from './diff/diff_view';
import { LadderView, ladderStyle } from './panes/ladder_view';
import { LensView } from './panes/lens_view';
import { linkedPanesStyle } from './panes/linked_panes';
import { compiledStyle, compiledView } from './facts/compiled_view';
import { errorStyle, errorView } from './facts/error_view';
import { memoryView } from './facts/memory_view';
import { missesView, recompilationNote, recompilationStyle } from './facts/misses_view';
import { explorerStyle, ProgramExplorer } from './explorer/program_explorer';
import { ArrayView, arrayStyle, placedArrayOf } from './sharding/array_view';
import { FunctionShardingView, functionShardingStyle } from './sharding/function_view';
import { comparisonStyle, comparisonView } from './profile/comparison_view';
import { ProfileView, profileStyle, type ProfileEvents } from './profile/profile_view';
import { WhatIfView, whatIfStyle, type PlacementRequest } from './sharding/what_if_view';
import { divergenceStyle, divergenceView } from './debugger/divergence_view';
import { findingView } from './debugger/finding_view';
import { gradientStyle, gradientView } from './debugger/gradient_view';
import { RecordingView, recordingStyle } from './debugger/recording_view';
import { unequalRunsView } from './debugger/unequal_runs_view';
import { namedValueStyle } from './debugger/way_and_values';
import { GridView, gridStyle } from './grid/grid_view';
import { functionCard, functionsStyle, type OpenProgram } from './facts/functions_list';
import { ArrayValuesView, arrayValuesStyle, type ArrayEvents } from './values/array_values_view';
import { canvasPaneStyle } from './canvas_pane';
import { sourceLinkStyle, type NotebookLines, type ProgramEvents } from './source_link';
import { failureNotice, failureStyle } from './failure';
import { tableStyle } from './table';
import { termsStyle } from './terms';
import { baseStyle, followTheme } from './theme';

/** Lower views of fixed size have no room for their controls. */
const LEAST_HEIGHT = 200;

/** Makes a place as high as its view wants it, up to `most` pixels; it never shrinks again. */
export function growing(place: HTMLElement, most: number): (height: number) => void {
  let tallest = LEAST_HEIGHT;
  return height => {
    tallest = Math.max(tallest, height);
    place.style.height = `${Math.min(most, tallest)}px`;
  };
}

/** A part of the page that shows one record. */
export interface View {
  readonly element: HTMLElement;
  /** Resolves when there is something to see. */
  readonly ready: Promise<void>;
  /** Whether it is as high as its content; other views fill their place. */
  readonly isFlowing?: boolean;
  /** The programs that it shows. */
  readonly programs?: readonly Program[];
  /** Lights up equations, for each of `programs`, as if they were pointed at. */
  readonly highlight?: (equations: readonly (readonly number[])[]) => void;
  readonly themeChanged: () => void;
  readonly dispose: () => void;
}

/** What a view is told by the page around it, and tells it. */
export interface ViewOptions {
  /** Makes the worker for large layouts; without it they run on the page's thread. */
  readonly makeWorker?: WorkerFactory;
  /** Shown instead of the view where it fails: the same as plain text. */
  readonly text?: string;
  /** Name of the cost that a program's graph is coloured by at first. */
  readonly colorBy?: string;
  readonly onHover?: (program: ProgramRecord, equations: ArrayLike<number>) => void;
  /** Selected equations; none where a selection ends. */
  readonly onSelect?: (program: ProgramRecord, equations: ArrayLike<number>) => void;
  /** The lines of the notebooks around the view, to go to. */
  readonly notebook?: NotebookLines;
  /** Height in pixels at which a view of fixed size shows all it has to show at first; said again when it grows. */
  readonly onHeight?: (height: number) => void;
  /** What stands on the edge of a value of a program, in place of its type. */
  readonly edgeLabel?: (value: number) => string | undefined;
  /** Asks for another placement of a function; without it none can be asked for. */
  readonly onPlacement?: (request: PlacementRequest) => void;
  /** What a view of a profiled session asks of the page. */
  readonly profile?: ProfileEvents;
  /** Asks for slices and parts of arrays. */
  readonly arrays?: ArrayEvents;
  /** Opens a view of a program in the cache of a jitted function. */
  readonly openProgram?: OpenProgram;
}

export interface Mounted {
  /** Shows another record in the same place. */
  readonly show: (record: unknown) => void;
  readonly dispose: () => void;
  /** The view, for tests and measurements; null where it failed. */
  readonly view: () => View | null;
}

let sharedLayouts: LayoutClient | null = null;

/** Shows `record`, JSON text or what one parses to, inside `host`. */
export function mount(host: HTMLElement, record: unknown, options: ViewOptions = {}): Mounted {
  sharedLayouts ??= new LayoutClient(options.makeWorker ?? null);
  const layouts = sharedLayouts;
  const shadow = host.shadowRoot ?? host.attachShadow({ mode: 'open' });
  const style = document.createElement('style');
  style.textContent = [
    baseStyle,
    viewStyle,
    failureStyle,
    sourceLinkStyle,
    canvasPaneStyle,
    explorerStyle,
    arrayStyle,
    functionShardingStyle,
    linkedPanesStyle,
    ladderStyle,
    diffStyle,
    tableStyle,
    termsStyle,
    compiledStyle,
    errorStyle,
    profileStyle,
    comparisonStyle,
    whatIfStyle,
    recordingStyle,
    divergenceStyle,
    namedValueStyle,
    gradientStyle,
    gridStyle,
    arrayValuesStyle,
    recompilationStyle,
    functionsStyle,
  ].join('\n');
  const root = el('div', { class: 'pl-root' });
  shadow.replaceChildren(style, root);
  const disposables = new Disposables();
  let view: View | null = null;
  followTheme(root, disposables, () => view?.themeChanged());

  const fail = (error: unknown): void => {
    view?.dispose();
    view = null;
    const text = options.text ?? '';
    root.classList.remove('pl-sized');
    host.classList.add('pl-flowing');
    root.replaceChildren(
      failureNotice('This view', error),
      ...(text === '' ? [] : [el('pre', { class: 'pl-code pl-fallback' }, text)]),
    );
  };
  const show = (next: unknown): void => {
    try {
      const read = readRecord(next);
      if (view instanceof WhatIfView && read.kind === 'what_if') {
        view.update(read);
        return;
      }
      view?.dispose();
      view = null;
      const made = viewOf(read, root, layouts, options);
      view = made;
      made.ready.catch((error: unknown) => {
        if (view === made) {
          fail(error);
        }
      });
      root.classList.toggle('pl-sized', view.isFlowing !== true);
      host.classList.toggle('pl-flowing', view.isFlowing === true);
      root.replaceChildren(view.element);
    } catch (error) {
      fail(error);
    }
  };
  show(record);
  return {
    show,
    view: () => view,
    dispose: () => {
      view?.dispose();
      view = null;
      disposables.dispose();
      root.replaceChildren();
    },
  };
}

function viewOf(
  record: AnyRecord,
  root: HTMLElement,
  layouts: LayoutClient,
  options: ViewOptions,
): View {
  const events: ProgramEvents = {
    onHover: (program, equations) => options.onHover?.(program.record, equations),
    onSelect: (program, equations) => options.onSelect?.(program.record, equations),
    notebook: options.notebook,
    onHeight: options.onHeight,
  };
  switch (record.kind) {
    case 'program': {
      const program = new Program(record);
      const explorer = new ProgramExplorer(root, program, layouts, {
        ...events,
        edgeLabel: options.edgeLabel,
      });
      explorer.colorBy(program.cost('time') === undefined ? (options.colorBy ?? '') : 'time');
      return explorer;
    }
    case 'sharding':
      return new ArrayView(root, placedArrayOf(record), events, options.arrays);
    case 'function_sharding':
      return new FunctionShardingView(root, record, layouts, events);
    case 'lens':
      return new LensView(root, record, events);
    case 'ladder':
      return new LadderView(root, record, events);
    case 'diff':
      return new DiffView(root, record, events);
    case 'compiled':
      return compiledView(record, events);
    case 'memory':
      return memoryView(record);
    case 'miss':
      return missesView([record]);
    case 'misses':
      return record.is_note === true ? recompilationNote(record.misses) : missesView(record.misses);
    case 'profile':
      return new ProfileView(root, record, { ...options.profile, notebook: options.notebook });
    case 'profile_comparison':
      return comparisonView(record);
    case 'what_if':
      return new WhatIfView(root, record, options.onPlacement, options.notebook);
    case 'array_values':
      return new ArrayValuesView(root, record, options.arrays);
    case 'function':
      return functionCard(record, options.openProgram);
    case 'divergence':
      return divergenceView(record, events);
    case 'finding':
      return findingView(root, record, events);
    case 'unequal_runs':
      return unequalRunsView(root, record, events);
    case 'gradient':
      return gradientView(record, events);
    case 'kernel_grids':
      return new GridView(root, record, events.notebook);
    case 'recording':
      return new RecordingView(record);
    case 'error':
      return errorView(record, events);
    default:
      throw new Error(
        `records of kind ${JSON.stringify((record as { kind: unknown }).kind)} have no view`,
      );
  }
}

const viewStyle = `
:host(.pl-flowing) { height: auto !important; }
.pl-root { container: pl-root / inline-size; height: 100%; border: 1px solid var(--pl-line); border-radius: 8px; overflow: hidden; }
.pl-root:not(.pl-sized) { height: auto; max-height: 100%; overflow: auto; }
.pl-fallback { margin: 0; padding: 12px 14px; white-space: pre; overflow: auto; font-size: 12px; }
`;
