"""Live arrays over a session: bytes and count, sampled periodically, and grouped by the line that created them.

Fields (google/pprof, profile.proto): Profile sample_type 1, sample 2, location 4, function 5, string_table 6; Sample
location_id 1, value 2, label 3; Label key 1, str 2; Location id 1, line 4; Line function_id 1, line 2; Function id 1,
name 2, filename 4.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pellucid.introspect import recording
from pellucid.introspect.protobuf import VARINT, fields
from pellucid_profiler.sources import SourceLine
from pellucid_profiler.wire import pack
from pellucid_profiler.xspace import Column

MIN_PERIOD_SECONDS = 0.01
"""Minimum time between two samples."""
MAX_SAMPLING_SHARE = 0.005
"""Maximum share of CPU time spent on sampling: with many arrays, samples become rarer."""

MAX_ROWS = 40
"""Maximum number of lines in a session's list of arrays by line."""


@dataclass(eq=False)
class LiveArrays:
    """Samples of the live arrays, column by column: entry i of each column describes one moment."""

    time_ns: Column
    n_bytes: Column
    """Bytes on all devices together."""
    count: Column

    @classmethod
    def none(cls) -> LiveArrays:
        """No samples."""
        return cls(*(np.zeros(0, np.int64) for _ in range(3)))

    def __len__(self) -> int:
        return len(self.time_ns)


class HeapRow(NamedTuple):
    """Arrays created by one line, at three moments of a session. Bytes are summed over devices.

    >>> HeapRow(place=None, begin_bytes=0, peak_bytes=8, end_bytes=4, end_count=1).peak_bytes
    8
    """

    place: SourceLine | None
    """The user's line that created them; None if there is none."""
    begin_bytes: int
    peak_bytes: int
    """Bytes at the sample with the most live bytes in total."""
    end_bytes: int
    end_count: int
    """Number of live buffers at the end; an array has one on each of its devices."""


class ArrayLog:
    """Background thread that samples live arrays from creation until `end`."""

    def __init__(self) -> None:
        self._begin_ns = time.monotonic_ns()
        self._samples: list[tuple[int, int, int]] = []
        self._stop = threading.Event()
        self._profiles = dict.fromkeys(("begin", "peak", "end"), b"")
        self._most = -1
        self._period = self._sample()
        self._profiles["begin"] = self._profiles["peak"]
        self._thread = threading.Thread(target=self._run, name="pellucid arrays", daemon=True)
        self._thread.start()

    def _sample(self) -> float:
        """Takes a sample, with a heap profile if it is a new peak. Returns the seconds until the next sample."""
        start = time.thread_time()
        n_bytes, count = recording.live_array_bytes()
        self._samples.append((time.monotonic_ns() - self._begin_ns, n_bytes, count))
        if n_bytes > self._most:
            self._most, self._profiles["peak"] = n_bytes, _heap_profile()
        return max(MIN_PERIOD_SECONDS, (time.thread_time() - start) / MAX_SAMPLING_SHARE)

    def _run(self) -> None:
        while not self._stop.wait(self._period):
            self._period = self._sample()

    def end(self) -> None:
        """Stops sampling, after a last sample."""
        self._stop.set()
        self._thread.join()
        self._sample()
        self._profiles["end"] = _heap_profile()

    def samples(self) -> LiveArrays:
        """The samples taken so far."""
        return LiveArrays(*np.array(self._samples, np.int64).reshape(-1, 3).T.copy())

    def rows(self) -> list[HeapRow]:
        """Arrays grouped by line, sorted by bytes at the peak, most first."""
        moments = {name: heap_by_line(profile) for name, profile in self._profiles.items()}
        places = dict.fromkeys(place for moment in moments.values() for place in moment)
        none = (0, 0)
        rows = [
            HeapRow(
                place,
                moments["begin"].get(place, none)[1],
                moments["peak"].get(place, none)[1],
                *reversed(moments["end"].get(place, none)),
            )
            for place in places
        ]
        return sorted(rows, key=lambda row: (-row.peak_bytes, -row.end_bytes))[:MAX_ROWS]


def _heap_profile() -> bytes:
    return b"".join(recording.heap_profiles())


def heap_by_line(profile: bytes) -> dict[SourceLine | None, tuple[int, int]]:
    """(count, bytes) of the live buffers in an uncompressed pprof profile, by the innermost user line of their stack."""
    texts: list[str] = []
    samples: list[tuple[int, int]] = []
    locations: dict[int, list[tuple[int, int]]] = {}
    functions: dict[int, tuple[int, int]] = {}
    for number, _, at, end in fields(profile, 0, len(profile)):
        if number == 2:
            samples.append((at, end))
        elif number == 4:
            key, lines = _location(profile, at, end)
            locations[key] = lines
        elif number == 5:
            values = {n: value for n, _, value, _ in fields(profile, at, end)}
            functions[values.get(1, 0)] = values.get(2, 0), values.get(4, 0)
        elif number == 6:
            texts.append(profile[at:end].decode(errors="replace"))
    totals: dict[SourceLine | None, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for at, end in samples:
        stack, (count, n_bytes), labels = _sample(profile, at, end)
        if ("kind", "buffer") not in {(texts[key], texts[value]) for key, value in labels}:
            continue
        lines = (line for location in stack for line in locations.get(location, ()))
        place = next(_user_places(lines, functions, texts), None)
        before = totals[place]
        totals[place] = before[0] + count, before[1] + n_bytes
    return dict(totals)


def _user_places(
    lines: Iterable[tuple[int, int]], functions: dict[int, tuple[int, int]], texts: list[str]
) -> Iterator[SourceLine]:
    for function, line in lines:
        name, file = functions.get(function, (0, 0))
        if recording.is_user_file(texts[file]):
            yield SourceLine(texts[file], line, texts[name])


def _location(message: bytes, start: int, stop: int) -> tuple[int, list[tuple[int, int]]]:
    """Parses a pprof Location: (id, [(function id, line number), …])."""
    key, lines = 0, list[tuple[int, int]]()
    for number, _, at, end in fields(message, start, stop):
        if number == 1:
            key = at
        elif number == 4:
            values = {n: value for n, _, value, _ in fields(message, at, end)}
            lines.append((values.get(1, 0), values.get(2, 0)))
    return key, lines


def _sample(
    message: bytes, start: int, stop: int
) -> tuple[list[int], tuple[int, int], list[tuple[int, int]]]:
    """Parses a pprof Sample: (location ids, (count, bytes), [(label key, label text), …])."""
    numbers: dict[int, list[int]] = {1: [], 2: []}
    labels: list[tuple[int, int]] = []
    for number, kind, at, end in fields(message, start, stop):
        if number in numbers:
            numbers[number] += [at] if kind == VARINT else pack(message, at, end)
        elif number == 3:
            values = {n: value for n, _, value, _ in fields(message, at, end)}
            labels.append((values.get(1, 0), values.get(2, 0)))
    count, n_bytes = (*numbers[2], 0, 0)[:2]
    return numbers[1], (count, n_bytes), labels


def memory_by_line() -> list[HeapRow]:
    """Arrays that are alive now, grouped by the line that created them, sorted by bytes, most first.

    >>> x = jnp.ones((1000, 1000)).block_until_ready()
    >>> sum(row.end_bytes for row in memory_by_line()) >= 4_000_000
    True
    """
    rows = [
        HeapRow(place, 0, n_bytes, n_bytes, count)
        for place, (count, n_bytes) in heap_by_line(_heap_profile()).items()
    ]
    return sorted(rows, key=lambda row: -row.end_bytes)
