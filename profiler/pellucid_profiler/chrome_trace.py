"""Export to Chrome's trace event format (JSON), which the Perfetto UI and `chrome://tracing` open."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

from pellucid.introspect.recording import ProfileData


def chrome_trace(recorded: bytes) -> bytes:
    """Converts a serialized XSpace to gzipped Chrome trace JSON: planes become processes, and lines threads.

    Source: Trace Event Format of the Chromium project, times in microseconds.

    >>> chrome_trace(b"")[:2] == gzip.compress(b"")[:2]
    True
    """
    planes = ProfileData.from_serialized_xspace(recorded).planes
    events = [event for pid, plane in enumerate(planes, 1) for event in _events(pid, plane)]
    text = json.dumps({"displayTimeUnit": "ns", "traceEvents": events})
    return gzip.compress(text.encode(), mtime=0)


def _events(pid: int, plane: Any) -> Iterator[dict[str, Any]]:
    lines = [line for line in plane.lines if any(True for _ in line.events)]
    if not lines:
        return
    yield from _name_events(pid, None, "process", plane.name, pid)
    for tid, line in enumerate(lines, 1):
        yield from _name_events(pid, tid, "thread", line.name, tid)
        for event in line.events:
            args = {name: _json_value(value) for name, value in event.stats}
            yield {
                "ph": "X", "pid": pid, "tid": tid, "name": event.name,
                "ts": event.start_ns / 1000, "dur": event.duration_ns / 1000, **({"args": args} if args else {}),
            }  # fmt: skip


def _name_events(
    pid: int, tid: int | None, kind: str, name: str, position: int
) -> Iterator[dict[str, Any]]:
    """The metadata events that give a process or thread its name and its position in the list."""
    where = {"ph": "M", "pid": pid} if tid is None else {"ph": "M", "pid": pid, "tid": tid}
    yield {**where, "name": f"{kind}_name", "args": {"name": name}}
    yield {**where, "name": f"{kind}_sort_index", "args": {"sort_index": position}}


def _json_value(value: Any) -> Any:
    return value if isinstance(value, (int, float, str)) else str(value)
