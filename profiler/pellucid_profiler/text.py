"""Formatting of durations, sizes and source lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pellucid.introspect.schema import SourceRecord
from pellucid.introspect.spans import source_record
from pellucid_profiler.sources import SourceLine

CONTEXT_LINES = 2
"""Number of source lines kept before the first and after the last line of a file that took time."""

Sources = Mapping[str, SourceRecord]
"""Source records of files and cells, by path."""


def sources_of(places: Iterable[SourceLine]) -> dict[str, SourceRecord]:
    """The source records of the files and cells that contain these lines, read now."""
    lines: dict[str, list[int]] = {}
    for place in places:
        lines.setdefault(place.file, []).append(place.line)
    return {
        file: source_record(file, (min(each) - CONTEXT_LINES, max(each) + CONTEXT_LINES))
        for file, each in lines.items()
    }


def line_text(sources: Sources, place: SourceLine | None) -> str:
    """File or cell, line number and source text of a line."""
    if place is None:
        return "(no line)"
    name = line_number_text(sources, place.file, place.line)
    return f"{name}  {code_text(sources, place)}".rstrip()


def code_text(sources: Sources, place: SourceLine) -> str:
    """Source text of a line; empty if it isn't known."""
    source = sources.get(place.file)
    lines = (source.lines if source else None) or []
    at = place.line - (source.first_line if source else 1)
    return lines[at].strip() if 0 <= at < len(lines) else ""


def line_number_text(sources: Sources, file: str, line: int) -> str:
    """File or cell and line number; empty if `file` is."""
    if not file:
        return ""
    source = sources.get(file)
    name = source_record(file, None).name if source is None else source.name
    return f"{name}, line {line}"


def count_text(count: int, noun: str, plural: str = "") -> str:
    """A count with its noun, in singular or plural.

    >>> count_text(1, "step"), count_text(2, "step")
    ('1 step', '2 steps')
    """
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"


def bytes_text(n_bytes: float) -> str:
    """A number of bytes with a suitable unit.

    >>> bytes_text(40 * 2**20)
    '40 MiB'
    """
    for factor, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if n_bytes >= factor:
            return f"{n_bytes / factor:.3g} {unit}"
    return f"{n_bytes:.0f} B"


def seconds_text(seconds: float) -> str:
    """A duration with a suitable unit.

    >>> seconds_text(0.0123)
    '12.3 ms'
    """
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1 or unit == "µs":
            return f"{seconds * factor:.3g} {unit}"
    return "0 s"


def percent_text(share: float, digits: int = 0) -> str:
    """A fraction as a percentage.

    >>> percent_text(0.53), percent_text(0.0203, 1)
    ('53 %', '2.0 %')
    """
    return f"{100 * share:.{digits}f} %"
