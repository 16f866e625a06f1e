"""Decodes XLA's recordings (serialized XSpace messages) into one table of events.

Fields (openxla/xla, tsl/profiler/protobuf/xplane.proto): XSpace planes 1, errors 2, warnings 3; XPlane name 2, lines 3, event_metadata 4,
stat_metadata 5, stats 6; XLine id 1, name 2, timestamp_ns 3, events 4; XEvent metadata_id 1, offset_ps 2, duration_ps
3, stats 4; XStat metadata_id 1, double 2, uint64 3, int64 4, str 5, bytes 6, ref 7; entries of maps key 1, value 2;
XEventMetadata and XStatMetadata id 1, name 2; XEventMetadata stats 5.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pellucid.introspect.errors import ArgumentValueError
from pellucid.introspect.protobuf import LENGTH_DELIMITED, fields, varint
from pellucid_profiler.wire import Bytes, Positions, varints

ABSENT = -1
"""Value in a column for an event that lacks the stat."""
CHUNK_EVENTS = 1 << 16
"""Number of events decoded at once, so that their arrays fit in the cache."""
IGNORED_STATS = frozenset({"_src", "_pt", "_ct"})
"""Stats left out of `Events.stats` because nothing uses them: XLA's own source files, kinds of flows."""
_EVENT_TAG = 4 << 3 | LENGTH_DELIMITED
"""Tag of XLine's field `events`."""

Column = npt.NDArray[np.int64]


class TextTable:
    """Table of strings: each distinct text gets an index."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """The index of `text`, which is added if it is new."""
        number = self._numbers.setdefault(text, len(self.texts))
        if number == len(self.texts):
            self.texts.append(text)
        return number


@dataclass(eq=False)
class Events:
    """All events of a recording in file order, column by column: entry i of each column describes event i."""

    names: list[str]
    """Texts of the recording. Columns of names and of textual stats contain indices into this list."""
    threads: list[str]
    """Names of the lines of all planes; `thread` contains indices into this list."""
    planes: list[str]
    """For each thread, the name of its plane."""
    name: Column
    thread: Column
    start_ns: Column
    """Time since the session began."""
    end_ns: Column
    stats: dict[str, Column]
    """Columns of stats by name, `ABSENT` where an event lacks the stat; texts are indices into `names`."""
    session: dict[str, Any]
    """Stats of the recording itself: `profile_start_time` and `profile_stop_time`, nanoseconds since 1970."""
    plane_stats: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    """Numeric stats of planes, by plane name."""
    doubles: dict[str, npt.NDArray[np.float64]] = field(
        default_factory=dict[str, npt.NDArray[np.float64]]
    )
    """Values of floating-point stats, by name. `stats` has them, too, as indices of their text."""
    problems: list[str] = field(default_factory=list[str])
    """Errors and warnings reported by XLA's recorders."""

    def __len__(self) -> int:
        return len(self.name)

    def stat(self, name: str) -> Column:
        """The column of a stat, all `ABSENT` if no event has it."""
        column = self.stats.get(name)
        return np.full(len(self), ABSENT) if column is None else column

    def rows(self, rows: npt.NDArray[np.bool_]) -> Events:
        """The events selected by the mask `rows` [n]."""
        return replace(
            self,
            name=self.name[rows], thread=self.thread[rows],
            start_ns=self.start_ns[rows], end_ns=self.end_ns[rows],
            stats={name: column[rows] for name, column in self.stats.items()},
            doubles={name: column[rows] for name, column in self.doubles.items()},
        )  # fmt: skip

    def texts_are(self, numbers: Column, *texts: str) -> npt.NDArray[np.bool_]:
        """Mask of `numbers`, indices into `names`, that refer to one of `texts`."""
        numbers_of_texts = [number for number, text in enumerate(self.names) if text in texts]
        return np.isin(numbers, numbers_of_texts)


def read_events(recording: bytes, reading: Callable[[float], None] | None = None) -> Events:
    """Decodes a serialized XSpace. `reading` is called with the completed fraction.

    Raises: ArgumentValueError for truncated or invalid bytes.
    """
    try:
        return _Reader(recording, reading or (lambda _: None)).read()
    except (ValueError, IndexError, UnicodeDecodeError) as error:
        raise ArgumentValueError(
            "these bytes are no whole recording of XLA (a serialized XSpace).",
            got=f"{len(recording)} bytes; {error}",
            do="Record again, or look whether the file was written to its end.",
        ) from None


def hlo_protos(recording: bytes) -> dict[int, bytes]:
    """The serialized HloProto of each program contained in a recording, by program number."""
    protos: dict[int, bytes] = {}
    for number, _, start, end in fields(recording, 0, len(recording)):
        if number != 1:
            continue
        parts = list(fields(recording, start, end))
        if not any(n == 2 and recording[at:stop] == _METADATA_PLANE for n, _, at, stop in parts):
            continue
        names = dict(_id_and_name(recording, at, stop) for n, _, at, stop in parts if n == 5)
        for n, _, at, stop in parts:
            if n != 4:
                continue
            stats = _stats_of_metadata(recording, at, stop, names)
            if "Hlo Proto" in stats and "program_id" in stats:
                protos[stats["program_id"]] = stats["Hlo Proto"]
    return protos


_METADATA_PLANE = b"/host:metadata"
_ENVIRONMENT = "Task Environment"


def _stats_of_metadata(
    message: bytes, start: int, end: int, names: dict[int, str]
) -> dict[str, Any]:
    """Stats of one entry of a plane's event metadata, by name: integers and bytes."""
    stats: dict[str, Any] = {}
    for number, _, at, stop in fields(message, start, end):
        if number != 2:
            continue
        for inner, _, begin, finish in fields(message, at, stop):
            if inner == 5:
                values = {n: (kind, a, b) for n, kind, a, b in fields(message, begin, finish)}
                name = names.get(values.pop(1, (0, 0, 0))[1], "")
                for kind, a, b in values.values():
                    stats[name] = message[a:b] if kind == LENGTH_DELIMITED else a
    return stats


def _id_and_name(message: bytes, start: int, end: int) -> tuple[int, str]:
    """Parses an entry of a plane's metadata: (id, name)."""
    key, name = 0, ""
    for number, _, at, stop in fields(message, start, end):
        if number == 1:
            key = at
        else:
            for inner, _, begin, finish in fields(message, at, stop):
                if inner == 2:
                    name = message[begin:finish].decode()
    return key, name


class _Reader:
    def __init__(self, recording: bytes, reading: Callable[[float], None]) -> None:
        self.message, self.reading = recording, reading
        self.data: Bytes = np.frombuffer(recording, np.uint8)
        self.names = TextTable()
        self.threads: list[str] = []
        self.planes: list[str] = []
        self.parts: dict[str, list[Column]] = defaultdict(list)
        self.stats: dict[str, list[tuple[Column, Column]]] = defaultdict(list)
        self.plane_stats: dict[str, dict[str, int]] = defaultdict(dict)
        self.doubles: dict[str, list[tuple[int, float]]] = defaultdict(list)
        self.count = 0

    def read(self) -> Events:
        problems: list[str] = []
        for number, _, start, end in fields(self.message, 0, len(self.message)):
            if number == 1:
                self.plane(start, end)
            elif number in (2, 3):
                problems.append(self.text(start, end))
        columns = {
            name: np.concatenate(self.parts[name]) if self.parts[name] else np.zeros(0, np.int64)
            for name in ("name", "thread", "start_ns", "end_ns")
        }
        return Events(
            names=self.names.texts,
            threads=self.threads,
            planes=self.planes,
            stats={name: self.column(pairs) for name, pairs in self.stats.items()},
            session={**self.plane_stats[_ENVIRONMENT]},
            plane_stats=self.plane_stats,
            doubles={name: self.fractions(pairs) for name, pairs in self.doubles.items()},
            problems=problems,
            **columns,
        )

    def column(self, pairs: list[tuple[Column, Column]]) -> Column:
        values = np.full(self.count, ABSENT)
        for rows, numbers in pairs:
            values[rows] = numbers
        return values

    def fractions(self, pairs: list[tuple[int, float]]) -> npt.NDArray[np.float64]:
        values = np.full(self.count, np.nan)
        rows, numbers = zip(*pairs, strict=True)
        values[list(rows)] = numbers
        return values

    def text(self, start: int, end: int) -> str:
        return self.message[start:end].decode()

    def plane(self, start: int, end: int) -> None:
        name = ""
        lines: list[tuple[int, int]] = []
        events: dict[int, int] = {}
        stats: dict[int, str] = {}
        own_stats: list[tuple[int, int]] = []
        for number, _, at, stop in fields(self.message, start, end):
            if number == 2:
                name = self.text(at, stop)
            elif number == 3:
                lines.append((at, stop))
            elif number == 4:
                key, text = _id_and_name(self.message, at, stop)
                events[key] = self.names.number(text)
            elif number == 5:
                key, text = _id_and_name(self.message, at, stop)
                stats[key] = text
            elif number == 6:
                own_stats.append((at, stop))
        for at, stop in own_stats:
            parts = {n: value for n, _, value, _ in fields(self.message, at, stop)}
            if number := parts.get(3, parts.get(4)):
                self.plane_stats[name][stats[parts[1]]] = number
        numbers_of_names = _table(events)
        refs = _table({key: self.names.number(text) for key, text in stats.items()})
        for at, stop in lines:
            self.line(name, at, stop, numbers_of_names, stats, refs)

    def line(
        self, plane: str, start: int, end: int, names: Column, stats: dict[int, str], refs: Column
    ) -> None:
        begin_ns, name = 0, ""
        message, positions = self.message, list[int]()
        i = start
        while i < end:
            # Nearly all fields are events, with a length of one or two bytes, so these are handled without `fields`.
            if message[i] == _EVENT_TAG:
                positions.append(i + 1)
                size = message[i + 1]
                if size < 128:
                    i += 2 + size
                elif message[i + 2] < 128:
                    i += 3 + (size - 128 | message[i + 2] << 7)
                else:
                    size, i = varint(message, i + 1, end)
                    i += size
                continue
            number, _, value, i = next(fields(message, i, end))
            if number == 3:
                begin_ns = value
            elif number == 2:
                name = self.text(value, i)
        if i != end:
            raise ValueError(f"a line ends at byte {i} of {end}")
        thread = len(self.threads)
        self.threads.append(name)
        self.planes.append(plane)
        lengths = np.array(positions, np.int64)
        for first in range(0, len(lengths), CHUNK_EVENTS):
            self.reading(positions[first] / len(message))
            self.events(lengths[first : first + CHUNK_EVENTS], thread, begin_ns, names, stats, refs)

    def events(
        self, lengths: Column, thread: int, begin_ns: int, names: Column, stats: dict[int, str],
        refs: Column,
    ) -> None:  # fmt: skip
        """Decodes the events of one thread together: each round decodes one field of every event."""
        n = len(lengths)
        sizes, at = varints(self.data, lengths)
        ends = at + sizes.astype(np.int64)
        # Row by field number: 1 metadata_id, 2 offset_ps, 3 duration_ps.
        numbers = np.zeros((4, n), np.int64)
        stat_bounds: list[tuple[Column, Positions, Positions]] = []
        active = np.flatnonzero(at < ends)
        while active.size:
            tags = self.data[at[active]]
            values, after = varints(self.data, at[active] + 1)
            for number in (1, 2, 3):
                rows = tags == number << 3
                numbers[number, active[rows]] = values[rows]
            rows = tags == 0x22
            size = np.where(tags & 7 == 2, values, 0).astype(np.int64)
            stat_bounds.append((active[rows], after[rows], after[rows] + size[rows]))
            at[active] = after + size
            active = active[at[active] < ends[active]]
        if (at != ends).any():
            raise ValueError("an event doesn't end where its message ends")
        start_ns = numbers[2] // 1000
        self.parts["name"].append(names[numbers[1]])
        self.parts["thread"].append(np.full(n, thread))
        self.parts["start_ns"].append(begin_ns + start_ns)
        self.parts["end_ns"].append(begin_ns + (numbers[2] + numbers[3]) // 1000)
        rows, starts, stops = (np.concatenate(parts) for parts in zip(*stat_bounds, strict=True))
        self.event_stats(rows, starts, stops, stats, refs)
        self.count += n

    def event_stats(
        self, rows: Column, starts: Positions, ends: Positions, stats: dict[int, str], refs: Column
    ) -> None:
        if not rows.size:
            return
        # The field metadata_id comes first; the value follows, unless it is the default value.
        kinds, at = varints(self.data, starts + 1)
        is_ignored = np.zeros(max(stats, default=0) + 1, bool)
        is_ignored[[key for key, name in stats.items() if name in IGNORED_STATS]] = True
        is_read = ~is_ignored[kinds]
        kinds, at, rows, ends = kinds[is_read], at[is_read], rows[is_read], ends[is_read]
        has_value = at < ends
        tags = np.where(has_value, self.data[np.minimum(at, len(self.data) - 1)], 0)
        is_varint = (tags == 3 << 3) | (tags == 4 << 3) | (tags == 7 << 3)
        values = np.zeros(len(rows), np.int64)
        numbers, _ = varints(self.data, at[is_varint] + 1)
        values[is_varint] = numbers.astype(np.int64)
        is_ref = tags == 7 << 3
        values[is_ref] = refs[values[is_ref]]
        for i in np.flatnonzero((tags == 0x2A) | (tags == 0x11)):
            _, kind, value, stop = next(fields(self.message, int(at[i]), int(ends[i])))
            if kind == LENGTH_DELIMITED:
                values[i] = self.names.number(self.text(value, stop))
                continue
            number = _double(value)
            values[i] = self.names.number(str(number))
            self.doubles[stats[int(kinds[i])]].append((int(rows[i]) + self.count, number))
        for kind in np.flatnonzero(np.bincount(kinds.astype(np.int64))):
            chosen = np.flatnonzero(kinds == kind)
            self.stats[stats[int(kind)]].append((rows[chosen] + self.count, values[chosen]))


def _double(bits: int) -> float:
    return float(np.array(bits, np.uint64).view(np.float64))


def _table(by_key: dict[int, int]) -> Column:
    """A dictionary with integer keys as an array indexed by key."""
    table = np.zeros(max(by_key, default=0) + 1, np.int64)
    for key, value in by_key.items():
        table[key] = value
    return table
