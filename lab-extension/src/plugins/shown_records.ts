import type { CommandRegistry } from '@lumino/commands';

import { mount, type Mounted } from '../components';
import { ProfileView } from '../components/profile/profile_view';
import { WhatIfView, type PlacementRequest } from '../components/sharding/what_if_view';
import type { ArrayValuesRecord, ProgramRecord, WhatIfRecord } from '../generated/introspect';
import type { ArraySliceRecord, Shown } from '../generated/kernel';
import type { TimelineRecord } from '../generated/profiler';
import {
  GO_EVENT,
  STATE_EVENT,
  equationsAt,
  placesOf,
  type CellPlace,
  type PlaceQuestion,
  type PlaceState,
} from '../records/cell_places';
import type { Asked } from '../panels/panel';
import { makeLayoutWorker } from './layout_worker';
import { viewSettings } from './view_settings';

/** Commands that open a view in a tab, and show times of lines. */
export const OPEN_COMMAND = 'pellucid:open-record';
export const TIMES_COMMAND = 'pellucid:show-line-times';
/** Command that stops the debugger where an error (given by its number) was raised. */
export const STOP_COMMAND = 'pellucid:stop-at-failure';
/** Command that opens a session (given by its number) in the Perfetto UI. */
export const PERFETTO_COMMAND = 'pellucid:open-perfetto';
/** Command that sends a request to the kernel of the active notebook. */
export const ASK_COMMAND = 'pellucid:ask-kernel';

/** The lines of cells in all open notebooks. */
export interface CellLines {
  /**
   * Highlights lines while something is pointed at or, with `isSelected`, until others are
   * selected.
   */
  readonly point: (places: readonly CellPlace[], isSelected: boolean) => void;
  /** Goes to a line, with a link back to `origin`. */
  readonly go: (place: CellPlace, origin: Origin) => void;
  readonly stateOf: (place: CellPlace) => PlaceState;
}

/** The view from which the user went to a line. */
export interface Origin {
  readonly title: string;
  readonly element: HTMLElement;
}

const shownRecords = new Set<Mounted>();
let cellLines: CellLines | null = null;
/** The view whose selection is highlighted in cells. */
let selecting: HTMLElement | null = null;

/** Provides the lines of cells to all views. */
export function setCellLines(lines: CellLines): void {
  cellLines = lines;
  document.addEventListener(GO_EVENT, event => {
    const { detail } = event as CustomEvent<CellPlace>;
    lines.go(detail, { title: 'the widget', element: document.activeElement as HTMLElement });
  });
  document.addEventListener(STATE_EVENT, event => {
    const { detail } = event as CustomEvent<PlaceQuestion>;
    detail.state = lines.stateOf(detail.place);
  });
}

/** Displays `record` in `place`, and reports user lines that are pointed at. */
export function mountRecord(
  place: HTMLElement,
  record: unknown,
  text: string,
  commands: CommandRegistry,
  onHeight?: (height: number) => void,
): Mounted {
  const onPoint = (places: readonly CellPlace[], isSelected: boolean): void => {
    if (isSelected) {
      selecting = place;
    }
    cellLines?.point(places, isSelected);
  };
  const point = (program: ProgramRecord, equations: ArrayLike<number>, isSelected: boolean): void =>
    onPoint(placesOf(program, equations), isSelected);
  const { name, kind } = (record ?? {}) as { name?: unknown; kind?: unknown };
  const origin = { title: String(name ?? kind ?? 'the view').slice(0, 40), element: place };
  const ask = async <T>(request: Asked): Promise<T> =>
    (await commands.execute(ASK_COMMAND, { request: request as never })) as T;
  const loadTimeline = (
    session: number,
    begin_ns: number,
    end_ns: number,
    columns: number,
  ): Promise<TimelineRecord> => {
    return ask<TimelineRecord>({ kind: 'show_timeline', session, begin_ns, end_ns, columns });
  };
  const figure = kind === 'what_if' ? (record as WhatIfRecord).figure : '';
  let shownFigure = figure;
  const onPlacement = ({ axes, dims, searchUnder }: PlacementRequest): void => {
    const names = axes.map(([each]) => each);
    const sizes = axes.map(([, size]) => size);
    ask<WhatIfRecord>({
      kind: 'show_placement',
      figure: shownFigure,
      axis_names: names,
      axis_sizes: sizes,
      dim_axes: dims.map(each => each.map(named => [...named])),
      search_under: searchUnder,
    }).then(
      answer => {
        shownFigure = answer.figure;
        mounted.show(answer);
      },
      (error: unknown) => {
        const view = mounted.view();
        if (view instanceof WhatIfView) {
          view.unanswered(error instanceof Error ? error.message : String(error));
        }
      },
    );
  };
  const mounted = mount(place, record, {
    ...(figure ? { onPlacement } : {}),
    makeWorker: makeLayoutWorker,
    text,
    colorBy: viewSettings().colorBy,
    onHover: (program, equations) => point(program, equations, false),
    onSelect: (program, equations) => point(program, equations, true),
    notebook: {
      go: to => cellLines?.go(to, origin),
      stateOf: to => cellLines?.stateOf(to) ?? 'absent',
    },
    arrays: {
      loadSlice: (array, index, dims) =>
        ask<ArraySliceRecord>({
          kind: 'show_array_slice',
          array,
          index: [...index],
          dims: [...dims],
        }),
      loadValues: (array, device) => ask<ArrayValuesRecord>({ kind: 'show_array', array, device }),
    },
    openProgram: async (entry, view, title) => {
      const shown = await ask<Shown>({ kind: 'show_program', entry, view });
      await commands.execute(OPEN_COMMAND, { record: shown as never, title });
    },
    profile: {
      onPoint,
      loadTimeline,
      openPerfetto: session => void commands.execute(PERFETTO_COMMAND, { session }),
    },
    ...(onHeight === undefined ? {} : { onHeight }),
  });
  const view = mounted.view();
  if (view instanceof ProfileView && commands.hasCommand(TIMES_COMMAND)) {
    void commands.execute(TIMES_COMMAND, { times: view.lineTimes as never });
  }
  const shown = { ...mounted, dispose: end };
  function end(): void {
    shownRecords.delete(shown);
    cellLines?.point([], false);
    if (selecting === place) {
      onPoint([], true);
      selecting = null;
    }
    mounted.dispose();
  }
  shownRecords.add(shown);
  return shown;
}

/** Highlights the equations of a line of a cell in all views on the page; none if null. */
export function pointAtEquations(place: CellPlace | null): void {
  for (const each of shownRecords) {
    const view = each.view();
    view?.highlight?.(
      (view.programs ?? []).map(({ record }) => (place === null ? [] : equationsAt(record, place))),
    );
  }
}
