/** Displays any record in an element, or a notice if that fails. */

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
import { kernelChoiceStyle } from './kernel_choice';
import { MemoriesView, memoriesStyle } from './simulator/memories_view';
import { TimelinesView, timelinesStyle } from './simulator/timelines_view';
import { functionCard, functionsStyle, type OpenProgram } from './facts/functions_list';
import { ArrayValuesView, arrayValuesStyle, type ArrayEvents } from './values/array_values_view';
import { canvasPaneStyle } from './canvas_pane';
import { sourceLinkStyle, type NotebookLines, type ProgramEvents } from './source_link';
import { failureNotice, failureStyle } from './failure';
import { tableStyle } from './table';
import { termsStyle } from './terms';
import { baseStyle, followTheme } from './theme';

/** Minimum height of a view of fixed size, so that its controls fit. */
const MIN_HEIGHT = 200;

/**
 * Returns a function that enlarges `place` to the height its view reports, up to `most` pixels; it
 * never shrinks.
 */
export function growing(place: HTMLElement, most: number): (height: number) => void {
  let tallest = MIN_HEIGHT;
  return height => {
    tallest = Math.max(tallest, height);
    place.style.height = `${Math.min(most, tallest)}px`;
  };
}

/** A part of the page that displays one record. */
export interface View {
  readonly element: HTMLElement;
  /** Resolves when the view has content. */
  readonly ready: Promise<void>;
  /** Whether the view is as high as its content; other views fill their container. */
  readonly isFlowing?: boolean;
  /** The programs that the view displays. */
  readonly programs?: readonly Program[];
  /** Highlights equations of each of `programs`, as if they were pointed at. */
  readonly highlight?: (equations: readonly (readonly number[])[]) => void;
  readonly themeChanged: () => void;
  readonly dispose: () => void;
}

/** Options and callbacks that connect a view with the page around it. */
export interface ViewOptions {
  /** Creates the worker for large layouts; without it, layouts run on the main thread. */
  readonly makeWorker?: WorkerFactory;
  /** Plain text to show if the view fails. */
  readonly text?: string;
  /** Name of the cost by which a program's graph is initially coloured. */
  readonly colorBy?: string;
  readonly onHover?: (program: ProgramRecord, equations: ArrayLike<number>) => void;
  /** Equations that were selected; empty when a selection ends. */
  readonly onSelect?: (program: ProgramRecord, equations: ArrayLike<number>) => void;
  /** The lines of the notebooks around the view. */
  readonly notebook?: NotebookLines;
  /**
   * Height in pixels at which a view of fixed size shows its initial content completely; may be
   * called again.
   */
  readonly onHeight?: (height: number) => void;
  /** Label of the edge of a program's value, instead of its type. */
  readonly edgeLabel?: (value: number) => string | undefined;
  /** Requests another placement of a function; without it, the view has no controls. */
  readonly onPlacement?: (request: PlacementRequest) => void;
  /** Callbacks of a profile's view. */
  readonly profile?: ProfileEvents;
  /** Loads slices and shards of arrays. */
  readonly arrays?: ArrayEvents;
  /** Opens a view of a cached program of a jitted function. */
  readonly openProgram?: OpenProgram;
}

export interface Mounted {
  /** Displays another record in the same place. */
  readonly show: (record: unknown) => void;
  readonly dispose: () => void;
  /** The view, for tests and measurements; null if it failed. */
  readonly view: () => View | null;
}

let sharedLayouts: LayoutClient | null = null;

/** Displays `record`, as JSON text or parsed, inside `host`. */
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
    kernelChoiceStyle,
    gridStyle,
    timelinesStyle,
    memoriesStyle,
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
    case 'kernel_memories':
      return new MemoriesView(root, record, events.notebook);
    case 'kernel_timelines':
      return new TimelinesView(root, record, events.notebook);
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
