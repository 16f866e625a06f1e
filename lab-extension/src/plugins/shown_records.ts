import type { CommandRegistry } from '@lumino/commands';

import { mount, type Mounted } from '../components';
import { ProfileView } from '../components/profile/profile_view';
import type { ProgramRecord } from '../generated/introspect';
import type { TimelineRecord } from '../generated/profiler';
import { equationsAt, placesOf, type CellPlace } from '../records/cell_places';
import { makeLayoutWorker } from './layout_worker';
import { viewSettings } from './view_settings';

/** Commands with which a view tells the rest of the page what is pointed at, and opens in a tab. */
export const OPEN_COMMAND = 'pellucid:open-record';
export const TIMES_COMMAND = 'pellucid:show-line-times';
export const POINT_COMMAND = 'pellucid:point-at-lines';
/** Command that sends a request to the kernel of the notebook in front. */
export const ASK_COMMAND = 'pellucid:ask-kernel';

const shownRecords = new Set<Mounted>();

/** Shows `record` in `place`, and tells the page which lines of the user are pointed at. */
export function mountRecord(
  place: HTMLElement,
  record: unknown,
  text: string,
  commands: CommandRegistry,
): Mounted {
  const onPoint = (places: readonly CellPlace[], isShown: boolean): void => {
    if (commands.hasCommand(POINT_COMMAND)) {
      void commands.execute(POINT_COMMAND, { places: places as never, isShown });
    }
  };
  const point = (program: ProgramRecord, equations: ArrayLike<number>, isShown: boolean): void =>
    onPoint(placesOf(program, equations), isShown);
  const loadTimeline = async (
    session: number,
    begin_ns: number,
    end_ns: number,
    columns: number,
  ): Promise<TimelineRecord> => {
    const request = { kind: 'show_timeline', session, begin_ns, end_ns, columns };
    return (await commands.execute(ASK_COMMAND, { request })) as TimelineRecord;
  };
  const mounted = mount(place, record, {
    makeWorker: makeLayoutWorker,
    text,
    colorBy: viewSettings().colorBy,
    onHover: (program, equations) => point(program, equations, false),
    onSelect: (program, equations) => point(program, equations, true),
    profile: { onPoint, loadTimeline },
  });
  const view = mounted.view();
  if (view instanceof ProfileView && commands.hasCommand(TIMES_COMMAND)) {
    void commands.execute(TIMES_COMMAND, { times: view.lineTimes as never });
  }
  const shown = { ...mounted, dispose: end };
  function end(): void {
    shownRecords.delete(shown);
    mounted.dispose();
  }
  shownRecords.add(shown);
  return shown;
}

/** Lights up the equations that come from a line of a cell, in every view on the page; none without a line. */
export function pointAtEquations(place: CellPlace | null): void {
  for (const each of shownRecords) {
    const view = each.view();
    view?.highlight?.(
      (view.programs ?? []).map(({ record }) => (place === null ? [] : equationsAt(record, place))),
    );
  }
}
