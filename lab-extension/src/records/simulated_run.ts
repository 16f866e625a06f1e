/** The events of a simulated run by lane. */

import type { SimulatedCoreRecord, SimulatedKernelRecord } from '../generated/introspect';

export interface SimulatedEvent {
  readonly lane: number;
  readonly kind: string;
  readonly begin: number;
  readonly end: number;
  /** Index into the run's lines. */
  readonly line: number;
  /** Index into the run's texts: a semaphore, or the buffers of a copy. */
  readonly label: number;
  /** Index into the run's texts: the position in the grid. */
  readonly program: number;
  readonly bytes: number;
  /** Number of events that it stands for. */
  readonly count: number;
  /** Steps of all of them. */
  readonly busy: number;
}

export class SimulatedRun {
  /** For each lane its events, in the order of their beginnings. */
  readonly lanes: readonly (readonly SimulatedEvent[])[];
  /** The kinds that occur. */
  readonly kinds: ReadonlySet<string>;
  /** When the last event ends; 1 without events. */
  readonly end: number;
  /** For each lane the index of its core. */
  private readonly cores: readonly number[];

  constructor(readonly record: SimulatedKernelRecord) {
    const { events, kinds } = record;
    this.cores = record.cores.flatMap((core, i) => Array<number>(core.lane_count).fill(i));
    const lanes: SimulatedEvent[][] = this.cores.map(() => []);
    const found = new Set<string>();
    let end = record.steps;
    events.lane.forEach((lane, i) => {
      const kind = kinds[events.kind_index[i]!] ?? '';
      found.add(kind);
      end = Math.max(end, events.end[i]!);
      lanes[lane]?.push({
        lane,
        kind,
        begin: events.begin[i]!,
        end: events.end[i]!,
        line: events.line[i]!,
        label: events.label[i]!,
        program: events.program[i]!,
        bytes: events.n_bytes[i]!,
        count: events.count[i]!,
        busy: events.busy[i]!,
      });
    });
    this.lanes = lanes;
    this.kinds = found;
    this.end = end > 0 ? end : 1;
  }

  /** Index of the core that a lane belongs to. */
  coreOf(lane: number): number {
    return this.cores[lane] ?? 0;
  }

  /** The lane of the core itself that a lane belongs to. */
  laneOfCore(lane: number): number {
    return this.record.cores[this.coreOf(lane)]!.first_lane;
  }

  /** The event of a lane at a time, or the nearest within `reach`; the shortest of several. */
  eventAt(lane: number, time: number, reach: number): SimulatedEvent | null {
    let nearest: SimulatedEvent | null = null;
    let best = Infinity;
    for (const event of this.lanes[lane] ?? []) {
      const away = Math.max(event.begin - time, time - event.end, 0);
      if (away > reach) {
        continue;
      }
      // A signal takes no time, so it is chosen where the pointer is close to it.
      const rank = away * 1e6 + (event.end - event.begin);
      if (rank < best) {
        [nearest, best] = [event, rank];
      }
    }
    return nearest;
  }

  /** What a mark says: the code of its line, or of a wait what it is for. */
  shortText(event: SimulatedEvent): string {
    const label = this.record.strings[event.label] ?? '';
    if (event.kind === 'stuck' || event.kind === 'wait') {
      return label
        .replace(/^(copy of|waits for .*? of semaphore) /, '')
        .replaceAll(/ in \w+( of device \d+)?|`/g, '')
        .replace(' to ', ' → ');
    }
    const code = /: `(.*)`$/s.exec(this.record.lines[event.line]!.text);
    return code?.[1] ?? '';
  }
}

/** Name of a core: that of its device, if this has no other. */
export function coreName(record: SimulatedKernelRecord, core: SimulatedCoreRecord): string {
  const hasOthers = record.cores.length > record.device_count;
  return `device ${core.device}${hasOthers ? `, core ${core.core}` : ''}`;
}
