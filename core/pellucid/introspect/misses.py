"""Records of cache misses: why functions were traced or compiled again."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from pellucid._machine.base import source
from pellucid._machine.higher_order.misses import Miss, MissReason, recent

from . import schema
from .spans import source_record

_PARTS: dict[str, Any] = {
    "first call": "first_call",
    "weak type": "weak_type",
    "static": "static_argument",
    "option": "configuration",
}


def misses(n: int | None = None) -> list[schema.MissRecord]:
    """The latest `n` cache misses of jitted functions, oldest first; all recorded ones by default.

    >>> _ = pl.jit(lambda x: x + 1)(2.0)
    >>> [cause.part for cause in misses(1)[0].causes]
    ['first_call']
    """
    recorded = list(recent)
    return [miss_record(miss) for miss in (recorded if n is None else recorded[-n:] if n else [])]


def misses_since(time_ns: int) -> list[schema.MissRecord]:
    """The cache misses of jitted functions since `time_ns`, on the clock `time.monotonic_ns`, oldest first.

    >>> import time
    >>> begin = time.monotonic_ns()
    >>> _ = pl.jit(lambda x: x + 1)(2.0)
    >>> [miss.function for miss in misses_since(begin)]
    ['<lambda>']
    """
    return [miss_record(miss) for miss in list(recent) if miss.time_ns >= time_ns]


def joined_misses(misses: Sequence[Miss]) -> schema.MissRecord:
    """One record for several misses of a function: the last one, with the seconds of all added up."""
    records = [miss_record(each) for each in misses]
    seconds = sum(each.seconds for each in records)
    return dataclasses.replace(records[-1], seconds=seconds, count=len(records))


_PHASES = {None: "compile", "disk": "load", "memory": "find"}


def miss_record(miss: Miss) -> schema.MissRecord:
    """The record of one miss."""
    frame = source.user_frame(miss.source)
    record = None if frame is None else source_record(frame.file, (frame.line, frame.end_line))
    steps = (
        ("trace", miss.trace_seconds),
        ("lower", miss.lower_seconds),
        (_PHASES[miss.executable_from], miss.compile_seconds - miss.lower_seconds),
    )
    return schema.MissRecord(
        function=miss.name,
        source=record,
        line=None if frame is None else frame.line,
        cell=None if frame is None else source.cell_name(frame.file),
        entry_count=miss.entry_count,
        seconds=miss.trace_seconds + miss.compile_seconds,
        phases=[
            schema.PhaseRecord(name=name, seconds=seconds) for name, seconds in steps if seconds
        ],
        causes=[_cause(reason) for reason in miss.reasons],
    )


def _cause(reason: MissReason) -> schema.MissCauseRecord:
    return schema.MissCauseRecord(
        part=_PARTS.get(reason.kind, reason.kind),
        path=reason.path,
        before=reason.old,
        after=reason.new,
        advice=reason.advice,
    )
