"""Export to Perfetto's trace format. All event packets have one length, so that they are written column by column.

Fields (google/perfetto, protos/perfetto/trace): Trace packet 1; TracePacket timestamp 8, trusted_packet_sequence_id 10,
track_event 11, interned_data 12, sequence_flags 13, track_descriptor 60; TrackEvent type 9, name_iid 10, track_uuid 11;
InternedData event_names 2; EventName iid 1, name 2; TrackDescriptor uuid 1, name 2, parent_uuid 5.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pellucid.introspect.protobuf import message_field, number_field
from pellucid_profiler.calls import alone
from pellucid_profiler.files import write_file
from pellucid_profiler.marks import shown_name
from pellucid_profiler.session_tables import SessionTables
from pellucid_profiler.wire import put_varints
from pellucid_profiler.xspace import Column

_SEQUENCE = 1
_BEGIN, _END = 1, 2
"""Values of TrackEvent.type: start and end of a slice."""
_CLEARED, _NEEDS_NAMES = 1, 2
"""Values of TracePacket.sequence_flags: SEQ_INCREMENTAL_STATE_CLEARED, SEQ_NEEDS_INCREMENTAL_STATE."""
_TIME_WIDTH, _NAME_WIDTH, _TRACK_WIDTH = 9, 3, 3
"""Bytes of the varints in event packets, padded to a fixed width."""


def perfetto_trace(session: SessionTables) -> bytes:
    """A Perfetto trace with one track per device for operations, and one per thread for host spans.

    Operations that overlap on a device get extra tracks, because the slices of one track must nest.

    >>> with pl.profiler.profile() as recorded:
    ...     y = jnp.sin(1.0)
    >>> len(perfetto_trace(recorded.wait())) > 0
    True
    """
    shown = [shown_name(session.sources, name) for name in session.names]
    parts = [_packet(_names(shown), flags=_CLEARED)]
    for uuid, track in enumerate(tracks_of(session), 1):
        parts += [
            _track(uuid, track.name),
            _slices(uuid, track.names, track.start_ns, track.end_ns),
        ]
    return b"".join(parts)


class Track(NamedTuple):
    """Slices of one Perfetto track. Any two are either disjoint or nested."""

    name: str
    names: Column
    """Indices of the slices' names in `Session.names`."""
    start_ns: Column
    end_ns: Column


def tracks_of(session: SessionTables) -> Iterator[Track]:
    """The tracks of a session: operations by device, then host spans by thread."""
    ops, spans = session.operations, session.spans
    for device in np.unique(ops.device):
        rows = np.flatnonzero(ops.device == device)
        lanes = _lanes(ops.start_ns[rows], ops.end_ns[rows])
        for lane in range(lanes.max(initial=-1) + 1):
            name = f"device {device}" if lane == 0 else f"device {device}, beside {lane}"
            chosen = rows[lanes == lane]
            yield Track(name, ops.instruction[chosen], ops.start_ns[chosen], ops.end_ns[chosen])
    for thread in np.unique(spans.thread):
        rows = np.flatnonzero(spans.thread == thread)
        lanes = _lanes(spans.start_ns[rows], spans.end_ns[rows])
        for lane in range(lanes.max(initial=-1) + 1):
            chosen = rows[lanes == lane]
            names = spans.name[chosen], spans.start_ns[chosen], spans.end_ns[chosen]
            yield Track(session.threads[thread], *names)


def save_perfetto(session: SessionTables, path: str | os.PathLike[str]) -> None:
    """Writes `perfetto_trace(session)` to a file, which the Perfetto UI opens.

    >>> import tempfile
    >>> with pl.profiler.profile() as recorded:
    ...     y = jnp.sin(1.0)
    >>> save_perfetto(recorded.wait(), tempfile.mkstemp(suffix=".pftrace")[1])
    """
    write_file(path, perfetto_trace(session))


def _lanes(start_ns: Column, end_ns: Column) -> Column:
    """For each span, the first lane in which it nests within, or is disjoint from, the spans before it."""
    lanes = np.zeros(len(start_ns), np.int64)
    around: list[list[int]] = []  # for each lane, the end times of open spans, innermost last
    # Outer spans first: of those that begin together, the longest.
    order = np.lexsort((-end_ns, start_ns))
    crossing = order[~alone(start_ns[order], end_ns[order])]
    columns = (each.tolist() for each in (crossing, start_ns[crossing], end_ns[crossing]))
    for row, start, end in zip(*columns, strict=True):
        for ends in around:
            while ends and ends[-1] <= start:
                ends.pop()
        fitting = (i for i, ends in enumerate(around) if not ends or end <= ends[-1])
        lanes[row] = lane = next(fitting, len(around))
        if lane == len(around):
            around.append([])
        around[lane].append(end)
    return lanes


def _slices(uuid: int, names: Column, start_ns: Column, end_ns: Column) -> bytes:
    """Start and end packets of one track's slices, sorted so that Perfetto nests them correctly."""
    n = len(names)
    duration = end_ns - start_ns
    time = np.concatenate([start_ns, end_ns])
    is_end = np.repeat([False, True], n)
    # Order at equal times: ends, inner slices first; then starts, outer slices first; an empty slice starts and ends at
    # once.
    rank = np.concatenate([-duration, duration])
    empty = np.concatenate([duration == 0, duration == 0])
    order = np.lexsort((is_end & empty, rank, ~is_end | empty, time))
    names, time, is_end = np.concatenate([names, names])[order], time[order], is_end[order]
    return _events(names, time, is_end, uuid)


def _events(names: Column, time_ns: Column, is_end: npt.NDArray[np.bool_], uuid: int) -> bytes:
    event = b"\x48\x00" + b"\x50" + bytes(_NAME_WIDTH) + b"\x58" + bytes(_TRACK_WIDTH)
    packet = (
        b"\x40" + bytes(_TIME_WIDTH) + b"\x50" + bytes([_SEQUENCE]) + b"\x68" + bytes([_NEEDS_NAMES])
        + b"\x5a" + bytes([len(event)]) + event
    )  # fmt: skip
    template = b"\x0a" + bytes([len(packet)]) + packet
    rows = np.empty((len(names), len(template)), np.uint8)
    rows[:] = np.frombuffer(template, np.uint8)
    type_at = len(template) - len(event) + 1
    name_at = type_at + 2
    track_at = name_at + _NAME_WIDTH + 1
    put_varints(rows[:, 3 : 3 + _TIME_WIDTH], time_ns.astype(np.uint64))
    rows[:, type_at] = np.where(is_end, _END, _BEGIN)
    put_varints(rows[:, name_at : name_at + _NAME_WIDTH], (names + 1).astype(np.uint64))
    put_varints(rows[:, track_at : track_at + _TRACK_WIDTH], np.full(len(names), uuid, np.uint64))
    return rows.tobytes()


def _names(names: list[str]) -> bytes:
    """Field `interned_data` of a packet: the names, numbered from 1."""
    entries = [
        message_field(2, number_field(1, i + 1) + message_field(2, name.encode()))
        for i, name in enumerate(names)
    ]
    return message_field(12, b"".join(entries))


def _track(uuid: int, name: str) -> bytes:
    return _packet(message_field(60, number_field(1, uuid) + message_field(2, name.encode())))


def _packet(content: bytes, flags: int = 0) -> bytes:
    marks = number_field(13, flags) if flags else b""
    return message_field(1, content + number_field(10, _SEQUENCE) + marks)
