import type { CommandRegistry } from '@lumino/commands';

import { mount, type Mounted } from '../components';
import type { ProgramRecord } from '../generated/introspect';
import { equationsAt, placesOf, type CellPlace } from '../records/cell_places';
import { makeLayoutWorker } from './layout_worker';
import { viewSettings } from './view_settings';

/** Commands with which a view tells the rest of the page what is pointed at, and opens in a tab. */
export const OPEN_COMMAND = 'pellucid:open-record';
export const POINT_COMMAND = 'pellucid:point-at-lines';

const shownRecords = new Set<Mounted>();

/** Shows `record` in `place`, and tells the page which lines of the user are pointed at. */
export function mountRecord(
  place: HTMLElement,
  record: unknown,
  text: string,
  commands: CommandRegistry,
): Mounted {
  const point = (program: ProgramRecord, equations: ArrayLike<number>, isShown: boolean): void => {
    if (commands.hasCommand(POINT_COMMAND)) {
      const places = placesOf(program, equations) as never;
      void commands.execute(POINT_COMMAND, { places, isShown });
    }
  };
  const mounted = mount(place, record, {
    makeWorker: makeLayoutWorker,
    text,
    colorBy: viewSettings().colorBy,
    onHover: (program, equations) => point(program, equations, false),
    onSelect: (program, equations) => point(program, equations, true),
  });
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
