"""Timelines: operations by device and calls by thread. Spans too short to be visible are merged into tiles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pellucid_profiler.calls import alone
from pellucid_profiler.marks import shown_name
from pellucid_profiler.schema import LaneRecord, TileColumns, TimelineRecord
from pellucid_profiler.session_tables import SessionTables
from pellucid_profiler.xspace import Column

DEFAULT_COLUMNS = 1000
"""Number of equal parts of a timeline: spans shorter than one are merged."""
MAX_TILES = 12_000
"""Maximum number of tiles; timelines with many lanes have a lower resolution."""
MAX_ROWS_OF_DEVICE = 6
"""Maximum number of rows for operations that overlap on one device. The last row contains the rest, overlapping."""
MAX_ROWS_OF_THREAD = 3


class _Row(NamedTuple):
    """Spans in one row of a timeline, sorted by start."""

    lane: LaneRecord
    start_ns: Column
    end_ns: Column
    operation: Column
    name: Column


def timeline(
    session: SessionTables,
    begin_ns: int = 0,
    end_ns: int | None = None,
    columns: int = DEFAULT_COLUMNS,
    positions: Column | None = None,
) -> TimelineRecord:
    """The timeline of a session between two times.

    `positions[i]` is the row of `session.infos[i]` in the record; by default they are listed in order.

    >>> with pl.profiler.profile() as recorded:
    ...     y = jnp.sin(1.0)
    >>> "host" in {lane.kind for lane in timeline(recorded.wait()).lanes}
    True
    """
    end_ns = session.wall_ns if end_ns is None else end_ns
    positions = np.arange(len(session.infos)) if positions is None else positions
    rows = list(_rows(session, positions))
    columns = max(1, min(columns, MAX_TILES // (2 * max(1, len(rows)))))
    width = max((end_ns - begin_ns) / columns, 1.0)
    parts = [_tiles(row, number, begin_ns, end_ns, width) for number, row in enumerate(rows)]
    no_row = (np.zeros(0, np.int64),)
    of_rows: list[tuple[Column, ...]] = [*zip(*parts, strict=True)] if parts else [no_row] * 7
    lane, start, end, operation, name, count, busy = map(np.concatenate, of_rows)
    used, numbers = np.unique(name, return_inverse=True)
    return TimelineRecord(
        begin_ns=int(begin_ns),
        end_ns=int(end_ns),
        lanes=[row.lane for row in rows],
        names=[shown_name(session.sources, session.names[int(i)]) for i in used],
        tiles=TileColumns(
            lane=lane.tolist(), start_ns=start.tolist(), end_ns=end.tolist(), operation=operation.tolist(),
            name=numbers.reshape(-1).tolist(), count=count.tolist(), busy_ns=busy.tolist(),
        ),
        is_whole=bool((count == 1).all()),
    )  # fmt: skip


def _rows(session: SessionTables, positions: Column) -> Iterator[_Row]:
    ops, spans = session.operations, session.spans
    for thread in np.unique(session.calls.thread):
        rows = np.flatnonzero(spans.thread == thread)
        lane = LaneRecord(name=session.threads[int(thread)], kind="host")
        none = np.full(len(rows), -1)
        yield from _apart(
            _Row(lane, spans.start_ns[rows], spans.end_ns[rows], none, spans.name[rows]),
            MAX_ROWS_OF_THREAD,
            is_complete=False,
        )
    for device in np.unique(ops.device):
        rows = np.flatnonzero(ops.device == device)
        lane = LaneRecord(name=f"device {device}", kind="device")
        numbers = positions[session.info_of_operation[rows]]
        yield from _apart(
            _Row(lane, ops.start_ns[rows], ops.end_ns[rows], numbers, ops.instruction[rows]),
            MAX_ROWS_OF_DEVICE,
            is_complete=True,
        )


def _apart(spans: _Row, limit: int, *, is_complete: bool) -> Iterator[_Row]:
    """Splits spans into at most `limit` rows without overlaps. The last row keeps overlapping spans if `is_complete`."""
    order = np.lexsort((-spans.end_ns, spans.start_ns))
    reached = [-1] * limit
    start_ns, end_ns = spans.start_ns[order], spans.end_ns[order]
    apart = alone(start_ns, end_ns)
    row_of = np.where(apart, 0, limit - 1 if is_complete else limit)
    crossing = np.flatnonzero(~apart)
    times = (column[crossing].tolist() for column in (start_ns, end_ns))
    for i, start, end in zip(crossing.tolist(), *times, strict=True):
        for row in range(limit):
            if reached[row] <= start:
                row_of[i], reached[row] = row, end
                break
    for row in range(limit):
        chosen = order[row_of == row]
        if chosen.size:
            yield _Row(spans.lane, *(column[chosen] for column in spans[1:]))


def _tiles(
    row: _Row, number: int, begin_ns: int, end_ns: int, width: float
) -> tuple[Column, Column, Column, Column, Column, Column, Column]:
    """(lanes, starts, ends, operations, names, counts, busy times) of one row's tiles."""
    chosen = np.flatnonzero((row.end_ns >= begin_ns) & (row.start_ns <= end_ns))
    start, end, operation, name = (column[chosen] for column in row[1:])
    if not chosen.size:
        empty = np.zeros(0, np.int64)
        return empty, empty, empty, empty, empty, empty, empty
    duration = end - start
    column = ((start - begin_ns) / width).astype(np.int64)
    is_long = duration >= width
    is_first = np.r_[True, (column[1:] != column[:-1]) | is_long[1:] | is_long[:-1]]
    first = np.flatnonzero(is_first)
    tile = np.cumsum(is_first) - 1
    longest = np.lexsort((duration, tile))[np.r_[first[1:], len(tile)] - 1]
    return (
        np.full(len(first), number),
        start[first],
        np.maximum.reduceat(end, first),
        operation[longest],
        name[longest],
        np.diff(np.r_[first, len(tile)]),
        np.add.reduceat(duration, first),
    )
