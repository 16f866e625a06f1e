"""Records of runs of kernels in the simulator: when each core computed and waited, when copies were in flight, and which lines waited longest."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from pellucid._machine.base import ArgumentTypeError, by_tool, source
from pellucid._machine.runtime.transfer import block_until_ready
from pellucid._machine.tracing import name_of
from pellucid.introspect import schema
from pellucid.introspect.spans import source_record
from pellucid.kernels.simulator.call import recorded
from pellucid.kernels.simulator.machine import Core, Event, Machine
from pellucid.kernels.simulator.params import InterpretParams, force_tpu_interpret_mode

MAX_RUNS = 16
"""Maximum number of runs in a record."""
MAX_EVENTS = 8192
"""Maximum number of events of a run; above, those that lie close together are joined."""
MAX_COPY_LANES = 4
MAX_WAITS = 40
_KINDS = {kind: i for i, kind in enumerate(schema.SIMULATED_KINDS)}
_TIMELESS = ("read", "write")
"""Events without a place in the timeline: what they access takes no time of its own."""


@by_tool
def kernel_timelines(
    function: Callable[..., Any], *args: Any, params: InterpretParams | None = None
) -> schema.KernelTimelinesRecord:
    """Runs a function with its kernels in the simulator, and records what their cores and copies did.

    `params` are those of the simulator, for kernels whose calls state none. A run that fails is in the record up to
    there, with its error: a deadlock, a race, an access out of bounds. Other errors of the function are raised.

    Raises: ArgumentTypeError for other `params`.

    >>> from pellucid.experimental.pallas import pallas_call
    >>> def double(x_ref, o_ref):
    ...     o_ref[...] = x_ref[...] * 2
    >>> x = np.zeros((8, 128), np.float32)
    >>> [run] = kernel_timelines(pallas_call(double, x), x).kernels
    >>> run.steps, run.copied_bytes  # 4 KiB in, 1024 elements, 4 KiB out
    (11.0, 8192)
    """
    if params is not None and not isinstance(params, InterpretParams):  # pyright: ignore[reportUnnecessaryIsInstance]  # of users
        raise ArgumentTypeError(
            "timeline: params are those of the simulator.",
            got=f"got {type(params).__name__}",
            do="Write params=tpu.InterpretParams(detect_races=True), or leave them out.",
        )
    with recorded() as machines, force_tpu_interpret_mode(params or InterpretParams()):
        try:
            block_until_ready(function(*args))
        except Exception as error:
            if all(machine.failure is not error for machine in machines):
                raise
    return machine_timelines(machines, name_of(function))


def machine_timelines(machines: Sequence[Any], name: str = "") -> schema.KernelTimelinesRecord:
    """The record of machines that have run, as `recorded` gives them."""
    if not all(isinstance(machine, Machine) for machine in machines):
        raise ArgumentTypeError(
            "the timeline needs a function, or machines of the simulator.",
            got=f"got {', '.join([type(each).__name__ for each in machines])}"[:80],
            do="Write pl.viz.timeline(f)(x).",
        )
    runs = _runs(machines)
    shown = [_Run(run).record() for run in runs[:MAX_RUNS]]
    if not name:
        name = shown[0].name if shown else ""
    return schema.KernelTimelinesRecord(
        name=name, kernels=shown, hidden_count=max(0, len(runs) - MAX_RUNS)
    )


def _runs(machines: Iterable[Machine]) -> list[list[Machine]]:
    """Machines by run of a kernel: devices that don't reach each other have a machine each, in any order."""
    runs: dict[Any, list[Machine]] = {}
    calls: Counter[Any] = Counter()
    for machine in machines:
        call = id(machine) if machine.call is None else id(machine.call)
        place = call, machine.first_device
        runs.setdefault((call, calls[place]), []).append(machine)
        calls[place] += 1
    for run in runs.values():
        run.sort(key=lambda machine: machine.first_device)
    return [*runs.values()]


class _Mark(NamedTuple):
    """An event in its lane; `number` of them, with `busy` steps together."""

    lane: int
    kind: str
    begin: float
    end: float
    source: Any
    label: str
    program: str
    n_bytes: int
    number: int = 1
    busy: float = 0.0


class _Run:
    """A run of a kernel, as one machine, or one for each device."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        self.machines = machines
        self._strings: dict[str, int] = {"": 0}
        self._lines: dict[Any, int] = {}
        self._line_records: list[schema.SimulatedLineRecord] = []
        self._n_lanes = 0

    def record(self) -> schema.SimulatedKernelRecord:
        """The record of the run."""
        ends = [event.end for machine in self.machines for event in machine.trace]
        steps = max(ends, default=0.0)
        failures = [m.failure for m in self.machines if m.failure is not None]
        cores: list[schema.SimulatedCoreRecord] = []
        marks: list[_Mark] = []
        for machine in self.machines:
            events: defaultdict[tuple[int, int], list[Event]] = defaultdict(list)
            for event in machine.trace:
                events[event.device, event.core].append(event)
            for core in sorted(machine.cores, key=lambda core: (core.device, core.core)):
                own = events[core.device, core.core]
                cores.append(self._core(machine, core, own, marks, steps))
        waits = [mark for mark in marks if mark.kind == "wait"]
        copies = [e for machine in self.machines for e in machine.trace if e.kind == "copy"]
        return schema.SimulatedKernelRecord(
            name=self.machines[0].name,
            device_count=sum(machine.n_devices for machine in self.machines),
            steps=_rounded(steps),
            cores=cores,
            events=self._columns(_join(marks)),
            kinds=[*schema.SIMULATED_KINDS],
            event_count=len(marks),
            waits=self._waits(waits, len(cores), steps),
            copied_bytes=sum([e.n_bytes for e in copies]),
            sent_bytes=sum([e.n_bytes for e in copies if e.route == "send"]),
            fault=str(failures[0]) if failures else "",
            # Texts and lines last: what comes before has collected them.
            strings=[*self._strings],
            lines=self._line_records,
        )

    def _core(
        self, machine: Machine, core: Core, events: list[Event], marks: list[_Mark], steps: float
    ) -> schema.SimulatedCoreRecord:
        """The record of a core, whose marks are added to `marks`."""
        first = self._n_lanes
        own = [
            _Mark(first, e.kind, e.start, e.end, e.source, e.buffer, e.program, 0)
            for e in events
            if e.kind not in (*_TIMELESS, "copy") and (e.end > e.start or e.kind == "signal")
        ]
        stuck = ""
        # What never ends is drawn a bit further than all that does.
        forever = max([steps, *[each.time for each in machine.cores]]) * 1.1 + 0.5
        if machine.is_deadlocked and core.waiting is not None:
            stuck = core.waiting.text()
            own.append(
                _Mark(first, "stuck", core.time, forever, core.source, stuck, core.program, 0)
            )
        if machine.failure is not None and machine.current is core:
            what = str(machine.failure).partition("\n")[0]
            own.append(
                _Mark(first, "fault", core.time, core.time, core.source, what, core.program, 0)
            )
        copies = _in_lanes([*_copies(machine, core, events, forever)], first + 1)
        n_copy_lanes = max([mark.lane for mark in copies], default=first) - first
        self._n_lanes = first + 1 + n_copy_lanes
        marks += sorted(own, key=lambda mark: mark.begin)
        marks += sorted(copies, key=lambda mark: (mark.lane, mark.begin))
        computes = _union([(m.begin, m.end) for m in own if m.kind == "compute"])
        flights = _union([(m.begin, m.end) for m in copies])
        return schema.SimulatedCoreRecord(
            device=machine.first_device + core.device,
            core=core.core,
            compute_steps=_rounded(_length(computes)),
            wait_steps=_rounded(sum([m.end - m.begin for m in own if m.kind == "wait"])),
            copy_steps=_rounded(_length(flights)),
            hidden_steps=_rounded(_length(_common(computes, flights))),
            end=_rounded(core.time),
            first_lane=first,
            lane_count=1 + n_copy_lanes,
            stuck=stuck,
        )

    def _waits(
        self, marks: Iterable[_Mark], n_cores: int, steps: float
    ) -> list[schema.SimulatedWaitRecord]:
        """The lines at which cores waited, and for what, the longest first."""
        by_line: defaultdict[tuple[int, str], list[_Mark]] = defaultdict(list)
        for mark in marks:
            by_line[self._line(mark.source), _awaited(mark.label)].append(mark)
        found = [
            schema.SimulatedWaitRecord(
                line=line,
                what=what,
                steps=_rounded(sum([m.end - m.begin for m in own])),
                count=len(own),
                core_count=len({m.lane for m in own}),
                share=round(sum([m.end - m.begin for m in own]) / (steps * n_cores or 1.0), 6),
            )
            for (line, what), own in by_line.items()
        ]
        return sorted(found, key=lambda wait: -wait.steps)[:MAX_WAITS]

    def _columns(self, marks: Sequence[_Mark]) -> schema.SimulatedEventColumns:
        return schema.SimulatedEventColumns(
            lane=[m.lane for m in marks],
            kind_index=[_KINDS[m.kind] for m in marks],
            begin=[_rounded(m.begin) for m in marks],
            end=[_rounded(m.end) for m in marks],
            line=[self._line(m.source) for m in marks],
            label=[self._string(m.label) for m in marks],
            program=[self._string(m.program.removeprefix(" in ")) for m in marks],
            n_bytes=[m.n_bytes for m in marks],
            count=[m.number for m in marks],
            busy=[_rounded(m.busy if m.number > 1 else m.end - m.begin) for m in marks],
        )

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def _line(self, captured: Any) -> int:
        """The index of a user's line, by the traceback of what is at it."""
        number = self._lines.get(captured)
        if number is None:
            frame = source.user_frame(captured)
            key = None if frame is None else (frame.file, frame.line)
            number = self._lines.get(key)
            if number is None:
                number = self._lines[key] = len(self._line_records)
                self._line_records.append(
                    schema.SimulatedLineRecord(
                        source=None
                        if frame is None
                        else source_record(frame.file, (frame.line, frame.end_line)),
                        line=0 if frame is None else frame.line,
                        text=source.describe(captured) or "no line of yours",
                    )
                )
            self._lines[captured] = number
        return number


def _copies(
    machine: Machine, core: Core, events: Iterable[Event], forever: float
) -> Iterator[_Mark]:
    """The copies that a core has started, in lane 0; of a run that failed, those in flight, too, up to `forever`."""
    for e in events:
        if e.kind == "copy":
            yield _Mark(0, e.route or "within", e.start, e.end, e.source, e.buffer, e.program, e.n_bytes)  # fmt: skip
    if machine.failure is not None:
        for copy in machine.in_flight:
            if copy.core is core:
                end = min(copy.ends, forever)
                yield _Mark(0, "in flight", copy.time, end, copy.source, copy.brief(), copy.program, copy.n_bytes)  # fmt: skip


def _in_lanes(copies: list[_Mark], first: int) -> list[_Mark]:
    """Copies in lanes from `first` on, so that those in flight at once lie in different ones; more than four share the last."""
    ends: list[float] = []
    """When the last copy of each lane ends."""
    placed: list[_Mark] = []
    for mark in sorted(copies, key=lambda mark: (mark.begin, mark.end)):
        lane = next((i for i, end in enumerate(ends) if end <= mark.begin), len(ends))
        lane = min(lane, MAX_COPY_LANES - 1)
        if lane == len(ends):
            ends.append(mark.end)
        else:
            ends[lane] = max(ends[lane], mark.end)
        placed.append(mark._replace(lane=first + lane))
    return placed


def _join(marks: Sequence[_Mark]) -> list[_Mark]:
    """At most `MAX_EVENTS` marks, or little more: neighbours of one kind in a lane are joined where the gaps between them are small."""
    shown = [*marks]
    total = max([mark.end for mark in marks], default=0.0)
    reach = total / 4096
    while len(shown) > MAX_EVENTS and reach < total:
        joined: list[_Mark] = []
        for mark in shown:
            before = joined[-1] if joined else None
            if (
                before is None
                or (before.lane, before.kind) != (mark.lane, mark.kind)
                or mark.end - before.begin > reach
            ):
                joined.append(mark)
                continue
            # The longer one stands for both, by its line and label.
            main = max(before, mark, key=lambda m: m.end - m.begin)
            joined[-1] = main._replace(
                begin=before.begin,
                end=max(before.end, mark.end),
                n_bytes=before.n_bytes + mark.n_bytes,
                number=before.number + mark.number,
                busy=_busy(before) + _busy(mark),
            )
        shown, reach = joined, reach * 2
    return shown


def _busy(mark: _Mark) -> float:
    return mark.busy if mark.number > 1 else mark.end - mark.begin


_DEVICE = re.compile(r" of device \d+(, core \d+)?|\[[\d, ]+\]$|`")


def _awaited(label: str) -> str:
    """What a wait waits for, equal for all devices and for all positions of an array of semaphores."""
    return _DEVICE.sub("", _DEVICE.sub("", label))


# Intervals ------------------------------------------------------------------------------------------------------


def _union(intervals: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Disjoint intervals with the same points, ascending."""
    found: list[tuple[float, float]] = []
    for begin, end in sorted(intervals):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return found


def _common(
    a: Sequence[tuple[float, float]], b: Sequence[tuple[float, float]]
) -> list[tuple[float, float]]:
    """The points that two lists of disjoint ascending intervals have in common."""
    found: list[tuple[float, float]] = []
    i = k = 0
    while i < len(a) and k < len(b):
        begin, end = max(a[i][0], b[k][0]), min(a[i][1], b[k][1])
        if begin < end:
            found.append((begin, end))
        if a[i][1] < b[k][1]:
            i += 1
        else:
            k += 1
    return found


def _length(intervals: Iterable[tuple[float, float]]) -> float:
    return sum([end - begin for begin, end in intervals])


def _rounded(steps: float) -> float:
    return round(steps, 4)
