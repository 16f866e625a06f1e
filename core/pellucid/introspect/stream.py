"""A stream of records of core's events, for a kernel or a file."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Generator
from typing import Any, Literal

from pellucid._machine.base import events

from .misses import miss_record
from .schema import EventRecord

Sink = Callable[[EventRecord], None]
Kind = Literal["trace", "pass", "lookup", "compilation", "transfer", "callback", "leak"]


@contextlib.contextmanager
def stream(sink: Sink, *, hits: bool = False) -> Generator[None]:
    """Pass a record of each event to `sink` until the block ends, in the thread of the event.

    Cache hits are left out unless `hits`. Staged equations have no records, because there are too many.

    >>> seen = []
    >>> with stream(seen.append):
    ...     _ = pl.jit(lambda x: x - 3)(1.0)
    >>> [record.event for record in seen if record.event in ("trace", "compilation")]
    ['trace', 'compilation']
    """
    with events.observe(_Recorder(sink, hits=hits)):
        yield


@contextlib.contextmanager
def stream_to_file(path: str, *, hits: bool = False) -> Generator[None]:
    """Append a line of JSON for each event to the file at `path` until the block ends.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     with stream_to_file(file.name):
    ...         _ = pl.jit(lambda x: x - 37)(1.0)
    ...     [event] = [json.loads(line) for line in file if b'"compilation"' in line]
    >>> event["event"], event["name"]
    ('compilation', '<lambda>')
    """
    with open(path, "a", encoding="utf-8") as file:

        def write(record: EventRecord) -> None:
            file.write(json.dumps(record.to_dict()) + "\n")
            file.flush()

        with stream(write, hits=hits):
            yield


class _Recorder(events.Observer):
    """Converts events to records."""

    def __init__(self, sink: Sink, *, hits: bool) -> None:
        self.sink = sink
        self.hits = hits

    def emit(self, kind: Kind, event: events.Event, name: str, **more: Any) -> None:
        fields: dict[str, Any] = {
            "seconds": getattr(event, "seconds", None),
            "bytes": None,
            "cache": None,
            "miss": None,
        }
        self.sink(
            EventRecord(
                event=kind,
                name=name,
                time_us=event.time_ns // 1000,
                thread=event.thread,
                **(fields | more),
            )
        )

    def trace_finished(self, event: events.TraceFinished, /) -> None:
        self.emit("trace", event, event.name)

    def pass_finished(self, event: events.PassFinished, /) -> None:
        self.emit("pass", event, event.name)

    def cache_looked(self, event: events.CacheLooked, /) -> None:
        if event.hit:
            if self.hits:
                self.emit("lookup", event, event.name, cache="hit")
            return
        self.emit("lookup", event, event.name, cache="miss", miss=miss_record(event.miss))

    def compilation_finished(self, event: events.CompilationFinished, /) -> None:
        self.emit("compilation", event, event.name, cache=event.cache)

    def transfer_finished(self, event: events.TransferFinished, /) -> None:
        self.emit("transfer", event, event.direction, bytes=event.n_bytes)

    def callback_ran(self, event: events.CallbackRan, /) -> None:
        self.emit(
            "callback", event, getattr(event.function, "__name__", type(event.function).__name__)
        )

    def tracer_leaked(self, event: events.TracerLeaked, /) -> None:
        self.emit("leak", event, event.tracer.aval.text())
