"""Records of a session's parts besides operations: collectives, compilation, host, transfers, memory, peaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from pellucid_profiler.counters import IN_USE
from pellucid_profiler.live_arrays import LiveArrays
from pellucid_profiler.live_buffers import ProgramMemory
from pellucid_profiler.schema import (
    CallbackColumns,
    CollectiveColumns,
    CompileStepColumns,
    CounterRecord,
    HeapColumns,
    HostColumns,
    LiveArrayColumns,
    PeaksRecord,
    ProgramMemoryRecord,
    TransferColumns,
)
from pellucid_profiler.session_tables import SessionTables
from pellucid_profiler.sources import SourceLine
from pellucid_profiler.text import line_number_text
from pellucid_profiler.xspace import Column

MAX_STEPS = 400
"""Maximum number of compile steps in a record; shorter steps are summed by program and phase."""
MAX_BUFFERS = 40
"""Maximum number of the buffers at a program's peak in a record."""
MAX_POINTS = 1000
"""Maximum number of points in a plot over time; each point is the maximum of its interval."""

_Text = Callable[[str], int]


def part_records(session: SessionTables, positions: Column, string: _Text) -> dict[str, Any]:
    """The fields of `ProfileRecord` for these parts; `positions` has where each of `infos` is listed, or -1."""
    memory = sorted(session.memory.items(), key=lambda item: -item[1].peak_bytes)
    return {
        "collectives": _collectives(session, positions, string),
        "compile_steps": _steps(session, string),
        "host": HostColumns(
            thread=[string(row.thread) for row in session.host],
            activity=[string(row.activity) for row in session.host],
            seconds=[row.seconds for row in session.host],
            count=[row.count for row in session.host],
        ),
        "transfers": _transfers(session, string),
        "callbacks": CallbackColumns(
            function=[string(row.function) for row in session.callbacks],
            place=[string(_place(session, row.place)) for row in session.callbacks],
            count=[row.count for row in session.callbacks],
            seconds=[row.seconds for row in session.callbacks],
            thread_count=[row.thread_count for row in session.callbacks],
        ),
        "live_arrays": _live_arrays(session.live_arrays),
        "heap": HeapColumns(
            place=[string(_place(session, row.place)) for row in session.heap],
            begin_bytes=[row.begin_bytes for row in session.heap],
            peak_bytes=[row.peak_bytes for row in session.heap],
            end_bytes=[row.end_bytes for row in session.heap],
            end_count=[row.end_count for row in session.heap],
        ),
        "counters": [
            _counter(session.names[name], device, time_ns, value)
            for name, device, time_ns, value in session.counters.series()
        ],
        "memory": [_memory(session, number, each) for number, each in memory],
        "peaks": None if session.peaks is None else PeaksRecord(**session.peaks._asdict()),
    }


def _place(session: SessionTables, place: SourceLine | None) -> str:
    return "" if place is None else line_number_text(session.sources, place.file, place.line)


def _collectives(session: SessionTables, positions: Column, string: _Text) -> CollectiveColumns:
    rows = session.by_collective()
    infos = [session.infos[row.info] for row in rows]
    return CollectiveColumns(
        operation=[int(positions[row.info]) for row in rows],
        place=[string(session.place_texts_of_infos[row.info]) for row in rows],
        name=[string(info.label) for info in infos],
        axes=[string(", ".join(info.axes)) for info in infos],
        group_size=[info.group_size for info in infos],
        count=[row.count for row in rows],
        sent_bytes=[row.count * info.sent_bytes for row, info in zip(rows, infos, strict=True)],
        wait_seconds=[row.wait_seconds for row in rows],
        work_seconds=[row.work_seconds for row in rows],
        straggler=[row.straggler for row in rows],
    )


def _steps(session: SessionTables, string: _Text) -> CompileStepColumns:
    steps = session.compile_steps
    rows = [
        (step.program, step.phase, step.name, _place(session, step.place), step.count, step.seconds, step.thread_seconds)
        for step in steps[:MAX_STEPS]
    ]  # fmt: skip
    shorter: dict[tuple[str, str], list[float]] = {}
    for step in steps[MAX_STEPS:]:
        total = shorter.setdefault((step.program, step.phase), [0, 0.0, 0.0])
        for i, value in enumerate((step.count, step.seconds, step.thread_seconds)):
            total[i] += value
    rows += [
        (program, phase, "shorter ones", "", int(count), seconds, thread_seconds)
        for (program, phase), (count, seconds, thread_seconds) in shorter.items()
    ]
    return CompileStepColumns(
        program=[string(row[0]) for row in rows],
        phase=[string(row[1]) for row in rows],
        name=[string(row[2]) for row in rows],
        place=[string(row[3]) for row in rows],
        count=[row[4] for row in rows],
        seconds=[row[5] for row in rows],
        thread_seconds=[row[6] for row in rows],
    )


def _transfers(session: SessionTables, string: _Text) -> TransferColumns:
    rows = session.by_transfer()
    return TransferColumns(
        place=[string(_place(session, row.place)) for row in rows],
        direction=[string(row.direction.replace("_", " ")) for row in rows],
        count=[row.count for row in rows],
        bytes=[row.n_bytes for row in rows],
    )


def _highest(values: npt.NDArray[Any]) -> list[int]:
    """Rows of at most `MAX_POINTS` values, each the maximum of one of equally long intervals."""
    width = max(1, -(-len(values) // MAX_POINTS))
    starts = range(0, len(values), width)
    return [start + int(np.argmax(values[start : start + width])) for start in starts]


def _counter(
    name: str, device: int, time_ns: Column, value: npt.NDArray[np.float64]
) -> CounterRecord:
    rows = _highest(value)
    return CounterRecord(
        name=name, device=device, is_bytes=name == IN_USE,
        time_ns=time_ns[rows].tolist(), value=value[rows].tolist(),
    )  # fmt: skip


def _live_arrays(samples: LiveArrays) -> LiveArrayColumns:
    rows = _highest(samples.n_bytes)
    return LiveArrayColumns(
        time_ns=samples.time_ns[rows].tolist(),
        bytes=samples.n_bytes[rows].tolist(),
        count=samples.count[rows].tolist(),
    )


def _memory(session: SessionTables, number: int, memory: ProgramMemory) -> ProgramMemoryRecord:
    program = session.programs[number]
    live = np.array(memory.live_bytes, np.int64)
    width = max(1, -(-len(live) // MAX_POINTS))
    parts = np.arange(0, len(live), width)
    highest = np.maximum.reduceat(live, parts) if len(live) else live
    changes = np.flatnonzero(np.r_[True, highest[1:] != highest[:-1]]) if len(live) else parts
    buffers = memory.at_peak[:MAX_BUFFERS]
    places: list[str] = []
    for each in buffers:
        info = program.instructions.get(each.instruction)
        share = max(info.shares, key=lambda share: share.share) if info and info.shares else None
        places.append(_place(session, share.place if share else None))
    return ProgramMemoryRecord(
        program=program.name,
        instruction_count=len(live),
        positions=parts[changes].tolist(),
        live_bytes=highest[changes].tolist(),
        peak=memory.peak,
        peak_instruction=memory.instructions[memory.peak] if len(live) else "",
        peak_bytes=memory.peak_bytes,
        allocated_bytes=memory.allocated_bytes,
        buffer_names=[each.instruction for each in buffers],
        buffer_places=places,
        buffer_kinds=[each.kind for each in buffers],
        buffer_bytes=[each.n_bytes for each in buffers],
    )
